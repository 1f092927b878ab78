package choose

import (
	"fmt"
	"slices"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/model"
)

// Fresh returns an error unless the policy draws its members anew for each decision (key = "decision"). Only then are
// decisions on one state independent, so that the law without the members of a decision is the law given everything
// before it. Members that are kept, or that several decisions share, are shown by earlier actions.
func (v *Version) Fresh() error {
	if u := v.Compiled.Config.Unit; u != "" {
		return fmt.Errorf("unit is %s: decisions of one unit share their member, and earlier actions reveal it", u)
	}
	p, err := v.Compiled.NewPolicy(v.Seed)
	if err != nil {
		return err
	}
	if r, ok := p.(bandit.Redrawer); ok && r.Redraws() {
		return nil
	}
	raw := v.Compiled.Config.Policy.Raw
	if key, ok := raw["key"]; ok {
		return fmt.Errorf(`the policy is %v with key = %q, expected key = "decision": decisions share their members, `+
			`and earlier actions reveal them`, raw["kind"], key)
	}
	return fmt.Errorf(`the policy is %v, expected one that draws its members anew for each decision `+
		`(key = "decision" of atoms, auto, logistic, sparse; hashed)`, raw["kind"])
}

// Redraws reports whether Redraw draws by the rule by which a decision of this version was played. Floors of actions
// that have entered hold for a number of decisions, which the state does not tell.
func (v *Version) Redraws(play eventlog.Play) bool {
	switch {
	case len(v.Compiled.Limits()) == 0:
		return play == eventlog.PlayLaw
	case slices.ContainsFunc(v.Compiled.Config.Entered, func(e model.Entered) bool { return e.Floor > 0 }):
		return false
	}
	return play == eventlog.PlayLaw || play == eventlog.PlayFloors
}

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
	w.find()
	set, err := w.set()
	if err == nil {
		set, err = w.priced(set)
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
