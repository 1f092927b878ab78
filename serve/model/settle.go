package model

import (
	"reflect"
	"slices"

	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// This file fills in what a new configuration does not say. What it writes stands in the log from then on,
// so that a later version may have other defaults.

// settle writes out what a new configuration leaves open: features, policy and its options, the range of
// rewards, and what a missing reward means.
func (c *Config) settle() error {
	kind := c.Policy.Raw["kind"]
	open := c.Dim == 0 && c.Features.Schema == nil
	if open && kind != nil && !c.Policy.reads() {
		return Invalid("config.policy.kind", kind,
			"needs vectors of a fixed length: give features (a schema) or dim, or leave policy out; effects, the default, reads any request")
	}
	if kind == nil {
		kind = "auto"
		if open {
			kind = defaultKind
		}
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": kind}, "policy"); err != nil {
			return ErrorAt("config", err)
		}
	}
	if err := c.oneSource(); err != nil {
		return err
	}
	if err := c.writeOptions(); err != nil {
		return err
	}
	if c.Reward.Adapt = c.Reward.Adapt && c.widens(); !c.Reward.Default.Set && c.Reward.Default.Word == "" {
		c.Reward.Default = missing(c)
	}
	return nil
}

// changeKey is the option of a policy that notices changes. Absent is none.
const changeKey = "change"

// oneSource refuses what the policy takes from the data.
func (c *Config) oneSource() error {
	if c.Policy.reads() && c.Sigma != 0 {
		return Invalid("config.sigma", c.Sigma, "is taken from the data by the policy %v; leave it out",
			c.Policy.Raw["kind"])
	}
	return nil
}

// widens returns whether the policy learns from rewards outside the range that it began with.
func (c *Config) widens() bool {
	w, ok := c.Policy.Options.(policy.Widener)
	return ok && w.Widens()
}

// writeOptions writes the defaults of the policy's options into its table.
func (c *Config) writeOptions() error { return c.Policy.fill(c.written) }

// written returns a policy table with every plain option, as a new model of this configuration has it.
func (c *Config) written(raw spec.Raw) spec.Raw {
	raw = policy.Written(raw)
	var p PolicySpec
	if p.DecodeSpec(raw, "policy") != nil {
		return raw
	}
	d := c.Dim
	if d == 0 {
		d = 2 // no option below depends on it
	}
	built, err := p.Options.New(policy.Problem{Dim: d, Sigma: 1, Init: rng.NewKey(0).Stream(rng.Init), High: 1, Timed: true})
	if err != nil {
		return raw // Compile finds the same error, or one of the real dimension
	}
	r, ok := built.(policy.Resolver)
	if !ok || r.Resolved() == nil { // the table is kept as it is
		return raw
	}
	options := reflect.ValueOf(r.Resolved())
	skip := []string{"range", "half_life"} // absent is none
	for i := range options.NumField() {
		key := options.Type().Field(i).Tag.Get("key")
		if _, said := raw[key]; said || key == "" || slices.Contains(skip, key) {
			continue
		}
		switch v := options.Field(i); v.Kind() {
		case reflect.Float64:
			raw[key] = v.Float()
		case reflect.Int:
			raw[key] = v.Int()
		case reflect.String:
			if key != changeKey || v.String() != "none" {
				raw[key] = v.String()
			}
		case reflect.Bool:
			raw[key] = v.Bool()
		}
	}
	return raw
}

// missing is what an event without any reward counts where the configuration does not say it.
func missing(c *Config) Maybe {
	switch r := c.Reward; {
	case len(c.Rewards) == 0:
		return Maybe{Word: "auto"}
	case r.Adapt || r.Min <= 0 && r.Max >= 0:
		return Maybe{Set: true}
	}
	return Maybe{Word: "none"}
}
