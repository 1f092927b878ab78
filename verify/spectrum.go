package verify

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines the matrix Γ_t = V_t^{−1/2}S_t and its singular values.

// spectrum keeps G = S Sᵀ = Σ_j S^j S^jᵀ (d×d) of an ensemble under updates, so that the singular
// values of Γ_t do not need the ensemble: s_i²(Γ_t) are the generalised eigenvalues of (G, V_t).
// An update costs m words and m·d products for s = Σ_j U^j S^j, then d²; a look costs d³. Nothing
// grows with m beyond the update that the ensemble pays anyway.
type spectrum struct {
	d       int
	g       []float64
	s       []float64
	columns rng.Columns
	factor  *linalg.Factor
}

func newSpectrum(e *policy.Ensemble) *spectrum {
	d := e.Ridge().Dim()
	q := &spectrum{d: d, g: make([]float64, d*d), s: make([]float64, d), factor: linalg.NewFactor(d, 1)}
	for s := e.Sums(); len(s) > 0; s = s[d:] {
		for i := range d {
			linalg.Axpy(s[i], s[:d], q.g[i*d:i*d+d])
		}
	}
	return q
}

// update follows e.Update(x, ·, draw) and must be called before it: S here is S_{t−1}.
//
//	G_t = Σ (S^j + U^j x)(S^j + U^j x)ᵀ = G_{t−1} + x sᵀ + s xᵀ + |U|² x xᵀ
func (q *spectrum) update(e *policy.Ensemble, x []float64, draw rng.Source) {
	d, s := q.d, e.Sums()
	clear(q.s)
	var norm2 float64
	for j, w := range q.columns.Words(draw, len(s)/d) {
		u := rng.UniformWord(w)
		norm2 += u * u
		linalg.Axpy(u, s[j*d:j*d+d], q.s)
	}
	for i := range d {
		for k := range d {
			q.g[i*d+k] += x[i]*q.s[k] + q.s[i]*x[k] + norm2*x[i]*x[k]
		}
	}
}

// look returns the smallest and the largest generalised eigenvalue of (G, V), s_d² and s_1², and
// the maximiser's and minimiser's directions u of R_t(u) = uᵀGu/(m uᵀVu) when vectors is true.
func (q *spectrum) look(v []float64, vectors bool) (lo, hi float64, atLo, atHi []float64) {
	return generalised(q.factor, q.g, v, vectors)
}

// generalised solves G w = μ V w through the Cholesky factor of V: the eigenvalues of L⁻¹GL⁻ᵀ, and
// w = L⁻ᵀz for an eigenvector z.
func generalised(f *linalg.Factor, g, v []float64, vectors bool) (lo, hi float64, atLo, atHi []float64) {
	d := f.Dim()
	if !f.Set(v) {
		panic("verify: V is not positive definite")
	}
	h := append([]float64(nil), g...)
	for i := range d { // rows: (L⁻¹ gᵢ)ᵀ, so h = G L⁻ᵀ
		f.SolveL(h[i*d : i*d+d])
	}
	ht := make([]float64, d*d)
	for i := range d {
		for k := range d {
			ht[k*d+i] = h[i*d+k]
		}
	}
	for i := range d {
		f.SolveL(ht[i*d : i*d+d])
	}
	sym := mat.NewSymDense(d, nil)
	for i := range d {
		for k := i; k < d; k++ {
			sym.SetSym(i, k, (ht[i*d+k]+ht[k*d+i])/2)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, vectors) {
		panic("verify: eigenvalues did not converge")
	}
	values := eig.Values(nil)
	if vectors {
		var z mat.Dense
		eig.VectorsTo(&z)
		atLo, atHi = mat.Col(nil, 0, &z), mat.Col(nil, d-1, &z)
		f.SolveLT(atLo)
		f.SolveLT(atHi)
	}
	return values[0], values[d-1], atLo, atHi
}

// mustEnsemble builds an ensemble from options that are known to be right.
func mustEnsemble(o policy.EnsembleOptions, p policy.Problem) *policy.Ensemble {
	e, err := policy.NewEnsemble(o, p)
	if err != nil {
		panic(err)
	}
	return e
}

// chooser picks X_{t+1} from everything up to now, S_t included. It may use the weakest and the
// strongest direction of Γ_t.
type chooser struct {
	name string
	x    func(dst []float64, src rng.Source, t int, weak, strong []float64)
}

var choosers = []chooser{
	{"cycle", func(dst []float64, _ rng.Source, t int, _, _ []float64) {
		clear(dst)
		dst[t%len(dst)] = 1
	}},
	{"one direction", func(dst []float64, _ rng.Source, _ int, _, _ []float64) {
		clear(dst)
		dst[0] = 1
	}},
	{"weakest", func(dst []float64, _ rng.Source, _ int, weak, _ []float64) { normalise(dst, weak) }},
	{"strongest", func(dst []float64, _ rng.Source, _ int, _, strong []float64) { normalise(dst, strong) }},
	{"random", func(dst []float64, src rng.Source, _ int, _, _ []float64) { src.Ball(dst, 0) }},
}

func normalise(dst, u []float64) {
	c := 1 / linalg.Norm(u)
	for i, v := range u {
		dst[i] = c * v
	}
}

// stateAt returns an ensemble after T updates with a chooser's actions and its spectrum.
func stateAt(key rng.Key, o policy.EnsembleOptions, d, T int, choose chooser) (*policy.Ensemble, *spectrum) {
	e := mustEnsemble(o, policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
	q := newSpectrum(e)
	drive(key, e, q, T, choose, nil)
	return e, q
}

// drive makes T updates; see, when given, is called before each and after the last with s_d²/m and
// s_1²/m, and stops the drive when it returns false.
func drive(key rng.Key, e *policy.Ensemble, q *spectrum, T int, choose chooser, see func(t int, lo, hi float64) bool) {
	m := float64(len(e.Sums()) / q.d)
	a := bandit.Action{X: make([]float64, q.d), Index: bandit.NoIndex}
	for t := 0; ; t++ {
		lo, hi, weak, strong := q.look(e.Ridge().V(), true)
		if see != nil && !see(t, lo/m, hi/m) || t == T {
			return
		}
		choose.x(a.X, key.Stream(rng.Offer).Round(uint64(t)), t, weak, strong)
		draw := key.Stream(rng.Perturb).Round(uint64(t))
		q.update(e, a.X, draw)
		if err := e.Update(a, 0, draw); err != nil {
			panic(err)
		}
	}
}

// supAndInf: claim:inf-sup-R on states of real ensembles. sup_u R^j = ‖Γ^j‖² with the norm computed
// through the Cholesky factor; sup and inf of R_t against the singular values of the explicit
// Γ = V^{−1/2}S (symmetric root), attained at the generalised eigenvectors; random u stay inside.
func supAndInf(s *session) Finding {
	worst, n := 0.0, 0
	record := func(a, b float64) {
		worst = math.Max(worst, math.Abs(a-b)/(1+math.Abs(b)))
		n++
	}
	for i := range s.size(12, 60) {
		d, m := 2+i%5, 12+3*i
		e, q := stateAt(s.universe(i), policy.EnsembleOptions{Preset: "paper", M: m}, d, 40, choosers[i%len(choosers)])
		sums, v := e.Sums(), append([]float64(nil), e.Ridge().V()...)
		if s.planted {
			v[0] -= 0.5 // a stale V: an action's contribution is missing
		}
		lo, hi, weak, strong := q.look(e.Ridge().V(), true)
		gamma := symmetricRootTimes(v, sums, d)
		var svd mat.SVD
		if !svd.Factorize(mat.NewDense(m, d, gamma), mat.SVDNone) {
			panic("verify: SVD did not converge")
		}
		sv := svd.Values(nil)
		record(math.Sqrt(hi), sv[0])
		record(math.Sqrt(lo), sv[d-1])
		r := func(u []float64) (mean, first float64) {
			den := quadratic(v, u)
			for j := range m {
				a := linalg.Dot(u, sums[j*d:j*d+d])
				mean += a * a / den / float64(m)
				if j == 0 {
					first = a * a / den
				}
			}
			return mean, first
		}
		atHi, _ := r(strong)
		atLo, _ := r(weak)
		record(atHi, hi/float64(m))
		record(atLo, lo/float64(m))
		// The maximiser of R^0 is u = V⁻¹S^0.
		first := make([]float64, d)
		e.Ridge().Solve(first, sums[:d])
		_, top := r(first)
		record(top, linalg.Dot(gamma[:d], gamma[:d]))
		u := make([]float64, d)
		for k := range 50 {
			s.source(100*i+k).Sphere(u, 0)
			mean, one := r(u)
			if mean > hi/float64(m)*(1+1e-12) || mean < lo/float64(m)*(1-1e-12) || one > top*(1+1e-12) {
				worst = math.Inf(1)
			}
		}
	}
	return agree(worst, 1e-10, n, "generalised eigenvalues of (SSᵀ, V) against the singular values of the explicit "+
		"Γ, and R at the maximisers")
}

// quadratic returns uᵀVu.
func quadratic(v, u []float64) float64 {
	d := len(u)
	var s float64
	for i := range d {
		s += u[i] * linalg.Dot(v[i*d:i*d+d], u)
	}
	return s
}

// symmetricRootTimes returns rows V^{−1/2}S^j, the symmetric root by eigendecomposition.
func symmetricRootTimes(v, sums []float64, d int) []float64 {
	root := rootOf(v, d, -0.5)
	out := make([]float64, len(sums))
	for j := 0; j < len(sums); j += d {
		for i := range d {
			out[j+i] = linalg.Dot(root[i*d:i*d+d], sums[j:j+d])
		}
	}
	return out
}

// rootOf returns V^p for a positive definite V.
func rootOf(v []float64, d int, p float64) []float64 {
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(d, append([]float64(nil), v...)), true) {
		panic("verify: eigenvalues did not converge")
	}
	var z mat.Dense
	eig.VectorsTo(&z)
	values := eig.Values(nil)
	out := make([]float64, d*d)
	for k, mu := range values {
		c := math.Pow(mu, p)
		for i := range d {
			for j := range d {
				out[i*d+j] += c * z.At(i, k) * z.At(j, k)
			}
		}
	}
	return out
}

// lipschitz: lem:rtlipschitz, |R(u) − R(v)| ≤ L₀·‖Γ‖²‖V^{1/2}‖/(m√λ)·‖u − v‖, on the circle (every
// pair of neighbours of a fine grid and random pairs) for V from flat to needle-shaped, and on
// spheres with random pairs.
func lipschitz(constant float64) func(s *session) Finding {
	return func(s *session) Finding {
		l := constant
		if s.planted {
			l = 0.5
		}
		var w tightest
		for i := range s.size(200, 2000) {
			src := s.source(i)
			d := 2
			if i%4 == 3 {
				d = 3 + src.Intn(0, 4)
			}
			lambda := 5.0
			// V = λI + T·qqᵀ with a random axis q, or an isotropic one.
			v := make([]float64, d*d)
			axis := make([]float64, d)
			src.Sphere(axis, 10)
			T := math.Exp(14*src.Float64(1)) - 1
			for a := range d {
				v[a*d+a] = lambda
				for b := range d {
					v[a*d+b] += T * axis[a] * axis[b]
				}
			}
			m := 1 + src.Intn(2, 6)
			g := make([]float64, d*d)
			root, member := rootOf(v, d, 0.5), make([]float64, d)
			for j := range m {
				z := make([]float64, d)
				src.Normals(z, 100+j*d)
				for a := range d {
					member[a] = linalg.Dot(root[a*d:a*d+d], z)
				}
				for a := range d {
					linalg.Axpy(member[a], member, g[a*d:a*d+d])
				}
			}
			_, hi, _, _ := generalised(linalg.NewFactor(d, 1), g, v, false)
			unit := hi * math.Sqrt(lambda+T) / (float64(m) * math.Sqrt(lambda))
			r := func(u []float64) float64 { return quadratic(g, u) / quadratic(v, u) / float64(m) }
			pair := func(a, b []float64) {
				var dist float64
				for k := range a {
					dist += (a[k] - b[k]) * (a[k] - b[k])
				}
				if dist = math.Sqrt(dist); dist > 1e-9 {
					w.see(math.Abs(r(a)-r(b))/dist, l*unit,
						func() string { return fmt.Sprintf("d = %d, T = %.3g, m = %d", d, T, m) })
				}
			}
			if d == 2 {
				// Angles crowd around the axis perpendicular to q, where R changes fastest.
				at := math.Atan2(axis[1], axis[0]) + math.Pi/2
				last := []float64{math.Cos(at - 1.5), math.Sin(at - 1.5)}
				for k := -300; k <= 300; k++ {
					x := float64(k) / 300
					phi := at + 1.5*x*x*x
					u := []float64{math.Cos(phi), math.Sin(phi)}
					pair(last, u)
					last = u
				}
			}
			a, b := make([]float64, d), make([]float64, d)
			for k := range 100 {
				src.Sphere(a, 1000+2*k*d)
				src.Sphere(b, 1000+(2*k+1)*d)
				pair(a, b)
				for c := range b { // and a close pair
					b[c] = a[c] + 1e-3*b[c]
				}
				normalise(b, b)
				pair(a, b)
			}
		}
		return w.finding("slopes of R_t on the sphere against %.4g‖Γ‖²‖V^{1/2}‖/(m√λ)", l)
	}
}

// initialSpectrum: lem:initialisation on the program's own initial draws. With probability at least
// 1 − q all squared singular values of Γ_0 = S_0/√λ lie in [m/2, 3m/2].
func initialSpectrum(d, m int, init string, q float64, plantedM int, plantedInit string) func(s *session) Finding {
	return func(s *session) Finding {
		m, init, q := m, init, q
		if s.planted {
			if plantedM != 0 {
				m, q = plantedM, math.Exp(-float64(plantedM)/24)
			}
			if plantedInit != "" {
				init = plantedInit
			}
		}
		n := s.size(200, 2000)
		var all runs
		low, high := math.Inf(1), 0.0
		for i := range n {
			if s.stopped() {
				return Finding{}
			}
			e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m, Init: init},
				policy.Problem{Dim: d, Init: s.universe(i).Stream(rng.Init)})
			lo, hi, _, _ := newSpectrum(e).look(e.Ridge().V(), false)
			lo, hi = lo/float64(m), hi/float64(m)
			low, high = math.Min(low, lo), math.Max(high, hi)
			all.see(max(0.5/max(lo, 0), hi/1.5))
		}
		f := all.finding(q, "draws of S_0 (%s, d = %d, m = %d) with s²/m outside [1/2, 3/2]; seen %.3f … %.3f", init, d,
			m, low, high)
		if plantedM != 0 && !s.planted {
			f.Plot = s.initialFailures()
		}
		return f
	}
}

// initialFailures is the picture of lem:initialisation: how often a draw fails, against m/d.
func (s *session) initialFailures() *Plot {
	p := &Plot{Title: "Share of draws outside [m/2, 3m/2], columns on √d·𝕊", X: "m/d", Y: "share"}
	for g, d := range []int{5, 10, 20} {
		c := Curve{Name: fmt.Sprintf("d = %d", d), Group: g}
		claim := Curve{Name: fmt.Sprintf("claimed, d = %d", d), Group: g, Guide: true}
		for _, ratio := range []int{10, 11, 12, 13, 15, 17, 20, 25, 30} {
			m, n, k := ratio*d, s.size(100, 2000), 0
			for i := range n {
				if s.stopped() {
					return p
				}
				e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m},
					policy.Problem{Dim: d, Init: s.universe(1_000_000*ratio + 1000*d + i).Stream(rng.Init)})
				lo, hi, _, _ := newSpectrum(e).look(e.Ridge().V(), false)
				if lo < 0.5*float64(m) || hi > 1.5*float64(m) {
					k++
				}
			}
			c.X, c.Y = append(c.X, float64(ratio)), append(c.Y, float64(k)/float64(n))
			claim.X, claim.Y = append(claim.X, float64(ratio)), append(claim.Y, math.Exp(-float64(m)/24))
		}
		p.Curves = append(p.Curves, c, claim)
	}
	return p
}

// singularValues: thm:sing-val-gamma at its own m, for actions that react to Γ_t itself. The event
// fails with probability at most δ = N T e^{−m/400}.
func singularValues(init, plantedInit string, sdMin, s1Max float64) func(s *session) Finding {
	return func(s *session) Finding {
		type setting struct{ d, T int }
		settings := []setting{{2, 1000}}
		if s.full {
			settings = []setting{{2, 1000}, {5, 2000}, {10, 2000}}
		}
		const delta = 0.01
		init := init
		if s.planted {
			init = plantedInit
		}
		var all runs
		n := 0
		low, high := math.Inf(1), 0.0
		var detail string
		var curves []Curve
		for _, set := range settings {
			m, err := theory.Members(set.d, set.T, 5, delta)
			if err != nil {
				panic(err)
			}
			detail += fmt.Sprintf("d = %d, T = %d, m = %d; ", set.d, set.T, m)
			for _, choose := range append([]chooser{{name: "the algorithm"}}, choosers...) {
				if s.stopped() {
					return Finding{}
				}
				key := s.universe(n)
				e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m, Init: init},
					policy.Problem{Dim: set.d, Horizon: set.T, Init: key.Stream(rng.Init)})
				down := Curve{Group: 0, Name: "s_d"}
				up := Curve{Group: 1, Name: "s_1"}
				worst := 0.0
				q := newSpectrum(e)
				see := func(t int, lo, hi float64) bool {
					sd, s1 := math.Sqrt(math.Max(0, lo)), math.Sqrt(hi)
					low, high = math.Min(low, sd), math.Max(high, s1)
					if t < 20 || t%(set.T/50) == 0 {
						down.X, down.Y = append(down.X, float64(t)), append(down.Y, sd)
						up.X, up.Y = append(up.X, float64(t)), append(up.Y, s1)
					}
					worst = max(worst, sdMin/sd, s1/s1Max)
					return true
				}
				if choose.x != nil {
					drive(key, e, q, set.T-1, choose, see)
				} else {
					w := newWorld(key, set.d, 0)
					w.play(key, e, set.T, func(t int, a bandit.Action, _ float64) {
						lo, hi, _, _ := q.look(e.Ridge().V(), false)
						see(t-1, lo/float64(m), hi/float64(m))
						q.update(e, a.X, key.Stream(rng.Perturb).Round(uint64(t)))
					})
				}
				all.see(worst)
				n++
				if set.d == 2 {
					curves = append(curves, down, up)
				}
			}
		}
		f := all.finding(delta, "runs in which s/√m leaves [%.4g, %.4g]; %sinit %s, the algorithm and five rules of "+
			"play that look at Γ_t; seen %.3f … %.3f",
			sdMin, s1Max, detail, init, low, high)
		guides := []Curve{level("claimed", sdMin, curves), level("claimed", s1Max, curves)}
		f.Plot = &Plot{Title: "Extreme singular values of Γ_t over √m, six ways to play, d = 2", X: "round t",
			Y: "s/√m", Curves: append(curves, guides...)}
		return f
	}
}

// sphereColumns: thm:uniform-concentration-sphere. y is chosen so that the claimed failure
// probability is 1 %.
func sphereColumns(s *session) Finding {
	const q = 0.01
	radius := 1.0
	if s.planted {
		radius = 2
	}
	var all runs
	for _, set := range []struct {
		d, m int
		eps  float64
	}{{2, 400, 0.25}, {5, 1500, 0.25}, {3, 900, 0.1}} {
		y := 8. / 3 * (math.Log(2/q) + float64(set.d)*math.Log1p(2/set.eps))
		c := 1 / (1 - 2*set.eps)
		u := make([]float64, set.d)
		for i := range s.size(15, 300) {
			src := s.source(10_000*set.d + i)
			gram := make([]float64, set.d*set.d)
			for j := range set.m {
				src.Sphere(u, j*set.d)
				for a := range u {
					linalg.Axpy(radius*radius*float64(set.d)*u[a], u, gram[a*set.d:a*set.d+set.d])
				}
			}
			lo, hi := symmetricRange(gram, set.d)
			lo, hi = math.Sqrt(math.Max(0, lo)), math.Sqrt(hi)
			root := math.Sqrt(float64(set.m))
			all.see(max(root-lo, hi-root) / (c * math.Sqrt(y)))
		}
	}
	return all.finding(q, "matrices whose singular values leave √m ± c√y, d = 2, 3, 5, y for a claimed 1%%")
}

// symmetricRange returns the extreme eigenvalues of a symmetric matrix.
func symmetricRange(a []float64, d int) (lo, hi float64) {
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(d, append([]float64(nil), a...)), false) {
		panic("verify: eigenvalues did not converge")
	}
	v := eig.Values(nil)
	return v[0], v[d-1]
}

// fixedDirection: the step of its proof, P(|Z_x² − 1| ≥ √(y/m) ∨ y/m) ≤ 2e^{−cy}, in dimension d with
// m = d rows: d⟨U, x⟩² is d·G/(G + G′) with independent Gamma(1/2) and Gamma((d−1)/2).
func fixedDirection(c float64, dim, plantedDim int, plantedScale float64) func(s *session) Finding {
	return func(s *session) Finding {
		d, scale := dim, 1.0
		if s.planted {
			scale = plantedScale
			if plantedDim != 0 {
				d = plantedDim
			}
		}
		const m, y = 32, 24.0
		limit := math.Max(math.Sqrt(y/m), y/m)
		n := s.size(60_000, 400_000)
		var all runs
		for i := range n {
			r := s.source(i).Rand()
			one := distuv.Gamma{Alpha: 0.5, Beta: 1, Src: r}
			rest := distuv.Gamma{Alpha: float64(d-1) / 2, Beta: 1, Src: r}
			var z float64
			for range m {
				g := one.Rand()
				z += float64(d) * g / (g + rest.Rand()) / m
			}
			all.see(math.Abs(scale*z-1) / limit)
		}
		return all.finding(2*math.Exp(-c*y), "deviations of Z_x² at y = %g, m = %d, d = %d against 2 exp(−%g y)", y, m,
			d, c)
	}
}

// isometry: lem:approximate-isometry with the smallest ε the premise allows.
func isometry(s *session) Finding {
	var w tightest
	for i := range s.size(300, 5000) {
		src := s.source(i)
		d := 1 + src.Intn(0, 5)
		m := d + src.Intn(1, 20)
		a := make([]float64, m*d)
		src.Normals(a, 10)
		scale := math.Exp(2*src.Uniform(2)) / math.Sqrt(float64(m))
		gram, minus := make([]float64, d*d), make([]float64, d*d)
		for j := range m {
			row := a[j*d : j*d+d]
			for k := range d {
				linalg.Axpy(scale*scale*row[k], row, gram[k*d:k*d+d])
			}
		}
		copy(minus, gram)
		for k := range d {
			minus[k*d+k]--
		}
		lo, hi := symmetricRange(minus, d)
		dev := math.Max(math.Abs(lo), math.Abs(hi))
		eps := dev // ε ∨ ε² = ε for ε ≤ 1
		if dev > 1 {
			eps = math.Sqrt(dev)
		}
		if s.planted {
			eps /= 2
		}
		lo, hi = symmetricRange(gram, d)
		at := func() string { return fmt.Sprintf("d = %d, m = %d, ‖AᵀA − I‖ = %.3g", d, m, dev) }
		w.see(math.Abs(math.Sqrt(math.Max(0, lo))-1), eps, at)
		w.see(math.Abs(math.Sqrt(hi)-1), eps, at)
	}
	return w.finding("|s − 1| against the smallest ε with ‖AᵀA − I‖ ≤ ε ∨ ε²")
}

// circleNet returns n equally spaced unit vectors, an ε-net with ε = 2 sin(π/(2n)) and no better.
func circleNet(n int, turn float64) (net [][2]float64, eps float64) {
	for i := range n {
		phi := turn + 2*math.Pi*float64(i)/float64(n)
		net = append(net, [2]float64{math.Cos(phi), math.Sin(phi)})
	}
	return net, 2 * math.Sin(math.Pi/float64(2*n))
}

// quadraticNet: lem:quadratic-net on the circle, where nets are exact, for symmetric 2×2 matrices
// turned so that the net misses the maximiser by as much as it can.
func quadraticNet(s *session) Finding {
	var w tightest
	for n := 4; n <= 60; n++ {
		net, eps := circleNet(n, math.Pi/float64(n))
		if eps >= 0.5 {
			continue
		}
		factor := 1 / (1 - 2*eps)
		if s.planted {
			factor = 1
		}
		for _, b := range []float64{-1, -0.5, 0, 0.5, 0.9} {
			var sup float64
			for _, x := range net { // A = diag(1, b)
				sup = math.Max(sup, math.Abs(x[0]*x[0]+b*x[1]*x[1]))
			}
			w.see(1, factor*sup, func() string {
				return fmt.Sprintf("%d points, ε = %.3g, eigenvalues 1 and %g", n, eps,
					b)
			})
		}
	}
	return w.finding("‖A‖ = 1 against sup over the net/(1 − 2ε) on the circle")
}

// netSize: claim:size-of-cover. On the circle the smallest ε-net has ⌈π/(2 asin(ε/2))⌉ points; in
// three dimensions a maximal ε-separated set of 20 000 random points is an ε-net of them.
func netSize(s *session) Finding {
	c := 2.0
	one := 1.0
	if s.planted {
		c, one = 1, 0 // (1/ε)^d
	}
	var w tightest
	for _, eps := range []float64{1, 0.9, 0.7, 0.5, 0.3, 0.1, 0.03, 0.01} {
		// Each point covers an arc of 4 asin(ε/2).
		size := math.Ceil(2*math.Pi/(4*math.Asin(eps/2)) - 1e-9)
		w.see(size, math.Pow(one+c/eps, 2), func() string { return fmt.Sprintf("d = 2, ε = %g", eps) })
	}
	points := s.size(3000, 20_000)
	for _, eps := range []float64{1, 0.7, 0.5, 0.3, 0.2} {
		var net [][3]float64
		for i := range points {
			var p [3]float64
			s.source(i).Sphere(p[:], 0)
			far := true
			for _, q := range net {
				if dx, dy, dz := p[0]-q[0], p[1]-q[1], p[2]-q[2]; dx*dx+dy*dy+dz*dz <= eps*eps {
					far = false
					break
				}
			}
			if far {
				net = append(net, p)
			}
		}
		w.see(float64(len(net)), math.Pow(one+c/eps, 3), func() string { return fmt.Sprintf("d = 3, ε = %g", eps) })
	}
	return w.finding("size of ε-nets of the circle (exact) and of the sphere (greedy) against (1 + 2/ε)^d")
}

// memberNorms: rem:lower-vs-upper with its constants, theory.MemberNorm: P(∃ j, t: ‖Γ_t^j‖ > g_t) ≤ δ.
func memberNorms(s *session) Finding {
	const delta = 0.05
	init := "corrected"
	if s.planted {
		init = "printed"
	}
	d, m, T := 20, 64, s.size(300, 3000)
	var all runs
	n, top := s.size(15, 100), 0.0
	gamma := make([]float64, d)
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m, Init: init},
			policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
		a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
		worst := 0.0
		for t := range T {
			g := theory.MemberNorm(d, float64(m), delta, math.Max(0, e.Ridge().LogDetRatio()))
			longest := 0.0
			for j := range m {
				s := e.Sums()[j*d : j*d+d]
				e.Ridge().Solve(gamma, s)
				longest = math.Max(longest, linalg.Dot(s, gamma)) // ‖Γ^j‖² = S^jᵀV⁻¹S^j
				if j == 0 && i%2 == 0 {
					normalise(a.X, gamma) // chase one member
				}
			}
			longest = math.Sqrt(longest)
			worst = max(worst, longest/g)
			if i%2 == 1 {
				key.Stream(rng.Offer).Round(uint64(t)).Sphere(a.X, 0)
			}
			if err := e.Update(a, 0, key.Stream(rng.Perturb).Round(uint64(t))); err != nil {
				panic(err)
			}
		}
		all.see(worst)
		top = max(top, worst)
	}
	return all.finding(delta, "runs with a member longer than g_t, d = %d, m = %d, T = %d; the largest ‖Γ^j‖/g_t "+
		"seen is %.3f", d, m, T, top)
}
