package model

import (
	"math"

	"troupe/eventlog"
	"troupe/spec"
)

// Control is the control group of a model: a share of its decisions, or of its units, for which it does not choose. The
// zero value is none.
type Control struct {
	Share float64 `key:"share" doc:"part of the decisions in the control group, or of the units of a model with one: above 0, at most 0.5, at most 6 decimals"`
	Plays Plays   `key:"plays" doc:"what the control group plays: uniform, each available action with the same probability; first, the first available one" default:"uniform"`
}

// Plays is what a control group plays.
type Plays string

const (
	PlaysUniform Plays = "uniform" // each available action with the same probability
	PlaysFirst   Plays = "first"   // the first available action
)

// IsZero returns whether there is no control group.
func (c Control) IsZero() bool { return c == Control{} }

// Millionths returns the share of the control group, as a record has it.
func (c Control) Millionths() uint32 { return uint32(math.Round(c.Share * eventlog.FloorUnit)) }

// DecodeSpec implements spec.Decoder.
func (c *Control) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with share, such as { share = 0.05 }", spec.Show(v))
	}
	*c = Control{Plays: PlaysUniform}
	if err := spec.DecodeStruct(c, raw, path); err != nil {
		return err
	}
	if parts := c.Share * eventlog.FloorUnit; !(c.Share > 0 && c.Share <= .5) || math.Abs(parts-math.Round(parts)) > 1e-6 {
		return spec.Errorf(spec.Join(path, "share"), "is %v, expected a number above 0 and at most 0.5 with at most 6 decimals",
			c.Share)
	}
	if c.Plays != PlaysUniform && c.Plays != PlaysFirst {
		return spec.Errorf(spec.Join(path, "plays"), "is %q, expected uniform or first", string(c.Plays))
	}
	return nil
}

// ExpandSpec implements spec.Decoder: a control group has no sweeps.
func (c *Control) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (c *Control) String() string { return "none" }
