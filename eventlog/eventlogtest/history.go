package eventlogtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"troupe/eventlog"
)

// History keeps what callers were told about their events. Each event has a number, which is the Time
// of an Activate record. Append may be called from many goroutines; the maps may be read and changed
// when no Append is under way.
type History struct {
	Acked   map[int64]eventlog.Receipt
	Unknown map[int64]bool
	Refused map[int64]bool

	mu   sync.Mutex
	next int64
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{Acked: map[int64]eventlog.Receipt{}, Unknown: map[int64]bool{}, Refused: map[int64]bool{}}
}

// Event returns the record of an event.
func Event(id int64) eventlog.Record {
	return &eventlog.Activate{Event: eventlog.Event{Epoch: 1, Batch: 1}, Time: id}
}

// Append sends the next event and notes the answer.
func (h *History) Append(ctx context.Context, c *eventlog.Committer) error {
	h.mu.Lock()
	h.next++
	id := h.next
	h.mu.Unlock()
	r, err := c.Append(ctx, Event(id))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.Acked[id] = r
	case errors.Is(err, eventlog.ErrUnknown):
		h.Unknown[id] = true
	default:
		h.Refused[id] = true
	}
	return err
}

// Check compares the history with shard 0 of a log. An acknowledged event must be there once, under
// the key of its receipt; an event of unknown outcome at most once; a refused event not at all; and
// nothing else may be there.
func (h *History) Check(ctx context.Context, l eventlog.Log) error {
	found, _, err := Contents(ctx, l, 0)
	if err != nil {
		return err
	}
	for id, r := range h.Acked {
		if at := found[id]; len(at) != 1 || at[0].Key != r.Event {
			return fmt.Errorf("event %d was acknowledged at %d %v and is at %v", id, r.Seq, r.Event, at)
		}
	}
	for id, at := range found {
		_, acked := h.Acked[id]
		if !acked && !h.Unknown[id] || len(at) > 1 {
			return fmt.Errorf("event %d (refused: %v) is at %v", id, h.Refused[id], at)
		}
	}
	return nil
}

// CheckFiles compares the history with the files of a data directory that no process has open. Every
// acknowledged event must stand where its receipt says, and no event twice. Others may be there: their
// caller died. It returns how many events there are.
func (h *History) CheckFiles(dir string) (events int, err error) {
	found := map[int64][]Place{}
	report, err := eventlog.Scan(dir, Keys, func(d eventlog.Delivery) error {
		note(found, d)
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !report.OK() {
		return 0, &eventlog.DamagedError{Report: report}
	}
	for id, r := range h.Acked {
		if at := found[id]; len(at) != 1 || at[0] != (Place{r.Seq, r.Event}) {
			return 0, fmt.Errorf("event %d was acknowledged at %d %v and is at %v", id, r.Seq, r.Event, at)
		}
	}
	for id, at := range found {
		if len(at) != 1 {
			return 0, fmt.Errorf("event %d is at %v", id, at)
		}
	}
	return len(found), nil
}

// Place is where an event stands.
type Place struct {
	Seq uint64
	Key eventlog.Event
}

// Contents reads and checks a whole shard. It returns the places of every event and the chain.
func Contents(ctx context.Context, l eventlog.Log, shard uint16) (map[int64][]Place, *eventlog.Chain, error) {
	info, err := l.Info(ctx, shard)
	if err != nil {
		return nil, nil, err
	}
	found := map[int64][]Place{}
	c := eventlog.NewChain(shard, info.First).Trust(Keys)
	for d, err := range eventlog.Replay(ctx, l, c, info.Last) {
		if err != nil {
			return nil, nil, err
		}
		if !d.Repeat {
			note(found, d)
		}
	}
	return found, c, nil
}

func note(found map[int64][]Place, d eventlog.Delivery) {
	for i, r := range d.Events() {
		if a, ok := r.(*eventlog.Activate); ok {
			found[a.Time] = append(found[a.Time], Place{d.Seq, d.Key(i)})
		}
	}
}

// TB is what *testing.T, *testing.B, *testing.F and *rapid.T have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// NewCommitter checks the shard of a log and begins to write behind its end.
func NewCommitter(t TB, l eventlog.Log, opt eventlog.CommitterOptions) *eventlog.Committer {
	t.Helper()
	chain, err := eventlog.Tail(context.Background(), l, opt.Shard, Keys)
	if err != nil {
		t.Fatal(err)
	}
	if opt.Head = chain.Head(); opt.Format == eventlog.Format3 {
		opt.Head, _ = chain.Rolling()
	}
	c, err := eventlog.NewCommitter(l, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
