package effects

import (
	"math"

	"troupe/internal/linalg"
)

// solver computes posteriors from sums. It is the scratch space of one goroutine.
//
// Triangles are stored by the rows of their upper half: row i, from its diagonal on, begins at at(i), so that every inner
// loop runs over neighbours.
type solver struct {
	live []int     // coordinates that some event of the block had
	u    []float64 // A/σ² + 1/τ = UᵀU on them
	x    []float64 // X = U⁻¹, so that P = XXᵀ
	m, r []float64
	diag []float64
	free []bool // see unscaled
}

// row returns row i of a triangle from its diagonal on.
func (s *solver) row(t []float64, i int) []float64 {
	d := len(s.live)
	at := i*d - i*(i-1)/2
	return t[at : at+d-i : at+d-i]
}

// factor computes the Cholesky factor of A/σ² + diag(1/τ) on the coordinates that the block has seen. prior(j) is τ of
// coordinate j.
func (s *solver) factor(b *block, s2 float64, prior func(j int) float64) {
	s.live = s.live[:0]
	for j := range b.b {
		if b.a[triangle(j)+j] > 0 {
			s.live = append(s.live, j)
		}
	}
	d := len(s.live)
	s.u = resize(s.u, triangle(d))
	by := 1 / s2
	for i, j := range s.live { // row i of A is column i of U
		from := b.a[triangle(j):]
		at := i
		for k, l := range s.live[:i+1] {
			s.u[at] = from[l] * by
			at += d - k - 1
		}
		s.u[at-(d-i-1)] += 1 / prior(j)
	}
	for i := range d {
		u := s.row(s.u, i)
		root := math.Sqrt(max(u[0], 1e-300))
		inverse := 1 / root
		u[0] = root
		for k := 1; k < len(u); k++ {
			u[k] *= inverse
		}
		for k := 1; k < len(u); k++ {
			if u[k] != 0 {
				linalg.Axpy(-u[k], u[k:], s.row(s.u, i+k))
			}
		}
	}
}

// invert computes X = U⁻¹, from its last row on.
func (s *solver) invert() {
	d := len(s.live)
	s.x = resize(s.x, triangle(d))
	clear(s.x)
	for i := d - 1; i >= 0; i-- {
		x, u := s.row(s.x, i), s.row(s.u, i)
		inverse := 1 / u[0]
		x[0] = inverse
		for k := 1; k < len(u); k++ {
			if u[k] != 0 {
				linalg.Axpy(-float64(u[k]*inverse), s.row(s.x, i+k), x[k:])
			}
		}
	}
}

// diagonal returns the diagonal of the posterior's covariance.
func (s *solver) diagonal() []float64 {
	s.diag = resize(s.diag, len(s.live))
	for i := range s.diag {
		x := s.row(s.x, i)
		s.diag[i] = linalg.Dot(x, x)
	}
	return s.diag
}

// means returns the posterior means of the live coordinates, m = P(b − ȳA₁)/σ², and the vector b − ȳA₁.
func (s *solver) means(b *block, mean, s2 float64) (m, r []float64) {
	d := len(s.live)
	s.m, s.r = resize(s.m, d), resize(s.r, d)
	for i, j := range s.live {
		s.r[i] = b.b[j] - float64(mean*b.a[triangle(j)])
	}
	copy(s.m, s.r)
	for i := range d { // Uᵀu = r
		u := s.row(s.u, i)
		s.m[i] /= u[0]
		linalg.Axpy(-s.m[i], u[1:], s.m[i+1:])
	}
	for i := d - 1; i >= 0; i-- { // Um = u
		u := s.row(s.u, i)
		s.m[i] = (s.m[i] - linalg.Dot(u[1:], s.m[i+1:])) / u[0]
	}
	for i := range s.m {
		s.m[i] /= s2
	}
	return s.m, s.r
}

// into stores the posterior of the block.
func (s *solver) into(b *block, h *hyper, coords []coord) {
	b.grow(h, coords)
	s.factor(b, h.s2, func(j int) float64 { return h.prior(coords[j].group) })
	s.invert()
	p := &b.post
	clear(p.m)
	clear(p.p)
	for j := range p.m {
		p.p[triangle(j)+j] = h.prior(coords[j].group)
	}
	for i, j := range s.live {
		row, x := p.p[triangle(j):], s.row(s.x, i)
		for k, at := range s.live[:i+1] {
			row[at] = linalg.Dot(x, s.row(s.x, k)[i-k:])
		}
	}
	if p.mean, p.s2 = h.mean, h.s2; h.known() {
		m, _ := s.means(b, h.mean, h.s2)
		for i, j := range s.live {
			p.m[j] = m[i]
		}
	}
}

// work is about how many multiply-adds a factor and its inverse take.
func work(b *block) int {
	d := 0
	for j := range b.b {
		if b.a[triangle(j)+j] > 0 {
			d++
		}
	}
	return d*d*d/3 + 8*d*d + 64
}

func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n, n+n/4)
	}
	return x[:n]
}
