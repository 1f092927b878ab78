package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"troupe/eventlog"
	"troupe/spec"
)

// Shares are probabilities by the id of an action: the floors or the caps of a model. Nil is none.
type Shares map[string]float64

// DecodeSpec implements spec.Decoder.
func (s *Shares) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table of probabilities by the id of an action, such as { new = 0.05 }",
			spec.Show(v))
	}
	*s = nil
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		p, ok := spec.Number(raw[id])
		if !ok {
			return spec.Errorf(spec.Join(path, id), "is %s, expected a probability", spec.Show(raw[id]))
		}
		if *s == nil {
			*s = Shares{}
		}
		(*s)[id] = p
	}
	return nil
}

// ExpandSpec implements spec.Decoder: shares have no sweeps.
func (s *Shares) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (s *Shares) String() string { return "none" }

// MaxLimited bounds how many actions have a floor, and how many a cap.
const MaxLimited = 1000

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
	if h := c.Features.Hashed; h == nil || h.Learn.After > 0 {
		name := "floors"
		if len(c.Floors) == 0 {
			name = "caps"
		}
		return Invalid("config."+name, fmt.Sprint(len(c.Floors)+len(c.Caps), " actions"), "cannot be kept: with a schema, "+
			"dim or features.learn a model knows actions by their features and not by their ids; leave features out, or "+
			"use floor")
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

func parts(p float64) uint64 { return uint64(math.Round(p * floorDen)) }

// ActionLimit bounds the probability of an action: at least Low and at most High of eventlog.FloorUnit.
type ActionLimit struct{ Low, High uint64 }

// Limits returns the floors and caps by the first atom of an action, nil where there is none. The caller does not
// change it.
func (c *Compiled) Limits() map[uint64]ActionLimit { return c.limits }

// limit fills in what is looked up by atom, once the encoder is known.
func (c *Compiled) limit() {
	if len(c.Config.Floors)+len(c.Config.Caps) == 0 || c.Hashed == nil {
		return
	}
	c.limits = map[uint64]ActionLimit{}
	for id, p := range c.Config.Floors {
		c.limits[c.Hashed.EnteredAtom(id, c.times[id])] = ActionLimit{parts(p), eventlog.FloorUnit}
	}
	for id, p := range c.Config.Caps {
		atom := c.Hashed.EnteredAtom(id, c.times[id])
		c.limits[atom] = ActionLimit{c.limits[atom].Low, parts(p)}
	}
}
