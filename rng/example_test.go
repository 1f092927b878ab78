package rng_test

import (
	"fmt"

	"troupe/rng"
)

// A number is named by a seed, a path, a role, a round and an index. Asking again gives it again, in any
// order, on any machine.
func Example() {
	key := rng.NewKey(1).Child("experiment").At(7) // replication 7
	selection := key.Stream(rng.Select)
	fmt.Printf("%.6f\n", selection.Round(1000).Float64(0))
	fmt.Printf("%.6f\n", selection.Round(1).Float64(0))
	fmt.Printf("%.6f\n", selection.Round(1000).Float64(0))
	fmt.Printf("%.6f\n", key.Stream(rng.Reward).Round(1000).Float64(0)) // another role, another number
	// Output:
	// 0.620234
	// 0.235686
	// 0.620234
	// 0.536689
}

// Vectors of normal numbers are filled from an index on.
func ExampleSource_Normals() {
	var x [3]float64
	rng.NewKey(1).Stream(rng.Instance).Round(0).Normals(x[:], 0)
	fmt.Printf("%.4f\n", x)
	// Output:
	// [0.0629 1.0452 0.0773]
}
