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
	sizeOfPages = 12 << 10
	sizeOfPage  = 60      // of a table, for a touched coordinate
	sizeOfEntry = 27      // a touched coordinate in a snapshot
	sizeOfSeen  = 8 << 10 // what is remembered of a sparse model's requests: names, numbers, learners
	timesDense  = 2       // small models beside their bytes in a snapshot
)

// StartSize returns what a model takes before its first event.
func StartSize(c *model.Compiled) Size { return sizeOf(c, c.Start, 0, 0) }

// sizeOf is the size of a model whose snapshot has so many bytes, touched coordinates, and bytes of small models.
func sizeOf(c *model.Compiled, snapshot, touched, dense int) Size {
	s := Size{Aside: sizeOfModel + 2*int64(len(c.JSON))}
	s.Used = s.Aside
	switch {
	case c.Sparse():
		s.Aside += int64(sizeOfEntry*touched + dense)
		s.Used += sizeOfPages + int64((sizeOfPage+sizeOfEntry)*touched+timesDense*dense)
		if touched > 0 {
			s.Aside += sizeOfSeen
			s.Used += sizeOfSeen
		}
	default:
		s.Aside += int64(snapshot)
		s.Used += timesUsed * int64(snapshot)
	}
	return s
}
