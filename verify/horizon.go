package verify

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/bandit"
	"troupe/policy"
	"troupe/theory"
)

// This file examines thm:few-horizon of docs/papers/price-of-few.md, which is ours: how many runs few members lose in T
// rounds.

var horizonChecks = []Check{
	{
		Label: "few-horizon", Part: "one arm", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and 0, θ* = Δ, constant r: P(e_1 is pulled at most n times in T rounds) ≥ max_{k≤n} E(1 − " +
			"G_k/(2m))^T",
		Note: "policy.Ensemble with m = 4, r = 0.5, λ = 1, Δ = 0.1, n = 1, T = 12, where an eighth of the " +
			"bound are runs with a good model.",
		Plant: "members redrawn for each decision",
		run:   horizonOneArm,
	},
	{
		Label: "few-horizon", Part: "one arm, upper", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and 0, θ* = Δ, constant r: P(e_1 is pulled at most n times in T rounds) ≤ Σ_{k≤n} E(1 − " +
			"G_k/(2m))^{t_k}, Σ t_k ≤ T",
		Note:  "policy.Ensemble with m = 4, r = 1, λ = 0.1, Δ = 2, T = 100, n = 50.",
		Plant: "r = 20 in the program",
		run:   horizonOneArmUpper,
	},
	{
		Label: "few-horizon", Part: "two arms", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and e_2, θ* = (0.2, 0), constant r: P(e_1 is pulled at most k times in T rounds) ≥ (1 − S(s)) E(1 − " +
			"G_k/(2m))^T, G_k of the models above −s",
		Note:  "policy.Ensemble with m = 2, r = 0.3, λ = 1/4, k = 3, T = 40.",
		Plant: "r = 4 and members redrawn for each decision",
		run:   horizonTwoArms,
	},
	{
		Label: "few-horizon", Part: "two arms, upper", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "arms e_1 and e_2, θ* = (Δ, 0), constant r: P(e_1 is pulled at most n times in T rounds) ≤ Σ_{k≤n} E(1 − " +
			"G_k/(2m))^{t_k} + 2m Σ_{j≥x} Φ(−s(λ+j)/√(j + r²(λ+j))), Σ t_k ≤ T − x, G_k of the models above s",
		Note:  "policy.Ensemble with m = 4, r = 1, λ = 0.1, Δ = 3, T = 120, n = 60.",
		Plant: "a tenth of the gap in the program",
		run:   horizonTwoArmsUpper,
	},
	{
		Label: "few-horizon", Part: "curve", Reading: Corrected, Kind: Rate, Expect: Reported,
		Statement: "arms e_1 and 0: the share of runs that play 0 in half of T rounds, over theory.Few.LostBy, the law of an ensemble " +
			"whose members are drawn anew after each pull",
		Note: "Importance sampling on both ways of being lost, r = 1, λ = 0.1, Δ = 0.3, T = 8m; geometric mean over m, with three " +
			"standard errors. The lower bound is that of part one arm.",
		Plant: "r = 2 in what is sampled",
		run:   horizonCurve,
	},
	{
		Label: "few-horizon", Part: "any m", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "uniform targets, arms e_1 and 0, θ* = Δ, constant r: P(e_1 is pulled at most once in n rounds) ≥ Φ(−(Δ + r(1 + " +
			"√(λ/3)))) for every m",
		Note:  "policy.Ensemble with its default targets and initial law, m = 30, r = 0.9, λ = 0.1, Δ = 0.1, n = 400.",
		Plant: "Gaussian targets",
		run:   horizonAnySize,
	},
	{
		Label: "few-horizon", Part: "draws", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "E(1 − G/(2m))^t is the sum over the binomial law of G given the noise",
		Note:      "By quadrature over the noise, m = 1 to 40, t = 1 to 300.",
		Plant:     "one of m models in each draw",
		run:       horizonDraws,
	},
	{
		Label: "few-horizon", Part: "levels", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "the share lost for good on any number of arms is at most the sum over k of the probability that after k pulls all " +
			"models of the best arm are at most the mean of the next",
		Note:  "By quadrature, means 0.5 and 0.2, −0.3 and −0.4, 1 and 0.4, λ = 0.1 to 2.",
		Plant: "the pull of λ on the level left out",
		run:   horizonLevels,
	},
	{
		Label: "few-horizon", Part: "over", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "2m Σ_{j≥x} Φ(−(s(λ+j) + λμ)/√(j + r²(λ+j))) is the sum of the probabilities that a model of an arm with mean μ " +
			"is above μ + s after its j-th pull",
		Note:  "By quadrature over noise and perturbation.",
		Plant: "one model for each member",
		run:   horizonOver,
	},
	{
		Label: "few-horizon", Part: "within", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "the bound for two arms is the product of the probabilities of its events: T draws meet no good model of e_1 after k " +
			"pulls, no model of e_2 is low after its n-th",
		Note:  "By quadrature, k = 1 to 12, T = 10 to 1000.",
		Plant: "half of the draws",
		run:   horizonWithin,
	},
	{
		Label: "few-horizon", Part: "second order", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "one arm and nothing: the share lost for good is exp(−r² log 2m − κ(log 2m)^{2/3} + O((log 2m)^{1/3})), κ = " +
			"3·2^{−1/3}(r²Δ)^{2/3}λ^{1/3}",
		Note: "From the largest of P(m, r√(1+λ/k), Δ√k) and from their sum, m = e^{250}/2: the mean of both values of κ, " +
			"relative deviation.",
		Plant: "λ^{2/3} in place of λ^{1/3}",
		run:   horizonSecond,
	},
}

// horizonPlayed plays n runs of T rounds of ensembles with Gaussian targets, or of atoms whose members are redrawn, and
// returns the share in which the first arm is pulled at most k times.
func (s *session) horizonPlayed(n, T, k int, arms [][]float64, theta []float64, m int, lambda, r float64, redrawn bool) (hit int, ok bool) {
	missed, ok := s.missed(n, T, k+1, arms, theta, func(_ int, problem policy.Problem) bandit.Policy {
		if redrawn {
			return must(policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: lambda, Scale: policy.Constant(r)}, problem))
		}
		return mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: "gaussian", Init: "prior", Scale: policy.Constant(r)},
			problem)
	}, func(pulls int) bool { return pulls <= k })
	return n - missed, ok
}

var armAndNothing = [][]float64{{1}, {0}}

func horizonOneArm(s *session) Finding {
	const m, r, lambda, gap, k, T = 4, 0.5, 1.0, 0.1, 1, 12
	low, _, err := theory.Within(m, r, lambda, gap, k, T)
	check(err)
	n := s.size(4000, 40_000)
	hit, ok := s.horizonPlayed(n, T, k, armAndNothing, []float64{gap}, m, lambda, r, s.planted)
	if !ok {
		return Finding{}
	}
	return chance(n-hit, n, 1-low, "share of runs in which the arm is pulled at most %d times, m = %d, r = %g, λ = %g, T = %d", k, m, r,
		lambda, T).happened(low).larger(n-hit, n, low)
}

func horizonOneArmUpper(s *session) Finding {
	const m, lambda, gap, n, T = 4, 0.1, 2.0, 50, 100
	r := 1.0
	_, high, err := theory.Within(m, r, lambda, gap, n, T)
	check(err)
	if s.planted {
		r = 20
	}
	runs := s.size(4000, 40_000)
	hit, ok := s.horizonPlayed(runs, T, n, armAndNothing, []float64{gap}, m, lambda, r, false)
	if !ok {
		return Finding{}
	}
	return chance(hit, runs, high, "share of runs in which the arm is pulled at most %d times, m = %d, λ = %g, T = %d",
		n, m, lambda, T)
}

func horizonTwoArms(s *session) Finding {
	const m, lambda, gap, k, T = 2, 0.25, 0.2, 3, 40
	r := 0.3
	bound := must(theory.Few{Best: gap, Lambda: lambda, R: r, Draws: m}.LostWithin(k, T))
	if s.planted {
		r = 4
	}
	n := s.size(4000, 40_000)
	hit, ok := s.horizonPlayed(n, T, k, twoArms, []float64{gap, 0}, m, lambda, r, s.planted)
	if !ok {
		return Finding{}
	}
	return chance(n-hit, n, 1-bound, "share of runs in which the better arm is pulled at most %d times, m = %d, λ = %g, T = %d", k, m,
		lambda, T).happened(bound).larger(n-hit, n, bound)
}

func horizonTwoArmsUpper(s *session) Finding {
	const m, lambda, gap, n, T = 4, 0.1, 3.0, 60, 120
	const r = 1
	high := must(theory.Few{Best: gap, Lambda: lambda, R: r, Draws: m}.AtMost(n, T))
	theta := []float64{gap, 0}
	if s.planted {
		theta[0] = gap / 10
	}
	runs := s.size(4000, 40_000)
	hit, ok := s.horizonPlayed(runs, T, n, twoArms, theta, m, lambda, r, false)
	if !ok {
		return Finding{}
	}
	return chance(hit, runs, high,
		"share of runs in which the better arm is pulled at most %d times, m = %d, λ = %g, T = %d", n, m, lambda, T)
}

func horizonCurve(s *session) Finding {
	const r, lambda, gap = 1.0, 0.1, 0.3
	c := stuck{best: gap, others: nothing, lambda: lambda, r: r}
	if s.planted {
		c.r = 2
	}
	runs := s.size(1500, 20_000)
	f := Finding{Verdict: Reported, Detail: "m, sampled, law:"}
	seen, law := Curve{Name: "sampled"}, Curve{Name: "law (LostBy)", Group: 1, Guide: true}
	good, low := Curve{Name: "law, T = ∞", Group: 2, Guide: true}, Curve{Name: "theorem, lower bound", Group: 3, Guide: true}
	sum, variance, n := 0.0, 0.0, 0.0
	for i, m := range []int{8, 32, 128, 512} {
		if s.stopped() {
			return Finding{}
		}
		c.m, c.T = m, 8*m
		g := c.lose(0, 0.3, min(40, c.T/2), 0, 1, 2, 4, 8, 16).estimate(s.source(i).Rand(), runs)
		x, T := float64(m), float64(c.T)
		few := theory.Few{Best: gap, Lambda: lambda, R: r, Draws: x}
		want, forever := must(few.LostBy(T)), must(few.LostBy(math.Inf(1)))
		f.Samples += runs
		f.Detail += fmt.Sprintf(" %d %.3g ± %.2g, outside the events at most %.1g, %.3g;", m, g.p, g.se, g.most, want)
		if g.p <= 0 {
			continue
		}
		bound, _, err := theory.Within(x, r, lambda, gap, c.T/2, c.T)
		check(err)
		sum, variance, n = sum+math.Log(g.p/want), variance+g.se*g.se/(g.p*g.p), n+1
		for _, v := range []struct {
			curve *Curve
			y     float64
		}{{&seen, g.p}, {&law, want}, {&good, forever}, {&low, bound}} {
			v.curve.X, v.curve.Y = append(v.curve.X, x), append(v.curve.Y, v.y)
		}
	}
	width := 3 * math.Sqrt(variance) / n
	f.Observed, f.Low, f.High = math.Exp(sum/n), math.Exp(sum/n-width), math.Exp(sum/n+width)
	f.Plot = &Plot{Title: "Share of runs that are lost in T = 8m rounds", X: "members m", Y: "share", LogX: true, LogY: true,
		Curves: []Curve{seen, law, good, low}}
	return f
}

func horizonAnySize(s *session) Finding {
	const m, r, lambda, gap = 30, 0.9, 0.1, 0.1
	T := 400
	bound := normalTail(gap + r*(1+math.Sqrt(lambda/3)))
	o := policy.EnsembleOptions{M: m, Lambda: lambda, Scale: policy.Constant(r)}
	if s.planted {
		o.Targets = "gaussian"
	}
	n := s.size(2000, 20_000)
	missed, ok := s.missed(n, T, 2, armAndNothing, []float64{gap}, func(_ int, problem policy.Problem) bandit.Policy {
		return mustEnsemble(o, problem)
	}, func(pulls int) bool { return pulls <= 1 })
	if !ok {
		return Finding{}
	}
	return chance(missed, n, 1-bound, "share of runs in which the arm is pulled at most once, m = %d, r = %g, λ = %g, n = %d", m, r, lambda,
		T).happened(bound).larger(missed, n, bound)
}

// missedGiven is E(1 − G/models)^t where a member has a good model with probability P(|g| > u), and two for u < 0
// unless |g| > |u|: the sum over the binomial law.
func missedGiven(m, models, t, u float64) (sum float64) {
	law := distuv.Binomial{N: m, P: math.Max(math.Erfc(math.Abs(u)/math.Sqrt2), 1e-300)} // of P = 0 it makes NaN
	for b := 0.0; b <= m; b++ {
		good := b
		if u < 0 {
			good = 2*m - b
		}
		sum += law.Prob(b) * math.Pow(math.Max(0, 1-good/models), t)
	}
	return sum
}

func horizonDraws(s *session) Finding {
	worst, n := 0.0, 0
	for _, c := range [][3]float64{{1, 0.8, 0.1}, {4, 1.5, 0.4}, {9, 0.5, -0.3}, {40, 1, 1}} {
		m, sigma, gap := c[0], c[1], c[2]
		for _, t := range []float64{1, 7, 300} {
			got := theory.Missed(m, sigma, gap, t)
			models := 2 * m
			if s.planted {
				models = m
			}
			given := func(z float64) float64 { return missedGiven(m, models, t, (-gap-z)/sigma) }
			want := gaussian(-gap, given) + gaussian(gap, func(z float64) float64 { return given(-z) })
			worst = math.Max(worst, off(want, got))
			n++
		}
	}
	return agree(worst, 1e-3, n, "E(1 − G/(2m))^t, relative")
}

func horizonLevels(s *session) Finding {
	worst, n := 0.0, 0
	for _, means := range [][2]float64{{0.5, 0.2}, {-0.3, -0.4}, {1, 0.4}} {
		for _, lambda := range []float64{0.1, 2}[:s.size(2, 2)] {
			for _, m := range []float64{64, 1000}[:s.size(2, 2)] {
				const r = 1.5
				got := must(theory.Few{Best: means[0], Other: means[1], Lambda: lambda, R: r, Draws: m}.ForGoodAtMost())
				want := 0.0
				if level := means[1] * math.Sqrt(lambda) / r; level > 0 {
					want = math.Pow(math.Erf(level/math.Sqrt2), m)
				}
				for k := 1.0; k < 3000; k++ {
					pull := lambda
					if s.planted {
						pull = 0
					}
					// lowAfter has the level c for λ + k; here only the estimate is pulled by λ
					p := lowAfter(m, k, means[0]-means[1], lambda, r, pull*means[1]/(lambda+k))
					if want += p; p < 1e-6*want && k > 200 {
						break
					}
				}
				if want < 1 {
					worst = math.Max(worst, off(got, want))
					n++
				}
			}
		}
	}
	return agree(worst, 5e-3, n, "the bound against the sum, relative")
}

func horizonOver(s *session) Finding {
	worst, n := 0.0, 0
	for _, c := range []theory.Few{
		{Best: 1, Other: 0, Lambda: 0.1, R: 1, Draws: 4}, {Best: 1, Other: -0.5, Lambda: 2, R: 0.5, Draws: 30},
		{Best: 1, Other: 0.4, Lambda: 1, R: 2, Draws: 100},
	} {
		for _, s1 := range []float64{0.3, 1} {
			var above []float64 // after j+1 pulls, for every x
			for _, x := range []int{1, 10, 80} {
				sum := 0.0
				for i := x - 1; i < 4000; i++ {
					for len(above) <= i {
						j := float64(len(above) + 1)
						above = append(above, gaussian(math.Inf(1), func(g float64) float64 {
							room := (c.Other+s1)*(c.Lambda+j) - c.Other*j - c.R*math.Sqrt(c.Lambda+j)*g
							return normalTail(room / math.Sqrt(j))
						}))
					}
					p := above[i]
					if sum += p; p < 1e-9*sum {
						break
					}
				}
				models := 2 * c.Draws
				if s.planted {
					models = c.Draws
				}
				worst = math.Max(worst, off(c.Over(s1, x), models*sum))
				n++
			}
		}
	}
	return agree(worst, 1e-4, n, "the bound against the sum, relative")
}

func horizonWithin(s *session) Finding {
	worst, n := 0.0, 0
	for _, c := range []theory.Few{
		{Best: 0.2, Lambda: 0.25, R: 0.3, Draws: 2}, {Best: 0.3, Lambda: 1, R: 1, Draws: 8},
	} {
		low := lows{lambda: c.Lambda, r: c.R, noise: 1}
		for _, k := range []int{1, 3, 12} {
			for _, T := range []int{20, 1000} {
				draws := float64(T)
				if s.planted {
					draws /= 2
				}
				pulls := float64(k)
				want := low.maximum(func(low float64) float64 {
					gap := (c.Best*pulls + low*(c.Lambda+pulls)) / math.Sqrt(pulls)
					given := func(z float64) float64 {
						return missedGiven(c.Draws, 2*c.Draws, draws, (-gap-z)/(c.R*math.Sqrt(1+c.Lambda/pulls)))
					}
					return gaussian(-gap, given) + gaussian(gap, func(z float64) float64 { return given(-z) })
				})
				worst = math.Max(worst, off(must(c.LostWithin(k, T)), want))
				n++
			}
		}
	}
	return agree(worst, 1e-4, n, "the bound against the product, relative")
}

func horizonSecond(s *session) Finding {
	worst, n := 0.0, 0
	for _, c := range [][3]float64{{1, 1, 0.3}, {1.5, 0.5, 0.5}, {0.8, 2, 0.4}} {
		r, lambda, gap := c[0], c[1], c[2]
		kappa := theory.FewSecond(r, lambda, gap)
		if s.planted {
			kappa = 3 * math.Cbrt(r*r*r*r*gap*gap*lambda*lambda/2)
		}
		const ell = 250
		m, largest, sum := math.Exp(ell)/2, 0.0, 0.0
		for k := 1.0; k < 300; k++ {
			p := theory.Missed(m, r*math.Sqrt(1+lambda/k), gap*math.Sqrt(k), math.Inf(1))
			largest, sum = math.Max(largest, p), sum+p
		}
		at := func(p float64) float64 { return (-math.Log(p) - r*r*ell) / math.Pow(ell, 2./3) }
		worst = math.Max(worst, off((at(largest)+at(sum))/2, kappa))
		n++
	}
	return agree(worst, 0.08, n, "κ from m = e^{250}/2 against its formula, relative")
}
