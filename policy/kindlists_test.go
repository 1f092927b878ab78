package policy_test

import (
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// TestListedKinds: the kinds that errors list are those that have the ability, as their defaults are, or with the link that is
// written behind a kind. A kind that is added and heeds prices, or draws its members for each decision, must be listed.
func TestListedKinds(t *testing.T) {
	p := policy.Problem{Dim: 3, Arms: 4, Horizon: 100, Sigma: 1, Init: rng.NewKey(1).Stream(rng.Init)}
	_, err := policy.NewBudgeted(policy.BudgetedOptions{Base: policy.Base{Options: &policy.IDSOptions{}}}, p)
	if err == nil {
		t.Fatal("ids takes prices: choose another kind")
	}
	_, list, _ := strings.Cut(err.Error(), "expected ")
	listed := make(map[string]bool)
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(" ,()", r) }) {
		listed[word] = true
	}
	wraps := map[string]bool{"mixed": true, "budgeted": true, "cells": true, "centred": true, "coin": true, "doubling": true} // as their base is
	found := 0
	for kind, make := range policy.Kinds {
		built, err := make().New(p)
		if err != nil || wraps[kind] {
			continue
		}
		found++
		if heeds := bandit.Heeds(built); heeds != listed[kind] {
			t.Errorf("%s heeds prices: %v, and the error lists it: %v: %s", kind, heeds, listed[kind], list)
		}
	}
	if found < 20 {
		t.Errorf("only %d kinds were built", found)
	}
}
