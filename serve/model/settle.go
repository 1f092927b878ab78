package model

import (
	"maps"
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
	switch {
	case open && kind != nil && !sparseKindOf(c.Policy.Raw):
		return Invalid("config.policy.kind", kind,
			"needs vectors of a fixed length: give features (a schema) or dim, or take hashed, which reads any request")
	case open && c.Features.Hashed == nil:
		c.Features.Hashed = &Hashed{Model: hashedKind, Bits: DefaultBits, Pairs: "auto"}
	}
	if kind == nil {
		kind = "auto"
		if open {
			kind = hashedKind
		}
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": kind}, "policy"); err != nil {
			return ErrorAt("config", err)
		}
	}
	if h := c.Features.Hashed; h != nil {
		with := *h
		with.Fields = true
		// said of the policy, it is what is wanted of the features, unless these say another one
		if p := c.Policy.Raw["pairs"]; with.Pairs == "auto" && (p == "yes" || p == "no") {
			with.Pairs = p.(string)
		}
		c.Features.Hashed = &with
	}
	if err := c.notice(); err != nil {
		return err
	}
	if err := c.oneSource(); err != nil {
		return err
	}
	if err := c.writeOptions(); err != nil {
		return err
	}
	if c.Reward.Adapt = c.Reward.Adapt && c.widens(); !c.Reward.Default.Set && c.Reward.Default.Word == "" {
		c.Reward.Default.Word = "auto"
	}
	return nil
}

// notice writes out that the default policy notices when the rewards change, and by which rules its small models learn.
// A model that was made before does not notice, or learns by the first rules: its table has no such option.
func (c *Config) notice() error {
	raw, h := c.Policy.Raw, c.Features.Hashed
	if raw["kind"] != hashedKind || raw["small"] == "no" || h == nil || !h.Fields {
		return nil
	}
	raw = maps.Clone(raw)
	if raw[changeKey] == nil {
		raw[changeKey] = "restarts"
	}
	if raw[rulesKey] == nil {
		raw[rulesKey] = int64(3)
	}
	if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
		return ErrorAt("config", err)
	}
	return nil
}

// Options that a model has from when it was made on, or never.
const (
	changeKey = "change"
	rulesKey  = "rules"
)

// oneSource refuses options of the policy that belong elsewhere: the number of bits and the pairs to hashed
// features, the range to reward, the noise to the data.
func (c *Config) oneSource() error {
	if !sparseKindOf(c.Policy.Raw) {
		return nil
	}
	if r, ok := c.Policy.Raw["range"]; ok {
		return Invalid("config.policy.range", r, "belongs to reward: set reward.min and reward.max")
	}
	if c.Sigma != 0 {
		return Invalid("config.sigma", c.Sigma, "is taken from the data by the policy %v; leave it out",
			c.Policy.Raw["kind"])
	}
	h := c.Features.Hashed
	if h == nil {
		return nil
	}
	if kind := c.Policy.Raw["kind"]; h.Learn.After > 0 && kind != hashedKind {
		return Invalid("config.policy.kind", kind,
			"is not hashed, with which features.learn compares the model that it learns; leave policy out")
	}
	if b, ok := spec.Number(c.Policy.Raw["bits"]); ok && int(b) != h.Bits {
		return Invalid("config.policy.bits", b, "features.bits is %d; set it there only", h.Bits)
	}
	if p, ok := c.Policy.Raw["pairs"]; ok && p != h.Pairs {
		return Invalid("config.policy.pairs", p, "features.pairs is %s; set it there only", h.Pairs)
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
	skip := []string{"range", changeKey, rulesKey, "half_life"} // absent is none, or 1, for ever
	if raw["kind"] == sparseKind || c.Features.Hashed != nil {
		skip = append(skip, "bits", "pairs")
	}
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
			raw[key] = v.String()
		case reflect.Bool:
			raw[key] = v.Bool()
		}
	}
	return raw
}
