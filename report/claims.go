package report

import (
	"slices"
	"strconv"

	"troupe/internal/infer"
	"troupe/internal/stats"
	"troupe/report/chart"
	"troupe/sim"
)

// Claim is a claim of the spec with what the results say of it.
type Claim struct {
	sim.Claim
	Answer string    // holds, is contradicted, is open, has too few replications, cannot be asked of this run
	Each   []ClaimIn // of a comparison
	Ranges []RangeIn // of a range
}

// ClaimIn is a claim in one environment: the estimand of the one policy less Times that of the other one.
type ClaimIn struct {
	Environment string
	infer.Interval
	R int
	// Ratio, of a claim on the mean with Times, is the estimand of the one policy divided by that of the other one. Its
	// interval contains Times exactly where Interval contains 0.
	Ratio stats.Ratio

	a *Analysis
}

// The answers to a claim.
const (
	holds        = "holds"
	contradicted = "is contradicted"
	openClaim    = "is open"
	tooFewRuns   = "has too few replications"
	notAsked     = "cannot be asked of this run"
)

// Claims answers the claims of the spec. They were stated before the run, so their intervals hold for all claims in all
// their environments at once, and other pairs do not count; claims that were written when results were there hold with
// all pairs of the run. A claim holds where its interval lies below zero in each of its environments, and is
// contradicted where it lies above zero in one. A claim on a range has intervals of its own (Run.ranges); all claims share
// the error evenly, each environment of a claim counting once.
func (run *Run) Claims() []Claim {
	m := &run.Manifest
	var contrasts []infer.Contrast
	var out []Claim
	type place struct{ claim, each int }
	var at []place
	ranges := 0
	for _, c := range m.Claims {
		answer := Claim{Claim: c}
		if c.Range() {
			answer.Ranges = run.stated(&c)
			ranges += len(answer.Ranges)
			out = append(out, answer)
			continue
		}
		for e := range run.Envs {
			a := prepare(run, e)
			if a == nil || c.Environment != "" && c.Environment != a.Name {
				continue
			}
			i, j := a.index(c.Less), a.index(c.Than)
			if i < 0 || j < 0 || a.Rounded[i] || a.Rounded[j] {
				continue
			}
			at = append(at, place{len(out), len(answer.Each)})
			answer.Each = append(answer.Each, ClaimIn{Environment: a.Name, R: a.R(), a: a})
			contrasts = append(contrasts, infer.Contrast{X: a.value(i), Y: a.value(j), Times: c.Times, Group: e, Most: a.most()})
		}
		out = append(out, answer)
	}
	compared := level
	if ranges > 0 {
		each := (1 - level) / float64(len(contrasts)+ranges)
		compared = 1 - float64(each*float64(len(contrasts)))
		run.ranges(out, each)
	}
	if len(contrasts) == 0 {
		return out
	}
	all := contrasts
	if m.Restated {
		for e := range run.Envs {
			if a := prepare(run, e); a != nil {
				for i := range a.Policies {
					for j := range i {
						all = append(all, infer.Contrast{X: a.value(i), Y: a.value(j), Group: e, Most: a.most()})
					}
				}
			}
		}
	}
	stream := run.stream("claims")
	f := infer.Simultaneous(run.estimand(), all, compared, drawFrom(stream))
	for k, p := range at {
		x := &out[p.claim].Each[p.each]
		if x.Interval = f.Each[k]; contrasts[k].Times != 0 && f.Factor[k] > 0 && run.estimand() == infer.Mean {
			x.Ratio = stats.Fieller(contrasts[k].X, contrasts[k].Y, f.Factor[k])
		}
	}
	for i := range out {
		if out[i].Range() {
			continue
		}
		out[i].answer(run.estimand())
	}
	return out
}

// index is the policy of a name, −1 where it is not compared.
func (a *Analysis) index(label string) int {
	return slices.IndexFunc(a.Policies, func(p int) bool { return a.Run.Manifest.Policies[p].Name == label })
}

// answer decides what the intervals say.
func (c *Claim) answer(e infer.Estimand) {
	c.Answer = holds
	if len(c.Each) == 0 {
		c.Answer = tooFewRuns
	}
	for _, x := range c.Each {
		switch {
		case x.R < e.Least():
			c.Answer = tooFewRuns
			return
		case x.Above():
			c.Answer = contradicted
		case !x.Below() && c.Answer == holds:
			c.Answer = openClaim
		}
	}
}

// text is the claim as its author states it.
func (c *Claim) text(e infer.Estimand) Prose {
	if c.Range() {
		return c.rangeText()
	}
	p := say("The ", nounOf(e), " of ", name(c.Less), " is less than ")
	if c.Times != 0 {
		p = say(p, strconv.FormatFloat(c.Times, 'g', -1, 64), " times ")
	}
	p = say(p, "that of ", name(c.Than))
	if c.Environment != "" {
		p = say(p, " in ", name(c.Environment))
	}
	return p
}

// Say states the claim and what the results say of it, with the interval where there is one environment, and the
// environments that decide where there are several.
func (c *Claim) Say(e infer.Estimand) Prose {
	if c.Label == "" {
		return c.said(e)
	}
	return say(c.Label+": ", c.said(e))
}

func (c *Claim) said(e infer.Estimand) Prose {
	if c.Range() {
		return c.sayRange()
	}
	p := say(c.text(e), ": this ", c.Answer)
	var where []string
	for _, x := range c.Each {
		if c.Answer == contradicted && x.Above() || c.Answer == openClaim && !x.Below() {
			where = append(where, x.Environment)
		}
	}
	switch n := len(c.Each); {
	case c.Answer == tooFewRuns:
		return say(p, "; from ", chart.Count(e.Least()), " on it is answered.")
	case n == 1:
		x := c.Each[0]
		if x.Same {
			return say(p, ": the two are the same in ", every(x.R, "replication"), ".")
		}
		if !x.OK {
			return say(p, ": the two differ in too few replications.")
		}
		if c.Times != 0 {
			return say(p, x.quotient(c))
		}
		return say(p, ", the difference is ", x.a.signed(x.Value), " [", x.a.signed(x.Lo), ", ", x.a.signed(x.Hi), "].")
	case len(where) > 0:
		return say(p, " in ", listed(where), ".")
	}
	return say(p, " in ", every(len(c.Each), "environment"), ".")
}

// quotient says what a claim with Times is decided by: the ratio of two estimates that the tables have. Without one that
// has an interval it says which difference is tested.
func (x *ClaimIn) quotient(c *Claim) string {
	three := func(v float64) string { return chart.Number(v, 3) }
	if r := x.Ratio; r.OK {
		return ", the ratio is " + three(r.Value) + " [" + three(r.Lo) + ", " + three(r.Hi) + "]."
	}
	return ", " + c.Less + " less " + strconv.FormatFloat(c.Times, 'g', -1, 64) + " times " + c.Than + " is " + x.a.signed(x.Value) +
		" [" + x.a.signed(x.Lo) + ", " + x.a.signed(x.Hi) + "]."
}

// signed writes a difference of estimates.
func (a *Analysis) signed(v float64) string {
	if a.Estimand == infer.ShareLost {
		if v < 0 {
			return chart.Minus + chart.Percent(-v)
		}
		return chart.Percent(v)
	}
	return chart.Signed(v, a.Dec)
}

// ClaimsSaid are the sentences on all claims, the last one says at which level; nil without claims.
func ClaimsSaid(run *Run) []Prose {
	all := run.Claims()
	if len(all) == 0 {
		return nil
	}
	var out []Prose
	ranges, shown := summedRanges(all), 0
	for i := range all {
		shown += len(all[i].Ranges)
	}
	if shown > fewRanges {
		out = append(out, ranges)
	}
	for i := range all {
		if c := &all[i]; !c.Range() || shown <= fewRanges || c.Answer == contradicted {
			out = append(out, c.Say(run.estimand()))
		}
	}
	level := "The intervals hold for all claims at once (95%)."
	if run.Manifest.Restated {
		level = "The claims or the estimand were written when results were there, so the intervals hold for all " +
			"pairs of " +
			"the run, too (95%)."
		if shown > 0 {
			level += " A range may then have been chosen by the results."
		}
	}
	return append(out, say(level))
}
