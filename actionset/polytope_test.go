package actionset_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/rng"
)

// vertices lists the vertices of {x : a·x ≤ b} by solving every choice of d rows with gonum.
func vertices(a [][]float64, b []float64) [][]float64 {
	n, d := len(a), len(a[0])
	var out [][]float64
	pick := make([]int, 0, d)
	var choose func(from int)
	choose = func(from int) {
		if len(pick) < d {
			for r := from; r < n; r++ {
				pick = append(pick, r)
				choose(r + 1)
				pick = pick[:len(pick)-1]
			}
			return
		}
		m, rhs := mat.NewDense(d, d, nil), mat.NewVecDense(d, nil)
		for i, r := range pick {
			m.SetRow(i, a[r])
			rhs.SetVec(i, b[r])
		}
		var x mat.VecDense
		if err := x.SolveVec(m, rhs); err != nil {
			return
		}
		for r := range a {
			if dot(a[r], x.RawVector().Data) > b[r]+1e-9 {
				return
			}
		}
		out = append(out, slices.Clone(x.RawVector().Data))
	}
	choose(0)
	return out
}

func radius(list [][]float64) (r float64) {
	for _, x := range list {
		r = max(r, math.Sqrt(dot(x, x)))
	}
	return r
}

// cross returns the 2^d rows of ‖x‖₁ ≤ c.
func cross(d int, c float64) ([][]float64, []float64) {
	a := corners(fill(d, -1), fill(d, 1))
	return a, fill(len(a), c)
}

// TestPolytopeVertices runs the suite on random and on nasty polytopes, with their vertices found
// by enumeration.
func TestPolytopeVertices(t *testing.T) {
	type problem struct {
		name string
		a    [][]float64
		b    []float64
	}
	problems := []problem{
		{"a point, degenerate 4 times over", [][]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}}, []float64{0.5, -0.5, 0.25, -0.25, 0.75, -0.75}},
		{"the origin", [][]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}, []float64{0, 0, 0, 0}},
		{"a segment in space", [][]float64{{1, 1, 0}, {-1, -1, 0}, {0, 0, 1}, {0, 0, -1}, {1, 0, 0}, {-1, 0, 0}}, []float64{0, 0, 0.1, -0.1, 0.5, 0.5}},
		{"redundant and repeated rows", [][]float64{{1, 0}, {2, 0}, {1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {0, 0}}, []float64{0.5, 1, 0.7, 0, 0.5, 0, 1, 0}},
		{"a far corner of the box", [][]float64{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}, {1, 1, 1}}, []float64{-0.1, -0.1, -0.1, 0.9}},
		{"rows of very different sizes", [][]float64{{1e6, 0}, {-1e-6, 0}, {0, 1e3}, {0, -1}}, []float64{5e5, 1e-7, 300, 0.2}},
		{"an octahedron's pyramid", [][]float64{{1, 1, 1}, {1, -1, 1}, {-1, 1, 1}, {-1, -1, 1}, {0, 0, -1}}, []float64{0.7, 0.7, 0.7, 0.7, 0}},
		{"one dimension", [][]float64{{2}, {-3}}, []float64{1, 1}},
	}
	a, b := cross(3, 1)
	problems = append(problems, problem{"a cross-polytope", a, b})
	// The doubly stochastic 3×3 matrices: in the plane of 5 equations, highly degenerate.
	a, b = nil, nil
	for k := range 3 {
		row, col := fill(9, 0), fill(9, 0)
		for j := range 3 {
			row[3*k+j], col[3*j+k] = 1, 1
		}
		for _, r := range [][]float64{row, col} {
			a, b = append(a, r), append(b, 1)
			minus := slices.Clone(r)
			for i := range minus {
				minus[i] *= -1
			}
			a, b = append(a, minus), append(b, -1)
		}
	}
	for _, e := range units(9, -1, false) {
		a, b = append(a, e), append(b, 0)
	}
	birkhoff := subsets(9, func(in []bool) bool { return isPermutation(in, 3) })
	set, err := actionset.NewPolytope(a, b)
	if err != nil {
		t.Fatal(err)
	}
	bandittest.TestActionSet(t, set, bandittest.SetOptions{Members: birkhoff, Complete: true, Radius: set.Radius()})

	stream := rng.NewKey(11).Stream(rng.Instance)
	for k := range 30 { // random half spaces around the origin or a random point, rounded in every third
		src := stream.Round(uint64(k))
		d := 1 + k%4
		n := 2*d + 2 + k%5
		a, b := [][]float64{}, []float64{}
		centre := fill(d, 0)
		if k%2 == 1 {
			src.Normals(centre, 5000)
		}
		for r := range n {
			row := make([]float64, d)
			src.Sphere(row, r*d)
			off := 0.2 + src.Float64(4000+r)
			if k%3 == 0 { // small integers: many degenerate vertices
				for i := range row {
					row[i] = math.Round(2 * row[i])
				}
				off = 1
			}
			a, b = append(a, row), append(b, off+dot(row, centre))
		}
		for _, e := range units(d, 1, true) {
			a, b = append(a, e), append(b, 3+dot(e, centre))
		}
		problems = append(problems, problem{"random", a, b})
	}
	for _, p := range problems {
		set, err := actionset.NewPolytope(p.a, p.b)
		if err != nil {
			t.Errorf("%s: %v\na = %v\nb = %v", p.name, err, p.a, p.b)
			continue
		}
		list := vertices(p.a, p.b)
		if len(list) == 0 {
			t.Fatalf("%s: the enumeration found no vertex", p.name)
		}
		if want := radius(list); !set.ExactRadius() || math.Abs(set.Radius()-want) > 1e-9*max(1, want) {
			t.Errorf("%s: radius %v (exact: %v), the vertices say %v", p.name, set.Radius(), set.ExactRadius(), want)
		}
		bandittest.TestActionSet(t, set, bandittest.SetOptions{Members: list, Complete: true, Radius: max(set.Radius(), 1e-3)})
	}
}

// TestPolytopeAgainstClosedForms: large polytopes whose oracle is known.
func TestPolytopeAgainstClosedForms(t *testing.T) {
	a, b := cross(8, 1) // 256 rows, every vertex on 128 of them
	p, err := actionset.NewPolytope(a, b)
	if err != nil {
		t.Fatal(err)
	}
	l1, _ := actionset.NewL1(8)
	box, _ := actionset.NewCube(40, 0.1)
	q, err := actionset.NewPolytope(units(40, 1, true), fill(80, 0.1))
	if err != nil {
		t.Fatal(err)
	}
	if q.ExactRadius() || math.Abs(q.Radius()-box.Radius()) > 1e-10 {
		t.Errorf("the cube's radius is %v (exact: %v), want the bounding box's %v", q.Radius(), q.ExactRadius(), box.Radius())
	}
	stream := rng.NewKey(5).Stream(rng.Offer)
	for k := range 200 {
		for _, c := range []struct {
			name       string
			poly, want bandit.ActionSet
		}{{"cross-polytope", p, l1}, {"cube", q, box}} {
			theta := make([]float64, c.poly.Dim())
			stream.Round(uint64(k)).Normals(theta, 0)
			var x, y bandit.Action
			v, err := c.poly.ArgMax(&x, theta)
			if err != nil {
				t.Fatal(err)
			}
			w, _ := c.want.ArgMax(&y, theta)
			if math.Abs(v-w) > 1e-12*w || !slices.EqualFunc(x.X, y.X, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
				t.Errorf("%s: ArgMax(%v) = %v with %v, closed form %v with %v", c.name, theta, x.X, v, y.X, w)
			}
		}
	}
}

// TestPolytopeCanonicalVertices: the answers to many θ are few different bit patterns, one for each
// vertex, although degenerate vertices are reached with different bases.
func TestPolytopeCanonicalVertices(t *testing.T) {
	a, b := cross(5, 1)
	p, err := actionset.NewPolytope(a, b)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[5]float64]bool{}
	stream := rng.NewKey(2).Stream(rng.Offer)
	for k := range 500 {
		theta := make([]float64, 5)
		stream.Round(uint64(k)).Normals(theta, 0)
		var x bandit.Action
		if _, err := p.ArgMax(&x, theta); err != nil {
			t.Fatal(err)
		}
		for i := range x.X {
			x.X[i] += 0 // −0 and 0 are one key anyway
		}
		seen[[5]float64(x.X)] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d different answers, want the 10 vertices", len(seen))
	}
}

func TestPolytopeRefusals(t *testing.T) {
	square := [][]float64{{1, 0}, {-1, 0}, {0, 1}, {0, -1}}
	for _, c := range []struct {
		a    [][]float64
		b    []float64
		want string
	}{
		{nil, nil, "a is empty"},
		{[][]float64{{}}, []float64{1}, "d is 0"},
		{square, []float64{1, 1, 1}, "a has length 4 and b has 3"},
		{[][]float64{{1, 0}, {1}}, []float64{1, 1}, "a[1] has length 1, expected 2"},
		{[][]float64{{1, 0}, {math.NaN(), 1}}, []float64{1, 1}, "a[1][0] is NaN"},
		{square, []float64{1, 1, math.Inf(1), 1}, "b[2] is +Inf"},
		{square, []float64{1, 1, 1e100, 1}, "b[2] is 1e+100"},
		{square, []float64{0.5, -0.7, 1, 1}, "empty: rows 0, 1 contradict"},
		{[][]float64{{1, 1}, {-1, 0}, {0, -1}}, []float64{1, -0.7, -0.6}, "empty: rows 0, 1, 2 contradict"},
		{append(slices.Clone(square), []float64{0, 0}), []float64{1, 1, 1, 1, -1}, "row 4 says 0 ≤ -1"},
		{[][]float64{{1, 0}, {-1, 0}}, []float64{1, 1}, "span only 1 of 2 dimensions"},
		{[][]float64{{-1, 0}, {0, -1}}, []float64{0, 0}, "unbounded: x[0] has no upper bound"},
		{[][]float64{{1, 0}, {-1, 0}, {0, 1}}, []float64{1, 1, 1}, "unbounded: x[1] has no lower bound"},
		{[][]float64{{1, 1}, {-1, -1}, {1, 0}}, []float64{1, 1, 1}, "unbounded: x[0] has no lower bound"},
	} {
		_, err := actionset.NewPolytope(c.a, c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewPolytope(%v, %v): %v; want something with %q", c.a, c.b, err, c.want)
		}
	}
	// The tolerance: empty by less than it is not empty.
	if _, err := actionset.NewPolytope(square, []float64{0.5, -0.5 - 1e-12, 1, 1}); err != nil {
		t.Errorf("empty by 1e-12: %v", err)
	}
	if _, err := actionset.NewPolytope(square, []float64{0.5, -0.5 - 1e-9, 1, 1}); err == nil {
		t.Error("empty by 1e-9 was accepted")
	}
}

// TestPolytopeStaysSound builds many polytopes near the edge of every tolerance. Each is refused
// with an error or answers with members that are optimal by weak duality with its own radius.
func TestPolytopeStaysSound(t *testing.T) {
	stream := rng.NewKey(13).Stream(rng.Instance)
	accepted := 0
	for k := range 2000 {
		src := stream.Round(uint64(k))
		d := 1 + k%6
		n := d + 1 + k%17
		a, b := make([][]float64, n), make([]float64, n)
		for r := range a {
			a[r] = make([]float64, d)
			src.Normals(a[r], r*d)
			switch src.Intn(3000+r, 4) {
			case 0: // nearly parallel to an earlier row
				if r > 0 {
					eps := math.Pow(10, -16*src.Float64(3500+r))
					for i := range a[r] {
						a[r][i] = a[r-1][i] + eps*a[r][i]
					}
				}
			case 1:
				for i := range a[r] {
					a[r][i] = math.Round(a[r][i])
				}
			}
			b[r] = src.Float64(3700+r) - 0.1
		}
		if soundly(t, a, b, src) {
			accepted++
		}
	}
	if accepted < 200 {
		t.Errorf("%d of 2000 polytopes were accepted: the test looks at too few", accepted)
	}
	t.Logf("%d of 2000 accepted", accepted)
}

// soundly reports whether a·x ≤ b is accepted, and checks its answers if so.
func soundly(t *testing.T, a [][]float64, b []float64, src rng.Source) bool {
	t.Helper()
	p, err := actionset.NewPolytope(a, b)
	if err != nil {
		return false
	}
	d := p.Dim()
	var scale float64 = 1e-300
	for _, v := range b {
		scale = max(scale, math.Abs(v))
	}
	var got []bandit.Action
	var thetas [][]float64
	for k := range 6 {
		theta := make([]float64, d)
		src.Normals(theta, 9000+k*d)
		var x bandit.Action
		v, err := p.ArgMax(&x, theta)
		if errors.Is(err, bandit.ErrNumerical) {
			continue // said so
		}
		if err != nil {
			t.Errorf("ArgMax: %v", err)
			continue
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("value %v", v)
		}
		var size float64
		for _, e := range x.X {
			size = max(size, math.Abs(e))
		}
		for r, row := range a { // feasible to 1e-11 in the solver's units, powers of 2 around these
			var m float64
			for _, e := range row {
				m = max(m, math.Abs(e))
			}
			if dot(row, x.X)-b[r] > 4e-11*m*max(scale, size) {
				t.Errorf("row %d of a = %v, b = %v is violated by %g at %v", r, a, b, dot(row, x.X)-b[r], x.X)
			}
		}
		if math.Sqrt(dot(x.X, x.X)) > p.Radius()*(1+1e-9)+1e-9*scale {
			t.Errorf("‖x‖ = %v beyond the radius %v for a = %v, b = %v", math.Sqrt(dot(x.X, x.X)), p.Radius(), a, b)
		}
		got, thetas = append(got, x), append(thetas, theta)
	}
	for i, theta := range thetas {
		for _, other := range got {
			gap := dot(other.X, theta) - dot(got[i].X, theta)
			if gap > 1e-7*math.Sqrt(dot(theta, theta))*max(scale, p.Radius()) {
				t.Errorf("ArgMax(%v) is worse by %g than another answer, for a = %v, b = %v", theta, gap, a, b)
			}
		}
	}
	return true
}

// FuzzPolytope reads d, then rows and right sides as numbers of eight bits or of eight bytes: it
// looks for panics, endless loops and answers outside the set.
func FuzzPolytope(f *testing.F) {
	f.Add([]byte{2, 0, 1, 0, 10, 255, 0, 10, 0, 1, 10, 0, 255, 10})
	f.Add([]byte{3, 0, 255, 0, 0, 0, 0, 255, 0, 0, 0, 0, 255, 0, 1, 1, 1, 1, 255, 255, 255, 255})
	f.Add([]byte{1, 1, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0xbf, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 || len(data) > 400 {
			return
		}
		d, wide := 1+int(data[0]%6), data[1]%2 == 1
		data = data[2:]
		var numbers []float64
		for len(data) > 0 {
			if !wide {
				numbers = append(numbers, float64(int8(data[0])))
				data = data[1:]
				continue
			}
			if len(data) < 8 {
				break
			}
			numbers = append(numbers, math.Float64frombits(binary.LittleEndian.Uint64(data)))
			data = data[8:]
		}
		var a [][]float64
		var b []float64
		for len(numbers) > d {
			a, b = append(a, numbers[:d]), append(b, numbers[d])
			numbers = numbers[d+1:]
		}
		if len(a) > 0 {
			soundly(t, a, b, rng.NewKey(1).Stream(rng.Offer).Round(0))
		}
	})
}
