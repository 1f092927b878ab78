package playground_test

import (
	"fmt"

	"troupe/playground"
)

// The state of a link, four rounds later.
func ExamplePlay() {
	s, err := playground.ParseLink("seed=1&theta=0.6,0.3&arms=4&sigma=0.5&p=ensemble,m=8&p=greedy&t=4")
	if err != nil {
		panic(err)
	}
	g, err := playground.Play(s.Setup, s.At)
	if err != nil {
		panic(err)
	}
	fmt.Println(g.Words(0))
	// Output:
	// Round 4 of 500, ensemble(m=8). It drew member 4 of 8, for which arm 1 is best, and plays it, which had probability 1/16. Reward −1.31, regret 1.24; 1.94 so far. The best arm is 2.
}
