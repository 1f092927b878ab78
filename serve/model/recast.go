package model

// Change is what a copy of a model has otherwise, so that its state must be learned anew from the log. Zero fields stay
// as they are.
type Change struct {
	Policy   PolicySpec
	Features FeatureSpec
	Sigma    float64
}

// Recast returns the configuration of a copy of a model under another policy, which learns from the model's log. own is
// the model's, lo and hi the range of rewards in force. The log has vectors of a schema, or atoms of what was sent:
// from one a copy cannot learn the other.
func (x Change) Recast(own Config, lo, hi float64, limits Limits) (*Compiled, error) {
	c := own
	if !x.Features.IsZero() && (own.Features.Schema == nil || !SameJSON(own.Features.Schema, x.Features.Schema)) {
		return nil, Invalid("features", "",
			"cannot be changed by a copy: the log has what the model's own features made, not the requests; make a new "+
				"model, and let it learn from the same decisions in the mode apprentice")
	}
	if raw := x.Policy.Raw; raw != nil {
		if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
			return nil, ErrorAt("config", err)
		}
		switch open := c.Features.Schema == nil && c.Dim == 0; {
		case !c.Policy.reads() && open:
			return nil, Invalid("policy.kind", raw["kind"],
				"needs vectors of a fixed length, and the log has requests; expected effects")
		case c.Policy.reads():
			c.Sigma = 0
		}
	}
	if x.Sigma != 0 {
		c.Sigma = x.Sigma
	}
	if err := c.oneSource(); err != nil {
		return nil, err
	}
	if err := c.Policy.fill(c.written); err != nil {
		return nil, err
	}
	if c.Reward.Adapt && !c.widens() {
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt = lo, hi, false
	}
	out, err := c.Compile(limits)
	if err != nil {
		return nil, err
	}
	if err := out.CheckBudget(); err != nil {
		return nil, err
	}
	if err := out.bears(); err != nil {
		return nil, err
	}
	return out, out.CheckHalfLife()
}

// As returns the configuration c of another model, or of another time, with what shapes the state taken from n.
func (c Config) As(n Config) (*Compiled, error) {
	c.Policy, c.Features, c.Dim, c.Sigma = n.Policy, n.Features, n.Dim, n.Sigma
	c.List, c.Rewards = n.List, n.Rewards
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt = n.Reward.Min, n.Reward.Max, n.Reward.Adapt
	return c.Logged()
}
