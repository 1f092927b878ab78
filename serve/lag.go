package serve

import (
	"context"
	"runtime"
	"time"

	"troupe/bandit"
	"troupe/serve/fold"
)

// lagging are the models that lag behind the log, because their policies choose λ anew (fold.Fold.Defer). A goroutine
// for each does that work, without the fold; decisions go on, on the state of before, and so do all other models.
type lagging struct {
	*lifetime
	caughtUp map[*fold.Model]chan struct{} // closed when the model has caught up; guarded by state.mu
	wait     time.Duration                 // of a call, at most
	failed   func(error)                   // what a model cannot be published for

	step func(bandit.Work) bool // does a slice of a choice; tests replace it
}

// follow starts to work for a model that lags, unless that is under way. The caller holds mu, or is alone.
func (s *state) follow(m *fold.Model) {
	if s.lagging.caughtUp[m] != nil {
		return
	}
	if s.lagging.caughtUp == nil {
		s.lagging.caughtUp = map[*fold.Model]chan struct{}{}
	}
	s.lagging.caughtUp[m] = make(chan struct{})
	s.lagging.workers.Go(func() {
		var done bandit.Work
		for {
			work, more := s.advance(m, done)
			if !more {
				return
			}
			for done = work; work != nil && !s.lagging.step(work); {
				if s.lagging.ctx.Err() != nil {
					return
				}
				runtime.Gosched()
			}
		}
	})
}

// advance takes a slice of what a model waits for, and publishes it when it has caught up.
func (s *state) advance(m *fold.Model, done bandit.Work) (work bandit.Work, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lagging.ctx.Err() != nil {
		return nil, false
	}
	if work = s.fold.Advance(m, done); work != nil || m.Lagging() {
		return work, true
	}
	close(s.lagging.caughtUp[m])
	delete(s.lagging.caughtUp, m)
	if err := s.publish(); err != nil {
		s.lagging.failed(err)
	}
	return nil, false
}

// caughtUp waits until a model does not lag, at most Options.Wait.
func (s *state) caughtUp(ctx context.Context, name string) error {
	limit := time.NewTimer(s.lagging.wait)
	defer limit.Stop()
	for {
		s.mu.RLock()
		var wait chan struct{}
		if m := s.fold.Named(name); m != nil {
			wait = s.lagging.caughtUp[m]
		}
		s.mu.RUnlock()
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return &Error{Code: Unavailable, Want: "the model chooses λ anew and is not there yet",
				RetryAfter: time.Second}
		case <-s.lagging.ctx.Done():
			return &Error{Code: Unavailable, Want: "the server stops", RetryAfter: time.Second}
		}
	}
}
