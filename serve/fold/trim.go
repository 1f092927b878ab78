package fold

import (
	"crypto/sha256"

	"troupe/eventlog"
	"troupe/serve/model"
)

// Base is the state that takes the place of what the nodes of a cluster have trimmed in agreement: that of entry Seq,
// whose bytes (AppendState) have this SHA-256. Record is the entry that says so. The zero Base is none.
type Base struct {
	Seq    uint64
	Sum    [sha256.Size]byte
	Record uint64
}

// Base returns the newest one that the log names.
func (f *Fold) Base() Base { return f.base }

// trim makes the state of entry r.AtSeq the base of the log of a cluster: from now on no act looks at a state before
// it, so the entries before it may go. Its node has checked that nothing needs them, by what it had applied, which is
// in the checkpoint before the record in the same entry; when an act has changed a model since, the trim is a conflict,
// and so it is while a window or a key needs them.
func (f *Fold) trim(r *eventlog.Control) Outcome {
	seen, ok := f.seen(f.seq)
	if !ok || r.AtSeq <= f.base.Seq || r.AtSeq > seen || r.AtSeq >= f.OldestNeeded() {
		return Conflict
	}
	for _, m := range f.models {
		if m.Changed.Seq > seen {
			return Conflict
		}
	}
	f.base = Base{Seq: r.AtSeq, Sum: [sha256.Size]byte(r.Data), Record: f.seq}
	return Accepted
}

// behind reports whether a copy of from that begins with the state after entry seq looks behind the base. With another
// policy, cfg is not nil, it learns from the whole log.
func (f *Fold) behind(from *Model, seq uint64, cfg *model.Compiled) (bool, error) {
	if f.base.Seq == 0 || seq < f.base.Seq {
		return f.base.Seq > 0, nil
	}
	if cfg == nil {
		return false, nil
	}
	then, err := from.ConfigAt(seq)
	return err == nil && then.SameState(cfg) != nil, err
}

func (w *writer) base(b Base) {
	w.uint(b.Seq)
	w.b = append(w.b, b.Sum[:]...)
	w.uint(b.Record)
}

func (r *reader) base() (b Base) {
	b.Seq = r.uint()
	copy(b.Sum[:], r.take(len(b.Sum)))
	b.Record = r.uint()
	return b
}
