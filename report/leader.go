package report

import (
	"fmt"
	"math"
	"slices"
)

// Leader returns the leader table of environment env (an index into the manifest): who has the
// lowest mean, by how much the others lost more, and whether that is more than chance. It is the
// first table of the page and the table of the terminal. It is nil when no replication is complete.
func Leader(run *Run, env int) *Table {
	a := Analyze(run, env)
	if a == nil {
		return nil
	}
	return a.Leader("leader")
}

// Leader returns the leader table under the given file name.
func (a *Analysis) Leader(id string) *Table {
	d := a.Dec
	t := &Table{ID: id, Title: fmt.Sprintf("Regret after %s, %s, common random numbers: %s", many(a.T, "round"), many(a.R(), "replication"), a.Name),
		Note: a.leaderNote(),
		Cols: []Column{
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
			{Key: "difference_se", Only: "csv"}, {Key: "reward_per_round", Only: "csv"}, {Key: "near_linear", Only: "csv"},
			{Key: "replications", Only: "csv"}, {Key: "rounds", Only: "csv"},
		}}
	orEmpty := func(v float64) Cell {
		if math.IsInf(v, 0) {
			return empty()
		}
		return num(v)
	}
	for _, i := range a.Order {
		s, x := a.Summary[i], a.Diff[i]
		c := []Cell{words(x.Verdict.mark()), words(a.Label(i)), num(s.Mean), num(s.SE), num(s.Median), num(s.Worst)}
		if a.R() < 2 {
			c[3] = empty()
		}
		if x.Verdict == Lowest {
			c = append(c, empty(), empty(), empty(), empty(), words(x.Verdict.String()), empty(), empty())
		} else {
			c = append(c, num(x.Mean))
			if x.OK {
				c = append(c, num(x.Lo), num(x.Hi))
			} else {
				c = append(c, empty(), empty())
			}
			c = append(c, num(float64(x.Behind)/float64(a.R())), words(x.Verdict.String()), num(x.BehindLo), num(x.BehindHi))
		}
		c = append(c, orEmpty(s.MedianLo), orEmpty(s.MedianHi), num(x.SE), num(s.RewardPerRound), num(float64(s.NearLinear)),
			num(float64(a.R())), num(float64(a.T)))
		t.Rows = append(t.Rows, Row{Policy: a.Policies[i], Best: x.Verdict == Lowest, Cells: c})
	}
	return t
}

func (a *Analysis) leaderNote() string {
	switch {
	case len(a.Policies) < 2:
		return ""
	case a.R() < minReps:
		return fmt.Sprintf("At fewer than %d replications no interval holds for all pairs, so there is no verdict.", minReps)
	case !a.FactorOK:
		return "The policies differ in too few replications for an interval that holds for all pairs."
	}
	s := fmt.Sprintf("The intervals hold together for all pairs of policies (largest studentised difference over resampled replications, factor %s); ≈ where one contains zero; △ where it does, but the policy lost more in most replications. “Behind” is the share of replications in which the policy lost more than the first row.", number(a.Factor, 2))
	if p := a.Pairing; p >= 1.05 {
		s += fmt.Sprintf(" Pairing saved ×%s replications.", number(p, 1))
	}
	return s
}

// forest returns the axis of the drawn differences. The scale belongs to the contenders; a policy
// further away is drawn as an arrow.
func (a *Analysis) forest() Axis {
	lo, hi := 0.0, 0.0
	type end struct{ lo, hi float64 }
	var ends []end
	in := a.Contenders()
	for _, i := range a.Order[1:] {
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
	ax := Axis{Lo: lo - pad, Hi: hi + pad}
	for _, t := range linearTicks(ax.Lo, ax.Hi, 3) {
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
func (a *Analysis) Tails(id string) *Table {
	d := a.Dec
	t := &Table{ID: id, Title: "Quantiles of the final regret: " + a.Name,
		Note: "Intervals are exact 95 % order-statistic intervals; ≥ where the number of replications gives no upper end. Near-linear: the exponent over the last doubling is at least 0.9.",
		Cols: []Column{{Key: "policy", Head: "Policy", Text: true}}}
	for _, q := range []string{"50", "95", "99"} {
		t.Cols = append(t.Cols,
			Column{Key: "q" + q, Head: q + narrow + "% below", Dec: d},
			Column{Key: "q" + q + "_lo", Head: "95" + narrow + "%", Dec: d, PM: false, Extra: true},
			Column{Key: "q" + q + "_hi", Head: "", Dec: d, Range: true, Extra: true})
	}
	t.Cols = append(t.Cols, Column{Key: "worst5", Head: "Worst 5" + narrow + "%, mean", Dec: d},
		Column{Key: "near_linear", Head: "Near-linear", Pct: true},
		Column{Key: "near_linear_lo", Only: "csv"}, Column{Key: "near_linear_hi", Only: "csv"})
	for _, i := range a.Order {
		s := a.Summary[i]
		c := []Cell{words(a.Label(i))}
		for _, p := range []float64{0.5, 0.95, 0.99} {
			c = append(c, num(quantile(s.Sorted, p)))
			lo, hi := orderInterval(s.Sorted, p)
			if math.IsInf(lo, -1) {
				c = append(c, atMost(s.Sorted[0]))
			} else {
				c = append(c, num(lo))
			}
			if math.IsInf(hi, 1) {
				c = append(c, atLeast(s.Sorted[len(s.Sorted)-1]))
			} else {
				c = append(c, num(hi))
			}
		}
		lo, hi := clopperPearson(s.NearLinear, a.R())
		c = append(c, num(s.Worst), num(float64(s.NearLinear)/float64(a.R())), num(lo), num(hi))
		t.Rows = append(t.Rows, Row{Policy: a.Policies[i], Best: i == a.Best(), Cells: c})
	}
	return t
}

// Growth returns the exponents as a table.
func (a *Analysis) Growth(id string) *Table {
	t := &Table{ID: id, Title: "Growth exponents: " + a.Name, Cols: []Column{
		{Key: "policy", Head: "Policy", Text: true}, {Key: "exponent", Head: "Exponent", Dec: 2},
		{Key: "lo", Head: "95" + narrow + "%", Dec: 2}, {Key: "hi", Head: "", Dec: 2, Range: true},
		{Key: "from", Head: "From t"}, {Key: "to", Head: "To t"}, {Key: "bending", Head: "", Text: true},
	}}
	for _, i := range a.Order {
		s := a.Summary[i]
		c := []Cell{words(a.Label(i)), empty(), empty(), empty(), num(float64(a.FitFrom)), num(float64(a.FitTo)), words("")}
		if s.ExponentOK {
			c[1], c[2], c[3] = num(s.Exponent), num(s.ExpLo), num(s.ExpHi)
			if s.Bending {
				c[6] = words("still bending")
			}
		}
		t.Rows = append(t.Rows, Row{Policy: a.Policies[i], Cells: c})
	}
	return t
}

// overview returns the table of several environments: a row for each policy, mean ± s.e. and mark
// in each environment.
func overview(run *Run, all []*Analysis) *Table {
	t := &Table{ID: "overview", Title: "Mean regret by environment", Cols: []Column{{Key: "policy", Head: "Policy", Text: true}}}
	only := "" // many environments: the page has room for the means alone
	if len(all) > 6 {
		only = "csv"
	}
	for _, a := range all {
		t.Cols = append(t.Cols,
			Column{Key: a.Name, Head: a.Name, Dec: a.Dec},
			Column{Key: a.Name + " se", Head: "± s.e.", Dec: a.Dec, PM: true, Extra: true, Only: only},
			Column{Key: a.Name + " verdict", Text: true})
	}
	for p, m := range run.Manifest.Policies {
		row := Row{Policy: p, Cells: []Cell{words(m.Name)}}
		for _, a := range all {
			i := slices.Index(a.Policies, p)
			if i < 0 {
				row.Cells = append(row.Cells, empty(), empty(), words("–"))
				continue
			}
			row.Cells = append(row.Cells, num(a.Summary[i].Mean), num(a.Summary[i].SE), words(a.Diff[i].Verdict.mark()))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Cost returns run times as a table.
func costTable(run *Run) *Table {
	t := &Table{ID: "cost", Title: "CPU time by policy", Cols: []Column{
		{Key: "policy", Head: "Policy", Text: true}, {Key: "rounds", Head: "Rounds"},
		{Key: "seconds", Head: "Seconds", Dec: 2}, {Key: "us_per_round", Head: "µs a round", Dec: 2},
	}}
	for i, p := range run.Manifest.Policies {
		c := []Cell{words(p.Name), num(float64(p.Rounds)), num(p.Seconds), empty()}
		if p.Rounds > 0 {
			c[3] = num(p.Seconds / float64(p.Rounds) * 1e6)
		}
		t.Rows = append(t.Rows, Row{Policy: i, Cells: c})
	}
	return t
}
