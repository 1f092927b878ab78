package model

import (
	"strings"
	"testing"

	"troupe/policy"
	"troupe/spec"
)

// TestBudgetKinds: the error of a budget lists the kinds of policy that take one, of those that a model can have.
func TestBudgetKinds(t *testing.T) {
	takes, can, list := map[string]bool{}, 0, ""
	for kind, make := range policy.Kinds {
		c := Default("m")
		c.Policy, c.Budget = PolicySpec{Raw: spec.Raw{"kind": kind}, Options: make()}, Budget{Mean: 1}
		if kind != "effects" {
			c.Dim = 2
		}
		compiled, err := c.Compile(DefaultLimits)
		if err != nil {
			continue // not a policy of a model
		}
		can++
		if err := compiled.CheckBudget(); err == nil {
			takes[kind] = true
		} else if _, expected, ok := strings.Cut(err.Error(), "prices of a budget; expected "); ok {
			list = expected
		} else {
			t.Errorf("%s: %v", kind, err)
		}
	}
	listed := map[string]bool{}
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,()", r) }) {
		listed[word] = policy.Kinds[word] != nil
	}
	for kind := range policy.Kinds {
		if takes[kind] != listed[kind] {
			t.Errorf("%s takes a budget: %v, and the error lists it: %v: %s", kind, takes[kind], listed[kind], list)
		}
	}
	if can < 10 {
		t.Errorf("only %d kinds were compiled", can)
	}
}
