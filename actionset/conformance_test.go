package actionset_test

import (
	"fmt"
	"math"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/rng"
	"troupe/spec"
)

// instance is the source that tests build sets from.
func instance() rng.Source { return rng.NewKey(7).Stream(rng.Instance).Round(0) }

func list(x ...any) []any { return x }

// subsets returns the 0/1 vectors of length n for which keep holds.
func subsets(n int, keep func(in []bool) bool) [][]float64 {
	var out [][]float64
	for bits := range 1 << n {
		in, x := make([]bool, n), make([]float64, n)
		for i := range n {
			if bits>>i&1 == 1 {
				in[i], x[i] = true, 1
			}
		}
		if keep(in) {
			out = append(out, x)
		}
	}
	return out
}

func times(f float64, list [][]float64) [][]float64 {
	for _, x := range list {
		for i := range x {
			x[i] *= f
		}
	}
	return list
}

func count(in []bool) (n int) {
	for _, yes := range in {
		if yes {
			n++
		}
	}
	return n
}

// isTree decides by reachability, not by union-find as the code does: n−1 edges that reach all.
func isTree(in []bool, edges [][2]int, n int) bool {
	if count(in) != n-1 {
		return false
	}
	seen := map[int]bool{0: true}
	for range n {
		for e, yes := range in {
			if yes && (seen[edges[e][0]] || seen[edges[e][1]]) {
				seen[edges[e][0]], seen[edges[e][1]] = true, true
			}
		}
	}
	return len(seen) == n
}

// isPath walks from node 0; every step must use the only chosen edge out of the node.
func isPath(in []bool, edges [][2]int, sink int) bool {
	used := 0
	for v := 0; v != sink; used++ {
		next := -1
		for e, yes := range in {
			if yes && edges[e][0] == v {
				if next >= 0 {
					return false
				}
				next = edges[e][1]
			}
		}
		if next < 0 {
			return false
		}
		v = next
	}
	return used == count(in)
}

func isPermutation(in []bool, n int) bool {
	for i := range n {
		row, col := 0, 0
		for j := range n {
			if in[i*n+j] {
				row++
			}
			if in[j*n+i] {
				col++
			}
		}
		if row != 1 || col != 1 {
			return false
		}
	}
	return true
}

// isList: one item at each position, and no item twice.
func isList(in []bool, n, k int) bool {
	for l := range k {
		items := 0
		for i := range n {
			if in[i*k+l] {
				items++
			}
		}
		if items != 1 {
			return false
		}
	}
	for i := range n {
		if count(in[i*k:i*k+k]) > 1 {
			return false
		}
	}
	return true
}

// corners returns the 2^d points ∏ {lo_i, hi_i}.
func corners(lo, hi []float64) [][]float64 {
	d := len(lo)
	out := subsets(d, func([]bool) bool { return true })
	for _, x := range out {
		for i := range x {
			x[i] = lo[i] + x[i]*(hi[i]-lo[i])
		}
	}
	return out
}

func fill(d int, v float64) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = v
	}
	return x
}

// units returns c·e_i, and −c·e_i if both are wanted.
func units(d int, c float64, both bool) [][]float64 {
	var out [][]float64
	for i := range d {
		for _, s := range []float64{1, -1} {
			if s == 1 || both {
				x := make([]float64, d)
				x[i] = s * c
				out = append(out, x)
			}
		}
	}
	return out
}

// onSphere returns the directions in which a smooth set is compared: L·u for many unit vectors u.
func onSphere(axes []float64) [][]float64 {
	var out [][]float64
	stream := rng.NewKey(3).Stream(rng.Instance)
	for k := range 300 {
		x := make([]float64, len(axes))
		stream.Round(uint64(k)).Sphere(x, 0)
		for i := range x {
			x[i] *= axes[i]
		}
		out = append(out, x)
	}
	return out
}

type testCase struct {
	raw      spec.Raw
	d        int // of the environment
	dim      int // of the set
	factor   float64
	members  [][]float64
	complete bool
}

func cases() []testCase {
	dag := [][2]int{{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 5}, {3, 5}, {2, 4}, {0, 5}}
	layered := [][2]int{{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 5}, {4, 5}}
	k4 := [][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}
	multi := [][2]int{{0, 1}, {1, 0}, {1, 2}, {2, 3}, {3, 1}, {0, 3}}
	pairs := func(edges [][2]int) []any {
		var out []any
		for _, e := range edges {
			out = append(out, list(int64(e[0]), int64(e[1])))
		}
		return out
	}
	r3 := 1 / math.Sqrt(3)
	return []testCase{
		{raw: spec.Raw{"kind": "ball"}, d: 5, dim: 5, factor: 1, members: onSphere(fill(5, 1))},
		{raw: spec.Raw{"kind": "ball"}, d: 1, dim: 1, factor: 1, members: [][]float64{{1}, {-1}}, complete: true},
		{raw: spec.Raw{"kind": "ellipsoid", "axes": list(0.1, 1.0, 0.5)}, dim: 3, factor: 1, members: onSphere([]float64{0.1, 1, 0.5})},
		{raw: spec.Raw{"kind": "ellipsoid", "axes": list(1.0, int64(4)), "rescale": true}, d: 2, dim: 2, factor: 0.25, members: onSphere([]float64{0.25, 1})},
		{raw: spec.Raw{"kind": "box"}, d: 4, dim: 4, factor: 1, members: corners(fill(4, -0.5), fill(4, 0.5)), complete: true},
		{raw: spec.Raw{"kind": "box", "half_width": 1.0, "rescale": true}, d: 4, dim: 4, factor: 0.5, members: corners(fill(4, -0.5), fill(4, 0.5)), complete: true},
		{raw: spec.Raw{"kind": "box", "lo": list(0.1, -0.2, 0.3), "hi": list(0.5, 0.1, 0.3)}, dim: 3, factor: 1, members: corners([]float64{0.1, -0.2, 0.3}, []float64{0.5, 0.1, 0.3}), complete: true},
		{raw: spec.Raw{"kind": "simplex"}, d: 4, dim: 4, factor: 1, members: units(4, 1, false), complete: true},
		{raw: spec.Raw{"kind": "l1"}, d: 4, dim: 4, factor: 1, members: units(4, 1, true), complete: true},
		{raw: spec.Raw{"kind": "polytope", // the simplex, as inequalities: every vertex is degenerate
			"a": list(list(int64(-1), int64(0), int64(0)), list(int64(0), int64(-1), int64(0)), list(int64(0), int64(0), int64(-1)),
				list(1.0, 1.0, 1.0), list(-1.0, -1.0, -1.0)),
			"b": list(int64(0), int64(0), int64(0), 1.0, -1.0)}, dim: 3, factor: 1, members: units(3, 1, false), complete: true},
		{raw: spec.Raw{"kind": "polytope", "a": list(list(1.0, 0.0), list(-1.0, 0.0), list(0.0, 1.0), list(0.0, -1.0)),
			"b": list(3.0, 0.0, 4.0, 0.0), "rescale": true}, d: 2, dim: 2, factor: 0.2,
			members: corners([]float64{0, 0}, []float64{0.6, 0.8}), complete: true},
		{raw: spec.Raw{"kind": "finite", "arms": list(list(1.0, 0.0), list(0.0, 1.0), list(-0.6, -0.8), list(1.0, 0.0))}, dim: 2, factor: 1},
		{raw: spec.Raw{"kind": "finite", "arms": list(list(3.0, 4.0), list(0.0, 1.0)), "rescale": true}, d: 2, dim: 2, factor: 0.2, members: [][]float64{{0.6, 0.8}, {0, 0.2}}, complete: true},
		{raw: spec.Raw{"kind": "basis"}, d: 6, dim: 6, factor: 1, members: units(6, 1, false), complete: true},
		{raw: spec.Raw{"kind": "hypercube"}, d: 4, dim: 4, factor: 1, members: corners(fill(4, -0.5), fill(4, 0.5)), complete: true},
		{raw: spec.Raw{"kind": "random-sphere"}, d: 5, dim: 5, factor: 1},
		{raw: spec.Raw{"kind": "random-sphere", "arms": int64(1)}, d: 1, dim: 1, factor: 1},
		{raw: spec.Raw{"kind": "random-ball", "arms": int64(7), "redraw": true}, d: 3, dim: 3, factor: 1},
		{raw: spec.Raw{"kind": "random-cube", "arms": int64(9), "u": 0.25}, d: 16, dim: 16, factor: 1},
		{raw: spec.Raw{"kind": "random-cube", "arms": int64(9), "u": 1.0, "rescale": true}, d: 4, dim: 4, factor: 0.5},
		{raw: spec.Raw{"kind": "m-sets", "k": int64(3)}, d: 7, dim: 7, factor: r3,
			members: times(r3, subsets(7, func(in []bool) bool { return count(in) == 3 })), complete: true},
		{raw: spec.Raw{"kind": "m-sets", "k": int64(1), "rescale": false}, d: 3, dim: 3, factor: 1, members: units(3, 1, false), complete: true},
		{raw: spec.Raw{"kind": "paths", "layers": int64(2), "width": int64(2)}, d: 8, dim: 8, factor: r3,
			members: times(r3, subsets(8, func(in []bool) bool { return isPath(in, layered, 5) })), complete: true},
		{raw: spec.Raw{"kind": "paths", "edges": pairs(dag)}, dim: 8, factor: r3,
			members: times(r3, subsets(8, func(in []bool) bool { return isPath(in, dag, 5) })), complete: true},
		{raw: spec.Raw{"kind": "spanning-trees", "nodes": int64(4)}, d: 6, dim: 6, factor: r3,
			members: times(r3, subsets(6, func(in []bool) bool { return isTree(in, k4, 4) })), complete: true},
		{raw: spec.Raw{"kind": "spanning-trees", "edges": pairs(multi)}, dim: 6, factor: r3,
			members: times(r3, subsets(6, func(in []bool) bool { return isTree(in, multi, 4) })), complete: true},
		{raw: spec.Raw{"kind": "assignments", "n": int64(3)}, d: 9, dim: 9, factor: r3,
			members: times(r3, subsets(9, func(in []bool) bool { return isPermutation(in, 3) })), complete: true},
		{raw: spec.Raw{"kind": "assignments", "n": int64(4)}, dim: 16, factor: 0.5,
			members: times(0.5, subsets(16, func(in []bool) bool { return isPermutation(in, 4) })), complete: true},
		{raw: spec.Raw{"kind": "lists", "items": int64(4), "positions": int64(3)}, d: 12, dim: 12, factor: 1,
			members: times(r3, subsets(12, func(in []bool) bool { return isList(in, 4, 3) })), complete: true},
		{raw: spec.Raw{"kind": "lists", "items": int64(5), "positions": int64(1)}, dim: 5, factor: 1, members: units(5, 1, false), complete: true},
	}
}

// TestConformance holds every kind of the registry to the public suite, with all extreme points
// listed by brute force where there are finitely many.
func TestConformance(t *testing.T) {
	tested := map[string]bool{}
	for i, c := range cases() {
		kind := c.raw["kind"].(string)
		tested[kind] = true
		t.Run(fmt.Sprintf("%d-%s", i, kind), func(t *testing.T) {
			var s actionset.Spec
			if err := s.DecodeSpec(c.raw, "set"); err != nil {
				t.Fatal(err)
			}
			if d, err := s.Dim(c.d); err != nil || d != c.dim {
				t.Fatalf("Dim(%d) = %d, %v; want %d", c.d, d, err, c.dim)
			}
			set, err := s.Build(c.d, instance())
			if err != nil {
				t.Fatal(err)
			}
			if set.Dim() != c.dim {
				t.Errorf("the set has dimension %d, Dim said %d", set.Dim(), c.dim)
			}
			if f := actionset.Factor(set); math.Abs(f-c.factor) > 1e-15 {
				t.Errorf("factor %v, want %v", f, c.factor)
			}
			if c.complete && len(c.members) == 0 {
				t.Fatal("the brute force found no members")
			}
			radius := set.(actionset.Bounded).Radius()
			var most float64
			for _, m := range c.members {
				most = max(most, math.Sqrt(dot(m, m)))
				if !set.(actionset.Container).Contains(m, 1e-12) {
					t.Errorf("Contains(%v) is false for a member", m)
				}
			}
			if c.complete && math.Abs(radius-most) > 1e-12 || radius > 1+actionset.Tolerance {
				t.Errorf("radius %v, the largest member has norm %v", radius, most)
			}
			if set.(actionset.Container).Contains(fill(c.dim, 2), 1e-3) {
				t.Error("Contains(2, …, 2) is true")
			}
			bandittest.TestActionSet(t, set, bandittest.SetOptions{
				Members:  c.members,
				Complete: c.complete,
				Rebuild:  func(arms [][]float64) (bandit.Finite, error) { return actionset.NewFinite(arms) },
			})
		})
	}
	for kind := range actionset.Kinds {
		if !tested[kind] {
			t.Errorf("kind %q is in the registry, but not in this test", kind)
		}
	}
}

func dot(x, y []float64) float64 {
	var s float64
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// TestScaledSets runs the suite on what Scale makes of finite and other sets.
func TestScaledSets(t *testing.T) {
	ball, _ := actionset.NewBall(3)
	fin, _ := actionset.NewFinite([][]float64{{1, 2}, {3, 4}, {0, -1}})
	half := actionset.Scale(ball, 0.5)
	if _, ok := half.(bandit.UnitBall); ok {
		t.Error("half the unit ball says that it is the unit ball")
	}
	quarter := actionset.Scale(half.(actionset.Bounded), 0.5)
	if f, r := actionset.Factor(quarter), quarter.(actionset.Bounded).Radius(); f != 0.25 || r != 0.25 {
		t.Errorf("scaled twice by ½: factor %v, radius %v", f, r)
	}
	bandittest.TestActionSet(t, quarter, bandittest.SetOptions{Radius: 0.25, Members: times(0.25, onSphere(fill(3, 1)))})

	fifth := actionset.Scale(fin, 0.2)
	if _, ok := fifth.(bandit.Finite); !ok {
		t.Fatal("a scaled finite set is not bandit.Finite")
	}
	bandittest.TestActionSet(t, fifth, bandittest.SetOptions{})
	if x := fifth.(bandit.Finite).At(1); math.Abs(x[0]-0.6) > 1e-15 || math.Abs(x[1]-0.8) > 1e-15 {
		t.Errorf("arm 1 is %v", x)
	}
	if fin.At(1)[0] != 3 {
		t.Error("Scale changed the set it was given")
	}
	tenth := actionset.Scale(fifth.(actionset.Bounded), 0.5)
	if f, x := actionset.Factor(tenth), tenth.(bandit.Finite).At(1); math.Abs(f-0.1) > 1e-15 || math.Abs(x[0]-0.3) > 1e-15 {
		t.Errorf("a finite set scaled by 0.2 and 0.5: factor %v, arm 1 %v", f, x)
	}
}
