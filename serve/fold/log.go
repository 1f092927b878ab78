package fold

import (
	"fmt"

	"troupe/eventlog"
)

// Log is what a History reads.
type Log interface {
	Get(seq uint64) (eventlog.Entry, error)
	Replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error
}

// isDecision returns the decision at the place of key in the entry at seq.
func isDecision(header eventlog.Header, r eventlog.Record, key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	d, ok := r.(*eventlog.Decision)
	switch {
	case header.Epoch != key.Epoch || header.No != key.Batch:
		return nil, fmt.Errorf("entry %d is not batch %d of writer %v: %w", seq, key.Batch, key.Epoch,
			eventlog.ErrNotFound)
	case !ok:
		return nil, fmt.Errorf("entry %d has no decision at place %d: %w", seq, key.Index, eventlog.ErrNotFound)
	}
	return d, nil
}
