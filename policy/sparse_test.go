package policy_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

func sparseAction(x float64, at ...uint32) bandit.Action {
	v := make([]float64, len(at))
	for i := range v {
		v[i] = x
	}
	return bandit.Action{X: v, At: at}
}

// TestSparseGolden compares the state after three events with the values of the prototype.
func TestSparseGolden(t *testing.T) {
	p, err := policy.NewSparse(policy.SparseOptions{}, policy.Problem{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		at []uint32
		y  float64
	}{{[]uint32{0, 1, 2, 3}, 1}, {[]uint32{0, 1, 4, 5}, 0}, {[]uint32{0, 1, 2, 3}, 1}} {
		if err := p.Update(sparseAction(0.5, e.at...), e.y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range [][3]float64{
		{0.0809794747325, 4, 1.81700063077}, {0.0809794747325, 4, 1.81700063077}, {0.083499409303, 3, 1.8145006308},
		{0.083499409303, 3, 1.8145006308}, {-0.0499999000003, 2, 0.002500009975}, {-0.0499999000003, 2, 0.002500009975}, {0, 1, 1e-8},
	} {
		w, a, g := p.Coordinate(uint32(i))
		for k, got := range []float64{w, a, g} {
			if math.Abs(got-want[k]) > 1e-11*max(1, math.Abs(want[k])) { // the last digit that the prototype printed
				t.Errorf("coordinate %d: number %d is %.13g, expected %v", i, k, got, want[k])
			}
		}
	}
}

// TestUniformTakesSparse: uniform play needs no matrix, in any dimension.
func TestUniformTakesSparse(t *testing.T) {
	set, err := actionset.SparseOf(1<<28, []int{0, 1, 2, 4}, []uint32{3, 9, 1 << 27, 5}, []float64{1, 1, 0.5, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.NewUniform(policy.UniformOptions{}, policy.Problem{Dim: 1 << 28})
	if err != nil {
		t.Fatal(err)
	}
	var law bandit.Law
	if err := p.Prob(&law, set, rng.Source{}); err != nil || law.Total != 3 || len(law.Atoms) != 3 || law.Atoms[2].Count != 1 {
		t.Fatalf("%+v, %v", law, err)
	}
	seen := map[int]bool{}
	stream := rng.NewKey(1).Stream(rng.Select)
	for i := range 60 { // misses an arm with probability 3·(2/3)^60 < 1e-9
		var a bandit.Action
		if err := p.Select(&a, set, stream.Round(uint64(i))); err != nil {
			t.Fatal(err)
		}
		if at, _ := set.Nonzeros(a.Index); len(at) != len(a.At) || at[0] != a.At[0] {
			t.Fatalf("action %d has coordinates %v", a.Index, a.At)
		}
		if err := p.Update(a, 1, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		seen[a.Index] = true
	}
	if len(seen) != 3 {
		t.Errorf("only %v were played", seen)
	}
	if err := p.Update(sparseAction(0.5, 1<<28), 1, rng.Source{}); err == nil {
		t.Error("a coordinate beyond the dimension was accepted")
	}
}

// TestDenseRefusesSparse: policies for dense vectors name d² and the kinds that take sparse sets.
func TestDenseRefusesSparse(t *testing.T) {
	set, err := actionset.SparseOf(1<<18, []int{0, 1, 2}, []uint32{3, 9}, []float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []policy.Options{&policy.AtomsOptions{}, &policy.EnsembleOptions{}, &policy.GreedyOptions{}, &policy.ThompsonOptions{}} {
		p, err := o.New(policy.Problem{Dim: 2})
		if err != nil {
			t.Fatal(err)
		}
		var a bandit.Action
		if err := p.Select(&a, set, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
			t.Errorf("%T: Select on a sparse set: %v, expected ErrUnsupported", o, err)
		}
		if err := p.Update(sparseAction(0.5, 1, 2), 1, rng.Source{}); err == nil {
			t.Errorf("%T: Update with a sparse action succeeded", o)
		}
	}
}

// diagonal is the model of Sparse on dense vectors, written for clarity: big slices and no hashing.
type diagonal struct {
	w, a, g []float64
	rss     float64
	n       int
}

func newDiagonal(d int) *diagonal {
	m := &diagonal{make([]float64, d), make([]float64, d), make([]float64, d), 0, 0}
	for i := range m.a {
		m.a[i], m.g[i] = 1, 1e-8
	}
	return m
}

func (m *diagonal) learn(x []float64, y float64) {
	var z, q, one, nnz float64
	for i, v := range x {
		if v != 0 {
			z += v * m.w[i]
			q += v * v / m.a[i]
			one += math.Abs(v)
			nnz++
		}
	}
	m.rss += (y - z) * (y - z) / (1 + q)
	m.n++
	for i, v := range x {
		if v != 0 {
			g := (z - y) * v
			m.g[i] += g * g * nnz
			m.w[i] -= 0.05 * g * math.Sqrt(nnz) / math.Sqrt(m.g[i])
			m.a[i] += math.Abs(v) * one
		}
	}
}

// TestSparseIsDiagonal: without collisions the model is the dense diagonal one, to 1e-12.
func TestSparseIsDiagonal(t *testing.T) {
	const d = 64
	p, err := policy.NewSparse(policy.SparseOptions{}, policy.Problem{Dim: d})
	if err != nil {
		t.Fatal(err)
	}
	m := newDiagonal(d)
	stream := rng.NewKey(5).Stream(rng.Offer)
	x := make([]float64, d)
	for n := range uint64(2000) {
		draw := stream.Round(n)
		clear(x)
		var q float64
		for k := range 9 {
			i := draw.Intn(2*k, d)
			x[i] = draw.Normal(2*k + 1)
		}
		for _, v := range x {
			q += v * v
		}
		for i := range x {
			x[i] /= math.Sqrt(q)
		}
		y := draw.Float64(50)
		a := bandit.Action{X: x}
		if n%2 == 0 { // as a list of nonzeros
			a = bandit.Action{At: []uint32{}}
			for i, v := range x {
				if v != 0 {
					a.At, a.X = append(a.At, uint32(i)), append(a.X, v)
				}
			}
		}
		if err := p.Update(a, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		m.learn(x, y)
	}
	close := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }
	for i := range m.w {
		w, a, g := p.Coordinate(uint32(i))
		if !close(w, m.w[i]) || !close(a, m.a[i]) || !close(g, m.g[i]) {
			t.Fatalf("coordinate %d is (%v, %v, %v), expected (%v, %v, %v)", i, w, a, g, m.w[i], m.a[i], m.g[i])
		}
	}
	if want := math.Sqrt((0.25 + m.rss) / float64(1+m.n)); !close(p.Sigma(), want) {
		t.Errorf("σ̂ is %v, expected %v", p.Sigma(), want)
	}
}

// TestSparseMembers: a choice is the argmax over the members of the formula, drawn from the streams as
// documented, and the law counts them.
func TestSparseMembers(t *testing.T) {
	const m = 7
	init := rng.NewKey(8).Stream(rng.Init)
	p, err := policy.NewSparse(policy.SparseOptions{M: m, A: 0.5, Lambda: 2}, policy.Problem{Dim: 1 << 12, Init: init})
	if err != nil {
		t.Fatal(err)
	}
	stream := rng.NewKey(9).Stream(rng.Offer)
	var from []int
	var at []uint32
	var x []float64
	from = append(from, 0)
	for i := range 6 {
		for k := range 300 + i { // more than one chunk
			at = append(at, uint32(stream.Round(uint64(i)).Intn(2*k, 1<<12)))
			x = append(x, stream.Round(uint64(i)).Normal(2*k+1)/17)
		}
		from = append(from, len(at))
	}
	set, err := actionset.SparseOf(1<<12, from, at, x)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		a, v := set.Nonzeros(n % 6)
		if err := p.Update(bandit.Action{At: a, X: v}, float64(n%3)/2, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	draws := rng.NewKey(10).Stream(rng.Select)
	for e := range uint64(20) {
		draw := draws.Round(e)
		best := func(j int, sign float64) int {
			arm, most := 0, math.Inf(-1)
			for i := range set.Len() {
				a, v := set.Nonzeros(i)
				var s float64
				for k, c := range a {
					w, prec, _ := p.Coordinate(c)
					s += v[k] * (w + 0.5*p.Sigma()*sign*rng.NormalWord(init.Sub(e).Round(uint64(j)).Word(c))/math.Sqrt(prec))
				}
				if s > most {
					arm, most = i, s
				}
			}
			return arm
		}
		var a bandit.Action
		if err := p.Select(&a, set, draw); err != nil {
			t.Fatal(err)
		}
		if want := best(draw.Intn(0, m), draw.Sign(1)); a.Index != want {
			t.Fatalf("decision %d chose %d, the member chooses %d", e, a.Index, want)
		}
		var law bandit.Law
		if err := p.Prob(&law, set, draw); err != nil {
			t.Fatal(err)
		}
		count := make([]uint64, set.Len())
		for j := range m {
			count[best(j, 1)]++
			count[best(j, -1)]++
		}
		for i, c := range count {
			if law.Atoms[i].Count != c || law.Total != 2*m {
				t.Fatalf("decision %d: action %d has the count %d of %d, expected %d of %d", e, i, law.Atoms[i].Count, law.Total, c, 2*m)
			}
		}
	}
}

// TestSparseOneCoordinate: with one active feature in each action the members have the law of those of dense
// atoms, N(0, 1/(λ + n_i)) for an arm that was played n_i times for reward 0; their scale does not matter
// then. Null: both policies choose each of three arms equally often in 20 000 decisions each; rejected
// beyond 4.9 standard errors of the difference for one of them, level 1e-5 by Bonferroni.
func TestSparseOneCoordinate(t *testing.T) {
	const n = 20_000
	rows := [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	arms, err := actionset.NewFinite(rows)
	if err != nil {
		t.Fatal(err)
	}
	s, err := policy.NewSparse(policy.SparseOptions{}, policy.Problem{Dim: 3, Init: rng.NewKey(1).Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := policy.NewAtoms(policy.AtomsOptions{}, policy.Problem{Dim: 3, Init: rng.NewKey(2).Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	shares := make([][3]int, 2)
	for k, p := range []bandit.Policy{s, d} {
		for arm, plays := range []int{0, 4, 20} {
			for range plays {
				if err := p.Update(bandit.Action{X: rows[arm]}, 0, rng.Source{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		var a bandit.Action
		draws := rng.NewKey(uint64(3 + k)).Stream(rng.Select)
		for e := range uint64(n) {
			if err := p.Select(&a, arms, draws.Round(e)); err != nil {
				t.Fatal(err)
			}
			shares[k][a.Index]++
		}
	}
	for arm := range rows {
		a, b := float64(shares[0][arm]), float64(shares[1][arm])
		q := (a + b) / (2 * n)
		if z := (a - b) / math.Sqrt(2*n*q*(1-q)); math.Abs(z) > 4.9 {
			t.Errorf("sparse chose arm %d %v times of %d, atoms %v times (z = %.1f)", arm, a, n, b, z)
		}
	}
	if s := shares[0]; s[0]-s[2] < n/20 {
		t.Errorf("arms chosen %v times: the test has no power", s)
	}
}

// TestSparseSnapshotIsLarge: 200 000 touched coordinates come back bit for bit, a million with TROUPE_LONG.
func TestSparseSnapshotIsLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("a million coordinates")
	}
	mk := func() *policy.Sparse {
		p, err := policy.NewSparse(policy.SparseOptions{Bits: 24}, policy.Problem{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, q := mk(), mk()
	at, x := make([]uint32, 50_000), make([]float64, 50_000)
	updates := sized(4, 20)
	for n := range updates {
		for k := range at {
			at[k], x[k] = uint32(n*50_000+k)*0x9e3779b1>>8, 1/math.Sqrt(50_000)
		}
		if err := p.Update(bandit.Action{At: at, X: x}, float64(n%2), rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	if p.Touched() < 45_000*updates {
		t.Fatalf("%d coordinates touched", p.Touched())
	}
	b, err := p.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Restore(b); err != nil || q.Touched() != p.Touched() {
		t.Errorf("restored state differs: %v", err)
	}
	t.Logf("%d coordinates, %d bytes", p.Touched(), len(b))
}

// BenchmarkSparseSnapshot: a snapshot of a million touched coordinates and back.
func BenchmarkSparseSnapshot(b *testing.B) {
	p, err := policy.NewSparse(policy.SparseOptions{Bits: 24}, policy.Problem{})
	if err != nil {
		b.Fatal(err)
	}
	at, x := make([]uint32, 50_000), make([]float64, 50_000)
	for n := range 20 {
		for k := range at {
			at[k], x[k] = uint32(n*50_000+k)*0x9e3779b1>>8, 0.01
		}
		if err := p.Update(bandit.Action{At: at, X: x}, 1, rng.Source{}); err != nil {
			b.Fatal(err)
		}
	}
	var buf []byte
	measure(b, func() {
		if buf, err = p.AppendSnapshot(buf[:0]); err == nil {
			err = p.Restore(buf)
		}
		if err != nil {
			b.Fatal(err)
		}
	})
}

// TestSparseCoordinateKey: with key = "coordinate" the law does not depend on the decision, agrees with the
// choices, and changes once updates have doubled the precisions.
func TestSparseCoordinateKey(t *testing.T) {
	p, err := policy.NewSparse(policy.SparseOptions{M: 4, Key: "coordinate", Bits: 10}, policy.Problem{Dim: 1024, Init: rng.NewKey(5).Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	from, at, x := []int{0}, []uint32{}, []float64{}
	for i := range 40 {
		for k := range 3 {
			at, x = append(at, uint32(7*i+300*k)), append(x, 1/math.Sqrt(3))
		}
		from = append(from, len(at))
	}
	set, err := actionset.SparseOf(1024, from, at, x)
	if err != nil {
		t.Fatal(err)
	}
	laws := func(decision uint64) []uint64 {
		t.Helper()
		var law bandit.Law
		if err := p.Prob(&law, set, rng.NewKey(1).Stream(rng.Select).Round(decision)); err != nil {
			t.Fatal(err)
		}
		var out []uint64
		for _, a := range law.Atoms {
			out = append(out, a.Count)
		}
		return out
	}
	first := laws(1)
	if !slices.Equal(first, laws(2)) {
		t.Error("the law depends on the decision")
	}
	var a bandit.Action
	for n := range uint64(200) {
		if err := p.Select(&a, set, rng.NewKey(1).Stream(rng.Select).Round(n)); err != nil {
			t.Fatal(err)
		}
		if first[a.Index] == 0 {
			t.Fatalf("action %d was chosen, and no member chooses it", a.Index)
		}
	}
	for n := range 3 { // A goes from 1 to 2 and beyond on the coordinates of the actions that are learned
		for i := range 40 {
			c, v := set.Nonzeros(i)
			if err := p.Update(bandit.Action{At: c, X: v, Index: i}, 0.5, rng.Source{}); err != nil {
				t.Fatal(n, err)
			}
		}
	}
	if slices.Equal(first, laws(1)) {
		t.Error("the members did not change when every precision had doubled")
	}
	if _, err := policy.NewSparse(policy.SparseOptions{Key: "coordinates"}, policy.Problem{}); err == nil || !strings.Contains(err.Error(), `did you mean "coordinate"`) {
		t.Errorf("another key: %v", err)
	}
}
