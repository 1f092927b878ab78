package effects

import (
	"math"

	"troupe/internal/linalg"
)

// solver computes posteriors from sums. It is the scratch space of one goroutine.
type solver struct {
	live []int     // coordinates that some event of the block had
	l, y []float64 // the factor of A/σ² + 1/τ on them, and its inverse, transposed
	m, r []float64
	diag []float64
}

// factor computes the Cholesky factor of A/σ² + diag(1/τ) on the coordinates that the block has seen, and the inverse of
// the factor, row by row of its transpose. prior(j) is τ of coordinate j.
func (s *solver) factor(b *block, s2 float64, prior func(j int) float64) {
	s.live = s.live[:0]
	for j := range b.b {
		if b.a[triangle(j)+j] > 0 {
			s.live = append(s.live, j)
		}
	}
	d := len(s.live)
	s.l = resize(s.l, triangle(d))
	for i, j := range s.live {
		row := s.l[triangle(i):][: i+1 : i+1]
		from := b.a[triangle(j):]
		for k, at := range s.live[:i+1] {
			row[k] = from[at] / s2
		}
		row[i] += 1 / prior(j)
		for k := range i {
			other := s.l[triangle(k):][: k+1 : k+1]
			row[k] = (row[k] - linalg.Dot(row[:k], other[:k])) / other[k]
		}
		row[i] = math.Sqrt(max(row[i]-linalg.Dot(row[:i], row[:i]), 1e-300))
	}
}

// invert computes L⁻¹. Column i of it is y[i·d+i : i·d+d].
func (s *solver) invert() {
	d := len(s.live)
	s.y = resize(s.y, d*d)
	for i := range d {
		col := s.y[i*d : (i+1)*d]
		col[i] = 1 / s.l[triangle(i)+i]
		for k := i + 1; k < d; k++ {
			row := s.l[triangle(k):]
			col[k] = -linalg.Dot(row[i:k], col[i:k]) / row[k]
		}
	}
}

// diagonal returns the diagonal of the posterior's covariance.
func (s *solver) diagonal() []float64 {
	d := len(s.live)
	s.diag = resize(s.diag, d)
	for i := range d {
		col := s.y[i*d+i : (i+1)*d]
		s.diag[i] = linalg.Dot(col, col)
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
	for i := range d { // L u = r
		row := s.l[triangle(i):]
		s.m[i] = (s.r[i] - linalg.Dot(row[:i], s.m[:i])) / row[i]
	}
	for i := d - 1; i >= 0; i-- { // Lᵀ m = u
		row := s.l[triangle(i):]
		s.m[i] /= row[i]
		linalg.Axpy(-s.m[i], row[:i], s.m[:i])
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
	d := len(s.live)
	for i, j := range s.live {
		row := p.p[triangle(j):]
		for k, at := range s.live[:i+1] {
			row[at] = linalg.Dot(s.y[k*d+i:(k+1)*d], s.y[i*d+i:(i+1)*d])
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
