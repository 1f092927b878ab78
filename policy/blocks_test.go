package policy_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// disjoint returns a set of k arms in ℝ^{kp}: arm a has the features of a round in block a.
func disjoint(t *testing.T, k, p int, draw rng.Source) bandit.Finite {
	t.Helper()
	c := make([]float64, p)
	draw.Sphere(c, 0)
	x := make([]float64, k*k*p)
	for a := range k {
		copy(x[a*k*p+a*p:], c)
	}
	set, err := actionset.FiniteOf(k*p, x)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// playDisjoint plays a policy on disjoint sets, restores it on the way, and returns all that it said.
func playDisjoint(t *testing.T, kind string, e example, from int) (said []string) {
	t.Helper()
	defer linalg.ForceBlocks(from)()
	const k, p, rounds = 9, 8, 60
	problem := policy.Problem{Dim: k * p, Arms: k, Horizon: 500, Init: rng.NewKey(17).Stream(rng.Init)}
	pol, key := build(t, kind, e.raw, problem), rng.NewKey(3)
	var a bandit.Action
	var law bandit.Law
	for round := range uint64(rounds) {
		set := disjoint(t, k, p, key.Stream(rng.Offer).Round(round))
		draw := key.Stream(rng.Select).Round(round)
		if err := pol.Select(&a, set, draw); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprint(round, a.Index)
		if pr, ok := pol.(bandit.Prober); ok && (round%7 == 5 || round == 2) {
			if err := pr.Prob(&law, set, draw); err == nil {
				for _, atom := range law.Atoms {
					line += fmt.Sprint(" ", atom.P)
				}
			}
		}
		y := 0.5 + 0.5*key.Stream(rng.Reward).Round(round).Uniform(0)
		if err := pol.Update(a, y, key.Stream(rng.Perturb).Round(round)); err != nil {
			t.Fatal(err)
		}
		if s := pol.(bandit.Snapshotter); round%25 == 24 {
			b, err := s.AppendSnapshot(nil)
			if err != nil {
				t.Fatal(err)
			}
			pol = build(t, kind, e.raw, problem)
			if err := pol.(bandit.Snapshotter).Restore(b); err != nil {
				t.Fatal(err)
			}
			again, err := pol.(bandit.Snapshotter).AppendSnapshot(nil)
			if err != nil || !bytes.Equal(b, again) {
				t.Errorf("a snapshot changes on its way: %v", err)
			}
			line += " " + string(b)
		}
		said = append(said, line)
	}
	return said
}

// Every policy plays, states its law and saves itself with the same bits by blocks as with the whole matrix.
func TestBlocks(t *testing.T) {
	for _, kind := range spec.Names(policy.Kinds) {
		list := examples[kind]
		if kind == "ensemble" {
			list = append(slices.Clip(list), example{table: "lambda", raw: spec.Raw{"lambda": 0.3, "m": int64(20)}})
		}
		for _, e := range list {
			if e.only == "ball" || e.only == lists || e.only == interval {
				continue
			}
			t.Run(kind+"/"+e.table, func(t *testing.T) {
				whole, split := playDisjoint(t, kind, e, math.MaxInt), playDisjoint(t, kind, e, 1)
				for i := range whole {
					if whole[i] != split[i] {
						t.Fatalf("round, arm, law, state: %.200q…, by blocks %.200q…", whole[i], split[i])
					}
				}
			})
		}
	}
}
