package ope

import (
	"math"

	"troupe/logged"
)

// The interval for a number of decisions n that was fixed beforehand, in a world that does not change.
//
// For φ_i(k) ≥ −c_k whose conditional mean given the past is V in every round, and for λ_i and k_i that depend on the past only,
//
//	Π_i (1 + λ_i(φ_i(k_i) + c_{k_i})) / (1 + λ_i(V + c_{k_i}))
//
// is a nonnegative martingale from 1: the betting martingale of Waudby-Smith and Ramdas (2024), which bets the share
// b = λ/(1 + λ(m + c)) < 1/(m + c) on φ − m. It exceeds 1/α with probability at most α (Ville), and it falls in V, so the V where
// it is 1/α is a lower bound. The bet is their one for a fixed n,
//
//	b_i = √(2 log(1/α)/(n σ̂²_{i−1})),   at most ½ of what is allowed,
//
// and k_i is the one whose radius σ̂ √(2 log(1/α)/n) + (c + m̂) log(1/α)/(3n) is the smallest. Unlike the mixture of capital it
// pays for no choice of λ and k. It does not hold for a V that drifts: Jensen's step needs one λ for all rounds.
//
// The bets need n while the log is read, and memory must not grow with it: there is one sequence of bets for each n = 2ʲ, those
// that n has passed are dropped, and at the end the nearest one counts. n is not random, so neither is that choice; bets for an
// n that is wrong by √2 cost 1.5 % of the width.
type endSide struct {
	shift  []float64
	logs   float64 // log(1/α)
	n      int
	sum    [len(clips)]float64 // of φ(k) + c
	square [len(clips)]float64 // of its squared distance to the running mean, as in Welford's method
	first  int                 // bets[0] is for n = 2^first
	bets   []bets
	next   int // event before which bets are made anew
	// What the laws and the rewards let expect of the variance: Σ E[w²|x] and Σ r'.
	second, level float64
}

// bets is one sequence of bets: what is bet on the next event, the capital, and which bets were made how often.
type bets struct {
	now     span
	capital float64 // product of 1 + λ(φ + c), without its exponent
	exp     int64
	spans   []span
}

type span struct {
	k      int
	lambda float64
	n      int
}

// Tunings are for n = 2⁴ to 2³⁴.
const (
	leastEnd = 4
	mostEnd  = 34
)

// mostStake is the largest share of b that is bet, as in Waudby-Smith and Ramdas.
const mostStake = 0.5

func newEndSide(alpha float64, shift ...float64) *endSide {
	s := &endSide{shift: shift, logs: math.Log(1 / alpha), first: leastEnd, bets: make([]bets, mostEnd-leastEnd+1)}
	for i := range s.bets {
		s.bets[i].capital = 1
	}
	return s
}

// place decides the bets on the next events from those that came.
func (s *endSide) place() {
	for s.first < mostEnd && float64(s.n) > math.Sqrt2*math.Ldexp(1, s.first) {
		s.first, s.bets = s.first+1, s.bets[1:]
	}
	var mean, sd [len(clips)]float64
	t := float64(s.n)
	// Until there were some events whose weight is not small, their squares say little, and bets that are large until one comes
	// and small behind it lose.
	few, variance := 1.0, 0.25
	if s.n > 0 {
		few = max(s.second/t, 1)
		variance = few * (0.5 + s.level) / (t + 1)
	}
	for k := range s.shift {
		mean[k] = (0.5 + s.shift[k] + s.sum[k]) / (t + 1)
		sd[k] = math.Sqrt((few*variance + s.square[k]) / (few + t))
	}
	for i := range s.bets {
		n := math.Ldexp(1, s.first+i)
		best, least := 0, math.Inf(1)
		for k := range s.shift {
			if r := sd[k]*math.Sqrt(2*s.logs/n) + mean[k]*s.logs/(3*n); r < least {
				best, least = k, r
			}
		}
		m := mean[best]
		b := min(math.Sqrt(2*s.logs/n)/sd[best], mostStake/m)
		s.bets[i].turn(span{k: best, lambda: b / (1 - b*m)})
	}
	s.next = s.n + 1 + s.n/32
}

// turn begins to bet something else.
func (b *bets) turn(next span) {
	if b.now.n > 0 {
		b.spans = append(b.spans, b.now)
	}
	b.now = next
}

// add takes φ(k) of the next event, the mean of w² that the laws let expect, or w² without a law, and its reward in [0, 1].
func (s *endSide) add(phi []float64, second, reward float64) {
	if s.n >= s.next {
		s.place()
	}
	var y [len(clips)]float64
	t := float64(s.n + 1)
	for k, c := range s.shift {
		y[k] = max(phi[k]+c, 0)
		before := 0.0
		if s.n > 0 {
			before = y[k] - s.sum[k]/(t-1)
		}
		s.sum[k] += y[k]
		s.square[k] += before * (y[k] - s.sum[k]/t)
	}
	s.n++
	s.second += second
	s.level += reward
	for i := range s.bets {
		b := &s.bets[i]
		b.now.n++
		b.capital *= 1 + b.now.lambda*y[b.now.k]
		if b.capital > 1<<400 {
			f, n := frexp(b.capital)
			b.capital, b.exp = f, b.exp+n
		}
	}
}

// bound returns the lower bound of V in [lo, hi] for the n that came.
func (s *endSide) bound(lo, hi float64) float64 {
	if s.n == 0 {
		return lo
	}
	at := min(max(int(math.Round(math.Log2(float64(s.n)))), s.first), mostEnd) - s.first
	b := &s.bets[at]
	logs := math.Log(b.capital) + float64(b.exp)*math.Ln2 - s.logs
	over := func(v float64) float64 {
		x := logs
		for _, p := range b.spans {
			x -= float64(p.n) * math.Log1p(p.lambda*(v+s.shift[p.k]))
		}
		return x - float64(b.now.n)*math.Log1p(b.now.lambda*(v+s.shift[b.now.k]))
	}
	at0, end := over(lo), over(hi)
	switch {
	case at0 < 0:
		return lo
	case end >= 0:
		return hi
	}
	lo, _ = root(over, lo, hi, at0, end)
	return lo
}

// endTerms are the terms of one event for one target.
type endTerms struct {
	lo, up   [len(clips)]float64 // φ(k) of both sides
	upliftLo [len(clips)]float64
	upliftUp [len(clips)]float64
	plain    [2]float64
	second   float64
	reward   float64
	lawful   bool
}

// twoEnd is a lower and an upper side.
type twoEnd struct{ lower, upper *endSide }

func newTwoEnd(alpha float64, shift ...float64) twoEnd {
	return twoEnd{newEndSide(alpha, shift...), newEndSide(alpha, shift...)}
}

// endSums are the intervals of a target for a fixed n.
type endSums struct{ ips, dr, uplift, plain twoEnd }

func newEndSums(level float64) *endSums {
	alpha := (1 - level) / 2
	var shift []float64
	for _, k := range clips {
		shift = append(shift, k+2)
	}
	return &endSums{newTwoEnd(alpha, 0), newTwoEnd(alpha, clips[:]...), newTwoEnd(alpha, shift...), newTwoEnd(alpha, 1)}
}

// take adds events in the order of the log.
func (s *endSums) take(terms []endTerms) {
	for i := range terms {
		x := &terms[i]
		s.ips.lower.add(x.lo[:1], x.second, x.reward)
		s.ips.upper.add(x.up[:1], x.second, 1-x.reward)
		s.plain.lower.add(x.plain[:1], x.second, x.reward)
		s.plain.upper.add(x.plain[1:], x.second, 1-x.reward)
		if !x.lawful {
			continue
		}
		s.dr.lower.add(x.lo[:], x.second, x.reward)
		s.dr.upper.add(x.up[:], x.second, 1-x.reward)
		s.uplift.lower.add(x.upliftLo[:], x.second, x.reward)
		s.uplift.upper.add(x.upliftUp[:], x.second, 1-x.reward)
	}
}

// mostEnded is of how many targets there is an interval for a fixed n: an event keeps 200 bytes for each until its block is
// merged.
const mostEnded = 16

// keepEnd keeps the terms of an event, which sequences has made.
func (w *worker) keepEnd(ta *targetSums, t int, ev *logged.Event, second float64) {
	l, i := &w.late.targets[t], w.late.n
	x := endTerms{lo: l.sides.lo[i], up: l.sides.up[i], plain: [2]float64{l.plain[0][i], l.plain[1][i]}, second: second,
		lawful: ev.Law != nil}
	if x.lawful {
		x.upliftLo, x.upliftUp = l.uplift[0][i], l.uplift[1][i]
	} else {
		x.second = w.x.w * w.x.w
	}
	if !ev.BadReward {
		x.reward = min(max((ev.Reward-w.p.min)/w.p.scale, 0), 1)
	}
	ta.terms = append(ta.terms, x)
}

// changes is why two sides that contradict each other give no interval: the sequence may be right all the same.
const changes = "no interval for this n: its two sides contradict each other, so the world changed on the way, or the " +
	"propensities, the range or q are wrong"

// noEnd says why a target has no interval for a fixed n, "" where it has one.
func (e *evidence) noEnd(learns bool) string {
	switch no := e.noSequence(); {
	case no != "":
		return no
	case learns:
		return "the target learns, so its value is not the same in all rounds"
	case e.p.lists:
		return "the log has lists"
	}
	return ""
}

// valueAtEnd is the interval of a value in units of the rewards.
func (p *plan) valueAtEnd(s *twoEnd) (*Pair, error) {
	switch {
	case !finite(p.rewards[1]):
		return &Pair{p.min + s.lower.bound(0, unboundedValue), math.Inf(1)}, nil
	case !finite(p.rewards[0]):
		return &Pair{math.Inf(-1), p.rewards[1] - s.upper.bound(0, unboundedValue)}, nil
	}
	lo, hi := s.lower.bound(0, 1), 1-s.upper.bound(0, 1)
	if lo > hi {
		return nil, errContradict
	}
	return &Pair{p.min + p.scale*lo, p.min + p.scale*hi}, nil
}

// differenceAtEnd is the interval of the difference.
func (e *evidence) differenceAtEnd(ta *targetSums) (*Pair, error) {
	s := &ta.end.uplift
	if e.total.noLaw > 0 || e.cross != nil {
		s = &ta.end.plain
	}
	lo, hi := s.lower.bound(-1, 1), -s.upper.bound(-1, 1)
	if lo > hi {
		return nil, errContradict
	}
	x, err := cut(lo, hi, ta.like.most(e.total.once()))
	return &Pair{e.p.scale * x[0], e.p.scale * x[1]}, err
}
