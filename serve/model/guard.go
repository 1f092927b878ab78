package model

import (
	"troupe/spec"
)

// Guard is what a model with the mode guarded keeps: with probability Confidence its decisions have, at every n at
// once, earned at least what the callers' baselines would have, less Margin in the mean. The zero value is none.
type Guard struct {
	Margin     float64 `key:"margin" doc:"how much less than the baseline a decision may earn in the mean, in units of reward"`
	Confidence float64 `key:"confidence" doc:"probability that the margin is kept, at all times together" default:"0.95"`
}

// IsZero returns whether there is no guard.
func (g Guard) IsZero() bool { return g == Guard{} }

// DecodeSpec implements spec.Decoder.
func (g *Guard) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with margin, such as { margin = 0.02 }", spec.Show(v))
	}
	*g = Guard{Confidence: 0.95}
	if err := spec.DecodeStruct(g, raw, path); err != nil {
		return err
	}
	if !(g.Confidence > 0 && g.Confidence < 1) {
		return spec.Errorf(spec.Join(path, "confidence"), "is %v, expected a probability above 0 and below 1", g.Confidence)
	}
	if !(g.Margin > 0 && g.Margin-g.Margin == 0) {
		return spec.Errorf(spec.Join(path, "margin"), "is %v, expected a positive number of reward", g.Margin)
	}
	return nil
}

// ExpandSpec implements spec.Decoder: a guard has no sweeps.
func (g *Guard) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (g *Guard) String() string { return "none" }
