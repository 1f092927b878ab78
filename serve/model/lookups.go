package model

import (
	"math"
	"slices"

	"troupe/eventlog"
	"troupe/feature"
)

// enter fills in what is looked up by id.
func (c *Compiled) enter() {
	for i := range c.Config.Entered {
		e := &c.Config.Entered[i]
		if e.Left {
			if c.left == nil {
				c.left = map[string]bool{}
			}
			c.left[e.ID] = true
		}
		if e.Times > 0 {
			if c.times == nil {
				c.times = map[string]uint32{}
			}
			c.times[e.ID] = uint32(e.Times)
		}
	}
}

// limit fills in what is looked up by atom, once the encoder is known.
func (c *Compiled) limit() {
	if len(c.Config.Floors)+len(c.Config.Caps) == 0 || c.Atoms == nil {
		return
	}
	c.limits = map[uint64]ActionLimit{}
	for id, p := range c.Config.Floors {
		c.limits[c.Atoms.EnteredAtom(id, c.times[id])] = ActionLimit{parts(p), eventlog.FloorUnit}
	}
	for id, p := range c.Config.Caps {
		atom := c.Atoms.EnteredAtom(id, c.times[id])
		c.limits[atom] = ActionLimit{c.limits[atom].Low, parts(p)}
	}
}

// ActionFloor is the floor of an action that has entered.
type ActionFloor struct {
	Atom  uint64 // the first of the action
	Parts uint64 // of eventlog.FloorUnit
}

// Floors returns those that hold when the model has made so many decisions, nil without hashed features.
func (c *Compiled) Floors(made uint64) (out []ActionFloor) {
	if c.Atoms == nil {
		return nil
	}
	for i := range c.Config.Entered {
		if e := &c.Config.Entered[i]; e.Floor > 0 && made < uint64(e.Until) {
			out = append(out, ActionFloor{c.Atoms.EnteredAtom(e.ID, uint32(e.Times)), uint64(math.Round(e.Floor * eventlog.FloorUnit))})
		}
	}
	return out
}

// FloorEnds reports whether a floor ends when the model has made so many decisions.
func (c *Compiled) FloorEnds(made uint64) bool {
	return slices.ContainsFunc(c.Config.Entered, func(e Entered) bool { return e.Floor > 0 && uint64(e.Until) == made })
}

// HasLeft reports whether an action has left.
func (c *Compiled) HasLeft(id string) bool { return len(c.left) > 0 && c.left[id] }

// Times returns how often each action has entered, nil where none has.
func (c *Compiled) Times() map[string]uint32 { return c.times }

// Priors returns the atoms and the guesses of the actions that have entered since a configuration, nil for a model
// without hashed features.
func (c *Compiled) Priors(since *Compiled) (atoms []feature.Atom, priors []Prior) {
	if c.Atoms == nil {
		return nil, nil
	}
	for _, e := range c.Config.Entered {
		if e.Prior.Events > 0 && !e.Left && (since == nil || uint32(e.Times) > since.times[e.ID]) {
			atoms = append(atoms, feature.Atom{Hash: c.Atoms.EnteredAtom(e.ID, uint32(e.Times)), Value: 1})
			priors = append(priors, e.Prior)
		}
	}
	return atoms, priors
}

// Limits returns the floors and caps by the first atom of an action, nil where there is none. The caller does not
// change it.
func (c *Compiled) Limits() map[uint64]ActionLimit { return c.limits }
