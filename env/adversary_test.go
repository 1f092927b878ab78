package env

import (
	"math"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// TestAdversary: the direction has length 1 and is better by gap; it stays while the zero vector is played, and after the given
// number of plays another one comes. What a play costs is gap or nothing, by Reward and Regret and by Settle.
func TestAdversary(t *testing.T) {
	for _, settle := range []bool{false, true} {
		o := NewAdversary()
		o.D, o.Gap, o.Pulls = 5, 0.25, 3
		e, err := o.Build(key(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		theta := e.(Truth).Theta()
		var last bandit.ActionSet
		var a bandit.Action
		changes, played := 0, 0
		for round := uint64(1); round <= 300; round++ {
			set, err := e.Offer(key(3).Stream(rng.Offer).Round(round))
			if err != nil {
				t.Fatal(err)
			}
			arms := set.(bandit.Finite)
			x := arms.At(0)
			if arms.Len() != 2 || linalg.Norm(arms.At(1)) != 0 || math.Abs(linalg.Norm(x)-1) > 1e-12 || linalg.Norm(x) > 1+1e-15 || math.Abs(linalg.Dot(x, theta)-0.25) > 1e-12 {
				t.Fatalf("round %d: %d arms, ‖x‖ = %v, ⟨x, θ*⟩ = %v", round, arms.Len(), linalg.Norm(x), linalg.Dot(x, theta))
			}
			if set != last {
				if last != nil && played != 3 {
					t.Errorf("round %d: another direction after %d plays", round, played)
				}
				changes, played, last = changes+1, 0, set
			} else if played == 3 {
				t.Errorf("round %d: the same direction after three plays", round)
			}
			k := int(round / 7 % 2) // x for seven rounds, 0 for seven
			a.Set(arms.At(k), k)
			draw := key(3).Stream(rng.Reward).Round(round)
			var regret float64
			if settle {
				_, regret, err = e.(bandit.Settler).Settle(a, draw)
			} else if regret, err = e.Regret(a); err == nil {
				_, err = e.Reward(a, draw)
			}
			if want := 0.25 * float64(k); err != nil || math.Abs(regret-want) > 1e-12 {
				t.Fatalf("round %d: arm %d costs %v, %v, expected %v", round, k, regret, err, want)
			}
			played += 1 - k
		}
		if changes != 51 { // 153 rounds of x
			t.Errorf("%d directions, expected 51", changes)
		}
	}
	for name, o := range map[string]*AdversaryOptions{
		"d":     {D: 1, Gap: 0.3, Pulls: 1, Noise: NewAdversary().Noise},
		"gap":   {D: 2, Gap: math.NaN(), Pulls: 1, Noise: NewAdversary().Noise},
		"pulls": {D: 2, Gap: 0.3, Noise: NewAdversary().Noise},
		"noise": {D: 2, Gap: 0.3, Pulls: 1},
	} {
		if _, err := o.Build(key(1), nil); err == nil {
			t.Errorf("a wrong %s is accepted", name)
		}
	}
}
