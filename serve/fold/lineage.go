package fold

import (
	"iter"

	"troupe/eventlog"
)

// Lineage is where an incarnation of a model comes from, and which one goes on from it.
type Lineage struct {
	Since  uint64 // entry that began this incarnation
	Parent eventlog.ID
	Root   eventlog.ID // the incarnation that was created or cloned; rollbacks keep it
	// A rollback made Successor of this one. Rewards of decisions up to entry Cut go there, and of later
	// decisions when KeepLater is set.
	Successor eventlog.ID
	Cut       uint64
	KeepLater bool
}

// present reports whether the incarnation is the newest one.
func (l *Lineage) present() bool { return l.Successor == 0 }

// takes reports whether the successor learns from a decision of entry seq.
func (l *Lineage) takes(seq uint64) bool { return seq <= l.Cut || l.KeepLater }

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
