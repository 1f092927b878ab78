package serve

import (
	"context"
	"errors"
	"log/slog"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// A model whose features say learn = { after = N } is due after N rewards: a schema is learned from the requests that
// its decisions kept, away from the applier, and what came of it becomes a record (fold.History.Learn). In a cluster
// every node does it, and the first record counts.

// schemas learns one for models that are due.
type schemas struct {
	*lifetime
	*state
	limits model.Limits
	logger *slog.Logger
	// change runs a control act; see control.change
	change func(ctx context.Context, make func() (*eventlog.Control, error)) error
}

// learnLoop learns schemas, one at a time.
func (s *schemas) learnLoop() {
	for {
		for again := true; again && s.ctx.Err() == nil; {
			again = false
			for _, l := range s.dueModels() {
				err := s.learnSchema(l)
				if err != nil && s.ctx.Err() == nil { // the next reward tries again
					s.logger.Warn("no schema was learned", "model", l.Name, "error", err.Error())
				}
				again = again || err == nil
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.due:
		}
	}
}

// dueModels returns what is needed to learn the schemas that are due.
func (s *schemas) dueModels() (out []fold.Learner) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	first := s.kept()
	for m := range s.fold.Models() {
		if !m.Deleted && m.Successor == 0 && m.Due(first) {
			out = append(out, s.fold.Learner(m, first))
		}
	}
	return out
}

// learnSchema writes what came of a try. A model that has changed meanwhile is not touched.
func (s *schemas) learnSchema(l fold.Learner) error {
	record, err := s.past.Learn(s.ctx, l, s.limits)
	if err != nil {
		return err
	}
	err = s.change(s.ctx, func() (*eventlog.Control, error) {
		if s.kept() > l.From { // a trim took requests that the record needs
			return nil, errMeanwhile
		}
		return record, nil
	})
	if errors.Is(err, errMeanwhile) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
