package fold

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"troupe/eventlog"
	"troupe/serve/model"
	"troupe/serve/shelf"
)

// New returns the fold of an empty log. It reads what it does not keep from past, which may be nil when no
// window of the rules sum and last closes and nothing is cloned or rolled back.
func New(past *History) *Fold { return NewOn(past, nil) }

// NewOn is New for a fold that keeps the bytes of models that are laid aside on a shelf, in memory without one. A place
// that is damaged there ends the fold when its model is to learn: Apply returns a *shelf.DamageError.
func NewOn(past *History, on *shelf.Shelf) *Fold { return newFold(past.asPast(), on) }

// Restore returns the fold and the chain of bytes that AppendState wrote. Others are an error. past may be nil
// for a fold that is only read.
func Restore(b []byte, past *History) (*Fold, *eventlog.Chain, error) { return RestoreOn(b, past, nil) }

// RestoreOn is Restore for a fold with a shelf, see NewOn.
func RestoreOn(b []byte, past *History, on *shelf.Shelf) (*Fold, *eventlog.Chain, error) {
	f := NewOn(past, on)
	chain, err := readState(b, f)
	if err != nil {
		f.giveUp()
		return nil, nil, err
	}
	if past != nil {
		chain.Trust(past.Keys)
	}
	return f, chain, nil
}

// asPast returns what a fold is given: nil where there is no history.
func (h *History) asPast() past {
	if h == nil {
		return nil
	}
	return h
}

// History is the past of a log: decisions that the fold does not keep, and states of earlier entries. It
// verifies what it reads. Safe for concurrent use.
type History struct {
	Log Log
	// Nearest returns the bytes of a state of some entry up to seq, or nil.
	Nearest func(seq uint64) []byte
	First   atomic.Uint64 // entry at which the log begins
	Base    atomic.Uint64 // entry before whose state nothing can be computed, 0 when the log is whole

	// Keys are those of the cluster that wrote the log; nil for that of a single machine.
	Keys *eventlog.BatchKeys
	// KeysKept is for tests: how many idempotency keys whose windows are closed are remembered, the constant KeysKept
	// when 0, none when negative.
	KeysKept int

	begun beginnings

	of *History // that this one reads through another log, nil for one that stands for itself
}

// ReadThrough returns h for a fold that reads entries through another Log: what they share is that of h, and First and
// Base of the result are not used. A history that a server opens has one reader that must not give up in the middle of
// an entry, the fold, and others whose callers want to hear at once that the log does not answer.
func (h *History) ReadThrough(log Log) *History {
	return &History{Log: log, Nearest: h.Nearest, Keys: h.Keys, KeysKept: h.KeysKept, of: h.whole()}
}

// whole returns the history that has what is shared.
func (h *History) whole() *History {
	if h.of != nil {
		return h.of
	}
	return h
}

// Chain returns a chain that begins with entry from and has the keys of the history, which may be nil.
func (h *History) Chain(from uint64) *eventlog.Chain {
	c := eventlog.NewChain(0, from)
	if h != nil {
		c.Trust(h.Keys)
	}
	return c
}

// beginnings remembers the states that clones and rollbacks began with. A fold meets those again in
// every fold of the same entries, and each needs the ones before it: computed anew, n nested rollbacks
// would cost 2ⁿ folds of the log. The newest are kept, up to beginningBytes.
type beginnings struct {
	mu    sync.Mutex
	known map[beginning]Past
	queue []beginning // oldest first
	bytes int
}

// beginning is the state of an incarnation after an entry. Entries never change, so it does not either.
type beginning struct {
	model eventlog.ID
	seq   uint64
	cast  eventlog.ID // digest of the configuration in which the log was folded, 0 for the model's own
}

// beginningBytes bounds beginnings, beside the newest one.
const beginningBytes = 32 << 20

func (b *beginnings) get(k beginning) (Past, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.known[k]
	return v, ok
}

func (b *beginnings) put(k beginning, v Past) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known[k]; ok {
		return
	}
	if b.known == nil {
		b.known = map[beginning]Past{}
	}
	b.known[k], b.queue = v, append(b.queue, k)
	for b.bytes += len(v.Snapshot) + 128; b.bytes > beginningBytes && len(b.queue) > 1; b.queue = b.queue[1:] {
		b.bytes -= len(b.known[b.queue[0]].Snapshot) + 128
		delete(b.known, b.queue[0])
	}
}

// decisions returns the decisions of the entry at seq, which is this batch and has this hash: by place, nil
// where a record is no decision.
func (h *History) decisions(k batchKey, seq uint64, hash eventlog.Hash) ([]*eventlog.Decision, error) {
	e, err := h.Log.Get(seq)
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

// Decision returns the decision with this key from the entry at seq. Of the entry's other records only
// the checksum is looked at: entries can have hundreds of them.
func (h *History) Decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	e, err := h.Log.Get(seq)
	if err != nil {
		return nil, err
	}
	header, r, err := eventlog.ParseRecord(e.Data, key.Index)
	if header.Epoch != key.Epoch || header.No != key.Batch {
		return carriedDecision(e.Data, key, seq)
	}
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	return isDecision(header, r, key, seq)
}

// DecisionAmong is Decision for an entry whose other decisions may be wanted next: each gets all of them with
// their keys, without their Full.
func (h *History) DecisionAmong(key eventlog.Event, seq uint64, each func(eventlog.Event,
	*eventlog.Decision)) (*eventlog.Decision, error) {
	e, err := h.Log.Get(seq)
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

// keysKept is the constant KeysKept, but in tests.
func (h *History) keysKept() int {
	if h.KeysKept != 0 {
		return max(0, h.KeysKept)
	}
	return KeysKept
}

// PolicyAt returns the state of an incarnation after entry seq. The chain lists the incarnation and its
// ancestors.
func (h *History) PolicyAt(chain []eventlog.ID, seq uint64) (Past, error) {
	return h.policyAt(chain, seq, nil)
}

// Recast is PolicyAt for a model as if it had had the policy, the features, the noise and the range of rewards of cast
// since it began. It folds the log from its beginning, which must be there.
func (h *History) Recast(chain []eventlog.ID, seq uint64, cast *model.Compiled) (Past, error) {
	return h.policyAt(chain, seq, cast)
}

func (h *History) policyAt(chain []eventlog.ID, seq uint64, cast *model.Compiled) (Past, error) {
	k := beginning{model: chain[0], seq: seq}
	if cast != nil {
		c := cast.Config
		c.ID = ""
		b, err := c.MarshalJSON()
		if err != nil {
			return Past{}, err
		}
		k.cast = Digest(b)
	}
	if v, ok := h.whole().begun.get(k); ok {
		return v, nil
	}
	f, err := h.at(chain, seq, cast)
	if err != nil {
		return Past{}, err
	}
	var v Past
	if m := f.alive(chain); m != nil {
		if !m.HasPolicy() {
			return Past{}, fmt.Errorf("model %v had no state after entry %d", m.ID, seq)
		}
		s, err := m.State()
		if err != nil {
			return Past{}, err
		}
		if v.Snapshot, err = m.appendSnapshot(nil); err != nil {
			return Past{}, err
		}
		v.Learned, v.Memory, v.Digest = m.Counts.Learned, m.Memory, s.Digest()
	}
	h.whole().begun.put(k, v)
	return v, nil
}

// At folds the log up to seq, from the nearest state before it, keeping the policies of a chain.
func (h *History) At(chain []eventlog.ID, seq uint64) (*Fold, error) { return h.at(chain, seq, nil) }

func (h *History) at(chain []eventlog.ID, seq uint64, cast *model.Compiled) (*Fold, error) {
	only := map[eventlog.ID]bool{}
	for _, id := range chain {
		only[id] = true
	}
	if cast == nil {
		f, _, err := h.Fold(only, seq)
		return f, err
	}
	if h.whole().First.Load() > 1 {
		return nil, &TrimmedError{max(1, h.whole().Base.Load())}
	}
	f, c := New(h), h.Chain(1)
	f.only, f.cast = only, cast
	return f, h.Log.Replay(c, seq, func(d eventlog.Delivery) error { _, err := f.Apply(d); return err })
}

// Fold is At for the policies of the models in only, nil for all. It also returns the chain of the log.
func (h *History) Fold(only map[eventlog.ID]bool, seq uint64) (*Fold, *eventlog.Chain, error) {
	return h.FoldOn(only, seq, nil)
}

// FoldOn is Fold for a fold with a shelf, see NewOn. After an error the shelf is of no use any more.
func (h *History) FoldOn(only map[eventlog.ID]bool, seq uint64, on *shelf.Shelf) (*Fold, *eventlog.Chain, error) {
	if base := h.whole().Base.Load(); seq < base {
		return nil, nil, &TrimmedError{base}
	}
	f, c := NewOn(h, on), h.Chain(h.whole().First.Load())
	if b := h.Nearest(seq); b != nil {
		var err error
		if f, c, err = RestoreOn(b, h, on); err != nil {
			return nil, nil, err
		}
	} else if h.whole().First.Load() > 1 {
		return nil, nil, errors.New("the log was trimmed and its base cannot be read")
	}
	f.seq = c.Last()
	if f.only = only; only != nil {
		for id, m := range f.byID {
			if !only[id] {
				m.drop()
			}
		}
	}
	if seq > f.seq {
		if err := h.Log.Replay(c, seq, func(d eventlog.Delivery) error {
			_, err := f.Apply(d)
			return err
		}); err != nil {
			return nil, nil, err
		}
	}
	return f, c, nil
}

// TrimmedError: the state that was asked for lies before the base of a trimmed log.
type TrimmedError struct{ Base uint64 }

// Error says in one line what is wrong.
func (e *TrimmedError) Error() string {
	return fmt.Sprintf("the log was trimmed: states before that of entry %d are gone", e.Base)
}
