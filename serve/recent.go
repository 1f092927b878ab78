package serve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"troupe/eventlog"
)

// recent keeps the newest decisions in memory, so that a reward need not read the log. It has parts, so that
// the callers of one batch do not queue for one mutex.
type recent [16]recentPart

type recentPart struct {
	mu    sync.Mutex
	m     map[eventlog.Event]known
	queue []recentKey // oldest first, from head on
	head  int
	bytes int
}

// recentKey is a decision that is kept, and what it takes.
type recentKey struct {
	eventlog.Event
	size int
}

// known is what rewards need of a decision.
type known struct {
	seq      uint64
	model    eventlog.ID
	x        []float64
	atoms    []byte
	slot     string
	deferred bool
}

func (k known) size() int { return 8*len(k.x) + len(k.atoms) + 256 }

// recentBytes bounds the newest decisions, rereadBytes those that were read again, about.
const (
	recentBytes = 32 << 20
	rereadBytes = 16 << 20
)

func (c *recent) put(key eventlog.Event, k known, limit int) {
	c[key.Index%uint32(len(c))].put(key, k, limit/len(c))
}

func (c *recent) get(key eventlog.Event) (known, bool) { return c[key.Index%uint32(len(c))].get(key) }

func (c *recentPart) put(key eventlog.Event, k known, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[eventlog.Event]known{}
	}
	before := len(c.m)
	if c.m[key] = k; len(c.m) == before { // it was known, and the same
		return
	}
	size := k.size()
	c.queue = append(c.queue, recentKey{key, size})
	for c.bytes += size; c.bytes > limit; c.head++ {
		c.bytes -= c.queue[c.head].size
		delete(c.m, c.queue[c.head].Event)
	}
	if c.head > 1024 && c.head > len(c.queue)/2 {
		c.queue, c.head = append(c.queue[:0], c.queue[c.head:]...), 0
	}
}

func (c *recentPart) get(key eventlog.Event) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.m[key]
	return k, ok
}

// wanted are the entries that were read from the log last.
type wanted struct {
	mu   sync.Mutex
	seqs [128]uint64
	at   int
}

// again reports whether an entry is among them, and adds it.
func (w *wanted) again(seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.seqs[:], seq) {
		return true
	}
	w.seqs[w.at] = seq
	w.at = (w.at + 1) % len(w.seqs)
	return false
}

// find returns what is known of the decision of an event id, from memory or from the log.
func (s *Server) find(ctx context.Context, text string) (eventlog.EventID, known, error) {
	id, err := s.parse(text)
	if err != nil {
		return id, known{}, err
	}
	if k, ok := s.recent.get(id.Event); ok {
		return id, k, nil
	}
	if k, ok := s.reread.get(id.Event); ok {
		return id, k, nil
	}
	if err := s.here(ctx, id.Hint); err != nil {
		return id, known{}, err
	}
	// After a restart, or when many decisions are newer, late rewards often come for several decisions of one
	// entry. The second time that an entry is wanted, all its decisions are kept; the first time that would
	// only cost more.
	reading := s.reading[id.Hint%uint64(len(s.reading))]
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return id, known{}, &Error{Code: Unavailable, Want: "the log does not answer", RetryAfter: time.Second,
			Err: ctx.Err()}
	}
	if k, ok := s.reread.get(id.Event); ok {
		return id, k, nil
	}
	var d *eventlog.Decision
	if s.wanted.again(id.Hint) {
		d, err = s.past.DecisionAmong(id.Event, id.Hint, func(key eventlog.Event, d *eventlog.Decision) {
			s.reread.put(key, known{id.Hint, d.Model, d.X, d.Atoms, d.Slot, d.Deferred}, rereadBytes)
		})
	} else {
		d, err = s.past.Decision(id.Event, id.Hint)
	}
	if err != nil {
		return id, known{}, s.lost(ctx, id, err)
	}
	return id, known{id.Hint, d.Model, d.X, d.Atoms, d.Slot, d.Deferred}, nil
}

// findWhole returns the decision of an event id, with its candidates, from the log.
func (s *Server) findWhole(ctx context.Context, text string) (eventlog.EventID, *eventlog.Decision, error) {
	id, err := s.parse(text)
	if err != nil {
		return id, nil, err
	}
	if err := s.here(ctx, id.Hint); err != nil {
		return id, nil, err
	}
	d, err := s.past.Decision(id.Event, id.Hint)
	if err != nil {
		return id, nil, s.lost(ctx, id, err)
	}
	return id, d, nil
}

func (s *Server) parse(text string) (eventlog.EventID, error) {
	id, err := s.keys.Parse(text)
	if err != nil || id.Shard != 0 || id.Token {
		s.forged.Add(1)
		return id, &Error{Code: BadEventID, Field: "event_id", Want: "expected an event id of this server", Err: err}
	}
	return id, nil
}

// lost returns why a decision was not found in the log.
func (s *Server) lost(ctx context.Context, id eventlog.EventID, err error) error {
	if !errors.Is(err, eventlog.ErrNotFound) {
		return &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	if info, e := s.log.Info(ctx, 0); e == nil && id.Hint < info.First {
		return &Error{Code: Gone, Field: "event_id", Want: "the decision is no longer kept"}
	}
	// An id is signed only after its decision is durable, so the log has lost something.
	s.missing.Add(1)
	s.opt.Logger.Error("an acknowledged decision is not in the log", "seq", id.Hint, "batch", id.Event.Batch, "epoch",
		id.Event.Epoch.String())
	return &Error{Code: NotFound, Field: "event_id", Want: "the decision is not in the log", Err: err}
}
