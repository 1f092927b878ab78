package model

import (
	"troupe/feature"
)

// DefaultLimits are those of a server that was not told others.
var DefaultLimits = Limits{Members: 1000, Work: DefaultWork, Feature: feature.Limits{Actions: 1000, Bytes: 1 << 20}}

// Check looks at a configuration as a server would before it makes the model, with DefaultLimits. The error
// is an *Error with the field.
func (c Config) Check() error {
	_, err := c.Admit(DefaultLimits)
	return err
}

// Admit is Compile for a configuration that comes from outside. It also refuses what would only fail at a
// decision; logs may hold such configurations, and Logged must read them. It writes out the options of the
// policy.
func (c Config) Admit(limits Limits) (*Compiled, error) {
	if err := c.settle(); err != nil {
		return nil, err
	}
	out, err := c.Change(limits)
	if err != nil {
		return nil, err
	}
	if err := out.CheckBudget(); err != nil {
		return nil, err
	}
	if err := out.CheckHalfLife(); err != nil {
		return nil, err
	}
	return out, out.CheckCatalogue()
}

// Change is Compile for a change that comes from outside, and refuses numbers that Logged must read.
func (c Config) Change(limits Limits) (*Compiled, error) {
	out, err := c.Compile(limits)
	if err != nil {
		return nil, err
	}
	if err := checkInputs(&c); err != nil {
		return nil, err
	}
	return out, out.bears()
}
