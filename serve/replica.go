package serve

import (
	"context"
	"sync"
	"time"

	"troupe/timing"
)

// replica is the copy of the log at this node, and the check of its files that is under way, or the newest one.
type replica struct {
	*lifetime
	*writer

	mu    sync.Mutex
	under chan struct{} // closed at its end, nil for none
	ended timing.Instant
	found ReplicaCheck
	err   error
}

const (
	checkFor  = 5 * time.Second  // how long a call waits
	checkKept = 30 * time.Second // how long a check is not made again
)

// forget lets the next call read the files again.
func (s *replica) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != 0 {
		s.under = nil
	}
}

// note takes what the files of the replica are: a node whose files are damaged lets another one lead.
func (s *replica) note(damage []string) {
	n := s.nodes
	if len(damage) == 0 {
		if n.damaged.Swap(nil) != nil {
			s.opt.Logger.Info("the files of this node's replica are whole again")
		}
		return
	}
	if old := n.damaged.Swap(&damage[0]); old == nil || *old != damage[0] {
		s.opt.Logger.Error("the files of this node's replica are damaged: it lets another node lead, and makes them "+
			"anew from the others",
			"damage", damage[0])
	}
	for _, c := range []chan struct{}{n.news, n.mend} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// suspect reads the files of the replica, because an entry was not there.
func (s *replica) suspect() {
	if _, err := s.check(s.ctx); err != nil && s.ctx.Err() == nil {
		s.opt.Logger.Warn("the files of this node's replica were not read", "error", err.Error())
	}
}

// check is Server.CheckReplica.
func (s *replica) check(ctx context.Context) (ReplicaCheck, error) {
	switch {
	case s.nodes == nil:
		return ReplicaCheck{}, errorf(Conflict, "this server is no node of a cluster")
	case s.nodes.Check == nil:
		return ReplicaCheck{}, errorf(Conflict, "this node has no replica: its log is at other servers")
	}
	done, err := s.begin(ctx)
	if err != nil {
		return ReplicaCheck{}, err
	}
	defer done()
	c := s
	c.mu.Lock()
	// the newest entries of a busy log may be on their way into the files
	behind := c.err == nil && len(c.found.Damage) == 0 && c.found.Last < c.found.Began
	if c.under == nil || c.ended != 0 && (behind || s.opt.Clock.Since(c.ended) > checkKept) {
		c.under, c.ended = make(chan struct{}), 0
		go func(under chan struct{}) {
			began := s.progress.applied.Load()
			r, err := s.nodes.Check()
			c.mu.Lock()
			defer c.mu.Unlock()
			c.found, c.err, c.ended = ReplicaCheck{Done: true, Began: began}, err, s.opt.Clock.Mark()
			if err == nil {
				c.found.First, c.found.Last = r.First, r.Last
				for _, d := range r.Damage {
					c.found.Damage = append(c.found.Damage, d.String())
				}
				s.note(c.found.Damage)
			}
			close(under)
		}(c.under)
	}
	under := c.under
	c.mu.Unlock()
	limit := s.opt.Clock.Timer(checkFor)
	defer limit.Stop()
	select {
	case <-under:
	case <-limit.C:
		return ReplicaCheck{}, nil
	case <-ctx.Done():
		return ReplicaCheck{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return ReplicaCheck{}, &Error{Code: Unavailable, Want: "the files of the replica cannot be read",
			RetryAfter: time.Second, Err: c.err}
	}
	return c.found, nil
}
