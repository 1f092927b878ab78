package actionset_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/combin"
	"pgregory.net/rapid"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/internal/linalg"
	"troupe/rng"
)

func must[S any](s S, err error) S {
	if err != nil {
		panic(err)
	}
	return s
}

// TestTies writes the documented rules down as answers.
func TestTies(t *testing.T) {
	zero4 := fill(4, 0)
	comb := func(o actionset.Oracle) bandit.ActionSet { return must(actionset.NewCombinatorial(o, 1)) }
	for _, c := range []struct {
		name  string
		set   bandit.ActionSet
		theta []float64
		want  []float64
		index int
	}{
		{"ball, 0", must(actionset.NewBall(4)), zero4, []float64{1, 0, 0, 0}, -1},
		{"ellipsoid, 0", must(actionset.NewEllipsoidAxes([]float64{0.5, 1})), []float64{0, 0}, []float64{0.5, 0}, -1},
		{"box, 0 is up", must(actionset.NewBox([]float64{-1, -2}, []float64{3, 4})), []float64{-1, 0}, []float64{-1, 4}, -1},
		{"simplex, lowest", must(actionset.NewSimplex(4)), []float64{1, 2, 2, 0}, []float64{0, 1, 0, 0}, -1},
		{"l1, lowest", must(actionset.NewL1(4)), []float64{1, -2, 2, 0}, []float64{0, -1, 0, 0}, -1},
		{"l1, 0 is up", must(actionset.NewL1(4)), zero4, []float64{1, 0, 0, 0}, -1},
		{"finite, lowest, in a block of four", must(actionset.NewFinite([][]float64{{0}, {1}, {1}, {1}})), []float64{1}, []float64{1}, 1},
		{"finite, lowest, after a block of four", must(actionset.NewFinite([][]float64{{0}, {0}, {0}, {0}, {1}, {1}})), []float64{1}, []float64{1}, 4},
		{"m-sets, lower coordinates", comb(must(actionset.NewMSets(4, 2))), []float64{1, 2, 1, 1}, []float64{1, 1, 0, 0}, -1},
		{"m-sets, 0", comb(must(actionset.NewMSets(4, 2))), zero4, []float64{1, 1, 0, 0}, -1},
		{"paths, lower edge first", comb(must(actionset.NewLayeredPaths(1, 2))), zero4, []float64{1, 0, 1, 0}, -1},
		{"trees, lower edges", comb(must(actionset.NewCompleteTrees(3))), []float64{1, 1, 1}, []float64{1, 1, 0}, -1},
		{"assignments, 0", comb(must(actionset.NewAssignments(2))), zero4, []float64{1, 0, 0, 1}, -1},
	} {
		var a bandit.Action
		if _, err := c.set.ArgMax(&a, c.theta); err != nil || !slices.Equal(a.X, c.want) || a.Index != c.index {
			t.Errorf("%s: %v (index %d, error %v), want %v (index %d)", c.name, a.X, a.Index, err, c.want, c.index)
		}
	}
}

// TestExtremeTheta: sizes at which the squares, and for ‖θ‖ the sum, would leave the range of
// float64; and the two errors beyond the limit.
func TestExtremeTheta(t *testing.T) {
	for _, set := range []actionset.Bounded{
		must(actionset.NewBall(2)),
		must(actionset.NewEllipsoidAxes([]float64{1, 1})),
		must(actionset.NewEllipsoid([][]float64{{1, 0}, {0, 1}})),
	} {
		for _, c := range []float64{5e-324, 1e-310, 1e-200, 1, 0x1p498} {
			var a bandit.Action
			v, err := set.ArgMax(&a, []float64{3 * c, -4 * c})
			want := []float64{0.6, -0.8}
			if err != nil || math.Abs(v/c-5) > 1e-15*5 || math.Abs(a.X[0]-want[0]) > 1e-15 || math.Abs(a.X[1]-want[1]) > 1e-15 {
				t.Errorf("%T: ArgMax of (3, −4)·%g is %v with value %v·c (%v)", set, c, a.X, v/c, err)
			}
		}
		var a bandit.Action
		if _, err := set.ArgMax(&a, []float64{1, math.NaN()}); !errors.Is(err, bandit.ErrNotFinite) || !strings.Contains(err.Error(), "theta[1] is NaN") {
			t.Errorf("%T: NaN gives the error %v", set, err)
		}
		if _, err := set.ArgMax(&a, []float64{1e300, 0}); !errors.Is(err, bandit.ErrNumerical) || !strings.Contains(err.Error(), "theta[0] is 1e+300") {
			t.Errorf("%T: 1e300 gives the error %v", set, err)
		}
	}
}

// TestEllipsoid compares a full matrix with the formula x = Mθ/√(θᵀMθ) and the radius with the
// longest answer over many directions.
func TestEllipsoid(t *testing.T) {
	m := [][]float64{{0.5, 0.2, -0.1}, {0.2, 0.4, 0.05}, {-0.1, 0.05, 0.3}}
	e := must(actionset.NewEllipsoid(m))
	bandittest.TestActionSet(t, e, bandittest.SetOptions{})
	var longest float64
	for k := range 2000 {
		theta := make([]float64, 3)
		rng.NewKey(1).Stream(rng.Offer).Round(uint64(k)).Normals(theta, 0)
		mt := []float64{dot(m[0], theta), dot(m[1], theta), dot(m[2], theta)}
		j := math.Sqrt(dot(theta, mt))
		var a bandit.Action
		v := must(e.ArgMax(&a, theta))
		if math.Abs(v-j) > 1e-14*j {
			t.Fatalf("value %v, √(θᵀMθ) is %v", v, j)
		}
		for i := range mt {
			if math.Abs(a.X[i]-mt[i]/j) > 1e-14 {
				t.Fatalf("x[%d] = %v, (Mθ)_i/√(θᵀMθ) is %v", i, a.X[i], mt[i]/j)
			}
		}
		if longest = max(longest, math.Sqrt(dot(a.X, a.X))); longest > e.Radius()+1e-14 {
			t.Fatalf("‖x‖ = %v beyond the radius %v", longest, e.Radius())
		}
	}
	if longest < 0.999*e.Radius() {
		t.Errorf("radius %v, but the longest of 2000 answers has norm %v", e.Radius(), longest)
	}
	for _, c := range []struct {
		m    [][]float64
		want string
	}{
		{nil, "d is 0"},
		{[][]float64{{1, 0}}, "not square"},
		{[][]float64{{1, 0.5}, {0.4, 1}}, "not symmetric"},
		{[][]float64{{1, 2}, {2, 1}}, "not positive definite"},
		{[][]float64{{1, 0}, {0, math.Inf(1)}}, "m[1][1] is +Inf"},
	} {
		if _, err := actionset.NewEllipsoid(c.m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewEllipsoid(%v): %v; want %q", c.m, err, c.want)
		}
	}
}

// TestFiniteScan: for all sizes around the block of eight, the answer is the value and the arm of the
// plain loop over linalg.Dot, bit for bit.
func TestFiniteScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, n := rapid.IntRange(1, 18).Draw(t, "d"), rapid.IntRange(1, 26).Draw(t, "arms")
		number := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.Map(rapid.IntRange(-2, 2), func(i int) float64 { return float64(i) }))
		arms := rapid.SliceOfN(rapid.SliceOfN(number, d, d), n, n).Draw(t, "list")
		theta := rapid.SliceOfN(number, d, d).Draw(t, "theta")
		best, at := math.Inf(-1), 0
		for i, a := range arms {
			if v := linalg.Dot(a, theta); v > best {
				best, at = v, i
			}
		}
		var a bandit.Action
		v, err := must(actionset.NewFinite(arms)).ArgMax(&a, theta)
		if err != nil || v != best || a.Index != at {
			t.Fatalf("arm %d with %v (%v), the plain loop says arm %d with %v", a.Index, v, err, at, best)
		}
	})
}

// TestFiniteAsked: the answer to a question does not depend on how often the set was asked — lists of
// any length get copies in another order after a while —, bad questions are refused as before, and asking
// from several goroutines is safe.
func TestFiniteAsked(t *testing.T) {
	const d = 20
	for _, n := range []int{10, 40, 300} {
		block := make([]float64, n*d)
		rng.NewKey(4).Stream(rng.Instance).Round(1).Normals(block, 0)
		copy(block[(n/2)*d:(n/2+1)*d], block[(n/4)*d:(n/4+1)*d]) // equal arms
		set := must(actionset.FiniteOf(d, block))
		var group sync.WaitGroup
		for g := range uint64(4) {
			group.Go(func() {
				var a bandit.Action
				theta := make([]float64, d)
				for i := range uint64(200) {
					rng.NewKey(g).Stream(rng.Select).Round(i).Normals(theta, 0)
					if i%3 == 0 {
						copy(theta, block[(n/4)*d:])
					}
					at, want := linalg.ArgMax(block, theta)
					v, err := set.ArgMax(&a, theta)
					if err != nil || v != want || a.Index != at || !slices.Equal(a.X, set.At(at)) {
						t.Errorf("%d arms, question %d: arm %d with %v (%v), want arm %d with %v", n, i, a.Index, v, err, at, want)
					}
				}
			})
		}
		group.Wait()
		for _, bad := range []float64{math.NaN(), math.Inf(1), 0x1p501} {
			theta := make([]float64, d)
			theta[d-1] = bad
			a := bandit.Action{Index: 77}
			if _, err := set.ArgMax(&a, theta); err == nil || a.Index != 77 || a.X != nil {
				t.Errorf("%d arms: theta with %v gives arm %d and the error %v", n, bad, a.Index, err)
			}
		}
	}
}

// TestNewFiniteCopies: the caller's slices stay his.
func TestNewFiniteCopies(t *testing.T) {
	arms := [][]float64{{1, 2}, {3, 4}}
	f := must(actionset.NewFinite(arms))
	arms[0][0] = 9
	if f.At(0)[0] != 1 || !slices.Equal(f.Flat(), []float64{1, 2, 3, 4}) {
		t.Errorf("the set changed with the caller's slice: %v", f.Flat())
	}
	if x := f.At(0); cap(x) != 2 {
		t.Error("an arm's slice reaches into the next arm")
	}
}

// TestAssignmentsLarger compares the Hungarian method with all 720 permutations of 6, with weights
// on very different scales and with ties.
func TestAssignmentsLarger(t *testing.T) {
	perms := combin.Permutations(6, 6)
	o := must(actionset.NewAssignments(6))
	in := make([]bool, 36)
	for k := range 200 {
		src := rng.NewKey(4).Stream(rng.Offer).Round(uint64(k))
		w := make([]float64, 36)
		for i := range w {
			switch k % 3 {
			case 0:
				w[i] = src.Normal(i)
			case 1:
				w[i] = float64(src.Intn(i, 4))
			case 2:
				w[i] = math.Exp(8 * src.Normal(i))
			}
		}
		o.ArgMax(in, w)
		var got, size float64
		for i, yes := range in {
			size = max(size, math.Abs(w[i]))
			if yes {
				got += w[i]
			}
		}
		best := math.Inf(-1)
		for _, p := range perms {
			var v float64
			for i, j := range p {
				v += w[6*i+j]
			}
			best = max(best, v)
		}
		if !o.Member(in) || math.Abs(got-best) > 1e-13*size {
			t.Fatalf("weights %v: %v, the best of all permutations is %v", w, got, best)
		}
	}
}

// TestMembers: what the oracles call members are exactly the sets found by the tests' own, slower
// definitions.
func TestMembers(t *testing.T) {
	layered := [][2]int{{0, 1}, {0, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 5}, {4, 5}}
	k4 := [][2]int{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}
	for _, c := range []struct {
		name   string
		family actionset.Family
		keep   func(in []bool) bool
		count  int
	}{
		{"m-sets", must(actionset.NewMSets(6, 2)), func(in []bool) bool { return count(in) == 2 }, 15},
		{"paths", must(actionset.NewLayeredPaths(2, 2)), func(in []bool) bool { return isPath(in, layered, 5) }, 4},
		{"trees", must(actionset.NewCompleteTrees(4)), func(in []bool) bool { return isTree(in, k4, 4) }, 16},
		{"assignments", must(actionset.NewAssignments(3)), func(in []bool) bool { return isPermutation(in, 3) }, 6},
	} {
		members := 0
		subsets(c.family.Dim(), func(in []bool) bool {
			if c.family.Member(in) != c.keep(in) {
				t.Errorf("%s: Member(%v) is %v", c.name, in, c.family.Member(in))
			}
			if c.family.Member(in) {
				members++
			}
			return false
		})
		if members != c.count {
			t.Errorf("%s: %d members, want %d", c.name, members, c.count)
		}
	}
}

func TestConstructorsRefuse(t *testing.T) {
	err := func(_ any, err error) error { return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{err(actionset.NewBall(0)), "d is 0"},
		{err(actionset.NewSimplex(-1)), "d is -1"},
		{err(actionset.NewL1(0)), "d is 0"},
		{err(actionset.NewEllipsoidAxes([]float64{1, 0})), "axes[1] is 0"},
		{err(actionset.NewEllipsoidAxes([]float64{1, math.NaN()})), "axes[1] is NaN"},
		{err(actionset.NewBox([]float64{0}, []float64{0, 1})), "hi has length 2"},
		{err(actionset.NewBox([]float64{1}, []float64{0})), "lo[0] is 1 and hi[0] is 0"},
		{err(actionset.NewCube(2, math.Inf(1))), "lo[0] is -Inf"},
		{err(actionset.NewCube(2, -1)), "half width is -1"},
		{err(actionset.NewFinite(nil)), "arms is empty"},
		{err(actionset.NewFinite([][]float64{{}})), "arms have 0 entries"},
		{err(actionset.NewFinite([][]float64{{1, 2}, {1}})), "arms[1] has length 1, expected 2"},
		{err(actionset.NewFinite([][]float64{{1, 2}, {1, math.Inf(-1)}})), "arms[1][1] is -Inf"},
		{err(actionset.NewFinite([][]float64{{1e200}})), "arms[0][0] is 1e+200"},
		{err(actionset.FiniteOf(2, []float64{1, 2, 3})), "3 numbers is not a list of arms with 2"},
		{err(actionset.NewMSets(3, 4)), "k is 4, expected 1 to 3"},
		{err(actionset.NewPaths(nil, 0, 1)), "edges is empty"},
		{err(actionset.NewPaths([][2]int{{0, 1}, {1, 2}, {2, 1}}, 0, 2)), "edges[1] = [1, 2] is on a cycle"},
		{err(actionset.NewPaths([][2]int{{0, 0}, {0, 1}}, 0, 1)), "edges[0] = [0, 0] is on a cycle"},
		{err(actionset.NewPaths([][2]int{{0, 1}, {2, 3}}, 0, 3)), "no path from node 0 to node 3"},
		{err(actionset.NewPaths([][2]int{{0, 1}}, 0, 7)), "sink is 7"},
		{err(actionset.NewPaths([][2]int{{0, -1}}, 0, 1)), "edges[0] = [0, -1]"},
		{err(actionset.NewPaths([][2]int{{0, 1 << 40}}, 0, 1)), "edges[0]"},
		{err(actionset.NewLayeredPaths(0, 2)), "layers is 0"},
		{err(actionset.NewLayeredPaths(1<<40, 1<<40)), "at most"},
		{err(actionset.NewSpanningTrees(nil)), "edges is empty"},
		{err(actionset.NewSpanningTrees([][2]int{{0, 1}, {2, 3}})), "4 nodes and 2 edges is not connected"},
		{err(actionset.NewSpanningTrees([][2]int{{0, 0}, {0, 1}})), "edges[0] = [0, 0] is a loop"},
		{err(actionset.NewCompleteTrees(1)), "nodes is 1"},
		{err(actionset.NewAssignments(0)), "n is 0"},
		{err(actionset.NewCombinatorial(must(actionset.NewAssignments(2)), math.NaN())), "factor is NaN"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want something with %q", c.err, c.want)
		}
	}
}

// TestRandomArmsLaw checks the laws of random-sphere, random-ball and random-cube. Null: the
// documented law. n = 20 000 independent arms in d = 3. For the sphere each coordinate is uniform
// on [−1, 1] (Archimedes), for the ball ‖x‖³ is uniform on [0, 1] and so is (x_1/‖x‖ + 1)/2, for
// the cube (x_i/u + 1)/2. The Kolmogorov distance exceeds √(ln(2/α)/(2n)) with probability at most
// α (Massart 1990); α = 1e-6 for each of 7 tests, so the threshold is 0.019. It would see a ball
// drawn with radius W instead of W^{1/3} (distance 0.38) or a cube instead of a sphere.
func TestRandomArmsLaw(t *testing.T) {
	const n = 20_000
	bound := math.Sqrt(math.Log(2/1e-6) / (2 * n))
	distance := func(u []float64) (worst float64) {
		slices.Sort(u)
		for i, v := range u {
			worst = max(worst, math.Abs(v-float64(i)/n), math.Abs(v-float64(i+1)/n))
		}
		return worst
	}
	draw := func(b actionset.Builder) *actionset.Finite {
		return must(b.Build(3, rng.NewKey(99).Stream(rng.Instance).Round(0))).(*actionset.Finite)
	}
	check := func(name string, f *actionset.Finite, map01 func(x []float64) float64) {
		u := make([]float64, n)
		for i := range u {
			u[i] = map01(f.At(i))
		}
		if k := distance(u); k > bound {
			t.Errorf("%s: Kolmogorov distance %v, at most %v expected", name, k, bound)
		}
	}
	length := func(x []float64) float64 { return math.Sqrt(dot(x, x)) }
	sphere := draw(&actionset.RandomSphereOptions{Arms: n})
	ball := draw(&actionset.RandomBallOptions{Arms: n})
	cube := draw(&actionset.RandomCubeOptions{Arms: n, U: 0.5})
	check("sphere, coordinate 1", sphere, func(x []float64) float64 { return (x[0] + 1) / 2 })
	check("sphere, coordinate 3", sphere, func(x []float64) float64 { return (x[2] + 1) / 2 })
	check("ball, radius", ball, func(x []float64) float64 { return math.Pow(length(x), 3) })
	check("ball, direction", ball, func(x []float64) float64 { return (x[0]/length(x) + 1) / 2 })
	check("cube, coordinate 1", cube, func(x []float64) float64 { return x[0] + 0.5 })
	check("cube, coordinate 3", cube, func(x []float64) float64 { return x[2] + 0.5 })
	for i := range n {
		if r := length(sphere.At(i)); math.Abs(r-1) > 1e-15*4 {
			t.Fatalf("arm %d on the sphere has norm %v", i, r)
		}
	}
}

func BenchmarkArgMax(b *testing.B) {
	src := instance()
	cross8, one8 := cross(8, 1)
	for _, c := range []struct {
		name string
		set  bandit.ActionSet
	}{
		{"ball/d=10", must(actionset.NewBall(10))},
		{"finite/d=10/arms=10", must((&actionset.RandomSphereOptions{Arms: 10}).Build(10, src))},
		{"finite/d=10/arms=50", must((&actionset.RandomSphereOptions{Arms: 50}).Build(10, src))},
		{"finite/d=50/arms=1000", must((&actionset.RandomSphereOptions{Arms: 1000}).Build(50, src))},
		{"ellipsoid/d=10", must(actionset.NewEllipsoidAxes(fill(10, 1)))},
		{"m-sets/d=20/k=5", must((&actionset.MSetsOptions{K: 5, Rescale: true}).Build(20, src))},
		{"paths/layers=4/width=4", must((&actionset.PathsOptions{Layers: 4, Width: 4, Rescale: true}).Build(0, src))},
		{"trees/nodes=8", must((&actionset.TreesOptions{Nodes: 8, Rescale: true}).Build(0, src))},
		{"assignments/n=5", must((&actionset.AssignmentsOptions{N: 5, Rescale: true}).Build(0, src))},
		{"polytope/cross/d=8/rows=256", must(actionset.NewPolytope(cross8, one8))},
		{"polytope/cube/d=10/rows=20", must(actionset.NewPolytope(units(10, 1, true), fill(20, 0.3)))},
	} {
		b.Run(c.name, func(b *testing.B) {
			var thetas [64][]float64
			for k := range thetas {
				thetas[k] = make([]float64, c.set.Dim())
				rng.NewKey(1).Stream(rng.Offer).Round(uint64(k)).Normals(thetas[k], 0)
			}
			var a bandit.Action
			b.ReportAllocs()
			for k := 0; b.Loop(); k++ {
				if _, err := c.set.ArgMax(&a, thetas[k&63]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRedraw(b *testing.B) {
	o := &actionset.RandomSphereOptions{Arms: 50, Again: true}
	stream := rng.NewKey(1).Stream(rng.Offer)
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		if _, err := o.Redraw(20, stream.Round(uint64(k))); err != nil {
			b.Fatal(err)
		}
	}
}

// TestUnread: a list that nobody has looked at answers as one that was, for sizes around the pieces in which it is read, and the
// first call about bad numbers has the error of FiniteOf, wherever they are.
func TestUnread(t *testing.T) {
	draw := rng.NewKey(9).Stream(rng.Instance)
	round := uint64(0)
	for _, d := range []int{1, 3, 20, 160, 1300} {
		step := max(8, 1280/d&^7)
		for _, k := range []int{1, 7, step - 1, step, step + 1, 2*step + 3} {
			block, theta := make([]float64, k*d), make([]float64, d)
			draw.Round(round).Normals(block, 0)
			draw.Round(round+1).Normals(theta, 0)
			round += 2
			copy(block[(k-1)*d:], block[:d]) // the first of two equal arms wins, across pieces too
			if d == 1 {
				theta[0] = 0 // all are equal
			}
			want := must(actionset.FiniteOf(d, block))
			got := must(actionset.FiniteUnread(d, block))
			var a, b bandit.Action
			for range 3 {
				v, err := want.ArgMax(&a, theta)
				w, err2 := got.ArgMax(&b, theta)
				if err != nil || err2 != nil || v != w || a.Index != b.Index || !slices.Equal(a.X, b.X) {
					t.Fatalf("d = %d, K = %d: arm %d with %v (%v), want %d with %v (%v)", d, k, b.Index, w, err2, a.Index, v, err)
				}
			}
			if err := errors.Join(got.Check(), want.Check()); err != nil {
				t.Fatal(err)
			}
			for _, bad := range []float64{math.NaN(), math.Inf(-1), 0x1.8p500} {
				for _, at := range []int{0, len(block) / 2, len(block) - 1} {
					was := block[at]
					block[at], b.Index = bad, -7
					_, err := actionset.FiniteOf(d, block)
					set := must(actionset.FiniteUnread(d, block))
					for range 2 {
						if _, err2 := set.ArgMax(&b, theta); err == nil || err2 == nil || err.Error() != err2.Error() || b.Index != -7 {
							t.Fatalf("d = %d, K = %d, entry %d = %v: %v, arm %d; FiniteOf says %v", d, k, at, bad, err2, b.Index, err)
						}
						if err2 := set.Check(); err2 == nil || err2.Error() != err.Error() {
							t.Fatalf("Check says %v, FiniteOf %v", err2, err)
						}
					}
					block[at] = was
				}
			}
		}
	}
	shared := actionset.Share(must(actionset.FiniteUnread(1, []float64{1, math.NaN(), 1}))).(*actionset.Shared)
	if shared.Check() == nil || shared.Groups().Check() == nil {
		t.Error("NaN in a list with equal arms was not found")
	}
	if _, err := actionset.FiniteUnread(2, make([]float64, 3)); err == nil {
		t.Error("three numbers are arms of two")
	}
}
