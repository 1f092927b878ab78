package report

import (
	"math"
	"strings"
	"testing"

	"troupe/internal/stats"
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
	d := few.Pairs.Diff[1]
	if d.Verdict != Worse || !d.Exact || d.ExactLo > 0 || d.ExactHi < 3 || few.Settled() {
		t.Errorf("20 replications: %+v, settled %v; expected a resampled interval above 0 and an exact one around it", d, few.Settled())
	}
	if got := few.Exact("exact"); got == nil || got.Rows[0].Cells[6].S != "open" || !strings.Contains(got.Note, "lose at most 30") {
		t.Errorf("the table is %+v", got)
	}
	many := Analyze(exactRun("", 0.3, draw(400)), 0)
	if d := many.Pairs.Diff[1]; !d.Exact || d.ExactLo <= 0 || !many.Settled() {
		t.Errorf("400 replications: %+v, expected it settled", d)
	}
	for _, until := range []string{"", sim.Settled} {
		a := Analyze(exactRun(until, 0, draw(400)), 0)
		if a.Exact("exact") != nil || a.Settled() || a.Pairs.Diff[1].Exact {
			t.Errorf("until %q: exact intervals without a bound", until)
		}
	}
	seq := Analyze(exactRun(sim.Settled, 0.3, draw(400)), 0)
	d = seq.Pairs.Diff[1]
	if d.Lo != d.ExactLo || d.Hi != d.ExactHi || d.Verdict != Worse || d.Rare.Reverses {
		t.Errorf("sequential: %+v; fixed %+v", d, many.Pairs.Diff[1])
	}
	if !seq.ShowExact() || !strings.Contains(leaderTable{seq}.leaderNote(), "at every number of replications") {
		t.Errorf("the note is %q", leaderTable{seq}.leaderNote())
	}
	// A regret beyond what the environment says cannot be: then nothing is exact.
	if a := Analyze(exactRun("", 0.01, draw(400)), 0); a.Pairs.Diff[1].Exact || math.IsNaN(a.Pairs.Diff[1].Lo) {
		t.Errorf("a bound that is broken: %+v", a.Pairs.Diff[1])
	}
}

// TestRareLossesInTable: two runs of 200 that lose almost all that can be lost leave an interval that says something: resampling alone has −6.7 to 7.1, of at most ±30
// for a difference of 0.18; the exact interval of 99.5 % lies within ±3 (stats.BettingInterval, whose own tests say that it holds).
func TestRareLossesInTable(t *testing.T) {
	x := make([]float64, 200)
	for i := range x {
		x[i] = 0.05 * rng.NewKey(5).Stream(rng.Reward).Round(uint64(i)).Normal(0)
	}
	x[17], x[90] = 19, 18
	a := Analyze(exactRun("", 0.3, x), 0)
	d := a.Pairs.Diff[1]
	if d.Verdict != Tied || d.Lo < -3 || d.Hi > 3 || d.Lo > d.Mean || d.Hi < d.Mean || a.Pairs.Factor < 10 {
		t.Errorf("%+v, factor %v", d, a.Pairs.Factor)
	}
	if note := (leaderTable{a}).leaderNote(); !strings.Contains(note, "betting, 99.5") || !strings.Contains(note, "at most 30") {
		t.Errorf("the note is %q", note)
	}
	if a := Analyze(exactRun("", 0, x), 0); a.Pairs.Diff[1].Hi < 5 || strings.Contains(leaderTable{a}.leaderNote(), "betting") {
		t.Errorf("without a bound: %+v, %q", a.Pairs.Diff[1], leaderTable{a}.leaderNote())
	}
}

// TestSignsHaveOneLevel: where two policies have one law, △ for one of all pairs has a probability of at most .005: that of a count in the tail of
// Bin(R, ½), times the pairs. At the level of the intervals, .05, it would be up to .025, beside .05 for a false ▲.
func TestSignsHaveOneLevel(t *testing.T) {
	for _, reps := range []int{20, 60, 200, 1000} {
		for _, pairs := range []int{1, 3, 10, 45} {
			wrong := func(level float64) (tail float64) {
				term := math.Exp2(-float64(reps))
				if term == 0 {
					t.Fatal("too many replications for this sum")
				}
				for k := range reps + 1 {
					if lo, _ := stats.ClopperPearson(k, reps, level/float64(pairs)); lo > 0.5 {
						tail += term
					}
					term *= float64(reps-k) / float64(k+1)
				}
				return tail * float64(pairs)
			}
			if p := wrong(behindLevel); p > 0.005 {
				t.Errorf("%d replications, %d pairs: a false △ in %.4f of the runs", reps, pairs, p)
			}
			if p := wrong(1 - level); reps == 1000 && p < 0.015 {
				t.Errorf("%d replications, %d pairs: %.4f at the level of the intervals: the test does not tell", reps, pairs, p)
			}
		}
	}
	a := Analyze(exactRun("", 0.3, func() (x []float64) {
		for i := range 60 {
			x = append(x, 1+rng.NewKey(6).Stream(rng.Reward).Round(uint64(i)).Float64(0))
		}
		return x
	}()), 0)
	if a.Pairs.SignLevel != behindLevel/1 || a.Pairs.Level <= a.Pairs.SignLevel {
		t.Errorf("levels %v and %v", a.Pairs.SignLevel, a.Pairs.Level)
	}
}
