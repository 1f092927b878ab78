package model

import (
	"sync"

	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// defaultKind is the policy of a model without a schema.
const defaultKind = "effects"

// PolicySpec is a policy table: as it was written, and decoded.
type PolicySpec struct {
	Raw     spec.Raw
	Options policy.Options
}

// DecodeSpec implements spec.Decoder.
func (p *PolicySpec) DecodeSpec(v any, path string) (err error) {
	if raw, ok := v.(spec.Raw); ok && raw["kind"] == "hashed" {
		return spec.Errorf(spec.Join(path, "kind"), `is "hashed", which is not there any more: leave policy out, effects is the `+
			`default; a model that was made with it learns anew from its log (troupe train)`)
	}
	if raw, ok := v.(spec.Raw); ok {
		kind, named := raw["kind"].(string)
		if _, known := policy.Kinds[kind]; named && !known {
			return spec.Errorf(spec.Join(path, "kind"), "unknown kind %q%s", kind, spec.Suggest(kind, served()))
		}
	}
	if p.Options, err = spec.DecodeTable(policy.Kinds, v, path); err == nil {
		p.Raw = v.(spec.Raw)
	}
	return err
}

// served are the kinds that a model may have, with default options: those of which an error may suggest one.
var served = sync.OnceValue(func() (kinds []string) {
	for _, kind := range spec.Names(policy.Kinds) {
		p, err := policy.Kinds[kind]().New(policy.Problem{Dim: 2, Sigma: 1, Init: rng.NewKey(0).Stream(rng.Init), High: 1, Timed: true})
		if err != nil {
			continue // needs options
		}
		if _, ok := p.(Policy); ok {
			kinds = append(kinds, kind)
		}
	}
	return kinds
})

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (p *PolicySpec) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (p *PolicySpec) String() string {
	return `{ kind = "effects" }; with a schema or dim { kind = "auto" }`
}

// fill replaces the table by complete(table).
func (p *PolicySpec) fill(complete func(spec.Raw) spec.Raw) error {
	raw := complete(p.Raw)
	if len(p.Raw) == 0 || SameJSON(raw, p.Raw) {
		return nil
	}
	if err := p.DecodeSpec(raw, "policy"); err != nil {
		return ErrorAt("config", err)
	}
	return nil
}

// reads reports whether the policy reads requests as they come, and finds its own coordinates.
func (p *PolicySpec) reads() bool {
	_, ok := p.Options.(policy.RequestReader)
	return ok
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

// says reports whether a table has this text under a key anywhere.
func says(raw spec.Raw, key, text string) bool {
	for k, v := range raw {
		if sub, ok := v.(spec.Raw); ok && says(sub, key, text) || k == key && v == text {
			return true
		}
	}
	return false
}
