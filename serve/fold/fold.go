package fold

import (
	"fmt"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/model"
	"troupe/serve/shelf"
)

// Fold is the state of all models after a sequence of the log: what Apply has made of entries 1, …, Seq. It
// reads no clock and draws nothing. Not safe for concurrent use.
type Fold struct {
	seq      uint64
	entry    entry  // that is being folded
	lost     uint64 // entries that an operator has given up (Loss)
	registry        // models by id and by name
	windows         // of events that wait for a reward
	usedKeys        // idempotency keys
	cluster         // nodes and time
	base     Base   // of a cluster that has trimmed its log

	incoming *incoming // nil: no import is under way

	// only, if not nil, are the models whose policies are kept. The others have none: a look at the past
	// of a few models needs no others.
	only      map[eventlog.ID]bool
	past      *History
	deferring bool            // see Defer
	brief     bool            // see Brief
	cast      *model.Compiled // every policy that is kept is this one, see History.Recast

	shapes model.Shapes // of the configurations that were read
	fresh  fresh        // of the models that were laid aside
	shelf  *shelf.Shelf // of the same; nil: in memory

	// Scratch space of action.
	atoms []feature.Atom
	at    []uint32
	x     []float64
}

// Seq returns the last entry that was applied.
func (f *Fold) Seq() uint64 { return f.seq }

// Apply folds one entry. The outcomes are those of its records, in order. After an error the fold is
// of no use any more: it is neither before the entry nor after it.
func (f *Fold) Apply(d eventlog.Delivery) ([]Outcome, error) {
	if d.Seq != f.seq+1 {
		panic("fold: given an entry out of order")
	}
	f.seq = d.Seq
	if d.Repeat {
		return nil, nil
	}
	f.entry = entry{batchKey{d.Epoch, d.No}, d.Hash, d.Time, f.tick(d.Time)}
	if in := f.incoming; in != nil && in.over(f) {
		f.incoming = nil
	}
	out := make([]Outcome, 0, d.Count)
	for i, r := range d.Events() {
		o, err := f.record(i, r)
		if err != nil {
			return nil, fmt.Errorf("entry %d, record %d (%v): %w", d.Seq, i, r.Kind(), err)
		}
		out = append(out, o)
	}
	f.fit(f.entry.batchKey)
	f.forget(f.keysKept(), f.clock)
	return out, nil
}

// record folds record i of the entry: a row for each kind.
func (f *Fold) record(i uint32, r eventlog.Record) (Outcome, error) {
	switch r := r.(type) {
	case *eventlog.Decision:
		return f.decision(i, r), nil
	case *eventlog.Reward:
		return f.reward(r)
	case *eventlog.Activate:
		return f.activate(r), nil
	case *eventlog.Expire:
		return f.expire(r)
	case *eventlog.Control:
		return f.control(r)
	case *eventlog.Piece:
		return f.piece(r), nil
	case *eventlog.Loss:
		f.lost++
		return Accepted, nil
	case *eventlog.Checkpoint:
		return f.checkpoint(r)
	case *eventlog.Learned:
		return f.learned(r)
	}
	return None, fmt.Errorf("a record of kind %v", r.Kind())
}

// checkpoint compares digests that a writer recorded for its state after an entry. Only one that
// was made just before can be compared.
func (f *Fold) checkpoint(r *eventlog.Checkpoint) (Outcome, error) {
	f.heard(r, f.seq)
	if f.lost > 0 || f.cast != nil { // see inherit
		return Accepted, nil
	}
	for _, p := range r.Prices {
		m := f.models[p.Model]
		if m == nil || m.Spending == nil || m.Successor != 0 || m.Spending.Seq > r.Seq || m.Changed.Seq > r.Seq ||
			r.Seq >= f.seq {
			continue
		}
		if own := m.price(p.Model); own != p {
			return None, fmt.Errorf("model %v has the price %v and spent %v, the writer says %v and %v after entry %d", p.Model,
				own.Price, own.Spent, p.Price, p.Spent, r.Seq)
		}
	}
	for _, s := range r.States {
		m := f.models[s.Model]
		if m == nil || !m.HasPolicy() || m.Last > r.Seq || r.Seq >= f.seq {
			continue
		}
		state, err := m.State()
		if err != nil {
			return None, err
		}
		if state.Digest() != s.Digest {
			return None, fmt.Errorf("model %v has the digest %v, the writer says %v after entry %d", s.Model,
				state.Digest(), s.Digest, r.Seq)
		}
	}
	return Accepted, nil
}
