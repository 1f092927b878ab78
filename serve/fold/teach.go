package fold

import (
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
	"troupe/serve/model"
)

// teacher lets models learn from events and keeps what they remember beside their policies.
type teacher struct {
	at       *position
	models   *registry
	policies *policies
	brief    bool // see Brief
	vectors  vectors
}

// priorEpoch tells the random targets of priors from those of events.
const priorEpoch = eventlog.ID(0x70726965725f6576)

// priors teaches a model the guesses of actions that have entered since an earlier configuration: so many events
// without a context, of the mean reward.
func (t *teacher) priors(m *Model, since *model.Compiled) error {
	atoms, priors := m.Compiled.Priors(since)
	for i, p := range priors {
		x := Features{Atoms: feature.AppendAtoms(feature.AppendAtoms(nil, nil), atoms[i:i+1])}
		for n := range p.Events {
			key := t.at.event(uint32(n))
			key.Epoch ^= priorEpoch ^ eventlog.ID(i)
			if err := t.learn(m, x, p.Mean, false, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn moves a model by one event, by the nearest reward that it takes. given is false for a default reward. An error is that of the log, from
// which the request of an event may be needed, or of a snapshot that no policy can be built from.
func (t *teacher) learn(m *Model, x Features, y float64, given bool, key eventlog.Event) error {
	if !m.HasPolicy() {
		return nil
	}
	if done := m.cost.measure(); done != nil {
		defer done()
	}
	y = m.clamp(y, t.at.seq)
	if err := t.policies.wake(m); err != nil {
		return err
	}
	if (m.Compiled.Atoms != nil) != (len(x.Atoms) > 0) { // decided with other features
		m.Counts.Ignored++
		return nil
	}
	t.rewarded(m, y, given)
	u := update{x, y, key, t.at.seq}
	if m.wait(u) {
		m.Last = t.at.seq
		return nil
	}
	t.policies.Settle(m)
	a, err := t.vectors.action(m.Compiled, x)
	if t.brief && err == nil && m.state.retire() {
		m.policy.(policy.Sharer).Reclaim()
		m.dropState()
	}
	if c, ok := m.policy.(policy.Clocked); ok {
		c.Tick(t.at.now)
	}
	m.update(u, a, err)
	c := m.deferrer()
	m.lagging = c != nil && c.Pending() != nil
	return t.touch(m)
}

// Brief says whether the entry that is applied next is short. A model that shares its pages with the published version
// alone then learns in place: a decision meanwhile waits for the next version (State.Hold is false). While
// decisions are under way on the version, and in long entries, the pages that change are copied.
func (t *teacher) Brief(yes bool) { t.brief = yes }

// decided lets a policy that looks at decisions see one.
func (t *teacher) decided(m *Model, r *eventlog.Decision, key eventlog.Event) error {
	if !m.HasPolicy() || !m.Compiled.Witnesses() || (m.Compiled.Atoms != nil) != (len(r.Atoms) > 0) {
		return nil
	}
	if err := t.policies.wake(m); err != nil {
		return err
	}
	w, ok := m.policy.(bandit.Witness)
	if !ok {
		return nil
	}
	a, err := t.vectors.action(m.Compiled, Features{X: r.X, Atoms: r.Atoms})
	if err == nil {
		_ = w.Decided(eventKey(key), a) // an action that is refused is refused with its reward
	}
	return nil
}

// dropped tells a policy that looks at decisions that nothing is learned of one.
func (t *teacher) dropped(m *Model, key eventlog.Event) error {
	if !m.HasPolicy() || !m.Compiled.Witnesses() {
		return nil
	}
	if err := t.policies.wake(m); err != nil {
		return err
	}
	if w, ok := m.policy.(bandit.Witness); ok {
		w.Dropped(eventKey(key))
	}
	return nil
}

// missed notes a window that closed without a reward, with the default y or without one.
func (t *teacher) missed(m *Model, defaulted bool, y float64) error {
	d := m.Compiled.Config.Reward.Default
	x := &m.Memory
	switch {
	case d.Set || d.Word != "auto" || x.Adopted:
		return nil
	case defaulted:
		x.Adopted, x.Default, x.AdoptedSeq = true, y, t.at.seq
	default:
		x.Missed++
	}
	return t.touch(m)
}

// touch notes that the state of a model has changed at this entry.
func (t *teacher) touch(m *Model) error {
	if err := t.policies.wake(m); err != nil {
		return err
	}
	m.Last = t.at.seq
	m.dropState()
	t.models.markChanged(m)
	return nil
}

// rewarded notes a reward before the policy learns it.
func (t *teacher) rewarded(m *Model, y float64, given bool) {
	if m.Compiled.Remembers() {
		m.Memory.Rewarded(m.Compiled, y, given, t.at.seq)
	}
}
