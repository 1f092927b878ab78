package fold

import (
	"runtime"
	"time"

	"troupe/timing"
)

// cost is what an event of a model takes of a processor to learn, as measured here: a moving average over the last events. It
// is no part of the state, and nothing that is folded depends on it.
type cost struct {
	each time.Duration // 0: not measured yet
	n    uint8
}

const (
	unmeasured = 500 * time.Microsecond // what an event is taken to cost before one was measured
	waking     = time.Millisecond       // and what a policy that was laid aside costs beside it
	cheap      = 20 * time.Microsecond  // events below it are measured now and then only: two system calls take .5 µs
)

// measure begins to measure an event, or returns nil. What it returns is called when the event is learned.
func (c *cost) measure() (done func()) {
	if c.n++; c.each > 0 && c.each < cheap && c.n%8 != 0 {
		return nil
	}
	runtime.LockOSThread()
	began := timing.Processor()
	return func() {
		took := max(timing.Processor()-began, 1)
		runtime.UnlockOSThread()
		if c.each == 0 {
			c.each = took
		}
		c.each += (took - c.each) / 8
	}
}
