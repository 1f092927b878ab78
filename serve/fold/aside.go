package fold

import (
	"slices"

	"troupe/eventlog"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/model"
	"troupe/serve/shelf"
)

// keeper has the policy of a model, built or laid aside, and the newest state of it.
//
// A policy takes several times the bytes of its snapshot, and a server may have thousands of models of which few are
// asked in an hour. Of a model that is laid aside the fold keeps the snapshot, on its shelf if it has one, and its
// digest; the policy is built anew when the model is to learn. A model begins laid aside, and so does one that a fold
// is restored with. What comes out is the same, bit for bit, because a snapshot is exact.
type keeper struct {
	policy model.Policy // nil: laid aside, rolled back, deleted, or not in Fold.only
	state  *State       // of the policy; nil when the policy has changed since
	aside  bool         // the policy is to be built from state, see LayAside
	used   bool         // it has learned since TakeUsed

	said    policy.Explanation // of a model that is laid aside
	noticed policy.MeanChange  // the same
	back    uint64             // the same, of SteppedBack
	bytes   int                // of the snapshot, or of a shared state, as it was last seen
	buffers buffers            // of states
}

// HasPolicy reports whether the fold keeps a policy for the model, built or laid aside.
func (k *keeper) HasPolicy() bool { return k.policy != nil || k.aside }

// Awake reports whether the policy of a model is built.
func (k *keeper) Awake() bool { return k.policy != nil }

// Policy returns the policy, nil without one and while it is laid aside, for readers of its state. They must not change
// it.
func (k *keeper) Policy() model.Policy { return k.policy }

// TakeUsed reports whether the model has learned since the last call.
func (k *keeper) TakeUsed() bool {
	used := k.used
	k.used = false
	return used
}

// take makes the state of the policy. memory is what the digest has beside it.
func (k *keeper) take(memory []byte) (*State, error) {
	if p, ok := k.policy.(policy.Sharer); ok {
		d := p.Digest()
		k.bytes = p.Bytes()
		k.state = newShared(p.Share(), Digest(append(d[:], memory...)))
		return k.state, nil
	}
	b, err := k.policy.AppendSnapshot(k.buffers.take())
	if err != nil {
		return nil, err
	}
	k.state, k.bytes = k.buffers.newState(b), len(b)
	k.state.remember(memory)
	return k.state, nil
}

// dropState releases the state after the policy has changed.
func (k *keeper) dropState() {
	k.state.Release()
	k.state = nil
}

// drop gives up the policy for good.
func (k *keeper) drop() {
	k.policy, k.aside = nil, false
	k.remembers(nil)
	k.dropState()
}

// layAside gives up the policy, whose state is taken, and keeps its bytes. It reports whether these are another state.
func (k *keeper) layAside(on *shelf.Shelf) (other bool, err error) {
	s := k.state
	b := s.bytes
	if s.shared != nil { // pages hold much more than what was written to them
		if b, err = k.policy.AppendSnapshot(nil); err != nil {
			return false, err
		}
	}
	if s.place == nil && (s.shared != nil || on != nil) { // what is on a shelf, unchanged since it was built from it, stays there
		k.lay(on, b, s.digest)
		s.Release()
		other = true
	}
	k.remembers(k.policy)
	k.policy, k.aside = nil, true
	k.buffers.drop()
	return other, nil
}

// lay makes the state of a model that is laid aside. Its bytes go to the shelf; without one, or when it cannot take
// them (shelf.Status says why), a copy stays in memory.
func (k *keeper) lay(on *shelf.Shelf, b []byte, digest eventlog.ID) {
	k.state = &State{digest: digest, buffers: &k.buffers}
	k.state.holders.Store(1)
	k.bytes = len(b)
	if on != nil {
		k.state.place, _ = on.Put(b)
	}
	if k.state.place == nil {
		k.state.bytes = slices.Clone(b)
	}
}

// wake builds a policy that was laid aside. It reports false where there was none.
func (k *keeper) wake(c *model.Compiled, seed rng.Key) (built bool, err error) {
	if k.used = true; !k.aside {
		return false, nil
	}
	p, err := c.NewPolicy(seed)
	if err == nil {
		err = k.state.Put(p)
	}
	if err != nil {
		return false, err
	}
	k.policy, k.aside = p, false
	k.remembers(nil)
	if s, ok := p.(policy.Sharer); ok { // it sees decisions before it learns (bandit.Witness), which its bytes do not have
		d := k.state.Digest()
		k.dropState()
		k.state, k.bytes = newShared(s.Share(), d), s.Bytes()
	}
	return true, nil
}

// Explanation returns what the policy says of what it has learned, nothing where it does not tell.
func (k *keeper) Explanation() policy.Explanation {
	if k.aside {
		return k.said
	}
	return explanationOf(k.policy)
}

func explanationOf(p model.Policy) (e policy.Explanation) {
	if x, ok := p.(policy.Explainer); ok {
		e = x.Explain()
	}
	return e
}

// Noticed returns the last change of the rewards that the policy noticed; Seen is 0 without one.
func (k *keeper) Noticed() policy.MeanChange {
	if k.aside {
		return k.noticed
	}
	return noticedBy(k.policy)
}

// SteppedBack returns how often the time of the log was before an earlier one, as a policy that forgets by it has seen.
func (k *keeper) SteppedBack() uint64 {
	if k.aside {
		return k.back
	}
	return steppedBack(k.policy)
}

func steppedBack(p model.Policy) uint64 {
	if c, ok := p.(policy.Clocked); ok {
		return c.SteppedBack()
	}
	return 0
}

// remembers keeps what a policy that is laid aside says of itself, nothing of nil.
func (k *keeper) remembers(p model.Policy) {
	k.said, k.noticed, k.back = explanationOf(p), noticedBy(p), steppedBack(p)
}

func noticedBy(p model.Policy) policy.MeanChange {
	if n, ok := p.(policy.Noticer); ok {
		return n.Changed()
	}
	return policy.MeanChange{}
}
