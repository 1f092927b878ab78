package recent

import (
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
)

// carried are decisions of other servers that were read from the log, by entry. Rewards of a model that has just come are for
// many of them.
type carried struct {
	mu    sync.Mutex
	of    map[uint64][]fold.Carried
	order []uint64 // oldest first
}

const carriedKept = 32 // entries, of half a megabyte at most

// in returns the decisions of an entry.
func (c *carried) in(past *fold.History, seq uint64) ([]fold.Carried, error) {
	c.mu.Lock()
	all, ok := c.of[seq]
	c.mu.Unlock()
	if ok {
		return all, nil
	}
	all, err := past.Carried(seq)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.of[seq]; !twice {
		if c.of == nil {
			c.of = map[uint64][]fold.Carried{}
		}
		c.of[seq], c.order = all, append(c.order, seq)
		if len(c.order) > carriedKept {
			delete(c.of, c.order[0])
			c.order = c.order[1:]
		}
	}
	return all, nil
}

// decided reads the record of a decision of another server.
func decided(c *fold.Carried) (*eventlog.Decision, error) {
	r, err := c.Decision()
	if err != nil {
		return nil, &fault.Error{Code: fault.Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	return r, nil
}
