package serve

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/rng"
)

// The bytes of a fold, version 2, little-endian, numbers as uvarint unless a type is named:
//
//	"TRPS" | version u16 | seq | lost | clock i64 |
//	models: count, each: id u64 | parent u64 | root u64 | successor u64 | cut | keep_later | since | last |
//	    version | paused | deleted | failed text | seed 4×u32 | created, changed: seq, time i64 |
//	    counts 9×u64, reward sum f64, last i64 | configuration text | has policy, its bytes
//	open entries: count, each: seq | hash [16] | epoch u64 | number |
//	    events: count, each: index | model u64 | deadline i64 | state u8 | y f64 |
//	        keys of rewards: count, each u64 | has an idempotency key: key [16] | request [16]
//	idempotency keys of closed windows: count, each: key [16] | request [16] | event | seq | closed at i64
//	position of the chain: bytes
//	SHA-256 of all before
//
// Models ascend by id, entries by sequence, keys by the time of closing. Equal states have equal bytes.

const stateMagic = "TRPS\x02\x00"

// appendState appends the bytes of the fold and of the chain that stands behind it.
func (f *fold) appendState(b []byte, chain *eventlog.Chain) ([]byte, error) {
	start := len(b)
	b, err := f.appendUnsigned(b, chain)
	if err != nil {
		return b, err
	}
	return sign(b, start), nil
}

// sign appends the checksum of what begins at start.
func sign(b []byte, start int) []byte {
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// appendUnsigned is appendState without the checksum, which takes nearly half of the time.
func (f *fold) appendUnsigned(b []byte, chain *eventlog.Chain) ([]byte, error) {
	w := writer{append(b, stateMagic...)}
	w.uint(f.seq)
	w.uint(f.lost)
	w.fixed(uint64(f.clock))
	ids := slices.Sorted(maps.Keys(f.models))
	w.uint(uint64(len(ids)))
	for _, id := range ids {
		m := f.models[id]
		policy, err := m.snapshot()
		if err != nil {
			return b, fmt.Errorf("model %v: %w", id, err)
		}
		w.fixed(uint64(m.id))
		w.fixed(uint64(m.parent))
		w.fixed(uint64(m.root))
		w.fixed(uint64(m.successor))
		w.uint(m.cut)
		w.bool(m.keepLater)
		w.uint(m.since)
		w.uint(m.last)
		w.uint(m.version)
		w.bool(m.paused)
		w.bool(m.deleted)
		w.bytes([]byte(m.failed))
		for _, v := range m.seed {
			w.b = binary.LittleEndian.AppendUint32(w.b, v)
		}
		w.stamp(m.created)
		w.stamp(m.changed)
		c := &m.counts
		for _, v := range []uint64{c.Decisions, c.Rewards, c.Duplicates, c.Late, c.Ignored, c.Expired, c.Defaulted, c.Learned, c.Open} {
			w.fixed(v)
		}
		w.fixed(math.Float64bits(c.RewardSum))
		w.time(c.Last)
		w.bytes(m.cfg.json)
		w.bool(m.policy != nil)
		w.bytes(policy)
	}
	open := slices.SortedFunc(maps.Values(f.open), func(a, b *openBatch) int { return cmp.Compare(a.seq, b.seq) })
	w.uint(uint64(len(open)))
	for _, o := range open {
		w.uint(o.seq)
		w.b = append(w.b, o.hash[:]...)
		w.fixed(uint64(o.epoch))
		w.uint(o.no)
		w.uint(uint64(len(o.events)))
		for i, e := range o.events {
			w.uint(uint64(e.index))
			w.fixed(uint64(e.model.id))
			w.fixed(uint64(e.deadline))
			w.b = append(w.b, byte(e.state))
			w.fixed(math.Float64bits(e.y))
			keys := o.keys[e.index]
			w.uint(uint64(len(keys)))
			for _, k := range keys {
				w.fixed(uint64(k))
			}
			used := o.uses != nil && o.uses[i] != [16]byte{}
			w.bool(used)
			if used {
				u := f.keys[o.uses[i]]
				w.b = append(append(w.b, o.uses[i][:]...), u.request[:]...)
			}
		}
	}
	w.uint(uint64(len(f.closed) - f.gone))
	for _, c := range f.closed[f.gone:] {
		u := f.keys[c.key]
		w.b = append(append(w.b, c.key[:]...), u.request[:]...)
		w.fixed(uint64(u.event.Epoch))
		w.uint(u.event.Batch)
		w.uint(uint64(u.event.Index))
		w.uint(u.seq)
		w.fixed(uint64(c.at))
	}
	w.bytes(chain.AppendPosition(nil))
	return w.b, nil
}

// restoreState returns the fold and the chain of bytes that appendState wrote. Others are an error.
func restoreState(b []byte, p past) (*fold, *eventlog.Chain, error) {
	n := len(b) - sha256.Size
	if n < len(stateMagic) || string(b[:len(stateMagic)]) != stateMagic {
		return nil, nil, errors.New("not the state of a server, or of another version")
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, nil, errors.New("wrong checksum")
	}
	r := reader{b: b[len(stateMagic):n]}
	f := newFold(p)
	f.seq, f.lost, f.clock = r.uint(), r.uint(), int64(r.fixed())
	for range r.count() {
		m := &model{
			id: eventlog.ID(r.fixed()), parent: eventlog.ID(r.fixed()), root: eventlog.ID(r.fixed()), successor: eventlog.ID(r.fixed()),
			cut: r.uint(), keepLater: r.bool(), since: r.uint(), last: r.uint(), version: r.uint(),
			paused: r.bool(), deleted: r.bool(), failed: string(r.bytes()),
		}
		for i := range m.seed {
			if v := r.take(4); v != nil {
				m.seed[i] = binary.LittleEndian.Uint32(v)
			}
		}
		m.created, m.changed = r.stamp(), r.stamp()
		c := &m.counts
		for _, v := range []*uint64{&c.Decisions, &c.Rewards, &c.Duplicates, &c.Late, &c.Ignored, &c.Expired, &c.Defaulted, &c.Learned, &c.Open} {
			*v = r.fixed()
		}
		c.RewardSum = math.Float64frombits(r.fixed())
		c.Last = r.time()
		config, alive, policy := r.bytes(), r.bool(), r.bytes()
		if r.err != nil {
			return nil, nil, r.err
		}
		if err := m.restore(config, alive, policy); err != nil {
			return nil, nil, fmt.Errorf("model %v: %w", m.id, err)
		}
		f.models[m.id] = m
		if !m.deleted && m.successor == 0 {
			f.install(m)
		}
		f.waiting += int64(c.Open)
	}
	for range r.count() {
		o := &openBatch{seq: r.uint()}
		copy(o.hash[:], r.take(16))
		o.epoch, o.no = eventlog.ID(r.fixed()), r.uint()
		for range r.count() {
			e := openEvent{index: uint32(r.uint()), model: f.models[eventlog.ID(r.fixed())], deadline: int64(r.fixed()), state: eventState(r.byte()), y: math.Float64frombits(r.fixed())}
			for range r.count() {
				if o.keys == nil {
					o.keys = map[uint32][]eventlog.ID{}
				}
				o.keys[e.index] = append(o.keys[e.index], eventlog.ID(r.fixed()))
			}
			if e.model == nil && r.err == nil {
				return nil, nil, errors.New("an event of no model")
			}
			o.events = append(o.events, e)
			if o.uses != nil {
				o.uses = append(o.uses, [16]byte{})
			}
			if r.bool() {
				key, u := r.key(), keyUse{r.key(), eventlog.Event{Epoch: o.epoch, Batch: o.no, Index: e.index}, o.seq}
				f.remember(o, key, u)
			}
		}
		f.open[o.batchKey] = o
		f.opened = append(f.opened, o)
	}
	for range r.count() {
		c, u := closedKey{key: r.key()}, keyUse{request: r.key()}
		u.event = eventlog.Event{Epoch: eventlog.ID(r.fixed()), Batch: r.uint(), Index: uint32(r.uint())}
		u.seq, c.at = r.uint(), int64(r.fixed())
		f.keys[c.key], f.closed = u, append(f.closed, c)
	}
	position := r.bytes()
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, nil, r.err
	}
	chain, err := eventlog.RestoreChain(position)
	if err != nil {
		return nil, nil, err
	}
	if chain.Last() != f.seq {
		return nil, nil, fmt.Errorf("the state is of entry %d, its chain of %d", f.seq, chain.Last())
	}
	return f, chain, nil
}

func (m *model) restore(config []byte, alive bool, policy []byte) error {
	var c ModelConfig
	err := json.Unmarshal(config, &c)
	if err == nil {
		m.cfg, err = c.logged()
	}
	if err != nil || !alive {
		return err
	}
	if m.policy, err = m.cfg.newPolicy(m.seed); err != nil {
		return err
	}
	if err := m.policy.Restore(policy); err != nil {
		return err
	}
	m.state = m.room.newState(policy)
	return nil
}

// writer and reader of the format above. After the first fault a reader returns zero values.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)  { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) fixed(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }
func (w *writer) bytes(v []byte) { w.uint(uint64(len(v))); w.b = append(w.b, v...) }
func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

// time writes 0 for the zero time.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.fixed(0)
	} else {
		w.fixed(uint64(t.UnixNano()))
	}
}
func (w *writer) stamp(s Stamp) { w.uint(s.Seq); w.time(s.Time) }

type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = errors.New("cut short")
		}
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || r.err != nil {
		r.take(len(r.b) + 1)
		return 0
	}
	r.take(n)
	return v
}

// count reads a number of things that take at least a byte each.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.take(len(r.b) + 1)
		return 0
	}
	return int(n)
}

func (r *reader) fixed() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) key() (k [16]byte) {
	copy(k[:], r.take(16))
	return k
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool    { return r.byte() != 0 }
func (r *reader) bytes() []byte { return bytes.Clone(r.take(r.count())) }
func (r *reader) time() time.Time {
	if v := r.fixed(); v != 0 {
		return time.Unix(0, int64(v)).UTC()
	}
	return time.Time{}
}
func (r *reader) stamp() Stamp { return Stamp{r.uint(), r.time()} }

// history is the past of a log. It verifies what it reads.
type history struct {
	log log
	// nearest returns the bytes of a state of some entry up to seq, or nil.
	nearest func(seq uint64) []byte
	first   atomic.Uint64 // entry at which the log begins
	base    atomic.Uint64 // entry before whose state nothing can be computed, 0 when the log is whole
	begun   beginnings
}

// beginnings remembers the states that clones and rollbacks began with. A fold meets those again in
// every fold of the same entries, and each needs the ones before it: computed anew, n nested rollbacks
// would cost 2ⁿ folds of the log. The newest are kept, up to beginningBytes.
type beginnings struct {
	mu    sync.Mutex
	known map[beginning]begun
	queue []beginning // oldest first
	bytes int
}

// beginning is the state of an incarnation after an entry. Entries never change, so it does not either.
type beginning struct {
	model eventlog.ID
	seq   uint64
}

type begun struct {
	snapshot []byte
	learned  uint64
}

// beginningBytes bounds beginnings, beside the newest one.
const beginningBytes = 32 << 20

func (b *beginnings) get(k beginning) (begun, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.known[k]
	return v, ok
}

func (b *beginnings) put(k beginning, v begun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known[k]; ok {
		return
	}
	if b.known == nil {
		b.known = map[beginning]begun{}
	}
	b.known[k], b.queue = v, append(b.queue, k)
	for b.bytes += len(v.snapshot) + 128; b.bytes > beginningBytes && len(b.queue) > 1; b.queue = b.queue[1:] {
		b.bytes -= len(b.known[b.queue[0]].snapshot) + 128
		delete(b.known, b.queue[0])
	}
}

// log is what a history reads.
type log interface {
	get(seq uint64) (eventlog.Entry, error)
	replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error
}

// decisions implements past.
func (h *history) decisions(k batchKey, seq uint64, hash eventlog.Hash) ([]*eventlog.Decision, error) {
	e, err := h.log.get(seq)
	if err != nil {
		return nil, err
	}
	b, err := eventlog.ParseBatch(e.Data)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	if b.Epoch != k.epoch || b.No != k.no || b.Hash != hash {
		return nil, fmt.Errorf("entry %d is not batch %d of writer %v: %w", seq, k.no, k.epoch, eventlog.ErrNotFound)
	}
	out := make([]*eventlog.Decision, b.Count)
	for i, r := range b.Events() {
		out[i], _ = r.(*eventlog.Decision)
	}
	return out, nil
}

// decision returns the decision with this key from the entry at seq. Of the entry's other records only
// the checksum is looked at: entries can have hundreds of them.
func (h *history) decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	e, err := h.log.get(seq)
	if err != nil {
		return nil, err
	}
	header, r, err := eventlog.ParseRecord(e.Data, key.Index)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	return isDecision(header, r, key, seq)
}

func isDecision(header eventlog.Header, r eventlog.Record, key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	d, ok := r.(*eventlog.Decision)
	switch {
	case header.Epoch != key.Epoch || header.No != key.Batch:
		return nil, fmt.Errorf("entry %d is not batch %d of writer %v: %w", seq, key.Batch, key.Epoch, eventlog.ErrNotFound)
	case !ok:
		return nil, fmt.Errorf("entry %d has no decision at place %d: %w", seq, key.Index, eventlog.ErrNotFound)
	}
	return d, nil
}

// among is decision for one who may want the entry's other decisions next: each gets all of them, with
// their keys. Their Full is of no use.
func (h *history) among(key eventlog.Event, seq uint64, each func(eventlog.Event, *eventlog.Decision)) (*eventlog.Decision, error) {
	e, err := h.log.get(seq)
	if err != nil {
		return nil, err
	}
	header, records, err := eventlog.ParseRecords(e.Data)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	if int(key.Index) >= len(records) {
		return nil, fmt.Errorf("entry %d has no record %d: %w", seq, key.Index, eventlog.ErrNotFound)
	}
	d, err := isDecision(header, records[key.Index], key, seq)
	if err != nil {
		return nil, err
	}
	for i, r := range records {
		if d, ok := r.(*eventlog.Decision); ok {
			each(eventlog.Event{Epoch: header.Epoch, Batch: header.No, Index: uint32(i)}, d)
		}
	}
	return d, nil
}

// policyAt implements past.
func (h *history) policyAt(chain []eventlog.ID, seq uint64) ([]byte, uint64, error) {
	k := beginning{chain[0], seq}
	if v, ok := h.begun.get(k); ok {
		return v.snapshot, v.learned, nil
	}
	f, err := h.at(chain, seq)
	if err != nil {
		return nil, 0, err
	}
	var v begun
	if m := f.alive(chain); m != nil {
		if m.policy == nil && m.cfg.encoder != nil {
			return nil, 0, fmt.Errorf("model %v had no state after entry %d", m.id, seq)
		}
		if v.snapshot, err = m.snapshot(); err != nil { // f goes and never releases it, so the bytes stay
			return nil, 0, err
		}
		v.learned = m.counts.Learned
	}
	h.begun.put(k, v)
	return v.snapshot, v.learned, nil
}

// alive returns the first model of the chain that exists.
func (f *fold) alive(chain []eventlog.ID) *model {
	for _, id := range chain {
		if m := f.models[id]; m != nil {
			return m
		}
	}
	return nil
}

// at folds the log up to seq, from the nearest state before it, keeping the policies of a chain.
func (h *history) at(chain []eventlog.ID, seq uint64) (*fold, error) {
	only := map[eventlog.ID]bool{}
	for _, id := range chain {
		only[id] = true
	}
	f, _, err := h.fold(only, seq)
	return f, err
}

// fold is at for the models in only, nil for all, and returns the chain behind the state, too.
func (h *history) fold(only map[eventlog.ID]bool, seq uint64) (*fold, *eventlog.Chain, error) {
	if base := h.base.Load(); seq < base {
		return nil, nil, errTrimmed{base}
	}
	f, c := newFold(h), eventlog.NewChain(0, h.first.Load())
	if b := h.nearest(seq); b != nil {
		var err error
		if f, c, err = restoreState(b, h); err != nil {
			return nil, nil, err
		}
	} else if h.first.Load() > 1 {
		return nil, nil, errors.New("the log was trimmed and its base cannot be read")
	}
	f.seq = c.Last()
	if f.only = only; only != nil {
		for id, m := range f.models {
			if !only[id] {
				m.policy = nil
			}
		}
	}
	if seq > f.seq {
		if err := h.log.replay(c, seq, func(d eventlog.Delivery) error { _, err := f.apply(d); return err }); err != nil {
			return nil, nil, err
		}
	}
	return f, c, nil
}

// seedOf makes a seed of 16 random bytes.
func seedOf(b [16]byte) (k rng.Key) {
	for i := range k {
		k[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return k
}
