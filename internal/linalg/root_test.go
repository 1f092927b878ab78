package linalg

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRootIsRidge compares the square-root form with the form that keeps V⁻¹, which has its own
// test against gonum: θ̂, log det, V and b, over random updates.
func TestRootIsRidge(t *testing.T) {
	for _, d := range []int{1, 2, 3, 5, 8, 17} {
		rnd := rand.New(rand.NewPCG(2, uint64(d)))
		const lambda = 0.3
		root, ridge := NewRoot(d, lambda), NewRidge(d, lambda)
		v, b := make([]float64, d*d), make([]float64, d)
		for range 200 {
			x, y := unit(rnd, d), rnd.NormFloat64()
			if _, ok := ridge.Update(x, y); !ok || !root.Update(x, y) {
				t.Fatal("update refused")
			}
			root.Gram(v, b)
			for i := range d {
				near(t, "theta", root.Theta()[i], ridge.Theta()[i], 1e-11)
				near(t, "b", b[i], ridge.B()[i], 1e-12)
			}
			for i := range v {
				near(t, "V", v[i], ridge.V()[i], 1e-12)
			}
			near(t, "log det", root.LogDetRatio(), ridge.LogDetRatio(), 1e-12)
		}
		if root.Len() != 200 {
			t.Errorf("Len = %d", root.Len())
		}
	}
}

// TestRootDrift: 10⁶ updates along almost one line, λ = 2⁻¹⁰, condition number of V about 10¹³.
// The data are small integers, so V and b are exact in float64 and the truth comes from a
// factorisation with 400 bits. The square-root form must know log det to 1e-11 and θ̂ to 1e-7
// relative; factoring the exact V in float64, which is what a policy that refreshed its factor
// from V would do, is worse.
func TestRootDrift(t *testing.T) {
	const d, n = 6, 1_000_000
	lambda := math.Ldexp(1, -10)
	rnd := rand.New(rand.NewPCG(3, 3))
	root := NewRoot(d, lambda)
	v, b := make([]float64, d*d), make([]float64, d)
	for i := range d {
		v[i*d+i] = lambda
	}
	x := make([]float64, d)
	for t := range n {
		for i := range x {
			x[i] = 1000
			if t < 100 {
				x[i] += float64(rnd.IntN(3) - 1)
			}
		}
		y := float64(rnd.IntN(2001) - 1000)
		root.Update(x, y)
		for i := range d {
			b[i] += y * x[i]
			for j := range d {
				v[i*d+j] += x[i] * x[j]
			}
		}
	}
	theta, logDet := solveExactly(v, b, d)
	logDet -= d * math.Log(lambda)

	f := NewFactor(d, 1)
	if !f.Set(v) {
		t.Fatal("V is not positive definite in float64")
	}
	naive := slices.Clone(b)
	f.Solve(naive)
	ours, theirs := distance(root.Theta(), theta), distance(naive, theta)
	t.Logf("relative error of theta: %.1e, from V: %.1e; of log det: %.1e, from V: %.1e", ours, theirs,
		math.Abs(root.LogDetRatio()/logDet-1), math.Abs((f.LogDet()-d*math.Log(lambda))/logDet-1))
	if !(ours <= 1e-7) || !(math.Abs(root.LogDetRatio()/logDet-1) <= 1e-11) {
		t.Errorf("theta is off by %v, log det is %v, want %v", ours, root.LogDetRatio(), logDet)
	}
	if !(ours < theirs) {
		t.Errorf("theta is off by %v, from V by %v: the square-root form should be better here", ours, theirs)
	}
}

// distance returns ‖a − b‖/‖b‖.
func distance(a, b []float64) float64 {
	diff := slices.Clone(a)
	Axpy(-1, b, diff)
	return Norm(diff) / Norm(b)
}

// solveExactly returns V⁻¹b and log det V by elimination with 400 bits.
func solveExactly(v, b []float64, d int) (theta []float64, logDet float64) {
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	a := make([][]*big.Float, d)
	for i := range a {
		for j := range d {
			a[i] = append(a[i], num(v[i*d+j]))
		}
		a[i] = append(a[i], num(b[i]))
	}
	for k := range d {
		p, _ := a[k][k].Float64()
		logDet += math.Log(p)
		for i := range d {
			if i == k {
				continue
			}
			c := num(0).Quo(a[i][k], a[k][k])
			for j := k; j <= d; j++ {
				a[i][j] = num(0).Sub(a[i][j], num(0).Mul(c, a[k][j]))
			}
		}
	}
	for i := range d {
		q, _ := num(0).Quo(a[i][d], a[i][i]).Float64()
		theta = append(theta, q)
	}
	return theta, logDet
}

// TestRootMergeAndRestore: two halves of a log added give the whole to 1e-11, a state that was saved
// and restored goes on bit for bit, and what is no state is refused and changes nothing.
func TestRootMergeAndRestore(t *testing.T) {
	const d, n = 7, 300
	rnd := rand.New(rand.NewPCG(4, 4))
	whole, halves, saved := NewRoot(d, 2), [2]*Root{NewRoot(d, 2), NewRoot(d, 2)}, NewRoot(d, 2)
	for i := range n {
		x, y := unit(rnd, d), rnd.NormFloat64()
		whole.Update(x, y)
		halves[i%2].Update(x, y)
		saved.Update(x, y)
		next := NewRoot(d, 2)
		if !next.Restore(saved.State()) {
			t.Fatal("its own state is refused")
		}
		saved = next
	}
	if !slices.Equal(saved.f.l, whole.f.l) || !slices.Equal(saved.theta, whole.theta) ||
		saved.logDet != whole.logDet || saved.n != whole.n {
		t.Error("a state that was restored after each update differs from one that never stopped")
	}
	if !halves[0].Merge(halves[1]) {
		t.Fatal("merge refused")
	}
	for i := range d {
		near(t, "theta", halves[0].Theta()[i], whole.Theta()[i], 1e-11)
	}
	near(t, "log det", halves[0].LogDetRatio(), whole.LogDetRatio(), 1e-11)
	if halves[0].Len() != n {
		t.Errorf("merged state has %d updates", halves[0].Len())
	}

	before := slices.Clone(whole.f.l)
	bad := whole.State()
	bad[0][2] = -1
	if whole.Restore(bad) {
		t.Error("a factor with a negative diagonal was restored")
	}
	bad = whole.State()
	bad[2][0] = 1.5
	if whole.Restore(bad) {
		t.Error("1.5 updates were restored")
	}
	for _, x := range [][]float64{{math.NaN(), 0, 0, 0, 0, 0, 0}, {1e200, 0, 0, 0, 0, 0, 0}} {
		if whole.Update(x, 0) {
			t.Errorf("update by %v accepted", x)
		}
	}
	if whole.Update(make([]float64, d), math.Inf(-1)) {
		t.Error("reward -Inf accepted")
	}
	if !slices.Equal(before, whole.f.l) || whole.n != n {
		t.Error("a refused call changed the state")
	}
}

// TestLogDetRange: determinants far beyond the range of a float64, where the log of the product and
// the sum of the logs must still be the same number.
func TestLogDetRange(t *testing.T) {
	const d = 40
	for _, size := range []float64{1e-140, 1e-20, 1, 3, 1e30, 1e140} {
		f := NewFactor(d, 1)
		var want float64
		for i := range d {
			f.l[i*d+i] = size * float64(i+1)
			want += 2 * math.Log(f.l[i*d+i])
		}
		if got := f.LogDet(); math.Abs(got-want) > 1e-11*(1+math.Abs(want)) {
			t.Errorf("size %v: log det = %v, want %v", size, got, want)
		}
	}
}

// TestSolveLTRows: the block solve gives the bits of the single one, for every remainder.
func TestSolveLTRows(t *testing.T) {
	const d = 9
	rnd := rand.New(rand.NewPCG(6, 6))
	f := NewFactor(d, 0.5)
	for range 20 {
		f.Update(unit(rnd, d))
	}
	for k := range 10 {
		block := make([]float64, k*d)
		for i := range block {
			block[i] = rnd.NormFloat64()
		}
		want := slices.Clone(block)
		for j := range k {
			f.SolveLT(want[j*d : j*d+d])
		}
		if f.SolveLTRows(block); !slices.Equal(block, want) {
			t.Errorf("%d rows: the block solve differs", k)
		}
	}
}

func BenchmarkRootUpdate(b *testing.B) {
	const d = 26
	r, x := NewRoot(d, 1), unit(rand.New(rand.NewPCG(5, 5)), d)
	for b.Loop() {
		r.Update(x, 1)
	}
}
