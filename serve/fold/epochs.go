package fold

import (
	"troupe/eventlog"
)

// epochs are the writers of open entries and of remembered keys. Few have written most of them.
type epochs struct {
	ids    []eventlog.ID
	uses   []int
	places map[eventlog.ID]uint32
	free   []uint32
}

// hold returns the place of an epoch, until release was called as often as hold.
func (e *epochs) hold(id eventlog.ID) uint32 {
	at, ok := e.places[id]
	if !ok {
		if k := len(e.free); k > 0 {
			at, e.free = e.free[k-1], e.free[:k-1]
		} else {
			at = uint32(len(e.ids))
			e.ids, e.uses = append(e.ids, 0), append(e.uses, 0)
		}
		e.ids[at], e.places[id] = id, at
	}
	e.uses[at]++
	return at
}

func (e *epochs) release(at uint32) {
	if e.uses[at]--; e.uses[at] == 0 {
		delete(e.places, e.ids[at])
		e.free = append(e.free, at)
	}
}
