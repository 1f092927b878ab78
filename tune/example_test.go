package tune_test

import (
	"context"
	"fmt"

	"troupe/sim"
	"troupe/tune"
)

// The exploration of LinUCB on five arms: three values, 24 replications for all of them together.
func Example() {
	x, err := sim.Parse("small.toml", `
horizon = 300
[[environment]]
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 5 }
[[policy]]
kind = "linucb"
tune = { scale = { kind = "beta", value = [0.2, 1.0, 5.0] } }
`, sim.Kinds())
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := tune.Run(context.Background(), x, tune.Options{Replications: 24})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := r.Policies[0]
	fmt.Println(p.Winner().Case.Name, p.Edges)
	// Output: linucb(scale=0.2β) [scale.value = 0.2 is the smallest value tried]
}
