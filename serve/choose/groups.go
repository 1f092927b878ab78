package choose

import (
	"math"
	"math/bits"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
)

// groups are the candidates of an offer that the policy cannot tell apart, and their votes.
type groups struct {
	offer  *Offer
	costs  []float64 // of the candidates where costs tell them apart, nil elsewhere
	of     []int     // number of the group of candidate i, in order of first appearance
	first  []int     // first candidate of group g
	size   []int
	alike  bool // two candidates have equal features
	rows   []float64
	table  []int32  // 1 + a group, at places that hashes give; 0 is empty
	hashes []uint64 // of group g
	votes  []uint64 // of group g
	total  uint64
}

// group finds the candidates that are alike: equal(i, j) says whether two are, and hash agrees for such two.
func (g *groups) group(k int, hash func(i int) uint64, equal func(i, j int) bool) {
	g.of, g.first, g.size, g.hashes = g.of[:0], g.first[:0], g.size[:0], g.hashes[:0]
	size := bits.Len(uint(2 * k))
	places := 1 << size // half stay empty, or more
	if cap(g.table) < places {
		g.table = make([]int32, places)
	}
	g.table = g.table[:places]
	clear(g.table)
	for i := range k {
		h := hash(i)
		at := int(h * fibonacci >> (64 - size))
		for g.table[at] != 0 {
			if n := int(g.table[at] - 1); g.hashes[n] == h && equal(g.first[n], i) {
				break
			}
			at = (at + 1) & (places - 1)
		}
		if g.table[at] == 0 {
			g.first, g.size, g.hashes = append(g.first, i), append(g.size, 0), append(g.hashes, h)
			g.table[at] = int32(len(g.first))
		}
		n := int(g.table[at] - 1)
		g.of, g.size[n] = append(g.of, n), g.size[n]+1
	}
}

// hashRow is a hash of numbers, in four chains that do not wait for each other. −0 counts as 0.
func hashRow(x []float64) uint64 {
	var h [4]uint64
	for ; len(x) >= 4; x = x[4:] {
		h[0] = mix(h[0], math.Float64bits(x[0]+0))
		h[1] = mix(h[1], math.Float64bits(x[1]+0))
		h[2] = mix(h[2], math.Float64bits(x[2]+0))
		h[3] = mix(h[3], math.Float64bits(x[3]+0))
	}
	for _, v := range x {
		h[0] = mix(h[0], math.Float64bits(v+0))
	}
	return mix(mix(mix(h[0], h[1]), h[2]), h[3])
}

// cost returns that of candidate i, 0 where costs do not matter.
func (g *groups) cost(i int) float64 {
	if g.costs != nil {
		return g.costs[i]
	}
	return 0
}

// mixCost mixes the cost of candidate i into a hash, where costs matter.
func (g *groups) mixCost(h uint64, i int) uint64 {
	if g.costs != nil {
		return mix(h, math.Float64bits(g.costs[i]))
	}
	return h
}

// find groups the candidates by their features, with a price also by their costs, for greedy policies by their scores,
// of which equal features are a case.
func (g *groups) find(p bandit.Policy, priced bool) {
	o, d := g.offer, g.offer.compiled.Dim
	if g.costs = nil; priced {
		g.costs = o.costs
	}
	row := func(i int) []float64 { return o.X[i*d : (i+1)*d] }
	if o.hashed != nil {
		s := &o.sparse
		g.group(len(s.actions), func(i int) uint64 {
			h := uint64(0)
			for _, a := range s.actions[i] {
				h = mix(mix(h, a.Hash), math.Float64bits(a.Value))
			}
			return g.mixCost(h, i)
		}, func(i, j int) bool { return slices.Equal(s.actions[i], s.actions[j]) && g.cost(i) == g.cost(j) })
	} else {
		g.group(len(o.X)/d, func(i int) uint64 { return g.mixCost(hashRow(row(i)), i) },
			func(i, j int) bool { return slices.Equal(row(i), row(j)) && g.cost(i) == g.cost(j) })
	}
	g.alike = len(g.first) < len(g.of)
	if theta := greedy(p); theta != nil && len(theta) == d {
		scores := make([]float64, len(g.of))
		for i := range scores {
			scores[i] = linalg.Dot(row(i), theta) + 0
		}
		g.group(len(scores), func(i int) uint64 { return g.mixCost(math.Float64bits(scores[i]), i) },
			func(i, j int) bool { return scores[i] == scores[j] && g.cost(i) == g.cost(j) })
	}
}

// greedy returns θ of a policy that plays the largest score, nil for others.
func greedy(p bandit.Policy) []float64 {
	if g, ok := p.(bandit.GreedyScorer); ok {
		return g.GreedyTheta()
	}
	return nil
}

// set returns one candidate of each group.
func (g *groups) set() (bandit.ActionSet, error) {
	o, d := g.offer, g.offer.compiled.Dim
	if o.hashed != nil {
		return representatives{g}, nil
	}
	if len(g.first) == len(g.of) {
		return actionset.FiniteOf(d, o.X)
	}
	g.rows = g.rows[:0]
	for _, i := range g.first {
		g.rows = append(g.rows, o.X[i*d:(i+1)*d]...)
	}
	return actionset.FiniteOf(d, g.rows)
}

// representatives are one candidate of each group, with hashed features.
type representatives struct{ g *groups }

func (r representatives) Dim() int { return r.g.offer.compiled.Dim }

func (r representatives) Len() int { return len(r.g.first) }

func (r representatives) Nonzeros(g int) ([]uint32, []float64) {
	i := r.g.first[g]
	return r.g.offer.sparse.at[i], r.g.offer.sparse.x[i]
}

// ArgMax implements bandit.ActionSet.
func (r representatives) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	best, arm := math.Inf(-1), 0
	for g := range r.Len() {
		var v float64
		at, x := r.Nonzeros(g)
		for k, c := range at {
			v += float64(x[k] * theta[c])
		}
		if v > best {
			best, arm = v, g
		}
	}
	at, x := r.Nonzeros(arm)
	dst.SetSparse(at, x, arm)
	return best, nil
}

// member returns candidate number n of a group.
func (g *groups) member(group, n int) int {
	for i, of := range g.of {
		if of != group {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	panic("choose: a group has fewer candidates than it counts")
}

// count takes the votes of the groups from the policy's law. A law that is no count becomes one over 2⁵³, whose
// rounding goes to the largest.
func (g *groups) count(law *bandit.Law) {
	g.votes, g.total = g.votes[:0], law.Total
	if law.Total > 0 {
		for _, a := range law.Atoms {
			g.votes = append(g.votes, a.Count)
		}
		return
	}
	g.total = 1 << 53
	var sum uint64
	most := 0
	for i, a := range law.Atoms {
		n := uint64(math.Round(min(a.P, 1) * (1 << 53)))
		if g.votes = append(g.votes, n); n > g.votes[most] {
			most = i
		}
		sum += n
	}
	g.votes[most] += g.total - sum
}
