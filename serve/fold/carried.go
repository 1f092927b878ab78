package fold

import (
	"cmp"
	"crypto/subtle"
	"fmt"
	"iter"
	"slices"

	"troupe/eventlog"
)

// Carried is a decision of another server, which came here with its model.
type Carried struct {
	Event  eventlog.Event  // its key, as everywhere
	Hint   uint64          // its entry in the log of the server that decided, which is in its event id
	Marks  []eventlog.Mark // of its event id, first that of the text that the caller got
	Model  eventlog.ID
	raw    []byte // the record
	closed bool   // it has no features; only of Read
}

// ID returns the event id that the server of the decision gave its caller.
func (c *Carried) ID() string { return c.Marks[0].Text(eventlog.EventID{Event: c.Event, Hint: c.Hint}) }

// Vouches reports whether the mark of a text is one of the decision's. The comparison takes the same time wherever the
// difference is.
func (c *Carried) Vouches(m eventlog.Mark) bool {
	yes := 0
	for i := range c.Marks {
		yes |= subtle.ConstantTimeCompare(c.Marks[i][:], m[:])
	}
	return yes == 1
}

// Decision reads the record. What rewards and repeated calls need is there; candidates, and of a closed window the features,
// are not.
func (c *Carried) Decision() (*eventlog.Decision, error) {
	r, _, err := eventlog.DecodeRecord(c.raw)
	if err != nil {
		return nil, err
	}
	return r.(*eventlog.Decision), nil // readChunk has looked
}

// carriedMagic begins a part of a parcel with decisions:
//
//	"TRPC" | count | each: epoch u64 | batch | index | entry | marks: count, each 9 bytes | the record: bytes
//
// Decisions ascend by their keys. Numbers are uvarint unless they have a type, little-endian.
const carriedMagic = "TRPC"

func compareEvents(a, b eventlog.Event) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Index, b.Index))
}

func (w *writer) event(e eventlog.Event) {
	w.fixed(uint64(e.Epoch))
	w.uint(e.Batch)
	w.uint(uint64(e.Index))
}

func (r *reader) event() eventlog.Event {
	return eventlog.Event{Epoch: eventlog.ID(r.fixed()), Batch: r.uint(), Index: uint32(r.uint())}
}

func (w *writer) carried(c *Carried) {
	w.event(c.Event)
	w.uint(c.Hint)
	w.uint(uint64(len(c.Marks)))
	for _, m := range c.Marks {
		w.b = append(w.b, m[:]...)
	}
	w.bytes(c.raw)
}

// chunksOf packs decisions into parts of at most size bytes. A decision that is larger is an error.
func chunksOf(all []*Carried, size int) (parts [][]byte, err error) {
	slices.SortFunc(all, func(a, b *Carried) int { return compareEvents(a.Event, b.Event) })
	var body writer
	n := 0
	flush := func() {
		if n > 0 {
			w := writer{[]byte(carriedMagic)}
			w.uint(uint64(n))
			parts = append(parts, append(w.b, body.b...))
			body, n = writer{}, 0
		}
	}
	for _, c := range all {
		var one writer
		one.carried(c)
		if len(one.b)+16 > size {
			return nil, fmt.Errorf("a decision of %d bytes is too large to be moved, at most %d are possible: wait until its "+
				"window is closed", len(one.b), size-16)
		}
		if len(body.b)+len(one.b)+16 > size {
			flush()
		}
		body.b = append(body.b, one.b...)
		n++
	}
	flush()
	return parts, nil
}

// readChunk reads a part with decisions. They refer to b. other: it is no such part.
func readChunk(b []byte) (out []Carried, other bool, err error) {
	if len(b) < len(carriedMagic) || string(b[:len(carriedMagic)]) != carriedMagic {
		return nil, true, nil
	}
	r := reader{b: b[len(carriedMagic):]}
	for range r.count() {
		c := Carried{Event: r.event(), Hint: r.uint()}
		for range r.count() {
			var m eventlog.Mark
			copy(m[:], r.take(len(m)))
			c.Marks = append(c.Marks, m)
		}
		c.raw = r.take(r.count())
		if r.err == nil {
			d, rest, err := eventlog.DecodeRecord(c.raw)
			if x, ok := d.(*eventlog.Decision); err != nil || !ok || len(rest) > 0 {
				r.fail("a record that is no decision")
			} else {
				c.Model = x.Model
			}
		}
		switch {
		case r.err != nil:
		case len(c.Marks) == 0:
			r.fail("a decision without a mark")
		case len(out) > 0 && compareEvents(out[len(out)-1].Event, c.Event) >= 0:
			r.fail("decisions that do not ascend")
		}
		if r.err != nil {
			return nil, false, r.err
		}
		out = append(out, c)
	}
	if len(r.b) > 0 || len(out) == 0 {
		return nil, false, fmt.Errorf("%d decisions and %d bytes more", len(out), len(r.b))
	}
	return out, false, r.err
}

func carriedIn(batch []byte, seq uint64) (out []Carried, err error) {
	_, records, err := eventlog.ParseRecords(batch)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	return carriedOf(records, seq)
}

func carriedOf(records []eventlog.Record, seq uint64) (out []Carried, err error) {
	for _, r := range records {
		if p, ok := r.(*eventlog.Piece); ok {
			some, other, err := readChunk(p.Data)
			if err != nil && !other {
				return nil, fmt.Errorf("entry %d: decisions of another server: %w", seq, err)
			}
			out = append(out, some...)
		}
	}
	return out, nil
}

// FindCarried returns the decision with a key, nil where it is not there.
func FindCarried(all []Carried, key eventlog.Event) *Carried {
	at, ok := slices.BinarySearchFunc(all, key, func(c Carried, key eventlog.Event) int { return compareEvents(c.Event, key) })
	if !ok {
		return nil
	}
	return &all[at]
}

// carriedDecision returns a decision of another server from the entry at seq.
func carriedDecision(batch []byte, key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	all, err := carriedIn(batch, seq)
	if err != nil {
		return nil, err
	}
	c := FindCarried(all, key)
	if c == nil {
		return nil, fmt.Errorf("entry %d is not batch %d of writer %v, and has no decision of it: %w", seq, key.Batch, key.Epoch,
			eventlog.ErrNotFound)
	}
	return c.Decision()
}

// places are the entries with decisions of other servers: each has a part of a parcel. They stay when the model goes on, so that its
// events are known here, and their callers are sent to it.
type places struct{ list []place }

type place struct {
	model       eventlog.ID
	first, last eventlog.Event // keys of its decisions
	seq         uint64
}

// of yields the entries in which a decision of another server may stand, the newest first.
func (p *places) of(key eventlog.Event) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, x := range slices.Backward(p.list) {
			if compareEvents(x.first, key) <= 0 && compareEvents(key, x.last) <= 0 && !yield(x.seq) {
				return
			}
		}
	}
}

// in returns the entry with a decision that came with one of some models, otherwise seq.
func (p *places) in(models map[eventlog.ID]bool, key eventlog.Event, seq uint64) uint64 {
	for _, x := range slices.Backward(p.list) {
		if models[x.model] && compareEvents(x.first, key) <= 0 && compareEvents(key, x.last) <= 0 {
			return x.seq
		}
	}
	return seq
}

// decision returns the decision with a key that came with a model.
func (p *places) decision(past past, model eventlog.ID, key eventlog.Event) (*eventlog.Decision, error) {
	err := fmt.Errorf("the decision %v came with no parcel: %w", key, eventlog.ErrNotFound)
	for _, x := range slices.Backward(p.list) {
		if x.model != model || compareEvents(x.first, key) > 0 || compareEvents(key, x.last) > 0 {
			continue
		}
		var d *eventlog.Decision
		if d, err = past.Decision(key, x.seq); err == nil {
			return d, nil
		}
	}
	return nil, err
}

func (w *writer) places(p *places) {
	w.uint(uint64(len(p.list)))
	for _, x := range p.list {
		w.fixed(uint64(x.model))
		w.event(x.first)
		w.event(x.last)
		w.uint(x.seq)
	}
}

func (r *reader) places() (out []place) {
	for range r.count() {
		out = append(out, place{eventlog.ID(r.fixed()), r.event(), r.event(), r.uint()})
	}
	return out
}
