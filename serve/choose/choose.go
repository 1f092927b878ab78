package choose

import (
	"fmt"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/policy"
	"troupe/rng"
)

// Choice is a draw from the law of a version.
type Choice struct {
	Index    int // among the candidates
	Num, Den uint64
	Member   uint32 // the policy's member that was drawn, 0 when it has none
	Negative bool   // with the sign −1
	// Of a budget, 0 without one: λ; what the decision costs in expectation before the hard stop; whether that has
	// taken actions away.
	Price, Expects float64
	Stopped        bool
	Floored        bool // candidates that have entered have floors, or floors and caps have clipped the law
	// Group is set by Worker.Group.
	Group eventlog.Group
	Point Point // where in the cell numbers are played
}

// Choose draws an action from the version's law under the floor. It depends on the version, the
// candidates and the nonce and on nothing else. Candidates that the policy cannot tell apart share the
// probability of their group equally. Without shared, for more candidates than a record has a law of (MaxLaw), the
// first of them has all of it.
func (w *Worker) Choose(nonce eventlog.ID, shared bool) (Choice, error) {
	w.control = control{}
	if shared || w.Offer.hashed != nil || w.law.market.on {
		return w.share(nonce)
	}
	v := w.Version
	w.law.alone()
	set, err := actionset.FiniteOf(v.Compiled.Dim, w.Offer.X)
	if err != nil {
		return Choice{}, err
	}
	k := set.Len()
	source := draw(v.Seed, v.ID, nonce)
	own := w.unit.own(v, source).Sub(0)
	if err := w.policy.Select(&w.action, set, own); err != nil {
		return Choice{}, err
	}
	if err := w.policy.Prob(&w.law.voted, set, own); err != nil {
		return Choice{}, err
	}
	c := Choice{Index: w.action.Index}
	c.Member, c.Negative = drawn(w.policy, own)
	if v.Compiled.FloorNum > 0 && source.Intn(0, int(v.Compiled.FloorDen)) < int(v.Compiled.FloorNum) {
		c.Index = source.Intn(1, k)
	}
	if len(w.law.voted.Atoms) != k || c.Index < 0 || c.Index >= k {
		return Choice{}, fmt.Errorf("the policy has a law of %d actions and chose %d of %d",
			len(w.law.voted.Atoms), c.Index, k)
	}
	c.Num, c.Den = w.law.propensity(c.Index)
	if c.Num == 0 {
		return Choice{}, fmt.Errorf("the policy chose an action of probability 0")
	}
	return c, nil
}

// Group draws the group of a choice that Choose has made with the nonce, and in the control group its action. The
// propensity becomes that of both groups together. Without a control group it returns c.
func (w *Worker) Group(nonce eventlog.ID, c Choice) Choice {
	v := w.Version
	w.control = controlled(v, w.Offer.Count())
	if w.control.parts == 0 {
		return c
	}
	source := draw(v.Seed, v.ID, nonce).Sub(controlDraw)
	c.Group = eventlog.GroupModel
	if uint64(w.unit.coin(v, source, w.control.first).Intn(0, eventlog.FloorUnit)) < w.control.parts {
		c.Group, c.Index = eventlog.GroupControl, 0
		if !w.control.first {
			c.Index = source.Intn(1, w.Offer.Count())
		}
	}
	c.Num, c.Den = w.Propensity(c.Index)
	return c
}

// share draws a group by the policy's law, a candidate of the group uniformly, and a uniform candidate in place of
// it under the floor.
func (w *Worker) share(nonce eventlog.ID) (Choice, error) {
	v, l := w.Version, &w.law
	m := &l.market
	l.groups.find(w.policy, m.on)
	whole, err := l.groups.set()
	if err != nil {
		return Choice{}, err
	}
	set, err := m.priced(whole, &l.groups)
	if err != nil {
		return Choice{}, err
	}
	source := draw(v.Seed, v.ID, nonce)
	own := w.unit.own(v, source)
	c := Choice{}
	if err := w.vote(set, own); err != nil {
		return Choice{}, err
	}
	l.floors.set(&w.Offer, v.Floors)
	l.clip()
	if m.on {
		c.Price, c.Expects = m.price, l.expects()
		if c.Stopped, err = m.stop(&l.groups); err != nil {
			return Choice{}, err
		}
		if m.anew {
			if set, err = policy.Price(whole, m.prices, m.keep); err != nil {
				return Choice{}, err
			}
			if err := w.vote(set, own); err != nil {
				return Choice{}, err
			}
		}
		if l.floors.stop(m, l.groups.of); c.Stopped {
			l.clip()
		}
	}
	c.Floored = l.floors.sum > 0 || l.limits.on
	if c.Index, err = l.chosen(w.action.Index, source, own); err != nil {
		return Choice{}, err
	}
	c.Member, c.Negative = drawn(w.policy, own.Sub(0))
	if w.Offer.Plays() {
		c.Point = point(own)
	}
	c.Num, c.Den = l.propensity(c.Index)
	if c.Num == 0 {
		return Choice{}, fmt.Errorf("the policy chose an action of probability 0")
	}
	return c, nil
}

// vote lets the policy choose a group of the set, and counts the votes of all groups.
func (w *Worker) vote(set bandit.ActionSet, source rng.Source) (err error) {
	if joint, ok := w.policy.(bandit.Joint); ok {
		err = joint.SelectProb(&w.action, &w.law.voted, set, source.Sub(0))
	} else if err = w.policy.Select(&w.action, set, source.Sub(0)); err == nil {
		err = w.policy.Prob(&w.law.voted, set, source.Sub(0))
	}
	if err != nil {
		return err
	}
	return w.law.count()
}

// one draws a candidate: a group, a candidate of it, and the coin of the floor. set holds one candidate of each group.
func (w *Worker) one(set bandit.ActionSet, source rng.Source) (int, error) {
	if err := w.policy.Select(&w.action, set, source.Sub(0)); err != nil {
		return 0, err
	}
	return w.law.chosen(w.action.Index, source, source)
}

// drawn returns the member j and whether ξ = −1 that a policy draws from a source, 0 and false when it has no members.
func drawn(p bandit.Policy, source rng.Source) (member uint32, negative bool) {
	if d, ok := p.(bandit.MemberDrawer); ok {
		j, xi := d.DrawnMember(source)
		return uint32(j), xi < 0
	}
	return 0, false
}
