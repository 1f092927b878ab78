package effects

import (
	"math"
	"slices"
)

// listSearch finds the list of the largest value
//
//	Σ_l e_l·(a_i + Σ repeats of i among the entries above) + extra_il,  i at position l,
//
// among the permitted ones. It is the scratch space of one goroutine.
type listSearch struct {
	n, k    int
	shape   ListShape
	e       []float64
	order   []int     // positions, the most examined first; of equals the first
	a       []float64 // of the candidates
	extra   []float64 // n×k, zero unless places
	places  bool
	sorted  []int32 // the candidates of the largest attractions, in order
	before  []int32 // those of the draw before
	largest []float64
	value   []float64 // n×k
	u, v    []float64 // of the assignment
	row     []int32
	way     []int32
	least   []float64
	done    []bool
	exchanges
}

// begin prepares for the lists of a request, of which again are the repeats of the candidates. Each draw sets a, x, and
// extra where places says so, and calls best.
func (s *listSearch) begin(n int, shape ListShape, e []float64, again [][]repeat, places bool) {
	s.n, s.k, s.shape, s.e, s.places = n, shape.K, shape, e, places
	s.extra = resize(s.extra, n*shape.K)
	clear(s.extra)
	s.sorted = s.sorted[:0]
	s.repeats(n, again)
	s.order = s.order[:0]
	for l := range shape.K {
		s.order = append(s.order, l)
	}
	slices.SortStableFunc(s.order, func(x, y int) int {
		switch {
		case e[x] > e[y]:
			return -1
		case e[x] < e[y]:
			return 1
		}
		return 0
	})
}

// best stores the best list, and reports whether that was a search.
func (s *listSearch) best(out []int32) (searched bool) {
	sorts := !s.shape.Apart && s.shape.Allowed == nil && !s.places
	switch {
	case s.values > 0:
		s.top(s.k + exchangeNear)
	case sorts:
		s.top(s.k)
	}
	switch {
	case sorts:
		for r, l := range s.order { // scales are not negative, so no list has more
			out[l] = s.sorted[r]
		}
	case s.shape.Apart:
		s.apart(out)
	default:
		s.assign(out)
	}
	if s.values > 0 {
		s.exchange(out)
	}
	return s.values > 0
}

func (s *listSearch) allowed(l, i int) bool { return s.shape.Allowed == nil || s.shape.Allowed(l, i) }

// apart takes the best candidate of each position.
func (s *listSearch) apart(out []int32) {
	for l := range s.k {
		best, at := math.Inf(-1), int32(-1)
		for i := range s.n {
			if v := float64(s.e[l]*s.a[i]) + s.extra[i*s.k+l]; s.allowed(l, i) && (at < 0 || v > best) {
				best, at = v, int32(i)
			}
		}
		out[l] = at
	}
}

// top finds the candidates of the largest attractions in order, of equals the first. It begins with those of the draw before,
// because most of them are the largest again.
func (s *listSearch) top(count int) {
	s.before, s.sorted = s.sorted, s.before[:0]
	s.largest = s.largest[:0]
	for _, i := range s.before {
		s.taken[i] = true
		s.insert(i, s.a[i], count)
	}
	for i, a := range s.a[:s.n] {
		if n := len(s.largest); (n < count || a >= s.largest[n-1]) && !s.taken[i] {
			s.insert(int32(i), a, count)
		}
	}
	for _, i := range s.before {
		s.taken[i] = false
	}
}

// insert puts a candidate in its place of the sorted ones.
func (s *listSearch) insert(i int32, a float64, count int) {
	dst, of := append(s.sorted, i), append(s.largest, a)
	at := len(dst) - 1
	for ; at > 0 && (a > of[at-1] || a == of[at-1] && i < dst[at-1]); at-- {
		dst[at], of[at] = dst[at-1], of[at-1]
	}
	dst[at], of[at] = i, a
	if len(dst) > count {
		dst, of = dst[:count], of[:count]
	}
	s.sorted, s.largest = dst, of
}

// forbidden is the value of a candidate at a position where it may not stand.
const forbidden = -1e200

// assign solves the assignment of candidates to positions by shortest augmenting paths (Kuhn, Munkres), O(k²n).
func (s *listSearch) assign(out []int32) {
	n, k := s.n, s.k
	s.value = resize(s.value, n*k)
	for i := range n {
		for l := range k {
			v := float64(s.e[l]*s.a[i]) + s.extra[i*k+l]
			if !s.allowed(l, i) {
				v = forbidden
			}
			s.value[i*k+l] = v
		}
	}
	s.u, s.v = resize(s.u, k+1), resize(s.v, n+1)
	clear(s.u)
	clear(s.v)
	s.row, s.way = resizeInts(s.row, n+1), resizeInts(s.way, n+1)
	clear(s.row) // 1 + position of candidate i−1
	s.least = resize(s.least, n+1)
	for l := 1; l <= k; l++ {
		s.row[0] = int32(l)
		at := 0
		s.done = s.done[:0]
		for i := range n + 1 {
			s.least[i] = math.Inf(1)
			s.done = append(s.done, false)
		}
		for s.row[at] != 0 {
			s.done[at] = true
			p := int(s.row[at])
			delta, next := math.Inf(1), 0
			for i := 1; i <= n; i++ {
				if s.done[i] {
					continue
				}
				if c := -s.value[(i-1)*k+p-1] - s.u[p] - s.v[i]; c < s.least[i] {
					s.least[i], s.way[i] = c, int32(at)
				}
				if s.least[i] < delta {
					delta, next = s.least[i], i
				}
			}
			for i := range n + 1 {
				if s.done[i] {
					s.u[s.row[i]] += delta
					s.v[i] -= delta
				} else {
					s.least[i] -= delta
				}
			}
			at = next
		}
		for at != 0 {
			before := int(s.way[at])
			s.row[at] = s.row[before]
			at = before
		}
	}
	for i := 1; i <= n; i++ {
		if l := s.row[i]; l > 0 {
			out[l-1] = int32(i - 1)
		}
	}
}
