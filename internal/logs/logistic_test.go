package logs_test

import (
	"math"
	"testing"

	"troupe/internal/logs"
)

// TestLogisticRoot compares the roots with values from bisection.
func TestLogisticRoot(t *testing.T) {
	for _, c := range []struct{ z, q, y, s float64 }{
		{0, 1, 1, 0.401058137541547},
		{-4, 2, 1, -2.19957696794089},
		{-4, 50, 1, 1.99363601695292},
		{3, 0.25, 0, 2.76481386270341},
		{-30, 1e4, 1, 5.63348487741206},
		{8, 300, 0, -3.2455995960952},
		{2, 1, 0.5, 1.65979016659285},
	} {
		if s, n := logs.LogisticRoot(c.z, c.q, c.y); math.Abs(s-c.s) > 1e-12*max(1, math.Abs(c.s)) {
			t.Errorf("LogisticRoot(%v, %v, %v) = %v after %d steps, expected %v", c.z, c.q, c.y, s, n, c.s)
		}
	}
}

// TestLogisticRootBisection compares with bisection on a grid, and counts steps.
func TestLogisticRootBisection(t *testing.T) {
	for _, q := range []float64{0, 1e-3, 1, 10, 100, 1e3, 1e4} {
		for z := -40.0; z <= 40; z += 0.37 {
			for _, y := range []float64{0, 0.3, 1} {
				h := func(s float64) float64 { return s - z - q*(y-1/(1+math.Exp(-s))) }
				lo, hi := z-q-1, z+q+1
				for range 200 {
					if m := lo + (hi-lo)/2; h(m) > 0 {
						hi = m
					} else {
						lo = m
					}
				}
				s, n := logs.LogisticRoot(z, q, y)
				if math.Abs(s-lo) > 1e-9*max(1, math.Abs(lo)) || n > 40 {
					t.Fatalf("LogisticRoot(%v, %v, %v) = %v after %d steps, bisection %v", z, q, y, s, n, lo)
				}
			}
		}
	}
}

func TestExp(t *testing.T) {
	for x := -745.0; x < 709.7; x += 0.0917 {
		want := math.Exp(x)
		if got := logs.Exp(x); math.Abs(got-want) > 4e-16*want+5e-324 {
			t.Fatalf("Exp(%v) = %v, math.Exp %v", x, got, want)
		}
		if got, want := logs.Sigmoid(x), math.Exp(min(x, 0))/(1+math.Exp(-math.Abs(x))); math.Abs(got-want) > 4e-16*want+5e-324 {
			t.Fatalf("Sigmoid(%v) = %v, expected %v", x, got, want)
		}
	}
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), 710, -746} {
		got, want := logs.Exp(x), math.Exp(x)
		if got != want && !(got != got && want != want) {
			t.Errorf("Exp(%v) = %v, expected %v", x, got, want)
		}
	}
}
