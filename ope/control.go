package ope

import (
	"fmt"
	"math"
	"slices"

	"troupe/internal/decimal"
	"troupe/logged"
)

// ControlLog compares a model with its control group (logged.Event.Control): a fold over the events of a log, in their
// order. With the laws π of the model and c of the control at an event, s the share, μ = (1 − s)·π + s·c the law before the
// group was drawn, w_t = t(a)/μ(a), y the reward in [0, 1], and q the mean of the rewards before it, the means of
//
//	q + w_π(y − q),   q + w_c(y − q),   (w_π − w_c)(y − q)
//
// are what the model earns, what the control group earns, and the difference. They use every decision for both: where the
// model would have played what the control played the decision counts for the model, too. Without it, in the groups alone,
// the variance is never smaller.
//
// The intervals at every look are the log-mixture sequences of doubly robust values with the prediction q ([Sequence],
// docs/design/ope.md). For the difference it is that of the target τ = μ + ½(c − π), a law because s ≤ ½: V_τ − V_μ is
// −½ of the difference at every share, so the share may change on the way. The intervals for a number of decisions that was
// fixed beforehand are those of Options.AtEnd. Where decisions wait for their reward these end before the first early event: what
// follows is there because it was paid.
//
// A decision without a control group, or with one that plays something else, begins the comparison anew.
//
// Of units it takes the first decision under this control of each, and the groups in place of the actions, π = (1, 0),
// c = (0, 1), μ = (1 − s, s): the group of a unit is drawn then, and nothing before has shown it, while what its member of the policy plays
// may be known. What a group's earlier decisions do to later ones is then part of it. [ControlResult.ByUnit] has all
// decisions.
//
// Cost of an event: O(K) and 1,500 products. Memory: O(1), with units 60 bytes for each. Not safe for concurrent use.
type ControlLog struct {
	lo, hi, level float64
	run           controlRun
	before        int // events of earlier comparisons
	lawless       int
	trouble       string // why nothing can be compared

	seen       [2]unitSet // units of decisions with a control, by whether it plays the first action
	laws, half []float64
}

// controlRun is one comparison.
type controlRun struct {
	first          bool
	n, controlled  int
	early          int // events from the first early one on
	share          float64
	changed        bool // the share
	sum            float64
	model, control twoSided
	difference     twoSided
	like           likeness
	ended          *controlEnd
	whole          *controlEnd // from the first early event on
	points         [3]float64  // Σ of the three terms
	units          *controlUnits
	again          int
	plan           ControlPlan
	final          int // events before the first early one
}

// controlEnd is the intervals for a fixed n.
type controlEnd struct{ model, control, difference twoEnd }

// NewControlLog returns an empty comparison of rewards in [lo, hi], with intervals of this level, such as .95. It panics
// unless lo < hi.
func NewControlLog(lo, hi, level float64) *ControlLog {
	if !(lo < hi) {
		panic("ope: a comparison with a control group needs a range of rewards")
	}
	return &ControlLog{lo: lo, hi: hi, level: level}
}

// Begun reports whether an event had a control group.
func (c *ControlLog) Begun() bool {
	return c.run.n > 0 || c.before > 0 || c.run.again > 0 || c.lawless > 0
}

// begin makes a new comparison.
func (c *ControlLog) begin(first bool, share float64) {
	alpha := (1 - c.level) / 2
	var shift []float64
	for _, k := range clips {
		shift = append(shift, k+2)
	}
	c.before += c.run.n + c.run.again
	c.run = controlRun{first: first, share: share, model: newTwoSided(clips[:]...), control: newTwoSided(clips[:]...),
		difference: newTwoSided(shift...),
		ended:      &controlEnd{newTwoEnd(alpha, clips[:]...), newTwoEnd(alpha, clips[:]...), newTwoEnd(alpha, shift...)}}
}

// Add takes an event. Its reward is cut to the range.
func (c *ControlLog) Add(e *logged.Event) {
	g := e.Control
	switch {
	case len(e.Slots) > 0 || e.BadReward:
		c.trouble = "the log has lists, or damaged rewards"
		return
	case g == nil:
		if c.run.n > 0 {
			c.before += c.run.n + c.run.again
			c.run = controlRun{}
		}
		return
	case c.run.model.lower == nil || c.run.first != g.First:
		c.begin(g.First, g.Share)
	}
	if e.Law == nil && e.Unit == "" {
		c.lawless++
		return
	}
	r := &c.run
	r.changed = r.changed || r.share != g.Share
	y := min(1, max(0, (e.Reward-c.lo)/(c.hi-c.lo)))
	if e.Unit != "" {
		if r.units == nil {
			r.units = &controlUnits{}
		}
		r.units.add(e.Unit, g.In, y)
		k := 0
		if g.First {
			k = 1
		}
		if c.seen[k].before(e.Unit) || e.Again {
			r.again++
			return
		}
	} else if r.units != nil {
		c.trouble = "some decisions have a unit and others none"
	}
	if r.n++; g.In {
		r.controlled++
	}
	c.terms(e, y)
	r.sum += y
}

// terms adds the terms of an event to the sequences.
func (c *ControlLog) terms(e *logged.Event, y float64) {
	r, law, chosen := &c.run, e.Law, e.Chosen
	if cap(c.laws) < 2*len(law) {
		c.laws = make([]float64, 0, 2*len(law))
	}
	var pi, own []float64
	if e.Unit == "" {
		pi, own = e.Control.Groups(c.laws, law)
	} else {
		pi, own, law, chosen = []float64{1, 0}, []float64{0, 1}, []float64{1 - e.Control.Share, e.Control.Share}, 0
		if e.Control.In {
			chosen = 1
		}
	}
	c.half = sized(c.half, len(law))
	for a, p := range law {
		c.half[a] = max(0, p+(own[a]-pi[a])/2)
	}
	q := (.5 + r.sum) / float64(r.n) // r.n counts this event
	if e.Early && r.early == 0 {
		r.whole = &controlEnd{r.ended.model.clone(), r.ended.control.clone(), r.ended.difference.clone()}
	}
	end := r.ended
	if r.early > 0 || e.Early {
		r.early++
		end = r.whole
	} else {
		r.final++
	}
	var lo, up [len(clips)]float64
	value := func(t []float64, s *twoSided, end *twoEnd, point *float64) float64 {
		w, second := t[chosen]/law[chosen], 0.0
		for a, p := range law {
			if p > 0 {
				second += t[a] * t[a] / p
			}
		}
		clippedTerms(&lo, t, law, chosen, y, q)
		clippedTerms(&up, t, law, chosen, 1-y, 1-q)
		if s == &r.difference {
			for k := range clips {
				lo[k], up[k] = lo[k]-y, up[k]-(1-y)
			}
		}
		s.lower.add(lo[:])
		s.upper.add(up[:])
		end.lower.add(lo[:], second, y)
		end.upper.add(up[:], second, 1-y)
		*point += q + float64(w*(y-q))
		return w
	}
	wm := value(pi, &r.model, &end.model, &r.points[0])
	wc := value(own, &r.control, &end.control, &r.points[1])
	none := 0.0
	value(c.half, &r.difference, &end.difference, &none)
	r.points[2] += float64((wm - wc) * (y - q))
	r.like.add(variation(c.half, law))
	r.plan.add(law, c.half, y, e.Time)
}

// clippedTerms are φ(k) of a reward and a constant prediction, as in worker.clipped.
func clippedTerms(dst *[len(clips)]float64, target, law []float64, chosen int, y, q float64) {
	w := target[chosen] / law[chosen]
	dst[0] = float64(w * y)
	for k := 1; k < len(clips); k++ {
		s := 0.0
		for a, p := range law {
			s += min(float64(target[a]*q), float64(clips[k]*p))
		}
		if dst[k] = s; w > 0 {
			dst[k] += float64(w * (y - min(q, clips[k]/w)))
		}
	}
}

// ControlValue is what a group earns a decision, or the difference, in units of the rewards.
type ControlValue struct {
	Mean  float64 `json:"mean" doc:"estimate"`
	Every Pair    `json:"at_every_look" doc:"interval that holds at every look"`
	AtEnd *Pair   `json:"for_this_n" doc:"interval for a number of decisions that was fixed beforehand, in a world that does not change; null where there is none"`
}

// ControlResult compares a model with its control group.
type ControlResult struct {
	Decisions  int          `json:"decisions" doc:"that are compared; of units the first decision of each"`
	Controlled int          `json:"controlled" doc:"of these, decisions of the control group"`
	Share      float64      `json:"share" doc:"share of the control group, of the first of them"`
	Plays      string       `json:"plays" enum:"uniform,first" doc:"what the control group plays"`
	Model      ControlValue `json:"model" doc:"what a decision of the model earns"`
	Control    ControlValue `json:"control" doc:"what a decision of the control group earns"`
	Difference ControlValue `json:"difference" doc:"model less control"`
	Ended      int          `json:"decisions_for_this_n" doc:"decisions behind for_this_n: where decisions wait for a reward, those before the first whose window is open"`
	Settled    string       `json:"settled" enum:"better,worse,no" doc:"what the interval at every look says of the model"`
	Sentence   string       `json:"sentence" doc:"the comparison in words"`
	Before     int          `json:"before" doc:"decisions of earlier comparisons, with another control or none behind them"`
	Lawless    int          `json:"lawless" doc:"decisions without a recorded law, which are left out"`
	Again      int          `json:"again" doc:"later decisions of units"`
	ByUnit     *UnitGroups  `json:"by_unit,omitempty" doc:"of a model with units: all decisions, by the groups of their units"`
}

// clone returns a copy.
func (t *twoEnd) clone() twoEnd { return twoEnd{t.lower.clone(), t.upper.clone()} }

func (s *endSide) clone() *endSide {
	c := *s
	c.bets = slices.Clone(s.bets)
	for i := range c.bets {
		c.bets[i].spans = slices.Clone(s.bets[i].spans)
	}
	return &c
}

// Result returns the comparison. pending says that decisions behind those that were added, or between them, wait for their
// reward. why says why there is none, "" where there is one.
func (c *ControlLog) Result(pending bool) (r *ControlResult, why string) {
	x := &c.run
	switch {
	case c.trouble != "":
		return nil, c.trouble
	case x.n == 0 && c.before > 0:
		return nil, "the newest decisions have no control group"
	case x.n == 0:
		return nil, "no decision with a final reward has a control group"
	}
	scale, n := c.hi-c.lo, float64(x.n)
	r = &ControlResult{Decisions: x.n, Controlled: x.controlled, Share: x.share, Plays: "uniform", Ended: x.final,
		Before: c.before, Lawless: c.lawless, Again: x.again, Settled: "no"}
	if x.first {
		r.Plays = "first"
	}
	ends := x.ended
	if x.early > 0 && !pending {
		ends, r.Ended = x.whole, x.n
	}
	value := func(s *twoSided, end *twoEnd, sum float64) (v ControlValue, err error) {
		lo, hi, err := s.value(c.level)
		if err != nil {
			return v, err
		}
		v.Every = Pair{c.lo + float64(scale*lo), c.lo + float64(scale*hi)}
		v.Mean = within(c.lo+float64(scale*(sum/n)), v.Every)
		if lo, hi = end.lower.bound(0, 1), 1-end.upper.bound(0, 1); lo <= hi && r.Ended > 0 {
			v.AtEnd = &Pair{c.lo + float64(scale*lo), c.lo + float64(scale*hi)}
		}
		return v, nil
	}
	var err error
	if r.Model, err = value(&x.model, &ends.model, x.points[0]); err != nil {
		return nil, err.Error()
	}
	if r.Control, err = value(&x.control, &ends.control, x.points[1]); err != nil {
		return nil, err.Error()
	}
	lo, hi, err := x.difference.difference(c.level)
	var p Pair
	if err == nil {
		p, err = cut(lo, hi, x.like.most(x.n))
	}
	if err != nil {
		return nil, err.Error()
	}
	d := &r.Difference
	twice := func(p Pair) Pair {
		return Pair{max(-scale, -2*scale*p[1]), min(scale, -2*scale*p[0])}
	}
	d.Every = twice(p)
	d.Mean = within(scale*(x.points[2]/n), d.Every)
	e := &ends.difference
	if p, err := cut(e.lower.bound(-1, 1), -e.upper.bound(-1, 1), x.like.most(x.n)); err == nil && r.Ended > 0 {
		p = twice(p)
		d.AtEnd = &p
	}
	switch {
	case d.Every[0] > 0:
		r.Settled = "better"
	case d.Every[1] < 0:
		r.Settled = "worse"
	}
	if x.units != nil && x.units.shared() {
		r.ByUnit = x.units.result(c.lo, scale, c.level, x.changed)
	}
	r.Sentence = r.say()
	return r, ""
}

// Plan says how many decisions of this kind settle a difference, in units of reward; 0: a tenth of what a decision earns.
func (c *ControlLog) Plan(difference float64) (*ControlPlanned, error) {
	return c.run.plan.Plan(c.run.share, difference, math.NaN(), c.lo, c.hi, c.level)
}

// say is the comparison in a sentence.
func (r *ControlResult) say() string {
	s := func(v float64) string { return decimal.Short(v, 3) }
	d := &r.Difference
	switch r.Settled {
	case "better":
		return fmt.Sprintf("The model earns %s more a decision than its control group, between %s and %s.", s(d.Mean), s(d.Every[0]),
			s(d.Every[1]))
	case "worse":
		return fmt.Sprintf("The model earns %s less a decision than its control group, between %s and %s.", s(-d.Mean), s(-d.Every[1]),
			s(-d.Every[0]))
	}
	if d.AtEnd != nil && (d.AtEnd[0] > 0 || d.AtEnd[1] < 0) {
		word := "more"
		if d.AtEnd[1] < 0 {
			word = "less"
		}
		return fmt.Sprintf("Whether the model earns more than its control group is not settled at every look (between %s and %s); "+
			"if %d decisions were fixed beforehand, it earns %s, between %s and %s.", s(d.Every[0]), s(d.Every[1]), r.Ended, word,
			s(d.AtEnd[0]), s(d.AtEnd[1]))
	}
	return fmt.Sprintf("Whether the model earns more than its control group is not settled: the difference is between %s and %s.",
		s(d.Every[0]), s(d.Every[1]))
}

// UnitGroups compares all decisions of the units in the groups, as an A/B test does: mean rewards of decisions, with errors
// of units (Liang & Zeger 1986). What an earlier decision of a unit does to its later ones counts for its group. The
// intervals are normal: right for many units, looked at once.
type UnitGroups struct {
	Units      [2]int  `json:"units" doc:"of the model and of the control group"`
	Decisions  [2]int  `json:"decisions" doc:"of these"`
	Model      float64 `json:"model" doc:"mean reward of a decision"`
	Control    float64 `json:"control" doc:"mean reward of a decision"`
	Difference float64 `json:"difference" doc:"model less control"`
	Normal     *Pair   `json:"normal" doc:"normal interval of the difference, by units; null with fewer than 100 of them in a group"`
	Why        string  `json:"why,omitempty" doc:"why there is no comparison, or no interval"`
}

// controlUnits adds up what units earn.
type controlUnits struct {
	at     map[uint64]int32 // place in of, by hash
	of     []unitGroup
	events int
	full   bool
}

type unitGroup struct {
	sum float64
	n   int32
	in  bool
}

func (u *controlUnits) add(unit string, in bool, y float64) {
	if u.at == nil {
		u.at = map[uint64]int32{}
	}
	u.events++
	h := hashUnit(unit)
	k, is := u.at[h]
	if !is {
		if len(u.of) >= mostUnits {
			u.full = true
			return
		}
		k = int32(len(u.of))
		u.at[h], u.of = k, append(u.of, unitGroup{in: in})
	}
	u.of[k].sum += y
	u.of[k].n++
}

func (u *controlUnits) shared() bool { return u.full || u.events > len(u.of) }

func (u *controlUnits) result(lo, scale, level float64, changed bool) *UnitGroups {
	r := &UnitGroups{}
	switch {
	case u.full:
		r.Why = fmt.Sprintf("more than %d units", mostUnits)
		return r
	case changed:
		r.Why = "the share of the control group changed on the way, so the groups had different times"
		return r
	}
	var mean, variance [2]float64
	side := func(g unitGroup) int {
		if g.in {
			return 1
		}
		return 0
	}
	for _, g := range u.of {
		k := side(g)
		r.Units[k]++
		r.Decisions[k] += int(g.n)
		mean[k] += g.sum
	}
	if r.Units[0] == 0 || r.Units[1] == 0 {
		r.Why = "one group has no unit yet"
		return r
	}
	for k := range mean {
		mean[k] /= float64(r.Decisions[k])
	}
	for _, g := range u.of {
		k := side(g)
		d := (g.sum - float64(mean[k]*float64(g.n))) / float64(r.Decisions[k])
		variance[k] += float64(d * d)
	}
	for k := range variance {
		n := float64(r.Units[k])
		variance[k] *= n / max(1, n-1)
	}
	r.Model, r.Control = lo+float64(scale*mean[0]), lo+float64(scale*mean[1])
	r.Difference = r.Model - r.Control
	if min(r.Units[0], r.Units[1]) < fewUnits {
		r.Why = fmt.Sprintf("a normal interval needs %d units in each group", fewUnits)
		return r
	}
	half := float64(scale*normalQuantile((1+level)/2)) * math.Sqrt(variance[0]+variance[1])
	r.Normal = &Pair{r.Difference - half, r.Difference + half}
	return r
}
