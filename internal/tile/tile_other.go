//go:build !amd64

package tile

import "troupe/rng"

// The kernels are never called here.
func addFresh([]*Group, *counter, int, []float64, int, rng.Law, []float64) {}

func addGroup(*Group, int, int, []float64, []float64, int, int, int, []float64, *[rng.Lanes]uint32, *counter, rng.Law) {
}
