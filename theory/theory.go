// Package theory is the paper as a calculator: closed forms, numbers in, numbers out. It imports
// nothing of ours and knows no random numbers.
//
// Four nouns:
//
//   - a confidence radius: β_t^δ from the determinant (Beta) and its deterministic cap β̃_T
//     (BetaTilde);
//   - an ensemble size: log N of the net (LogNet) and m = ⌈C log(NT/δ)⌉ (Members: C = 400 as
//     printed; Members60: a sharper bookkeeping of the same proof);
//   - a Bound: a named regret bound with every constant explicit, in the list Bounds, so that the
//     planner, the report and the documents range over one table;
//   - an Order: a statement of the literature whose constant is not printed. It is evaluated with
//     constant 1 and says so.
//
// N overflows a float64 from d = 82 on (T = 10⁴, λ = 5), so everything that contains it is
// computed from log N. What takes a setting from outside (Members, Bound, Order, AtomsFor, …) returns
// a *DomainError instead of NaN or ±Inf. The pieces of formulas that other packages put together
// (Beta, BetaTilde, LogDetCap, Potential, Martingale, Master, MemberNorm, PredictionStep, OptimismStep)
// panic on misuse; none of them is ever NaN, and the three that multiply what they are given, Master
// and the two steps, are +Inf where the product is above the largest float64.
//
// The bounds of the paper use the letters E and M of Potential and Martingale:
//
//	E(τ)    = √(2dτ log(1 + τ/(dλ)))                           elliptical potential, lem:epl
//	M(τ, δ) = √(2(4τ/λ + 1) log(√(4τ/λ + 1)/δ))                martingale, lem:time-unif-bound
//
// A bound above 2T says nothing: a round costs at most 2.
package theory

import (
	"fmt"
	"math"

	"troupe/internal/logs"
)

// DomainError says that a parameter is outside the domain of a statement.
type DomainError struct {
	Param string  // d, T, lambda, delta, …
	Value float64 // what was given
	Need  string  // the condition, for instance "lambda >= 5"
	By    string  // the statement that needs it, a label of the paper or a formula's name
}

// Error says in one line what is wrong.
func (e *DomainError) Error() string {
	return fmt.Sprintf("%s = %v: %s needs %s", e.Param, e.Value, e.By, e.Need)
}

// Beta returns the radius of the confidence ellipsoid,
//
//	β_t^δ = √λ + √(2 log(1/δ) + log(det V_t/λ^d)),
//
// equation eq:beta of the paper, from logDetRatio = log(det V_t/λ^d) ≥ 0. It panics unless
// λ > 0, 0 < δ ≤ 1 and all are finite.
func Beta(lambda, delta, logDetRatio float64) float64 {
	if !(lambda > 0 && lambda <= math.MaxFloat64 && delta > 0 && delta <= 1 &&
		logDetRatio >= 0 && logDetRatio <= math.MaxFloat64) {
		panic("theory: Beta: argument out of range")
	}
	return math.Sqrt(lambda) + math.Sqrt(logDetRatio-2*logs.Log(delta))
}

// LogDetCap returns d log(1 + T/(λd)) ≥ log(det V_T/λ^d): the determinant is largest when the
// trace, at most λd + T, is spread evenly. It panics unless d ≥ 1, T ≥ 0, 0 < λ < ∞.
func LogDetCap(d, T int, lambda float64) float64 {
	if d < 1 || T < 0 || !(lambda > 0 && lambda <= math.MaxFloat64) {
		panic("theory: LogDetCap: argument out of range")
	}
	return logDetCap(float64(d), float64(T), lambda)
}

func logDetCap(d, T, lambda float64) float64 { return float64(d * log1pRatio(T, lambda*d)) }

// log1pRatio returns log(1 + a/b), a ≥ 0 and b > 0 finite, also where a/b overflows.
func log1pRatio(a, b float64) float64 {
	if r := a / b; r <= math.MaxFloat64 {
		return logs.Log1p(r)
	}
	return logs.Log(a) - logs.Log(b)
}

// BetaTilde returns the deterministic cap of β_0^δ, …, β_T^δ,
//
//	β̃_T^δ = √λ + √(2 log(1/δ) + d log(1 + T/(λd))),
//
// appendix A of the paper. It panics unless d ≥ 1, T ≥ 0, λ > 0, 0 < δ ≤ 1.
func BetaTilde(d, T int, lambda, delta float64) float64 {
	return Beta(lambda, delta, LogDetCap(d, T, lambda))
}

// LogNet returns log N, N = (134 √(1 + T/λ))^d, the size of the net of thm:sing-val-gamma.
func LogNet(d, T int, lambda float64) (float64, error) {
	if err := (Setting{D: d, T: float64(T), Lambda: lambda, Delta: 1}).check("thm:sing-val-gamma", 0); err != nil {
		return 0, err
	}
	return logNet(float64(d), float64(T), lambda), nil
}

func logNet(d, T, lambda float64) float64 {
	return d * (logs.Log(134) + float64(0.5*log1pRatio(T, lambda)))
}

// Members returns the ensemble size of thm:es as printed, m = ⌈400 log(NT/δ)⌉. It is an error
// unless d ≥ 1, T ≥ 1, λ ≥ 5, 0 < δ ≤ 1 and m is at most 2⁵³.
func Members(d, T int, lambda, delta float64) (int, error) {
	return members(400, d, T, lambda, delta)
}

// Members60 returns m = ⌈60 log(NT/δ)⌉, which suffices with r_t = 3.04 β_t (the bound "sharp60"):
// the bookkeeping of lem:noise-sum-bound with the variance proxies of the uniform law.
// Errors as Members.
func Members60(d, T int, lambda, delta float64) (int, error) {
	return members(60, d, T, lambda, delta)
}

func members(c float64, d, T int, lambda, delta float64) (int, error) {
	m, err := Setting{D: d, T: float64(T), Lambda: lambda, Delta: delta}.members(c)
	return int(m), err
}

// maxExact is the largest integer up to which every integer is a float64.
const maxExact = 1 << 53

// Setting is what the bounds depend on. T is a float64 so that a bound can be asked at horizons
// that no machine will play.
type Setting struct {
	D      int
	T      float64
	Lambda float64
	Delta  float64
}

// check refuses a setting outside the domain of the statement called by; minLambda is the
// statement's own condition on λ, 0 when λ > 0 is enough.
func (s Setting) check(by string, minLambda float64) error {
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch {
	case s.D < 1:
		return &DomainError{"d", float64(s.D), "d >= 1", by}
	case !finite(s.T) || s.T < 1:
		return &DomainError{"T", s.T, "a finite T >= 1", by}
	case !finite(s.Delta) || s.Delta <= 0 || s.Delta > 1:
		return &DomainError{"delta", s.Delta, "0 < delta <= 1", by}
	case !finite(s.Lambda) || s.Lambda <= 0:
		return &DomainError{"lambda", s.Lambda, "a finite lambda > 0", by}
	case s.Lambda < minLambda:
		return &DomainError{"lambda", s.Lambda, fmt.Sprintf("lambda >= %g", minLambda), by}
	}
	return nil
}

func (s Setting) members(c float64) (float64, error) {
	if err := s.check("thm:es", 5); err != nil {
		return 0, err
	}
	d := float64(s.D)
	m := math.Ceil(c * (logNet(d, s.T, s.Lambda) + logs.Log(s.T) - logs.Log(s.Delta)))
	if m > maxExact {
		return 0, &DomainError{"d", d, "m = 400 log(NT/delta) <= 2^53", "thm:es"}
	}
	return m, nil
}
