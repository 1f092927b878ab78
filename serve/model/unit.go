package model

import (
	"strings"

	"troupe/spec"
	"troupe/theory"
)

// maxUnit bounds how many names the path of a unit has below context.
const maxUnit = 16

// checkUnit refuses a unit that is no path of the context, that no decision could keep, or that is a feature.
func (c *Config) checkUnit() error {
	if c.Unit == "" {
		return nil
	}
	if err := CheckText("config.unit", c.Unit); err != nil {
		return err
	}
	path := strings.Split(c.Unit, ".")
	if path[0] != "context" || len(path) < 2 || len(path) > maxUnit+1 {
		return Invalid("config.unit", c.Unit, "expected a path of at most %d names below context, such as "+
			"context.user.id", maxUnit)
	}
	for _, name := range path {
		if name == "" {
			return Invalid("config.unit", c.Unit, "has an empty name, expected a path such as context.user.id")
		}
	}
	if says(c.Policy.Raw, "key", theory.RoundKey) {
		return Invalid("config.unit", c.Unit, "needs members that last, and policy.key is %q, which draws all of them anew "+
			"after each event; take %q, %q or %q", theory.RoundKey, theory.DecisionKey, theory.EpochKey, theory.FixedKey)
	}
	if s := c.Features.Schema; s != nil {
		for _, f := range s.Features {
			if f.Name == c.Unit {
				return Invalid("config.unit", c.Unit, "is a feature of the schema: its value is hashed and is no feature, so "+
					"name another path, or send the value twice")
			}
		}
	}
	return nil
}

// says reports whether a table has this text under a key anywhere.
func says(raw spec.Raw, key, text string) bool {
	for k, v := range raw {
		if sub, ok := v.(spec.Raw); ok && says(sub, key, text) || k == key && v == text {
			return true
		}
	}
	return false
}

// UnitPath returns the names below context that lead to the value of the unit, nil for a model without one.
func (c *Compiled) UnitPath() []string { return c.unit }

// EpochKeyed returns whether the policy draws its members anew when its epoch ends (key = "epoch").
func (c *Compiled) EpochKeyed() bool { return says(c.Config.Policy.Raw, "key", theory.EpochKey) }

// pathOf returns the names of a unit that checkUnit lets pass.
func pathOf(unit string) []string {
	if unit == "" {
		return nil
	}
	return strings.Split(unit, ".")[1:]
}
