package model

import (
	"slices"
)

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
	if err := checkInputs(&c); err != nil {
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
