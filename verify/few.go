package verify

import (
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines thm:few of docs/design/price-of-few.md, which is ours: with few frozen members the
// better of two arms is lost for good with a probability that is computed. The policies are the
// program's.

var fewChecks = []Check{
	{
		Label: "few", Part: "one arm", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and 0, θ* = Δ, constant r: P(e_1 is pulled at most once in n rounds) ≥ P(m, r√(1+λ), Δ), the probability that Z + r√(1+λ) max_j |g_j| ≤ −Δ",
		Note:      "policy.Ensemble with m = 2, r = 0.7, λ = 1, Δ = 0.1, n = 200. The bound is the limit as n grows, so that it is tight.",
		Plant:     "members redrawn for each decision",
		run:       fewOneArm,
	},
	{
		Label: "few", Part: "two arms", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and e_2, θ* = (0.1, 0), constant r: P(e_1 is pulled exactly once in n rounds) ≥ ½(1 − S(s)) P(D, r√(1+λ), 0.1 + (1+λ)s), D = m for the ensemble, m times the number of epochs for atoms with key = \"epoch\"",
		Note:      "policy.Ensemble and policy.Atoms in turn, m = 1, r = 0.2, λ = 1/4, n = 60; the bound is the smaller one, of the atoms.",
		Plant:     "r = 4 in the program",
		run:       fewTwoArms,
	},
}

// pulls plays T rounds on arms with means θ and N(0, 1) noise and returns how often the first arm was
// pulled, or limit when it reaches that.
func pulls(key rng.Key, p bandit.Policy, set bandit.ActionSet, theta []float64, T, limit int) (n int) {
	var a bandit.Action
	for t := uint64(1); t <= uint64(T); t++ {
		check(p.Select(&a, set, key.Stream(rng.Select).Round(t)))
		if a.Index == 0 {
			if n++; n == limit {
				return n
			}
		}
		y := linalg.Dot(a.X, theta) + key.Stream(rng.Reward).Round(t).Normal(0)
		check(p.Update(a, y, key.Stream(rng.Perturb).Round(t)))
	}
	return n
}

// happened turns the count of the runs without the event into a finding on the event.
func (f Finding) happened(bound float64) Finding {
	f.Observed, f.Bound, f.Relation = 1-f.Observed, bound, AtLeast
	return f
}

func fewOneArm(s *session) Finding {
	const m, r, lambda, gap = 2, 0.7, 1.0, 0.1
	T := s.size(200, 1000)
	set := must(actionset.NewFinite([][]float64{{1}, {0}}))
	low, _ := theory.Stuck(m, r*math.Sqrt(1+lambda), gap)
	n, missed := s.size(900, 10_000), 0
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		problem := policy.Problem{Dim: 1, Arms: 2, Init: key.Stream(rng.Init)}
		var p bandit.Policy = mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior", Scale: policy.Constant(r)}, problem)
		if s.planted {
			p = must(policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: lambda, Scale: policy.Constant(r)}, problem))
		}
		if pulls(key, p, set, []float64{gap}, T, 2) > 1 {
			missed++
		}
	}
	return chance(missed, n, 1-low, "share of runs in which the better arm is pulled at most once, m = %d, r = %g, λ = %g, n = %d", m, r, lambda, T).happened(low)
}

func fewTwoArms(s *session) Finding {
	const m, lambda, gap = 1, 0.25, 0.1
	r, T := 0.2, s.size(60, 300)
	set := must(actionset.NewFinite([][]float64{{1, 0}, {0, 1}}))
	bound := must(theory.Few{Best: gap, Lambda: lambda, R: r, Draws: m * theory.Epochs(float64(T), lambda, 2)}.Share())
	if s.planted {
		r = 4
	}
	n, missed := s.size(4000, 40_000), 0
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		key := s.universe(i)
		problem := policy.Problem{Dim: 2, Arms: 2, Init: key.Stream(rng.Init)}
		var p bandit.Policy
		if i%2 == 0 {
			p = mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior", Scale: policy.Constant(r)}, problem)
		} else {
			p = must(policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: lambda, Key: theory.EpochKey, Scale: policy.Constant(r)}, problem))
		}
		if pulls(key, p, set, []float64{gap, 0}, T, 2) != 1 {
			missed++
		}
	}
	return chance(missed, n, 1-bound, "share of runs in which the better arm is pulled exactly once, m = %d, λ = %g, n = %d", m, lambda, T).happened(bound)
}
