package theory

import (
	"math"

	"troupe/internal/logs"
)

// The price of few members (docs/papers/price-of-few.md, ours). An arm that was pulled once and looked
// bad is never pulled again when none of the frozen perturbations lifts it. With Z, g_1, …, g_m
// independent N(0, 1), σ = r√(1 + λ) and a distance L that the noise has to bridge, this is
//
//	P(m, σ, L) = P(Z + σ max_j |g_j| ≤ −L) = σ ∫_0^∞ φ(L + σy)(2Φ(y) − 1)^m dy.

// Stuck encloses P(m, σ, L) (thm:few): lo ≤ P ≤ hi but for rounding, from lower and upper sums over a
// grid, the integrand being monotone. The two differ by a few per cent where P is above 1e-12. It
// panics unless m ≥ 1, σ > 0 and L are finite.
func Stuck(m, sigma, gap float64) (lo, hi float64) {
	checkStuck(m, sigma, math.Abs(gap))
	const ratio, small = 1.002, 1e-6
	y, share := 0.0, 0.0 // (2Φ(y) − 1)^m
	tail := normalTail(gap)
	next := 1e-4 * math.Min(1, 1/sigma)
	for first := idle(m, small*StuckPower(m, sigma, gap)); next < first; { // what is below y has no weight
		next *= ratio
	}
	for ; next < 40 && !(tail < small*lo); next *= ratio {
		after, grown := normalTail(gap+float64(sigma*next)), frozen(m, next)
		lo += float64(share * (tail - after))
		hi += float64(grown * (tail - after))
		y, share, tail = next, grown, after
	}
	return lo, hi + normalTail(gap+float64(sigma*y))
}

// idle returns a y with (2Φ(y) − 1)^m ≤ p, the largest up to a factor of 1.01 or so.
func idle(m, p float64) float64 {
	lo, hi := 0.0, 40.0
	for range 12 {
		if mid := (lo + hi) / 2; frozen(m, mid) <= p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// frozen returns (2Φ(y) − 1)^m, the probability that m perturbations are at most y in absolute value.
func frozen(m, y float64) float64 {
	if p := 2 * normalTail(y); p < 1 {
		return math.Exp(m * logs.Log1p(-p))
	}
	return 0
}

func checkStuck(m, sigma, gap float64) {
	if !(m >= 1 && m <= math.MaxFloat64 && sigma > 0 && sigma <= math.MaxFloat64 && gap >= 0 &&
		gap <= math.MaxFloat64) {
		panic("theory: Stuck: argument out of range")
	}
}

// StuckPower returns ½Φ(−(L + σ√(2 log 2m))) ≤ P(m, σ, L) (thm:few, second part): m^{−σ²} up to
// e^{−O(√log m)}. Domain and panics as Stuck.
func StuckPower(m, sigma, gap float64) float64 {
	checkStuck(m, sigma, math.Abs(gap))
	return normalTail(gap+float64(sigma*math.Sqrt(2*logs.Log(2*m)))) / 2
}

// StuckFew returns ½(4/(πσ²))^{m/2} Γ((m+1)/2)/√π · e^{−L²/2} ≥ P(m, σ, L) (thm:few-scale): for
// m ≪ σ² it is e^{−Ω(m log(σ²/m))}. It may exceed 1. Domain and panics as Stuck, with L ≥ 0.
func StuckFew(m, sigma, gap float64) float64 {
	checkStuck(m, sigma, gap)
	g, _ := math.Lgamma((m + 1) / 2)
	return math.Exp(float64(m/2*(logs.Log(4/math.Pi)-float64(2*logs.Log(sigma))))+g-float64(gap*gap/2)) / (2 * math.SqrtPi)
}

// StuckMany returns the infimum over y > 0 of e^{−2mΦ(−y)}Φ(−L) + Φ(−(L + σy)) ≥ P(m, σ, L)
// (thm:few-scale): m^{−σ²} up to powers of log m for m ≫ σ². Domain and panics as Stuck, with L ≥ 0.
func StuckMany(m, sigma, gap float64) float64 {
	checkStuck(m, sigma, gap)
	best := normalTail(gap)
	for y := 1e-3; y < 40; y *= 1.01 {
		best = math.Min(best, float64(math.Exp(-2*m*normalTail(y))*normalTail(gap))+normalTail(gap+float64(sigma*y)))
	}
	return best
}

// Epochs returns the number of different keys of atoms with key = "epoch" and growth ρ on two
// orthogonal unit arms, one pulled once and the other 0, …, T−2 times after it:
//
//	K = 1 + ⌊log_ρ((1+λ)(λ+T−2)/λ²)⌋ − ⌊log_ρ((1+λ)/λ)⌋ ≤ 2 + log_ρ(1 + T/λ).
//
// It panics unless T ≥ 2, λ > 0 and ρ > 1 are finite.
func Epochs(T, lambda, rho float64) float64 {
	if !(T >= 2 && T <= math.MaxFloat64 && lambda > 0 && lambda <= math.MaxFloat64 && rho > 1 &&
		rho <= math.MaxFloat64) {
		panic("theory: Epochs: argument out of range")
	}
	first := log1pRatio(1, lambda)
	return 1 + math.Floor((first+log1pRatio(T-2, lambda))/logs.Log(rho)) - math.Floor(first/logs.Log(rho))
}

// Few is the setting of thm:few: two orthogonal unit arms with means Best > Other, noise N(0, 1),
// signed perturbations, r_t ≤ R for all t.
type Few struct {
	Best, Other float64
	Lambda, R   float64
	Draws       float64 // D: m for an accumulated ensemble, m·Epochs for epoch atoms, T for Thompson sampling
}

// Share returns a lower bound on the probability that the better arm is pulled exactly once in T
// rounds, for every T (thm:few):
//
//	½(1 − S(s)) P(D, R√(1+λ), Best + (1+λ)(s − min(0, Other))),
//	S(s) = Σ_{n≥0} Φ(−s(λ+n)/√(n + R²(λ+n))),
//
// maximised over a grid of s > 0. The expected regret after T rounds is at least (T−1)(Best − Other)
// times it. It is an error outside Best > Other, λ > 0, R > 0, D ≥ 1, all finite.
func (f Few) Share() (float64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	return f.maximised(func(gap float64) float64 {
		lo, _ := Stuck(f.Draws, float64(f.R*math.Sqrt(1+f.Lambda)), f.Best+float64((1+f.Lambda)*gap))
		return lo / 2
	}), nil
}

// Lost returns a lower bound on the probability that the better arm is pulled at most k times in T rounds, for every T,
// by an accumulated ensemble of m = Draws members (thm:few-exponent):
//
//	(1 − S(s)) P(m, R√(1+λ/k), (Best·k + (λ+k)(s − min(0, Other)))/√k),
//
// maximised over the grid of Share. The expected regret after T rounds is at least (T−k)(Best − Other) times it. Errors
// as Share, and for k < 1.
func (f Few) Lost(k int) (float64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if k < 1 {
		return 0, &DomainError{"k", float64(k), "a number of pulls >= 1", "thm:few-exponent"}
	}
	n := float64(k)
	return f.maximised(func(gap float64) float64 {
		lo, _ := Stuck(f.Draws, float64(f.R*math.Sqrt(1+f.Lambda/n)),
			(float64(f.Best*n)+float64((f.Lambda+n)*gap))/math.Sqrt(n))
		return lo
	}), nil
}

// maximised returns the maximum of (1 − S(s))·lost(s − min(0, Other)) over a grid of s.
func (f Few) maximised(lost func(gap float64) float64) (best float64) {
	for s := 0.02; s < 400; s *= 1.05 {
		if fail := f.failing(s); fail < 1 {
			share := (1 - fail) * lost(s-math.Min(0, f.Other))
			if share < best/2 {
				break // past the maximum
			}
			best = math.Max(best, share)
		}
	}
	return best
}

// ForGood encloses the probability that the accumulated ensemble with signs loses a unit arm with mean Best beside one
// of known mean Other for good within a number of pulls: after some number k = 0, 1, …, pulls of them all 2m models are
// at most the level b = Other (docs/papers/price-of-few.md, sections 3 and 8). For Other = 0 that is the zero vector, and
// k begins with 1. hi holds beside any number of orthogonal unit arms with means of at most Other, too (thm:few-horizon
// (d)). With m = Draws and Δ = Best − Other
//
//	k = 0: 1{b > 0}(2Φ(b√λ/r) − 1)^m;   k ≥ 1: P(m, r√(1 + λ/k), (Δk − λb)/√k),
//
// so that it lies between the largest of these and their sum; for b ≤ 0 both have the exponent r² of m. Noise is N(0, 1),
// targets are Gaussian, init = "prior", r = R is constant; pulls = +Inf is allowed.
//
// lo and hi take P at the far and the near end of blocks of k, and for the rest of the sum ½exp(−L²/2) ≥ P where L =
// (Δk − λb)/√k > 0, with L² ≥ Δ²k − 2Δλb. Errors as Share, and for pulls < 1.
func (f Few) ForGood(pulls float64) (lo, hi float64, err error) {
	if err := f.check(); err != nil {
		return 0, 0, err
	}
	if !(pulls >= 1) {
		return 0, 0, &DomainError{"pulls", pulls, "at least 1 pull", "thm:few-horizon"}
	}
	gap, debt := f.Best-f.Other, float64(f.Lambda*f.Other)
	sigma := func(k float64) float64 { return float64(f.R * math.Sqrt(1+f.Lambda/k)) }
	bridge := func(k float64) float64 { return (float64(gap*k) - debt) / math.Sqrt(k) } // L, convex or rising in √k
	if f.Other > 0 {
		lo = frozen(f.Draws, f.Other*math.Sqrt(f.Lambda)/f.R)
		hi = lo
	}
	a := float64(gap*gap) / 2
	for k := 1.0; k <= pulls && hi < 1; {
		next := math.Min(math.Max(k+1, math.Floor(k*1.05)), pulls+1)
		far := next - 1
		least, most := math.Min(bridge(k), bridge(far)), math.Max(bridge(k), bridge(far))
		if turn := -debt / gap; k < turn && turn < far {
			least = bridge(turn)
		}
		low, high := Stuck(f.Draws, sigma(k), most)
		if far > k {
			_, high = Stuck(f.Draws, sigma(far), least)
		}
		lo, hi, k = math.Max(lo, low), hi+float64((next-k)*high), next
		if float64(gap*k) <= debt {
			continue
		}
		rest := math.Exp(float64(gap*math.Max(debt, 0))-float64(a*k)) / (-2 * math.Expm1(-a))
		if rest <= hi/1000 || k > 1e15 {
			hi += rest
			break
		}
	}
	return lo, math.Min(hi, 1), nil
}

func (f Few) check() error {
	const by = "thm:few"
	finite := func(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }
	switch {
	case !finite(f.Other):
		return &DomainError{"other", f.Other, "a finite mean", by}
	case !finite(f.Best) || f.Best <= f.Other:
		return &DomainError{"best", f.Best, "a finite mean above the other arm's", by}
	case !finite(f.Lambda) || f.Lambda <= 0:
		return &DomainError{"lambda", f.Lambda, "a finite lambda > 0", by}
	case !finite(f.R) || f.R <= 0:
		return &DomainError{"r", f.R, "a finite r > 0", by}
	case !finite(f.Draws) || f.Draws < 1:
		return &DomainError{"draws", f.Draws, "a finite number of draws >= 1", by}
	}
	return nil
}

// failing returns S(s): 200 terms, and for the rest Φ(−x) ≤ ½e^{−x²/2} and a geometric series.
func (f Few) failing(s float64) float64 {
	var sum float64
	const terms = 200
	r2 := float64(f.R * f.R)
	for n := range terms {
		k := f.Lambda + float64(n)
		sum += normalTail(s * k / math.Sqrt(float64(n)+float64(r2*k)))
	}
	a := s * s / (2 * float64(1+r2))
	return sum + math.Exp(-a*(f.Lambda+terms))/(-2*math.Expm1(-a))
}

// FewNecessary returns the m below which P(m, σ, L) > δ (thm:few-members):
//
//	sup_{y>0} (log(1/δ) + log Φ(−(L + σy)))/log(1/(2Φ(y) − 1)),
//
// at least 0. With σ = cβ^δ√(1+λ) it is of order log(1/δ) for every c. It panics unless σ > 0, L ≥ 0
// are finite and 0 < δ < 1.
func FewNecessary(sigma, gap, delta float64) float64 {
	checkStuck(1, sigma, gap)
	if !(delta > 0 && delta < 1) {
		panic("theory: FewNecessary: delta outside (0, 1)")
	}
	best := 0.0
	for y := 1e-4 * math.Min(1, 1/sigma); y < 8; y *= 1.01 {
		if room := logs.Log(normalTail(gap+float64(sigma*y))) - logs.Log(delta); room > 0 {
			best = math.Max(best, -room/logs.Log1p(-2*normalTail(y)))
		}
	}
	return best
}

// FewSufficient returns log(1/δ)/(2Φ(−1/c)): with r_t ≥ cβ_t^δ and at least as many members the
// probability that every model of a unit arm with mean Δ > 0 is ever at most 0, next to an arm that is
// the zero vector, is at most 2δ/Δ² (thm:few-members). It panics unless c > 0 is finite and 0 < δ < 1.
func FewSufficient(c, delta float64) float64 {
	if !(c > 0 && c <= math.MaxFloat64 && delta > 0 && delta < 1) {
		panic("theory: FewSufficient: argument out of range")
	}
	return -logs.Log(delta) / (2 * normalTail(1/c))
}
