package fold

import (
	"fmt"

	"troupe/bandit"
	"troupe/eventlog"
)

// copies makes models that begin with what another one had learned after an earlier entry: clones and rollbacks.
type copies struct {
	at       *position
	models   *registry
	policies *policies
	trims    *trims
	past     past // nil: nothing is cloned or rolled back
}

// clone makes a model of another name.
func (c *copies) clone(a *act) (Outcome, error) {
	r, cfg := a.r, a.cfg
	from := c.models.byID[r.From]
	if c.models.taken(r) || cfg == nil || from == nil || from.Moving != nil || r.AtSeq >= c.at.seq {
		return Conflict, nil
	}
	if behind, err := c.trims.behind(from, r.AtSeq, cfg); behind || err != nil {
		return Conflict, err
	}
	m := &Model{
		ID: r.Model, Compiled: cfg, Version: 1, Seed: from.Seed, Created: a.at, Changed: a.at,
		Lineage: Lineage{Since: c.at.seq, Parent: from.ID, Root: r.Model},
	}
	if err := c.policies.recast(m, cfg); err != nil {
		return None, err
	}
	if err := c.inherit(m, from, r); err != nil {
		return None, err
	}
	c.models.install(m)
	return Accepted, nil
}

// rollback begins another incarnation of a model with an earlier state. The counts go with it.
func (c *copies) rollback(a *act) (Outcome, error) {
	r := a.r
	from := c.models.byID[r.From]
	if from == nil || from.Moving != nil || c.models.byID[r.Model] != nil || c.models.byName[r.Name] != from || r.AtSeq >= c.at.seq {
		return Conflict, nil
	}
	if behind, err := c.trims.behind(from, r.AtSeq, nil); behind || err != nil {
		return Conflict, err
	}
	m := &Model{
		ID: r.Model, Compiled: from.Compiled, Version: from.Version, Seed: from.Seed, Created: from.Created,
		Changed: a.at, Paused: from.Paused, uncast: from.uncast,
		Lineage: Lineage{Since: c.at.seq, Parent: from.ID, Root: from.Root},
	}
	if err := c.inherit(m, from, r); err != nil {
		return None, err
	}
	m.Spending, from.Spending = from.Spending, nil
	m.Guard, from.Guard = from.Guard, nil
	learned := m.Counts.Learned
	m.Counts = from.Counts
	m.Counts.Learned = learned
	from.Counts = Counts{}
	from.Successor, from.Cut, from.KeepLater = m.ID, r.AtSeq, r.KeepLater
	from.drop()
	c.models.markChanged(from)
	c.models.install(m)
	return Accepted, nil
}

// inherit gives m the state that from had after entry r.AtSeq. Where m has another policy, it learns from all events
// that from has learned from until then.
func (c *copies) inherit(m, from *Model, r *eventlog.Control) error {
	m.Counts.Learned = from.Counts.Learned
	m.Memory = from.Memory
	if !c.policies.keeps(m.ID) {
		return nil
	}
	if err := c.policies.begin(m); err != nil {
		return err
	}
	cast := c.policies.cast
	if cast == nil {
		if from.ownConfig().SameState(m.Compiled) != nil {
			cast = m.Compiled
		}
	}
	if cast == c.policies.cast && from.HasPolicy() && from.Last <= r.AtSeq &&
		from.Since <= r.AtSeq {
		s, err := from.State()
		if err == nil {
			s.pin() // m goes on from the pages of the state
			err = s.Put(m.policy)
		}
		if err != nil {
			return err
		}
	} else {
		past, err := c.past.policyAt(c.models.Lineage(from), r.AtSeq, cast)
		if err == nil && past.Snapshot != nil {
			err = m.policy.Restore(past.Snapshot)
		}
		if err != nil {
			return err
		}
		m.Memory, m.Counts.Learned = past.Memory, past.Learned
	}
	if w, ok := m.policy.(bandit.Witness); ok {
		w.Alone() // the decisions of the other one are none of this one
	}
	m.Last = c.at.seq
	s, err := m.State()
	if err != nil {
		return err
	}
	// A record from before a loss may state the digest of a state that can no longer be computed.
	if c.at.lost == 0 && c.policies.cast == nil && r.Digest != 0 && r.Digest != s.Digest() {
		return fmt.Errorf("the state of %v after entry %d has the digest %v, the record says %v", r.From, r.AtSeq,
			s.Digest(), r.Digest)
	}
	return nil
}
