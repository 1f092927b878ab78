package candidates_test

import (
	"fmt"

	"troupe/serve/candidates"
)

// Of three actions the second was not available.
func Example() {
	full := candidates.Append(nil, []int{0, 2}, []float64{0.5, 0, 0, 1}, 2)
	set, err := candidates.Parse(full)
	if err != nil {
		panic(err)
	}
	place, _ := set.Place(1)
	fmt.Println(set.K, "candidates of", set.D, "numbers:", set.X, "- candidate 1 is action", place)
	// Output: 2 candidates of 2 numbers: [0.5 0 0 1] - candidate 1 is action 2
}
