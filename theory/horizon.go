package theory

import (
	"math"
	"math/cmplx"
)

// How many members for T rounds (docs/papers/price-of-few.md, section 8, ours). An ensemble with signs on one unit arm
// with mean Other + Δ beside a known mean Other pulls the arm, after k pulls, with probability G_k/(2m) in a round, where
// G_k of its 2m models are above Other. So a run is lost at T, that is plays nothing in half of the rounds, when the
// waits add up to T/2.

// LostBy approximates the probability that the accumulated ensemble of m = Draws members with signs does not pull a unit
// arm with mean Best beside one of known mean Other, a level, in at least T/2 of T rounds: constant scale R, N(0, 1)
// noise, Gaussian targets, init = "prior". Other = 0 is the zero vector. T = +Inf is the probability that the arm is
// lost for good.
//
// After k pulls a model of the arm is above the level b = Other where
//
//	Δk − λb + N(k) ± R√(λ + k)g > 0,   Δ = Best − Other,
//
// N(k) the noise and g the member's N(0, 1): a positive level is a debt of λb, which the arm pays with λb/Δ pulls, and a
// negative one a credit. The law is that of an ensemble whose members are drawn anew after each pull of the arm, at the
// same variance: given N(k) the number G_k of good models is binomial, independent of the earlier ones, and the wait for
// the next pull is geometric with probability G_k/(2m). N(k) is a Markov chain on the line, so that a recursion over k
// gives E z^V for the sum V of all waits, and V ≥ T/2 is inverted as Abate and Whitt do (1992, 1995), with an absolute
// error of about 1e-8; that of the grid is below 1e-3 of the share, for a single member up to 2e-2. The members of an ensemble persist; what that changes is measured in docs/record/stuck.md.
//
// Cost: some tenths of a second. Errors as Share, and for T < 2.
func (f Few) LostBy(T float64) (float64, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	if !(T >= 2) {
		return 0, &DomainError{"T", T, "at least 2 rounds", "thm:few-horizon"}
	}
	w := waiting{m: f.Draws, r: f.R, lambda: f.Lambda, gap: f.Best - f.Other, debt: f.Lambda * f.Other, pulls: math.Floor(T / 2)}
	if math.IsInf(T, 1) {
		return real(w.waits(0)), nil
	}
	half := math.Ceil(T / 2)
	if half <= 40 {
		return w.short(int(half) - 1), nil
	}
	return math.Max(0, math.Min(w.long(half-0.5), 1)), nil
}

// LostAmong approximates the share of runs in which the accumulated ensemble of m = Draws members plays the others of K
// = arms orthogonal unit arms in at least T/2 of T rounds, where the best has mean Best and the others Other: LostBy for
// one arm, and for more
//
//	LostBy · o/(1 + o),   o = 0.21 m^0.45 R^−1.4 (K − 1)^1.5/(1 + λ),
//
// because a run that has lost an arm finds it again where the other arms look worse for a time; the larger λ, the nearer
// to 0 the others begin, and the rarer that is. The four numbers are fitted to simulations with means near 0, K = 2 to
// 20, R = 0.7 to 2, λ = 0.1 to 1, Δ = 0.2 to 1 and T ≥ Learned, and 1/(1 + λ) to others at λ = 0.1 and 1. How near the
// law is on instances that were not fitted, with levels −1 to 3: docs/record/stuck.md. Where the others differ, the
// largest of their means is on the safe side. Cost and errors as LostBy, and for K < 1.
func (f Few) LostAmong(arms int, T float64) (float64, error) {
	if arms < 1 {
		return 0, &DomainError{"arms", float64(arms), "at least 1 arm", "thm:few-horizon"}
	}
	p, err := f.LostBy(T)
	if err != nil || arms == 1 {
		return p, err
	}
	odds := 0.21 * math.Pow(f.Draws, 0.45) * math.Pow(f.R, -1.4) * math.Pow(float64(arms-1), 1.5) / (1 + f.Lambda)
	return p * odds / (1 + odds), nil
}

// Learned is 30 K(1 + r²)/Δ², the number of rounds after which exploring K arms at the gap Δ with a constant scale r no
// longer takes half of them: LostAmong is not fitted below.
func Learned(arms int, r, gap float64) float64 {
	return 30 * float64(arms) * (1 + float64(r*r)) / float64(gap*gap)
}

// short is P(V > n), the coefficient of zⁿ in (1 − E z^V)/(1 − z), from its values on a circle.
func (c *waiting) short(n int) (sum float64) {
	if n == 0 {
		return real(c.waits(1))
	}
	radius := math.Pow(10, -4/float64(n))
	for k := 0; k <= n; k++ {
		z := cmplx.Rect(radius, math.Pi*float64(k)/float64(n))
		v := real(c.waits(1-z) / (1 - z))
		if k%2 == 1 {
			v = -v
		}
		if k == 0 || k == n {
			v /= 2
		}
		sum += v
	}
	return sum / float64(n) * 1e4
}

// long is P(V > t) from the Laplace transform (1 − E e^{−sV})/s by Euler's summation of 15 to 26 terms.
func (c *waiting) long(t float64) (sum float64) {
	const a, first, extra = 18.4, 15, 11
	term := func(k int) float64 {
		re, im := a/(2*t), math.Pi*float64(k)/t
		fall, half := math.Exp(-re), math.Sin(im/2)
		w := complex(-math.Expm1(-re)+float64(2*fall*half*half), fall*math.Sin(im)) // 1 − e^{−s} without cancellation
		return real(c.waits(w) / complex(re, im))
	}
	total, weight := term(0)/2, 1.0
	for k := 1; k <= first+extra; k++ {
		v := term(k)
		if k%2 == 1 {
			v = -v
		}
		total += v
		if j := k - first; j >= 0 {
			sum += float64(weight * total)
			weight *= float64(extra-j) / float64(j+1)
		}
	}
	return math.Exp(a/2) / t * sum / math.Exp2(extra)
}

// waiting is the sum V of the waits of LostBy.
type waiting struct {
	m, r, lambda, gap, pulls float64
	debt                     float64      // λ times the level
	table                    []complex128 // 1 − E z^wait for each base
}

const (
	tableLow, tableHigh = -14.0, 9.0 // of the base in units of the perturbation
	tableStep           = 1. / 32
)

// waits is 1 − E z^V for w = 1 − z; at w = 0 the probability that V is infinite.
func (c *waiting) waits(w complex128) (total complex128) {
	c.fill(w)
	total = c.at(-c.debt / (c.r * math.Sqrt(c.lambda))) // before the first pull; at level 0 half of the models are good
	g := grid{step: 1. / 64, mass: []complex128{1 - total}}
	for k, next := 0.0, 1.0; next <= c.pulls; {
		g = c.move(g, next-k, next)
		k = next
		next = math.Min(k+math.Max(1, math.Floor(k/32)), math.Max(k+1, c.pulls+1))
		var lost complex128
		left, sd := 0.0, float64(c.r*math.Sqrt(c.lambda+k))
		for i, v := range g.mass {
			base := (float64(c.gap*k) - c.debt + float64(float64(g.low+i)*g.step)) / sd
			if base < tableHigh && v != 0 {
				x := c.at(base)
				if next > k+1 {
					stay := 1 - x
					if size := cmplx.Abs(stay); size > 1 { // by interpolation
						stay /= complex(size, 0)
					}
					x = 1 - power(stay, int(next-k))
				}
				lost += v * x
				g.mass[i] -= v * x
			}
			left += math.Abs(real(g.mass[i])) + math.Abs(imag(g.mass[i]))
		}
		total += lost
		if far := k > c.far(); left < 1e-12 || far && cmplx.Abs(lost) < 1e-12 || k > 1e12 {
			break
		}
	}
	return total
}

// far is a number of pulls after which an arm that was not lost is no longer lost: its debt is paid, and the gap adds up
// to more than noise and perturbations.
func (c *waiting) far() float64 {
	return 16*(1+float64(c.r*c.r))/float64(c.gap*c.gap) + 2*math.Max(c.debt, 0)/c.gap
}

// grid holds E z^V of the waits before the k-th pull where N(k) = (low + i)·step.
type grid struct {
	low  int
	step float64
	mass []complex128
}

// move returns the grid n pulls later, next in all, with a step that follows the spread of the perturbations. What is
// above 9 standard deviations, or so far up that it never returns, is left out.
func (c *waiting) move(g grid, n, next float64) grid {
	s, out, ratio := math.Sqrt(n), grid{step: g.step}, 1
	for most := math.Min(0.2*float64(c.r*math.Sqrt(c.lambda+next)), s/2); out.step*2 <= most; {
		out.step *= 2
		ratio *= 2
	}
	top := 12/c.gap + float64(tableHigh*c.r*math.Sqrt(c.lambda+next)) - float64(c.gap*next) + c.debt
	out.low = -int(math.Ceil(9 * math.Sqrt(next) / out.step))
	high := int(math.Ceil(math.Min(9*math.Sqrt(next), top) / out.step))
	reach := int(7*s/g.step) + 1
	kernels := make([][]float64, ratio) // every ratio-th weight, by the place of the first
	for j := range 2*reach + 1 {
		x := float64(j-reach) * g.step / s
		kernels[j%ratio] = append(kernels[j%ratio], out.step/s*math.Exp(-float64(x*x)/2)/math.Sqrt(2*math.Pi))
	}
	out.mass = make([]complex128, max(high-out.low+1, 1))
	for i, v := range g.mass {
		re, im := real(v), imag(v)
		if math.Abs(re)+math.Abs(im) < 1e-25 {
			continue
		}
		at := g.low + i
		first := max(int(math.Ceil(float64(at-reach)/float64(ratio))), out.low)
		last := min(int(math.Floor(float64(at+reach)/float64(ratio))), high)
		if first > last {
			continue
		}
		j := first*ratio - at + reach
		kernel, to := kernels[j%ratio][j/ratio:], out.mass[first-out.low:last-out.low+1]
		kernel = kernel[:len(to)]
		for k, w := range kernel {
			to[k] += complex(float64(re*w), float64(im*w))
		}
	}
	return out
}

// fill prepares the table: with base = (Δk − λb + N(k))/(r√(λ + k)) a member has a good model with probability P(|g| >
// −base) where base is below 0, and a bad one with P(|g| > base) where it is above.
func (c *waiting) fill(w complex128) {
	c.table = c.table[:0]
	for i := 0; i <= int((tableHigh-tableLow)/tableStep); i++ {
		base := tableLow + float64(i)*tableStep
		p := math.Erfc(math.Abs(base) / math.Sqrt2)
		var sum complex128
		binomialTerms(c.m, p, 60, func(few, weight float64) {
			q := few / (2 * c.m)
			if base > 0 {
				q = 1 - q
			}
			if q <= 0 {
				sum += complex(weight, 0)
				return
			}
			x := complex(1-q, 0) * w
			sum += complex(weight, 0) * x / (complex(q, 0) + x)
		})
		c.table = append(c.table, sum)
	}
}

// at interpolates the table; beyond its ends all models are on one side.
func (c *waiting) at(base float64) complex128 {
	x := (math.Max(tableLow, math.Min(base, tableHigh)) - tableLow) / tableStep
	i := max(1, min(int(x), len(c.table)-3))
	f := x - float64(i)
	if i == int(x) { // Lagrange's cubic
		a, b, d := float64(f*(f-1)), float64(f*(f+1)), float64((f-1)*(f-2))
		return complex(-a*(f-2)/6, 0)*c.table[i-1] + complex(float64(d*(f+1))/2, 0)*c.table[i] -
			complex(float64(b*(f-2))/2, 0)*c.table[i+1] + complex(float64(b*(f-1))/6, 0)*c.table[i+2]
	}
	return c.table[min(int(x), len(c.table)-1)]
}

// mostTerms is the mean of a binomial law from which on binomialMean takes three points.
const mostTerms = 200

// binomialMean is E f(B) for B ~ Bin(m, p), f in [0, 1]: the sum, or for a mean above mostTerms Gauss and Hermite's
// three points.
func binomialMean(m, p float64, f func(n float64) float64) (sum float64) {
	binomialTerms(m, p, mostTerms, func(n, weight float64) { sum += float64(weight * f(n)) })
	return sum
}

// power is xⁿ.
func power(x complex128, n int) complex128 {
	y := complex128(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}

// binomialTerms calls f for each n with its weight, or for three points where the mean is above most.
func binomialTerms(m, p, most float64, f func(n, weight float64)) {
	mean := float64(m * p)
	if mean > most {
		s := math.Sqrt(3 * mean * (1 - p))
		f(math.Max(mean-s, 0), 1./6)
		f(mean, 4./6)
		f(math.Min(mean+s, m), 1./6)
		return
	}
	if p >= 1 {
		f(m, 1)
		return
	}
	term, odds := math.Exp(float64(m*math.Log1p(-p))), p/(1-p)
	for n := 0.0; n <= m; n++ {
		f(n, term)
		if n > mean && term < 1e-17 {
			break
		}
		term *= odds * (m - n) / (n + 1)
	}
}
