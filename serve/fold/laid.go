package fold

import (
	"bytes"

	"troupe/policy"
	"troupe/serve/model"
	"troupe/serve/shelf"
)

// scratch are policies into which snapshots are restored to check them, one for each shape. A snapshot does not depend
// on the seed.
type scratch struct {
	policies map[string]model.Policy
	b        []byte
	on       *shelf.Shelf // of the fold
}

const maxScratch = 16

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
	memory := m.remembered()
	if x, ok := p.(policy.Sharer); ok {
		d := x.Digest()
		m.lay(s.on, snapshot, Digest(append(d[:], memory...)))
	} else {
		m.lay(s.on, snapshot, Digest(snapshot))
		m.state.remember(memory)
	}
	m.aside = true
	m.remembers(p)
	return true
}
