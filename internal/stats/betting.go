package stats

import "math"

// Intervals for the mean of a bounded variable that hold for every law on [lo, hi] and every number
// of observations: nothing is asymptotic, so a loss that occurs in one run of a thousand and was not
// seen is inside them. Hedged capital process of Waudby-Smith and Ramdas, "Estimating means of
// bounded random variables by betting" (JRSS B 2024), section 4: with the data scaled to [0, 1],
//
//	K⁺_t(μ) = ∏_{i≤t} (1 + l_i(μ)(X_i − μ)),  K⁻_t(μ) = ∏_{i≤t} (1 − l_i(1 − μ)(X_i − μ)),
//	l_i(μ) = min(b_i, 1/(2μ)),
//
// with b_i > 0 a function of X_1, …, X_{i−1}. If each X_i has mean μ given the past, both are
// non-negative martingales that start at 1, and so is their average. By Ville's inequality neither
// half of the average exceeds 1/α for any t, with probability at least 1 − α. The interval is the set
// of the μ for which that never happened. K⁺ does not increase and K⁻ does not decrease in μ, so it is
// an interval, and its ends are found by bisection.

// BettingInterval returns an interval for the mean of a variable with values in [lo, hi]: it misses
// with probability at most alpha for every law and every n, if the observations are independent or,
// more generally, have the same mean given the past. The bets b_i = √(2 log(2/α)/(n s²_{i−1})) suit a
// number n of observations that was fixed before; s² is the running variance. It is [lo, hi] for an
// empty sample. Cost O(n) for each of about a hundred steps of the bisections.
//
// It panics for alpha outside (0, 1), lo ≥ hi, and an observation outside [lo, hi].
func BettingInterval(x []float64, lo, hi, alpha float64) (l, h float64) {
	b := newBets(x, lo, hi, alpha, func(int) float64 { return float64(len(x)) })
	return b.unscale(b.end(len(x), false), b.end(len(x), true))
}

// BettingSequence returns for each n = 1, …, len(x) an interval for the mean from the first n
// observations. All of them hold at once with probability at least 1 − alpha, so an experiment may
// look after every observation and stop when it likes. Ends never move outwards. The bets are
// b_i = √(2 log(2/α)/(s²_{i−1} i log(1 + i))). Assumptions and panics as BettingInterval. Cost at most
// O(n²) for each step of the bisections; an end that does not move costs O(n) in all.
func BettingSequence(x []float64, lo, hi, alpha float64) (l, h []float64) {
	b := newBets(x, lo, hi, alpha, func(i int) float64 { return float64(i) * math.Log1p(float64(i)) })
	l, h = make([]float64, len(x)), make([]float64, len(x))
	var ends [2]float64 // distance of the lower end from 0 and of the upper end from 1
	var level [2]float64
	for t := range x {
		for side := range ends {
			level[side] += b.step(t, ends[side], side == 1)
			if level[side] >= b.reject {
				ends[side] = math.Max(ends[side], b.end(t+1, side == 1))
				level[side] = b.capital(t+1, ends[side], side == 1)
			}
		}
		l[t], h[t] = b.unscale(ends[0], ends[1])
	}
	return l, h
}

// bets holds the scaled observations and the bets, which do not depend on μ but for their cap.
type bets struct {
	x, bet []float64
	lo, hi float64
	reject float64 // log(2/α): half the capital has reached 1/α
}

func newBets(x []float64, lo, hi, alpha float64, horizon func(i int) float64) *bets {
	if !(alpha > 0 && alpha < 1) {
		panic("stats: betting interval: alpha outside (0, 1)")
	}
	if !(lo < hi) {
		panic("stats: betting interval: lo ≥ hi")
	}
	b := &bets{x: make([]float64, len(x)), bet: make([]float64, len(x)), lo: lo, hi: hi, reject: math.Log(2 / alpha)}
	sum, squares := 0.5, 0.25 // a prior observation at ½ with variance ¼
	for i, v := range x {
		if !(v >= lo && v <= hi) {
			panic("stats: betting interval: an observation outside [lo, hi]")
		}
		n := float64(i + 1)
		b.bet[i] = math.Sqrt(2 * b.reject / (squares / n * horizon(i+1)))
		b.x[i] = math.Min(1, (v-lo)/(hi-lo))
		sum += b.x[i]
		mean := sum / (n + 1)
		squares += (b.x[i] - mean) * (b.x[i] - mean)
	}
	return b
}

// step returns the logarithm of the factor by which observation i changes the capital against the
// mean at distance mu from 0, or from 1 if upper.
func (b *bets) step(i int, mu float64, upper bool) float64 {
	x := b.x[i]
	if upper {
		x = 1 - x
	}
	if 2*mu*b.bet[i] > 1 {
		return math.Log1p((x - mu) / (2 * mu))
	}
	return math.Log1p(b.bet[i] * (x - mu))
}

// largest returns the logarithm of the largest capital over the first n observations, at least 0.
func (b *bets) largest(n int, mu float64, upper bool) float64 {
	var log, most float64
	for i := range n {
		log += b.step(i, mu, upper)
		most = math.Max(most, log)
	}
	return most
}

// capital returns the logarithm of the capital after n observations.
func (b *bets) capital(n int, mu float64, upper bool) float64 {
	var log float64
	for i := range n {
		log += b.step(i, mu, upper)
	}
	return log
}

// end returns the distance of an end from 0, or from 1 if upper: the smallest mean that the first n
// observations do not refute.
func (b *bets) end(n int, upper bool) float64 {
	if b.largest(n, 0, upper) < b.reject {
		return 0
	}
	_, mu := bisect(func(mu float64) bool { return b.largest(n, mu, upper) >= b.reject })
	return mu
}

// unscale maps the two distances back; rounding never makes the ends cross.
func (b *bets) unscale(below, above float64) (l, h float64) {
	l, h = b.lo+below*(b.hi-b.lo), b.hi-above*(b.hi-b.lo)
	if l > h {
		l, h = (l+h)/2, (l+h)/2
	}
	return l, h
}

// Rare is how rare a large loss must be so as not to matter to the sign of a mean difference.
type Rare struct {
	OneIn    float64 // one run in OneIn with the largest loss takes the mean difference to zero
	Unseen   float64 // probability that n runs contain no such run when they occur one in OneIn
	Reverses bool    // Unseen is above alpha: the sample does not exclude them
}

// RareLoss says whether losses too rare to be seen could reverse the sign of the mean of the paired
// differences x (the loss of the other policy minus that of the leader, mean > 0), where a run of the
// leader can lose up to worst more than it did. If a share q of its runs lost that much on top, the mean
// would fall by q·worst; q = mean/worst takes it to zero, which is one run in worst/mean. n runs contain
// none of these with probability (1 − q)^n. Reverses is true where that is above alpha: then an interval
// computed from the spread of the sample does not settle the sign. (At alpha = 0.05 this is the rule of three,
// n < 3·OneIn.) A mean of zero or less gives OneIn = +Inf and Reverses = true; a mean of worst or more
// cannot be reversed.
//
// It panics for an empty sample, worst ≤ 0, or alpha outside (0, 1).
func RareLoss(x []float64, worst, alpha float64) Rare {
	if !(worst > 0) || !(alpha > 0 && alpha < 1) {
		panic("stats: RareLoss: worst ≤ 0, or alpha outside (0, 1)")
	}
	mean := Mean(x)
	if !(mean > 0) {
		return Rare{math.Inf(1), 1, true}
	}
	q := mean / worst
	if q >= 1 {
		return Rare{OneIn: 1 / q}
	}
	unseen := math.Exp(float64(len(x)) * math.Log1p(-q))
	return Rare{OneIn: 1 / q, Unseen: unseen, Reverses: unseen > alpha}
}
