package ope

import "math"

// sameLaw is the largest total variation at an event of two laws that count as one: what the digits of a log leave open.
const sameLaw = 1e-6

// likeness follows two laws that may be one: Σ_i ½ Σ_a |p_i(a) − p'_i(a)| while no event has more than sameLaw. Their
// values in [0, 1] are then at most the mean of it apart, with certainty and at any n. An event costs O(K) for two laws
// that are one, and the first event that tells them apart ends the count.
type likeness struct {
	n     int
	sum   float64
	apart bool
}

// add takes the total variation at an event.
func (l *likeness) add(d float64) {
	if l.apart = l.apart || !(d <= sameLaw); !l.apart {
		l.n, l.sum = l.n+1, l.sum+d
	}
}

// variation is ½ Σ_a |p(a) − q(a)|, +Inf where a law is not known.
func variation(p, q []float64) float64 {
	if len(p) != len(q) {
		return math.Inf(1)
	}
	d := 0.0
	for a, x := range p {
		d += math.Abs(x - q[a])
	}
	return d / 2
}

func (l *likeness) merge(o *likeness) {
	l.n, l.sum, l.apart = l.n+o.n, l.sum+o.sum, l.apart || o.apart
}

// most is how far apart two values in [0, 1] are at most over n events, +Inf where the laws are not one at each of them.
func (l *likeness) most(n int) float64 {
	if l.apart || l.n != n || n == 0 {
		return math.Inf(1)
	}
	return l.sum / float64(n)
}

// cut takes the part of an interval of a difference that is at most far from 0. A part that is empty contradicts.
func cut(lo, hi, far float64) (Pair, error) {
	p := Pair{max(lo, 0-far), min(hi, far)} // 0 − 0 is no negative zero
	if p[0] > p[1] {
		return Pair{}, errContradict
	}
	return p, nil
}
