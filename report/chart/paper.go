package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/font"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figures for papers: canvases of gonum/plot with the numbers, ticks and looks of the page, Liberation Sans,
// light ground. What a panel draws is the same list of marks that html.go paints. Package plot itself, with its
// axes, is not imported: it brings twelve fonts, 4 MB, into the program, and the axes are the panel's own.

// Size is a format of the exported figures. A figure is drawn with letters of 8 points and then
// scaled, so letters, strokes and dots keep their proportions.
type Size struct {
	Name          string
	Doc           string
	width, height vg.Length // of a figure with one panel, before scaling
	scale         float64   // letters are 8·scale points high
	cols          int       // small multiples side by side, at most
}

// Sizes are the formats that figures come in; the first is always written.
var Sizes = []Size{
	{"text", "5.5 × 3.2 in, letters of 8 points: the text width of most templates", 5.5 * vg.Inch, 3.2 * vg.Inch, 1, 4},
	{"column", "3.3 × 2.3 in, letters of 7 points: one column of two", 3.3 / 0.875 * vg.Inch, 2.3 / 0.875 * vg.Inch,
		0.875, 2},
	{"slide", "10 × 5.6 in, letters of 14.5 points: a slide", 5.5 * vg.Inch, 5.6 * 0.55 * vg.Inch, 1 / 0.55, 4},
}

const paperFont = vg.Length(8)

// painter draws figures in the looks of one run.
type painter struct {
	looks []Look
	text  plottext.Handler
	size  Size
	blank bool // the canvas is white already
}

func (p *painter) style(size vg.Length, c color.Color, x plottext.XAlignment, y plottext.YAlignment) draw.TextStyle {
	return draw.TextStyle{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign: x, YAlign: y, Handler: p.text}
}

// ink, soft, grid in the light mode.
func ink() color.Color  { return rgba(InkColor[0]) }
func soft() color.Color { return rgba(SoftColor[0]) }

// of returns the colour of a look, soft ink for none.
func (p *painter) of(i int) color.Color {
	if i < 0 {
		return soft()
	}
	return rgba(p.looks[i].Light)
}

// tint mixes a look's colour with white. A translucent fill comes out grey in vgpdf, which takes
// premultiplied components and sets the alpha as well; and the bands are drawn before all lines.
func (p *painter) tint(i int, share float64) color.Color {
	return rgba(mix("#ffffff", p.looks[i].Light, share))
}

func (p *painter) line(i int, width vg.Length) draw.LineStyle {
	s := draw.LineStyle{Color: p.of(i), Width: width}
	if i >= 0 {
		for _, d := range p.looks[i].Dash {
			s.Dashes = append(s.Dashes, vg.Length(d)*0.7)
		}
	}
	return s
}

// area is where a panel's marks go: axis places 0…1 become lengths.
type area struct {
	draw.Canvas
	p *Panel
}

func (a area) x(v float64) vg.Length {
	return a.Min.X + vg.Length(min(max(a.p.X.At(v), -20), 20))*(a.Max.X-a.Min.X)
}
func (a area) y(v float64) vg.Length {
	return a.Min.Y + vg.Length(min(max(a.p.Y.At(v), -20), 20))*(a.Max.Y-a.Min.Y)
}

func (a area) points(x, y []float64) []vg.Point {
	pts := make([]vg.Point, len(x))
	for k := range x {
		pts[k] = vg.Point{X: a.x(x[k]), Y: a.y(y[k])}
	}
	return pts
}

func (a area) lines(s draw.LineStyle, pts []vg.Point) {
	a.StrokeLines(s, a.ClipLinesXY(pts)...)
}

// marks draws a panel's marks in c: areas first, then everything else.
func (p *painter) marks(q *Panel, c draw.Canvas) {
	a := area{c, q}
	grid := draw.LineStyle{Color: rgba(LineColor[0]), Width: 0.5}
	if len(q.Rows) > 0 {
		for _, t := range q.X.Ticks {
			c.StrokeLine2(grid, a.x(t.At), c.Min.Y, a.x(t.At), c.Max.Y)
		}
	} else {
		for _, t := range q.Y.Ticks {
			if !t.Minor {
				c.StrokeLine2(grid, c.Min.X, a.y(t.At), c.Max.X, a.y(t.At))
			}
		}
	}
	for _, m := range q.Marks {
		if m.Kind == Band {
			x, y := slices.Clone(m.X), slices.Clone(m.Lo)
			for k := range slices.Backward(m.X) {
				x, y = append(x, m.X[k]), append(y, m.Hi[k])
			}
			c.FillPolygon(p.tint(m.Look, 0.18), c.ClipPolygonXY(a.points(x, y)))
		}
	}
	for _, m := range q.Marks {
		p.mark(a, m)
	}
	if q.Y.Broken {
		x, y := c.Min.X, c.Min.Y
		c.StrokeLines(draw.LineStyle{Color: soft(), Width: 0.7}, []vg.Point{{X: x, Y: y}, {X: x, Y: y + 3},
			{X: x + 2, Y: y + 4.5}, {X: x - 2, Y: y + 7.5}, {X: x + 2, Y: y + 10.5}, {X: x, Y: y + 12},
			{X: x, Y: y + 15}})
	}
	// Captions stand at the ends of the axes.
	c.FillText(p.style(paperFont-0.5, soft(), draw.XRight, draw.YTop), vg.Point{X: c.Max.X, Y: c.Min.Y - 14},
		q.X.Caption)
	if q.Y.Caption != "" {
		c.FillText(p.style(paperFont-0.5, soft(), draw.XLeft, draw.YBottom), vg.Point{X: c.Min.X, Y: c.Max.Y + 7},
			q.Y.caption())
	}
	// Labels at the right end of curves, at least 8.5 points apart.
	for _, e := range q.spreadEnds(8.5 / float64(c.Max.Y-c.Min.Y)) {
		label := endText(e)
		s := p.style(paperFont, p.endColor(e.Look), draw.XLeft, -0.35)
		c.FillText(s, vg.Point{X: c.Max.X + 5, Y: c.Max.Y - vg.Length(e.Y)*(c.Max.Y-c.Min.Y)}, label)
	}
	for i, r := range q.Rows {
		y := c.Max.Y - vg.Length((float64(i)+0.5)/float64(len(q.Rows)))*(c.Max.Y-c.Min.Y)
		c.FillText(p.style(paperFont, ink(), draw.XRight, -0.35), vg.Point{X: c.Min.X - 6, Y: y},
			Shorten(r.Label, pageName))
		if r.Note != "" {
			c.FillText(p.style(paperFont, soft(), draw.XLeft, -0.35), vg.Point{X: c.Max.X + 6, Y: y}, r.Note)
		}
	}
}

// endText is an end label in one piece; what leaves the chart has its value in brackets.
func endText(e End) string {
	label := Shorten(e.Label, pageName)
	if e.Above {
		return label + " (" + e.Note + ")"
	}
	return strings.TrimSpace(label + " " + e.Note)
}

// endColor darkens a look for letters.
func (p *painter) endColor(i int) color.Color {
	if i < 0 {
		return soft()
	}
	return rgba(mix(p.looks[i].Light, InkColor[0], 0.32))
}

func (p *painter) mark(a area, m Mark) {
	dot := func(x, y vg.Length, r vg.Length, c color.Color) {
		if x >= a.Min.X-1 && x <= a.Max.X+1 && y >= a.Min.Y-1 && y <= a.Max.Y+1 {
			a.DrawGlyph(draw.GlyphStyle{Color: c, Radius: r, Shape: draw.CircleGlyph{}}, vg.Point{X: x, Y: y})
		}
	}
	whisker := draw.LineStyle{Color: p.of(m.Look), Width: 1}
	switch m.Kind {
	case Line:
		a.lines(p.line(m.Look, 1.1), a.points(m.X, m.Y))
	case Step:
		var pts []vg.Point
		for k := range m.X {
			x, y := a.x(m.X[k]), a.y(m.Y[k])
			if k > 0 {
				pts = append(pts, vg.Point{X: x, Y: pts[len(pts)-1].Y})
			}
			pts = append(pts, vg.Point{X: x, Y: y})
		}
		a.lines(p.line(m.Look, 1), pts)
	case Guide:
		a.lines(draw.LineStyle{Color: soft(), Width: 0.5, Dashes: []vg.Length{1, 2}}, a.points(m.X, m.Y))
	case Fit:
		a.lines(draw.LineStyle{Color: ink(), Width: 0.6, Dashes: []vg.Length{0.8, 1.6}}, a.points(m.X, m.Y))
	case BoundLine: // shown on the page on demand; a paper asks for it by its own numbers
	case Dots:
		for k := range m.X {
			dot(a.x(m.X[k]), a.y(m.Y[k]), 0.8, p.tint(m.Look, 0.5))
		}
	case Interval:
		for k := range m.X {
			x := a.x(m.X[k]) + vg.Length(m.Aside)*(a.Max.X-a.Min.X)
			a.lines(whisker, []vg.Point{{X: x, Y: a.y(m.Lo[k])}, {X: x, Y: a.y(m.Hi[k])}})
			dot(x, a.y(m.Y[k]), 2, p.of(m.Look))
		}
	case Across:
		for k := range m.X {
			a.lines(whisker, []vg.Point{{X: a.x(m.Lo[k]), Y: a.y(m.Y[k])}, {X: a.x(m.Hi[k]), Y: a.y(m.Y[k])}})
			if m.X[k] == m.X[k] {
				dot(a.x(m.X[k]), a.y(m.Y[k]), 2, p.of(m.Look))
			}
		}
	case Box:
		y := a.y(m.Y[0])
		a.StrokeLine2(draw.LineStyle{Color: p.of(m.Look), Width: 0.8}, a.x(m.X[0]), y, a.x(m.X[4]), y)
		a.StrokeLine2(draw.LineStyle{Color: p.tint(m.Look, 0.55), Width: 5}, a.x(m.X[1]), y, a.x(m.X[3]), y)
		a.StrokeLine2(draw.LineStyle{Color: ink(), Width: 1.2}, a.x(m.X[2]), y-3.6, a.x(m.X[2]), y+3.6)
		dot(a.x(m.X[5]), y, 2.4, color.White)
		dot(a.x(m.X[5]), y, 1.8, p.of(m.Look))
	case Bar:
		a.StrokeLine2(draw.LineStyle{Color: p.of(m.Look), Width: 5}, a.Min.X, a.y(m.Y[0]), a.x(m.X[0]), a.y(m.Y[0]))
	case Zero:
		a.StrokeLine2(draw.LineStyle{Color: soft(), Width: 0.7}, a.Min.X, a.y(m.Y[0]), a.Max.X, a.y(m.Y[0]))
	case ZeroX:
		a.StrokeLine2(draw.LineStyle{Color: soft(), Width: 0.7}, a.x(m.X[0]), a.Min.Y, a.x(m.X[0]), a.Max.Y)
	}
}

// panel paints a panel: its title, the labels of its ticks, and its marks in what they leave. The panel's
// own axes place marks and ticks, so page and paper cannot differ.
func (p *painter) panel(q *Panel, c draw.Canvas) {
	if q.Title != "" {
		title := Shorten(q.Title, pageName)
		s := p.style(paperFont, p.endColor(q.Look), draw.XCenter, draw.YTop)
		c.FillText(s, vg.Point{X: c.Center().X, Y: c.Max.Y + s.FontExtents().Descent}, title)
		c.Max.Y -= s.Height(title) + 3
	}
	labels := func(a Axis, all bool) (out []Tick) {
		for _, t := range a.Ticks {
			if (all || !t.Minor) && t.Label != "" {
				out = append(out, Tick{At: a.At(t.At), Label: t.Label})
			}
		}
		return out
	}
	below, beside := labels(q.X, len(q.X.Ticks) <= 8), labels(q.Y, true)
	if len(q.Rows) > 0 {
		beside = nil // the rows' names stand there
	}
	sx := p.style(paperFont-0.5, soft(), draw.XCenter, draw.YTop)
	sy := p.style(paperFont-0.5, soft(), draw.XRight, draw.YCenter)
	var height, width vg.Length // of the labels
	for _, t := range below {
		height = max(height, sx.Height(t.Label))
	}
	for _, t := range beside {
		width = max(width, sy.Width(t.Label))
	}
	x, y, foot := c.Min.X+width, c.Min.Y+height, c.Min.Y
	c.Min.X, c.Min.Y = x+2, y+2
	if width > 0 {
		c.Min.X += 3
	}
	// The ends of the axes move until every label is within the canvas.
	c.Max.X = fitted(c.Min.X, c.Max.X, below, func(s string) vg.Length { return sx.Rectangle(s).Max.X })
	e := sy.FontExtents()
	c.Max.Y = fitted(c.Min.Y, c.Max.Y, beside, func(s string) vg.Length {
		return sy.Rectangle(s).Max.Y +
			e.Height - e.Ascent
	})
	for _, t := range below {
		if at := c.X(t.At); c.ContainsX(at) {
			c.FillText(sx, vg.Point{X: at, Y: foot + height + sx.FontExtents().Descent}, t.Label)
		}
	}
	for _, t := range beside {
		if at := c.Y(t.At); c.ContainsY(at) {
			c.FillText(sy, vg.Point{X: x, Y: at + e.Descent}, t.Label)
		}
	}
	p.marks(q, c)
}

// fitted returns the end of an axis from lo at which the label that sticks out most beyond hi ends there.
func fitted(lo, hi vg.Length, labels []Tick, beyond func(string) vg.Length) vg.Length {
	end, most := hi, hi
	for _, t := range labels {
		b := beyond(t.Label)
		if to := vg.Length(t.At)*(hi-lo) + lo + b; to > most && t.At <= 1 {
			end, most = lo+(hi-b-lo)/vg.Length(t.At), to
		}
	}
	return end
}

// width returns the width of a text in the figure's letters.
func (p *painter) width(s string) vg.Length {
	return p.style(paperFont, ink(), draw.XLeft, draw.YTop).Width(s)
}

// of returns the height of a figure before scaling.
func (z Size) of(f *Figure) vg.Length {
	switch n := len(f.Panels); {
	case f.Strips:
		row := vg.Length(24)
		if !slices.ContainsFunc(f.Panels[0].Marks, func(m Mark) bool { return m.Kind == Box }) {
			row = 15
		}
		return row*vg.Length(len(f.Panels[0].Rows)) + 40
	case n > 1:
		cols := min(columns(n), z.cols)
		return vg.Length((n+cols-1)/cols)*1.4*vg.Inch + 14
	case f.Low:
		return z.height * 2.6 / 3.2
	}
	return z.height
}

// unscaled is a canvas in the units of a Size before scaling.
type unscaled struct {
	vg.Canvas
	w, h vg.Length
}

func (c unscaled) Size() (w, h vg.Length) { return c.w, c.h }

// extent returns the width and height of a figure as it is written.
func (p *painter) extent(f *Figure) (w, h vg.Length) {
	return p.size.width * vg.Length(p.size.scale), p.size.of(f) * vg.Length(p.size.scale)
}

func whiten(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
}

// draw paints a figure on a canvas of its extent.
func (p *painter) draw(f *Figure, c vg.CanvasSizer) {
	c.Scale(p.size.scale, p.size.scale)
	dc := draw.New(unscaled{c, p.size.width, p.size.of(f)})
	if !p.blank {
		whiten(dc)
	}
	if len(f.Panels) > 1 {
		if f.Legend != nil {
			x := dc.Min.X + 4
			for _, l := range f.Legend {
				t := l.Label
				dc.FillText(p.style(paperFont, p.endColor(l.Look), draw.XLeft, draw.YTop),
					vg.Point{X: x, Y: dc.Max.Y - 3}, t)
				x += p.width(t) + 12
			}
			dc = draw.Crop(dc, 0, 0, 0, -13)
		}
		cols := min(columns(len(f.Panels)), p.size.cols)
		rows := (len(f.Panels) + cols - 1) / cols
		tiles := draw.Tiles{Rows: rows, Cols: cols, PadX: 10, PadY: 14, PadLeft: 2, PadRight: 12, PadTop: 4,
			PadBottom: 14}
		for i, q := range f.Panels {
			r := *q
			r.Title = Shorten(r.Title, 22)
			r.Y.Caption = ""
			if i+cols < len(f.Panels) {
				r.X.Caption = ""
			}
			tile := tiles.At(dc, i%cols, i/cols)
			whiten(tile) // of what sticks out of others
			p.panel(&r, tile)
		}
		return
	}
	q := f.Panels[0]
	right, left, top := vg.Length(10), vg.Length(2), vg.Length(4)
	if q.Y.Caption != "" {
		top = 18
	}
	for _, e := range q.Ends {
		right = max(right, p.width(endText(e))+8)
	}
	for _, r := range q.Rows {
		left = max(left, p.width(Shorten(r.Label, pageName))+8)
		right = max(right, p.width(r.Note)+10)
	}
	p.panel(q, draw.Crop(dc, left, -right, 14, -top))
}

// pdfMutex guards the defaults of package fpdf, which are global.
var pdfMutex sync.Mutex

func (p *painter) pdf(f *Figure, at time.Time, w io.Writer) error {
	pdfMutex.Lock()
	defer pdfMutex.Unlock()
	// Without these the file carries the wall clock, and its bytes differ from run to run.
	fpdf.SetDefaultCreationDate(at)
	fpdf.SetDefaultModificationDate(at)
	fpdf.SetDefaultCatalogSort(true)
	c := newPDFCanvas(p.extent(f))
	p.draw(f, c)
	_, err := c.WriteTo(w)
	return err
}

func (p *painter) svg(f *Figure, w io.Writer) error {
	c := vgsvg.New(p.extent(f))
	p.draw(f, c)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	// Arial and Helvetica have the widths of Liberation Sans, for readers that do not have it.
	out := b.String()
	for _, t := range typefaces {
		first, _, _ := strings.Cut(t.family, ",")
		if t == typefaces[2] {
			first = "Droid Sans Fallback"
		}
		out = strings.ReplaceAll(out, "font-family:"+first+";", "font-family:"+t.family+";")
	}
	_, err := io.WriteString(w, out)
	return err
}

// pgf writes commands of PGF; LaTeX sets the letters.
func (p *painter) pgf(f *Figure, w io.Writer) error {
	c := newTexCanvas(p.extent(f))
	q := *p
	q.text = letters{tex: c}
	q.draw(f, c)
	_, err := c.WriteTo(w)
	return err
}

func (p *painter) png(f *Figure, w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(p.extent(f)), vgimg.UseDPI(200), vgimg.UseBackgroundColor(color.White))
	q := *p
	q.blank = true
	q.draw(f, c)
	// Four per cent larger than the smallest file, in two thirds of the time.
	return (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(w, c.Image())
}

// WriteFigures writes every figure as SVG, PDF, PNG and PGF, and with csv its numbers.
func WriteFigures(dir string, figures []*Figure, looks []Look, at time.Time, size Size, csv bool) ([]string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	type output struct {
		f     *Figure
		end   string
		write func(io.Writer) error
		err   error
	}
	var files []output
	for _, f := range figures {
		files = append(files,
			output{f: f, end: ".svg", write: func(w io.Writer) error { return f.WriteSVG(w, looks, size) }},
			output{f: f, end: ".pdf", write: func(w io.Writer) error { return f.WritePDF(w, looks, size, at) }},
			output{f: f, end: ".png", write: func(w io.Writer) error { return f.WritePNG(w, looks, size) }},
			output{f: f, end: ".pgf", write: func(w io.Writer) error { return f.WritePGF(w, looks, size) }})
		if csv {
			files = append(files, output{f: f, end: ".csv", write: f.Table().CSV})
		}
	}
	// A picture of many dots takes as long as all others: every processor takes the next file.
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				out := &files[i]
				var b bytes.Buffer
				if out.err = out.write(&b); out.err != nil {
					out.err = fmt.Errorf("figure %s%s: %w", out.f.ID, out.end, out.err)
					continue
				}
				out.err = WriteFile(filepath.Join(dir, out.f.ID+out.end), b.Bytes())
			}
		})
	}
	wg.Wait()
	var paths []string
	for _, out := range files {
		if out.err != nil {
			return paths, out.err
		}
		paths = append(paths, filepath.Join(dir, out.f.ID+out.end))
	}
	return paths, nil
}

func newPainter(looks []Look, size Size) *painter {
	return &painter{looks: looks, text: letters{}, size: size}
}

// WriteSVG writes the figure as SVG for a paper. A mark wears looks[Look].
func (f *Figure) WriteSVG(w io.Writer, looks []Look, size Size) error {
	return newPainter(looks, size).svg(f, w)
}

// WritePDF writes the figure as PDF; at is the time that the file carries.
func (f *Figure) WritePDF(w io.Writer, looks []Look, size Size, at time.Time) error {
	return newPainter(looks, size).pdf(f, at, w)
}

// WritePGF writes the figure in commands of PGF, for a LaTeX document with the package pgf.
func (f *Figure) WritePGF(w io.Writer, looks []Look, size Size) error {
	return newPainter(looks, size).pgf(f, w)
}

// WritePNG writes the figure as PNG with 200 dots an inch.
func (f *Figure) WritePNG(w io.Writer, looks []Look, size Size) error {
	return newPainter(looks, size).png(f, w)
}

// preview is the size of the picture that a link shows: 1,200 by 630 dots.
var preview = Size{"preview", "1200 × 630 dots", 6 / 1.4 * vg.Inch, 3.15 / 1.4 * vg.Inch, 1.4, 4}

// WritePreview writes a figure of one panel as PNG of 1,200 by 630 dots, for the preview of a link.
func (f *Figure) WritePreview(w io.Writer, looks []Look) error {
	one := *f
	one.Low, one.Strips = false, false // as high as the picture
	one.Panels = f.Panels[:1]
	return newPainter(looks, preview).png(&one, w)
}

// WriteFile writes a file so that readers see the old or the new content, never half of it.
func WriteFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	if _, err := tmp.Write(data); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
