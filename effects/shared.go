package effects

import (
	"math"
	"slices"
)

// Shared is the state of a policy at one moment, for readers in other goroutines.
type Shared struct{ state state }

// share returns the state as it is now. What the model changes later it copies first.
func (m *Model) share() *Shared {
	s := m.state
	s.main = s.main.share()
	s.copies = slices.Clone(s.copies)
	for i, c := range s.copies {
		s.copies[i] = c.share()
	}
	if m.fit != nil {
		m.fit.shared = true
	}
	m.shared, m.seen.shared = true, true
	s.shared, s.seen.shared = true, true
	s.early = slices.Clip(s.early)
	s.changes = slices.Clip(s.changes)
	return &Shared{s}
}

func (s *sums) share() *sums {
	c := *s
	c.blocks, c.tail.pages = slices.Clone(s.blocks), slices.Clone(s.tail.pages)
	for _, b := range c.blocks {
		if b != nil {
			b.shared = true
		}
	}
	for _, p := range c.tail.pages {
		p.shared = true
	}
	return &c
}

// adopt makes the state that of another model. Decisions that are not settled stay with that one.
func (m *Model) adopt(s *Shared) {
	same := m.life == s.state.life
	m.state = s.state
	m.main = m.main.copy()
	m.copies = slices.Clone(m.copies)
	for i, c := range m.copies {
		m.copies[i] = c.copy()
	}
	m.lay.fields, m.lay.groups = slices.Clip(m.lay.fields), slices.Clip(m.lay.groups)
	m.lay.coords, m.lay.ids = slices.Clip(m.lay.coords), slices.Clip(m.lay.ids)
	if !same {
		m.find = newIndex()
	}
	m.find.follow(&m.lay)
}

func (s *sums) copy() *sums {
	c := *s
	c.blocks, c.tail.pages = slices.Clone(s.blocks), slices.Clone(s.tail.pages)
	return &c
}

// reclaim takes back what share gave.
func (m *Model) reclaim() {
	for _, s := range append([]*sums{m.main}, m.copies...) {
		for _, b := range s.blocks {
			if b != nil {
				b.shared = false
			}
		}
		for _, p := range s.tail.pages {
			p.shared = false
		}
	}
	if m.fit != nil {
		m.fit.shared = false
	}
	m.shared, m.seen.shared = false, false
}

// digest identifies what is chosen next.
func (m *Model) digest() (d [16]byte) {
	h := [2]uint64{m.events, m.n}
	add := func(x uint64) {
		h[0] = mix(h[0] ^ x)
		h[1] = mix(h[1]*0x9e3779b97f4a7c15 + x)
	}
	for _, s := range append([]*sums{m.main}, m.copies...) {
		for k, b := range s.blocks {
			if b != nil {
				add(b.sum + uint64(k))
			}
		}
		add(s.tail.sum)
		add(s.born<<2 | uint64(s.slot))
		add(math.Float64bits(s.weigh))
	}
	for _, x := range m.h.tau {
		add(math.Float64bits(x))
	}
	for _, x := range []float64{m.h.mean, m.h.s2, m.h.variance, m.offset} {
		add(math.Float64bits(x))
	}
	add(uint64(len(m.lay.coords))<<32 | uint64(len(m.lay.ids)))
	add(uint64(len(m.lay.fields))<<32 | uint64(len(m.lay.groups)))
	for i, x := range h {
		for k := range 8 {
			d[8*i+k] = byte(x >> (8 * k))
		}
	}
	return d
}

// bytes is about how many bytes the state takes.
func (m *Model) bytes() int {
	n := 96*len(m.lay.coords) + 64*len(m.lay.groups) + 48*len(m.lay.fields) + 16*len(m.seen.keys) + 160*len(m.trial.queue)
	for _, s := range append([]*sums{m.main}, m.copies...) {
		n += 8 * len(s.blocks)
		for _, b := range s.blocks {
			if b != nil {
				n += 128 + 16*len(b.a) + 16*len(b.b)
			}
		}
		n += len(s.tail.pages) * (pageCells*32 + 16)
	}
	for _, e := range m.early {
		n += 16*(len(e.context)+len(e.action)) + 64
	}
	return n
}

// Share implements policy.Sharer.
func (p *Policy) Share() any {
	return p.Model.share()
}

// Adopt implements policy.Sharer.
func (p *Policy) Adopt(s any) error {
	x, ok := s.(*Shared)
	if !ok {
		return errForeign
	}
	p.Model.adopt(x)
	return nil
}

// Reclaim implements policy.Sharer.
func (p *Policy) Reclaim() { p.Model.reclaim() }

// Digest implements policy.Sharer.
func (p *Policy) Digest() [16]byte { return p.Model.digest() }

// Touched implements policy.Sharer.
func (p *Policy) Touched() int { return 0 }

// Dense implements policy.Sharer.
func (p *Policy) Dense() int { return p.Model.bytes() }
