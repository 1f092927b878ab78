package model

import (
	"fmt"
	"math"
	"slices"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/spec"
)

// Entered is an action that has entered a model after it was made, or has left it. The server writes the list: see
// [Config.Enter] and [Config.Leave].
type Entered struct {
	ID    string  `key:"id" doc:"of the action"`
	Times int     `key:"times" doc:"how often it has entered: what was learned of the id before the last time is not known of it"`
	Left  bool    `key:"left" doc:"it has left: requests that offer it are decided without it"`
	Floor float64 `key:"floor" doc:"it is played with this probability at least; at most 6 decimals"`
	Until int     `key:"until" doc:"the floor ends when the model has made so many decisions"`
	Prior Prior   `key:"prior" doc:"{ mean, events }: it began as if so many events without a context had this mean reward"`
}

// Prior is a guess of the mean reward of an action that enters.
type Prior struct {
	Mean   float64 `key:"mean" doc:"reward"`
	Events int     `key:"events" doc:"events that it counts as"`
}

// Bounds of Entered.
const (
	MaxEntered     = 1000
	MaxPriorEvents = 1000
	maxUntil       = 1 << 53
)

// DecodeSpec implements spec.Decoder.
func (e *Entered) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with id", spec.Show(v))
	}
	*e = Entered{}
	return spec.DecodeStruct(e, raw, path)
}

// ExpandSpec implements spec.Decoder: it has no sweeps.
func (e *Entered) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// DecodeSpec implements spec.Decoder.
func (p *Prior) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with mean and events", spec.Show(v))
	}
	*p = Prior{}
	return spec.DecodeStruct(p, raw, path)
}

// ExpandSpec implements spec.Decoder: it has no sweeps.
func (p *Prior) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (p *Prior) String() string { return "none" }

// table is the JSON form.
func (e *Entered) table() map[string]any {
	t := map[string]any{"id": e.ID, "times": e.Times}
	if e.Left {
		t["left"] = true
	}
	if e.Floor > 0 {
		t["floor"], t["until"] = e.Floor, e.Until
	}
	if e.Prior.Events > 0 {
		t["prior"] = map[string]any{"mean": e.Prior.Mean, "events": e.Prior.Events}
	}
	return t
}

// Enter returns the configuration after an action has entered, with a floor for the next decisions of the model and a
// guess of its mean; made is how many decisions the model has made.
func (c Config) Enter(id string, floor float64, decisions int, prior Prior, made uint64) (Config, error) {
	switch {
	case id == "":
		return c, Invalid("id", id, "expected the id of an action")
	case (floor > 0) != (decisions > 0):
		return c, Invalid("decisions", decisions, "expected floor and decisions together: the floor holds for the next so many decisions")
	case decisions < 0 || decisions > 1e9:
		return c, Invalid("decisions", decisions, "expected at most 1e9")
	}
	c.Entered = slices.Clone(c.Entered)
	i := slices.IndexFunc(c.Entered, func(e Entered) bool { return e.ID == id })
	if i < 0 {
		i = len(c.Entered)
		c.Entered = append(c.Entered, Entered{ID: id})
	}
	e := Entered{ID: id, Times: c.Entered[i].Times + 1, Floor: floor, Prior: prior}
	if floor > 0 {
		e.Until = int(made) + decisions
	}
	c.Entered[i] = e
	c.endFloors(made)
	if err := c.checkEntered(); err != nil {
		return c, err
	}
	return c, c.checkFloors()
}

// endFloors takes those away that have ended: they no longer count in the sum.
func (c *Config) endFloors(made uint64) {
	for i := range c.Entered {
		if e := &c.Entered[i]; e.Floor > 0 && uint64(e.Until) <= made {
			e.Floor, e.Until = 0, 0
		}
	}
}

// Leave returns the configuration after an action has left: requests that offer it are decided without it, until it
// enters again.
func (c Config) Leave(id string) (Config, error) {
	if id == "" {
		return c, Invalid("id", id, "expected the id of an action")
	}
	c.Entered = slices.Clone(c.Entered)
	i := slices.IndexFunc(c.Entered, func(e Entered) bool { return e.ID == id })
	if i < 0 {
		i = len(c.Entered)
		c.Entered = append(c.Entered, Entered{ID: id})
	}
	c.Entered[i] = Entered{ID: id, Times: c.Entered[i].Times, Left: true}
	return c, c.checkEntered()
}

// Settled returns the configuration of a copy: its actions have entered as often, without floors.
func (c Config) Settled() Config {
	c.Entered = slices.Clone(c.Entered)
	for i := range c.Entered {
		c.Entered[i].Floor, c.Entered[i].Until = 0, 0
	}
	return c
}

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

// ActionFloor is the floor of an action that has entered.
type ActionFloor struct {
	Atom  uint64 // the first of the action
	Parts uint64 // of eventlog.FloorUnit
}

// Floors returns those that hold when the model has made so many decisions, nil without hashed features.
func (c *Compiled) Floors(made uint64) (out []ActionFloor) {
	if c.Hashed == nil {
		return nil
	}
	for i := range c.Config.Entered {
		if e := &c.Config.Entered[i]; e.Floor > 0 && made < uint64(e.Until) {
			out = append(out, ActionFloor{c.Hashed.EnteredAtom(e.ID, uint32(e.Times)), uint64(math.Round(e.Floor * eventlog.FloorUnit))})
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

// Priors returns the atoms and the guesses of the actions that have entered since a configuration, nil for a model
// without hashed features.
func (c *Compiled) Priors(since *Compiled) (atoms []feature.Atom, priors []Prior) {
	if c.Hashed == nil {
		return nil, nil
	}
	for _, e := range c.Config.Entered {
		if e.Prior.Events > 0 && !e.Left && (since == nil || uint32(e.Times) > since.times[e.ID]) {
			atoms = append(atoms, feature.Atom{Hash: c.Hashed.EnteredAtom(e.ID, uint32(e.Times)), Value: 1})
			priors = append(priors, e.Prior)
		}
	}
	return atoms, priors
}
