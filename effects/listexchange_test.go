package effects

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// plainSearch searches as exchange does, and computes the value of the whole list for each exchange.
type plainSearch struct{ *listSearch }

func (s plainSearch) holds(i, value int32) bool {
	return slices.ContainsFunc(s.again[i], func(r repeat) bool { return r.value == value })
}

// with is the attraction of a candidate below some entries.
func (s plainSearch) with(i int32, above []int32) float64 {
	a := s.a[i]
	for _, r := range s.again[i] {
		if slices.ContainsFunc(above, func(j int32) bool { return s.holds(j, r.value) }) {
			a += s.x[r.x]
		}
	}
	return a
}

func (s plainSearch) worth(list []int32) (sum float64) {
	for l, i := range list {
		sum += float64(s.e[l]*s.with(i, list[:l])) + s.extra[int(i)*s.k+l]
	}
	return sum
}

func (s plainSearch) top(count int) []int32 {
	var all []int32
	for i := range int32(s.n) {
		all = append(all, i)
	}
	slices.SortStableFunc(all, func(x, y int32) int {
		switch {
		case s.a[x] > s.a[y]:
			return -1
		case s.a[x] < s.a[y]:
			return 1
		}
		return 0
	})
	return all[:min(count, s.n)]
}

func (s plainSearch) best(out []int32) {
	switch {
	case s.shape.Apart:
		s.apart(out)
	case s.shape.Allowed == nil && !s.places:
		sorted := s.top(s.k)
		for r, l := range s.order {
			out[l] = sorted[r]
		}
	default:
		s.assign(out)
	}
	if !s.shape.Apart && s.shape.Allowed == nil {
		var list []int32
		for l := range s.k {
			best, at := math.Inf(-1), int32(-1)
			for i := range int32(s.n) {
				if slices.Contains(list, i) {
					continue
				}
				if v := float64(s.e[l]*s.with(i, list)) + s.extra[int(i)*s.k+l]; at < 0 || v > best {
					best, at = v, i
				}
			}
			list = append(list, at)
		}
		if s.worth(list) > s.worth(out) {
			copy(out, list)
		}
	}
	nearest := s.top(s.k + exchangeNear)
	for range exchangeRounds {
		gained := false
		take := func(list []int32) {
			if s.worth(list) > s.worth(out) {
				copy(out, list)
				gained = true
			}
		}
		for l := range s.k {
			for h := range l {
				if s.allowed(h, int(out[l])) && s.allowed(l, int(out[h])) {
					list := slices.Clone(out)
					list[h], list[l] = list[l], list[h]
					take(list)
				}
			}
			for _, i := range nearest {
				if !slices.Contains(out, i) && s.allowed(l, int(i)) {
					list := slices.Clone(out)
					list[l] = i
					take(list)
				}
			}
		}
		if !gained {
			return
		}
	}
}

// TestExchange: the search finds the lists that it finds without differences, where values are words of several fields,
// attractions and scales are equal or nearly so, items want places, lists are restricted, and what is added is huge.
func TestExchange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	var s listSearch
	differ, moved := 0, 0
	for round := range 6000 {
		n := 2 + r.IntN(30)
		k := 1 + r.IntN(min(n, 12))
		e := make([]float64, k)
		for l := range e {
			switch round % 3 {
			case 0:
				e[l] = 1
			case 1:
				e[l] = float64(r.IntN(4)) / 3
			default:
				e[l] = 1 / (1 + .37*float64(l))
			}
		}
		shape := ListShape{K: k}
		switch round / 3 % 4 {
		case 2:
			may := make([]bool, n*k)
			for i := range may {
				may[i] = r.IntN(4) > 0 || i/k == i%k
			}
			shape.Allowed = func(l, i int) bool { return may[i*k+l] }
		case 3:
			shape.Apart, shape.Allowed = true, func(l, i int) bool { return i%k == l }
		}
		values := 1 + r.IntN(8)
		again := make([][]repeat, n)
		for i := range again {
			for range r.IntN(4) { // with the value of the field and that of the word, and words that come twice
				v := r.IntN(values)
				again[i] = append(again[i], repeat{int32(v), int32(v % 3)}, repeat{int32(v), int32(3 + v)})
			}
		}
		places := round/12%4 == 3
		s.begin(n, shape, e, again, places)
		if s.values == 0 {
			continue
		}
		s.a = resize(s.a, n)
		scale := []float64{1, 1e-9, 1e12}[r.IntN(3)]
		draw := func() float64 {
			if round%2 == 0 {
				return float64(r.IntN(4)-2) / 7
			}
			return r.NormFloat64()
		}
		for i := range s.a {
			s.a[i] = draw()
		}
		for i := range s.x {
			s.x[i] = scale * draw()
		}
		if places {
			for i := range s.extra {
				s.extra[i] = draw()
			}
		}
		got, want := make([]int32, k), make([]int32, k)
		if !s.best(got) {
			t.Fatal("there are repeats, and the list was not searched")
		}
		p := plainSearch{&s}
		if p.best(want); !slices.Equal(got, want) {
			t.Fatalf("round %d: %v, without differences %v", round, got, want)
		}
		if v := s.worth(got); v != p.worth(got) {
			t.Fatalf("round %d: the list has %v, it is worth %v", round, v, p.worth(got))
		}
		// The differences themselves, and their bound of rounding.
		s.drawn()
		s.stand(got)
		have, bound := p.worth(got), s.rounding()
		for l := range k {
			for i := range int32(n) {
				list := slices.Clone(got)
				if list[l] = i; !slices.Contains(got, i) {
					if d := s.at(l, i) - s.at(l, got[l]); !(math.Abs(d-(p.worth(list)-have)) <= bound) {
						t.Fatalf("round %d: %d at %d gains %v, the difference is %v", round, i, l, p.worth(list)-have, d)
					}
					moved++
				}
			}
			for h := range l {
				list := slices.Clone(got)
				list[h], list[l] = list[l], list[h]
				if d := s.swapped(got, h, l); !(math.Abs(d-(p.worth(list)-have)) <= bound) {
					t.Fatalf("round %d: the exchange of %d and %d gains %v, the difference is %v", round, h, l, p.worth(list)-have, d)
				}
				moved++
			}
		}
		if first := make([]int32, k); shape.Allowed == nil {
			if s.greedy(first, bound); !slices.Equal(first, got) {
				differ++
			}
		}
	}
	if differ < 500 || moved < 1e5 {
		t.Errorf("%d lists differ from the greedy one, %d exchanges", differ, moved)
	}
}
