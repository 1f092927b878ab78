package model

import (
	"maps"

	"troupe/policy"
	"troupe/spec"
)

// Keep completes a new configuration of a model from its own one: features, policy, the range of rewards, what a
// missing reward means and the floor stay when nothing is said of them; and a policy table that says the same is the
// model's own, with its options absent or written out.
func (c *Config) Keep(own Config) {
	if c.Features.IsZero() && c.Dim == 0 {
		c.Features, c.Dim = own.Features, own.Dim
	}
	if c.Features.Schema != nil && own.Features.Learned && SameJSON(c.Features.Schema, own.Features.Schema) {
		c.Features.Learned = true
	}
	// the configuration that it began with
	if h := c.Features.Hashed; h != nil && h.Learn.After > 0 && own.Features.Learned {
		c.Features, c.Policy = own.Features, PolicySpec{}
	}
	raw := c.Policy.Raw
	for key, absent := range map[string]any{changeKey: "none", rulesKey: 1.} {
		switch before := own.Policy.Raw[key]; {
		case raw == nil:
		case raw[key] == nil && before != nil && raw["kind"] == own.Policy.Raw["kind"]:
			raw = maps.Clone(raw)
			raw[key] = before
		case before == nil && same(raw[key], absent):
			raw = maps.Clone(raw)
			delete(raw, key)
		}
	}
	if raw == nil || SameJSON(policy.Written(raw), own.Policy.Raw) || SameJSON(own.written(raw), own.Policy.Raw) {
		c.Policy = own.Policy
	}
	if d := &c.Reward.Default; !d.Set && d.Word == "" {
		d.Word = own.Reward.Default.Word
	}
	if r := own.Reward; c.Reward.Adapt { // nothing was said of the range, which shapes the state
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt = r.Min, r.Max, r.Adapt
	}
	if c.Entered == nil {
		c.Entered = own.Entered
	}
	if c.noFloor {
		c.Floor = own.Floor
	}
}

// same reports whether two plain values of a table are equal: a number is one however it is written.
func same(a, b any) bool {
	if x, ok := spec.Number(a); ok {
		y, ok := spec.Number(b)
		return ok && x == y
	}
	return a == b
}
