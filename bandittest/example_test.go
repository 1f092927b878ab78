package bandittest_test

import (
	"fmt"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/policy"
	"troupe/rng"
)

// counted is a TB that counts. In a test pass *testing.T.
type counted struct{ faults int }

func (*counted) Helper()                 {}
func (c *counted) Errorf(string, ...any) { c.faults++ }

// restless breaks a promise: its Select writes.
type restless struct {
	*policy.Greedy
	calls int
}

func (r *restless) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := r.Greedy.Select(dst, set, draw); err != nil {
		return err
	}
	arms := set.(bandit.Finite)
	i := r.calls % arms.Len() // the greedy choice is thrown away
	dst.Set(arms.At(i), i)
	r.calls++
	return nil
}

// The suite passes a policy that keeps its promises, and finds one whose Select changes what the next
// Select returns.
func ExampleTestPolicy() {
	arms, err := actionset.NewFinite([][]float64{{1, 0}, {0, 1}, {0.6, 0.7}})
	if err != nil {
		fmt.Println(err)
		return
	}
	greedy := func() *policy.Greedy {
		p, err := policy.NewGreedy(policy.GreedyOptions{}, policy.Problem{Dim: 2, Arms: 3})
		if err != nil {
			panic(err)
		}
		return p
	}
	on := bandittest.PolicyConfig{
		Sets: []bandit.ActionSet{arms},
		Exempt: map[bandittest.PolicyCheck]string{
			bandittest.Allocations:    "an example does not count them",
			bandittest.PermutedAction: "before the first reward all arms are equal, and the first is played",
			bandittest.PermutedLaw:    "the same",
		},
	}
	var good, bad counted
	bandittest.TestPolicy(&good, func() bandit.Policy { return greedy() }, on)
	bandittest.TestPolicy(&bad, func() bandit.Policy { return &restless{Greedy: greedy()} }, on)
	fmt.Println("greedy:", good.faults, "faults; restless has some:", bad.faults > 0)
	// Output:
	// greedy: 0 faults; restless has some: true
}

// A set that you wrote: say what you know about it, here its corners.
func ExampleTestActionSet() {
	box, err := actionset.NewCube(2, 0.5)
	if err != nil {
		fmt.Println(err)
		return
	}
	var t counted
	bandittest.TestActionSet(&t, box, bandittest.SetOptions{
		Members:  [][]float64{{0.5, 0.5}, {0.5, -0.5}, {-0.5, 0.5}, {-0.5, -0.5}},
		Complete: true,
	})
	fmt.Println(t.faults, "faults")
	// Output:
	// 0 faults
}
