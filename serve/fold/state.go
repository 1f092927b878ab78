package fold

import (
	"hash/crc32"
	"sync"
	"sync/atomic"

	"troupe/eventlog"
)

// State is a snapshot of a policy with its digest, immutable and reference-counted. The fold, published
// versions and readers hold it; after the last Release its buffer is used again for a later state of the
// model, because a state is published for every batch, hundreds in a second. A nil *State is that of a
// model without a policy. Safe for concurrent use.
type State struct {
	bytes   []byte
	digest  eventlog.ID
	buffers *buffers
	holders atomic.Int64
}

// NewState returns a state that the caller holds. The bytes belong to it from now on.
func NewState(b []byte) *State { return new(buffers).newState(b) }

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

// Release ends a Hold.
func (s *State) Release() {
	if s != nil && s.holders.Add(-1) == 0 {
		s.buffers.put(s.bytes)
	}
}

// Holders returns how many hold the state now.
func (s *State) Holders() int { return int(s.holders.Load()) }

// Bytes returns the snapshot, nil without a policy. The caller must hold the state.
func (s *State) Bytes() []byte {
	if s == nil {
		return nil
	}
	return s.bytes
}

// Digest returns Digest of the bytes, 0 without a policy.
func (s *State) Digest() eventlog.ID {
	if s == nil {
		return 0
	}
	return s.digest
}

// buffers are the free buffers of one model, at most two.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

func (p *buffers) newState(b []byte) *State {
	s := &State{bytes: b, digest: Digest(b), buffers: p}
	s.holders.Store(1)
	return s
}

func (p *buffers) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < 2 {
		p.free = append(p.free, b[:0])
	}
}

func (p *buffers) take() (b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b, p.free = p.free[n-1], p.free[:n-1]
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Digest is two checksums with different polynomials: 64 bits against accidents, not against enemies.
func Digest(b []byte) eventlog.ID {
	return eventlog.ID(crc32.ChecksumIEEE(b))<<32 | eventlog.ID(crc32.Checksum(b, castagnoli))
}
