package linalg

import "math"

// Eigen is the spectral decomposition of a symmetric matrix: A = Σ w_i q_i q_iᵀ with orthonormal
// q_i. Unlike the factorisations of gonum it allocates nothing after NewEigen, which the optimistic
// choice on the ball needs in every round. Not safe for concurrent use.
type Eigen struct {
	d int
	w []float64 // eigenvalues, in no particular order
	q []float64 // d×d: row i is q_i
	a []float64 // scratch, d×d: the matrix, then the Householder vectors
	e []float64 // scratch: the subdiagonal
	p []float64 // scratch
}

// NewEigen returns room for a decomposition in dimension d. It panics unless d ≥ 1.
func NewEigen(d int) *Eigen {
	if d < 1 {
		panic("linalg: dimension must be at least 1")
	}
	return &Eigen{
		d: d, w: make([]float64, d), q: make([]float64, d*d),
		a: make([]float64, d*d), e: make([]float64, d), p: make([]float64, d),
	}
}

// Values returns the eigenvalues w_i. The slice belongs to the decomposition.
func (g *Eigen) Values() []float64 { return g.w }

// Vector returns q_i, the eigenvector of w_i. The slice belongs to the decomposition.
func (g *Eigen) Vector(i int) []float64 { return g.q[i*g.d : i*g.d+g.d] }

// Set decomposes the symmetric matrix a, given in full: Householder's reduction to tridiagonal
// form, then the QL iteration with implicit shifts (Golub & Van Loan section 8.3). The residual
// |A q_i − w_i q_i| is a few d·ε·‖A‖. It reports false when a is not finite or the iteration does
// not settle; the decomposition is then undefined. Cost about 9d³.
func (g *Eigen) Set(a []float64) bool {
	if len(a) != g.d*g.d {
		panic(badLength)
	}
	if !Finite(a) {
		return false
	}
	var top float64
	for _, v := range a {
		top = max(top, math.Abs(v))
	}
	_, exp := math.Frexp(top)
	scale := math.Ldexp(1, max(-1022, min(-exp, 1022))) // a power of two: exact
	for i, v := range a {
		g.a[i] = v * scale
	}
	g.tridiagonalise()
	if !g.iterate() {
		return false
	}
	for i := range g.w {
		g.w[i] /= scale
	}
	return true
}

// tridiagonalise, of a matrix with entries below 1, finds A = P T Pᵀ with P a product of d−2 reflections I − βvvᵀ; the
// diagonal of T goes to w, its subdiagonal to e, Pᵀ to q.
func (g *Eigen) tridiagonalise() {
	d, a := g.d, g.a
	for k := range d - 1 {
		g.w[k] = a[k*d+k]
		g.e[k] = reflect(a, d, k, g.p)
	}
	g.w[d-1] = a[d*d-1]
	g.e[d-1] = 0

	q := g.q
	clear(q)
	for i := range d {
		q[i*d+i] = 1
	}
	for k := d - 2; k >= 0; k-- {
		beta, v := a[k*d+k], a[k*d+k+1:k*d+d]
		if beta == 0 {
			continue
		}
		for i := k + 1; i < d; i++ {
			row := q[i*d+k+1 : i*d+d]
			Axpy(-beta*Dot(v, row), v, row)
		}
	}
}

// reflect is step k of the reduction of a, d×d: the reflection I − βvvᵀ sends row k beyond the diagonal
// to (alpha, 0, …, 0). v replaces that row and β the diagonal before it, 0 when there is nothing to
// reflect. It returns the entry of the subdiagonal. p is scratch of length d.
func reflect(a []float64, d, k int, p []float64) float64 {
	v := a[k*d+k+1 : k*d+d]
	n := len(v)
	size := math.Sqrt(Dot(v, v))
	alpha := -math.Copysign(size, v[0])
	if n == 1 || size < 0x1p-400 {
		a[k*d+k] = 0
		return v[0]
	}
	v[0] -= alpha
	beta := 1 / (size * (size + math.Abs(v[0]+alpha))) // 2/vᵀv
	a[k*d+k] = beta
	// B ← (I − βvvᵀ) B (I − βvvᵀ) = B − v wᵀ − w vᵀ, w = p − (β/2)(pᵀv)v, p = βBv.
	p = p[:n]
	for i := range p {
		p[i] = beta * Dot(v, a[(k+1+i)*d+k+1:])
	}
	Axpy(-beta/2*Dot(p, v), v, p)
	for i := range p {
		row := a[(k+1+i)*d+k+1 : (k+1+i)*d+d]
		vi, pi := v[i], p[i]
		for j, vj := range v {
			row[j] -= float64(vi*p[j]) + float64(pi*vj)
		}
	}
	return alpha
}

// iterate diagonalises T by rotations of neighbouring rows of q.
func (g *Eigen) iterate() bool {
	const (
		eps   = 0x1p-53
		limit = 60 // sweeps for one eigenvalue; two are usual
	)
	d, w, e := g.d, g.w, g.e
	var size float64
	for i := range d {
		size = max(size, math.Abs(w[i])+math.Abs(e[i]))
	}
	floor := eps * eps * size // a singular T has diagonals near 0, so the relative test is not enough
	for l := range d {
		for sweep := 0; ; sweep++ {
			m := l
			for m < d-1 && math.Abs(e[m]) > max(floor, eps*(math.Abs(w[m])+math.Abs(w[m+1]))) {
				m++
			}
			if m == l {
				break
			}
			if sweep == limit {
				return false
			}
			h := (w[l+1] - w[l]) / (2 * e[l])
			h = w[m] - w[l] + e[l]/(h+math.Copysign(hypot(h, 1), h))
			s, c, p := 1.0, 1.0, 0.0
			i := m - 1
			for ; i >= l; i-- {
				f, b := float64(s*e[i]), float64(c*e[i])
				r := math.Sqrt(float64(f*f) + float64(h*h))
				e[i+1] = r
				if r == 0 { // the block splits
					w[i+1] -= p
					e[m] = 0
					break
				}
				s, c = f/r, h/r
				h = w[i+1] - p
				r = float64((w[i]-h)*s) + float64(2*c*b)
				p = float64(s * r)
				w[i+1] = h + p
				h = float64(c*r) - b
				lo, hi := g.q[i*d:i*d+d], g.q[(i+1)*d:(i+1)*d+d]
				for j, x := range lo {
					y := hi[j]
					hi[j] = float64(s*x) + float64(c*y)
					lo[j] = float64(c*x) - float64(s*y)
				}
			}
			if i >= l {
				continue
			}
			w[l] -= p
			e[l] = h
			e[m] = 0
		}
	}
	return true
}
