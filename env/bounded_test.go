package env

import (
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/rng"
	"troupe/spec"
)

// TestLargestRegret: no action of any environment costs more in a round than it says, and the bound is the same in
// every replication.
func TestLargestRegret(t *testing.T) {
	var data dataset.Source
	options := all(t)
	bounded := 0
	for name, o := range options {
		var first float64
		for r := range uint64(3) {
			k := key(r)
			e, err := o.Build(k, &data)
			if err != nil {
				t.Fatal(err)
			}
			b, ok := e.(Bounded)
			if !ok {
				break
			}
			most, ok := b.LargestRegret()
			if !ok {
				break
			}
			if r == 0 {
				first = most
				bounded++
			} else if most != first {
				t.Errorf("%s: the bound is %v in one replication, %v in another", name, first, most)
			}
			theta := make([]float64, e.Dim())
			for round := range uint64(30) {
				set, err := e.Offer(k.Stream(rng.Offer).Round(round + 1))
				if err != nil {
					t.Fatal(err)
				}
				k.Stream(rng.Select).Round(round).Sphere(theta, 0)
				var a bandit.Action
				if _, err := set.ArgMax(&a, theta); err != nil {
					t.Fatal(err)
				}
				if got, err := e.Regret(a); err != nil || got > most {
					t.Fatalf("%s: regret %v in a round, at most %v (%v)", name, got, most, err)
				}
			}
		}
	}
	if bounded < 5 {
		t.Errorf("only %d of %d environments know a bound", bounded, len(options))
	}
	o, err := spec.Decode(Kinds, spec.Raw{"kind": "linear", "d": int64(2), "theta": "given", "value": []any{0.5, 0.2}, "set": spec.Raw{"kind": "basis"}}, "", "name")
	if err != nil {
		t.Fatal(err)
	}
	e, err := o.Build(key(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if most, ok := e.(Bounded).LargestRegret(); !ok || most != 0.3 {
		t.Errorf("two arms at a distance of 0.3: %v", most)
	}
}
