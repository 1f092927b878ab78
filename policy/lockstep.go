package policy

import "troupe/internal/lockstep"

// LockStep describes the ensemble to package internal/lockstep, which plays replications side by
// side with the same numbers. ok is false for an ensemble that draws several members in a round, or
// that does not keep every row of S up to date. What it returns reads and writes the ensemble.
func (e *Ensemble) LockStep() (l lockstep.Ensemble, ok bool) {
	if e.bridge != nil || e.reference != nil || e.opts.Select != "random" || e.s.mode != now || e.s.joint != nil {
		return l, false
	}
	l = lockstep.Ensemble{
		Options: e.opts, Ridge: e.ridge, Members: e.m, Law: e.law.law, Symmetric: e.opts.Symmetric,
		Scale: e.radius.fixed,
		Load:  e.s.fetch, Store: e.s.store,
		Changed: func() { e.sums, e.scores = nil, scores{} },
	}
	if e.radius.coef != 0 {
		l.ScaleAt = e.radius.at
	}
	return l, true
}
