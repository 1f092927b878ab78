package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

const (
	floorDen  = 1_000_000
	maxConfig = 512 << 10 // bytes of JSON, which leaves room for the rest of a control record in a batch

	// MaxWindow is the longest time that an event waits for its reward.
	MaxWindow = 30 * 24 * time.Hour
)

// DefaultLimits are those of a server that was not told others.
var DefaultLimits = Limits{Members: 1000, Feature: feature.Limits{Actions: 1000, Bytes: 1 << 20}}

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
	out, err := c.Compile(limits)
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

// CheckHalfLife refuses a half-life that is shorter than the window: half of what is known would be forgotten before
// the reward of a decision has come. And one of a model that learns a schema, which would lose it when that takes over.
func (c *Compiled) CheckHalfLife() error {
	o, ok := c.Config.Policy.Options.(policy.Forgetter)
	if !ok {
		return nil
	}
	h, w := o.Forgets(), time.Duration(c.Config.Reward.Window)
	if f := c.Config.Features.Hashed; f != nil && f.Learn.After > 0 && !h.IsZero() {
		return Invalid("config.policy.half_life", h.String(), "does not go with features.learn: the model of a learned schema "+
			"has none; leave out one of them, or give a schema and a policy with half_life")
	}
	if h.Time > 0 && h.Time < w {
		return Invalid("config.policy.half_life", h.String(), "expected at least reward.window, %v: half of what is known would "+
			"be forgotten before a reward has come", w)
	}
	return nil
}

// check refuses what is wrong without a policy and an encoder at hand.
func (c Config) check(limits Limits) error {
	if err := CheckName("config.id", c.ID); err != nil {
		return err
	}
	if c.Reward.Min >= c.Reward.Max || c.Reward.Max-c.Reward.Min > math.MaxFloat64/4 {
		return Invalid("config.reward.min", c.Reward.Min, "expected less than max, which is %v", c.Reward.Max)
	}
	if d := c.Reward.Default; d.Set && !c.Reward.Adapt && (d.Value < c.Reward.Min || d.Value > c.Reward.Max) {
		return Invalid("config.reward.default", d.Value, "expected a number in [%v, %v]", c.Reward.Min, c.Reward.Max)
	}
	if r := c.Reward.Rule; !r.Known() {
		return Invalid("config.reward.rule", r, "expected %s", ruleNames())
	}
	if w := time.Duration(c.Reward.Window); w <= 0 || w > MaxWindow {
		return Invalid("config.reward.window", w, "expected more than 0 and at most %v", MaxWindow)
	}
	if _, ok := Modes[Mode(c.Mode)]; !ok {
		return Invalid("config.mode", c.Mode, "expected online, apprentice, shadow, frozen or guarded")
	}
	if c.LogCandidates != "full" && c.LogCandidates != "none" {
		return Invalid("config.log_candidates", c.LogCandidates, "expected full or none")
	}
	if c.Sigma < 0 || c.Sigma-c.Sigma != 0 {
		return Invalid("config.sigma", c.Sigma, "expected a positive number")
	}
	if parts := c.Floor * floorDen; !(c.Floor >= 0 && c.Floor <= 1) || math.Abs(parts-math.Round(parts)) > 1e-6 {
		return Invalid("config.floor", c.Floor, "expected a number in [0, 1] with at most 6 decimals")
	}
	if err := c.checkEntered(); err != nil {
		return err
	}
	if err := c.checkLimits(); err != nil {
		return err
	}
	if err := c.checkUnit(); err != nil {
		return err
	}
	if err := c.checkGuard(); err != nil {
		return err
	}
	ids := map[string]bool{}
	for i, a := range c.Actions {
		field := fmt.Sprintf("config.actions[%d].id", i)
		if ids[a.ID] {
			return Invalid(field, a.ID, "is in the catalogue twice")
		}
		if err := CheckText(field, a.ID); err != nil {
			return err
		}
		if (a.Cost == nil) != (c.Actions[0].Cost == nil) {
			return Invalid(fmt.Sprintf("config.actions[%d].cost", i), a.ID,
				"all actions of the catalogue have a cost or none has")
		}
		ids[a.ID] = true
	}
	if m := most(c.Policy.Raw, "m"); m > float64(limits.Members) {
		return Invalid("config.policy.m", m, "expected at most %d", limits.Members)
	}
	switch {
	case c.Dim != 0 && !c.Features.IsZero():
		return Invalid("config.dim", c.Dim, "expected either dim or features")
	case c.Dim < 0 || c.Dim > feature.MaxDim:
		return Invalid("config.dim", c.Dim, "expected 1 to %d", feature.MaxDim)
	}
	return nil
}

// CheckCatalogue encodes the features of the catalogue, which the schema would otherwise refuse at each
// decision.
func (c *Compiled) CheckCatalogue() error {
	var b interface {
		Begin(context []byte) error
		Add(id string, features []byte) error
	}
	switch {
	case c.Hashed != nil:
		b = feature.NewHashedBatch(c.Hashed, nil)
	case c.Encoder != nil:
		b = feature.NewBatch(c.Encoder)
	default:
		return nil
	}
	for i, a := range c.Config.Actions {
		if b.Begin(nil) != nil {
			return nil // the context has features that are required
		}
		if c.Config.Dim != 0 && len(a.Features) == 0 {
			return Invalid(fmt.Sprintf("config.actions[%d].features", i), a.ID,
				"is missing, expected a list of %d numbers", c.Dim)
		}
		if err := b.Add(a.ID, a.Features); err != nil {
			e := FeatureError(err)
			e.Field = strings.Replace(e.Field, "actions[0]", fmt.Sprintf("config.actions[%d]", i), 1)
			return e
		}
	}
	return nil
}

// tryPolicy refuses a policy that cannot state its law, or cannot be kept, before a model is made with it.
func (c *Compiled) tryPolicy() error {
	p, err := c.NewPolicy(rng.NewKey(0))
	if err != nil {
		return err
	}
	var set bandit.ActionSet
	if c.Hashed != nil {
		set, err = actionset.SparseOf(c.Dim, []int{0, 1, 2}, []uint32{0, 1}, []float64{1, 1})
	} else {
		block := make([]float64, 2*c.Dim)
		block[0], block[c.Dim] = 0.5, -0.5
		set, err = actionset.FiniteOf(c.Dim, block)
	}
	if err != nil {
		return ErrorAt("config.policy", err)
	}
	var law bandit.Law
	if err := p.Prob(&law, set, rng.Source{}); err != nil {
		return Invalid("config.policy.kind", c.Config.Policy.Raw["kind"],
			"it cannot state its law (bandit.Prober): %v; use ensemble", err)
	}
	b, err := p.AppendSnapshot(nil)
	if err != nil {
		return Invalid("config.policy.kind", c.Config.Policy.Raw["kind"],
			"it is not kept as bytes (bandit.Snapshotter): %v", err)
	}
	c.Start = len(b)
	if p, ok := bandit.Innermost(p).(bandit.Pender); ok && p.Pends() {
		return Invalid("config.policy.pending", c.Config.Policy.Raw["pending"], "is for experiments: a state of the server "+
			"changes with rewards and not with decisions; leave it out")
	}
	if w, ok := p.(bandit.Warner); ok {
		c.Warnings = append(slices.Clip(c.Warnings), w.Warnings(set)...)
	}
	return nil
}

// most returns the largest number under a key anywhere in a table.
func most(raw spec.Raw, key string) float64 {
	var m float64
	for k, v := range raw {
		if sub, ok := v.(spec.Raw); ok {
			m = max(m, most(sub, key))
		} else if x, ok := spec.Number(v); ok && k == key {
			m = max(m, x)
		}
	}
	return m
}
