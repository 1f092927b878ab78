package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mat"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// This file examines what happens when the program's own policies play in its own environments.

// spy is an action set that remembers the parameter it was last asked to maximise, θ_t.
type spy struct {
	bandit.ActionSet
	theta []float64
}

func (s *spy) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	s.theta = append(s.theta[:0], theta...)
	return s.ActionSet.ArgMax(dst, theta)
}

// finiteSpy is the same for a finite set.
type finiteSpy struct {
	bandit.Finite
	theta []float64
}

func (s *finiteSpy) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	s.theta = append(s.theta[:0], theta...)
	return s.Finite.ArgMax(dst, theta)
}

// watch wraps a set and returns where the last parameter is found.
func watch(set bandit.ActionSet) (bandit.ActionSet, *[]float64) {
	if f, ok := set.(bandit.Finite); ok {
		s := &finiteSpy{Finite: f}
		return s, &s.theta
	}
	s := &spy{ActionSet: set}
	return s, &s.theta
}

// world is one instance: an environment, θ*, and its action set seen by a spy.
type world struct {
	env   bandit.Environment
	set   bandit.ActionSet
	theta *[]float64 // θ_t of the last Select
	star  []float64
	best  float64 // J(θ*)
}

// newWorld returns a linear environment with θ* on the unit sphere, N(0, 1) noise and arms random
// vectors on the unit sphere, or the unit ball for arms = 0.
func newWorld(key rng.Key, d, arms int) world {
	o := env.NewLinear()
	o.D = d
	if arms > 0 {
		o.Set = actionset.Spec{Kind: "random-sphere", Builder: &actionset.RandomSphereOptions{Arms: arms}}
	}
	e := must(o.Build(key, nil))
	set := must(e.Offer(key.Stream(rng.Offer).Round(1)))
	w := world{env: e, star: slices.Clone(e.(env.Truth).Theta())}
	w.set, w.theta = watch(set)
	var a bandit.Action
	w.best = must(w.set.ArgMax(&a, w.star))
	return w
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// reward pays round t of the world.
func (w world) reward(key rng.Key, t int, a bandit.Action) float64 {
	return must(w.env.Reward(a, key.Stream(rng.Reward).Round(uint64(t))))
}

// play runs T rounds of a policy. see, when given, is called after the reward and before the update,
// so that the policy's state is that of t−1.
func (w world) play(key rng.Key, p bandit.Policy, T int, see func(t int, a bandit.Action, regret float64)) {
	var a bandit.Action
	for t := 1; t <= T; t++ {
		check(p.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
		y := w.reward(key, t, a)
		if see != nil {
			see(t, a, must(w.env.Regret(a)))
		}
		check(p.Update(a, y, key.Stream(rng.Perturb).Round(uint64(t))))
	}
}

// ensembleIsDefinition: alg:es. A run of the program's ensemble against the formulas of the listing,
// evaluated from scratch in every round: V and Σ X_iY_i summed and factorised anew, S_t^j summed from
// the initial draw and the single targets, r_t = 7β_t from the determinant of the factorisation. The
// deviation is that of θ_t, the parameter the oracle was asked for.
func ensembleIsDefinition(init string) func(s *session) Finding {
	return func(s *session) Finding {
		const d, m, lambda, delta = 4, 6, 5.0, 0.1
		T := s.size(120, 600)
		worst, n := 0.0, 0
		for i, arms := range []int{0, 20} {
			key := s.universe(i)
			w := newWorld(key, d, arms)
			stream := key.Stream(rng.Init)
			e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m, Delta: delta, Init: init},
				policy.Problem{Dim: d, Init: stream})
			radius := math.Sqrt(lambda * d)
			if init == "printed" {
				radius = lambda * math.Sqrt(d)
			}
			v, b := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
			for k := range d {
				v.SetSym(k, k, lambda)
			}
			members := make([]*mat.VecDense, m)
			for j := range members {
				x := make([]float64, d)
				stream.Round(uint64(j)).Sphere(x, 0)
				members[j] = mat.NewVecDense(d, x)
				members[j].ScaleVec(radius, members[j])
			}
			stale := mat.NewSymDense(d, nil)
			stale.CopySym(v)
			var a bandit.Action
			for t := 1; t <= T; t++ {
				draw := key.Stream(rng.Select).Round(uint64(t))
				check(e.Select(&a, w.set, draw))

				var chol mat.Cholesky
				use := v
				if s.planted {
					use = stale // V_{t−2}
				}
				if !chol.Factorize(use) {
					panic("verify: V is not positive definite")
				}
				r := 7 * (math.Sqrt(lambda) + math.Sqrt(2*math.Log(1/delta)+chol.LogDet()-d*math.Log(lambda)))
				var hat, tilde mat.VecDense
				check(chol.SolveVecTo(&hat, b))
				check(chol.SolveVecTo(&tilde, members[draw.Intn(0, m)]))
				hat.AddScaledVec(&hat, r*draw.Sign(1), &tilde)
				for k, v := range *w.theta {
					worst = math.Max(worst, math.Abs(v-hat.AtVec(k))/(1+math.Abs(hat.AtVec(k))))
				}
				n++

				y := w.reward(key, t, a)
				perturb := key.Stream(rng.Perturb).Round(uint64(t))
				x := mat.NewVecDense(d, slices.Clone(a.X))
				stale.CopySym(v)
				v.SymRankOne(v, 1, x)
				b.AddScaledVec(b, y, x)
				for j := range members {
					members[j].AddScaledVec(members[j], rng.UniformWord(perturb.Word(uint32(j))), x)
				}
				check(e.Update(a, y, perturb))
			}
		}
		return agree(worst, 1e-9, n, "θ_t of %d rounds on the ball and on 20 arms against the listing evaluated from "+
			"scratch", n)
	}
}

// targetsComeLate: the second half of ass:sg. X_t must not depend on U_t, nor on anything later: two
// runs whose targets differ from round t on choose the same X_1, …, X_t.
func targetsComeLate(s *session) Finding {
	const d, m, split = 3, 8, 20
	worst, n := 0.0, 0
	for i := range s.size(20, 200) {
		key := s.universe(i)
		w := newWorld(key, d, 30*(i%2))
		o, p := policy.EnsembleOptions{M: m}, policy.Problem{Dim: d, Init: key.Stream(rng.Init)}
		one, two := mustEnsemble(o, p), mustEnsemble(o, p)
		var a, b bandit.Action
		for t := 1; t <= split; t++ {
			draw, perturb := key.Stream(rng.Select).Round(uint64(t)), key.Stream(rng.Perturb).Round(uint64(t))
			check(one.Select(&a, w.set, draw))
			check(two.Select(&b, w.set, draw))
			for k := range a.X {
				worst = math.Max(worst, math.Abs(a.X[k]-b.X[k]))
			}
			n++
			y := w.reward(key, t, a)
			check(one.Update(a, y, perturb))
			other := perturb
			if t == split || s.planted && t == split/2 {
				other = key.Child("other").Stream(rng.Perturb).Round(uint64(t))
			}
			check(two.Update(a, y, other))
		}
	}
	return agree(worst, 0, n, "X_t of two runs whose targets differ in the last round only")
}

// incrementalIsEnsemble: alg:es-equiv. Algorithm 2 follows the actions and targets of Algorithm 1 with
// the same r; the deviation is between w^j and θ̂ ± rθ̃^j, member by member.
func incrementalIsEnsemble(init, incremental string, r, plantedR float64, plantedInit string) func(s *session) Finding {
	return func(s *session) Finding {
		const d, m, lambda = 5, 7, 5.0
		r, inc := r, incremental
		if s.planted {
			r = plantedR
			if plantedInit != "" {
				inc = plantedInit
			}
		}
		key := s.universe(0)
		w := newWorld(key, d, 0)
		p := policy.Problem{Dim: d, Init: key.Stream(rng.Init)}
		e := mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Scale: policy.Constant(r), Init: init}, p)
		q := must(policy.NewIncremental(policy.IncrementalOptions{M: m, Lambda: lambda, Scale: policy.Constant(r),
			Init: inc}, p))
		T := s.size(1000, 10_000)
		worst := 0.0
		model := make([]float64, d)
		var a bandit.Action
		for t := 1; t <= T; t++ {
			for j := range m {
				for i, sign := range []float64{1, -1} {
					e.Model(model, j, sign)
					row := q.Models()[(i*m+j)*d:]
					for k := range d {
						worst = math.Max(worst, math.Abs(model[k]-row[k]))
					}
				}
			}
			check(e.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
			y, draw := w.reward(key, t, a), key.Stream(rng.Perturb).Round(uint64(t))
			check(e.Update(a, y, draw))
			check(q.Update(a, y, draw))
		}
		return agree(worst, 1e-9, T*2*m, "largest difference between w^j and θ̂ ± rθ̃^j over %d rounds, r = %g, λ = %g",
			T, r, lambda)
	}
}

// radiusCap: β_t ≤ β̃_T for t ≤ T, on sequences that make the determinant large.
func radiusCap(s *session) Finding {
	var w tightest
	for i := range s.size(60, 600) {
		src := s.source(i)
		d, T := 1+src.Intn(0, 8), 1+src.Intn(1, 400)
		lambda, delta := math.Exp(4*src.Uniform(2)), src.Float64(3)
		ridge := linalg.NewRidge(d, lambda)
		x := make([]float64, d)
		for t := range T {
			choosers[i%2*4].x(x, s.universe(i).Stream(rng.Offer).Round(uint64(t)), t, nil, nil)
			ridge.Update(x, 0)
		}
		bound := theory.BetaTilde(d, T, lambda, delta)
		if s.planted { // d forgotten: log((1 + T/λ)/d) for d log(1 + T/(λd))
			bound = math.Sqrt(lambda) + math.Sqrt(-2*math.Log(delta)+math.Log1p(float64(T)/lambda/float64(d)))
		}
		w.see(theory.Beta(lambda, delta, math.Max(0, ridge.LogDetRatio())), bound,
			func() string { return fmt.Sprintf("%s, d = %d, T = %d, λ = %.3g", choosers[i%2*4].name, d, T, lambda) })
	}
	return w.finding("β_T from the determinant against its cap")
}

// coverage: lem:conf-sets. θ* leaves an ellipsoid of radius β_t^δ in some round t ≤ T with
// probability at most δ; actions cycle, chase θ̂ or are random; noise is Gaussian or ±1.
func coverage(s *session) Finding {
	const d, lambda, delta = 3, 1.0, 0.1
	T, n := s.size(300, 3000), s.size(300, 2000)
	var all runs
	var curve Curve
	curve.Name = "largest over the runs"
	worst := make([]float64, T)
	star, x, diff := make([]float64, d), make([]float64, d), make([]float64, d)
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		key.Stream(rng.Instance).Round(0).Sphere(star, 0)
		ridge := linalg.NewRidge(d, lambda)
		top := 0.0
		for t := range T {
			draw := key.Stream(rng.Reward).Round(uint64(t))
			switch {
			case i%3 == 0 || t == 0:
				choosers[0].x(x, draw, t, nil, nil)
			case i%3 == 1:
				normalise(x, ridge.Theta())
			default:
				key.Stream(rng.Offer).Round(uint64(t)).Ball(x, 0)
			}
			z := draw.Normal(0)
			if i%2 == 0 {
				z = draw.Sign(0)
			}
			ridge.Update(x, linalg.Dot(x, star)+z)
			for c := range diff {
				diff[c] = star[c] - ridge.Theta()[c]
			}
			beta := theory.Beta(lambda, delta, ridge.LogDetRatio())
			if s.planted {
				beta = math.Sqrt(lambda)
			}
			ratio := math.Sqrt(ridge.Norm2(diff)) / beta
			worst[t] = math.Max(worst[t], ratio)
			top = max(top, ratio)
		}
		all.see(top)
	}
	top := 0.0
	for t, v := range worst {
		top = math.Max(top, v)
		if t < 20 || t%(T/60) == 0 {
			curve.X, curve.Y = append(curve.X, float64(t+1)), append(curve.Y, v)
		}
	}
	f := all.finding(delta, "runs in which θ* leaves the ellipsoid, d = %d, T = %d; the largest ‖θ* − θ̂‖_V/β seen "+
		"is %.3f", d, T, top)
	curves := []Curve{curve}
	f.Plot = &Plot{Title: "Distance of θ* from θ̂ in units of the radius", X: "round t", Y: "‖θ* − θ̂‖/β",
		Curves: append(curves, level("edge of the ellipsoid", 1, curves))}
	return f
}

// potential: lem:epl on sequences that play the weakest, the strongest, one, every and random
// directions. Also its corollary Σ‖x_t‖ ≤ E(τ).
func potential(s *session) Finding {
	var w tightest
	for i := range s.size(60, 400) {
		src := s.source(i)
		d := 1 + src.Intn(0, 8)
		lambda := math.Exp(3 * src.Float64(1))
		if i%3 == 0 {
			lambda = 1
		}
		if s.planted {
			lambda = 0.05 // λ ≥ 1 ignored
		}
		choose := choosers[i%len(choosers)]
		ridge, f := linalg.NewRidge(d, lambda), linalg.NewFactor(d, 1)
		unit := make([]float64, d*d)
		for k := range d {
			unit[k*d+k] = 1
		}
		x := make([]float64, d)
		var squares, norms float64
		for t := range s.size(200, 2000) {
			_, _, strong, weak := generalised(f, unit, ridge.V(), true) // large 1/V is a weak direction of V
			choose.x(x, s.universe(i).Stream(rng.Offer).Round(uint64(t)), t, weak, strong)
			q := ridge.Width2(x)
			squares += q
			norms += math.Sqrt(q)
			tau := float64(t + 1)
			at := func() string {
				return fmt.Sprintf("%s, d = %d, λ = %.3g, τ = %g", choose.name, d, lambda, tau)
			}
			w.see(squares, 2*float64(d)*math.Log1p(tau/lambda/float64(d)), at)
			w.see(norms, theory.Potential(d, tau, lambda), at)
			ridge.Update(x, 0)
		}
	}
	return w.finding("Σ‖x_t‖² in the norm of V_{t−1}^{−1} against 2d log(1 + τ/(λd)), and Σ‖x_t‖ against E(τ)")
}

// builtSets returns every registered kind of action set that can be built without options beyond
// the dimension.
func builtSets(src rng.Source, d int) map[string]bandit.ActionSet {
	out := map[string]bandit.ActionSet{}
	for _, kind := range spec.Names(actionset.Kinds) {
		b := actionset.Kinds[kind]()
		for _, d := range []int{d, 0} {
			if set, err := b.Build(d, src); err == nil {
				out[kind] = set
				break
			}
		}
	}
	return out
}

// subgradient: claim:supp-subgrad, J(θ_t) + ⟨X_t, θ − θ_t⟩ ≤ J(θ), for the maximiser of every set the
// program has.
func subgradient(s *session) Finding {
	var w excess
	kinds := 0
	for trial := range s.size(40, 400) {
		sets := builtSets(s.source(10_000+trial), 2+trial%5)
		kinds = len(sets)
		for i, kind := range slices.Sorted(maps.Keys(sets)) {
			set := sets[kind]
			src := s.source(100*trial + i)
			theta, other := make([]float64, set.Dim()), make([]float64, set.Dim())
			src.Normals(theta, 0)
			src.Normals(other, len(theta))
			if trial%3 == 0 { // close by
				for k := range other {
					other[k] = theta[k] + 0.01*other[k]
				}
			}
			var x, z bandit.Action
			at := must(set.ArgMax(&x, theta))
			value := must(set.ArgMax(&z, other))
			if s.planted { // not a maximiser at θ_t
				x = z
			}
			w.see(at+linalg.Dot(x.X, other)-linalg.Dot(x.X, theta), value, linalg.Norm(theta)+linalg.Norm(other),
				func() string { return kind })
		}
	}
	return w.finding("J(θ_t) + ⟨X_t, θ − θ_t⟩ − J(θ), %d kinds of action sets", kinds)
}

// convexOnHalfspace: lem:conv-opt-ball for maxima of affine functions F(v) = max_k ⟨a_k, v⟩ + c_k, whose
// maximiser over the ball is a_k/‖a_k‖ for the k that maximises ‖a_k‖ + c_k.
func convexOnHalfspace(s *session) Finding {
	level := 1.0
	if s.planted {
		level = 0.5 // a half-space that cuts the ball
	}
	var w excess
	for i := range s.size(400, 5000) {
		src := s.source(i)
		d, k := 1+src.Intn(0, 5), 2+src.Intn(1, 6)
		a, c := make([]float64, k*d), make([]float64, k)
		src.Normals(a, 100)
		src.Normals(c, 10)
		value := func(v []float64) float64 {
			top := math.Inf(-1)
			for j := range k {
				top = math.Max(top, linalg.Dot(a[j*d:j*d+d], v)+c[j])
			}
			return top
		}
		u, top := make([]float64, d), math.Inf(-1)
		for j := range k {
			if v := linalg.Norm(a[j*d:j*d+d]) + c[j]; v > top {
				top = v
				normalise(u, a[j*d:j*d+d])
			}
		}
		v := make([]float64, d)
		for n := range 20 {
			src.Normals(v, 1000+n*d)
			// Move v along u onto the boundary of the half-space, or a little inside.
			shift := level - linalg.Dot(u, v) + float64(n%4)*0.1
			linalg.Axpy(shift, u, v)
			w.see(top, value(v), 1+math.Abs(top), func() string { return fmt.Sprintf("d = %d, %d pieces", d, k) })
		}
	}
	return w.finding("F(u) − F(v) for ⟨v, u⟩ ≥ %g", level)
}

// model is one signed member in the master theorem's terms.
type model struct {
	theta  []float64
	length float64 // ‖θ − θ̂‖_V
	value  float64 // J(θ)
	norm   float64 // ‖X‖_{V^{−1}} of its action
}

// models lists the 2m signed members of an ensemble.
func models(e *policy.Ensemble, set bandit.ActionSet) []model {
	d := e.Ridge().Dim()
	var out []model
	var x bandit.Action
	diff := make([]float64, d)
	for j := range len(e.Sums()) / d {
		for _, sign := range []float64{1, -1} {
			mo := model{theta: make([]float64, d)}
			e.Model(mo.theta, j, sign)
			for k := range diff {
				diff[k] = mo.theta[k] - e.Ridge().Theta()[k]
			}
			mo.length = math.Sqrt(math.Max(0, e.Ridge().Norm2(diff)))
			mo.value = must(set.ArgMax(&x, mo.theta))
			mo.norm = math.Sqrt(e.Ridge().Width2(x.X))
			out = append(out, mo)
		}
	}
	return out
}

// distance returns ‖θ* − θ̂‖_V.
func distance(e *policy.Ensemble, star []float64) float64 {
	diff := make([]float64, len(star))
	for k := range diff {
		diff[k] = star[k] - e.Ridge().Theta()[k]
	}
	return math.Sqrt(math.Max(0, e.Ridge().Norm2(diff)))
}

// arenas are the runs on which per-step statements are asserted: sets, sizes and scales from
// timid to the theorem's.
var arenas = []struct {
	d, arms, m int
	scale      policy.Scale
}{
	{2, 0, 8, policy.Scale{Kind: "beta", Value: 7}},
	{3, 20, 16, policy.Scale{Kind: "beta", Value: 1}},
	{3, 0, 16, policy.Constant(math.Sqrt(3))},
	{5, 30, 32, policy.Scale{Kind: "beta", Value: 2}},
	{4, 40, 12, policy.Constant(0.3)},
	{2, 5, 4, policy.Constant(1)},
}

// steps plays every arena and calls see in each round with the state of t−1 and the played action.
func steps(s *session, choose string, see func(t int, w world, e *policy.Ensemble, a bandit.Action, regret float64)) {
	for i, c := range arenas {
		for rep := range s.size(2, 10) {
			if s.stopped() {
				return
			}
			key := s.universe(100*i + rep)
			w := newWorld(key, c.d, c.arms)
			e := mustEnsemble(policy.EnsembleOptions{
				Preset: "paper", M: c.m, Scale: c.scale, Select: choose,
			}, policy.Problem{Dim: c.d, Horizon: 1000, Init: key.Stream(rng.Init)})
			w.play(key, e, s.size(150, 1000), func(t int, a bandit.Action, regret float64) {
				see(t, w, e, a, regret)
			})
		}
	}
}

// masterPerStep: the two inequalities of the proof of thm:master in every round in which θ* is in its
// ellipsoid and p > 0: p and E' are exact averages over the 2m members.
func masterPerStep(s *session) Finding {
	var w tightest
	rounds := 0
	var bound, cost Curve
	bound.Name, cost.Name, bound.Guide = "bound", "regret", true
	steps(s, "random", func(t int, world world, e *policy.Ensemble, a bandit.Action, regret float64) {
		played := slices.Clone(*world.theta)
		all := models(e, world.set)
		b := e.Ridge().LogDetRatio()
		b = theory.Beta(e.Ridge().Lambda(), 0.1, math.Max(0, b))
		dist := distance(e, world.star)
		if s.planted { // the ellipsoid is made of the members alone and need not contain θ*
			b = 0
		} else if dist > b {
			return
		}
		optimistic, mean := 0, 0.0
		for _, mo := range all {
			b = math.Max(b, mo.length)
			mean += mo.norm / float64(len(all))
		}
		if s.planted {
			b /= 4
		}
		for _, mo := range all {
			if mo.value >= world.best*(1-1e-12) {
				optimistic++
			}
		}
		rounds++
		var x bandit.Action
		value := must(world.set.ArgMax(&x, played))
		norm := math.Sqrt(e.Ridge().Width2(a.X))
		at := func() string { return fmt.Sprintf("round %d, d = %d, %d models", t, len(world.star), len(all)) }
		got := linalg.Dot(a.X, world.star)
		prediction := theory.PredictionStep(b, norm)
		w.see(value-got, prediction, at)
		if optimistic > 0 {
			p := float64(optimistic) / float64(len(all))
			optimism := theory.OptimismStep(b, p, mean)
			w.see(world.best-value, optimism, at)
			w.see(regret, prediction+optimism, at)
			if len(bound.X) < 150 {
				bound.X, bound.Y = append(bound.X, float64(t)), append(bound.Y, prediction+optimism)
				cost.X, cost.Y = append(cost.X, float64(t)), append(cost.Y, math.Max(regret, 1e-6))
			}
		}
	})
	f := w.finding("regret of %d rounds and its two parts against 2b‖X‖ and (2b/p)E'‖X‖", rounds)
	f.Plot = &Plot{Title: "Regret and bound of each round, first run", X: "round t", Y: "regret", LogY: true,
		Curves: []Curve{cost, bound}}
	return f
}

// martingaleRange: |Δ_t| ≤ 2/√λ as printed; E'‖X‖ − ‖X‖ is in fact within 1/√λ.
func martingaleRange(constant float64) func(s *session) Finding {
	return func(s *session) Finding {
		c := constant
		if s.planted {
			c = 0.05
		}
		var w tightest
		steps(s, "random", func(t int, world world, e *policy.Ensemble, a bandit.Action, _ float64) {
			var mean float64
			all := models(e, world.set)
			for _, mo := range all {
				mean += mo.norm / float64(len(all))
			}
			w.see(math.Abs(mean-math.Sqrt(e.Ridge().Width2(a.X))), c/math.Sqrt(e.Ridge().Lambda()),
				func() string { return fmt.Sprintf("round %d, d = %d", t, len(world.star)) })
		})
		return w.finding("|Δ_t| = |E'‖X_t‖ − ‖X_t‖| against %g/√λ", c)
	}
}

// signedSum: the last step of the proof. Printed: Σ w_tΔ_t ≤ max w · Σ Δ_t, for weights w ≥ 0 and a
// signed Δ. Corrected: Σ w_t(n_t + Δ_t) ≤ max w · Σ(n_t + Δ_t), whose terms are E'‖X_t‖ ≥ 0.
func signedSum(corrected bool) func(s *session) Finding {
	return func(s *session) Finding {
		var w excess
		see := func(weights, terms []float64) {
			lhs, sum, top := 0.0, 0.0, 0.0
			for t := range weights {
				lhs += weights[t] * terms[t]
				sum += terms[t]
				top = math.Max(top, weights[t])
			}
			w.see(lhs, top*sum, float64(len(weights)), func() string {
				return fmt.Sprintf("weights %.3g, terms %.3g", weights, terms)
			})
		}
		for i := range 500 {
			src := s.source(i)
			n := 1 + src.Intn(0, 4)
			weights, terms := make([]float64, n), make([]float64, n)
			for t := range n {
				weights[t] = src.Float64(1 + 3*t)
				norm, delta := src.Float64(2+3*t), src.Uniform(3+3*t)
				switch {
				case !corrected:
					terms[t] = delta
					if s.planted {
						weights[t] = 0.5 // equal weights
					}
				case s.planted:
					terms[t] = norm + delta
				default:
					terms[t] = norm + math.Max(delta, -norm) // E'‖X‖ = ‖X‖ + Δ ≥ 0
				}
			}
			see(weights, terms)
		}
		if !corrected && !s.planted {
			see([]float64{1, 0}, []float64{1, -1})
		}
		return w.finding("Σ w·x − max w·Σ x")
	}
}

// optimismCount: lem:thetaopt-lower-bound in the form a program can count. With
// x⁺ = argmax ⟨x, θ̂⟩ + β‖x‖_{V^{−1}} and u⁺ ∝ V^{−1/2}x⁺, every signed member with
// s·r⟨Γ^j, u⁺⟩ ≥ β, that is s·r⟨x⁺, θ̃^j⟩ ≥ β‖x⁺‖_{V^{−1}}, is optimistic when θ* is in the ellipsoid.
func optimismCount(s *session) Finding {
	level := 1.0
	if s.planted {
		level = 0.1 // a half-space that cuts the ball
	}
	var w tightest
	counted := 0
	steps(s, "random", func(t int, world world, e *policy.Ensemble, _ bandit.Action, _ float64) {
		f, ok := world.set.(bandit.Finite)
		beta := theory.Beta(e.Ridge().Lambda(), 0.1, math.Max(0, e.Ridge().LogDetRatio()))
		if !ok || distance(e, world.star) > beta {
			return
		}
		top, plus, width := math.Inf(-1), []float64(nil), 0.0
		for i := range f.Len() {
			x := f.At(i)
			n := math.Sqrt(e.Ridge().Width2(x))
			if v := linalg.Dot(x, e.Ridge().Theta()) + beta*n; v > top {
				top, plus, width = v, x, n
			}
		}
		in, optimistic := 0, 0
		for _, mo := range models(e, world.set) {
			if linalg.Dot(plus, mo.theta)-linalg.Dot(plus, e.Ridge().Theta()) >= level*beta*width {
				in++
				// Each of them, not only their number.
				if mo.value >= world.best*(1-1e-12) {
					optimistic++
				}
			}
		}
		counted += in
		w.see(float64(in), float64(optimistic), func() string {
			return fmt.Sprintf("round %d, d = %d", t,
				len(world.star))
		})
	})
	return w.finding("members in the half-space of u⁺ against those of them that are optimistic; %d members counted",
		counted)
}

// maximumPerStep: rem:max-over-ensemble. When θ* is in its ellipsoid and some member is optimistic,
// the chosen one is, and the round costs at most ‖X_t‖(r‖Γ^J‖ + β).
func maximumPerStep(s *session) Finding {
	choose := "max"
	if s.planted {
		choose = "random"
	}
	var w tightest
	rounds := 0
	steps(s, choose, func(t int, world world, e *policy.Ensemble, a bandit.Action, regret float64) {
		beta := theory.Beta(e.Ridge().Lambda(), 0.1, math.Max(0, e.Ridge().LogDetRatio()))
		all := models(e, world.set)
		if distance(e, world.star) > beta || !slices.ContainsFunc(all,
			func(m model) bool { return m.value >= world.best }) {
			return
		}
		rounds++
		longest, top := 0.0, math.Inf(-1)
		for _, mo := range all {
			longest = math.Max(longest, mo.length)
			top = math.Max(top, linalg.Dot(a.X, mo.theta))
		}
		at := func() string { return fmt.Sprintf("round %d, d = %d", t, len(world.star)) }
		w.see(regret, math.Sqrt(e.Ridge().Width2(a.X))*(longest+beta), at)
		w.require(top >= world.best*(1-1e-12)) // Q(X_t) ≥ J(θ*)
	})
	return w.finding("regret of %d rounds against ‖X_t‖(r max‖Γ^j‖ + β), and Q(X_t) against J(θ*)", rounds)
}

// maximumOnBall: rem:max-over-ensemble on a set that is not finite, where the program asks the oracle for each model.
func maximumOnBall(s *session) Finding {
	worst, n := 0.0, 0
	for i, d := range []int{3, 5} {
		for k, oneSided := range []bool{false, true} {
			key := s.universe(10*i + k)
			w := newWorld(key, d, 0)
			e := mustEnsemble(policy.EnsembleOptions{M: 6, Select: "max", Init: "prior", OneSided: oneSided}, policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
			theta, best := make([]float64, d), make([]float64, d)
			w.play(key, e, s.size(100, 1000), func(_ int, a bandit.Action, _ float64) {
				longest := -1.0
				for j := range 6 {
					for _, sign := range []float64{1, -1} {
						if sign < 0 && (oneSided || s.planted) {
							continue
						}
						e.Model(theta, j, sign)
						if v := linalg.Norm(theta); v > longest {
							longest = v
							copy(best, theta)
						}
					}
				}
				for j, v := range best {
					worst = math.Max(worst, math.Abs(a.X[j]-v/longest))
				}
				n++
			})
		}
	}
	return agree(worst, 1e-12, n, "the action against the longest model")
}

// regretBound plays a policy with a bound's own parameters and holds the regret at every τ against
// the bound with β_{τ−1} from the determinant replaced by its cap. The verdict is vacuous when even
// the smallest ratio bound/2τ is above 1. The plant divides the bound by tighter.
func regretBound(name string, failures float64, lambda float64, fast int, tighter float64,
	build func(d, T int, delta float64, key rng.Key) bandit.Policy) func(s *session) Finding {
	return func(s *session) Finding {
		b, ok := theory.ByName(name)
		if !ok {
			panic("verify: no bound " + name)
		}
		// δ and n are such that the test can refute: with 16 runs and a claim of 3δ = 0.03, eight failures
		// have P(Bin(16, 0.03) ≥ 8) = 7.2e-9, below Level. With six runs only six of six would.
		const d, delta = 2, 0.01
		T := s.size(fast, 2*fast)
		n, k, tight := s.size(16, 40), 0, 0.0
		ratios := make(runs, n)
		vacuous := true
		divide := 1.0
		if s.planted {
			divide = tighter
		}
		var last, bound float64
		var curves []Curve
		for i := range n {
			if s.stopped() {
				return Finding{}
			}
			key := s.universe(i)
			w := newWorld(key, d, 20*(i%2))
			sum, fail := 0.0, false
			c := Curve{Name: fmt.Sprintf("regret, run %d", i+1)}
			bc := Curve{Name: "bound", Guide: true}
			w.play(key, build(d, T, delta, key), T, func(t int, _ bandit.Action, regret float64) {
				sum += regret
				if t > 20 && t%(T/50) != 0 && t != T {
					return
				}
				at := must(b.At(theory.Setting{D: d, T: float64(T), Lambda: lambda, Delta: delta}, float64(t))) / divide
				fail = fail || sum > at
				vacuous = vacuous && at >= 2*float64(t)
				tight = math.Max(tight, sum/at)
				ratios[i] = math.Max(ratios[i], sum/at)
				c.X, c.Y = append(c.X, float64(t)), append(c.Y, sum)
				bc.X, bc.Y = append(bc.X, float64(t)), append(bc.Y, at)
				last, bound = math.Max(last, sum), at
			})
			if fail {
				k++
			}
			if i < 2 {
				curves = append(curves, c)
			}
			if i == 0 {
				curves = append(curves, bc)
			}
		}
		f := chance(k, n, failures*delta, "%d of %d runs above the bound, d = %d, T = %d; the largest R(τ)/bound "+
			"seen is %.2g; observed: largest R(T), bound: at T; 2T = %d",
			k, n, d, T, tight, 2*T)
		if f.Verdict == Holds && vacuous {
			f.Verdict = Vacuous
		}
		f.Observed, f.Bound = last, bound
		if k == 0 {
			f.Power.Factor = ratios.factor(failures * delta)
			f.Power.Sharpest, f.Power.SharpestLow, f.Power.SharpestHigh = ratios.sharpest(failures * delta)
		}
		trivial := Curve{Name: "2t", Guide: true, X: []float64{1, float64(T)}, Y: []float64{2, 2 * float64(T)}}
		f.Plot = &Plot{Title: "Regret, bound, and what losing always costs", X: "round t", Y: "regret", LogX: true,
			LogY: true, Curves: append(curves, trivial)}
		return f
	}
}

func theoremEnsemble(choose string, scale policy.Scale) func(d, T int, delta float64, key rng.Key) bandit.Policy {
	return func(d, T int, delta float64, key rng.Key) bandit.Policy {
		return paperEnsemble(choose, scale, d, T, delta, key)
	}
}

func paperEnsemble(choose string, scale policy.Scale, d, T int, delta float64, key rng.Key) *policy.Ensemble {
	return mustEnsemble(policy.EnsembleOptions{Preset: "paper", Delta: delta, Select: choose, Scale: scale},
		policy.Problem{Dim: d, Horizon: T, Init: key.Stream(rng.Init)})
}

func confident(d, T int, delta float64, _ rng.Key) bandit.Policy {
	return must(policy.NewConfident(policy.ConfidentOptions{Lambda: 5, Delta: delta},
		policy.Problem{Dim: d, Horizon: T}))
}

// optimismShare: p_{t−1} ≥ 1/(2m), the step that uses thm:sing-val-gamma, at the theorem's own
// parameters. The plot shows that p_t stays near a constant.
func optimismShare(s *session) Finding {
	const d, T, delta = 2, 300, 0.1
	scale := policy.Scale{Kind: "beta", Value: 7}
	if s.planted {
		scale = policy.Constant(1e-3) // r without β, and small
	}
	var w tightest
	var curves []Curve
	for i := range s.size(2, 10) {
		key := s.universe(i)
		world := newWorld(key, d, 20*(1-i%2))
		e := paperEnsemble("random", scale, d, T, delta, key)
		c := Curve{Group: i % 2, Name: fmt.Sprintf("run %d", i+1)}
		m := float64(len(e.Sums()) / d)
		world.play(key, e, T, func(t int, _ bandit.Action, _ float64) {
			if t > 3 && t%(T/10) != 0 {
				return
			}
			beta := theory.Beta(5, delta, math.Max(0, e.Ridge().LogDetRatio()))
			if distance(e, world.star) > beta {
				return
			}
			in := 0
			for _, mo := range models(e, world.set) {
				if mo.value >= world.best*(1-1e-12) && mo.length <= 10*math.Sqrt(m)*beta {
					in++
				}
			}
			p := float64(in) / (2 * m)
			c.X, c.Y = append(c.X, float64(t)), append(c.Y, p)
			w.see(1/(2*m), p, func() string { return fmt.Sprintf("round %d: p = %.3f", t, p) })
		})
		curves = append(curves, c)
	}
	f := w.finding("share p of members that are optimistic and in Θ against 1/(2m), the theorem's own m and " +
		"r").atLeast()
	f.Plot = &Plot{Title: "Share of members that are optimistic", X: "round t", Y: "p", Curves: curves}
	return f
}

// signedMemberBeyond: the step of the proof of thm:es that needs the signs, max_{j,ξ} ⟨ξΓ^j, u⟩² ≥
// mean_j ⟨Γ^j, u⟩² ≥ s_d²/m for every u, on states of runs with few members, where it is tight. The
// members and signs are those of the program. u: opposite every member and their sum, the weakest
// direction, the directions in which two members are level (in the plane the minimum is at one of
// them), random.
func signedMemberBeyond(s *session) Finding {
	var w tightest
	rounds := 0
	for i := range s.size(40, 300) {
		if s.stopped() {
			return Finding{}
		}
		d := 2 + i%4
		m := d + i%(2*d)
		key := s.universe(i)
		world := newWorld(key, d, 20*(i%2))
		e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m, OneSided: s.planted},
			policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
		world.play(key, e, 100, func(t int, _ bandit.Action, _ float64) {
			if t%10 != 1 {
				return
			}
			rounds++
			gamma := symmetricRootTimes(e.Ridge().V(), e.Sums(), d)
			var svd mat.SVD
			if !svd.Factorize(mat.NewDense(m, d, slices.Clone(gamma)), mat.SVDThin) {
				panic("verify: SVD did not converge")
			}
			var right mat.Dense
			svd.VTo(&right)
			least := svd.Values(nil)[d-1] / math.Sqrt(float64(m))
			signed := gamma
			if e.Models() == 2*m {
				for _, v := range gamma {
					signed = append(signed, -v)
				}
			}
			row := func(j int) []float64 { return signed[j*d : j*d+d] }
			u, sum := make([]float64, d), make([]float64, d)
			see := func(v []float64, sign float64) {
				n := linalg.Norm(v)
				if n < 1e-9 {
					return
				}
				for k := range u {
					u[k] = sign * v[k] / n
				}
				top := math.Inf(-1)
				for j := range len(signed) / d {
					top = math.Max(top, linalg.Dot(row(j), u))
				}
				w.see(least, top, func() string { return fmt.Sprintf("round %d, d = %d, m = %d", t, d, m) })
			}
			for j := range m {
				see(row(j), -1)
				linalg.Axpy(1, row(j), sum)
			}
			see(sum, -1)
			weak := mat.Col(nil, d-1, &right)
			see(weak, 1)
			see(weak, -1)
			level := make([]float64, d)
			for j := range len(signed) / d {
				for k := range j {
					if d == 2 {
						level[0], level[1] = row(k)[1]-row(j)[1], row(j)[0]-row(k)[0]
						see(level, 1)
						see(level, -1)
					}
				}
			}
			for k := range 20 {
				key.Child("direction").Stream(rng.Instance).Round(uint64(100*t+k)).Sphere(level, 0)
				see(level, 1)
			}
		})
	}
	return w.finding("s_d(Γ)/√m against the largest ⟨ξΓ^j, u⟩ of the program's models, %d states", rounds)
}

// shareBeyond returns, for d = 2, the smallest and over all directions u the share of vectors g with
// ⟨u, g⟩ ≥ 1: a sweep over the angles where vectors enter and leave.
func shareBeyond(g []float64) float64 {
	type edge struct {
		at    float64
		delta int
	}
	var edges []edge
	inside := 0
	n := len(g) / 2
	for j := range n {
		r := math.Hypot(g[2*j], g[2*j+1])
		if r < 1 {
			continue
		}
		phi, half := math.Atan2(g[2*j+1], g[2*j]), math.Acos(1/r)
		lo, hi := math.Mod(phi-half+4*math.Pi, 2*math.Pi), math.Mod(phi+half+4*math.Pi, 2*math.Pi)
		if lo > hi {
			inside++
		}
		edges = append(edges, edge{lo, 1}, edge{hi, -1})
	}
	sort.Slice(edges, func(i, j int) bool { return edges[i].at < edges[j].at })
	least := inside
	for _, e := range edges {
		inside += e.delta
		least = min(least, inside)
	}
	return float64(least) / float64(n)
}

// signedShare: remark:es-improve-bound and remark:es-sym-2, measured at the theorem's own parameters in
// two dimensions, exactly over all directions: the share of the (signed) members c·Γ^j in H_u for
// the worst u. With many members it tends to Φ(−√3/c).
func signedShare(symmetric bool) func(s *session) Finding {
	return func(s *session) Finding {
		const d, T = 2, 300
		c := 7.0
		if s.planted {
			c = 1
		}
		m := must(theory.Members(d, T, 5, 0.1))
		low, high := math.Inf(1), 0.0
		n := s.size(3, 10)
		var curves []Curve
		for i := range n {
			key := s.universe(i)
			e := mustEnsemble(policy.EnsembleOptions{Preset: "paper", M: m, OneSided: !symmetric},
				policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
			curve := Curve{Group: i % 3, Name: choosers[[]int{0, 4, 2}[i%3]].name}
			drive(key, e, newSpectrum(e), T, choosers[[]int{0, 4, 2}[i%3]], func(t int, _, _ float64) bool {
				if t%(T/10) != 0 {
					return true
				}
				gamma := symmetricRootTimes(e.Ridge().V(), e.Sums(), d)
				for k := range gamma {
					gamma[k] *= c
				}
				if symmetric {
					for _, v := range slices.Clone(gamma) {
						gamma = append(gamma, -v)
					}
				}
				share := shareBeyond(gamma)
				curve.X, curve.Y = append(curve.X, float64(t)), append(curve.Y, share)
				low, high = math.Min(low, share), math.Max(high, share)
				return true
			})
			curves = append(curves, curve)
		}
		return Finding{Verdict: Reported, Observed: low, Bound: normalTail(math.Sqrt(3) / c), Low: low, High: high,
			Samples: n,
			Plot: &Plot{Title: "Share of members in the worst half-space", X: "round t", Y: "share",
				Curves: append(curves, level("limit", normalTail(math.Sqrt(3)/c), curves))},
			Detail: fmt.Sprintf("smallest share of members %gΓ^j in H_u over all u and t, d = 2, m = %d; bound: the "+
				"limit Φ(−√3/%g); range over t", c, m, c)}
	}
}

// shareOfOptimism: claim:ts. p_{t−1} ≥ cap_d for confident Thompson sampling: fresh draws of Select at
// states of a run in which θ* is in its ellipsoid; each is optimistic with probability at least
// cap_d, so the count of those that are not is below a binomial.
func confidentOptimism(s *session) Finding {
	const d, delta, lambda = 3, 0.1, 20.0
	n, k := 0, 0
	o := policy.ConfidentOptions{Lambda: lambda, Delta: delta}
	if s.planted {
		o.Scale = policy.Constant(0.05) // r without β
	}
	for i := range s.size(12, 60) {
		key := s.universe(i)
		w := newWorld(key, d, 25*(i%2))
		p := must(policy.NewConfident(o, policy.Problem{Dim: d}))
		ridge := linalg.NewRidge(d, lambda)
		diff := make([]float64, d)
		var a bandit.Action
		for t := 1; t <= 60; t++ {
			for c := range diff {
				diff[c] = w.star[c] - ridge.Theta()[c]
			}
			if math.Sqrt(math.Max(0, ridge.Norm2(diff))) <= theory.Beta(lambda, delta, ridge.LogDetRatio()) &&
				t%10 == 1 {
				for q := range s.size(30, 100) {
					check(p.Select(&a, w.set, key.Child("again").At(uint64(q)).Stream(rng.Select).Round(uint64(t))))
					n++
					if must(w.set.ArgMax(&a, slices.Clone(*w.theta))) < w.best*(1-1e-12) {
						k++
					}
				}
			}
			check(p.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
			y := w.reward(key, t, a)
			check(p.Update(a, y, rng.Source{}))
			ridge.Update(a.X, y)
		}
	}
	share := must(theory.Cap(d))
	f := chance(k, n, 1-share, "")
	f.Observed, f.Bound, f.Relation = 1-float64(k)/float64(n), share, AtLeast
	f.Detail = fmt.Sprintf("share of draws that are optimistic, d = %d, at states of runs; claimed at least cap_%d", d,
		d)
	return f.larger(k, n, share)
}

// confidentLaw: alg:ts. (‖θ_t − θ̂‖_V/(√d β))^d is uniform on (0, 1), round for round, independently:
// the Dvoretzky–Kiefer–Wolfowitz inequality with Massart's constant.
func confidentLaw(s *session) Finding {
	const d, lambda, delta = 3, 2.0, 0.1
	T := s.size(1500, 20_000)
	var u []float64
	confidentRounds(s, d, lambda, delta, T, func(length, beta float64) {
		v := length / (math.Sqrt(d) * beta)
		if !s.planted {
			v = math.Pow(v, d)
		}
		u = append(u, v)
	})
	gap := kolmogorov(u, func(x float64) float64 { return math.Min(1, math.Max(0, x)) })
	return massart(gap, T, "Kolmogorov distance of (‖θ_t − θ̂‖_V/(√d β))^d from the uniform law over %d rounds; "+
		"bound: its quantile at level %g", T, Level)
}

// confidentRounds plays confident Thompson sampling and reports ‖θ_t − θ̂_{t−1}‖_V and β_{t−1}.
func confidentRounds(s *session, d int, lambda, delta float64, T int, see func(length, beta float64)) {
	key := s.universe(0)
	w := newWorld(key, d, 0)
	p := must(policy.NewConfident(policy.ConfidentOptions{Lambda: lambda, Delta: delta}, policy.Problem{Dim: d}))
	ridge := linalg.NewRidge(d, lambda)
	diff := make([]float64, d)
	var a bandit.Action
	for t := 1; t <= T; t++ {
		check(p.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
		for c := range diff {
			diff[c] = (*w.theta)[c] - ridge.Theta()[c]
		}
		see(math.Sqrt(math.Max(0, ridge.Norm2(diff))), theory.Beta(lambda, delta, ridge.LogDetRatio()))
		y := w.reward(key, t, a)
		check(p.Update(a, y, rng.Source{}))
		ridge.Update(a.X, y)
	}
}

// confidentWidth: θ_t ∈ θ̂ + b V^{−1/2}𝔹 surely. Printed: b = √d. Corrected: b = √d β.
func confidentWidth(withBeta bool) func(s *session) Finding {
	return func(s *session) Finding {
		with := withBeta != s.planted
		const d, lambda, delta = 3, 2.0, 0.1
		var w tightest
		t := 0
		confidentRounds(s, d, lambda, delta, s.size(300, 3000), func(length, beta float64) {
			t++
			b := math.Sqrt(d)
			if with {
				b *= beta
			}
			w.see(length, b, func() string { return fmt.Sprintf("round %d", t) })
		})
		return w.finding("‖θ_t − θ̂‖_V against b")
	}
}

// regretAgainstMembers: rem:large-m. The bound of thm:es grows like m^{3/2}; the regret does not. The
// exponent is fitted to R(T) at m = 16, 32, 64, 128 with the same instances and noise in paired
// runs; the interval is the range of the mean ± 3 standard errors over instances.
func regretAgainstMembers(s *session) Finding {
	const d = 4
	sizes := []int{16, 32, 64, 128}
	T, n := s.size(400, 3000), s.size(16, 60)
	slopes := make([]float64, n)
	mean := make([]float64, len(sizes))
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		var x, y []float64
		for c, m := range sizes {
			w := newWorld(key, d, 30)
			r := math.Sqrt(3)
			if s.planted {
				r *= math.Sqrt(float64(m)) / 4
			}
			e := mustEnsemble(policy.EnsembleOptions{M: m, Scale: policy.Constant(r)},
				policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
			var sum float64
			w.play(key, e, T, func(_ int, _ bandit.Action, regret float64) { sum += regret })
			x, y = append(x, math.Log(float64(m))), append(y, math.Log(sum+1))
			mean[c] += sum / float64(n)
		}
		slopes[i] = slope(x, y)
	}
	mid, se := meanSE(slopes)
	c := Curve{Name: "mean regret"}
	for i, m := range sizes {
		c.X, c.Y = append(c.X, float64(m)), append(c.Y, mean[i])
	}
	return Finding{Verdict: Reported, Observed: mid, Bound: 1.5, Low: mid - 3*se, High: mid + 3*se, Samples: n,
		Plot: &Plot{Title: "Regret at T against the number of members", X: "members m", Y: "regret", LogX: true,
			LogY: true, Curves: []Curve{c}},
		Detail: fmt.Sprintf("exponent of m in R(%d), d = %d, 30 arms, m = %v; bound: the exponent in the theorem", T, d,
			sizes)}
}

// slope is the least squares slope.
func slope(x, y []float64) float64 {
	var mx, my, sxy, sxx float64
	for i := range x {
		mx += x[i] / float64(len(x))
		my += y[i] / float64(len(x))
	}
	for i := range x {
		sxy += (x[i] - mx) * (y[i] - my)
		sxx += (x[i] - mx) * (x[i] - mx)
	}
	return sxy / sxx
}

func meanSE(v []float64) (mean, se float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	for _, x := range v {
		se += (x - mean) * (x - mean) / (n * (n - 1))
	}
	return mean, math.Sqrt(se)
}
