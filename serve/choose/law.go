package choose

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"troupe/bandit"
	"troupe/rng"
)

// MaxLaw is the largest number of candidates whose law is recorded.
const MaxLaw = 1 << 16

// law is the law of a choice among the candidates of an offer, put together in this order: the policy's votes for the
// groups, what the hard stop of a budget leaves of them, the floor of all candidates, the floors of actions that have
// entered, and the floors and caps by action.
type law struct {
	offer  *Offer
	voted  bandit.Law // of the policy: of the groups, or of the candidates where groups.of is nil
	groups groups
	market market
	floors floors
	limits limits
}

// alone makes the law that of candidates that are not grouped, without a budget and limits.
func (l *law) alone() { l.groups.of, l.floors.sum, l.limits.on = nil, 0, false }

// count takes the votes of the groups from the law of the policy. After a hard stop that is a law of what it has left.
func (l *law) count() error {
	g, keep := &l.groups, l.market.keep
	n := len(g.first)
	if l.market.anew {
		n = len(keep)
	}
	if len(l.voted.Atoms) != n {
		return fmt.Errorf("the policy has a law of %d actions, expected %d", len(l.voted.Atoms), n)
	}
	g.count(&l.voted)
	if l.market.anew { // votes are by group
		for range len(g.first) - n {
			g.votes = append(g.votes, 0)
		}
		for k := n - 1; k >= 0; k-- {
			x := g.votes[k]
			g.votes[k] = 0
			g.votes[keep[k]] = x
		}
	}
	return nil
}

// propensity returns the probability of candidate i.
func (l *law) propensity(i int) (num, den uint64) {
	if l.limits.on {
		return l.limits.propensity(i)
	}
	if l.groups.of != nil {
		num, den = l.shared(i)
		return l.floors.floored(i, num, den)
	}
	a, b, k := l.offer.compiled.FloorNum, l.offer.compiled.FloorDen, uint64(len(l.voted.Atoms))
	atom, total := l.voted.Atoms[i], l.voted.Total
	if total > 0 && a == 0 {
		return atom.Count, total
	}
	if total > 0 {
		if hi, tk := bits.Mul64(total, k); hi == 0 {
			if hi, den := bits.Mul64(tk, b); hi == 0 {
				return (b-a)*atom.Count*k + a*total, den
			}
		}
	}
	e := float64(a) / float64(b)
	p := (1-e)*atom.P + e/float64(k)
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}

// shared is propensity in a group: with c votes for a group of g,
//
//	((b−a)·c·K + a·V·g) / (b·V·g·K).
func (l *law) shared(i int) (num, den uint64) {
	s := &l.groups
	a, b, k := l.offer.compiled.FloorNum, l.offer.compiled.FloorDen, uint64(len(s.of))
	if l.market.stopped {
		if k = uint64(l.market.kept); !l.market.remains(s.of[i]) {
			return 0, 1
		}
	}
	c, v, g := s.votes[s.of[i]], s.total, uint64(s.size[s.of[i]])
	if a == 0 {
		b, k = 1, 1
	}
	if vg := product(v, g); vg > 0 {
		if den := product(product(vg, k), b); den > 0 {
			return (b-a)*c*k + a*vg, den
		}
	}
	e := float64(a) / float64(b)
	p := (1-e)*(float64(c)/float64(v)/float64(g)) + e/float64(k)
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}

// clip puts the law between the floors and the caps of the model.
func (l *law) clip() {
	c := &l.limits
	c.on = false
	bounds := l.offer.compiled.Limits()
	if len(bounds) == 0 || l.offer.hashed == nil {
		return
	}
	k, outside := len(l.groups.of), false
	c.low, c.high = slices.Grow(c.low[:0], k)[:k], slices.Grow(c.high[:0], k)[:k]
	c.gone = slices.Grow(c.gone[:0], k)[:k]
	for i := range k {
		c.low[i], c.high[i], c.gone[i] = 0, floorUnit, !l.market.remains(l.groups.of[i])
		if b, ok := bounds[l.offer.sparse.actions[i][0].Hash]; ok {
			c.low[i], c.high[i] = part(b.Low, l.offer, i), b.High
		}
		if l.floors.sum > 0 {
			c.low[i] = min(c.high[i], max(c.low[i], l.floors.parts[i]))
		}
		if c.gone[i] {
			c.low[i], c.high[i] = 0, 0
		}
		num, den := l.propensity(i)
		outside = outside || c.low[i] > 0 && less(num, floorUnit, c.low[i], den) ||
			c.high[i] < floorUnit && less(c.high[i], den, num, floorUnit)
	}
	if outside {
		c.n = countsOf(l.whole())
		c.fill()
		c.on = true
	}
}

// chosen is the candidate of the group that the policy has chosen, number n of those it chose from, or that of the
// floor. own is the source of what the unit of the decision draws, or that of the decision.
func (l *law) chosen(n int, source, own rng.Source) (int, error) {
	g, c := &l.groups, l.offer.compiled
	if l.limits.on {
		return l.limits.drawn(own), nil
	}
	if i := l.floors.drawn(source); i >= 0 {
		return i, nil
	}
	of := len(g.first)
	if l.market.anew {
		of = len(l.market.keep)
	}
	if n < 0 || n >= of {
		return 0, fmt.Errorf("the policy chose %d of %d", n, of)
	}
	if c.FloorNum > 0 && source.Intn(0, int(c.FloorDen)) < int(c.FloorNum) {
		if l.market.stopped {
			return l.remaining(source.Intn(1, l.market.kept)), nil
		}
		return source.Intn(1, len(g.of)), nil
	}
	if l.market.anew {
		n = l.market.keep[n]
	}
	return g.member(n, own.Sub(2).Intn(0, g.size[n])), nil
}

// remaining returns candidate number n of those that the hard stop has left.
func (l *law) remaining(n int) int {
	for i, of := range l.groups.of {
		if !l.market.remains(of) {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	panic("choose: fewer candidates are left than were counted")
}

// base returns what a decision costs in expectation under the votes and the floor,
//
//	(1 − ε)·Σ_g votes_g/V·c_g + ε/K·Σ_i c_i.
func (l *law) base() float64 {
	g, c := &l.groups, l.offer.compiled
	var law, all float64
	for k, i := range g.first {
		law += float64(float64(g.votes[k]) / float64(g.total) * g.costs[i])
		all += float64(float64(g.size[k]) * g.costs[i])
	}
	e := float64(c.FloorNum) / float64(c.FloorDen)
	return float64((1-e)*law) + float64(e*(all/float64(len(g.of))))
}

// expects returns what a decision costs in expectation under the floors and caps.
func (l *law) expects() float64 {
	if !l.limits.on {
		return l.floors.expects(l.base(), l.groups.costs)
	}
	e := 0.
	for i, n := range l.limits.num {
		e += float64(float64(n) / float64(l.limits.den) * l.groups.costs[i])
	}
	return e
}

// record returns the law in the form that Worker.Law returns.
func (l *law) record() (votes []uint64, of []uint32, voters uint64) {
	g := &l.groups
	if k := len(g.of); k < 2 || k > MaxLaw {
		return nil, nil, 0
	}
	if l.market.stopped || l.floors.sum > 0 || l.limits.on {
		votes, voters = l.whole()
		return votes, nil, voters
	}
	votes = make([]uint64, len(g.of))
	for i, n := range g.of {
		votes[i] = g.votes[n]
	}
	if len(g.first) < len(g.of) {
		of = make([]uint32, len(g.of))
		for i, n := range g.of {
			of[i] = uint32(n)
		}
	}
	return votes, of, g.total
}

// whole is the law of what the hard stop has left with the floor in it, as votes of each candidate:
//
//	((b−a)·c·K' + a·V·g)·(L/g)  of  b·V·K'·L,   ε = a/b,
//
// and the floors of actions that have entered over it (see floors). K' candidates are left, L is the least common
// multiple of the sizes g of their groups. Where that is above 2⁵³ it is rounded to 2⁵³, and the largest takes the
// rest.
//
// Where floors and caps have clipped the law it is theirs.
func (l *law) whole() (votes []uint64, voters uint64) {
	if l.limits.on {
		if l.limits.den <= 1<<53 {
			return slices.Clone(l.limits.num), l.limits.den
		}
		return l.rounded(func(int) bool { return true })
	}
	g, m := &l.groups, &l.market
	a, b, k := l.offer.compiled.FloorNum, l.offer.compiled.FloorDen, uint64(len(g.of))
	left := make([]bool, len(g.first))
	for x := range left {
		left[x] = !m.stopped
	}
	if m.stopped {
		k = uint64(m.kept)
		for _, x := range m.keep {
			left[x] = true
		}
	}
	if a == 0 {
		b, k = 1, 1
	}
	multiple := uint64(1)
	for x, size := range g.size {
		if !left[x] {
			continue
		}
		if multiple = lcm(multiple, uint64(size)); multiple == 0 {
			break
		}
	}
	votes = make([]uint64, len(g.of))
	voters = product(product(g.total, multiple), product(b, k))
	unit := uint64(1)
	if l.floors.sum > 0 {
		unit = floorUnit
	}
	if all := product(voters, unit); all > 0 && all <= 1<<53 {
		for i, x := range g.of {
			if size := uint64(g.size[x]); left[x] {
				votes[i] = ((b-a)*g.votes[x]*k + a*g.total*size) * (multiple / size)
			}
			if unit > 1 {
				votes[i], _ = l.floors.floored(i, votes[i], voters)
			}
		}
		return votes, all
	}
	return l.rounded(func(i int) bool { return left[g.of[i]] })
}

// rounded is the law as parts of 2⁵³, of which the largest takes what rounding leaves.
func (l *law) rounded(left func(i int) bool) (law []uint64, voters uint64) {
	law, voters = make([]uint64, len(l.groups.of)), 1<<53
	var sum uint64
	most := 0
	for i := range law {
		if !left(i) {
			continue
		}
		num, den := l.propensity(i)
		law[i] = uint64(float64(num) / float64(den) * (1 << 53))
		if sum += law[i]; law[i] > law[most] {
			most = i
		}
	}
	law[most] += voters - sum
	return law, voters
}
