package linalg

import (
	"math"

	"troupe/internal/logs"
)

// Root is the state of a ridge regression in square-root form: instead of V_t = λI + Σ x_i x_iᵀ and
// b_t = Σ y_i x_i it keeps the Cholesky factor L of V_t = LLᵀ and z = L⁻¹b_t, d(d+1)/2 + d numbers
// that rank-one updates turn by Givens rotations. That is recursive least squares by QR: the
// rounding errors are those of a factorisation of the data (√λI; x_1ᵀ; …; x_tᵀ), whose condition
// number is the square root of V's, so V is never formed and the factor never has to be refreshed
// from it (TestRootDrift). Two states that saw the same updates in the same order agree bit for
// bit, and so do one that was saved, restored and continued and one that never stopped.
//
// Ridge keeps V⁻¹ as well, for callers that solve many systems in a round; Root is for callers
// that need a square root of V⁻¹. Not safe for concurrent use.
type Root struct {
	d      int
	lambda float64
	n      uint64
	f      *Factor
	z      []float64 // L⁻¹b
	theta  []float64 // L⁻ᵀz, a function of the state
	logDet float64   // likewise

	gram []float64 // scratch of Forget
	old  *Factor
}

// NewRoot returns the state before the first update. It panics unless d ≥ 1 and λ > 0 is finite.
func NewRoot(d int, lambda float64) *Root {
	if !(lambda > 0) || math.IsInf(lambda, 0) {
		panic("linalg: lambda must be positive and finite")
	}
	return &Root{d: d, lambda: lambda, f: NewBlockFactor(d, lambda), z: make([]float64, d), theta: make([]float64, d)}
}

// Dim returns d.
func (r *Root) Dim() int { return r.d }

// Lambda returns λ.
func (r *Root) Lambda() float64 { return r.lambda }

// Len returns the number of updates t.
func (r *Root) Len() uint64 { return r.n }

// LogDetRatio returns log(det V_t / λ^d) ≥ 0.
func (r *Root) LogDetRatio() float64 { return r.logDet }

// Theta returns θ̂_t = V_t⁻¹b_t. The slice belongs to the state.
func (r *Root) Theta() []float64 { return r.theta }

// L returns the Cholesky factor of V_t, d×d, lower triangle. The slice belongs to the state.
func (r *Root) L() []float64 { return r.f.L() }

// Factor returns L. It belongs to the state and must not be changed.
func (r *Root) Factor() *Factor { return r.f }

// rootLimit bounds ‖x‖² and y²: 2⁵³ updates below it cannot overflow.
const rootLimit = 0x1p900

// Update performs V ← V + xxᵀ, b ← b + yx. It reports false, and leaves the state as it was, when x
// or y is not finite or so large that squares could overflow (beyond 2⁴⁵⁰). Cost 4d².
func (r *Root) Update(x []float64, y float64) bool {
	_, ok := r.UpdateResidual(x, y)
	return ok
}

// UpdateResidual is Update and returns the growth (y − ⟨x, θ̂⟩)²/(1 + xᵀV⁻¹x) of the residual sum of
// squares min_θ Σ(y − ⟨x, θ⟩)² + λ‖θ‖², V and θ̂ before the update. It is a square, so that the sum
// never falls, at no cost beside Update's.
func (r *Root) UpdateResidual(x []float64, y float64) (growth float64, ok bool) {
	if len(x) != r.d {
		panic(badLength)
	}
	if !(Dot(x, x)+float64(y*y) <= rootLimit) {
		return 0, false
	}
	e := r.f.UpdateWith(x, r.z, y)
	r.n++
	r.deriveFor(x)
	return float64(e * e), true
}

// Explained returns b_tᵀV_t⁻¹b_t = ‖L⁻¹b_t‖²: Σy² less the residual sum of squares.
func (r *Root) Explained() float64 { return Dot(r.z, r.z) }

// Forget performs V ← γV + (1 − γ)λI + xxᵀ, b ← γb + yx, 0 < γ ≤ 1: the regression in which an event counts γ
// times less with each later one, and λI stays. It reports false, and leaves the state as it was, where Update
// does or where V is not positive definite to working precision. Cost d³.
func (r *Root) Forget(gamma float64, x []float64, y float64) bool {
	if len(x) != r.d {
		panic(badLength)
	}
	if !(Dot(x, x)+float64(y*y) <= rootLimit) || !r.fade(gamma) {
		return false
	}
	r.f.UpdateWith(x, r.z, y)
	r.n++
	r.derive()
	return true
}

// Fade performs V ← γV + (1 − γ)λI, b ← γb, 0 < γ ≤ 1. It reports false, and leaves the state as it was, where V is not
// positive definite to working precision. Cost d³.
func (r *Root) Fade(gamma float64) bool {
	if !r.fade(gamma) {
		return false
	}
	r.derive()
	return true
}

func (r *Root) fade(gamma float64) bool {
	d := r.d
	if r.gram == nil {
		r.gram, r.old = make([]float64, d*d+d), NewBlockFactor(d, r.lambda)
	}
	v, b := r.gram[:d*d], r.gram[d*d:]
	r.Gram(v, b)
	for i := range v {
		v[i] *= gamma
	}
	for i := range d {
		v[i*d+i] += float64((1 - gamma) * r.lambda)
		b[i] *= gamma
	}
	if !r.old.Set(v) {
		return false
	}
	r.f, r.old = r.old, r.f
	copy(r.z, b)
	r.f.SolveL(r.z)
	return true
}

// derive computes what is a function of L and z.
func (r *Root) derive() {
	copy(r.theta, r.z)
	r.f.SolveLT(r.theta)
	r.deriveDet()
}

// deriveFor is derive after an update by x, which has changed L and z in one block only.
func (r *Root) deriveFor(x []float64) {
	if !r.f.split {
		r.derive()
		return
	}
	if p := r.f.parts.find(Support(x)); p != nil {
		theta := r.theta[p.from:p.to]
		copy(theta, r.z[p.from:p.to])
		p.of.SolveLT(theta)
		r.deriveDet()
	}
}

func (r *Root) deriveDet() {
	r.logDet = max(0, r.f.LogDet()-float64(float64(r.d)*logs.Log(r.lambda)))
}

// Gram stores V_t in v, d×d, and b_t in b: the sums that states of two logs add up in.
func (r *Root) Gram(v, b []float64) {
	d := r.d
	if len(v) != d*d || len(b) != d {
		panic(badLength)
	}
	if !r.f.split {
		r.f.gram(v, d)
	} else {
		clear(v)
		r.f.between(func(from, to, k int) {
			if k >= 0 {
				r.f.parts[k].of.gram(v[from*d+from:], d)
				return
			}
			for i := from; i < to; i++ {
				v[i*d+i] = float64(r.f.idle * r.f.idle)
			}
		})
	}
	r.f.MulL(b, r.z)
}

// gram stores LLᵀ in rows that begin stride numbers apart. The factor is whole.
func (f *Factor) gram(v []float64, stride int) {
	for i := range f.d {
		for j := range i + 1 {
			q := Dot(f.row(i)[:j+1], f.row(j))
			v[i*stride+j], v[j*stride+i] = q, q
		}
	}
}

// Merge adds the updates of another state with the same d: V ← V + V' − λ'I, b ← b + b'. It
// reports false, and leaves the state as it was, when the sum is not positive definite to working
// precision. Cost d³.
func (r *Root) Merge(o *Root) bool {
	d := r.d
	if o.d != d {
		panic("linalg: Merge: the states differ in dimension")
	}
	v, b := make([]float64, d*d), make([]float64, d)
	v2, b2 := make([]float64, d*d), make([]float64, d)
	r.Gram(v, b)
	o.Gram(v2, b2)
	Axpy(1, v2, v)
	Axpy(1, b2, b)
	for i := range d {
		v[i*d+i] -= o.lambda
	}
	f := NewBlockFactor(d, r.lambda)
	if !f.Set(v) || !Finite(b) {
		return false
	}
	f.SolveL(b)
	r.f, r.z, r.n = f, b, r.n+o.n
	r.derive()
	return true
}

// State returns the state for a snapshot: the rows of L's lower triangle, z and the number of
// updates, exact below 2⁵³. z belongs to the state.
func (r *Root) State() [][]float64 {
	return [][]float64{r.f.Pack(), r.z, {float64(r.n)}}
}

// Restore puts back what State returned, from a state of equal dimension and λ. It reports false, and
// leaves the state as it was, when the numbers are no such state.
func (r *Root) Restore(vectors [][]float64) bool { return r.RestoreWith(r.lambda, vectors) }

// RestoreWith is Restore from a state with another λ > 0, which r has from then on.
func (r *Root) RestoreWith(lambda float64, vectors [][]float64) bool {
	n := vectors[2][0]
	least := math.Sqrt(lambda) * (1 - 1e-6) // V ⪰ λI
	if !(n >= 0 && n <= 1<<53 && n == math.Trunc(n)) || !r.f.Unpack(vectors[0], least) {
		return false
	}
	copy(r.z, vectors[1])
	r.n, r.lambda = uint64(n), lambda
	r.derive()
	return true
}
