package serve

import (
	"sync"
	"sync/atomic"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// away are the models that go to other servers. Safe for concurrent use.
type away struct {
	models  atomic.Pointer[map[string]*fold.Moving] // by name, closed or gone; nil for none
	closing atomic.Int32                            // how many are in mu

	mu     sync.Mutex
	closed map[eventlog.ID]bool // models whose decisions may stand behind the act that closes them
	read   map[string]*packed   // what was read for parcels, by name
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
		a.closed = map[eventlog.ID]bool{}
	}
	if !a.closed[id] {
		a.closed[id] = true
		a.closing.Add(1)
	}
}

// open ends close, when the model decides here.
func (a *away) open(id eventlog.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed[id] {
		delete(a.closed, id)
		a.closing.Add(-1)
	}
}

// doubtful reports whether a record is a decision that may stand behind the act that closed its model.
func (a *away) doubtful(records []eventlog.Record) bool {
	if a.closing.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range records {
		if d, ok := r.(*eventlog.Decision); ok && a.closed[d.Model] {
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
