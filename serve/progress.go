package serve

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"troupe/serve/fold"
	"troupe/timing"
)

// progress is how far the applier is, and what came of the newest records.
type progress struct {
	pmu      sync.Mutex
	applied  atomic.Uint64
	outcomes map[uint64][]fold.Outcome
	oldest   uint64
	failed   error
	down     atomic.Bool        // failed is set
	waiting  map[uint64]*waiter // by entry
	timers   sync.Pool          // of stopped *timing.Timer: each reward needs one for some milliseconds

	lack atomic.Pointer[lack] // what the applier reads for the fold at present, nil for nothing
}

// lack is an entry that the fold needs while it is in the middle of another one, with the state locked.
type lack struct {
	seq   uint64
	since timing.Instant
	err   error // of the log, which gave no answer; nil in the first try
}

// waiter is what the callers that wait for one entry share.
type waiter struct {
	done    chan struct{}  // closed when the entry is applied, or none will be any more
	out     []fold.Outcome // set before that, or err
	err     error
	callers int
}

// outcomesKept is for how many entries the outcomes are remembered. A caller that waits for its own
// is there long before.
const outcomesKept = 4096

func (p *progress) init(seq uint64, clock timing.Clock) {
	p.applied.Store(seq)
	p.timers.New = func() any {
		t := clock.Timer(time.Hour)
		t.Stop()
		return t
	}
	p.outcomes, p.oldest, p.waiting = map[uint64][]fold.Outcome{}, seq+1, map[uint64]*waiter{}
}

func (p *progress) advance(seq uint64, out []fold.Outcome) {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	p.applied.Store(seq)
	p.outcomes[seq] = out
	for ; p.oldest+outcomesKept <= seq; p.oldest++ {
		delete(p.outcomes, p.oldest)
	}
	if w := p.waiting[seq]; w != nil {
		w.out = out
		close(w.done)
		delete(p.waiting, seq)
	}
}

func (p *progress) fail(err error) {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	if p.failed == nil {
		p.failed = err
		p.down.Store(true)
		for _, w := range p.waiting {
			w.err = err
			close(w.done)
		}
		clear(p.waiting)
	}
}

func (p *progress) failure() error {
	if !p.down.Load() {
		return nil
	}
	p.pmu.Lock()
	defer p.pmu.Unlock()
	return p.failed
}

// until waits until entry seq is applied and returns its outcomes, nil when they are forgotten.
func (p *progress) until(ctx context.Context, seq uint64) ([]fold.Outcome, error) {
	return p.within(ctx, seq, nil)
}

// within is until with a timer; nil is no limit. When the timer ends it returns context.DeadlineExceeded.
// The callers of an entry wake together: the waiter that they share carries the outcomes, so that they do
// not queue for the mutex.
func (p *progress) within(ctx context.Context, seq uint64, limit <-chan time.Time) ([]fold.Outcome, error) {
	p.pmu.Lock()
	if p.applied.Load() >= seq {
		defer p.pmu.Unlock()
		return p.outcomes[seq], nil
	}
	if p.failed != nil {
		defer p.pmu.Unlock()
		return nil, p.failed
	}
	w := p.waiting[seq]
	if w == nil {
		w = &waiter{done: make(chan struct{})}
		p.waiting[seq] = w
	}
	w.callers++
	p.pmu.Unlock()
	err := context.DeadlineExceeded
	select {
	case <-w.done:
		return w.out, w.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit:
	}
	p.pmu.Lock()
	defer p.pmu.Unlock()
	if w.callers--; w.callers == 0 && p.waiting[seq] == w {
		delete(p.waiting, seq)
	}
	return nil, err
}

// stoppedClean reports whether the applier ended without an error of its own.
func (p *progress) stoppedClean() bool {
	err := p.failure()
	return err == nil || errors.Is(err, context.Canceled)
}
