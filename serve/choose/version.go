package choose

import (
	"errors"
	"fmt"
	"slices"

	"troupe/bandit"
	"troupe/budget"
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Version is what decisions are made on: a model after an entry of the log. It never changes. Once a newer
// one is published its state may be gone (fold.State).
type Version struct {
	ID, Root eventlog.ID
	Compiled *model.Compiled
	Number   uint64 // of the configuration
	Seed     rng.Key
	Seq      uint64
	Paused   bool
	State    *fold.State
	Digest   eventlog.ID  // of the state
	Notes    [5]uint64    // decisions with each note, up to Seq, in the order of their bits
	Spending budget.Pacer // of a model with a budget, after Seq
	Floors   []model.ActionFloor
	Learned  uint64 // events that the state has learned
	Plays    bool   // a guarded decision plays the policy, and not the baseline
}

// Meanwhile returns the version of a model that lags behind its log (fold.Fold.Defer): the state of v, with what else
// has changed. The price of a budget belongs to the state: a decision names the entry of both.
func (v *Version) Meanwhile(m *fold.Model) *Version {
	w := *v
	w.Paused, w.Notes = m.Paused, m.Notes
	return &w
}

// VersionOf returns the version of a model after entry seq. The caller holds m's state as long as the
// version is in use.
func VersionOf(m *fold.Model, seq uint64) (*Version, error) {
	state, err := m.State()
	if err != nil {
		return nil, err
	}
	v := &Version{
		ID: m.ID, Root: m.Root, Compiled: m.Compiled, Number: m.Version, Seed: m.Seed, Seq: seq,
		Paused: m.Paused, State: state, Digest: state.Digest(), Notes: m.Notes,
	}
	if m.Spending != nil {
		v.Spending = m.Spending.Pacer
	}
	v.Floors, v.Learned = m.Compiled.Floors(m.Counts.Decisions), m.Counts.Learned
	v.Plays = m.GuardPlays()
	return v, nil
}

// FromSaved returns the version of a saved model.
func FromSaved(s *fold.Saved) *Version {
	return &Version{ID: 1, Root: 1, Compiled: s.Compiled, Number: 1, Seed: s.Seed, State: s.State()}
}

// ErrOld: the state of a version is gone, because there is a newer version.
var ErrOld = errors.New("there is a newer version")

// Fresh returns an error unless the policy draws new members for each decision (key = "decision"). Only then are
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
	return fmt.Errorf(`the policy is %v, expected one that draws new members for each decision `+
		`(effects; key = "decision" of atoms, auto, logistic, sparse)`, raw["kind"])
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
