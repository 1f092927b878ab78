package report

import (
	"slices"
	"strconv"
	"testing"

	"troupe/report/chart"
	"troupe/sim"
)

// Of many curves the rivals have labels, and the lowest and highest of the family; labels of the family have room
// where their curves end.
func TestThinEnds(t *testing.T) {
	run := new(Run)
	p := &chart.Panel{Y: chart.Axis{Lo: 0, Hi: 400}}
	for m := range 28 {
		run.Manifest.Policies = append(run.Manifest.Policies, sim.PolicyRow{Name: "m=" + strconv.Itoa(m), Kind: "ensemble"})
		y := 240 + float64(m%7)
		if m < 2 {
			y = 100 + 60*float64(m)
		}
		p.Ends = append(p.Ends, chart.End{Look: m, Y: y, Label: "m=" + strconv.Itoa(m)})
	}
	for i, kind := range []string{"ts", "linucb"} {
		run.Manifest.Policies = append(run.Manifest.Policies, sim.PolicyRow{Name: kind, Kind: kind})
		p.Ends = append(p.Ends, chart.End{Look: 28 + i, Y: 243, Label: kind})
	}
	few := &chart.Panel{Y: p.Y, Ends: slices.Clone(p.Ends[:maxEnds])}
	if n := thinEnds(run, few); n != 0 || len(few.Ends) != maxEnds {
		t.Errorf("%d of %d labels are gone, although there is room", n, maxEnds)
	}
	var labels []string
	n := thinEnds(run, p)
	for _, e := range p.Ends {
		labels = append(labels, e.Label)
	}
	if want := []string{"ts", "linucb", "m=0", "m=1", "m=27"}; n != 25 || !slices.Equal(labels, want) {
		t.Errorf("%d labels are gone, left are %q, want %q", n, labels, want)
	}
}
