package model

import (
	"math"

	"troupe/feature"
)

// maxConfig bounds the JSON of a configuration, in bytes. It leaves room for the rest of a control record in a batch.
const maxConfig = 512 << 10

// Compile checks a configuration and makes what a server needs of it. The error is an *Error with the field.
// Compile takes a configuration as it is; Admit fills in what is not set.
func (c Config) Compile(limits Limits) (*Compiled, error) { return c.compile(limits, nil) }

func (c Config) compile(limits Limits, known *Shapes) (*Compiled, error) {
	if err := c.check(limits); err != nil {
		return nil, err
	}
	if c.Policy.Options == nil {
		return nil, Invalid("config.policy", "", "is missing; Admit fills in what is not set")
	}
	c.said = nil
	out := &Compiled{Config: c, Catalogue: make(map[string]int, len(c.Actions)), unit: pathOf(c.Unit)}
	for i, a := range c.Actions {
		out.Catalogue[a.ID] = i
		out.Values += Values(a.Features)
	}
	out.enter()
	parts := uint64(math.Round(c.Floor * floorDen))
	g := gcd(parts, floorDen)
	out.FloorNum, out.FloorDen = parts/g, floorDen/g
	if err := known.shape(out, limits); err != nil {
		return nil, err
	}
	out.limit()
	var err error
	if out.JSON, err = c.MarshalJSON(); err != nil {
		return nil, Invalid("config", "", "has no JSON form: %v", err)
	}
	if len(out.JSON) > maxConfig {
		return nil, Invalid("config", len(out.JSON), "expected a configuration of at most %d bytes", maxConfig)
	}
	return out, nil
}

// Logged is Compile for a configuration in a log. It allows whatever any server may be told to allow.
func (c Config) Logged() (*Compiled, error) { return (*Shapes)(nil).Logged(c) }

// Logged is Config.Logged.
func (s *Shapes) Logged(c Config) (*Compiled, error) {
	return c.compile(Limits{Members: 1 << 31, Feature: feature.Limits{Actions: MaxActions, Bytes: MaxBytes}}, s)
}
