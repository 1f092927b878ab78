package chart

import (
	"math"
	"slices"
	"testing"
)

// Neighbours of a sweep of three to eight settings are told apart: by 12 steps of lightness (CIELAB), or by the dash of one.
func TestSweepLooks(t *testing.T) {
	lightness := func(hex string) float64 {
		c := rgb(hex)
		y := 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
		return 116*math.Cbrt(y) - 16
	}
	for n := 3; n <= 8; n++ {
		for j := 1; j < n; j++ {
			a, b := BlueRamp(j-1, n), BlueRamp(j, n)
			d := math.Abs(lightness(a.Light) - lightness(b.Light))
			if slices.Equal(a.Dash, b.Dash) && d < 12 && j > 1 {
				t.Errorf("settings %d and %d of %d: %s and %s, %.1f steps and the same dash", j, j+1, n, a.Light, b.Light, d)
			}
			if j >= 2 && b.Dash == nil {
				t.Errorf("setting %d of %d is solid", j+1, n)
			}
		}
	}
}
