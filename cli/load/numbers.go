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

// This file is `troupe load --stream` for streams whose decisions play numbers.

// NumbersLine is what the first rounds of one world have brought, as shares of what the best numbers earn above uniform ones.
type NumbersLine struct {
	Rounds int     `json:"rounds"`
	Share  float64 `json:"share"`  // of the model so far
	Recent float64 `json:"recent"` // of the model since the line before
	Bins   float64 `json:"bins"`   // so far, of a table of ten bins for each context
}

// NumbersResult is the outcome of a stream of numbers in all of its worlds.
type NumbersResult struct {
	Stream  string          `json:"stream"`
	Seconds float64         `json:"seconds"`
	Worlds  [][]NumbersLine `json:"worlds"`

	doc string
}

// numberKind returns the kind of a stream of numbers.
func (s *streamFlags) numberKind() (worlds.NumberKind, bool) {
	k, err := worlds.NumberKindOf(s.kind)
	return k, err == nil
}

// checkNumbers refuses what does not go with numbers.
func (s *streamFlags) checkNumbers() error {
	switch {
	case s.rounds < 100 || s.rounds > maxRounds:
		return fmt.Errorf("--rounds %d: expected 100 to %d", s.rounds, maxRounds)
	case s.worlds < 1 || s.worlds > 1000:
		return fmt.Errorf("--worlds %d: expected 1 to 1000", s.worlds)
	case s.client != "" && s.client != "now":
		return fmt.Errorf("--client %s: with the stream %s, whose decisions play numbers, every reward comes at once: expected now, or no --client", s.client, s.kind)
	}
	return nil
}

// loadNumbers plays the worlds of a stream of numbers, one after the other, each on a new model.
func loadNumbers(ctx context.Context, out, progress io.Writer, f *flags, kind worlds.NumberKind) error {
	s := &f.stream
	if err := s.checkNumbers(); err != nil {
		return term.Misuse(err)
	}
	c, err := f.one()
	if err != nil {
		return term.Misuse(err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	result := NumbersResult{Stream: s.kind, doc: kind.Doc}
	begin := time.Now()
	show, end := showProgress(progress, int64(s.worlds*s.rounds))
	for w := range s.worlds {
		p := numberServer{ctx: ctx, client: c, model: f.model, show: func(i int) { show(int64(w*s.rounds + i)) }}
		if s.worlds > 1 {
			p.model += "-" + strconv.Itoa(w+1)
		}
		var lines []NumbersLine
		lines, err = p.play(s, kind, f.seed+uint64(w))
		if err != nil && (s.worlds > 1 || len(lines) == 0) {
			break // a world that was interrupted has a value only when it is the only one
		}
		result.Worlds = append(result.Worlds, lines)
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
		err = nil
		printNumbers(out, &result)
	}
	if interrupted {
		return term.Silently(term.Interrupted, context.Canceled)
	}
	return err
}

// numberServer is the model of a server as a player of numbers.
type numberServer struct {
	ctx    context.Context
	client *client.Client
	model  string
	show   func(done int)
}

// play plays a world: the model over HTTP, and the bins beside it.
func (p *numberServer) play(s *streamFlags, kind worlds.NumberKind, seed uint64) (lines []NumbersLine, err error) {
	w, err := kind.New(seed, s.rounds)
	if err != nil {
		return nil, err
	}
	config := map[string]any{"id": p.model}
	s.addWindow(config)
	if err := p.client.CreateModel(p.ctx, config); err != nil {
		return nil, fmt.Errorf("making the model %s (a stream begins with a new one; choose another --model): %w", p.model, err)
	}
	request := requestOf(w)
	at := marks(s.rounds)
	bins := worlds.NewNumberBins(w, 10, seed).Play(at...)
	var sums, last [3]float64 // got, best, uniform
	share := func(a, b [3]float64) float64 { return (b[0] - a[0] - b[2] + a[2]) / (b[1] - a[1] - b[2] + a[2]) }
	for t := range w.Contexts {
		request.Context = json.RawMessage(w.Contexts[t].AppendJSON(nil))
		d, err := p.client.Decide(p.ctx, p.model, request)
		if err != nil {
			return lines, err
		}
		offer, a := d.Action.Index, make([]float64, len(w.Numbers))
		for i := range a {
			a[i] = d.Numbers[w.Numbers[i].Name]
		}
		if _, err := p.client.Reward(p.ctx, d.EventID, w.Reward(t, offer, a)); err != nil {
			return lines, err
		}
		p.show(t + 1)
		best, uniform := w.Possible(t)
		sums[0], sums[1], sums[2] = sums[0]+w.Mean(t, offer, a), sums[1]+best, sums[2]+uniform
		if k := len(lines); t+1 == at[k] {
			lines = append(lines, NumbersLine{t + 1, share([3]float64{}, sums), share(last, sums), bins[k]})
			last = sums
		}
	}
	return lines, nil
}

// requestOf is what every decision of a world asks for.
func requestOf(w *worlds.NumberWorld) (r client.DecideRequest) {
	for _, x := range w.Numbers {
		n := client.Play(x.Name, x.Min, x.Max, x.Step)
		n.Cyclic, n.Log = x.Cyclic, x.Log
		r.Numbers = append(r.Numbers, n)
	}
	for i, id := range w.Offers {
		a := client.Action{ID: id}
		if i < w.Bare {
			a.Numbers = []string{}
		}
		r.Actions = append(r.Actions, a)
	}
	return r
}

// printNumbers prints the means over the worlds, and the worst world where there are several.
func printNumbers(out io.Writer, r *NumbersResult) {
	n := len(r.Worlds)
	fmt.Fprintf(out, "%s: %s\n", r.Stream, r.doc)
	rows := [][]string{{"rounds", "earned", "recent", "bins"}}
	if n > 1 {
		rows[0] = append(rows[0], "worst")
	}
	for k, line := range r.Worlds[0] {
		row := []string{term.Grouped(int64(line.Rounds))}
		worst := r.Worlds[0][k].Share
		for _, value := range []func(NumbersLine) float64{
			func(l NumbersLine) float64 { return l.Share },
			func(l NumbersLine) float64 { return l.Recent },
			func(l NumbersLine) float64 { return l.Bins },
		} {
			sum := 0.
			for _, w := range r.Worlds {
				sum += value(w[k]) / float64(n)
				worst = min(worst, w[k].Share)
			}
			row = append(row, fmt.Sprintf("%.2f", sum))
		}
		if n > 1 {
			row = append(row, fmt.Sprintf("%.2f", worst))
		}
		rows = append(rows, row)
	}
	term.Columns(out, rows)
	fmt.Fprintln(out, "\n  shares of what the best numbers earn above uniform ones; 1 is the best always")
	fmt.Fprintln(out, "  bins: a table of ten bins that is told which contexts have the same means")
	if n > 1 {
		fmt.Fprintf(out, "  means of %d worlds, each on a model of its own; worst: of earned\n", n)
	}
}
