package model

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"

	"troupe/spec"
)

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

// SameJSON reports whether two values have the same JSON.
func SameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
