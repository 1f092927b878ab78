package model

import (
	"maps"
	"reflect"
	"slices"

	"troupe/spec"
)

// This file holds a change of a configuration to what it says: what it names is changed, or refused.

// Patch returns the configuration after a JSON merge patch (RFC 7396). Null takes a field back to its default. A patch
// that names min or max of the range says that it is declared, as a new configuration does, unless it names adapt too.
func (c Config) Patch(patch []byte) (Config, error) {
	v, err := decodeJSON(patch)
	if err != nil {
		return c, err
	}
	p, ok := v.(spec.Raw)
	if !ok {
		return c, spec.Errorf("", "is %s, expected a JSON object", spec.Show(v))
	}
	own, err := c.MarshalJSON()
	if err != nil {
		return c, err
	}
	if v, err = decodeJSON(own); err != nil {
		return c, err
	}
	t := v.(spec.Raw)
	was, _ := t["policy"].(spec.Raw)
	if other, ok := p["policy"].(spec.Raw); ok && other["kind"] != nil && other["kind"] != was["kind"] {
		delete(t, "policy") // its options belong to its kind
	}
	t = merge(t, p)
	reward, _ := p["reward"].(spec.Raw)
	if has := func(key string) bool { return reward[key] != nil }; (has("min") || has("max")) && !has("adapt") {
		delete(t["reward"].(spec.Raw), "adapt")
	}
	out, err := Decode(t, "")
	if err != nil {
		return c, err
	}
	null := func(in spec.Raw, key string) bool { v, named := in[key]; return named && v == nil }
	if null(p, "reward") || null(reward, "default") {
		out.Reward.Default = missing(&out)
	}
	out.said, out.noFloor = p, out.noFloor && !null(p, "floor")
	return out, nil
}

// merge applies a merge patch to a table, which it changes.
func merge(t, patch spec.Raw) spec.Raw {
	if t == nil {
		t = spec.Raw{}
	}
	for key, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(t, key)
		case spec.Raw:
			old, _ := t[key].(spec.Raw)
			t[key] = merge(old, v)
		default:
			t[key] = v
		}
	}
	return t
}

// Lost returns an *Error that names the first field that a change says and its result does not have, nil where the
// result has all of them. c is the change as it was decoded, before Keep.
func (c *Config) Lost(result Config) error {
	asked, err := tableOf(c)
	if err != nil {
		return err
	}
	got, err := tableOf(&result)
	if err != nil {
		return err
	}
	return lost("config", c.said, asked, got)
}

// tableOf returns the JSON form as a table.
func tableOf(c *Config) (spec.Raw, error) {
	b, err := c.MarshalJSON()
	if err != nil {
		return nil, Invalid("config", "", "has no JSON form: %v", err)
	}
	v, err := decodeJSON(b)
	if err != nil {
		return nil, ErrorAt("config", err)
	}
	return v.(spec.Raw), nil
}

func lost(path string, said, asked, got spec.Raw) error {
	for _, key := range slices.Sorted(maps.Keys(said)) {
		at := spec.Join(path, key)
		a, askedIt := asked[key]
		g, hasIt := got[key]
		if askedIt == hasIt && reflect.DeepEqual(a, g) {
			continue
		}
		inner, ok1 := said[key].(spec.Raw)
		x, ok2 := a.(spec.Raw)
		y, ok3 := g.(spec.Raw)
		if ok1 && ok2 && ok3 {
			if err := lost(at, inner, x, y); err != nil {
				return err
			}
			continue
		}
		switch {
		case !hasIt:
			return Invalid(at, short(a), "cannot be set%s", way(at))
		case !askedIt:
			return Invalid(at, short(said[key]), "cannot be taken away, it is %s%s", short(g), way(at))
		}
		return Invalid(at, short(a), "cannot change from %s%s", short(g), way(at))
	}
	return nil
}
