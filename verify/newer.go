package verify

import (
	"fmt"
	"math"
	"sort"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines statements that are newer than the paper: Janz, Akhavan and Szepesvári 2026
// (arXiv 2602.08026), Gaussian ensembles without signs, labelled janz2026.

var newerChecks = []Check{
	{
		Label: "janz2026:thm-4.1", Reading: Printed, Kind: Probability, Expect: Vacuous,
		Statement: "Gaussian ensemble, γ = 40, p = 1/10, λ = 80: R(τ) ≤ 800 γ_{τ−1} β_{τ−1}(2E(τ) + M(τ, δ)) with " +
			"probability 1 − 4δ",
		Note: "The programmable form is its lemma 5.1. m is what its lemmas need, 33 to 57 times below the " +
			"printed 2000 d log(n/δ).",
		Plant: "the bound divided by 70 000, twice what is noticed",
		run:   regretBound("janz2026", 4, 80, 300, 7e4, gaussianEnsemble),
	},
	{
		Label: "janz2026:thm-5.3", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "for actions fixed in advance ⟨u, S_t^j⟩/‖u‖_{V_t} is N(0, 1), independently over j",
		Note:      "Under adaptive play the clock depends on the noise and only the exceedance statement remains.",
		Plant:     "uniform targets",
		run:       gaussianMembers,
	},
	{
		Label: "janz2026:thm-5.4", Part: "step", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "h = 1/250 is allowed for c ≤ 1/20, p ≤ 1/10: 1/250 ≤ h*(1/20, 1/10)",
		Plant:     "h = 1/200",
		run:       exceedanceStep,
	},
	{
		Label: "janz2026:thm-5.4", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "m ≥ (4/p) log(⌈log(τ′/τ)/h*⌉/δ) Brownian motions: a share p exceeds c√t at all t in [τ, τ′] with " +
			"probability 1 − δ",
		Note:  "On a grid of log t with step h*/4, which can only miss failures.",
		Plant: "p = 0.49",
		run:   exceedance,
	},
	{
		Label: "janz2026:cor-5.6", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "a share 1/10 of the members has ⟨u, Γ_t^j⟩ ≥ 1/40 for all u and t ≤ n with probability 1 − δ",
		Note:      "Exact over all u in two dimensions, at the m of its lemmas, with actions that chase a member.",
		Plant:     "m = 3",
		run:       allDirections,
	},
	{
		Label: "janz2026:cor-5.6", Part: "ensemble size", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "the m of its lemmas is at most 2000 d max(1, log(n/δ))",
		Plant:     "20 d max(1, log(n/δ))",
		run:       printedSize,
	},
	{
		Label: "janz2026:lem-I.1", Reading: Printed, Kind: Inequality, Expect: Holds,
		Statement: "m < d on the ball: X_t stays in the span U of the initial vectors, so R_n ≥ n(1 − ‖Π_U θ*‖)",
		Note: "With X_t projected onto U in every round, as exact arithmetic would have it. Plain float64 " +
			"leaves U: the part outside grows from 1e-16 to order 1 within about a thousand rounds, and what it then " +
			"measures is rounding.",
		Plant: "plain float64, no projection",
		run:   stuckInSpan,
	},
	{
		Label: "janz2026:thm-4.2", Reading: Printed, Kind: Probability, Expect: Holds,
		Statement: "m ≤ d/2 on the ball, θ* uniform on the sphere: P(R_n ≥ n/4 for all n) ≥ 1/2",
		Plant:     "m = 4d",
		run:       linearRegret,
	},
}

// gaussianEnsemble is the policy of theorem 4.1 at the m of its own lemmas.
func gaussianEnsemble(d, T int, delta float64, key rng.Key) bandit.Policy {
	m := must(theory.Janz2026Direct(theory.Setting{D: d, T: float64(T), Lambda: 80, Delta: delta}))
	return mustEnsemble(policy.EnsembleOptions{
		M: int(m), Lambda: 80, Delta: delta, Scale: policy.Scale{Kind: "beta", Value: 40}, Targets: "gaussian",
		Init: "prior", OneSided: true,
	}, policy.Problem{Dim: d, Horizon: T, Init: key.Stream(rng.Init)})
}

// kolmogorov returns the largest distance of the empirical law of v from a continuous law.
func kolmogorov(v []float64, cdf func(float64) float64) float64 {
	sort.Float64s(v)
	n, gap := float64(len(v)), 0.0
	for i, x := range v {
		p := cdf(x)
		gap = math.Max(gap, math.Max(math.Abs(p-float64(i)/n), math.Abs(p-float64(i+1)/n)))
	}
	return gap
}

// massart is the finding of a Kolmogorov distance of n independent draws: by the inequality of
// Dvoretzky, Kiefer and Wolfowitz with Massart's constant it exceeds ε with probability at most
// 2 exp(−2nε²).
func massart(gap float64, n int, format string, args ...any) Finding {
	x := float64(n)
	f := law(gap, math.Sqrt(math.Log(2/Level)/(2*x)), 2*math.Exp(-2*x*gap*gap), n, format, args...)
	f.Relation = AtMost
	return f
}

func gaussianMembers(s *session) Finding {
	const d, T = 3, 40
	m := s.size(4000, 40_000)
	targets := "gaussian"
	if s.planted {
		targets = "uniform"
	}
	key := s.universe(0)
	e := mustEnsemble(policy.EnsembleOptions{M: m, Lambda: 2, Targets: targets, Init: "prior", OneSided: true},
		policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
	a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
	for t := range T {
		choosers[t%2*4].x(a.X, key.Stream(rng.Offer).Round(uint64(t)), t, nil, nil)
		check(e.Update(a, 0, key.Stream(rng.Perturb).Round(uint64(t))))
	}
	u := []float64{0.6, -0.3, 0.9}
	root := math.Sqrt(e.Ridge().Norm2(u))
	v := make([]float64, m)
	for j := range v {
		v[j] = linalg.Dot(u, e.Sums()[j*d:j*d+d]) / root
	}
	gap := kolmogorov(v, func(x float64) float64 { return normalTail(-x) })
	return massart(gap, m, "Kolmogorov distance of m = %d members from N(0, 1) after %d rounds; bound: its quantile "+
		"at level %g", m, T, Level)
}

func exceedanceStep(s *session) Finding {
	h := 1. / 250
	if s.planted {
		h = 1. / 200
	}
	var w tightest
	for _, c := range []float64{0.01, 0.02, 0.05} {
		for _, p := range []float64{0.01, 0.05, 0.1} {
			w.see(h, must(theory.ExceedanceStep(c, p)), func() string { return fmt.Sprintf("c = %g, p = %g", c, p) })
		}
	}
	return w.finding("h against h*(c, p)")
}

func exceedance(s *session) Finding {
	const c, delta, ratio = 0.05, 0.05, 13.5
	p, count := 0.1, 0.1
	if s.planted {
		count = 0.49
	}
	h := must(theory.ExceedanceStep(c, p))
	m := int(must(theory.ExceedanceMembers(c, p, ratio, math.Log(delta))))
	step := h / 4
	keep, fresh := math.Exp(-step/2), math.Sqrt(-math.Expm1(-step))
	var all runs
	n, low := s.size(16, 100), 1.0
	x := make([]float64, m)
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		stream := s.universe(i).Stream(rng.Perturb)
		stream.Round(0).Normals(x, 0)
		var columns rng.Columns
		least := m
		for t := 1; ; t++ {
			above := 0
			for _, v := range x {
				if v >= c {
					above++
				}
			}
			least = min(least, above)
			if float64(t)*step > math.Log(ratio) {
				break
			}
			for j, w := range columns.Words(stream.Round(uint64(t)), m) {
				x[j] = keep*x[j] + fresh*rng.NormalWord(w)
			}
		}
		share := float64(least) / float64(m)
		low = math.Min(low, share)
		all.see(count / share)
	}
	return all.finding(delta, "runs of m = %d Brownian motions over log(τ′/τ) = %.2f in which the share above c√t "+
		"falls below p; smallest share seen %.3f", m, math.Log(ratio), low)
}

func allDirections(s *session) Finding {
	const d, T, lambda, delta = 2, 200, 80.0, 0.05
	m := int(must(theory.Janz2026Direct(theory.Setting{D: d, T: T, Lambda: lambda, Delta: delta})))
	if s.planted {
		m = 3
	}
	var all runs
	n, low := s.size(16, 100), 1.0
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		e := mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior",
			OneSided: true},
			policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
		a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
		least := 1.0
		for t := range T + 1 {
			if t%20 == 0 {
				gamma := symmetricRootTimes(e.Ridge().V(), e.Sums(), d)
				for j := range gamma {
					gamma[j] *= 40
				}
				least = math.Min(least, shareBeyond(gamma))
			}
			normalise(a.X, e.Sums()[:d]) // chase the first member
			if i%2 == 0 {
				choosers[i%4/2].x(a.X, rng.Source{}, t, nil, nil)
			}
			check(e.Update(a, 0, key.Stream(rng.Perturb).Round(uint64(t))))
		}
		low = math.Min(low, least)
		all.see(0.1 / least)
	}
	return all.finding(delta, "runs in which the share for the worst u falls below 1/10, d = 2, n = %d, m = %d; "+
		"smallest share seen %.3f", T, m, low)
}

func printedSize(s *session) Finding {
	constant := 2000.0
	if s.planted {
		constant = 20
	}
	var w tightest
	for _, d := range []int{1, 2, 5, 10, 50, 200} {
		for _, n := range []float64{2, 100, 1e4, 1e6, 1e9} {
			for _, delta := range []float64{0.2, 0.01, 1e-6} {
				for _, lambda := range []float64{1, 5, 80} {
					if n < float64(d) {
						continue
					}
					m := must(theory.Janz2026Direct(theory.Setting{D: d, T: n, Lambda: lambda, Delta: delta}))
					w.see(m, constant*float64(d)*math.Max(1, math.Log(n/delta)),
						func() string { return fmt.Sprintf("d = %d, n = %g, δ = %g, λ = %g", d, n, delta, lambda) })
				}
			}
		}
	}
	return w.finding("m of the lemmas against the printed one")
}

// trapped plays an ensemble with m < d members on the ball. With project the action is projected onto
// the span of the initial vectors before the environment and the policy see it. see gets the sum of
// regrets and the length of the part of the policy's own choice outside the span.
func trapped(key rng.Key, d, m, T int, project bool, see func(t int, sum, outside float64)) (inside float64) {
	w := newWorld(key, d, 0)
	e := mustEnsemble(policy.EnsembleOptions{M: m}, policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
	basis := orthonormal(e.Sums(), d)
	onto := func(x []float64) (part []float64) {
		part = make([]float64, d)
		for _, b := range basis {
			linalg.Axpy(linalg.Dot(b, x), b, part)
		}
		return part
	}
	var a bandit.Action
	var sum float64
	for t := 1; t <= T; t++ {
		check(e.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
		part := onto(a.X)
		var out float64
		for i, v := range part {
			out += (a.X[i] - v) * (a.X[i] - v)
		}
		if project {
			normalise(a.X, part)
		}
		y := w.reward(key, t, a)
		sum += w.best - linalg.Dot(a.X, w.star)
		see(t, sum, math.Sqrt(out))
		check(e.Update(a, y, key.Stream(rng.Perturb).Round(uint64(t))))
	}
	return linalg.Norm(onto(w.star))
}

// orthonormal returns an orthonormal basis of the span of the rows.
func orthonormal(rows []float64, d int) [][]float64 {
	var basis [][]float64
	for ; len(rows) > 0 && len(basis) < d; rows = rows[d:] {
		v := append([]float64(nil), rows[:d]...)
		for range 2 {
			for _, b := range basis {
				linalg.Axpy(-linalg.Dot(b, v), b, v)
			}
		}
		normalise(v, v)
		basis = append(basis, v)
	}
	return basis
}

func stuckInSpan(s *session) Finding {
	var w tightest
	var curves []Curve
	T := s.size(3000, 10_000)
	for i := range s.size(4, 20) {
		if s.stopped() {
			return Finding{}
		}
		d, m := 2+i%2*2, 1+i%2
		out := Curve{Name: fmt.Sprintf("projected, d = %d, m = %d", d, m)}
		sums := make([]float64, T)
		inside := trapped(s.universe(i), d, m, T, !s.planted, func(t int, sum, outside float64) {
			sums[t-1] = sum
			if t < 20 || t%(T/60) == 0 {
				out.X, out.Y = append(out.X, float64(t)), append(out.Y, math.Max(outside, 1e-18))
			}
		})
		for t, sum := range sums {
			n := float64(t + 1)
			w.see(n*(1-inside), sum, func() string { return fmt.Sprintf("n = %g, d = %d, m = %d", n, d, m) })
		}
		if i < 2 {
			curves = append(curves, out)
			// The same run in plain float64, for the picture.
			plain := Curve{Group: 1, Name: fmt.Sprintf("plain float64, d = %d, m = %d", d, m)}
			trapped(s.universe(i), d, m, T, false, func(t int, _, outside float64) {
				if t < 20 || t%(T/60) == 0 {
					plain.X, plain.Y = append(plain.X, float64(t)), append(plain.Y, math.Max(outside, 1e-18))
				}
			})
			curves = append(curves, plain)
		}
	}
	f := w.finding("regret R_n against n(1 − ‖Π_U θ*‖) on the ball").atLeast()
	f.Plot = &Plot{Title: "How far X_t is outside the span of the initial vectors", X: "round t", Y: "length",
		LogX: true, LogY: true, Curves: curves}
	return f
}

func linearRegret(s *session) Finding {
	const d = 4
	m := d / 2
	if s.planted {
		m = 4 * d
	}
	n, k, T := s.size(150, 1000), 0, s.size(600, 3000)
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		fail := false
		trapped(s.universe(i), d, m, T, true, func(t int, sum, _ float64) {
			fail = fail || sum < float64(t)/4
		})
		if fail {
			k++
		}
	}
	f := chance(k, n, 0.5, "share of runs with R_n ≥ n/4 for all n ≤ %d, d = %d, m = %d, claimed at least 1/2", T, d, m)
	f.Observed, f.Relation = 1-f.Observed, AtLeast
	return f.larger(k, n, 0.5)
}
