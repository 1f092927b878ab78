package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/report/chart"
)

// powers returns, by the identifier of its figure in sweepFigures, the table of exponents of a swept
// positive number c: regret grows like c^b, and b is the least squares slope of log mean regret on
// log c. Its interval comes from resampling replications, the same ones for every c, and refitting, so
// common random numbers count. A sweep over fewer than three values, or less than a factor of four,
// has no table.
//
// Rows: each series, after T/10 rounds where that is a checkpoint and after T; over all values, and
// over the upper half of their range on the log scale, because a dependence that levels off has no
// single exponent.
func (sw swept) powers(id string) map[string]*chart.Table {
	if sw.a.Fit.draws == nil {
		return nil
	}
	pol := func(i int) map[string]any { return sw.a.Run.Manifest.Policies[sw.a.Policies[i]].Options }
	kinds, items, paths := kindsOf(len(sw.a.Policies),
		func(i int) string { return sw.a.Run.Manifest.Policies[sw.a.Policies[i]].Kind },
		func(i int) []string { return sw.a.Run.Manifest.Policies[sw.a.Policies[i]].Swept })
	checkpoints := []int{len(sw.a.Rounds) - 1}
	if k := slices.Index(sw.a.Rounds, sw.a.T/10); k >= 0 && sw.a.T%10 == 0 {
		checkpoints = []int{k, len(sw.a.Rounds) - 1}
	}
	out := map[string]*chart.Table{}
	for _, kind := range kinds {
		for _, path := range paths[kind] {
			t := &chart.Table{ID: id + "powers-" + slug(kind+"-"+path),
				Title: fmt.Sprintf("Exponent of %s: %s", path, sw.a.Name),
				Cols: []chart.Column{{Key: "series", Head: "Series", Text: true}, {Key: "round", Head: "After t"},
					{Key: "from", Head: "From " + path}, {Key: "to", Head: "To"},
					{Key: "exponent", Head: "Exponent", Dec: 3},
					{Key: "lo", Head: "95%", Dec: 3}, {Key: "hi", Head: "", Dec: 3, Range: true}},
				Note: fmt.Sprintf("Slope of log mean regret on log %s; 95%% by resampling replications, the same "+
					"ones for every %s, and refitting.", path, path)}
			for _, s := range sweepOf(path, paths[kind], items[kind], pol) {
				label := sw.seriesName(s, kind)
				points := numbers(s)
				if len(points) < 3 || points[len(points)-1].x < 4*points[0].x {
					continue
				}
				half := math.Sqrt(points[0].x * points[len(points)-1].x)
				upper := slices.IndexFunc(points, func(p powerPoint) bool { return p.x >= half })
				for _, k := range checkpoints {
					for _, from := range []int{0, upper} {
						window := points[from:]
						if len(window) < 3 {
							continue
						}
						var x []float64
						var y [][]float64
						for _, p := range window {
							x, y = append(x, p.x), append(y, sw.a.X[p.who][k])
						}
						row := chart.Row{Look: -1, Cells: []chart.Cell{chart.TextCell(label),
							chart.Num(float64(sw.a.Rounds[k])), chart.Num(x[0]), chart.Num(x[len(x)-1]), chart.Empty(),
							chart.Empty(), chart.Empty()}}
						if b, lo, hi, ok := sw.a.Fit.draws.Exponent(x, y, level); ok {
							row.Cells[4], row.Cells[5], row.Cells[6] = chart.Num(b), chart.Num(lo), chart.Num(hi)
						}
						t.Rows = append(t.Rows, row)
					}
				}
			}
			if len(t.Rows) > 0 {
				out[id+"sweep-"+slug(kind+"-"+path)] = t
			}
		}
	}
	return out
}

type powerPoint struct {
	x   float64
	who int
}

// numbers returns the settings of a series by increasing value, nil unless all are positive numbers.
func numbers(s series) []powerPoint {
	var out []powerPoint
	for _, v := range s.settings {
		x, ok := v.value.(float64)
		if !ok || !(x > 0) {
			return nil
		}
		out = append(out, powerPoint{x, v.who})
	}
	slices.SortFunc(out, func(p, q powerPoint) int { return cmp.Compare(p.x, q.x) })
	return out
}

// seriesName is what a series is called: the name that the spec gives all its members, before the
// parentheses of the sweep, or else the options that set it apart.
func (sw swept) seriesName(s series, kind string) string {
	base := func(i int) string {
		name, _, _ := strings.Cut(sw.a.Label(s.settings[i].who), "(") // sim writes the options of a sweep behind it
		return name
	}
	for i := range s.settings {
		if base(i) != base(0) {
			return cmp.Or(s.label, kind)
		}
	}
	if base(0) == kind {
		return cmp.Or(s.label, kind)
	}
	return base(0)
}

// paragraphs splits a text at its blank lines; other line ends are spaces.
func paragraphs(text string) []string {
	var out []string
	for _, p := range strings.Split(text, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			out = append(out, p)
		}
	}
	return out
}
