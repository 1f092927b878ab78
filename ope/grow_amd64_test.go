package ope

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/internal/cpu"
)

// TestGrow: the vector kernel has the bits of the portable one, also for tiny, huge and special numbers.
func TestGrow(t *testing.T) {
	if cpu.Best() < cpu.AVX2 {
		t.Skip("no AVX2")
	}
	r := rand.New(rand.NewPCG(1, 1))
	ts := []float64{0, 5e-324, 1e-300, 1e-16, 1, math.Nextafter(1, 2), 1e16, 1e100, 1e300, math.Inf(1)}
	for range 1000 {
		ts = append(ts, math.Exp(40*r.Float64()-20))
	}
	for i := range ts {
		for _, stride := range []int{1, 5} {
			n := min(1+i%16, (len(ts)-i-1)/stride+1)
			var a, b [steps]float64
			for j := range a {
				a[j] = math.Exp(10*r.Float64() - 5)
			}
			b = a
			growAVX2(&a, &lambdas, &ts[i], stride, n)
			growPortable(&b, ts[i:], stride, n)
			for j := range a {
				if math.Float64bits(a[j]) != math.Float64bits(b[j]) && !(a[j] != a[j] && b[j] != b[j]) {
					t.Fatalf("t = %v, %d of them, step %d: %v, portable %v", ts[i], n, j, a[j], b[j])
				}
			}
			if slices.ContainsFunc(ts[i:i+(n-1)*stride+1], func(t float64) bool { return t > mostTerm }) {
				continue
			}
			b = a
			growSmallAVX2(&a, &lambdas, &ts[i], stride, n)
			if growPortable(&b, ts[i:], stride, n); a != b {
				t.Fatalf("t = %v, %d of them, small: %v, portable %v", ts[i], n, a, b)
			}
		}
	}
}

// TestTerms: the kernels that make terms have the bits of the portable ones, for events in any order and any number.
func TestTerms(t *testing.T) {
	if cpu.Best() < cpu.AVX2 {
		t.Skip("no AVX2")
	}
	r := rand.New(rand.NewPCG(3, 3))
	var lo, up [mostLate][len(clips)]float64
	for i := range lo {
		for k := range clips {
			lo[i][k], up[i][k] = 4*r.NormFloat64(), math.Exp(20*r.Float64()-10)
		}
	}
	shift := [len(clips)]float64{1, 2, 3, 17, 65}
	for n := 1; n <= mostLate; n++ {
		events := r.Perm(mostLate)[:n]
		var a, b lateRows
		if x, y := shiftAVX2(&a[0], &lo[0][0], &shift[0], &events[0], n), shiftPortable(&b, &lo, &shift, events); a != b || x != y {
			t.Fatalf("%d events: largest %v, portable %v, rows equal: %v", n, x, y, a == b)
		}
		x, y := duelAVX2(&a[0], &lo[0][0], &up[0][0], &shift[0], &events[0], n), duelPortable(&b, &lo, &up, &shift, events)
		if a != b || x != y {
			t.Fatalf("%d events of two: largest %v, portable %v, rows equal: %v", n, x, y, a == b)
		}
	}
}

// TestHeld: products that are multiplied later have the bits of those that are multiplied at once, among huge terms too.
func TestHeld(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	late, now := newCapital(0, 1, 4), newCapital(0, 1, 4)
	for i := range 5000 {
		phi := []float64{math.Exp(6*r.Float64() - 3), r.Float64() - 0.5, 4 * r.Float64()}
		if i%977 == 5 {
			phi[i%3] = math.Exp(250 * r.Float64())
		}
		late.add(phi)
		now.add(phi)
		now.settle()
	}
	a, b := late.wealth(), now.wealth()
	for _, v := range []float64{0, 0.1, 1, 7} {
		if math.Float64bits(a(v)) != math.Float64bits(b(v)) {
			t.Errorf("%v: %v, at once %v", v, a(v), b(v))
		}
	}
}

// BenchmarkGrow is the time of 128 terms: of any size, and of those of at most mostTerm.
func BenchmarkGrow(b *testing.B) {
	ts := make([]float64, 5*128)
	for i := range ts {
		ts[i] = float64(i%7) / 4096
	}
	p := ones
	for name, f := range map[string]func(p, l *[steps]float64, t *float64, stride, n int){"any": growAVX2, "small": growSmallAVX2} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p = ones
				f(&p, &lambdas, &ts[0], 5, 128)
			}
		})
	}
}
