package effects

import (
	"math"
	"slices"

	"troupe/internal/linalg"
	"troupe/rng"
)

// curve is an action with the cells of its knobs, which are candidates that follow one another and differ in their knobs
// only. For each draw it has one curve over the cells, v(u) = Σ_i w_i h_i(u) with h_0 = 1 and the waves h_1, h_2, …, and
// w ~ N(mean, c²S). Coefficient w_i is the sum of what the model has for wave i in this request, ⟨b_i, θ⟩, so the mean is
// ⟨b_i, m⟩ and S_ik = b_iᵀPb_k.
//
// P takes the variances of the groups and of the noise for known. They are estimated from the n events that D coordinates were fitted to,
// so c is √(1 + D/(n + 1)) times the scale of a draw (law.go), and at most 1: with few events a draw is one of the whole
// posterior.
type curve struct {
	at     [][]int32   // b_i: coordinates
	x      [][]float64 // and their values
	tail   [][]loose   // and values without a coordinate
	beyond []float64   // variance of what no state has seen
	wider  float64     // √(1 + D/(n + 1))
	mean   []float64
	s      []float64 // S, and then its Cholesky factor, R×R
	full   []float64
	rows   []float64 // h, a row for each cell
	normal []float64 // R×64
	w      []float64 // R×64
	v      []float64 // 64 of one cell
}

func (c *curve) reset(r int) {
	grow := func(n int) {
		for len(c.at) < n {
			c.at, c.x, c.tail = append(c.at, nil), append(c.x, nil), append(c.tail, nil)
		}
	}
	grow(r)
	for i := range r {
		c.at[i], c.x[i], c.tail[i] = c.at[i][:0], c.x[i][:0], c.tail[i][:0]
	}
	c.beyond = append(c.beyond[:0], make([]float64, r)...)
}

// curvesOf reads b_i of the action that was read last.
func (m *Model) curveOf(c *curve, id uint64) (r int) {
	rd, l, x := &m.reading, &m.s.lay, &m.find
	r = 1 + len(rd.waves)
	c.reset(r)
	c.at[0] = append(c.at[0], rd.vector.at...)
	c.x[0] = append(c.x[0], rd.vector.x...)
	c.tail[0] = append(c.tail[0], rd.vector.tail...)
	if r == 1 {
		return r
	}
	rd.eachWave(l, mix2(id, 4), id != noID, func(w int, key uint64, g group, v float64) {
		i := w + 1
		if j, ok := x.coords[key]; ok && int(j) < len(l.coords) {
			c.at[i], c.x[i] = append(c.at[i], j), append(c.x[i], v)
			return
		}
		if at, ok := x.groups[g]; ok && int(at) < len(l.groups) {
			if g.octave() < 2 || g.kind <= ofWavePairs {
				c.tail[i] = append(c.tail[i], loose{key, at, v, false})
			}
			return
		}
		if g.kind <= ofWavePairs {
			c.beyond[i] += float64(float64(v*v) * widen * m.s.h.first(g))
		}
	})
	return r
}

// moments computes mean and S of a copy of the model, block k.
func (m *Model) moments(c *curve, s *sums, k int32, r int) {
	p := &posterior{mean: m.s.h.mean, s2: m.s.h.s2}
	n := 0.
	if k >= 0 && int(k) < len(s.blocks) && s.blocks[k] != nil {
		p, n = &s.blocks[k].post, s.blocks[k].n
	}
	d := int32(p.dim())
	c.wider = math.Sqrt(1 + float64(d)/(n+1))
	c.mean, c.s = resize(c.mean, r), resize(c.s, r*r)
	prior := func(j int32) float64 { return m.s.h.prior(m.s.lay.coords[j].group) }
	for i := range r {
		z, q := 0., c.beyond[i]
		for n, j := range c.at[i] {
			if j < d {
				z += float64(c.x[i][n] * p.m[j])
			} else {
				q += float64(float64(c.x[i][n]*c.x[i][n]) * prior(j))
			}
		}
		if len(c.tail[i]) > 0 {
			v := vector{tail: c.tail[i]}
			tz, tq := tailEstimate(&s.tail, k, &v, &m.s.h, p.s2)
			z, q = z+tz, q+tq
		}
		c.mean[i] = z
		c.s[i*r+i] = q
	}
	c.mean[0] += p.mean
	c.full = resize(c.full, int(d))
	for i := range r { // Pb_i, and its products with b_k
		clear(c.full)
		any := false
		for n, j := range c.at[i] {
			if j >= d {
				continue
			}
			any = true
			row := p.p[triangle(int(j)):][: j+1 : j+1]
			linalg.Axpy(c.x[i][n], row, c.full[:j+1])
			for l := j + 1; l < d; l++ {
				c.full[l] += float64(c.x[i][n] * p.p[triangle(int(l))+int(j)])
			}
		}
		for k := 0; k <= i; k++ {
			var q float64
			if any {
				for n, j := range c.at[k] {
					if j < d {
						q += float64(c.x[k][n] * c.full[j])
					}
				}
			}
			if k == i {
				c.s[i*r+i] += q
			} else {
				c.s[i*r+k] = q
			}
		}
	}
}

// factor replaces S by its Cholesky factor. What rounding makes negative counts as 0.
func (c *curve) factor(r int) {
	most := 0.
	for i := range r {
		most = max(most, c.s[i*r+i])
	}
	for i := range r {
		row := c.s[i*r:][:r]
		for k := 0; k < i; k++ {
			other := c.s[k*r:][:r]
			if other[k] == 0 {
				row[k] = 0
				continue
			}
			row[k] = (row[k] - linalg.Dot(row[:k], other[:k])) / other[k]
		}
		if q := row[i] - linalg.Dot(row[:i], row[:i]); q > 1e-13*most {
			row[i] = math.Sqrt(q)
		} else {
			row[i] = 0
		}
	}
}

// draw computes w of all draws by the copy that was read last: w = mean + c·L·normal.
func (c *curve) draw(r int, scale *[voters]float64, by float64) {
	c.w = resize(c.w, r*voters)
	var of [voters]float64
	for j := range of {
		of[j] = min(float64(float64(by*scale[j])*c.wider), 1)
	}
	for i := range r {
		w := c.w[i*voters:][:voters]
		clear(w)
		for k, l := range c.s[i*r:][:i+1] {
			if l != 0 {
				linalg.Axpy(l, c.normal[k*voters:][:voters], w)
			}
		}
		for j := range w {
			w[j] = c.mean[i] + float64(of[j]*w[j])
		}
	}
}

// votesOfCurves is Votes where actions have knobs. Candidates that differ in their knobs only and follow one another are
// the cells of one curve.
func (m *Model) votesOfCurves(context []Atom, actions [][]Atom, prices func(i int) float64, stream rng.Stream) {
	d, c := &m.drawing, &m.drawing.curve
	var wanted [5]bool
	for _, p := range d.pick {
		wanted[p] = true
	}
	var best [voters]float64
	for j := range d.winner {
		d.winner[j] = -1
	}
	m.reading.context(&m.s.lay, &m.find, context, nil)
	for from := 0; from < len(actions); {
		to := from + 1
		for to < len(actions) && sameButKnobs(actions[from], actions[to]) {
			to++
		}
		id := actions[from][0].Hash
		m.reading.curveAction(&m.s.lay, &m.find, id, actions[from][1:])
		r := m.curveOf(c, id)
		c.cells(&m.reading, actions[from:to], r)
		c.normal = resize(c.normal, r*voters)
		stream.Round(id).Normals(c.normal, 0)
		k := m.blockAt(id, false)
		by := scaleOf(len(c.at[0]) + len(c.tail[0]) + len(m.reading.knobs))
		for copy := range d.weights {
			if !wanted[copy] {
				continue
			}
			m.moments(c, m.copyAt(copy), k, r)
			c.factor(r)
			c.draw(r, &d.scale, by)
			c.vote(d, copy, from, to, r, prices, &best)
		}
		from = to
	}
}

// vote lets the draws of a copy compare the cells from ≤ i < to with the best so far.
func (c *curve) vote(d *drawing, copy, from, to, r int, prices func(i int) float64, best *[voters]float64) {
	c.v = resize(c.v, voters)
	for i := from; i < to; i++ {
		clear(c.v)
		h := c.rows[(i-from)*r:][:r]
		for n := range h {
			linalg.Axpy(h[n], c.w[n*voters:][:voters], c.v)
		}
		price := 0.
		if prices != nil {
			price = prices(i)
		}
		for j, v := range c.v {
			if d.pick[j] == copy && (d.winner[j] < 0 || v-price > best[j]) {
				best[j], d.winner[j] = v-price, i
			}
		}
	}
}

// cells computes the values of the waves in each cell.
func (c *curve) cells(rd *reading, actions [][]Atom, r int) {
	c.rows = resize(c.rows, len(actions)*r)
	for i, a := range actions {
		row := c.rows[i*r:][:r]
		row[0] = 1
		if r == 1 {
			continue
		}
		n := 0
		for k := range a {
			if k > 0 && a[k].played() && n < len(rd.knobs) {
				rd.knobs[n] = a[k].knob()
				n++
			}
		}
		rd.heights = heights(rd.heights, rd.knobs)
		for w := range rd.waves {
			row[w+1] = rd.waves[w].at(rd.heights)
		}
	}
}

// curveAction reads an action but its knobs' values: the vector has what does not depend on them.
func (r *reading) curveAction(l *layout, x *index, id uint64, atoms []Atom) {
	r.still = true
	r.action(l, x, id, atoms, nil)
	r.still = false
}

// sameButKnobs reports whether two actions have the same atoms but for the values of their knobs.
func sameButKnobs(a, b []Atom) bool {
	return slices.EqualFunc(a, b, func(x, y Atom) bool { return x.Hash == y.Hash && (x.Value == y.Value || x.played()) })
}
