package theory

import (
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/mathext"

	"troupe/internal/logs"
)

// Absolute Thompson sampling and its ensemble form (docs/papers/absolute.md, ours; the policies are those of Kitamura,
// Liu and Szepesvári 2026, arXiv 2606.28616, as their abstract has them). With η_1, …, η_m ~ N(0, V⁻¹) independent,
//
//	X_t ∈ argmax ⟨x, θ̂⟩ + (r/c_m) max_j |⟨x, η_j⟩|,   c_m = E max_{j≤m} |Z_j|, Z_j ~ N(0, 1),
//
// so that the objective has the mean ⟨x, θ̂⟩ + r‖x‖ of an optimistic policy for every m.

// MaxAbsNormal returns c_m = E max_{j≤m} |Z_j| = ∫_0^∞ (1 − (2Φ(s) − 1)^m) ds of m independent N(0, 1): √(2/π) for m = 1,
// 2/√π for m = 2, and √(2 log m) up to lower orders for large m. The relative error is below 1e-9. It panics unless m ≥
// 1 is finite.
func MaxAbsNormal(m float64) float64 {
	checkMembers("MaxAbsNormal", m)
	return tailIntegral(m, func(float64) float64 { return 1 })
}

// maxAbsNormalSquare is E max_{j≤m} Z_j² = ∫_0^∞ 2s(1 − (2Φ(s) − 1)^m) ds.
func maxAbsNormalSquare(m float64) float64 {
	return tailIntegral(m, func(s float64) float64 { return 2 * s })
}

// tailIntegral is ∫_0^∞ f(s)(1 − (2Φ(s) − 1)^m) ds, by Simpson's rule.
func tailIntegral(m float64, f func(s float64) float64) (sum float64) {
	const n = 4000
	top := math.Sqrt(float64(2*logs.Log(2*m)) + 90) // beyond it 2mΦ(−s) is below 1e-19
	h := top / n
	for i := range n + 1 {
		s := float64(i) * h
		tail := 1.0
		if p := 2 * normalTail(s); p < 1 {
			tail = -math.Expm1(m * logs.Log1p(-p))
		}
		w := 2.0
		switch {
		case i == 0 || i == n:
			w = 1
		case i%2 == 1:
			w = 4
		}
		sum += float64(w * f(s) * tail)
	}
	return sum * h / 3
}

func checkMembers(by string, m float64) {
	if !(m >= 1 && m <= math.MaxFloat64) {
		panic("theory: " + by + ": m below 1")
	}
}

// MaxChiSquare returns E max_{j≤m} ‖ζ_j‖² of m independent N(0, I_d): ∫_0^∞ (1 − F(s)^m) ds, F the χ²_d distribution
// function. d for m = 1. The relative error is below 1e-6. It panics unless d, m ≥ 1.
func MaxChiSquare(d int, m float64) float64 {
	if d < 1 {
		panic("theory: MaxChiSquare: d below 1")
	}
	checkMembers("MaxChiSquare", m)
	// P(χ > √d + s) ≤ e^{−s²/2}, so beyond s = √(2 log m + 80) nothing is left.
	top := math.Sqrt(float64(d)) + math.Sqrt(float64(2*logs.Log(m))+80)
	const n = 4000
	h, sum := top/n, 0.0
	for i := range n + 1 {
		s := float64(i) * h // of the norm: the integral is ∫ 2s(1 − F(s²)^m) ds
		tail := -math.Expm1(m * logs.Log1p(-mathext.GammaIncRegComp(float64(d)/2, s*s/2)))
		w := 2.0
		switch {
		case i == 0 || i == n:
			w = 1
		case i%2 == 1:
			w = 4
		}
		sum += float64(w * 2 * s * tail)
	}
	return sum * h / 3
}

// WidthRatio returns κ_m = √(E N²)/c_m of thm:ats, N = sup over x of max_j |⟨x, η_j⟩|/‖x‖, or a bound of it: N ≤ max_j
// ‖ζ_j‖, η_j = L⁻ᵀζ_j, on any set (arms = 0); on K = arms arms also the largest of Km dependent |Z|, which is at most
// that of independent ones (Šidák 1967). It panics unless d, m ≥ 1 and arms ≥ 0.
func WidthRatio(d, arms int, m float64) float64 {
	if arms < 0 {
		panic("theory: WidthRatio: arms below 0")
	}
	square := MaxChiSquare(d, m)
	if arms > 0 {
		square = math.Min(square, maxAbsNormalSquare(float64(arms)*m))
	}
	return math.Sqrt(square) / MaxAbsNormal(m)
}

// Absolute returns the bound of thm:ats for m members that are drawn anew in every round: with probability at least 1 −
// 3δ, for all τ at once,
//
//	R(τ) ≤ (1 + κ_m) β_{τ−1} √(τ·e/(e−1)·(2d log(1 + τ/(dλ)) + log(1/δ))) + √(2(4τ + 1) log(√(4τ + 1)/δ)),
//
// for r_t = β_t, λ ≥ 1, actions in the unit ball, ‖θ*‖ ≤ 1 and 1-subgaussian noise. arms = K ≥ 2, or 0 for any set. It
// panics unless m ≥ 1 is finite and arms is neither negative nor 1.
func Absolute(arms int, m float64) Bound {
	checkMembers("Absolute", m)
	if arms < 0 || arms == 1 {
		panic("theory: Absolute: arms must be 0 or at least 2")
	}
	b := Bound{Name: "ats", Label: "thm:ats", Title: "absolute Thompson sampling, r_t = beta_t",
		Formula: "(1 + kappa) beta (1.582 T (E^2/T + log 1/delta))^0.5 + M", Failures: 3, MinLambda: 1, MinD: 1}
	if m > 1 {
		b.Name, b.Title = "eats", fmt.Sprintf("absolute Thompson sampling of %.0f members, fresh", m)
		b.ownMembers = func(Setting) (float64, error) { return m, nil }
	}
	if arms > 0 {
		b.Name, b.Title = b.Name+"_arms", fmt.Sprintf("%s, %d arms", b.Title, arms)
	}
	var d int // of kappa, which takes an integral
	var kappa float64
	var guard sync.Mutex
	b.eval = func(s Setting, tau, _ float64) (float64, error) {
		guard.Lock()
		if d != s.D {
			d, kappa = s.D, WidthRatio(s.D, arms, m)
		}
		k := kappa
		guard.Unlock()
		widths := math.E / (math.E - 1) * (2*logDetCap(float64(s.D), tau, s.Lambda) - logs.Log(s.Delta))
		return float64((1+k)*radius(s, tau)*math.Sqrt(tau*widths)) + Martingale(tau, 1, s.Delta), nil
	}
	return b
}
