package choose

import (
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/model"
	"troupe/spec"
)

// TestFreshKinds: the error of Fresh lists the kinds that draw their members for each decision, of those that a model can have.
func TestFreshKinds(t *testing.T) {
	fresh, list := map[string]bool{}, ""
	for kind, make := range policy.Kinds {
		c := model.Default("m")
		c.Policy = model.PolicySpec{Raw: spec.Raw{"kind": kind}, Options: make()}
		if kind != "effects" {
			c.Dim = 2
		}
		compiled, err := c.Compile(model.DefaultLimits)
		if err != nil {
			continue // not a policy of a model
		}
		p := must(compiled.NewPolicy(rng.NewKey(1)))
		r, ok := p.(bandit.Redrawer)
		fresh[kind] = ok && r.Redraws()
		err = (&Version{Compiled: compiled, Seed: rng.NewKey(1)}).Fresh()
		if (err == nil) != fresh[kind] {
			t.Errorf("%s: draws its members for each decision: %v, error %v", kind, fresh[kind], err)
		}
		if err != nil {
			if _, after, ok := strings.Cut(err.Error(), "each decision ("); ok {
				list = after
			}
		}
	}
	if len(fresh) < 10 || list == "" {
		t.Fatalf("only %d kinds, list %q", len(fresh), list)
	}
	words := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,;()", r) })
	for kind, is := range fresh {
		listed := false
		for _, w := range words {
			listed = listed || w == kind
		}
		if is != listed {
			t.Errorf("%s draws its members for each decision: %v, and the error lists it: %v: %s", kind, is, listed, list)
		}
	}
}
