package report

import (
	"math"

	"troupe/internal/stats"
	"troupe/report/chart"
)

// largestLoss returns T times the largest mean regret of a round, over the first t rounds with t ≥ T/100, of any policy
// in any replication: what a run can lose that goes on like the worst stretch seen. It stands for T times the gap,
// which results do not hold, and is at most that.
func largestLoss(a *Analysis) float64 {
	var gap float64
	for i := range a.Policies {
		for k, t := range a.Rounds {
			if a.Rounded[i] || 100*t < a.T {
				continue
			}
			for _, v := range a.X[i][k] {
				gap = math.Max(gap, v/float64(t))
			}
		}
	}
	return gap * float64(a.T)
}

// reversible returns the policies that lost more by the resampled intervals (Worse), but by so little that a
// loss too rare to be in the sample would reverse it, and the rarest such loss; see stats.RareLoss.
func reversible(a *Analysis) (names []string, oneIn float64) {
	for _, i := range a.Order {
		if d := a.Pairs.Diff[i]; d.Verdict == Worse && d.Rare.Reverses {
			names, oneIn = append(names, a.Label(i)), math.Max(oneIn, d.Rare.OneIn)
		}
	}
	return names, oneIn
}

// setRare computes the clause for a difference that is above zero.
func (d *Difference) setRare(x []float64, loss float64) {
	if d.Verdict == Worse && d.SE > 0 && loss > 0 {
		d.Rare = stats.RareLoss(x, loss, 1-level)
	}
}

// reversed is the clause: what would reverse the margin, and that the sample does not exclude it.
func (se sentences) reversed() Prose {
	names, oneIn := reversible(se.a)
	what := "its margin"
	if len(names) > 1 {
		what = "the smallest of these margins"
	}
	return say("The intervals exclude zero for ", listed(names), ", but one run in ", about(int(oneIn)), " that loses ",
		chart.Amount(largestLoss(se.a), 0), " would reverse ", what, ", and ", many(se.a.R(), "replication"),
		" can miss that (probability above 5%).")
}

const rareSomewhere = "In some of the environments losses too rare to be in the sample would reverse one of them; " +
	"its section names the rate."

// anyRare reports whether a clause stands in any environment.
func anyRare(all []*Analysis) bool {
	for _, a := range all {
		if names, _ := reversible(a); len(names) > 0 {
			return true
		}
	}
	return false
}
