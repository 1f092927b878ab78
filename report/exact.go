package report

import (
	"fmt"
	"math"

	"troupe/internal/stats"
	"troupe/report/chart"
	"troupe/sim"
)

// Sequential says that what was seen decided the number of replications, so that only intervals that hold at
// every moment are right.
func (a *Analysis) Sequential() bool { return a.Run.Manifest.Until == sim.Settled }

// most returns T times the largest regret of a round that the environment allows, 0 where it knows none.
func (a *Analysis) most() float64 {
	return float64(a.T) * a.Run.Manifest.Environments[a.Env].LargestRegret * (1 + 1e-9)
}

// betting returns an interval for the mean of paired differences that is exact for every law of regrets in
// [0, most] and every number of replications; in a sequential run for all numbers at once. All pairs hold
// together at 95 %, by Bonferroni. ok is false without a bound.
func (a *Analysis) betting(x []float64) (lo, hi float64, ok bool) {
	most := a.most()
	if most == 0 || len(x) == 0 {
		return 0, 0, false
	}
	for _, v := range x {
		if math.Abs(v) > most {
			return 0, 0, false
		}
	}
	if a.Sequential() {
		l, h := stats.BettingSequence(x, -most, most, a.Pairs.Level)
		return l[len(l)-1], h[len(h)-1], true
	}
	lo, hi = stats.BettingInterval(x, -most, most, a.Pairs.Level)
	return lo, hi, true
}

// Settled says that every two policies are told apart by exact intervals that hold at every moment, from 20
// replications on.
func (a *Analysis) Settled() bool {
	if a.R() < minReps {
		return false
	}
	for i := range a.Policies {
		for j := range i {
			if a.Rounded[i] || a.Rounded[j] {
				continue
			}
			if lo, hi, ok := a.betting(a.paired(i, j, len(a.Rounds)-1)); !ok || lo <= 0 && hi >= 0 {
				return false
			}
		}
	}
	return true
}

// Settled says that every environment of a result directory is settled (Analysis.Settled).
func Settled(dir string) (bool, error) {
	run, err := Load(dir)
	if err != nil {
		return false, err
	}
	for e := range run.Manifest.Environments {
		if a := Analyze(run, e); a == nil || !a.Settled() {
			return false, nil
		}
	}
	return true, nil
}

// ShowExact says that the terminal should show the table of Exact: the run is sequential, so no other intervals
// hold. Elsewhere the verdict names the loss that would reverse a margin, and the page has the table.
func (a *Analysis) ShowExact() bool { return a.Sequential() }

// Exact returns the differences to the policy with the lowest mean with both kinds of intervals: those of
// resampling, which losses that are not in the sample can make wrong, and those of betting, which hold
// whatever was not seen. It is nil where the environment knows no bound, and with nothing to compare.
func (a *Analysis) Exact(id string) *chart.Table {
	if a.most() == 0 || a.Compared() < 2 {
		return nil
	}
	t := &chart.Table{ID: id, Title: "Intervals for every law: " + a.Name, Note: exactNote(a), Cols: []chart.Column{
		{Key: "policy", Head: "", Text: true}, {Key: "difference", Head: "diff", Dec: a.Dec, Plus: true},
		{Key: "lo", Head: "resampled", Dec: a.Dec}, {Key: "hi", Head: "", Dec: a.Dec, Range: true},
		{Key: "exact_lo", Head: "exact", Dec: a.Dec}, {Key: "exact_hi", Head: "", Dec: a.Dec, Range: true},
		{Key: "settled", Head: "", Text: true},
	}}
	for _, i := range a.Order[1:] {
		if a.Rounded[i] {
			continue
		}
		d := a.Pairs.Diff[i]
		c := []chart.Cell{chart.TextCell(a.Label(i)), chart.Num(d.Mean), chart.Empty(), chart.Empty(), chart.Empty(),
			chart.Empty(), chart.TextCell("")}
		if d.OK && !a.Sequential() {
			c[2], c[3] = chart.Num(d.Lo), chart.Num(d.Hi)
		}
		if d.Exact {
			c[4], c[5] = chart.Num(d.ExactLo), chart.Num(d.ExactHi)
			c[6] = chart.TextCell("open")
			if d.ExactLo > 0 {
				c[6] = chart.TextCell("settled")
			}
		}
		t.Rows = append(t.Rows, chart.Row{Look: a.Policies[i], Cells: c})
	}
	return t
}

func exactNote(a *Analysis) string {
	s := fmt.Sprintf("Mean regret less that of %s. A run of this environment can lose at most %s; “exact” holds for "+
		"every law with that bound, for all pairs together at 95%% (betting intervals), so losses too rare to be in "+
		"the sample are inside it.",
		a.Label(a.Best()), chart.Amount(a.most(), 0))
	if a.Sequential() {
		return s + " Replications were added until all pairs were settled or the limit was reached; these intervals " +
			"hold at every such moment, and resampled ones do not."
	}
	return s + " The resampled ones are narrower and leave such losses out."
}
