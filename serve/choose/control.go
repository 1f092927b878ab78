package choose

import (
	"math"

	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/model"
)

// control is the control group of a model, in the law of a choice. With s its share, π the law of the model and c that of
// the control over the K available candidates,
//
//	p(i) = (1 − s)·π(i) + s·c(i),   c(i) = 1/K, or 1{i = 0} where it plays the first one.
//
// A decision of the control draws with numbers of its own, so the model's draw is what it would have been. Of a model with
// units it is the unit that is in a group, for the life of the model (its root: clones draw anew, rollbacks do not) and for
// what the control plays. A unit is in the control where its number in [0, 1) is below s, so a larger share keeps those who
// were in it.
type control struct {
	parts uint64 // s in millionths; 0: there is none
	first bool
	k     uint64
}

const (
	controlDraw = 5 // Sub of the coin, and of the control's own draw
	controlUnit = 0xc0
)

// controlled reads the control group of a version.
func controlled(v *Version, k int) control {
	x := v.Compiled.Config.Control
	if x.IsZero() {
		return control{}
	}
	return control{uint64(x.Millionths()), x.Plays == model.PlaysFirst, uint64(k)}
}

// mix returns the probability p(i) where the model's is num/den. It is exact where numerator and denominator are below
// 2⁶⁴, and otherwise the nearest multiple of 2⁻⁵³.
func (c *control) mix(i int, num, den uint64) (uint64, uint64) {
	const unit = eventlog.FloorUnit
	if c.parts == 0 {
		return num, den
	}
	own, k := uint64(1), c.k // c(i) = own/k
	if c.first {
		if k = 1; i > 0 {
			own = 0
		}
	}
	g := gcd(unit, c.parts)
	s, of := c.parts/g, unit/g
	if all := product(product(den, k), of); all > 0 {
		return (of-s)*num*k + s*own*den, all
	}
	share := float64(c.parts) / unit
	p := float64((1-share)*(float64(num)/float64(den))) + float64(share*(float64(own)/float64(k)))
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}

// coin returns the source of the number that says whether a unit is in the control group: that of the decision without one.
func (a assignment) coin(v *Version, decision rng.Source, first bool) rng.Source {
	if a.unit == 0 {
		return decision
	}
	plays := uint64(controlUnit)
	if first {
		plays++
	}
	return draw(v.Seed, v.Root, eventlog.ID(mix(mix(uint64(a.unit), plays), fibonacci))).Sub(controlDraw)
}
