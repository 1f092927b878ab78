package fold

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"

	"troupe/eventlog"
)

// Moves moves models between servers: a control act for each step, and the parcel of one that comes in pieces.
//
//	here --depart--> closed --gone--> gone --arrive--> here
//	       <--stay--
//
// A move that was turned away (Turn) cannot arrive any more, so that it can be undone at the other server.
type Moves struct {
	at       *position
	models   *registry
	windows  *windows
	keys     *usedKeys
	policies *policies
	cluster  *cluster
	places   *places
	turned   []eventlog.ID // numbers of moves that must not arrive
	arrived  []eventlog.ID // of those that have, and do not again
	coming   *coming       // nil: no parcel is under way
}

// coming is a parcel whose pieces have not all come. There is one at most, and a batch of another writer ends it.
type coming struct {
	model  eventlog.ID
	name   string
	move   eventlog.ID
	sum    [sha256.Size]byte
	epoch  eventlog.ID
	parts  uint32 // 0 before the first piece
	next   uint32
	sums   []byte // SHA-256 of each part that came
	state  []byte
	places []place
}

// Places returns the entries in which a decision of another server may stand, none for a decision of this one.
func (s *Moves) Places(key eventlog.Event) (seqs []uint64) {
	if len(s.places.list) == 0 {
		return nil
	}
	return slices.Collect(s.places.of(key))
}

// Away returns the models that are closed or gone, by their names.
func (s *Moves) Away() map[string]*Moving {
	out := map[string]*Moving{}
	for name, m := range s.models.byName {
		if m.Moving != nil {
			out[name] = m.Moving
		}
	}
	for name, m := range s.models.gone {
		out[name] = m.Moving
	}
	return out
}

// GoneModel returns the model that had a name until it went to another server, nil for none.
func (s *Moves) GoneModel(name string) *Model { return s.models.gone[name] }

// Turned reports whether a move was turned away.
func (s *Moves) Turned(move eventlog.ID) bool { return slices.Contains(s.turned, move) }

// Arrived reports whether a model came by a move, wherever it is now.
func (s *Moves) Arrived(move eventlog.ID) bool { return slices.Contains(s.arrived, move) }

// depart closes a model.
func (s *Moves) depart(a *act) (Outcome, error) {
	m := s.models.byID[a.r.Model]
	if s.cluster.nodes != nil || m == nil || m.Deleted || !m.present() || m.Moving != nil {
		return Conflict, nil
	}
	s.policies.Settle(m)
	m.Moving = &Moving{Move: a.r.Digest, Seq: s.at.seq, To: string(a.r.Data)}
	return s.changed(m), nil
}

// closed returns the model that a step of its move is about, nil where it is another move, or over.
func (s *Moves) closed(r *eventlog.Control) *Model {
	m := s.models.byID[r.Model]
	if m == nil || m.Moving == nil || m.Moving.Gone || m.Moving.Move != r.Digest {
		return nil
	}
	return m
}

// stay opens a closed model again.
func (s *Moves) stay(a *act) (Outcome, error) {
	m := s.closed(a.r)
	if m == nil {
		return Conflict, nil
	}
	m.Moving = nil
	for at := range s.windows.open.All() { // what ended meanwhile has not been closed
		b := s.windows.entries.At(at)
		if slices.ContainsFunc(s.windows.events(b), func(e openEvent) bool { return s.of(e, m) && e.deadline <= s.cluster.clock }) {
			s.windows.opened = append(s.windows.opened, opened{b.seq, at})
		}
	}
	return s.changed(m), nil
}

// leave ends a closed model, whose parcel is at the other server.
func (s *Moves) leave(a *act) (Outcome, error) {
	m := s.closed(a.r)
	if m == nil {
		return Conflict, nil
	}
	m.Moving = &Moving{Move: m.Moving.Move, Seq: s.at.seq, To: string(a.r.Data), Gone: true}
	s.dropEvents(m)
	m.Spending, m.Guard, m.Counts.Open = nil, nil, 0
	s.models.remove(m)
	s.models.gone[m.Name()] = m
	return s.changed(m), nil
}

// of reports whether an event is of a model or of an earlier incarnation.
func (s *Moves) of(e openEvent, m *Model) bool {
	return s.models.Current(s.models.byPlace[e.model]) == m
}

// dropEvents forgets the open windows of a model, with their idempotency keys.
func (s *Moves) dropEvents(m *Model) {
	for _, at := range slices.Collect(s.windows.open.All()) {
		b := s.windows.entries.At(at)
		k := s.windows.batch(b)
		events := s.windows.events(b)
		left := slices.DeleteFunc(slices.Clone(events), func(e openEvent) bool { return s.of(e, m) })
		if len(left) == len(events) {
			continue
		}
		for _, e := range events {
			if !s.of(e, m) {
				continue
			}
			key := k.event(uint32(e.index))
			delete(s.windows.rewardKeys, key)
			delete(s.windows.lists, key)
			delete(s.windows.named, key)
			s.windows.waiting--
			if e.key != 0 {
				dropKey(s.keys, e.key-1)
			}
		}
		s.windows.leave(b, at, left)
	}
}

// turn turns a move away.
func (s *Moves) turn(a *act) (Outcome, error) {
	if s.Arrived(a.r.Digest) {
		return Conflict, nil
	}
	if !s.Turned(a.r.Digest) {
		s.turned = append(s.turned, a.r.Digest)
	}
	if c := s.coming; c != nil && c.move == a.r.Digest {
		s.coming = nil
	}
	return Accepted, nil
}

// forget gives the name of a model that has gone free.
func (s *Moves) forget(r *eventlog.Control) bool {
	if m := s.models.gone[r.Name]; m == nil || m.ID != r.Model {
		return false
	}
	delete(s.models.gone, r.Name)
	s.models.renamed = true
	return true
}

func (s *Moves) changed(m *Model) Outcome {
	s.models.markChanged(m)
	s.models.renamed = true
	return Accepted
}

// arrive notes a parcel.
func (s *Moves) arrive(a *act) (Outcome, error) {
	s.coming = nil
	c := &coming{model: a.r.Model, name: a.r.Name, move: a.r.Digest, sum: [sha256.Size]byte(a.r.Data), epoch: s.at.epoch}
	if s.cluster.nodes != nil || s.Turned(c.move) || s.Arrived(c.move) || !s.vacant(c) {
		return Conflict, nil
	}
	s.coming = c
	return Accepted, nil
}

// vacant reports whether a model may come: no model has its name, and it is not here, or went from here under this name.
func (s *Moves) vacant(c *coming) bool {
	was := s.models.byID[c.model]
	return s.models.byName[c.name] == nil && (was == nil || was.Moving != nil && was.Moving.Gone && was.Name() == c.name)
}

// end ends a parcel whose missing pieces will not come.
func (s *Moves) end() {
	if s.coming != nil && s.coming.epoch != s.at.epoch {
		s.coming = nil
	}
}

// awaits reports whether a piece is of the parcel that is under way.
func (s *Moves) awaits(r *eventlog.Piece) bool { return s.coming != nil && s.coming.model == r.Model }

// piece adds a part of a parcel; the last one makes the model. What cannot be made is a Conflict and leaves nothing behind.
func (s *Moves) piece(r *eventlog.Piece) (Outcome, error) {
	c := s.coming
	if c.epoch != s.at.epoch || r.Part != c.next || c.parts != 0 && c.parts != r.Parts || len(c.state) > MaxSaved {
		return Conflict, nil
	}
	sum := sha256.Sum256(r.Data)
	c.parts, c.next, c.sums = r.Parts, c.next+1, append(c.sums, sum[:]...)
	if rest, ok := bytes.CutPrefix(r.Data, []byte(stateOfPart)); ok {
		c.state = append(c.state, rest...)
	} else {
		some, other, err := readChunk(r.Data)
		if other || err != nil {
			s.coming = nil
			return Conflict, nil
		}
		c.places = append(c.places, place{c.model, some[0].Event, some[len(some)-1].Event, s.at.seq})
	}
	if c.next < c.parts {
		return Accepted, nil
	}
	s.coming = nil
	if sha256.Sum256(c.sums) != c.sum || !s.vacant(c) {
		return Conflict, nil
	}
	x, err := readParcelState(c.state, &s.policies.shapes)
	if err != nil || x.model.ID != c.model || x.model.Name() != c.name {
		return Conflict, nil
	}
	if was := s.models.gone[c.name]; was != nil && was.Root != x.model.Root { // the name is that of another model
		return Conflict, nil
	}
	return s.install(c, x)
}

// install makes the model of a parcel.
func (s *Moves) install(c *coming, x *parcelState) (Outcome, error) {
	m := x.model
	if s.policies.keeps(m.ID) {
		p, err := m.Compiled.NewPolicy(m.Seed)
		if err == nil {
			err = p.Restore(x.policy)
		}
		if err != nil {
			return Conflict, nil
		}
		m.policy = p
		s.policies.defers(m)
	}
	m.Created.Seq, m.Changed.Seq, m.Since, m.Last = s.at.seq, s.at.seq, s.at.seq, s.at.seq
	m.Came = &Came{Move: c.move, Seq: s.at.seq, Sum: c.sum}
	if was := s.models.gone[c.name]; was != nil && was.ID != m.ID { // it was rolled back at the other server
		was.Moving, was.Successor, was.Cut, was.KeepLater = nil, m.ID, s.at.seq, true
	}
	delete(s.models.gone, c.name)
	s.arrived = append(s.arrived, c.move)
	s.models.install(m)
	s.places.list = append(s.places.list, c.places...)
	for _, e := range x.entries {
		for i := range e.events {
			s.await(m, e.batch, &e.events[i])
		}
	}
	s.windows.waiting += int64(m.Counts.Open)
	for _, k := range x.closed {
		if place := s.keys.remember(k.key, KeyUse{k.request, k.event, s.places.in(map[eventlog.ID]bool{m.ID: true}, k.event, m.Since)}); place != 0 {
			s.keys.closed.Push(closedKey{k.at, place - 1})
		}
	}
	return Accepted, nil
}

// await opens the window of an event that came.
func (s *Moves) await(m *Model, k batchKey, x *parcelEvent) {
	key := k.event(uint32(x.index))
	seq := s.places.in(map[eventlog.ID]bool{m.ID: true}, key, m.Since)
	e := x.openEvent
	e.model, e.key, e.several, e.epoch = m.place, 0, false, 0
	if x.used {
		e.key = s.keys.remember(x.key, KeyUse{x.request, key, seq})
	}
	if x.list != nil {
		s.windows.openList(key, x.list)
	}
	if x.named != nil {
		s.windows.openNamed(key, x.named)
	}
	if len(x.rewards) > 0 {
		s.windows.noteKeys(key, x.rewards...)
	}
	there, _ := s.windows.entry(k)
	s.windows.await(k, seq, eventlog.Hash{}, e)
	b, at := s.windows.entry(k)
	slices.SortFunc(s.windows.events(b), func(a, b openEvent) int { return int(a.index) - int(b.index) })
	if there != nil && there.hash != (eventlog.Hash{}) { // it waits for other models, and its window is known
		s.windows.opened = append(s.windows.opened, opened{b.seq, at})
	}
}

// empty reports whether nothing has ever moved, so that a state has no bytes of moves.
func (s *Moves) empty() bool {
	for _, m := range s.models.byID {
		if m.Moving != nil || m.Came != nil {
			return false
		}
	}
	return len(s.turned)+len(s.arrived)+len(s.places.list) == 0 && s.coming == nil
}

func (w *writer) moves(s *Moves) {
	var moved []eventlog.ID
	for _, id := range slices.Sorted(maps.Keys(s.models.byID)) {
		if m := s.models.byID[id]; m.Moving != nil || m.Came != nil {
			moved = append(moved, id)
		}
	}
	w.uint(uint64(len(moved)))
	for _, id := range moved {
		m := s.models.byID[id]
		w.fixed(uint64(id))
		if w.bool(m.Moving != nil); m.Moving != nil {
			w.fixed(uint64(m.Moving.Move))
			w.uint(m.Moving.Seq)
			w.bytes([]byte(m.Moving.To))
			w.bool(m.Moving.Gone)
			w.bool(s.models.gone[m.Name()] == m)
		}
		if w.bool(m.Came != nil); m.Came != nil {
			w.fixed(uint64(m.Came.Move))
			w.uint(m.Came.Seq)
			w.b = append(w.b, m.Came.Sum[:]...)
		}
	}
	for _, list := range [][]eventlog.ID{s.turned, s.arrived} {
		w.uint(uint64(len(list)))
		for _, id := range list {
			w.fixed(uint64(id))
		}
	}
	w.places(s.places)
	if w.bool(s.coming != nil); s.coming != nil {
		w.coming(s.coming)
	}
}

func (r *reader) moves(s *Moves) {
	for range r.count() {
		m := s.models.byID[eventlog.ID(r.fixed())]
		if m == nil {
			r.fail("a move of no model")
			return
		}
		if r.bool() {
			m.Moving = &Moving{Move: eventlog.ID(r.fixed()), Seq: r.uint(), To: string(r.bytes()), Gone: r.bool()}
			if r.bool() {
				s.models.gone[m.Name()] = m
			}
		}
		if r.bool() {
			m.Came = &Came{Move: eventlog.ID(r.fixed()), Seq: r.uint()}
			copy(m.Came.Sum[:], r.take(len(m.Came.Sum)))
		}
	}
	for _, list := range []*[]eventlog.ID{&s.turned, &s.arrived} {
		for range r.count() {
			*list = append(*list, eventlog.ID(r.fixed()))
		}
	}
	s.places.list = r.places()
	if r.bool() {
		s.coming = r.coming()
	}
}

func (w *writer) coming(c *coming) {
	w.fixed(uint64(c.model))
	w.bytes([]byte(c.name))
	w.fixed(uint64(c.move))
	w.b = append(w.b, c.sum[:]...)
	w.fixed(uint64(c.epoch))
	w.uint(uint64(c.parts))
	w.uint(uint64(c.next))
	w.bytes(c.sums)
	w.bytes(c.state)
	w.places(&places{c.places})
}

func (r *reader) coming() *coming {
	c := &coming{model: eventlog.ID(r.fixed()), name: string(r.bytes()), move: eventlog.ID(r.fixed())}
	copy(c.sum[:], r.take(len(c.sum)))
	c.epoch, c.parts, c.next, c.sums, c.state = eventlog.ID(r.fixed()), uint32(r.uint()), uint32(r.uint()), r.bytes(), r.bytes()
	c.places = r.places()
	return c
}
