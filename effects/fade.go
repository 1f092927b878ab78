package effects

import (
	"math"

	"troupe/internal/logs"
)

// Options of a model.
type Options struct {
	Still    bool    // the world does not change: no copies begin anew
	HalfLife float64 // after so many units of the clock an event counts half; 0: never
	Timed    bool    // the clock has seconds, see Tick; otherwise it counts events
}

// clock is how far the time has come by which a model forgets.
type clock struct {
	now   float64
	faded float64 // until when the sums have faded
	back  uint64  // times that were before an earlier one
}

// fadeLag is of a half-life: sums that are younger do not fade yet.
const fadeLag = 1. / 16

// Tick moves the clock of a model that forgets by time, in ns since 1970; 0 is not known. A time before an earlier one
// is counted, and moves nothing.
func (m *Model) Tick(at int64) {
	if !m.options.Timed || at <= 0 {
		return
	}
	t := float64(at) / 1e9
	switch {
	case m.s.clock.now == 0:
		m.s.clock.now, m.s.clock.faded = t, t
	case t < m.s.clock.now:
		m.s.clock.back++
	default:
		m.s.clock.now = t
	}
}

// SteppedBack returns how often a time was before an earlier one.
func (m *Model) SteppedBack() uint64 { return m.s.clock.back }

// forget lets all sums fade, once they are old enough, and begins an estimate from what is left: A, b, n and Σy, Σy²
// count 2^(−age/half-life) times, and the priors stay. So what is not played becomes as uncertain as at first.
func (m *Model) forget() {
	if m.options.HalfLife == 0 {
		return
	}
	if !m.options.Timed {
		m.s.clock.now++
	}
	age := m.s.clock.now - m.s.clock.faded
	if age < fadeLag*m.options.HalfLife || m.s.fit != nil {
		return
	}
	m.s.clock.faded = m.s.clock.now
	g := logs.Exp(-float64(math.Ln2 * float64(age/m.options.HalfLife)))
	for i := range len(m.s.copies) + 1 {
		m.copyAt(i).fade(g)
	}
	m.s.extremes.fade(g)
	m.s.next = m.s.n
}

func (s *sums) fade(g float64) {
	for k, b := range s.blocks {
		if b == nil {
			continue
		}
		b = s.own(k)
		b.n, b.sy, b.syy = b.n*g, b.sy*g, b.syy*g
		for i := range b.a {
			b.a[i] *= g
		}
		for i := range b.b {
			b.b[i] *= g
		}
		for c, p := range b.placed {
			if p != nil {
				b.ownPlace(c).fade(g)
			}
		}
		b.digest()
	}
	for at, p := range s.tail.pages {
		if p.shared != nil {
			c := *p
			c.shared = nil
			p = &c
			s.tail.pages[at] = p
		}
		for i := range p.cells {
			c := &p.cells[i]
			s.tail.sum -= c.digest()
			c.n, c.r = c.n*g, c.r*g
			s.tail.sum += c.digest()
		}
	}
}

// fade lets what a correction of the extremes changes fade with the sums.
func (x *extremes) fade(g float64) {
	for _, list := range []*[]record{&x.top, &x.low} {
		faded := append([]record(nil), *list...)
		for i := range faded {
			faded[i].weight *= g
		}
		*list = faded
	}
}

func (p *placed) fade(g float64) {
	p.n, p.sy, p.syy, p.rest = p.n*g, p.sy*g, p.syy*g, p.rest*g
	for i := range p.a {
		p.a[i] *= g
	}
	for i := range p.v {
		p.v[i] *= g
	}
}
