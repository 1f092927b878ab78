package verify

import (
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines the laws of docs/papers/inflation.md, which are ours: what fewer members than dimensions lose on the ball, and what a scale
// that is too small loses on three arms.

var inflationChecks = []Check{
	{
		Label: "inflation", Part: "span", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "ball, m < d frozen members: ⟨X_t, θ*⟩ ≤ ‖Pθ*‖, P the projection onto their span, so that a run loses at least ‖θ*‖ − ‖Pθ*‖ a round",
		Note:      "init = \"prior-span\", whose span is that of the first m coordinates: every round of runs with d = 8, 16, 32 and m = d/2.",
		Plant:     "the span of one member fewer",
		run:       inflationSpan,
	},
	{
		Label: "inflation", Part: "rate", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "and it loses no more than that but for learning: about .73(m − 1)/√T a round in the second half, within .02 at the mean of the runs",
		Note:      "The mean over runs of the rate in the second half less ‖θ*‖ − ‖Pθ*‖ of the same run, less .73(m − 1)/√T.",
		Plant:     "the span of one member fewer",
		run:       inflationRate,
	},
	{
		Label: "inflation", Part: "law of the rate", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "E‖Pθ*‖/‖θ*‖ = Γ((m+1)/2)Γ(d/2)/(Γ(m/2)Γ((d+1)/2))",
		Note:      "By the norms of the first m coordinates of the environment's own θ*, d = 8, 16, 32. Deviation in standard errors.",
		Plant:     "m + 1 for m",
		run:       inflationBeta,
	},
	{
		Label: "inflation", Part: "three arms, Thompson sampling", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms 0, e_1, (1, √2)/√3, θ* = M(−1, √2), λ = 1: Thompson sampling does not play the third arm in t rounds with probability " +
			"½E(1 − Φ(y/(r√10)))^t, y = −M + Z",
		Note:  "M = 16, r = 1.5, t = 5000.",
		Plant: "√5 in place of √10",
		run:   inflationThree(1.5, 0, 5000),
	},
	{
		Label: "inflation", Part: "three arms, frozen", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "and m frozen members never do with probability ½E(1 − 2Φ(y/(r√10)))^m",
		Note:      "M = 16, r = 2, m = 64, t = 5000.",
		Plant:     "√5 in place of √10",
		run:       inflationThree(2, 64, 5000),
	},
	{
		Label: "inflation", Part: "three arms, LinUCB", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "LinUCB never does iff it plays e_1 first and r < |y|/√10",
		Note:      "M = 16, r = 4.5 to 6; ties go to e_1. Share of the runs in which the rule is wrong.",
		Plant:     "√5 in place of √10",
		run:       inflationUCB,
	},
}

// inflationBall plays m = d/2 frozen members on the ball and calls see with the part of θ* in their span and each round's regret.
func inflationBall(s *session, T, runs int, see func(d, run, t int, span, regret float64, x []float64)) {
	for i, d := range []int{8, 16, 32} {
		m := d / 2
		for run := range runs {
			if s.stopped() {
				return
			}
			key := s.universe(1000*i + run)
			w := newWorld(key, d, 0)
			w.set = must(actionset.NewBall(d)) // itself: init = "prior-span" asks for the ball
			e := mustEnsemble(policy.EnsembleOptions{M: m, Targets: "gaussian", Init: "prior-span", Scale: policy.Constant(1)},
				policy.Problem{Dim: d, Horizon: T, Init: key.Stream(rng.Init)})
			if s.planted {
				m--
			}
			span := linalg.Norm(w.star[:m])
			m = d / 2
			w.play(key, e, T, func(t int, a bandit.Action, regret float64) { see(d, run, t, span, regret, a.X) })
		}
	}
}

func inflationSpan(s *session) Finding {
	worst, n := 0.0, 0
	inflationBall(s, s.size(1200, 5000), 2, func(d, _, _ int, span, regret float64, x []float64) {
		n++
		// ⟨X, θ*⟩ = 1 − regret; in the span nothing is outside of the first d/2 coordinates, not even by rounding.
		worst = math.Max(worst, 1-regret-span)
		for _, v := range x[d/2:] {
			worst = math.Max(worst, math.Abs(v))
		}
	})
	return agree(worst, 1e-9, n, "the most by which ⟨X, θ*⟩ was above ‖Pθ*‖, or a coordinate outside of the span")
}

func inflationRate(s *session) Finding {
	T, runs := s.size(24_000, 60_000), 4
	sums := map[int]float64{}
	inflationBall(s, T, runs, func(d, _, t int, span, regret float64, _ []float64) {
		if t > T/2 {
			sums[d] += (regret - (1 - span)) / float64(T-T/2) / float64(runs)
		}
	})
	worst := 0.0
	for d, v := range sums {
		worst = math.Max(worst, math.Abs(v-0.73*float64(d/2-1)/math.Sqrt(float64(T))))
	}
	return agree(worst, 0.02, 3*runs*T, "rate less the law and what learning costs")
}

func inflationBeta(s *session) Finding {
	n := s.size(1500, 20_000)
	worst := 0.0
	for _, d := range []int{8, 16, 32} {
		for _, m := range []int{1, d / 4, d / 2, 3 * d / 4} {
			var sum, square float64
			for i := range n {
				o := env.NewLinear()
				o.D = d
				star := must(o.Build(s.universe(i), nil)).(env.Truth).Theta()
				v := linalg.Norm(star[:m])
				sum, square = sum+v, square+v*v
			}
			if s.planted {
				m++
			}
			mean := sum / float64(n)
			se := math.Sqrt(math.Max(0, square/float64(n)-mean*mean) / float64(n))
			worst = math.Max(worst, math.Abs(mean-(1-theory.SpanLoss(m, d)))/se)
		}
	}
	return agree(worst, 5.6, 12*n, "E√B against the means of ‖Pθ*‖, in standard errors")
}

const inflationM = 16.0

// threeArms is the world of the three arms.
func threeArms(key rng.Key) world {
	o := env.NewLinear()
	o.D, o.Theta, o.Value = 2, "given", []float64{-inflationM, inflationM * math.Sqrt2}
	arms := &actionset.FiniteOptions{Arms: [][]float64{{0, 0}, {1, 0}, {1 / math.Sqrt(3), math.Sqrt2 / math.Sqrt(3)}}}
	o.Set = actionset.Spec{Kind: "finite", Builder: arms}
	e := must(o.Build(key, nil))
	w := world{env: e, star: o.Value}
	w.set, w.theta = watch(must(e.Offer(key.Stream(rng.Offer).Round(1))))
	return w
}

// found plays until the third arm is played and reports whether that was within T rounds, and the first action and reward.
func found(s *session, w world, key rng.Key, p bandit.Policy, T int) (yes bool, first int, y float64) {
	var a bandit.Action
	for t := 1; t <= T; t++ {
		check(p.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
		if a.Index == 2 {
			return true, first, y
		}
		v := w.reward(key, t, a)
		if t == 1 {
			first, y = a.Index, v
		}
		check(p.Update(a, v, key.Stream(rng.Perturb).Round(uint64(t))))
	}
	return false, first, y
}

// ten is √10, or √5 where the check is planted.
func ten(s *session) float64 {
	if s.planted {
		return math.Sqrt(5)
	}
	return math.Sqrt(10)
}

// inflationThree is the law of the runs that do not find the third arm: of Thompson sampling where m is 0.
func inflationThree(r float64, m, T int) func(s *session) Finding {
	return func(s *session) Finding {
		n, lost := s.size(600, 3000), 0
		for i := range n {
			if s.stopped() {
				return Finding{}
			}
			key := s.universe(i)
			var p bandit.Policy
			problem := policy.Problem{Dim: 2, Horizon: T, Init: key.Stream(rng.Init)}
			if m == 0 {
				p = must(policy.NewThompson(policy.ThompsonOptions{Scale: policy.Constant(r)}, problem))
			} else {
				p = mustEnsemble(policy.EnsembleOptions{M: m, Targets: "gaussian", Init: "prior", Scale: policy.Constant(r)}, problem)
			}
			if yes, _, _ := found(s, threeArms(key), key, p, T); !yes {
				lost++
			}
		}
		arms := theory.ThreeArms{M: inflationM, R: r}
		if s.planted {
			arms.R /= math.Sqrt2
		}
		want := arms.Thompson(float64(T))
		if m > 0 {
			want = arms.Frozen(float64(m))
		}
		return law(float64(lost)/float64(n), want, twoSided(lost, n, want), n, "share of runs that did not find the third arm; exact binomial")
	}
}

func inflationUCB(s *session) Finding {
	const T = 1500
	n, wrong, all := s.size(60, 400), 0, 0
	for k, r := range []float64{4.5, 5, 5.25, 6} {
		for i := range n {
			if s.stopped() {
				return Finding{}
			}
			key := s.universe(1000*k + i)
			p := must(policy.NewLinUCB(policy.LinUCBOptions{Scale: policy.Constant(r)}, policy.Problem{Dim: 2, Horizon: T, Init: key.Stream(rng.Init)}))
			yes, first, y := found(s, threeArms(key), key, p, T)
			all++
			if lost := first == 1 && r < math.Abs(y)/ten(s); lost == yes {
				wrong++
			}
		}
	}
	return agree(float64(wrong)/float64(all), 0, all, "%d of %d runs are not by the rule", wrong, all)
}
