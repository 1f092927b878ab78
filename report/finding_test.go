package report

import "testing"

// Curves leave the linear plot only when they end at three times the median or more, and at most a third of them.
func TestLinearTop(t *testing.T) {
	for _, c := range []struct {
		tops []float64
		want float64
	}{
		{[]float64{10}, 10},
		{[]float64{20, 92.3}, 92.3},        // one of two is more than a third
		{[]float64{20, 92, 95}, 95},        // near the median
		{[]float64{20, 25, 95}, 25},        // far out, and one of three
		{[]float64{10, 20, 200, 300}, 200}, // two are far out, one may go
		{[]float64{1, 1, 1, 2.9, 9, 9}, 2.9},
	} {
		if got := linearTop(c.tops); got != c.want {
			t.Errorf("linearTop(%v) = %v, want %v", c.tops, got, c.want)
		}
	}
}
