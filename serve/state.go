package serve

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/timing"
)

// state is the fold of the log, and what is published of it for decisions, which do not wait for mu. The applier
// changes it; calls read it. It knows nothing of how records are written.
type state struct {
	past *fold.History
	time timing.Clock

	mu      sync.RWMutex // guards fold and entries
	fold    *fold.Fold
	entries map[eventlog.ID]*entry // of the models that have a name, by incarnation

	names  nameTable[*entry] // what Decide sees
	based  atomic.Uint64     // entry of the newest base that the log of a cluster names
	open   atomic.Int64      // events whose window is open
	broken atomic.Int64      // models whose newest try to decide failed
	known  atomic.Int64      // idempotency keys

	lagging lagging
	windows windows
	shown   shown // the newest requests
	away    away  // models that go to other servers
}

// entry is a model as Decide sees it.
type entry struct {
	state   *state
	version atomic.Pointer[choose.Version]
	workers choose.Pool
	used    atomic.Bool            // it has decided since the last look of layAside
	pace    pace                   // of the requests that are remembered
	broken  atomic.Pointer[string] // why the newest try to decide failed in the policy, nil after one that did not
	observed
}

// mends notes that the model decides, or is gone.
func (e *entry) mends() {
	if e.broken.Swap(nil) != nil {
		e.state.broken.Add(-1)
	}
}

// publish makes the versions of the models that have changed. The caller holds mu, or is alone.
func (s *state) publish() error {
	for _, m := range s.fold.TakeChanged() {
		if m.Deleted || m.Successor != 0 {
			if e := s.entries[m.ID]; e != nil {
				e.mends()
			}
			delete(s.entries, m.ID)
			if m.Deleted {
				s.shown.forget(m.Name())
			}
			continue
		}
		e := s.entries[m.ID]
		if e == nil {
			e = &entry{state: s}
			s.entries[m.ID] = e
		}
		var v *choose.Version
		if old := e.version.Load(); m.Lagging() && old != nil {
			v = old.Meanwhile(m)
			s.follow(m)
		} else {
			var err error
			if v, err = choose.VersionOf(m, s.fold.Seq()); err != nil {
				return fmt.Errorf("model %v: %w", m.ID, err)
			}
		}
		v.State.Publish() // the published version holds it, beside the fold
		if old := e.version.Swap(v); old != nil {
			old.State.Release()
		}
	}
	if s.fold.TakeRenamed() {
		s.names.follow(s.fold, s.entries)
		s.away.follow(s.fold)
	}
	s.open.Store(s.fold.Waiting())
	s.known.Store(int64(s.fold.Keys()))
	s.windows.add(s.fold)
	return nil
}

// publishedOf returns the published version of a model, after the entry that is being applied: the state of the one
// before may be gone already.
func (s *state) publishedOf(e *entry) *choose.Version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return e.version.Load()
}

// settle lets all models catch up, after the applier has ended.
func (s *state) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.fold.Models() {
		s.fold.Settle(m)
	}
}

// model returns the version of a model by name.
func (s *state) model(name string) (*entry, *choose.Version, error) {
	if m := s.away.of(name); m != nil {
		return nil, nil, leaving(name, m)
	}
	e := s.names.entry(name)
	if e == nil {
		return nil, nil, noModel(name)
	}
	return e, e.version.Load(), nil
}

// placesOf returns the entries in which a decision of another server may stand.
func placesOf(s *state, key eventlog.Event) []uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.fold.Moves.Places(key)
}

// leavingModel returns why nothing is recorded for the events of a model: it is closed, or gone.
func leavingModel(s *state, id eventlog.ID) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.fold.Model(id); m != nil {
		if m = s.fold.Current(m); m.Moving != nil {
			return leaving(m.Name(), m.Moving)
		}
	}
	return nil
}

// closedModel is the error of a record that the fold refused, because its model was closed then.
func closedModel(s *state, id eventlog.ID) error {
	if err := leavingModel(s, id); err != nil {
		return err
	}
	return &Error{Code: Leaving, Field: "model", Want: "the model was about to move to another server, and is open again; repeat the call"}
}

// missing is the error of a call for a model that is not here.
func missing(s *state, name string) *Error {
	if m := s.away.of(name); m != nil && m.Gone {
		return leaving(name, m)
	}
	return noModel(name)
}

// noteBase takes the newest base of the fold, and reports whether it is another one. The caller holds mu, or is alone.
func (s *state) noteBase() bool {
	b := s.fold.Base().Seq
	return s.based.Swap(b) != b
}

// modelBytes returns about how many bytes all models take now, and how many of them are not laid aside.
func (s *state) modelBytes() (bytes int64, awake int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sizes()
}

// sizes is modelBytes for a caller that holds mu.
func (s *state) sizes() (bytes int64, awake int) {
	for m := range s.fold.Models() {
		if bytes += m.Now(); m.Awake() {
			awake++
		}
	}
	return bytes, awake
}

// keyUse returns what an idempotency key was used for.
func (s *state) keyUse(key [16]byte) (fold.KeyUse, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.fold.Key(key)
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
	limit := s.time.Timer(s.lagging.wait)
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

// lagging are the models that lag behind the log, because their policies choose λ anew (fold.Fold.Defer). A goroutine
// for each does that work, without the fold; decisions go on, on the state of before, and so do all other models.
type lagging struct {
	*lifetime
	caughtUp map[*fold.Model]chan struct{} // closed when the model has caught up; guarded by state.mu
	wait     time.Duration                 // of a call, at most
	failed   func(error)                   // what a model cannot be published for

	step func(bandit.Work) bool // does a slice of a choice; tests replace it
}
