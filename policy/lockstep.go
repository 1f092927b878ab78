package policy

import "troupe/internal/lockstep"

// LockStep describes the ensemble to package internal/lockstep, which plays replications side by
// side with the same numbers. ok is false for an ensemble that draws several members in a round, or
// that does not keep every row of S up to date. What it returns reads and writes the ensemble.
func (e *Ensemble) LockStep() (l lockstep.Ensemble, ok bool) {
	kept, ok := e.engine.(*accumulated)
	if !ok || e.reference != nil || e.opts.Select != "random" || !kept.Eager() {
		return l, false
	}
	l = lockstep.Ensemble{
		Options: e.opts, Ridge: e.ridge, Members: e.Members(), Law: kept.Law(), Symmetric: !e.opts.OneSided,
		Scale: e.radius.fixed,
		Load:  kept.Fetch, Store: kept.Store,
		Changed: func() { e.sums = nil; e.shortlist.forget() },
	}
	if e.radius.coef != 0 {
		l.ScaleAt = e.radius.at
	}
	return l, true
}
