package report

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// The font that PDFs embed has the outlines and the widths of the whole font for every letter that
// they can write, none for others, and the right checksums; it is a tenth of the size. A figure's
// PDF is small.
func TestSubset(t *testing.T) {
	whole, err := sfnt.Parse(liberationsansregular.TTF)
	if err != nil {
		t.Fatal(err)
	}
	small, err := subset(liberationsansregular.TTF, codePageRunes())
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("TROUPE_SAMPLES"); dir != "" {
		save(t, filepath.Join(dir, "subset.ttf"), small)
	}
	if n := len(small); n > len(liberationsansregular.TTF)/4 {
		t.Errorf("the subset has %d of %d bytes", n, len(liberationsansregular.TTF))
	}
	if sum := checksum(small); sum != 0xb1b0afba {
		t.Errorf("the file's checksum is %#x", sum)
	}
	cut, err := sfnt.Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	var a, b sfnt.Buffer
	outline := func(f *sfnt.Font, buf *sfnt.Buffer, r rune) (segments sfnt.Segments, advance fixed.Int26_6) {
		g, err := f.GlyphIndex(buf, r)
		if err != nil {
			t.Fatal(err)
		}
		if segments, err = f.LoadGlyph(buf, g, fixed.I(64), nil); err != nil {
			t.Fatalf("%q: %v", r, err)
		}
		if advance, err = f.GlyphAdvance(buf, g, fixed.I(64), font.HintingNone); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(segments), advance
	}
	drawn := 0
	for _, r := range codePageRunes() {
		want, wide := outline(whole, &a, r)
		got, width := outline(cut, &b, r)
		if !slices.Equal(got, want) || width != wide {
			t.Errorf("%q has %d segments and the width %v, in the whole font %d and %v", r, len(got), width, len(want), wide)
		}
		if len(got) > 0 {
			drawn++
		}
	}
	if drawn < 190 {
		t.Errorf("only %d letters have an outline", drawn)
	}
	for _, r := range "ЖλΩ" {
		if got, _ := outline(cut, &b, r); len(got) > 0 {
			t.Errorf("%q is still there", r)
		}
	}
	if _, err := subset(liberationsansregular.TTF, []rune{'\U0001f600'}); err == nil {
		t.Error("a letter that the font does not have is accepted")
	}

	run := loaded(t, oneEnv(), troupeOfSeven(), 40, 1000, 20)
	fig, _ := Analyze(run, 0).regretFigures("", nil)
	looks, _ := looksOf(run.Manifest.Policies)
	var pdf bytes.Buffer
	p := &painter{looks: looks, text: defaultText, size: Sizes[0]}
	if err := p.pdf(fig, epoch(run.Manifest), &pdf); err != nil {
		t.Fatal(err)
	}
	if pdf.Len() > 60_000 {
		t.Errorf("the PDF has %d bytes", pdf.Len())
	}
}

// Every size has the width and height that its name promises, in SVG and in PNG, and letters that
// scale with it.
func TestSizes(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven()[:3], 24, 1000, 20)
	fig, _ := Analyze(run, 0).regretFigures("", nil)
	looks, _ := looksOf(run.Manifest.Policies)
	for i, want := range []struct {
		svg           string
		width, height int // pixels at 200 dots an inch
	}{
		{`width="396pt" height="230.4pt"`, 1100, 640},
		{`width="237.6pt" height="165.6pt"`, 660, 460},
		{`width="720pt" height="403.2pt"`, 2000, 1120},
	} {
		p := &painter{looks: looks, text: defaultText, size: Sizes[i]}
		var svg, image bytes.Buffer
		if err := p.svg(fig, &svg); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(svg.String(), want.svg) {
			t.Errorf("%s: the SVG begins %.120q, want %s", Sizes[i].Name, svg.String(), want.svg)
		}
		if err := p.png(fig, &image); err != nil {
			t.Fatal(err)
		}
		c, err := png.DecodeConfig(&image)
		if err != nil || abs(c.Width-want.width) > 1 || abs(c.Height-want.height) > 1 {
			t.Errorf("%s: %d × %d pixels, %v, want %d × %d", Sizes[i].Name, c.Width, c.Height, err, want.width, want.height)
		}
	}
}

func abs(n int) int { return max(n, -n) }
