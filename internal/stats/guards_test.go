package stats_test

import (
	"math"
	"testing"

	"troupe/internal/stats"
)

// TestGuards: what has no answer panics and does not return a number.
func TestGuards(t *testing.T) {
	r := stats.NewResamples(4, 20, func(b, i, n int) int { return n - 1 })
	mean := func(w []float64) (float64, bool) { return w[0], true }
	for name, f := range map[string]func(){
		"ranks of a negative sample": func() { stats.QuantileRanks(-1, 0.5, 0.05) },
		"the rank of p = 0":          func() { stats.QuantileRanks(5, 0, 0.05) },
		"ranks at level 1":           func() { stats.QuantileRanks(5, 0.5, 1) },
		"a quantile below 0":         func() { stats.Quantile([]float64{1, 2}, -0.1) },
		"a quantile above 1":         func() { stats.Quantile([]float64{1, 2}, 1.1) },
		"a quantile at NaN":          func() { stats.Quantile([]float64{1, 2}, math.NaN()) },
		"a statistic at level 0":     func() { r.Statistic(0, mean) },
		"a statistic at level 1":     func() { r.Statistic(1, mean) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestEstimableEdge: five values that differ from the most frequent one are enough, four are not.
func TestEstimableEdge(t *testing.T) {
	for _, c := range []struct {
		d    []float64
		want bool
	}{
		{[]float64{0, 0, 1, 2, 3, 4, 5}, true}, {[]float64{0, 0, 1, 2, 3, 4}, false},
		{[]float64{1, 2, 3, 4, 5, 6}, true}, {[]float64{1, 2, 3, 4, 5}, false}, {nil, false},
	} {
		if got := stats.Estimable(c.d); got != c.want {
			t.Errorf("%v: %v", c.d, got)
		}
	}
}

// TestExponentTwoPoints: two points give the exact exponent, one gives none.
func TestExponentTwoPoints(t *testing.T) {
	r := stats.NewResamples(3, 40, func(b, i, n int) int { return (b + i) % n })
	slope, lo, hi, ok := r.Exponent([]float64{10, 1000}, [][]float64{{1, 1, 1}, {10, 10, 10}}, 0.95)
	if !ok || math.Abs(slope-0.5) > 1e-12 || math.Abs(lo-0.5) > 1e-12 || math.Abs(hi-0.5) > 1e-12 {
		t.Errorf("slope %v from %v to %v, %v", slope, lo, hi, ok)
	}
	if _, _, _, ok := r.Exponent([]float64{10}, [][]float64{{1, 1, 1}}, 0.95); ok {
		t.Error("one point has an exponent")
	}
}
