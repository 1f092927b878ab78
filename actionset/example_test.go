package actionset_test

import (
	"fmt"
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// A set answers one question: which action is best for a parameter θ.
func Example() {
	theta := []float64{0.6, -0.8}
	var best bandit.Action
	for _, set := range []struct {
		name string
		make func() (bandit.ActionSet, error)
	}{
		{"two arms", func() (bandit.ActionSet, error) { return actionset.NewFinite([][]float64{{1, 0}, {0, 1}}) }},
		{"ball", func() (bandit.ActionSet, error) { return actionset.NewBall(2) }},
		{"box", func() (bandit.ActionSet, error) { return actionset.NewCube(2, 0.5) }},
	} {
		s, err := set.make()
		if err != nil {
			fmt.Println(err)
			return
		}
		value, err := s.ArgMax(&best, theta)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-8s %5.2f  value %.2f  arm %d\n", set.name, best.X, value, best.Index)
	}
	// Output:
	// two arms [ 1.00  0.00]  value 0.60  arm 0
	// ball     [ 0.60 -0.80]  value 1.00  arm -1
	// box      [ 0.50 -0.50]  value 0.70  arm -1
}

// Combinatorial sets are brought into the unit ball by a factor: here the spanning trees of three
// nodes, with two of three edges each.
func ExampleNewCombinatorial() {
	trees, err := actionset.NewCompleteTrees(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := actionset.NewCombinatorial(trees, 0.5)
	if err != nil {
		fmt.Println(err)
		return
	}
	var best bandit.Action
	value, err := set.ArgMax(&best, []float64{0.3, 0.1, 0.2})
	fmt.Println(best.X, value, err)
	// Output:
	// [0.5 0 0.5] 0.25 <nil>
}

// Equal arms share: the policy sees each different arm once, and one of the equal arms is drawn.
func ExampleShare() {
	arms, err := actionset.NewFinite([][]float64{{1, 0}, {0, 1}, {1, 0}})
	if err != nil {
		fmt.Println(err)
		return
	}
	shared := actionset.Share(arms).(*actionset.Shared)
	fmt.Println("different arms:", shared.Groups().Len())
	draws := rng.NewKey(1).Child("ties").Stream(rng.Select)
	var played [3]int
	for t := range uint64(1000) {
		played[shared.Member(0, draws.Round(t))]++
	}
	fmt.Println("arm 1 of the other group:", played[1], "all of the first group:", played[0]+played[2])
	// Output:
	// different arms: 2
	// arm 1 of the other group: 0 all of the first group: 1000
}

// A list that is asked once need not be looked at before: the question itself finds what is not finite.
func ExampleFiniteUnread() {
	set, err := actionset.FiniteUnread(2, []float64{1, 0, 0, 1, math.NaN(), 0})
	if err != nil {
		fmt.Println(err)
		return
	}
	var best bandit.Action
	_, err = set.ArgMax(&best, []float64{0.6, 0.8})
	fmt.Println(err)
	// Output:
	// actionset: arms[2][0] is NaN: not a finite number
}
