package report

import (
	"fmt"
	"slices"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/report/headline"
)

// sweepWorth is the number of values from which on a swept number is the finding of a run.
const sweepWorth = 5

// finding is what a run says about a swept number.
type finding struct {
	kind, path    string
	b, lo, hi     float64 // exponent of the regret with its interval
	first, last   float64 // values of the sweep
	lowest        float64 // the value with the lowest mean regret
	from, to      float64 // values that cannot be told apart from it
	region, clear bool    // from and to are known; the interval leaves out 0
}

// finding returns what the run says about the only swept number that most of its policies differ in; nil when
// there is none, or too few replications.
func (sw swept) finding() *finding {
	if sw.a.Fit.draws == nil || sw.a.R() < minReps || sw.a.Estimand != infer.Mean { // its curve is of means
		return nil
	}
	row := func(i int) (kind string, swept []string) {
		p := sw.a.Run.Manifest.Policies[sw.a.Policies[i]]
		return p.Kind, p.Swept
	}
	kinds, items, paths := kindsOf(len(sw.a.Policies), func(i int) string { k, _ := row(i); return k },
		func(i int) []string { _, s := row(i); return s })
	for _, kind := range kinds {
		if len(paths[kind]) != 1 || 2*len(items[kind]) <= len(sw.a.Policies) {
			continue
		}
		all := sweepOf(paths[kind][0], paths[kind], items[kind],
			func(i int) map[string]any { return sw.a.Run.Manifest.Policies[sw.a.Policies[i]].Options })
		if len(all) != 1 {
			return nil
		}
		points := numbers(all[0])
		n := len(points)
		if n < sweepWorth || points[n-1].x < 4*points[0].x {
			return nil
		}
		f := &finding{kind: kind, path: paths[kind][0], first: points[0].x, last: points[n-1].x}
		var x []float64
		var y [][]float64
		low := points[0]
		for _, p := range points {
			x, y = append(x, p.x), append(y, sw.a.X[p.who][len(sw.a.Rounds)-1])
			if sw.a.Summary[p.who].Mean < sw.a.Summary[low.who].Mean {
				low = p
			}
		}
		var ok bool
		if f.b, f.lo, f.hi, ok = sw.a.Fit.draws.Exponent(x, y, level); !ok {
			return nil
		}
		f.clear, f.lowest = f.lo > 0 || f.hi < 0, low.x
		if low.who == sw.a.Best() {
			f.region, f.from, f.to = true, low.x, low.x
			for _, p := range points {
				if sw.a.Pairs.Diff[p.who].Verdict == Tied {
					f.from, f.to = min(f.from, p.x), max(f.to, p.x)
				}
			}
		}
		return f
	}
	return nil
}

// exponent writes 0.31 [0.28, 0.34].
func (f *finding) exponent() string {
	return fmt.Sprintf("%s [%s, %s]", chart.Number(f.b, 2), chart.Number(f.lo, 2), chart.Number(f.hi, 2))
}

// curve is the finding as values of a headline.
func (f *finding) curve() *headline.Curve {
	c := &headline.Curve{Policy: f.kind, Option: f.path, First: valueLabel(f.first), Last: valueLabel(f.last), Region: f.region,
		Lo: f.lo, Hi: f.hi}
	if f.region {
		c.From, c.To = valueLabel(f.from), valueLabel(f.to)
	}
	return c
}

// exponentSaid says the exponent and where the lowest means are.
func (f *finding) exponentSaid() Prose {
	text := "Exponent of the regret in " + f.path + ": " + f.exponent() + " over " + valueLabel(f.first) + " to " + valueLabel(f.last) +
		"; the lowest mean is at " + f.path + " = " + valueLabel(f.lowest)
	if f.region && f.from < f.to {
		text += ", and " + valueLabel(f.from) + " to " + valueLabel(f.to) + " are too close to call"
	}
	return say(text + ".")
}

// named lists the policies whose curves have labels where there are more than maxEnds: the rivals first, by their
// place in the ranking, then the ends of the larger families and its best settings.
func (pa painter) named() []int {
	if len(pa.a.Policies) <= maxEnds {
		return pa.a.Order
	}
	kind := func(i int) string { return pa.a.Run.Manifest.Policies[pa.a.Policies[i]].Kind }
	size := map[string]int{}
	for i := range pa.a.Policies {
		size[kind(i)]++
	}
	var rivals, family []int
	for _, i := range pa.a.Order {
		if size[kind(i)] <= 3 {
			rivals = append(rivals, i)
		} else {
			family = append(family, i)
		}
	}
	out := rivals[:min(len(rivals), maxEnds-2)]
	if n := len(family); n > 0 {
		out = append(slices.Clone(out), family[n-1]) // the worst
		out = append(out, family[:min(n-1, maxEnds-len(out))]...)
	}
	return out
}

// unlabelled says how many curves have no label.
func (pa painter) unlabelled() string {
	if n := len(pa.a.Policies) - len(pa.named()); n > 0 {
		return fmt.Sprintf(" %s without a label.", many(n, "curve"))
	}
	return ""
}

// farOut is the multiple of the median policy's regret from which on a curve may leave the plot.
const farOut = 3

// linearTop is the end of the linear axis: all curves fit, but those that end at farOut times the median
// policy or higher, as long as they are no more than a third.
func linearTop(tops []float64) float64 {
	sorted := slices.Sorted(slices.Values(tops))
	n := len(sorted)
	limit := farOut * sorted[(n-1)/2]
	keep := n
	for keep > n-n/3 && sorted[keep-1] >= limit {
		keep--
	}
	return sorted[keep-1]
}
