package report

import (
	"context"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"troupe/report/chart"
	"troupe/verify"
)

func TestTypeset(t *testing.T) {
	for in, want := range map[string]string{
		"s_d ≤ m^{3/2}":        "<i>s</i><sub><i>d</i></sub> ≤ <i>m</i><sup>3/2</sup>",
		"β_{τ−1}^δ":            `<i>β</i><span class="st2"><sup><i>δ</i></sup><sub><i>τ</i>−1</sub></span>`,
		"a share p of them":    "a share <i>p</i> of them",
		"x < y & a = 1":        "<i>x</i> &lt; <i>y</i> &amp; <i>a</i> = 1",
		"E U² = 1/3, P(A) ≤ q": "E <i>U</i>² = 1/3, P(<i>A</i>) ≤ <i>q</i>",
		"it is log(NT/δ)":      "it is log(<i>NT</i>/<i>δ</i>)",
		"few.md: 2e-06":        "few.md: 2e-06",
		"({u_1 ≥ 1})":          "({<i>u</i><sub>1</sub> ≥ 1})",
	} {
		if got := string(typeset(in)); got != want {
			t.Errorf("typeset(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestScientific(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.1: "0.1", 1.0 / 3: "0.333", 5.95: "5.95", 12345: "12,345", 8.38e10: "8.38·10¹⁰",
		-0.0795: chart.Minus + "0.0795", 1e-8: "1.00·10⁻⁸", -2.5e-4: chart.Minus + "2.50·10⁻⁴",
	} {
		if got := scientific(v); got != want {
			t.Errorf("scientific(%v) = %q, want %q", v, got, want)
		}
	}
}

// The page of every statement: well-formed, each label once as an anchor, deterministic, and nothing
// in it comes from elsewhere.
func TestVerifyPage(t *testing.T) {
	checks, err := verify.Select([]string{"alg:es", "lem:conf-sets", "claim:alpha-non-neg", "lem:process-max-lower-bound", "rem:large-m", "alg:es-equiv"})
	if err != nil {
		t.Fatal(err)
	}
	results, err := verify.Run(context.Background(), checks, verify.Options{Seed: 1, Plants: true})
	if err != nil {
		t.Fatal(err)
	}
	page := func() string {
		var b strings.Builder
		if err := WriteVerify(&b, results, VerifyMeta{When: "20 Nov 2026", Command: "troupe verify", Seed: 1, Seconds: 3}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := page()
	if text != page() {
		t.Error("two pages of the same results differ")
	}
	for _, want := range []string{`id="claim:alpha-non-neg"`, "Claim 11", "Refuted as printed", "Holds as corrected", "5249", "<svg", "planted faults noticed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	for _, not := range []string{"http://", "https://", "<script", "NaN", "ZgotmplZ"} {
		if strings.Contains(text, not) {
			t.Errorf("%q on the page", not)
		}
	}
	// Elements nest: HTML without its void elements is XML enough for the standard library.
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
