package sim_test

import (
	"context"
	"fmt"
	"strings"

	"troupe/sim"
)

// A spec goes in, results.csv comes out. With Options.Dir the files are on disk, and a run that was
// killed goes on.
func ExampleRun() {
	x, err := sim.Parse("coin.toml", `
horizon = 100
replications = 2
checkpoints = [10]

[[environment]]
name = "two arms"
kind = "linear"
theta = "given"
value = [0.5, 0.0]
set = { kind = "finite", arms = [[1.0, 0.0], [0.0, 1.0]] }
noise = { kind = "none" }

[[policy]]
kind = "fixed"
index = [0, 1]
`, sim.Kinds())
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := sim.Run(context.Background(), x, sim.Options{Workers: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.TrimSpace(string(out.Results)))
	// Output:
	// environment,policy,replication,round,regret,reward
	// two arms,fixed(index=0),1,10,0,5
	// two arms,fixed(index=0),1,100,0,50
	// two arms,fixed(index=0),2,10,0,5
	// two arms,fixed(index=0),2,100,0,50
	// two arms,fixed(index=1),1,10,5,0
	// two arms,fixed(index=1),1,100,50,0
	// two arms,fixed(index=1),2,10,5,0
	// two arms,fixed(index=1),2,100,50,0
}
