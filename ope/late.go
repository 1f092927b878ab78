package ope

import "troupe/logged"

// mostLate is how many events wait: their terms are then added to one capital after the other, whose products stay in
// registers.
const mostLate = 128

// lateRows are the terms of the events that wait, for one capital.
type lateRows [mostLate * len(clips)]float64

// lateSides are φ(k) of both sides of a target at the events that wait.
type lateSides struct{ lo, up [mostLate][len(clips)]float64 }

// lateTarget is what waits for one target: its φ(k) and the terms of its difference, below and above.
type lateTarget struct {
	sides  lateSides
	ips    [2][mostLate]float64
	uplift [2][mostLate][len(clips)]float64
	plain  [2][mostLate]float64
	w      [mostLate]float64
	paired [2][mostLate]float64 // DM + w(r − q) − b and (w − 1) r
	apart  [mostLate]float64    // the total variation from the logger
}

// late is what the sequences of targets, the comparisons and the segments need of the last events. They are added to
// one capital after the other, in their order, so the products do not depend on it. Memory: 25 KB a target.
type late struct {
	n        int
	lawful   []int // the events whose logger's law is known
	targets  []lateTarget
	segments [mostLate]*segmentSums // with By
	rows     lateRows
	all      [mostLate]int  // 0, 1, 2, …
	inside   []int          // the events of one segment
	lawfulIn []int          // those of them whose logger's law is known
	law, bad [mostLate]bool // the law is known; the reward is damaged
}

func newLate(p *plan) late {
	l := late{targets: make([]lateTarget, len(p.o.Targets))}
	for i := range l.all {
		l.all[i] = i
	}
	return l
}

// later keeps an event, whose terms stand at n already.
func (w *worker) later(a *accumulator, ev *logged.Event, index int) error {
	l := &w.late
	if w.again {
		return nil
	}
	l.bad[l.n] = ev.BadReward
	if l.law[l.n] = ev.Law != nil; l.law[l.n] {
		l.lawful = append(l.lawful, l.n)
	}
	if w.p.o.By != nil {
		s, err := w.segment(a, ev, index)
		if err != nil {
			return err
		}
		l.segments[l.n] = s
	}
	if l.n++; l.n == mostLate {
		l.flush(w.p, a)
	}
	return nil
}

// flush adds what waits.
func (l *late) flush(p *plan, a *accumulator) {
	if l.n == 0 { // as of lists
		return
	}
	if a.keep {
		for t := range l.targets {
			for _, i := range l.lawful {
				a.kept[t] = append(a.kept[t], sides{l.targets[t].sides.lo[i], l.targets[t].sides.up[i]})
			}
		}
	} else {
		for i := range a.pairs {
			d := &a.pairs[i]
			d.run(&l.targets[d.first].sides, &l.targets[d.second].sides, l.lawful, &l.rows)
		}
	}
	all := l.all[:l.n]
	for t := range l.targets {
		x, ta := &l.targets[t], &a.targets[t]
		l.thin(ta.ips.lower, &x.ips[0], all)
		l.thin(ta.ips.upper, &x.ips[1], all)
		l.thin(ta.weights, &x.w, all)
		for _, d := range x.apart[:l.n] {
			ta.like.add(d)
		}
		if p.needDR {
			l.wide(ta.dr.lower, &x.sides.lo, l.lawful)
			l.wide(ta.dr.upper, &x.sides.up, l.lawful)
		}
		if p.o.By == nil {
			l.difference(x, &ta.uplift, &ta.plain, all, l.lawful)
		}
	}
	if p.o.By != nil {
		l.bySegment()
	}
	l.n, l.lawful = 0, l.lawful[:0]
}

// bySegment adds the terms of the differences to those of the segments.
func (l *late) bySegment() {
	for at := range l.n {
		s := l.segments[at]
		if s == nil {
			continue // with an earlier event
		}
		l.inside, l.lawfulIn = l.inside[:0], l.lawfulIn[:0]
		for i := at; i < l.n; i++ {
			if l.segments[i] != s {
				continue
			}
			l.segments[i] = nil
			l.inside = append(l.inside, i)
			if l.law[i] {
				l.lawfulIn = append(l.lawfulIn, i)
			}
		}
		for t := range l.targets {
			x, y := &l.targets[t], &s.targets[t]
			l.difference(x, &y.uplift, &y.plain, l.inside, l.lawfulIn)
			for _, i := range l.inside {
				y.w1.add(x.w[i])
				y.w2.product(x.w[i], x.w[i])
				y.like.add(x.apart[i])
				if !l.bad[i] {
					y.paired[0].add(x.paired[0][i])
					y.paired[1].add(x.paired[1][i])
				}
			}
		}
	}
}

// difference adds the terms of the difference of a target at some events; lawful are those whose logger's law is known.
func (l *late) difference(x *lateTarget, uplift, plain *twoSided, events, lawful []int) {
	l.thin(plain.lower, &x.plain[0], events)
	l.thin(plain.upper, &x.plain[1], events)
	l.wide(uplift.lower, &x.uplift[0], lawful)
	l.wide(uplift.upper, &x.uplift[1], lawful)
}

// thin adds one term of each event.
func (l *late) thin(c *capital, terms *[mostLate]float64, events []int) {
	most, shift := 0.0, c.shift[0]
	for n, i := range events {
		t := terms[i] + shift
		if t < 0 {
			t = 0
		}
		if l.rows[n] = t; t > most {
			most = t
		}
	}
	c.run(l.rows[:], len(events), most)
}

// wide adds the terms of all k of each event.
func (l *late) wide(c *capital, terms *[mostLate][len(clips)]float64, events []int) {
	most := shiftTerms(&l.rows, terms, (*[len(clips)]float64)(c.shift), events)
	c.run(l.rows[:], len(events), most)
}
