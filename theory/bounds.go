package theory

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"troupe/internal/logs"
)

// Potential returns E(τ) = √(2dτ log(1 + τ/(dλ))), which bounds Σ_{t≤τ} ‖X_t‖_{V_{t−1}^{-1}} for
// every sequence in the unit ball when λ ≥ 1 (lem:epl and Cauchy–Schwarz). It panics unless d ≥ 1,
// τ ≥ 0, λ > 0 and all are finite.
func Potential(d int, tau, lambda float64) float64 {
	if d < 1 || !(tau >= 0 && tau <= math.MaxFloat64 && lambda > 0 && lambda <= math.MaxFloat64) {
		panic("theory: Potential: argument out of range")
	}
	// Two roots: the product 2τ·d log(…) may overflow.
	return math.Sqrt2 * math.Sqrt(tau) * math.Sqrt(logDetCap(float64(d), tau, lambda))
}

// Martingale returns M(τ, δ) = √(2(4τ/λ + 1) log(√(4τ/λ + 1)/δ)), which bounds the martingale
// Σ_{t≤τ} Δ_t of the proof of thm:master for all τ at once with probability 1 − δ
// (lem:time-unif-bound with c = 2/√λ). It panics unless τ ≥ 0, 0 < δ ≤ 1, λ ≥ 1e-290 and all are
// finite.
func Martingale(tau, lambda, delta float64) float64 {
	if !(tau >= 0 && tau <= math.MaxFloat64 && lambda >= 1e-290 && lambda <= math.MaxFloat64 && delta > 0 &&
		delta <= 1) {
		panic("theory: Martingale: argument out of range")
	}
	a := math.Hypot(2*math.Sqrt(tau)/math.Sqrt(lambda), 1) // √(4τ/λ + 1), which never overflows
	return math.Sqrt2 * a * math.Sqrt(logs.Log(a)-logs.Log(delta))
}

// Master returns the bound of thm:master, 2K(2E(τ) + M(τ, δ)) for K ≥ max_i b_{i−1}/p_{i−1}. With
// λ ≥ 1 it holds for all τ at once with probability 1 − 3δ: δ for θ_t ∈ Θ_{t−1}, δ for
// θ* ∈ Θ_{t−1}, δ for the martingale. It panics unless K ≥ 0 is finite, and where E and M do.
func Master(k float64, d int, tau, lambda, delta float64) float64 {
	if !(k >= 0 && k <= math.MaxFloat64) {
		panic("theory: Master: K out of range")
	}
	return k * (2 * (2*Potential(d, tau, lambda) + Martingale(tau, lambda, delta)))
}

// PredictionStep and OptimismStep are the two halves of the proof of thm:master for one round, the
// sharpest statement of the paper that a program can assert at every step. On the event that θ_t
// and θ* are in Θ_{t−1} (radius b in the norm of V_{t−1}):
//
//	J(θ_t) − ⟨X_t, θ*⟩ ≤ 2b ‖X_t‖_{V_{t−1}^{-1}}                 PredictionStep(b, ‖X_t‖)
//	J(θ*) − J(θ_t)     ≤ (2b/p) E'_{t−1} ‖X_t‖_{V_{t−1}^{-1}}     OptimismStep(b, p, E'‖X_t‖)
//
// so the regret of the round is at most their sum. Both panic unless b and the norm are finite and
// not negative, and 0 < p ≤ 1.
func PredictionStep(b, norm float64) float64 {
	checkStep(b, norm)
	return 2 * float64(b*norm) // not (2b)·norm, which is ∞·0 for a large b
}

func checkStep(b, norm float64) {
	if !(b >= 0 && b <= math.MaxFloat64 && norm >= 0 && norm <= math.MaxFloat64) {
		panic("theory: PredictionStep, OptimismStep: argument out of range")
	}
}

// OptimismStep is described at PredictionStep.
func OptimismStep(b, p, meanNorm float64) float64 {
	checkStep(b, meanNorm)
	if !(p > 0 && p <= 1) {
		panic("theory: OptimismStep: p must be in (0, 1]")
	}
	if meanNorm == 0 {
		return 0 // and not 0·∞
	}
	return 2 * b / p * meanNorm
}

// PrintedCap is the lower bound 1/(16 √(3π)) = 0.0203… that the proof of claim:ts takes from
// Abeille and Lazaric for the probability that a uniform draw from √d 𝔹^d has ⟨u, ·⟩ ≥ 1.
var PrintedCap = 1 / (16 * math.Sqrt(3*math.Pi))

// Cap returns that probability exactly,
//
//	cap_d = ½ I_{1−1/d}((d+1)/2, ½),
//
// I the regularised incomplete beta function. It grows from 0.0908 (d = 2) to P(N(0,1) ≥ 1) =
// 0.1587. For d = 1 the half-line {u ≥ 1} meets [−1, 1] in one point, the probability is 0 and the
// proof of claim:ts says nothing: an error.
func Cap(d int) (float64, error) {
	if d < 2 {
		return 0, &DomainError{"d", float64(d), "d >= 2", "claim:ts"}
	}
	n := float64(d)
	return 0.5 * mathext.RegIncBeta((n+1)/2, 0.5, 1-1/n), nil
}

// MemberNorm returns
//
//	g = √d + √((2 log(m/δ) + log(det V_t/λ^d))/3),
//
// which bounds ‖Γ_t^j‖ for all j ≤ m and t at once with probability 1 − δ when S_0^j is on the
// sphere of radius √(λd): ‖V_t^{-1/2}S_0‖ ≤ √d, and lem:conf-sets without the λ term applies to
// Σ U_i X_i, whose targets are 1/√3-subgaussian. It makes rem:lower-vs-upper explicit. It panics unless
// d ≥ 1, m ≥ 1, 0 < δ ≤ 1, log(det V_t/λ^d) ≥ 0 and all are finite.
func MemberNorm(d int, m, delta, logDetRatio float64) float64 {
	if d < 1 || !(m >= 1 && m <= math.MaxFloat64 && delta > 0 && delta <= 1 && logDetRatio >= 0 &&
		logDetRatio <= math.MaxFloat64) {
		panic("theory: MemberNorm: argument out of range")
	}
	return math.Sqrt(float64(d)) + math.Sqrt((2*(logs.Log(m)-logs.Log(delta))+logDetRatio)/3)
}

// ProcessRange returns the range in which R_t(u) stays (lem:process-max-lower-bound) when it starts
// in [½, 3/2], drifts towards v = E U² and every sum of noises obeys
// |Σ W| ≤ α(K + Σ QR): the general form of the excursion argument.
//
// Below c = v/(1+α) the drift wins against the noise, and an excursion that leaves from R_τ ≥ c
// satisfies R ≥ R_τ(1 − (1+α)Q_τ) + vQ_τ − αK ≥ c − αK; above 3/2 likewise R ≤ 3/2 + αK as long as
// (1−α)3/2 ≥ v. The paper puts v = 2/3, drops vQ_τ and takes K = 3; with the true v = 1/3 this
// gives a lower end of 0.003, not 9/100. With K = 1 + 2/λ ≤ 7/5, which is what claim:sum-Q-RQ
// proves, [0.163, 1.64] follows, inside the printed [9/100, 5/3].
func ProcessRange(v, alpha, k float64) (lo, hi float64, err error) {
	const by = "lem:process-max-lower-bound"
	switch {
	case !(v >= 0 && v <= 1.5):
		return 0, 0, &DomainError{"v", v, "0 <= v <= 3/2", by}
	case !(alpha > 0 && alpha < 1) || (1-alpha)*1.5 < v:
		return 0, 0, &DomainError{"alpha", alpha, "0 < alpha < 1 and (1-alpha)3/2 >= v", by}
	case !(k >= 0 && k <= math.MaxFloat64):
		return 0, 0, &DomainError{"K", k, "a finite K >= 0", by}
	}
	return v/(1+alpha) - float64(alpha*k), 1.5 + float64(alpha*k), nil
}

// SingularRange carries a range of R_t(u) on the net to all directions (thm:sing-val-gamma): with
// the net's error s_1²/(33m), it returns lower bounds of s_d(Γ_t)/√m and upper bounds of
// s_1(Γ_t)/√m. A range that carries nothing over is an error.
func SingularRange(lo, hi float64) (sd, s1 float64, err error) {
	if !(lo <= hi && hi <= math.MaxFloat64/64) {
		return 0, 0, &DomainError{"hi", hi, "lo <= hi, both finite", "thm:sing-val-gamma"}
	}
	s1sq := hi * 33 / 32
	sdsq := lo - s1sq/33
	if !(sdsq > 0) {
		return 0, 0, &DomainError{"lo", lo, "lo > hi/32", "thm:sing-val-gamma"}
	}
	return math.Sqrt(sdsq), math.Sqrt(s1sq), nil
}

// Bound is one regret bound with explicit constants.
type Bound struct {
	Name     string // the key in `troupe plan --json`
	Label    string // of the paper, or the source
	Title    string // the algorithm and its parameters in a few words
	Formula  string // the bound at τ, in plain letters
	Failures int    // holds with probability 1 − Failures·δ, for all τ ≤ T at once
	// MinLambda and MinD are the statement's conditions.
	MinLambda float64
	MinD      int
	// C is the constant in m = ⌈C log(NT/δ)⌉, 0 for an algorithm without an ensemble.
	C float64
	// ownMembers replaces C for relatives with a rule of their own.
	ownMembers func(s Setting) (float64, error)
	eval       func(s Setting, tau, m float64) (float64, error)
}

// Members returns the ensemble size for which the bound is stated, 0 when there is no ensemble.
func (b Bound) Members(s Setting) (float64, error) {
	if err := b.Check(s); err != nil {
		return 0, err
	}
	switch {
	case b.ownMembers != nil:
		return b.ownMembers(s)
	case b.C > 0:
		return s.members(b.C)
	}
	return 0, nil
}

// Check returns a *DomainError when the setting is outside the bound's conditions.
func (b Bound) Check(s Setting) error {
	if err := s.check(b.Label, b.MinLambda); err != nil {
		return err
	}
	if s.D < b.MinD {
		return &DomainError{"d", float64(s.D), fmt.Sprintf("d >= %d", b.MinD), b.Label}
	}
	return nil
}

// At returns the bound on R(τ), 1 ≤ τ ≤ T, with β_{τ−1} replaced by its deterministic cap.
func (b Bound) At(s Setting, tau float64) (float64, error) {
	m, err := b.Members(s)
	if err != nil {
		return 0, err
	}
	if !(tau >= 1 && tau <= s.T) {
		return 0, &DomainError{"tau", tau, "1 <= tau <= T", b.Label}
	}
	v, err := b.eval(s, tau, m)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		return 0, &DomainError{"T", s.T, "a bound below the largest float64", b.Label}
	}
	return v, err
}

// Eval returns the bound on R(T).
func (b Bound) Eval(s Setting) (float64, error) { return b.At(s, s.T) }

// Probability returns the bound's guarantee 1 − Failures·δ; zero or less means that it guarantees
// nothing. It panics unless 0 < δ ≤ 1.
func (b Bound) Probability(delta float64) float64 {
	if !(delta > 0 && delta <= 1) {
		panic("theory: Bound.Probability: delta outside (0, 1]")
	}
	return 1 - float64(float64(b.Failures)*delta)
}

// maxLog is the largest log T that Crossing tries: T = 10^100.
var maxLog = 100 * math.Ln10

// Crossing returns the smallest horizon T at which the bound on R(T) is below the trivial 2T, the
// rest of the setting held fixed (s.T is not read). Below 2⁵³ it is a whole number. When there is
// none up to 10¹⁰⁰ it is an error.
//
// Method: the first sign change of log bound(T) − log 2T on a grid of 32 points a decade, then
// bisection. Where m is rounded up the bound has steps of relative size 3/(2m) < 10⁻³; the crossing
// is that of the bound with its steps.
func (b Bound) Crossing(s Setting) (float64, error) {
	s.T = 1
	if err := b.Check(s); err != nil {
		return 0, err
	}
	below := func(logT float64) (bool, error) {
		s := s
		s.T = math.Exp(logT)
		if s.T < maxExact {
			s.T = math.Round(s.T)
		}
		v, err := b.Eval(s)
		return err == nil && v < 2*s.T, err
	}
	const step = math.Ln10 / 32
	for hi := 0.0; hi <= maxLog; hi += step {
		ok, err := below(hi)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		lo := math.Max(0, hi-step)
		for range 60 {
			mid := (lo + hi) / 2
			if ok, err := below(mid); err != nil {
				return 0, err
			} else if ok {
				hi = mid
			} else {
				lo = mid
			}
		}
		if t := math.Exp(hi); t < maxExact {
			return math.Round(t), nil
		}
		return math.Exp(hi), nil
	}
	return 0, &DomainError{"lambda", s.Lambda, "a crossing of 2T at some T <= 1e100", b.Label}
}

// radius is β̃_{τ−1}.
func radius(s Setting, tau float64) float64 {
	return Beta(s.Lambda, s.Delta, logDetCap(float64(s.D), tau-1, s.Lambda))
}

func (s Setting) master(k, tau float64) float64 {
	return Master(k, s.D, tau, s.Lambda, s.Delta)
}

func (s Setting) norm(tau, m float64) float64 {
	return MemberNorm(s.D, m, s.Delta, logDetCap(float64(s.D), tau, s.Lambda))
}

// roots returns the bracket √(dτ log(1 + τ/(λd))) + √((τ/λ) log⁺(τ/(λδ))) of thm:es and claim:ts.
// The printed logarithm is negative for τ < λδ; read it as its positive part.
func (s Setting) roots(tau float64) float64 {
	return math.Sqrt(tau*logDetCap(float64(s.D), tau, s.Lambda)) +
		math.Sqrt(tau/s.Lambda*math.Max(0, logs.Log(tau/s.Lambda)-logs.Log(s.Delta)))
}

// Bounds lists every bound with explicit constants: those of the paper, its relatives derived
// for this project, and OFUL for comparison. The corrected initialisation (S_0^j on the sphere of
// radius √(λd)) is understood. Derivations, with K the bound on max b/p in thm:master:
//
//   - theorem1: b = 10√m β and p ≥ 1/(2m), so K = 20 m^{3/2} β. Three events fail with
//     probability δ each, so the guarantee is 1 − 3δ where the paper prints 1 − δ.
//   - theorem1_c: the printed shape. For τ ≥ λd, M ≤ √10·B + √(5 log 5/(λ log 2))·A with A, B the
//     two roots, and 40(2√2 + 1.524) = 174.1; for τ < λd the bound exceeds 2τ because
//     βA ≥ τ√(log 2).
//   - ts: b = √d β (the paper prints √d), p ≥ 1/(16√(3π)); E_T is sure, so 1 − 2δ. theorem and
//     constant as printed except for that; ts_c as theorem1_c: 32√(3π)(2√2 + 3.407) = 612.6.
//   - max: on the event of thm:sing-val-gamma some signed member is optimistic, so the maximiser
//     is, and a round costs ‖X_t‖(7‖Γ^J‖ + 1)β ≤ ‖X_t‖(10√m + 1)β. No martingale.
//   - mix, max_mix: MemberNorm instead of s_1 for the width, at the price of one more δ.
//   - sharp60: see Members60; |Σ W| ≤ ρ(0.597 + 0.2292 Σ QR) with ρ = √(4/60) gives R_t ∈
//     [0.1605, 1.655], s_d ≥ 0.3299√m, s_1 ≤ 1.307√m, so r = 3.04β and K = 2·3.04·1.307 m^{3/2}β.
//   - janz2026: lemma 5.1 with γ = 40, p = 1/10 of arXiv 2602.08026 (theirs is the ensemble
//     without signs and with Gaussian targets); the printed λ ≥ 80 is used nowhere in it.
//   - ats, eats: see Absolute; ours, proved in docs/papers/absolute.md.
//   - atoms: see AtomsFor; ours, proved in docs/papers/atoms.md.
var Bounds = []Bound{
	{
		Name: "theorem1", Label: "thm:es", Title: "ensemble sampling, r_t = 7 beta_t",
		Formula: "40 m^1.5 beta (2E + M)", Failures: 3, MinLambda: 5, MinD: 1, C: 400,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return s.master(20*m*math.Sqrt(m)*radius(s, tau), tau), nil
		},
	},
	{
		Name: "theorem1_constant_r", Label: "alg:es-equiv", Title: "ensemble sampling, constant r = 7 beta~_T",
		Formula: "40 m^1.5 beta~_T (2E + M)", Failures: 3, MinLambda: 5, MinD: 1, C: 400,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return s.master(20*m*math.Sqrt(m)*radius(s, s.T+1), tau), nil
		},
	},
	{
		Name: "theorem1_c", Label: "thm:es", Title: "as printed, with C = 175",
		Formula: "175 m^1.5 beta (A + B)", Failures: 3, MinLambda: 5, MinD: 1, C: 400,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return 175 * m * math.Sqrt(m) * radius(s, tau) * s.roots(tau), nil
		},
	},
	{
		Name: "sharp60", Label: "thm:es", Title: "ensemble sampling, r_t = 3.04 beta_t, m60",
		Formula: "15.9 m^1.5 beta (2E + M)", Failures: 3, MinLambda: 5, MinD: 1, C: 60,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return s.master(7.95*m*math.Sqrt(m)*radius(s, tau), tau), nil
		},
	},
	{
		Name: "mix", Label: "rem:lower-vs-upper", Title: "theorem1 with the members' norms bounded by g",
		Formula: "4 m max(1, 7g) beta (2E + M)", Failures: 4, MinLambda: 5, MinD: 1, C: 400,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return s.master(2*m*math.Max(1, 7*s.norm(tau, m))*radius(s, tau), tau), nil
		},
	},
	{
		Name: "max", Label: "rem:max-over-ensemble", Title: "maximum over the ensemble, r_t = 7 beta_t",
		Formula: "(10 m^0.5 + 1) beta E", Failures: 2, MinLambda: 5, MinD: 1, C: 400,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return (float64(10*math.Sqrt(m)) + 1) * radius(s, tau) * Potential(s.D, tau, s.Lambda), nil
		},
	},
	{
		Name: "max_mix", Label: "rem:max-over-ensemble", Title: "max with the members' norms bounded by g",
		Formula: "(7g + 1) beta E", Failures: 3, MinLambda: 5, MinD: 1, C: 400,
		eval: func(s Setting, tau, m float64) (float64, error) {
			return (float64(7*s.norm(tau, m)) + 1) * radius(s, tau) * Potential(s.D, tau, s.Lambda), nil
		},
	},
	{
		Name: "ts", Label: "claim:ts", Title: "confident Thompson sampling, printed cap",
		Formula: "32 (3 pi d)^0.5 beta (2E + M)", Failures: 2, MinLambda: 1, MinD: 2,
		eval: func(s Setting, tau, _ float64) (float64, error) {
			return s.master(math.Sqrt(float64(s.D))*radius(s, tau)/PrintedCap, tau), nil
		},
	},
	{
		Name: "ts_exact_cap", Label: "claim:ts", Title: "confident Thompson sampling, exact cap",
		Formula: "2 d^0.5 beta (2E + M) / cap_d", Failures: 2, MinLambda: 1, MinD: 2,
		eval: func(s Setting, tau, _ float64) (float64, error) {
			p, err := Cap(s.D)
			if err != nil {
				return 0, err
			}
			return s.master(math.Sqrt(float64(s.D))*radius(s, tau)/p, tau), nil
		},
	},
	{
		Name: "ts_c", Label: "claim:ts", Title: "as printed, with C = 613",
		Formula: "613 d^0.5 beta (A + B)", Failures: 2, MinLambda: 1, MinD: 2,
		eval: func(s Setting, tau, _ float64) (float64, error) {
			return 613 * math.Sqrt(float64(s.D)) * radius(s, tau) * s.roots(tau), nil
		},
	},
	{
		Name: "oful", Label: "lem:conf-sets", Title: "LinUCB / OFUL, for comparison",
		Formula: "2 beta E", Failures: 1, MinLambda: 1, MinD: 1,
		eval: func(s Setting, tau, _ float64) (float64, error) {
			return 2 * radius(s, tau) * Potential(s.D, tau, s.Lambda), nil
		},
	},
	{
		Name: "janz2026", Label: "arXiv 2602.08026", Title: "Gaussian ensemble, gamma = 40, p = 1/10",
		Formula: "800 gamma_t beta (2E + M)", Failures: 4, MinLambda: 1, MinD: 1,
		ownMembers: Janz2026Members,
		eval: func(s Setting, tau, _ float64) (float64, error) {
			return s.master(40/0.1*janzGamma(s, tau-1, s.Delta/s.T)*radius(s, tau), tau), nil
		},
	},
	{
		Name: "atoms", Label: "thm:atoms (docs/papers/atoms.md)", Title: "members redrawn once an epoch, gamma = 1.35",
		Formula: "2 gamma B beta (2E + M) / p", Failures: 3, MinLambda: 1, MinD: 1,
		ownMembers: func(s Setting) (float64, error) {
			a, err := AtomsFor(s, AtomsChoice{})
			return a.Members, err
		},
		eval: func(s Setting, tau, _ float64) (float64, error) {
			a, err := AtomsFor(s, AtomsChoice{})
			if err != nil {
				return 0, err
			}
			return a.Bound(s, tau), nil
		},
	},
	Absolute(0, 1),
	Absolute(0, 64),
}

// ByName returns the bound with a name.
func ByName(name string) (Bound, bool) {
	for _, b := range Bounds {
		if b.Name == name {
			return b, true
		}
	}
	return Bound{}, false
}
