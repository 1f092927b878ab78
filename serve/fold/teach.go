package fold

import (
	"encoding/binary"
	"errors"
	"slices"

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
	past     past // nil: no request of an earlier event is needed
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
	y = m.clamp(y, t.at.seq)
	if err := t.policies.wake(m); err != nil {
		return err
	}
	switch {
	case m.Compiled.Hashed == nil && len(x.X) == 0 && len(x.Atoms) > 0: // decided before a learned schema took over
		if ok, err := t.toSchema(m, &x, key); !ok {
			m.Counts.Ignored++
			return err
		}
	case m.Compiled.Hashed != nil && len(x.Atoms) == 0: // decided with a learned schema that a rollback took back
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
	if err == nil {
		t.keep(m, a, y, &x, key)
	}
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

// keep lists an event before the hashed policy learns it.
func (t *teacher) keep(m *Model, a bandit.Action, y float64, x *Features, key eventlog.Event) {
	p, ok := m.policy.(bandit.Scorer)
	if !ok || !m.Keeps() || !x.kept {
		return
	}
	l := m.Learning
	if n := maxKept * learnAfter(m.ownConfig()); n > 0 && len(l.Events) >= n {
		l.Events, l.Dropped = slices.Clone(l.Events[n/2:]), l.Dropped+uint64(n/2)
	}
	e := y - p.Score(a)
	k := Kept{Key: key, Seq: x.seq, Y: y, Error: float64(e * e)}
	l.Events = append(l.Events, k)
	l.digest = Digest(k.append(binary.LittleEndian.AppendUint64(nil, uint64(l.digest))))
}

// toSchema gives an event that was decided with hashed features the vector of the schema that the model has since. It
// returns false when the request was not kept, so that the event cannot be learned.
func (t *teacher) toSchema(m *Model, x *Features, key eventlog.Event) (bool, error) {
	d := x.decision
	if d == nil {
		if !x.kept {
			return false, nil
		}
		var err error
		d, err = t.past.Decision(key, x.seq)
		if t.at.lost > 0 && errors.Is(err, eventlog.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	r, err := readRequest(d)
	if err != nil {
		return false, nil
	}
	v, err := newSchemaEncoder(m.Compiled).vector(&r)
	if err != nil {
		return false, nil
	}
	x.X = slices.Clone(v)
	return true, nil
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

// learned takes what a model measured into its state. The first record of a feature and a generation counts.
func (t *teacher) learned(r *eventlog.Learned) (Outcome, error) {
	m := t.models.byID[r.Model]
	switch {
	case m == nil || m.Deleted || m.Successor != 0 || m.Compiled.Hashed == nil || r.What != eventlog.NumberStatistics:
		return Ignored, nil
	}
	s, err := m.Memory.Statistics.With(feature.Standard{
		Feature: uint64(r.Feature), Name: r.Name, Generation: r.Generation,
		Mean: r.Values[0], Deviation: r.Values[1], Center: r.Values[2], Width: r.Values[3], Levels: r.Values[4] == 1,
	})
	if err != nil || s == m.Memory.Statistics {
		return Duplicate, nil // a standard that the encoder refuses has no effect anywhere
	}
	m.Memory.SetStatistics(s)
	m.Memory.StatsSeq = t.at.seq
	return Accepted, t.touch(m)
}
