package report

import (
	"fmt"
	"math"
	"slices"

	"troupe/report/chart"
)

// Leader returns the leader table of environment env (an index into the manifest): which policy has the
// lowest mean, by how much the others lost more, and whether that is more than chance. It is the
// first table of the page and the table of the terminal. It is nil when no replication is complete.
func Leader(run *Run, env int) *chart.Table {
	a := Analyze(run, env)
	if a == nil {
		return nil
	}
	return a.Leader("leader")
}

// Leader returns the leader table under the given file name.
func (a *Analysis) Leader(id string) *chart.Table {
	d := a.Dec
	t := &chart.Table{ID: id, Title: fmt.Sprintf("Regret after %s, %s, common random numbers: %s", many(a.T, a.Run.Manifest.Unit()),
		many(a.R(), "replication"), a.Name),
		Note: a.leaderNote(),
		Cols: []chart.Column{
			{Key: "mark", Head: "", Text: true},
			{Key: "policy", Head: "", Text: true},
			{Key: "mean", Head: "mean", Dec: d},
			{Key: "se", Head: "± s.e.", Dec: d, PM: true},
			{Key: "median", Head: "median", Dec: d, Extra: true},
			{Key: "worst5", Head: "worst 5%", Dec: d, Extra: true},
			{Key: "difference", Head: "diff", Dec: d, Plus: true},
			{Key: "lo", Head: "95 %, all pairs", Dec: d},
			{Key: "hi", Head: "", Dec: d, Range: true},
			{Key: "behind", Head: "behind", Pct: true, Extra: true},
			{Key: "verdict", Head: "", Text: true, Extra: true},
			{Key: "behind_lo", Only: "csv"}, {Key: "behind_hi", Only: "csv"},
			{Key: "median_lo", Only: "csv"}, {Key: "median_hi", Only: "csv"},
			{Key: "difference_se", Only: "csv"}, {Key: "reward_per_round", Only: "csv"},
			{Key: "near_linear", Only: "csv"},
			{Key: "replications", Only: "csv"}, {Key: "rounds", Only: "csv"},
		}}
	if len(a.Policies) == 1 { // nothing to compare: the file keeps its columns
		t.Title = fmt.Sprintf("Regret after %s, %s: %s", many(a.T, a.Run.Manifest.Unit()), many(a.R(), "replication"), a.Name)
		for c := range t.Cols {
			if slices.Contains([]string{"mark", "difference", "lo", "hi", "behind", "verdict"}, t.Cols[c].Key) {
				t.Cols[c].Only = "csv"
			}
		}
	}
	orEmpty := func(v float64) chart.Cell {
		if math.IsInf(v, 0) {
			return chart.Empty()
		}
		return chart.Num(v)
	}
	for _, i := range a.Order {
		s, x := a.Summary[i], a.Diff[i]
		c := []chart.Cell{chart.TextCell(x.Verdict.mark()), chart.TextCell(a.Label(i)), chart.Num(s.Mean),
			chart.Num(s.SE), chart.Num(s.Median), chart.Num(s.Worst)}
		if a.R() < 2 {
			c[3] = chart.Empty()
		}
		if i == a.Best() {
			c = append(c, chart.Empty(), chart.Empty(), chart.Empty(), chart.Empty(),
				chart.TextCell(x.Verdict.String()), chart.Empty(), chart.Empty())
		} else {
			c = append(c, chart.Num(x.Mean))
			if x.OK {
				c = append(c, chart.Num(x.Lo), chart.Num(x.Hi))
			} else {
				c = append(c, chart.Empty(), chart.Empty())
			}
			c = append(c, chart.Num(float64(x.Behind)/float64(a.R())), chart.TextCell(x.Verdict.String()),
				chart.Num(x.BehindLo), chart.Num(x.BehindHi))
		}
		c = append(c, orEmpty(s.MedianLo), orEmpty(s.MedianHi), chart.Num(x.SE), chart.Num(s.RewardPerRound),
			chart.Num(float64(s.NearLinear)),
			chart.Num(float64(a.R())), chart.Num(float64(a.T)))
		t.Rows = append(t.Rows, chart.Row{Look: a.Policies[i], Best: a.leads(i), Cells: c})
	}
	return t
}

// leads reports whether policy i has the lowest mean, alone or with others that lost the same; no policy leads where
// all lost the same.
func (a *Analysis) leads(i int) bool {
	v := a.Diff[i].Verdict
	return v == Lowest || v == Same && !a.allSame()
}

func (a *Analysis) leaderNote() string {
	switch {
	case a.Compared() < 2:
		return ""
	case a.allSame():
		return "The policies lost the same in " + every(a.R(), "replication") + "."
	case a.R() < minReps:
		return fmt.Sprintf("At fewer than %d replications no interval holds for all pairs, so there is no verdict.",
			minReps)
	case a.Sequential() && a.most() > 0:
		return "The intervals hold together for all pairs of policies, for every law and at every number of " +
			"replications (betting); ≈ where one contains zero. “Behind” is the share of replications in which the " +
			"policy lost more than the first row."
	case !a.FactorOK:
		return "The policies differ in too few replications for an interval that holds for all pairs."
	}
	s := fmt.Sprintf("The intervals hold together for all pairs of policies (largest studentised difference over "+
		"resampled replications, factor %s); ≈ where one contains zero; △ where it does, but the policy lost more in "+
		"most replications. “Behind” is the share of replications in which the policy lost more than the first row.",
		chart.Number(a.Factor, 2))
	if p := a.Pairing; p >= 1.05 {
		s += fmt.Sprintf(" Pairing saved ×%s replications.", chart.Number(p, 1))
	}
	return s
}

// forest returns the axis of the drawn differences. The scale belongs to the contenders; a policy
// further away is drawn as an arrow.
func (a *Analysis) forest() chart.Axis {
	lo, hi := 0.0, 0.0
	type end struct{ lo, hi float64 }
	var ends []end
	in := a.Contenders()
	for _, i := range a.Order[1:a.Compared()] {
		d := a.Diff[i]
		e := end{d.Mean, d.Mean}
		if d.OK {
			e = end{d.Lo, d.Hi}
		}
		if slices.Contains(in, i) {
			lo, hi = min(lo, e.lo), max(hi, e.hi)
		} else {
			ends = append(ends, e)
		}
	}
	slices.SortFunc(ends, func(x, y end) int {
		if x.hi < y.hi {
			return -1
		}
		return 1
	})
	limit := 3 * (hi - lo) // as far as the contenders are not squeezed
	for _, e := range ends {
		if limit == 0 || e.hi-e.lo <= limit && e.hi <= limit {
			lo, hi = min(lo, e.lo), max(hi, e.hi)
			if limit == 0 {
				limit = 3 * (hi - lo)
			}
		}
	}
	if hi <= lo {
		hi = lo + 1
	}
	pad := 0.03 * (hi - lo)
	ax := chart.Axis{Lo: lo - pad, Hi: hi + pad}
	for _, t := range chart.LinearTicks(ax.Lo, ax.Hi, 3) {
		if t.At >= ax.Lo && t.At <= ax.Hi {
			if t.At > 0 {
				t.Label = "+" + t.Label
			}
			ax.Ticks = append(ax.Ticks, t)
		}
	}
	return ax
}

// Tails returns the numbers behind the tail plot: quantiles with exact order-statistic intervals,
// the worst 5 %, and the near-linear share.
func (a *Analysis) Tails(id string) *chart.Table {
	d := a.Dec
	t := &chart.Table{ID: id, Title: "Quantiles of the final regret: " + a.Name,
		Note: "Intervals are exact 95 % order-statistic intervals; ≥ where the number of replications gives no upper " +
			"end. Near-linear: the exponent over the last doubling is at least 0.9.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}}}
	for _, q := range []string{"50", "95", "99"} {
		t.Cols = append(t.Cols,
			chart.Column{Key: "q" + q, Head: q + chart.Narrow + "% below", Dec: d},
			chart.Column{Key: "q" + q + "_lo", Head: "95" + chart.Narrow + "%", Dec: d, PM: false, Extra: true},
			chart.Column{Key: "q" + q + "_hi", Head: "", Dec: d, Range: true, Extra: true})
	}
	t.Cols = append(t.Cols, chart.Column{Key: "worst5", Head: "Worst 5" + chart.Narrow + "%, mean", Dec: d},
		chart.Column{Key: "near_linear", Head: "Near-linear", Pct: true},
		chart.Column{Key: "near_linear_lo", Only: "csv"}, chart.Column{Key: "near_linear_hi", Only: "csv"})
	for _, i := range a.Order {
		s := a.Summary[i]
		c := []chart.Cell{chart.TextCell(a.Label(i))}
		for _, p := range []float64{0.5, 0.95, 0.99} {
			c = append(c, chart.Num(quantile(s.Sorted, p)))
			lo, hi := orderInterval(s.Sorted, p)
			if math.IsInf(lo, -1) {
				c = append(c, chart.AtMost(s.Sorted[0]))
			} else {
				c = append(c, chart.Num(lo))
			}
			if math.IsInf(hi, 1) {
				c = append(c, chart.AtLeast(s.Sorted[len(s.Sorted)-1]))
			} else {
				c = append(c, chart.Num(hi))
			}
		}
		lo, hi := clopperPearson(s.NearLinear, a.R())
		c = append(c, chart.Num(s.Worst), chart.Num(float64(s.NearLinear)/float64(a.R())), chart.Num(lo), chart.Num(hi))
		t.Rows = append(t.Rows, chart.Row{Look: a.Policies[i], Best: i == a.Best(), Cells: c})
	}
	return t
}

// Growth returns the exponents as a table.
func (a *Analysis) Growth(id string) *chart.Table {
	t := &chart.Table{ID: id, Title: "Growth exponents: " + a.Name, Cols: []chart.Column{
		{Key: "policy", Head: "Policy", Text: true}, {Key: "exponent", Head: "Exponent", Dec: 2},
		{Key: "lo", Head: "95" + chart.Narrow + "%", Dec: 2}, {Key: "hi", Head: "", Dec: 2, Range: true},
		{Key: "from", Head: "From t"}, {Key: "to", Head: "To t"}, {Key: "before", Head: "Decade before", Dec: 2},
	}}
	for _, i := range a.Order {
		s := a.Summary[i]
		c := []chart.Cell{chart.TextCell(a.Label(i)), chart.Empty(), chart.Empty(), chart.Empty(),
			chart.Num(float64(a.FitFrom)), chart.Num(float64(a.FitTo)), chart.Empty()}
		if s.ExponentOK {
			c[1], c[2], c[3] = chart.Num(s.Exponent), chart.Num(s.ExpLo), chart.Num(s.ExpHi)
			if s.Before > 0 {
				c[6] = chart.Num(s.Before)
			}
		}
		t.Rows = append(t.Rows, chart.Row{Look: a.Policies[i], Cells: c})
	}
	return t
}

// overview returns the table of several environments: a row for each policy, mean ± s.e. and mark
// in each environment.
func overview(run *Run, all []*Analysis) *chart.Table {
	t := &chart.Table{ID: "overview", Title: "Mean regret by environment",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}}}
	only := "" // many environments: the page has room for the means alone
	if len(all) > 6 {
		only = "csv"
	}
	for _, a := range all {
		t.Cols = append(t.Cols,
			chart.Column{Key: a.Name, Head: a.Name, Dec: a.Dec},
			chart.Column{Key: a.Name + " se", Head: "± s.e.", Dec: a.Dec, PM: true, Extra: true, Only: only},
			chart.Column{Key: a.Name + " verdict", Text: true})
	}
	for p, m := range run.Manifest.Policies {
		row := chart.Row{Look: p, Cells: []chart.Cell{chart.TextCell(m.Name)}}
		for _, a := range all {
			i := slices.Index(a.Policies, p)
			if i < 0 {
				row.Cells = append(row.Cells, chart.Empty(), chart.Empty(), chart.TextCell("–"))
				continue
			}
			row.Cells = append(row.Cells, chart.Num(a.Summary[i].Mean), chart.Num(a.Summary[i].SE),
				chart.TextCell(a.Diff[i].Verdict.mark()))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Cost returns run times as a table.
func costTable(run *Run) *chart.Table {
	t := &chart.Table{ID: "cost", Title: "CPU time by policy", Cols: []chart.Column{
		{Key: "policy", Head: "Policy", Text: true}, {Key: "rounds", Head: "Rounds"},
		{Key: "seconds", Head: "Seconds", Dec: 2}, {Key: "us_per_round", Head: "µs a round", Dec: 2},
	}}
	for i, p := range run.Manifest.Policies {
		c := []chart.Cell{chart.TextCell(p.Name), chart.Num(float64(p.Rounds)), chart.Num(p.Seconds), chart.Empty()}
		if p.Rounds > 0 {
			c[3] = chart.Num(p.Seconds / float64(p.Rounds) * 1e6)
		}
		t.Rows = append(t.Rows, chart.Row{Look: i, Cells: c})
	}
	return t
}
