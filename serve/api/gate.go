package api

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"time"

	"troupe/timing"
)

// gate bounds the time that decisions wait for the server. It lets in as many as keep the processors and the disk busy;
// the others wait in one line. A short line is no overload, so nothing is refused until the line has not been empty for
// the time standing. From then on the gate refuses each request that reaches the front after it waited longer than
// target, and the server works on requests whose clients still wait. This is CoDel (Nichols and Jacobson, "Controlling
// Queue Delay", ACM Queue 10, 2012) in the form for requests, where the whole front is refused and not one packet at a
// time (Maurer, "Fail at Scale", ACM Queue 13, 2015). Safe for concurrent use.
type gate struct {
	time timing.Clock
	size int // what may be decided at once, in weights

	mu    sync.Mutex
	free  int
	line  []*waiter      // the front first; those that have gone away are still in it
	calm  timing.Instant // the last moment at which the line was empty
	count int            // of those that wait
}

const (
	target   = 50 * time.Millisecond
	standing = 500 * time.Millisecond

	// longest bounds a wait where nothing leaves the gate, because the disk hangs.
	longest = standing + target
)

// waiter is a decision in the line.
type waiter struct {
	at     timing.Instant
	weight int
	answer chan bool // what became of it
	gone   bool
}

func newGate(clock timing.Clock) *gate { return gateOf(clock, max(256, 64*runtime.GOMAXPROCS(0))) }

func gateOf(clock timing.Clock, n int) *gate {
	return &gate{size: n, free: n, calm: clock.Mark(), time: clock}
}

// gates are two gates: requests with large bodies wait in a line of their own and have half as much room, so that a few of
// them do not keep the small ones out.
type gates struct{ small, large *gate }

func newGates(clock timing.Clock) *gates {
	small := newGate(clock)
	return &gates{small, gateOf(clock, small.size/2)}
}

// of returns the gate for a body of n bytes, and how much of it the request takes.
func (g *gates) of(n int64) (*gate, int) {
	if n <= smallBody {
		return g.small, g.small.weight(n)
	}
	return g.large, g.large.weight(n)
}

// waiting is the length of both lines.
func (g *gates) waiting() int { return g.small.waiting() + g.large.waiting() }

// smallBody is the bytes up to which a body does not go through the gate of the large ones.
const smallBody = 64 << 10

// weight is how much a request with a body of n bytes takes of the gate.
func (g *gate) weight(n int64) int { return int(min(1+max(n, 0)/(16<<10), int64(max(1, g.size/4)))) }

// enter waits for its turn. leave must be called unless there is an error. patience, if not 0, is how long the client
// waits for an answer.
func (g *gate) enter(ctx context.Context, weight int, patience time.Duration) (waited time.Duration, err error) {
	g.mu.Lock()
	now := g.time.Mark()
	if g.count == 0 {
		g.calm = now
		if g.free >= weight {
			g.free -= weight
			g.mu.Unlock()
			return 0, nil
		}
	}
	w := &waiter{at: now, weight: weight, answer: make(chan bool, 1)}
	g.line = append(g.line, w)
	g.count++
	g.mu.Unlock()

	most := longest
	if patience > 0 {
		most = min(most, patience)
	}
	timer := g.time.Timer(most)
	defer timer.Stop()
	in, known := false, true
	select {
	case in = <-w.answer:
	case <-timer.C:
		known = false
	case <-ctx.Done():
		known, err = false, ctx.Err()
	}
	waited = g.time.Since(now)
	if !known {
		g.mu.Lock()
		select {
		case in = <-w.answer: // both at once
			g.mu.Unlock()
		default:
			w.gone = true
			g.count--
			g.pass() // who stood behind a large one may go
			g.mu.Unlock()
			if err == nil && most == patience {
				return waited, problem("too_busy", "",
					"the time of Request-Timeout-Ms was over before the decision began; nothing was "+
						"decided").After(time.Second)
			}
		}
		if in {
			return waited, nil
		}
	} else if in {
		return waited, nil
	}
	if err == nil {
		err = problem("too_busy", "", "decisions wait too long: there are more than the server can make; nothing was "+
			"decided").After(time.Second)
	}
	return waited, err
}

// leave makes room.
func (g *gate) leave(weight int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free += weight
	g.pass()
}

// pass lets in, or refuses, those at the front.
func (g *gate) pass() {
	now := g.time.Mark()
	for len(g.line) > 0 {
		w := g.line[0]
		waited := now.Sub(w.at)
		switch {
		case w.gone:
		case waited > target && now.Sub(g.calm) > standing:
			g.count--
			w.answer <- false
		case g.free < w.weight:
			return
		default:
			g.free -= w.weight
			g.count--
			w.answer <- true
		}
		g.line[0] = nil
		g.line = g.line[1:]
	}
	g.line, g.calm = nil, now
}

// waiting is the length of the line.
func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// Class is what a request is about, for the order in which requests are let in.
type Class int

// The classes.
const (
	Other    Class = iota
	Deciding       // waits at the gate
	Feedback       // a reward or an activation: its decision is made and paid for, so it comes first
)

// timeoutHeader is how long a client waits for the answer to a decision, in milliseconds.
const timeoutHeader = "Request-Timeout-Ms"

// patience reads timeoutHeader, 0 where it is absent or cannot be read, which the route then says.
func patience(values []string) time.Duration {
	if len(values) != 1 || len(values[0]) > 9 {
		return 0
	}
	n, err := strconv.ParseUint(values[0], 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
