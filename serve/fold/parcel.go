package fold

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"troupe/eventlog"
	"troupe/serve/model"
)

// Parcel is a model as it goes to another server: all that it has learned, its open windows, the idempotency keys that are
// remembered, and the decisions of both. Equal models have equal parts, at any server and in any log. The bytes of a parcel:
//
//	"TRPP" | 1 u16 | number of the move u64 | parts: count, each: bytes | SHA-256 of all before
//
// The first parts have decisions (carriedMagic). The others, put together behind a "TRPT" each, have the state:
//
//	id u64 | root u64 | version | paused | untaken: clamped, refused, seq, text | seed 4×u32 | created, changed: time i64 |
//	counts 9×u64, reward sum f64, last i64 | configuration text | the policy's snapshot: bytes |
//	what it keeps beside its policy: bytes | open entries: count, each: epoch u64 | number | events: count, each: index |
//	deadline i64 | state u8 | y f64 | cost f64, keys of rewards, what it is, idempotency key, as in the state of a fold |
//	keys of closed windows: count, each: key [16] | request [16] | event | closed at i64
//
// Events of earlier incarnations are those of the newest one; where it does not learn from them, they have the state
// noLearning. Sequences in the notes and in the memory are those of the log that they are from.
type Parcel struct {
	Move  eventlog.ID  // number of the move
	Model eventlog.ID  // incarnation of the model, at both servers
	Name  string       // of the model
	Parts [][]byte     // decisions first, then the state; each at most eventlog.MaxData
	state *parcelState // of one that was read
}

const (
	parcelMagic = "TRPP\x01\x00"
	stateOfPart = "TRPT"
	partSize    = eventlog.MaxData
)

// Sum names the parts: SHA-256 of their SHA-256s.
func (p *Parcel) Sum() [sha256.Size]byte {
	var all []byte
	for _, b := range p.Parts {
		one := sha256.Sum256(b)
		all = append(all, one[:]...)
	}
	return sha256.Sum256(all)
}

// Append appends the bytes of the parcel.
func (p *Parcel) Append(b []byte) []byte {
	start := len(b)
	w := writer{append(b, parcelMagic...)}
	w.fixed(uint64(p.Move))
	w.uint(uint64(len(p.Parts)))
	for _, one := range p.Parts {
		w.bytes(one)
	}
	return Sign(w.b, start)
}

// ReadParcel reads what Append wrote, and tries it: one that is read can arrive. It refers to b.
func ReadParcel(b []byte) (*Parcel, error) {
	n := len(b) - sha256.Size
	if n < len(parcelMagic) || string(b[:len(parcelMagic)]) != parcelMagic {
		return nil, errors.New("not the parcel of a model, or of another version")
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errors.New("a damaged parcel: wrong checksum")
	}
	r := reader{b: b[len(parcelMagic):n]}
	p := &Parcel{Move: eventlog.ID(r.fixed())}
	for range r.count() {
		p.Parts = append(p.Parts, r.take(r.count()))
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail("bytes behind the last part")
	}
	if r.err != nil {
		return nil, r.err
	}
	var state []byte
	for i, part := range p.Parts {
		rest, ok := bytes.CutPrefix(part, []byte(stateOfPart))
		if ok {
			state = append(state, rest...)
			continue
		}
		if _, other, err := readChunk(part); other || err != nil || len(state) > 0 {
			return nil, fmt.Errorf("part %d has no decisions: %w", i, cmp.Or(err, eventlog.ErrMalformed))
		}
		if len(part) > partSize {
			return nil, fmt.Errorf("part %d has %d bytes, at most %d are possible", i, len(part), partSize)
		}
	}
	var err error
	if p.state, err = readParcelState(state, new(model.Shapes)); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	m := p.state.model
	p.Model, p.Name = m.ID, m.Name()
	policy, err := m.Compiled.NewPolicy(m.Seed)
	if err == nil {
		err = policy.Restore(p.state.policy)
	}
	if err != nil {
		return nil, fmt.Errorf("the policy's snapshot: %w", err)
	}
	return p, nil
}

// check refuses what no server writes and what a fold could not bear: it would be in the log for good.
func (p *Parcel) check() error {
	if p.Move == 0 {
		return errors.New("a parcel without the number of a move")
	}
	decided := map[eventlog.Event]bool{}
	for _, c := range p.Decisions() {
		decided[c.Event] = true
	}
	m := p.state.model
	x := &m.Memory
	for _, v := range []float64{m.Counts.RewardSum, x.Low, x.High, x.First, x.Default} {
		if v-v != 0 {
			return fmt.Errorf("a number of the model is %v", v)
		}
	}
	if x.Low > x.High {
		return fmt.Errorf("a range of rewards from %v to %v", x.Low, x.High)
	}
	if m.Guard != nil {
		for _, q := range m.Guard.queue {
			if q.w-q.w != 0 || q.y-q.y != 0 {
				return fmt.Errorf("a weight of the guard is %v, its reward %v", q.w, q.y)
			}
		}
	}
	names := len(m.Compiled.Config.Rewards)
	for _, e := range p.state.entries {
		for i := range e.events {
			if err := e.events[i].check(names); err != nil {
				return fmt.Errorf("the event %v: %w", e.batch.event(uint32(e.events[i].index)), err)
			}
			if key := e.batch.event(uint32(e.events[i].index)); !decided[key] {
				return fmt.Errorf("the event %v has no decision", key)
			}
		}
	}
	return nil
}

// check refuses an open event of a model whose rewards have so many names.
func (x *parcelEvent) check(names int) error {
	values := []float64{x.y, x.cost}
	if x.list != nil {
		values = append(values, x.list.y...)
	}
	if x.named != nil {
		if values = append(values, x.named.y[:]...); int(x.named.n) != names {
			return fmt.Errorf("%d rewards with names, the model has %d", x.named.n, names)
		}
	}
	for _, v := range values {
		if v-v != 0 {
			return fmt.Errorf("a reward or a cost is %v", v)
		}
	}
	return nil
}

// Config returns the configuration of a parcel that was read.
func (p *Parcel) Config() model.Config { return p.state.model.Compiled.Config }

// Size returns what the model of a parcel that was read takes.
func (p *Parcel) Size() Size { return sizeOf(p.state.model.Compiled, len(p.state.policy)) }

// Events returns how many windows are open in a parcel that was read.
func (p *Parcel) Events() (n int) {
	for _, e := range p.state.entries {
		n += len(e.events)
	}
	return n
}

// Decisions returns the decisions of a parcel that was read.
func (p *Parcel) Decisions() (out []Carried) {
	for _, part := range p.Parts {
		some, _, _ := readChunk(part) // ReadParcel has read them
		out = append(out, some...)
	}
	return out
}

// Records returns the records that make the model here: the act, and the parts in pieces, one record to an entry.
func (p *Parcel) Records(caller string, now int64) []eventlog.Record {
	sum := p.Sum()
	out := []eventlog.Record{&eventlog.Control{Act: eventlog.Arrive, Model: p.Model, Name: p.Name, Digest: p.Move, Data: sum[:],
		Caller: caller, Time: now}}
	for i, part := range p.Parts {
		r := &eventlog.Piece{Model: p.Model, Part: uint32(i), Parts: uint32(len(p.Parts)), Data: part}
		if i == len(p.Parts)-1 {
			r.Digest = eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1
		}
		out = append(out, r)
	}
	return out
}

// parcelState is the state in a parcel.
type parcelState struct {
	model   *Model // without its policy
	policy  []byte
	entries []parcelEntry
	closed  []parcelKey
}

type parcelEntry struct {
	batch  batchKey
	events []parcelEvent
}

type parcelEvent struct {
	openEvent
	rewards []eventlog.ID
	list    *openList
	named   *openNamed
	used    bool // it has an idempotency key
	key     [16]byte
	request [16]byte
}

type parcelKey struct {
	key, request [16]byte
	event        eventlog.Event
	at           int64
}

// parcelModel writes what a parcel has of a model beside its events.
func (w *writer) parcelModel(m *Model) error {
	policy, err := m.appendSnapshot(nil)
	if err != nil {
		return err
	}
	w.fixed(uint64(m.ID))
	w.fixed(uint64(m.Root))
	w.uint(m.Version)
	w.bool(m.Paused)
	m.Untaken.append(w)
	for _, v := range m.Seed {
		w.b = binary.LittleEndian.AppendUint32(w.b, v)
	}
	w.time(m.Created.Time)
	w.time(m.Changed.Time)
	for _, v := range m.Counts.numbers() {
		w.fixed(*v)
	}
	w.fixed(math.Float64bits(m.Counts.RewardSum))
	w.time(m.Counts.Last)
	w.bytes(m.Compiled.JSON)
	w.bytes(policy)
	w.memory(m)
	return nil
}

// readParcelState reads the state in a parcel, without the policy.
func readParcelState(b []byte, shapes *model.Shapes) (*parcelState, error) {
	r := reader{b: b}
	m := &Model{ID: eventlog.ID(r.fixed()), Lineage: Lineage{Root: eventlog.ID(r.fixed())}, Version: r.uint(), Paused: r.bool(),
		Untaken: readUntaken(&r)}
	for i := range m.Seed {
		if v := r.take(4); v != nil {
			m.Seed[i] = binary.LittleEndian.Uint32(v)
		}
	}
	m.Created.Time, m.Changed.Time = r.time(), r.time()
	for _, v := range m.Counts.numbers() {
		*v = r.fixed()
	}
	m.Counts.RewardSum, m.Counts.Last = math.Float64frombits(r.fixed()), r.time()
	config := r.bytes()
	s := &parcelState{model: m, policy: r.bytes()}
	memory := r.bytes()
	n := uint64(0)
	for range r.count() {
		e := parcelEntry{batch: batchKey{eventlog.ID(r.fixed()), r.uint()}}
		next := uint64(0)
		for range r.count() {
			x := r.parcelEvent()
			if uint64(x.index) < next || int(x.index) >= eventlog.MaxEvents {
				r.fail("an event at a place that it cannot have")
			}
			next = uint64(x.index) + 1
			e.events = append(e.events, x)
			n++
		}
		if k := len(s.entries); len(e.events) == 0 || k > 0 && compareEvents(s.entries[k-1].batch.event(0), e.batch.event(0)) >= 0 {
			r.fail("entries that do not ascend, or without an event")
		}
		s.entries = append(s.entries, e)
	}
	for range r.count() {
		s.closed = append(s.closed, parcelKey{r.key(), r.key(), r.event(), int64(r.fixed())})
	}
	switch {
	case r.err != nil:
	case len(r.b) > 0:
		r.fail("bytes behind the keys")
	case n != m.Counts.Open:
		r.fail("another number of open windows than the model has")
	case m.ID == 0 || m.Root == 0 || m.Version == 0:
		r.fail("a model without an id")
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := m.readMemory(memory); err != nil {
		return nil, err
	}
	var c model.Config
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	var err error
	m.Compiled, err = shapes.Logged(c)
	return s, err
}

func (w *writer) parcelEvent(x *parcelEvent) {
	w.uint(uint64(x.index))
	w.fixed(uint64(x.deadline))
	w.b = append(w.b, byte(x.state))
	w.fixed(math.Float64bits(x.y))
	w.fixed(math.Float64bits(x.cost))
	w.uint(uint64(len(x.rewards)))
	for _, k := range x.rewards {
		w.fixed(uint64(k))
	}
	switch {
	case x.list != nil:
		w.list(x.list)
	case x.named != nil:
		w.named(x.named)
	default:
		w.b = append(w.b, plainWindow)
	}
	if w.bool(x.used); x.used {
		w.b = append(append(w.b, x.key[:]...), x.request[:]...)
	}
}

func (r *reader) parcelEvent() (x parcelEvent) {
	x.index, x.deadline, x.state = uint16(min(r.uint(), math.MaxUint16)), int64(r.fixed()), eventState(r.byte())
	x.y, x.cost = math.Float64frombits(r.fixed()), math.Float64frombits(r.fixed())
	for range r.count() {
		x.rewards = append(x.rewards, eventlog.ID(r.fixed()))
	}
	switch r.byte() {
	case plainWindow:
	case listWindow:
		x.list = r.list()
	case namedWindow:
		x.named = r.named()
	default:
		r.fail("a window that is none")
	}
	if x.used = r.bool(); x.used {
		x.key, x.request = r.key(), r.key()
	}
	return x
}
