package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"troupe/cli/term"
	"troupe/client"
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
	playWorld func(p *possibleServer, s *streamFlags, seed uint64, line func(PossibleLine)) error
}

// possibleKind returns the kind of a stream of numbers or lists.
func (s *streamFlags) possibleKind() (possible, bool) {
	if k, err := worlds.NumberKindOf(s.kind); err == nil {
		return possible{k.Doc, "numbers", "bins", "a table of ten bins that is told which contexts have the same means",
			func(p *possibleServer, s *streamFlags, seed uint64, line func(PossibleLine)) error {
				return p.playNumbers(s, k, seed, line)
			}}, true
	}
	if k, ok := worlds.ListKindOf(s.kind); ok {
		return possible{k.Doc, "lists", "table", "a table that is told the segments, and decides each position by itself",
			func(p *possibleServer, s *streamFlags, seed uint64, line func(PossibleLine)) error {
				return p.playLists(s, k, seed, line)
			}}, true
	}
	return possible{}, false
}

// checkPossible refuses what does not go with numbers and lists.
func (s *streamFlags) checkPossible(kind possible) error {
	switch {
	case s.rounds < 100 || s.rounds > maxRounds:
		return fmt.Errorf("--rounds %d: expected 100 to %d", s.rounds, maxRounds)
	case s.worlds < 1 || s.worlds > 1000:
		return fmt.Errorf("--worlds %d: expected 1 to 1000", s.worlds)
	case s.window < 0:
		return fmt.Errorf("--window %v: expected a time above 0", s.window)
	case s.client != "" && s.client != "now":
		return fmt.Errorf("--client %s: with the stream %s, whose decisions play %s, every reward comes at once: expected now, or no --client", s.client, s.kind, kind.what)
	}
	return nil
}

// loadPossible plays the worlds of a stream of numbers or lists, one after the other, each on a new model.
func loadPossible(ctx context.Context, out, progress io.Writer, f *flags, kind possible) error {
	s := &f.stream
	if err := s.checkPossible(kind); err != nil {
		return term.Misuse(err)
	}
	c, err := f.one()
	if err != nil {
		return term.Misuse(err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	result := PossibleResult{Stream: s.kind, Rival: kind.rival}
	begin := time.Now()
	show, end := showProgress(progress, int64(s.worlds*s.rounds))
	for w := range s.worlds {
		p := possibleServer{ctx: ctx, client: c, model: f.model, show: func(i int) { show(int64(w*s.rounds + i)) }}
		if s.worlds > 1 {
			p.model += "-" + strconv.Itoa(w+1)
		}
		var lines []PossibleLine
		err = kind.playWorld(&p, s, f.seed+uint64(w), func(l PossibleLine) { lines = append(lines, l) })
		if err != nil && (s.worlds > 1 || len(lines) == 0) {
			break // a world that was interrupted has a value only when it is the only one
		}
		result.Worlds = append(result.Worlds, lines)
		if err == nil && w == s.worlds-1 {
			err = c.Get(ctx, "/v1/models/"+p.model, &result.Model)
		}
	}
	end()
	result.Seconds = time.Since(begin).Seconds()
	interrupted := ctx.Err() != nil && err != nil
	if err != nil && !interrupted {
		return err
	}
	switch {
	case f.json:
		err = json.NewEncoder(out).Encode(result)
	case len(result.Worlds) > 0:
		kind.print(out, &result)
		err = warnStream(out, result.Model)
	}
	if interrupted {
		return term.Silently(term.Interrupted, context.Canceled)
	}
	return err
}

// possibleServer is the model of a server as a player of numbers or lists.
type possibleServer struct {
	ctx    context.Context
	client *client.Client
	model  string
	show   func(done int)
}

// create makes the model of a world. more has further fields of its configuration.
func (p *possibleServer) create(s *streamFlags, more map[string]any) error {
	config := map[string]any{"id": p.model}
	for k, v := range more {
		config[k] = v
	}
	s.addWindow(config)
	if err := p.client.CreateModel(p.ctx, config); err != nil {
		return fmt.Errorf("making the model %s (a stream begins with a new one; choose another --model): %w", p.model, err)
	}
	return nil
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
