package choose

import (
	"cmp"
	"math/bits"
	"slices"

	"troupe/rng"
)

// limits are the floors and caps of actions (model.Config.Floors, Caps). Let q be the law that the policy, the price,
// the hard stop, the floor ε of all candidates and the floors of actions that have entered give, f_i the floor of
// candidate i (0 without one, the larger one where it has entered with a floor) and c_i its cap (1 without one). The
// law is clipped, and what is left is shared in proportion:
//
//	p_i = min(c_i, max(f_i, t·q_i)),   t such that Σ p_i = 1.
//
// It is the law between the floors and the caps that is nearest to q in relative entropy KL(p‖q). Where q itself lies
// between them t is 1 and p = q, and the draw is that of q.
//
// There is such a t. S(t) = Σ min(c_i, max(f_i, t·q_i)) is continuous and does not fall, S(0) = Σ f_i ≤ 1 because
// floors that sum to more are refused, and S(∞) = Σ_{q_i>0} c_i + Σ_{q_i=0} f_i. Where S(∞) < 1 all candidates with
// q_i > 0 have their caps, and what is left is shared among the others in the same way with q_i = 1: this is the limit
// of the law for (1−δ)·q + δ/K, δ → 0. Where even Σ c_i < 1 no law keeps the caps. Offer.Read refuses such a request;
// when the hard stop of a budget has left such candidates, or such ones are evaluated, p_i = c_i/Σ c.
//
// Every candidate that may be played keeps a positive probability: with F = Σ f_i, 1 = S(t) ≤ Σ (f_i + t·q_i) = F + t,
// so t ≥ 1 − F and
//
//	p_i ≥ min(c_i, (1 − F)·q_i),
//
// above 0 where q_i > 0 and F < 1; with a floor ε, q_i ≥ ε/K. With F = 1 only actions with floors are played.
//
// The law is exact. q_i = n_i/V with integers, f_i and c_i are multiples of 1/u, u = eventlog.FloorUnit. With N = Σ n_i
// of the candidates that are not clipped and R/u what the clipped ones leave, t·q_i = R·n_i/(u·N): all p_i are integers
// over u·N, and a uniform number below u·N draws them. Where V is above 2⁴³, q is rounded to 42 bits before it is
// clipped, each n_i > 0 to 1 at least: what is drawn and what is recorded are the same law in any case.
type limits struct {
	on        bool // the law is clipped
	low, high []uint64
	gone      []bool // taken away by the hard stop
	n         []uint64
	edges     []edge
	state     []state
	num       []uint64
	den       uint64
}

// state says where a candidate is.
type state byte

const (
	atLow state = iota
	free
	atHigh
)

// edge is where, as t grows, a candidate leaves its floor or meets its cap: at t = x/n, in units of V/u.
type edge struct {
	x, n uint64
	i    int
	cap  bool
}

const maxVotes = 1 << 43

// countsOf reduces a law, and rounds it to at most maxVotes.
func countsOf(law []uint64, voters uint64) []uint64 {
	g := voters
	for _, n := range law {
		g = gcd(g, n)
	}
	for i := range law {
		law[i] /= g
	}
	if voters /= g; voters <= maxVotes {
		return law
	}
	shift := bits.Len64(voters) - bits.Len64(maxVotes) + 1
	for i, n := range law {
		if n > 0 {
			law[i] = max(1, n>>shift)
		}
	}
	return law
}

// fill finds t, and with it num and den.
func (l *limits) fill() {
	l.state = append(l.state[:0], make([]state, len(l.n))...)
	taken := uint64(0)
	for _, x := range l.low {
		taken += x
	}
	taken, weight := l.walk(taken, func(n uint64) uint64 { return n })
	if weight == 0 && taken < floorUnit { // all with votes have their caps
		taken, weight = l.walk(taken, func(n uint64) uint64 {
			if n == 0 {
				return 1
			}
			return 0
		})
	}
	k := len(l.n)
	l.num, l.den = slices.Grow(l.num[:0], k)[:k], floorUnit*max(1, weight)
	if weight == 0 && taken < floorUnit { // no law keeps the caps
		l.den = taken
	}
	for i, n := range l.n {
		switch l.state[i] {
		case atLow:
			l.num[i] = l.low[i] * max(1, weight)
		case atHigh:
			l.num[i] = l.high[i] * max(1, weight)
		case free:
			l.num[i] = (floorUnit - taken) * max(1, n) // n = 0: of the second walk
		}
	}
	g := l.den
	for _, n := range l.num {
		g = gcd(g, n)
	}
	for i := range l.num {
		l.num[i] /= g
	}
	l.den /= g
}

// walk lets t grow until the probabilities of the candidates with weights sum to 1 with what the others have, and
// returns what the clipped ones take, and the weights of the free ones. before is what they take at first.
func (l *limits) walk(before uint64, weigh func(n uint64) uint64) (taken, weight uint64) {
	taken, l.edges = before, l.edges[:0]
	for i, n := range l.n {
		x := weigh(n)
		if l.gone[i] || x == 0 {
			continue
		}
		if l.low[i] == 0 {
			l.state[i], weight = free, weight+x
		} else {
			l.edges = append(l.edges, edge{l.low[i], x, i, false})
		}
		if l.high[i] < floorUnit {
			l.edges = append(l.edges, edge{l.high[i], x, i, true})
		}
	}
	slices.SortFunc(l.edges, func(a, b edge) int {
		switch {
		case less(a.x, b.n, b.x, a.n):
			return -1
		case less(b.x, a.n, a.x, b.n):
			return 1
		case a.i != b.i:
			return cmp.Compare(a.i, b.i)
		case a.cap:
			return 1
		}
		return -1
	})
	for _, e := range l.edges {
		if taken >= floorUnit || !less(weight, e.x, floorUnit-taken, e.n) {
			break // the sum is 1 before the edge, or at it
		}
		if e.cap {
			l.state[e.i], taken, weight = atHigh, taken+l.high[e.i], weight-e.n
		} else {
			l.state[e.i], taken, weight = free, taken-l.low[e.i], weight+e.n
		}
	}
	return taken, weight
}

// drawn returns the candidate that a number of the source plays.
func (l *limits) drawn(source rng.Source) int {
	n := uint64(source.Sub(4).Intn(0, int(l.den)))
	for i, parts := range l.num {
		if n < parts {
			return i
		}
		n -= parts
	}
	panic("choose: the clipped law sums to less than 1")
}

// propensity returns p_i.
func (l *limits) propensity(i int) (num, den uint64) {
	g := gcd(l.num[i], l.den)
	return l.num[i] / g, l.den / g
}
