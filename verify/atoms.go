package verify

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines thm:atoms of docs/papers/atoms.md, which is ours and not in the paper: ensembles whose
// members are computed from V and a key. The parts are the steps of its proof.

var atomChecks = []Check{
	{
		Label: "atoms", Part: "algorithm", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "the program's models are θ̂_{t−1} ± r_{t−1}R_t g(e_t, j) with V, θ̂, r and the key from their " +
			"definitions, and it plays the best action of model (J_t, ξ_t)",
		Note: "With each key, in every round of runs on arms and on the ball, against V and Σ X_iY_i summed and " +
			"factorised anew. The deviation is relative.",
		Plant: "directions halved",
		run:   atomIdentity,
	},
	{
		Label: "atoms", Part: "delay", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "rewards that are known after at most M further rounds: at most M·d log(1 + n/(λd))/log ρ rounds " +
			"have det W > ρ det V, W with and V without the pending actions, and over the others Σ‖X_t‖_{V^{−1}} ≤ " +
			"√(2ρdn log(1 + n/(dλ)))",
		Note: "Runs of the program with key = \"decision\" whose updates come in batches or late and out of " +
			"order.",
		Plant: "pending actions counted as known: ρ replaced by 1 in the sum, M by 0 in the count",
		run:   atomDelay,
	},
	{
		Label: "atoms", Part: "net", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "‖u − v‖ ≤ η/B and ‖g‖ ≤ B: ⟨u, g⟩ ≥ ⟨v, g⟩ − η, and a net of mesh η/B on the sphere has at most " +
			"(1 + 2B/η)^d points",
		Note:  "Random and worst-case u, v, g; the net in two dimensions, where it can be drawn.",
		Plant: "a net of twice the mesh",
		run:   atomNet,
	},
	{
		Label: "atoms", Part: "share", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "for all E keys and all unit u a share p of the m directions has ⟨u, g⟩ ≥ 1/γ, and all ‖g‖ ≤ B, " +
			"with probability 1 − δ",
		Note:  "The program's directions; exact over all u in two dimensions.",
		Plant: "m = 8",
		run:   atomShare,
	},
	{
		Label: "atoms", Part: "optimism", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "r_t = γβ_t and the theorem's m: in every round a share p of the 2m models has J(θ) ≥ J(θ*) and " +
			"all have ‖θ − θ̂‖_V ≤ γBβ, with probability 1 − 2δ",
		Note: "On the ball and on 20 arms, with each key; the smallest share seen is far above p because β is " +
			"conservative.",
		Plant: "r_t = β_t/20",
		run:   atomOptimism,
	},
	{
		Label: "atoms", Part: "bound", Reading: Corrected, Kind: Probability, Expect: Vacuous,
		Statement: "R(τ) ≤ (2γB/p) β_{τ−1}(2E(τ) + M(τ, δ)) for all τ ≤ T with probability 1 − 3δ",
		Plant:     "the bound divided by 5000, twice what is noticed",
		run: regretBound("atoms", 3, 1, 1000, 5000, func(d, T int, delta float64, key rng.Key) bandit.Policy {
			return mustAtoms(policy.AtomsOptions{Preset: "theorem", Delta: delta}, d, T, key)
		}),
	},
	{
		Label: "atoms", Part: "epochs", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "there are at most 1 + d log(1 + n/(λd))/log ρ epochs, whoever chooses the actions",
		Note:      "For atoms and for the lazy form. Actions that cycle through an orthonormal basis attain it.",
		Plant:     "epochs that end at √ρ",
		run:       atomEpochs,
	},
	{
		Label: "atoms", Part: "lazy members", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "V_ref ⪯ V and det V < ρ det V_ref: ‖L_ref⁻ᵀg‖_V ≤ √ρ‖g‖ and ‖x‖_{V_ref^{−1}} ≥ ‖x‖_{V^{−1}}",
		Plant:     "√ρ replaced by 1",
		run:       lazyMembers,
	},
	{
		Label: "atoms", Part: "support", Reading: Corrected, Kind: Rate, Expect: Reported,
		Statement: "share of (round, arm) pairs to which no model gives its vote: their propensity is 0",
		Note:      "Arms on the sphere in dimension 10, 50 of them. A floor by kind = \"mixed\" makes it 0.",
		Plant:     "m = 64 in place of 8",
		run:       atomSupport,
	},
}

func mustAtoms(o policy.AtomsOptions, d, T int, key rng.Key) *policy.Atoms {
	return must(policy.NewAtoms(o, policy.Problem{Dim: d, Horizon: T, Init: key.Stream(rng.Init)}))
}

// atomIdentity replays runs of policy.Atoms from the definitions.
func atomIdentity(s *session) Finding {
	const d, m, lambda, rho = 4, 5, 1.5, 1.7
	T := s.size(60, 300)
	var w tightest
	keys := []string{theory.DecisionKey, theory.EpochKey, theory.FixedKey, theory.RoundKey}
	for i, name := range keys {
		key := s.universe(i)
		world := newWorld(key, d, 12*(i%2))
		p := mustAtoms(policy.AtomsOptions{Key: name, M: m, Lambda: lambda, Rho: rho,
			Scale: policy.Scale{Kind: "beta", Value: 0.7}}, d, T, key)
		v, b := make([]float64, d*d), make([]float64, d)
		for k := range d {
			v[k*d+k] = lambda
		}
		f, g, model := linalg.NewFactor(d, lambda), make([]float64, d), make([]float64, d)
		var want, got bandit.Action
		world.play(key, p, T, func(t int, a bandit.Action, _ float64) {
			// The state before this round's update.
			if !f.Set(v) {
				panic("verify: V is not positive definite")
			}
			logDet := max(0, f.LogDet()-d*math.Log(lambda))
			r := 0.7 * theory.Beta(lambda, 0.1, logDet)
			hat := append([]float64(nil), b...)
			f.Solve(hat)
			e := map[string]uint64{
				theory.DecisionKey: uint64(t), theory.RoundKey: uint64(t - 1),
				theory.EpochKey: uint64(logDet/math.Log(rho) + 1e-9),
			}[name]
			draw := key.Stream(rng.Select).Round(uint64(t))
			drawn := draw.Intn(0, m)
			for j := range m {
				key.Stream(rng.Init).Sub(e).Round(uint64(j)).Normals(g, 0)
				if s.planted {
					for k := range g {
						g[k] /= 2
					}
				}
				f.SolveLT(g)
				p.Model(model, uint64(t), j, draw.Sign(1))
				off := 0.0
				for k := range g {
					g[k] = hat[k] + draw.Sign(1)*r*g[k]
					off = math.Max(off, math.Abs(model[k]-g[k]))
				}
				at := func() string { return fmt.Sprintf("key %s, t = %d, member %d", name, t, j+1) }
				w.see(off, 1e-9*(1+linalg.Norm(g)), at)
				if j == drawn {
					check(p.Select(&got, world.set, draw))
					best := must(world.set.ArgMax(&want, g))
					w.see(best-linalg.Dot(a.X, g), 1e-9*(1+math.Abs(best)), at)
					w.see(best-linalg.Dot(got.X, g), 1e-9*(1+math.Abs(best)), at)
				}
			}
			y := world.reward(key, t, a)
			for k, x := range a.X {
				b[k] += y * x
				linalg.Axpy(x, a.X, v[k*d:k*d+d])
			}
		})
	}
	f := w.finding("the program's models and actions against their definitions, relative to 1e-9")
	if f.Verdict == Holds {
		f.Power = Power{Shift: 1e-9} // an identity: its bound is a tolerance
	}
	return f
}

// atomDelay counts what pending rewards cost.
func atomDelay(s *session) Finding {
	var w tightest
	for i := range s.size(24, 120) {
		if s.stopped() {
			return Finding{}
		}
		src := s.source(i)
		d, lambda, rho := 1+src.Intn(0, 5), math.Exp(2*src.Float64(1)), 1.3+2*src.Float64(2)
		n, most := 60+src.Intn(3, 200), 1+src.Intn(4, 40) // M = most − 1
		key := s.universe(i)
		world := newWorld(key, d, 10*(i%2))
		p := mustAtoms(policy.AtomsOptions{Lambda: lambda, M: 4}, d, n, key)
		all, known := linalg.NewFactor(d, lambda), linalg.NewFactor(d, lambda)
		type event struct {
			a   bandit.Action
			y   float64
			due int
		}
		var waiting []event
		bad, sum := 0, 0.0
		x := make([]float64, d)
		for t := 1; t <= n; t++ {
			var a bandit.Action
			check(p.Select(&a, world.set, key.Stream(rng.Select).Round(uint64(t))))
			known.Load(p.Root().L())
			if all.LogDet() > known.LogDet()+math.Log(rho) {
				bad++
			} else {
				copy(x, a.X)
				known.SolveL(x)
				sum += linalg.Norm(x)
			}
			all.Update(a.X)
			due := t + src.Intn(10+t, most) // late, out of order
			if i%3 == 0 {
				due = (t/most+1)*most - 1 // in batches
			}
			waiting = append(waiting, event{a, world.reward(key, t, a), max(due, t)})
			for k := 0; k < len(waiting); {
				if e := waiting[k]; e.due <= t {
					check(p.Update(e.a, e.y, rng.Source{}))
					waiting = append(waiting[:k], waiting[k+1:]...)
				} else {
					k++
				}
			}
		}
		growth := float64(d) * math.Log1p(float64(n)/(lambda*float64(d)))
		allowed, width := float64(most-1)*growth/math.Log(rho), rho
		if s.planted {
			allowed, width = 0, 1
		}
		at := func() string {
			return fmt.Sprintf("d = %d, n = %d, M = %d, λ = %.2g, ρ = %.2g", d, n, most-1, lambda, rho)
		}
		w.see(float64(bad), allowed, at)
		w.see(sum, math.Sqrt(2*width*growth*float64(n)), at)
	}
	return w.finding("rounds in which pending actions hide a factor ρ, and Σ‖X_t‖ over the others")
}

func atomNet(s *session) Finding {
	factor := 1.0
	if s.planted {
		factor = 2
	}
	var w excess
	for i := range s.size(300, 5000) {
		src := s.source(i)
		d := 2 + src.Intn(0, 9)
		a := must(theory.AtomsFor(theory.Setting{D: d, T: 1e4, Lambda: 1, Delta: 0.1}, theory.AtomsChoice{}))
		const eta = 0.05
		mesh := factor * eta / a.Width
		g, v, u := make([]float64, d), make([]float64, d), make([]float64, d)
		for k := range 10 {
			src.Normals(g, 100*(k+1))
			src.Sphere(v, 100*(k+1)+d)
			normalise(g, g)
			for j := range g {
				g[j] *= a.Width
			}
			// u on the sphere at distance mesh from v, moved against g as far as possible: in the plane
			// of v and g, or in a random plane.
			side := append([]float64(nil), g...)
			if k%2 == 1 {
				src.Normals(side, 100*(k+1)+2*d)
			} else {
				// v orthogonal to g gives the largest loss.
				linalg.Axpy(-linalg.Dot(v, g)/linalg.Dot(g, g), g, v)
				normalise(v, v)
			}
			linalg.Axpy(-linalg.Dot(side, v), v, side)
			normalise(side, side)
			angle := 2 * math.Asin(mesh/2)
			for j := range u {
				u[j] = math.Cos(angle)*v[j] - math.Sin(angle)*side[j]
			}
			w.see(linalg.Dot(v, g)-eta, linalg.Dot(u, g), a.Width, func() string { return fmt.Sprintf("d = %d", d) })
		}
	}
	// A net in two dimensions: equally spaced points with chord 2·mesh have mesh mesh.
	for _, eta := range []float64{0.01, 0.05, 0.3} {
		for _, b := range []float64{1.5, 6, 30} {
			points := math.Ceil(math.Pi / (2 * math.Asin(eta/b/2)))
			w.see(math.Log(points), 2*math.Log1p(2*b/eta), 1, func() string { return "the size of the net" })
		}
	}
	return w.finding("⟨v, g⟩ − η against ⟨u, g⟩")
}

// atomShare examines the event of the theorem for all keys of a run: d = 2, T = 1000.
func atomShare(s *session) Finding {
	const d = 2
	set := theory.Setting{D: d, T: 1000, Lambda: 1, Delta: 0.1}
	a := must(theory.AtomsFor(set, theory.AtomsChoice{}))
	m := int(a.Members)
	if s.planted {
		m = 8
	}
	var all runs
	n, low, long := s.size(60, 1000), 1.0, 0.0
	p := policy.AtomsOptions{Key: theory.DecisionKey, M: m} // its directions of decision e
	g := make([]float64, m*d)
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		worst := 0.0
		atoms := mustAtoms(p, d, 1000, s.universe(i))
		for e := range uint64(a.Keys) {
			for j := range m {
				copy(g[j*d:j*d+d], atoms.Direction(e, j))
				length := linalg.Norm(g[j*d : j*d+d])
				long = math.Max(long, length)
				worst = max(worst, length/a.Width)
			}
			for j := range g {
				g[j] *= a.Gamma
			}
			share := shareBeyond(g)
			low = math.Min(low, share)
			worst = max(worst, a.P/share)
		}
		all.see(worst)
	}
	return all.finding(set.Delta, "draws of m = %d directions for each of E = %g keys that fail, d = 2, γ = %g; "+
		"smallest share seen %.3f (p = %.3f), longest %.2f (B = %.2f)",
		m, a.Keys, a.Gamma, low, a.P, long, a.Width)
}

// atomOptimism looks at all 2m models in every round of runs with the theorem's parameters.
func atomOptimism(s *session) Finding {
	const d, delta = 2, 0.1
	T := s.size(120, 1000)
	var all runs
	n, low, wide := s.size(24, 96), 1.0, 0.0
	keys := []string{theory.EpochKey, theory.FixedKey, theory.RoundKey, theory.DecisionKey}
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		w := newWorld(key, d, 20*(i/4%2))
		c := theory.AtomsChoice{Key: keys[i%4]}
		a := must(theory.AtomsFor(theory.Setting{D: d, T: float64(T), Lambda: 1, Delta: delta}, c))
		o := policy.AtomsOptions{Preset: "theorem", Key: c.Key, Delta: delta}
		if s.planted {
			o.Scale = policy.Scale{Kind: "beta", Value: 0.05}
		}
		p := mustAtoms(o, d, T, key)
		theta := make([]float64, d)
		var x bandit.Action
		worst := 0.0
		w.play(key, p, T, func(t int, _ bandit.Action, _ float64) {
			root := p.Root()
			width := a.Gamma * a.Width * theory.Beta(1, delta, root.LogDetRatio())
			optimistic := 0
			for j := range p.Models() / 2 {
				for _, sign := range []float64{1, -1} {
					p.Model(theta, uint64(t), j, sign)
					if must(w.set.ArgMax(&x, theta)) >= w.best {
						optimistic++
					}
				}
				// ‖θ − θ̂‖_V is ‖Lᵀ(θ − θ̂)‖, the same for both signs.
				linalg.Axpy(-1, root.Theta(), theta)
				length := lengthIn(root.L(), theta)
				wide = math.Max(wide, length/width)
				worst = max(worst, length/(width*(1+rounding)))
			}
			share := float64(optimistic) / float64(p.Models())
			low = math.Min(low, share)
			worst = max(worst, a.P/share)
		})
		all.see(worst)
	}
	return all.finding(2*delta, "runs with a round that has a smaller share or a longer member, d = 2, T = %d, three "+
		"keys; smallest share seen %.3f (p = 0.107), largest length %.2f of γBβ",
		T, low, wide)
}

// lengthIn returns ‖x‖_V for V = LLᵀ.
func lengthIn(l, x []float64) float64 {
	d := len(x)
	var q float64
	for k := range d {
		var v float64
		for i := k; i < d; i++ {
			v += l[i*d+k] * x[i]
		}
		q += v * v
	}
	return math.Sqrt(q)
}

func atomEpochs(s *session) Finding {
	var w tightest
	for i := range s.size(40, 400) {
		src := s.source(i)
		d, lambda, rho := 1+src.Intn(0, 6), math.Exp(4*src.Float64(1)-2), 1.2+3*src.Float64(2)
		n := 50 + src.Intn(3, 400)
		used := rho
		if s.planted {
			used = math.Sqrt(rho)
		}
		key := s.universe(i)
		p := policy.Problem{Dim: d, Init: key.Stream(rng.Init)}
		atoms := must(policy.NewAtoms(policy.AtomsOptions{M: 1, Key: theory.EpochKey, Lambda: lambda, Rho: used}, p))
		lazy := must(policy.NewLazy(policy.LazyOptions{M: 1, Lambda: lambda, Rho: used}, p))
		a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
		seen := map[uint64]bool{0: true}
		for t := range n {
			choosers[i%2*4].x(a.X, key.Stream(rng.Offer).Round(uint64(t)), t, nil, nil)
			check(atoms.Update(a, 0, rng.Source{}))
			check(lazy.Update(a, 0, rng.Source{}))
			seen[atoms.Key(0)] = true
		}
		limit := 1 + theory.LogDetCap(d, n, lambda)/math.Log(rho)
		at := func() string { return fmt.Sprintf("d = %d, n = %d, λ = %.2g, ρ = %.2g", d, n, lambda, rho) }
		w.see(float64(len(seen)), limit, at)
		w.see(float64(lazy.Epoch()+1), limit, at)
	}
	return w.finding("epochs against 1 + d log(1 + n/(λd))/log ρ")
}

func lazyMembers(s *session) Finding {
	var w tightest
	for i := range s.size(30, 300) {
		src := s.source(i)
		d, rho := 1+src.Intn(0, 5), 1.2+3*src.Float64(2)
		limit := math.Sqrt(rho)
		if s.planted {
			limit = 1
		}
		key := s.universe(i)
		p := must(policy.NewLazy(policy.LazyOptions{M: 3, Rho: rho, OneSided: true},
			policy.Problem{Dim: d, Init: key.Stream(rng.Init)}))
		ref, live := linalg.NewFactor(d, 1), linalg.NewFactor(d, 1)
		epoch := p.Epoch()
		g, x := make([]float64, d), make([]float64, d)
		a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
		for t := range 60 {
			choosers[i%3%2*4].x(a.X, key.Stream(rng.Offer).Round(uint64(t)), t, nil, nil)
			check(p.Update(a, 0, rng.Source{}))
			if p.Epoch() != epoch {
				epoch = p.Epoch()
				ref.Load(p.Root().L())
			}
			at := func() string { return fmt.Sprintf("d = %d, ρ = %.2g, t = %d", d, rho, t+1) }
			for j := range 3 {
				key.Stream(rng.Init).Sub(epoch).Round(uint64(j)).Normals(g, 0)
				live.Load(p.Root().L())
				w.see(lengthIn(live.L(), p.Member(j)), limit*linalg.Norm(g), at)
				src.Normals(x, 10+100*t+10*j)
				now, then := append([]float64(nil), x...), append([]float64(nil), x...)
				live.SolveL(now)
				ref.SolveL(then)
				w.see(linalg.Norm(now), linalg.Norm(then), at)
			}
		}
	}
	return w.finding("‖P‖_V against √ρ‖g‖, and ‖x‖_{V^{−1}} against ‖x‖_{V_ref^{−1}}")
}

// atomSupport measures the weak point of few members: arms without a propensity.
func atomSupport(s *session) Finding {
	const d, arms = 10, 50
	T, n := s.size(300, 1000), s.size(6, 30)
	measure := func(key string, m int) (share, low, high, never float64) {
		var sum, sq float64
		for i := range n {
			u := s.universe(i)
			w := newWorld(u, d, arms)
			p := mustAtoms(policy.AtomsOptions{Key: key, M: m}, d, T, u)
			var law bandit.Law
			zero, ever := 0, make([]bool, arms)
			w.play(u, p, T, func(t int, _ bandit.Action, _ float64) {
				check(p.Prob(&law, w.set, u.Stream(rng.Select).Round(uint64(t))))
				for j, atom := range law.Atoms {
					if atom.Count == 0 {
						zero++
					} else {
						ever[j] = true
					}
				}
			})
			q := float64(zero) / float64(T*arms)
			sum, sq = sum+q, sq+q*q
			for _, e := range ever {
				if !e {
					never += 1 / float64(arms*n)
				}
			}
		}
		share = sum / float64(n)
		se := math.Sqrt(math.Max(0, sq/float64(n)-share*share) / float64(n-1))
		return share, share - 4*se, share + 4*se, never
	}
	m := 8
	if s.planted {
		m = 64
	}
	f := Finding{Verdict: Reported, Samples: n * T * arms}
	f.Detail = fmt.Sprintf("d = %d, %d arms, T = %d, %d runs; no vote in a round (no vote in the whole run):", d, arms,
		T, n)
	for _, key := range []string{theory.DecisionKey, theory.EpochKey, theory.FixedKey, theory.RoundKey} {
		if s.stopped() {
			return Finding{}
		}
		share, low, high, never := measure(key, m)
		if key == theory.EpochKey {
			f.Observed, f.Low, f.High = share, low, high
		}
		f.Detail += fmt.Sprintf(" %s m = %d %.3f (%.3f);", key, m, share, never)
	}
	return f
}
