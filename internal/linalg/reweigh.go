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
// caller's score; and the Cholesky factorisation of G + λI, row by row. Memory 2d², or that
// of the blocks of L.
type Reweigh struct {
	d, step int
	of      *Root
	n       uint64
	scale   float64                // a power of two
	parts   blocks[*reweighedPart] // where L is whole, one
	idle    float64                // the diagonal of G outside them
	b       []float64
	w, e    []float64 // diagonal and subdiagonal of scale·T
	p, c    []float64
	grid    []float64
	score   func(logDet, explained float64) float64
	lambda  float64
	failed  bool
}

// reweighedPart is a block of G on its way. The reduction of the whole matrix reflects the last pair of a block too,
// which the matrix of a block alone leaves out: a has a row and a column of zeros more, except in the last block.
type reweighedPart struct {
	gram []float64 // n×n
	a    []float64 // scale·G, then T, size×size
	size int
	f    *Factor
}

// NewReweigh starts a choice among grid, which is in decreasing order: the first λ whose score is within
// rounding (10⁻⁹) of the largest, so that ties go to the larger λ. The score is that of
// log det(V_λ/λ^d) and bᵀV_λ⁻¹b.
func (r *Root) NewReweigh(grid []float64, score func(logDet, explained float64) float64) *Reweigh {
	d := r.d
	g := &Reweigh{
		d: d, of: r, n: r.n, b: make([]float64, d), w: make([]float64, d), e: make([]float64, d), p: make([]float64, d),
		c: make([]float64, d), grid: grid, score: score, lambda: r.lambda,
	}
	r.f.MulL(g.b, r.z)
	parts := blocks[*Factor]{{0, d, r.f}}
	if r.f.split {
		parts, g.idle = r.f.parts, float64(r.f.idle*r.f.idle)-r.lambda
	}
	top := max(0, g.idle)
	for _, q := range parts {
		n := q.to - q.from
		part := &reweighedPart{gram: make([]float64, n*n), size: min(n+1, d-q.from), f: NewFactor(n, 0)}
		q.of.gram(part.gram, n)
		for i := range n {
			part.gram[i*n+i] -= r.lambda
			top = max(top, part.gram[i*n+i])
		}
		part.a = make([]float64, part.size*part.size)
		g.parts = append(g.parts, block[*reweighedPart]{q.from, q.to, part})
	}
	_, exp := math.Frexp(top)
	g.scale = math.Ldexp(1, max(-1000, min(-exp, 1000)))
	for _, q := range g.parts {
		n := q.to - q.from
		for i := range n {
			for j, v := range q.of.gram[i*n : i*n+n] {
				q.of.a[i*q.of.size+j] = v * g.scale
			}
		}
	}
	copy(g.c, g.b)
	return g
}

// Step does a piece of the work of at most about 6d² operations and reports whether all is done.
func (g *Reweigh) Step() (done bool) {
	d := g.d
	switch k := g.step; {
	case k < d:
		g.reduce(k)
		if k == d-1 {
			g.choose()
		}
	case k < 2*d:
		g.failed = g.failed || !g.factorise(k-d)
	default:
		return true
	}
	g.step++
	return g.step == 2*d
}

// reduce is step k of the reduction.
func (g *Reweigh) reduce(k int) {
	q := g.parts.find(k, k+1)
	if q == nil {
		g.w[k] = g.idle * g.scale
		return
	}
	a, size, i := q.of.a, q.of.size, k-q.from
	g.w[k] = a[i*size+i]
	if i == size-1 {
		return
	}
	g.e[k] = reflect(a, size, i, g.p)
	if beta := a[i*size+i]; beta != 0 {
		v := a[i*size+i+1 : i*size+size]
		Axpy(-beta*Dot(v, g.c[k+1:]), v, g.c[k+1:k+1+len(v)])
	}
}

// factorise computes row k of the factor of G + λI.
func (g *Reweigh) factorise(k int) bool {
	if q := g.parts.find(k, k+1); q != nil {
		return q.of.f.next(q.of.gram, k-q.from, g.lambda)
	}
	v := g.idle + g.lambda
	return v > 0 && !math.IsInf(v, 0)
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
		if s := g.score(logDet, explained); s > best+float64(1e-9*(1+math.Abs(best))) || math.IsInf(best, -1) &&
			s > best {
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
	if r.f.split {
		r.f.idle = math.Sqrt(g.idle + g.lambda)
		for i, q := range g.parts {
			r.f.parts[i].of = q.of.f
		}
	} else {
		r.f.Load(g.parts[0].of.f.l)
	}
	copy(r.z, g.b)
	r.f.SolveL(r.z)
	r.derive()
	return true
}
