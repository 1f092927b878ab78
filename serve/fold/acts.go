package fold

import (
	"encoding/json"
	"fmt"
	"time"

	"troupe/eventlog"
	"troupe/serve/model"
)

// control folds a control record. An act on a model that is gone, or whose name is taken, is a Conflict:
// two callers may have written at the same time.
func (f *Fold) control(r *eventlog.Control) (Outcome, error) {
	var cfg *model.Compiled
	var seed string
	if len(r.Config) > 0 {
		var x controlConfig
		err := json.Unmarshal(r.Config, &x)
		if err == nil {
			cfg, err = f.shapes.Logged(x.Config)
		}
		if err != nil {
			return None, fmt.Errorf("configuration of %q: %w", r.Name, err)
		}
		seed = x.Seed
	}
	at := Stamp{f.seq, time.Unix(0, r.Time).UTC()}
	switch r.Act {
	case eventlog.Create:
		return f.create(r, cfg, seed, at)
	case eventlog.Clone:
		return f.clone(r, cfg, at)
	case eventlog.Rollback:
		return f.rollback(r, at)
	case eventlog.RaiseVersion:
		return Accepted, nil
	case eventlog.Members:
		return f.members(r), nil
	case eventlog.Import:
		return f.importing(r, cfg), nil
	case eventlog.Trim:
		return f.trim(r), nil
	case eventlog.VoidEntry: // readers have looked for it where they could not use the entry
		return Accepted, nil
	}
	m := f.models[r.Model]
	if m == nil || m.Deleted || m.Successor != 0 {
		return Conflict, nil
	}
	if r.Act == eventlog.Configure {
		if r.Base != 0 && r.Base != m.Version { // made from a configuration that is not the present one
			return Conflict, nil
		}
		return f.configure(m, cfg, at)
	}
	if r.Act == eventlog.Adopt {
		return f.adopt(m, cfg, r, at)
	}
	m.Changed = at
	f.markChanged(m)
	switch r.Act {
	case eventlog.Pause:
		m.Paused = true
	case eventlog.Resume:
		m.Paused = false
	case eventlog.Delete:
		f.remove(m)
	}
	return Accepted, nil
}

func (f *Fold) create(r *eventlog.Control, cfg *model.Compiled, text string, at Stamp) (Outcome, error) {
	if f.names[r.Name] != nil || f.models[r.Model] != nil || cfg == nil {
		return Conflict, nil
	}
	seed, err := decodeSeed(text)
	if err != nil {
		return None, err
	}
	m := &Model{ID: r.Model, Compiled: cfg, Version: 1, Seed: seed, Created: at, Changed: at,
		Lineage: Lineage{Since: f.seq, Root: r.Model}}
	if err := f.recast(m, cfg); err != nil {
		return None, err
	}
	m.beginLearning()
	if err := f.begin(m); err != nil {
		return None, err
	}
	f.install(m)
	return Accepted, f.LayAside(m)
}

func (f *Fold) clone(r *eventlog.Control, cfg *model.Compiled, at Stamp) (Outcome, error) {
	from := f.models[r.From]
	if f.names[r.Name] != nil || f.models[r.Model] != nil || cfg == nil || from == nil || r.AtSeq >= f.seq {
		return Conflict, nil
	}
	if behind, err := f.behind(from, r.AtSeq, cfg); behind || err != nil {
		return Conflict, err
	}
	m := &Model{
		ID: r.Model, Compiled: cfg, Version: 1, Seed: from.Seed, Created: at, Changed: at,
		Lineage: Lineage{Since: f.seq, Parent: from.ID, Root: r.Model},
	}
	if err := f.recast(m, cfg); err != nil {
		return None, err
	}
	if err := f.inherit(m, from, r); err != nil {
		return None, err
	}
	f.install(m)
	return Accepted, nil
}

// rollback begins another incarnation of a model with an earlier state. The counts go with it.
func (f *Fold) rollback(r *eventlog.Control, at Stamp) (Outcome, error) {
	from := f.models[r.From]
	if from == nil || f.models[r.Model] != nil || f.names[r.Name] != from || r.AtSeq >= f.seq {
		return Conflict, nil
	}
	if behind, err := f.behind(from, r.AtSeq, nil); behind || err != nil {
		return Conflict, err
	}
	m := &Model{
		ID: r.Model, Compiled: from.Compiled, Version: from.Version, Seed: from.Seed, Created: from.Created,
		Changed: at, Paused: from.Paused, uncast: from.uncast,
		Lineage: Lineage{Since: f.seq, Parent: from.ID, Root: from.Root},
	}
	if from.Learning.adoptedAfter(r.AtSeq) { // back to hashed features
		cfg, err := from.ConfigAt(r.AtSeq)
		if err != nil {
			return None, err
		}
		m.Version++
		if m.uncast != nil {
			m.uncast = cfg
		} else {
			m.Compiled = cfg
		}
	}
	if err := f.inherit(m, from, r); err != nil {
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
	f.markChanged(from)
	f.install(m)
	return Accepted, nil
}

// configure replaces a configuration.
func (f *Fold) configure(m *Model, cfg *model.Compiled, at Stamp) (Outcome, error) {
	shape := m.Compiled
	if m.uncast != nil {
		shape = m.uncast
	}
	if cfg == nil || shape.SameShape(cfg) != nil {
		return Conflict, nil
	}
	f.Settle(m) // decisions with the new configuration replay on a state of this entry
	was := m.Compiled
	m.Compiled = cfg
	m.beginBudget(was.Config.Budget)
	m.beginGuard(&was.Config)
	if err := f.recast(m, cfg); err != nil {
		return None, err
	}
	m.Version++
	m.Changed = at
	f.markChanged(m)
	return Accepted, f.priors(m, was)
}

// inherit gives m the state that from had after entry r.AtSeq. Where m has another policy, it learns from all events
// that from has learned from until then.
func (f *Fold) inherit(m, from *Model, r *eventlog.Control) error {
	m.Counts.Learned = from.Counts.Learned
	m.Memory, m.Learning = from.Memory, from.Learning.at(r.AtSeq)
	if !f.keeps(m.ID) {
		m.beginLearning()
		return nil
	}
	if err := f.begin(m); err != nil {
		return err
	}
	cast := f.cast
	if cast == nil {
		then, err := from.ConfigAt(r.AtSeq)
		if err != nil {
			return err
		}
		if then.SameState(m.Compiled) != nil {
			cast = m.Compiled
		}
	}
	if cast == f.cast && !from.Learning.adoptedAfter(r.AtSeq) && from.HasPolicy() && from.Last <= r.AtSeq &&
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
		past, err := f.past.policyAt(f.Lineage(from), r.AtSeq, cast)
		if err == nil && past.Snapshot != nil {
			err = m.policy.Restore(past.Snapshot)
		}
		if err != nil {
			return err
		}
		m.Memory, m.Learning = past.Memory, past.Learning.inherited()
		// before its features were learned: the state at the beginning
		if m.Counts.Learned = past.Learned; past.Snapshot == nil {
			m.Counts.Learned = 0
		}
	}
	m.Last = f.seq
	m.beginLearning()
	s, err := m.State()
	if err != nil {
		return err
	}
	// A record from before a loss may state the digest of a state that can no longer be computed.
	if f.lost == 0 && f.cast == nil && r.Digest != 0 && r.Digest != s.Digest() {
		return fmt.Errorf("the state of %v after entry %d has the digest %v, the record says %v", r.From, r.AtSeq,
			s.Digest(), r.Digest)
	}
	return nil
}
