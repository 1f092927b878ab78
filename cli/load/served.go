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
)

// served is a model of a server on which a world is played.
type served struct {
	ctx    context.Context
	client *client.Client
	model  string
	show   func(done int)
}

// create makes the model. more has further fields of its configuration.
func (m *served) create(s *streamFlags, more map[string]any) error {
	config := map[string]any{"id": m.model}
	for k, v := range more {
		config[k] = v
	}
	s.addWindow(config)
	if err := m.client.CreateModel(m.ctx, config); err != nil {
		return fmt.Errorf("making the model %s (a stream begins with a new one; choose another --model): %w", m.model, err)
	}
	return nil
}

// checkSizes refuses rounds, worlds and windows that no stream of known means has.
func (s *streamFlags) checkSizes() error {
	switch {
	case s.rounds < 100 || s.rounds > maxRounds:
		return fmt.Errorf("--rounds %d: expected 100 to %d", s.rounds, maxRounds)
	case s.worlds < 1 || s.worlds > 1000:
		return fmt.Errorf("--worlds %d: expected 1 to 1000", s.worlds)
	case s.window < 0:
		return fmt.Errorf("--window %v: expected a time above 0", s.window)
	}
	return nil
}

// ended is how a stream ended.
type ended struct {
	seconds     float64
	model       json.RawMessage // of the last world, as the server shows it afterwards
	interrupted bool
}

// playWorlds plays the worlds of a stream, one after the other, each on a new model. play plays one, and reports whether it has
// lines; keep takes them. A world that was interrupted counts only when it is the only one.
func (f *flags) playWorlds(ctx context.Context, progress io.Writer, play func(m *served, seed uint64) (some bool, err error),
	keep func()) (e ended, err error) {
	s := &f.stream
	c, err := f.one()
	if err != nil {
		return e, term.Misuse(err)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	begin := time.Now()
	show, end := showProgress(progress, int64(s.worlds*s.rounds))
	for w := range s.worlds {
		m := served{ctx: ctx, client: c, model: f.model, show: func(i int) { show(int64(w*s.rounds + i)) }}
		if s.worlds > 1 {
			m.model += "-" + strconv.Itoa(w+1)
		}
		var some bool
		some, err = play(&m, f.seed+uint64(w))
		if err != nil && (s.worlds > 1 || !some) {
			break
		}
		keep()
		if err == nil && w == s.worlds-1 {
			err = c.Get(ctx, "/v1/models/"+m.model, &e.model)
		}
	}
	end()
	e.seconds = time.Since(begin).Seconds()
	if e.interrupted = ctx.Err() != nil && err != nil; e.interrupted {
		err = nil
	}
	return e, err
}

// answer writes the result of a stream: as JSON, or with print and what the server says of its model where a world counts.
func (e *ended) answer(out io.Writer, asJSON bool, result any, worlds int, print func()) error {
	switch {
	case asJSON:
		if err := json.NewEncoder(out).Encode(result); err != nil {
			return err
		}
	case worlds > 0:
		print()
		if err := warnStream(out, e.model); err != nil {
			return err
		}
	}
	if e.interrupted {
		return term.Silently(term.Interrupted, context.Canceled)
	}
	return nil
}
