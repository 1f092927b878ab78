package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/internal/infer"
	"troupe/internal/stats"
	"troupe/report/chart"
	"troupe/sim"
)

// RangeIn is a claim on a range in one environment: the number, its interval and what they say.
type RangeIn struct {
	Environment   string
	Value, Lo, Hi float64 // NaN where there is none
	R             int
	Answer        string

	x, y   []float64 // the number is mean(x)/mean(y), or for an exponent a function of it
	grow   float64   // for an exponent: the quotient of the two rounds
	lost   int
	shares bool
	group  int
}

// stated returns for each environment that a range is about its samples.
func (run *Run) stated(c *sim.Claim) (out []RangeIn) {
	for e := range run.Envs {
		a := prepare(run, e)
		if a == nil || c.Environment != "" && c.Environment != a.Name || c.OverIn == a.Name && c.Over == "" {
			continue
		}
		x := RangeIn{Environment: a.Name, group: e, Answer: notAsked, Value: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
		x.sample(run, a, c)
		out = append(out, x)
	}
	return out
}

// sample fills in x and y; without them the run cannot answer: a policy is missing or its numbers are rounding, a checkpoint is missing, or the
// divisor is not above 0.
func (x *RangeIn) sample(run *Run, a *Analysis, c *sim.Claim) {
	i := a.index(c.Of)
	k := a.checkpoint(c.At)
	if i < 0 || k < 0 || a.Rounded[i] {
		return
	}
	rounds := a.Rounds[:k+1]
	half, decade := infer.Earlier(rounds, 2), infer.Earlier(rounds, 10)
	x.R = a.R()
	switch c.Measure {
	case sim.MeasureExponent:
		if decade < 0 {
			return
		}
		x.x, x.y, x.grow = a.X[i][k], a.X[i][decade], float64(a.Rounds[k])/float64(a.Rounds[decade])
		return
	case sim.MeasureLost:
		if half < 0 {
			return
		}
		x.shares, x.x = true, a.X[i][k]
		for r, v := range x.x {
			if infer.Lost(a.X[i][half][r], v, float64(a.Rounds[k])/float64(a.Rounds[half])) {
				x.lost++
			}
		}
		return
	}
	mine := a.measured(i, k, c.Measure)
	over := slices.Repeat([]float64{1}, len(mine))
	if c.Over != "" || c.OverIn != "" {
		mine, over = x.quotient(run, a, c, mine)
	}
	if mine == nil || over == nil {
		return
	}
	if x.x, x.y = mine, over; c.Per != 0 {
		x.y = slices.Clone(over)
		for r := range x.y {
			x.y[r] *= c.Per
		}
	}
}

// quotient returns the samples of a quotient, of the replications that both environments have.
func (x *RangeIn) quotient(run *Run, a *Analysis, c *sim.Claim, mine []float64) (p, q []float64) {
	b := a
	for e := range run.Envs {
		if run.Manifest.Environments[e].Name == c.OverIn {
			b = prepare(run, e)
		}
	}
	of := c.Of
	if c.Over != "" {
		of = c.Over
	}
	if b == nil {
		return nil, nil
	}
	j, k := b.index(of), b.checkpoint(c.At)
	if j < 0 || k < 0 || b.Rounded[j] {
		return nil, nil
	}
	other := b.measured(j, k, c.Measure)
	if mine == nil || other == nil {
		return nil, nil
	}
	for n, r := range a.Reps {
		if m := slices.Index(b.Reps, r); m >= 0 {
			p, q = append(p, mine[n]), append(q, other[m])
		}
	}
	x.R = len(p)
	return p, q
}

// checkpoint is the index of a round, −1 where it was not recorded; 0 is the horizon.
func (a *Analysis) checkpoint(t int) int {
	if t == 0 {
		t = a.T
	}
	return slices.Index(a.Rounds, t)
}

// measured is the regret of policy i at checkpoint k, or its rate in the second half of the rounds, by replication; nil
// without a checkpoint near the half.
func (a *Analysis) measured(i, k int, measure string) []float64 {
	if measure != sim.MeasureRate {
		return a.X[i][k]
	}
	half := infer.Earlier(a.Rounds[:k+1], 2)
	if half < 0 {
		return nil
	}
	out := make([]float64, a.R())
	for r := range out {
		out[r] = (a.X[i][k][r] - a.X[i][half][r]) / float64(a.Rounds[k]-a.Rounds[half])
	}
	return out
}

// ranges answers the claims on ranges: all statements together hold at level, of which share is the error of each. Means: quotients of two means
// with the factor of the largest deviation over all of them (infer.Simultaneous) and Fieller's interval. Shares of lost runs: Clopper and Pearson.
func (run *Run) ranges(claims []Claim, each float64) {
	var contrasts []infer.Contrast
	var at []*RangeIn
	for i := range claims {
		for k := range claims[i].Ranges {
			x := &claims[i].Ranges[k]
			switch {
			case x.shares:
				x.Value = float64(x.lost) / float64(x.R)
				if x.R >= minReps {
					x.Lo, x.Hi = stats.ClopperPearson(x.lost, x.R, each)
				}
			case len(x.x) > 0 && stats.Mean(x.y) > 0:
				rho := stats.Mean(x.x) / stats.Mean(x.y)
				x.Value = rho
				if rho > 0 { // a contrast has a positive factor
					at = append(at, x)
					contrasts = append(contrasts, infer.Contrast{X: x.x, Y: x.y, Times: rho, Group: x.group})
				}
			}
		}
	}
	if len(at) > 0 {
		f := infer.Simultaneous(infer.Mean, contrasts, 1-each*float64(len(at)), drawFrom(run.stream("ranges")))
		for k, x := range at {
			if f.Each[k].OK && f.Factor[k] > 0 {
				if r := stats.Fieller(x.x, x.y, f.Factor[k]); r.OK {
					x.Lo, x.Hi = r.Lo, r.Hi
				}
			}
			if x.grow != 0 {
				for _, v := range []*float64{&x.Value, &x.Lo, &x.Hi} {
					*v = math.Log(*v) / math.Log(x.grow)
				}
			}
		}
	}
	for i := range claims {
		c := &claims[i]
		for k := range c.Ranges {
			c.Ranges[k].decide(&c.Claim)
		}
		c.together()
	}
}

// decide compares the interval with the range: it holds where the interval lies in the range, and is contradicted where the two do not meet.
func (x *RangeIn) decide(c *sim.Claim) {
	to := c.To
	if to == 0 {
		to = math.Inf(1)
	}
	switch {
	case math.IsNaN(x.Value):
	case x.R < minReps:
		x.Answer = tooFewRuns
	case x.Hi < c.From || x.Lo > to:
		x.Answer = contradicted
	case x.Lo >= c.From && x.Hi <= to:
		x.Answer = holds
	default:
		x.Answer = openClaim
	}
}

// together is the answer of a range in all its environments: the worst of theirs.
func (c *Claim) together() {
	if !c.Range() {
		return
	}
	c.Answer = notAsked
	for _, answer := range []string{holds, openClaim, contradicted, tooFewRuns, notAsked} {
		for _, x := range c.Ranges {
			if x.Answer == answer {
				c.Answer = answer
			}
		}
	}
}

// rangeText is a claim on a range as its author states it.
func (c *Claim) rangeText() Prose {
	of := map[string]string{"": "mean regret", sim.MeasureRate: "mean regret a round in the second half",
		sim.MeasureExponent: "exponent of the mean regret over the last decade", sim.MeasureLost: "share of lost runs"}[c.Measure]
	p := say("The ", of, " of ", name(c.Of))
	if c.Environment != "" {
		p = say(p, " in ", name(c.Environment))
	}
	if c.At != 0 {
		p = say(p, " after "+chart.Count(c.At)+" rounds")
	}
	switch {
	case c.Over != "" && c.OverIn != "":
		p = say(p, ", divided by that of ", name(c.Over), " in ", name(c.OverIn), ",")
	case c.Over != "":
		p = say(p, ", divided by that of ", name(c.Over), ",")
	case c.OverIn != "":
		p = say(p, ", divided by that in ", name(c.OverIn), ",")
	}
	if c.Per != 0 {
		p = say(p, " per "+short(c.Per))
	}
	switch {
	case c.To == 0:
		return say(p, " is at least "+short(c.From))
	case c.From == 0:
		return say(p, " is at most "+short(c.To))
	}
	return say(p, " is between "+short(c.From)+" and "+short(c.To))
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// found writes the number with its interval.
func (x *RangeIn) found() string {
	three := func(v float64) string { return chart.Number(v, 3) }
	switch {
	case math.IsNaN(x.Value):
		return ""
	case math.IsNaN(x.Lo):
		return three(x.Value)
	}
	return three(x.Value) + " [" + three(x.Lo) + ", " + three(x.Hi) + "]"
}

// asked is the range in a table: 0.9 to 1.1.
func (c *Claim) asked() string {
	switch {
	case c.To == 0:
		return "≥ " + short(c.From)
	case c.From == 0:
		return "≤ " + short(c.To)
	}
	return short(c.From) + " to " + short(c.To)
}

// sayRange states the claim and what the results say of it.
func (c *Claim) sayRange() Prose {
	p := say(c.rangeText(), ": this ", c.Answer)
	if len(c.Ranges) == 1 {
		if found := c.Ranges[0].found(); found != "" {
			return say(p, ", it is "+found+".")
		}
		return say(p, ".")
	}
	var where []string
	for _, x := range c.Ranges {
		if c.Answer != holds && x.Answer == c.Answer {
			where = append(where, x.Environment)
		}
	}
	if len(where) > 0 {
		return say(p, " in ", listed(where), ".")
	}
	return say(p, " in ", every(len(c.Ranges), "environment"), ".")
}

// Ranges is the table of the claims on ranges, one row for each environment; nil without one.
func Ranges(run *Run, id string) *chart.Table {
	t := &chart.Table{ID: id, Title: "Ranges stated in the spec", Note: "A range holds where the interval lies in it, is contradicted where the two do " +
		"not meet, and is open otherwise. The intervals hold for all claims at once (95%).", Cols: []chart.Column{
		{Key: "label", Head: "", Text: true}, {Key: "claim", Head: "number", Text: true}, {Key: "environment", Head: "in", Text: true},
		{Key: "range", Head: "stated", Text: true}, {Key: "found", Head: "found", Text: true}, {Key: "value", Only: "csv", Dec: 3},
		{Key: "lo", Only: "csv", Dec: 3}, {Key: "hi", Only: "csv", Dec: 3}, {Key: "answer", Head: "", Text: true}}}
	cell := func(v float64) chart.Cell {
		if math.IsNaN(v) {
			return chart.Empty()
		}
		return chart.Num(v)
	}
	claims := run.Claims()
	for i := range claims {
		c := &claims[i]
		for _, x := range c.Ranges {
			t.Rows = append(t.Rows, chart.Row{Look: -1, Cells: []chart.Cell{chart.TextCell(c.Label), chart.TextCell(c.number()),
				chart.TextCell(x.Environment), chart.TextCell(c.asked()), chart.TextCell(x.found()), cell(x.Value), cell(x.Lo), cell(x.Hi),
				chart.TextCell(strings.TrimPrefix(x.Answer, "is "))}})
		}
	}
	if t.Rows == nil {
		return nil
	}
	return t
}

// number names what a range is about, in a table.
func (c *Claim) number() string {
	s := c.Of
	if c.Measure != "" {
		s = c.Measure + " of " + s
	}
	switch {
	case c.Over != "":
		s += " / " + c.Over
	case c.OverIn != "":
		s += " / its own"
	}
	if c.OverIn != "" {
		s += " in " + c.OverIn
	}
	if c.Per != 0 {
		s += " / " + short(c.Per)
	}
	if c.At != 0 {
		s += ", t = " + chart.Count(c.At)
	}
	return s
}

// Up to so many ranges have a sentence each; of more there is a sum, a table, and sentences on those that are contradicted.
const fewRanges = 6

// summedRanges says how many ranges, one for each environment of a claim, hold.
func summedRanges(claims []Claim) Prose {
	n := map[string]int{}
	all := 0
	for i := range claims {
		for _, x := range claims[i].Ranges {
			n[x.Answer]++
			all++
		}
	}
	p := "Of " + many(all, "stated range") + " " + chart.Count(n[holds]) + " " + plural(n[holds], "holds", "hold")
	for _, s := range []struct{ answer, one, more string }{{contradicted, "is contradicted", "are contradicted"}, {openClaim, "is open", "are open"},
		{tooFewRuns, "has too few replications", "have too few replications"}, {notAsked, "cannot be asked of this run", "cannot be asked of this run"}} {
		if k := n[s.answer]; k > 0 {
			p += ", " + chart.Count(k) + " " + plural(k, s.one, s.more)
		}
	}
	return say(p + ".")
}
