package model

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"troupe/budget"
	"troupe/spec"
)

// Input is what a number of a request or a configuration may be. The check at the door, the fold, openapi.json and the
// errors take it from here.
type Input struct {
	Least, Most float64
	What        string // in words, such as "a reward"
	Of          string // what bounds it, empty for every server
}

// The numbers that models take. A reward lies within the range of its model, too, see Config.Rewards.
var (
	RewardInput = Input{-1e100, 1e100, "a reward", ""} // also the ends of a range, a default reward and the mean of a prior
	CostInput   = Input{0, budget.Most, "a cost", ""}
	SigmaInput  = Input{1e-50, 1e50, "a standard deviation", ""} // 0 is none
)

// Has reports whether the number is one of the input. NaN is none.
func (i Input) Has(x float64) bool { return x >= i.Least && x <= i.Most }

// Check returns an *Error unless the number is one of the input.
func (i Input) Check(field string, x float64) error {
	if i.Has(x) {
		return nil
	}
	return Invalid(field, x, "expected %v", i)
}

// String says what the input is: a reward in [-1e100, 1e100].
func (i Input) String() string { return fmt.Sprintf("%s in [%v, %v]%s", i.What, i.Least, i.Most, i.Of) }

// Clamp returns the nearest number of the input, and whether it is another one. NaN becomes Least.
func (i Input) Clamp(x float64) (float64, bool) {
	switch {
	case i.Has(x):
		return x, false
	case x > i.Most:
		return i.Most, true
	}
	return i.Least, true
}

// Rewards returns what one reward of a model may be: one of its declared range, or any.
func (r *Reward) Rewards() Input {
	if r.Adapt {
		return RewardInput
	}
	return Input{max(r.Min, RewardInput.Least), min(r.Max, RewardInput.Most), "a number",
		", the range of the model (reward.min, reward.max)"}
}

// Totals returns what may count of an event: of a policy that folds rewards by their range one of that range, otherwise
// any reward.
func (c *Compiled) Totals() Input {
	if c.Ranged {
		return c.Config.Reward.Rewards()
	}
	return RewardInput
}

// checkInputs refuses numbers that the fold does not take as they are. Logs may hold such configurations.
func checkInputs(c *Config) error {
	check := func(field string, x float64, of Input) error {
		if of.Has(x) {
			return nil
		}
		return of.Check("config."+field, x)
	}
	r := c.Reward
	if err := check("reward.min", r.Min, RewardInput); err != nil {
		return err
	}
	if err := check("reward.max", r.Max, RewardInput); err != nil {
		return err
	}
	if r.Default.Set {
		if err := check("reward.default", r.Default.Value, r.Rewards()); err != nil {
			return err
		}
	}
	if c.Sigma != 0 {
		if err := check("sigma", c.Sigma, SigmaInput); err != nil {
			return err
		}
	}
	if err := checkOptions("config.policy", c.Policy.Raw); err != nil {
		return err
	}
	for i := range c.Entered {
		if p := c.Entered[i].Prior; p.Events > 0 {
			if err := check(fmt.Sprintf("entered[%d].prior.mean", i), p.Mean, r.Rewards()); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkOptions refuses numbers in a policy's table with which the arithmetic of a regression ends.
func checkOptions(path string, raw spec.Raw) error {
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		switch v := raw[key].(type) {
		case spec.Raw:
			if err := checkOptions(spec.Join(path, key), v); err != nil {
				return err
			}
		case float64:
			if size := math.Abs(v); v != 0 && !(size >= 1e-15 && size <= 1e15) {
				return Invalid(spec.Join(path, key), v, "expected 0 or a number whose size is from 1e-15 to 1e15")
			}
		}
	}
	return nil
}
