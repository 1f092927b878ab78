package decide

import (
	"fmt"
	"time"

	"troupe/serve/choose"
	"troupe/serve/fault"
)

// checkWork refuses a decision that takes longer than a call may, from sizes alone.
func checkWork(limit time.Duration, v *choose.Version, r *Request) error {
	q := r.candidates()
	took := r.listWork(q.Work(v.Compiled, r.Explain))
	if limit <= 0 || took <= limit {
		return nil
	}
	l := q.Load(v.Compiled)
	return &fault.Error{Code: fault.TooLarge, Field: "actions", Value: took.String(),
		Want: fmt.Sprintf("a choice among %s%s takes about %v of a processor, and %v are allowed (--max-work of the server); send fewer "+
			"actions or features, or use a model with fewer members", sizes(v, l.Actions, l.Context, l.Own), forList(r), round(took), limit)}
}

// listWork is the estimated work of a list: k decisions.
func (r *Request) listWork(one time.Duration) time.Duration {
	return time.Duration(r.positions()) * one
}

// forList says how many positions a list has.
func forList(r *Request) string {
	if !r.IsList() {
		return ""
	}
	return fmt.Sprintf(" for each of %d positions", r.positions())
}

// sizes are those of a decision in words.
func sizes(v *choose.Version, actions, context, own int) string {
	if v.Compiled.Atoms != nil {
		return fmt.Sprintf("%d actions with %d values in all and %d in the context", actions, own, context)
	}
	return fmt.Sprintf("%d actions of %d numbers", actions, v.Compiled.Dim)
}

// checkWorkOf refuses a batch whose decisions together take longer than a call may.
func checkWorkOf(limit time.Duration, v *choose.Version, rs []Request) error {
	if limit <= 0 {
		return nil
	}
	var all, most time.Duration
	for i := range rs {
		q := rs[i].candidates()
		took := rs[i].listWork(q.Work(v.Compiled, rs[i].Explain))
		all, most = all+took, max(most, took)
	}
	if all <= limit {
		return nil
	}
	if most > limit {
		for i := range rs {
			if err := checkWork(limit, v, &rs[i]); err != nil {
				f := err.(*fault.Error)
				f.Field = fmt.Sprintf("requests[%d].actions", i)
				return f
			}
		}
	}
	return &fault.Error{Code: fault.TooLarge, Field: "requests", Value: all.String(),
		Want: fmt.Sprintf("%d choices take about %v of a processor, and %v are allowed (--max-work of the server); send at most %d such "+
			"decisions in a batch", len(rs), round(all), limit, max(1, int(limit/most)))}
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
