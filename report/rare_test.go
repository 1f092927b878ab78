package report

import (
	"strings"
	"testing"

	"troupe/internal/stats"
	"troupe/sim"
)

// The clause stands where a rare loss could reverse the verdict, and the words "more than chance explains" and "chance does
// not explain" do not; with a larger margin, or more replications, it is the other way round.
func TestRareClause(t *testing.T) {
	for _, c := range []struct {
		margin float64
		reps   int
		rare   bool
	}{{2, 100, true}, {80, 100, false}, {2, 3000, false}} {
		a := &Analysis{Run: &Run{Envs: make([]EnvData, 1)}, Policies: []int{0, 1}, Rounded: make([]bool, 2), Order: []int{0, 1}, Rounds: []int{10, 1000}, T: 1000, Dec: 1, Reps: make([]int, c.reps)}
		a.Run.Manifest.Policies = append(a.Run.Manifest.Policies, sim.PolicyRow{Name: "near"}, sim.PolicyRow{Name: "far"})
		a.X = make([][][]float64, 2)
		a.Summary = make([]Summary, 2)
		for i := range a.X {
			a.X[i] = [][]float64{make([]float64, c.reps), make([]float64, c.reps)}
			for r := range c.reps {
				a.X[i][0][r] = 3 // 0.3 a round: a run can lose 300
				a.X[i][1][r] = 20 + float64(i)*(c.margin+0.01*float64(r%7))
			}
			a.Summary[i].Mean, a.Summary[i].SE = stats.Mean(a.X[i][1]), 0.1
			a.Summary[i].Sorted = []float64{1, 2}
		}
		x := a.paired(1, 0, 1)
		a.Pairs.Diff = []Difference{{Verdict: Lowest}, {Verdict: Worse, OK: true, Mean: stats.Mean(x), SE: stats.StdErr(x), Lo: c.margin / 2, Hi: 2 * c.margin}}
		a.Pairs.Diff[1].setRare(x, largestLoss(a))
		text := ""
		for _, p := range (sentences{a}).careful() {
			text += " " + p.String()
		}
		t.Log(text)
		if strings.Contains(text, "would reverse its margin") != c.rare || strings.Contains(text, "chance") == c.rare {
			t.Errorf("margin %v, %d replications: %s", c.margin, c.reps, text)
		}
	}
}
