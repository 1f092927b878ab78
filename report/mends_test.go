package report

import (
	"math"
	"slices"
	"testing"

	"troupe/report/chart"
	"troupe/sim"
)

// Environments with Greek names have files that say which is which, in any order.
func TestGreekFiles(t *testing.T) {
	for name, want := range map[string]string{"θ": "theta", "λ": "lambda", "Θ = 2": "theta-2", "…": "environment"} {
		if got := slug(name); got != want {
			t.Errorf("%q is %q, expected %q", name, got, want)
		}
	}
}

// In a sweep with several series no interval stands where another does.
func TestSweepAside(t *testing.T) {
	points := [][]sweepPoint{{{4, 10, 1}, {8, 20, 1}}, {{4, 10, 2}, {8, 20, 2}}, {{4, 11, 1}, {8, 21, 1}}}
	p := sweepPanel(chart.Axis{Lo: 0, Hi: 10}, []string{"a", "b", "c"}, []int{0, 1, 2}, points, "Regret")
	var at []float64
	for _, m := range p.Marks {
		if m.Kind == chart.Interval {
			at = append(at, m.Aside)
			if !slices.Equal(m.X, []float64{4, 8}) {
				t.Errorf("the numbers of %s are at %v", m.Name, m.X) // as in the CSV file
			}
		}
	}
	slices.Sort(at)
	for i := range at {
		if i > 0 && at[i]-at[i-1] < 0.005 {
			t.Errorf("intervals are at %v of the width", at)
		}
	}
	for n := 1; n < 40; n++ {
		if a, b := aside(0, n), aside(n-1, n); math.Abs(a+b) > 1e-15 || b > 0.021 {
			t.Errorf("%d series are between %v and %v", n, a, b)
		}
	}
}

// A tuned setting has the colours of its kind, in the dark too, and a dash of its own.
func TestTunedLooks(t *testing.T) {
	row := func(kind, tuned string) sim.PolicyRow { return sim.PolicyRow{Kind: kind, Tuned: tuned} }
	looks, _ := looksOf([]sim.PolicyRow{row("ensemble", ""), row("ensemble", ""), row("ensemble", "by tune"), row("ts", ""),
		row("ts", "by tune"), row("linucb", ""), row("linucb", "by tune")})
	for i, want := range map[int]chart.Look{2: chart.BlueRamp(0, 1), 4: looks[3], 6: looks[5]} {
		if l := looks[i]; l.Light != want.Light || l.Dark != want.Dark {
			t.Errorf("policy %d has %s and %s, expected %s and %s", i, l.Light, l.Dark, want.Light, want.Dark)
		}
		for j, l := range looks {
			if j != i && slices.Equal(l.Dash, looks[i].Dash) && l.Dark == looks[i].Dark {
				t.Errorf("policies %d and %d look the same", i, j)
			}
		}
	}
	all, _ := looksOf([]sim.PolicyRow{row("ts", "by tune"), row("linucb", "by tune"), row("linucb", "by tune")})
	if all[1].Dark == all[2].Dark {
		t.Error("where all settings are tuned they are shades")
	}
}
