package members

import "troupe/rng"

// addFused adds units groups of fusedRounds rounds, the first of which is a multiple of four.
func addFused(tiles []*tile, c *counter, units int, x []float64, d int, law rng.Law, scratch []float64) {
	_ = scratch[2*fusedRounds*rng.Lanes-1]
	addFusedAVX512(&tiles[0], len(tiles), d, units, &x[0], &scratch[0], c, int(law))
}

//go:noescape
func addFusedAVX512(tiles **tile, n, d, units int, x, u *float64, c *counter, law int)
