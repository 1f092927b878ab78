package model

import (
	"fmt"
	"math"
	"strings"
	"time"

	"troupe/feature"
	"troupe/policy"
	"troupe/serve/numbers"
	"troupe/theory"
)

// MaxWindow is the longest time that an event waits for its reward.
const MaxWindow = 30 * 24 * time.Hour

// check refuses what is wrong without a policy and an encoder at hand.
func (c Config) check(limits Limits) error {
	if err := CheckName("config.id", c.ID); err != nil {
		return err
	}
	if width := c.Reward.Max - c.Reward.Min; width > math.MaxFloat64/4 {
		return Invalid("config.reward.max", c.Reward.Max, "too far from min, which is %v: expected a range of at most %.3g",
			c.Reward.Min, math.MaxFloat64/4)
	}
	if c.Reward.Min >= c.Reward.Max {
		return Invalid("config.reward.min", c.Reward.Min, "expected less than max, which is %v", c.Reward.Max)
	}
	if d := c.Reward.Default; d.Set && !c.Reward.Adapt && (d.Value < c.Reward.Min || d.Value > c.Reward.Max) {
		return Invalid("config.reward.default", d.Value, "expected a number in [%v, %v]", c.Reward.Min, c.Reward.Max)
	}
	if err := checkRewards(&c); err != nil {
		return err
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
	if err := c.checkNumbers(); err != nil {
		return err
	}
	if err := c.checkUnit(); err != nil {
		return err
	}
	if err := c.checkGuard(); err != nil {
		return err
	}
	if err := c.checkControl(); err != nil {
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

// checkUnit refuses a unit that is no path of the context, that no decision could keep, or that is a feature.
func (c *Config) checkUnit() error {
	if c.Unit == "" {
		return nil
	}
	if err := CheckText("config.unit", c.Unit); err != nil {
		return err
	}
	path := strings.Split(c.Unit, ".")
	if path[0] != "context" || len(path) < 2 || len(path) > maxUnit+1 {
		return Invalid("config.unit", c.Unit, "expected a path of at most %d names below context, such as "+
			"context.user.id", maxUnit)
	}
	for _, name := range path {
		if name == "" {
			return Invalid("config.unit", c.Unit, "has an empty name, expected a path such as context.user.id")
		}
	}
	if says(c.Policy.Raw, "key", theory.RoundKey) {
		return Invalid("config.unit", c.Unit, "needs members that last, and policy.key is %q, which draws all of them anew "+
			"after each event; take %q, %q or %q", theory.RoundKey, theory.DecisionKey, theory.EpochKey, theory.FixedKey)
	}
	if s := c.Features.Schema; s != nil {
		for _, f := range s.Features {
			if f.Name == c.Unit {
				return Invalid("config.unit", c.Unit, "is a feature of the schema: its value is hashed and is no feature, so "+
					"name another path, or send the value twice")
			}
		}
	}
	return nil
}

// maxUnit bounds how many names the path of a unit has below context.
const maxUnit = 16

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

// checkControl refuses a control group that would break another promise of the configuration.
func (c *Config) checkControl() error {
	const share = "config.control.share"
	switch x := c.Control; {
	case x.IsZero():
	case !c.Budget.IsZero():
		return Invalid(share, x.Share, "does not go with a budget: what the control group spends has no price")
	case !c.Guard.IsZero():
		return Invalid(share, x.Share, "does not go with a guard, which compares with the baseline of each request already")
	case len(c.Floors) > 0:
		return Invalid(share, x.Share, "does not go with floors: the control group does not keep them")
	case len(c.Caps) > 0:
		return Invalid(share, x.Share, "does not go with caps: the control group does not keep them")
	}
	return nil
}

// checkNumbers refuses numbers that no decision could play, and a model that cannot learn them.
func (c *Config) checkNumbers() error {
	if len(c.Numbers) == 0 {
		return nil
	}
	if err := numbers.CheckAll(c.Numbers); err != nil {
		return NumberError("config.numbers", err)
	}
	_, plays := c.Policy.Options.(policy.NumberPlayer)
	switch {
	case c.Policy.Options != nil && !plays:
		return Invalid("config.policy.kind", c.Policy.Raw["kind"], "does not play numbers; expected effects, which is the default")
	case !c.open():
		return Invalid("config.numbers", len(c.Numbers), "go with requests as they come: leave features and dim out")
	case !c.Control.IsZero() && c.Control.Plays == PlaysFirst:
		return Invalid("config.control.plays", c.Control.Plays, "does not go with numbers, of which there is no first; expected uniform")
	case len(c.Caps) > 0:
		return Invalid("config.caps", len(c.Caps), "do not go with numbers: a request may narrow a range instead")
	}
	return nil
}

// checkRewards refuses rewards with names that no reward could use, and options that need one reward.
func checkRewards(c *Config) error {
	if c.Rewards == nil {
		return nil
	}
	if err := c.Rewards.check("config.rewards"); err != nil {
		return err
	}
	d := c.Reward.Default
	switch {
	case d.Set && d.Value != 0:
		return Invalid("config.reward.default", d.Value, "does not go with rewards: expected 0, so that each of them is 0, or none")
	case d.Word == "auto":
		return Invalid("config.reward.default", d.Word, "does not go with rewards: expected 0, so that each of them is 0, or none")
	case !c.List.IsZero():
		return Invalid("config.list.reward", c.List.Reward, "does not go with rewards: a list has one number for each position, or one for the list")
	}
	return nil
}
