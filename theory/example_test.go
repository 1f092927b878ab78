package theory_test

import (
	"fmt"

	"troupe/theory"
)

// The theorem's ensemble size and confidence radius for d = 10 features and T = 10⁴ rounds.
func Example() {
	const d, T, lambda, delta = 10, 10_000, 5.0, 0.1
	m, err := theory.Members(d, T, lambda, delta)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("members:", m)
	fmt.Printf("radius:  %.3f\n", theory.BetaTilde(d, T, lambda, delta))
	// Output:
	// members: 39400
	// radius:  9.828
}

// Every regret bound has a name. A bound above 2T says nothing.
func ExampleByName() {
	b, ok := theory.ByName("oful")
	if !ok {
		fmt.Println("there is no such bound")
		return
	}
	for _, T := range []int{10_000, 1_000_000} {
		regret, err := b.At(theory.Setting{D: 10, T: float64(T), Lambda: 5, Delta: 0.1}, float64(T))
		fmt.Printf("T = %7d: %.0f of %d %v\n", T, regret, 2*T, err)
	}
	// Output:
	// T =   10000: 20243 of 20000 <nil>
	// T = 1000000: 349493 of 2000000 <nil>
}
