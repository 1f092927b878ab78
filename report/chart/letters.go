package chart

import (
	_ "embed"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/text/unicode/norm"
	"gonum.org/v1/plot/font"
	plottext "gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// A figure's letters come from the first font that has them: Liberation Sans (Latin, Greek, Cyrillic),
// DejaVu Sans (mathematics, superscripts, more alphabets), Droid Sans Fallback (Chinese, Japanese, Korean).

// The fonts are compressed: the program is smaller by half of them.
var (
	//go:embed fonts/LiberationSans-Regular.ttf.zst
	liberation []byte
	//go:embed fonts/DejaVuSans.ttf.zst
	dejavu []byte
	//go:embed fonts/DroidSansFallback.ttf.zst
	droid []byte
)

// typeface is one font of the list.
type typeface struct {
	name   string // for a PDF
	family string // for an SVG: other fonts with these letters
	source func() []byte
	parsed func() *opentype.Font
}

// missing stands for a letter that no font has.
const missing = '□'

var typefaces = []*typeface{
	newTypeface("LiberationSans", "Liberation Sans,Arial,Helvetica,sans-serif", liberation),
	newTypeface("DejaVuSans", "DejaVu Sans,Liberation Sans,Arial,sans-serif", dejavu),
	newTypeface("DroidSansFallback", "Noto Sans CJK SC,PingFang SC,Microsoft YaHei,Droid Sans Fallback,sans-serif",
		droid),
}

func newTypeface(name, family string, compressed []byte) *typeface {
	t := &typeface{name: name, family: family, source: sync.OnceValue(func() []byte {
		in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			panic("report: " + err.Error())
		}
		defer in.Close()
		out, err := in.DecodeAll(compressed, nil)
		if err != nil {
			panic("report: " + name + ": " + err.Error())
		}
		return out
	})}
	t.parsed = sync.OnceValue(func() *opentype.Font {
		f, err := opentype.Parse(t.source())
		if err != nil {
			panic("report: " + name + ": " + err.Error())
		}
		return f
	})
	return t
}

func (t *typeface) has(r rune) bool {
	var buf sfnt.Buffer
	g, err := t.parsed().GlyphIndex(&buf, r)
	return err == nil && g != 0
}

// run is a piece of a text in one font.
type run struct {
	face *typeface
	text string
}

// runs divides a text into pieces that one font can write. A letter that no font has is replaced with
// what it is compatible with (𝒜 with A), or with a box. Control and formatting characters are left out:
// an override of the direction would turn a figure's text around.
func runs(s string) []run {
	var out []run
	add := func(t *typeface, r rune) {
		if n := len(out); n > 0 && out[n-1].face == t {
			out[n-1].text += string(r)
			return
		}
		out = append(out, run{t, string(r)})
	}
	for _, r := range norm.NFC.String(s) {
		switch {
		case unseen(r):
			continue
		case string(r) == Narrow:
			r = ' '
		}
		if t := typefaceOf(r); t != nil {
			add(t, r)
			continue
		}
		for _, a := range norm.NFKC.String(string(r)) {
			t := typefaceOf(a)
			if t == nil {
				a, t = missing, typefaceOf(missing)
			}
			add(t, a)
		}
	}
	return out
}

// typefaceOf returns the first font that has a letter, nil for none. A PDF writes letters in 16 bits.
func typefaceOf(r rune) *typeface {
	if r > 0xffff {
		return nil
	}
	if r < 0x7f {
		return typefaces[0]
	}
	for _, t := range typefaces {
		if t.has(r) {
			return t
		}
	}
	return nil
}

// letters measures and draws text for gonum/plot: a line, in the fonts of the list.
type letters struct {
	tex *texCanvas // where LaTeX writes the letters
}

func (h letters) face(t *typeface, f font.Font) font.Face {
	return font.Face{Font: f, Face: t.parsed()}
}

// Cache has no fonts: those of the list are not looked up by name.
func (h letters) Cache() *font.Cache { return font.NewCache(nil) }

// Extents are those of the first font for every text, so that rows of a figure stand alike.
func (h letters) Extents(f font.Font) font.Extents {
	face := h.face(typefaces[0], f)
	return face.Extents()
}

func (h letters) Lines(s string) []string { return []string{s} }

func (h letters) Box(s string, f font.Font) (width, height, depth vg.Length) {
	for _, r := range runs(s) {
		face := h.face(r.face, f)
		width += face.Width(r.text)
	}
	e := h.Extents(f)
	return width, e.Ascent, e.Descent
}

func (h letters) Draw(c vg.Canvas, s string, sty plottext.Style, at vg.Point) {
	width, _, _ := h.Box(s, sty.Font)
	c.SetColor(sty.Color)
	// As in plottext.Plain, for a single line: the alignment counts from the top of the letters.
	e := h.Extents(sty.Font)
	at.Y += sty.Height(s)*vg.Length(sty.YAlign) - e.Ascent + sty.Font.Size
	if h.tex != nil {
		h.tex.text(s, sty, at)
		return
	}
	at.X += vg.Length(sty.XAlign) * width
	for _, r := range runs(s) {
		face := h.face(r.face, sty.Font)
		c.FillString(face, at, r.text)
		at.X += face.Width(r.text)
	}
}

// unseen tells whether a character is a control, or formats what is around it.
func unseen(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u061c' || r >= '\u200b' && r <= '\u200f' ||
		r >= '\u2028' && r <= '\u202e' || r >= '\u2060' && r <= '\u206f' || r == '\ufeff'
}
