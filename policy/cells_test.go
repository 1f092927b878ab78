package policy_test

import (
	"bytes"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// TestCells: three cells are three policies, of which each sees every third round, bit for bit, also where rewards are
// late; and a base that is told more than the reward is refused.
func TestCells(t *testing.T) {
	arms, _, _ := conformanceSets(t)
	set, key := arms[0], rng.NewKey(7)
	problem := testProblem()
	base := spec.Raw{"kind": "ensemble", "m": int64(5)}
	cells := build(t, "cells", spec.Raw{"cells": int64(3), "base": base}, problem)
	var apart []bandit.Policy
	for k := range uint64(3) {
		p := problem
		p.Horizon, p.Init = (p.Horizon+2)/3, p.Init.Sub(k)
		apart = append(apart, build(t, "ensemble", spec.Raw{"m": int64(5)}, p))
	}
	type late struct {
		a bandit.Action
		y float64
		t uint64
	}
	var open []late
	for r := range uint64(200) {
		draw := key.Stream(rng.Select).Round(r)
		var got, want bandit.Action
		if err := cells.Select(&got, set, draw); err != nil {
			t.Fatal(err)
		}
		if err := apart[r%3].Select(&want, set, draw); err != nil {
			t.Fatal(err)
		}
		if got.Index != want.Index {
			t.Fatalf("round %d plays arm %d, the policy of its cell arm %d", r, got.Index, want.Index)
		}
		open = append(open, late{got, key.Stream(rng.Reward).Round(r).Normal(0), r})
		if r%7 != 6 { // seven rewards come at once, the newest first
			continue
		}
		for i := len(open) - 1; i >= 0; i-- {
			draw := key.Stream(rng.Perturb).Round(open[i].t)
			for _, p := range []bandit.Policy{cells, apart[open[i].t%3]} {
				if err := p.Update(open[i].a, open[i].y, draw); err != nil {
					t.Fatal(err)
				}
			}
		}
		open = open[:0]
	}
	b, err := cells.(bandit.Snapshotter).AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, p := range apart {
		own, err := p.(bandit.Snapshotter).AppendSnapshot(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, own) {
			t.Errorf("the state of cell %d is not that of a policy of every third round", k)
		}
	}
	for want, o := range map[string]policy.CellsOptions{
		"base: it is told what actions cost, which a cell is not": {Base: policy.Base{Options: &policy.BudgetedOptions{Base: policy.Base{Options: &policy.EffectsOptions{}}}}},
		"cells is 5000, expected 1 to 4096":                       {Cells: 5000},
	} {
		if _, err := policy.NewCells(o, problem); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
