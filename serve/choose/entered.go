package choose

import (
	"math"

	"troupe/rng"
	"troupe/serve/model"
)

// floors are those of actions that have entered. With f_i the floor of candidate i, F = Σ f_i over the candidates that
// may be played, and q the law that the policy, the hard stop and the floor of all candidates give,
//
//	p_i = (1 − F)·q_i + f_i.
//
// Σ p_i = (1 − F) + F = 1, p_i ≥ f_i, and p_i > 0 wherever q_i > 0 and F < 1: no candidate loses its support. A number
// below F/unit, drawn apart from every other one, plays candidate i with probability f_i; otherwise the draw is that of
// q. f_i is a multiple of 1/unit and q_i a quotient of integers, so p_i is one: with q_i = c_i/V it is (c_i·(unit − N)
// + N_i·V)/(V·unit), N_i = unit·f_i. The floor of an action that the hard stop took away has no part in F: its money is
// not there.
type floors struct {
	parts []uint64 // N_i
	sum   uint64   // N of those that may be played; 0: there is none
}

// set finds the floors of the candidates among those of a version. Candidates are known by their first atoms.
func (f *floors) set(o *Offer, of []model.ActionFloor) {
	if f.sum = 0; len(of) == 0 || o.hashed == nil {
		return
	}
	f.parts = append(f.parts[:0], make([]uint64, o.Count())...)
	for i := range f.parts {
		for _, x := range of {
			if o.sparse.actions[i][0].Hash == x.Atom {
				f.parts[i] = part(x.Parts, o, i)
				f.sum += f.parts[i]
			}
		}
	}
}

// part divides the parts of an action evenly among its cells; the first ones have one part more where that does not come out.
func part(parts uint64, o *Offer, i int) uint64 {
	cells, at := o.played.share(i)
	n := parts / uint64(cells)
	if uint64(at) < parts%uint64(cells) {
		n++
	}
	return n
}

// stop takes away the floors of what the hard stop has taken away. of has the group of each candidate.
func (f *floors) stop(m *market, of []int) {
	if f.sum == 0 || !m.stopped {
		return
	}
	for i, n := range f.parts {
		if n > 0 && !m.remains(of[i]) {
			f.parts[i], f.sum = 0, f.sum-n
		}
	}
}

// drawn returns the candidate that a floor plays, −1 when none does.
func (f *floors) drawn(source rng.Source) int {
	if f.sum == 0 {
		return -1
	}
	n := uint64(source.Sub(3).Intn(0, floorUnit))
	for i, parts := range f.parts {
		if n < parts {
			return i
		}
		n -= parts
	}
	return -1
}

// expects returns what a decision costs in expectation where the law without the floors costs q.
func (f *floors) expects(q float64, costs []float64) float64 {
	if f.sum == 0 {
		return q
	}
	e := float64(float64(floorUnit-f.sum) / floorUnit * q)
	for i, n := range f.parts {
		if n > 0 {
			e += float64(float64(n) / floorUnit * costs[i])
		}
	}
	return e
}

// floored returns p_i of q_i = num/den, as a quotient over 2⁵³ where the exact one is too large.
func (f *floors) floored(i int, num, den uint64) (uint64, uint64) {
	if f.sum == 0 {
		return num, den
	}
	if all := product(den, floorUnit); all > 0 {
		return num*(floorUnit-f.sum) + f.parts[i]*den, all
	}
	p := float64(float64(floorUnit-f.sum)/floorUnit*(float64(num)/float64(den))) +
		float64(float64(f.parts[i])/floorUnit)
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}
