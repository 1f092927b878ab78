package fold

import (
	"bytes"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
)

// incoming is an import whose pieces have not all come. There is one at most: another one ends it. On a single machine
// a batch of another writer does, because the writer that began it is gone; in a cluster a minute does.
type incoming struct {
	model  eventlog.ID
	config []byte
	epoch  eventlog.ID
	clock  int64  // of the fold, when it began
	parts  uint32 // 0 before the first piece
	next   uint32
	data   []byte
}

// imports makes models of states that the log brings in pieces.
type imports struct {
	at       *position
	models   *registry
	policies *policies
	cluster  *cluster
	incoming *incoming // nil: no import is under way
	moves    *Moves    // whose parcels come in pieces too
}

// Importing reports whether pieces of a model are awaited.
func (i *imports) Importing() bool { return i.incoming != nil }

// over reports whether the pieces that are missing will not come.
func (i *imports) over() bool {
	in := i.incoming
	if i.cluster.nodes == nil {
		return in.epoch != i.at.epoch
	}
	return i.cluster.clock > in.clock+int64(time.Minute)
}

// end ends an import whose missing pieces will not come.
func (i *imports) end() {
	if i.incoming != nil && i.over() {
		i.incoming = nil
	}
}

// importing notes an import.
func (i *imports) importing(a *act) (Outcome, error) {
	r, cfg := a.r, a.cfg
	i.incoming = nil
	if i.models.taken(r) || cfg == nil || cfg.Config.ID != r.Name {
		return Conflict, nil
	}
	i.incoming = &incoming{model: r.Model, config: bytes.Clone(r.Config), epoch: i.at.epoch, clock: i.cluster.clock}
	return Accepted, nil
}

// piece adds a piece; the last one makes the model. What cannot be made is a Conflict and leaves nothing behind.
func (i *imports) piece(r *eventlog.Piece) (Outcome, error) {
	if i.moves.awaits(r) {
		return i.moves.piece(r)
	}
	in := i.incoming
	if in == nil || in.model != r.Model || in.epoch != i.at.epoch || r.Part != in.next || in.parts != 0 &&
		in.parts != r.Parts || len(in.data)+len(r.Data) > MaxSaved {
		return Conflict, nil
	}
	in.parts, in.next, in.data = r.Parts, in.next+1, append(in.data, r.Data...)
	if in.next < in.parts {
		return Accepted, nil
	}
	i.incoming = nil
	s := &Saved{}
	if Digest(in.data) != r.Digest || s.readConfig(in.config) != nil {
		return Conflict, nil
	}
	name := s.Compiled.Config.ID
	if i.models.byName[name] != nil || i.models.byID[r.Model] != nil {
		return Conflict, nil
	}
	p, err := s.readBody(in.data)
	if err != nil {
		return Conflict, nil
	}
	at := Stamp{i.at.seq, time.Unix(0, i.at.time).UTC()}
	m := &Model{
		ID: r.Model, Compiled: s.Compiled, Version: 1, Seed: s.Seed, Created: at, Changed: at, Last: i.at.seq,
		Memory: s.Memory, Lineage: Lineage{Since: i.at.seq, Root: r.Model},
	}
	m.Counts.Learned = s.Learned
	if i.policies.keeps(m.ID) {
		m.policy = p
		if w, ok := p.(bandit.Witness); ok {
			w.Alone()
		}
		i.policies.defers(m)
	}
	i.models.install(m)
	return Accepted, nil
}

func (w *writer) incoming(in *incoming) {
	w.fixed(uint64(in.model))
	w.bytes(in.config)
	w.fixed(uint64(in.epoch))
	w.fixed(uint64(in.clock))
	w.uint(uint64(in.parts))
	w.uint(uint64(in.next))
	w.bytes(in.data)
}

func (r *reader) incoming() *incoming {
	return &incoming{
		model: eventlog.ID(r.fixed()), config: r.bytes(), epoch: eventlog.ID(r.fixed()), clock: int64(r.fixed()),
		parts: uint32(r.uint()), next: uint32(r.uint()), data: r.bytes(),
	}
}
