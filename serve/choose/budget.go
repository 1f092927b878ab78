package choose

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/policy"
	"troupe/serve/model"
)

// market is what a budget does to a choice: it puts a price on the groups of candidates, and takes away those that cost
// more than the budget has left.
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
	return fmt.Sprintf("the budget has %v left, and the cheapest action costs %v (budget.on_empty = %q)", e.Left,
		e.Cheapest, model.Refuse)
}

// open takes the price of the version's budget and what it has left for a decision at time now, in ns since 1970.
// Without a budget it takes both away.
func (m *market) open(v *Version, now int64) {
	b := v.Compiled.Config.Budget
	if m.on = !b.IsZero(); m.on {
		limit := b.Limit()
		m.price, m.left = v.Spending.Price(limit), v.Spending.Most(limit, now)
		if b.OnEmpty == model.Refuse { // nothing is played that is not there
			m.left = v.Spending.Left(limit, now)
		}
	}
}

// recorded takes the price of a record, without a hard stop; 0 is none.
func (m *market) recorded(price float64) { m.on, m.price, m.left = price > 0, price, math.Inf(1) }

// priced returns the set with the prices of its groups.
func (m *market) priced(set bandit.ActionSet, g *groups) (bandit.ActionSet, error) {
	m.stopped, m.anew, m.keep = false, false, m.keep[:0]
	if !m.on {
		return set, nil
	}
	m.prices = m.prices[:0]
	for _, i := range g.first {
		m.prices = append(m.prices, float64(m.price*g.costs[i]))
	}
	return policy.Price(set, m.prices, nil)
}

// stop finds the groups that the hard stop leaves: those within the budget, or the cheapest. It reports whether there
// are others.
func (m *market) stop(g *groups) (bool, error) {
	collect := func(most float64) {
		m.keep, m.kept = m.keep[:0], 0
		for k, i := range g.first {
			if g.costs[i] <= most {
				m.keep, m.kept = append(m.keep, k), m.kept+g.size[k]
			}
		}
	}
	if collect(m.left); len(m.keep) == 0 {
		cheapest := g.costs[cheapest(g.offer.costs)]
		if g.offer.compiled.Config.Budget.OnEmpty == model.Refuse {
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
