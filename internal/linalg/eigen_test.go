package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
	"pgregory.net/rapid"
)

// symmetric returns a d×d matrix of one of the shapes that break eigen solvers: random, singular,
// with equal eigenvalues, graded over 16 decades, diagonal, zero.
func symmetric(t *rapid.T) (a []float64, d int) {
	d = rapid.IntRange(1, 12).Draw(t, "d")
	a = make([]float64, d*d)
	scale := math.Ldexp(1, rapid.IntRange(-500, 500).Draw(t, "exponent"))
	kind := rapid.SampledFrom([]string{"random", "singular", "identity", "projection", "graded", "diagonal", "zero"}).Draw(t, "kind")
	add := func(x []float64, c float64) {
		for i := range d {
			Axpy(c*x[i], x, a[i*d:i*d+d])
		}
	}
	vector := func() []float64 { return rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(t, "x") }
	switch kind {
	case "random":
		for range d {
			add(vector(), 1)
			add(vector(), -1)
		}
	case "singular":
		add(vector(), 1)
	case "identity", "projection":
		for i := range d {
			a[i*d+i] = 3
		}
		if kind == "projection" {
			add(vector(), 1)
		}
	case "graded":
		for i := range d {
			add(vector(), math.Pow(10, -2*float64(i)))
		}
	case "diagonal":
		for i, v := range vector() {
			a[i*d+i] = v
		}
	}
	for i := range d { // exactly symmetric
		for j := range i {
			a[j*d+i] = a[i*d+j]
		}
	}
	for i, v := range a {
		a[i] = v * scale
	}
	return a, d
}

// TestEigen checks A q_i = w_i q_i and ⟨q_i, q_j⟩ = [i = j], which is all there is to know. (gonum's
// solver is no second opinion here: dsterf of v0.17.0 panics on some of these matrices.)
func TestEigen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, d := symmetric(t)
		g := NewEigen(d)
		if !g.Set(a) {
			t.Fatal("Set failed")
		}
		tol := 1e-14 * float64(d)
		size := Norm(a) + 0x1p-1022 // below it numbers have fewer digits
		got := make([]float64, d)
		for i := range d {
			MulSym(got, a, g.Vector(i))
			Axpy(-g.Values()[i], g.Vector(i), got)
			if r := Norm(got); r > tol*size {
				t.Fatalf("|A q − w q| = %g for w = %g, |A| = %g", r, g.Values()[i], size)
			}
			for j := range d {
				want := 0.0
				if i == j {
					want = 1
				}
				if dot := Dot(g.Vector(i), g.Vector(j)); math.Abs(dot-want) > tol {
					t.Fatalf("⟨q_%d, q_%d⟩ = %v", i, j, dot)
				}
			}
		}
	})
	if NewEigen(2).Set([]float64{1, math.NaN(), math.NaN(), 1}) {
		t.Error("Set accepted NaN")
	}
}

// TestFactorFromZero: the factor of 0 under updates is that of Σxxᵀ, singular or not.
func TestFactorFromZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 7).Draw(t, "d")
		f := NewFactor(d, 0)
		v := make([]float64, d*d)
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			x := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(t, "x")
			f.Update(x)
			for i := range d {
				Axpy(x[i], x, v[i*d:i*d+d])
			}
		}
		for i := range d {
			for j := range i + 1 {
				if got, want := Dot(f.l[i*d:i*d+j+1], f.l[j*d:j*d+j+1]), v[i*d+j]; math.Abs(got-want) > 1e-14*(1e-20+Norm(v)) {
					t.Fatalf("(L Lᵀ)[%d,%d] = %v, want %v", i, j, got, want)
				}
			}
		}
	})
}

// BenchmarkEigen compares with gonum's dsyev on preallocated work.
func BenchmarkEigen(b *testing.B) {
	for _, d := range []int{5, 10, 20, 50} {
		rnd := rand.New(rand.NewPCG(1, 1))
		r := newWhole(d, 1)
		for range 100 {
			r.Update(unit(rnd, d), 1)
		}
		b.Run(fmt.Sprint("ours/d=", d), func(b *testing.B) {
			g := NewEigen(d)
			b.ReportAllocs()
			for b.Loop() {
				g.Set(r.inv)
			}
		})
		b.Run(fmt.Sprint("gonum/d=", d), func(b *testing.B) {
			a := blas64.Symmetric{N: d, Stride: d, Data: make([]float64, d*d), Uplo: blas.Upper}
			w, work := make([]float64, d), make([]float64, 1)
			lapack64.Syev(lapack.EVCompute, a, w, work, -1)
			work = make([]float64, int(work[0]))
			b.ReportAllocs()
			for b.Loop() {
				copy(a.Data, r.inv)
				lapack64.Syev(lapack.EVCompute, a, w, work, len(work))
			}
		})
	}
}
