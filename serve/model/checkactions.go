package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// checkEntered refuses what is wrong in the list of actions that have entered or left.
func (c *Config) checkEntered() error {
	if n := len(c.Entered); n > MaxEntered {
		return Invalid("config.entered", n, "expected at most %d actions", MaxEntered)
	}
	ids := make(map[string]bool, len(c.Entered))
	sum, largest := 0.0, Entered{}
	for i, e := range c.Entered {
		at := func(key string) string { return fmt.Sprintf("config.entered[%d].%s", i, key) }
		if ids[e.ID] {
			return Invalid(at("id"), e.ID, "is in the list twice")
		}
		ids[e.ID] = true
		if err := CheckText(at("id"), e.ID); err != nil {
			return err
		}
		if parts := e.Floor * floorDen; !(e.Floor >= 0 && e.Floor <= 1) || math.Abs(parts-math.Round(parts)) > 1e-6 {
			return Invalid(at("floor"), e.Floor, "expected a number in [0, 1] with at most 6 decimals")
		}
		switch p := e.Prior; {
		case e.Times < 0 || e.Times > math.MaxInt32:
			return Invalid(at("times"), e.Times, "expected at least 0")
		case e.Until < 0 || e.Until > maxUntil:
			return Invalid(at("until"), e.Until, "expected at least 0")
		case e.Left && e.Floor > 0:
			return Invalid(at("floor"), e.Floor, "expected none: %q has left", e.ID)
		case e.Until > 0 && e.Floor == 0:
			return Invalid(at("until"), e.Until, "expected a floor with it, which ends then")
		case p.Events == 0 && p.Mean != 0:
			return Invalid(at("prior.events"), p.Events, "expected 1 to %d: as how many events the mean counts", MaxPriorEvents)
		case p.Events < 0 || p.Events > MaxPriorEvents:
			return Invalid(at("prior.events"), p.Events, "expected 0 to %d", MaxPriorEvents)
		case !(math.Abs(p.Mean) < math.MaxFloat64/4):
			return Invalid(at("prior.mean"), p.Mean, "expected a finite number")
		case p.Events > 0 && !c.Reward.Adapt && !(p.Mean >= c.Reward.Min && p.Mean <= c.Reward.Max):
			return Invalid(at("prior.mean"), p.Mean, "expected a reward in [%v, %v]", c.Reward.Min, c.Reward.Max)
		}
		if sum += e.Floor; sum > 1+1e-9 {
			return Invalid(at("floor"), e.Floor, "the floors of %q and %q and others that have entered sum to %v, expected at most 1", e.ID,
				largest.ID, sum)
		}
		if e.Floor > largest.Floor {
			largest = e
		}
	}
	return nil
}

// checkLimits refuses floors and caps that are no probabilities, floors above caps, and floors that sum to more than 1.
// An action that has entered with a floor of its own has the larger one of both.
func (c *Config) checkLimits() error {
	if len(c.Floors)+len(c.Caps) == 0 {
		return nil
	}
	for name, s := range map[string]Shares{"floors": c.Floors, "caps": c.Caps} {
		if len(s) > MaxLimited {
			return Invalid("config."+name, len(s), "expected at most %d actions", MaxLimited)
		}
	}
	for _, x := range []struct {
		name   string
		from   float64
		s      Shares
		within string
	}{{"floors", 0, c.Floors, "[0, 1]"}, {"caps", 1. / floorDen, c.Caps, "(0, 1]"}} {
		for _, id := range slices.Sorted(maps.Keys(x.s)) {
			field, p := "config."+x.name+"."+id, x.s[id]
			if id == "" {
				return Invalid("config."+x.name, id, "expected the id of an action, found an empty one")
			}
			if err := CheckText(field, id); err != nil {
				return err
			}
			if parts := p * floorDen; !(p >= x.from && p <= 1) || math.Abs(parts-math.Round(parts)) > 1e-6 {
				return Invalid(field, p, "expected a probability in %s with at most 6 decimals", x.within)
			}
		}
	}
	if !c.open() {
		name := "floors"
		if len(c.Floors) == 0 {
			name = "caps"
		}
		return Invalid("config."+name, fmt.Sprint(len(c.Floors)+len(c.Caps), " actions"), "cannot be kept: with a schema "+
			"or dim a model knows actions by their features and not by their ids; leave features out, or use floor")
	}
	return c.checkFloors()
}

// checkFloors compares the floors with the caps and their sum with 1.
func (c *Config) checkFloors() error {
	type floor struct {
		field string
		p     float64
	}
	floors := map[string]floor{}
	for id, p := range c.Floors {
		floors[id] = floor{"config.floors." + id, p}
	}
	for i, e := range c.Entered {
		if e.Floor > floors[e.ID].p {
			floors[e.ID] = floor{fmt.Sprintf("config.entered[%d].floor", i), e.Floor}
		}
	}
	sum, largest, next := uint64(0), "", ""
	for _, id := range slices.Sorted(maps.Keys(floors)) {
		f := floors[id]
		if most, capped := c.Caps[id]; capped && f.p > most {
			return Invalid(f.field, f.p, "is above caps.%s, which is %v", id, most)
		}
		sum += parts(f.p)
		switch {
		case largest == "" || f.p > floors[largest].p:
			largest, next = id, largest
		case next == "" || f.p > floors[next].p:
			next = id
		}
	}
	if sum > floorDen {
		others := ""
		if n := len(floors) - 2; n > 0 {
			others = fmt.Sprintf(" and of %d more", n)
		}
		return Invalid(floors[largest].field, floors[largest].p,
			"the floors of %q and %q%s sum to %v, expected at most 1", largest, next, others, float64(sum)/floorDen)
	}
	return nil
}
