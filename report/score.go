package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"troupe/experiments"
	"troupe/internal/infer"
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
	Lo, Hi float64   // 95 %, for this row alone; only with OK
	OK     bool      // there are minReps replications or more
	Each   []float64 // by environment
	Worst  int       // the environment with the smallest

	Behind             float64 // the highest score minus this one
	BehindLo, BehindHi float64 // 95 %, all pairs at once; only with Paired
	Paired             bool
	First              bool // it may have the highest score: no other is above it by more than chance

	shares []float64 // by replication; their mean is Mean
}

// suites are the embedded suites: names by sim.World.
var suites = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	for _, e := range experiments.All() {
		name, ok := strings.CutPrefix(e.Name, "suite/") // the folder of an embedded experiment is what makes it a suite
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
	if !ok || run.choice != nil {
		return nil, ""
	}
	if e := run.estimand(); e != infer.Mean {
		return nil, fmt.Sprintf("These are the environments of suite/%s; a score is of means, and this spec fixes the "+
			"estimand %q.", suite, e)
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
	names := make([]string, len(m.Policies))
	for p, row := range m.Policies {
		names[p] = row.Name
	}
	if e := s.rank(names, len(run.Envs), uniform, final); e >= 0 {
		return nil, fmt.Sprintf("These are the environments of suite/%s; uniform play has no regret in %s.",
			suite, m.Environments[e].Name)
	}
	return s, ""
}

// rank fills the rows from the regrets at the horizon by environment and policy, one for each replication. It returns
// −1, or the environment in which uniform play has no regret.
func (s *Score) rank(names []string, envs, uniform int, final func(e, p int) []float64) int {
	for p, name := range names {
		r := ScoreRow{Policy: name, Each: make([]float64, envs), shares: make([]float64, s.R)}
		for e := range envs {
			if !r.add(e, final(e, p), final(e, uniform)) {
				return e
			}
		}
		s.Rows = append(s.Rows, r)
	}
	slices.SortStableFunc(s.Rows, func(a, b ScoreRow) int { return cmp.Compare(b.Mean, a.Mean) })
	s.compare()
	return -1
}

// add counts an environment in: regret of the policy and of uniform play by replication. ok is false where uniform
// play has no regret.
//
// A replication's share of the score is the score's derivative at its regrets a and b,
//
//	1 − ρ − (a − ρb)/b̄,  ρ = ā/b̄,
//
// averaged over the environments: shares of two policies can be subtracted, and their spread is that of the score to
// the first order.
func (r *ScoreRow) add(e int, regret, uniform []float64) (ok bool) {
	base := mean(uniform)
	if !(base > 0) {
		return false
	}
	ratio, n := mean(regret)/base, float64(len(r.Each))
	r.Each[e] = 1 - ratio
	r.Mean += r.Each[e] / n
	for i, a := range regret {
		r.shares[i] += (1 - ratio - (a-float64(ratio*uniform[i]))/base) / n
	}
	if r.Each[e] < r.Each[r.Worst] {
		r.Worst = e
	}
	return true
}

// compare computes intervals of the scores, each for itself, and of all their differences at once, and which policies
// may be first. The rows are in their order. With few replications nothing of it holds, and nothing is computed.
func (s *Score) compare() {
	n := len(s.Rows)
	if s.R < minReps || n == 0 {
		return
	}
	stream := rng.NewKey(s.Seed).Child("report").Child("score").Stream(rng.Resample)
	var pairs []infer.Contrast
	at := map[[2]int]int{}
	for j := range n {
		for i := range j {
			at[[2]int{i, j}] = len(pairs)
			pairs = append(pairs, infer.Contrast{X: s.Rows[i].shares, Y: s.Rows[j].shares})
		}
	}
	zero, lists := make([]float64, s.R), [][]infer.Contrast{pairs}
	for _, r := range s.Rows {
		lists = append(lists, []infer.Contrast{{X: r.shares, Y: zero}})
	}
	families := infer.Families(infer.Mean, lists, level, drawFrom(stream))
	all := families[0].Each
	for j := range s.Rows {
		r := &s.Rows[j]
		r.Lo, r.Hi, r.OK = around(r.Mean, families[1+j].Each[0])
		r.First, r.Behind = true, s.Rows[0].Mean-r.Mean
		for i := range j {
			lo, hi, told := around(s.Rows[i].Mean-r.Mean, all[at[[2]int{i, j}]])
			r.First = r.First && !(told && lo > 0)
			if i == 0 {
				r.BehindLo, r.BehindHi, r.Paired = lo, hi, told
			}
		}
	}
}

// around is the interval of a score, or of a difference of two: that of the mean of the shares, which is the score but
// for rounding.
func around(score float64, i infer.Interval) (lo, hi float64, told bool) {
	if !(i.SE > 1e-12) { // the same in every replication but for rounding, as uniform play beside itself
		return score, score, true
	}
	return score + (i.Lo - i.Value), score + (i.Hi - i.Value), i.OK
}

// Say says which policies may be first; nil where nothing can say it.
func (s *Score) Say() Prose {
	if s.R < minReps || len(s.Rows) < 2 {
		return nil
	}
	best, too := name(s.Rows[0].Policy), []string(nil)
	for _, r := range s.Rows[1:] {
		if r.First {
			too = append(too, r.Policy)
		}
	}
	chance := " (95%, all pairs at once)."
	switch len(too) {
	case 0:
		return say(best, " has the highest score, and only it may be first: every other is below it by more than "+
			"chance explains", chance)
	case len(s.Rows) - 1:
		return say(best, " has the highest score, but each of the policies may be first: no difference is more than "+
			"chance explains", chance)
	}
	return say(best, " has the highest score, and ", listed(too),
		" may be first too. Every other is below a higher one "+
			"by more than chance explains", chance)
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
		Note: "Score: the mean over the environments of 1 − regret/(regret of uniform play), with a 95% interval " +
			"for " +
			"its row alone. Behind: the highest score minus this one, on the same replications, with intervals that " +
			"hold for all pairs at once. Policies in bold may be first.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}, {Key: "score", Head: "Score", Dec: 3},
			{Key: "lo", Head: "95%", Dec: 3}, {Key: "hi", Dec: 3, Range: true},
			{Key: "behind", Head: "Behind", Dec: 3}, {Key: "behind_lo", Head: "95%", Dec: 3},
			{Key: "behind_hi", Dec: 3, Range: true},
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
		behind, from, to := chart.Empty(), chart.Empty(), chart.Empty()
		if i > 0 && s.R >= minReps {
			behind = chart.Num(r.Behind)
			if r.Paired {
				from, to = chart.Num(r.BehindLo), chart.Num(r.BehindHi)
			}
		}
		row := chart.Row{Look: look, Best: r.First, Cells: []chart.Cell{chart.TextCell(r.Policy),
			chart.Num(r.Mean), lo, hi, behind, from, to, chart.Num(r.Each[r.Worst]),
			chart.TextCell(m.Environments[r.Worst].Name)}}
		for _, v := range r.Each {
			row.Cells = append(row.Cells, chart.Num(v))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
