package policy_test

import (
	"fmt"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// An ensemble learns which of three arms is best. Select draws a model and plays its best arm, Update
// learns the reward, Prob states the exact probability of each arm as a count.
func Example() {
	arms, err := actionset.NewFinite([][]float64{{1, 0}, {0, 1}, {0.6, 0.6}})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := rng.NewKey(1)
	p, err := policy.NewEnsemble(policy.EnsembleOptions{M: 16}, policy.Problem{
		Dim: arms.Dim(), Arms: arms.Len(), Sigma: 0.5, Init: key.Stream(rng.Init),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	law := func(t uint64) {
		var law bandit.Law
		if err := p.Prob(&law, arms, key.Stream(rng.Select).Round(t)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("after %3d rounds:", t-1)
		for _, a := range law.Atoms {
			fmt.Printf(" %2d", a.Count)
		}
		fmt.Println(" of", law.Total)
	}
	law(1)
	var action bandit.Action
	for t := uint64(1); t <= 500; t++ {
		if err := p.Select(&action, arms, key.Stream(rng.Select).Round(t)); err != nil {
			fmt.Println(err)
			return
		}
		noise := 0.5 * key.Stream(rng.Reward).Round(t).Normal(0)
		if err := p.Update(action, 0.2*action.X[0]+0.6*action.X[1]+noise, key.Stream(rng.Perturb).Round(t)); err != nil {
			fmt.Println(err)
			return
		}
	}
	law(501)
	// Output:
	// after   0 rounds: 13 16  3 of 32
	// after 500 rounds:  0 29  3 of 32
}

// A wrong option is an error that names it, its value and what was expected.
func ExampleNewEnsemble() {
	_, err := policy.NewEnsemble(policy.EnsembleOptions{Lambda: -1}, policy.Problem{Dim: 2})
	fmt.Println(err)
	// Output:
	// lambda is -1, expected a positive number
}
