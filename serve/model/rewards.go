package model

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"troupe/eventlog"
	"troupe/spec"
)

// Rewards are the names of the rewards of a model with the weight of each, in ascending order of the names. A model
// learns Σ weight·value. Nil: the model has one reward without a name. The place of a name is its bit in the log.
type Rewards []NamedWeight

// NamedWeight is the weight of a reward.
type NamedWeight struct {
	Name   string
	Weight float64
}

// Bounds of Rewards.
const (
	MaxRewards = eventlog.MaxNamed
	MaxWeight  = 1e6
)

// DecodeSpec implements spec.Decoder.
func (r *Rewards) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table of weights by the name of a reward, such as { click = 1, revenue = 0.05 }",
			spec.Show(v))
	}
	*r = Rewards{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		w, ok := spec.Number(raw[name])
		if !ok {
			return spec.Errorf(spec.Join(path, name), "is %s, expected a weight, a number in [%v, %v]", spec.Show(raw[name]),
				-MaxWeight, MaxWeight)
		}
		*r = append(*r, NamedWeight{name, w + 0}) // −0 is 0
	}
	return nil
}

// ExpandSpec implements spec.Decoder: rewards have no sweeps.
func (r *Rewards) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (r *Rewards) String() string { return "one reward without a name" }

// MarshalJSON writes an object of weights by name.
func (r Rewards) MarshalJSON() ([]byte, error) {
	out := make(map[string]float64, len(r))
	for _, x := range r {
		out[x.Name] = x.Weight
	}
	return json.Marshal(out)
}

// Names returns the names in their order.
func (r Rewards) Names() []string {
	out := make([]string, len(r))
	for i := range r {
		out[i] = r[i].Name
	}
	return out
}

// Index returns the place of a name, −1 where there is no such reward.
func (r Rewards) Index(name string) int {
	return slices.IndexFunc(r, func(x NamedWeight) bool { return x.Name == name })
}

// Has reports whether a record with this mask of places can be one of the model.
func (r Rewards) Has(mask uint64) bool { return mask != 0 && mask>>len(r) == 0 }

// Sum returns Σ weight·value, one value for each name in their order.
func (r Rewards) Sum(values []float64) (y float64) {
	for i := range r {
		y += float64(r[i].Weight * values[i])
	}
	return y
}

// List names them for an error: click, latency and revenue.
func (r Rewards) List() string {
	names := r.Names()
	n := len(names) - 1
	if n < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n], ", ") + " and " + names[n]
}

// Unnamed refuses a reward without a name, found at field, for a model whose rewards have names.
func (r Rewards) Unnamed(field string, value any) *Error {
	things := "the rewards "
	if len(r) == 1 {
		things = "the reward "
	}
	return Invalid(field, value, "is one number, and the model has %s%s: expected reward, an object such as {%q: 1}", things,
		r.List(), r[0].Name)
}

// check refuses names and weights that no reward could use.
func (r Rewards) check(field string) error {
	if len(r) == 0 || len(r) > MaxRewards {
		return Invalid(field, short(r), "has %d names, expected 1 to %d", len(r), MaxRewards)
	}
	some := false
	for _, x := range r {
		at := spec.Join(field, x.Name)
		if err := CheckName(at, x.Name); err != nil {
			return err
		}
		if !(math.Abs(x.Weight) <= MaxWeight) {
			return Invalid(at, x.Weight, "expected a weight in [%v, %v]", -MaxWeight, MaxWeight)
		}
		some = some || x.Weight != 0
	}
	if !some {
		return Invalid(field, short(r), "has only weights of 0, expected one at least that the model learns")
	}
	return nil
}
