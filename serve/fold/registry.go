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

// Prices lists the models with a budget, ascending.
func (g *registry) Prices() (out []eventlog.Price) {
	for id, m := range g.models {
		if m.Spending != nil && !m.Deleted && m.Successor == 0 {
			out = append(out, m.price(id))
		}
	}
	slices.SortFunc(out, func(a, b eventlog.Price) int { return cmp.Compare(a.Model, b.Model) })
	return out
}

func (f *Fold) remove(m *Model) {
	m.Deleted = true
	m.drop()
	delete(f.names, m.Name())
	f.renamed = true
}

// install makes m the model of its name.
func (f *Fold) install(m *Model) {
	m.beginBudget(m.Compiled.Config.Budget)
	m.beginGuard(&m.Compiled.Config)
	f.add(m)
	f.names[m.Name()], f.renamed = m, true
	f.markChanged(m)
}

// Lagging returns how many models lag.
func (g *registry) Lagging() (n int) {
	for _, m := range g.models {
		if m.lagging {
			n++
		}
	}
	return n
}

// Current follows the rollbacks of a model to its newest incarnation.
func (g *registry) Current(m *Model) *Model {
	for !m.present() {
		m = g.models[m.Successor]
	}
	return m
}

// learner returns the incarnation that learns from an event that m decided in entry seq, or nil.
func (g *registry) learner(m *Model, seq uint64) *Model {
	for !m.present() {
		if !m.takes(seq) {
			return nil
		}
		m = g.models[m.Successor]
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
		m = g.models[m.Parent]
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

// Inherited yields the clones and rollbacks, and the models that a learned schema has taken over, in no order.
func (g *registry) Inherited() iter.Seq[Inherited] {
	return func(yield func(Inherited) bool) {
		for id, m := range g.models {
			if l := m.Learning; l != nil && l.Adopted > m.Since { // its record needs the requests that it learned from
				if try := l.Tries[len(l.Tries)-1]; !yield(Inherited{Model: id, Since: l.Adopted,
					At: max(1, try.From-1)}) {
					return
				}
			}
			if m.Parent == 0 {
				continue
			}
			x := Inherited{Model: id, Since: m.Since}
			if p := g.models[m.Parent]; p != nil {
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

// registry has the models of a fold by id and by name, and notes which have changed.
type registry struct {
	models  map[eventlog.ID]*Model
	places  []*Model // the same, each at its place
	names   map[string]*Model
	changed []*Model // models whose published versions are old, since the caller took them
	renamed bool     // names has changed since then
}

// Model returns an incarnation, nil when there is none.
func (g *registry) Model(id eventlog.ID) *Model { return g.models[id] }

// ModelAt returns the incarnation at a place, which Window has.
func (g *registry) ModelAt(place uint32) *Model { return g.places[place] }

// add gives a new incarnation its place.
func (g *registry) add(m *Model) {
	if g.models[m.ID] != m {
		m.place = uint32(len(g.places))
		g.models[m.ID], g.places = m, append(g.places, m)
	}
}

// Named returns the model that has a name now, nil when there is none.
func (g *registry) Named(name string) *Model { return g.names[name] }

// Names returns the names of all models in alphabetical order.
func (g *registry) Names() []string { return slices.Sorted(maps.Keys(g.names)) }

// Models yields every incarnation, of deleted models too, in no order.
func (g *registry) Models() iter.Seq[*Model] { return maps.Values(g.models) }

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
	for _, m := range g.models {
		m.drop()
	}
}

// alive returns the first model of the chain that exists.
func (g *registry) alive(chain []eventlog.ID) *Model {
	for _, id := range chain {
		if m := g.models[id]; m != nil {
			return m
		}
	}
	return nil
}

// Combined returns one digest of all models that are not deleted: their states, counts and versions of configuration.
// It is not ok while a model lags.
func (f *Fold) Combined() (d eventlog.ID, ok bool, err error) {
	if f.Lagging() > 0 {
		return 0, false, nil
	}
	var w writer
	for _, id := range slices.Sorted(maps.Keys(f.models)) {
		m := f.models[id]
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
		w.bytes([]byte(m.Failed))
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
