package serve

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// away are the models that go to other servers. Safe for concurrent use.
type away struct {
	models atomic.Pointer[map[string]*fold.Moving] // by name, closed or gone; nil for none
	doubts atomic.Pointer[map[eventlog.ID]uint64]  // by model: its decisions before this entry may not count; nil for none

	mu     sync.Mutex
	closed map[eventlog.ID]int    // by model: acts that close it, written or under way; its decisions may stand behind one
	opened map[eventlog.ID]uint64 // by model that was closed and is open again: the entry up to which the same holds
	read   map[string]*packed     // what was read for parcels, by name
}

type packed struct {
	move eventlog.ID
	read *fold.Read
}

// follow takes what the fold says. The caller holds it.
func (a *away) follow(f *fold.Fold) {
	if of := f.Moves.Away(); len(of) > 0 {
		a.models.Store(&of)
	} else {
		a.models.Store(nil)
	}
}

// of returns the move of a model, nil for one that is not on its way.
func (a *away) of(name string) *fold.Moving {
	if all := a.models.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

// close says that an act which closes a model is about to be written: decisions that are durable from now on may stand behind it.
func (a *away) close(id eventlog.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed == nil {
		a.closed, a.opened = map[eventlog.ID]int{}, map[eventlog.ID]uint64{}
	}
	a.closed[id]++
	a.publish()
}

// failed ends close where the act was not written.
func (a *away) failed(id eventlog.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed[id]--; a.closed[id] <= 0 {
		delete(a.closed, id)
	}
	a.publish()
}

// open ends close, when the model decides here from an entry on. A call may still be on its way with a decision before that entry.
func (a *away) open(id eventlog.ID, seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed[id] > 0 {
		delete(a.closed, id)
		a.opened[id] = seq
	}
	a.publish()
}

// publish says which decisions are in doubt. The caller holds mu.
func (a *away) publish() {
	doubts := maps.Clone(a.opened)
	for id := range a.closed {
		doubts[id] = math.MaxUint64
	}
	a.doubts.Store(&doubts)
}

// doubtful reports whether a record at an entry is a decision that may stand behind the act that closed its model.
func (a *away) doubtful(records []eventlog.Record, seq uint64) bool {
	doubts := a.doubts.Load()
	if doubts == nil || len(*doubts) == 0 {
		return false
	}
	for _, r := range records {
		if d, ok := r.(*eventlog.Decision); ok && seq < (*doubts)[d.Model] {
			return true
		}
	}
	return false
}

// keep keeps what was read for the parcel of a move.
func (a *away) keep(name string, move eventlog.ID, r *fold.Read) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read == nil {
		a.read = map[string]*packed{}
	}
	a.read[name] = &packed{move, r}
}

// take returns what was kept, and keeps it no longer.
func (a *away) take(name string, move eventlog.ID) *fold.Read {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.read[name]
	delete(a.read, name)
	if p == nil || p.move != move {
		return &fold.Read{}
	}
	return p.read
}

// leaving is the error of a call for a model that is closed or gone.
func leaving(name string, m *fold.Moving) *Error {
	if m.Gone {
		return &Error{Code: Moved, Field: "model", Value: name, To: m.To, Want: "the model is at another server: " + m.To}
	}
	return &Error{Code: Leaving, Field: "model", Value: name, Want: "the model moves to another server at this moment; repeat the call"}
}
