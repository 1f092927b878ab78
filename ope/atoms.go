package ope

import (
	"cmp"
	"math"
	"slices"

	"troupe/feature"
	"troupe/logged"
)

// Atoms are what a server without a schema keeps of a request: hashes and values. Reward models of ours are small
// regressions, so a layout takes the atoms that the first 256 events have most often: those of the context with
// coefficients of each action's own where few actions come again and again, else those of context and action and
// their products.
const (
	mostContext  = 64 // atoms of the context, beside blocks of actions
	mostCrossed  = 15 // with products
	mostOfAction = 7
	mostBlocks   = 512
)

// dictionary maps atoms to coordinates.
type dictionary struct {
	at    map[uint64]int
	scale []float64 // 1/max |value|
}

// dictionaryOf takes the atoms that were seen in most lists, those that say something: not the same in every list.
func dictionaryOf(lists [][]feature.Atom, most int) dictionary {
	type seen struct {
		n         int
		low, high float64
		last      int
	}
	all := map[uint64]*seen{}
	for i, l := range lists {
		for _, a := range l {
			s := all[a.Hash]
			if s == nil {
				s = &seen{low: a.Value, high: a.Value, last: -1}
				all[a.Hash] = s
			}
			if s.low, s.high = min(s.low, a.Value), max(s.high, a.Value); s.last != i {
				s.n, s.last = s.n+1, i
			}
		}
	}
	var keys []uint64
	for k, s := range all {
		if s.n < len(lists) || s.low < s.high {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Or(all[b].n-all[a].n, cmp.Compare(a, b)) })
	d := dictionary{at: map[uint64]int{}}
	for _, k := range keys[:min(len(keys), most)] {
		d.at[k] = len(d.scale)
		d.scale = append(d.scale, 1/max(math.Abs(all[k].low), math.Abs(all[k].high), 1e-9))
	}
	return d
}

// add adds the atoms that it has to x.
func (d *dictionary) add(x []float64, atoms []feature.Atom) {
	for _, a := range atoms {
		if i, ok := d.at[a.Hash]; ok {
			x[i] += a.Value * d.scale[i]
		}
	}
}

// keyOf tells actions apart by their atoms.
func keyOf(atoms []feature.Atom) uint64 {
	h := uint64(len(atoms))
	for _, a := range atoms {
		for _, v := range [...]uint64{a.Hash, math.Float64bits(a.Value)} {
			h = (h ^ v) * 0x9e3779b97f4a7c15
			h ^= h >> 29
		}
	}
	return h
}

func hasAtoms(e *logged.Event) bool {
	return e.Atoms != nil || len(e.Actions) > 0 && e.Actions[0].Atoms != nil
}

// learnAtoms makes the layout of events with atoms.
func (l *layout) learnAtoms(first []*logged.Event) {
	var contexts, actions [][]feature.Atom
	keys := map[uint64]int{}
	for _, e := range first {
		contexts = append(contexts, e.Atoms)
		for i := range e.Actions {
			a := e.Actions[i].Atoms
			actions = append(actions, a)
			if k := keyOf(a); len(keys) < mostBlocks+1 {
				if _, ok := keys[k]; !ok {
					keys[k] = len(keys)
				}
			}
		}
	}
	l.atoms = true
	if len(keys) <= mostBlocks && len(keys)*4 <= max(len(actions), 4*first[0].K) {
		l.blocks, l.keys = true, keys
		l.context = dictionaryOf(contexts, mostContext)
		l.d = 1 + len(l.context.scale)
		return
	}
	l.context, l.action = dictionaryOf(contexts, mostCrossed), dictionaryOf(actions, mostOfAction)
	l.d = (1 + len(l.context.scale)) * (1 + len(l.action.scale))
}

// atomVectors are the vectors of an event with atoms: (1, x) with blocks, else (1, x) ⊗ (1, a) for each action.
func (l *layout) atomVectors(e *logged.Event, s *scratch) []float64 {
	n := 1 + len(l.context.scale)
	s.x = append(s.x[:0], 1)
	s.x = append(s.x, make([]float64, n-1)...)
	l.context.add(s.x[1:], e.Atoms)
	if l.blocks {
		s.z = append(s.z[:0], s.x...)
		return s.z
	}
	if len(e.Actions) != e.K {
		s.bad++
		return nil
	}
	m := 1 + len(l.action.scale)
	s.z = s.z[:0]
	for i := range e.Actions {
		s.a = append(s.a[:0], 1)
		s.a = append(s.a, make([]float64, m-1)...)
		l.action.add(s.a[1:], e.Actions[i].Atoms)
		for _, a := range s.a {
			for _, x := range s.x {
				s.z = append(s.z, float64(a*x))
			}
		}
	}
	return s.z
}
