package chart

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/vg"
)

// named is a figure with one curve for each name.
func named(names ...string) (*Figure, []Look) {
	p := &Panel{Look: -1, X: Axis{Caption: "Round t", Hi: 10, Ticks: []Tick{{At: 0, Label: "0"}, {At: 10, Label: "10"}}},
		Y: Axis{Caption: "Regret", Hi: 10, Ticks: []Tick{{At: 0, Label: Minus + "0"}, {At: 10, Label: "10,000"}}}}
	for i, n := range names {
		v := float64(i)
		p.Marks = append(p.Marks, Mark{Kind: Line, Look: 0, X: []float64{0, 1e-9, 10}, Y: []float64{0, v, v}}, Mark{Kind: Interval, Look: 0, X: []float64{5}, Y: []float64{v}, Lo: []float64{v - 1}, Hi: []float64{v + 1}})
		p.Ends = append(p.Ends, End{Look: 0, Y: 1 - v/10, Label: n})
	}
	return &Figure{ID: "named", Title: "Names", Panels: []*Panel{p}}, []Look{Blues[0]}
}

var hardNames = []string{"r = 7β_t", "√3·σ²₀ ≤ ‖θ̂ₜ‖", "Größe & 50%", "Жук", "策略", "ヒラメキ", "전략", "ℓ₁ → ∞, Γ ∝ √t", "{a}$b^c~d\\e#"}

// Every letter of these names is in a font; what is in none is a box or what it is compatible with, and
// what would turn the text around is left out.
func TestRuns(t *testing.T) {
	for _, name := range hardNames {
		back := ""
		for _, r := range runs(name) {
			for _, c := range r.text {
				if !r.face.has(c) {
					t.Errorf("%q: %s has no %q", name, r.face.name, c)
				}
			}
			back += r.text
		}
		if back != name {
			t.Errorf("%q is drawn as %q", name, back)
		}
	}
	for in, want := range map[string]string{"𝒜\u202e1\u0007,000": "A1,000", "😀": "□", "": ""} {
		back := ""
		for _, r := range runs(in) {
			back += r.text
		}
		if back != want {
			t.Errorf("%q is drawn as %q, want %q", in, back, want)
		}
	}
}

// A PDF embeds the fonts that its letters are from and no others, each as a subset, with the same bytes every time.
func TestPDFLetters(t *testing.T) {
	latin, looks := named("linucb", "r = β")
	hard, _ := named(hardNames...)
	var first []byte
	for i := range 4 {
		var b bytes.Buffer
		if err := hard.WritePDF(&b, looks, Sizes[0], time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Fatal("the same figure has other bytes")
		}
	}
	for _, f := range typefaces {
		if !bytes.Contains(first, []byte("/BaseFont /utf8"+strings.ToLower(f.name))) {
			t.Errorf("%s is not in the PDF", f.name)
		}
	}
	if len(first) > 100_000 {
		t.Errorf("the PDF has %d bytes", len(first))
	}
	var b bytes.Buffer
	if err := latin.WritePDF(&b, looks, Sizes[0], time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 40_000 || bytes.Contains(b.Bytes(), []byte("dejavu")) {
		t.Errorf("a PDF with Latin and Greek letters has %d bytes, with DejaVu: %v", b.Len(), bytes.Contains(b.Bytes(), []byte("dejavu")))
	}
}

// An SVG names fonts that have the letters, and keeps them as text.
func TestSVGLetters(t *testing.T) {
	f, looks := named(hardNames...)
	var b bytes.Buffer
	if err := f.WriteSVG(&b, looks, Sizes[0]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">策略<", "font-family:Noto Sans CJK SC,", "font-family:DejaVu Sans,", "font-family:Liberation Sans,Arial,"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the SVG lacks %q", want)
		}
	}
}

// Text for LaTeX: special characters are escaped, what pdfLaTeX does not know is mathematics.
func TestTeX(t *testing.T) {
	for in, want := range map[string]string{
		"r = 7β_t":                   `r = 7$\beta$\_t`,
		"√3·σ²₀":                     `$\surd$3$\cdot \sigma ^{2} _{0}$`,
		"θ̂ₜ, β̃":                    `$\hat{\theta} _{t}$, $\tilde{\beta}$`,
		`{a}$b^c~d\e#&%`:             `\{a\}\$b\textasciicircum{}c\textasciitilde{}d\textbackslash{}e\#\&\%`,
		"Größe “x” …":                "Größe ``x'' \\ldots{}",
		"𝒜 ≤ ½":                      `A $\le$ $\frac12$`,
		Minus + "3%":                 `$-$3\%`,
		"a\u202eb\u0007":             "ab",
		"策略":                         "策略",
		"$\\input{/etc/passwd}$ x\n": `\$\textbackslash{}input\{/etc/passwd\}\$ x`,
	} {
		if got := TeX(in); got != want {
			t.Errorf("TeX(%q) = %s, want %s", in, got, want)
		}
	}
	for _, n := range hardNames {
		if got, want := beyondTeX(n), strings.ContainsAny(n, "策ヒ전Ж"); got != want {
			t.Errorf("%q is beyond pdfLaTeX: %v, want %v", n, got, want)
		}
	}
}

// A figure in PGF has numbers that TeX reads, closed groups, its names as LaTeX writes them, and the size that it says.
// Where pdflatex is installed it sets the figure.
func TestPGF(t *testing.T) {
	f, looks := named("r = 7β_t", "√3·σ²₀", "Größe & 50%", "{a}$b^c~d\\e#")
	var b bytes.Buffer
	if err := f.WritePGF(&b, looks, Sizes[1]); err != nil {
		t.Fatal(err)
	}
	s := b.String()
	if bad := regexp.MustCompile(`\d[eE][-+]?\d|NaN|Inf|\{-?bp\}`).FindString(s); bad != "" {
		t.Errorf("TeX does not read %q", bad)
	}
	for open, close := range map[string]string{`\begin{pgfscope}`: `\end{pgfscope}`, `\begin{pgfpicture}`: `\end{pgfpicture}`, `\begingroup`: `\endgroup`} {
		if strings.Count(s, open) != strings.Count(s, close) || strings.Count(s, open) == 0 {
			t.Errorf("%d of %s, %d of %s", strings.Count(s, open), open, strings.Count(s, close), close)
		}
	}
	for _, want := range []string{`\pgfqpoint{237.6bp}{165.6bp}`, `\selectfont r = 7$\beta$\_t}`, `\selectfont 10,000}`, `[base,right,at=`} {
		if !strings.Contains(s, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	tex, err := exec.LookPath("pdflatex")
	if err != nil {
		return
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "doc.tex"), []byte("\\documentclass{article}\\usepackage{pgf,amssymb}\\begin{document}\\noindent\n"+s+"\\end{document}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(tex, "-interaction=nonstopmode", "-halt-on-error", "doc.tex")
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("pdflatex: %v\n%s", err, out)
	}
}

// The fonts are those of their projects, byte for byte, also after a figure was written: package fpdf writes new
// numbers of the parts of a Korean letter into the bytes that it is given.
func TestFonts(t *testing.T) {
	figure, looks := named(hardNames...)
	if err := figure.WritePDF(io.Discard, looks, Sizes[0], time.Time{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"597589a852868f782c68e25112bab7785b34bc726f6160dca1519198c6e8c762", // Liberation Sans 2.00.1
		"7da195a74c55bef988d0d48f9508bd5d849425c1770dba5d7bfc6ce9ed848954", // DejaVu Sans 2.37
		"56d3edfb377a8bc3c4b77f4476405c770173c0e31221ad7c77d0a8e1f3039a3e", // Droid Sans Fallback
	} {
		if sum := sha256.Sum256(typefaces[i].source()); hex.EncodeToString(sum[:]) != want {
			t.Errorf("the font %s has the SHA-256 %x, expected %s", typefaces[i].name, sum, want)
		}
	}
}

// The end of an axis moves so that a label which would leave the canvas ends at its edge.
func TestFitted(t *testing.T) {
	wide := func(s string) vg.Length { return vg.Length(len(s)) }
	for _, c := range []struct {
		ticks []Tick
		end   vg.Length
	}{
		{nil, 110},
		{[]Tick{{At: 0, Label: "0123456789"}}, 110},
		{[]Tick{{At: 1, Label: "0123456789"}}, 100},
		{[]Tick{{At: 0.5, Label: "0"}, {At: 0.95, Label: "0123456789"}}, 10 + 90/0.95},
		{[]Tick{{At: 0.95, Label: "0123456789"}, {At: 1, Label: "01234567890123456789"}}, 90},
		{[]Tick{{At: 1.5, Label: "beyond the axis"}}, 110},
	} {
		if got := fitted(10, 110, c.ticks, wide); math.Abs(float64(got-c.end)) > 1e-9 {
			t.Errorf("labels %v: the axis ends at %v, expected %v", c.ticks, got, c.end)
		}
	}
}
