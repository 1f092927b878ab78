package fold

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"troupe/eventlog"
)

// registry has the models of a fold by id and by name, and notes which have changed.
type registry struct {
	byID    map[eventlog.ID]*Model
	byPlace []*Model // the same, each at its place
	byName  map[string]*Model
	gone    map[string]*Model // models that went to other servers, by the names that they had
	changed []*Model          // models whose published versions are old, since the caller took them
	renamed bool              // byName has changed since then
}

// Model returns an incarnation, nil when there is none.
func (g *registry) Model(id eventlog.ID) *Model { return g.byID[id] }

// ModelAt returns the incarnation at a place, which Window has.
func (g *registry) ModelAt(place uint32) *Model { return g.byPlace[place] }

// add gives a new incarnation its place.
func (g *registry) add(m *Model) {
	if g.byID[m.ID] != m {
		m.place = uint32(len(g.byPlace))
		g.byID[m.ID], g.byPlace = m, append(g.byPlace, m)
	}
}

// taken reports whether a new model has the name or the id of another one.
func (g *registry) taken(r *eventlog.Control) bool {
	return g.byName[r.Name] != nil || g.byID[r.Model] != nil || g.gone[r.Name] != nil
}

// Named returns the model that has a name now, nil when there is none.
func (g *registry) Named(name string) *Model { return g.byName[name] }

// Names returns the names of all models in alphabetical order.
func (g *registry) Names() []string { return slices.Sorted(maps.Keys(g.byName)) }

// Models yields every incarnation, of deleted models too, in no order.
func (g *registry) Models() iter.Seq[*Model] { return maps.Values(g.byID) }

// TakeChanged returns the models that have changed since the last call. The slice is valid until the next
// Apply.
func (g *registry) TakeChanged() []*Model {
	out := g.changed
	for _, m := range out {
		m.changed = false
	}
	g.changed = g.changed[:0]
	return out
}

// TakeRenamed reports whether the set of names, or the incarnation behind a name, has changed since the last
// call.
func (g *registry) TakeRenamed() bool {
	out := g.renamed
	g.renamed = false
	return out
}

// markChanged notes that a model needs a new version.
func (g *registry) markChanged(m *Model) {
	if !m.changed {
		m.changed = true
		g.changed = append(g.changed, m)
	}
}

// giveUp drops the states of a fold that is not used: what they have on the shelf becomes free.
func (g *registry) giveUp() {
	for _, m := range g.byID {
		m.drop()
	}
}

// alive returns the first model of the chain that exists.
func (g *registry) alive(chain []eventlog.ID) *Model {
	for _, id := range chain {
		if m := g.byID[id]; m != nil {
			return m
		}
	}
	return nil
}

// Combined returns one digest of all models that are not deleted: their states, counts and versions of configuration.
// It is not ok while a model lags.
func (g *registry) Combined() (d eventlog.ID, ok bool, err error) {
	if g.Lagging() > 0 {
		return 0, false, nil
	}
	var w writer
	for _, id := range slices.Sorted(maps.Keys(g.byID)) {
		m := g.byID[id]
		if m.Deleted || m.Successor != 0 {
			continue
		}
		s, err := m.State()
		if err != nil {
			return 0, false, fmt.Errorf("model %v: %w", id, err)
		}
		w.fixed(uint64(id))
		w.fixed(uint64(s.Digest()))
		w.uint(m.Version)
		w.bool(m.Paused)
		m.Untaken.append(&w)
		for _, n := range m.Counts.numbers() {
			w.uint(*n)
		}
		w.fixed(math.Float64bits(m.Counts.RewardSum))
		if m.Spending != nil {
			w.b = m.Spending.append(w.b)
		}
		if m.Guard != nil {
			w.b = m.Guard.append(w.b)
		}
	}
	sum := sha256.Sum256(w.b)
	return eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1, true, nil // 0 is none
}

// Prices lists the models with a budget, ascending.
func (g *registry) Prices() (out []eventlog.Price) {
	for id, m := range g.byID {
		if m.Spending != nil && !m.Deleted && m.Successor == 0 {
			out = append(out, m.price(id))
		}
	}
	slices.SortFunc(out, func(a, b eventlog.Price) int { return cmp.Compare(a.Model, b.Model) })
	return out
}

// remove ends a model. Its name is free.
func (g *registry) remove(m *Model) {
	m.Deleted = true
	m.drop()
	delete(g.byName, m.Name())
	g.renamed = true
}

// install makes m the model of its name.
func (g *registry) install(m *Model) {
	m.beginBudget(m.Compiled.Config.Budget)
	m.beginGuard(&m.Compiled.Config)
	g.add(m)
	g.byName[m.Name()], g.renamed = m, true
	g.markChanged(m)
}

// Lagging returns how many models lag.
func (g *registry) Lagging() (n int) {
	for _, m := range g.byID {
		if m.lagging {
			n++
		}
	}
	return n
}

// Current follows the rollbacks of a model to its newest incarnation.
func (g *registry) Current(m *Model) *Model {
	for !m.present() {
		m = g.byID[m.Successor]
	}
	return m
}

// learner returns the incarnation that learns from an event that m decided in entry seq, or nil.
func (g *registry) learner(m *Model, seq uint64) *Model {
	for !m.present() {
		if !m.takes(seq) {
			return nil
		}
		m = g.byID[m.Successor]
	}
	if m.Deleted {
		return nil
	}
	return m
}

// Lineage lists an incarnation and its ancestors.
func (g *registry) Lineage(m *Model) []eventlog.ID {
	chain := []eventlog.ID{m.ID}
	for m.Parent != 0 {
		m = g.byID[m.Parent]
		chain = append(chain, m.ID)
	}
	return chain
}

// Inherited is an incarnation that began with the state of another one.
type Inherited struct {
	Model eventlog.ID
	Since uint64 // entry of its control record
	At    uint64 // entry whose state it began with; 0 for a clone, whose record says it
	Whole bool   // it began with another policy, which learned from the whole log
}

// Inherited yields the clones and rollbacks, in no order.
func (g *registry) Inherited() iter.Seq[Inherited] {
	return func(yield func(Inherited) bool) {
		for id, m := range g.byID {
			if m.Parent == 0 {
				continue
			}
			x := Inherited{Model: id, Since: m.Since}
			if p := g.byID[m.Parent]; p != nil {
				if p.Successor == id {
					x.At = p.Cut
				}
				x.Whole = p.Compiled.SameState(m.Compiled) != nil
			}
			if !yield(x) {
				return
			}
		}
	}
}
