package serve

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// calls counts the calls under way, for back-pressure and for Close. It has no mutex: hundreds of calls that
// wake together would queue for it.
type calls struct {
	n      atomic.Int64
	closed atomic.Bool
	idle   chan struct{} // closed when closed and n = 0
	once   sync.Once
	done   func() // writer.end
}

// begin admits a call. done must be called at its end.
func (s *writer) begin(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.nodes != nil {
		if err := s.nodes.stale(); err != nil {
			return nil, err
		}
	}
	c := &s.calls
	n := c.n.Add(1)
	switch { // closed is looked at after n was raised: close then waits for this call, or this call sees it
	case c.closed.Load():
		s.end()
		return nil, &Error{Code: Unavailable, Want: "the server is shutting down", RetryAfter: time.Second}
	case n > int64(s.opt.Limits.InFlight):
		s.end()
		s.refused.Add(1)
		return nil, &Error{Code: TooBusy, Want: fmt.Sprintf("%d calls are under way", n-1), RetryAfter: time.Second}
	}
	return c.done, nil
}

// enter counts a call that goes on after its caller has left. The caller is still counted.
func (s *writer) enter() { s.calls.n.Add(1) }

func (s *writer) end() {
	if c := &s.calls; c.n.Add(-1) == 0 && c.closed.Load() {
		c.once.Do(func() { close(c.idle) })
	}
}

// drain refuses new calls and waits for those under way, until ctx ends.
func (s *writer) drain(ctx context.Context) {
	s.enter() // so that the end below comes after closed was set
	s.calls.closed.Store(true)
	s.end()
	select {
	case <-s.calls.idle:
	case <-ctx.Done():
	}
}
