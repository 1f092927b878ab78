package choose

import (
	"slices"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Worker is what one decision needs for itself: a policy in the state of a version, the offer that it chooses from, and
// the law of the choice. Not safe for concurrent use.
type Worker struct {
	Version *Version
	Offer   Offer

	policy  model.Policy
	held    bool       // the state of Version
	unit    assignment // of the next choice
	law     law
	control control
	action  bandit.Action // the group that the policy has chosen
}

// Worker puts a worker, or with nil a new one, into the state of v, which it holds until Release where its policy reads
// it. With ErrOld it has done nothing.
func (v *Version) Worker(w *Worker) (*Worker, error) {
	same := w != nil && w.Version == v
	if same && (w.held || !v.State.Kept()) {
		return w, nil
	}
	if !v.State.Hold() {
		return nil, ErrOld
	}
	if same {
		w.held = true
		return w, nil
	}
	if w != nil {
		w.Release()
	}
	w, err := v.put(w)
	if err != nil || !v.State.Kept() {
		v.State.Release()
		return w, err
	}
	w.held = true
	return w, nil
}

// Until lets a choice end with an error when late returns one, where the policy can (bandit.Ender). nil takes it away.
func (w *Worker) Until(late func() error) {
	if e, ok := bandit.Innermost(w.policy).(bandit.Ender); ok {
		e.Until(late)
	}
}

// Release ends the hold of the state. The next decision of the worker is after another call of Version.Worker.
func (w *Worker) Release() {
	if w.held {
		w.held = false
		w.Version.State.Release()
	}
}

func (v *Version) put(w *Worker) (*Worker, error) {
	if w == nil || w.Version.Compiled != v.Compiled || w.Version.Seed != v.Seed {
		p, err := v.Compiled.NewPolicy(v.Seed)
		if err != nil {
			return nil, err
		}
		w = &Worker{policy: p, Offer: newOffer(v.Compiled)}
		w.law.offer, w.law.groups.offer = &w.Offer, &w.Offer
	}
	if v.State != nil && w.Version != nil && w.Version.State == v.State { // another version of the same state
		w.Version = v
		return w, nil
	}
	if err := v.State.Put(w.policy); err != nil {
		return nil, err
	}
	w.Version = v
	return w, nil
}

// StateDigest returns the digest of the policy's state that the worker has now, 0 when it cannot be encoded.
func (w *Worker) StateDigest() eventlog.ID {
	b, err := w.policy.AppendSnapshot(nil)
	if err != nil {
		return 0
	}
	return fold.Digest(b)
}

// Snapshot returns the bytes of the policy in the state of v, nil without one. Decisions that are not settled
// (bandit.Witness) are not in them: those are of this model and this log.
func (v *Version) Snapshot() ([]byte, error) {
	if v.State == nil || !v.State.Kept() && !v.Compiled.Witnesses() {
		b, err := v.State.Bytes()
		return slices.Clone(b), err
	}
	w, err := v.Worker(nil)
	if err != nil {
		return nil, err
	}
	defer w.Release()
	if p, ok := w.Policy().(bandit.Witness); ok {
		p.Alone()
	}
	return w.policy.AppendSnapshot(nil)
}

// Policy returns the policy in the state of the version, for reading.
func (w *Worker) Policy() bandit.Policy { return bandit.Innermost(w.policy) }

// Budget puts the price of the version's budget on the candidates, which have costs, and finds what it has left for a
// decision at time now, in ns since 1970. Without a budget it takes both away.
func (w *Worker) Budget(now int64) { w.law.market.open(w.Version, now) }

// Price puts the price of a record on the candidates, without a hard stop; 0 takes the price away.
func (w *Worker) Price(price float64) { w.law.market.recorded(price) }

// Assign gives the next choice the unit of a request, 0 for none.
func (w *Worker) Assign(unit eventlog.ID) { w.unit = assign(unit, w.Version, w.policy) }

// Reassign gives the next choice the unit and the span of a record.
func (w *Worker) Reassign(unit eventlog.ID, span uint64) { w.unit = assignment{unit, span} }

// Assigned returns the unit and the span of the last choice.
func (w *Worker) Assigned() (unit eventlog.ID, span uint64) { return w.unit.unit, w.unit.span }

// Propensity returns the probability of candidate i in the last choice, under the floor, and after Group with the control
// group. See the package comment.
func (w *Worker) Propensity(i int) (num, den uint64) {
	num, den = w.law.propensity(i)
	return w.control.mix(i, num, den)
}

// Alike returns whether two candidates of the last choice had equal features.
func (w *Worker) Alike() bool { return w.law.groups.alike }

// Law returns the votes and the group of every candidate and the number of voters of the last choice, as a
// decision records them: groups is nil when each candidate is its own.
func (w *Worker) Law() (votes []uint64, groups []uint32, voters uint64) { return w.law.record() }
