package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"troupe/experiments"
	"troupe/sim"
)

// TestHeadlineFits: what the embedded experiments print first fits into the width of a terminal.
func TestHeadlineFits(t *testing.T) {
	for _, e := range experiments.All() {
		x, err := sim.Parse(e.Name+".toml", e.Text, sim.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(headline(x), "\n") {
			if n := utf8.RuneCountInString(line); n > lineWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

// A number is not broken at its thousands, nor from its per cent.
func TestWrapNumbers(t *testing.T) {
	text := strings.Repeat("x", lineWidth-8) + " loses 2 081 in 95 % of"
	if got, want := wrap(text, 0), strings.Repeat("x", lineWidth-8)+" loses\n2 081 in 95 % of"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
