package timing

import (
	"slices"
	"sync"
	"time"
)

// Fake is a clock for tests: time passes by [Fake.Advance] only, and the time of day steps by [Fake.Set] while no time
// passes. It is safe for use by many goroutines.
type Fake struct {
	mu     sync.Mutex
	day    time.Time
	passed Instant
	waits  []*wait // in the order in which they fire
	added  sync.Cond
}

// wait is a timer or ticker of a fake clock.
type wait struct {
	of    *Fake
	at    Instant
	every time.Duration // 0: once
	c     chan time.Time
	f     func()
}

// NewFake returns a clock that stands at a time of day.
func NewFake(day time.Time) *Fake {
	f := &Fake{day: day, passed: 1}
	f.added.L = &f.mu
	return f
}

// Clock returns what a server takes.
func (f *Fake) Clock() Clock { return Clock{fake: f} }

// Now returns the time of day.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.day
}

// Set steps the time of day, forward or back, as an operator does who sets a machine's clock. Nothing that waits ends.
func (f *Fake) Set(day time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.day = day
}

// Advance lets d pass, d ≥ 0. What fires meanwhile does so in the order of its instants, each at its own time of day.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.passed + Instant(max(0, d))
	for len(f.waits) > 0 && f.waits[0].at <= end {
		w := f.waits[0]
		f.waits = f.waits[1:]
		f.moveTo(w.at)
		f.fire(w)
	}
	f.moveTo(end)
}

// Waiting waits until n timers and tickers of this clock run: a test then knows that what it looks at has come to its
// wait.
func (f *Fake) Waiting(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.waits) < n {
		f.added.Wait()
	}
}

func (f *Fake) mark() Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

// moveTo lets time pass until an instant. The caller holds mu, as in the next ones.
func (f *Fake) moveTo(at Instant) {
	if at > f.passed {
		f.day, f.passed = f.day.Add(time.Duration(at-f.passed)), at
	}
}

func (f *Fake) fire(w *wait) {
	if w.f != nil {
		go w.f()
	} else {
		select {
		case w.c <- f.day:
		default:
		}
	}
	if w.every > 0 {
		w.at += Instant(w.every)
		f.put(w)
	}
}

// put adds a wait behind those of the same instant.
func (f *Fake) put(w *wait) {
	i, _ := slices.BinarySearchFunc(f.waits, w.at+1, func(x *wait, at Instant) int { return int(x.at - at) })
	f.waits = slices.Insert(f.waits, i, w)
	f.added.Broadcast()
}

// start lets a wait fire after d from now.
func (f *Fake) start(w *wait, d time.Duration) {
	if w.at = f.passed + Instant(max(0, d)); d <= 0 {
		f.fire(w)
	} else {
		f.put(w)
	}
}

func (f *Fake) add(d, every time.Duration, call func()) *wait {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := &wait{of: f, every: every, c: make(chan time.Time, 1), f: call}
	f.start(w, d)
	return w
}

// remove takes a wait out, with what it has sent; false says that it does not run.
func (f *Fake) remove(w *wait) bool {
	select {
	case <-w.c:
	default:
	}
	i := slices.Index(f.waits, w)
	if i >= 0 {
		f.waits = slices.Delete(f.waits, i, i+1)
	}
	return i >= 0
}

func (w *wait) stop() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.of.remove(w)
}

func (w *wait) reset(d time.Duration) bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	ran := w.of.remove(w)
	w.of.start(w, d)
	return ran
}
