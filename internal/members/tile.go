package members

import (
	"math"

	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/rng"
)

// tile is 16 members and their sums on the way to the present.
type tile struct {
	S       []float64 // two panels, see linalg.Members
	Members [rng.Lanes]uint32
}

// tileRounds is the largest number of rounds of a tile, and tileSize the numbers of scratch that it needs.
const (
	tileRounds = 64
	tileSize   = (tileRounds + 4) * linalg.Members
)

// counter is what the kernel needs of a rng.Source; internal/gen knows the offsets of its fields.
type counter struct {
	c   [3]uint32
	key [5]uint32
}

// leastFused and mostFused bound the features of the kernel that computes targets and adds them at the
// same time: it keeps all sums of a tile in registers, and goes fusedRounds rounds at a time.
const (
	leastFused, mostFused = 4, 10
	fusedRounds           = 8
)

// addTiles adds len(x)/d rounds, at most tileRounds, of which src is the first, to tiles of members:
// S^j ← S^j + Σ_t U_t^j x_t. x has a row of d numbers for each round, scratch has tileSize numbers. Cost
// for a member and a round: d multiply-adds and a word of Threefry.
//
// It is rng.FillMembers followed by linalg.AddTile, bit for bit. With AVX-512 and few features one kernel
// does both at a time, because a generator is made of integer instructions and a sum of multiply-adds,
// and a core has units for either.
func addTiles(tiles []*tile, src rng.Source, x []float64, d int, law rng.Law, scratch []float64) {
	n := len(x) / d
	if len(tiles) == 0 || n == 0 {
		return
	}
	head, units := 0, 0 // rounds before a multiple of four, and calls' worth of rounds after them
	if cpu.Kernels() == cpu.AVX512 && law != rng.NormalLaw && d >= leastFused && d <= mostFused {
		head = min(n, int(-src.At()%4))
		units = (n - head) / fusedRounds
	}
	first := src.Later(uint64(head))
	var k counter
	k.c, k.key = first.Counter()
	if units == 0 || uint64(k.c[0])+uint64(units*fusedRounds/4) > math.MaxUint32+1 {
		for _, g := range tiles {
			addTable(g, src, x, d, law, scratch)
		}
		return
	}
	from, to := head*d, (head+units*fusedRounds)*d
	for _, g := range tiles {
		if len(g.S) != linalg.Members*d {
			panic("members: sums of wrong length")
		}
		addTable(g, src, x[:from], d, law, scratch)
	}
	addFused(tiles, &k, units, x[from:to], d, law, scratch)
	last := src.Later(uint64(head + units*fusedRounds))
	for _, g := range tiles {
		addTable(g, last, x[to:], d, law, scratch)
	}
}

// addTable adds rounds to a tile by way of a table of targets.
func addTable(g *tile, src rng.Source, x []float64, d int, law rng.Law, scratch []float64) {
	if n := len(x) / d; n > 0 {
		linalg.AddTile(g.S, tileTargets(src, &g.Members, n, law, scratch), x, d)
	}
}

// tileTargets computes the targets of 16 members in n rounds, n rows of 16 for linalg.AddTile. They are in
// scratch, which has tileSize numbers.
func tileTargets(src rng.Source, members *[rng.Lanes]uint32, n int, law rng.Law, scratch []float64) []float64 {
	skip := int(src.At() % 4)
	src.FillMembers(scratch, rng.Lanes, members, (skip+n+3)/4, law)
	return scratch[skip*rng.Lanes : (skip+n)*rng.Lanes]
}
