package env_test

import (
	"fmt"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/rng"
)

// An environment offers a set, pays for an action of it, and tells the regret, which no policy sees.
func Example() {
	o := env.NewLinear()
	o.D = 2
	o.Theta, o.Value = "given", []float64{0.5, 0.2}
	o.Set = actionset.Spec{Kind: "basis", Builder: &actionset.BasisOptions{}}
	o.Noise = env.Noise{Kind: "gaussian", Law: &env.Gaussian{Std: 1}}
	key := rng.NewKey(1)
	world, err := o.Build(key, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for t := uint64(1); t <= 2; t++ {
		set, err := world.Offer(key.Stream(rng.Offer).Round(t))
		if err != nil {
			fmt.Println(err)
			return
		}
		arms := set.(bandit.Finite)
		for i := range arms.Len() {
			action := bandit.Action{X: arms.At(i), Index: i}
			reward, err := world.Reward(action, key.Stream(rng.Reward).Round(t))
			if err != nil {
				fmt.Println(err)
				return
			}
			regret, err := world.Regret(action)
			fmt.Printf("round %d, arm %d: reward %5.2f, regret %.1f %v\n", t, i, reward, regret, err)
		}
	}
	// Output:
	// round 1, arm 0: reward -0.17, regret 0.0 <nil>
	// round 1, arm 1: reward -0.47, regret 0.3 <nil>
	// round 2, arm 0: reward -0.09, regret 0.0 <nil>
	// round 2, arm 1: reward -0.39, regret 0.3 <nil>
}
