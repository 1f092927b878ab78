package fold

import (
	"fmt"

	"troupe/eventlog"
)

// Carried returns the decisions of other servers in the entry at seq, ascending by their keys; none where it has none.
func (h *History) Carried(seq uint64) ([]Carried, error) {
	e, err := h.Log.Get(seq)
	if err != nil {
		return nil, err
	}
	return carriedIn(e.Data, seq)
}

// Entry is an entry that was read for its decisions.
type Entry struct {
	seq     uint64
	header  eventlog.Header
	records []eventlog.Record
	carried []Carried
}

// Among reads the entry at seq.
func (h *History) Among(seq uint64) (*Entry, error) {
	e, err := h.Log.Get(seq)
	if err != nil {
		return nil, err
	}
	x := &Entry{seq: seq}
	if x.header, x.records, err = eventlog.ParseRecords(e.Data); err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	x.carried, err = carriedOf(x.records, seq)
	return x, err
}

// Find returns the decision with a key, and how it came here, nil for one that was made here.
func (x *Entry) Find(key eventlog.Event) (*eventlog.Decision, *Carried, error) {
	if c := FindCarried(x.carried, key); c != nil {
		d, err := c.Decision()
		return d, c, err
	}
	if int(key.Index) >= len(x.records) {
		return nil, nil, fmt.Errorf("entry %d has no record %d: %w", x.seq, key.Index, eventlog.ErrNotFound)
	}
	d, err := isDecision(x.header, x.records[key.Index], key, x.seq)
	return d, nil, err
}
