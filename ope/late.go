package ope

import "troupe/logged"

// mostLate is how many events wait: the capitals of one comparison, or of one target in one segment, then stay in the
// nearest cache while all of them are added.
const mostLate = 128

// late is what the comparisons of targets and the segments need of the last events. They are added to one capital after
// the other, in their order, so the sums do not depend on it. Memory: 22 KB a target.
type late struct {
	n        int
	law      [mostLate]bool              // the logger's law is known
	sides    [][mostLate]sides           // of each target
	terms    [][mostLate]differenceTerms // of each target
	segments [mostLate]*segmentSums      // with By
}

func newLate(p *plan) late {
	return late{sides: make([][mostLate]sides, len(p.o.Targets)), terms: make([][mostLate]differenceTerms, len(p.o.Targets))}
}

// later keeps an event, whose sides and terms stand at n already.
func (w *worker) later(a *accumulator, ev *logged.Event, index int) error {
	l := &w.late
	l.law[l.n] = ev.Law != nil
	if w.p.o.By != nil {
		s, err := w.segment(a, ev, index)
		if err != nil {
			return err
		}
		l.segments[l.n] = s
	}
	if l.n++; l.n == mostLate {
		l.flush(a)
	}
	return nil
}

// flush adds what waits.
func (l *late) flush(a *accumulator) {
	if a.keep {
		for i, law := range l.law[:l.n] {
			for t := range l.sides {
				if law {
					a.kept = append(a.kept, l.sides[t][i])
				}
			}
		}
	} else {
		for p := range a.pairs {
			d := &a.pairs[p]
			first, second := &l.sides[d.first], &l.sides[d.second]
			for i, law := range l.law[:l.n] {
				if law {
					d.add(&first[i], &second[i])
				}
			}
		}
	}
	for t := range l.terms {
		for i, s := range l.segments[:l.n] {
			if s != nil {
				s.targets[t].add(&l.terms[t][i], l.law[i])
			}
		}
	}
	l.n = 0
}
