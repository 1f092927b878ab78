package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"troupe/cli/term"
	"troupe/internal/worlds"
)

// This file is `troupe load --stream` for streams whose decisions play numbers or lists: the reward of each comes before the next one.

// PossibleLine is what the first rounds of one world have brought, as shares of what the best play earns above a uniform one.
type PossibleLine struct {
	Rounds int     `json:"rounds"`
	Share  float64 `json:"share"`  // of the model so far
	Recent float64 `json:"recent"` // of the model since the line before
	Rival  float64 `json:"rival"`  // so far, of the rival
}

// PossibleResult is the outcome of such a stream in all of its worlds.
type PossibleResult struct {
	Stream  string           `json:"stream"`
	Rival   string           `json:"rival"`
	Seconds float64          `json:"seconds"`
	Worlds  [][]PossibleLine `json:"worlds"`
	Model   json.RawMessage  `json:"model,omitempty"` // of the last world, as the server shows it afterwards
}

// possible is a stream of numbers or lists.
type possible struct {
	doc       string
	what      string // each decision plays
	rival     string // name of the rival
	rivalDoc  string
	playWorld func(m *served, s *streamFlags, seed uint64, line func(PossibleLine)) error
}

// possibleKind returns the kind of a stream of numbers or lists.
func (s *streamFlags) possibleKind() (possible, bool) {
	if k, err := worlds.NumberKindOf(s.kind); err == nil {
		return possible{k.Doc, "numbers", "bins", "a table of ten bins that is told which contexts have the same means",
			func(m *served, s *streamFlags, seed uint64, line func(PossibleLine)) error {
				return playNumbers(m, s, k, seed, line)
			}}, true
	}
	if k, ok := worlds.ListKindOf(s.kind); ok {
		return possible{k.Doc, "lists", "table", "a table that is told the segments, and decides each position by itself",
			func(m *served, s *streamFlags, seed uint64, line func(PossibleLine)) error {
				return playLists(m, s, k, seed, line)
			}}, true
	}
	return possible{}, false
}

// checkPossible refuses what does not go with numbers and lists.
func (s *streamFlags) checkPossible(kind possible) error {
	if s.client != "" && s.client != "now" {
		return fmt.Errorf("--client %s: with the stream %s, whose decisions play %s, every reward comes at once: expected now, or no --client", s.client, s.kind, kind.what)
	}
	return s.checkSizes()
}

// loadPossible plays a stream of numbers or lists.
func loadPossible(ctx context.Context, out, progress io.Writer, f *flags, kind possible) error {
	s := &f.stream
	if err := s.checkPossible(kind); err != nil {
		return term.Misuse(err)
	}
	result := PossibleResult{Stream: s.kind, Rival: kind.rival}
	var lines []PossibleLine
	end, err := f.playWorlds(ctx, progress, func(m *served, seed uint64) (bool, error) {
		lines = nil
		err := kind.playWorld(m, s, seed, func(l PossibleLine) { lines = append(lines, l) })
		return len(lines) > 0, err
	}, func() { result.Worlds = append(result.Worlds, lines) })
	if err != nil {
		return err
	}
	result.Seconds, result.Model = end.seconds, end.model
	return end.answer(out, f.json, result, len(result.Worlds), func() { kind.print(out, &result) })
}

// print prints the means over the worlds, and the worst world where there are several.
func (k *possible) print(out io.Writer, r *PossibleResult) {
	n := len(r.Worlds)
	fmt.Fprintf(out, "%s: %s\n", r.Stream, k.doc)
	rows := [][]string{{"rounds", "earned", "recent", k.rival}}
	if n > 1 {
		rows[0] = append(rows[0], "worst")
	}
	for i, line := range r.Worlds[0] {
		row := []string{term.Grouped(int64(line.Rounds))}
		worst := line.Share
		for _, value := range []func(PossibleLine) float64{
			func(l PossibleLine) float64 { return l.Share },
			func(l PossibleLine) float64 { return l.Recent },
			func(l PossibleLine) float64 { return l.Rival },
		} {
			sum := 0.
			for _, w := range r.Worlds {
				sum += value(w[i]) / float64(n)
				worst = min(worst, w[i].Share)
			}
			row = append(row, fmt.Sprintf("%.2f", sum))
		}
		if n > 1 {
			row = append(row, fmt.Sprintf("%.2f", worst))
		}
		rows = append(rows, row)
	}
	term.Columns(out, rows)
	fmt.Fprintf(out, "\n  shares of what the best %s earn above uniform ones; 1 is the best always\n", k.what)
	fmt.Fprintf(out, "  %s: %s\n", k.rival, k.rivalDoc)
	if n > 1 {
		fmt.Fprintf(out, "  means of %d worlds, each on a model of its own; worst: of earned\n", n)
	}
}
