package serve

import (
	"sync"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// nameTable are the models by name. It is changed in place: a table that is made anew for each model that enters costs
// as much memory as there are models. E is what is known of a model. The zero value is empty. Safe for concurrent use.
type nameTable[E comparable] struct {
	mu sync.RWMutex
	of map[string]E
}

// entry returns the model with a name, the zero E without one.
func (t *nameTable[E]) entry(name string) E {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.of[name]
}

func (t *nameTable[E]) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.of)
}

// follow takes the names that the fold has now. The caller holds the fold.
func (t *nameTable[E]) follow(f *fold.Fold, entries map[eventlog.ID]E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]E{}
	}
	n := 0
	for m := range f.Models() {
		if e, ok := entries[m.ID]; ok {
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
