package logged

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unrecorded says what to do where propensities were not recorded.
func unrecorded(field string) string {
	if field != "propensity" {
		return ""
	}
	return " (--logger where its law is known, uniform where it was 1/K; evaluate --propensities estimate where it was not recorded)"
}

// Estimate is implemented by laws that are estimated for a log without propensities. Such a log must have none.
type Estimate interface{ Estimated() }

// lawful applies Options.Logger to an event whose actions and propensity are known. A propensity that is not that of the law
// is counted, and the log is refused at its end: which events contradict a law depends on what was played, so that leaving
// them out, or doing without the law only there, would bias every estimate.
func (r *Reader) lawful(e *Event, column int) *Error {
	l := r.o.Logger
	if l == nil || len(e.Slots) > 0 {
		return nil
	}
	if r.o.Unit != "" && e.Unit == "" {
		r.unitOf(e)
	}
	if e.K == 0 {
		return bad("actions", "none", "the number of actions for --logger %s (--actions K)", l.Name())
	}
	law := e.numbers(e.K)
	if err := l.Law(law, e, e.Q); err != nil {
		return bad("law", err.Error(), "an event that --logger %s could decide", l.Name())
	}
	if err := e.checkLaw("law", law, nil); err != nil {
		return bad("law", err.Field+" of --logger "+l.Name()+" "+err.Found, "a law that sums to 1")
	}
	if e.Chosen < 0 || e.Chosen >= e.K {
		return nil // check says so
	}
	p := law[e.Chosen]
	if _, is := l.(Estimate); is {
		if e.Propensity != 0 {
			err := bad("propensity", number(e.Propensity), "none, with --propensities estimate; without it those of the log are taken")
			err.fatal = true
			return err
		}
		e.Law, e.Propensity = law, p
		return nil
	}
	exact, rounded := agrees(e.Propensity, p, &Options{})
	switch {
	case e.Propensity == 0 && p > 0: // the log has none
		r.warn("no propensity to check: the law of --logger " + l.Name() + " is taken as it is")
	case !rounded:
		r.unlawful(e, number(e.Propensity), law, e.Chosen, column)
		return nil
	case !exact:
		e.odd |= oddPropensity
	}
	if e.Law == nil {
		e.Law, e.Propensity = law, p
		return nil
	}
	for a, v := range e.Law {
		if _, same := agrees(v, law[a], &Options{}); !same && v != law[a] {
			r.unlawful(e, "law["+strconv.Itoa(a)+"] "+number(v), law, a, column)
			break
		}
	}
	return nil
}

// unitOf looks for the unit of an event that has none of its own.
func (r *Reader) unitOf(e *Event) {
	if text, ok := e.Feature(r.o.Unit); ok && text != "" {
		e.Unit = strings.Clone(text)
		return
	}
	if r.unitless++; r.unitless == 1 {
		r.paths = e.Features()
	}
	r.warn("an event without a unit counts as one of its own")
}

// unlawful counts an event that contradicts the law, and keeps the first three.
func (r *Reader) unlawful(e *Event, found string, law []float64, at, column int) {
	r.against++
	want := strconv.FormatFloat(law[at], 'g', 6, 64)
	if slices.Max(law) == slices.Min(law) {
		want = "1/" + strconv.Itoa(len(law))
	}
	line, _, row := r.place()
	if r.contradicted == nil {
		r.contradicted = bad("propensity", found, "%s, as --logger %s says", want, r.o.Logger.Name())
		r.contradicted.Line, r.contradicted.Column, r.contradicted.Row = line, column, row
		return
	}
	if len(r.moreAgainst) < 2 {
		where := "line " + strconv.Itoa(line)
		switch {
		case row > 0:
			where = "row " + strconv.Itoa(row)
		case line == 0:
			where = "event " + strconv.Itoa(r.events+1)
		}
		r.moreAgainst = append(r.moreAgainst, where+": "+found+", expected "+want)
	}
}

// contradiction is the error of a log that another logger wrote.
func (r *Reader) contradiction() error {
	err := *r.contradicted
	err.File, err.fatal = r.name, true
	err.Want += fmt.Sprintf(" (%d of %d propensities contradict it", r.against, r.events)
	if len(r.moreAgainst) > 0 {
		err.Want += "; " + strings.Join(r.moreAgainst, "; ")
	}
	err.Want += "): another logger wrote this log, or one that learned; without --logger the propensities alone are used"
	return &err
}
