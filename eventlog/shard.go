package eventlog

import (
	"sync"
	"sync/atomic"
)

// streamShard is what JetStream knows of one shard. It outlives the engine.
type streamShard struct {
	n    uint16
	last atomic.Uint64 // newest entry known to be durable

	mu     sync.Mutex
	file   *ackedFile
	acked  ackedEnd      // what the file should have, written or not
	blocks []blockSpan   // of the opening
	more   chan struct{} // closed and replaced when last grows

	followers int        // readers that want the recent entries
	recent    [8]*recent // entry seq at seq mod 8, where there is one
}

// recent is a copy of an entry that this process has stored, for readers that follow the log. Asking
// the engine for it would mean waiting for the sync of the next entry, and four more copies.
type recent struct {
	seq     uint64
	data    []byte
	readers int // that look at data now: it must not be overwritten
}

// keep makes a copy of a new entry in place of an old one. The caller holds mu.
func (s *streamShard) keep(seq uint64, batch []byte) {
	if s.followers == 0 {
		return
	}
	at := &s.recent[seq%uint64(len(s.recent))]
	if *at == nil || (*at).readers > 0 { // the readers have the old one to themselves now
		*at = new(recent)
	}
	(*at).seq, (*at).data = seq, append((*at).data[:0], batch...)
}

// lend returns the copy of an entry, or nil. The reader gives it back. The caller holds mu.
func (s *streamShard) lend(seq uint64) *recent {
	k := s.recent[seq%uint64(len(s.recent))]
	if k == nil || k.seq != seq {
		return nil
	}
	k.readers++
	return k
}

func (s *streamShard) giveBack(k *recent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.readers--
}

// follow counts the readers that follow: 1 for one more, -1 for one less.
func (s *streamShard) follow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers += n; s.followers == 0 {
		clear(s.recent[:])
	}
}

func (s *streamShard) first() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked.First
}

// grow wakes the readers for entries up to seq. The caller holds mu.
func (s *streamShard) grow(seq uint64) {
	if seq > s.last.Load() {
		s.last.Store(seq)
		close(s.more)
		s.more = make(chan struct{})
	}
}
