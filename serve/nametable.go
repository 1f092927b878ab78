package serve

import (
	"sync"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// nameTable are the models by name. It is changed in place: a table that is made anew for each model that enters costs as
// much memory as there are models. The zero value is empty. Safe for concurrent use.
type nameTable struct {
	mu sync.RWMutex
	of map[string]*entry
}

// entry returns the model with a name, nil without one.
func (t *nameTable) entry(name string) *entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.of[name]
}

func (t *nameTable) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.of)
}

// follow takes the names that the fold has now. The caller holds the fold.
func (t *nameTable) follow(f *fold.Fold, entries map[eventlog.ID]*entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*entry{}
	}
	n := 0
	for m := range f.Models() {
		if e := entries[m.ID]; e != nil {
			t.of[m.Name()] = e
			n++
		}
	}
	if len(t.of) == n {
		return
	}
	for name, e := range t.of {
		if m := f.Named(name); m == nil || entries[m.ID] != e {
			delete(t.of, name)
		}
	}
}
