package fold

import (
	"troupe/eventlog"
	"troupe/serve/model"
)

// beginBudget gives a model the state of its budget, where its configuration was from before: it goes on with the state
// that it has, under the new limit.
func (m *Model) beginBudget(from model.Budget) {
	switch to := m.Compiled.Config.Budget; {
	case to.IsZero():
		m.Spending = nil
	case m.Spending == nil:
		m.Spending = &Spending{}
	case from.Limit() != to.Limit():
		m.Spending.Change(from.Limit(), to.Limit())
	}
}

func (m *Model) price(id eventlog.ID) eventlog.Price {
	return eventlog.Price{Model: id, Price: m.Spending.Price(m.Compiled.Config.Budget.Limit()), Spent: m.Spending.Spent}
}

// beginGuard gives a model the state of its guard, where its configuration was from before: it goes on with the state
// that it has, unless rewards have another range.
func (m *Model) beginGuard(from *model.Config) {
	to := &m.Compiled.Config
	switch {
	case to.Guard.IsZero():
		m.Guard = nil
	case m.Guard == nil || from.Reward.Min != to.Reward.Min || from.Reward.Max != to.Reward.Max:
		m.Guard = newGuard()
	default:
		m.Guard.bound(1 - to.Guard.Confidence)
	}
}

// GuardPlays reports whether the next guarded decision of the model plays the policy.
func (m *Model) GuardPlays() bool {
	c := &m.Compiled.Config
	return m.Guard != nil && m.Guard.Plays(c.Guard.Margin/(c.Reward.Max-c.Reward.Min))
}

// ownConfig is the configuration of the log, also where the fold has cast the model into another policy.
func (m *Model) ownConfig() *model.Compiled {
	if m.uncast != nil {
		return m.uncast
	}
	return m.Compiled
}

// EnoughMissed is the number of windows without a reward after which a missing reward gets a meaning, where the
// creator of the model said nothing.
const EnoughMissed = 100

// Range returns the range of rewards in force.
func (m *Model) Range() (lo, hi float64) {
	if m.Memory.Low != m.Memory.High {
		return m.Memory.Low, m.Memory.High
	}
	r := m.Compiled.Config.Reward
	return r.Min, r.Max
}

// MissingReward returns what an event without a reward counts, not ok when it teaches nothing. Without a word
// of the creator it is the smallest reward, once all rewards were equal and positive, so that only successes
// seem to be sent, or once more than 100 windows closed without a reward.
func (m *Model) MissingReward() (y float64, ok bool) {
	d := m.Compiled.Config.Reward.Default
	switch {
	case d.Set:
		return d.Value, true
	case d.Word != "auto":
		return 0, false
	case m.Memory.Adopted:
		return m.Memory.Default, true
	}
	lo, _ := m.Range()
	x := &m.Memory
	return lo, x.Seen > 0 && !x.Differ && x.First > lo && x.First > 0 || x.Missed > EnoughMissed
}
