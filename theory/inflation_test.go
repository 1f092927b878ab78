package theory

import (
	"math"
	"testing"
)

// Golden values of an independent program (Python, own quadrature), and limits: no member more than d loses nothing, many frozen members lose no run.
func TestInflationLaws(t *testing.T) {
	for _, c := range []struct {
		m, d int
		want float64
	}{{1, 8, .7090}, {4, 8, .3143}, {6, 8, .1429}, {8, 16, .3038}, {12, 16, .1385}, {16, 32, .2984}, {32, 64, .2956}, {8, 8, 0}, {9, 8, 0}} {
		if got := SpanLoss(c.m, c.d); math.Abs(got-c.want) > 6e-5 {
			t.Errorf("SpanLoss(%d, %d) = %v, expected %v", c.m, c.d, got, c.want)
		}
	}
	at := func(m, r float64) ThreeArms { return ThreeArms{m, r} }
	for name, c := range map[string]struct{ got, want float64 }{
		"ts 1":         {at(16, 1).Thompson(9330), .497},
		"ts 1.5":       {at(16, 1.5).Thompson(9330), .047},
		"ts 3, M = 32": {at(32, 3).Thompson(9330), .025},
		"frozen 16":    {at(16, 2).Frozen(16), .411},
		"frozen 64":    {at(16, 2).Frozen(64), .238},
		"frozen 256":   {at(16, 2).Frozen(256), .041},
		"eats 2":       {at(16, 2).Absolute(16, 9330), .466},
		"eats 1":       {at(8, 1).Absolute(16, 9330), .409},
		"eats 3":       {at(16, 3).Absolute(16, 9330), 0},
		"many":         {at(16, 2).Frozen(1e9), 0},
		"tiny scale":   {at(16, .1).Thompson(1e6), .5},
	} {
		if math.Abs(c.got-c.want) > 6e-4 {
			t.Errorf("%s: %v, expected %v", name, c.got, c.want)
		}
	}
}
