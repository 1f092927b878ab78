package fold

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"troupe/eventlog"
	"troupe/policy"
	"troupe/serve/model"
	"troupe/serve/shelf"
)

// State is a snapshot of a policy with its digest, immutable and reference-counted. The fold, published
// versions and readers hold it; after the last Release its buffer is used again for a later state of the
// model, because a state is published for every batch, hundreds in a second. A nil *State is that of a
// model without a policy. Safe for concurrent use.
//
// The state of a policy that is a policy.Sharer has no bytes: it shares what the policy has, which copies it before it
// changes it. That of a model that is laid aside may have them on a shelf.
type State struct {
	bytes   []byte
	place   *shelf.Place
	shared  any // of a policy that shares its state
	digest  eventlog.ID
	buffers *buffers
	holders atomic.Int64
	shown   bool // published, see Publish
	pinned  bool // see pin
}

// retired is the number of holders of a state that nobody can hold any more.
const retired = math.MinInt64 / 2

// NewState returns a state that the caller holds. The bytes belong to it from now on.
func NewState(b []byte) *State { return new(buffers).newState(b) }

// newShared returns a state of a policy that shares its pages.
func newShared(p any, digest eventlog.ID) *State {
	out := &State{shared: p, digest: digest, buffers: new(buffers)}
	out.holders.Store(1)
	return out
}

// remember lets the digest depend on what the model keeps beside its policy, too.
func (s *State) remember(memory []byte) {
	if memory != nil {
		s.digest = Digest(append(binary.LittleEndian.AppendUint64(nil, uint64(s.digest)), memory...))
	}
}

// Put puts a policy of the same configuration into the state. The caller must hold the state. Bytes that are damaged on
// a shelf are a *shelf.DamageError.
func (s *State) Put(into model.Policy) error {
	if s.shared != nil {
		p, ok := into.(policy.Sharer)
		if !ok {
			return fmt.Errorf("a %T does not take a shared state", into)
		}
		return p.Adopt(s.shared)
	}
	b, err := s.Bytes()
	if err != nil {
		return err
	}
	return into.Restore(b)
}

// Hold keeps the bytes until Release. It returns false when they are gone already.
func (s *State) Hold() bool {
	if s == nil {
		return true
	}
	for n := s.holders.Load(); n > 0; n = s.holders.Load() {
		if s.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Publish is a Hold by the version that a server shows. Only the goroutine that applies entries may call it.
func (s *State) Publish() {
	if s != nil {
		s.Hold()
		s.shown = true
	}
}

// pin keeps the pages of a state for good, because another policy goes on from them.
func (s *State) pin() {
	if s != nil {
		s.pinned = true
	}
}

// retire ends a state that shares its pages when nothing but its model and the published version hold it. Then it
// cannot be held any more, and the policy may take its pages back.
func (s *State) retire() bool {
	return s != nil && s.shared != nil && s.shown && !s.pinned && s.holders.CompareAndSwap(2, retired)
}

// Release ends a Hold.
func (s *State) Release() {
	switch {
	case s == nil || s.holders.Add(-1) != 0:
	case s.place != nil:
		s.place.Free()
	default:
		s.buffers.put(s.bytes)
	}
}

// Kept reports whether a policy that was put into the state goes on to read it, so that it has to be held meanwhile.
func (s *State) Kept() bool { return s != nil && s.shared != nil }

// Holders returns how many hold the state now.
func (s *State) Holders() int { return int(max(0, s.holders.Load())) }

// Bytes returns the snapshot, nil without a policy and for a shared state. The caller must hold the state, and does not
// change them. They are read from the shelf where they are there; damage is a *shelf.DamageError.
func (s *State) Bytes() ([]byte, error) {
	switch {
	case s == nil:
		return nil, nil
	case s.place != nil:
		return s.place.Append(nil)
	}
	return s.bytes, nil
}

// size returns how many bytes Bytes returns.
func (s *State) size() int {
	switch {
	case s == nil:
		return 0
	case s.place != nil:
		return s.place.Len()
	}
	return len(s.bytes)
}

// Digest identifies the state of the policy and what the model keeps beside it, 0 without a policy.
func (s *State) Digest() eventlog.ID {
	if s == nil {
		return 0
	}
	return s.digest
}

// buffers are the free buffers of one model, at most two, none while it is laid aside.
type buffers struct {
	mu    sync.Mutex
	free  [][]byte
	aside bool
}

func (p *buffers) newState(b []byte) *State {
	s := &State{bytes: b, digest: Digest(b), buffers: p}
	s.holders.Store(1)
	return s
}

func (p *buffers) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b != nil && len(p.free) < 2 && !p.aside {
		p.free = append(p.free, b[:0])
	}
}

// drop gives the free buffers up, and those that become free, until the next take.
func (p *buffers) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.aside = nil, true
}

func (p *buffers) take() (b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aside = false
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	}
	return b
}
