package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A figure in the page is a box. One stretched SVG in it (viewBox 0 0 1000 1000, no aspect ratio,
// strokes that do not scale) carries the marks; every word is an HTML span placed in per cent. So
// the figure fits every width, letters never scale, and nothing is measured by script.

const (
	pageName    = 28  // longest name on the page, in letters
	tallFigure  = 440 // pixels
	lowFigure   = 330
	smallFigure = 200
	stripRow    = 44
	denseRow    = 34 // from 17 policies on
	growthRow   = 34
)

// look is the CSS class of look i.
func ClassOf(i int) string {
	if i < 0 {
		return ""
	}
	return "p" + strconv.Itoa(i)
}

// Coord writes a place in the 1000 by 1000 box with one decimal at most.
func Coord(v float64) string {
	r := math.Round(v*10) / 10
	if r == 0 {
		return "0" // never −0
	}
	return strconv.FormatFloat(r, 'f', -1, 64)
}

func whole(v float64) string { return strconv.Itoa(int(math.Round(v))) }

// PercentOf writes a share as a CSS percentage.
func PercentOf(f float64) string {
	return strconv.FormatFloat(math.Round(f*1e4)/1e2, 'f', -1, 64) + "%"
}

type svg struct {
	b strings.Builder
	p *Panel
}

func (s *svg) x(v float64) float64 { return 1000 * s.p.X.At(v) }
func (s *svg) y(v float64) float64 { return 1000 * (1 - s.p.Y.At(v)) }

func (s *svg) path(class string, look_ int, d string) {
	if l := ClassOf(look_); l != "" {
		class += " " + l
	}
	fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`, class, d)
}

// polyline writes M x y x y …, one decimal.
func (s *svg) polyline(x, y []float64) string {
	var b strings.Builder
	for k := range x {
		if k == 0 {
			b.WriteByte('M')
		} else {
			b.WriteByte(' ')
		}
		b.WriteString(Coord(s.x(x[k])) + " " + Coord(s.y(y[k])))
	}
	return b.String()
}

func (s *svg) mark(m Mark) {
	switch m.Kind {
	case Line:
		s.path("line", m.Look, s.polyline(m.X, m.Y))
	case Guide:
		s.path("guide", m.Look, s.polyline(m.X, m.Y))
	case Fit:
		s.path("fit", m.Look, s.polyline(m.X, m.Y))
	case BoundLine:
		s.path("bound", m.Look, s.polyline(m.X, m.Y))
	case Band:
		x := slices.Clone(m.X)
		slices.Reverse(x)
		hi := slices.Clone(m.Hi)
		slices.Reverse(hi)
		s.path("band", m.Look, s.polyline(append(slices.Clone(m.X), x...), append(slices.Clone(m.Lo), hi...))+"Z")
	case Edges:
		s.path("edge", m.Look, s.polyline(m.X, m.Lo)+s.polyline(m.X, m.Hi))
	case Step:
		var b strings.Builder
		px, py := s.x(m.X[0]), s.y(m.Y[0])
		fmt.Fprintf(&b, "M%s %s", whole(px), whole(py))
		for k := 1; k < len(m.X); k++ {
			x, y := s.x(m.X[k]), s.y(m.Y[k])
			if whole(x) != whole(px) {
				b.WriteString("H" + whole(x))
			}
			if whole(y) != whole(py) {
				b.WriteString("V" + whole(y))
			}
			px, py = x, y
		}
		s.path("line", m.Look, b.String())
	case Dots:
		var b strings.Builder
		for k := range m.X {
			fmt.Fprintf(&b, "M%s %sh0", whole(s.x(m.X[k])), whole(s.y(m.Y[k])))
		}
		s.path("dots", m.Look, b.String())
	case Interval:
		var w, d strings.Builder
		for k := range m.X {
			x := Coord(s.x(m.X[k]) + 1000*m.Aside)
			fmt.Fprintf(&w, "M%s %sV%s", x, Coord(s.y(m.Lo[k])), Coord(s.y(m.Hi[k])))
			fmt.Fprintf(&d, "M%s %sh0", x, Coord(s.y(m.Y[k])))
		}
		s.path("whisk", m.Look, w.String())
		s.path("pt", m.Look, d.String())
	case Across:
		for k := range m.X {
			y := Coord(s.y(m.Y[k]))
			s.path("whisk", m.Look, fmt.Sprintf("M%s %sH%s", Coord(s.x(m.Lo[k])), y, Coord(s.x(m.Hi[k]))))
			if m.X[k] == m.X[k] {
				s.path("pt", m.Look, fmt.Sprintf("M%s %sh0", Coord(s.x(m.X[k])), y))
			}
		}
	case Box:
		y := s.y(m.Y[0])
		x := func(k int) string { return Coord(s.x(m.X[k])) }
		h := 0.16 * math.Abs(s.y(1)-s.y(0))
		s.path("range", m.Look, fmt.Sprintf("M%s %sH%s", x(0), Coord(y), x(4)))
		s.path("box", m.Look, fmt.Sprintf("M%s %sH%s", x(1), Coord(y), x(3)))
		s.path("med", m.Look, fmt.Sprintf("M%s %sV%s", x(2), Coord(y-h), Coord(y+h)))
		s.path("halo", m.Look, fmt.Sprintf("M%s %sh0", x(5), Coord(y)))
		s.path("pt", m.Look, fmt.Sprintf("M%s %sh0", x(5), Coord(y)))
	case Bar:
		s.path("meter", m.Look, fmt.Sprintf("M0 %sH%s", Coord(s.y(m.Y[0])), Coord(s.x(m.X[0]))))
	case Zero:
		s.path("zero", -1, fmt.Sprintf("M0 %sH1000", Coord(s.y(m.Y[0]))))
	case ZeroX:
		s.path("zero", -1, fmt.Sprintf("M%s 0V1000", Coord(s.x(m.X[0]))))
	}
}

// html paints a panel, h pixels high.
func (p *Panel) html(h int, extra string) template.HTML {
	var b strings.Builder
	class, style := p.room(h)
	fmt.Fprintf(&b, `<div class="%s" style="%s"%s>%s`, class, style, extra, p.drawn())
	p.words(&b)
	p.ends(&b, h)
	b.WriteString("</div>")
	return template.HTML(b.String()) // numbers are ours, every word went through HTMLEscapeString
}

// drawn is the picture without words.
func (p *Panel) drawn() string {
	s := &svg{p: p}
	s.b.WriteString(`<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">`)
	var grid strings.Builder
	if len(p.Rows) > 0 {
		for _, t := range p.X.Ticks {
			fmt.Fprintf(&grid, "M%s 0V1000", Coord(s.x(t.At)))
		}
	} else {
		for _, t := range p.Y.Ticks {
			if !t.Minor {
				fmt.Fprintf(&grid, "M0 %sH1000", Coord(s.y(t.At)))
			}
		}
	}
	if grid.Len() > 0 {
		s.path("grid", -1, grid.String())
	}
	if p.Y.Broken {
		s.path("zero", -1, "M0 1000V975L5 967L-5 951L5 935L0 927V910")
	}
	for _, m := range p.Marks { // areas first, then lines
		if m.Kind == Band {
			s.mark(m)
		}
	}
	for _, m := range p.Marks {
		if m.Kind != Band {
			s.mark(m)
		}
	}
	s.b.WriteString("</svg>")
	return s.b.String()
}

// room returns the class of the panel and how much room its words need beside the picture.
func (p *Panel) room(h int) (class, style string) {
	class, style = "plot", fmt.Sprintf("--h:%dpx", h)
	if len(p.Rows) > 0 {
		class += " rows"
		n := 0
		for _, r := range p.Rows {
			n = max(n, utf8.RuneCountInString(Shorten(r.Label, pageName)))
		}
		style += fmt.Sprintf(";--l:%.1fch", 1.1*float64(n)+1)
		note := 0
		for _, r := range p.Rows {
			note = max(note, utf8.RuneCountInString(r.Note))
		}
		style += fmt.Sprintf(";--r:%.1fch;--n:%d", 0.95*float64(note)+1.5, len(p.Rows))
	} else if n := endWidth(p.Ends); n > 0 {
		style += fmt.Sprintf(";--r:%.1fch", 1.1*float64(n)+1.5)
	}
	return class, style
}

// words writes the words of the axes and rows, and the names of bounds.
func (p *Panel) words(b *strings.Builder) {
	if p.Y.Caption != "" {
		fmt.Fprintf(b, `<span class="ycap">%s</span>`, template.HTMLEscapeString(p.Y.caption()))
	}
	for _, t := range p.Y.Ticks {
		fmt.Fprintf(b, `<span class="ty%s" style="top:%s">%s</span>`, minor(t), PercentOf(1-p.Y.At(t.At)),
			template.HTMLEscapeString(t.Label))
	}
	for _, t := range p.X.Ticks {
		fmt.Fprintf(b, `<span class="tx%s" style="left:%s">%s</span>`, minor(t), PercentOf(p.X.At(t.At)),
			template.HTMLEscapeString(t.Label))
	}
	if p.X.Caption != "" {
		fmt.Fprintf(b, `<span class="xcap">%s</span>`, template.HTMLEscapeString(p.X.Caption))
	}
	for i, r := range p.Rows {
		top := PercentOf((float64(i) + 0.5) / float64(len(p.Rows)))
		fmt.Fprintf(b, `<span class="lab %s" style="top:%s"%s>%s</span>`, ClassOf(r.Look), top, full(r.Label),
			template.HTMLEscapeString(Shorten(r.Label, pageName)))
		if r.Note != "" {
			fmt.Fprintf(b, `<span class="rnote" style="top:%s">%s</span>`, top, template.HTMLEscapeString(r.Note))
		}
	}
	for _, m := range p.Marks {
		if m.Kind != BoundLine {
			continue
		}
		for k := len(m.Y) - 1; k >= 0; k-- { // its name where it leaves the chart
			if y := p.Y.At(m.Y[k]); y <= 0.97 {
				fmt.Fprintf(b, `<span class="bname" style="left:%s;top:%s">%s</span>`, PercentOf(p.X.At(m.X[k])),
					PercentOf(1-y), template.HTMLEscapeString(m.Name))
				break
			}
		}
	}
}

// ends writes the labels at the ends of the lines.
func (p *Panel) ends(b *strings.Builder, h int) {
	for _, e := range p.spreadEnds(20 / float64(h)) {
		note := ""
		if text := e.note(); text != "" {
			note = " <small>" + template.HTMLEscapeString(text) + "</small>"
		}
		data := ""
		if e.Look >= 0 {
			data = fmt.Sprintf(` data-p="%d"`, e.Look)
		}
		fmt.Fprintf(b, `<span class="end %s" style="top:%s"%s%s>%s%s</span>`, ClassOf(e.Look), PercentOf(e.Y), data,
			full(e.Label),
			template.HTMLEscapeString(Shorten(e.Label, pageName)), note)
	}
}

// full is a title attribute for a name that was cut.
func full(s string) string {
	if Shorten(s, pageName) == s {
		return ""
	}
	return ` title="` + template.HTMLEscapeString(s) + `"`
}

func minor(t Tick) string {
	if t.Minor {
		return " minor"
	}
	return ""
}

// endWidth is the room in letters that the end labels need; notes are smaller.
func endWidth(ends []End) int {
	n := 0
	for _, e := range ends {
		w := utf8.RuneCountInString(Shorten(e.Label, pageName))
		if note := e.note(); note != "" {
			w += 1 + utf8.RuneCountInString(note)*9/10
		}
		n = max(n, w)
	}
	return n
}

// spreadEnds returns the labels with Y as a share of the height from the top, at least gap apart.
func (p *Panel) spreadEnds(gap float64) []End {
	ends := slices.Clone(p.Ends)
	for i := range ends {
		ends[i].Y = min(max(1-p.Y.At(ends[i].Y), 0.01), 0.99)
	}
	slices.SortStableFunc(ends, func(x, y End) int { return cmp.Compare(x.Y, y.Y) })
	y := make([]float64, len(ends))
	for i := range ends {
		y[i] = ends[i].Y
	}
	spread(y, gap, 0.01, 0.99)
	for i := range ends {
		ends[i].Y = y[i]
	}
	return ends
}

// spread moves increasing places apart until neighbours are at least gap from each other, as little
// as possible in least squares, and keeps them in [lo, hi] while there is room. It pools adjacent
// violators: y_i − i·gap must not decrease.
func spread(y []float64, gap, lo, hi float64) {
	type pool struct {
		sum float64
		n   int
	}
	var pools []pool
	for i, v := range y {
		pools = append(pools, pool{v - float64(i)*gap, 1})
		for k := len(pools) - 1; k > 0 && pools[k].sum/float64(pools[k].n) < pools[k-1].sum/float64(pools[k-1].n); k-- {
			pools[k-1].sum += pools[k].sum
			pools[k-1].n += pools[k].n
			pools = pools[:k]
		}
	}
	i := 0
	for _, p := range pools {
		for range p.n {
			y[i] = p.sum/float64(p.n) + float64(i)*gap
			i++
		}
	}
	for i := len(y) - 1; i >= 0; i-- {
		y[i] = min(y[i], hi-float64(len(y)-1-i)*gap)
	}
	for i := range y {
		y[i] = max(y[i], lo+float64(i)*gap)
	}
}

// HTML paints the whole figure without its title.
func (f *Figure) HTML() template.HTML {
	switch {
	case f == nil:
		return ""
	case f.Strips:
		p := f.Panels[0]
		row := stripRow
		if !slices.ContainsFunc(p.Marks, func(m Mark) bool { return m.Kind == Box }) {
			row = growthRow
		} else if len(p.Rows) > 16 {
			row = denseRow
		}
		return p.html(row*len(p.Rows), "")
	case len(f.Panels) > 1 || f.Panels[0].Title != "":
		var b strings.Builder
		if f.Legend != nil {
			b.WriteString(`<p class="legend">`)
			for _, l := range f.Legend {
				fmt.Fprintf(&b, `<span class="%s"><i class="sw"></i>%s</span>`, ClassOf(l.Look),
					template.HTMLEscapeString(l.Label))
			}
			b.WriteString("</p>")
		}
		fmt.Fprintf(&b, `<div class="multi" style="--cols:%d">`, columns(len(f.Panels)))
		for _, p := range f.Panels {
			note := ""
			if p.Note != "" {
				note = " <small>" + template.HTMLEscapeString(p.Note) + "</small>"
			}
			sw := ""
			if p.Look >= 0 {
				sw = `<i class="sw"></i>`
			}
			fmt.Fprintf(&b, `<figure class="%s"><figcaption>%s%s%s</figcaption>`, ClassOf(p.Look), sw,
				template.HTMLEscapeString(p.Title), note)
			q := *p
			q.Y.Caption, q.X.Caption = "", ""
			b.WriteString(string(q.html(smallFigure, "")) + "</figure>")
		}
		fmt.Fprintf(&b, `</div><p class="xnote">%s</p>`, template.HTMLEscapeString(f.Panels[0].X.Caption))
		return template.HTML(b.String())
	}
	h := tallFigure
	if f.Low {
		h = lowFigure
	}
	return f.Panels[0].html(h, "")
}

// columns returns how many small multiples stand side by side: up to four, with no lonely one in the
// last row.
func columns(n int) int {
	if n == 5 || n == 6 || n == 9 {
		return 3
	}
	return min(n, 4)
}

// Estimate is a number with its interval; OK is false where there is none.
type Estimate struct {
	Mean, Lo, Hi float64
	OK           bool
}

// ForestCell draws one row of a column of differences; lowest is the row that the others are compared
// with.
func ForestCell(ax Axis, d Estimate, look int, lowest bool) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg viewBox="0 0 1000 100" preserveAspectRatio="none" aria-hidden="true">`)
	x := func(v float64) string { return Coord(1000 * ax.At(v)) }
	var grid string
	for _, t := range ax.Ticks {
		if t.At != 0 {
			grid += "M" + x(t.At) + " 0V100"
		}
	}
	fmt.Fprintf(&b, `<path class="grid" d="%s"/><path class="zero" d="M%s 0V100"/>`, grid, x(0))
	c := ClassOf(look)
	switch {
	case lowest:
		fmt.Fprintf(&b, `<path class="pt %s" d="M%s 50h0"/>`, c, x(0))
	case d.Mean > ax.Hi || (d.OK && d.Lo > ax.Hi):
		fmt.Fprintf(&b, `<path class="off %s" d="M905 50H996M962 36L996 50 962 64"/>`, c)
	default:
		if d.OK {
			lo, hi := max(d.Lo, ax.Lo), min(d.Hi, ax.Hi)
			fmt.Fprintf(&b, `<path class="whisk %s" d="M%s 50H%s"/>`, c, x(lo), x(hi))
			if d.Hi > ax.Hi {
				fmt.Fprintf(&b, `<path class="off %s" d="M962 36L996 50 962 64"/>`, c)
			}
		}
		fmt.Fprintf(&b, `<path class="pt %s" d="M%s 50h0"/>`, c, x(d.Mean))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers and classes of ours only
}

// Thumbnail paints the curves of the first panel small, without words: for a card. looks are those of the marks.
func (f *Figure) Thumbnail(looks []Look) template.HTML {
	s := &svg{p: f.Panels[0]}
	s.b.WriteString(`<svg class="thumb" viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true"><path class="base" d="M0 998H1000"/>`)
	for _, m := range s.p.Marks {
		if m.Kind != Line || m.Look < 0 || m.Look >= len(looks) {
			continue
		}
		l := looks[m.Look]
		dash := ""
		if l.Dash != nil {
			var d []string
			for _, v := range l.Dash {
				d = append(d, Coord(v))
			}
			dash = ";stroke-dasharray:" + strings.Join(d, " ")
		}
		fmt.Fprintf(&s.b, `<path class="line" style="--c:light-dark(%s,%s)%s" d="%s"/>`, l.Light, l.Dark, dash, s.polyline(m.X, m.Y))
	}
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String()) // numbers and colours are ours
}
