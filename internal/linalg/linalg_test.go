package linalg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"troupe/internal/cpu"
)

// unit returns a random unit vector.
func unit(r *rand.Rand, d int) []float64 {
	x := make([]float64, d)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	n := Norm(x)
	for i := range x {
		x[i] /= n
	}
	return x
}

// TestRidgeAgainstGonum checks every reading of the state against gonum on a fresh V.
func TestRidgeAgainstGonum(t *testing.T) {
	for _, d := range []int{1, 2, 3, 4, 5, 8, 10, 17} {
		rnd := rand.New(rand.NewPCG(1, uint64(d)))
		const lambda = 0.7
		r := newWhole(d, lambda)
		v := mat.NewSymDense(d, nil)
		for i := range d {
			v.SetSym(i, i, lambda)
		}
		b := mat.NewVecDense(d, nil)
		for range 50 {
			x, y := unit(rnd, d), rnd.NormFloat64()
			gain, ok := r.Update(x, y)
			if !ok {
				t.Fatal("update refused")
			}
			xv := mat.NewVecDense(d, x)
			v.SymRankOne(v, 1, xv)
			b.AddScaledVec(b, y, xv)

			var ch mat.Cholesky
			if !ch.Factorize(v) {
				t.Fatal("gonum: not positive definite")
			}
			var theta, g mat.VecDense
			if err := ch.SolveVecTo(&theta, b); err != nil {
				t.Fatal(err)
			}
			if err := ch.SolveVecTo(&g, xv); err != nil {
				t.Fatal(err)
			}
			for i := range d {
				near(t, "theta", r.Theta()[i], theta.AtVec(i), 1e-12)
				near(t, "gain", gain[i], g.AtVec(i), 1e-12)
			}
			near(t, "log det", r.LogDetRatio(), ch.LogDet()-float64(d)*math.Log(lambda), 1e-11)
			z := unit(rnd, d)
			zv := mat.NewVecDense(d, z)
			var s mat.VecDense
			if err := ch.SolveVecTo(&s, zv); err != nil {
				t.Fatal(err)
			}
			near(t, "width", r.Width2(z), mat.Dot(zv, &s), 1e-12)
			near(t, "norm", r.Norm2(z), mat.Inner(zv, v, zv), 1e-11)
		}
	}
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*(1+math.Abs(want))) {
		t.Fatalf("%s = %v, want %v", what, got, want)
	}
}

// sized returns the exhaustive size with TROUPE_LONG, otherwise one that fails on the same faults.
func sized(small, long int) int {
	if os.Getenv("TROUPE_LONG") != "" {
		return long
	}
	return small
}

// TestRidgeDrift makes 2.5·10⁵ ill-conditioned updates, 10⁶ with TROUPE_LONG, and compares V⁻¹ with a fresh
// factorisation of the exact sum V. "one arm": 99.5 % of the rounds play one direction; "concentrated": all
// vectors lie within 1e-3 of one direction.
func TestRidgeDrift(t *testing.T) {
	n := sized(250_000, 1_000_000)
	for _, c := range []struct {
		name   string
		lambda float64
		limit  float64
	}{
		{"one arm", 5, 1e-7}, {"concentrated", 1, 1e-7}, {"concentrated", 1e-3, 1e-6},
	} {
		t.Run(fmt.Sprintf("%s λ=%g", c.name, c.lambda), func(t *testing.T) {
			t.Parallel()
			const d = 10
			rnd := rand.New(rand.NewPCG(7, 8))
			r := newWhole(d, c.lambda)
			first := unit(rnd, d)
			x := make([]float64, d)
			for range n {
				if c.name == "one arm" {
					copy(x, first)
					if rnd.IntN(200) == 0 {
						copy(x, unit(rnd, d))
					}
				} else {
					for i := range x {
						x[i] = first[i] + 1e-3*rnd.NormFloat64()
					}
				}
				if _, ok := r.Update(x, 1); !ok {
					t.Fatal("update refused")
				}
			}
			r.pay()
			fresh := newWhole(d, c.lambda)
			if !fresh.refactorFrom(r.V()) {
				t.Fatal("V is not positive definite")
			}
			var diff, size float64
			for i := range fresh.inv {
				diff += (fresh.inv[i] - r.inv[i]) * (fresh.inv[i] - r.inv[i])
				size += fresh.inv[i] * fresh.inv[i]
			}
			rel := math.Sqrt(diff / size)
			t.Logf("relative error %.1e after %d updates, %d since the last refactorisation", rel, n, r.fresh)
			if !(rel <= c.limit) {
				t.Errorf("relative error %.2e, limit %.0e", rel, c.limit)
			}
		})
	}
}

// TestRidgeProbe spoils V⁻¹ and sees the probe repair it.
func TestRidgeProbe(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	r := newWhole(4, 1)
	for range 10 {
		r.Update(unit(rnd, 4), 1)
	}
	r.pay()
	for i := range 4 {
		r.inv[i*Padded(4)+i] *= 1 + 1e-6
	}
	for range probeEvery {
		r.Update(unit(rnd, 4), 1)
	}
	r.pay()
	fresh := newWhole(4, 1)
	fresh.refactorFrom(r.V())
	for i := range r.inv {
		near(t, "V⁻¹", r.inv[i], fresh.inv[i], 1e-12)
	}
}

// TestRidgeRefuses checks that a refused update changes nothing.
func TestRidgeRefuses(t *testing.T) {
	r := newWhole(2, 1)
	r.Update([]float64{0.5, 0.5}, 1)
	for _, c := range []struct {
		x []float64
		y float64
	}{
		{[]float64{math.NaN(), 0}, 1}, {[]float64{0, math.Inf(1)}, 1},
		{[]float64{1, 0}, math.NaN()}, {[]float64{1, 0}, math.Inf(-1)},
		{[]float64{1e300, 0}, 1},
	} {
		if _, ok := r.Update(c.x, c.y); ok {
			t.Errorf("Update(%v, %v) was accepted", c.x, c.y)
		}
	}
	r2 := newWhole(2, 1)
	r2.Update([]float64{0.5, 0.5}, 1)
	if got, want := fmt.Sprint(r.State()), fmt.Sprint(r2.State()); got != want {
		t.Errorf("a refused update changed the state: %v, want %v", got, want)
	}
}

// TestFactor holds L Lᵀ against the sum for every input rapid thinks of.
func TestFactor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 7).Draw(t, "d")
		lambda := rapid.Float64Range(1e-3, 10).Draw(t, "lambda")
		f := NewFactor(d, lambda)
		v := make([]float64, d*d)
		for i := range d {
			v[i*d+i] = lambda
		}
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			x := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(t, "x")
			f.Update(x)
			for i := range d {
				Axpy(x[i], x, v[i*d:i*d+d])
			}
		}
		g := &Factor{d: d, l: make([]float64, d*d)}
		if !g.Set(v) {
			t.Fatal("Set refused a positive definite matrix")
		}
		size := Norm(v)
		for i := range d {
			for j := range i + 1 {
				if got, want := Dot(f.l[i*d:i*d+j+1], f.l[j*d:j*d+j+1]), v[i*d+j]; math.Abs(got-want) > 1e-13*size*float64(d) {
					t.Fatalf("(L Lᵀ)[%d,%d] = %v, want %v", i, j, got, want)
				}
			}
		}
		z := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(t, "z")
		s := append([]float64(nil), z...)
		f.Solve(s)
		back := make([]float64, d)
		MulSym(back, v, s)
		for i := range back {
			if math.Abs(back[i]-z[i]) > 1e-8 {
				t.Fatalf("V·V⁻¹z = %v, want %v", back, z)
			}
		}
		if diff := math.Abs(f.LogDet() - g.LogDet()); diff > 1e-9 {
			t.Fatalf("log det differs by %v", diff)
		}
	})
}

// TestAddGaussian: with z running through the unit vectors the vectors that are added are the columns
// of a root L of A: Σ L_k L_kᵀ must be A, singular or not, with columns of very different size. Pivots in
// the order of the coordinates miss it by 1e-6.
func TestAddGaussian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 17).Draw(t, "d")
		ld := Padded(d)
		a := make([]float64, d*ld)
		for range rapid.IntRange(0, 2*d).Draw(t, "rank") {
			x := rapid.SliceOfN(rapid.Float64Range(-1, 1), d, d).Draw(t, "x")
			for i := range d {
				if math.Abs(x[i]) < 1e-60 { // squares of products underflow
					x[i] = 0
				}
			}
			for i := range d {
				for j := range d {
					a[i*ld+j] = math.FMA(x[i], x[j], a[i*ld+j])
				}
			}
		}
		least, got := make([]float64, d), make([]float64, d*d)
		for i := range least {
			least[i] = 1e-14 * a[i*ld+i]
		}
		for k := range d {
			z, col := make([]float64, d), make([]float64, d)
			z[k] = 1
			AddGaussian(col, slices.Clone(a), least, z, make([]float64, GaussianWork(d)))
			for i := range d {
				Axpy(col[i], col, got[i*d:i*d+d])
			}
		}
		for i := range d {
			for j := range d {
				if v := a[i*ld+j]; math.Abs(got[i*d+j]-v) > 1e-12*float64(d)*(1+math.Sqrt(a[i*ld+i]*a[j*ld+j])) {
					t.Fatalf("(L Lᵀ)[%d,%d] = %v, want %v", i, j, got[i*d+j], v)
				}
			}
		}
	})
}

func TestNorm(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{3, 4}, 5}, {[]float64{3e300, 4e300}, 5e300}, {[]float64{3e-300, 4e-300}, 5e-300},
		{[]float64{0, 0}, 0}, {nil, 0}, {[]float64{math.Inf(-1), 1}, math.Inf(1)},
	} {
		if got := Norm(c.x); got != c.want && math.Abs(got-c.want) > 1e-15*c.want {
			t.Errorf("Norm(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if Finite([]float64{1, math.NaN()}) || Finite([]float64{math.Inf(1)}) || !Finite([]float64{1e308, -1e308}) {
		t.Error("Finite is wrong")
	}
}

func BenchmarkRidgeUpdate(b *testing.B) {
	for _, d := range []int{10, 20, 50} {
		b.Run(fmt.Sprint("d=", d), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 1))
			r := newWhole(d, 5)
			xs := make([][]float64, 64)
			for i := range xs {
				xs[i] = unit(rnd, d)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.Update(xs[i&63], 1)
				i++
			}
		})
	}
}

func BenchmarkFactorUpdate(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	f := NewFactor(10, 5)
	x := unit(rnd, 10)
	for b.Loop() {
		f.Update(x)
	}
}

// TestWidthOfStretch compares the width of vectors with zeros around a stretch with the whole sum, bit
// for bit, on every kernel.
func TestWidthOfStretch(t *testing.T) {
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer cpu.Force(level)()
			rnd := rand.New(rand.NewPCG(7, 1))
			for range 300 {
				d := 1 + rnd.IntN(60)
				r := newWhole(d, 0.5)
				for range 5 {
					if _, ok := r.Update(unit(rnd, d), rnd.NormFloat64()); !ok {
						t.Fatal("update refused")
					}
				}
				x := unit(rnd, d)
				from := rnd.IntN(d + 1)
				to := from + rnd.IntN(d+1-from)
				clear(x[:from])
				clear(x[to:])
				whole := make([]float64, d)
				MulSym(whole, r.Inv(), x)
				if got, want := r.Width2(x), max(0, Dot(x, whole)); math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("d=%d, features %d to %d: width² = %v, want %v", d, from, to, got, want)
				}
			}
		})
	}
}

// TestTriangle: a ridge of which the kernels keep one triangle is the same as one that is kept whole, bit for
// bit, whoever reads it, whenever, and with changes of the level on the way.
func TestTriangle(t *testing.T) {
	defer func(old int) { halfDim = old }(halfDim)
	for d := 1; d < 60; d++ {
		play := func(half int, level func(i int) cpu.Level) (out []float64) {
			halfDim = half
			r := rand.New(rand.NewPCG(uint64(d), 4))
			g := newWhole(d, 0.5)
			vector := func(step int) []float64 {
				x := make([]float64, d*step)
				for i := range x {
					x[i] = r.NormFloat64()
				}
				return x
			}
			dst := make([]float64, d, Padded(d))
			for i := range 60 {
				restore := cpu.Force(level(i))
				switch r.IntN(8) {
				case 0:
					g.SolveShift(dst, vector(1), 1, 0.3)
				case 1:
					g.SolveShift(dst, vector(8), 8, -2)
				case 2:
					g.Solve(dst, vector(1))
				case 3:
					dst[0] = g.Width2(vector(1))
				case 4:
					out = append(out, g.Inv()...)
				case 5:
					state := g.State()
					g = newWhole(d, 0.5)
					g.Restore(state)
				default:
					gain, ok := g.Update(vector(1), r.NormFloat64())
					if !ok {
						t.Fatal("an update was refused")
					}
					out = append(out, gain...)
				}
				out = append(append(out, dst...), g.Theta()...)
				restore()
			}
			return out
		}
		want := play(1000, func(int) cpu.Level { return cpu.Portable })
		sameBits(t, fmt.Sprint("d = ", d), play(1, func(int) cpu.Level { return cpu.Best() }), want)
		sameBits(t, fmt.Sprint("levels in turn, d = ", d), play(1, func(i int) cpu.Level { return cpu.Level(i*i%7) % (cpu.Best() + 1) }), want)
	}
}

// TestHypot: the bits of math.Hypot where that is assembly or not fused, and no overflow.
func TestHypot(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 10_000 {
		p := math.Ldexp(r.NormFloat64(), r.IntN(2000)-1000)
		q := p * math.Ldexp(r.NormFloat64(), r.IntN(60)-30)
		if got, want := hypot(p, q), math.Hypot(p, q); math.Abs(got-want) > 0x1p-51*want {
			t.Errorf("hypot(%v, %v) = %v, want %v", p, q, got, want)
		}
	}
	for _, c := range [][3]float64{{0, 0, 0}, {3, -4, 5}, {0, -2, 2}, {1e300, 1e300, math.Sqrt2 * 1e300}, {math.Inf(-1), 1, math.Inf(1)}} {
		if got := hypot(c[0], c[1]); got != c[2] && !(math.Abs(got-c[2]) < 1e285) {
			t.Errorf("hypot(%v, %v) = %v, want %v", c[0], c[1], got, c[2])
		}
	}
	if got := hypot(math.NaN(), 1); got == got {
		t.Errorf("hypot(NaN, 1) = %v", got)
	}
}
