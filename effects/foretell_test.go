package effects

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestExpectedCurve: means and variances of a curve are those that the model has for each value by itself, for two numbers, one of them cyclic, and for one;
// an action without the number has none, and the model does not change.
func TestExpectedCurve(t *testing.T) {
	for _, n := range []int{30, 400} {
		g := newGame(3, n)
		digest := g.m.Digest()
		u := []float64{0, .01, .25, .5, .77, 1}
		mean, sd := make([]float64, len(u)), make([]float64, len(u))
		for _, x := range g.contexts {
			for _, c := range []struct {
				action []Atom
				knob   int
			}{{g.cells[9], 0}, {g.cells[9], 1}, {g.cells[70], 0}} {
				if !Curve(g.m, x, c.action, c.knob, u, mean, sd) {
					t.Fatal("there is no curve")
				}
				for i := range u {
					a := slices.Clone(c.action)
					a[1+c.knob].Value = u[i]
					k, v := g.m.read(x, a, false)
					_, q := g.m.estimate(g.m.s.main, k, v)
					z := g.m.Estimate(x, a)
					if math.Abs(mean[i]-z) > 1e-9 || math.Abs(sd[i]-math.Sqrt(q)) > 1e-9 {
						t.Fatalf("%d events, number %d at %v: %v ± %v, the model has %v ± %v", n, c.knob, u[i], mean[i], sd[i], z, math.Sqrt(q))
					}
				}
			}
		}
		if Curve(g.m, g.contexts[0], g.cells[70], 1, u, mean, sd) || Curve(g.m, g.contexts[0], g.cells[80], 0, u, mean, sd) {
			t.Error("an action without the number has a curve")
		}
		if g.m.Digest() != digest {
			t.Error("the model has changed")
		}
	}
}

// TestBestExpected: the best list is that of the largest expected value among all lists, computed of vectors of entries as they are learned, where categories
// repeat and where positions want items of their own; and the expected rewards are theirs.
func TestBestExpected(t *testing.T) {
	for _, category := range []bool{false, true} {
		r := rand.New(rand.NewPCG(8, 1))
		m := listModel()
		own := make([]float64, 6*3)
		for i := range own {
			own[i] = r.NormFloat64()
		}
		var items [][]Atom
		for i := range 6 {
			c := 0
			if category {
				c = 1 + i%2
			}
			items = append(items, item(i, c))
		}
		if list, _, _ := BestList(m, nil, items, ListShape{K: 3}); list != nil {
			t.Error("a model that has learned no list has a best one")
		}
		for n := range 900 {
			context := []Atom{levelAtom(9, uint64(n%2)+1)}
			played := m.Lists(context, items, ListShape{K: 3}, uint64(n)).Lists[:3]
			var entries []Entry
			for l, i := range played {
				x := own[int(i)*3+l] - float64(l)/2 - 1
				if category && slices.ContainsFunc(played[:l], func(j int32) bool { return i%2 == j%2 }) {
					x -= 2
				}
				y := 0.
				if r.Float64() < 1/(1+math.Exp(-x)) {
					y = 1
				}
				entries = append(entries, Entry{items[i], y, true})
			}
			m.LearnList(0, context, entries, false)
		}
		digest := m.Digest()
		for segment := range uint64(3) { // the last one is new
			context := []Atom{levelAtom(9, segment+1)}
			got, value, approximate := BestList(m, context, items, ListShape{K: 3})
			if approximate != category {
				t.Errorf("approximate = %t", approximate)
			}
			worth := func(list []int32) (of []float64, sum float64) {
				var seen above
				m.reading.context(&m.s.lay, &m.find, context, nil)
				for l, i := range list {
					v := m.entry(items[i], l, seen, false).clone()
					seen.add(items[i])
					m.scaled(&v, m.s.h.lists.e[placeOf(l, false)], 1)
					z, _ := m.estimate(m.s.main, 0, &v)
					if !m.s.h.lists.open { // the variance is that of nothing, and so nearly is what was learned
						z = math.Round(1e6*z) / 1e6
					}
					of, sum = append(of, z), sum+z
				}
				return of, sum
			}
			of, have := worth(got)
			for l := range of {
				if math.Abs(of[l]-value[l]) > 1e-4 {
					t.Errorf("segment %d, position %d: expected %v, computed %v", segment, l, value[l], of[l])
				}
			}
			for i := range int32(6) {
				for j := range int32(6) {
					for k := range int32(6) {
						if i == j || j == k || i == k {
							continue
						}
						if _, v := worth([]int32{i, j, k}); v > have+1e-4 {
							t.Errorf("segment %d: %v has %v, %v has %v", segment, got, have, []int32{i, j, k}, v)
						}
					}
				}
			}
		}
		if m.Digest() != digest {
			t.Error("the model has changed")
		}
	}
}
