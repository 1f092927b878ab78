package tile

import "troupe/rng"

// addFresh adds pairs groups of eight rounds, the first of which is a multiple of four.
func addFresh(groups []*Group, c *counter, pairs int, x []float64, d int, law rng.Law, targets []float64) {
	_ = targets[2*pair*rng.Lanes-1]
	addFreshAVX512(&groups[0], len(groups), d, pairs, &x[0], &targets[0], c, int(law))
}

//go:noescape
func addFreshAVX512(groups **Group, n, d, pairs int, x, u *float64, c *counter, law int)
