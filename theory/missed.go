package theory

import (
	"math"

	"troupe/internal/logs"
)

// Bounds on the share of runs that are lost within T rounds (thm:few-horizon of docs/papers/price-of-few.md, section 8,
// ours).

// Missed returns E(1 − G/(2m))^t, the probability that t draws of one of 2m models all give one that is not above a
// level: G is how many of ±σg_j, j ≤ m, are above −L − Z, with Z, g_1, …, g_m independent N(0, 1). For −L − Z = σu ≥ 0
// a member has one with probability P(|g| > u), so that G is binomial; for u < 0 each member has one at least, and all
// but Bin(m, P(|g| > |u|)) of them have two. t = +Inf is P(m, σ, L); t = 1 is Φ(−L/√(1 + σ²)). The integral over u is
// Simpson's; the relative error is below 1e-3. L may be negative.
//
// It panics unless m ≥ 1, σ > 0 and L are finite and t ≥ 1.
func Missed(m, sigma, gap, t float64) (p float64) {
	checkStuck(m, sigma, math.Abs(gap))
	if !(t >= 1) {
		panic("theory: Missed: t below 1")
	}
	if t == 1 {
		return normalTail(gap / math.Sqrt(1+float64(sigma*sigma)))
	}
	density := func(x float64) float64 { return sigma * math.Exp(-float64(x*x)/2) / math.Sqrt(2*math.Pi) }
	step := math.Min(0.02, 0.1/sigma)
	few := missing(m, t, 1) // n of the models are good
	p = simpson(step, func(u float64) (v, rest float64) {
		x, q := gap+float64(sigma*u), 2*normalTail(u)
		return density(x) * few(q), tailBelow(m*q*math.Min(1, t/m), x)
	})
	if fall := math.Exp2(-t); fall > 0 {
		bad := missing(m, t, -1) // n of the models are not
		p += simpson(step, func(u float64) (v, rest float64) {
			q := 2 * normalTail(u)
			return density(gap-float64(sigma*u)) * bad(q), tailBelow(q*fall, 99)
		})
	}
	return p
}

// missing returns the function p ↦ E(1 − B/(2m))^t, or with side below 0 E(B/(2m))^t, for B ~ Bin(m, p).
func missing(m, t, side float64) func(p float64) float64 {
	if math.IsInf(t, 1) { // B is 0
		return func(p float64) float64 { return math.Exp(float64(m * logs.Log1p(-p))) }
	}
	var powers []float64
	at := func(n float64) float64 {
		for len(powers) <= int(n) {
			v := 1 - float64(len(powers))/(2*m)
			if side < 0 {
				v = 1 - v
			}
			powers = append(powers, math.Pow(v, t))
		}
		return powers[int(n)]
	}
	far := func(n float64) float64 {
		v := n / (2 * m)
		if side > 0 {
			v = 1 - v
		}
		return math.Pow(v, t)
	}
	return func(p float64) float64 {
		if m*p > mostTerms {
			return binomialMean(m, p, far)
		}
		return binomialMean(m, p, at)
	}
}

// tailBelow is Φ(−x) where what the members still change, at most small, does not matter, and −1 before.
func tailBelow(small, x float64) float64 {
	if small > 1e-9 {
		return -1
	}
	return normalTail(x)
}

// simpson integrates the v of f from 0 up to where the integral of the rest is known.
func simpson(step float64, f func(u float64) (v, rest float64)) (sum float64) {
	for i := 0; ; i++ {
		v, rest := f(float64(i) * step)
		switch {
		case i%2 == 1:
			sum += float64(4 * v)
			continue
		case i > 0 && rest >= 0:
			return float64((sum+v)*step)/3 + rest
		case i > 0:
			v *= 2
		}
		sum += v
	}
}

// Within encloses the probability that the accumulated ensemble of m members with signs pulls a unit arm with mean Δ =
// gap > 0 beside the zero vector at most n times in T rounds (thm:few-horizon (a)): N(0, 1) noise, constant r, Gaussian
// targets, init = "prior". It is at least max_k E(1 − G_k/(2m))^T, k ≤ n, and at most Σ_{k≤n} E(1 − G_k/(2m))^{t_k} for
// whole t_k ≥ 1 that add up to at most T, each from a list, chosen so that the sum is small.
//
// Errors outside m ≥ 1, r, λ, Δ > 0, whole n ≥ 0 and T > n, all finite. hi is at most 1.
func Within(m, r, lambda, gap float64, n, T int) (lo, hi float64, err error) {
	f := Few{Best: gap, Lambda: lambda, R: r, Draws: m}
	if err := f.checkRounds(n, T); err != nil {
		return 0, 0, err
	}
	for k := 0; k <= n; k++ {
		p := f.missed(k, 0, float64(T))
		lo = math.Max(lo, p)
		if k > 50 && p < lo/1e6 {
			break
		}
	}
	return lo, math.Min(f.stages(0, n, T), 1), nil
}

// LostWithin returns a lower bound on the probability that the better arm is pulled at most k times in T rounds by an
// accumulated ensemble of m = Draws members (thm:few-horizon (b)): with c = min(0, Other) − s
//
//	(1 − S(s)) E(1 − G_k(c)/(2m))^T,
//
// G_k(c) how many of its models after k pulls are above c, maximised over the grid of Share. It is Lost(k) for T → ∞.
// Errors as Lost, and for T < k.
func (f Few) LostWithin(k, T int) (float64, error) {
	if err := f.checkRounds(k, T); err != nil {
		return 0, err
	}
	if k < 1 {
		return 0, &DomainError{"k", float64(k), "a number of pulls >= 1", "thm:few-horizon"}
	}
	return f.maximised(func(gap float64) float64 {
		return f.missed(k, -gap, float64(T))
	}), nil
}

// AtMost returns an upper bound on the probability that the better of two arms is pulled at most n times in T rounds by
// an accumulated ensemble of m = Draws members (thm:few-horizon (c)): for c = Other + s, s > 0, whole x ≥ 0 and t_k ≥ 1
// with t_0 + … + t_n ≤ T − x
//
//	Σ_{k≤n} E(1 − G_k(c)/(2m))^{t_k} + 2m Σ_{j≥x} Φ(−(s(λ + j) + λ Other)/√(j + R²(λ + j))),
//
// the least over a list of s, x and t. It is at most 1. Errors as LostWithin.
func (f Few) AtMost(n, T int) (float64, error) {
	if err := f.checkRounds(n, T); err != nil {
		return 0, err
	}
	best := 1.0
	for _, part := range [...]float64{0.1, 0.2, 0.35, 0.5} {
		s := float64(part * (f.Best - f.Other))
		lost := f.missed(1, f.Other+s, math.Inf(1))
		x, over := f.unlearned(s, lost/10)
		if x+n+1 > T || over > best {
			continue
		}
		best = math.Min(best, f.stages(f.Other+s, n, T-x)+over)
	}
	return best, nil
}

// ForGoodAtMost returns an upper bound on the probability that the best of any number of orthogonal unit arms, of which
// the next has mean Other, is pulled finitely often by an accumulated ensemble of m = Draws members (thm:few-horizon
// (d)): after some number k = 0, 1, … of pulls all its models are at most Other,
//
//	1{Other > 0}(2Φ(Other √λ/R) − 1)^m + Σ_{k≥1} P(m, R√(1 + λ/k), ((Best − Other)k − λ Other)/√k).
//
// It is at most 1. Errors as Lost.
func (f Few) ForGoodAtMost() (float64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	sum := 0.0
	for k := 0; k < 1e6 && sum < 1; k++ {
		p := f.missed(k, f.Other, math.Inf(1))
		sum += p
		gap := f.Best - f.Other
		if left := float64(gap*float64(k)) - float64(f.Lambda*f.Other); left > 0 {
			a := float64(gap*gap) / 2 // ½exp(−L²/2) ≥ P, and L² ≥ Δ²k − 2Δλ Other
			rest := math.Exp(float64(gap*f.Lambda*math.Max(f.Other, 0))-float64(a*float64(k+1))) / (-2 * math.Expm1(-a))
			if rest <= sum/1000 {
				return math.Min(sum+rest, 1), nil
			}
		}
	}
	return 1, nil
}

// missed is E(1 − G_k(c)/(2m))^t: after k pulls the better arm's models are (μk + √k Z ± r√(λ + k)g)/(λ + k). For k = 0
// and c < 0 it is 2^{−t}, an upper bound.
func (f Few) missed(k int, c, t float64) float64 {
	n := float64(k)
	switch {
	case k > 0:
		return Missed(f.Draws, float64(f.R*math.Sqrt(1+f.Lambda/n)), (float64(f.Best*n)-float64(c*(f.Lambda+n)))/math.Sqrt(n), t)
	case c <= 0: // one model of a member is not below 0
		return math.Exp2(-t)
	}
	return missing(f.Draws, t, 1)(2 * normalTail(c*math.Sqrt(f.Lambda)/f.R))
}

// stages is a small Σ_{k≤n} E(1 − G_k(c)/(2m))^{t_k} over t_k that add up to at most the rounds, each from a list: for
// a price a round each k takes its best t, and the price is found by bisection.
func (f Few) stages(c float64, n, rounds int) float64 {
	var table [][]float64 // of k, for the times of the list
	times := []float64{1}
	for t := 2.0; t <= float64(rounds); t = math.Ceil(t * 1.6) {
		times = append(times, t)
	}
	const most = 1024 // stages with more than one round
	after := 0.0      // the others
	for k := 0; k <= n; k++ {
		once := f.missed(k, c, 1)
		if once < 1e-20 {
			after += float64(once * float64(n-k+1))
			break
		}
		if k >= most || once < 1e-9 {
			after += once
			continue
		}
		row := []float64{once}
		for _, t := range times[1:] {
			p := f.missed(k, c, t)
			if row = append(row, p); p > 0.999*row[len(row)-2] || p < 1e-12 {
				break
			}
		}
		table = append(table, row)
	}
	at := func(price float64) (sum, used float64) {
		used = float64(n + 1 - len(table))
		for _, row := range table {
			best := 0
			for i, p := range row {
				if p+float64(price*times[i]) < row[best]+float64(price*times[best]) {
					best = i
				}
			}
			sum += row[best]
			used += times[best]
		}
		return sum, used
	}
	lo, hi := 1e-30, 1.0
	for range 60 {
		mid := math.Sqrt(lo * hi)
		if _, used := at(mid); used > float64(rounds) {
			lo = mid
		} else {
			hi = mid
		}
	}
	sum, used := at(hi)
	if used > float64(rounds) {
		return 1
	}
	return sum + after
}

// Over returns 2m Σ_{j≥x} Φ(−(s(λ + j) + λ Other)/√(j + R²(λ + j))), the bound on the probability that a model of the
// arm with mean Other is above Other + s after x pulls or more (thm:few-horizon (c)). The rest of the sum is a
// geometric series. It panics unless s > 0 and x ≥ 1.
func (f Few) Over(s float64, x int) (sum float64) {
	if !(s > 0 && x >= 1) {
		panic("theory: Over: argument out of range")
	}
	fall := math.Exp(-float64(s*s) / (2 * (1 + float64(f.R*f.R)))) // from a term to the next, at most, for large j
	for j := x; ; j++ {
		p := f.over(s, float64(j))
		sum += p
		if rest := float64(p*fall) / (1 - fall); rest < 1e-6*sum {
			return 2 * f.Draws * (sum + rest)
		}
	}
}

func (f Few) over(s, j float64) float64 {
	return normalTail((float64(s*(f.Lambda+j)) + float64(f.Lambda*f.Other)) / math.Sqrt(j+float64(f.R*f.R*(f.Lambda+j))))
}

// unlearned returns the smallest of a list of x with Over(s, x) ≤ rest, and that bound; +Inf where there is none.
func (f Few) unlearned(s, rest float64) (x int, bound float64) {
	for x = 1; x < 1<<24; x += 1 + x/8 {
		if 2*f.Draws*f.over(s, float64(x)) > rest {
			continue
		}
		if bound = f.Over(s, x); bound <= rest {
			return x, bound
		}
	}
	return math.MaxInt32, math.Inf(1)
}

// StuckBounded returns the largest over k of the probability that no model can be above the level b after k pulls,
//
//	Φ(−(Δk − λb + r(k + s))/√k), k ≥ 1;   1 where rs ≤ λb, for k = 0,
//
// debt = λb: with targets in [−1, 1] and |S_0| ≤ s an ensemble of any number of members loses a unit arm whose mean is
// Δ = gap > 0 above a known b (b = 0: beside the zero vector) for good with at least this probability, because after k
// pulls of it no model is more than r(k + s)/(λ + k) above the estimate (thm:few-horizon (f)). N(0, 1) noise, constant r.
// It panics unless r, Δ > 0, s ≥ 0 and the debt are finite.
func StuckBounded(r, first, gap, debt float64) (best float64) {
	if !(r > 0 && r <= math.MaxFloat64 && gap > 0 && gap <= math.MaxFloat64 && first >= 0 && first <= math.MaxFloat64 &&
		math.Abs(debt) <= math.MaxFloat64) {
		panic("theory: StuckBounded: argument out of range")
	}
	if r*first <= debt {
		return 1
	}
	rise, room := gap+r, float64(r*first)-debt
	at := math.Floor(room / rise) // rise·√k + room/√k falls up to room/rise
	for _, k := range [...]float64{at, at + 1} {
		if k >= 1 {
			best = math.Max(best, normalTail((float64(rise*k)+room)/math.Sqrt(k)))
		}
	}
	return best
}

func (f Few) checkRounds(n, T int) error {
	if err := f.check(); err != nil {
		return err
	}
	const by = "thm:few-horizon"
	if n < 0 {
		return &DomainError{"n", float64(n), "a number of pulls >= 0", by}
	}
	if T <= n {
		return &DomainError{"T", float64(T), "more rounds than pulls", by}
	}
	return nil
}

// FewSecond returns κ = 3·2^{−1/3} (r²Δ)^{2/3} λ^{1/3}: on one arm with mean Δ beside the zero vector the share of runs
// that an ensemble of m members loses for good is exp(−r² log 2m − κ (log 2m)^{2/3} + O((log 2m)^{1/3}))
// (thm:few-horizon (e)). It panics unless r, λ, Δ > 0 are finite.
func FewSecond(r, lambda, gap float64) float64 {
	if !(r > 0 && r <= math.MaxFloat64 && lambda > 0 && lambda <= math.MaxFloat64 && gap > 0 && gap <= math.MaxFloat64) {
		panic("theory: FewSecond: argument out of range")
	}
	return 3 * math.Cbrt(r*r*gap*r*r*gap*lambda/2)
}
