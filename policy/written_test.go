package policy_test

import (
	"reflect"
	"testing"

	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// TestWritten writes out what a log must say, at every depth, and nothing else.
func TestWritten(t *testing.T) {
	for _, c := range []struct{ raw, want spec.Raw }{
		{spec.Raw{"kind": "atoms", "m": int64(4)}, spec.Raw{"kind": "atoms", "m": int64(4), "key": "decision"}},
		{spec.Raw{"kind": "atoms", "key": "round"}, spec.Raw{"kind": "atoms", "key": "round"}},
		{spec.Raw{"kind": "mixed", "base": spec.Raw{"kind": "doubling", "base": spec.Raw{"kind": "atoms"}}},
			spec.Raw{"kind": "mixed", "base": spec.Raw{"kind": "doubling", "base": spec.Raw{"kind": "atoms", "key": "decision"}}}},
		{spec.Raw{"kind": "ensemble"}, spec.Raw{"kind": "ensemble"}},
		{nil, spec.Raw{}},
	} {
		got := policy.Written(c.raw)
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(policy.Written(got), got) {
			t.Errorf("Written(%v) = %v, want %v", c.raw, got, c.want)
		}
	}
	// What Written writes is the default.
	problem := policy.Problem{Dim: 3, Arms: 4, Horizon: 100, Init: rng.NewKey(1).Stream(rng.Init)}
	options := func(raw spec.Raw) policy.AtomsOptions {
		o, err := spec.Decode(policy.Kinds, raw, "policy")
		if err != nil {
			t.Fatal(err)
		}
		p, err := o.New(problem)
		if err != nil {
			t.Fatal(err)
		}
		return p.(*policy.Atoms).Options()
	}
	raw := spec.Raw{"kind": "atoms"}
	if a, b := options(raw), options(policy.Written(raw)); a != b {
		t.Errorf("Written says %+v, the default is %+v", b, a)
	}
}
