package model

import (
	"maps"

	"troupe/policy"
)

// Keep completes a new configuration of a model from its own one: features, policy, the range of rewards, what a
// missing reward means and the floor stay when nothing is said of them; and a policy table that says the same is the
// model's own, with its options absent or written out.
func (c *Config) Keep(own Config) {
	if c.Features.IsZero() && c.Dim == 0 {
		c.Features, c.Dim = own.Features, own.Dim
	}
	raw := c.Policy.Raw
	switch before := own.Policy.Raw[changeKey]; {
	case raw == nil:
	case raw[changeKey] == nil && before != nil && raw["kind"] == own.Policy.Raw["kind"]:
		raw = maps.Clone(raw)
		raw[changeKey] = before
	case before == nil && raw[changeKey] == "none":
		raw = maps.Clone(raw)
		delete(raw, changeKey)
	}
	if raw == nil || SameJSON(policy.Written(raw), own.Policy.Raw) || SameJSON(own.written(raw), own.Policy.Raw) {
		c.Policy = own.Policy
	}
	if c.Rewards == nil {
		c.Rewards = own.Rewards
	}
	if d := &c.Reward.Default; !d.Set && d.Word == "" {
		if d.Word = own.Reward.Default.Word; len(c.Rewards) > 0 {
			*d = own.Reward.Default
		}
	}
	if r := own.Reward; c.Reward.Adapt { // nothing was said of the range, which shapes the state
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt = r.Min, r.Max, r.Adapt
	}
	if c.Numbers == nil {
		c.Numbers = own.Numbers
	}
	if c.Entered == nil {
		c.Entered = own.Entered
	}
	if c.noFloor {
		c.Floor = own.Floor
	}
}
