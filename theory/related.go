package theory

import (
	"math"

	"troupe/internal/logs"
)

// normalTail returns P(N(0,1) ≥ x).
func normalTail(x float64) float64 { return float64(0.5 * math.Erfc(x/math.Sqrt2)) }

// upperQuantile returns the x ≥ 0 with P(N(0,1) ≥ x) = q, 0 < q ≤ 1/2, by bisection: math.Erfcinv(q) is
// Erfinv(1 − q), which is infinite below q = 1e-16.
func upperQuantile(q float64) float64 {
	lo, hi := 0.0, 40.0 // P(N(0,1) ≥ 40) underflows
	for {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			return lo
		}
		if normalTail(mid) >= q {
			lo = mid
		} else {
			hi = mid
		}
	}
}

// janzGamma returns γ_t^α = √d + 2√(2 log(4/α) + d log(1 + t/(λd))), the bound on the members'
// norms of arXiv 2602.08026.
func janzGamma(s Setting, t, alpha float64) float64 {
	d := float64(s.D)
	return math.Sqrt(d) + float64(2*math.Sqrt(float64(2*(logs.Log(4)-logs.Log(alpha)))+logDetCap(d, t, s.Lambda)))
}

// Janz2026Members returns the ensemble size of theorem 4.1 of Janz, Akhavan and Szepesvári 2026
// (arXiv 2602.08026), m = ⌈2000 d log(n/δ)⌉, n = T.
func Janz2026Members(s Setting) (float64, error) {
	if err := s.check("arXiv 2602.08026", 1); err != nil {
		return 0, err
	}
	m := math.Ceil(2000 * float64(s.D) * (logs.Log(s.T) - logs.Log(s.Delta)))
	if m > maxExact {
		return 0, &DomainError{"d", float64(s.D), "m <= 2^53", "arXiv 2602.08026"}
	}
	return math.Max(m, 1), nil
}

// ExceedanceStep returns the largest step h of theorem 5.4 of the same paper for level c and share
// p, with ε = (Φ⁻¹(1 − 4p) − c)/3:
//
//	h* = min{1, 2 log((c + 3ε)/(c + 2ε)), log(1 + 2ε²/log 8)}.
//
// It is an error unless c > 0 and 0 < p < (1 − Φ(c))/4.
func ExceedanceStep(c, p float64) (float64, error) {
	const by = "arXiv 2602.08026, theorem 5.4"
	if !(c > 0) || math.IsInf(c, 1) {
		return 0, &DomainError{"c", c, "a finite c > 0", by}
	}
	if !(p > 0 && p < normalTail(c)/4) {
		return 0, &DomainError{"p", p, "0 < p < (1 - Phi(c))/4", by}
	}
	e := (upperQuantile(4*p) - c) / 3
	if !(e > 0) {
		return 0, &DomainError{"p", p, "p below (1 - Phi(c))/4 by more than rounding", by}
	}
	return math.Min(1, math.Min(2*logs.Log((c+float64(3*e))/(c+float64(2*e))), logs.Log1p(2*e*e/logs.Log(8)))), nil
}

// ExceedanceMembers returns the m of theorem 5.4: with ⌈(4/p) log(⌈log(τ′/τ)/h*⌉/δ)⌉ independent
// Brownian motions, at least a share p exceeds level c (in units of √t) at all times in [τ, τ′],
// with probability 1 − δ. logDelta is log δ, because lemma 5.2 asks for a δ that underflows.
func ExceedanceMembers(c, p, ratio, logDelta float64) (float64, error) {
	h, err := ExceedanceStep(c, p)
	if err != nil {
		return 0, err
	}
	if !(ratio > 1) || math.IsInf(ratio, 1) {
		return 0, &DomainError{"ratio", ratio, "a finite tau'/tau > 1", "arXiv 2602.08026, theorem 5.4"}
	}
	if !(logDelta <= 0) || math.IsInf(logDelta, -1) {
		return 0, &DomainError{"log delta", logDelta, "a finite log delta <= 0", "arXiv 2602.08026, theorem 5.4"}
	}
	m := math.Ceil(4 / p * (logs.Log(math.Ceil(logs.Log(ratio)/h)) - logDelta))
	if !(m <= maxExact) {
		return 0, &DomainError{"p", p, "a share p for which m <= 2^53", "arXiv 2602.08026, theorem 5.4"}
	}
	return math.Max(m, 1), nil
}

// Janz2026Direct returns the m that the paper's own lemmas need with γ = 40 and p = 1/10, 33 to 57
// times below the printed one: lemma 5.2 with L = 2γ_{n−1}^{δ/m} √(1 + n/λ), ε = 1/(γL), asks for
// level 2/γ at each of the (3/ε)^d points of a net. m stands on both sides; the right side grows
// like log log m, so iterating from 1 converges in a few steps.
func Janz2026Direct(s Setting) (float64, error) {
	const gamma, p = 40, 0.1
	if err := s.check("arXiv 2602.08026, lemma 5.2", 1); err != nil {
		return 0, err
	}
	m := 1.0
	for range 100 {
		l := 2 * janzGamma(s, s.T-1, s.Delta/m) * math.Sqrt(1+s.T/s.Lambda)
		logDelta := logs.Log(s.Delta/2) - float64(float64(s.D)*logs.Log(3*gamma*l))
		ratio := math.Max(1+s.T/s.Lambda, math.Nextafter(1, 2)) // T far below the rounding of λ
		next, err := ExceedanceMembers(2.0/gamma, p, ratio, logDelta)
		if err != nil {
			return 0, err
		}
		if next == m {
			break
		}
		m = next
	}
	return m, nil
}

// OrderSetting is what an order statement depends on.
type OrderSetting struct {
	D    int
	T    float64
	Arms int     // K, the number of actions
	M    float64 // the ensemble's size, where the statement leaves it free
}

func (s OrderSetting) check(by string, arms bool) error {
	if err := (Setting{D: s.D, T: s.T, Lambda: 1, Delta: 1}).check(by, 0); err != nil {
		return err
	}
	if arms && s.Arms < 2 {
		return &DomainError{"K", float64(s.Arms), "K >= 2 arms", by}
	}
	return nil
}

// Order is a statement of the literature that is known only up to a constant. Its numbers are
// evaluated with constant 1 and are no bounds.
type Order struct {
	Name    string
	Source  string
	Regret  string // formula of the regret's order
	Size    string // formula of the ensemble's size
	Finite  bool   // stated for K arms
	Setting string // Bayesian or frequentist, which algorithm
	regret  func(s OrderSetting) float64
	members func(s OrderSetting) float64
}

// ConstantUnknown is what every Order says about itself.
const ConstantUnknown = "constant unknown, shown with C = 1"

// Eval returns the regret's order with constant 1.
func (o Order) Eval(s OrderSetting) (float64, error) {
	if err := s.check(o.Source, o.Finite); err != nil {
		return 0, err
	}
	if o.Name == "qin2022" && !(s.M >= 1 && s.M <= math.MaxFloat64) {
		return 0, &DomainError{"m", s.M, "a finite m >= 1", o.Source}
	}
	return finite(o.regret(s), s, o.Source)
}

// Members returns the ensemble size's order with constant 1.
func (o Order) Members(s OrderSetting) (float64, error) {
	if err := s.check(o.Source, o.Finite); err != nil {
		return 0, err
	}
	return finite(o.members(s), s, o.Source)
}

// finite refuses a value that overflowed.
func finite(v float64, s OrderSetting, by string) (float64, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, &DomainError{"T", s.T, "a value below the largest float64", by}
	}
	return v, nil
}

// Orders lists the order statements.
var Orders = []Order{
	{
		Name: "qin2022", Source: "Qin, Wen, Lu and Van Roy 2022", Finite: true,
		Setting: "Bayesian regret, theta* ~ N(0, I)",
		Regret:  "(d T log K)^0.5 + T (K log(mT)/m)^0.5 min(d, log K)",
		Size:    "m at which the second term is the first: about T K log(mT)",
		regret: func(s OrderSetting) float64 {
			a, b := qinTerms(s)
			return a + b
		},
		members: func(s OrderSetting) float64 {
			// Second term ≤ first: m = T K min(d, log K)²/(d log K) · log(mT), a contraction.
			logK := logs.Log(float64(s.Arms))
			w := math.Min(float64(s.D), logK)
			m := 1.0
			for range 60 {
				m = math.Max(1, s.T*float64(s.Arms)*w*w/(float64(s.D)*logK)*logs.Log(m*s.T))
			}
			return math.Ceil(m)
		},
	},
	{
		Name: "leeoh2024", Source: "Lee and Oh 2024, arXiv 2411.03932", Finite: true,
		Setting: "K arms",
		Regret:  "d^1.5 T^0.5, logarithms left out", Size: "K log T",
		regret:  func(s OrderSetting) float64 { return math.Pow(float64(s.D), 1.5) * math.Sqrt(s.T) },
		members: func(s OrderSetting) float64 { return math.Ceil(float64(s.Arms) * logs.Log(s.T)) },
	},
	{
		Name: "janz2026_order", Source: "Janz, Akhavan and Szepesvari 2026, arXiv 2602.08026",
		Setting: "Gaussian ensemble without signs, any compact set",
		Regret:  "d^1.5 T^0.5 (log T)^1.5", Size: "d log T (printed: 2000 d log(T/delta))",
		regret: func(s OrderSetting) float64 {
			return math.Pow(float64(s.D)*logs.Log(s.T), 1.5) * math.Sqrt(s.T)
		},
		members: func(s OrderSetting) float64 { return math.Ceil(float64(s.D) * logs.Log(s.T)) },
	},
}

func qinTerms(s OrderSetting) (first, second float64) {
	k := float64(s.Arms)
	first = math.Sqrt(float64(s.D) * s.T * logs.Log(k))
	second = s.T * math.Sqrt(k*logs.Log(s.M*s.T)/s.M) * math.Min(float64(s.D), logs.Log(k))
	return first, second
}
