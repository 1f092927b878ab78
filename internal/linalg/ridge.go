// Package linalg holds the linear algebra that this module exists for: the state of a ridge
// regression under rank-one updates, and the factor of its matrix. Everything is float64, dense,
// stored row by row in full; the steady state allocates nothing. Rare work (factorisations,
// eigenvalues) uses gonum.
//
// Misuse (a vector of the wrong length) panics with a constant message; a loss of precision is
// reported.
package linalg

import (
	"math"
)

const (
	badLength = "linalg: vector of wrong length"

	// probeEvery is the number of updates between two looks at |V V⁻¹x − x|, and refactorEvery the
	// number after which V⁻¹ is recomputed from V whatever the probe says. probeLimit is relative
	// to |x|. The drift of the recursion is measured in TestRidgeDrift.
	probeEvery    = 64
	refactorEvery = 100_000
	probeLimit    = 1e-9
)

// Ridge is the state of a ridge regression after t rank-one updates:
//
//	V_t = λI + Σ x_i x_iᵀ,  b_t = Σ y_i x_i,  θ̂_t = V_t⁻¹ b_t,  log det(V_t)/λ^d
//
// with V and V⁻¹ both maintained (eq:rr_closed_form in the paper). V⁻¹ and θ̂ follow the
// Sherman–Morrison recursion, V and b are exact sums; V⁻¹ is recomputed from V when a probe finds
// that it has drifted, and every 100 000 updates. Not safe for concurrent use.
type Ridge struct {
	d      int
	lambda float64

	v, inv   []float64 // d×d
	b, theta []float64
	logDet   float64 // log det(V)/λ^d
	n        uint64  // updates
	fresh    uint64  // updates since V⁻¹ was computed from V

	k    []float64 // scratch: V⁻¹x
	work []float64 // scratch: d×d, made on first use
}

// NewRidge returns the state before the first update. It panics unless d ≥ 1 and λ > 0 is finite.
func NewRidge(d int, lambda float64) *Ridge {
	if d < 1 {
		panic("linalg: dimension must be at least 1")
	}
	if !(lambda > 0) || math.IsInf(lambda, 0) {
		panic("linalg: lambda must be positive and finite")
	}
	r := &Ridge{
		d: d, lambda: lambda,
		v: make([]float64, d*d), inv: make([]float64, d*d),
		b: make([]float64, d), theta: make([]float64, d), k: make([]float64, d),
	}
	for i := range d {
		r.v[i*d+i] = lambda
		r.inv[i*d+i] = 1 / lambda
	}
	return r
}

// Dim returns d.
func (r *Ridge) Dim() int { return r.d }

// Lambda returns λ.
func (r *Ridge) Lambda() float64 { return r.lambda }

// Len returns the number of updates t.
func (r *Ridge) Len() uint64 { return r.n }

// LogDetRatio returns log(det V_t / λ^d) ≥ 0.
func (r *Ridge) LogDetRatio() float64 { return r.logDet }

// Theta returns θ̂_t. The slice belongs to the state.
func (r *Ridge) Theta() []float64 { return r.theta }

// B returns b_t. The slice belongs to the state.
func (r *Ridge) B() []float64 { return r.b }

// V returns V_t, d×d. The slice belongs to the state.
func (r *Ridge) V() []float64 { return r.v }

// Inv returns V_t⁻¹, d×d, exactly symmetric. The slice belongs to the state.
func (r *Ridge) Inv() []float64 { return r.inv }

// Solve stores V⁻¹s in dst, which may not alias s. Cost d².
func (r *Ridge) Solve(dst, s []float64) {
	if len(dst) != r.d || len(s) != r.d {
		panic(badLength)
	}
	MulSym(dst, r.inv, s)
}

// Width2 returns ‖x‖²_{V⁻¹} = xᵀV⁻¹x ≥ 0. Cost d².
func (r *Ridge) Width2(x []float64) float64 {
	if len(x) != r.d {
		panic(badLength)
	}
	MulSym(r.k, r.inv, x)
	return max(0, Dot(x, r.k))
}

// Norm2 returns ‖u‖²_V = uᵀVu, from V itself and not from its inverse. Cost d².
func (r *Ridge) Norm2(u []float64) float64 {
	if len(u) != r.d {
		panic(badLength)
	}
	MulSym(r.k, r.v, u)
	return max(0, Dot(u, r.k))
}

// Update performs V ← V + xxᵀ, b ← b + yx and brings V⁻¹, θ̂ and log det up to date. It reports
// false, and leaves the state as it was, when x or y is not finite or the result would not be. On
// success gain holds V_{t−1}⁻¹x / (1 + xᵀV_{t−1}⁻¹x) = V_t⁻¹x until the next call of a method:
// every model of the regression moves by gain·(target − ⟨x, model⟩).
func (r *Ridge) Update(x []float64, y float64) (gain []float64, ok bool) {
	d := r.d
	if len(x) != d {
		panic(badLength)
	}
	k := r.k
	MulSym(k, r.inv, x)
	q := Dot(x, k)
	if !Finite(x) || y-y != 0 {
		return nil, false
	}
	if !(q >= 0) && r.refactor(r.v) { // V⁻¹ is no longer positive definite
		MulSym(k, r.inv, x)
		q = Dot(x, k)
	}
	e := y - Dot(x, r.theta)
	if !(q >= 0) || q-q != 0 || e-e != 0 {
		return nil, false
	}

	s := 1 / (1 + q)
	r.logDet += math.Log1p(q)
	for i, xi := range x {
		ki := k[i] * s
		inv, v := r.inv[i*d:i*d+d], r.v[i*d:i*d+d]
		// The upper triangle, mirrored: exact symmetry of V⁻¹, and of V by commuting products.
		for j := i; j < d; j++ {
			w := inv[j] - ki*k[j]
			inv[j] = w
			r.inv[j*d+i] = w
		}
		for j, xj := range x {
			v[j] += xi * xj
		}
		r.b[i] += y * xi
	}
	for i := range k {
		k[i] *= s
	}
	Axpy(e, k, r.theta)
	r.n++
	r.fresh++

	if r.fresh%probeEvery == 0 && (r.fresh >= refactorEvery || r.drifted(x)) {
		if r.refactor(r.v) {
			MulSym(k, r.inv, x)
		}
	}
	return k, true
}

// drifted looks at the residual |V gain − x| for gain = V⁻¹x.
func (r *Ridge) drifted(x []float64) bool {
	d := r.d
	var worst, size float64
	for i, xi := range x {
		worst = max(worst, math.Abs(Dot(r.v[i*d:i*d+d], r.k)-xi))
		size = max(size, math.Abs(xi))
	}
	return worst > probeLimit*size
}

// refactor recomputes V⁻¹, θ̂ and log det from V by Cholesky. It reports false, and changes
// nothing, when V is not positive definite to working precision.
func (r *Ridge) refactor(v []float64) bool {
	d := r.d
	if r.work == nil {
		r.work = make([]float64, d*d)
	}
	f := Factor{d: d, l: r.work}
	if !f.Set(v) {
		return false
	}
	logDet := f.LogDet() - float64(d)*math.Log(r.lambda)
	for j := range d {
		col := r.k
		clear(col)
		col[j] = 1
		f.Solve(col)
		for i := range j + 1 {
			r.inv[i*d+j] = col[i]
			r.inv[j*d+i] = col[i]
		}
	}
	MulSym(r.theta, r.inv, r.b)
	r.logDet = max(0, logDet)
	r.fresh = 0
	return true
}

// State returns the state as five vectors, for a snapshot: V, V⁻¹, b, θ̂ (which belong to the state)
// and log det with the two counters, which are exact as float64 below 2⁵³.
func (r *Ridge) State() [][]float64 {
	return [][]float64{r.v, r.inv, r.b, r.theta, {r.logDet, float64(r.n), float64(r.fresh)}}
}

// Restore puts back what State returned, from a state of equal dimension.
func (r *Ridge) Restore(vectors [][]float64) {
	for i, dst := range [][]float64{r.v, r.inv, r.b, r.theta} {
		if len(vectors[i]) != len(dst) {
			panic(badLength)
		}
		copy(dst, vectors[i])
	}
	last := vectors[4]
	r.logDet, r.n, r.fresh = last[0], uint64(last[1]), uint64(last[2])
}
