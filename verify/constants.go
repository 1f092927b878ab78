package verify

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file compares the constants of theory and the laws of the policies with calculations from their definitions:
// quadrature of each step of a proof where playing is too coarse to tell a factor of two.

var constantChecks = map[string][]Check{
	"alg:es": {
		{
			Label: "alg:es", Part: "defaults", Reading: Corrected, Kind: Identity, Expect: Holds,
			Statement: "‖S_0^j‖ is √(λd) for init = \"corrected\", √(λd E U²) for \"matched\"; the default scale has r² E U² " +
				"= σ²; E U² = 1/3 for uniform targets and 1 for Gaussian ones and signs",
			Note:  "E U² by quadrature, the members and the scale of the program. Relative deviation.",
			Plant: "E U² = 2/3",
			run:   defaultLengths,
		},
		{
			Label: "alg:es", Part: "prior", Reading: Corrected, Kind: Probability, Expect: Holds,
			Statement: "Gaussian targets, init = \"prior\", actions fixed beforehand: ⟨S_t^j, V_t^{−1}S_t^j⟩ has the χ² law " +
				"with d degrees of freedom, and at t = 0 with V_0 = λI",
			Note:  "With the engines that sum the targets and with exact-law, in turn; λ = 2.5.",
			Plant: "λ = 1 in V",
			run:   priorLaw,
		},
	},
	"thm:es": {{
		Label: "thm:es", Part: "constants", Reading: Printed, Kind: Identity, Expect: Holds,
		Statement: "N² = 134^{2d}(1 + T/λ)^d, and m = 400 log(NT/δ) is the smallest whole m with N T e^{−m/400} ≤ δ; " +
			"60 in place of 400 for the sharper constants",
		Plant: "the size of the net without the root",
		run:   sizeConstants,
	}},
	"rem:lower-vs-upper": {{
		Label: "rem:lower-vs-upper", Part: "constants", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "d = 1, ΣX² = B: at S = (g − 1)√(λ + B) the mixture ∫ e^{aS − a²B/6} dN(0, 3/λ)(a), a " +
			"supermartingale of mean 1 for 1/√3-subgaussian targets, is m/δ",
		Note:  "By quadrature. It is the step that makes theory.MemberNorm hold for all t at once.",
		Plant: "targets of variance proxy 1",
		run:   memberNormConstants,
	}},
	"lem:time-unif-bound": {{
		Label: "lem:time-unif-bound", Part: "constants", Reading: Printed, Kind: Identity, Expect: Holds,
		Statement: "|ξ_t| ≤ c = 2/√λ: at x = M(τ, δ) the mixture ∫ e^{ax − a²c²τ/2} dN(0, 1)(a) is 1/δ",
		Note:      "By quadrature, for theory.Martingale.",
		Plant:     "c = 1/√λ",
		run:       martingaleConstants,
	}},
	"thm:master": {{
		Label: "thm:master", Part: "sum", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "the bound is the sum of both halves of the proof over τ rounds with ‖X_t‖ = E(τ)/τ, E'‖X_t‖ = (E(τ) + M(τ, δ))/τ, b " +
			"= K and p = 1; E(τ) = √(2τ log(det V_τ/λ^d)) for unit vectors that come by turns",
		Note:  "For theory.Master and theory.Potential, with V_τ multiplied out and M as lem:time-unif-bound has it. Relative deviation.",
		Plant: "E in place of 2E",
		run:   masterConstants,
	}},
	"lem:conf-sets": {
		{
			Label: "lem:conf-sets", Part: "cap is reached", Reading: Printed, Kind: Identity, Expect: Holds,
			Statement: "β_T for d unit vectors that come by turns is β̃_T where d divides T",
			Note:      "For theory.BetaTilde, with det V_T multiplied out. Relative deviation.",
			Plant:     "d log(1 + T/λ) in place of d log(1 + T/(λd))",
			run:       capConstants,
		},
		{
			Label: "lem:conf-sets", Part: "constants", Reading: Printed, Kind: Identity, Expect: Holds,
			Statement: "d = 1, ΣX² = B: at S = (β − √λ)√(λ + B) the mixture ∫ e^{aS − a²B/2} dN(0, 1/λ)(a) is 1/δ",
			Note:      "By quadrature, for theory.Beta.",
			Plant:     "log(1/δ) without its factor 2",
			run:       radiusConstants,
		},
		{
			Label: "lem:conf-sets", Part: "LinUCB", Reading: Printed, Kind: Identity, Expect: Holds,
			Statement: "kind = \"linucb\" plays the arm with the largest ⟨x, θ̂⟩ + β‖x‖_{V^{−1}}",
			Note:      "θ̂, V and β of the definitions, in every round of runs on 12 arms.",
			Plant:     "the square of the norm",
			run:       linucbIsDefinition,
		},
	},
	"atoms": {{
		Label: "atoms", Part: "constants", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "mE P(χ_d > B) ≤ mE e^{−(B−√d)²/2} = δ/2; q = P(g ≥ 1/γ + η), p = q/2; m is the smallest whole number " +
			"with (1 + 2B/η)^d E e^{−mq/8} ≤ δ/2, and P(Bin(m, q) < mp) ≤ e^{−mq/8}",
		Note:  "The laws by quadrature and by the exact binomial tail, for each key, d = 1 to 20 and T = 100 to 10⁶.",
		Plant: "B without the factor 2 under its root",
		run:   atomConstants,
	}},
	"few": {
		{
			Label: "few", Part: "constants", Reading: Corrected, Kind: Identity, Expect: Holds,
			Statement: "P(m, σ, L) and the bound of thm:few are the products of the probabilities of their events: the first " +
				"round plays e_1, its models are low after the pull, no model of e_2 is low after its n-th",
			Note: "Each event by quadrature over noise and perturbation, maximised over the same s. theory takes lower sums, " +
				"up to 15 per cent less.",
			Plant: "the noise of e_2 left out",
			run:   fewConstants,
		},
		{
			Label: "few", Part: "epochs", Reading: Corrected, Kind: Inequality, Expect: Holds,
			Statement: "det V/λ² = (1+λ)(λ+n)/λ² for n = 0, …, T−2 lies in at most K intervals [ρ^e, ρ^{e+1}), of which the " +
				"first and the last are K − 1 apart",
			Plant: "K without its first epoch",
			run:   fewEpochs,
		},
		{
			Label: "few", Part: "members", Reading: Corrected, Kind: Identity, Expect: Holds,
			Statement: "thm:few-members: at m = log(1/δ)/(2Φ(−1/c)) both e^{−2mΦ(−1/c)} and e^{−c²β²/(2c²)} at β = √(2 " +
				"log(1/δ)) are δ, and below the m of (a) P(m, σ, L) is above δ",
			Note:  "Φ and P by quadrature.",
			Plant: "Φ(−1/(2c)) in place of Φ(−1/c)",
			run:   fewMembers,
		},
	},
	"few-exponent": {{
		Label: "few-exponent", Part: "constants", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "the bound is the product of the probabilities of its events: all models of e_1 are low after k pulls, " +
			"no model of e_2 is low after its n-th",
		Note:  "By quadrature, as few (constants), k = 1 to 12.",
		Plant: "λ in place of λ/k",
		run:   exponentConstants,
	}},
}

// legendre are the nodes and weights on [0, 1] of Gauss–Legendre quadrature.
type legendre struct{ x, weight []float64 }

func newLegendre(n int) func() legendre {
	return sync.OnceValue(func() legendre {
		l := legendre{make([]float64, n), make([]float64, n)}
		quad.Legendre{}.FixedLocations(l.x, l.weight, 0, 1)
		return l
	})
}

// integral is the integral of f from lo to hi, 0 where they are equal.
func (l legendre) integral(lo, hi float64, f func(x float64) float64) (sum float64) {
	for i, x := range l.x {
		sum += l.weight[i] * (hi - lo) * f(x*(hi-lo)+lo)
	}
	return sum
}

var legendre16, legendre24, legendre128 = newLegendre(16), newLegendre(24), newLegendre(128)

// gaussian returns E f(Z) 1{Z ≤ top} for a standard normal Z.
func gaussian(top float64, f func(z float64) float64) (sum float64) {
	const piece, least = 1.0, -14.0
	rule := legendre24()
	for hi := math.Min(top, 14); hi > least; hi -= piece {
		sum += rule.integral(math.Max(least, hi-piece), hi, func(z float64) float64 { return phi(z) * f(z) })
	}
	return sum
}

// off is |a/b − 1|; NaN is a deviation.
func off(a, b float64) float64 {
	if a == b {
		return 0
	}
	if v := math.Abs(a/b - 1); v <= math.MaxFloat64 {
		return v
	}
	return math.MaxFloat64
}

func defaultLengths(s *session) Finding {
	squares := map[string]float64{
		"uniform": unit.mean(func(u float64) float64 { return u * u }), "rademacher": 1,
		"gaussian": gaussian(math.Inf(1), func(z float64) float64 { return z * z }),
	}
	if s.planted {
		squares["uniform"] = 2. / 3
	}
	worst, n := 0.0, 0
	for _, targets := range []string{"uniform", "gaussian", "rademacher"} {
		for _, init := range []string{"corrected", "matched"} {
			for i, lambda := range []float64{0.3, 1, 5} {
				const m, sigma = 4, 0.7
				d := 2 + i
				e := mustEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Targets: targets, Init: init},
					policy.Problem{Dim: d, Sigma: sigma, Init: s.universe(n).Stream(rng.Init)})
				length := lambda * float64(d)
				if init == "matched" {
					length *= squares[targets]
				}
				for j := range m {
					worst = math.Max(worst, off(linalg.Norm(e.Sums()[j*d:j*d+d]), math.Sqrt(length)))
				}
				worst = math.Max(worst, off(e.Scale()*e.Scale()*squares[targets], sigma*sigma))
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "lengths of members before round 1 and default scales")
}

func priorLaw(s *session) Finding {
	const d, lambda = 3, 2.5
	m := s.size(2000, 20_000)
	in := lambda
	if s.planted {
		in = 1
	}
	law := distuv.ChiSquared{K: d}
	var u []float64
	for i, o := range []policy.EnsembleOptions{
		{Engine: "eager"}, {Engine: "exact-law"}, {Engine: "exact-law"},
	} {
		key := s.universe(i)
		o.M, o.Lambda, o.Targets, o.Init = m, lambda, "gaussian", "prior"
		e := mustEnsemble(o, policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
		f := linalg.NewFactor(d, in)
		a := bandit.Action{X: make([]float64, d), Index: bandit.NoIndex}
		for t := range 30 * i { // as begun, and after 30 and 60 rounds
			key.Stream(rng.Offer).Round(uint64(t)).Sphere(a.X, 0)
			check(e.Update(a, 0, key.Stream(rng.Perturb).Round(uint64(t+1))))
			f.Update(a.X)
		}
		x := make([]float64, d)
		for j := range m {
			copy(x, e.Sums()[j*d:j*d+d])
			f.SolveL(x)
			u = append(u, law.CDF(linalg.Dot(x, x)))
		}
	}
	gap := kolmogorov(u, func(x float64) float64 { return x })
	return massart(gap, len(u), "Kolmogorov distance of F(⟨S, V^{−1}S⟩) from the uniform law over %d members, d = %d; "+
		"bound: its quantile at level %g", len(u), d, Level)
}

func sizeConstants(s *session) Finding {
	worst, n := 0.0, 0
	for _, d := range []int{1, 2, 10, 100} {
		for _, T := range []int{1, 100, 1e6} {
			for _, lambda := range []float64{5, 50} {
				const delta = 0.1
				logN := must(theory.LogNet(d, T, lambda))
				square := 2 * math.Log(134) * float64(d)
				growth := float64(d) * math.Log1p(float64(T)/lambda)
				if s.planted {
					growth *= 2
				}
				worst = math.Max(worst, off(2*logN, square+growth))
				exact := (square+growth)/2 + math.Log(float64(T)/delta) // log(NT/δ)
				for c, m := range map[float64]int{400: must(theory.Members(d, T, lambda, delta)),
					60: must(theory.Members60(d, T, lambda, delta))} {
					above, below := exact-float64(m)/c, exact-float64(m-1)/c // log of N T e^{−m/c}/δ
					worst = math.Max(worst, math.Max(above, -below))
				}
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "log N, and log(N T e^{−m/c}/δ) at m and at m − 1")
}

// mixture returns log ∫ e^{aS − a²B/2} dN(0, v)(a) by quadrature around the top of its integrand.
func mixture(sum, b, v float64) float64 {
	width := 1 / math.Sqrt(b+1/v)
	mid := sum * width * width
	top := mid*sum - mid*mid*(b+1/v)/2
	total := 0.0
	for i := -12; i < 12; i++ {
		total += legendre16().integral(mid+width*float64(i), mid+width*float64(i+1),
			func(a float64) float64 { return math.Exp(a*sum - a*a*(b+1/v)/2 - top) })
	}
	return top + math.Log(total/math.Sqrt(2*math.Pi*v))
}

func memberNormConstants(s *session) Finding {
	proxy := 1. / 3
	if s.planted {
		proxy = 1
	}
	worst, n := 0.0, 0
	for _, lambda := range []float64{0.5, 5} {
		for _, b := range []float64{0.1, 10, 1e4} {
			for _, m := range []float64{1, 100, 1e5} {
				const delta = 0.05
				g := theory.MemberNorm(1, m, delta, math.Log1p(b/lambda)) - 1
				worst = math.Max(worst, off(mixture(g*math.Sqrt(lambda+b), proxy*b, 1/(proxy*lambda)), math.Log(m/delta)))
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "log of the mixture at the bound against log(m/δ)")
}

func martingaleConstants(s *session) Finding {
	worst, n := 0.0, 0
	for _, lambda := range []float64{1, 5, 40} {
		c := 2 / math.Sqrt(lambda)
		if s.planted {
			c /= 2
		}
		for _, tau := range []float64{1, 100, 1e6} {
			for _, delta := range []float64{0.5, 0.1, 1e-6} {
				worst = math.Max(worst, off(mixture(theory.Martingale(tau, lambda, delta), c*c*tau, 1), -math.Log(delta)))
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "log of the mixture at M(τ, δ) against log(1/δ)")
}

func radiusConstants(s *session) Finding {
	worst, n := 0.0, 0
	for _, lambda := range []float64{0.5, 1, 5} {
		for _, b := range []float64{0.1, 10, 1e4} {
			for _, delta := range []float64{0.5, 0.1, 1e-6} {
				level := delta
				if s.planted {
					level = math.Sqrt(delta)
				}
				r := theory.Beta(lambda, level, math.Log1p(b/lambda)) - math.Sqrt(lambda)
				worst = math.Max(worst, off(mixture(r*math.Sqrt(lambda+b), b, 1/lambda), -math.Log(delta)))
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "log of the mixture at the radius against log(1/δ)")
}

// turns returns log(det V_T/λ^d) for T unit vectors e_1, …, e_d, e_1, …, a factor at a time.
func turns(d, T int, lambda float64) (sum float64) {
	for i := range d {
		v := lambda
		for t := i; t < T; t += d {
			v++
		}
		sum += math.Log(v / lambda)
	}
	return sum
}

func capConstants(s *session) Finding {
	worst, n := 0.0, 0
	for _, d := range []int{1, 2, 5, 20} {
		for _, each := range []int{1, 40, 3000} {
			for _, lambda := range []float64{0.1, 1, 80} {
				want := theory.Beta(lambda, 0.05, turns(d, d*each, lambda))
				if s.planted {
					want = theory.Beta(lambda, 0.05, float64(d)*math.Log1p(float64(d*each)/lambda))
				}
				worst = math.Max(worst, off(theory.BetaTilde(d, d*each, lambda, 0.05), want))
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "the cap against β_T")
}

func masterConstants(s *session) Finding {
	worst, n := 0.0, 0
	for _, d := range []int{1, 3, 10} {
		for _, each := range []int{1, 70, 2000} {
			for _, c := range [][3]float64{{1, 0.1, 3}, {5, 0.01, 700}, {80, 0.5, 1e6}} { // λ, δ, K
				tau := float64(d * each)
				e := math.Sqrt(2 * tau * turns(d, d*each, c[0]))
				size := 4*tau/c[0] + 1
				m := math.Sqrt(2 * size * math.Log(math.Sqrt(size)/c[1]))
				sum := theory.PredictionStep(c[2], e/tau) + theory.OptimismStep(c[2], 1, (e+m)/tau)
				if s.planted {
					sum = theory.OptimismStep(c[2], 1, (e+m)/tau)
				}
				worst = math.Max(worst, off(theory.Master(c[2], d, tau, c[0], c[1]), tau*sum))
				n++
			}
		}
	}
	return agree(worst, 1e-9, n, "the bound against the sum of its steps")
}

func linucbIsDefinition(s *session) Finding {
	const d, lambda, delta = 4, 1.5, 0.1
	T := s.size(150, 1000)
	worst, n := 0.0, 0
	for i := range 3 {
		key := s.universe(i)
		w := newWorld(key, d, 12)
		p := must(policy.NewLinUCB(policy.LinUCBOptions{Lambda: lambda, Delta: delta}, policy.Problem{Dim: d}))
		v, b, f := make([]float64, d*d), make([]float64, d), linalg.NewFactor(d, lambda)
		for k := range d {
			v[k*d+k] = lambda
		}
		x := make([]float64, d)
		var a bandit.Action
		for t := 1; t <= T; t++ {
			if !f.Set(v) {
				panic("verify: V is not positive definite")
			}
			hat := append([]float64(nil), b...)
			f.Solve(hat)
			beta := math.Sqrt(lambda) + math.Sqrt(2*math.Log(1/delta)+math.Max(0, f.LogDet()-d*math.Log(lambda)))
			index := func(arm []float64) float64 {
				copy(x, arm)
				f.SolveL(x)
				width := linalg.Norm(x)
				if s.planted {
					width *= width
				}
				return linalg.Dot(arm, hat) + beta*width
			}
			check(p.Select(&a, w.set, key.Stream(rng.Select).Round(uint64(t))))
			best, arms := math.Inf(-1), w.set.(bandit.Finite)
			for k := range arms.Len() {
				best = math.Max(best, index(arms.At(k)))
			}
			worst = math.Max(worst, (best-index(a.X))/(1+math.Abs(best)))
			n++
			y := w.reward(key, t, a)
			check(p.Update(a, y, rng.Source{}))
			for k, c := range a.X {
				b[k] += y * c
				linalg.Axpy(c, a.X, v[k*d:k*d+d])
			}
		}
	}
	return agree(worst, 1e-9, n, "largest index of an arm minus that of the arm played, relative")
}

func atomConstants(s *session) Finding {
	const gamma, eta = 1.35, 0.05
	worst, n := 0.0, 0
	q := gaussian(-(1/gamma + eta), func(float64) float64 { return 1 })
	for _, d := range []int{1, 2, 5, 20} {
		for _, T := range []float64{100, 1e4, 1e6} {
			for _, key := range []string{theory.EpochKey, theory.FixedKey, theory.RoundKey, theory.DecisionKey} {
				set := theory.Setting{D: d, T: T, Lambda: 1, Delta: 0.1}
				a := must(theory.AtomsFor(set, theory.AtomsChoice{Key: key}))
				dim, over := float64(d), a.Width-math.Sqrt(float64(d))
				if s.planted {
					over /= math.Sqrt2
				}
				allowed := math.Log(set.Delta / 2)
				worst = math.Max(worst, off(math.Log(a.Members*a.Keys)-over*over/2, allowed))
				long := mathext.GammaIncRegComp(dim/2, a.Width*a.Width/2)
				worst = math.Max(worst, math.Log(a.Members*a.Keys*long)-allowed)
				worst = math.Max(worst, math.Max(off(2*a.P, q), off(a.Gamma, gamma)))
				fail := func(m float64) float64 { return dim*math.Log1p(2*a.Width/eta) + math.Log(a.Keys) - m*q/8 }
				worst = math.Max(worst, math.Max(fail(a.Members)-allowed, allowed-fail(a.Members-1)))
				few := distuv.Binomial{N: a.Members, P: q}.CDF(math.Ceil(a.Members*a.P) - 1)
				worst = math.Max(worst, math.Log(math.Max(few, 1e-300))+a.Members*q/8)
				n++
			}
		}
	}
	return agree(math.Max(worst, 0), 1e-9, n, "the two failures against δ/2 each, in logarithms")
}

// lowAfter is the probability that after k pulls of an arm with mean mu all its 2m models with scale r are at most c.
func lowAfter(m, k, mu, lambda, r, c float64) float64 {
	room := func(z float64) float64 { return c*(lambda+k) - mu*k - math.Sqrt(k)*z } // for r|W|, W ~ N(0, λ + k)
	return gaussian(room(0)/math.Sqrt(k), func(z float64) float64 {
		return math.Pow(math.Erf(math.Max(0, room(z))/(r*math.Sqrt(2*(lambda+k)))), m)
	})
}

// lowEver is the sum over n of the probability that a model of an arm with mean 0 is at most −s after n pulls; above 1
// it stops. noise is the standard deviation of a reward.
func lowEver(lambda, r, s, noise float64) (sum float64) {
	for n := 0.0; sum < 1; n++ {
		k := lambda + n
		p := gaussian(math.Inf(1), func(g float64) float64 {
			room := -s*k - r*math.Sqrt(k)*g // for the noise
			if n*noise == 0 {
				if room >= 0 {
					return 1
				}
				return 0
			}
			return normalTail(-room / (noise * math.Sqrt(n)))
		})
		if n*noise == 0 {
			p = normalTail(s * math.Sqrt(k) / r)
		}
		sum += p
		if p < 1e-10 {
			break
		}
	}
	return sum
}

// between is how far v is outside [0.85 want, want], as a ratio minus 1.
func between(v, want float64) float64 {
	return math.Max(0, math.Max(v/want-1, 0.85*want/v-1))
}

// lows are S(s) of lowEver on the grid of theory, as far as it was asked for.
type lows struct {
	lambda, r, noise float64
	fail             []float64
}

// maximum returns the largest of (1 − S(s))·f(s) over the grid of theory, S by quadrature.
func maximum(lambda, r, noise float64, f func(s float64) float64) float64 {
	return (&lows{lambda: lambda, r: r, noise: noise}).maximum(f)
}

func (l *lows) maximum(f func(s float64) float64) (best float64) {
	for i, s := 0, 0.02; s < 400; i, s = i+1, s*1.05 {
		if i == len(l.fail) {
			l.fail = append(l.fail, lowEver(l.lambda, l.r, s, l.noise))
		}
		if fail := l.fail[i]; fail < 1 {
			v := (1 - fail) * f(s)
			if v < best/2 {
				break
			}
			best = math.Max(best, v)
		}
	}
	return best
}

func fewConstants(s *session) Finding {
	noise := 1.0
	if s.planted {
		noise = 0
	}
	worst, n := 0.0, 0
	for _, m := range []float64{1, 8, 300} {
		for _, sigma := range []float64{0.3, 1, 1.5, 3} {
			for _, gap := range []float64{0, 0.3, 1} {
				lo, hi := theory.Stuck(m, sigma, gap)
				p := lowAfter(m, 1, gap, 0, sigma, 0) // one pull at λ = 0: Z + σ max |g| ≤ −L
				worst = math.Max(worst, math.Max(lo/p-1, p/hi-1))
				if p > 1e-12 {
					worst = math.Max(worst, hi/lo-1.15)
				}
				n++
			}
		}
	}
	first := gaussian(math.Inf(1), func(z float64) float64 { return normalTail(-z) }) // e_1 wins the first round
	for _, c := range []theory.Few{
		{Best: 0.1, Lambda: 0.25, R: 0.2, Draws: 2}, {Best: 0.3, Lambda: 1, R: 1, Draws: 8}, {Best: 0.5, Lambda: 4, R: 0.5, Draws: 3},
	} {
		want := first * maximum(c.Lambda, c.R, noise, func(low float64) float64 {
			return lowAfter(c.Draws, 1, c.Best, c.Lambda, c.R, -low)
		})
		worst = math.Max(worst, between(must(c.Share()), want))
		n++
	}
	return agree(worst, 1e-6, n, "P(m, σ, L) outside its enclosure, and the share outside 85 to 100%% of the product")
}

func exponentConstants(s *session) Finding {
	worst, n := 0.0, 0
	for _, c := range []theory.Few{
		{Best: 0.2, Lambda: 0.25, R: 0.3, Draws: 2}, {Best: 0.3, Lambda: 1, R: 1, Draws: 8}, {Best: 0.5, Lambda: 4, R: 0.5, Draws: 3},
	} {
		for _, k := range []int{1, 3, 12} {
			pulls := float64(k)
			want := maximum(c.Lambda, c.R, 1, func(low float64) float64 {
				if s.planted { // W of one pull under k pulls of noise
					return lowAfter(c.Draws, pulls, c.Best, c.Lambda, c.R*math.Sqrt((1+c.Lambda)/(1+c.Lambda/pulls)), -low)
				}
				return lowAfter(c.Draws, pulls, c.Best, c.Lambda, c.R, -low)
			})
			worst = math.Max(worst, between(must(c.Lost(k)), want))
			n++
		}
	}
	return agree(worst, 1e-6, n, "the bound outside 85 to 100%% of the product")
}

func fewEpochs(s *session) Finding {
	var w tightest
	for _, T := range []int{2, 3, 10, 300, 5000} {
		for _, lambda := range []float64{0.1, 1, 7} {
			for _, rho := range []float64{1.5, 2, 4} {
				seen, last := map[float64]bool{}, 0.0
				first := math.Inf(1)
				for n := range T - 1 {
					det := (1 + lambda) * (lambda + float64(n)) / (lambda * lambda)
					e := 0.0
					for next := rho; next <= det; next *= rho {
						e++
					}
					seen[e] = true
					first, last = math.Min(first, e), math.Max(last, e)
				}
				K := theory.Epochs(float64(T), lambda, rho)
				if s.planted {
					K--
				}
				at := func() string { return fmt.Sprintf("T = %d, λ = %g, ρ = %g", T, lambda, rho) }
				w.see(float64(len(seen)), K, at)
				w.require(K == last-first+1)
			}
		}
	}
	return w.finding("epochs counted against K")
}

func fewMembers(s *session) Finding {
	worst, n := 0.0, 0
	for _, c := range []float64{0.5, 1, 2} {
		for _, delta := range []float64{1e-2, 1e-6, 1e-12} {
			y := 1 / c
			if s.planted {
				y /= 2
			}
			m := theory.FewSufficient(c, delta)
			tail := gaussian(-y, func(float64) float64 { return 1 })
			beta := math.Sqrt(-2 * math.Log(delta))
			worst = math.Max(worst, math.Max(off(2*m*tail, -math.Log(delta)), off(c*c*beta*beta/(2*c*c), -math.Log(delta))))
			const lambda, gap = 1.0, 0.1
			sigma := c * theory.Beta(lambda, delta, math.Ln2) * math.Sqrt2
			need := theory.FewNecessary(sigma, gap, delta)
			if below := math.Ceil(need) - 1; below >= 1 {
				worst = math.Max(worst, delta/lowAfter(below, 1, gap, 0, sigma, 0)-1)
			}
			worst = math.Max(worst, need/m-1)
			n++
		}
	}
	return agree(worst, 1e-9, n, "the terms of (5) against δ, and P(m, σ, L) below the necessary m")
}
