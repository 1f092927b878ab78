// Package forest draws intervals in rows: of a difference in segments, of estimators, of candidates. The page of an
// evaluation and the page of a served model draw them with it.
package forest

import (
	"math"

	"troupe/ope"
	"troupe/report/chart"
)

// Looks are the colours: of the interval that holds, of the one that leans on large n, of plain points.
var Looks = []chart.Look{chart.Blues[1], chart.Rivals[0], chart.Baseline}

// Places in Looks.
const (
	Sure = iota
	Large
	Plain
)

// Forest makes a figure of rows with two intervals each: the one that holds above, the other below.
type Forest struct {
	rows        []chart.RowLabel
	sure, large chart.Mark
	points      chart.Mark
	lo, hi      float64
}

// New returns a Forest without rows.
func New() *Forest {
	return &Forest{lo: math.Inf(1), hi: math.Inf(-1), sure: chart.Mark{Kind: chart.Across, Look: Sure,
		Name: "holds"},
		large:  chart.Mark{Kind: chart.Across, Look: Large, Name: "if n is large"},
		points: chart.Mark{Kind: chart.Across, Look: Plain, Name: "value"}}
}

// Add adds a row: value is the plain estimate, nil where it is not shown (ope.Shown). On the interval that holds its
// point stands at the nearest end where it lies outside; without a value this interval stands alone.
func (f *Forest) Add(name string, value *float64, sure, large *ope.Pair) {
	if value == nil && sure == nil {
		return
	}
	at := math.NaN() // no point
	if value == nil {
		large = nil
	} else {
		at = *value
	}
	y := float64(len(f.rows)) + 0.5
	f.rows = append(f.rows, chart.RowLabel{Look: -1, Label: name})
	put := func(m *chart.Mark, v float64, p *ope.Pair, y float64) {
		m.X, m.Y, m.Lo, m.Hi = append(m.X, v), append(m.Y, y), append(m.Lo, p[0]), append(m.Hi, p[1])
		f.lo, f.hi = min(f.lo, p[0]), max(f.hi, p[1])
		if v == v {
			f.lo, f.hi = min(f.lo, v), max(f.hi, v)
		}
	}
	if sure != nil && math.IsInf(sure[1]-sure[0], 1) {
		sure = nil // one side only: the table has it
	}
	apart := 0.13
	if sure == nil || large == nil {
		apart = 0
	}
	if sure != nil {
		put(&f.sure, min(max(at, sure[0]), sure[1]), sure, y-apart) // NaN stays NaN
	}
	if large != nil {
		put(&f.large, at, large, y+apart)
	}
	if sure == nil && large == nil && value != nil {
		put(&f.points, at, &ope.Pair{at, at}, y)
	}
}

// Note writes a word at the right of the newest row.
func (f *Forest) Note(text string) { f.rows[len(f.rows)-1].Note = text }

// Figure draws the rows, nil where there are none; zero draws the line of no difference.
func (f *Forest) Figure(id, title, how string, zero bool) *chart.Figure {
	if len(f.rows) == 0 {
		return nil
	}
	if zero {
		f.lo, f.hi = min(f.lo, 0), max(f.hi, 0)
	}
	ticks := chart.LinearTicks(f.lo, f.hi, 5)
	p := &chart.Panel{Look: -1, Rows: f.rows, Y: chart.Axis{Lo: float64(len(f.rows)), Hi: 0},
		X: chart.Axis{Lo: ticks[0].At, Hi: ticks[len(ticks)-1].At, Ticks: ticks, Caption: "reward of a decision"}}
	for _, m := range []chart.Mark{f.sure, f.large, f.points} {
		if len(m.X) > 0 {
			p.Marks = append(p.Marks, m)
		}
	}
	if zero {
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.ZeroX, Look: -1, X: []float64{0}})
	}
	return &chart.Figure{ID: id, Title: title, How: how, Panels: []*chart.Panel{p}, Strips: true}
}

// Segments is the difference in each segment, the whole first.
func Segments(s *ope.Segments) *chart.Figure {
	f := New()
	for i := range s.Rows {
		x := &s.Rows[i]
		f.Add(x.Name, x.Value, x.Sequence, nil)
	}
	return f.Figure("segments", "For whom", "The difference in each segment by "+s.Path()+
		"; all bars hold together, at every look.", true)
}
