package report

import (
	"bytes"
	"embed"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"troupe/internal/decimal"
	"troupe/ope"
	"troupe/report/chart"
	"troupe/report/forest"
)

//go:embed page/knobs.html page/segments.html
var knobsFile embed.FS

var knobsTemplate = parsed(knobsFile, "knobs.html", "segments.html")

// knobsView is one target on the page of an evaluation of numbers as actions.
type knobsView struct {
	ID, Name, Verdict string
	Rows              []knobsRow
	Notes             []string
	Figures           []evaluateFigure
	Segments          *evaluateSegments
}

type knobsRow struct{ Bandwidth, Value, Sure, Difference, Uplift, IPW, ESS, Weights string }

// BuildKnobs writes the page of an evaluation of numbers as actions to dir/evaluate.html, and its figures to
// dir/figures. It returns the path of the page.
func BuildKnobs(dir string, r *ope.KnobResult, meta EvaluateMeta) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := WriteKnobs(&b, r, meta); err != nil {
		return "", err
	}
	var all []*chart.Figure
	for i := range r.Targets {
		all = append(all, knobFigures(r, i)...)
	}
	if _, err := chart.WriteFigures(filepath.Join(dir, "figures"), all, forest.Looks, time.Time{}, chart.Sizes[0],
		true); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "evaluate.html")
	return path, chart.WriteFile(path, b.Bytes())
}

// WriteKnobs writes the page.
func WriteKnobs(w io.Writer, r *ope.KnobResult, meta EvaluateMeta) error {
	view := struct {
		shell
		Head, Level, Kernel, Command string
		Facts                        []string
		Targets                      []knobsView
		Several                      bool
	}{shell: newShell("evaluation", forest.Looks, 0, 0), Command: meta.Command, Kernel: r.Kernel,
		Level: fmt.Sprintf("%g", math.Round(1e4*r.Level)/100)}
	view.When = meta.When
	view.Facts = []string{chart.Count(r.Events) + " decisions", "numbers as actions", rewardsText(r.Rewards),
		"what ran earned " + digits(r.Logged), r.Kernel + " kernel"}
	if r.Unit > 0 {
		view.Facts = append(view.Facts, fmt.Sprintf("the first %d fixed the bandwidths and are not counted", r.Unit))
	}
	for i := range r.Targets {
		view.Targets = append(view.Targets, knobView(r, i))
		view.Several = view.Several || len(r.Targets[i].Bandwidths) > 1
	}
	view.Head = fmt.Sprintf("%d targets against what ran", len(r.Targets))
	if t := &r.Targets[0]; len(r.Targets) == 1 {
		view.Head = fmt.Sprintf("%s%s: %s.", t.Name, smoothedBy(t), t.Verdict)
	}
	return knobsTemplate().Execute(w, view)
}

// smoothedBy says by how much the verdict's target is smoothed.
func smoothedBy(t *ope.KnobTarget) string {
	if t.Chosen == nil {
		return ""
	}
	if t.Bandwidths[*t.Chosen].Cell {
		return ", in the cell of its number"
	}
	return ", smoothed by " + digits(t.Bandwidths[*t.Chosen].Bandwidth)
}

// digits prints a number with four digits.
func digits(v float64) string { return decimal.Short(v, 4) }

// shownDigits prints a point, a dash where there is none.
func shownDigits(v *float64) string {
	if v == nil {
		return "–"
	}
	return digits(*v)
}

func digitPair(p ope.Pair) string { return digits(p[0]) + " … " + digits(p[1]) }

func knobView(r *ope.KnobResult, i int) knobsView {
	t := &r.Targets[i]
	v := knobsView{ID: fmt.Sprintf("target-%d", i+1), Name: t.Name + smoothedBy(t), Verdict: t.Verdict + "."}
	outside := false
	for k := range t.Bandwidths {
		b := &t.Bandwidths[k]
		named := digits(b.Bandwidth)
		if b.Cell {
			named = "cell"
		}
		row := knobsRow{named, shownDigits(b.Value), digitPair(b.Sequence), shownDigits(b.Difference),
			digitPair(b.Uplift), shownDigits(b.IPW), chart.Number(b.ESS, 0), digits(b.WeightMean)}
		if t.Chosen != nil && *t.Chosen == k {
			row.Bandwidth = "◆ " + row.Bandwidth
		}
		if b.Outside {
			row.IPW, outside = row.IPW+"*", true
		}
		v.Rows = append(v.Rows, row)
	}
	if outside {
		v.Notes = append(v.Notes, "* outside of the interval that holds: a few heavy weights make it, to which the sequence "+
			"gives little credit")
	}
	if w := ope.KnobDoubt(t); w != "" {
		v.Notes = append(v.Notes, w)
	}
	v.Segments = segmentsView(t.Segments, r.Level, segmentDecimals(t.Segments))
	for _, f := range knobFigures(r, i) {
		v.Figures = append(v.Figures, evaluateFigure{f.Title, f.How, f.HTML()})
	}
	return v
}

// segmentDecimals is how many decimals tell the narrowest interval apart.
func segmentDecimals(s *ope.Segments) int {
	least := 1.0
	if s != nil {
		for _, x := range s.Rows {
			if p := x.Sequence; p != nil && p[1] > p[0] {
				least = min(least, p[1]-p[0])
			}
		}
	}
	return max(0, min(9, 1-int(math.Floor(math.Log10(least)))))
}

// knobFigures are the difference and the value by bandwidth, and the difference by segment.
func knobFigures(r *ope.KnobResult, i int) []*chart.Figure {
	t, out := &r.Targets[i], []*chart.Figure(nil)
	values, differences := forest.New(), forest.New()
	for k := range t.Bandwidths {
		b := &t.Bandwidths[k]
		name := "smoothed by " + digits(b.Bandwidth)
		if b.Cell {
			name = "in the cell of its number"
		}
		if t.Chosen != nil && *t.Chosen == k {
			name = "◆ " + name
		}
		differences.Add(name, b.Difference, &b.Uplift, nil)
		values.Add(name, b.Value, &b.Sequence, nil)
	}
	if t.Segments != nil {
		out = append(out, forest.Segments(t.Segments))
	}
	out = append(out, differences.Figure("difference", "The difference by bandwidth",
		"What the smoothed target would have earned above what ran. All bars hold together, at every look.", true),
		values.Figure("values", "The value by bandwidth", "What the smoothed target would have earned. All bars hold "+
			"together, at every look. A narrower bandwidth is nearer to the target itself, and less sure.", false))
	for _, f := range out {
		f.ID = prefixOf(i) + f.ID
	}
	return out
}
