package tile

import "troupe/rng"

// addFresh adds pairs groups of eight rounds, the first of which is a multiple of four.
func addFresh(groups []*Group, c *counter, pairs int, x []float64, d int, law rng.Law, targets []float64) {
	_ = targets[2*pair*rng.Lanes-1]
	addFreshAVX512(&groups[0], len(groups), d, pairs, &x[0], &targets[0], c, int(law))
}

//go:noescape
func addFreshAVX512(groups **Group, n, d, pairs int, x, u *float64, c *counter, law int)

// addGroup adds units groups of aheadRounds rounds to a group, and stores the targets of members in the same rounds in next.
func addGroup(g *Group, d, units int, u, x []float64, size, wide, narrow int, next []float64, members *[rng.Lanes]uint32, c *counter, law rng.Law) {
	n := units * aheadRounds
	_, _, _ = u[n*rng.Lanes-1], next[n*rng.Lanes-1], x[n*d-1]
	addAheadAVX512(&g.S[0], d, units, &u[0], &x[0], size, wide, narrow, &next[0], &members[0], c, int(law))
}

//go:noescape
func addAheadAVX512(s *float64, d, units int, u, x *float64, size, wide, narrow int, out *float64, members *uint32, c *counter, law int)
