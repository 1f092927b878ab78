package eventlogtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"troupe/eventlog"
)

// Fault is what can go wrong with one step of Memory.Append.
type Fault uint8

// The faults. Each belongs to one of the two steps, named in front.
const (
	NoFault     Fault = iota
	Full              // write: refused with eventlog.ErrFull
	LoseRequest       // write: nothing is stored, no answer
	LateRequest       // write: no answer now; stored before the next Append
	ForgetIDs         // write: message ids are not looked at, so a retry is stored twice
	WriteError        // write: EIO, nothing is stored, and nothing is ever acknowledged again
	ShortWrite        // write: half of it is stored, and nothing is ever acknowledged again
	NoSpace           // write: half of it is stored, and nothing more until Heal
	SyncError         // sync: EIO, stored but not durable, and nothing is ever acknowledged again
	LoseAck           // sync: stored and durable, no answer
	LieSync           // sync: acknowledged without being durable
)

// Step is one of the two steps of Append.
type Step uint8

const (
	StepWrite Step = iota // the batch is stored
	StepSync              // what was stored becomes durable
)

// MemoryOptions configure a Memory.
type MemoryOptions struct {
	Shards uint16 // default 1
	Limit  uint64 // bytes in a shard, default 1 GiB
	// Fault is asked at every step of every Append; n counts the steps from 1. It may be nil. A
	// fault that does not belong to the step is ignored.
	Fault func(n int, s Step) Fault
}

// Memory is an eventlog.Log without a disk. MemoryOptions.Fault says which calls fail and how, and
// Crash loses what was not synced. Nothing survives the process. Its methods may be called from many
// goroutines.
type Memory struct {
	opt MemoryOptions

	mu     sync.Mutex
	steps  int
	shards []memoryShard
	late   []lateRequest
	bases  map[uint64]memoryBase
	broken bool
	down   bool
	closed bool
	more   chan struct{} // closed and replaced when something changes
}

type memoryShard struct {
	first   uint64
	entries []memoryEntry // sequences first, first+1, …
	ids     map[string]uint64
	bytes   uint64
}

type memoryEntry struct {
	data    []byte
	id      string
	visible bool
	synced  bool
	torn    bool
	hidden  bool // damage: the engine does not find it
}

type lateRequest struct {
	shard uint16
	id    string
	data  []byte
}

var (
	errNoAnswer = errors.New("no answer")
	errNoRoom   = fmt.Errorf("%w: %w", eventlog.ErrDown, eventlog.ErrFull) // as JetStream has it
)

// NewMemory returns an empty log.
func NewMemory(opt MemoryOptions) *Memory {
	if opt.Shards == 0 {
		opt.Shards = 1
	}
	if opt.Limit == 0 {
		opt.Limit = 1 << 30
	}
	m := &Memory{opt: opt, more: make(chan struct{})}
	m.shards = make([]memoryShard, opt.Shards)
	for i := range m.shards {
		m.shards[i] = memoryShard{first: 1, ids: map[string]uint64{}}
	}
	return m
}

func (m *Memory) shard(n uint16) (*memoryShard, error) {
	if m.closed {
		return nil, eventlog.ErrClosed
	}
	if int(n) >= len(m.shards) {
		return nil, fmt.Errorf("shard %d of %d: %w", n, len(m.shards), eventlog.ErrShard)
	}
	return &m.shards[n], nil
}

func (m *Memory) fault(s Step) Fault {
	m.steps++
	if m.opt.Fault == nil {
		return NoFault
	}
	f := m.opt.Fault(m.steps, s)
	if (f >= SyncError) != (s == StepSync) {
		return NoFault
	}
	return f
}

// Steps returns how many steps there were.
func (m *Memory) Steps() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps
}

func (m *Memory) changed() {
	close(m.more)
	m.more = make(chan struct{})
}

// end is the sequence that the next entry gets.
func (s *memoryShard) end() uint64 { return s.first + uint64(len(s.entries)) }

// last is the newest visible entry.
func (s *memoryShard) last() uint64 {
	for i := len(s.entries); i > 0; i-- {
		if s.entries[i-1].visible {
			return s.first + uint64(i) - 1
		}
	}
	return s.first - 1
}

func (s *memoryShard) store(id string, data []byte) *memoryEntry {
	s.ids[id] = s.end()
	s.bytes += uint64(len(data))
	s.entries = append(s.entries, memoryEntry{data: bytes.Clone(data), id: id})
	return &s.entries[len(s.entries)-1]
}

// Append implements Log.
func (m *Memory) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.shard(shard)
	if err != nil {
		return 0, false, err
	}
	if len(batch) > eventlog.MaxBatch {
		return 0, false, fmt.Errorf("batch of %d bytes: %w", len(batch), eventlog.ErrTooLarge)
	}
	if m.broken {
		return 0, false, eventlog.ErrBroken
	}
	if m.down {
		return 0, false, errNoRoom
	}
	for _, l := range m.late {
		if s := &m.shards[l.shard]; s.ids[l.id] == 0 {
			e := s.store(l.id, l.data)
			e.synced, e.visible = true, true
		}
	}
	m.late = nil
	defer m.changed()
	fault := m.fault(StepWrite)
	if fault == LoseRequest {
		return 0, false, errNoAnswer
	}
	if fault != ForgetIDs && s.ids[id] != 0 {
		return s.ids[id], true, nil
	}
	if fault == Full || s.bytes+uint64(len(batch)) > m.opt.Limit {
		return 0, false, eventlog.ErrFull
	}
	switch fault {
	case LateRequest:
		m.late = append(m.late, lateRequest{shard, id, bytes.Clone(batch)})
		return 0, false, errNoAnswer
	case WriteError:
		m.broken = true
		return 0, false, errNoAnswer
	case ShortWrite, NoSpace:
		e := s.store(id, batch[:len(batch)/2])
		e.torn = true
		m.broken, m.down = fault == ShortWrite, fault == NoSpace
		return 0, false, errNoAnswer
	}
	seq = s.end()
	e := s.store(id, batch)
	switch m.fault(StepSync) {
	case SyncError:
		m.broken = true
		return 0, false, errNoAnswer
	case LoseAck:
		e.synced, e.visible = true, true
		return 0, false, errNoAnswer
	case LieSync:
		e.visible = true
	default:
		for i := range s.entries { // a sync takes all that came before with it
			s.entries[i].synced = true
		}
		e.visible = true
	}
	return seq, false, nil
}

// Read implements Log.
func (m *Memory) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for {
			m.mu.Lock()
			s, err := m.shard(shard)
			if err == nil && from < s.first {
				err = &eventlog.GapError{Shard: shard, First: from, Last: s.first - 1}
			}
			var e eventlog.Entry
			if err == nil && from <= s.last() {
				if x := s.entries[from-s.first]; x.hidden {
					err = &eventlog.GapError{Shard: shard, First: from, Last: from}
				} else {
					e = eventlog.Entry{Seq: from, Data: bytes.Clone(x.data)}
				}
			}
			more := m.more
			m.mu.Unlock()
			if err == nil {
				err = ctx.Err()
			}
			switch {
			case err != nil:
				yield(eventlog.Entry{}, err)
				return
			case e.Seq == 0:
				select {
				case <-more:
				case <-ctx.Done():
				}
			case !yield(e, nil):
				return
			default:
				from++
			}
		}
	}
}

// Get implements Log.
func (m *Memory) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.shard(shard)
	if err != nil {
		return eventlog.Entry{}, err
	}
	if seq < s.first || seq > s.last() || s.entries[seq-s.first].hidden {
		return eventlog.Entry{}, notFound(shard, seq)
	}
	return eventlog.Entry{Seq: seq, Data: bytes.Clone(s.entries[seq-s.first].data)}, nil
}

func notFound(shard uint16, seq uint64) error {
	return fmt.Errorf("shard %d: entry %d: %w", shard, seq, eventlog.ErrNotFound)
}

// Trim implements Log.
func (m *Memory) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.shard(shard)
	if err != nil {
		return err
	}
	if upTo < s.first {
		return nil
	}
	if upTo >= s.last() {
		return trimError(shard, upTo, s.last())
	}
	for s.first <= upTo {
		s.bytes -= uint64(len(s.entries[0].data))
		s.first, s.entries = s.first+1, s.entries[1:]
	}
	m.changed()
	return nil
}

func trimError(shard uint16, upTo, last uint64) error {
	return fmt.Errorf("shard %d: trim up to %d, the last entry is %d: %w", shard, upTo, last, eventlog.ErrTrim)
}

// Info implements Log.
func (m *Memory) Info(ctx context.Context, shard uint16) (eventlog.Info, error) {
	if err := ctx.Err(); err != nil {
		return eventlog.Info{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.shard(shard)
	if err != nil {
		return eventlog.Info{}, err
	}
	return eventlog.Info{First: s.first, Last: s.last(), Bytes: s.bytes, Limit: m.opt.Limit, Sync: "memory"}, nil
}

// Down makes the log refuse every Append with ErrDown and ErrFull until Heal.
func (m *Memory) Down() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = true
}

// Heal ends NoSpace and Down. It does what JetStream does by itself when there is room again: the
// engine is opened again, which cuts off a torn entry.
func (m *Memory) Heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.shards {
		s := &m.shards[i]
		if n := len(s.entries); m.down && n > 0 && s.entries[n-1].torn {
			s.bytes -= uint64(len(s.entries[n-1].data))
			delete(s.ids, s.entries[n-1].id)
			s.entries = s.entries[:n-1]
		}
	}
	m.down = false
	m.changed()
}

// Err returns nil while the log stores, otherwise an error that wraps ErrDown or ErrBroken.
func (m *Memory) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.broken:
		return eventlog.ErrBroken
	case m.down:
		return errNoRoom
	}
	return nil
}

// Close ends every waiting Read.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		m.changed()
	}
	return nil
}

// Crash loses power. It closes m and returns the log that a restart finds. Of the n entries that were
// not synced the first keep(shard, n) survive; a nil keep means none. Torn entries are gone, because
// every engine cuts them off. Late requests never arrive. opt is for the new log; its Shards and Limit
// are those of m.
func (m *Memory) Crash(keep func(shard uint16, unsynced int) int, opt MemoryOptions) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	opt.Shards, opt.Limit = m.opt.Shards, m.opt.Limit
	after := NewMemory(opt)
	for n := range m.shards {
		old, s := &m.shards[n], &after.shards[n]
		s.first = old.first
		unsynced := 0
		for _, e := range old.entries {
			if !e.synced {
				unsynced++
			}
		}
		left := 0
		if keep != nil && unsynced > 0 {
			left = keep(uint16(n), unsynced)
		}
		for _, e := range old.entries {
			if !e.synced {
				if left--; left < 0 || e.torn {
					break
				}
			}
			x := s.store(e.id, e.data)
			x.synced, x.visible, x.hidden = true, true, e.hidden
		}
	}
	if !m.closed {
		m.closed = true
		m.changed()
	}
	return after
}

// Damage changes a stored entry behind the engine's back: f gets a copy of its bytes and returns
// what is found there from now on; nil hides the entry. An entry that does not exist panics.
func (m *Memory) Damage(shard uint16, seq uint64, f func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.shards[shard]
	if seq < s.first || seq >= s.end() {
		panic("eventlogtest: Damage: no such entry")
	}
	e := &s.entries[seq-s.first]
	if b := f(bytes.Clone(e.data)); b == nil {
		e.hidden = true
	} else {
		e.data = b
	}
}

// Cut removes the newest n entries of a shard, and the memory of them, as a truncated file does.
func (m *Memory) Cut(shard uint16, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.shards[shard]
	for ; n > 0 && len(s.entries) > 0; n-- {
		e := s.entries[len(s.entries)-1]
		s.entries = s.entries[:len(s.entries)-1]
		s.bytes -= uint64(len(e.data))
		delete(s.ids, e.id)
	}
}

// PutBase stores a base, as eventlog.Stream does.
func (m *Memory) PutBase(ctx context.Context, b eventlog.Base, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return eventlog.ErrClosed
	}
	if m.bases == nil {
		m.bases = map[uint64]memoryBase{}
	}
	b.Size = int64(len(data))
	m.bases[b.Seq] = memoryBase{b, bytes.Clone(data)}
	return ctx.Err()
}

// Bases returns the bases that are stored, newest first.
func (m *Memory) Bases(ctx context.Context) ([]eventlog.Base, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []eventlog.Base
	for _, b := range m.bases {
		out = append(out, b.Base)
	}
	slices.SortFunc(out, func(a, b eventlog.Base) int { return cmp.Compare(b.Seq, a.Seq) })
	return out, ctx.Err()
}

// GetBase returns the bytes of a base and verifies them.
func (m *Memory) GetBase(ctx context.Context, b eventlog.Base) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x, ok := m.bases[b.Seq]
	if !ok {
		return nil, fmt.Errorf("base of entry %d: %w", b.Seq, eventlog.ErrNotFound)
	}
	if err := b.Verify(x.data); err != nil {
		return nil, err
	}
	return bytes.Clone(x.data), ctx.Err()
}

// DropBases removes the bases of entries before a sequence.
func (m *Memory) DropBases(ctx context.Context, before uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for seq := range m.bases {
		if seq < before {
			delete(m.bases, seq)
		}
	}
	return ctx.Err()
}

type memoryBase struct {
	eventlog.Base
	data []byte
}
