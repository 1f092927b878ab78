package cli

import (
	"testing"
	"unicode/utf8"

	"troupe/cli/term"
	"troupe/sim"
)

// TestLiveLine: the line of a run under way is one line of any terminal, and has the share and what is left.
func TestLiveLine(t *testing.T) {
	for _, width := range []int{40, 60, 80, 100} {
		for _, p := range []sim.Progress{{}, {Cells: 378, Done: 193, Rounds: 386_000, AllRounds: 756_000, Seconds: 2},
			{Cells: 1_000_000, Done: 999_999, Rounds: 1, AllRounds: 1e15, Seconds: 1e5}} {
			line := barLine(term.Terminal{Width: width}, p)
			if n := utf8.RuneCountInString(line); n > width-1 {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
	}
	if got, want := barLine(term.Terminal{Width: 40}, sim.Progress{Cells: 378, Done: 193, Rounds: 386_000, AllRounds: 756_000, Seconds: 2}),
		" 51%  193 of 378 cells  about 2 s left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
