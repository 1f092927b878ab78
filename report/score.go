package report

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"troupe/experiments"
	"troupe/internal/stats"
	"troupe/report/chart"
	"troupe/rng"
	"troupe/sim"
)

// Score is what a run of a suite gives each policy: in each environment 1 − (mean regret)/(mean regret of
// kind "uniform"), so 0 is uniform play and 1 is no regret, and the mean over the environments. A suite is an
// embedded experiment suite/NAME; a run is one of the suite when its environments and its horizon are those,
// whatever its policies, seed and number of replications are.
type Score struct {
	Suite  string // linear-v1
	Hash   string // of environments and horizon, 16 digits
	Engine int
	Seed   uint64
	R      int // replications
	Rows   []ScoreRow
}

// ScoreRow is the score of one policy, the best first.
type ScoreRow struct {
	Policy string
	Mean   float64   // over the environments
	Lo, Hi float64   // 95 %, over resampled replications; only with OK
	OK     bool      // there are minReps replications or more
	Each   []float64 // by environment
	Worst  int       // the environment with the smallest
}

// suites are the embedded suites: names by sim.World.
var suites = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	for _, e := range experiments.All() {
		name, ok := strings.CutPrefix(e.Name, "suite/")
		if !ok {
			continue
		}
		x, err := sim.Parse("experiments/"+e.File, e.Text, sim.Kinds())
		if err != nil {
			panic("report: an embedded suite does not parse: " + err.Error())
		}
		out[x.World()] = name
	}
	return out
})

// Scores returns the scores of a run of a suite. why is not empty where a run of a suite has none; both are empty
// for a run that is not of a suite.
func Scores(run *Run) (s *Score, why string) {
	m := run.Manifest
	suite, ok := suites()[m.World()]
	if !ok {
		return nil, ""
	}
	uniform := slices.IndexFunc(m.Policies, func(p sim.PolicyRow) bool { return p.Kind == "uniform" })
	if uniform < 0 {
		return nil, fmt.Sprintf("These are the environments of suite/%s; a score needs a policy of kind uniform.",
			suite)
	}
	all := make([]int, len(m.Policies))
	for p := range all {
		all[p] = p
	}
	var reps []int
	for e := range run.Envs {
		these := run.Envs[e].Complete(all)
		if e == 0 {
			reps = these
		}
		reps = slices.DeleteFunc(slices.Clone(reps), func(r int) bool { return !slices.Contains(these, r) })
	}
	if len(reps) == 0 {
		return nil, fmt.Sprintf("These are the environments of suite/%s; no replication is complete in all of them.",
			suite)
	}
	final := func(e, p int) []float64 {
		v := make([]float64, len(reps))
		for i, r := range reps {
			c := run.Envs[e].Cells[p][r].Regret
			v[i] = c[len(c)-1]
		}
		return v
	}
	s = &Score{Suite: suite, Hash: m.World()[:16], Engine: m.Engine, Seed: m.Seed, R: len(reps)}
	stream := rng.NewKey(m.Seed).Child("report").Child("score").Stream(rng.Resample)
	var again *stats.Resamples // with few replications an interval misses in half of the cases: there is none
	if len(reps) >= minReps {
		again = stats.NewResamples(len(reps), resamples, func(b, i, n int) int {
			return stream.Round(uint64(b)).Intn(i, n)
		})
	}
	for p, row := range m.Policies {
		r := ScoreRow{Policy: row.Name, Each: make([]float64, len(run.Envs))}
		regrets := make([][2][]float64, len(run.Envs))
		for e := range run.Envs {
			regrets[e] = [2][]float64{final(e, p), final(e, uniform)}
			base := mean(regrets[e][1])
			if !(base > 0) {
				return nil, fmt.Sprintf("These are the environments of suite/%s; uniform play has no regret in %s.",
					suite, m.Environments[e].Name)
			}
			r.Each[e] = 1 - mean(regrets[e][0])/base
			r.Mean += r.Each[e] / float64(len(run.Envs))
			if r.Each[e] < r.Each[r.Worst] {
				r.Worst = e
			}
		}
		if again != nil {
			r.Lo, r.Hi, r.OK = again.Statistic(0.95, func(w []float64) (float64, bool) {
				sum := 0.0
				for _, v := range regrets {
					a, b := 0.0, 0.0
					for i, n := range w {
						a += n * v[0][i]
						b += n * v[1][i]
					}
					if !(b > 0) {
						return 0, false
					}
					sum += (1 - a/b) / float64(len(regrets))
				}
				return sum, true
			})
		}
		s.Rows = append(s.Rows, r)
	}
	slices.SortStableFunc(s.Rows, func(a, b ScoreRow) int {
		switch {
		case a.Mean > b.Mean:
			return -1
		case a.Mean < b.Mean:
			return 1
		}
		return 0
	})
	return s, ""
}

// Quote is the line to print in a paper; empty below 20 replications, where a score has no interval.
func (s *Score) Quote(r ScoreRow, version string) string {
	if !r.OK {
		return ""
	}
	return fmt.Sprintf("suite/%s %s: %s %.3f [%.3f, %.3f], %s, seed %d, engine %d, troupe %s",
		s.Suite, s.Hash, r.Policy, r.Mean, r.Lo, r.Hi, many(s.R, "replication"), s.Seed, s.Engine, version)
}

// Table returns the scores as a table.
func (s *Score) Table(m *sim.Manifest) *chart.Table {
	t := &chart.Table{ID: "score", Title: fmt.Sprintf("Score of suite/%s over %s", s.Suite, many(s.R, "replication")),
		Note: "Score: the mean over the environments of 1 − regret/(regret of uniform play). 95 % intervals by " +
			"resampling replications, each for its row.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}, {Key: "score", Head: "Score", Dec: 3},
			{Key: "lo", Head: "95" + chart.Narrow + "%", Dec: 3}, {Key: "hi", Dec: 3, Range: true},
			{Key: "worst", Head: "Worst", Dec: 3, Extra: true}, {Key: "worst_environment", Head: "in", Text: true,
				Extra: true}}}
	if s.R < minReps {
		t.Note = fmt.Sprintf("Score: the mean over the environments of 1 − regret/(regret of uniform play). Below %d "+
			"replications it has no interval, and nothing says which policy is first.", minReps)
	}
	for _, e := range m.Environments {
		t.Cols = append(t.Cols, chart.Column{Key: e.Name, Head: e.Name, Dec: 3, Only: "csv"})
	}
	for i, r := range s.Rows {
		look := slices.IndexFunc(m.Policies, func(p sim.PolicyRow) bool { return p.Name == r.Policy })
		lo, hi := chart.Empty(), chart.Empty()
		if r.OK {
			lo, hi = chart.Num(r.Lo), chart.Num(r.Hi)
		}
		row := chart.Row{Look: look, Best: i == 0 && r.OK, Cells: []chart.Cell{chart.TextCell(r.Policy),
			chart.Num(r.Mean), lo, hi, chart.Num(r.Each[r.Worst]), chart.TextCell(m.Environments[r.Worst].Name)}}
		for _, v := range r.Each {
			row.Cells = append(row.Cells, chart.Num(v))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
