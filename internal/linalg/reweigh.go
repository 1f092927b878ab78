package linalg

import (
	"math"

	"troupe/internal/logs"
)

// Reweigh chooses λ anew for the ridge regression of a Root, from its sums G = ΣXXᵀ = V − λI and b, in
// steps of at most O(d²) that any goroutine may take, one at a time: the result does not depend on how
// they are scheduled, and the Root is only read by NewReweigh and changed by Apply.
//
// Phases: d−1 Householder reflections that bring G to tridiagonal form T = PᵀGP, with c = Pᵀb (from
// then on a λ costs O(d): det(T + λI) and cᵀ(T + λI)⁻¹c come from one elimination); the choice, by the
// caller's score; and the Cholesky factorisation of G + λI, row by row. Memory 2d².
type Reweigh struct {
	d, step int
	of      *Root
	n       uint64
	scale   float64   // a power of two: a holds scale·G
	gram    []float64 // G, d×d
	b       []float64
	a       []float64 // scratch of the reduction, and T
	w, e    []float64 // diagonal and subdiagonal of scale·T
	p, c    []float64
	grid    []float64
	score   func(logDet, explained float64) float64
	lambda  float64
	f       *Factor
	failed  bool
}

// NewReweigh starts a choice among grid, which is in decreasing order: the first λ whose score is within
// rounding (10⁻⁹) of the largest, so that ties go to the larger λ. The score is that of
// log det(V_λ/λ^d) and bᵀV_λ⁻¹b.
func (r *Root) NewReweigh(grid []float64, score func(logDet, explained float64) float64) *Reweigh {
	d := r.d
	g := &Reweigh{
		d: d, of: r, n: r.n, gram: make([]float64, d*d), b: make([]float64, d), a: make([]float64, d*d),
		w: make([]float64, d), e: make([]float64, d), p: make([]float64, d), c: make([]float64, d),
		grid: grid, score: score, lambda: r.lambda, f: NewFactor(d, r.lambda),
	}
	r.Gram(g.gram, g.b)
	var top float64
	for i := range d {
		g.gram[i*d+i] -= r.lambda
		top = max(top, g.gram[i*d+i])
	}
	_, exp := math.Frexp(top)
	g.scale = math.Ldexp(1, max(-1000, min(-exp, 1000)))
	for i, v := range g.gram {
		g.a[i] = v * g.scale
	}
	copy(g.c, g.b)
	return g
}

// Step does a piece of the work of at most about 6d² operations and reports whether all is done.
func (g *Reweigh) Step() (done bool) {
	d := g.d
	switch k := g.step; {
	case k < d-1:
		g.w[k] = g.a[k*d+k]
		g.e[k] = reflect(g.a, d, k, g.p)
		if beta := g.a[k*d+k]; beta != 0 {
			v := g.a[k*d+k+1 : k*d+d]
			Axpy(-beta*Dot(v, g.c[k+1:]), v, g.c[k+1:])
		}
	case k == d-1:
		g.w[d-1] = g.a[d*d-1]
		g.choose()
	case k < 2*d:
		g.failed = g.failed || !g.f.next(g.gram, k-d, g.lambda)
	default:
		return true
	}
	g.step++
	return g.step == 2*d
}

// Lambda returns the λ that was chosen. It is meaningful when Step has reported true.
func (g *Reweigh) Lambda() float64 { return g.lambda }

// choose takes the best λ of the grid.
func (g *Reweigh) choose() {
	best := math.Inf(-1)
	for _, lambda := range g.grid {
		logDet, explained, ok := g.at(lambda)
		if !ok {
			continue
		}
		if s := g.score(logDet, explained); s > best+float64(1e-9*(1+math.Abs(best))) || math.IsInf(best, -1) && s > best {
			best, g.lambda = s, lambda
		}
	}
}

// at returns log det((G + λI)/λ^d) and bᵀ(G + λI)⁻¹b, from T + λI = LDLᵀ. It is not ok when a pivot is
// not positive: λ is below the rounding errors of G.
func (g *Reweigh) at(lambda float64) (logDet, explained float64, ok bool) {
	shift := float64(lambda * g.scale)
	pivot, y := g.w[0]+shift, g.c[0]
	product, exp := 1.0, 0
	for i := 0; ; i++ {
		if !(pivot > 0) {
			return 0, 0, false
		}
		explained += float64(y*y) / pivot
		product *= pivot / shift
		if !(product > 0x1p-300 && product < 0x1p300) {
			fr, ex := math.Frexp(product)
			product, exp = fr, exp+ex
		}
		if i == g.d-1 {
			break
		}
		ratio := g.e[i] / pivot
		y = g.c[i+1] - float64(ratio*y)
		pivot = g.w[i+1] + shift - float64(ratio*g.e[i])
	}
	return max(0, logs.Log(product)+float64(float64(exp)*math.Ln2)), explained * g.scale, true
}

// Apply puts the new λ into the Root that NewReweigh read, which has not changed since, after doing the
// steps that are left. It reports false, and changes nothing, when G + λI is not positive definite to
// working precision. It panics when the Root has changed.
func (g *Reweigh) Apply() bool {
	for !g.Step() {
	}
	if g.of.n != g.n {
		panic("linalg: Reweigh: the state has changed meanwhile")
	}
	if g.failed {
		return false
	}
	r := g.of
	r.lambda = g.lambda
	r.f.Load(g.f.L())
	copy(r.z, g.b)
	r.f.SolveL(r.z)
	r.derive()
	return true
}
