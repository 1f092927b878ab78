package effects

import (
	"math"
	"slices"
)

func sqrt(x float64) float64 { return math.Sqrt(x) }

// fit estimates the variances of all groups and of the noise, in rounds over the blocks, and then computes the
// posteriors anew. It does a slice of that after each event.
//
// With P_k, m_k of block k under the variances τ, σ²:
//
//	γ_g = Σ_kj max(0, 1 − P_kjj/τ_g),   τ_g ← (Σ m_kj² + a t_g)/(γ_g + a), between 10⁻⁷s² and 4s²,
//	σ² ← max(10⁻³s², (RSS + 2s²)/(Σ_k max(n_k − tr(A_kP_k)/σ², .3n_k) + 2))
//
// over coordinates that block k has seen; t_g is the first guess and a its strength. It is the fixed point of
// empirical Bayes (MacKay), which goes to 0 faster than EM.
type fit struct {
	mean, variance float64
	s2             float64
	tau, guess     []float64
	size, free     []float64
	rss, dof       float64
	round          int
	block          int   // the next one
	solving        []int // copies whose blocks are computed anew, 0 for the model itself
	budget         int   // work after each event
	shared         *share
}

// clone returns a copy that shares nothing that changes.
func (f *fit) clone() *fit {
	c := *f
	c.tau, c.size, c.free = slices.Clone(f.tau), slices.Clone(f.size), slices.Clone(f.free)
	c.shared = nil
	return &c
}

// estimates begins an estimate when the number of events has grown by a quarter, and goes on with one that is under
// way.
func (m *Model) estimates() {
	if m.s.h.lists != nil {
		if m.s.n >= m.s.next {
			by := listGrowth
			if m.s.n >= lateEvents {
				by = lateGrowth
			}
			m.s.next = uint64(float64(m.s.n)*by) + 1
			m.fitLists()
		}
		return
	}
	if m.s.fit == nil && m.s.n >= m.s.next {
		m.s.next = uint64(float64(m.s.n)*growth) + 1
		m.s.fit = m.beginFit()
	}
	if m.s.fit == nil {
		return
	}
	for left := m.s.fit.budget; left > 0 && m.s.fit != nil; {
		left -= m.step()
	}
}

// beginFit returns an estimate, nil while all rewards are equal.
func (m *Model) beginFit() *fit {
	var n, sy, syy float64
	total := 0
	for _, b := range m.s.main.blocks {
		if b != nil {
			n, sy, syy = n+b.n, sy+b.sy, syy+b.syy
			total += work(b)
		}
	}
	mean := sy / n
	variance := syy/n - float64(mean*mean)
	if !(variance > float64(1e-20*float64(m.s.offset*m.s.offset))+1e-300) || !(variance > 1e-14*float64(mean*mean)) {
		return nil
	}
	variance *= (n + 1) / n
	f := &fit{mean: mean, variance: variance, s2: within(m.s.h.s2, leastNoise, variance), size: make([]float64, len(m.s.h.tau)),
		free: make([]float64, len(m.s.h.tau))}
	h := hyper{variance: variance}
	for i, g := range m.s.lay.groups {
		f.guess = append(f.guess, h.first(g))
		f.tau = append(f.tau, within(m.s.h.tau[i], leastShare, variance))
	}
	if !m.s.h.known() {
		f.s2, f.tau = variance, append([]float64(nil), f.guess...)
	}
	total *= rounds + 2 + len(m.s.copies)
	f.budget = max(40_000, 11*total/10/int(max(1, m.s.next-m.s.n)))
	return f
}

// within returns the nearest number to v from least to mostShare times the variance of the rewards. What the last estimate
// found is from when the rewards may have varied by many orders of magnitude less or more: a noise that is too small for
// the variances of the groups makes the precision singular.
func within(v, least, variance float64) float64 {
	return min(max(v, least*variance), mostShare*variance)
}

// step does the next slice, one block of one round, and returns its work.
func (m *Model) step() int {
	if m.s.fit.shared != nil {
		m.s.fit = m.s.fit.clone()
	}
	f := m.s.fit
	if f.round == rounds {
		return m.solveNext()
	}
	for f.block < len(m.s.main.blocks) {
		b := m.s.main.blocks[f.block]
		f.block++
		if b == nil || b.n == 0 {
			continue
		}
		m.countBlock(f, b)
		return work(b)
	}
	m.countTail(f)
	f.s2 = max((f.rss+2*f.variance)/(f.dof+2), leastNoise*f.variance)
	for g := range f.tau {
		t := (f.size[g] + float64(strength*f.guess[g])) / (f.free[g] + strength)
		f.tau[g] = within(t, leastShare, f.variance)
	}
	clear(f.size)
	clear(f.free)
	f.rss, f.dof, f.block = 0, 0, 0
	if f.round++; f.round == rounds {
		m.s.h.mean, m.s.h.variance, m.s.h.s2 = f.mean, f.variance, f.s2
		tau := append([]float64(nil), f.tau...)
		for _, g := range m.s.lay.groups[len(tau):] {
			tau = append(tau, m.s.h.first(g))
		}
		m.s.h.tau = tau
		f.solving = nil
		for i := range len(m.s.copies) + 1 {
			f.solving = append(f.solving, i)
		}
	}
	return 1000
}

// countBlock adds a block to a round.
func (m *Model) countBlock(f *fit, b *block) {
	s := &m.solver
	tau := func(j int) float64 {
		if g := m.s.lay.coords[j].group; int(g) < len(f.tau) {
			return f.tau[g]
		}
		return m.s.h.tau[m.s.lay.coords[j].group]
	}
	s.factor(b, f.s2, tau)
	s.invert()
	diag := s.diagonal()
	w, r := s.means(b, f.mean, f.s2)
	rss := b.syy - float64(2*f.mean*b.sy) + float64(b.n*float64(f.mean*f.mean))
	lost := float64(len(s.live))
	for i, j := range s.live {
		t := tau(j)
		share := diag[i] / t
		lost -= share
		rss -= float64(w[i]*r[i]) + float64(f.s2*float64(w[i]*w[i])/t)
		if g := m.s.lay.coords[j].group; int(g) < len(f.tau) {
			f.size[g] += float64(w[i] * w[i])
			f.free[g] += max(1-share, 0)
		}
	}
	f.rss += max(rss, 0)
	f.dof += max(b.n-lost, .3*b.n)
}

// countTail adds the tail to a round.
func (m *Model) countTail(f *fit) {
	for _, p := range m.s.main.tail.pages {
		for i := range p.cells {
			c := &p.cells[i]
			if c.key == 0 || c.n == 0 || int(c.group) >= len(f.tau) {
				continue
			}
			t := f.tau[c.group]
			d := c.n + f.s2/t
			w := c.r / d
			f.size[c.group] += float64(w * w)
			f.free[c.group] += max(1-f.s2/d/t, 0)
			f.rss -= float64(w * (2*c.r - float64(c.n*w)))
			f.dof -= c.n / d
		}
	}
	f.rss = max(f.rss, 0)
}

// copyAt returns the model's own sums, or those of a copy from 1 on.
func (m *Model) copyAt(i int) *sums {
	if i == 0 {
		return m.s.main
	}
	return m.s.copies[i-1]
}

// solveNext computes the posterior of the next block.
func (m *Model) solveNext() int {
	f := m.s.fit
	for len(f.solving) > 0 {
		if f.solving[0] > len(m.s.copies) {
			break
		}
		s := m.copyAt(f.solving[0])
		for f.block < len(s.blocks) {
			b := s.blocks[f.block]
			f.block++
			if b == nil || b.n == 0 {
				continue
			}
			b = s.own(f.block - 1)
			m.solver.into(b, &m.s.h, m.s.lay.coords)
			b.digest()
			return work(b) * 3 / 2
		}
		f.solving, f.block = f.solving[1:], 0
	}
	m.s.fit = nil
	return 0
}
