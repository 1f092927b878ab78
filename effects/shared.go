package effects

import (
	"math"
	"slices"
)

// Shared is the state of a policy at one moment, for readers in other goroutines.
type Shared struct{ state state }

// share is one call of Share: what it gave first, and only that, goes back with it.
type share struct{ _ byte }

// first notes that a part is shared from s on, unless it is already.
func (s *share) first(of **share) {
	if *of == nil {
		*of = s
	}
}

// back ends that, where it was s.
func (s *share) back(of **share) {
	if *of == s {
		*of = nil
	}
}

// each calls f for what the model and its readers have in common.
func (m *Model) each(f func(of **share)) {
	for _, s := range append([]*sums{m.s.main}, m.s.copies...) {
		for _, b := range s.blocks {
			if b != nil {
				f(&b.shared)
				for _, p := range b.placed {
					if p != nil {
						f(&p.shared)
					}
				}
			}
		}
		for _, p := range s.tail.pages {
			f(&p.shared)
		}
	}
	if m.s.fit != nil {
		f(&m.s.fit.shared)
	}
	f(&m.s.shared)
	f(&m.s.seen.shared)
}

// Share returns the state as it is now, for readers in any goroutine. What the model changes later it copies first: a block of
// D coordinates is D² numbers. It costs a pointer for each block and page.
func (m *Model) Share() *Shared {
	m.lent = new(share)
	m.each(m.lent.first)
	s := m.s
	s.main = s.main.copy()
	s.copies = slices.Clone(s.copies)
	for i, c := range s.copies {
		s.copies[i] = c.copy()
	}
	s.early = slices.Clip(s.early)
	s.changes = slices.Clip(s.changes)
	return &Shared{s}
}

// Adopt makes the state that of another model, as after Alone: decisions that are not settled stay with that one.
func (m *Model) Adopt(s *Shared) {
	same := m.s.life == s.state.life
	m.s, m.lent = s.state, nil
	m.s.main = m.s.main.copy()
	m.s.copies = slices.Clone(m.s.copies)
	for i, c := range m.s.copies {
		m.s.copies[i] = c.copy()
	}
	m.s.lay.fields, m.s.lay.groups = slices.Clip(m.s.lay.fields), slices.Clip(m.s.lay.groups)
	m.s.lay.coords, m.s.lay.ids = slices.Clip(m.s.lay.coords), slices.Clip(m.s.lay.ids)
	if !same {
		m.find = newIndex()
	}
	m.find.follow(&m.s.lay)
	m.Alone()
}

func (s *sums) copy() *sums {
	c := *s
	c.blocks, c.tail.pages = slices.Clone(s.blocks), slices.Clone(s.tail.pages)
	return &c
}

// Reclaim takes back what the last Share gave, when no reader has it any more. What readers of an earlier one have stays
// theirs.
func (m *Model) Reclaim() {
	if m.lent != nil {
		m.each(m.lent.back)
		m.lent = nil
	}
}

// Digest identifies what is chosen next. It costs an operation for each block, group and copy.
func (m *Model) Digest() (d [16]byte) {
	h := [2]uint64{m.s.events, m.s.n}
	add := func(x uint64) {
		h[0] = mix(h[0] ^ x)
		h[1] = mix(h[1]*0x9e3779b97f4a7c15 + x)
	}
	for _, s := range append([]*sums{m.s.main}, m.s.copies...) {
		for k, b := range s.blocks {
			if b != nil {
				add(b.sum + uint64(k))
			}
		}
		add(s.tail.sum)
		add(s.born<<2 | uint64(s.slot))
		add(math.Float64bits(s.weigh))
	}
	for _, x := range m.s.h.tau {
		add(math.Float64bits(x))
	}
	for _, x := range []float64{m.s.h.mean, m.s.h.s2, m.s.h.variance, m.s.offset} {
		add(math.Float64bits(x))
	}
	if l := m.s.h.lists; l != nil {
		for c := range l.e {
			add(math.Float64bits(l.e[c]))
			add(math.Float64bits(l.s2[c]))
		}
	}
	add(uint64(len(m.s.lay.coords))<<32 | uint64(len(m.s.lay.ids)))
	add(uint64(len(m.s.lay.fields))<<32 | uint64(len(m.s.lay.groups)))
	for i, x := range h {
		for k := range 8 {
			d[8*i+k] = byte(x >> (8 * k))
		}
	}
	return d
}

// Bytes is about how many bytes the state takes, without what readers have of earlier ones.
func (m *Model) Bytes() int {
	n := 96*len(m.s.lay.coords) + 64*len(m.s.lay.groups) + 48*len(m.s.lay.fields) + 16*len(m.s.seen.keys) + 160*len(m.trial.queue)
	for _, s := range append([]*sums{m.s.main}, m.s.copies...) {
		n += 8 * len(s.blocks)
		for _, b := range s.blocks {
			if b != nil {
				n += 128 + 16*len(b.a) + 16*len(b.b)
				for _, p := range b.placed {
					if p != nil {
						n += 64 + 8*len(p.a) + 8*len(p.v)
					}
				}
			}
		}
		n += len(s.tail.pages) * (pageCells*32 + 16)
	}
	for _, e := range m.s.early {
		n += 16*(len(e.context)+len(e.action)) + 64
		for _, x := range e.list {
			n += 16*len(x.Action) + 40
		}
	}
	return n
}
