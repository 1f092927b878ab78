package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/internal/infer"
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

// leaderColumn is a column of the leader table: its cells, and how the page paints it.
type leaderColumn struct {
	chart.Column
	cell   func(i int) chart.Cell // of policy i
	rivals bool                   // compares policies: of one policy alone it is in the file only
	page   pageColumn
}

// pageColumn is how the page paints a column. One without a heading is not there.
type pageColumn struct {
	head  string
	class string                           // opt: on wide screens only
	joins bool                             // it belongs to the column before it
	text  func(i int, shown string) string // what stands in the cell, nil for what the other tables show
	tip   func(i int) string               // what a pointer over the cell shows, "" for nothing
}

// classes returns the classes of the style sheet for its cells.
func (c *pageColumn) classes() string {
	if c.joins {
		return strings.TrimSpace("pm " + c.class)
	}
	return c.class
}

// leaderTable writes the cells of the leader table of an analysis.
type leaderTable struct{ a *Analysis }

// leaderColumns are the columns of the leader table, in their order in files, on a terminal and on the page. A new
// column is one line here.
func (lt leaderTable) leaderColumns() []leaderColumn {
	d := lt.a.Dec
	sum := func(f func(s *Summary) float64) func(int) chart.Cell {
		return func(i int) chart.Cell { return chart.Num(f(&lt.a.Summary[i])) }
	}
	known := func(v float64) chart.Cell {
		if math.IsInf(v, 0) {
			return chart.Empty()
		}
		return chart.Num(v)
	}
	rival := func(f func(x *Difference) chart.Cell) func(int) chart.Cell {
		return func(i int) chart.Cell {
			if i == lt.a.Best() {
				return chart.Empty()
			}
			return f(&lt.a.Pairs.Diff[i])
		}
	}
	end := func(f func(x *Difference) float64) func(int) chart.Cell {
		return rival(func(x *Difference) chart.Cell {
			if !x.OK {
				return chart.Empty()
			}
			return chart.Num(f(x))
		})
	}
	constant := func(v int) func(int) chart.Cell {
		return func(int) chart.Cell { return chart.Num(float64(v)) }
	}
	column := func(c chart.Column, cell func(int) chart.Cell, page pageColumn) leaderColumn {
		return leaderColumn{Column: c, cell: cell, page: page}
	}
	compares := func(c chart.Column, cell func(int) chart.Cell, page pageColumn) leaderColumn {
		return leaderColumn{c, cell, true, page}
	}
	file := func(key string, cell func(int) chart.Cell) leaderColumn {
		return leaderColumn{Column: chart.Column{Key: key, Only: "csv"}, cell: cell}
	}
	none := pageColumn{}
	lost := lt.a.Estimand == infer.ShareLost
	columns := []leaderColumn{
		compares(chart.Column{Key: "mark", Text: true},
			func(i int) chart.Cell { return chart.TextCell(lt.a.Pairs.Diff[i].Verdict.mark()) }, none),
		column(chart.Column{Key: "policy", Text: true}, func(i int) chart.Cell { return chart.TextCell(lt.a.Label(i)) },
			none),
		column(chart.Column{Key: "mean", Head: "mean", Dec: d}, sum(func(s *Summary) float64 { return s.Mean }),
			pageColumn{head: "Mean regret"}),
		column(chart.Column{Key: "se", Head: "± s.e.", Dec: d, PM: true}, lt.seCell,
			pageColumn{head: "± s.e.", joins: true, text: plusMinus}),
		column(chart.Column{Key: "median", Head: "median", Dec: d, Extra: true},
			sum(func(s *Summary) float64 { return s.Median }),
			pageColumn{head: "Median", class: "opt", tip: lt.medianTip}),
		column(chart.Column{Key: "worst5", Head: "worst 5%", Dec: d, Extra: true},
			sum(func(s *Summary) float64 { return s.Worst }), pageColumn{head: "Worst 5%",
				class: "opt"}),
		compares(chart.Column{Key: "difference", Head: "diff", Dec: d, Plus: true, Pct: lost},
			rival(func(x *Difference) chart.Cell { return chart.Num(x.Mean) }),
			pageColumn{head: "Difference", class: "opt"}),
		compares(chart.Column{Key: "lo", Head: "95%, all pairs", Dec: d, Pct: lost},
			end(func(x *Difference) float64 { return x.Lo }),
			pageColumn{head: "95%, all pairs", class: "opt", joins: true, text: lt.intervalText}),
		compares(chart.Column{Key: "hi", Dec: d, Range: true, Pct: lost}, end(func(x *Difference) float64 { return x.Hi }), none),
		compares(chart.Column{Key: "behind", Head: "behind", Pct: true, Extra: true},
			rival(func(x *Difference) chart.Cell { return chart.Num(float64(x.Behind) / float64(lt.a.R())) }),
			pageColumn{head: "Behind in", class: "opt", tip: lt.behindTip}),
		compares(chart.Column{Key: "verdict", Text: true, Extra: true},
			func(i int) chart.Cell { return chart.TextCell(lt.a.Word(i)) }, none),
		compares(chart.Column{Key: "places", Head: "place", Text: true, Extra: true},
			func(i int) chart.Cell { return chart.TextCell(placeText(lt.a, i)) }, pageColumn{head: "Place", class: "opt"}),
		file("behind_lo", rival(func(x *Difference) chart.Cell { return chart.Num(x.BehindLo) })),
		file("behind_hi", rival(func(x *Difference) chart.Cell { return chart.Num(x.BehindHi) })),
		file("median_lo", func(i int) chart.Cell { return known(lt.a.Summary[i].MedianLo) }),
		file("median_hi", func(i int) chart.Cell { return known(lt.a.Summary[i].MedianHi) }),
		file("difference_se", func(i int) chart.Cell { return chart.Num(lt.a.Pairs.Diff[i].SE) }),
		file("reward_per_round", sum(func(s *Summary) float64 { return s.RewardPerRound })),
		file("near_linear", sum(func(s *Summary) float64 { return float64(s.NearLinear) })),
		file("replications", constant(lt.a.R())), file("rounds", constant(lt.a.T)),
	}
	if lt.a.Estimand == infer.CVaR5 || lost { // the others have their column
		short := shortOf(lt.a.Estimand)
		columns = slices.Insert(columns, 2, column(chart.Column{Key: "estimate", Head: short, Dec: d, Pct: lost},
			sum(func(s *Summary) float64 { return s.Estimate }), pageColumn{head: upperFirst(short)}))
		columns = slices.DeleteFunc(columns, func(c leaderColumn) bool { return c.Key == "worst5" && !lost })
	}
	return columns
}

// seCell is the standard error of a mean, of one replication nothing.
func (lt leaderTable) seCell(i int) chart.Cell {
	if lt.a.R() < 2 {
		return chart.Empty()
	}
	return chart.Num(lt.a.Summary[i].SE)
}

// plusMinus puts the sign before a standard error.
func plusMinus(_ int, shown string) string {
	if shown == "" {
		return ""
	}
	return "± " + shown
}

// medianTip is the interval of a median, where it has one.
func (lt leaderTable) medianTip(i int) string {
	s := &lt.a.Summary[i]
	if math.IsInf(s.MedianLo, 0) || math.IsInf(s.MedianHi, 0) {
		return ""
	}
	return fmt.Sprintf("95%% order-statistic interval %s to %s", chart.Number(s.MedianLo, lt.a.Dec),
		chart.Number(s.MedianHi, lt.a.Dec))
}

// behindTip says in how many replications a policy was behind.
func (lt leaderTable) behindTip(i int) string {
	if i == lt.a.Best() {
		return ""
	}
	d := &lt.a.Pairs.Diff[i]
	return fmt.Sprintf("%d of %d replications; exact interval %s to %s", d.Behind, lt.a.R(), chart.Percent(d.BehindLo),
		chart.Percent(d.BehindHi))
}

// Leader returns the leader table under the given file name.
func (a *Analysis) Leader(id string) *chart.Table {
	t := &chart.Table{ID: id, Title: fmt.Sprintf("Regret after %s, %s, common random numbers: %s",
		many(a.T, a.Run.Manifest.Unit()), many(a.R(), "replication"), a.Name), Note: leaderTable{a}.leaderNote()}
	alone := len(a.Policies) == 1
	if alone || a.Run.apart { // nothing to compare: the file keeps its columns
		t.Title = fmt.Sprintf("Regret after %s, %s: %s", many(a.T, a.Run.Manifest.Unit()), many(a.R(), "replication"),
			a.Name)
	}
	columns := leaderTable{a}.leaderColumns()
	for _, c := range columns {
		if c.rivals && alone {
			c.Only = "csv"
		}
		t.Cols = append(t.Cols, c.Column)
	}
	for _, i := range a.Order {
		row := chart.Row{Look: a.Policies[i], Best: leaderTable{a}.leads(i)}
		for _, c := range columns {
			row.Cells = append(row.Cells, c.cell(i))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// leads reports whether policy i has the lowest mean, alone or with others that lost the same; no policy leads where
// all lost the same.
func (lt leaderTable) leads(i int) bool {
	v := lt.a.Pairs.Diff[i].Verdict
	return v == Lowest || v == Same && !lt.a.allSame()
}

func (lt leaderTable) leaderNote() string {
	switch least := lt.a.Estimand.Least(); {
	case lt.a.Compared() < 2:
		return ""
	case lt.a.allSame():
		return "The policies lost the same in " + every(lt.a.R(), "replication") + "."
	case lt.a.R() < least:
		return strings.TrimSpace(fmt.Sprintf("%s At fewer than %d replications no interval holds for all pairs, so there is no "+
			"verdict.", meaning(lt.a.Estimand), least))
	case lt.a.Estimand != infer.Mean:
		return meaning(lt.a.Estimand) + " The intervals hold together for " + lt.pairsOf() + "; ≈ where one contains zero. " +
			"Place: what these intervals leave."
	case lt.a.Sequential() && lt.a.most() > 0:
		return "The intervals hold together for all pairs of policies, for every law and at every number of " +
			"replications (betting); ≈ where one contains zero. “Behind” is the share of replications in which the " +
			"policy lost more than the first row."
	case !lt.a.Pairs.OK:
		return "The policies differ in too few replications for an interval that holds for all pairs."
	}
	s := fmt.Sprintf("The intervals hold together for %s (largest studentised difference over "+
		"resampled replications, factor %s); ≈ where one contains zero; △ where it does, but the policy lost more in "+
		"most replications (both signs together are wrong in at most 5.5%% of runs). “Behind” is the share of replications in "+
		"which the policy lost more than the first row. Place: what these intervals leave.",
		lt.pairsOf(), chart.Number(lt.a.Pairs.Factor, 2))
	if lt.exact() {
		s += " Two or three replications decide these means, so where it is narrower the interval is the exact one, for every law " +
			"with losses of at most " + chart.Amount(lt.a.most(), 0) + " (betting, 99.5%)."
	}
	if p := lt.a.Pairs.Saved; p >= 1.05 {
		s += fmt.Sprintf(" Pairing saved ×%s replications.", chart.Number(p, 1))
	}
	return s
}

// exact reports whether an interval of the leader table is by betting, because rare losses left resampling without a say.
func (lt leaderTable) exact() bool {
	for i := range lt.a.Policies {
		if i != lt.a.Best() && lt.a.between(i, lt.a.Best()).Exact {
			return true
		}
	}
	return false
}

// pairsOf says for what the intervals of the leader table hold together.
func (lt leaderTable) pairsOf() string {
	if len(lt.a.Run.Manifest.Environments) > 1 {
		return "all pairs of policies in all environments"
	}
	return "all pairs of policies"
}

// forest returns the axis of the drawn differences. The scale belongs to the contenders; a policy
// further away is drawn as an arrow.
func (lt leaderTable) forest() chart.Axis {
	lo, hi := 0.0, 0.0
	type end struct{ lo, hi float64 }
	var ends []end
	in := lt.a.Contenders()
	for _, i := range lt.a.Order[1:lt.a.Compared()] {
		d := lt.a.Pairs.Diff[i]
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
		Note: "Intervals are exact 95% order-statistic intervals; ≥ where the number of replications gives no upper " +
			"end. Near-linear: the exponent over the last doubling is at least 0.9.",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}}}
	for _, q := range []string{"50", "95", "99"} {
		t.Cols = append(t.Cols,
			chart.Column{Key: "q" + q, Head: q + "% below", Dec: d},
			chart.Column{Key: "q" + q + "_lo", Head: "95%", Dec: d, PM: false, Extra: true},
			chart.Column{Key: "q" + q + "_hi", Head: "", Dec: d, Range: true, Extra: true})
	}
	t.Cols = append(t.Cols, chart.Column{Key: "worst5", Head: "Worst 5%, mean", Dec: d},
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
		{Key: "lo", Head: "95%", Dec: 2}, {Key: "hi", Head: "", Dec: 2, Range: true},
		{Key: "from", Head: "From t"}, {Key: "to", Head: "To t"}, {Key: "before", Head: "Decade before", Dec: 2},
	}}
	for _, i := range a.Order {
		s := a.Summary[i]
		c := []chart.Cell{chart.TextCell(a.Label(i)), chart.Empty(), chart.Empty(), chart.Empty(),
			chart.Num(float64(a.Fit.From)), chart.Num(float64(a.Fit.To)), chart.Empty()}
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
	e := run.estimand()
	t := &chart.Table{ID: "overview", Title: upperFirst(nounOf(e)) + " by environment",
		Cols: []chart.Column{{Key: "policy", Head: "Policy", Text: true}}}
	only := "" // many environments: the page has room for the means alone
	if len(all) > 6 || e != infer.Mean {
		only = "csv"
	}
	for _, a := range all {
		t.Cols = append(t.Cols,
			chart.Column{Key: a.Name, Head: a.Name, Dec: a.Dec, Pct: e == infer.ShareLost},
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
			se := chart.Num(a.Summary[i].SE)
			if e != infer.Mean {
				se = chart.Empty()
			}
			row.Cells = append(row.Cells, chart.Num(a.Summary[i].Estimate), se,
				chart.TextCell(a.Pairs.Diff[i].Verdict.mark()))
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
