package linalg

import (
	"math"

	"troupe/internal/logs"
)

// Factor is a Cholesky factor: V = L Lᵀ, L lower triangular with a positive diagonal, under
// rank-one updates. One fixed order of operations owns L and log det, so two states that saw the
// same updates in the same order agree bit for bit. Not safe for concurrent use.
type Factor struct {
	d int
	l []float64 // d×d; the upper triangle is not used
	w []float64 // scratch of rotate

	side []float64 // scratch of SolveLTRows
}

// NewFactor returns the factor of λI. With λ = 0 it is the factor of the zero matrix: after
// updates by x_1, …, x_t it is that of Σ x_i x_iᵀ, which may be singular; only Update and MulL have
// a meaning while it is. It panics unless d ≥ 1 and λ ≥ 0.
func NewFactor(d int, lambda float64) *Factor {
	if d < 1 || !(lambda >= 0) {
		panic("linalg: NewFactor: the dimension must be positive, lambda not negative")
	}
	f := &Factor{d: d, l: make([]float64, d*d), w: make([]float64, d)}
	for i := range d {
		f.l[i*d+i] = math.Sqrt(lambda)
	}
	return f
}

// Dim returns d.
func (f *Factor) Dim() int { return f.d }

// L returns the factor, d×d, lower triangle. The slice belongs to the factor.
func (f *Factor) L() []float64 { return f.l }

// Set computes the factor of the symmetric matrix v, of which it reads the lower triangle. It
// reports false when v is not positive definite to working precision; the factor is then
// undefined. Cost d³/3.
func (f *Factor) Set(v []float64) bool {
	d := f.d
	if len(v) != d*d {
		panic(badLength)
	}
	for i := range d {
		if !f.row(v, i, 0) {
			return false
		}
	}
	return true
}

// row computes row i of the factor of v + shift·I from the rows above it.
func (f *Factor) row(v []float64, i int, shift float64) bool {
	d, l := f.d, f.l
	ri := l[i*d : i*d+i+1]
	for j := range i {
		rj := l[j*d : j*d+j+1]
		ri[j] = (v[i*d+j] - Dot(ri[:j], rj[:j])) / rj[j]
	}
	q := v[i*d+i] + shift - Dot(ri[:i], ri[:i])
	if !(q > 0) || math.IsInf(q, 0) {
		return false
	}
	ri[i] = math.Sqrt(q)
	return true
}

// LogDet returns log det V = 2 log Π L_ii, the product kept in range by powers of two. No fused
// multiply-add can enter it, or Update: states on different machines agree on when the determinant
// has doubled.
func (f *Factor) LogDet() float64 {
	p, e := 1.0, 0
	for i := 0; i < len(f.l); i += f.d + 1 {
		p *= f.l[i]
		if !(p > 0x1p-300 && p < 0x1p300) {
			fr, ex := math.Frexp(p)
			p, e = fr, e+ex
		}
	}
	return 2 * (logs.Log(p) + float64(float64(e)*math.Ln2))
}

// Update turns the factor of V into that of V + xxᵀ by d Givens rotations (Golub & Van Loan
// section 6.5.4), backward stable; V may be singular. Cost 3d².
func (f *Factor) Update(x []float64) { f.rotate(x, nil, 0) }

// UpdateWith is Update and carries a right-hand side along: z = L⁻¹b becomes L⁻¹(b + yx) for the new
// L. The rotations that turn (L x) into (L' 0) turn (zᵀ y) into (z'ᵀ ρ), so nothing is solved. It
// returns ρ: ρ² = (y − ⟨x, θ̂⟩)²/(1 + xᵀV⁻¹x) with V and θ̂ before the update, which is the growth of
// min_θ Σ(y − ⟨x, θ⟩)² + λ‖θ‖².
func (f *Factor) UpdateWith(x, z []float64, y float64) float64 {
	if len(z) != f.d {
		panic(badLength)
	}
	return f.rotate(x, z, y)
}

func (f *Factor) rotate(x, z []float64, y float64) float64 {
	d := f.d
	if len(x) != d {
		panic(badLength)
	}
	if f.w == nil {
		f.w = make([]float64, d)
	}
	w := f.w
	copy(w, x)
	for k, v := range w {
		if v == 0 {
			continue
		}
		p := f.l[k*d+k]
		r := math.Sqrt(float64(p*p) + float64(v*v))
		if r < 1e-140 { // the squares underflow
			r = hypot(p, v)
		}
		c, s := p/r, v/r
		f.l[k*d+k] = r
		at := (k+1)*d + k
		for i := k + 1; i < d; i++ {
			l, wi := f.l[at], w[i]
			f.l[at] = float64(c*l) + float64(s*wi)
			w[i] = float64(c*wi) - float64(s*l)
			at += d
		}
		if z != nil {
			z[k], y = float64(c*z[k])+float64(s*y), float64(c*y)-float64(s*z[k])
		}
	}
	return y
}

// SolveL overwrites z by L⁻¹z.
func (f *Factor) SolveL(z []float64) {
	d := f.d
	if len(z) != d {
		panic(badLength)
	}
	for i := range d {
		row := f.l[i*d : i*d+i+1]
		z[i] = (z[i] - Dot(row[:i], z[:i])) / row[i]
	}
}

// SolveLT overwrites z by L⁻ᵀz: for a standard normal z the result is N(0, V⁻¹), because
// L⁻ᵀL⁻¹ = V⁻¹.
func (f *Factor) SolveLT(z []float64) {
	d := f.d
	if len(z) != d {
		panic(badLength)
	}
	for i := d - 1; i >= 0; i-- {
		row := f.l[i*d : i*d+i+1]
		z[i] /= row[i]
		Axpy(-z[i], row[:i], z[:i])
	}
}

// SolveLTRows overwrites each row z of a k×d block by L⁻ᵀz, bit for bit as SolveLT does. Eight rows
// are solved side by side, with their entries interleaved, so that an entry of L is read once for
// eight independent sums.
func (f *Factor) SolveLTRows(block []float64) {
	d := f.d
	if len(block)%d != 0 {
		panic(badLength)
	}
	if f.side == nil {
		f.side = make([]float64, 8*d)
	}
	p := f.side
	for len(block) > d {
		rows := min(8, len(block)/d)
		for r := range rows {
			for i, v := range block[r*d : r*d+d] {
				p[8*i+r] = v
			}
		}
		for k := d - 1; k >= 0; k-- {
			t := p[8*k : 8*k+8 : 8*k+8]
			a0, a1, a2, a3, a4, a5, a6, a7 := t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]
			for i := d - 1; i > k; i-- {
				l, s := f.l[i*d+k], p[8*i:8*i+8:8*i+8]
				a0 -= float64(s[0] * l)
				a1 -= float64(s[1] * l)
				a2 -= float64(s[2] * l)
				a3 -= float64(s[3] * l)
				a4 -= float64(s[4] * l)
				a5 -= float64(s[5] * l)
				a6 -= float64(s[6] * l)
				a7 -= float64(s[7] * l)
			}
			l := f.l[k*d+k]
			t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7] = a0/l, a1/l, a2/l, a3/l, a4/l, a5/l, a6/l, a7/l
		}
		for r := range rows {
			z := block[r*d : r*d+d]
			for i := range z {
				z[i] = p[8*i+r]
			}
		}
		block = block[rows*d:]
	}
	if len(block) > 0 {
		f.SolveLT(block)
	}
}

// Solve overwrites z by V⁻¹z.
func (f *Factor) Solve(z []float64) {
	f.SolveL(z)
	f.SolveLT(z)
}

// MulL stores L·z in dst, which may not alias z: for a standard normal z the result is N(0, V).
func (f *Factor) MulL(dst, z []float64) {
	d := f.d
	if len(z) != d || len(dst) != d {
		panic(badLength)
	}
	for i := range d {
		dst[i] = Dot(f.l[i*d:i*d+i+1], z)
	}
}

// Pack returns the rows of the lower triangle, d(d+1)/2 numbers: the state for a snapshot.
func (f *Factor) Pack() []float64 {
	out := make([]float64, 0, f.d*(f.d+1)/2)
	for i := range f.d {
		out = append(out, f.l[i*f.d:i*f.d+i+1]...)
	}
	return out
}

// Unpack puts back what Pack returned. It reports false, and leaves the factor as it was, when a
// diagonal entry is below least, which is positive.
func (f *Factor) Unpack(rows []float64, least float64) bool {
	if len(rows) != f.d*(f.d+1)/2 {
		panic(badLength)
	}
	for i, at := 0, 0; i < f.d; i++ {
		at += i
		if !(rows[at] >= least) {
			return false
		}
		at++
	}
	for i := range f.d {
		copy(f.l[i*f.d:i*f.d+i+1], rows)
		rows = rows[i+1:]
	}
	return true
}

// Copy makes f equal to g, which has the same dimension.
func (f *Factor) Copy(g *Factor) {
	if f.d != g.d {
		panic(badLength)
	}
	copy(f.l, g.l)
}
