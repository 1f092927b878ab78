package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"troupe/feature"
	"troupe/spec"
)

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

// Hashed configures the features of a model without a schema, see feature.Hashed.
type Hashed struct {
	Model string `key:"model" json:"model" doc:"hashed"`
	Bits  int    `key:"bits" json:"bits" doc:"2^bits coordinates, 10 to 28" default:"18"`
	Learn Learn  `key:"learn" json:"learn,omitzero" doc:"{ after = N }: requests are kept, and after N rewards a schema is learned from them; a model with it takes over when it predicts better"`
	Pairs string `key:"pairs" json:"pairs" doc:"pairs of values of the context, crossed with the action: auto (models with and without), yes or no; or a list of pairs of namespaces, such as [[\"context\", \"action\"]]" default:"auto"`
	// Fields is true for a new model: hashes of atoms begin with their field, so that small models can read fields.
	Fields bool `key:"fields" json:"fields,omitempty" doc:"true, written for a new model: small exact models read the fields of a request"`
}

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
