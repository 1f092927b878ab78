package lockstep_test

import (
	"testing"

	"troupe/bandit"
	"troupe/env"
	"troupe/internal/lockstep"
	"troupe/rng"
	"troupe/spec"
)

// TestEnvironments: replications side by side are paid what each environment pays alone, for every noise, with
// means that are linear and not, and one to eight replications.
func TestEnvironments(t *testing.T) {
	noises := []spec.Raw{{"kind": "gaussian", "sigma": 0.5}, {"kind": "uniform"}, {"kind": "rademacher"}, {"kind": "bernoulli"}, {"kind": "student-t"}, {"kind": "none"}}
	for i, noise := range noises {
		for _, raw := range []spec.Raw{
			{"kind": "linear", "d": int64(4), "noise": noise, "set": spec.Raw{"kind": "random-sphere", "arms": int64(7)}},
			{"kind": "linear", "d": int64(4), "noise": noise, "norm": 0.5, "misspecification": 0.2, "set": spec.Raw{"kind": "random-sphere", "arms": int64(7)}},
		} {
			o, err := spec.DecodeTable(env.Kinds, raw, "environment")
			if err != nil {
				t.Fatal(err)
			}
			n := 8 - i
			var alone, together []bandit.Environment
			var keys []rng.Key
			for l := range n {
				key := rng.NewKey(uint64(l))
				for _, list := range []*[]bandit.Environment{&alone, &together} {
					e, err := o.Build(key, nil)
					if err != nil {
						t.Fatal(err)
					}
					*list = append(*list, e)
				}
				keys = append(keys, key)
			}
			batch := lockstep.NewEnvironments(together, keys)
			if batch == nil {
				t.Fatalf("%v cannot be put side by side", raw)
			}
			var y, regret [8]float64
			var arms [8]int
			for round := uint64(1); round < 40; round++ {
				for l := range arms {
					arms[l] = int(round+uint64(l)) % 7
					if l >= n {
						arms[l] = arms[0]
					}
				}
				batch.Pay(&y, &regret, &arms, round)
				for l := range n {
					set, err := alone[l].Offer(keys[l].Stream(rng.Offer).Round(round))
					if err != nil {
						t.Fatal(err)
					}
					x := set.(bandit.Finite).At(arms[l])
					if other := batch.Sets()[l].(bandit.Finite).At(arms[l]); &other[0] == &x[0] || other[0] != x[0] {
						t.Fatal("the sets are not those of the environments")
					}
					a := bandit.Action{X: x, Index: arms[l]}
					r, err := alone[l].Reward(a, keys[l].Stream(rng.Reward).Round(round))
					if err != nil {
						t.Fatal(err)
					}
					g, err := alone[l].Regret(a)
					if err != nil {
						t.Fatal(err)
					}
					if r != y[l] || g != regret[l] {
						t.Fatalf("%v, lane %d, round %d: reward %v, regret %v; alone %v, %v", raw, l, round, y[l], regret[l], r, g)
					}
				}
			}
		}
	}
}

// TestEnvironmentsRefuses: worlds that change, and worlds without a list of arms, are played alone.
func TestEnvironmentsRefuses(t *testing.T) {
	arms := spec.Raw{"kind": "random-sphere", "arms": int64(7)}
	build := func(raw spec.Raw, key rng.Key) bandit.Environment {
		o, err := spec.DecodeTable(env.Kinds, raw, "environment")
		if err != nil {
			t.Fatal(err)
		}
		e, err := o.Build(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	keys := []rng.Key{rng.NewKey(1), rng.NewKey(2)}
	good := spec.Raw{"kind": "linear", "d": int64(4), "set": arms}
	for name, raw := range map[string]spec.Raw{
		"ball": {"kind": "linear", "d": int64(4)}, "drift": {"kind": "linear", "d": int64(4), "set": arms, "drift": 0.1},
		"contexts": {"kind": "sphere-contexts"}, "other noise": {"kind": "linear", "d": int64(4), "set": arms, "noise": spec.Raw{"kind": "none"}},
		"too many arms":  {"kind": "linear", "d": int64(4), "set": spec.Raw{"kind": "random-sphere", "arms": int64(8193)}},
		"another length": {"kind": "linear", "d": int64(4), "set": spec.Raw{"kind": "random-sphere", "arms": int64(8)}},
	} {
		if lockstep.NewEnvironments([]bandit.Environment{build(good, keys[0]), build(raw, keys[1])}, keys) != nil ||
			name != "other noise" && name != "another length" && lockstep.NewEnvironments([]bandit.Environment{build(raw, keys[0])}, keys[:1]) != nil {
			t.Errorf("%s: put side by side", name)
		}
	}
}
