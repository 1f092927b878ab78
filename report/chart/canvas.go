package chart

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/font"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Two canvases for gonum/plot. vgpdf writes text in the code page of Windows alone, and vgtex writes
// numbers that TeX does not read (1e-05pt) and no size of the picture.

// curves returns a path whose arcs are cubic curves, for canvases without arcs.
func curves(p vg.Path) vg.Path {
	out := make(vg.Path, 0, len(p))
	for i, c := range p {
		if c.Type != vg.ArcComp {
			out = append(out, c)
			continue
		}
		n := max(1, int(math.Ceil(math.Abs(c.Angle)/(math.Pi/2)-1e-9)))
		step := c.Angle / float64(n)
		k := c.Radius * vg.Length(4.0/3*math.Tan(step/4))
		at := func(a float64) (p, d vg.Point) {
			sin, cos := math.Sincos(a)
			return vg.Point{X: c.Pos.X + c.Radius*vg.Length(cos), Y: c.Pos.Y + c.Radius*vg.Length(sin)},
				vg.Point{X: -vg.Length(sin), Y: vg.Length(cos)}
		}
		from, d := at(c.Start)
		kind := vg.LineComp
		if i == 0 {
			kind = vg.MoveComp
		}
		out = append(out, vg.PathComp{Type: kind, Pos: from})
		for s := range n {
			to, e := at(c.Start + float64(s+1)*step)
			out = append(out, vg.PathComp{Type: vg.CurveComp, Pos: to,
				Control: []vg.Point{from.Add(d.Scale(k)), to.Sub(e.Scale(k))}})
			from, d = to, e
		}
	}
	return out
}

// control returns the control points of a cubic curve from a place.
func control(from vg.Point, c vg.PathComp) (a, b vg.Point) {
	if len(c.Control) == 2 {
		return c.Control[0], c.Control[1]
	}
	q := c.Control[0]
	return from.Add(q.Sub(from).Scale(2.0 / 3)), c.Pos.Add(q.Sub(c.Pos).Scale(2.0 / 3))
}

// pdfCanvas draws on a page of fpdf, with y upwards. Fonts are embedded with the letters that the
// figure shows.
type pdfCanvas struct {
	doc   *fpdf.Fpdf
	w, h  vg.Length
	width []vg.Length // of lines, by depth of Push
	fonts map[string]bool
}

func newPDFCanvas(w, h vg.Length) *pdfCanvas {
	c := &pdfCanvas{w: w, h: h, width: []vg.Length{0}, fonts: map[string]bool{},
		doc: fpdf.NewCustom(&fpdf.InitType{UnitStr: "pt", Size: fpdf.SizeType{Wd: float64(w), Ht: float64(h)}})}
	c.doc.SetMargins(0, 0, 0)
	c.doc.AddPage()
	c.doc.TransformBegin()
	c.doc.TransformTranslate(0, float64(h))
	c.doc.TransformScale(100, -100, 0, 0)
	vg.Initialize(c)
	return c
}

func (c *pdfCanvas) Size() (w, h vg.Length) { return c.w, c.h }
func (c *pdfCanvas) Rotate(r float64)       { c.doc.TransformRotate(-r*180/math.Pi, 0, 0) }
func (c *pdfCanvas) Translate(p vg.Point)   { c.doc.TransformTranslate(float64(p.X), float64(p.Y)) }
func (c *pdfCanvas) Scale(x, y float64)     { c.doc.TransformScale(x*100, y*100, 0, 0) }
func (c *pdfCanvas) Fill(p vg.Path)         { c.path(p, "F") }
func (c *pdfCanvas) SetLineWidth(w vg.Length) {
	c.width[len(c.width)-1] = w
	c.doc.SetLineWidth(float64(w))
}
func (c *pdfCanvas) SetLineDash(dashes []vg.Length, offset vg.Length) {
	d := make([]float64, len(dashes))
	for i := range d {
		d[i] = float64(dashes[i])
	}
	c.doc.SetDashPattern(d, float64(offset))
}
func (c *pdfCanvas) SetColor(to color.Color) {
	n := straight(to)
	r, g, b := int(n.R), int(n.G), int(n.B)
	c.doc.SetFillColor(r, g, b)
	c.doc.SetDrawColor(r, g, b)
	c.doc.SetTextColor(r, g, b)
	c.doc.SetAlpha(float64(n.A)/255, "Normal")
}
func (c *pdfCanvas) Push() {
	c.width = append(c.width, c.width[len(c.width)-1])
	c.doc.TransformBegin()
}
func (c *pdfCanvas) Pop() {
	c.width = c.width[:len(c.width)-1]
	c.doc.TransformEnd()
}
func (c *pdfCanvas) Stroke(p vg.Path) {
	if c.width[len(c.width)-1] > 0 {
		c.path(p, "D")
	}
}

func (c *pdfCanvas) path(p vg.Path, style string) {
	var at, start vg.Point
	for _, q := range curves(p) {
		switch q.Type {
		case vg.MoveComp:
			c.doc.MoveTo(float64(q.Pos.X), float64(q.Pos.Y))
			start = q.Pos
		case vg.LineComp:
			c.doc.LineTo(float64(q.Pos.X), float64(q.Pos.Y))
		case vg.CurveComp:
			a, b := control(at, q)
			c.doc.CurveBezierCubicTo(float64(a.X), float64(a.Y), float64(b.X), float64(b.Y), float64(q.Pos.X),
				float64(q.Pos.Y))
		case vg.CloseComp:
			c.doc.ClosePath()
			at = start
			continue
		}
		at = q.Pos
	}
	c.doc.DrawPath(style)
}

// FillString writes a piece of text whose letters are all in the font (runs).
func (c *pdfCanvas) FillString(f font.Face, at vg.Point, s string) {
	for _, t := range typefaces {
		if t.parsed() != f.Face {
			continue
		}
		if !c.fonts[t.name] {
			c.fonts[t.name] = true
			c.doc.AddUTF8FontFromBytes(t.name, "", slices.Clone(t.source())) // it writes into them
		}
		c.doc.SetFont(t.name, "", float64(f.Font.Size))
		break
	}
	c.doc.TransformBegin()
	c.doc.TransformTranslate(float64(at.X), float64(at.Y))
	c.doc.TransformScale(100, -100, 0, 0)
	c.doc.Text(0, 0, s)
	c.doc.TransformEnd()
}

// DrawImage is not used by figures.
func (c *pdfCanvas) DrawImage(vg.Rectangle, image.Image) { panic("report: a figure with an image") }

func (c *pdfCanvas) WriteTo(w io.Writer) (int64, error) {
	c.doc.TransformEnd()
	c.doc.Close()
	var b bytes.Buffer
	if err := c.doc.Output(&b); err != nil {
		return 0, err
	}
	return b.WriteTo(w)
}

// texCanvas writes a picture in the commands of PGF. The paper sets the letters in its own fonts.
type texCanvas struct {
	b     bytes.Buffer
	w, h  vg.Length
	stack []texState
}

type texState struct {
	color  color.Color
	width  vg.Length
	dash   []vg.Length
	offset vg.Length
}

func newTexCanvas(w, h vg.Length) *texCanvas {
	c := &texCanvas{w: w, h: h, stack: []texState{{color: color.Black}}}
	c.b.WriteString("% \\usepackage{pgf} in the preamble, \\input{this file} in a figure. Letters are set in the " +
		"fonts of the paper.\n")
	c.b.WriteString("\\begingroup\\begin{pgfpicture}\n")
	fmt.Fprintf(&c.b, "\\pgfpathrectangle{\\pgfpointorigin}{\\pgfqpoint{%s}{%s}}\\pgfusepath{use as bounding box}\n",
		texLength(w), texLength(h))
	vg.Initialize(c)
	return c
}

// texLength writes a length in the points of PostScript, as TeX reads them.
func texLength(l vg.Length) string {
	s := strconv.FormatFloat(float64(l), 'f', 3, 64)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" || s == "" {
		s = "0"
	}
	return s + "bp"
}

func texPoint(p vg.Point) string {
	return "\\pgfqpoint{" + texLength(p.X) + "}{" + texLength(p.Y) + "}"
}

func texNumber(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

func (c *texCanvas) top() *texState           { return &c.stack[len(c.stack)-1] }
func (c *texCanvas) Size() (w, h vg.Length)   { return c.w, c.h }
func (c *texCanvas) SetLineWidth(w vg.Length) { c.top().width = w }
func (c *texCanvas) SetLineDash(d []vg.Length, offset vg.Length) {
	c.top().dash, c.top().offset = d, offset
}
func (c *texCanvas) SetColor(to color.Color) { c.top().color = to }
func (c *texCanvas) Rotate(r float64) {
	fmt.Fprintf(&c.b, "\\pgftransformrotate{%s}\n", texNumber(r*180/math.Pi))
}
func (c *texCanvas) Translate(p vg.Point) {
	fmt.Fprintf(&c.b, "\\pgftransformshift{%s}\n", texPoint(p))
}
func (c *texCanvas) Scale(x, y float64) {
	fmt.Fprintf(&c.b, "\\pgftransformxscale{%s}\\pgftransformyscale{%s}\n", texNumber(x), texNumber(y))
}
func (c *texCanvas) Push() {
	c.b.WriteString("\\begin{pgfscope}\n")
	c.stack = append(c.stack, *c.top())
}
func (c *texCanvas) Pop() {
	c.stack = c.stack[:len(c.stack)-1]
	c.b.WriteString("\\end{pgfscope}\n")
}

// ink writes the colour of what follows.
func (c *texCanvas) ink() {
	n := straight(c.top().color)
	fmt.Fprintf(&c.b, "\\definecolor{troupe}{RGB}{%d,%d,%d}\\color{troupe}", n.R, n.G, n.B)
	if n.A != 255 {
		a := texNumber(float64(n.A) / 255)
		fmt.Fprintf(&c.b, "\\pgfsetstrokeopacity{%s}\\pgfsetfillopacity{%s}", a, a)
	}
}

func (c *texCanvas) Stroke(p vg.Path) {
	s := c.top()
	if s.width <= 0 || len(p) == 0 {
		return
	}
	c.b.WriteString("\\begin{pgfscope}")
	c.ink()
	fmt.Fprintf(&c.b, "\\pgfsetlinewidth{%s}", texLength(s.width))
	if len(s.dash) > 0 {
		c.b.WriteString("\\pgfsetdash{")
		for _, d := range s.dash {
			c.b.WriteString("{" + texLength(d) + "}")
		}
		c.b.WriteString("}{" + texLength(s.offset) + "}")
	}
	c.path(p)
	c.b.WriteString("\\pgfusepath{stroke}\\end{pgfscope}\n")
}

func (c *texCanvas) Fill(p vg.Path) {
	if len(p) == 0 {
		return
	}
	c.b.WriteString("\\begin{pgfscope}")
	c.ink()
	c.path(p)
	c.b.WriteString("\\pgfusepath{fill}\\end{pgfscope}\n")
}

func (c *texCanvas) path(p vg.Path) {
	var at, start vg.Point
	for i, q := range curves(p) {
		if i%4 == 0 {
			c.b.WriteByte('\n')
		}
		switch q.Type {
		case vg.MoveComp:
			c.b.WriteString("\\pgfpathmoveto{" + texPoint(q.Pos) + "}")
			start = q.Pos
		case vg.LineComp:
			c.b.WriteString("\\pgfpathlineto{" + texPoint(q.Pos) + "}")
		case vg.CurveComp:
			a, b := control(at, q)
			c.b.WriteString("\\pgfpathcurveto{" + texPoint(a) + "}{" + texPoint(b) + "}{" + texPoint(q.Pos) + "}")
		case vg.CloseComp:
			c.b.WriteString("\\pgfpathclose")
			at = start
			continue
		}
		at = q.Pos
	}
}

// text writes a line of text. It is held at the end where it is aligned, because the paper's letters
// have other widths.
func (c *texCanvas) text(s string, sty plottext.Style, at vg.Point) {
	hold := "left,"
	switch sty.XAlign {
	case plottext.XCenter:
		hold = ""
	case plottext.XRight:
		hold = "right,"
	}
	c.b.WriteString("\\begin{pgfscope}")
	c.ink()
	fmt.Fprintf(&c.b, "\\pgftext[base,%sat={%s}]{\\fontsize{%s}{%s}\\selectfont %s}\\end{pgfscope}\n",
		hold, texPoint(at), texLength(sty.Font.Size), texLength(1.2*sty.Font.Size), TeX(s))
}

// FillString is not called: text goes through text, which knows its alignment.
func (c *texCanvas) FillString(font.Face, vg.Point, string) { panic("report: text without alignment") }

// DrawImage is not used by figures.
func (c *texCanvas) DrawImage(vg.Rectangle, image.Image) { panic("report: a figure with an image") }

func (c *texCanvas) WriteTo(w io.Writer) (int64, error) {
	c.b.WriteString("\\end{pgfpicture}\\endgroup\n")
	return c.b.WriteTo(w)
}

// straight returns the components of a colour, not multiplied by its alpha; no colour is black.
func straight(c color.Color) color.NRGBA {
	if c == nil {
		c = color.Black
	}
	return color.NRGBAModel.Convert(c).(color.NRGBA)
}
