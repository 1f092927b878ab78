package report

import (
	"math"
	"strings"
	"testing"

	"troupe/rng"
	"troupe/sim"
)

// exactRun is a run of two policies: b loses more by the differences.
func exactRun(until string, largest float64, diffs []float64) *Run {
	m := sim.Manifest{Seed: 1, Horizon: 100, Replications: len(diffs), Until: until,
		Environments: []sim.EnvironmentRow{{Name: "e", LargestRegret: largest}}, Policies: []sim.PolicyRow{{Name: "a"}, {Name: "b"}}}
	e := EnvData{Rounds: []int{100}, Cells: make([][]*CellRun, 2)}
	for _, d := range diffs {
		e.Cells[0] = append(e.Cells[0], &CellRun{Regret: []float64{10}, Reward: []float64{0}})
		e.Cells[1] = append(e.Cells[1], &CellRun{Regret: []float64{10 + d}, Reward: []float64{0}})
	}
	return &Run{Manifest: m, Envs: []EnvData{e}}
}

// TestExact: differences around 3 with a bound of 30 settle with enough replications, and 20 are too few although
// resampling excludes zero; without a bound there is no table; a sequential run has exact intervals alone.
func TestExact(t *testing.T) {
	draw := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = 3 + rng.NewKey(4).Stream(rng.Reward).Round(uint64(i)).Normal(0)
		}
		return out
	}
	few := Analyze(exactRun("", 0.3, draw(20)), 0)
	d := few.Diff[1]
	if d.Verdict != Worse || !d.Exact || d.ExactLo > 0 || d.ExactHi < 3 || few.Settled() {
		t.Errorf("20 replications: %+v, settled %v; expected a resampled interval above 0 and an exact one around it", d, few.Settled())
	}
	if got := few.Exact("exact"); got == nil || got.Rows[0].Cells[6].S != "open" || !strings.Contains(got.Note, "lose at most 30") {
		t.Errorf("the table is %+v", got)
	}
	many := Analyze(exactRun("", 0.3, draw(400)), 0)
	if d := many.Diff[1]; !d.Exact || d.ExactLo <= 0 || !many.Settled() {
		t.Errorf("400 replications: %+v, expected it settled", d)
	}
	for _, until := range []string{"", sim.Settled} {
		a := Analyze(exactRun(until, 0, draw(400)), 0)
		if a.Exact("exact") != nil || a.Settled() || a.Diff[1].Exact {
			t.Errorf("until %q: exact intervals without a bound", until)
		}
	}
	seq := Analyze(exactRun(sim.Settled, 0.3, draw(400)), 0)
	d = seq.Diff[1]
	if d.Lo != d.ExactLo || d.Hi != d.ExactHi || d.Verdict != Worse || d.Rare.Reverses {
		t.Errorf("sequential: %+v; fixed %+v", d, many.Diff[1])
	}
	if !seq.ShowExact() || !strings.Contains(seq.leaderNote(), "at every number of replications") {
		t.Errorf("the note is %q", seq.leaderNote())
	}
	// A regret beyond what the environment says cannot be: then nothing is exact.
	if a := Analyze(exactRun("", 0.01, draw(400)), 0); a.Diff[1].Exact || math.IsNaN(a.Diff[1].Lo) {
		t.Errorf("a bound that is broken: %+v", a.Diff[1])
	}
}
