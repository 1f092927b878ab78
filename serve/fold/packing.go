package fold

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"troupe/eventlog"
)

// Packing is a model that goes, before its decisions are read from the log.
type Packing struct {
	Needs []Need // decisions that a parcel needs

	move  eventlog.ID
	model eventlog.ID
	name  string
	chain map[eventlog.ID]bool // the model and its earlier incarnations
	head  []byte
	state parcelState
}

// Need is a decision that a parcel needs.
type Need struct {
	Event  eventlog.Event
	Seq    uint64 // of its entry
	Closed bool   // its window is over; it may be a decision of another model
}

// Pack takes what a fold has of a model for a parcel: the whole of it once the model is closed, and before that what can be
// read from the log beforehand. The result does not refer to the fold.
func Pack(f *Fold, m *Model) (*Packing, error) {
	p := &Packing{model: m.ID, name: m.Name(), chain: map[eventlog.ID]bool{}}
	for id, x := range f.byID {
		if f.registry.Current(x) == m {
			p.chain[id] = true
		}
	}
	if m.Moving != nil {
		p.move = m.Moving.Move
		var w writer
		if err := w.parcelModel(m); err != nil {
			return nil, err
		}
		p.head = w.b
	}
	for at := range f.open.All() {
		b := f.entries.At(at)
		x := parcelEntry{batch: f.batch(b)}
		for _, e := range f.windows.events(b) {
			from := f.byPlace[e.model]
			if !p.chain[from.ID] {
				continue
			}
			x.events = append(x.events, packEvent(f, x.batch.event(uint32(e.index)), e, f.registry.learner(from, b.seq) != nil))
			seq := b.seq
			if b.hash == (eventlog.Hash{}) {
				seq = f.Moves.places.in(p.chain, x.batch.event(uint32(e.index)), seq)
			}
			p.Needs = append(p.Needs, Need{Event: x.batch.event(uint32(e.index)), Seq: seq})
		}
		if len(x.events) > 0 {
			p.state.entries = append(p.state.entries, x)
		}
	}
	slices.SortFunc(p.state.entries, func(a, b parcelEntry) int { return compareEvents(a.batch.event(0), b.batch.event(0)) })
	for i := range f.closed.Len() {
		c := f.closed.At(i)
		u := f.use(c.key)
		p.state.closed = append(p.state.closed, parcelKey{f.used.At(c.key).key, u.Request, u.Event, c.at})
		p.Needs = append(p.Needs, Need{Event: u.Event, Seq: u.Seq, Closed: true})
	}
	return p, nil
}

// Mine reports whether a decision is of the model or of an earlier incarnation.
func (p *Packing) Mine(d *eventlog.Decision) bool { return p.chain[d.Model] }

// Entries yields what the parcel needs by entries of the log, in their order: each is read once.
func (p *Packing) Entries() iter.Seq2[uint64, []Need] {
	slices.SortStableFunc(p.Needs, func(a, b Need) int { return cmp.Compare(a.Seq, b.Seq) })
	return func(yield func(uint64, []Need) bool) {
		for i, j := 0, 0; i < len(p.Needs); i = j {
			for j = i; j < len(p.Needs) && p.Needs[j].Seq == p.Needs[i].Seq; j++ {
			}
			if !yield(p.Needs[i].Seq, p.Needs[i:j]) {
				return
			}
		}
	}
}

// packEvent copies an open event. learns is false where its model does not learn from it any more, after a rollback.
func packEvent(f *Fold, key eventlog.Event, e openEvent, learns bool) parcelEvent {
	if !learns {
		e.state |= noLearning
	}
	x := parcelEvent{openEvent: e, rewards: slices.Clone(f.rewardKeys[key])}
	if l := f.windows.list(key); l != nil {
		c := *l
		c.y = slices.Clone(l.y)
		x.list = &c
	}
	if n := f.windows.namedOf(key); n != nil {
		c := *n
		x.named = &c
	}
	if e.key != 0 {
		u := f.used.At(e.key - 1)
		x.used, x.key, x.request = true, u.key, u.request
	}
	return x
}

// Read are decisions that were read from the log for parcels of one model. The zero value has none.
type Read struct {
	of map[eventlog.Event]*Carried // nil: of another model
}

// Has reports whether a decision was read, in the form that n needs.
func (r *Read) Has(n Need) bool {
	c, ok := r.of[n.Event]
	return ok && (c == nil || c.closed == n.Closed)
}

// Add takes a decision. hint and marks are of its event id. full is what Full becomes: what tells the place of the action. It
// does not keep d.
func (r *Read) Add(p *Packing, n Need, d *eventlog.Decision, full []byte, hint uint64, marks []eventlog.Mark) error {
	if r.of == nil {
		r.of = map[eventlog.Event]*Carried{}
	}
	if !p.chain[d.Model] {
		if !n.Closed {
			return fmt.Errorf("the decision of an open window is of model %v", d.Model)
		}
		r.of[n.Event] = nil
		return nil
	}
	kept := *d
	kept.Model, kept.Full = p.model, full
	kept.Idempotency, kept.Law, kept.Groups, kept.Voters, kept.Costs, kept.Price, kept.Expects = nil, nil, nil, 0, nil, 0, 0
	if kept.Play == eventlog.PlayStop {
		kept.Play = 0
	}
	if d.List != nil {
		l := *d.List
		l.Votes, l.All, l.Allowed = nil, nil, nil
		kept.List = &l
	}
	if n.Closed {
		kept.X, kept.Atoms = nil, nil
	}
	raw, err := eventlog.AppendRecord(nil, &kept)
	if err != nil {
		return err
	}
	r.of[n.Event] = &Carried{Event: n.Event, Hint: hint, Marks: marks, Model: p.model, closed: n.Closed, raw: raw}
	return nil
}

// Parcel makes the parcel of a closed model. All decisions that it needs were read.
func (p *Packing) Parcel(read *Read) (*Parcel, error) {
	if p.head == nil {
		return nil, errors.New("the model is not closed")
	}
	var all []*Carried
	for _, n := range p.Needs {
		c, ok := read.of[n.Event]
		if !ok {
			return nil, fmt.Errorf("the decision %v was not read", n.Event)
		}
		if c != nil {
			all = append(all, c)
		}
	}
	out := &Parcel{Move: p.move, Model: p.model, Name: p.name}
	var err error
	if out.Parts, err = chunksOf(all, partSize); err != nil {
		return nil, err
	}
	w := writer{p.head}
	w.uint(uint64(len(p.state.entries)))
	for _, e := range p.state.entries {
		w.fixed(uint64(e.batch.epoch))
		w.uint(e.batch.no)
		w.uint(uint64(len(e.events)))
		for i := range e.events {
			w.parcelEvent(&e.events[i])
		}
	}
	mine := slices.DeleteFunc(slices.Clone(p.state.closed), func(k parcelKey) bool { return read.of[k.event] == nil })
	w.uint(uint64(len(mine)))
	for _, k := range mine {
		w.b = append(append(w.b, k.key[:]...), k.request[:]...)
		w.event(k.event)
		w.fixed(uint64(k.at))
	}
	size := len(w.b)
	for some := range slices.Chunk(w.b, partSize-len(stateOfPart)) {
		out.Parts = append(out.Parts, append([]byte(stateOfPart), some...))
	}
	for _, c := range all {
		size += len(c.raw)
	}
	if size > MaxSaved {
		return nil, fmt.Errorf("the parcel has %d bytes, at most %d are possible: wait until windows are closed, or shorten the window",
			size, MaxSaved)
	}
	return out, nil
}
