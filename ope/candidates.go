package ope

import (
	"cmp"
	"fmt"
	"slices"
)

// MostTargets is how many targets one evaluation takes.
const MostTargets = 200

// allPairs is the largest number of targets whose pairs are all followed. With more of them every target is compared
// with a few references.
const allPairs = 16

// references is how many targets the others are compared with, and firstPairs after how many events they are chosen.
const (
	references = 4
	firstPairs = 512
)

// Candidates is the set of targets that may still be the best one.
//
// For the best target each comparison that could take it out is one of K − 1, and each holds at every look with
// probability 1 − α/(K − 1). So the best one is out at some look with probability at most α, and which comparisons are
// looked at may be chosen by the data.
type Candidates struct {
	Best []string    `json:"best"` // in the order of Result.Ranking
	Rows []Candidate `json:"rows"` // of all targets, those of Best first, in the order of Result.Ranking
}

// Candidate is one target among several.
type Candidate struct {
	Name string `json:"name"`
	Best bool   `json:"best"` // it may be
	// Against is the target that took it out, else the one with the largest value; Sequence is the interval of this
	// one minus that, at the level of the set.
	Against  string `json:"against,omitempty"`
	Sequence *Pair  `json:"sequence"`
	Why      string `json:"why"`
}

// duel is the differences of two targets, first minus second.
type duel struct {
	first, second int
	seq           twoSided
	like          likeness
}

func newDuel(first, second int) duel {
	var shift []float64
	for _, k := range clips {
		shift = append(shift, 2*k+1)
	}
	return duel{first: first, second: second, seq: newTwoSided(shift...)}
}

// difference is the interval of a difference in [−1, 1] over n events: exactly 0 of two targets with one law.
func (d *duel) difference(level float64, n int) (Pair, error) {
	lo, hi, err := d.seq.difference(level)
	if err != nil {
		return Pair{}, err
	}
	return cut(lo, hi, d.like.most(n))
}

// everyPair lists the pairs of n targets.
func everyPair(n int) (out [][2]int) {
	for i := range n {
		for j := range i {
			out = append(out, [2]int{j, i})
		}
	}
	return out
}

// run adds events:
//
//	ψ(k) = φ(k) of the first + φ'(k) of the second − 1 ≥ −(2k + 1), of mean at most V¹ − V²,
//
// φ' the process of 1 − r and 1 − q.
func (d *duel) run(first, second *lateSides, events []int, rows *lateRows) {
	shift := (*[len(clips)]float64)(d.seq.lower.shift)
	d.seq.lower.run(rows[:], len(events), duelTerms(rows, &first.lo, &second.up, shift, events))
	d.seq.upper.run(rows[:], len(events), duelTerms(rows, &second.lo, &first.up, shift, events))
}

// sides are φ(k) of both sides of a target at one event.
type sides struct{ lo, up [len(clips)]float64 }

// choose picks the references, those with the largest values so far, and adds the events before.
// Choosing by the data is allowed: for the best target all of its comparisons hold together.
func (e *engine) choose() {
	a, T := e.sums.total, len(e.p.o.Targets)
	e.sums.addSegments()
	order := e.sums.byValue()
	for _, r := range order[:references] {
		for t := range T {
			if t == r || slices.ContainsFunc(a.pairs, func(d duel) bool { return d.first == t && d.second == r }) {
				continue
			}
			e.duels = append(e.duels, [2]int{r, t})
			d := newDuel(r, t)
			i, j := max(r, t), min(r, t)
			d.like = a.near[i*(i-1)/2+j]
			a.pairs = append(a.pairs, d)
		}
	}
	l := newLate(e.p)
	for at := 0; at < len(a.kept[0]); at += mostLate {
		n := min(mostLate, len(a.kept[0])-at)
		for t := range l.targets {
			for i, x := range a.kept[t][at : at+n] {
				l.targets[t].sides.lo[i], l.targets[t].sides.up[i] = x.lo, x.up
			}
		}
		for i := range a.pairs {
			d := &a.pairs[i]
			d.run(&l.targets[d.first].sides, &l.targets[d.second].sides, l.all[:n], &l.rows)
		}
	}
	a.kept, a.near, a.keep, e.chosen = nil, nil, false, true
}

// byValue orders the targets by the value of their difference to what ran, the largest first, and those with one value
// as they were given: the one order of Result.Ranking and of the candidates.
func (e *evidence) byValue() (order []int) {
	values := make([]float64, len(e.p.o.Targets))
	for t := range values {
		values[t] = e.differenceValue(t)
		order = append(order, t)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
	return order
}

// differenceValue is the value of the difference of a target to what ran: the plain paired mean, moved to the nearest
// end of its interval where it lies outside.
func (e *evidence) differenceValue(t int) float64 {
	ta := &e.total.targets[t]
	v := e.plainDifference(ta)
	if p, err := e.differenceOf(ta).at(e.p.level); err == nil {
		v = within(v, p)
	}
	return v
}

// candidates makes the set of the targets that may be best.
func (e *evidence) candidates() *Candidates {
	p, T, scale := e.p, len(e.p.o.Targets), e.pairScale()
	level := 1 - (1-p.level)/float64(T-1)
	type met struct {
		pair Pair
		ok   bool
	}
	between := map[[2]int]met{}
	for i := range e.total.pairs {
		d := &e.total.pairs[i]
		x, err := d.difference(level, e.total.once())
		between[[2]int{d.first, d.second}] = met{Pair{scale * x[0], scale * x[1]}, err == nil}
		between[[2]int{d.second, d.first}] = met{Pair{0 - scale*x[1], 0 - scale*x[0]}, err == nil}
	}
	order := e.byValue()
	name := func(t int) string { return p.o.Targets[t].Name() }
	out := &Candidates{Best: []string{}}
	var gone []Candidate
	leader := -1
	for _, t := range order {
		by, worst := -1, Pair{}
		for _, s := range order {
			if m := between[[2]int{t, s}]; m.ok && m.pair[1] < 0 && (by < 0 || m.pair[1] < worst[1]) {
				by, worst = s, m.pair
			}
		}
		if by >= 0 {
			gone = append(gone, Candidate{Name: name(t), Against: name(by), Sequence: &worst,
				Why: name(by) + " is better, by " + e.amountOver(-worst[1], -worst[0], t)})
			continue
		}
		row := Candidate{Name: name(t), Best: true, Why: "the largest value so far"}
		if leader < 0 {
			leader = t
		} else if row.Why = "not told apart"; between[[2]int{t, leader}].ok {
			m := between[[2]int{t, leader}]
			row.Against, row.Sequence = name(leader), &m.pair
			row.Why = "not told apart from " + name(leader)
			if one(&m.pair, scale) {
				row.Why = "the law of " + name(leader) + " in every decision"
			}
		}
		out.Best = append(out.Best, row.Name)
		out.Rows = append(out.Rows, row)
	}
	out.Rows = append(out.Rows, gone...)
	return out
}

// one reports whether the interval of a difference is that of two targets with one law.
func one(p *Pair, scale float64) bool { return p[1]-p[0] <= 2*sameLaw*scale }

// pairScale is what the difference of two targets in [−1, 1] is a multiple of.
func (e *evidence) pairScale() float64 {
	if e.p.lists {
		return e.p.scale * float64(e.total.targets[0].lists.logged.slots)
	}
	return e.p.scale
}

// amountOver says a difference to target t, per cent of its own value.
func (e *evidence) amountOver(lo, hi float64, t int) string {
	ta, p := &e.total.targets[t], e.p
	if p.lists {
		v, _ := ta.lists.terms[ta.basis].mean.estimate()
		return amount(lo, hi, v)
	}
	seq, key := &ta.ips, "ips"
	if p.needDR {
		seq, key = &ta.dr, "dr"
	}
	v, _, _, _ := ta.m.plainEstimate(key)
	if s, err := p.sequence(seq); err == nil {
		v = within(v, *s)
	}
	return amount(lo, hi, v)
}

// noPairs says why targets are not compared with each other, "" when they are.
func (e *evidence) noPairs() string {
	switch no := e.noSequence(); {
	case e.p.lists && len(e.p.o.Targets) > allPairs:
		return fmt.Sprintf("those of lists are compared where there are at most %d", allPairs)
	case e.p.lists && e.total.targets[0].lists.logged.slots != e.total.targets[0].lists.logged.least:
		return "lists of several lengths"
	case e.total.noLaw > 0 && !e.p.lists:
		return "the log does not have the logger's whole law"
	case no != "":
		return no
	case e.cross != nil:
		return crossReason
	case !e.p.rewards.known():
		return bothEnds
	}
	return ""
}

// tooMany refuses more targets than an evaluation takes, and two with one name.
func tooMany(targets []Target) error {
	if len(targets) > MostTargets {
		return fmt.Errorf("%d targets, expected at most %d", len(targets), MostTargets)
	}
	seen := map[string]bool{}
	for _, t := range targets {
		if seen[t.Name()] {
			return fmt.Errorf("two targets have the name %s", t.Name())
		}
		seen[t.Name()] = true
	}
	return nil
}
