package fold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/model"
)

// Learner is what a try needs to know of a model, taken while its fold does not move.
type Learner struct {
	ID       eventlog.ID
	Name     string
	Compiled *model.Compiled
	Version  uint64
	Seed     rng.Key
	Number   int
	Low      float64 // range of rewards
	High     float64
	Events   []Kept
	Dropped  uint64
	From     uint64
	Lost     bool
}

// Learner returns it for a model that is Due.
func (t *teacher) Learner(m *Model, first uint64) Learner {
	lo, hi := m.Range()
	return Learner{
		ID: m.ID, Name: m.Name(), Compiled: m.Compiled, Version: m.Version, Seed: m.Seed, Number: len(m.Learning.Tries),
		Low: lo, High: hi,
		Events: m.Learning.from(first), Dropped: m.Learning.Dropped, From: max(1, first), Lost: t.at.lost > 0,
	}
}

// adopt folds what came of a try. A record that is not about the present list and configuration came too late, and so
// did one of requests up to entry base, which may be gone.
func (t *teacher) adopt(m *Model, a *act, base uint64) (Outcome, error) {
	cfg := a.cfg
	var try Try
	if err := json.Unmarshal(a.r.Data, &try); err != nil {
		return None, fmt.Errorf("data of adopt: %w", err)
	}
	if !m.Keeps() || try.Number != len(m.Learning.Tries) || try.Version != m.Version || try.TookOver != (cfg != nil) {
		return Conflict, nil
	}
	if try.TookOver && try.From <= base { // the requests that it learned from may be gone
		return Conflict, nil
	}
	if err := t.policies.wake(m); err != nil {
		return None, err
	}
	l := m.Learning.inherited() // states that were published keep the old one
	m.Learning = l
	try.Seq = t.at.seq
	l.Tries = append(l.Tries, try)
	if !try.TookOver {
		if l.Done = len(l.Tries) == MaxTries; l.Done {
			l.Events = nil
		}
		return Accepted, t.touch(m)
	}
	l.Was = m.ownConfig().JSON
	if m.uncast != nil {
		m.uncast = cfg
	} else {
		if m.policy != nil {
			fit, err := t.fitted(m, cfg, &try, a.r.Digest)
			if err != nil {
				return None, err
			}
			m.policy, m.Counts.Learned = fit.policy, fit.Learned
		}
		m.Compiled = cfg
		if m.policy != nil {
			t.policies.defers(m)
		}
	}
	m.Memory.SetStatistics(nil)
	l.Events, l.Done, l.Adopted = nil, true, t.at.seq
	m.Version++
	m.Changed = a.at
	return Accepted, t.touch(m)
}

// fitted returns the learned policy after all events of the list.
func (t *teacher) fitted(m *Model, cfg *model.Compiled, try *Try, digest eventlog.ID) (*Fit, error) {
	events := m.Learning.from(try.From)
	if t.past == nil {
		return nil, errors.New("a learned model takes over, and the log with its requests is not at hand")
	}
	same := try.Dropped == m.Learning.Dropped // otherwise events of the try have left the list since
	fit, err := t.past.fit(m, cfg, try.Number, same)
	if err != nil {
		return nil, err
	}
	if fit.n == 0 && same {
		if try.Events > len(events) {
			return nil, fmt.Errorf("the model %v has %d events to learn, the record says %d", m.ID, len(events),
				try.Events)
		}
		if err := fit.learn(context.Background(), events[:try.Events], m.Seed, t.at.lost > 0); err != nil {
			return nil, err
		}
		got, err := fit.digest() // the record has that of the policy after the events of the try
		if err != nil {
			return nil, err
		}
		if t.at.lost == 0 && got != digest {
			return nil, fmt.Errorf("the learned model of %v has the digest %v, the record says %v", m.ID, got, digest)
		}
	}
	return fit, fit.learn(context.Background(), events, m.Seed, t.at.lost > 0)
}
