package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/budget"
	"troupe/feature"
	"troupe/policy"
	"troupe/spec"
)

// This file reads and writes configurations: as TOML or JSON tables through package spec, and as the one
// JSON text that the log keeps.

// Decode reads a configuration from a decoded TOML or JSON table found at path.
func Decode(v any, path string) (Config, error) {
	c := Default("")
	raw, ok := v.(spec.Raw)
	if !ok {
		return c, spec.Errorf(path, "is %s, expected a table", spec.Show(v))
	}
	if err := spec.DecodeStruct(&c, raw, path); err != nil {
		return c, err
	}
	_, floor := raw["floor"]
	c.noFloor = !floor
	return c, nil
}

// UnmarshalJSON implements json.Unmarshaler, strictly.
func (c *Config) UnmarshalJSON(b []byte) error {
	v, err := decodeJSON(b)
	if err != nil {
		return err
	}
	d, err := Decode(v, "")
	if err == nil {
		*c = d
	}
	return err
}

// MarshalJSON implements json.Marshaler: one text for one configuration, defaults included.
func (c Config) MarshalJSON() ([]byte, error) {
	out := map[string]any{
		"id": c.ID, "mode": c.Mode, "floor": c.Floor, "log_candidates": c.LogCandidates,
		"reward": map[string]any{"min": c.Reward.Min, "max": c.Reward.Max, "rule": c.Reward.Rule,
			"window": c.Reward.Window, "adapt": c.Reward.Adapt},
	}
	if d := c.Reward.Default; d.Set {
		out["reward"].(map[string]any)["default"] = d.Value
	} else if d.Word != "" {
		out["reward"].(map[string]any)["default"] = d.Word
	}
	if c.Policy.Raw != nil {
		out["policy"] = c.Policy.Raw
	}
	if c.Sigma != 0 {
		out["sigma"] = c.Sigma
	}
	if !c.Budget.IsZero() {
		out["budget"] = c.Budget.table()
	}
	if len(c.Floors) > 0 {
		out["floors"] = c.Floors
	}
	if len(c.Caps) > 0 {
		out["caps"] = c.Caps
	}
	if !c.Guard.IsZero() {
		out["guard"] = map[string]any{"margin": c.Guard.Margin, "confidence": c.Guard.Confidence}
	}
	if c.Unit != "" {
		out["unit"] = c.Unit
	}
	switch {
	case c.Dim != 0:
		out["dim"] = c.Dim
	case c.Features.Schema != nil && c.Features.Learned:
		var t map[string]any
		if err := json.Unmarshal(c.Features.Schema.Canonical(), &t); err != nil {
			return nil, err
		}
		t["learned"] = true
		out["features"] = t
	case c.Features.Schema != nil:
		out["features"] = c.Features.Schema
	case c.Features.Hashed != nil:
		out["features"] = c.Features.Hashed
	}
	if len(c.Actions) > 0 {
		rows := make([]map[string]any, len(c.Actions))
		for i, a := range c.Actions {
			rows[i] = map[string]any{"id": a.ID}
			if len(a.Features) > 0 {
				rows[i]["features"] = a.Features
			}
			if a.Cost != nil {
				rows[i]["cost"] = *a.Cost
			}
		}
		out["actions"] = rows
	}
	if len(c.Entered) > 0 {
		rows := make([]map[string]any, len(c.Entered))
		for i := range c.Entered {
			rows[i] = c.Entered[i].table()
		}
		out["entered"] = rows
	}
	return json.Marshal(out)
}

// decodeJSON reads one JSON value as package spec wants it: whole numbers as int64.
func decodeJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return plain(v, "")
}

func plain(v any, path string) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		x, err := v.Float64()
		if err != nil {
			return nil, spec.Errorf(path, "is %s, expected a number that fits", v)
		}
		return x, nil
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], spec.Element(path, i)); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plain(v[k], spec.Join(path, k)); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// DecodeSpec implements spec.Decoder.
func (r *Reward) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table", spec.Show(v))
	}
	_, low := raw["min"]
	_, high := raw["max"]
	if low || high {
		r.Adapt = false
	}
	return spec.DecodeStruct(r, raw, path)
}

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (r *Reward) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// PolicySpec is a policy table: as it was written, and decoded.
type PolicySpec struct {
	Raw     spec.Raw
	Options policy.Options
}

// DecodeSpec implements spec.Decoder.
func (p *PolicySpec) DecodeSpec(v any, path string) (err error) {
	if p.Options, err = spec.DecodeTable(policy.Kinds, v, path); err == nil {
		p.Raw = v.(spec.Raw)
	}
	return err
}

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (p *PolicySpec) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (p *PolicySpec) String() string {
	return `{ kind = "hashed" }; with a schema or dim { kind = "auto" }`
}

// FeatureSpec says how requests become vectors: at most one of Hashed and Schema is set.
type FeatureSpec struct {
	Hashed *Hashed         // any request is read
	Schema *feature.Schema // named features

	// Learned: Schema was learned from requests, and no person declared it, so that a value of another type is read and
	// counted (feature.Batch.Lenient) where a declared schema refuses it.
	Learned bool
}

// IsZero returns whether nothing is said.
func (f FeatureSpec) IsZero() bool { return f == FeatureSpec{} }

// Hashed configures the features of a model without a schema, see feature.Hashed.
type Hashed struct {
	Model string `key:"model" json:"model" doc:"hashed"`
	Bits  int    `key:"bits" json:"bits" doc:"2^bits coordinates, 10 to 28" default:"18"`
	Learn Learn  `key:"learn" json:"learn,omitzero" doc:"{ after = N }: requests are kept, and after N rewards a schema is learned from them; a model with it takes over when it predicts better"`
	Pairs string `key:"pairs" json:"pairs" doc:"pairs of values of the context, crossed with the action: auto (models with and without), yes or no; or a list of pairs of namespaces, such as [[\"context\", \"action\"]]" default:"auto"`
	// Fields is true for a new model: hashes of atoms begin with their field, so that small models can read fields.
	Fields bool `key:"fields" json:"fields,omitempty" doc:"true, written for a new model: small exact models read the fields of a request"`
}

// Learn says after how many rewards a schema is learned from the requests that were kept. The zero value: never.
type Learn struct {
	After int `json:"after"`
}

// The least and the most that Learn.After may be. A model keeps up to eight times as many events in its state, and a
// restart without a snapshot learns up to four times as many once more.
const (
	MinAfter = 20
	MaxAfter = 20_000
)

// DecodeSpec implements spec.Decoder.
func (l *Learn) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table { after = N }", spec.Show(v))
	}
	for key := range raw {
		if key != "after" {
			return spec.Errorf(spec.Join(path, key), "unknown key %q%s", key, spec.Suggest(key, []string{"after"}))
		}
	}
	n, ok := raw["after"].(int64)
	if !ok || n < MinAfter || n > MaxAfter {
		given := "is missing"
		if x, there := raw["after"]; there {
			given = "is " + spec.Show(x)
		}
		return spec.Errorf(spec.Join(path, "after"), "%s, expected a whole number of rewards from %d to %d", given,
			MinAfter, MaxAfter)
	}
	l.After = int(n)
	return nil
}

// ExpandSpec implements spec.Decoder: a model has no sweeps.
func (l *Learn) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (l *Learn) String() string { return "never" }

// DefaultBits is the logarithm of the number of coordinates of hashed features.
const DefaultBits = 18

func decodeHashed(raw spec.Raw, path string) (*Hashed, error) {
	h := &Hashed{Bits: DefaultBits, Pairs: "auto"}
	if list, ok := raw["pairs"].([]any); ok {
		word, err := pairsOf(list, spec.Join(path, "pairs"))
		if err != nil {
			return nil, err
		}
		raw = maps.Clone(raw)
		raw["pairs"] = word
	}
	if err := spec.DecodeStruct(h, raw, path); err != nil {
		return nil, err
	}
	if words := []string{"auto", "yes", "no"}; !slices.Contains(words, h.Pairs) {
		return nil, spec.Errorf(spec.Join(path, "pairs"), "is %q, expected auto, yes or no%s", h.Pairs,
			spec.Suggest(h.Pairs, words))
	}
	if h.Bits < 10 || h.Bits > 28 {
		return nil, spec.Errorf(spec.Join(path, "bits"), "is %d, expected 10 to 28", h.Bits)
	}
	return h, nil
}

// namespaces are what a request has for a hashed encoder.
var namespaces = []string{"action", "context"}

// pairsOf returns the word for a list of pairs of namespaces. Every model has the features of the context, those of the
// action, and the first crossed with the second; what may be chosen are the pairs of features of the context.
func pairsOf(list []any, path string) (word string, err error) {
	const every = `expected pairs of "context" and "action": [["context", "action"]], or [["context", "action"], ["context", "context"]]`
	crossed := false
	word = "no"
	for i, x := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		pair, ok := x.([]any)
		if !ok || len(pair) != 2 {
			return "", spec.Errorf(at, "is %s, expected two namespaces", spec.Show(x))
		}
		contexts := 0
		for j, x := range pair {
			name, ok := x.(string)
			if !ok || !slices.Contains(namespaces, name) {
				hint := spec.Suggest(name, slices.Clone(namespaces))
				if strings.HasPrefix(name, "context.") || strings.HasPrefix(name, "action.") {
					hint = "; pairs are of whole namespaces, did you mean " +
						strconv.Quote(name[:strings.IndexByte(name, '.')]) + "?"
				}
				return "", spec.Errorf(fmt.Sprintf("%s[%d]", at, j), "is %s, which is not a namespace of a request%s",
					spec.Show(x), hint)
			}
			if name == "context" {
				contexts++
			}
		}
		switch contexts {
		case 0:
			return "", spec.Errorf(at, "is action with action, which the model does not have: the id of an action "+
				"stands for all of its features; %s", every)
		case 1:
			crossed = true
		case 2:
			word = "yes"
		}
	}
	if !crossed {
		return "", spec.Errorf(path, `has no pair of "context" and "action", without which the context could not matter; %s`, every)
	}
	return word, nil
}

// DecodeSpec implements spec.Decoder.
func (f *FeatureSpec) DecodeSpec(v any, path string) (err error) {
	*f = FeatureSpec{}
	raw, _ := v.(spec.Raw)
	switch {
	case raw["learn"] != nil && raw["model"] == nil:
		raw = maps.Clone(raw)
		raw["model"] = hashedKind
		f.Hashed, err = decodeHashed(raw, path)
	case raw["model"] == "hashed":
		f.Hashed, err = decodeHashed(raw, path)
	default:
		if learned, ok := raw["learned"]; ok {
			if f.Learned, ok = learned.(bool); !ok {
				return spec.Errorf(spec.Join(path, "learned"), "is %s, expected true or false", spec.Show(learned))
			}
			raw = maps.Clone(raw)
			delete(raw, "learned")
			v = raw
		}
		f.Schema, err = feature.Decode(v, path)
	}
	return err
}

// ExpandSpec implements spec.Decoder: a schema has no sweeps.
func (f *FeatureSpec) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (f *FeatureSpec) String() string { return `{ model = "hashed" }` }

// DecodeSpec implements spec.Decoder.
func (e *Entry) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table with id, features and cost", spec.Show(v))
	}
	for key := range raw {
		if key != "id" && key != "features" && key != "cost" {
			return spec.Errorf(spec.Join(path, key), "unknown key %q%s", key,
				spec.Suggest(key, []string{"id", "features", "cost"}))
		}
	}
	id, ok := raw["id"].(string)
	if !ok || id == "" {
		return spec.Errorf(spec.Join(path, "id"), "expected a string that is not empty")
	}
	e.ID, e.Features = id, nil
	if f, ok := raw["features"]; ok {
		b, err := json.Marshal(f)
		if err != nil {
			return spec.Errorf(spec.Join(path, "features"), "is no JSON value: %v", err)
		}
		e.Features = b
	}
	e.Cost = nil
	if v, ok := raw["cost"]; ok {
		c, ok := spec.Number(v)
		if !ok || budget.Cost(c) != nil {
			return spec.Errorf(spec.Join(path, "cost"), "is %s, expected a cost from 0 to %v", spec.Show(v), budget.Most)
		}
		c += 0 // −0 is 0
		e.Cost = &c
	}
	return nil
}

// ExpandSpec implements spec.Decoder: an entry has no sweeps.
func (e *Entry) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// Duration is a time.Duration, written like 1h30m or, as in ISO 8601, PT1H30M.
type Duration time.Duration

// DecodeSpec implements spec.Decoder.
func (d *Duration) DecodeSpec(v any, path string) error {
	s, ok := v.(string)
	if !ok {
		return spec.Errorf(path, "is %s, expected a duration such as 10m or PT10M", spec.Show(v))
	}
	text := s
	if iso, ok := strings.CutPrefix(s, "PT"); ok {
		text = strings.ToLower(iso)
	}
	x, err := time.ParseDuration(text)
	if err != nil {
		return spec.Errorf(path, "is %q, expected a duration such as 10m or PT10M", s)
	}
	*d = Duration(x)
	return nil
}

// ExpandSpec implements spec.Decoder: a duration has no sweeps.
func (d *Duration) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String returns d as time.Duration does: 1h30m0s.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Maybe is the reward of an event that got none: a number, or a word.
type Maybe struct {
	Set   bool
	Value float64
	Word  string // where no number is set: none, auto, or nothing, which means auto for a new model
}

// DecodeSpec implements spec.Decoder.
func (m *Maybe) DecodeSpec(v any, path string) error {
	if word, ok := v.(string); ok && (word == "auto" || word == "none") {
		*m = Maybe{Word: word}
		return nil
	}
	x, ok := spec.Number(v)
	if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
		return spec.Errorf(path, "is %s, expected a finite number, none or auto", spec.Show(v))
	}
	*m = Maybe{Set: true, Value: x}
	return nil
}

// ExpandSpec implements spec.Decoder: a reward has no sweeps.
func (m *Maybe) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (m *Maybe) String() string { return "auto" }
