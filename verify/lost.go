package verify

import (
	"math"
	"math/rand/v2"

	"troupe/internal/stats"
)

// lost estimates the probability that a run is stuck by importance sampling on a union of events (Adler, Blanchet and
// Liu 2012). A_k is the event of the better arm's tape that after k pulls none of its 2m models is above level:
//
//	A_k: μk + N(k) + r max_j |W^j(k)| ≤ level·(λ + k),   k = 1, …, K,
//
// which is Z + σ max |g_j| ≤ −L with Z = N(k)/√k, σ = r√(1 + λ/k), L = (μk − level·(λ + k))/√k and has the probability
// P_k = P(m, σ, L). A tape is drawn from its own law with probability plain, and otherwise given A_k, with k drawn in
// proportion to P_k. A run of it counts with the weight of its law against this mixture,
//
//	1/(plain + (1 − plain)·N/ΣP_k),   N the number of the A_k that hold,
//
// so the estimate is unbiased for any level and K, and no weight is above 1/plain. A stuck run that has been through an A_k
// has a weight of at most ΣP_k/(1 − plain), so that the relative error of their part does not grow with rarity. A stuck run
// that has been through none, because its few good models were not drawn in time, is met on plain tapes only: rareness says
// nothing about these runs, and what was not seen of them is bounded by guess.most.
type lost struct {
	stuck
	plain  float64 // the share of tapes from their own law
	events []event
	total  float64 // ΣP_k
}

// guess is an estimate of a stuck probability.
type guess struct {
	p, se   float64 // with the standard error of what was seen
	outside int     // stuck runs through no event
	most    float64 // 95 % upper bound on the probability of such a run, from their number alone
}

// event is A_k.
type event struct {
	sigma, gap, p float64
	to            []float64 // the cells of z: sums of bounds on φ(z)(2Φ((−L − z)/σ) − 1)^m
}

// Cells of z end at −L and have this width; there are so many that what is below has no weight.
const (
	cellWidth = 1.0 / 64
	cells     = 40 * 64
)

// lose prepares the estimator with K events at the level and a share of plain tapes. With a scale cβ_t the events take its value after k pulls of
// the better arm and T/2 of the other.
func (s stuck) lose(level, plain float64, K int) *lost {
	l := &lost{stuck: s, plain: plain}
	for k := 1; k <= K; k++ {
		n, r := float64(k), s.r
		if s.delta > 0 {
			r = s.beta(n, s.half())
		}
		e := event{sigma: r * math.Sqrt(1+s.lambda/n), gap: (s.best*n - level*(s.lambda+n)) / math.Sqrt(n)}
		sum := 0.0
		for i := range cells {
			low := -e.gap - cellWidth*float64(cells-i)
			high := low + cellWidth
			sum += cellWidth * phi(math.Max(low, math.Min(high, 0))) * e.all(low, s.m)
			e.to = append(e.to, sum)
			for _, x := range [...]float64{-math.Sqrt(0.6), 0, math.Sqrt(0.6)} { // Gauss and Legendre
				w := 5.0 / 18
				if x == 0 {
					w = 8.0 / 18
				}
				z := low + cellWidth*(1+x)/2
				e.p += cellWidth * w * phi(z) * e.all(z, s.m)
			}
		}
		l.events = append(l.events, e)
		l.total += e.p
	}
	return l
}

func phi(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }

// all is (2Φ((−L − z)/σ) − 1)^m, which falls with z.
func (e event) all(z float64, m int) float64 {
	return math.Pow(math.Erf((-e.gap-z)/(e.sigma*math.Sqrt2)), float64(m))
}

// draw returns Z and g_1, …, g_m given the event. Z is drawn by rejection: φ·all is at most the bound of its cell.
func (e event) draw(r *rand.Rand, m int) (z float64, g []float64) {
	for {
		u := r.Float64() * e.to[cells-1]
		lo, hi := 0, cells-1
		for lo < hi {
			if mid := (lo + hi) / 2; e.to[mid] > u {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		low := -e.gap - cellWidth*float64(cells-lo)
		z = low + cellWidth*r.Float64()
		bound := phi(math.Max(low, math.Min(low+cellWidth, 0))) * e.all(low, m)
		if r.Float64()*bound <= phi(z)*e.all(z, m) {
			break
		}
	}
	share := math.Erf((-e.gap - z) / (e.sigma * math.Sqrt2))
	g = make([]float64, m)
	for j := range g {
		g[j] = math.Sqrt2 * math.Erfinv(share*(2*r.Float64()-1))
	}
	return z, g
}

// run plays one tape of the mixture and returns whether the run is stuck, its weight and the number of events that
// hold.
func (l *lost) run(r *rand.Rand) (isStuck bool, weight float64, held int) {
	m, K := l.m, len(l.events)
	x := l.draw(r, K)
	if u := r.Float64(); u >= l.plain {
		k, u := 1, (u-l.plain)/(1-l.plain)*l.total
		for ; k < K && u >= l.events[k-1].p; k++ {
			u -= l.events[k-1].p
		}
		z, g := l.events[k-1].draw(r, m)
		l.bend(x, k, z, g)
	}
	for _, holds := range l.which(x) {
		if holds {
			held++
		}
	}
	return l.score(x) >= l.half(), l.weight(held), held
}

// weight is that of a tape on which so many events hold.
func (l *lost) weight(held int) float64 {
	return 1 / (l.plain + (1-l.plain)*float64(held)/l.total)
}

// bend changes the first k steps of each path so that it ends where it should and is a Gaussian path given its end.
func (l *lost) bend(x *tape, k int, z float64, g []float64) {
	m, n := l.m, float64(k)
	sum := 0.0
	for _, v := range x.noise[:k] {
		sum += v
	}
	for i := range x.noise[:k] {
		x.noise[i] += (z*math.Sqrt(n) - sum) / n
	}
	root := math.Sqrt(l.lambda)
	for j := range m {
		sum := root * x.walk[j]
		for i := 1; i <= k; i++ {
			sum += x.walk[i*m+j]
		}
		off := (g[j]*math.Sqrt(l.lambda+n) - sum) / (l.lambda + n)
		x.walk[j] += root * off
		for i := 1; i <= k; i++ {
			x.walk[i*m+j] += off
		}
	}
}

// which says of each event whether it holds on the tape.
func (l *lost) which(x *tape) (holds []bool) {
	w, noise := make([]float64, l.m), 0.0
	for j := range w {
		w[j] = math.Sqrt(l.lambda) * x.walk[j]
	}
	for i, e := range l.events {
		noise += x.noise[i]
		top := 0.0
		for j, v := range x.walk[(i+1)*l.m : (i+2)*l.m] {
			w[j] += v
			top = math.Max(top, math.Abs(w[j]))
		}
		n := float64(i + 1)
		// a bent path may miss its end by rounding
		holds = append(holds, noise/math.Sqrt(n)+e.sigma*top/math.Sqrt(l.lambda+n) <= -e.gap+1e-9)
	}
	return holds
}

// estimate returns the estimate of n runs. A run is on a plain tape, stuck and through no event with probability
// plain·P(stuck and through no event), so that the exact binomial bound on the former gives guess.most.
func (l *lost) estimate(r *rand.Rand, n int) (g guess) {
	sum, square := 0.0, 0.0
	for range n {
		isStuck, w, held := l.run(r)
		if isStuck {
			sum += w
			square += w * w
			if held == 0 {
				g.outside++
			}
		}
	}
	g.p = sum / float64(n)
	g.se = math.Sqrt((square/float64(n) - g.p*g.p) / float64(n))
	_, high := stats.ClopperPearson(g.outside, n, 0.10) // each side at 5 %
	g.most = math.Min(1, high/l.plain)
	return g
}
