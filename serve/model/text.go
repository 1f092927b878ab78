package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

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
	c.noFloor, c.said = !floor, raw
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
	if len(c.Rewards) > 0 {
		out["rewards"] = c.Rewards
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
	if !c.List.IsZero() {
		out["list"] = map[string]any{"reward": c.List.Reward}
	}
	if !c.Control.IsZero() {
		out["control"] = map[string]any{"share": c.Control.Share, "plays": c.Control.Plays}
	}
	if c.Unit != "" {
		out["unit"] = c.Unit
	}
	switch {
	case c.Dim != 0:
		out["dim"] = c.Dim
	case c.Features.Schema != nil:
		out["features"] = c.Features.Schema
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
			if a.Numbers != nil {
				rows[i]["numbers"] = a.Numbers
			}
		}
		out["actions"] = rows
	}
	if len(c.Numbers) > 0 {
		out["numbers"] = c.Numbers
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
