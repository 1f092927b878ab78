package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"troupe/cli/term"
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
			if n := utf8.RuneCountInString(line); n > term.Width {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}
