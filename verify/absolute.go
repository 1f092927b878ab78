package verify

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// This file examines thm:ats of docs/papers/absolute.md, which is ours: the regret of absolute Thompson sampling, step by
// step.

var absoluteChecks = []Check{
	{
		Label: "ats", Reading: Corrected, Kind: Probability, Expect: Holds,
		Statement: "m fresh members, r_t = β_t, λ ≥ 1: with probability 1 − 3δ for all τ at once R(τ) ≤ (1 + κ_m) β_{τ−1} √(τ·e/(e−1)·(2d " +
			"log(1 + τ/(dλ)) + log(1/δ))) + M(τ, δ)",
		Note:  "policy.ATS with m = 1 and 6 on the ball and on 12 arms, d = 2, δ = 0.1. The bound is about fifteen times what is seen.",
		Plant: "a fiftieth of the bound",
		run:   absoluteRegret,
	},
	{
		Label: "ats", Part: "normaliser", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "c_m = E max_{j≤m} |Z_j|, so that (r/c_m) max_j |⟨x, η_j⟩| has the mean r‖x‖",
		Note:      "The scale of the program's models against the quantiles of the maximum, m = 1 to 4096. Relative deviation.",
		Plant:     "c of 8 members more",
		run:       absoluteNormaliser,
	},
	{
		Label: "ats", Part: "objective", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "kind = \"ats\" plays an arm with the largest ⟨x, θ̂⟩ + (r/c_m) max_j |⟨x, η_j⟩|, η_j = L^{−T}ζ_j",
		Note:      "V, θ̂ and β of the definitions and the program's own draws, in rounds of runs on 9 arms, m = 1 and 5.",
		Plant:     "without the absolute value",
		run:       absoluteObjective,
	},
	{
		Label: "ats", Part: "law", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "two arms: the probability of an action is the integral (5) of docs/papers/absolute.md",
		Note:      "The program's law against quadrature over the plane of both perturbations, m = 1 to 16.",
		Plant:     "β in place of β/c_m",
		run:       absoluteLaw,
	},
	{
		Label: "ats", Part: "conditional regret", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "on the event of lem:conf-sets E_t[⟨x*, θ*⟩ − ⟨X_t, θ*⟩] ≤ β(1 + κ_m)(E_t‖X_t‖²)^{1/2}",
		Note: "The mean over the exact law of two arms of which one is optimal by as much as the ellipsoid allows: θ* = θ̂ + βV^{−1}(x − y)/‖x − y‖. " +
			"Over states, arms and m.",
		Plant: "a third of the right side",
		run:   absoluteStep,
	},
	{
		Label: "ats", Part: "supermartingale", Reading: Corrected, Kind: Inequality, Expect: Holds,
		Statement: "E exp((1 − 1/e)E Y − Y) ≤ 1 for every Y in [0, 1], so that ΣE_t‖X_t‖² ≤ e/(e−1)·(Σ‖X_t‖² + log(1/δ)) with probability " +
			"1 − δ",
		Note:  "On laws with two to four values.",
		Plant: "e/(e−1) replaced by 1",
		run:   absoluteSums,
	},
	{
		Label: "ats", Part: "widths", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: "κ_m² c_m² is E max_j ‖ζ_j‖² on any set and at most E max Z_i² of Km independent N(0, 1) on K arms",
		Note:      "By quantiles of the maxima of χ²_d and χ²_1, d = 1 to 20, m = 1 to 64. Relative deviation.",
		Plant:     "d + 1 in place of d",
		run:       absoluteWidths,
	},
	{
		Label: "ats", Part: "bound", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: absoluteBoundStatement, Note: absoluteBoundNote, Plant: "κ_m in place of 1 + κ_m",
		run: absoluteBound(func(b *absoluteParts) { b.one = 0 }),
	},
	{
		Label: "ats", Part: "bound, potential", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: absoluteBoundStatement, Note: absoluteBoundNote, Plant: "e/(e−1) replaced by 1",
		run: absoluteBound(func(b *absoluteParts) { b.ville = 1 }),
	},
	{
		Label: "ats", Part: "bound, martingale", Reading: Corrected, Kind: Identity, Expect: Holds,
		Statement: absoluteBoundStatement, Note: absoluteBoundNote, Plant: "c = 1 in place of 2",
		run: absoluteBound(func(b *absoluteParts) { b.c = 1 }),
	},
}

const (
	absoluteBoundStatement = "the bound is the sum of (3) over τ rounds by (4), and of lem:time-unif-bound with c = 2: (1 + κ_m)β√(τ·e/(e−1)·(2 " +
		"log(det V/λ^d) + log(1/δ))) + √(2(c²τ + 1) log(√(c²τ + 1)/δ))"
	absoluteBoundNote = "For theory.Absolute, κ_m by quantiles, d unit vectors by turns for det V and β. Relative deviation."
)

// maximum of quantiles: E g(max of m) for independent numbers with the quantile function q of a tail probability.
func meanOfMax(m float64, q func(tail float64) float64) (sum float64) {
	rule := legendre24()
	// u = P(max ≤ ·) in pieces that grow dense at both ends, where the quantile bends.
	cut := []float64{0}
	for k := 48; k > 0; k-- {
		cut = append(cut, math.Exp2(-float64(k)))
	}
	for k := 2; k <= 48; k++ {
		cut = append(cut, 1-math.Exp2(-float64(k)))
	}
	for i := range len(cut) - 1 {
		sum += rule.integral(cut[i], cut[i+1], func(u float64) float64 { return q(-math.Expm1(math.Log(u) / m)) })
	}
	return sum
}

// absNormal is the number that |Z| is above with a probability.
func absNormal(tail float64) float64 { return math.Sqrt2 * erfcInverse(tail) }

func erfcInverse(p float64) float64 {
	lo, hi := 0.0, 27.0
	for range 90 {
		if mid := (lo + hi) / 2; math.Erfc(mid) > p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// chi2 is the number that χ²_d is above with a probability.
func chi2(d float64) func(tail float64) float64 {
	law := distuv.ChiSquared{K: d}
	return func(tail float64) float64 {
		lo, hi := 0.0, d+400
		for range 80 {
			if mid := (lo + hi) / 2; law.Survival(mid) > tail {
				lo = mid
			} else {
				hi = mid
			}
		}
		return (lo + hi) / 2
	}
}

// absolute is what the checks ask of absolute Thompson sampling.
type absolute interface {
	bandit.Policy
	bandit.Prober
	Ridge() policy.Regression
	Scale() float64
	Normaliser() float64
}

func mustATS(o policy.ATSOptions, p policy.Problem) absolute { return must(o.New(p)).(absolute) }

func absoluteRegret(s *session) Finding {
	const d, delta = 2, 0.1
	T := s.size(1500, 20_000)
	var all runs
	for i := range s.size(80, 400) {
		if s.stopped() {
			return Finding{}
		}
		m, arms := []int{1, 6}[i%2], []int{0, 12}[i/2%2]
		key := s.universe(i)
		w := newWorld(key, d, arms)
		p := mustATS(policy.ATSOptions{M: m, Delta: delta, Preset: "theorem"}, policy.Problem{Dim: d, Horizon: T, Arms: arms, Init: key.Stream(rng.Init)})
		bound := theory.Absolute(arms, float64(m))
		regret, worst := 0.0, 0.0
		w.play(key, p, T, func(t int, a bandit.Action, r float64) {
			if regret += r; t%20 == 0 || t == T {
				limit := must(bound.At(theory.Setting{D: d, T: float64(T), Lambda: 1, Delta: delta}, float64(t)))
				if s.planted {
					limit /= 50
				}
				worst = math.Max(worst, regret/limit)
			}
		})
		all.see(worst)
	}
	return all.finding(3*delta, "runs in which R(τ) exceeds the bound, d = %d, T = %d, m = 1 and 6", d, T)
}

func absoluteNormaliser(s *session) Finding {
	worst, n := 0.0, 0
	for _, m := range []int{1, 2, 5, 16, 64, 1024, 4096} {
		of := float64(m)
		if s.planted {
			of += 8
		}
		p := mustATS(policy.ATSOptions{M: m}, policy.Problem{Dim: 1})
		want := meanOfMax(of, absNormal)
		worst = math.Max(worst, math.Max(off(p.Normaliser(), want), off(theory.MaxAbsNormal(of), want)))
		n++
	}
	return agree(worst, 1e-6, n, "c_m against the mean of the maximum, relative")
}

func absoluteObjective(s *session) Finding {
	const d, lambda = 3, 1.5
	worst, n := 0.0, 0
	for i, m := range []int{1, 5} {
		key := s.universe(i)
		w := newWorld(key, d, 9)
		p := mustATS(policy.ATSOptions{M: m, Lambda: lambda}, policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
		f, eta, v, b := linalg.NewFactor(d, lambda), make([]float64, d), make([]float64, d*d), make([]float64, d)
		for k := range d {
			v[k*d+k] = lambda
		}
		c := meanOfMax(float64(m), absNormal)
		w.play(key, p, s.size(80, 600), func(t int, a bandit.Action, _ float64) {
			if !f.Set(v) {
				panic("verify: V is not positive definite")
			}
			r := theory.Beta(lambda, 0.1, max(0, f.LogDet()-d*math.Log(lambda)))
			hat := append([]float64(nil), b...)
			f.Solve(hat)
			list := w.set.(bandit.Finite)
			values := make([]float64, list.Len())
			for k := range values {
				values[k] = math.Inf(-1)
			}
			draw := key.Stream(rng.Select).Round(uint64(t))
			for j := range m {
				draw.Normals(eta, j*d)
				f.SolveLT(eta)
				for k := range values {
					u := linalg.Dot(list.At(k), eta)
					if !s.planted {
						u = math.Abs(u)
					}
					values[k] = math.Max(values[k], linalg.Dot(list.At(k), hat)+r/c*u)
				}
			}
			best := math.Inf(-1)
			for _, v := range values {
				best = math.Max(best, v)
			}
			worst = math.Max(worst, (best-values[a.Index])/(1+math.Abs(best)))
			n++
			y := w.reward(key, t, a)
			for k, x := range a.X {
				b[k] += y * x
				linalg.Axpy(x, a.X, v[k*d:k*d+d])
			}
		})
	}
	return agree(worst, 1e-9, n, "what the action lacks of the largest objective, relative")
}

// absoluteState is a policy that has learned some rounds on two arms.
func (s *session) absoluteState(i, m int) (p absolute, arms [][]float64, set bandit.Finite) {
	const d = 3
	src := s.source(i)
	arms = make([][]float64, 2)
	for k := range arms {
		arms[k] = make([]float64, d)
		src.Normals(arms[k], 10*k)
		size := (0.3 + 0.7*src.Float64(30+k)) / linalg.Norm(arms[k])
		for j := range arms[k] {
			arms[k][j] *= size
		}
	}
	p = mustATS(policy.ATSOptions{M: m, Lambda: 1 + src.Float64(40)}, policy.Problem{Dim: d, Init: s.key.Stream(rng.Init)})
	for t := range 1 + src.Intn(41, 60) {
		x := arms[src.Intn(100+2*t, 2)]
		check(p.Update(bandit.Action{X: x}, 0.4*x[0]+src.Normal(101+2*t), rng.Source{}))
	}
	set = must(actionset.NewFinite(arms))
	return p, arms, set
}

// absolutePlane is P(a + max|u| ≥ max|v|) for m pairs with standard deviations s and t and correlation rho, by quadrature over
// the maximum of |u|: P(max|u| ≤ x, max|v| ≤ y) = P(|u| ≤ x, |v| ≤ y)^m, and that by quadrature over u.
func absolutePlane(a, s, t, rho, m float64) float64 {
	w := t * math.Sqrt(1-rho*rho)
	box := func(x, y float64) float64 { // P(|u| ≤ x, |v| ≤ y)
		if x <= 0 || y <= 0 {
			return 0
		}
		sum := 0.0
		const pieces = 40
		top := math.Min(x, 9*s)
		for k := range pieces {
			sum += legendre16().integral(top*float64(k)/pieces, top*float64(k+1)/pieces, func(u float64) float64 {
				mean := rho * t / s * u
				return 2 / s * phi(u/s) * (normalTail((-y-mean)/w) - normalTail((y-mean)/w))
			})
		}
		return sum
	}
	// ∫ dP(max|u| ≤ x, max|v| ≤ y) over y ≤ x + a: the increments over thin strips of x.
	const strips = 3000
	lo := math.Max(0, -a)
	top := math.Max(9*s, lo+9*t)
	sum := 0.0
	for k := range strips {
		x0, x1 := lo+(top-lo)*float64(k)/strips, lo+(top-lo)*float64(k+1)/strips
		y := (x0+x1)/2 + a
		sum += math.Pow(box(x1, y), m) - math.Pow(box(x0, y), m)
	}
	return sum
}

func absoluteLaw(s *session) Finding {
	worst, n := 0.0, 0
	for i, m := range []int{1, 3, 16}[:s.size(3, 3)] {
		p, arms, set := s.absoluteState(i, m)
		var law bandit.Law
		check(p.Prob(&law, set, rng.Source{}))
		ridge := p.Ridge()
		var widths [2]float64
		solved := make([]float64, 3)
		f := linalg.NewFactor(3, 1)
		if !f.Set(ridge.V()) {
			panic("verify: V is not positive definite")
		}
		covariance := 0.0
		for k := range arms {
			copy(solved, arms[k])
			f.Solve(solved)
			widths[k] = math.Sqrt(linalg.Dot(arms[k], solved))
			if k == 1 {
				covariance = linalg.Dot(arms[0], solved)
			}
		}
		unit := p.Scale()
		if !s.planted {
			unit /= meanOfMax(float64(m), absNormal)
		}
		lead := (linalg.Dot(arms[0], ridge.Theta()) - linalg.Dot(arms[1], ridge.Theta())) / unit
		want := absolutePlane(lead, widths[0], widths[1], covariance/widths[0]/widths[1], float64(m))
		worst = math.Max(worst, math.Abs(law.Atoms[0].P-want))
		n++
	}
	return agree(worst, 2e-5, n, "the probability of the first arm against quadrature")
}

func absoluteStep(s *session) Finding {
	var w tightest
	for i := range s.size(60, 400) {
		m := 1 + i%7
		p, arms, set := s.absoluteState(i, m)
		var law bandit.Law
		check(p.Prob(&law, set, rng.Source{}))
		f := linalg.NewFactor(3, 1)
		if !f.Set(p.Ridge().V()) {
			panic("verify: V is not positive definite")
		}
		norm := func(x []float64) float64 {
			y := append([]float64(nil), x...)
			f.Solve(y)
			return math.Sqrt(linalg.Dot(x, y))
		}
		for best := range arms {
			away := make([]float64, 3)
			for k := range away {
				away[k] = arms[best][k] - arms[1-best][k]
			}
			gap := linalg.Dot(away, p.Ridge().Theta()) + p.Scale()*norm(away) // ⟨x − y, θ*⟩
			square := 0.0
			for k, x := range arms {
				v := norm(x)
				square += law.Atoms[k].P * v * v
			}
			right := p.Scale() * (1 + theory.WidthRatio(3, 2, float64(m))) * math.Sqrt(square)
			if s.planted {
				right /= 3
			}
			w.see(math.Max(0, gap)*law.Atoms[1-best].P, right, nil)
		}
	}
	return w.finding("conditional regret against the bound of a round")
}

func absoluteSums(s *session) Finding {
	var w tightest
	for i := range s.size(4000, 40_000) {
		src := s.source(i)
		n := 2 + src.Intn(0, 3)
		share := 1 - 1/math.E
		if s.planted {
			share = 1
		}
		var total, mean float64
		values, weights := make([]float64, n), make([]float64, n)
		for k := range n {
			values[k] = src.Float64(2 * (k + 1))
			if i%3 == 0 {
				values[k] = math.Round(values[k]) // ends of the interval
			}
			weights[k] = src.Float64(2*(k+1) + 1)
			total += weights[k]
			mean += weights[k] * values[k]
		}
		mean /= total
		sum := 0.0
		for k := range n {
			sum += weights[k] / total * math.Exp(share*mean-values[k])
		}
		w.see(sum, 1, nil)
	}
	return w.finding("the mean of the exponential against 1")
}

func absoluteWidths(s *session) Finding {
	worst, n := 0.0, 0
	for _, d := range []int{1, 3, 20} {
		for _, m := range []float64{1, 8, 64} {
			df := float64(d)
			if s.planted {
				df++
			}
			c := meanOfMax(m, absNormal)
			worst = math.Max(worst, off(theory.WidthRatio(d, 0, m), math.Sqrt(meanOfMax(m, chi2(df)))/c))
			if d == 20 {
				worst = math.Max(worst, off(theory.WidthRatio(d, 4, m), math.Sqrt(meanOfMax(4*m, chi2(df-19)))/c))
			}
			n++
		}
	}
	return agree(worst, 1e-5, n, "κ_m against quantiles, relative")
}

// absoluteParts are the constants of the bound.
type absoluteParts struct{ one, ville, c float64 }

func absoluteBound(plant func(*absoluteParts)) func(*session) Finding {
	return func(s *session) Finding {
		parts := absoluteParts{one: 1, ville: math.E / (math.E - 1), c: 2}
		if s.planted {
			plant(&parts)
		}
		worst, n := 0.0, 0
		for _, d := range []int{2, 5} {
			for _, m := range []float64{1, 16} {
				kappa := math.Sqrt(meanOfMax(m, chi2(float64(d)))) / meanOfMax(m, absNormal)
				for _, each := range []int{10, 1000} {
					const lambda, delta = 2.0, 0.05
					tau := d * each
					beta := math.Sqrt(lambda) + math.Sqrt(float64(d)*math.Log1p(float64(tau-1)/float64(d)/lambda)-2*math.Log(delta))
					size := parts.c*parts.c*float64(tau) + 1
					want := (parts.one+kappa)*beta*math.Sqrt(float64(tau)*parts.ville*(2*turns(d, tau, lambda)-math.Log(delta))) +
						math.Sqrt(2*size*math.Log(math.Sqrt(size)/delta))
					got := must(theory.Absolute(0, m).Eval(theory.Setting{D: d, T: float64(tau), Lambda: lambda, Delta: delta}))
					worst = math.Max(worst, off(got, want))
					n++
				}
			}
		}
		return agree(worst, 1e-5, n, "the bound against its parts, relative")
	}
}
