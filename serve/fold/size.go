package fold

import (
	"troupe/serve/model"
)

// Size is about how many bytes of memory a model takes.
type Size struct {
	Aside int64 `json:"aside" doc:"while it is laid aside: its configuration and the snapshot of its policy"`
	Used  int64 `json:"used" doc:"while it learns and decides"`
}

// What a model takes beside its snapshot, in bytes and in multiples of the snapshot. TestSize compares them with the
// heap.
const (
	sizeOfModel = 6 << 10 // the model, its published version, its configuration
	timesUsed   = 9       // the policy, its states, two that decide
	timesReads  = 3       // of a policy that reads requests: itself, and what its readers hold while it changes
	sizeOfSeen  = 8 << 10 // what is remembered of the requests to such a model: names, numbers
)

// StartSize returns what a model takes before its first event.
func StartSize(c *model.Compiled) Size { return sizeOf(c, c.Start) }

// sizeOf is the size of a model whose snapshot, or shared state, has so many bytes.
func sizeOf(c *model.Compiled, snapshot int) Size {
	s := Size{Aside: sizeOfModel + 2*int64(len(c.JSON))}
	s.Used = s.Aside
	s.Aside += int64(snapshot)
	if c.Atoms == nil {
		s.Used += timesUsed * int64(snapshot)
		return s
	}
	s.Used += timesReads * int64(snapshot)
	if snapshot > c.Start {
		s.Aside += sizeOfSeen
		s.Used += sizeOfSeen
	}
	return s
}
