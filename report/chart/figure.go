package chart

import (
	"math"
	"slices"
)

// Figure is one figure of the report: numbers and words, no medium. html.go and paper.go paint it.
type Figure struct {
	ID     string // file name without ending, unique in the run
	Title  string // names the quantity
	How    string // one line on how to read it
	Panels []*Panel
	Low    bool       // less tall: few points
	Legend []RowLabel // for small multiples without labels of their own
	Strips bool       // panels are rows of a category, drawn as wide as the page
}

// Panel is one coordinate system.
type Panel struct {
	Title string // of a small multiple; "" otherwise
	Note  string // small print beside the title
	Look  int    // whose colour the title wears, −1 for none
	X, Y  Axis
	Rows  []RowLabel // names of the categories on Y, from the top; Y runs from len(Rows) to 0
	Marks []Mark
	Ends  []End // labels at the right end of curves
	Data  string
}

// Axis maps values to [0, 1]: 0 at Lo, 1 at Hi. Lo may be above Hi.
type Axis struct {
	Caption string
	Log     bool
	Lo, Hi  float64
	Ticks   []Tick
	Broken  bool // begins above 0: the figure says so
}

// caption is the axis' name, and where it begins if not at 0.
func (a Axis) caption() string {
	if !a.Broken || len(a.Ticks) == 0 {
		return a.Caption
	}
	return a.Caption + ", axis from " + a.Ticks[0].Label
}

// At returns the place of v on the axis; on a log axis what is not positive lies far below.
func (a Axis) At(v float64) float64 {
	if a.Log {
		if v <= 0 {
			return -50
		}
		return min(max(math.Log(v/a.Lo)/math.Log(a.Hi/a.Lo), -50), 50)
	}
	return min(max((v-a.Lo)/(a.Hi-a.Lo), -50), 50)
}

// RowLabel names a category.
type RowLabel struct {
	Look  int
	Label string
	Note  string
}

// End is a label at the right end of a curve.
type End struct {
	Look  int // −1 for a guide
	Y     float64
	Label string
	Note  string
	Above bool // Y is above the axis, and Note is its value
}

// note is the small print of a label, with an arrow where the curve leaves the chart.
func (e *End) note() string {
	if e.Above {
		return "↑ " + e.Note
	}
	return e.Note
}

// Kind says how a mark is drawn.
type Kind int

const (
	Line      Kind = iota // X, Y
	Step                  // X, Y: horizontal first, then vertical
	Band                  // X, Lo, Hi: the 95 % interval as an area
	Edges                 // X, Lo, Hi: 10 and 90 % of runs as dotted lines
	Dots                  // X, Y: one small dot each
	Interval              // X, Y with a vertical whisker Lo … Hi
	Across                // X, Y with a horizontal whisker Lo … Hi; an X that is NaN has no dot
	Box                   // X = 5, 25, 50, 75, 95 % and mean; Y one value
	Bar                   // X one value, from the axis' start; Y one value
	Guide                 // X, Y: thin, dotted, in soft ink
	Fit                   // X, Y: thin, dotted, in the policy's colour
	BoundLine             // X, Y: a theorem's bound, shown on demand
	Zero                  // Y[0]: a stronger horizontal line
	ZeroX                 // X[0]: a stronger vertical line
)

// Mark is one thing drawn in a panel.
type Mark struct {
	Kind   Kind
	Look   int    // index of the look, −1 for ink
	Name   string // of the series, for the CSV file
	X, Y   []float64
	Lo, Hi []float64
	Aside  float64 // Interval: how far to the right of X it is drawn, a share of the panel's width
}

// Within drops the ticks outside lo … hi.
func Within(ticks []Tick, lo, hi float64) []Tick {
	return slices.DeleteFunc(ticks, func(t Tick) bool { return t.At < lo-1e-9*math.Abs(hi) || t.At > hi*(1+1e-9) })
}

// Table returns the figure's numbers in long form for its CSV file.
func (f *Figure) Table() *Table {
	t := &Table{ID: f.ID, Title: f.Title, Note: f.How, Cols: []Column{
		{Key: "panel", Text: true}, {Key: "mark", Text: true}, {Key: "series", Text: true},
		{Key: "x"}, {Key: "y"}, {Key: "lo"}, {Key: "hi"},
	}}
	at := func(v []float64, k int) Cell {
		if k < len(v) && v[k] == v[k] {
			return Num(v[k])
		}
		return Empty()
	}
	for _, p := range f.Panels {
		for _, m := range p.Marks {
			n := max(len(m.X), len(m.Y))
			for k := range n {
				c := []Cell{TextCell(p.Title), TextCell(m.Kind.String()), TextCell(m.Name), at(m.X, k), at(m.Y, k),
					at(m.Lo, k), at(m.Hi, k)}
				if m.Kind == Box {
					c[1], c[4] = TextCell([]string{"p05", "p25", "median", "p75", "p95", "mean"}[k]), Empty()
				}
				if len(p.Rows) > 0 { // the place within a row is decoration
					c[4] = Empty()
				}
				t.Rows = append(t.Rows, Row{Look: -1, Cells: c})
			}
		}
	}
	return t
}

// String returns the kind's name in CSV files.
func (k Kind) String() string {
	return [...]string{Line: "line", Step: "step", Band: "interval", Edges: "p10-p90", Dots: "replication",
		Interval: "point",
		Across:   "point", Box: "box", Bar: "bar", Guide: "guide", Fit: "fit", BoundLine: "bound", Zero: "zero",
		ZeroX: "zero"}[k]
}
