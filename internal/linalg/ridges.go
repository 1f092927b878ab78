package linalg

import (
	"math"

	"troupe/internal/cpu"
	"troupe/internal/logs"
)

// Eight is the number of lanes of Ridges: the float64 of 64 bytes.
const Eight = 8

// Batches are numbers of eight lanes side by side: number i of lane l is at 8i + l. The kernels of this
// file do in each lane what those of kernels.go do for one problem, in the same order of operations, so
// a lane holds the bits of the problem alone. Only what was a sum over the lanes of a vector there is a
// sum of vectors here.

// BatchesPay says whether eight problems side by side are faster than one after the other when a round
// touches a number of batches: while these stay in the second cache. docs/design/adr/0005-lock-step.md has the
// measurements. In portable Go the lanes are a loop, and nothing is won.
func BatchesPay(batches int) bool {
	switch cpu.Kernels() {
	case cpu.AVX512:
		return batches <= 8192 // 512 KiB of 1 or 2 MiB
	case cpu.AVX2:
		return batches <= 4096 // 256 KiB: the arithmetic alone wins less, and older machines have no more
	}
	return false
}

// Ridges is up to eight regressions of one dimension, side by side, that are updated in the same rounds.
// Each stays, bit for bit, what its Ridge would be after the same updates. Not safe for concurrent use.
//
// V⁻¹ lags behind by a step as in Ridge; V and b lag behind by up to four.
type Ridges struct {
	d     int
	of    [Eight]*Ridge // lanes without a regression of the caller have one of their own
	lanes int           // that are the caller's

	inv   []float64 // d×d batches; a step behind where owed
	k     []float64 // V_{t−1}⁻¹x
	s     *[Eight]float64
	owed  bool
	theta []float64

	vb    []float64 // (d+1)×d batches: V up to its diagonal, and b as row d
	steps []float64 // batchSteps × (d+1) batches: x and y
	first int       // row of the first step that vb has not seen
	late  int       // number of such steps

	q, e           *[Eight]float64
	logDet, growth *[Eight]float64
	n, fresh       [Eight]uint64 // of Ridge, when count was 0
	count          uint64        // updates
	foldAt         uint64        // the count at which some lane folds next
	probeAt        uint64        // the count at which some lane looks for drift next

	gain, work []float64 // scratch
}

// batchSteps is the number of steps that enter V and b together.
const batchSteps = 4

// Steps returns rows k, …, 3 of four: the actions of a step are the first d batches of a row of d+1. They stay
// after an Update until there is another write.
func (g *Ridges) Steps(k int) []float64 { return g.steps[k*(g.d+1)*Eight:] }

// batches returns room for n batches. The allocator puts objects of 512 bytes and more on multiples of 64.
func batches(n int) []float64 { return make([]float64, max(n, 8)*Eight)[:n*Eight] }

// NewRidges puts one to eight regressions of one dimension side by side. They are read now and written
// by Part only.
func NewRidges(of []*Ridge) *Ridges {
	if len(of) < 1 || len(of) > Eight {
		panic("linalg: NewRidges: one to eight regressions")
	}
	d := of[0].d
	g := &Ridges{
		d: d, lanes: len(of), inv: batches(d * d), k: batches(d), theta: batches(d), vb: batches((d + 1) * d),
		steps: batches(batchSteps * (d + 1)), gain: batches(d), work: batches(d),
	}
	room := batches(8)
	for i, p := range []**[Eight]float64{&g.s, &g.q, &g.e, &g.logDet, &g.growth} {
		*p = (*[Eight]float64)(room[i*Eight:])
	}
	for l := range g.of {
		if l < len(of) {
			if of[l].d != d {
				panic(badLength)
			}
			g.of[l] = of[l]
			g.load(l)
			continue
		}
		g.of[l] = of[0]
		g.load(l)
		g.of[l] = NewRidge(d, of[0].lambda)
	}
	return g
}

// Theta returns θ̂_t of all lanes, d batches. They belong to the state.
func (g *Ridges) Theta() []float64 { return g.theta }

// LogDetRatio returns log(det V_t / λ^d) of a lane.
func (g *Ridges) LogDetRatio(lane int) float64 {
	return g.logDet[lane] + logs.Log1p(g.growth[lane])
}

// load reads the regression of a lane.
func (g *Ridges) load(l int) {
	d, ld, r := g.d, Padded(g.d), g.of[l]
	g.Settle()
	if r.split != nil {
		r.join()
	}
	r.pay()
	r.enter()
	if !g.owed {
		g.waive()
	}
	for i := range d {
		for j := range d {
			g.inv[(i*d+j)*Eight+l] = r.inv[i*ld+j]
			g.vb[(i*d+j)*Eight+l] = r.v[r.at(min(i, j), max(i, j))]
		}
		g.vb[(d*d+i)*Eight+l] = r.sum[i]
		g.theta[i*Eight+l] = r.theta[i]
		g.k[i*Eight+l] = 0
	}
	g.s[l] = 0
	g.logDet[l], g.growth[l] = r.logDet, r.growth
	g.n[l], g.fresh[l] = r.n-g.count, r.fresh-g.count // modulo 2⁶⁴
	g.foldAt, g.probeAt = g.count, g.count
}

// store writes the regression of a lane.
func (g *Ridges) store(l int) {
	d, ld, r := g.d, Padded(g.d), g.of[l]
	g.Settle()
	r.core.held = 0
	for i := range d {
		for j := range d {
			r.inv[i*ld+j] = g.inv[(i*d+j)*Eight+l]
			r.v[r.at(i, j)] = g.vb[(max(i, j)*d+min(i, j))*Eight+l]
		}
		r.sum[i] = g.vb[(d*d+i)*Eight+l]
		r.theta[i] = g.theta[i*Eight+l]
		r.k[i] = g.k[i*Eight+l]
	}
	r.core.s, r.owed = g.s[l], g.owed
	r.logDet, r.growth = g.logDet[l], g.growth[l]
	r.n, r.fresh = g.n[l]+g.count, g.fresh[l]+g.count
}

// Part writes the regressions back. They may go on alone then, and so may the batch.
func (g *Ridges) Part() {
	for l := range g.lanes {
		g.store(l)
	}
}

// waive makes the step that is owed one that changes no bit: v − 0·0 is v, −0 too.
func (g *Ridges) waive() {
	clear(g.k)
	*g.s = [Eight]float64{}
	g.owed = true
}

// SolveShift stores θ̂ + c·V⁻¹s in dst, d batches, for the vectors s. dst may not alias s. Cost d² in each
// lane.
func (g *Ridges) SolveShift(dst, s []float64, c *[Eight]float64) {
	if len(dst) != g.d*Eight || len(s) != g.d*Eight {
		panic(badLength)
	}
	if !g.owed {
		g.waive()
	}
	batchStep(dst, g.inv, s, g.d, c, g.theta, g.s, g.k)
	g.owed = false
}

// Update performs in every lane what Ridge.Update does, for the actions in row k of Steps and the rewards y.
// Rows follow each other, 0 after 3; before another one is written, call Settle. It reports false, and
// leaves all lanes as they were, where one of them refuses. Cost 4d² in each lane.
func (g *Ridges) Update(k int, y *[Eight]float64) (ok bool) {
	if g.late == 0 {
		g.first = k
	}
	if k != g.first+g.late || k >= batchSteps {
		panic("linalg: Ridges: not the next row")
	}
	d := g.d
	step := g.steps[k*(d+1)*Eight : (k+1)*(d+1)*Eight]
	x := step[:d*Eight]
	if g.owed {
		g.SolveShift(g.work, x, g.s) // for the step alone
	}
	bad, fold := batchLearn(g.k, g.inv, x, g.theta, y, d, g.growth, g.q, g.e, g.s)
	if bad != 0 {
		if !g.repair(bad, x) {
			return false
		}
		if bad, fold = batchLearn(g.k, g.inv, x, g.theta, y, d, g.growth, g.q, g.e, g.s); bad != 0 {
			return false
		}
	}
	g.owed = true
	if fold != 0 {
		for l := 0; fold != 0; l, fold = l+1, fold>>1 {
			if fold&1 != 0 {
				g.fold(l)
			}
		}
		batchMove(g.theta, g.k, d, g.s, g.e, g.growth, g.q)
	}
	*(*[Eight]float64)(step[d*Eight:]) = *y
	g.count++
	if g.late++; k == batchSteps-1 {
		g.Settle()
	}
	if g.count >= g.foldAt {
		g.foldAt = math.MaxUint64
		for l, n := range &g.n {
			if n += g.count; n%foldEvery == 0 {
				g.fold(l)
			}
			g.foldAt = min(g.foldAt, g.count+foldEvery-n%foldEvery)
		}
	}
	if g.count >= g.probeAt {
		g.probe(x)
	}
	return true
}

func (g *Ridges) fold(l int) {
	g.logDet[l] += logs.Log1p(g.growth[l])
	g.growth[l] = 0
}

// repair computes V⁻¹ afresh in lanes where it is no longer positive definite.
func (g *Ridges) repair(bad int, x []float64) bool {
	for l := range Eight {
		if bad>>l&1 == 0 {
			continue
		}
		for i := l; i < len(x); i += Eight {
			if x[i]-x[i] != 0 {
				return false
			}
		}
		if g.q[l] >= 0 || !g.refactor(l) {
			return false
		}
	}
	return true
}

// refactor is Ridge.refactor in one lane.
func (g *Ridges) refactor(l int) bool {
	g.store(l)
	if !g.of[l].refactor() {
		return false
	}
	g.load(l)
	return true
}

// probe looks for drift in the lanes whose time has come, after the step x: see Ridge.Update.
func (g *Ridges) probe(x []float64) {
	d := g.d
	g.Settle()
	for i := range d {
		for j := range i {
			copy(g.vb[(j*d+i)*Eight:][:Eight], g.vb[(i*d+j)*Eight:])
		}
		for l, s := range g.s {
			g.gain[i*Eight+l] = s * g.k[i*Eight+l]
		}
	}
	batchMul(g.work, g.vb[:d*d*Eight], g.gain, d)
	var again [Eight]bool
	g.probeAt = math.MaxUint64
	for l := range Eight {
		fresh := g.fresh[l] + g.count
		if fresh%probeEvery == 0 {
			var worst, size float64
			for i := range d {
				worst = max(worst, math.Abs(g.work[i*Eight+l]-x[i*Eight+l]))
				size = max(size, math.Abs(x[i*Eight+l]))
			}
			again[l] = fresh >= refactorEvery || worst > probeLimit*size
		}
		g.probeAt = min(g.probeAt, g.count+probeEvery-fresh%probeEvery)
	}
	for l, yes := range again {
		if yes {
			g.refactor(l)
		}
	}
}

// Settle adds the steps that are late to V and b.
func (g *Ridges) Settle() {
	if g.late > 0 {
		w := g.d + 1
		late := g.steps[g.first*w*Eight:]
		batchAdd(g.vb, g.d, late, w, late, w, g.late, 1)
	}
	g.late = 0
}

// batchMul stores A·x in dst, mulPadded in every lane, for d×d batches A in rows of d.
func batchMul(dst, a, x []float64, d int) {
	if d < 1 || len(dst) != d*Eight || len(a) != d*d*Eight || len(x) != d*Eight {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		batchMulAVX512(&dst[0], &a[0], &x[0], d)
	case cpu.AVX2:
		batchMulAVX2(&dst[0], &a[0], &x[0], d)
	default:
		for i := range d {
			batchDot((*[Eight]float64)(dst[i*Eight:]), a[i*d*Eight:(i+1)*d*Eight], x)
		}
	}
}

// batchDot is dot in every lane.
func batchDot(dst *[Eight]float64, a, b []float64) {
	b = b[:len(a)]
	var p [8][Eight]float64
	for i := 0; i+Eight <= len(a); i += Eight {
		x, y, s := (*[Eight]float64)(a[i:]), (*[Eight]float64)(b[i:]), &p[i/Eight%8]
		for l := range s {
			s[l] = math.FMA(x[l], y[l], s[l])
		}
	}
	for l := range dst {
		dst[l] = ((p[0][l] + p[4][l]) + (p[2][l] + p[6][l])) + ((p[1][l] + p[5][l]) + (p[3][l] + p[7][l])) + 0
	}
}

// batchStep makes the step A ← A − s·k kᵀ and stores hat + c·A·x in dst: stepShift in every lane.
func batchStep(dst, a, x []float64, d int, c *[Eight]float64, hat []float64, s *[Eight]float64, k []float64) {
	if d < 1 || len(dst) != d*Eight || len(a) != d*d*Eight || len(x) != d*Eight || len(hat) != d*Eight ||
		len(k) != d*Eight {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		batchStepAVX512(&dst[0], &a[0], &x[0], d, &c[0], &hat[0], &s[0], &k[0])
	case cpu.AVX2:
		batchStepAVX2(&dst[0], &a[0], &x[0], d, &c[0], &hat[0], &s[0], &k[0])
	default:
		for i := range d {
			row := a[i*d*Eight : (i+1)*d*Eight]
			ki := (*[Eight]float64)(k[i*Eight:])
			for j := range d {
				y, kj := (*[Eight]float64)(row[j*Eight:]), (*[Eight]float64)(k[j*Eight:])
				for l := range y {
					y[l] = math.FMA(-s[l], float64(ki[l]*kj[l]), y[l])
				}
			}
			out, h := (*[Eight]float64)(dst[i*Eight:]), (*[Eight]float64)(hat[i*Eight:])
			batchDot(out, row, x)
			for l := range out {
				out[l] = math.FMA(c[l], out[l], h[l])
			}
		}
	}
}

// batchLearn computes k = A·x, q = xᵀk, e = y − xᵀθ and s = 1/(1+q). Bit l of bad says that lane l cannot make
// this step: q is negative, or q or e is not finite; that of fold, that q or growth is above 1. Where
// neither has a bit, batchMove is done too.
func batchLearn(k, a, x, theta []float64, y *[Eight]float64, d int, growth, q, e, s *[Eight]float64) (bad, fold int) {
	if d < 1 || len(a) != d*d*Eight || len(x) != d*Eight || len(k) != d*Eight || len(theta) != d*Eight {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		return batchLearnAVX512(&k[0], &a[0], &x[0], &theta[0], &y[0], d, &growth[0], &q[0], &e[0], &s[0])
	case cpu.AVX2:
		return batchLearnAVX2(&k[0], &a[0], &x[0], &theta[0], &y[0], d, &growth[0], &q[0], &e[0], &s[0])
	}
	batchMul(k, a, x, d)
	var mean [Eight]float64
	batchDot(q, x, k)
	batchDot(&mean, x, theta)
	for l := range Eight {
		e[l] = y[l] - mean[l]
		s[l] = 1 / (1 + q[l])
		if !(q[l] >= 0) || q[l]-q[l] != 0 || e[l]-e[l] != 0 {
			bad |= 1 << l
		}
		if q[l] > 1 || growth[l] > 1 {
			fold |= 1 << l
		}
	}
	if bad|fold == 0 {
		batchMove(theta, k, d, s, e, growth, q)
	}
	return bad, fold
}

// batchMove moves theta by e·s·k and growth by (1 + growth)·q.
func batchMove(theta, k []float64, d int, s, e, growth, q *[Eight]float64) {
	if d < 1 || len(theta) != d*Eight || len(k) != d*Eight {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		batchMoveAVX512(&theta[0], &k[0], d, &s[0], &e[0], &growth[0], &q[0])
	case cpu.AVX2:
		batchMoveAVX2(&theta[0], &k[0], d, &s[0], &e[0], &growth[0], &q[0])
	default:
		for i := 0; i < len(theta); i += Eight {
			to, ki := (*[Eight]float64)(theta[i:]), (*[Eight]float64)(k[i:])
			for l := range to {
				to[l] = math.FMA(e[l], float64(s[l]*ki[l]), to[l])
			}
		}
		for l := range growth {
			growth[l] = math.FMA(1+growth[l], q[l], growth[l])
		}
	}
}

// BatchArgMax stores in at, for each lane, the ArgMax of its rows: x is a list of rows of d batches, theta
// d batches. It reports false, and at means nothing, where a number of theta is not finite or beyond
// ±2⁴⁹⁹. Cost one pass over x.
func BatchArgMax(at *[Eight]int, x, theta []float64) (tame bool) {
	w := len(theta)
	if w == 0 || w%Eight != 0 || len(x) == 0 || len(x)%w != 0 {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		return batchArgMaxAVX512(&x[0], len(x)/w, &theta[0], w/Eight, &at[0]) == 0
	case cpu.AVX2:
		return batchArgMaxAVX2(&x[0], len(x)/w, &theta[0], w/Eight, &at[0]) == 0
	}
	for _, v := range theta {
		if !(math.Abs(v) <= 0x1p499) {
			return false
		}
	}
	var best, v [Eight]float64
	for l := range best {
		best[l], at[l] = math.Inf(-1), 0
	}
	for i := range len(x) / w {
		batchDot(&v, x[i*w:i*w+w], theta)
		for l := range v {
			if v[l] > best[l] {
				best[l], at[l] = v[l], i
			}
		}
	}
	return true
}

// BatchPick stores in dst, for each lane, the row of a list of rows of len(dst)/8 batches that at names.
func BatchPick(dst, table []float64, at *[Eight]int) { BatchMember(dst, table, at, nil, 0, nil, 0, 0) }

// BatchMember is BatchPick from a list of sums that lack n steps, with these steps added: what BatchAdd
// would make of the rows.
func BatchMember(dst, sums []float64, at *[Eight]int, u []float64, ustep int, x []float64, xstep, n int) {
	w := len(dst)
	if w == 0 || w%Eight != 0 || len(sums) == 0 || len(sums)%w != 0 || n < 0 || ustep < 0 || xstep < 0 {
		panic(badLength)
	}
	rows, bad := len(sums)/w, 0
	var u0, x0 *float64
	if n > 0 {
		if len(u) < ((n-1)*ustep+rows)*Eight || len(x) < (n-1)*xstep*Eight+w {
			panic(badLength)
		}
		u0, x0 = &u[0], &x[0]
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		bad = batchPickAVX512(&dst[0], &sums[0], &at[0], rows, w/Eight, u0, ustep, x0, xstep, n)
	case cpu.AVX2:
		bad = batchPickAVX2(&dst[0], &sums[0], &at[0], rows, w/Eight, u0, ustep, x0, xstep, n)
	default:
		for _, i := range at {
			if uint(i) >= uint(rows) {
				bad = 1
			}
		}
		for l, i := range at {
			if bad != 0 {
				break
			}
			for j := l; j < w; j += Eight {
				v := sums[i*w+j]
				for k := range n {
					v = math.FMA(u[(k*ustep+i)*Eight+l], x[k*xstep*Eight+j], v)
				}
				dst[j] = v
			}
		}
	}
	if bad != 0 {
		panic("linalg: BatchMember: no such row")
	}
}

// BatchAdd adds n steps to vectors of d batches: s_j ← s_j + u_{kj} x_k for k = 0, …, n−1 in order, as AddTile
// does. s is a list of them, step k has its batches u_{kj} from u[8·k·ustep] and its vector from
// x[8·k·xstep].
func BatchAdd(s []float64, d int, u []float64, ustep int, x []float64, xstep, n int) {
	batchAdd(s, d, u, ustep, x, xstep, n, 0)
}

// batchAdd is BatchAdd; with skip = 1 number i of vector j may be left out where i > j.
func batchAdd(s []float64, d int, u []float64, ustep int, x []float64, xstep, n, skip int) {
	if d < 1 || n < 0 || len(s)%(d*Eight) != 0 || ustep < 0 || xstep < 0 {
		panic(badLength)
	}
	members := len(s) / (d * Eight)
	if members == 0 || n == 0 {
		return
	}
	if len(u) < ((n-1)*ustep+members)*Eight || len(x) < ((n-1)*xstep+d)*Eight || skip > 0 && members < d {
		panic(badLength)
	}
	level := cpu.Kernels()
	for n > 0 {
		k := 1
		switch {
		case level == cpu.Portable:
			for j := range members {
				uj := (*[Eight]float64)(u[j*Eight:])
				for i := range d {
					to, xi := (*[Eight]float64)(s[(j*d+i)*Eight:]), (*[Eight]float64)(x[i*Eight:])
					for l := range to {
						to[l] = math.FMA(uj[l], xi[l], to[l])
					}
				}
			}
		case n >= 4 && level == cpu.AVX512:
			k = 4
			batchAddFourAVX512(&s[0], members, d, &u[0], ustep, &x[0], xstep, skip)
		case n >= 4:
			k = 4
			batchAddFourAVX2(&s[0], members, d, &u[0], ustep, &x[0], xstep, skip)
		case level == cpu.AVX512:
			batchAddOneAVX512(&s[0], members, d, &u[0], ustep, &x[0], xstep, skip)
		default:
			batchAddOneAVX2(&s[0], members, d, &u[0], ustep, &x[0], xstep, skip)
		}
		if n -= k; n > 0 {
			u, x = u[k*ustep*Eight:], x[k*xstep*Eight:]
		}
	}
}
