package policy

import "troupe/bandit"

// spanOnly reports whether accumulated members stay in the span of their initial vectors: on the
// unit ball the action is a multiple of the parameter, so fewer than d members never leave a proper
// subspace, and members that start at 0 never leave 0. Of other sets the maximisers lie elsewhere.
func spanOnly(set bandit.ActionSet, m, d int, init string) bool {
	_, ball := set.(bandit.UnitBall)
	return ball && (m < d || init == "none")
}

// Confined implements bandit.Confined.
func (e *Ensemble) Confined(set bandit.ActionSet) bool {
	return !e.opts.Growing && e.opts.Init != priorSpan && spanOnly(set, e.opts.M, e.ridge.Dim(), e.opts.Init)
}

// Confined implements bandit.Confined.
func (q *Incremental) Confined(set bandit.ActionSet) bool {
	return spanOnly(set, q.m, q.ridge.Dim(), q.init)
}

// Confined implements bandit.Confined where the base does.
func (d *Doubling) Confined(set bandit.ActionSet) bool {
	c, ok := d.base.(bandit.Confined)
	return ok && c.Confined(set)
}
