package choose

import "troupe/eventlog"

// Redraw draws from the candidates that the worker has n times, with the floor, decision i with nonce(i), and calls
// each with the candidate that it took. It is Choose without the law: a draw needs one member. Cost: n calls of Select,
// with floors or caps by action n calls of Choose.
func (w *Worker) Redraw(n int, nonce func(i int) eventlog.ID, each func(i, candidate int)) error {
	if len(w.Version.Compiled.Limits()) > 0 { // each draw has a law of its own to clip
		for i := range n {
			c, err := w.share(nonce(i))
			if err != nil {
				return err
			}
			each(i, c.Index)
		}
		return nil
	}
	l := &w.law
	l.groups.find(w.policy, l.market.on)
	set, err := l.groups.set()
	if err == nil {
		set, err = l.market.priced(set, &l.groups)
	}
	if err != nil {
		return err
	}
	for i := range n {
		c, err := w.one(set, draw(w.Version.Seed, w.Version.ID, nonce(i)))
		if err != nil {
			return err
		}
		each(i, c)
	}
	return nil
}
