package fold

import (
	"bytes"
	"slices"

	"troupe/policy"
	"troupe/serve/model"
)

// This file lets models be laid aside. A policy takes several times the bytes of its snapshot, and a server may have
// thousands of models of which few are asked in an hour. Of a model that is laid aside the fold keeps the snapshot and
// its digest; the policy is built anew when the model is to learn. A model begins laid aside, and so does one that a
// fold is restored with. What comes out is the same, bit for bit, because a snapshot is exact.

// LayAside gives up the policy of a model and keeps its bytes. A model that lags stays as it is. TakeChanged has the
// model when its published version is to be replaced.
func (f *Fold) LayAside(m *Model) error {
	if m.policy == nil || m.lagging {
		return nil
	}
	s, err := m.State()
	if err != nil {
		return err
	}
	if s.shared != nil { // pages hold much more than what was written to them
		b, err := m.policy.AppendSnapshot(nil)
		if err != nil {
			return err
		}
		m.dropState()
		m.state = &State{bytes: slices.Clone(b), stats: s.stats, digest: s.digest, buffers: &m.buffers}
		m.state.holders.Store(1)
		m.bytes = len(b)
		f.markChanged(m)
	}
	m.remembers(m.policy)
	m.policy, m.aside = nil, true
	m.buffers.drop()
	return nil
}

// Awake reports whether the policy of a model is built.
func (m *Model) Awake() bool { return m.policy != nil }

// TakeUsed reports whether the model has learned since the last call.
func (m *Model) TakeUsed() bool {
	used := m.used
	m.used = false
	return used
}

// wake builds the policy of a model that was laid aside.
func (f *Fold) wake(m *Model) error {
	if m.used = true; !m.aside {
		return nil
	}
	p, err := m.Compiled.NewPolicy(m.Seed)
	if err == nil {
		err = p.Restore(m.state.bytes)
	}
	if err != nil {
		return err
	}
	m.policy, m.aside = p, false
	m.remembers(nil)
	f.defers(m)
	return nil
}

// drop gives up a policy for good.
func (m *Model) drop() {
	m.policy, m.aside = nil, false
	m.remembers(nil)
	m.settled()
}

// Learners returns the models that learn side by side in the policy, nil where there are none.
func (m *Model) Learners() []policy.HashedModel {
	if m.aside {
		return m.learners
	}
	return learnersOf(m.policy)
}

// Noticed returns the last change of the rewards that the policy noticed; Seen is 0 without one.
func (m *Model) Noticed() policy.MeanChange {
	if m.aside {
		return m.noticed
	}
	return noticedBy(m.policy)
}

// SteppedBack returns how often the time of the log was before an earlier one, as a policy that forgets by it has seen.
func (m *Model) SteppedBack() uint64 {
	if m.aside {
		return m.back
	}
	return steppedBack(m.policy)
}

func steppedBack(p model.Policy) uint64 {
	if c, ok := p.(policy.Clocked); ok {
		return c.SteppedBack()
	}
	return 0
}

// remembers keeps what a policy that is laid aside says of itself, nothing of nil.
func (m *Model) remembers(p model.Policy) {
	m.learners, m.noticed, m.back = learnersOf(p), noticedBy(p), steppedBack(p)
}

func noticedBy(p model.Policy) policy.MeanChange {
	if n, ok := p.(policy.Noticer); ok {
		return n.Changed()
	}
	return policy.MeanChange{}
}

func learnersOf(p model.Policy) []policy.HashedModel {
	if l, ok := p.(policy.Learners); ok {
		return l.Models()
	}
	return nil
}

// Size is about how many bytes of memory a model takes.
type Size struct {
	Aside int64 `json:"aside" doc:"while it is laid aside: its configuration and the snapshot of its policy"`
	Used  int64 `json:"used" doc:"while it learns and decides"`
}

// What a model takes beside its snapshot, in bytes and in multiples of the snapshot. TestSize compares them with the
// heap.
const (
	sizeOfModel = 6 << 10 // the model, its published version, its configuration
	timesUsed   = 9       // the policy, its states, two that decide
	sizeOfPages = 12 << 10
	sizeOfPage  = 60      // of a table, for a touched coordinate
	sizeOfEntry = 27      // a touched coordinate in a snapshot
	sizeOfSeen  = 8 << 10 // what is remembered of a sparse model's requests: names, numbers, learners
	timesDense  = 2       // small models beside their bytes in a snapshot
)

// StartSize returns what a model takes before its first event.
func StartSize(c *model.Compiled) Size { return sizeOf(c, c.Start, 0, 0) }

// sizeOf is the size of a model whose snapshot has so many bytes, touched coordinates, and bytes of small models.
func sizeOf(c *model.Compiled, snapshot, touched, dense int) Size {
	s := Size{Aside: sizeOfModel + 2*int64(len(c.JSON))}
	s.Used = s.Aside
	switch {
	case c.Sparse():
		s.Aside += int64(sizeOfEntry*touched + dense)
		s.Used += sizeOfPages + int64((sizeOfPage+sizeOfEntry)*touched+timesDense*dense)
		if touched > 0 {
			s.Aside += sizeOfSeen
			s.Used += sizeOfSeen
		}
	default:
		s.Aside += int64(snapshot)
		s.Used += timesUsed * int64(snapshot)
	}
	return s
}

// Size returns about how many bytes the model takes. Only the goroutine that applies entries may change a model
// meanwhile.
func (m *Model) Size() Size { return sizeOf(m.Compiled, m.bytes, m.touched, m.dense) }

// Now returns about how many bytes the model takes as it is.
func (m *Model) Now() int64 {
	switch {
	case m.policy != nil:
		return m.Size().Used
	case m.aside || !m.Deleted && m.Successor == 0:
		return m.Size().Aside
	}
	return 0
}

// laid gives m the state of a snapshot without a policy of its own. It reports false when that is not possible, and has
// done nothing then: the snapshot is damaged, or does not have the bytes that this program writes.
func (s *scratch) laid(m *Model, snapshot []byte) bool {
	key, err := m.Compiled.Shape()
	if err != nil {
		return false
	}
	p := s.policies[string(key)]
	if p == nil {
		if p, err = m.Compiled.NewPolicy(m.Seed); err != nil {
			return false
		}
		if len(s.policies) >= maxScratch {
			clear(s.policies)
		}
		if s.policies == nil {
			s.policies = map[string]model.Policy{}
		}
		s.policies[string(key)] = p
	}
	if p.Restore(snapshot) != nil {
		delete(s.policies, string(key)) // it may hold a part
		return false
	}
	if s.b, err = p.AppendSnapshot(s.b[:0]); err != nil || !bytes.Equal(s.b, snapshot) {
		return false
	}
	m.state, m.bytes = m.buffers.newState(slices.Clone(snapshot)), len(snapshot)
	memory := m.remembered()
	if x, ok := p.(policy.Sharer); ok {
		m.touched, m.dense = x.Touched(), x.Dense()
		d := x.Digest()
		m.state.digest = Digest(append(d[:], memory...))
		m.state.stats = m.Memory.Statistics
	} else {
		m.state.remember(memory)
	}
	m.aside = true
	m.remembers(p)
	return true
}

// scratch are policies into which snapshots are restored to check them, one for each shape. A snapshot does not depend
// on the seed.
type scratch struct {
	policies map[string]model.Policy
	b        []byte
}

const maxScratch = 16
