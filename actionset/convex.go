package actionset

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"troupe/bandit"
	"troupe/internal/linalg"
)

// Ball is the unit Euclidean ball 𝔹^d = {x : ‖x‖₂ ≤ 1}. It implements bandit.UnitBall.
type Ball struct{ d int }

// NewBall returns 𝔹^d, d ≥ 1.
func NewBall(d int) (*Ball, error) {
	if err := checkDim(d); err != nil {
		return nil, err
	}
	return &Ball{d}, nil
}

func checkDim(d int) error {
	if d < 1 {
		return fmt.Errorf("actionset: d is %d, expected at least 1", d)
	}
	return nil
}

// Dim returns d.
func (b *Ball) Dim() int { return b.d }

// IsUnitBall marks the unit ball.
func (b *Ball) IsUnitBall() {}

// Radius returns 1.
func (b *Ball) Radius() float64 { return 1 }

// ArgMax returns x = θ/‖θ‖₂ with value ‖θ‖₂, and e_1 with value 0 for θ = 0.
func (b *Ball) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	m, err := checkedMax(theta, b.d)
	if err != nil {
		return 0, err
	}
	x := grow(dst, b.d)
	if m == 0 {
		clear(x)
		x[0] = 1
		return 0, nil
	}
	s := unit(m)
	var q float64
	for i, t := range theta {
		t *= s
		x[i] = t
		q += float64(t * t)
	}
	r := math.Sqrt(q)
	linalg.Divide(x, r)
	return r / s, nil
}

// Contains reports whether x is within tol of the ball.
func (b *Ball) Contains(x []float64, tol float64) bool {
	checkPoint(x, b.d)
	return norm(x) <= 1+tol
}

// Ellipsoid is {x : xᵀM⁻¹x ≤ 1} for a symmetric positive definite M = L·Lᵀ, that is, the image
// L·𝔹^d of the unit ball.
type Ellipsoid struct {
	d      int
	l      []float64 // d×d row-major, lower triangle
	radius float64
}

// NewEllipsoid returns the ellipsoid of M, d×d. It refuses a matrix that is not square, symmetric
// (to 1e-12 of its largest entry) and positive definite. The radius is √λ_max(M).
func NewEllipsoid(m [][]float64) (*Ellipsoid, error) {
	d := len(m)
	if err := checkDim(d); err != nil {
		return nil, err
	}
	var largest float64
	for i, row := range m {
		if len(row) != d {
			return nil, fmt.Errorf("actionset: m[%d] has length %d, expected %d: the matrix is not square", i, len(row),
				d)
		}
		if err := checkVector(fmt.Sprintf("m[%d]", i), row); err != nil {
			return nil, err
		}
		largest = max(largest, maxAbs(row))
	}
	sym := mat.NewSymDense(d, nil)
	for i := range d {
		for j := range i + 1 {
			if math.Abs(m[i][j]-m[j][i]) > 1e-12*largest {
				return nil, fmt.Errorf("actionset: m[%d][%d] is %v and m[%d][%d] is %v: the matrix is not symmetric", i,
					j, m[i][j], j, i, m[j][i])
			}
			sym.SetSym(i, j, m[i][j])
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sym) || chol.Cond() > 1e14 {
		return nil, fmt.Errorf("actionset: m is not positive definite (or its condition number is beyond 1e14)")
	}
	var l mat.TriDense
	chol.LTo(&l)
	e := &Ellipsoid{d: d, l: make([]float64, d*d)}
	for i := range d {
		for j := range i + 1 {
			e.l[i*d+j] = l.At(i, j)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, false) {
		return nil, fmt.Errorf("actionset: the eigenvalues of m were not found: %w", bandit.ErrNumerical)
	}
	e.radius = math.Sqrt(eig.Values(nil)[d-1])
	return e, nil
}

// NewEllipsoidAxes returns the ellipsoid {x : Σ (x_i/axes_i)² ≤ 1}, axes_i > 0.
func NewEllipsoidAxes(axes []float64) (*Ellipsoid, error) {
	d := len(axes)
	if err := checkDim(d); err != nil {
		return nil, err
	}
	if err := checkVector("axes", axes); err != nil {
		return nil, err
	}
	e := &Ellipsoid{d: d, l: make([]float64, d*d)}
	for i, a := range axes {
		if a < 1e-100 {
			return nil, fmt.Errorf("actionset: axes[%d] is %v, expected a positive number (at least 1e-100)", i, a)
		}
		e.l[i*d+i] = a
		e.radius = max(e.radius, a)
	}
	return e, nil
}

// Dim returns d.
func (e *Ellipsoid) Dim() int { return e.d }

// Radius returns the longest half axis.
func (e *Ellipsoid) Radius() float64 { return e.radius }

// ArgMax returns x = Mθ/√(θᵀMθ), computed as L·u/‖u‖₂ with u = Lᵀθ, and value √(θᵀMθ) = ‖u‖₂. For
// u = 0 it returns L·e_1. Cost: d² multiplications.
func (e *Ellipsoid) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, e.d); err != nil {
		return 0, err
	}
	d := e.d
	u := grow(dst, d)
	clear(u)
	s := 1.0
	if m := maxAbs(theta); m > 0 {
		s = unit(m)
	}
	for i, t := range theta {
		t *= s
		for j, v := range e.l[i*d : i*d+i+1] {
			u[j] += float64(v * t)
		}
	}
	m := maxAbs(u)
	if m == 0 {
		u[0], m = 1, 1
		s = math.Inf(1) // value 0
	}
	su := unit(m)
	var q float64
	for j := range u {
		u[j] *= su
		q += float64(u[j] * u[j])
	}
	r := math.Sqrt(q)
	linalg.Divide(u, r)
	// x = L·u in place: x_i needs u_0, …, u_i, so from the last row to the first.
	for i := d - 1; i >= 0; i-- {
		u[i] = dot(e.l[i*d:i*d+i+1], u)
	}
	return r / su / s, nil
}

// Contains reports whether x is in the ellipsoid enlarged by the factor 1 + tol/(shortest entry on
// the diagonal of L), that is, ‖L⁻¹x‖₂ ≤ 1 + tol/min L_ii.
func (e *Ellipsoid) Contains(x []float64, tol float64) bool {
	checkPoint(x, e.d)
	d := e.d
	u := make([]float64, d)
	least := math.Inf(1)
	for i := range d {
		row := e.l[i*d : i*d+i+1]
		u[i] = (x[i] - dot(row[:i], u)) / row[i]
		least = min(least, row[i])
	}
	return norm(u) <= 1+tol/least
}

// Box is ∏ [lo_i, hi_i].
type Box struct {
	lo, hi []float64
	radius float64
}

// NewBox returns ∏ [lo_i, hi_i], lo_i ≤ hi_i.
func NewBox(lo, hi []float64) (*Box, error) {
	if err := checkDim(len(lo)); err != nil {
		return nil, err
	}
	if len(hi) != len(lo) {
		return nil, fmt.Errorf("actionset: hi has length %d and lo has %d", len(hi), len(lo))
	}
	if err := checkVector("lo", lo); err != nil {
		return nil, err
	}
	if err := checkVector("hi", hi); err != nil {
		return nil, err
	}
	b := &Box{lo: append([]float64(nil), lo...), hi: append([]float64(nil), hi...)}
	corner := make([]float64, len(lo))
	for i := range lo {
		if lo[i] > hi[i] {
			return nil, fmt.Errorf("actionset: lo[%d] is %v and hi[%d] is %v: the box is empty", i, lo[i], i, hi[i])
		}
		corner[i] = max(math.Abs(lo[i]), math.Abs(hi[i]))
	}
	b.radius = norm(corner)
	return b, nil
}

// NewCube returns [−c, c]^d, c ≥ 0.
func NewCube(d int, c float64) (*Box, error) {
	if err := checkDim(d); err != nil {
		return nil, err
	}
	if !(c >= 0) {
		return nil, fmt.Errorf("actionset: half width is %v, expected 0 or more", c)
	}
	lo, hi := make([]float64, d), make([]float64, d)
	for i := range d {
		lo[i], hi[i] = -c, c
	}
	return NewBox(lo, hi)
}

// Dim returns d.
func (b *Box) Dim() int { return len(b.lo) }

// Radius returns the norm of the furthest corner.
func (b *Box) Radius() float64 { return b.radius }

// ArgMax returns x_i = hi_i where θ_i ≥ 0 and lo_i where θ_i < 0.
func (b *Box) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, len(b.lo)); err != nil {
		return 0, err
	}
	x := grow(dst, len(b.lo))
	var value float64
	for i, t := range theta {
		x[i] = b.hi[i]
		if t < 0 {
			x[i] = b.lo[i]
		}
		value += float64(x[i] * t)
	}
	return value, nil
}

// Contains reports whether every x_i is within tol of its interval.
func (b *Box) Contains(x []float64, tol float64) bool {
	checkPoint(x, len(b.lo))
	for i, v := range x {
		if !(v >= b.lo[i]-tol && v <= b.hi[i]+tol) {
			return false
		}
	}
	return true
}

// Simplex is the probability simplex {x : x_i ≥ 0, Σ x_i = 1}, the convex hull of e_1, …, e_d. Its
// answers are vertices, but it is not finite: an action has no index.
type Simplex struct{ d int }

// NewSimplex returns the probability simplex in ℝᵈ, d ≥ 1.
func NewSimplex(d int) (*Simplex, error) {
	if err := checkDim(d); err != nil {
		return nil, err
	}
	return &Simplex{d}, nil
}

// Dim returns d.
func (s *Simplex) Dim() int { return s.d }

// Radius returns 1.
func (s *Simplex) Radius() float64 { return 1 }

// ArgMax returns e_k for the first k with the largest θ_k.
func (s *Simplex) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, s.d); err != nil {
		return 0, err
	}
	x := grow(dst, s.d)
	clear(x)
	k := 0
	for i, t := range theta {
		if t > theta[k] {
			k = i
		}
	}
	x[k] = 1
	return theta[k], nil
}

// Contains reports whether every x_i ≥ −tol and |Σ x_i − 1| ≤ d·tol.
func (s *Simplex) Contains(x []float64, tol float64) bool {
	checkPoint(x, s.d)
	var sum float64
	for _, v := range x {
		if !(v >= -tol) {
			return false
		}
		sum += v
	}
	return math.Abs(sum-1) <= tol*float64(s.d)
}

// L1 is the cross-polytope {x : ‖x‖₁ ≤ 1}, the convex hull of ±e_1, …, ±e_d.
type L1 struct{ d int }

// NewL1 returns the unit ball of ‖·‖₁ in ℝᵈ, d ≥ 1.
func NewL1(d int) (*L1, error) {
	if err := checkDim(d); err != nil {
		return nil, err
	}
	return &L1{d}, nil
}

// Dim returns d.
func (l *L1) Dim() int { return l.d }

// Radius returns 1.
func (l *L1) Radius() float64 { return 1 }

// ArgMax returns sign(θ_k)·e_k for the first k with the largest |θ_k|; sign(0) = 1.
func (l *L1) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, l.d); err != nil {
		return 0, err
	}
	x := grow(dst, l.d)
	clear(x)
	k := 0
	for i, t := range theta {
		if math.Abs(t) > math.Abs(theta[k]) {
			k = i
		}
	}
	x[k] = 1
	if theta[k] < 0 {
		x[k] = -1
	}
	return math.Abs(theta[k]), nil
}

// Contains reports whether ‖x‖₁ ≤ 1 + d·tol.
func (l *L1) Contains(x []float64, tol float64) bool {
	checkPoint(x, l.d)
	var sum float64
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum <= 1+float64(tol*float64(l.d))
}
