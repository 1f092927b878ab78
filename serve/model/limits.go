package model

import (
	"maps"
	"math"
	"slices"

	"troupe/spec"
)

// Shares are probabilities by the id of an action: the floors or the caps of a model. Nil is none.
type Shares map[string]float64

// DecodeSpec implements spec.Decoder.
func (s *Shares) DecodeSpec(v any, path string) error {
	raw, ok := v.(spec.Raw)
	if !ok {
		return spec.Errorf(path, "is %s, expected a table of probabilities by the id of an action, such as { new = 0.05 }",
			spec.Show(v))
	}
	*s = nil
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		p, ok := spec.Number(raw[id])
		if !ok {
			return spec.Errorf(spec.Join(path, id), "is %s, expected a probability", spec.Show(raw[id]))
		}
		if *s == nil {
			*s = Shares{}
		}
		(*s)[id] = p
	}
	return nil
}

// ExpandSpec implements spec.Decoder: shares have no sweeps.
func (s *Shares) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

// String describes the default for listings.
func (s *Shares) String() string { return "none" }

// MaxLimited bounds how many actions have a floor, and how many a cap.
const MaxLimited = 1000

// ActionLimit bounds the probability of an action: at least Low and at most High of eventlog.FloorUnit.
type ActionLimit struct{ Low, High uint64 }

// floorDen is the unit of floors and caps: they are multiples of 1/floorDen.
const floorDen = 1_000_000

func parts(p float64) uint64 { return uint64(math.Round(p * floorDen)) }

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
