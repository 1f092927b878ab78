// Package tile adds a tile of the perturbations of an ensemble, groups of 16 members × up to 64 rounds ×
// all features, to the members' sums: S^j ← S^j + Σ_t U_t^j x_t.
//
// It computes the targets U from their counters as it goes. It is rng.FillMembers followed by
// linalg.AddTile, bit for bit; with AVX-512 and few features one kernel does both at a time, because a
// generator is made of integer instructions and a sum of multiply-adds, and a core has units for either.
package tile

import (
	"math"

	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Group is 16 members and their sums.
type Group struct {
	S       []float64 // two panels, see linalg.Members
	Members [rng.Lanes]uint32
}

// Rounds is the largest number of rounds of a tile, and Size that of the numbers of scratch it needs.
const (
	Rounds = 64
	Size   = (Rounds + 4) * linalg.Members
)

// counter is what the kernel needs of a rng.Source; internal/gen knows the offsets of its fields.
type counter struct {
	c   [3]uint32
	key [5]uint32
}

const (
	pair = 8 // rounds that the kernel computes together

	// leastFresh and mostFresh bound the features of the kernel: it keeps all sums of a group in registers.
	// With more features a target is used so often that its making does not count.
	leastFresh, mostFresh = 4, 10
)

// Add adds len(x)/d rounds, at most Rounds, of which src is the first, to groups of members: x has a row
// of d numbers for each round, targets is scratch of Size. Cost for a member and a round: d multiply-adds and
// a word of Threefry.
func Add(groups []*Group, src rng.Source, x []float64, d int, law rng.Law, targets []float64) {
	n := len(x) / d
	if len(groups) == 0 || n == 0 {
		return
	}
	if fused(d, law) {
		// The kernel starts at a multiple of four rounds.
		head := min(n, int(-src.At()%4))
		pairs := (n - head) / pair
		first, last := src.Later(uint64(head)), src.Later(uint64(head+pairs*pair))
		var k counter
		k.c, k.key = first.Counter()
		if pairs > 0 && uint64(k.c[0])+2*uint64(pairs) <= math.MaxUint32+1 {
			from, to := head*d, (head+pairs*pair)*d
			for _, g := range groups {
				if len(g.S) != linalg.Members*d {
					panic("tile: sums of wrong length")
				}
				plain(g, src, x[:from], d, law, targets)
			}
			addFresh(groups, &k, pairs, x[from:to], d, law, targets)
			for _, g := range groups {
				plain(g, last, x[to:], d, law, targets)
			}
			return
		}
	}
	for _, g := range groups {
		plain(g, src, x, d, law, targets)
	}
}

// fused reports whether the kernel serves a dimension and a law here.
func fused(d int, law rng.Law) bool {
	return cpu.Kernels() == cpu.AVX512 && d >= leastFresh && d <= mostFresh && law != rng.NormalLaw
}

// plain adds rounds to a group by way of a table of targets.
func plain(g *Group, src rng.Source, x []float64, d int, law rng.Law, targets []float64) {
	if n := len(x) / d; n > 0 {
		linalg.AddTile(g.S, Targets(src, &g.Members, n, law, targets), x, d)
	}
}

// Targets computes the targets of 16 members in n rounds, n rows of 16 for linalg.AddTile. They are in
// scratch, which has Size numbers.
func Targets(src rng.Source, members *[rng.Lanes]uint32, n int, law rng.Law, scratch []float64) []float64 {
	skip := int(src.At() % 4)
	src.FillMembers(scratch, rng.Lanes, members, (skip+n+3)/4, law)
	return scratch[skip*rng.Lanes : (skip+n)*rng.Lanes]
}
