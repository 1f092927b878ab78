package verify

import (
	"fmt"
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/stats"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines thm:few of docs/papers/price-of-few.md, which is ours: with few frozen members the
// better of two arms is lost for good with a probability that is computed. The policies are the
// program's.

var fewChecks = []Check{
	{
		Label: "few", Part: "one arm", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and 0, θ* = Δ, constant r: P(e_1 is pulled at most once in n rounds) ≥ P(m, r√(1+λ), " +
			"Δ), the probability that Z + r√(1+λ) max_j |g_j| ≤ −Δ",
		Note: "policy.Ensemble with m = 2, r = 0.7, λ = 1, Δ = 0.1, n = 200. The bound is the limit as n grows, " +
			"so that it is tight.",
		Plant: "members redrawn for each decision",
		run:   fewOneArm,
	},
	{
		Label: "few", Part: "two arms", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and e_2, θ* = (0.1, 0), constant r: P(e_1 is pulled exactly once in n rounds) ≥ ½(1 − " +
			"S(s)) P(D, r√(1+λ), 0.1 + (1+λ)s), D = m for the ensemble, m times the number of epochs for atoms with " +
			"key = \"epoch\"",
		Note: "policy.Ensemble and policy.Atoms in turn, m = 1, r = 0.2, λ = 1/4, n = 60; the bound is the " +
			"smaller one, of the atoms.",
		Plant: "r = 4 in the program",
		run:   fewTwoArms,
	},
	{
		Label: "few", Part: "rare", Reading: Corrected, Kind: Rate, Expect: Reported,
		Statement: "θ* = (0.5, 0.2), λ = 0.1, r = 1, accumulated ensemble: the share of runs that pull the worse arm " +
			"in half of the rounds or more falls like a power of m",
		Note: "Half of the tapes are plain, half are drawn given that all models of the better arm are low after its " +
			"first, …, 40th pull: unbiased, with weights of at most 2. The interval is three standard errors and the " +
			"95% bound on stuck runs outside these events. m is far below T, so that a good model is drawn in time " +
			"(docs/record/stuck.md). thm:few-exponent has −r² = −1 as a bound from one side, up to factors that fall " +
			"slower than any power of m (docs/papers/price-of-few.md).",
		Plant: "r = 0.5",
		run:   fewRare,
	},
	{
		Label: "few-exponent", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and e_2, θ* = (0.2, 0), constant r, accumulated ensemble: P(e_1 is pulled at most k " +
			"times in n rounds) ≥ (1 − S(s)) P(m, r√(1+λ/k), (0.2 k + (λ+k)s)/√k)",
		Note: "policy.Ensemble with m = 2, r = 0.3, λ = 1/4, k = 3, n = 60. With k like (log m)^(1/3) it makes " +
			"r² the exponent of m.",
		Plant: "r = 4 and members redrawn for each decision",
		run:   fewExponent,
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

// missed plays n runs of T rounds on arms with means θ and returns in how many lost is false of the pulls of the first
// arm, which are counted up to limit. ok is false when the session was stopped.
func (s *session) missed(n, T, limit int, arms [][]float64, theta []float64,
	make func(i int, p policy.Problem) bandit.Policy, lost func(pulls int) bool) (missed int, ok bool) {
	set := must(actionset.NewFinite(arms))
	for i := range n {
		if s.stopped() {
			return 0, false
		}
		key := s.universe(i)
		p := make(i, policy.Problem{Dim: len(theta), Arms: len(arms), Init: key.Stream(rng.Init)})
		if !lost(pulls(key, p, set, theta, T, limit)) {
			missed++
		}
	}
	return missed, true
}

// happened turns the count of the runs without the event into a finding on the event.
func (f Finding) happened(bound float64) Finding {
	f.Observed, f.Bound, f.Relation = 1-f.Observed, bound, AtLeast
	return f
}

func fewOneArm(s *session) Finding {
	const m, r, lambda, gap = 2, 0.7, 1.0, 0.1
	T := s.size(200, 1000)
	low, _ := theory.Stuck(m, r*math.Sqrt(1+lambda), gap)
	n := s.size(900, 10_000)
	missed, ok := s.missed(n, T, 2, [][]float64{{1}, {0}}, []float64{gap},
		func(_ int, problem policy.Problem) bandit.Policy {
			if s.planted {
				return must(policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: lambda, Scale: policy.Constant(r)}, problem))
			}
			return mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior",
				Scale: policy.Constant(r)}, problem)
		}, func(pulls int) bool { return pulls <= 1 })
	if !ok {
		return Finding{}
	}
	return chance(missed, n, 1-low, "share of runs in which the better arm is pulled at most once, m = %d, r = %g, λ "+
		"= %g, n = %d", m, r, lambda, T).happened(low).larger(missed, n, low)
}

var twoArms = [][]float64{{1, 0}, {0, 1}}

func fewTwoArms(s *session) Finding {
	const m, lambda, gap = 1, 0.25, 0.1
	r, T := 0.2, s.size(60, 300)
	bound := must(theory.Few{Best: gap, Lambda: lambda, R: r, Draws: m * theory.Epochs(float64(T), lambda, 2)}.Share())
	if s.planted {
		r = 4
	}
	n := s.size(4000, 40_000)
	missed, ok := s.missed(n, T, 2, twoArms, []float64{gap, 0}, func(i int, problem policy.Problem) bandit.Policy {
		if i%2 == 0 {
			return mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior",
				Scale: policy.Constant(r)}, problem)
		}
		return must(policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: lambda, Key: theory.EpochKey,
			Scale: policy.Constant(r)}, problem))
	}, func(pulls int) bool { return pulls == 1 })
	if !ok {
		return Finding{}
	}
	return chance(missed, n, 1-bound, "share of runs in which the better arm is pulled exactly once, m = %d, λ = %g, "+
		"n = %d", m, lambda, T).happened(bound).larger(missed, n, bound)
}

func fewExponent(s *session) Finding {
	const m, r, lambda, gap, k = 2, 0.3, 0.25, 0.2, 3
	T := s.size(60, 300)
	bound := must(theory.Few{Best: gap, Lambda: lambda, R: r, Draws: m}.Lost(k))
	n := s.size(4000, 40_000)
	missed, ok := s.missed(n, T, k+1, twoArms, []float64{gap, 0}, func(_ int, problem policy.Problem) bandit.Policy {
		if s.planted {
			return must(policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: lambda, Scale: policy.Constant(4)}, problem))
		}
		return mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior",
			Scale: policy.Constant(r)}, problem)
	}, func(pulls int) bool { return pulls <= k })
	if !ok {
		return Finding{}
	}
	return chance(missed, n, 1-bound, "share of runs in which the better arm is pulled at most %d times, m = %d, λ = "+
		"%g, n = %d", k, m, lambda, T).happened(bound).larger(missed, n, bound)
}

func fewRare(s *session) Finding {
	c := stuck{best: 0.5, other: 0.2, lambda: 0.1, T: s.size(1500, 10_000), r: 1}
	if s.planted {
		c.r = 0.5
	}
	const plain = 0.5
	runs := s.size(3000, 40_000)
	f := Finding{Verdict: Reported, Detail: fmt.Sprintf("T = %d:", c.T)}
	seen, bound := Curve{Name: "estimate"}, Curve{Name: "thm:few-exponent, lower bound", Guide: true}
	var x, y, noise, extra []float64
	for i, m := range []int{2, 8, 32, 64} { // 2m well below T/2, so that a good model is drawn in time
		if s.stopped() {
			return Finding{}
		}
		c.m = m
		g := c.lose(0.25, plain, 40).estimate(s.source(i).Rand(), runs)
		f.Samples += runs
		f.Detail += fmt.Sprintf(" m = %d %.2g ± %.2g, outside the events at most %.1g (theorem ≥ %.2g);", m, g.p, g.se,
			g.most, c.bound())
		if g.p <= 0 {
			continue
		}
		x, y, noise = append(x, math.Log(float64(m))), append(y, math.Log(g.p)), append(noise, g.se/g.p)
		extra = append(extra, math.Log1p(g.most/g.p))
		seen.X, seen.Y = append(seen.X, float64(m)), append(seen.Y, g.p)
		bound.X, bound.Y = append(bound.X, float64(m)), append(bound.Y, c.bound())
	}
	rare := c
	rare.m, rare.r = 64, 2*c.r
	g := rare.lose(0.25, plain, 40).estimate(s.source(4).Rand(), runs)
	f.Samples += runs
	f.Detail += fmt.Sprintf(" through an event at r = %g and m = 64 %.2g ± %.2g (theorem ≥ %.2g), outside at most %.1g;", rare.r,
		g.p, g.se, rare.bound(), g.most)
	f.Observed, f.Low, f.High = slopeWithin(x, y, noise, extra)
	f.Plot = &Plot{Title: "Share of runs that lose the better arm", X: "members m", Y: "share", LogX: true, LogY: true,
		Curves: []Curve{seen, bound}}
	return f
}

// slopeWithin returns the slope of y on x with its interval: three standard errors of the noise of y, and what the
// slope would be were y_i larger by anything between 0 and extra_i.
func slopeWithin(x, y, noise, extra []float64) (slope, low, high float64) {
	var variance, square, down, up float64
	for i, v := range x { // The slope is Σ(x − x̄)y/Σ(x − x̄)².
		d := v - stats.Mean(x)
		square += d * d
		variance += d * d * noise[i] * noise[i]
		down += math.Min(0, d*extra[i])
		up += math.Max(0, d*extra[i])
	}
	slope = stats.Slope(x, y)
	slack := 3 * math.Sqrt(variance) / square
	return slope, slope - slack + down/square, slope + slack + up/square
}
