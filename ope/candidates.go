package ope

import (
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
	Best []string    `json:"best"` // the largest own point of the difference first
	Rows []Candidate `json:"rows"` // of all targets, those of Best first
}

// Candidate is one target among several.
type Candidate struct {
	Name string `json:"name"`
	Best bool   `json:"best"` // it may be
	// Against is the target that took it out, else the one with the largest own point; Sequence is the interval of this
	// one minus that, at the level of the set.
	Against  string `json:"against,omitempty"`
	Sequence *Pair  `json:"sequence"`
	Why      string `json:"why"`
}

// duel is the differences of two targets, first minus second.
type duel struct {
	first, second int
	seq           twoSided
}

func newDuel(first, second int) duel {
	var shift []float64
	for _, k := range clips {
		shift = append(shift, 2*k+1)
	}
	return duel{first, second, newTwoSided(shift...)}
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

// choose picks the references, those with the largest own points of the difference so far, and adds the events before.
// Choosing by the data is allowed: for the best target all of its comparisons hold together.
func (e *engine) choose() {
	a, T := e.total, len(e.p.o.Targets)
	e.addSegments()
	order := e.byPoint()
	for _, r := range order[:references] {
		for t := range T {
			if t == r || slices.ContainsFunc(a.pairs, func(d duel) bool { return d.first == t && d.second == r }) {
				continue
			}
			e.duels = append(e.duels, [2]int{r, t})
			a.pairs = append(a.pairs, newDuel(r, t))
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
	a.kept, a.keep, e.chosen = nil, false, true
}

// byPoint orders the targets by the own point of their difference, the largest first.
func (e *engine) byPoint() []int {
	points := make([]float64, len(e.p.o.Targets))
	order := make([]int, len(points))
	for t := range points {
		order[t], points[t] = t, e.total.targets[t].uplift.centre(0, -1, 1)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case points[a] > points[b]:
			return -1
		case points[a] < points[b]:
			return 1
		}
		return 0
	})
	return order
}

// candidates makes the set of the targets that may be best.
func (e *engine) candidates() *Candidates {
	p, T := e.p, len(e.p.o.Targets)
	level := 1 - (1-p.level)/float64(T-1)
	type met struct {
		pair Pair
		ok   bool
	}
	between := map[[2]int]met{}
	for i := range e.total.pairs {
		d := &e.total.pairs[i]
		lo, hi, err := d.seq.difference(level)
		between[[2]int{d.first, d.second}] = met{Pair{p.scale * lo, p.scale * hi}, err == nil}
		between[[2]int{d.second, d.first}] = met{Pair{-p.scale * hi, -p.scale * lo}, err == nil}
	}
	order := e.byPoint()
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
		}
		out.Best = append(out.Best, row.Name)
		out.Rows = append(out.Rows, row)
	}
	out.Rows = append(out.Rows, gone...)
	return out
}

// amountOver says a difference to target t, per cent of its own value where the sequence of its value has a point.
func (e *engine) amountOver(lo, hi float64, t int) string {
	ta, p := &e.total.targets[t], e.p
	seq := &ta.ips
	if p.needDR {
		seq = &ta.dr
	}
	return amount(lo, hi, p.min+p.scale*seq.centre(1, 0, 1))
}

// noPairs says why targets are not compared with each other, "" when they are.
func (e *engine) noPairs() string {
	switch no := e.noSequence(); {
	case e.p.lists:
		return "lists of slots"
	case e.total.noLaw > 0:
		return "the log does not have the logger's whole law"
	case no != "":
		return no
	case e.cross != nil:
		return crossReason
	case !e.p.rewards.whole():
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
