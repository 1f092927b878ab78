package fold

import (
	"iter"
	"maps"
	"slices"

	"troupe/eventlog"
)

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

// alive returns the first model of the chain that exists.
func (g *registry) alive(chain []eventlog.ID) *Model {
	for _, id := range chain {
		if m := g.models[id]; m != nil {
			return m
		}
	}
	return nil
}
