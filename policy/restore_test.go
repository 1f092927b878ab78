package policy

import (
	"slices"
	"testing"

	"troupe/rng"
)

// TestRestoreRefuses: a snapshot whose checksum is right and whose numbers no policy has is refused, and the policy stays what
// it was.
func TestRestoreRefuses(t *testing.T) {
	p := Problem{Dim: 2, Horizon: 100, Arms: 2, Init: rng.NewKey(1).Stream(rng.Init)}
	auto, err := NewAuto(AutoOptions{}, p)
	if err != nil {
		t.Fatal(err)
	}
	evill, err := NewEVILL(EVILLOptions{}, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		p    interface {
			AppendSnapshot([]byte) ([]byte, error)
			Restore([]byte) error
		}
		kind  string
		state func() [][]float64
		spoil func(v [][]float64) [][]float64
	}{
		{"a λ that is not in the grid", auto, "auto", auto.state, func(v [][]float64) [][]float64 { v[3][0] = 3; return v }},
		{"a negative sum of squares", auto, "auto", auto.state, func(v [][]float64) [][]float64 { v[3][1] = -1; return v }},
		{"a factor below √λ", auto, "auto", auto.state, func(v [][]float64) [][]float64 { v[0][0] = -1; return v }},
		{"half a round", auto, "auto", auto.state, func(v [][]float64) [][]float64 { v[2][0] = 0.5; return v }},
		{"half an event", evill, "evill", evill.glm.state, func(v [][]float64) [][]float64 { v[1] = []float64{1, 0, 2}; return v }},
		{"an event with more clicks than shows", evill, "evill", evill.glm.state, func(v [][]float64) [][]float64 { v[1] = []float64{1, 0, 2, 3}; return v }},
		{"one action twice", evill, "evill", evill.glm.state, func(v [][]float64) [][]float64 { v[1] = []float64{1, 0, 2, 1, 1, 0, 2, 1}; return v }},
	} {
		before, err := c.p.AppendSnapshot(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.p.Restore(before); err != nil {
			t.Fatalf("%s: its own snapshot: %v", c.kind, err)
		}
		var v [][]float64
		for _, x := range c.state() {
			v = append(v, slices.Clone(x))
		}
		if err := c.p.Restore(appendSnapshot(nil, c.kind, c.spoil(v))); err == nil {
			t.Errorf("%s: %s was taken", c.kind, c.name)
		}
		if after, err := c.p.AppendSnapshot(nil); err != nil || !slices.Equal(before, after) {
			t.Errorf("%s: %s has changed the policy, error %v", c.kind, c.name, err)
		}
	}
}
