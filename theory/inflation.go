package theory

import (
	"math"

	"troupe/internal/logs"
)

// How much inflation, how many members (docs/papers/inflation.md, ours): closed forms that troupe run paper/inflation is held against.

// SpanLoss is what an ensemble of m < d frozen members loses a round on the unit ball in the long run, as a share of ‖θ*‖, when θ* has a uniform
// direction: actions stay in the span of the members, whose part of a unit vector has the length √B, B ~ Beta(m/2, (d−m)/2), so that it is
//
//	1 − E√B = 1 − Γ((m+1)/2) Γ(d/2) / (Γ(m/2) Γ((d+1)/2)).
//
// It is 0 for m ≥ d. It panics for m or d below 1.
func SpanLoss(m, d int) float64 {
	if m < 1 || d < 1 {
		panic("theory: SpanLoss: m or d below 1")
	}
	if m >= d {
		return 0
	}
	g := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	a, b := float64(float64(m)/2), float64(float64(d)/2)
	return -math.Expm1(g(a+0.5) + g(b) - g(a) - g(b+0.5))
}

// ThreeArms is the plane of the second example of Hamidi and Bayati (arXiv 2006.06790): arms 0, e_1 and (1, √2)/√3, θ* = M(−1, √2), λ = 1, N(0, 1)
// noise, perturbations of size R. One run in two pulls e_1 first. Its reward is y = −M + Z, the third arm then has the model N(y/(2√3), R²·5/6), and a
// fresh model is good with probability q = Φ(y/(R√10)). The methods return the probability that the third arm, the best, is not pulled in t rounds; what
// a second pull of e_1 adds is left out. M and R must be positive.
type ThreeArms struct{ M, R float64 }

// Thompson is ½E(1 − q)^t, for Thompson sampling.
func (w ThreeArms) Thompson(t float64) float64 {
	return w.half(func(q float64) float64 { return math.Exp(float64(t * logs.Log1p(-q))) })
}

// Frozen is ½E(1 − 2q)^m, for an accumulated ensemble of m members with signs, t much larger than m.
func (w ThreeArms) Frozen(m float64) float64 {
	return w.half(func(q float64) float64 { return math.Exp(float64(m * logs.Log1p(-math.Min(1, 2*q)))) })
}

// Absolute is ½E(1 − p)^t for absolute Thompson sampling with m fresh members and mean width R, p = 1 − (2Φ(c_m|y|/(R√10)) − 1)^m.
func (w ThreeArms) Absolute(m, t float64) float64 {
	w.R /= MaxAbsNormal(m)
	return w.half(func(q float64) float64 {
		p := -math.Expm1(float64(m * logs.Log1p(-math.Min(1, 2*q))))
		return math.Exp(float64(t * logs.Log1p(-p)))
	})
}

// half is half the mean over Z ~ N(0, 1) of f(q), by Simpson's rule.
func (w ThreeArms) half(f func(q float64) float64) (sum float64) {
	if !(w.M > 0 && w.R > 0) {
		panic("theory: ThreeArms: M and R must be positive")
	}
	const n, top = 4000, 9.0
	for i := range n + 1 {
		z := -top + float64(float64(i)*(2*top/n))
		weight := 2.0
		switch {
		case i == 0 || i == n:
			weight = 1
		case i%2 == 1:
			weight = 4
		}
		sum += float64(weight * math.Exp(-float64(z*z)/2) * f(normalTail(math.Abs(w.M-z)/(w.R*math.Sqrt(10)))))
	}
	return sum * (2 * top / n) / 3 / math.Sqrt(2*math.Pi) / 2
}
