package verify

import (
	"math"
	"math/rand/v2"

	"troupe/internal/stats"
)

// lost estimates the probability that a run is stuck by importance sampling on a union of events (Adler, Blanchet and
// Liu 2012). A_kj is the event of the better arm's tape that after k pulls at most j of its 2m models are above level:
//
//	#{j : μk + N(k) + r|W^j(k)| > level·(λ + k)} ≤ j,   k = 1, …, K,
//
// which for Z = N(k)/√k, σ = r√(1 + λ/k), L = (μk − level·(λ + k))/√k says that at most j of the σ|g_j| are above −L −
// Z: where −L − Z ≥ 0 no member has two models above level, and where it is below 0 all m members have one. For j = 0
// its probability P_k0 is P(m, σ, L). There is a group of events for each j of a list. A tape is drawn from its own law
// with probability plain, and otherwise, with each group alike, given A_kj, with k drawn in proportion to P_kj. A run
// of it counts with the weight of its law against this mixture,
//
//	1/(plain + (1 − plain) mean over j of N_j/Σ_k P_kj),   N_j the number of the A_kj that hold,
//
// so the estimate is unbiased for any level, K and j, and no weight is above 1/plain. A stuck run that has been through
// an A_kj has a weight of at most G·ΣP_kj/(1 − plain) with G groups, so that the relative error of the part with j = 0
// does not grow with rarity. Events with j > 0 are for runs that are lost although there were good models, because
// these were not drawn in time. A stuck run that has been through none is met on plain tapes only; what was not seen of
// them is bounded by guess.most. Where the law of W^j(k) is not Gaussian the events are of the noise alone, {Z ≤ −c_k},
// with a group for each of a list of c (loseNoise).
type lost struct {
	stuck
	plain  float64 // the share of tapes from their own law
	groups []group
}

// group is the events A_kj of one j, or those of the noise of one c.
type group struct {
	few    int // j
	events []event
	total  float64 // Σ_k P_kj
}

// guess is an estimate of a stuck probability.
type guess struct {
	p, se   float64 // with the standard error of what was seen
	outside int     // stuck runs through no event
	most    float64 // 95 % upper bound on the probability of such a run, from their number alone
}

// event is A_kj.
type event struct {
	few           int
	sigma, gap, p float64
	to            []float64 // the cells of z: sums of bounds on φ(z) times the probability given z; nil: {Z ≤ −gap}
}

// Cells of z end at −L and have this width; there are so many that what is below has no weight.
const (
	cellWidth = 1.0 / 64
	cells     = 40 * 64
)

// lose prepares the estimator with K events at the level for each of few, j = 0 where there is none, and a share of
// plain tapes. With a scale cβ_t the events take its value after k pulls of the better arm and T/2 of the other.
func (s stuck) lose(level, plain float64, K int, few ...int) *lost {
	l := &lost{stuck: s, plain: plain}
	if few == nil {
		few = []int{0}
	}
	for _, j := range few {
		if j < s.m { // at most m members have one
			l.groups = append(l.groups, s.group(level, K, j))
		}
	}
	return l
}

// loseNoise prepares the estimator with the events {N(k)/√k ≤ −(μ − level)√k − rc}, k = 1, …, K, for each of c.
func (s stuck) loseNoise(level, plain float64, K int, c ...float64) *lost {
	l := &lost{stuck: s, plain: plain}
	for _, c := range c {
		var g group
		for k := 1; k <= K; k++ {
			n := float64(k)
			e := event{gap: float64((s.best-level)*math.Sqrt(n)) + float64(s.r*c)}
			e.p = normalTail(e.gap)
			g.events = append(g.events, e)
			g.total += e.p
		}
		l.groups = append(l.groups, g)
	}
	return l
}

func (s stuck) group(level float64, K, few int) group {
	l := group{few: few}
	for k := 1; k <= K; k++ {
		n, r := float64(k), s.r
		if s.delta > 0 {
			r = s.beta(n, s.half())
		}
		e := event{few: few, sigma: r * math.Sqrt(1+s.lambda/n), gap: (s.best*n - level*(s.lambda+n)) / math.Sqrt(n)}
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

// all is the probability that at most few of m members have a model above the level, given Z = z. It falls with z.
// For few = 0 it is (2Φ((−L − z)/σ) − 1)^m.
func (e event) all(z float64, m int) float64 {
	below := math.Erf((-e.gap - z) / (e.sigma * math.Sqrt2))
	if e.few == 0 {
		return math.Pow(below, float64(m))
	}
	if below <= 0 {
		return 0 // each member has one
	}
	sum, term := 0.0, math.Pow(below, float64(m))
	odds := math.Erfc((-e.gap-z)/(e.sigma*math.Sqrt2)) / below
	for j := 0; ; j++ {
		if sum += term; j == min(e.few, m) {
			return math.Min(sum, 1)
		}
		term *= odds * float64(m-j) / float64(j+1)
	}
}

// above draws how many members have a model above the level given the event and Z = z.
func (e event) above(r *rand.Rand, z float64, m int) int {
	if e.few == 0 {
		return 0
	}
	below := math.Erf((-e.gap - z) / (e.sigma * math.Sqrt2))
	odds := math.Erfc((-e.gap-z)/(e.sigma*math.Sqrt2)) / below
	u, term := r.Float64()*e.all(z, m), math.Pow(below, float64(m))
	for j := 0; ; j++ {
		if u -= term; u < 0 || j == min(e.few, m) {
			return j
		}
		term *= odds * float64(m-j) / float64(j+1)
	}
}

// draw returns Z and g_1, …, g_m given the event. Z is drawn by rejection: φ·all is at most the bound of its cell.
func (e event) draw(r *rand.Rand, m int) (z float64, g []float64) {
	if e.to == nil {
		return -math.Sqrt2 * math.Erfcinv(2*e.p*(1-r.Float64())), nil
	}
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
	good := e.above(r, z, m)
	for j := range g {
		if left := m - j; good > 0 && r.IntN(left) < good {
			good--
			g[j] = math.Sqrt2 * math.Erfcinv((1-share)*(1-r.Float64()))
			if r.IntN(2) == 0 {
				g[j] = -g[j]
			}
			continue
		}
		g[j] = math.Sqrt2 * math.Erfinv(share*(2*r.Float64()-1))
	}
	return z, g
}

// run plays one tape of the mixture and returns whether the run is stuck, its weight and whether an event holds.
func (l *lost) run(r *rand.Rand) (isStuck bool, weight float64, through bool) {
	m, K := l.m, len(l.groups[0].events)
	x := l.draw(r, K)
	if u := r.Float64(); u >= l.plain {
		u = (u - l.plain) / (1 - l.plain) * float64(len(l.groups))
		i := min(int(u), len(l.groups)-1)
		g := &l.groups[i]
		k := 1
		for u = (u - float64(i)) * g.total; k < K && u >= g.events[k-1].p; k++ {
			u -= g.events[k-1].p
		}
		z, models := g.events[k-1].draw(r, m)
		l.bend(x, k, z, models)
	}
	held := l.held(x)
	for _, n := range held {
		through = through || n > 0
	}
	return l.score(x) >= l.half(), l.weight(held), through
}

// weight is that of a tape on which so many events of each group hold.
func (l *lost) weight(held []int) float64 {
	sum := 0.0
	for i, n := range held {
		sum += float64(n) / l.groups[i].total / float64(len(held))
	}
	return 1 / (l.plain + float64((1-l.plain)*sum))
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
	if g == nil {
		return
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

// good counts the members with a model above the level after each number of pulls.
func (l *lost) good(x *tape) (count []int) {
	w, noise := make([]float64, l.m), 0.0
	for j := range w {
		w[j] = math.Sqrt(l.lambda) * x.walk[j]
	}
	for i, e := range l.groups[0].events {
		noise += x.noise[i]
		n := float64(i + 1)
		// a bent path may miss its end by rounding
		base, scale, good := noise/math.Sqrt(n)+e.gap-1e-9, e.sigma/math.Sqrt(l.lambda+n), 0
		for j, v := range x.walk[(i+1)*l.m : (i+2)*l.m] {
			if w[j] += v; base+float64(scale*math.Abs(w[j])) > 0 {
				good++
			}
		}
		count = append(count, good)
	}
	return count
}

// held counts the events of each group that hold on the tape.
func (l *lost) held(x *tape) []int {
	held := make([]int, len(l.groups))
	if l.groups[0].events[0].to == nil {
		noise := 0.0
		for k := range l.groups[0].events {
			noise += x.noise[k]
			for i, g := range l.groups {
				if noise/math.Sqrt(float64(k+1)) <= -g.events[k].gap+1e-9 {
					held[i]++
				}
			}
		}
		return held
	}
	for _, n := range l.good(x) {
		for i, g := range l.groups {
			if n <= g.few {
				held[i]++
			}
		}
	}
	return held
}

// estimate returns the estimate of n runs. A run is on a plain tape, stuck and through no event with probability
// plain·P(stuck and through no event), so that the exact binomial bound on the former gives guess.most.
func (l *lost) estimate(r *rand.Rand, n int) (g guess) {
	sum, square := 0.0, 0.0
	for range n {
		isStuck, w, through := l.run(r)
		if isStuck {
			sum += w
			square += w * w
			if !through {
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
