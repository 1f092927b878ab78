package effects

import (
	"math"
	"slices"

	"troupe/internal/linalg"
)

// Symmetric matrices are stored by the rows of their lower triangles: row i begins at i(i+1)/2.

func triangle(d int) int { return d * (d + 1) / 2 }

// block is what one block knows: sums over its events, and the posterior that follows from them.
type block struct {
	n, sy, syy float64   // events, Σ y, Σ y²
	a          []float64 // A = Σ xxᵀ
	b          []float64 // Σ x·(y − tail)
	post       posterior
	placed     []*placed // of a model of lists: sums by place, of which a and b are made
	sum        uint64    // of the posterior, for the digest
	shared     *share    // readers have it: it is copied before it changes
}

// posterior is that of the coefficients of a block: N(m, P).
type posterior struct {
	m, p     []float64
	mean, s2 float64 // the mean of the rewards and the noise variance with which they were computed
}

func (p *posterior) dim() int { return len(p.m) }

// clone returns a block that shares nothing.
func (b *block) clone() *block {
	c := *b
	c.a, c.b = copied(b.a), copied(b.b)
	c.post.m, c.post.p = copied(b.post.m), copied(b.post.p)
	c.placed = slices.Clone(b.placed)
	c.shared = nil
	return &c
}

func copied(x []float64) []float64 { return append(make([]float64, 0, cap(x)), x...) }

// grow gives the block the coordinates of a layout.
func (b *block) grow(h *hyper, coords []coord) {
	d := len(coords)
	if b.post.dim() == d {
		return
	}
	p := &b.post
	for j := len(b.b); j < d; j++ {
		b.b = append(b.b, 0)
		b.a = append(b.a, make([]float64, j+1)...)
	}
	for j := p.dim(); j < d; j++ {
		p.m = append(p.m, 0)
		p.p = append(p.p, make([]float64, j+1)...)
		p.p[len(p.p)-1] = h.prior(coords[j].group)
	}
}

// quadratic returns xᵀPx for sparse x with ascending coordinates, where P continues with the prior on its diagonal.
func (p *posterior) quadratic(v *vector, h *hyper, coords []coord, w *scratch) float64 {
	d := int32(p.dim())
	n := len(v.at)
	var beyond float64
	for n > 0 && v.at[n-1] >= d {
		n--
		beyond += float64(float64(v.x[n]*v.x[n]) * h.prior(coords[v.at[n]].group))
	}
	at, x := v.at[:n], v.x[:n]
	var q float64
	if 4*n > int(d) { // many: whole rows
		full := w.scatter(at, x, int(d))
		for i, j := range at {
			row := p.p[triangle(int(j)):][: j+1 : j+1]
			q += float64(x[i] * (float64(2*linalg.Dot(row[:j], full[:j])) + float64(row[j]*x[i])))
		}
		w.gather(at)
		return max(q+beyond, 0)
	}
	for i, j := range at {
		row := p.p[triangle(int(j)):][: j+1 : j+1]
		var s float64
		for k := range i {
			s += float64(row[at[k]] * x[k])
		}
		q += float64(x[i] * (float64(2*s) + float64(row[j]*x[i])))
	}
	return max(q+beyond, 0)
}

// estimate returns ⟨x, m⟩.
func (p *posterior) estimate(v *vector) float64 {
	var z float64
	for i, j := range v.at {
		if int(j) < len(p.m) {
			z += float64(p.m[j] * v.x[i])
		}
	}
	return z
}

// scratch is the memory of one goroutine for vectors of a block.
type scratch struct {
	full, w []float64
}

// scatter stores a sparse vector in a dense one, until gather.
func (s *scratch) scatter(at []int32, x []float64, d int) []float64 {
	for len(s.full) < d {
		s.full = append(s.full, 0)
	}
	for i, j := range at {
		s.full[j] = x[i]
	}
	return s.full[:d]
}

// gather makes the dense vector 0 again.
func (s *scratch) gather(at []int32) {
	for _, j := range at {
		s.full[j] = 0
	}
}

// times stores Px in s.w and returns it: every row of the triangle is read once.
func (p *posterior) times(at []int32, x []float64, s *scratch) []float64 {
	d := p.dim()
	for len(s.w) < d {
		s.w = append(s.w, 0)
	}
	w := s.w[:d]
	full := s.scatter(at, x, d)
	clear(w)
	next := 0
	for i := range d {
		row := p.p[triangle(i):][: i+1 : i+1]
		w[i] += linalg.Dot(row, full[:i+1])
		if next < len(at) && int(at[next]) == i {
			linalg.Axpy(x[next], row[:i], w[:i])
			next++
		}
	}
	s.gather(at)
	return w
}

// learn moves the sums and the posterior by one event: y is its reward less what the tail expects.
func (b *block) learn(v *vector, y, full float64, known bool, s *scratch) {
	b.n++
	b.sy += full
	b.syy += float64(full * full)
	for i, j := range v.at {
		row := b.a[triangle(int(j)):]
		for k := range i + 1 {
			row[v.at[k]] += float64(v.x[i] * v.x[k])
		}
		b.b[j] += float64(v.x[i] * y)
	}
	p := &b.post
	w := p.times(v.at, v.x, s)
	var q float64
	for i, j := range v.at {
		q += float64(v.x[i] * w[j])
	}
	by := 1 / (p.s2 + max(q, 0))
	if known {
		e := y - p.mean - p.estimate(v)
		linalg.Axpy(float64(e*by), w, p.m)
	}
	for i := range w {
		linalg.Axpy(-float64(w[i]*by), w[:i+1], p.p[triangle(i):][:i+1])
	}
}

// correct changes the reward of an event that was learned, and of which so much is left.
func (b *block) correct(v *vector, was, is, weight float64, known bool, s *scratch) {
	delta := float64(weight * (is - was))
	b.sy += delta
	b.syy += float64(weight * (float64(is*is) - float64(was*was)))
	for i, j := range v.at {
		b.b[j] += float64(v.x[i] * delta)
	}
	if !known {
		return
	}
	p := &b.post
	w := p.times(v.at, v.x, s)
	linalg.Axpy(delta/p.s2, w, p.m)
}

// digest brings b.sum up to date.
func (b *block) digest() {
	h := mix(math.Float64bits(b.n)) ^ math.Float64bits(b.sy)
	for _, x := range b.post.m {
		h = (h ^ math.Float64bits(x)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	for i := range b.post.m {
		h = (h ^ math.Float64bits(b.post.p[triangle(i)+i])) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	b.sum = mix(h)
}
