package fold

import (
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/model"
)

// Model is one incarnation of a model. A model is created or cloned once; each rollback begins another
// incarnation with an id of its own. Callers read the fields and do not change them.
type Model struct {
	ID       eventlog.ID
	Compiled *model.Compiled
	Version  uint64 // of the configuration, from 1
	Seed     rng.Key
	Paused   bool
	Deleted  bool
	Created  Stamp
	Changed  Stamp // the last control record
	Counts   Counts
	Notes    [5]uint64 // decisions with each note of eventlog.Notes, in the order of its bits
	Last     uint64    // entry of the last update
	Untaken  Untaken
	Lineage

	Memory   Memory    // what it keeps beside its policy
	Spending *Spending // the state of its budget, nil for a model without one
	Guard    *Guard    // the state of its guard, nil for a model without one

	Moving *Moving // to another server, nil for a model that is here
	Came   *Came   // from another server, nil for a model that was made here

	keeper // its policy
	lag    // what the policy has not learned yet

	// uncast is the configuration of the log where Compiled has another policy (Fold.cast), nil otherwise.
	uncast  *model.Compiled
	cost    cost   // of its events
	changed bool   // it is in models.changed
	place   uint32 // in registry.places
}

// Stamp is a place in the log and the time of its record.
type Stamp struct {
	Seq  uint64    `json:"seq" doc:"log entry"`
	Time time.Time `json:"time" doc:"time of the entry"`
}

// Counts are facts of the log: they survive restarts. A rollback keeps them.
type Counts struct {
	Decisions  uint64    `json:"decisions" doc:"decisions of the model"`
	Rewards    uint64    `json:"rewards" doc:"rewards that were accepted"`
	Duplicates uint64    `json:"duplicates" doc:"rewards of events that had theirs already"`
	Late       uint64    `json:"late" doc:"rewards after the window of their event"`
	Ignored    uint64    `json:"ignored" doc:"rewards that were recorded and do not count"`
	Expired    uint64    `json:"expired" doc:"windows that closed without a reward"`
	Defaulted  uint64    `json:"defaulted" doc:"of these, windows that closed with the default reward"`
	Learned    uint64    `json:"learned" doc:"updates of the policy"`
	Open       uint64    `json:"open" doc:"events whose window is open"`
	RewardSum  float64   `json:"reward_sum" doc:"sum of the rewards that count"`
	Last       time.Time `json:"last,omitzero" doc:"time of the last decision"`
}

// Name returns the public name of the model.
func (m *Model) Name() string { return m.Compiled.Config.ID }

// State returns the state of the policy, nil without a policy. The fold holds it until the model changes;
// a caller that wants it for longer calls Hold. A model that lags catches up first.
func (m *Model) State() (*State, error) {
	if m.lagging {
		m.settle()
	}
	if m.state != nil || m.policy == nil {
		return m.state, nil
	}
	return m.take(m.remembered())
}

// remembered returns what the digest of the state has beside the policy.
func (m *Model) remembered() []byte {
	var b []byte
	if m.Compiled.Remembers() {
		b = m.Memory.append(nil, 0)
	}
	return b
}

// appendSnapshot appends the bytes of the policy, nothing without one. A model that lags catches up first.
func (m *Model) appendSnapshot(b []byte) ([]byte, error) {
	if _, ok := m.policy.(policy.Sharer); ok {
		return m.policy.AppendSnapshot(b)
	}
	s, err := m.State()
	if err != nil {
		return b, err
	}
	own, err := s.Bytes()
	return append(b, own...), err
}

// drop gives up the policy for good, with what it has not learned.
func (m *Model) drop() {
	m.keeper.drop()
	m.lag = lag{}
}

// Targets returns the source of the random targets U_t^1, …, U_t^m of an event. The event's key is the
// round t.
func (m *Model) Targets(key eventlog.Event) rng.Source {
	return m.Seed.At(uint64(key.Epoch)).Stream(rng.Perturb).Round(key.Batch*eventlog.MaxEvents + uint64(key.Index))
}

// deferrer returns the policy of m where some of its updates may wait, nil otherwise.
func (m *Model) deferrer() bandit.Deferrer {
	d, _ := m.policy.(bandit.Deferrer)
	return d
}

// settle does all that a lagging model waits for.
func (m *Model) settle() {
	for _, u := range m.waiting {
		m.update(u, bandit.Action{X: u.x.X, Index: bandit.NoIndex}, nil)
	}
	if a := m.deferrer(); a != nil {
		a.Finish()
	}
	m.settled()
}

func (m *Model) settled() {
	m.lag = lag{}
	if !m.aside { // its state is all that there is of it
		m.dropState()
	}
}

// update moves the policy by one event. err, if any, is why the event has no vector. A policy that refuses an event has
// not changed: every replica finds the same, the event is counted, and the model goes on.
func (m *Model) update(u update, a bandit.Action, err error) {
	if err == nil {
		if w, ok := m.policy.(bandit.Witness); ok {
			err = w.Settled(eventKey(u.key), a, u.y)
		} else {
			err = m.policy.Update(a, u.y, m.Targets(u.key))
		}
	}
	if err != nil {
		m.refuse(err, u.seq)
		return
	}
	m.Counts.Learned++
}

// clamp returns the nearest reward that the model takes.
func (m *Model) clamp(y float64, seq uint64) float64 {
	x, other := m.Compiled.Totals().Clamp(y)
	if other {
		m.Untaken.Clamped++
		m.Untaken.Seq = seq
	}
	return x
}

// EventCost returns about what the next event of the model takes of a processor to learn, from those that it learned in this
// process.
func (m *Model) EventCost() time.Duration {
	c := m.cost.each
	if c == 0 {
		c = unmeasured
	}
	if m.aside {
		c += waking
	}
	return c
}

// refuse notes an event that the policy does not learn.
func (m *Model) refuse(err error, seq uint64) {
	m.Untaken.Refused++
	m.Untaken.Seq, m.Untaken.Why = seq, err.Error()
	if len(m.Untaken.Why) > 300 {
		m.Untaken.Why = m.Untaken.Why[:300]
	}
}

// Size returns about how many bytes the model takes. Only the goroutine that applies entries may change a model
// meanwhile.
func (m *Model) Size() Size { return sizeOf(m.Compiled, m.bytes) }

// Now returns about how many bytes the model takes as it is.
func (m *Model) Now() int64 {
	switch {
	case m.policy != nil:
		return m.Size().Used
	case m.aside && m.state.place != nil: // its snapshot is not in memory
		return max(sizeOfModel, m.Size().Aside-int64(m.bytes))
	case m.aside || !m.Deleted && m.Successor == 0:
		return m.Size().Aside
	}
	return 0
}
