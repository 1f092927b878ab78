package words

import (
	"strings"
	"testing"
)

// TestFaults: each rule finds what it is for, and nothing in a text that keeps them.
func TestFaults(t *testing.T) {
	word := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for _, c := range []struct {
		text string
		want int
	}{
		{word(30) + ". " + word(30) + ".", 0},
		{word(31) + ".", 1},
		{"- " + word(20) + "\n- " + word(20) + "\n", 0},
		{word(20) + "\n" + word(20) + ".", 1},
		{"| " + word(20) + " | " + word(20) + " |", 0},
		{strings.Repeat(word(9)+". ", 10), 0},
		{strings.Repeat(word(9)+". ", 11), 1},
		{"It makes the files anew.", 1}, {"Whoever reads this.", 1}, {"all but for one", 1}, {"inside of the interval", 1}, {"so many that", 1},
		{"a cluster that is there", 1}, {"it is said in the log", 1}, {"they run by turns", 1}, {"the laws of the logger", 1}, {"nothing is played but this", 1},
		{"`anew` is a word\n```\nanew whoever\n```\nas here", 0},
		{"See [inside](of.md).", 0},
	} {
		if got := Faults(c.text); len(got) != c.want {
			t.Errorf("%q has %d faults, want %d: %q", c.text, len(got), c.want, got)
		}
	}
}

// TestLongCells: a cell of more than 25 words is a fault, and a row with many short ones is none.
func TestLongCells(t *testing.T) {
	word := strings.Repeat("word ", 25)
	if got := LongCells("| " + word + "| " + word + "|\n| `a long piece of code` " + word[5:] + "|\n" + word + word); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if got := LongCells("| short | " + word + "more |\n"); len(got) != 1 {
		t.Errorf("%d faults, want 1: %q", len(got), got)
	}
}
