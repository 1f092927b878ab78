package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// A model whose features say learn = { after = N } is due after N rewards: a schema is learned from the requests that
// its decisions kept, away from the applier, and what came of it becomes a record (fold.History.Learn). In a cluster
// every node does it, and the first record counts.

// LearningView is how far a model is that learns a schema from requests.
type LearningView struct {
	// Phase is collecting (the hashed model decides, the next schema is learned after Next rewards), hashed (no learned
	// schema predicted better, and none is tried any more) or learned (one has taken over).
	Phase    string `json:"phase"`
	Rewards  int    `json:"rewards"`              // rewarded decisions whose requests are in the log
	Next     int    `json:"next,omitempty"`       // that many are needed for the next try
	Requests uint64 `json:"requests"`             // that were kept
	Bytes    uint64 `json:"bytes"`                // of them in the log, before it is trimmed
	Adopted  uint64 `json:"adopted_seq,omitzero"` // entry from which the learned schema decides
	// Tries are the schemas that were learned, with the errors of both models.
	Tries []LearningTry `json:"tries,omitempty"`
}

// LearningTry is a schema that was learned, and how its model did.
type LearningTry = fold.Try

// learningOf returns the view of a model, nil when it learns no schema. first is where the log begins.
func learningOf(m *fold.Model, first uint64) *LearningView {
	l := m.Learning
	if l == nil {
		return nil
	}
	out := &LearningView{Phase: "collecting", Requests: l.Requests, Bytes: l.Bytes, Adopted: l.Adopted, Tries: l.Tries}
	switch out.Rewards, out.Next = m.Progress(first); {
	case l.Adopted > 0:
		out.Phase = "learned"
	case l.Done:
		out.Phase = "hashed"
	}
	return out
}

// learningWarnings says what the creator of a model that learns a schema should know.
func learningWarnings(m *fold.Model, first uint64) (out []string) {
	l := m.Learning
	if l == nil {
		return nil
	}
	if have, next := m.Progress(first); next > 0 && have < len(l.Events) {
		out = append(out, fmt.Sprintf("the log was trimmed before %d rewards had come, so the requests of %d "+
			"rewarded decisions cannot be learned from: keep the log longer (--keep, --keep-bytes), or ask for fewer "+
			"(features.learn.after)", next, len(l.Events)-have))
	}
	if len(l.Tries) == 0 {
		return out
	}
	try := l.Tries[len(l.Tries)-1]
	if l.Done && l.Adopted == 0 {
		out = append(out, fmt.Sprintf("no learned schema took over, after %d tries, and none is tried any more; the "+
			"hashed model decides. The last one: %s", len(l.Tries), try.Why))
	}
	var without []string
	for _, r := range try.Reasons {
		if l.Adopted > 0 && (strings.Contains(r, ": left out") || strings.Contains(r, ": not crossed") ||
			strings.Contains(r, ": only ")) {
			without = append(without, r)
		}
	}
	if n := len(without); n > 0 {
		more := ""
		if n > maxNames {
			without, more = without[:maxNames], fmt.Sprintf("; and %d more (learning.tries)", n-maxNames)
		}
		out = append(out, "the learned schema does not have all of the requests: "+strings.Join(without, "; ")+more)
	}
	return out
}

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
		if !m.Deleted && m.Successor == 0 && m.Failed == "" && m.Due(first) {
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
