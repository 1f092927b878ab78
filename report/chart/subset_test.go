package chart

import (
	"os"
	"path/filepath"
	"slices"
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
		if err := os.WriteFile(filepath.Join(dir, "subset.ttf"), small, 0o644); err != nil {
			t.Fatal(err)
		}
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
}
