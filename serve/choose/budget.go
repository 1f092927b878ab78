package choose

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"troupe/bandit"
	"troupe/policy"
	"troupe/serve/model"
)

// market is what a budget does to a choice.
type market struct {
	on    bool
	price float64 // λ, in units of reward for a unit of money
	left  float64 // the largest cost that may be played

	prices  []float64 // λ·c of group g
	keep    []int     // groups that the hard stop has left, ascending
	kept    int       // their candidates
	stopped bool      // it has taken some away
	anew    bool      // the law is that of the groups of keep alone
}

// EmptyError: no action is within what the budget has left, and the model says that then none is played.
type EmptyError struct{ Left, Cheapest float64 }

// Error says in one line what is wrong.
func (e *EmptyError) Error() string {
	return fmt.Sprintf("the budget has %v left, and the cheapest action costs %v (budget.on_empty = %q)", e.Left, e.Cheapest,
		model.Refuse)
}

// CheckCosts refuses a request to a model with a budget in which an action has no cost, or the cheapest one costs more
// than the whole budget. The error is a *model.Error with the path.
func (w *Worker) CheckCosts() error {
	b := w.Version.Compiled.Config.Budget
	if b.IsZero() {
		return nil
	}
	at := 0
	if len(w.costs) > 0 {
		at = w.cheapest()
	}
	field := fmt.Sprintf("costs[%d]", w.Place(at))
	if w.each {
		field = fmt.Sprintf("actions[%d].cost", w.Place(at))
	}
	if len(w.costs) == 0 {
		return model.Invalid(field, "", "is missing: the model has a budget, so every action needs a cost")
	}
	return b.Below(field, w.IDs[w.Place(at)], w.costs[at])
}

// Budget puts the price of the version's budget on the candidates, which have costs, and finds what it has left for a
// decision at time now, in ns since 1970. Without a budget it takes both away.
func (w *Worker) Budget(now int64) {
	b := w.Version.Compiled.Config.Budget
	if w.market.on = !b.IsZero(); w.market.on {
		limit := b.Limit()
		w.market.price, w.market.left = w.Version.Spending.Price(limit), w.Version.Spending.Most(limit, now)
		if b.OnEmpty == model.Refuse { // nothing is played that is not there
			w.market.left = w.Version.Spending.Left(limit, now)
		}
	}
}

// Price puts the price of a record on the candidates, without a hard stop.
func (w *Worker) Price(price float64) {
	w.market.on, w.market.price, w.market.left = price > 0, price, math.Inf(1)
}

// cheapest is the first candidate with the smallest cost.
func (w *Worker) cheapest() int {
	best := 0
	for i, c := range w.costs {
		if c < w.costs[best] {
			best = i
		}
	}
	return best
}

// cost returns that of candidate i, 0 where the costs do not matter.
func (w *Worker) cost(i int) float64 {
	if w.market.on {
		return w.costs[i]
	}
	return 0
}

// priced returns the set with the prices of its groups.
func (w *Worker) priced(set bandit.ActionSet) (bandit.ActionSet, error) {
	m := &w.market
	m.stopped, m.anew, m.keep = false, false, m.keep[:0]
	if !m.on {
		return set, nil
	}
	m.prices = m.prices[:0]
	for _, i := range w.groups.first {
		m.prices = append(m.prices, float64(m.price*w.costs[i]))
	}
	return policy.Price(set, m.prices, nil)
}

// stop finds the groups that the hard stop leaves: those within the budget, or the cheapest. It reports whether there
// are others.
func (w *Worker) stop() (bool, error) {
	m, g := &w.market, &w.groups
	collect := func(most float64) {
		m.keep, m.kept = m.keep[:0], 0
		for k, i := range g.first {
			if w.costs[i] <= most {
				m.keep, m.kept = append(m.keep, k), m.kept+g.size[k]
			}
		}
	}
	if collect(m.left); len(m.keep) == 0 {
		cheapest := w.costs[w.cheapest()]
		if w.Version.Compiled.Config.Budget.OnEmpty == model.Refuse {
			return false, &EmptyError{m.left, cheapest}
		}
		collect(cheapest)
	}
	m.stopped = len(m.keep) < len(g.first)
	k := 0
	for x, votes := range g.votes { // without a vote for what was taken away the law is what it was
		if k < len(m.keep) && m.keep[k] == x {
			k++
		} else if votes > 0 {
			m.anew = true
		}
	}
	return m.stopped, nil
}

// expects returns what a decision costs in expectation under the votes and the floor,
//
//	(1 − ε)·Σ_g votes_g/V·c_g + ε/K·Σ_i c_i.
func (w *Worker) expects() float64 {
	g, c := &w.groups, w.Version.Compiled
	var law, all float64
	for k, i := range g.first {
		law += float64(float64(g.votes[k]) / float64(g.total) * w.costs[i])
		all += float64(float64(g.size[k]) * w.costs[i])
	}
	e := float64(c.FloorNum) / float64(c.FloorDen)
	return float64((1-e)*law) + float64(e*(all/float64(len(g.of))))
}

// remains reports whether the hard stop has left a group.
func (m *market) remains(group int) bool {
	if !m.stopped {
		return true
	}
	for _, k := range m.keep {
		if k == group {
			return true
		}
	}
	return false
}

// wholeLaw is the law of what the hard stop has left with the floor in it, as votes of each candidate:
//
//	((b−a)·c·K' + a·V·g)·(L/g)  of  b·V·K'·L,   ε = a/b,
//
// and the floors of actions that have entered over it (see floors). K' candidates are left, L is the least common
// multiple of the sizes g of their groups. Where that is above 2⁵³ it is rounded to 2⁵³, and the largest takes the
// rest.
//
// Where floors and caps have clipped the law it is theirs.
func (w *Worker) wholeLaw() (law []uint64, voters uint64) {
	if w.limits.on {
		if w.limits.den <= 1<<53 {
			return slices.Clone(w.limits.num), w.limits.den
		}
		return w.roundedLaw(func(int) bool { return true })
	}
	g, m := &w.groups, &w.market
	a, b, k := w.Version.Compiled.FloorNum, w.Version.Compiled.FloorDen, uint64(len(g.of))
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
	l := uint64(1)
	for x, size := range g.size {
		if !left[x] {
			continue
		}
		if l = lcm(l, uint64(size)); l == 0 {
			break
		}
	}
	law = make([]uint64, len(g.of))
	voters = product(product(g.total, l), product(b, k))
	unit := uint64(1)
	if w.floors.sum > 0 {
		unit = floorUnit
	}
	if all := product(voters, unit); all > 0 && all <= 1<<53 {
		for i, x := range g.of {
			if size := uint64(g.size[x]); left[x] {
				law[i] = ((b-a)*g.votes[x]*k + a*g.total*size) * (l / size)
			}
			if unit > 1 {
				law[i], _ = w.floors.floored(i, law[i], voters)
			}
		}
		return law, all
	}
	return w.roundedLaw(func(i int) bool { return left[g.of[i]] })
}

// roundedLaw is the law as parts of 2⁵³, of which the largest takes what rounding leaves.
func (w *Worker) roundedLaw(left func(i int) bool) (law []uint64, voters uint64) {
	law, voters = make([]uint64, len(w.groups.of)), 1<<53
	var sum uint64
	most := 0
	for i := range law {
		if !left(i) {
			continue
		}
		num, den := w.Propensity(i)
		law[i] = uint64(float64(num) / float64(den) * (1 << 53))
		if sum += law[i]; law[i] > law[most] {
			most = i
		}
	}
	law[most] += voters - sum
	return law, voters
}

// product returns x·y, 0 where it is above 2⁶³.
func product(x, y uint64) uint64 {
	if hi, lo := bits.Mul64(x, y); hi == 0 && lo <= 1<<63 {
		return lo
	}
	return 0
}

// lcm returns the least common multiple of numbers above 0, 0 where it is too large.
func lcm(a, b uint64) uint64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return product(a/x, b)
}
