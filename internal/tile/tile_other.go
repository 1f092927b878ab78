//go:build !amd64

package tile

import "troupe/rng"

// addFresh is never called: fused is false.
func addFresh([]*Group, *counter, int, []float64, int, rng.Law, []float64) {}
