package fold

import (
	"bytes"
	"time"

	"troupe/eventlog"
	"troupe/serve/model"
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

// over reports whether the pieces that are missing will not come.
func (in *incoming) over(f *Fold) bool {
	if f.nodes == nil {
		return in.epoch != f.entry.epoch
	}
	return f.clock > in.clock+int64(time.Minute)
}

// importing notes an import.
func (f *Fold) importing(r *eventlog.Control, cfg *model.Compiled) Outcome {
	f.incoming = nil
	if f.names[r.Name] != nil || f.models[r.Model] != nil || cfg == nil || cfg.Config.ID != r.Name {
		return Conflict
	}
	f.incoming = &incoming{model: r.Model, config: bytes.Clone(r.Config), epoch: f.entry.epoch, clock: f.clock}
	return Accepted
}

// piece adds a piece; the last one makes the model. What cannot be made is a Conflict and leaves nothing behind.
func (f *Fold) piece(r *eventlog.Piece) Outcome {
	in := f.incoming
	if in == nil || in.model != r.Model || in.epoch != f.entry.epoch || r.Part != in.next || in.parts != 0 &&
		in.parts != r.Parts || len(in.data)+len(r.Data) > MaxSaved {
		return Conflict
	}
	in.parts, in.next, in.data = r.Parts, in.next+1, append(in.data, r.Data...)
	if in.next < in.parts {
		return Accepted
	}
	f.incoming = nil
	s := &Saved{}
	if Digest(in.data) != r.Digest || s.readConfig(in.config) != nil {
		return Conflict
	}
	name := s.Compiled.Config.ID
	if f.names[name] != nil || f.models[r.Model] != nil {
		return Conflict
	}
	p, err := s.readBody(in.data)
	if err != nil {
		return Conflict
	}
	at := Stamp{f.seq, time.Unix(0, f.entry.time).UTC()}
	m := &Model{
		ID: r.Model, Compiled: s.Compiled, Version: 1, Seed: s.Seed, Created: at, Changed: at, Last: f.seq, Memory: s.Memory,
		Lineage: Lineage{Since: f.seq, Root: r.Model},
	}
	m.Counts.Learned = s.Learned
	m.beginLearning()
	if f.keeps(m.ID) {
		m.policy = p
	}
	f.install(m)
	return Accepted
}

// Importing reports whether pieces of a model are awaited.
func (f *Fold) Importing() bool { return f.incoming != nil }

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
