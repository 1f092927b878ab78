package fold

import (
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/model"
)

// past is what a fold asks of the log behind it, beside the entries that it applies.
type past interface {
	// Decision returns the decision with this key from the entry at seq.
	Decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error)
	// decisions returns the decisions of the entry at seq by place, nil where a record is none.
	decisions(k batchKey, seq uint64, hash eventlog.Hash) ([]*eventlog.Decision, error)
	// policyAt returns the state of an incarnation after an entry; with cast, as if it had always had that policy.
	policyAt(chain []eventlog.ID, seq uint64, cast *model.Compiled) (Past, error)
	// keysKept returns how many keys of closed windows are remembered.
	keysKept() int
}

// Past is the state of a model after an earlier entry.
type Past struct {
	Snapshot []byte // of the policy
	Learned  uint64 // updates that it has seen
	Memory   Memory
	Digest   eventlog.ID // 0 without a snapshot
}

// DigestUnder returns the digest of the state that a model of this configuration and seed begins with: what it keeps
// beside its policy may count otherwise than in the configuration of then.
func (p *Past) DigestUnder(c *model.Compiled, seed rng.Key) (eventlog.ID, error) {
	m := Model{Compiled: c, Memory: p.Memory}
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
