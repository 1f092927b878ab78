package linalg

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/internal/cpu"
)

// TestShortlist: a shortlist that follows steps by its lists says of every member and sign what a look at all arms says: the
// same first value with its arm, bit for bit, and the same second one unless both are behind by more than slack. In runs with
// steps that go in one direction and that turn, arms that are equal or nearly, arms that are 0, bases and factors that move, looks
// without a step and steps without a look, scores of any size, numbers of arms around those of vectors and where lists begin; and every
// level has the same lists.
func TestShortlist(t *testing.T) {
	for _, c := range []struct {
		arms, members int
		size          float64 // of scores
		move          float64 // of a step, against the scores
		crowd         bool
		listed        int // looks at lists, at least
	}{
		{7, 5, 1, 0.05, false, 0},
		{24, 16, 1, 0.02, false, 200},
		{25, 1, 1, 0.02, true, 200},
		{31, 40, 1e-140, 0.02, false, 200},
		{33, 17, 1e60, 0.05, true, 100},
		{64, 33, 1, 0.3, true, 0},
		{100, 300, 1, 0.01, true, 300},
		{257, 20, 1e-3, 0.02, true, 300},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			var at []int
			for l := cpu.Portable; l <= cpu.Best(); l++ {
				restore := cpu.Force(l)
				lists := checkShortlist(t, c.arms, c.members, c.size, c.move, c.crowd, c.listed)
				restore()
				if at == nil {
					at = lists
				}
				for i, n := range lists {
					if n != at[i] {
						t.Fatalf("kernels %v: %d arms on lists at look %d, portable %d", l, n, i, at[i])
					}
				}
			}
		})
	}
}

// checkShortlist returns the number of arms on lists at each look, −1 without lists.
func checkShortlist(t *testing.T, arms, members int, size, move float64, crowd bool, least int) (lists []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(arms), uint64(members)))
	signs := 1 + members%3%2
	c := NewShortlist(arms, members, signs)
	all := make([]float64, 0, c.panels*8*arms)
	base := make([]float64, arms)
	for a := range base {
		base[a] = 0.3 * size * r.NormFloat64()
	}
	twin := make([]int, arms) // an arm that is like another
	for a := range twin {
		twin[a] = a
		if crowd && a > 0 && r.IntN(4) == 0 {
			twin[a] = r.IntN(a)
			base[a] = base[twin[a]]
		}
	}
	restart := func() {
		for pair := range c.panels / 2 {
			p := c.Scores(pair)
			for i := range p {
				p[i] = size * r.NormFloat64()
			}
			for h := range 2 {
				panel := p[h*8*arms : (h+1)*8*arms]
				for a, b := range twin {
					copy(panel[8*a:8*a+8], panel[8*b:8*b+8])
					if a != b && r.IntN(2) == 0 {
						panel[8*a+r.IntN(8)] *= 1 + 0x1p-50
					}
				}
				if crowd {
					clear(panel[8*(arms-1):])
				}
			}
		}
		all = append(all[:0], c.p...)
		c.Restart()
	}
	restart()
	w, u := make([]float64, arms), make([]float64, c.panels*8)
	by, listed := 1.05, 0
	reference := make([]Leads, c.panels)
	failure := errors.New("enough")
	for round := range 500 {
		if r.IntN(150) == 0 {
			restart()
		}
		steps := 1
		if r.IntN(10) == 0 {
			steps = r.IntN(20)
		}
		for range steps {
			arm := r.IntN(1 + arms/4)
			for a := range w {
				w[a] = 0.2 * move * r.NormFloat64()
			}
			w[arm] = move
			if crowd {
				for a, b := range twin {
					w[a] = w[b]
				}
				w[arms-1] = 0
			}
			sharp := round/20%3 == 1 // one arm moves, and all members by the same: as far as the bound says
			if sharp {
				clear(w)
				w[(round/20*7)%arms] = move
			}
			apart := round/20%3 == 2
			push := math.Sin(float64(round) / 30)
			for j := range members {
				u[j] = size * (r.NormFloat64() + push)
				if sharp {
					u[j] = all[(j/8*arms+arm)*8+j%8] + size
				}
			}
			by *= 1 + 1e-6*r.NormFloat64()
			if apart { // a base moves alone, or the factor does
				if clear(w); round%40 < 20 {
					base[(round/20*5)%arms] += 10 * move * size * float64(1-round%20/10*2) // there and back
				} else {
					by = 1 + move*float64(round%2)
				}
			}
			for a := range base {
				if !sharp {
					base[a] += 0.3 * size * w[a]
				}
			}
			c.Step(w, u, arm)
			for g := range c.panels {
				var h [8]float64
				for i := range h {
					h[i] = u[8*g+i] - all[(g*arms+arm)*8+i]
				}
				AddPanels(all[g*8*arms:(g+1)*8*arms], h[:], w)
			}
		}
		n, was := c.Listed()
		if was {
			listed++
		} else {
			n = -1
		}
		lists = append(lists, n)
		FindLeads(reference, all, base, by)
		slack, most := 0.0, 0.0
		for _, v := range all {
			most = max(most, math.Abs(v))
		}
		for _, v := range base {
			slack = max(slack, math.Abs(v))
		}
		slack = 64 * Resolution(arms) * (slack + by*most)
		seen := 0
		err := c.Look(base, by, slack, 1.01*most, func(first int, leads []Leads) error {
			for g := range leads {
				got, want := &leads[g], &reference[first+g]
				for k := range signs {
					for i := range 8 {
						if 8*(first+g)+i >= members {
							continue
						}
						seen++
						if got.First[k][i] != want.First[k][i] {
							return fmt.Errorf("member %d, sign %d: arm %d of value %v leads, want %d of %v", 8*(first+g)+i, k,
								got.Arm(got.First[k][i]), got.First[k][i], want.Arm(want.First[k][i]), want.First[k][i])
						}
						gap, wide := got.First[k][i]-got.Second[k][i], want.First[k][i]-want.Second[k][i]
						if got.Second[k][i] != want.Second[k][i] && !(gap > slack && wide > slack) {
							return fmt.Errorf("member %d, sign %d: the second is behind by %v, want %v, slack %v", 8*(first+g)+i, k, gap, wide, slack)
						}
					}
				}
			}
			if round == 400 {
				return failure
			}
			return nil
		})
		switch {
		case errors.Is(err, failure):
			restart()
		case err != nil:
			t.Fatalf("kernels %v, round %d, lists %v: %v", cpu.Kernels(), round, was, err)
		case seen != signs*members:
			t.Fatalf("round %d: %d leads, want %d", round, seen, signs*members)
		}
	}
	if listed < least {
		t.Errorf("kernels %v: only %d looks at lists", cpu.Kernels(), listed)
	}
	return lists
}

// TestCounts: leads that are sure are counted for their arms, and the others are named, as going through them one by one does it, at
// every level; when the same members are counted again with other leads, another gap, or something added; with members that do not fill
// a panel.
func TestCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, arms := range []int{1, 5, 256, 257, 1000} {
		for members := 1; members < 20*LeadPanels; members += 1 + r.IntN(9) {
			signs, panels := 1+r.IntN(2), (members+7)/8
			leads, base, p := make([]Leads, panels), make([]float64, arms), make([]float64, panels*8*arms)
			for i := range p {
				p[i] = float64(r.IntN(40))
			}
			var counts [cpu.AVX512 + 1]*Counts
			for i := range counts {
				counts[i] = NewCounts(arms, members)
			}
			for _, gap := range []float64{0.5, 0.5, -1, 1, math.Inf(1), 0.5, math.NaN(), 0} {
				p[r.IntN(len(p))] += 5
				FindLeads(leads, p, base, 1)
				want, named := make([]uint64, arms), make([]uint8, 2*panels)
				for j := range members {
					for k := range signs {
						l := &leads[j/8]
						if v := l.First[k][j%8]; v-l.Second[k][j%8] > gap {
							want[l.Arm(v)]++
						} else {
							named[j/8*2+k] |= 1 << (j % 8)
						}
					}
				}
				more := r.IntN(arms)
				want[more]++
				for level := cpu.Portable; level <= cpu.Best(); level++ {
					restore := cpu.Force(level)
					c := counts[level]
					c.Begin()
					c.Add(more)
					for first := 0; first < panels; first += LeadPanels {
						n := min(LeadPanels, panels-first)
						var unsure [2 * LeadPanels]uint8
						any := false
						for i, v := range named[2*first : 2*(first+n)] {
							any = any || v != 0 && i%2 < signs
						}
						if got := c.Set(first, leads[first:first+n], members-8*first, signs, gap, &unsure); got != any {
							t.Fatalf("kernels %v, %d arms, %d members, %d signs, gap %v: any is %v", level, arms, members, signs, gap, got)
						}
						if any && !slices.Equal(unsure[:2*n], named[2*first:2*(first+n)]) {
							t.Fatalf("kernels %v, %d arms, %d members, %d signs, gap %v: %b are not sure, want %b", level, arms, members, signs, gap, unsure, named[2*first:])
						}
					}
					restore()
					for a, n := range want {
						if c.Of(a) != n {
							t.Fatalf("kernels %v, %d arms, %d members, %d signs, gap %v: arm %d has %d, want %d", level, arms, members, signs, gap, a, c.Of(a), n)
						}
					}
				}
			}
		}
	}
}

// TestAbs compares MaxAbs and AddAbs at every level with loops.
func TestAbs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for n := range 40 {
		x := make([]float64, n+4)
		var want float64
		for i := range x {
			x[i] = r.NormFloat64() * 1e3 // beyond the end, too
			if i < n {
				x[i] /= 1e3
				want = max(want, math.Abs(x[i]))
			}
		}
		if got := everyLevel(t, "MaxAbs", func() []float64 { return []float64{MaxAbs(x[:n])} }); got[0] != want {
			t.Fatalf("%d numbers: %v, want %v", n, got[0], want)
		}
		got := everyLevel(t, "AddAbs", func() []float64 {
			y := make([]float64, n+4)
			for i := range y {
				y[i] = float64(i)
			}
			AddAbs(y[:n], x[:n], 0.7, 0.1)
			return y
		})
		for i, v := range got {
			want := float64(i)
			if i < n {
				want = math.FMA(math.Abs(x[i]), 0.7, want) + 0.1
			}
			if v != want {
				t.Fatalf("%d numbers: number %d is %v, want %v", n, i, v, want)
			}
		}
	}
}

// TestWithin plants a number beyond the limit, a NaN and infinities at every place.
func TestWithin(t *testing.T) {
	flag := func(x []float64, limit float64) []float64 {
		if Within(x, limit) {
			return []float64{1}
		}
		return []float64{0}
	}
	for n := range 40 {
		x := make([]float64, n+4)
		for i := range x {
			x[i] = math.Copysign(2.5, float64(i%2)-0.5)
			if i >= n {
				x[i] = math.NaN() // is not looked at
			}
		}
		if got := everyLevel(t, "Within", func() []float64 { return flag(x[:n], 2.5) }); got[0] != 1 {
			t.Fatalf("%d numbers at the limit are refused", n)
		}
		for i := range n {
			for _, bad := range []float64{math.Nextafter(2.5, 3), -3, math.NaN(), math.Float64frombits(0xfff8000000000001), math.Inf(1), math.Inf(-1)} {
				y := slices.Clone(x)
				y[i] = bad
				if got := everyLevel(t, "Within", func() []float64 { return flag(y[:n], 2.5) }); got[0] != 0 {
					t.Fatalf("%d numbers: %v at %d passes", n, bad, i)
				}
				if everyLevel(t, "Finite", func() []float64 {
					return []float64{map[bool]float64{true: 1}[Finite(y[:n])]}
				})[0] == 1 != !(math.IsNaN(bad) || math.IsInf(bad, 0)) {
					t.Fatalf("%d numbers: Finite with %v at %d", n, bad, i)
				}
			}
		}
	}
}

// TestMerge: leads of parts of the arms, put together, are the leads of all.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, arms := range []int{1, 2, 5, 96, 97, 200, 1000} {
		p, base := make([]float64, 8*arms), make([]float64, arms)
		for i := range p {
			p[i] = r.NormFloat64()
		}
		for i := range base {
			base[i] = r.NormFloat64()
		}
		var want [1]Leads
		FindLeads(want[:], p, base, 0.7)
		for _, size := range []int{1, 7, 96, 999} {
			var got Leads
			for first := 0; first < arms; first += size {
				var some [1]Leads
				to := min(first+size, arms)
				FindLeads(some[:], p[8*first:8*to], base[first:to], 0.7)
				got.Merge(&some[0], first, arms)
			}
			if got != want[0] {
				t.Fatalf("%d arms in parts of %d: %+v, want %+v", arms, size, got, want[0])
			}
		}
	}
}

// TestAxpy compares Axpy at every level with a loop, of x and y apart and of one slice.
func TestAxpy(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	for n := range 70 {
		x, y := make([]float64, n+4), make([]float64, n+4)
		for i := range x {
			x[i], y[i] = r.NormFloat64(), r.NormFloat64()
		}
		const alpha = -0.7
		for _, same := range []bool{false, true} {
			got := everyLevel(t, "Axpy", func() []float64 {
				to, from := append([]float64(nil), y...), x
				if same {
					from = to
				}
				Axpy(alpha, from[:n], to)
				return to
			})
			for i, v := range got {
				want, from := y[i], x
				if same {
					from = y
				}
				if i < n {
					want += float64(alpha * from[i])
				}
				if v != want {
					t.Fatalf("%d numbers, same %v: number %d is %v, want %v", n, same, i, v, want)
				}
			}
		}
	}
}
