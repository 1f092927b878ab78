package choose

import (
	"fmt"
	"math/bits"
	"slices"

	"troupe/rng"
)

// maxOverlap is how many positions may have sets of candidates that overlap in part. The lists of such sets are counted over
// all subsets of positions.
const maxOverlap = 6

// maxWays bounds the number of lists that is counted.
const maxWays = 1 << 62

// Shape says which lists a request permits: K positions, and where each candidate may stand.
type Shape struct {
	K       int
	allowed []bool // by candidate and position, i·K + l; nil: everywhere
}

// Restrict lets every candidate stand nowhere, for Permit to permit it somewhere.
func (s *Shape) Restrict(candidates int) { s.allowed = make([]bool, candidates*s.K) }

// Permit says whether candidate i may stand at position l.
func (s *Shape) Permit(i, l int, yes bool) { s.allowed[i*s.K+l] = yes }

// Permits reports it.
func (s *Shape) Permits(i, l int) bool { return s.allowed == nil || s.allowed[i*s.K+l] }

// CountError: more positions than maxOverlap have sets of candidates that overlap in part, or there are more lists than
// can be counted.
type CountError struct{ Position int }

// Error says in one line what is wrong.
func (e *CountError) Error() string {
	return fmt.Sprintf("at most %d positions may have sets of candidates that overlap in part, with at most 2^62 lists", maxOverlap)
}

// NoListError: no list is permitted, because a position has no candidate that is left.
type NoListError struct{ Position int }

// Error says in one line what is wrong.
func (e *NoListError) Error() string {
	return fmt.Sprintf("position %d has no candidate that is left", e.Position)
}

// counter counts the lists that a shape permits. Where every candidate may stand everywhere, and where no candidate may
// stand at two positions, there are closed forms; otherwise the number of lists is that of the ways to choose different
// members of k sets,
//
//	U = Σ_π Π_{B∈π} (−1)^{|B|−1}·(|B|−1)!·|∩_{l∈B} S_l|,
//
// over all partitions π of the positions (Rota's inversion on their lattice), computed subset by subset: with the first
// position in a block B, the rest has the sum of the positions outside of B.
type counter struct {
	n, k    int
	shape   *Shape
	sizes   []int
	apart   bool
	counted bool
	masks   []int   // of each candidate: the positions where it may stand
	meet    []int64 // of a subset of positions: candidates that may stand at all of them
	memo    []int64
	factor  [maxOverlap + 1]int64
}

func newCounter(n int, shape *Shape) (*counter, error) {
	c := &counter{n: n, k: shape.K, shape: shape, sizes: make([]int, shape.K)}
	if shape.allowed == nil {
		if c.k > n {
			return nil, &NoListError{n}
		}
		for l := range c.sizes {
			c.sizes[l] = n
		}
		return c, nil
	}
	c.apart = true
	whole := true
	for i := range n {
		places := 0
		for l := range c.k {
			if shape.Permits(i, l) {
				c.sizes[l]++
				places++
			}
		}
		c.apart, whole = c.apart && places < 2, whole && places == c.k
	}
	if l := slices.Index(c.sizes, 0); l >= 0 {
		return nil, &NoListError{l}
	}
	if c.k == 1 {
		c.apart = true
		return c, nil
	}
	if whole {
		shape.allowed = nil
		return newCounter(n, shape)
	}
	if c.apart {
		return c, nil
	}
	if c.k > maxOverlap {
		return nil, &CountError{maxOverlap}
	}
	bound := uint64(1)
	for _, s := range c.sizes {
		if bound = product(bound, uint64(s)); bound == 0 || bound > maxWays/(203*120) { // partitions of six, (|B|−1)!
			return nil, &CountError{c.k - 1}
		}
	}
	c.counted = true
	c.factor[1] = 1
	for b := 2; b <= maxOverlap; b++ {
		c.factor[b] = -c.factor[b-1] * int64(b-1)
	}
	c.meet, c.memo = make([]int64, 1<<c.k), make([]int64, 1<<c.k)
	for i := range n {
		c.masks = append(c.masks, c.mask(i))
	}
	for l := range c.k { // the first position that can have none
		if c.count(1<<(l+1)-1, nil) == 0 {
			return nil, &NoListError{l}
		}
	}
	return c, nil
}

// mask is the set of positions where a candidate may stand.
func (c *counter) mask(i int) (m int) {
	for l := range c.k {
		if c.shape.Permits(i, l) {
			m |= 1 << l
		}
	}
	return m
}

// count returns the number of ways to fill the positions of rest with candidates that are not used.
func (c *counter) count(rest int, used []int) uint64 {
	clear(c.meet)
	for _, m := range c.masks {
		c.meet[m]++
	}
	for _, i := range used {
		c.meet[c.masks[i]]--
	}
	for l := range c.k { // sums over supersets
		for m := range c.meet {
			if m>>l&1 == 0 {
				c.meet[m] += c.meet[m|1<<l]
			}
		}
	}
	c.memo[0] = 1
	for m := 1; m < len(c.memo); m++ {
		if m&^rest != 0 {
			continue
		}
		first := m & -m
		others := m &^ first
		sum := int64(0)
		for b := others; ; b = (b - 1) & others {
			sum += c.factor[bits.OnesCount(uint(b))+1] * c.meet[b|first] * c.memo[others&^b]
			if b == 0 {
				break
			}
		}
		c.memo[m] = sum
	}
	return uint64(c.memo[rest])
}

// ways returns how many lists begin with the first l entries of a list, for l from 0 on.
func (c *counter) ways(rows []int) (out []uint64) {
	all := 1<<c.k - 1
	for l := range len(rows) + 1 {
		out = append(out, c.count(all&^(1<<l-1), rows[:l]))
	}
	return out
}

// placed returns how many lists have candidate i at position l.
func (c *counter) placed(i, l int) uint64 {
	return c.count((1<<c.k-1)&^(1<<l), []int{i})
}

// uniform draws a list that is permitted, each with the same probability. It uses the numbers 1 to k of the source.
func (c *counter) uniform(source rng.Source) []int {
	rows := make([]int, 0, c.k)
	for l := range c.k {
		if !c.counted {
			left := c.sizes[l]
			if !c.apart {
				left -= l
			}
			at := source.Intn(1+l, left)
			for i := range c.n {
				if !c.shape.Permits(i, l) || !c.apart && slices.Contains(rows, i) {
					continue
				}
				if at == 0 {
					rows = append(rows, i)
					break
				}
				at--
			}
			continue
		}
		rest := (1<<c.k - 1) &^ (1<<(l+1) - 1)
		left := c.count(rest|1<<l, rows)
		at := uint64(source.Intn(1+l, int(left)))
		for i := range c.n {
			if !c.shape.Permits(i, l) || slices.Contains(rows, i) {
				continue
			}
			n := c.count(rest, append(rows, i))
			if at < n {
				rows = append(rows, i)
				break
			}
			at -= n
		}
	}
	return rows
}

// complete is List.Complete. Only sets that overlap in part need to look ahead: where all candidates may stand everywhere there are as
// many as positions, and apart from each other no position takes from another.
func (c *counter) complete(rows []int) error {
	var used []int
	open := 0
	for l, i := range rows {
		if i >= 0 {
			used = append(used, i)
		} else {
			open |= 1 << l
		}
	}
	for l := range rows {
		if rows[l] >= 0 {
			continue
		}
		open &^= 1 << l
		for i := range c.n {
			if c.shape.Permits(i, l) && !slices.Contains(used, i) && (!c.counted || c.count(open, append(used, i)) > 0) {
				rows[l], used = i, append(used, i)
				break
			}
		}
		if rows[l] < 0 {
			return &NoListError{l}
		}
	}
	return nil
}
