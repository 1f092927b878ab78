package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// On a ball ids plays the best action of one of its samples, and squarecb one of ±e_i or the best action for θ̂, which
// it plays more often the more it has learned.
func TestShownArms(t *testing.T) {
	const d = 3
	ball, err := actionset.NewBall(d)
	if err != nil {
		t.Fatal(err)
	}
	key := rng.NewKey(5)
	problem := policy.Problem{Dim: d, Sigma: 0.1, Init: key.Stream(rng.Init)}
	ids, err := policy.NewIDS(policy.IDSOptions{M: 8}, problem)
	if err != nil {
		t.Fatal(err)
	}
	square, err := policy.NewSquareCB(policy.SquareCBOptions{}, problem)
	if err != nil {
		t.Fatal(err)
	}
	var a, best bandit.Action
	learn := func(p bandit.Policy, round uint64) {
		if err := p.Update(a, a.X[0]-0.5*a.X[1], key.Stream(rng.Perturb).Round(round)); err != nil {
			t.Fatal(err)
		}
	}
	played := make(map[string]bool)
	for round := range uint64(50) {
		draw := key.Stream(rng.Select).Round(round)
		if err := ids.Select(&a, ball, draw); err != nil {
			t.Fatal(err)
		}
		found := false
		for s := range slices.Chunk(ids.Samples(draw.At()), d) {
			if _, err := ball.ArgMax(&best, s); err != nil {
				t.Fatal(err)
			}
			found = found || slices.Equal(best.X, a.X)
		}
		if !found || a.Index != bandit.NoIndex {
			t.Errorf("round %d: ids plays %v, number %d, which is best for no sample", round, a.X, a.Index)
		}
		learn(ids, round)
	}
	greedy := [2]int{}
	for round := range uint64(2000) {
		if err := square.Select(&a, ball, key.Stream(rng.Select).Round(round)); err != nil {
			t.Fatal(err)
		}
		axis := 0
		for _, v := range a.X {
			if v == 0 {
				axis++
			}
		}
		if axis == d-1 {
			played[fmt.Sprint(a.X)] = true
		} else {
			greedy[round/1000]++
		}
		learn(square, round)
	}
	// Gaps of the poles: .12 (e_1), .62, 1.1 twice, 1.6, 2.1. In the second thousand rounds γ_t ≥ 316, so a pole is
	// played with probability .035 at most.
	if len(played) != 2*d || greedy[1] < 900 || greedy[0] >= greedy[1] {
		t.Errorf("squarecb plays %d poles, and the best action in %v of a thousand rounds", len(played), greedy)
	}
	for _, p := range []bandit.Prober{ids, square} {
		if err := p.Prob(new(bandit.Law), ball, key.Stream(rng.Select).Round(1)); err == nil {
			t.Errorf("%T has a law on a ball", p)
		}
	}
}
