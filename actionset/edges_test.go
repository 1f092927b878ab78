package actionset_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// TestEdges: the first and the last value of what is taken, and what an error names. Each line kills a fault that
// internal/mutate planted and no other test noticed.
func TestEdges(t *testing.T) {
	refused := func(what string, err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s was taken", what)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q in it", what, err, w)
			}
		}
	}
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		f()
	}
	if a, err := actionset.NewAssignments(1); err != nil || a.Dim() != 1 {
		t.Errorf("one row and one column: %v", err)
	}
	if _, err := actionset.NewAssignments(1 << 10); err != nil {
		t.Errorf("1024 rows: %v", err)
	}
	_, err := actionset.NewAssignments(1<<10 + 1)
	refused("1025 rows", err, "n is 1025", "1 to 1024")
	chain := [][2]int{{0, 1}, {1, 2}}
	for _, end := range [][2]int{{3, 0}, {0, 3}, {0, 0}} {
		_, err := actionset.NewPaths(chain, end[0], end[1])
		refused("a source or a sink that is no node", err, "below 3")
	}
	_, err = actionset.NewPaths([][2]int{{0, 1}, {1, 9}}, 0, 1)
	refused("node 9 of 2 edges", err, "edges[1] = [1, 9]", "at most 4 ")
	_, err = actionset.SparseOf(4, []int{0, 1, 3}, []uint32{0, 2, 7}, []float64{1, 1, 1})
	refused("coordinate 7 of 4", err, "actions[1]: coordinate 1 is 7")

	if d, err := (&actionset.MSetsOptions{K: 3}).Dim(3); err != nil || d != 3 {
		t.Errorf("sets of 3 of 3 elements: dimension %d, %v", d, err)
	}
	_, err = (&actionset.MSetsOptions{K: 4}).Dim(3)
	refused("sets of 4 of 3 elements", err, "k is 4, but d is 3")
	for _, hi := range []float64{math.NaN(), math.Inf(1)} {
		_, err = actionset.NewBox([]float64{0, 0}, []float64{1, hi})
		refused("a box without an end", err, "hi[1]")
	}
	twins, err := actionset.SparseOf(4, []int{0, 1, 2}, []uint32{2, 2}, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	var first bandit.Action
	if _, err := twins.ArgMax(&first, []float64{0, 0, 1, 0}); err != nil || first.Index != 0 {
		t.Errorf("the first of equal actions is %d, %v", first.Index, err)
	}
	for _, size := range []float64{1, 0x1p-330} { // only the direction counts, however small
		axes, err := actionset.NewEllipsoidAxes([]float64{size, size / 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range []float64{0x1p-800, 1, 0x1p490} {
			var a bandit.Action
			if _, err := axes.ArgMax(&a, []float64{0.6 * scale, 1.6 * scale}); err != nil || math.Abs(a.X[0]/size-0.6) > 1e-15 || math.Abs(a.X[1]/size-0.4) > 1e-15 {
				t.Errorf("size %v, scale %v: %v, %v", size, scale, a.X, err)
			}
		}
	}
	square := [][]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}
	if _, err := actionset.NewPolytope(square, []float64{0x1p200, 1, 1, 1}); errors.Is(err, bandit.ErrNumerical) && strings.Contains(err.Error(), "b[0]") {
		t.Errorf("a bound of 2^200: %v", err)
	}
	_, err = actionset.NewPolytope(square, []float64{0x1.1p200, 1, 1, 1})
	refused("a bound above 2^200", err, "b[0] is", "2^200")
	sets, err := actionset.NewMSets(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	const largest = 0x1p500
	if _, err := actionset.NewCombinatorial(sets, largest); err != nil {
		t.Errorf("the largest factor: %v", err)
	}
	for _, f := range []float64{-1, math.Nextafter(largest, math.Inf(1)), math.NaN()} {
		_, err = actionset.NewCombinatorial(sets, f)
		refused("a factor", err, "factor is", "expected a positive number")
	}
	if _, err := actionset.NewCube(2, 0); err != nil {
		t.Errorf("a cube of width 0: %v", err)
	}
	for _, c := range []float64{-1, math.NaN()} {
		_, err = actionset.NewCube(2, c)
		refused("the half width of a cube", err, "half width is")
	}
	if _, err := actionset.SparseOf(4, []int{0, 2}, []uint32{0, 2}, []float64{1e18, -1e18}); err != nil {
		t.Errorf("the largest values: %v", err)
	}
	_, err = actionset.SparseOf(4, []int{0, 2}, []uint32{0, 2}, []float64{1, 1.1e18})
	refused("a value above 1e18", err, "actions[0]", "coordinate 2 is 1.1e+18")
	_, err = (&actionset.RandomSphereOptions{Arms: 1<<28/1000 + 1}).Build(1000, rng.Source{})
	refused("more numbers than a set may make up", err, "arms is 268436")
	source := rng.NewKey(3).Stream(rng.Instance).Round(0)
	drawn, err := (&actionset.RandomSphereOptions{Arms: 2}).Build(3, source)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		want := make([]float64, 3)
		source.Sphere(want, 3*i)
		if got := drawn.(bandit.Finite).At(i); !slices.Equal(got, want) {
			t.Errorf("arm %d is %v, want the draw %v", i, got, want)
		}
	}

	ball, err := actionset.NewBall(2)
	if err != nil {
		t.Fatal(err)
	}
	panics("a point of three numbers in a disc", func() { ball.Contains([]float64{0.1, 0.1, 0.1}, 0) })
	panics("a factor of 0", func() { actionset.Scale(ball, 0) })
	panics("a factor of NaN", func() { actionset.Scale(ball, math.NaN()) })
	ellipsoid, err := actionset.NewEllipsoidAxes([]float64{1, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x    []float64
		want bool
	}{{[]float64{1, 0}, true}, {[]float64{0, 0.5}, true}, {[]float64{0, 0.75}, false}, {[]float64{1.5, 0}, false}} {
		if got := ellipsoid.Contains(c.x, 1e-9); got != c.want {
			t.Errorf("%v is in the ellipse: %t, want %t", c.x, got, c.want)
		}
	}
}

// TestThinPolytope: the triangle of (0, 0), (0, 1) and (1/t, 1 + 1/t), whose sides meet there at an angle of about t/2.
// What is not refused is solved to the accuracy that ArgMax promises, and what is refused is too ill-conditioned.
func TestThinPolytope(t *testing.T) {
	for _, c := range []struct {
		thin float64
		ok   bool
	}{{1.1e-1, true}, {1.1e-2, true}, {1.1e-3, true}, {1.1e-4, true}, {1.1e-5, false}, {1.1e-6, false}, {1.1e-8, false}} {
		set, err := actionset.NewPolytope([][]float64{{-1, 1}, {1 + c.thin, -1}, {-1, 0}}, []float64{1, 0, 0})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, bandit.ErrNumerical) {
			t.Errorf("1/t = %v: error %v, want a set: %t", 1/c.thin, err, c.ok)
		}
		if err != nil {
			continue
		}
		far := (1 + c.thin) - 1 // as it is rounded
		corners := [][]float64{{0, 0}, {0, 1}, {1 / far, 1 + 1/far}}
		if want := norm(corners[2]); math.Abs(set.Radius()-want) > 1e-6*want {
			t.Errorf("1/t = %v: radius %v, want %v", 1/c.thin, set.Radius(), want)
		}
		var a bandit.Action
		for k := range 64 {
			theta := []float64{math.Cos(float64(k) / 10), math.Sin(float64(k) / 10)}
			want := math.Inf(-1)
			for _, x := range corners {
				want = max(want, dot(theta, x))
			}
			if got, err := set.ArgMax(&a, theta); err != nil || math.Abs(got-want) > 1e-9*set.Radius() {
				t.Errorf("1/t = %v, direction %v: %v, error %v, want %v", 1/c.thin, theta, got, err, want)
			}
		}
	}
}
