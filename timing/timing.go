// Package timing is where the decision server and its log get their time from. It keeps two things apart that
// time.Time mixes: the time of day, which is written into records and can step back, and the time that has passed,
// which never does. A server takes one Clock ([troupe/serve.Options]); its zero value is the machine's. A [Fake] moves
// only when a test says so.
package timing

import (
	"context"
	"time"
)

// Clock tells the time of day, measures how long something takes, and waits. The zero value is the machine's clock. A
// Clock is copied freely, compared with ==, and used by many goroutines.
type Clock struct {
	day  *func() time.Time // the time of day, the machine's when nil
	fake *Fake
}

// At returns a clock whose time of day is what now returns; time passes as it does on the machine. Now must be safe for
// use by many goroutines; nil is the machine's. A server whose records shall have the times of a simulation takes one.
func At(now func() time.Time) Clock {
	if now == nil {
		return Clock{}
	}
	return Clock{day: &now}
}

// Instant is a moment on the time that has passed, in nanoseconds since some moment before the program asked first.
// Only differences of two instants of one clock mean something. 0 is no instant: something that did not happen yet.
type Instant int64

// Sub returns how long after another instant of the same clock this one is.
func (i Instant) Sub(from Instant) time.Duration { return time.Duration(i - from) }

// started is the moment from which the instants of the machine count.
var started = time.Now()

// Now returns the time of day. Two calls may return times in the wrong order, when the machine's clock was set back.
func (c Clock) Now() time.Time {
	switch {
	case c.day != nil:
		return (*c.day)()
	case c.fake != nil:
		return c.fake.Now()
	}
	return time.Now()
}

// Mark returns the present instant, never 0.
func (c Clock) Mark() Instant {
	if c.fake != nil {
		return c.fake.mark()
	}
	return Instant(time.Since(started)) + 1
}

// Since returns how much time has passed since an instant of this clock, never negative. Since 0 it is the longest
// duration: what did not happen yet was longer ago than any limit.
func (c Clock) Since(from Instant) time.Duration {
	if from == 0 {
		return 1<<63 - 1
	}
	return max(0, time.Duration(c.Mark()-from))
}

// Timer sends the time of day on C once, unless it is stopped before.
type Timer struct {
	C    <-chan time.Time // nil for one of AfterFunc
	real *time.Timer
	fake *wait
}

// Timer returns one that fires after d, at once when d is not positive.
func (c Clock) Timer(d time.Duration) *Timer {
	if c.fake != nil {
		w := c.fake.add(d, 0, nil)
		return &Timer{C: w.c, fake: w}
	}
	t := time.NewTimer(d)
	return &Timer{C: t.C, real: t}
}

// After returns the channel of a timer that is never stopped.
func (c Clock) After(d time.Duration) <-chan time.Time { return c.Timer(d).C }

// AfterFunc calls f in a goroutine of its own after d, unless the timer is stopped before.
func (c Clock) AfterFunc(d time.Duration, f func()) *Timer {
	if c.fake != nil {
		return &Timer{fake: c.fake.add(d, 0, f)}
	}
	return &Timer{real: time.AfterFunc(d, f)}
}

// Stop ends the timer; false says that it had fired or was stopped. Nothing is on C afterwards.
func (t *Timer) Stop() bool {
	if t.fake != nil {
		return t.fake.stop()
	}
	return t.real.Stop()
}

// Reset lets the timer fire after d from now on; false says that it had fired or was stopped.
func (t *Timer) Reset(d time.Duration) bool {
	if t.fake != nil {
		return t.fake.reset(d)
	}
	return t.real.Reset(d)
}

// Ticker sends the time of day on C every period, and drops a tick that nothing has taken.
type Ticker struct {
	C    <-chan time.Time
	real *time.Ticker
	fake *wait
}

// Ticker returns one whose period is d. It panics when d is not positive.
func (c Clock) Ticker(d time.Duration) *Ticker {
	if d <= 0 {
		panic("timing: the period of a ticker must be positive")
	}
	if c.fake != nil {
		w := c.fake.add(d, d, nil)
		return &Ticker{C: w.c, fake: w}
	}
	t := time.NewTicker(d)
	return &Ticker{C: t.C, real: t}
}

// Stop ends the ticker. It does not close C.
func (t *Ticker) Stop() {
	if t.fake != nil {
		t.fake.stop()
	} else {
		t.real.Stop()
	}
}

// Sleep waits for d, or until ctx ends; false says that ctx has ended.
//
// A context with a timeout counts by the machine's time whatever this clock is.
func (c Clock) Sleep(ctx context.Context, d time.Duration) bool {
	t := c.Timer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
