package evaluate

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"troupe/cli/term"
	"troupe/ope"
)

// shortTable is from how many targets on the answer has one line for each of them; the page has the rest.
const shortTable = 6

// printCandidates prints the set of targets that may be best, and why each other one is out.
func printCandidates(w io.Writer, r *ope.Result, decimals int, line func(label, text string)) {
	c := r.Candidates
	if c == nil {
		return
	}
	which := strings.Join(c.Best, ", ")
	if n := len(c.Best); n > 8 {
		which = strings.Join(c.Best[:8], ", ") + fmt.Sprintf(" and %d more", n-8)
	}
	line("best", fmt.Sprintf("%s may be best (%d of %d; %s%% sure at every look that the best one is among them)",
		which, len(c.Best), len(c.Rows), percentOf(r.Level)))
	var rows [][3]string
	for _, x := range c.Rows {
		mark := "  "
		if x.Best {
			mark = "* "
		}
		row := [3]string{mark + term.Shorten(x.Name, 22), interval(x.Sequence, decimals, true), x.Why}
		if x.Sequence == nil {
			row[1] = ""
		} else if !x.Best {
			row[2] = "out: " + x.Why
		}
		rows = append(rows, row)
	}
	printRows(w, rows)
}

// printRows prints three columns; the last one is wrapped.
func printRows(w io.Writer, rows [][3]string) {
	var width [2]int
	for _, row := range rows {
		for k := range width {
			width[k] = max(width[k], utf8.RuneCountInString(row[k]))
		}
	}
	for _, row := range rows {
		head := term.PadRight(row[0], width[0]) + "  " + term.PadRight(row[1], width[1]) + "  "
		fmt.Fprintln(w, strings.TrimRight(head+term.Wrap(row[2], utf8.RuneCountInString(head)), " "))
	}
}

// printSegments prints for whom the difference holds.
func printSegments(w io.Writer, t *ope.Evaluated, decimals int, line func(label, text string)) {
	s := t.Segments
	if s == nil {
		return
	}
	line("segments", fmt.Sprintf("by %s: %s", s.Path(), s.Sentence))
	var rows [][3]string
	for _, x := range s.Rows {
		rows = append(rows, [3]string{"  " + term.Shorten(x.Name, 24), interval(x.Sequence, decimals, true),
			term.Many(x.Events, "decision") + ", " + x.Verdict})
	}
	printRows(w, rows)
	if last := s.Rows[len(s.Rows)-1]; last.Values > 1 {
		fmt.Fprintf(w, "  %s\n", term.Wrap(s.Rule+"; all rows hold together", 2))
	} else {
		fmt.Fprintln(w, "  all rows hold together")
	}
}

// printShort prints one line for each of many targets.
func printShort(w io.Writer, r *ope.Result, decimals int) {
	var rows [][3]string
	for _, t := range r.Targets {
		row := [3]string{term.Shorten(t.Name, 24), "–", t.Verdict}
		if t.Uplift != nil {
			row[1] = interval(surest(t.Uplift.AtEnd, t.Uplift.Sequence), decimals, true)
		}
		rows = append(rows, row)
	}
	title := "above what ran, each for itself"
	if r.Assumptions.AtEnd != "" {
		title += ", for this n where there is such an interval"
	}
	fmt.Fprintln(w, title)
	printRows(w, rows)
}
