package model

import "troupe/spec"

// Guard is what a model with the mode guarded keeps: with probability Confidence its decisions have, at every n at once,
// earned at least what the callers' baselines would have, less Margin in the mean. The zero value is none.
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

// checkGuard refuses a guard that could not be kept, and the mode guarded without one.
func (c *Config) checkGuard() error {
	g, r := c.Guard, c.Reward
	switch {
	case g.IsZero() && c.Mode == string(Guarded):
		return Invalid("config.guard", "", "is missing: mode guarded needs { margin = … }, how much less than the baseline a "+
			"decision may earn in the mean")
	case g.IsZero():
	case r.Adapt:
		return Invalid("config.reward.min", "", "is missing: a guard needs a range of rewards that is declared, min and max")
	case g.Margin >= r.Max-r.Min:
		return Invalid("config.guard.margin", g.Margin, "expected less than the range of rewards, %v", r.Max-r.Min)
	case !c.Budget.IsZero():
		return Invalid("config.guard", g.Margin, "does not go with a budget: a baseline costs what it costs")
	case c.Unit != "":
		return Invalid("config.guard", g.Margin, "does not go with unit %s: decisions of one unit share a draw, and the bound "+
			"needs a draw of its own for each", c.Unit)
	}
	return nil
}
