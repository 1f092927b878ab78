package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"troupe/internal/infer"
	"troupe/internal/stats"
	"troupe/rng"
	"troupe/sim"
)

// players of which the numbers are simple: b loses about three times what a loses, c is lost in a third of its runs, d grows like t^.24 too.
func rangePlayers() []player {
	return []player{
		{"a", "ts", nil, nil, 10, 0.24, 0.3, 0, 0},
		{"b", "linucb", nil, nil, 30, 0.24, 0.3, 0, 0},
		{"c", "greedy", nil, nil, 5, 0.24, 0.3, 0.33, 0.3},
	}
}

// Each measure is what its definition says, computed here from the samples; it holds, is contradicted or is open by its interval, and what the run
// lacks is not asked of it.
func TestRanges(t *testing.T) {
	claims := []sim.Claim{
		{Of: "b", Over: "a", From: 2, To: 4},                                         // holds
		{Of: "b", Over: "a", From: 4, Environment: "two"},                            // contradicted
		{Of: "b", Over: "a", From: 3, To: 3.001, Environment: "two", Label: "H9"},    // open
		{Of: "a", Measure: sim.MeasureExponent, From: 0.2, To: 0.3},                  // holds
		{Of: "a", Measure: sim.MeasureRate, To: 1, Environment: "one"},               // holds
		{Of: "c", Measure: sim.MeasureLost, From: 0.05, To: 0.7, Environment: "one"}, // holds
		{Of: "a", Measure: sim.MeasureLost, From: 0.5},                               // contradicted: none is
		{Of: "a", OverIn: "one", From: 0.1, To: 10},                                  // in "two" alone
		{Of: "a", Per: 1e9, To: 1e-3},                                                // holds
		{Of: "a", At: 77, To: 1},                                                     // no such checkpoint
	}
	run := asked(t, rangePlayers(), 100, "", claims...)
	got := run.Claims()
	for i, want := range []string{holds, contradicted, openClaim, holds, holds, holds, contradicted, holds, holds, notAsked} {
		if got[i].Answer != want {
			t.Errorf("claim %d %s, expected that it %s: %+v", i, got[i].Answer, want, got[i].Ranges)
		}
	}
	a, two := prepare(run, 0), prepare(run, 1)
	last := len(a.Rounds) - 1
	half, decade := infer.Earlier(a.Rounds, 2), infer.Earlier(a.Rounds, 10)
	mean := func(a *Analysis, i, k int) float64 { return stats.Mean(a.X[i][k]) }
	for i, want := range map[int]float64{
		0: mean(a, 1, last) / mean(a, 0, last),
		3: math.Log(mean(a, 0, last)/mean(a, 0, decade)) / math.Log(float64(a.Rounds[last])/float64(a.Rounds[decade])),
		4: (mean(a, 0, last) - mean(a, 0, half)) / float64(a.Rounds[last]-a.Rounds[half]),
		5: stats.Mean(a.Summary[2].lost),
		7: mean(two, 0, last) / mean(a, 0, last),
		8: mean(a, 0, last) / 1e9,
	} {
		if x := got[i].Ranges[0]; math.Abs(x.Value/want-1) > 1e-12 || !(x.Lo < want && want < x.Hi) {
			t.Errorf("claim %d: %v [%v, %v], expected %v", i, x.Value, x.Lo, x.Hi, want)
		}
	}
	if n := len(got[7].Ranges); n != 1 || got[7].Ranges[0].Environment != "two" {
		t.Errorf("over_environment: %+v", got[7].Ranges)
	}
	if head := run.Answer().Head.String(); head != "Of 15 stated ranges 9 hold, 3 are contradicted, 1 is open, 2 cannot be asked of this run." {
		t.Error(head)
	}
	said := ClaimsSaid(run)
	if text := said[1].String(); !strings.HasPrefix(text, "The mean regret of b in two, divided by that of a, is at least 4: this is contradicted, it is 3.") &&
		!strings.HasPrefix(text, "The mean regret of b in two, divided by that of a, is at least 4: this is contradicted, it is 2.") {
		t.Error(text)
	}
	if page := pageOf(t, run); !strings.Contains(page, "Ranges stated in the spec") || !strings.Contains(page, "tables/ranges.csv") {
		t.Error("the page has no table of ranges")
	}
	alone := asked(t, rangePlayers(), 30, "", claims[0])
	alone.Manifest.Environments, alone.Envs = alone.Manifest.Environments[:1], alone.Envs[:1]
	if page := pageOf(t, alone); !strings.Contains(page, "tables/ranges.csv") {
		t.Error("the page of one environment has no table of ranges")
	}
	few := asked(t, rangePlayers(), 19, "", claims...)
	if c := few.Claims(); c[0].Answer != tooFewRuns || c[5].Answer != tooFewRuns || !math.IsNaN(c[5].Ranges[0].Lo) {
		t.Errorf("19 replications: %s, %s", c[0].Answer, c[5].Answer)
	}
	mixed := asked(t, rangePlayers(), 100, "", sim.Claim{Less: "a", Than: "b"}, claims[0])
	single := asked(t, rangePlayers(), 100, "", sim.Claim{Less: "a", Than: "b"})
	if x, y := mixed.Claims()[0].Each[0].Interval, single.Claims()[0].Each[0].Interval; !(x.Hi-x.Lo > y.Hi-y.Lo) {
		t.Error("a comparison beside a range has the interval that it has alone: they do not share the error")
	}
}

// The intervals of ranges hold together: of 200 runs whose two policies have one law, at most 5 % and three standard errors have any of six ratios
// whose interval leaves 1 out. Replaced factors (1.96 for each) would miss in a quarter of the runs.
func TestRangesHoldTogether(t *testing.T) {
	const runs, reps = 200, 40
	missed := 0
	for k := range runs {
		claims := make([]Claim, 6)
		run := &Run{Manifest: sim.Manifest{Seed: uint64(k)}}
		for i := range claims {
			x := RangeIn{R: reps, x: make([]float64, reps), y: make([]float64, reps)}
			for r := range reps {
				draw := rng.NewKey(uint64(k)).Stream(rng.Instance).Round(uint64(i))
				x.x[r], x.y[r] = math.Exp(0.3*draw.Normal(2*r)), math.Exp(0.3*draw.Normal(2*r+1))
			}
			claims[i] = Claim{Claim: sim.Claim{Of: "a", Over: "b", From: 1, To: 1}, Ranges: []RangeIn{x}}
		}
		run.ranges(claims, 0.05/6)
		for _, c := range claims {
			if x := c.Ranges[0]; x.Lo > 1 || x.Hi < 1 {
				missed++
				break
			}
		}
	}
	if limit := runs*0.05 + 3*math.Sqrt(runs*0.05*0.95); float64(missed) > limit {
		t.Errorf("%d of %d runs have an interval without the true ratio, expected at most %.0f", missed, runs, limit)
	}
	t.Logf("%d of %d", missed, runs)
}

// The table's file has numbers, and the words of the table on the page have the interval.
func TestRangesFile(t *testing.T) {
	run := asked(t, rangePlayers(), 100, "", sim.Claim{Of: "b", Over: "a", From: 2, To: 4, Label: "H1"})
	var b bytes.Buffer
	if err := Ranges(run, "ranges").CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 3 || strings.Join(rows[0], ",") != "label,claim,environment,range,found,value,lo,hi,answer" || rows[1][0] != "H1" || rows[1][8] != "holds" {
		t.Errorf("%v, %v", rows, err)
	}
}
