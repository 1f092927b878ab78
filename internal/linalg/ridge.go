// Package linalg holds the linear algebra that this module exists for: the state of a ridge
// regression under rank-one updates, and the factor of its matrix. Everything is float64 and dense,
// stored row by row in full, or in full blocks where the matrix has some (blocks.go); the steady
// state allocates nothing. Rare work (factorisations,
// eigenvalues) uses gonum.
//
// Misuse (a vector of the wrong length) panics with a constant message; a loss of precision is
// reported.
package linalg

import (
	"math"

	"troupe/internal/cpu"
	"troupe/internal/logs"
)

const (
	badLength = "linalg: vector of wrong length"

	// probeEvery is the number of updates between two looks at |V V⁻¹x − x|, and refactorEvery the
	// number after which V⁻¹ is recomputed from V whatever the probe says. probeLimit is relative
	// to |x|. The drift of the recursion is measured in TestRidgeDrift.
	probeEvery    = 256
	refactorEvery = 100_000
	probeLimit    = 1e-9
)

// Ridge is the state of a ridge regression after t rank-one updates:
//
//	V_t = λI + Σ x_i x_iᵀ,  b_t = Σ y_i x_i,  θ̂_t = V_t⁻¹ b_t,  log det(V_t)/λ^d
//
// with V and V⁻¹ both maintained (eq:rr_closed_form in the paper). V⁻¹ and θ̂ follow the
// Sherman–Morrison recursion, V and b are exact sums; V⁻¹ is recomputed from V when a probe finds
// that it has drifted, and every 100 000 updates. V is only read then, so its updates wait and
// enter 64 at a time, in order. Not safe for concurrent use.
//
// From blocksFrom dimensions on it begins with blocks (blocks.go): while all actions lie in few blocks of
// neighbouring coordinates a cost of d² is the sum of the squares of their lengths, and so is the memory.
type Ridge struct {
	d      int
	lambda float64
	split  *ridgeBlocks // V and V⁻¹ by blocks; then inv, k, core, v, wait, tile and rewards are not used

	// V⁻¹ is inv − s·k kᵀ when owed, otherwise inv: the last step of the recursion waits until V⁻¹ is
	// read, so that a step and a solve are one pass over the matrix.
	inv  []float64 // d rows of Padded(d); capacity for as many rows
	owed bool
	half bool      // only the blocks of 16 columns from the diagonal down are up to date
	k    []float64 // Padded(d): V_{t−1}⁻¹x

	theta   []float64 // Padded(d)
	core    core
	logDet  float64 // log det(V)/λ^d up to the last fold
	growth  float64 // the determinant has grown by the factor 1 + growth since then
	n       uint64  // updates
	fresh   uint64  // updates since V⁻¹ was computed from V
	rebuilt uint64  // how often V⁻¹ was computed from V

	// V is v + Σ xxᵀ over the first core.held rows of wait, and b is sum + Σ yx over them and rewards. v holds the rows
	// of the matrix as if they were members of an ensemble (see AddTile): x xᵀ adds x_j x to row j. What is left of
	// the diagonal is old until mirror: before it, entry (i, j) is read at(min(i, j), max(i, j)).
	v       []float64 // ⌈d/16⌉ pairs of panels
	sum     []float64
	rows    int              // room of wait and tile: waiting, or less in a block
	wait    []float64        // rows of d, made on first use
	tile    []float64        // d ≤ 16: the same in rows of 16, as AddTile wants them, otherwise nil
	rewards [waiting]float64 // as AddSteps wants them

	gain   []float64 // scratch: V⁻¹x, Padded(d)
	dense  []float64 // scratch: numbers that were apart, made on first use
	work   []float64 // scratch: d×d, made on first use
	square []float64 // what V and Inv return, made on first use
	other  []float64 // V as State returns it, made on first use
	before []float64 // scratch of Forget: b
}

// core is what the kernels see of a Ridge; internal/gen/ridge.go knows the places of the fields.
type core struct {
	inv, k, theta, gain *float64 // first numbers of the slices of the same name
	wait, tile          *float64 // tile may be nil
	d, ld               int
	held                int     // rows of wait
	s                   float64 // 1/(1 + xᵀV_{t−1}⁻¹x) of the step that is owed
}

const (
	waiting   = 64 // rows of wait
	foldEvery = 16 // updates between two logarithms
)

// NewRidge returns the state before the first update. It panics unless d ≥ 1 and λ > 0 is finite.
func NewRidge(d int, lambda float64) *Ridge {
	if d < 1 {
		panic("linalg: dimension must be at least 1")
	}
	if !(lambda > 0) || math.IsInf(lambda, 0) {
		panic("linalg: lambda must be positive and finite")
	}
	ld := Padded(d)
	r := &Ridge{d: d, lambda: lambda, sum: make([]float64, d), rows: waiting, theta: make([]float64, ld),
		gain: make([]float64, ld)}
	if d >= blocksFrom {
		r.split = &ridgeBlocks{idle: 1 / lambda}
		return r
	}
	r.begin(1 / lambda)
	return r
}

// begin makes room for the matrices and sets them to λI and idle·I.
func (r *Ridge) begin(idle float64) {
	d, ld := r.d, Padded(r.d)
	r.inv = make([]float64, ld*ld)[:d*ld]
	r.v = make([]float64, (d+Members-1)/Members*Members*d)
	r.k = make([]float64, ld)
	r.point()
	for i := range d {
		r.v[r.at(i, i)] = r.lambda
		r.inv[i*ld+i] = idle
	}
}

// point shows the slices to the kernels.
func (r *Ridge) point() {
	r.core = core{inv: &r.inv[0], k: &r.k[0], theta: &r.theta[0], gain: &r.gain[0], d: r.d, ld: Padded(r.d)}
	if r.wait != nil {
		r.core.wait = &r.wait[0]
	}
	if r.tile != nil {
		r.core.tile = &r.tile[0]
	}
}

// queue makes room for the steps that wait. A regression that moves in a batch only needs none.
func (r *Ridge) queue() {
	r.wait = make([]float64, r.rows*r.d)
	r.core.wait = &r.wait[0]
	if r.d <= Members {
		r.tile = make([]float64, r.rows*Members)
		r.core.tile = &r.tile[0]
	}
}

// at is the place of entry (i, j) in v.
func (r *Ridge) at(i, j int) int { return (i/8*r.d+j)*8 + i%8 }

// Dim returns d.
func (r *Ridge) Dim() int { return r.d }

// Lambda returns λ.
func (r *Ridge) Lambda() float64 { return r.lambda }

// Len returns the number of updates t.
func (r *Ridge) Len() uint64 { return r.n }

// LogDetRatio returns log(det V_t / λ^d) ≥ 0.
func (r *Ridge) LogDetRatio() float64 { return r.logDet + logs.Log1p(r.growth) }

// Theta returns θ̂_t. The slice belongs to the state.
func (r *Ridge) Theta() []float64 { return r.theta[:r.d:r.d] }

// B returns b_t. The slice belongs to the state.
func (r *Ridge) B() []float64 {
	if r.split != nil {
		r.split.b(r.sum)
		return r.sum
	}
	r.enter()
	return r.sum
}

// V returns V_t, d×d, exactly symmetric. The slice belongs to the state and is valid until the next
// call of V or Inv. Cost d², and what waits.
func (r *Ridge) V() []float64 {
	out := r.room()
	if r.split != nil {
		r.split.each(r.d, out, r.lambda, (*Ridge).copyV)
	} else {
		r.copyV(out, r.d)
	}
	return out
}

// copyV stores V in rows that begin ld numbers apart.
func (r *Ridge) copyV(out []float64, ld int) {
	r.enter()
	r.mirror()
	d := r.d
	for i := range d {
		row := out[i*ld : i*ld+d]
		for j, at := 0, r.at(i, 0); j < d; j, at = j+1, at+8 {
			row[j] = r.v[at]
		}
	}
}

// PackV stores the lower triangle of V_t in dst, column after column, d(d+1)/2 numbers: entries
// (j, j), …, (d−1, j) for j = 0, …, d−1. Cost d²/2, and what waits.
func (r *Ridge) PackV(dst []float64) {
	d := r.d
	if len(dst) != d*(d+1)/2 {
		panic(badLength)
	}
	if r.split != nil {
		v := r.V()
		for j := range d {
			for i := j; i < d; i++ {
				dst[i-j] = v[j*d+i]
			}
			dst = dst[d-j:]
		}
		return
	}
	r.enter()
	for j := range d {
		for i := j; i < d; i++ {
			dst[i-j] = r.v[r.at(j, i)]
		}
		dst = dst[d-j:]
	}
}

// Inv returns V_t⁻¹, d×d, exactly symmetric. The slice belongs to the state and is valid until the
// next call of V or Inv. Cost d².
func (r *Ridge) Inv() []float64 {
	out := r.room()
	if r.split != nil {
		r.split.each(r.d, out, r.split.idle, (*Ridge).copyInv)
	} else {
		r.copyInv(out, r.d)
	}
	return out
}

// copyInv stores V⁻¹ in rows that begin ld numbers apart.
func (r *Ridge) copyInv(out []float64, ld int) {
	r.pay()
	d := r.d
	for i := range d {
		copy(out[i*ld:i*ld+d], r.inv[i*Padded(d):])
	}
}

// EachInv calls f for the blocks of V⁻¹, in order: the n rows of Padded(n) numbers of the coordinates from, …,
// from+n−1, nil where V⁻¹ is idle·I there. They belong to the state. Without blocks it is called once.
func (r *Ridge) EachInv(f func(from, n int, inv []float64, idle float64)) {
	if r.split == nil {
		r.pay()
		f(0, r.d, r.inv, 0)
		return
	}
	r.split.between(r.d, func(from, to int, part *Ridge) {
		if part == nil {
			f(from, to-from, nil, r.split.idle)
			return
		}
		part.pay()
		f(from, to-from, part.inv, 0)
	})
}

// NormInv returns a bound of the Frobenius norm of V⁻¹, a few roundings above it.
func (r *Ridge) NormInv() float64 {
	var norms [2]float64 // so far, and of the block at hand: Norm cannot overflow
	r.EachInv(func(_, n int, inv []float64, idle float64) {
		if norms[1] = idle * math.Sqrt(float64(n)); inv != nil {
			norms[1] = Norm(inv)
		}
		norms[0] = Norm(norms[:])
	})
	return norms[0] * (1 + 0x1p-40)
}

// Rebuilt returns how often V⁻¹ was computed from V since this state was made or restored: between two
// such moments it follows the Sherman–Morrison recursion.
func (r *Ridge) Rebuilt() uint64 { return r.rebuilt }

func (r *Ridge) room() []float64 {
	if r.square == nil {
		r.square = make([]float64, r.d*r.d)
	}
	return r.square
}

// fillUpper fills in the upper triangle of inv.
func (r *Ridge) fillUpper() {
	ld := r.core.ld
	for i := range r.d {
		for j, v := range r.inv[i*ld : i*ld+i] {
			r.inv[j*ld+i] = v
		}
	}
	r.half = false
}

// pay makes the step of V⁻¹ that is owed, on the whole matrix.
func (r *Ridge) pay() {
	if r.half {
		r.fillUpper()
	}
	if r.owed {
		rankOne(r.inv, r.core.s, r.k, r.d)
		r.owed = false
	}
}

// Solve stores V⁻¹s in dst, which may not alias s. Cost d².
func (r *Ridge) Solve(dst, s []float64) {
	if len(dst) != r.d || len(s) != r.d {
		panic(badLength)
	}
	if r.split != nil {
		r.split.solve(dst, s)
		return
	}
	r.pay()
	mulPadded(r.gain, r.inv, s)
	copy(dst, r.gain)
}

// SolveShift stores θ̂ + c·V⁻¹s in dst, number i of s being s[i·step] and step 1 or 8. dst
// needs a capacity of Padded(d) and may not alias s. Cost d².
func (r *Ridge) SolveShift(dst, s []float64, step int, c float64) {
	if len(dst) != r.d {
		panic(badLength)
	}
	if r.split != nil {
		r.split.solveShift(dst, s, step, c)
		return
	}
	dst = dst[:r.core.ld]
	if step != 1 && step != 8 || len(s) <= (r.d-1)*step {
		panic(badLength)
	}
	level := cpu.Kernels()
	if level == cpu.Portable {
		r.pay()
		r.mulShift(dst, r.gather(s, step), c)
		return
	}
	if r.halves(level) {
		s = r.gather(s, step)
		if r.owed {
			stepShiftHalfAVX512(&r.core, &dst[0], &s[0], c)
			r.owed, r.half = false, true
		} else {
			mulShiftHalfAVX512(&r.core, &dst[0], &s[0], c)
		}
		return
	}
	switch {
	case level == cpu.AVX512 && step == 8 && r.owed:
		stepShift8AVX512(&r.core, &dst[0], &s[0], c)
	case level == cpu.AVX512 && step == 8:
		mulShift8AVX512(&r.core, &dst[0], &s[0], c)
	case level == cpu.AVX512 && r.owed:
		stepShift1AVX512(&r.core, &dst[0], &s[0], c)
	case level == cpu.AVX512:
		mulShift1AVX512(&r.core, &dst[0], &s[0], c)
	case step == 8 && r.owed:
		stepShift8AVX2(&r.core, &dst[0], &s[0], c)
	case step == 8:
		mulShift8AVX2(&r.core, &dst[0], &s[0], c)
	case r.owed:
		stepShift1AVX2(&r.core, &dst[0], &s[0], c)
	default:
		mulShift1AVX2(&r.core, &dst[0], &s[0], c)
	}
	r.owed = false
}

// gather returns the d numbers that are step apart in s, in dense where they are.
func (r *Ridge) gather(s []float64, step int) []float64 {
	if step == 1 {
		return s[:r.d]
	}
	if r.dense == nil {
		r.dense = make([]float64, r.d)
	}
	for i, at := 0, 0; i < len(r.dense) && at < len(s); i, at = i+1, at+step {
		r.dense[i] = s[at]
	}
	return r.dense
}

// mulShift is SolveShift in portable Go, dst_i = fma(c, Dot(row i of V⁻¹, s), θ̂_i), dst of Padded(d) numbers.
func (r *Ridge) mulShift(dst, s []float64, c float64) {
	clear(dst[r.d:])
	dst = dst[:r.d]
	dotRows(dst, r.inv, s, r.core.ld)
	theta := r.theta[:len(dst)]
	for i, v := range dst {
		dst[i] = math.FMA(c, v, theta[i])
	}
}

// halfDim is the dimension from which on the kernels that keep to one triangle of V⁻¹ are faster: the
// whole matrix and what else a round reads leave the first cache.
var halfDim = 32

// halves says whether the triangle serves; where it does not, the matrix is made whole.
func (r *Ridge) halves(level cpu.Level) bool {
	if level == cpu.AVX512 && r.d >= halfDim {
		return true
	}
	if r.half {
		r.fillUpper()
	}
	return false
}

// Width2 returns ‖x‖²_{V⁻¹} = xᵀV⁻¹x ≥ 0. Cost d², or n² where the nonzero numbers of x lie within n
// neighbours, as those of a disjoint model do.
func (r *Ridge) Width2(x []float64) float64 {
	if len(x) != r.d {
		panic(badLength)
	}
	if r.split != nil {
		from, to := Support(x)
		if p := r.split.parts.find(from, to); p != nil {
			return p.of.Width2(x[p.from:p.to])
		}
		r.split.solve(r.gain[:r.d], x)
		return max(0, Dot(x, r.gain))
	}
	r.pay()
	// Zeros add nothing to the eight partial sums of a sum over features, and the end of such a sum
	// does not care which of them is the first: the bits are those of the whole vector.
	from, to := Support(x)
	if 2*(to-from) > r.d {
		mulPadded(r.gain, r.inv, x)
		return max(0, Dot(x, r.gain))
	}
	ld, part, out := Padded(r.d), x[from:to], r.gain[from:to]
	for i := range out {
		row := (from+i)*ld + from
		out[i] = Dot(part, r.inv[row:row+len(part)])
	}
	return max(0, Dot(part, out))
}

// Norm2 returns ‖u‖²_V = uᵀVu, from V itself and not from its inverse. Cost 2d², and what waits.
func (r *Ridge) Norm2(u []float64) float64 {
	if len(u) != r.d {
		panic(badLength)
	}
	if r.split != nil {
		r.split.between(r.d, func(from, to int, part *Ridge) {
			if part != nil {
				MulSym(r.gain[from:to], part.V(), u[from:to])
				return
			}
			for i := from; i < to; i++ {
				r.gain[i] = float64(r.lambda*u[i]) + 0
			}
		})
		return max(0, Dot(u, r.gain))
	}
	MulSym(r.gain[:r.d], r.V(), u)
	return max(0, Dot(u, r.gain))
}

// Update performs V ← V + xxᵀ, b ← b + yx and brings V⁻¹, θ̂ and log det up to date. It reports
// false, and leaves the state as it was, when x or y is not finite or the result would not be. On
// success gain holds V_{t−1}⁻¹x / (1 + xᵀV_{t−1}⁻¹x) = V_t⁻¹x until the next call of a method:
// every model of the regression moves by gain·(target − ⟨x, model⟩). Cost 3d².
func (r *Ridge) Update(x []float64, y float64) (gain []float64, ok bool) {
	d := r.d
	if len(x) != d {
		panic(badLength)
	}
	if r.split != nil {
		if p := r.part(x); p != nil {
			return r.updatePart(p, x, y)
		}
	}
	q, ok := r.absorb(x, y, r)
	if !ok {
		return nil, false
	}
	if r.grow(q) && (r.fresh >= refactorEvery || r.drifted(x)) && r.refactor() {
		mulPadded(r.gain, r.inv, x)
	}
	return r.gain[:d], true
}

// absorb learns (x, y) and makes the step of V⁻¹ owed, that of V and b wait. r is whole, or a block of it. It returns q
// = xᵀV⁻¹x.
func (r *Ridge) absorb(x []float64, y float64, whole *Ridge) (q float64, ok bool) {
	if r.owed {
		r.pay()
	}
	if r.core.held == r.rows {
		r.enter()
	}
	// q is not finite when x is not: x_i = ±∞ makes k_i infinite or NaN, and x_i k_i too.
	s, q := r.learn(x, y)
	if !(q >= 0) && Finite(x) && whole.refactor() { // V⁻¹ was no longer positive definite
		s, q = r.learn(x, y)
	}
	if s == 0 {
		return q, false
	}
	r.core.s, r.owed = s, true
	r.rewards[r.core.held&3*16+r.core.held>>2] = y
	r.core.held++
	return q, true
}

// grow counts an update and what it makes of the determinant. It says whether a look at the drift is due.
func (r *Ridge) grow(q float64) (look bool) {
	r.n++
	r.fresh++

	// 1 + growth is Π(1 + q); growth itself keeps the digits of small q.
	if q > 1 || r.growth > 1 {
		r.fold()
	}
	r.growth = math.FMA(1+r.growth, q, r.growth)
	if r.n%foldEvery == 0 {
		r.fold()
	}
	return r.fresh%probeEvery == 0
}

// learn is the arithmetic of an update: k ← V⁻¹x with q = ⟨x, k⟩, s = 1/(1 + q), gain ← s·k and
// θ̂_i ← fma(y − ⟨x, θ̂⟩, gain_i, θ̂_i). Where q is negative or a number not finite, s is 0 and only k and
// what follows has changed. x is copied to the next free row of wait, and to that of tile.
func (r *Ridge) learn(x []float64, y float64) (s, q float64) {
	if len(x) != r.d {
		panic(badLength)
	}
	if r.wait == nil {
		r.queue()
	}
	switch level := cpu.Kernels(); {
	case r.halves(level):
		return learnHalfAVX512(&r.core, &x[0], y)
	case level == cpu.AVX512:
		return learnAVX512(&r.core, &x[0], y)
	case level == cpu.AVX2:
		return learnAVX2(&r.core, &x[0], y)
	}
	d, at := r.d, r.core.held
	mulPadded(r.k, r.inv, x)
	wait := r.wait[at*d:][:d]
	if r.tile == nil {
		copy(wait, x)
	} else {
		tile := r.tile[at*Members:][:len(wait)]
		for i, v := range x[:len(wait)] {
			wait[i], tile[i] = v, v
		}
	}
	q = dot(x, r.k)
	e := y - dot(x, r.theta)
	if !(q >= 0) || q-q != 0 || e-e != 0 {
		return 0, q
	}
	s = 1 / (1 + q)
	k := r.k[:d]
	gain, theta := r.gain[:len(k)], r.theta[:len(k)]
	for i, v := range k {
		v *= s
		gain[i] = v
		theta[i] = math.FMA(e, v, theta[i])
	}
	return s, q
}

// fold takes the logarithm of the growth.
func (r *Ridge) fold() {
	r.logDet += logs.Log1p(r.growth)
	r.growth = 0
}

// enter adds what waits to V and b.
func (r *Ridge) enter() {
	d := r.d
	n := r.core.held
	if n == 0 {
		return
	}
	wait := r.wait[:n*d]
	portable := cpu.Kernels() == cpu.Portable
	var u [waiting * Members]float64
	for j := 0; j < d; j += Members {
		rows, v := u[:n*Members], r.v[j*d:(j+Members)*d]
		if r.tile != nil {
			rows = r.tile[:n*Members]
		} else {
			for t := range n {
				copy(u[t*Members:t*Members+Members], wait[t*d+j:t*d+d])
			}
		}
		if !portable {
			addTile(v, rows, wait, d, j)
			continue
		}
		for p := j; p < min(j+Members, d); p += 8 {
			to := min(p+8, d)
			tileCorner(v[(p-j)*d:], rows[p-j:], wait, d, p, to)
			if to < d {
				tilePanel(v[(p-j)*d:], rows[p-j:], wait, d, to)
			}
		}
	}
	AddSteps(r.sum, &r.rewards, 0, wait)
	r.core.held = 0
}

// mirror brings the numbers of v up to date that enter leaves out.
func (r *Ridge) mirror() {
	d := r.d
	for p := 0; p < d; p += 8 {
		n := min(8, d-p)
		for i := range p + n {
			row, from := r.v[r.at(p, i):][:n], r.v[r.at(i, p):]
			for k := max(0, i-p+1); k < n; k++ {
				row[k] = from[8*k]
			}
		}
	}
}

// drifted looks at the residual |V gain − x| for gain = V⁻¹x. V is read as it lies, eight rows at a time:
// adding the rounds of a member is the same sum as multiplying the columns of eight rows.
func (r *Ridge) drifted(x []float64) bool {
	r.enter()
	r.mirror()
	d := r.d
	var u [waiting]float64
	var worst, size float64
	for p := 0; p < d; p += 8 {
		var rows [8]float64
		for first := 0; first < d; first += waiting {
			n := min(waiting, d-first)
			for k, v := range r.gain[first : first+n] {
				u[k&3*16+k>>2] = v
			}
			AddSteps(rows[:], &u, 0, r.v[r.at(p, first):][:8*n])
		}
		for i, xi := range x[p:min(p+8, d)] {
			worst = max(worst, math.Abs(rows[i]-xi))
			size = max(size, math.Abs(xi))
		}
	}
	return worst > probeLimit*size
}

// refactor recomputes V⁻¹, θ̂ and log det from V by Cholesky. It reports false, and changes
// nothing, when V is not positive definite to working precision.
func (r *Ridge) refactor() bool {
	if r.split != nil {
		return r.refactorParts()
	}
	return r.refactorFrom(r.V())
}

func (r *Ridge) refactorFrom(v []float64) bool {
	f := r.factor()
	if !f.Set(v) {
		return false
	}
	r.invert(&f)
	r.rebuild(f.LogDet())
	return true
}

// factor returns a factor in the scratch.
func (r *Ridge) factor() Factor {
	if r.work == nil {
		r.work = make([]float64, r.d*r.d)
	}
	return Factor{d: r.d, l: r.work}
}

// rebuild counts a factorisation of V.
func (r *Ridge) rebuild(logDet float64) {
	r.logDet, r.growth = max(0, logDet-float64(float64(r.d)*logs.Log(r.lambda))), 0
	r.fresh = 0
	r.rebuilt++
}

// invert computes V⁻¹ and θ̂ from the factor of V, and b.
func (r *Ridge) invert(f *Factor) {
	d, ld := r.d, Padded(r.d)
	r.owed, r.half = false, false
	for j := range d {
		col := r.gain[:d]
		clear(col)
		col[j] = 1
		f.Solve(col)
		for i := range j + 1 {
			r.inv[i*ld+j] = col[i]
			r.inv[j*ld+i] = col[i]
		}
	}
	mulPadded(r.theta, r.inv, r.B())
}

// Forget performs V ← γV + (1 − γ)λI + xxᵀ, b ← γb + yx, 0 < γ ≤ 1: the regression in which an event counts γ
// times less with each later one, and λI stays. It reports false, and changes nothing, where x or y is not
// finite or so large that squares could overflow, or V is not positive definite to working precision. Cost d³.
func (r *Ridge) Forget(gamma float64, x []float64, y float64) bool {
	d := r.d
	if len(x) != d {
		panic(badLength)
	}
	if !(Dot(x, x)+float64(y*y) <= rootLimit) {
		return false
	}
	if r.split != nil {
		r.join()
	}
	if r.other == nil {
		r.other = make([]float64, d*d)
	}
	if r.before == nil {
		r.before = make([]float64, d)
	}
	v, b := r.other, r.before
	copy(v, r.V())
	copy(b, r.B())
	for i := range d {
		for j := range i + 1 {
			q := float64(gamma*v[i*d+j]) + float64(x[i]*x[j])
			if i == j {
				q += float64((1 - gamma) * r.lambda)
			}
			v[i*d+j], v[j*d+i] = q, q
		}
		r.sum[i] = float64(gamma*b[i]) + float64(y*x[i])
	}
	if !r.refactorFrom(v) {
		copy(r.sum, b)
		return false
	}
	for i := range d {
		for j := range d {
			r.v[r.at(i, j)] = v[i*d+j]
		}
	}
	r.n++
	return true
}

// State returns the state as five vectors, for a snapshot: V, V⁻¹, b, θ̂ and (log det, the two counters,
// growth), which are exact as float64 below 2⁵³. They belong to the state and are valid until the next call of a
// method.
func (r *Ridge) State() [][]float64 {
	if r.other == nil {
		r.other = make([]float64, r.d*r.d)
	}
	copy(r.other, r.V())
	return [][]float64{r.other, r.Inv(), r.B(), r.Theta(), {r.logDet, float64(r.n), float64(r.fresh), r.growth}}
}

// StateLengths returns the lengths of the vectors of State.
func (r *Ridge) StateLengths() []int { return []int{r.d * r.d, r.d * r.d, r.d, r.d, 4} }

// Restore puts back what State returned, from a state of equal dimension.
func (r *Ridge) Restore(vectors [][]float64) {
	d := r.d
	for i, n := range r.StateLengths() {
		if len(vectors[i]) != n {
			panic(badLength)
		}
	}
	copy(r.sum, vectors[2])
	copy(r.theta[:d], vectors[3])
	last := vectors[4]
	r.logDet, r.n, r.fresh, r.growth = last[0], uint64(last[1]), uint64(last[2]), last[3]
	r.rebuilt++
	if d >= blocksFrom && r.restoreParts(vectors[0], vectors[1]) {
		return
	}
	if r.inv == nil {
		r.split = nil
		r.begin(0)
	}
	r.put(vectors[0], vectors[1], d)
}

// put replaces V and V⁻¹ by the rows of v and inv, which begin ld numbers apart.
func (r *Ridge) put(v, inv []float64, ld int) {
	d, padded := r.d, Padded(r.d)
	for i := range d {
		for j := range d {
			r.v[r.at(i, j)] = v[i*ld+j]
		}
		copy(r.inv[i*padded:i*padded+d], inv[i*ld:])
	}
	r.core.held, r.owed, r.half = 0, false, false
}
