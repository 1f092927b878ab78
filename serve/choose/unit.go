package choose

import (
	"math/bits"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/rng"
)

// assignment is the unit of a choice, 0 for none, and its span.
//
// A model with a unit assigns a policy to each unit for a span: what a decision draws from the law of the policy
// (member and sign, or whatever it draws, the place among candidates that are alike, and the point of a law that floors
// and caps have clipped) is a function of the unit and the span, and not of the decision. What stays the decision's own
// are the coins of the exploration floor and of the floors of actions that have entered, so that the floor is kept at
// each.
//
// By the key of the policy:
//
//	decision  a unit has m members of its own for the span, and plays one of them
//	epoch     all units share the m members of the policy's epoch, and the span is that epoch
//	fixed     all units share m members for ever; a new span gives a unit another one
//	round     refused: members last for one event
//
// Unless the policy has epochs, the span is ⌊log₂(1 + n)⌋, n the number of events that the model has learned: spans end
// after 1, 3, 7, 15, … events. A model is a function of its state too, so what a unit's member plays changes while it
// learns; its direction does not.
//
// The law of a decision is that of the draw of a unit: a count over the 2m members, exact given the state for a unit
// whose draw of this span has not been seen. Given the earlier decisions of the unit in the span its draw is known, but
// for the coins. So units are independent, and decisions of a unit are not.
type assignment struct {
	unit eventlog.ID
	span uint64
}

// assign returns the assignment of a unit, 0 for none, to a policy in the state of v.
func assign(unit eventlog.ID, v *Version, p bandit.Policy) assignment {
	if unit == 0 {
		return assignment{}
	}
	if v.Compiled.EpochKeyed() {
		if p, ok := bandit.Innermost(p).(interface{ Key(decision uint64) uint64 }); ok {
			return assignment{unit, p.Key(0)}
		}
	}
	return assignment{unit, uint64(bits.Len64(v.Learned+1)) - 1}
}

// own returns the source of what a unit draws under v: that of the decision without one.
func (a assignment) own(v *Version, decision rng.Source) rng.Source {
	if a.unit == 0 {
		return decision
	}
	return draw(v.Seed, v.ID, eventlog.ID(mix(mix(uint64(a.unit), a.span+1), fibonacci)))
}

// draw returns the source of a decision's choice.
func draw(seed rng.Key, incarnation, nonce eventlog.ID) rng.Source {
	return seed.At(uint64(incarnation)).Stream(rng.Select).Round(uint64(nonce))
}
