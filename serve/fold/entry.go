package fold

import "troupe/eventlog"

// batchKey names a batch of the log.
type batchKey struct {
	epoch eventlog.ID
	no    uint64
}

func (k batchKey) hash() uint64 { return mixed(uint64(k.epoch), k.no) }

// event returns the key of the event at a place of the batch.
func (k batchKey) event(index uint32) eventlog.Event {
	return eventlog.Event{Epoch: k.epoch, Batch: k.no, Index: index}
}

// Outcome is what the fold made of a record.
type Outcome uint8

const (
	None      Outcome = iota // the record has no outcome
	Accepted                 // it counts
	Duplicate                // a reward or activation that was there already
	Late                     // the window of its event is over
	Ignored                  // it has no effect
	Conflict                 // a control record that came too late: name taken, or model gone
)

// position is how far a fold has come in its log. The parts of a fold share one.
type position struct {
	seq  uint64 // the entry that is being folded, or was last
	lost uint64 // entries that an operator has given up (Loss)
	entry
}

// Seq returns the last entry that was applied.
func (p *position) Seq() uint64 { return p.seq }

// entry is what records need of their entry, beside its sequence.
type entry struct {
	batchKey
	hash   eventlog.Hash
	time   int64
	now    int64  // what policies that forget by time are told: time, in a cluster the clock
	record uint32 // that is being folded, its place in the entry
}
