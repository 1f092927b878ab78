package model

import (
	"strings"

	"troupe/theory"
)

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
