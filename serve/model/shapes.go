package model

import (
	"troupe/feature"
)

// Shapes remembers the shapes of configurations that were compiled: their encoders, what they say of the policy, and
// that it was tried. Thousands of models that differ in their names share one. The zero value is empty; nil remembers
// nothing. Not safe for concurrent use.
type Shapes struct {
	known map[string]*shape
}

type shape struct {
	policy   PolicySpec
	encoder  *feature.Encoder
	hashed   *feature.AtomEncoder
	dim      int
	warnings []string
	start    int
	ranged   bool
}

const maxShapes = 256

// shape fills in what depends on the shape of out.Config alone. A shape that is refused is not remembered.
func (s *Shapes) shape(out *Compiled, limits Limits) error {
	if s == nil {
		return out.shape(limits)
	}
	key, err := out.Shape()
	if err != nil {
		return ErrorAt("config", err)
	}
	if k := s.known[string(key)]; k != nil {
		out.Config.Policy = k.policy // nothing changes it
		out.Encoder, out.Atoms, out.Dim, out.Warnings = k.encoder, k.hashed, k.dim, k.warnings
		out.Start, out.Ranged = k.start, k.ranged
		return nil
	}
	if err := out.shape(limits); err != nil {
		return err
	}
	if s.known == nil || len(s.known) >= maxShapes {
		s.known = map[string]*shape{}
	}
	s.known[string(key)] = &shape{out.Config.Policy, out.Encoder, out.Atoms, out.Dim, out.Warnings,
		out.Start, out.Ranged}
	return nil
}

// shape makes the encoder and tries the policy.
func (c *Compiled) shape(limits Limits) error {
	if c.Config.open() {
		c.Atoms = feature.NewAtomEncoder(limits.Feature)
		c.Dim = c.Atoms.Dim()
		if err := c.checkWork(limits); err != nil {
			return err
		}
		return c.tryPolicy()
	}
	schema := c.Config.Features.Schema
	if c.Config.Dim != 0 {
		schema = vectorSchema(c.Config.Dim)
	}
	e, err := feature.New(schema, limits.Feature)
	if err != nil {
		return ErrorAt("config.features", err)
	}
	c.Encoder, c.Dim, c.Warnings = e, e.Dim(), e.Warnings()
	if err := c.checkWork(limits); err != nil {
		return err
	}
	return c.tryPolicy()
}

// vectorSchema is the schema that passes plain vectors of the unit ball on as they are.
func vectorSchema(d int) *feature.Schema {
	return &feature.Schema{
		Format: feature.Format, Model: "shared", Unknown: "refuse",
		Features: []feature.Feature{{Name: "action", Weight: 1, Kind: &feature.Vector{Size: d, Bound: 1,
			Outside: "refuse"}}},
	}
}
