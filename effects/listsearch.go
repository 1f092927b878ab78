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
	extra   []float64 // n×k
	again   [][]repeat
	sorted  []int32
	value   []float64 // n×k
	u, v    []float64 // of the assignment
	row     []int32
	way     []int32
	least   []float64
	done    []bool
	start   []int32
	taken   []bool
	trial   []int32
	nearest []int32
}

// repeat is what a candidate's value adds where an entry above has it too.
type repeat struct {
	hash uint64
	x    float64
}

func (s *listSearch) begin(n int, shape ListShape, e []float64) {
	s.n, s.k, s.shape, s.e = n, shape.K, shape, e
	s.a, s.extra = resize(s.a, n), resize(s.extra, n*shape.K)
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
	for len(s.again) < n {
		s.again = append(s.again, nil)
	}
	s.taken = s.taken[:0]
	for range n {
		s.taken = append(s.taken, false)
	}
}

// best stores the best list, and reports whether that was a search.
func (s *listSearch) best(out []int32, extra bool) (searched bool) {
	switch {
	case s.shape.Apart:
		s.apart(out)
	case s.shape.Allowed == nil && !extra:
		s.sort(out)
	default:
		s.assign(out)
	}
	for _, r := range s.again[:s.n] {
		if len(r) > 0 {
			return s.exchange(out)
		}
	}
	return false
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

// sort gives the largest attraction to the most examined position. Scales are not negative, so no list has more.
func (s *listSearch) sort(out []int32) {
	s.sorted = s.top(s.sorted[:0], s.k)
	for r, l := range s.order {
		out[l] = s.sorted[r]
	}
}

// top appends the candidates of the largest attractions in order, of equals the first.
func (s *listSearch) top(dst []int32, count int) []int32 {
	for i := range s.n {
		at := len(dst)
		for at > 0 && s.a[i] > s.a[dst[at-1]] {
			at--
		}
		if at >= count {
			continue
		}
		dst = slices.Insert(dst, at, int32(i))
		dst = dst[:min(len(dst), count)]
	}
	return dst
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

// worth is the value of a list with its repeats.
func (s *listSearch) worth(list []int32) float64 {
	var sum float64
	for l, i := range list {
		a := s.a[i]
		for _, r := range s.again[i] {
			for _, j := range list[:l] {
				if s.holds(j, r.hash) {
					a += r.x
					break
				}
			}
		}
		sum += float64(s.e[l]*a) + s.extra[int(i)*s.k+l]
	}
	return sum
}

// holds reports whether a candidate has a value that repeats.
func (s *listSearch) holds(i int32, hash uint64) bool {
	for _, r := range s.again[i] {
		if r.hash == hash {
			return true
		}
	}
	return false
}

const (
	exchangeRounds = 4
	exchangeNear   = 12 // candidates beyond k that an exchange may bring in
)

// exchange betters a list where values repeat: from the list given, and from the one that takes, position by position, the
// best candidate after those above, the better; then it swaps two entries, or takes another candidate, as long as that gains.
func (s *listSearch) exchange(out []int32) bool {
	if !s.shape.Apart && s.shape.Allowed == nil {
		s.start = resizeInts(s.start, s.k)
		s.greedy(s.start)
		if s.worth(s.start) > s.worth(out) {
			copy(out, s.start)
		}
	}
	for _, i := range out {
		s.taken[i] = true
	}
	s.nearest = s.top(s.nearest[:0], s.k+exchangeNear)
	s.trial = append(s.trial[:0], out...)
	have := s.worth(out)
	for range exchangeRounds {
		gained := false
		for l := range s.k {
			for h := range l {
				x, y := out[h], out[l]
				if !s.allowed(h, int(y)) || !s.allowed(l, int(x)) {
					continue
				}
				s.trial[h], s.trial[l] = y, x
				if v := s.worth(s.trial); v > have {
					out[h], out[l], have, gained = y, x, v, true
				} else {
					s.trial[h], s.trial[l] = x, y
				}
			}
			for _, i := range s.nearest {
				if s.taken[i] || !s.allowed(l, int(i)) {
					continue
				}
				was := out[l]
				s.trial[l] = i
				if v := s.worth(s.trial); v > have {
					s.taken[was], s.taken[i] = false, true
					out[l], have, gained = i, v, true
				} else {
					s.trial[l] = was
				}
			}
		}
		if !gained {
			break
		}
	}
	for _, i := range out {
		s.taken[i] = false
	}
	return true
}

// greedy fills the positions in their order with the best candidate after those above.
func (s *listSearch) greedy(out []int32) {
	for l := range s.k {
		best, at := math.Inf(-1), int32(-1)
		for i := range int32(s.n) {
			if slices.Contains(out[:l], i) {
				continue
			}
			a := s.a[i]
			for _, r := range s.again[i] {
				for _, j := range out[:l] {
					if s.holds(j, r.hash) {
						a += r.x
						break
					}
				}
			}
			if v := float64(s.e[l]*a) + s.extra[int(i)*s.k+l]; at < 0 || v > best {
				best, at = v, i
			}
		}
		out[l] = at
	}
}
