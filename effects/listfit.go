package effects

import (
	"math"
	"slices"

	"troupe/internal/linalg"
	"troupe/internal/logs"
)

// The constants of a model of lists; docs/design/lists.md says what was tried.
const (
	listSketch   = 1024 // places of the first sketch: ids of the catalogue of a list must not displace one another
	listStrength = 3.   // weight of the first guess of a variance, in coefficients
	listRounds   = 3    // of an estimate
	listGrowth   = 1.2  // of the events between two estimates,
	lateGrowth   = 1.4  // from lateEvents on
	lateEvents   = 2000
	guessEvents  = 40    // up to so many, each estimate begins with the first guesses
	scaleSpread  = .1    // prior variance of an examination
	mostScale    = 10.   // the largest one
	noiseEvents  = 10.   // weight of the noise of all places in that of one
	leastPlace   = 1e-4  // a place's noise is at least so much of the variance of the rewards
	gateOpens    = 3.    // nats with which the gate opens,
	gateShuts    = 1.    // and below which it shuts
	shutShare    = 1e-7  // variance behind the gate while it is shut, of that of the rewards
	listScale    = .4    // of the deviation that a draw has
	listWiden    = 1.    // the prior that plays is so many times as wide as what was estimated
	listJitter   = 1e-10 // of the mean variance, on the diagonal
)

// gateShares are the variances that are tried behind the gate, of that of the rewards.
var gateShares = [...]float64{.001, .004, .016, .06}

// assemble makes the sums of a block from those of its places:
//
//	A = Σ_s w_s T_s A_s T_s,  b = Σ_s w_s T_s v_s,  w_s = σ²/σ_s²,  T_s = diag(e_s on φ, 1 on ψ).
func (m *Model) assemble(b *block, l *scales, s2 float64) {
	d := len(b.b)
	clear(b.a)
	clear(b.b)
	b.n, b.sy, b.syy = 0, 0, 0
	free := m.unscaled(d)
	for c, p := range b.placed {
		if p == nil {
			continue
		}
		w, e := s2/l.s2[c], l.e[c]
		b.n, b.sy, b.syy = b.n+p.n, b.sy+p.sy, b.syy+float64(w*p.syy)
		for i := range min(d, len(p.v)) {
			by := float64(w * e)
			if free[i] {
				by = w
			}
			b.b[i] += float64(by * p.v[i])
			to, from := b.a[triangle(i):][:i+1], p.a[triangle(i):][:i+1]
			all := float64(by * e)
			for j, x := range from {
				if x == 0 {
					continue
				}
				if free[j] {
					to[j] += float64(by * x)
				} else {
					to[j] += float64(all * x)
				}
			}
		}
	}
}

// unscaled says of each coordinate whether it is one of ψ.
func (m *Model) unscaled(d int) []bool {
	s := &m.solver
	s.free = s.free[:0]
	for _, c := range m.s.lay.coords[:d] {
		s.free = append(s.free, m.s.lay.groups[c.group].unscaled())
	}
	return s.free
}

// fitLists estimates the variances of groups, the examination and the noise of places, and whether item × position plays,
// and computes the posteriors anew. With θ̂, P under these, in each of listRounds rounds:
//
//	τ_g = (Σ_j θ̂_j² + a t_g)/(Σ_j (1 − P_jj/τ_g) + a)
//	σ_s² = (Σy² − 2θ̂ᵀT_s v_s + θ̂ᵀT_s A_s T_s θ̂ + tr(T_s A_s T_s P) + 10σ²)/(n_s + 10), σ² the same over all places
//	e_s = (v_sᵀθ̂_φ − θ̂_φᵀA_sθ̂_ψ − tr(A_s^φψ P^ψφ) + κe⁰)/(θ̂_φᵀA_sθ̂_φ + tr(A_s^φφ P^φφ) + κ), κ = σ_s²/scaleSpread, in [0, 10]
func (m *Model) fitLists() {
	b := m.s.main.blocks[0]
	var n, sy, syy float64
	for _, p := range b.placed {
		if p != nil {
			n, sy, syy = n+p.n, sy+p.sy, syy+p.syy
		}
	}
	mean := sy / n
	variance := syy/n - float64(mean*mean)
	if !(variance > 1e-300) || !(variance > 1e-14*float64(mean*mean)) {
		return
	}
	b = m.s.main.own(0)
	f := &listFit{m: m, b: b, mean: mean, variance: variance, l: *m.s.h.lists, s2: m.s.h.s2}
	f.begin(n)
	for range listRounds {
		f.round()
	}
	f.deviations()
	f.gate()
	f.end()
}

// listFit is an estimate of a model of lists.
type listFit struct {
	m              *Model
	b              *block
	l              scales
	mean, variance float64
	s2             float64
	tau, guess     []float64
	one            int32 // the group of the constant
	p, w           []float64
}

func (f *listFit) begin(n float64) {
	m := f.m
	f.one = m.s.lay.coords[0].group
	for i, g := range m.s.lay.groups {
		f.guess = append(f.guess, g.listBase()*f.variance)
		f.tau = append(f.tau, within(m.s.h.tau[i], shutShare, f.variance))
		f.l.any = f.l.any || g.gated()
	}
	f.guess[f.one] = max(float64(f.mean*f.mean), f.variance)
	f.tau[f.one] = max(f.tau[f.one], float64(f.mean*f.mean))
	f.s2 = within(f.s2, leastPlace, f.variance)
	for c := range f.l.s2 {
		f.l.s2[c] = within(f.l.s2[c], leastPlace, f.variance)
	}
	if n <= guessEvents || !m.s.h.known() {
		copy(f.tau, f.guess)
		f.s2 = f.variance
		for c := range f.l.s2 {
			f.l.s2[c] = f.variance
		}
	}
	f.shut(f.tau)
	f.b.grow(&m.s.h, m.s.lay.coords)
}

// shut takes away what is behind the gate while it is shut.
func (f *listFit) shut(tau []float64) {
	if f.l.open {
		return
	}
	f.behind(tau, shutShare)
}

func (f *listFit) behind(tau []float64, share float64) {
	for i, g := range f.m.s.lay.groups {
		if g.gated() {
			tau[i] = share * f.variance
		}
	}
}

// solve computes the posterior under some variances: the factor of its precision on the live coordinates, and means.
func (f *listFit) solve(tau []float64) []float64 {
	m := f.m
	m.assemble(f.b, &f.l, f.s2)
	m.solver.factor(f.b, f.s2, func(j int) float64 { return tau[m.s.lay.coords[j].group] })
	w, _ := m.solver.means(f.b, 0, f.s2)
	return w
}

func (f *listFit) round() {
	m, s := f.m, &f.m.solver
	w := f.solve(f.tau)
	s.invert()
	f.p = s.covariance(f.p)
	size, free := make([]float64, len(f.tau)), make([]float64, len(f.tau))
	for i, j := range s.live {
		g := m.s.lay.coords[j].group
		size[g] += float64(w[i] * w[i])
		free[g] += 1 - f.p[triangle(i)+i]/f.tau[g]
	}
	for g := range f.tau {
		t := (size[g] + float64(listStrength*f.guess[g])) / (max(free[g], 0) + listStrength)
		f.tau[g] = max(t, 1e-8*f.variance)
	}
	f.tau[f.one] = max(f.tau[f.one], float64(f.mean*f.mean))
	f.shut(f.tau)
	f.places(w)
	f.w = w
}

// deviations computes the precision of each examination with the coefficients unknown too, by the curvature of the log posterior at the estimate:
// with h_s = T_s A_s θ̂_φ/σ_s², the precision of all e together is
//
//	M_st = 1{s = t} θ̂_φᵀA_sθ̂_φ/σ_s² − h_sᵀPh_t + that of the priors,
//
// and that of e_s is 1/(M⁻¹)_ss. It costs D² for each place.
func (f *listFit) deviations() {
	live, s2 := f.m.solver.live, &f.l.s2
	free := f.m.unscaled(len(f.b.b))
	var at []int // places with rewards whose e is not fixed
	for c, p := range f.b.placed {
		if f.l.prec[c] = 1 / scaleSpread; c > 0 && p != nil && p.n > 0 {
			at = append(at, c)
		}
	}
	n, d := len(at), len(live)
	h, ph := make([]float64, n*d), make([]float64, n*d)
	m := make([]float64, triangle(n))
	for x, c := range at {
		p, row := f.b.placed[c], h[x*d:(x+1)*d]
		for i, j := range live {
			if j >= len(p.v) {
				break
			}
			a := p.a[triangle(j):][:j+1]
			for k, l := range live[:i+1] {
				if !free[l] {
					row[i] += float64(a[l] * f.w[k])
				}
				if k < i && !free[j] {
					row[k] += float64(a[l] * f.w[i])
				}
			}
		}
		for i, j := range live {
			if !free[j] {
				m[triangle(x)+x] += float64(f.w[i]*row[i]) / s2[c]
				row[i] *= f.l.e[c]
			}
			row[i] /= s2[c]
		}
		for i := range d {
			for k := range i + 1 {
				q := f.p[triangle(i)+k]
				ph[x*d+i] += float64(q * row[k])
				if k < i {
					ph[x*d+k] += float64(q * row[i])
				}
			}
		}
		m[triangle(x)+x] += 1 / scaleSpread
	}
	for x, c := range at {
		for y := range x + 1 {
			m[triangle(x)+y] -= linalg.Dot(h[x*d:(x+1)*d], ph[y*d:(y+1)*d])
			if at[y] == c-classes { // the prior mean of e below a reward is e
				m[triangle(x)+y] -= 1 / scaleSpread
				m[triangle(y)+y] += 1 / scaleSpread
			}
		}
	}
	trace := 0.
	for x := range n {
		m[triangle(x)+x] = max(m[triangle(x)+x], 1/scaleSpread)
		trace += m[triangle(x)+x]
	}
	cholesky(m, n, float64(1e-9*trace)/float64(max(1, n)))
	u := make([]float64, n)
	for x, c := range at { // the squared length of column x of L⁻¹ is (M⁻¹)_xx
		clear(u)
		v := 0.
		for y := x; y < n; y++ {
			sum := 0.
			if y == x {
				sum = 1
			}
			sum -= linalg.Dot(m[triangle(y)+x:triangle(y)+y], u[x:y])
			u[y] = sum / m[triangle(y)+y]
			v += float64(u[y] * u[y])
		}
		f.l.prec[c] = 1 / v
	}
}

// places estimates noise and examination of the places.
func (f *listFit) places(w []float64) {
	live := f.m.solver.live
	free := f.m.unscaled(len(f.b.b))
	var rss, n float64
	var left [places]float64
	type moments struct{ vFi, vPsi, aa, ab, bb float64 }
	var of [places]moments
	for c, p := range f.b.placed {
		if p == nil || p.n == 0 {
			continue
		}
		var x moments
		for i, j := range live {
			if j >= len(p.v) {
				break
			}
			v := float64(p.v[j] * w[i])
			if free[j] {
				x.vPsi += v
			} else {
				x.vFi += v
			}
			row, cov := p.a[triangle(j):][:j+1], f.p[triangle(i):][:i+1]
			for k, at := range live[:i+1] {
				a := row[at]
				if a == 0 {
					continue
				}
				t := float64(a * (float64(w[i]*w[k]) + cov[k]))
				if k < i {
					t += t
				}
				switch {
				case free[j] && free[at]:
					x.bb += t
				case free[j] || free[at]:
					x.ab += float64(t / 2) // once for each pair of φ and ψ
				default:
					x.aa += t
				}
			}
		}
		of[c] = x
		e := f.l.e[c]
		left[c] = max(0, p.rest-float64(2*(float64(e*x.vFi)+x.vPsi))+float64(float64(e*e)*x.aa)+float64(2*float64(e*x.ab))+x.bb)
		rss, n = rss+left[c], n+p.n
	}
	f.s2 = max(rss/n, leastPlace*f.variance)
	for c, p := range f.b.placed {
		if p == nil || p.n == 0 {
			f.l.s2[c], f.l.e[c] = f.s2, f.prior(c)
			f.l.n[c] = 0
			continue
		}
		f.l.n[c] = p.n
		f.l.s2[c] = max((left[c]+float64(noiseEvents*f.s2))/(p.n+noiseEvents), leastPlace*f.variance)
		kappa := f.l.s2[c] / scaleSpread
		if c > 0 {
			e := (of[c].vFi - of[c].ab + float64(kappa*f.prior(c))) / (of[c].aa + kappa)
			f.l.e[c] = min(max(e, 0), mostScale)
		}
	}
}

// prior is the prior mean of the examination of a place.
func (f *listFit) prior(c int) float64 {
	if c > classes {
		return f.l.e[c-classes]
	}
	return 1
}

// evidence is the log evidence of the sums under some variances, up to a constant:
//
//	½ θ̂ᵀb/σ² + ½ log det P − ½ Σ_j log τ_j.
func (f *listFit) evidence(tau []float64) float64 {
	s := &f.m.solver
	w := f.solve(tau)
	var x, det float64
	for i, j := range s.live {
		x += float64(w[i] * f.b.b[j])
		det -= logs.Log(s.row(s.u, i)[0]) + float64(.5*logs.Log(tau[f.m.s.lay.coords[j].group]))
	}
	return float64(.5*x/f.s2) + det
}

// gate opens what is behind the gate where the evidence for it pays, and shuts it where that does so no more.
func (f *listFit) gate() {
	if !f.l.any {
		return
	}
	at := func(share float64) []float64 {
		t := slices.Clone(f.tau)
		f.behind(t, share)
		return t
	}
	shut := at(shutShare)
	base := f.evidence(shut)
	best, gain := f.tau, f.evidence(f.tau)-base
	if !f.l.open {
		gain = math.Inf(-1)
		for _, share := range gateShares {
			t := at(share)
			if g := f.evidence(t) - base; g > gain {
				best, gain = t, g
			}
		}
	}
	f.l.gain = gain
	if f.l.open = gain > gateOpens || f.l.open && gain > gateShuts; f.l.open {
		f.tau = best
	} else {
		f.tau = shut
	}
}

// end makes the estimate that of the model.
func (f *listFit) end() {
	m := f.m
	m.s.h.mean, m.s.h.variance, m.s.h.s2, m.s.h.tau = 0, f.variance, f.s2, f.tau
	l := f.l
	m.s.h.lists = &l
	for i := range len(m.s.copies) + 1 {
		s := m.copyAt(i)
		if len(s.blocks) == 0 || s.blocks[0] == nil {
			continue
		}
		b := s.own(0)
		b.grow(&m.s.h, m.s.lay.coords)
		m.assemble(b, &l, f.s2)
		m.solver.into(b, &m.s.h, m.s.lay.coords)
		b.digest()
	}
}

// covariance stores the lower triangle of P = XXᵀ on the live coordinates.
func (s *solver) covariance(dst []float64) []float64 {
	d := len(s.live)
	dst = resize(dst, triangle(d))
	for i := range d {
		x := s.row(s.x, i)
		row := dst[triangle(i):]
		for k := range i + 1 {
			row[k] = linalg.Dot(x, s.row(s.x, k)[i-k:])
		}
	}
	return dst
}
