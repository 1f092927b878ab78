package model

// Change is what a copy of a model has otherwise, so that its state must be learned anew from the log. Zero fields stay
// as they are.
type Change struct {
	Policy   PolicySpec
	Features FeatureSpec // hashed, with other bits or pairs
	Sigma    float64
}

// Recast returns the configuration of a copy of a model under another policy, which learns from the model's log. own is
// the model's, lo and hi the range of rewards in force. The log has vectors of a schema, or hashes of what was sent,
// and not requests: from one a copy cannot learn the other.
func (x Change) Recast(own Config, lo, hi float64, limits Limits) (*Compiled, error) {
	c := own
	if !x.Features.IsZero() {
		switch h := own.Features.Hashed; {
		case h != nil && x.Features.Hashed != nil:
			with := *x.Features.Hashed
			with.Fields = h.Fields // the log has the hashes of the source
			c.Features.Hashed = &with
		case h != nil, !SameJSON(own.Features.Schema, x.Features.Schema) || own.Features.Schema == nil:
			return nil, Invalid("features", "",
				"cannot be changed by a copy: the log has the vectors that the model's own features made, not the "+
					"requests; make a new model, and let it learn from the same decisions in the mode apprentice")
		}
	}
	raw := x.Policy.Raw
	// the options of today, but for what the features say
	if raw == nil && !SameJSON(c.Features.Hashed, own.Features.Hashed) {
		raw = own.Policy.Raw
	}
	if raw != nil {
		if sparseKindOf(raw) && c.Features.Hashed == nil && raw["kind"] == hashedKind {
			return nil, Invalid("policy.kind", hashedKind,
				"learns from hashed features, and the log has the vectors of a schema: make a new model, and let it "+
					"learn from the same decisions in the mode apprentice; auto is the default for vectors")
		}
		if c.Features.Hashed != nil && !sparseKindOf(raw) {
			return nil, Invalid("policy.kind", raw["kind"],
				"needs vectors of a fixed length, and the log has hashed features; expected hashed or sparse")
		}
		if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
			return nil, ErrorAt("config", err)
		}
		if sparseKindOf(raw) {
			c.Sigma = 0
		}
	}
	if x.Policy.Raw != nil {
		if err := c.notice(); err != nil {
			return nil, err
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
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt = n.Reward.Min, n.Reward.Max, n.Reward.Adapt
	return c.Logged()
}
