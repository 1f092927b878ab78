package ope

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	"troupe/logged"
)

// Decisions of one unit (logged.Event.Unit) depend on each other: they share the draw of a policy. Units are
// independent, so where a log has units an error adds up what the events of a unit have in common first:
//
//	se² = G/(G − 1) · Σ_g (Σ_{i∈g} v_i cᵀu_i)² / N²,
//
// G the number of units, cᵀu the linearised estimator (Liang & Zeger 1986, for a mean). An event without a unit is one
// of its own. Where each unit has one event the errors are those of independent events.

// A sequence takes the first decision of each unit. Its action is drawn anew given all that came before, so everything that
// holds of a log whose decisions have draws of their own holds of these, for loggers that learn and for drift, too. The
// later decisions of a unit cannot be bet on: when the first one is seen, so is the draw, and what the later ones play is known
// beforehand. An average of a unit's decisions with weights that are fixed when it appears has as many draws, and a smaller
// variance where rewards vary much within a unit; it holds at every look only if what has not come yet counts as the worst case,
// and for loggers that do not learn.

// unitSet is the units that had an event, by 64-bit hashes: 16 bytes each, about. Two different ones of 10⁷ share a hash
// with probability below 10⁻⁵.
type unitSet map[uint64]struct{}

// before reports whether a unit had an event before, and remembers it. "" is none.
func (s *unitSet) before(unit string) bool {
	if unit == "" {
		return false
	}
	if *s == nil {
		*s = unitSet{}
	}
	h := hashUnit(unit)
	_, is := (*s)[h]
	if !is {
		(*s)[h] = struct{}{}
	}
	return is
}

func hashUnit(unit string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(unit))
	return h.Sum64()
}

// once is how many events the sequences take.
func (a *accumulator) once() int { return a.n - a.again }

// same is how far apart the values of a target and of the logger are at most, over all events: likeness.most.
func (e *evidence) same(ta *targetSums) float64 {
	if ta.unlike {
		return math.Inf(1)
	}
	return ta.like.most(e.total.once())
}

// mostUnits bounds the units that are told apart, over all targets: about 150 bytes each.
const mostUnits = 1 << 20

// fewUnits is how many units a normal interval needs.
const fewUnits = 100

// units is what the events with a unit add up to.
type units struct {
	at     map[string]int // place in sums, in the order of first appearance
	names  []string
	sums   []unitSums
	events int     // with a unit
	own    moments // of these events, each for itself
	most   int     // units that are told apart
	full   bool    // there were more
}

// unitSums are of one unit: Σ v u, and Σ v of the events with a prediction.
type unitSums struct {
	u         [variables]float64
	predicted float64
}

// add takes an event. Without variables (a damaged reward) it counts and adds nothing.
func (c *units) add(name string, v float64, u *[variables]float64, known bool) {
	c.events++
	k := c.place(name)
	if u == nil || c.full {
		return
	}
	c.own.add(v, u)
	s := &c.sums[k]
	for i, x := range u {
		s.u[i] += float64(v * x)
	}
	if known {
		c.own.predicts(v)
		s.predicted += v
	}
}

// place returns where a unit stands in sums.
func (c *units) place(name string) int {
	k, ok := c.at[name]
	switch {
	case ok:
		return k
	case c.full || len(c.names) >= c.most:
		c.full = true
		c.at, c.names, c.sums = nil, nil, nil
		return -1
	case c.at == nil:
		c.at = map[string]int{}
	}
	name = strings.Clone(name)
	k = len(c.names)
	c.at[name], c.names, c.sums = k, append(c.names, name), append(c.sums, unitSums{})
	return k
}

// merge adds the units of the events that come next.
func (c *units) merge(o *units) {
	c.events += o.events
	if c.full = c.full || o.full; c.full {
		c.at, c.names, c.sums = nil, nil, nil
		return
	}
	c.own.merge(&o.own)
	for i, name := range o.names {
		k := c.place(name)
		if c.full {
			return
		}
		s, t := &c.sums[k], &o.sums[i]
		for j, x := range t.u {
			s.u[j] += x
		}
		s.predicted += t.predicted
	}
}

// shared reports whether a unit has more than one event.
func (c *units) shared() bool { return c.full || c.events > len(c.names) }

// groups returns G of n events that are not damaged.
func (c *units) groups(n int) int {
	n -= c.own.n
	for g := range c.sums {
		if c.sums[g].u[vOne] > 0 {
			n++
		}
	}
	return n
}

// robust returns the moments of a target, m, with the second moments of units in place of those of events.
func (c *units) robust(m *moments) moments {
	out := *m
	out.seenDM = out.second(vOne, vDM)
	less := func(s *sum, x sum) { s.merge(sum{-x.hi, -x.lo}) }
	for i := range out.pair {
		less(&out.pair[i], c.own.pair[i])
	}
	less(&out.seenSq, c.own.seenSq)
	less(&out.seenDM, c.own.second(vOne, vDM))
	out.groups, out.seenGroups = c.groups(m.n), m.predicted-c.own.predicted
	for g := range c.sums {
		s := &c.sums[g]
		k := 0
		for i, x := range s.u {
			for _, y := range s.u[:i+1] {
				out.pair[k].product(x, y)
				k++
			}
		}
		out.seenSq.product(s.predicted, s.predicted)
		out.seenDM.product(s.predicted, s.u[vDM])
		if s.predicted > 0 {
			out.seenGroups++
		}
	}
	return out
}

// Why intervals that need independent events are not given.
const (
	sharedDraw  = "lists of one unit share a draw: the sequence needs a draw of its own for each"
	sharedError = "no interval: decisions of one unit depend on each other, and this estimator has no error that counts " +
		"units"
	unitsWarning = "decisions of one unit depend on each other: normal intervals count units, and the intervals that hold take " +
		"the first decision of each"
)

var tooManyUnits = fmt.Sprintf("more than %d units: they are not told apart", mostUnits)

// unitsOf returns the units of a log, nil where it has none.
func (a *accumulator) unitsOf() *units {
	for t := range a.targets {
		if u := a.targets[t].units; u != nil {
			return u
		}
	}
	return a.loggerUnits
}

// dependent reports whether decisions of one unit are in the log.
func (a *accumulator) dependent() bool {
	u := a.unitsOf()
	return u != nil && u.shared()
}

// unit adds an event to the units at place of a target, or of the log without a target.
func (p *plan) unit(at **units, name string, v float64, u *[variables]float64, known bool) {
	if name == "" {
		return
	}
	if *at == nil {
		*at = &units{most: max(mostUnits/max(len(p.o.Targets), 1), 1)}
	}
	(*at).add(name, v, u, known)
}

// mergeUnits adds those of the next events.
func mergeUnits(at **units, next *units) {
	switch {
	case next == nil:
	case *at == nil:
		*at = next
	default:
		(*at).merge(next)
	}
}

// byUnit replaces the moments that errors are computed from by those of units. What needs those of events keeps them in
// single.
func (e *evidence) byUnit() {
	a := e.total
	for t := range a.targets {
		ta := &a.targets[t]
		ta.single = ta.m
		if u := ta.units; u != nil && u.shared() && !u.full {
			ta.m = u.robust(&ta.m)
		}
	}
	if u := a.loggerUnits; u != nil && u.shared() && !u.full {
		a.logger = u.robust(&a.logger)
	}
}

// doubtUnits says why too few units carry a normal interval, "" where they are enough.
func (e *evidence) doubtUnits() string {
	u := e.total.unitsOf()
	if u == nil || !u.shared() || u.full {
		return ""
	}
	if g := u.groups(e.total.n - e.total.damaged); g < fewUnits {
		return fmt.Sprintf("%d units, expected %d at least", g, fewUnits)
	}
	return ""
}

// round numbers an event for the bootstrap, which draws units.
func round(ev *logged.Event, index int) uint64 {
	if ev.Unit == "" {
		return uint64(index)
	}
	return hashUnit(ev.Unit)
}

// byUnits takes back what a row says as if decisions of one unit were independent: robust says that its error is that
// of units.
func (r *answerRow) byUnits(robust bool) {
	u := r.e.total.unitsOf()
	if u == nil || !u.shared() {
		return
	}
	none := r.Normal == nil && r.Interval == nil && r.SE == nil
	switch {
	case u.full:
		r.SE, r.Normal, r.Interval = nil, nil, nil
		r.why(tooManyUnits)
	case none || r.Estimator == "bootstrap": // it draws units
	case !robust:
		r.SE, r.Normal, r.Interval = nil, nil, nil
		r.why(sharedError)
	}
}
