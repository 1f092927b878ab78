package linalg

import (
	"math"
	"slices"
)

// Factor is a Cholesky factor: V = L Lᵀ, L lower triangular with a positive diagonal, under
// rank-one updates. One fixed order of operations owns L and log det, so two states that saw the
// same updates in the same order agree bit for bit. Not safe for concurrent use.
//
// A factor of NewBlockFactor keeps the diagonal blocks of L outside which it is 0 (blocks.go), with the same
// bits; a cost of d² is then the sum of the squares of their lengths.
type Factor struct {
	d int
	l []float64 // d×d; the upper triangle is not used. nil while split
	w []float64 // scratch of rotate

	seeks bool // of NewBlockFactor
	split bool // L has the blocks parts, and idle on the diagonal outside them
	parts blocks[*Factor]
	idle  float64

	side   []float64         // scratch of SolveLTRows
	square []float64         // what L returns while split
	found  []block[struct{}] // scratch of put
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

// NewBlockFactor is NewFactor for a matrix whose updates may all lie in few blocks of neighbouring coordinates.
// From blocksFrom dimensions on memory is taken for the blocks that updates have had.
func NewBlockFactor(d int, lambda float64) *Factor {
	if d < blocksFrom || !(lambda >= 0) {
		return NewFactor(d, lambda)
	}
	return &Factor{d: d, w: make([]float64, d), seeks: true, split: true, idle: math.Sqrt(lambda)}
}

// Dim returns d.
func (f *Factor) Dim() int { return f.d }

// L returns the factor, d×d, lower triangle. The slice belongs to the factor, is valid until the next call of a
// method and must not be changed.
func (f *Factor) L() []float64 {
	if !f.split {
		return f.l
	}
	d := f.d
	if f.square == nil {
		f.square = make([]float64, d*d)
	}
	clear(f.square)
	for i := range d {
		f.square[i*d+i] = f.idle
	}
	for _, p := range f.parts {
		for i := p.from; i < p.to; i++ {
			copy(f.square[i*d+p.from:i*d+i+1], p.of.row(i-p.from))
		}
	}
	return f.square
}

// row returns row i of a factor that is whole, up to the diagonal.
func (f *Factor) row(i int) []float64 { return f.l[i*f.d : i*f.d+i+1] }

// Load replaces the factor by l, d×d, of which it reads the lower triangle.
func (f *Factor) Load(l []float64) {
	d := f.d
	if len(l) != d*d {
		panic(badLength)
	}
	f.put(func(i int) []float64 { return l[i*d : i*d+i+1] })
}

// put replaces the factor by rows of a lower triangle, and finds its blocks.
func (f *Factor) put(row func(i int) []float64) {
	if f.seeks {
		idle := frequent(f.d, func(i int) float64 { return row(i)[i] })
		list := stretches(f.found[:0], f.d, func(i int) int { return firstNonzero(row(i)) })
		f.found = list
		n := 0
		for _, s := range list {
			if s.to-s.from > 1 || row(s.from)[s.from] != idle {
				list[n] = s
				n++
			}
		}
		if list = list[:n]; pays(list, f.d) {
			old := f.parts
			if !slices.EqualFunc(old, list, func(q block[*Factor], s block[struct{}]) bool {
				return q.from == s.from &&
					q.to == s.to
			}) {
				f.parts = make(blocks[*Factor], n)
			}
			for k, s := range list {
				var part *Factor
				if q := old.find(s.from, s.to); q != nil && q.from == s.from && q.to == s.to {
					part = q.of
				} else {
					part = NewFactor(s.to-s.from, 0)
				}
				for i := s.from; i < s.to; i++ {
					copy(part.row(i-s.from), row(i)[s.from:])
				}
				f.parts[k] = block[*Factor]{s.from, s.to, part}
			}
			f.l, f.split, f.idle = nil, true, idle
			return
		}
		f.parts, f.split = nil, false
		if f.l == nil {
			f.l = make([]float64, f.d*f.d)
		}
	}
	for i := range f.d {
		copy(f.row(i), row(i))
	}
}

// part returns the block with the coordinates from, …, to−1. It makes the factor whole and returns nil where
// blocks do not pay.
func (f *Factor) part(from, to int) *block[*Factor] {
	if p := f.parts.find(from, to); p != nil {
		return p
	}
	p, ok := f.parts.join(from, to, f.d, func(from, to int, old blocks[*Factor]) *Factor {
		part := NewFactor(to-from, 0)
		for i := range part.d {
			part.l[i*part.d+i] = f.idle
		}
		for _, q := range old {
			for i := range q.of.d {
				copy(part.row(q.from - from + i)[q.from-from:], q.of.row(i))
			}
		}
		return part
	})
	if !ok {
		l := f.L()
		f.l, f.square, f.parts, f.split = l, nil, nil, false
		return nil
	}
	return p
}

// between calls f for the stretches of coordinates without a block and for the blocks, in order. The last number is the
// number of the block, −1 without one.
func (f *Factor) between(visit func(from, to, k int)) {
	at := 0
	for k := range f.parts {
		p := &f.parts[k]
		if at < p.from {
			visit(at, p.from, -1)
		}
		visit(p.from, p.to, k)
		at = p.to
	}
	if at < f.d {
		visit(at, f.d, -1)
	}
}

// Set computes the factor of the symmetric matrix v, of which it reads the lower triangle. It
// reports false when v is not positive definite to working precision; the factor is then
// undefined. Cost d³/3.
func (f *Factor) Set(v []float64) bool {
	d := f.d
	if len(v) != d*d {
		panic(badLength)
	}
	if f.seeks {
		f.Load(v)
	}
	if f.split {
		if !(f.idle > 0) || math.IsInf(f.idle, 0) {
			return false
		}
		f.idle = math.Sqrt(f.idle)
		for _, p := range f.parts {
			if !p.of.Set(p.of.l) { // each number is read before it is written
				return false
			}
		}
		return true
	}
	for i := range d {
		if !f.next(v, i, 0) {
			return false
		}
	}
	return true
}

// next computes row i of the factor of v + shift·I from the rows above it. The factor is whole.
func (f *Factor) next(v []float64, i int, shift float64) bool {
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
	q := product{p: 1}
	if !f.split {
		q.diagonal(f)
		return 2 * q.log()
	}
	f.between(func(from, to, k int) {
		if k >= 0 {
			q.diagonal(f.parts[k].of)
			return
		}
		for range to - from {
			q.times(f.idle)
		}
	})
	return 2 * q.log()
}

// diagonal multiplies by the diagonal of a factor that is whole.
func (q *product) diagonal(f *Factor) {
	for i := 0; i < len(f.l); i += f.d + 1 {
		q.times(f.l[i])
	}
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
	if f.split {
		from, to := Support(x)
		if from == to {
			return y
		}
		if p := f.part(from, to); p != nil {
			if z != nil {
				z = z[p.from:p.to]
			}
			return p.of.rotate(x[p.from:p.to], z, y)
		}
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
	if f.split {
		f.between(func(from, to, k int) {
			if k >= 0 {
				f.parts[k].of.SolveL(z[from:to])
				return
			}
			for i := from; i < to; i++ {
				z[i] /= f.idle
			}
		})
		return
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
	if f.split {
		f.between(func(from, to, k int) {
			if k >= 0 {
				f.parts[k].of.SolveLT(z[from:to])
				return
			}
			for i := from; i < to; i++ {
				z[i] /= f.idle
			}
		})
		return
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
func (f *Factor) SolveLTRows(rows []float64) {
	d := f.d
	if len(rows)%d != 0 {
		panic(badLength)
	}
	if len(rows) == 0 {
		return
	}
	if !f.split {
		f.solveLTRows(rows, len(rows)/d, d)
		return
	}
	f.between(func(from, to, k int) {
		if k >= 0 {
			f.parts[k].of.solveLTRows(rows[from:], len(rows)/d, d)
			return
		}
		for r := 0; r < len(rows); r += d {
			for i := r + from; i < r+to; i++ {
				rows[i] /= f.idle
			}
		}
	})
}

// solveLTRows is SolveLTRows for n rows that begin stride numbers apart. The factor is whole.
func (f *Factor) solveLTRows(block []float64, n, stride int) {
	d := f.d
	if f.side == nil {
		f.side = make([]float64, 8*d)
	}
	p := f.side
	for n > 1 {
		rows := min(8, n)
		for r := range rows {
			for i, v := range block[r*stride : r*stride+d] {
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
			z := block[r*stride : r*stride+d]
			for i := range z {
				z[i] = p[8*i+r]
			}
		}
		if n -= rows; n > 0 {
			block = block[rows*stride:]
		}
	}
	if n > 0 {
		f.SolveLT(block[:d])
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
	if f.split {
		f.between(func(from, to, k int) {
			if k >= 0 {
				f.parts[k].of.MulL(dst[from:to], z[from:to])
				return
			}
			for i := from; i < to; i++ {
				dst[i] = float64(f.idle*z[i]) + 0
			}
		})
		return
	}
	for i := range d {
		dst[i] = Dot(f.l[i*d:i*d+i+1], z)
	}
}

// Pack returns the rows of the lower triangle, d(d+1)/2 numbers: the state for a snapshot.
func (f *Factor) Pack() []float64 {
	out := make([]float64, f.d*(f.d+1)/2)
	if !f.split {
		for i, rows := 0, out; i < f.d; i++ {
			rows = rows[copy(rows, f.row(i)):]
		}
		return out
	}
	f.between(func(from, to, k int) {
		for i := from; i < to; i++ {
			row := out[i*(i+1)/2 : i*(i+1)/2+i+1]
			if k >= 0 {
				copy(row[from:], f.parts[k].of.row(i-from))
			} else {
				row[i] = f.idle
			}
		}
	})
	return out
}

// Unpack puts back what Pack returned. It reports false, and leaves the factor as it was, when a
// diagonal entry is below least, which is positive.
func (f *Factor) Unpack(rows []float64, least float64) bool {
	if len(rows) != f.d*(f.d+1)/2 {
		panic(badLength)
	}
	row := func(i int) []float64 { return rows[i*(i+1)/2 : i*(i+1)/2+i+1] }
	for i := range f.d {
		if !(row(i)[i] >= least) {
			return false
		}
	}
	f.put(row)
	return true
}

// Copy makes f equal to g, which has the same dimension.
func (f *Factor) Copy(g *Factor) {
	if f.d != g.d {
		panic(badLength)
	}
	if !f.seeks || !g.split {
		f.Load(g.L())
		return
	}
	f.l, f.split, f.idle, f.parts = nil, true, g.idle, slices.Clone(g.parts)
	for k, p := range f.parts {
		c := NewFactor(p.of.d, 0)
		copy(c.l, p.of.l)
		f.parts[k].of = c
	}
}
