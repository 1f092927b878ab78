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
	Size   = (Rounds+4)*linalg.Members + 2*ahead
	ahead  = Rounds * linalg.Members
)

// counter is what the kernel needs of a rng.Source; internal/gen knows the offsets of its fields.
type counter struct {
	c   [3]uint32
	key [5]uint32
}

const (
	pair = 8 // rounds that the kernel computes together

	// leastFresh and mostFresh bound the features of the kernel that keeps all sums of a group in registers. The other
	// goes through the rounds for chunk of features after chunk (linalg.Chunks), and makes the targets of four
	// rounds while it adds aheadRounds: from leastAhead features on, which are four chunks, those of the group that follows are
	// done when the group is.
	leastFresh, mostFresh = 4, 10
	leastAhead            = 3*linalg.MostChunk + 1
	aheadRounds           = 16
)

// Add adds len(x)/d rounds, at most Rounds, of which src is the first, to groups of members: x has a row
// of d numbers for each round, targets is scratch of Size. Cost for a member and a round: d multiply-adds and
// a word of Threefry.
func Add(groups []*Group, src rng.Source, x []float64, d int, law rng.Law, targets []float64) {
	n := len(x) / d
	if len(groups) == 0 || n == 0 {
		return
	}
	unit := 0 // rounds of a kernel, which starts at a multiple of four
	switch {
	case cpu.Kernels() != cpu.AVX512 || law == rng.NormalLaw:
	case d >= leastFresh && d <= mostFresh:
		unit = pair
	case d >= leastAhead && len(groups) > 1:
		unit = aheadRounds
	}
	head, units := 0, 0
	if unit > 0 {
		head = min(n, int(-src.At()%4))
		units = (n - head) / unit
	}
	first := src.Later(uint64(head))
	var k counter
	k.c, k.key = first.Counter()
	if units == 0 || uint64(k.c[0])+uint64(units*unit/4) > math.MaxUint32+1 {
		for _, g := range groups {
			plain(g, src, x, d, law, targets)
		}
		return
	}
	from, to := head*d, (head+units*unit)*d
	for _, g := range groups {
		if len(g.S) != linalg.Members*d {
			panic("tile: sums of wrong length")
		}
		plain(g, src, x[:from], d, law, targets)
	}
	if unit == pair {
		addFresh(groups, &k, units, x[from:to], d, law, targets)
	} else {
		addAhead(groups, first, &k, units, x[from:to], d, law, targets)
	}
	last := src.Later(uint64(head + units*unit))
	for _, g := range groups {
		plain(g, last, x[to:], d, law, targets)
	}
}

// addAhead adds units groups of aheadRounds rounds, the first of which is a multiple of four.
func addAhead(groups []*Group, src rng.Source, c *counter, units int, x []float64, d int, law rng.Law, targets []float64) {
	n := units * aheadRounds
	u, next := targets[Size-2*ahead:][:n*rng.Lanes], targets[Size-ahead:][:n*rng.Lanes]
	src.FillMembers(u, rng.Lanes, &groups[0].Members, n/4, law)
	size, wide, narrow := linalg.Chunks(d, linalg.MostChunk)
	for i, g := range groups {
		if i+1 == len(groups) {
			linalg.AddTile(g.S, u, x, d)
			return
		}
		addGroup(g, d, units, u, x, size, wide, narrow, next, &groups[i+1].Members, c, law)
		u, next = next, u
	}
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
