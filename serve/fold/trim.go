package fold

import (
	"crypto/sha256"

	"troupe/serve/model"
)

// Base is the state that takes the place of what the nodes of a cluster have trimmed in agreement: that of entry Seq,
// whose bytes (AppendState) have this SHA-256. Record is the entry that says so. The zero Base is none.
type Base struct {
	Seq    uint64
	Sum    [sha256.Size]byte
	Record uint64
}

// trims agrees with the other nodes of a cluster on what of the log may go.
type trims struct {
	at      *position
	models  *registry
	cluster *cluster
	needs   interface{ OldestNeeded() uint64 } // the oldest entry that a window or a key needs
	base    Base
}

// Base returns the newest one that the log names.
func (t *trims) Base() Base { return t.base }

// trim makes the state of entry r.AtSeq the base of the log of a cluster: from now on no act looks at a state before
// it, so the entries before it may go. Its node has checked that nothing needs them, by what it had applied, which is
// in the checkpoint before the record in the same entry; when an act has changed a model since, the trim is a conflict,
// and so it is while a window or a key needs them.
func (t *trims) trim(a *act) (Outcome, error) {
	r := a.r
	seen, ok := t.cluster.seen(t.at.seq)
	if !ok || r.AtSeq <= t.base.Seq || r.AtSeq > seen || r.AtSeq >= t.needs.OldestNeeded() {
		return Conflict, nil
	}
	for m := range t.models.Models() {
		if m.Changed.Seq > seen {
			return Conflict, nil
		}
	}
	t.base = Base{Seq: r.AtSeq, Sum: [sha256.Size]byte(r.Data), Record: t.at.seq}
	return Accepted, nil
}

// behind reports whether a copy of from that begins with the state after entry seq looks behind the base. With another
// policy, cfg is not nil, it learns from the whole log.
func (t *trims) behind(from *Model, seq uint64, cfg *model.Compiled) (bool, error) {
	if t.base.Seq == 0 || seq < t.base.Seq {
		return t.base.Seq > 0, nil
	}
	if cfg == nil {
		return false, nil
	}
	return from.ownConfig().SameState(cfg) != nil, nil
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
