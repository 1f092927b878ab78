package fold

import (
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/model"
)

// Past is the state of a model after an earlier entry.
type Past struct {
	Snapshot []byte // of the policy, nil before its features were learned
	Learned  uint64 // updates that it has seen
	Memory   Memory
	Learning *Learning
	Digest   eventlog.ID // 0 without a snapshot
}

// DigestUnder returns the digest of the state that a model of this configuration and seed begins with: what it keeps
// beside its policy may count otherwise than in the configuration of then.
func (p *Past) DigestUnder(c *model.Compiled, seed rng.Key) (eventlog.ID, error) {
	m := Model{Compiled: c, Memory: p.Memory, Learning: p.Learning.inherited()}
	m.beginLearning()
	var err error
	if m.policy, err = c.NewPolicy(seed); err == nil && p.Snapshot != nil {
		err = m.policy.Restore(p.Snapshot)
	}
	if err != nil {
		return 0, err
	}
	s, err := m.State()
	return s.Digest(), err
}
