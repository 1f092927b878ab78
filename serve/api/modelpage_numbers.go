package api

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/serve"
)

// numberPage is what the page says of a number that decisions play: how often each tenth of its range was played, and what the
// decisions there earned.
type numberPage struct {
	Name, Low, Middle, High string
	Histogram               histogram
	Rows                    []numberRow
	Sentence                string
	Curves                  []foretoldCurve
}

// numberRow is a tenth of the range.
type numberRow struct{ Range, Count, Share, Mean string }

// atEnd is the share of the decisions at one end of a range from which the range may be too narrow.
const atEnd = .2

// numbersOf returns a page for each number of a model.
func numbersOf(h *modelHistory, m *serve.Model, t *terms) (out []numberPage) {
	for i := range m.Config.Numbers {
		r := &m.Config.Numbers[i]
		var counts, valued [10]int
		var sums [10]float64
		var ends [2]int
		n := 0
		for _, d := range h.decisions {
			at := slices.IndexFunc(d.numbers, func(x played) bool { return x.name == r.Name })
			if at < 0 || !d.policy() {
				continue
			}
			v := d.numbers[at].value
			bin := min(9, int(10*r.Place(v)))
			counts[bin], n = counts[bin]+1, n+1
			if r.Place(d.numbers[at].low) < 1./32 {
				ends[0]++
			}
			if r.Place(d.numbers[at].high) > 31./32 {
				ends[1]++
			}
			if y, final := h.value(d, t); final {
				valued[bin], sums[bin] = valued[bin]+1, sums[bin]+y
			}
		}
		if n == 0 {
			continue
		}
		p := numberPage{Name: r.Name, Low: short(r.Min), High: short(r.Max), Middle: short(valueAt(r, .5)), Histogram: histogram{N: grouped(uint64(n))}}
		most := slices.Max(counts[:])
		var words []string
		for k, c := range counts {
			tall := math.Round(1000*float64(c)/float64(most)) / 10
			between := fmt.Sprintf("%s to %s", short(valueAt(r, float64(k)/10)), short(valueAt(r, float64(k+1)/10)))
			p.Histogram.Bars = append(p.Histogram.Bars, histogramBar{float64(60*k + 3), 100 - tall, tall, fmt.Sprintf("%s: %d", between, c)})
			row := numberRow{Range: between, Count: grouped(uint64(c)), Share: percent(c, n), Mean: "–"}
			if valued[k] > 0 {
				row.Mean = short(sums[k] / float64(valued[k]))
			}
			if p.Rows = append(p.Rows, row); c > 0 {
				words = append(words, fmt.Sprintf("%s: %d", between, c))
			}
		}
		p.Histogram.Label = fmt.Sprintf("Decisions by %s. %s.", r.Name, strings.Join(words, "; "))
		p.Sentence = endsText(r, ends, n)
		out = append(out, p)
	}
	return out
}

// endsText says where decisions lie at an end of a range, so that a wider one may be better.
func endsText(r *serve.NumberRange, ends [2]int, n int) string {
	if r.Cyclic || n < someDecisions {
		return ""
	}
	for i, c := range ends {
		if share := float64(c) / float64(n); share > atEnd {
			return fmt.Sprintf("%s%% of %s decisions played the %s end of the range, %s: a better number may lie beyond it. Widen the range: make a "+
				"model with a %s.", percent(c, n), grouped(uint64(n)), [2]string{"lower", "upper"}[i], short([2]float64{r.Min, r.Max}[i]),
				[2]string{"smaller min", "larger max"}[i])
		}
	}
	return ""
}
