// Package budget is the price of spending: a dual price that is moved so that what is spent stays within a budget, and
// the hard stop behind it. It is a rule on numbers. The simulator and the server use the same one.
//
// A policy that heeds a budget plays the action with the largest
//
//	r(a) − λ·c(a),
//
// r its reward, c its cost in units of money, λ the price in units of reward for a unit of money. That is the
// Lagrangian of: the largest mean reward with a mean cost of at most b. λ is the multiplier of the constraint; its
// gradient is b less the expected cost of a decision.
//
// [Pacer] holds μ = λ·b, in units of reward, and moves it by mirror descent in its logarithm. With E the cost that a
// decision expects under the law of the policy at this price, before the hard stop takes anything away,
//
//	B = granted − spent − reserved,  target = max(b/5, b + B/100),
//	μ ← μ·exp(η·min(E/target − 1, 2)),  η = 0.015,  10⁻⁶ ≤ μ ≤ 10.
//
// E is known exactly where the law is, so the gradient has not the noise of the one action that was drawn. The balance
// B takes back within about a hundred decisions what was spent too much, or not spent. A step changes μ by at most 3 %.
// The descent is that of Balseiro, Lu and Mirrokni, "The Best of Many Worlds: Dual Mirror Descent for Online Allocation
// Problems" (Operations Research 71, 2023), with the entropy as reference; their theorem (regret O(√T) against the best
// policy within the budget) is for known rewards and for E − b as the gradient, not for the balance nor for learned
// rewards.
//
// The hard stop: an action is played only when its cost is at most [Pacer.Most], which is what is left, and with Mean
// at least b while no more than 40·b is spent too much. So what is spent exceeds what was granted by no more than what
// costs turn out larger than they were stated, and by the decisions that are made before one another's record is
// folded: while it does not exceed, at least b is left; while it does, an action of at most b adds nothing to the
// excess, and the price takes that back. Costs that are always larger than stated end at the excess of 40·b. Where no
// action is within the stop the caller plays the cheapest, or none.
package budget

import (
	"fmt"
	"math"
	"time"

	"troupe/internal/logs"
)

// Limit is a budget: Mean money for each decision, or Total money for each day.
type Limit struct {
	Mean  float64 // for a decision; 0 where Total is given
	Total float64 // for a day of UTC; 0 where Mean is given
	Carry bool    // a day begins with what the day before has left, or has spent too much
}

// Error refuses a field of a Limit.
type Error struct {
	Field string // mean, total or carry; "" for the limit itself
	Text  string // what was found and what was expected
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Text
	}
	return e.Field + " " + e.Text
}

// Check returns an *Error unless exactly one of Mean and Total is positive, and finite.
func (l Limit) Check() error {
	switch {
	case l.Mean != 0 && l.Total != 0:
		return &Error{"total", fmt.Sprintf("is %v beside mean = %v, expected one of them", l.Total, l.Mean)}
	case l.Mean == 0 && l.Total == 0:
		return &Error{"", "is empty, expected mean, money for a decision, or total, money for a day"}
	case !good(l.Mean):
		return &Error{"mean", fmt.Sprintf("is %v, expected money for a decision, from %v to %v", l.Mean, Least, Most)}
	case !good(l.Total):
		return &Error{"total", fmt.Sprintf("is %v, expected money for a day, from %v to %v", l.Total, Least, Most)}
	case l.Carry && l.Total == 0:
		return &Error{"carry", "is true, and goes with total"}
	}
	return nil
}

// Most is the largest cost and the largest budget, and Least the smallest budget that is not 0.
const (
	Most  = 1e15
	Least = 1e-15
)

// good reports whether v is 0, or a budget.
func good(v float64) bool { return v == 0 || v >= Least && v <= Most }

// Cost returns an error unless v is a cost: at least 0 and at most Most.
func Cost(v float64) error {
	if !(v >= 0 && v <= Most) {
		return fmt.Errorf("is %v, expected a cost from 0 to %v", v, Most)
	}
	return nil
}

// Constants of the rule. docs/record/budget.md has what others give.
const (
	first   = .1     // μ before the first decision
	step    = .015   // η
	largest = 2      // of E/target − 1
	lowest  = 1e-6   // μ
	highest = 10     // μ
	slack   = 100    // decisions in which the balance is taken back
	least   = 1. / 5 // of the target, in units of b
	far     = 40     // of an excess, in units of b, from which on the stop is on all that is spent
	guess   = 1000   // decisions of a day, before two have been seen
	gaps    = 100    // decisions over which the time between them is averaged
)

// Day is a day of the log's clock, in nanoseconds.
const Day = int64(24 * time.Hour)

// Pacer is the state of a budget: the price and what was spent. It is a fold over decisions and payments, and has equal
// bits for equal calls on every machine. The zero value is before the first decision. Not safe for concurrent use; a
// copy is a state of its own.
type Pacer struct {
	Mu        float64 // λ·b in units of reward, 0 before the first decision
	Granted   float64 // for the decisions so far; of Total: this day's money and what was carried
	Spent     float64 // of the same time
	Reserved  float64 // for decisions whose cost is not known yet
	Gap       float64 // ns between decisions, 0 before two
	Last      int64   // time of the last decision
	Day       int64   // number of the day since 1970, of Total
	Decisions uint64
	Stopped   uint64  // decisions in which the hard stop took actions away
	Paid      float64 // of all time
	Expected  float64 // Σ E of all decisions
}

// mu returns μ, also before the first decision.
func (p *Pacer) mu() float64 {
	if p.Mu == 0 {
		return first
	}
	return p.Mu
}

// base returns b, the money for a decision.
func (p *Pacer) base(l Limit) float64 {
	if l.Mean > 0 {
		return l.Mean
	}
	if p.Gap > 0 {
		return min(l.Total, l.Total*(p.Gap/float64(Day)))
	}
	return l.Total / guess
}

// Price returns λ in units of reward for a unit of money.
func (p *Pacer) Price(l Limit) float64 { return p.mu() / p.base(l) }

// Most returns the largest cost of an action that a decision at time now, in ns since 1970, may play.
func (p *Pacer) Most(l Limit, now int64) float64 {
	left := p.Left(l, now)
	if left < -float64(far*l.Mean) {
		return left
	}
	return max(left, l.Mean)
}

// Left returns what a decision at time now, in ns since 1970, has left: less than 0 after costs that were larger than
// they were stated.
func (p *Pacer) Left(l Limit, now int64) float64 {
	q := *p
	q.open(l, now)
	if l.Mean > 0 {
		return q.Granted + l.Mean - q.Spent - q.Reserved
	}
	return q.Granted - q.Spent - q.Reserved
}

// open begins the day of now. A clock that stands or goes back stays in the day it is in.
func (p *Pacer) open(l Limit, now int64) {
	day := now / Day
	if l.Total == 0 || p.Decisions > 0 && day <= p.Day {
		return
	}
	left := 0.0
	if l.Carry && p.Decisions > 0 {
		left = p.Granted - p.Spent + float64(l.Total*float64(day-p.Day-1))
	}
	p.Day, p.Granted, p.Spent = day, l.Total+left, 0
}

// Decide moves the price by a decision at time now: expects is E, reserve the stated cost of the action that is played,
// and stopped says that the hard stop took actions away.
func (p *Pacer) Decide(l Limit, now int64, expects, reserve float64, stopped bool) {
	p.open(l, now)
	if p.Decisions > 0 {
		gap := float64(max(0, now-p.Last))
		if p.Gap == 0 {
			p.Gap = gap
		} else {
			p.Gap += float64((gap - p.Gap) / gaps)
		}
	}
	p.Last = max(p.Last, now)
	p.Decisions++
	if stopped {
		p.Stopped++
	}
	p.Granted += l.Mean
	p.Reserved += reserve
	p.Expected += expects
	b := p.base(l)
	target := max(float64(least*b), b+float64(p.balance(l, now)/slack))
	g := min(expects/target-1, largest)
	p.Mu = min(highest, max(lowest, float64(p.mu()*logs.Exp(float64(step*g)))))
}

// balance returns what was granted and neither spent nor reserved. The money of a day is granted by the clock.
func (p *Pacer) balance(l Limit, now int64) float64 {
	granted := p.Granted
	if l.Total > 0 {
		granted -= float64(l.Total * (1 - float64(now-p.Day*Day)/float64(Day)))
	}
	return granted - p.Spent - p.Reserved
}

// Pay replaces what was reserved for a decision by what it cost.
func (p *Pacer) Pay(reserved, cost float64) {
	p.Reserved = max(0, p.Reserved-reserved)
	p.Spent += cost
	p.Paid += cost
}

// Change carries the price over to another limit: λ stays where b changes. Another kind of limit begins anew with what
// is reserved.
func (p *Pacer) Change(from, to Limit) {
	if (from.Mean > 0) != (to.Mean > 0) {
		*p = Pacer{Reserved: p.Reserved}
		return
	}
	if p.Mu > 0 {
		p.Mu = min(highest, max(lowest, float64(p.Mu*(p.base(to)/p.base(from)))))
	}
	if p.Granted > 0 {
		p.Granted += to.Total - from.Total
	}
}

// Numbers lists the state for a snapshot; Set is its inverse.
func (p *Pacer) Numbers() [11]float64 {
	return [...]float64{p.Mu, p.Granted, p.Spent, p.Reserved, p.Gap, math.Float64frombits(uint64(p.Last)), float64(p.Day),
		float64(p.Decisions), float64(p.Stopped), p.Paid, p.Expected}
}

// Set replaces the state by numbers that Numbers returned. Others are an error and leave it as it was.
func (p *Pacer) Set(v [11]float64) error {
	for i, x := range v {
		if i != 5 && x-x != 0 || i != 1 && i != 5 && x < 0 {
			return fmt.Errorf("number %d of a budget's state is %v", i, x)
		}
	}
	*p = Pacer{Mu: v[0], Granted: v[1], Spent: v[2], Reserved: v[3], Gap: v[4], Last: int64(math.Float64bits(v[5])),
		Day: int64(v[6]), Decisions: uint64(v[7]), Stopped: uint64(v[8]), Paid: v[9], Expected: v[10]}
	return nil
}
