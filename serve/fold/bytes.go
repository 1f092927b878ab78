package fold

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"troupe/eventlog"
)

// The bytes of a fold, little-endian, numbers as uvarint unless a type is named:
//
//	"TRPS" | version u16 | flags u8 | seq | lost | clock i64 |
//	models: count, each: id u64 | parent u64 | root u64 | successor u64 | cut | keep_later | since | last |
//	    version | paused | deleted | untaken: clamped, refused, seq, text | seed 4×u32 | created, changed: seq, time i64 |
//	    counts 9×u64, reward sum f64, last i64 | configuration text | has policy, its bytes |
//	    what it keeps beside its policy: bytes, empty for none; with flag 4 the bytes of its Learning
//	    stand between notes and statistics, with flag 8 before them 11 numbers of its budget f64 | seq u64
//	open entries: count, each: seq | hash [16] | epoch u64 | number |
//	    events: count, each: index | model u64 | deadline i64 | state u8 | y f64 |
//	        with bit 64 or 128 of the state its cost f64 |
//	        keys of rewards: count, each u64 | what it is: 0; 1, a list: positions u8 | shown u8 | one reward | learned |
//	            which have a reward u64 | unless there is one: y f64 of each; 2, with rewards that have names: how many u8 |
//	            which have a value u8 | learned | y f64 of each |
//	        has an idempotency key: key [16] | request [16]
//	idempotency keys of closed windows: count, each: key [16] | request [16] | event | seq | closed at i64
//	flag 1, of a cluster: nodes: count, each: name text | clock i64 | entry | applied | readable
//	    fingerprint of the keys u64 | for each node: count, each: fingerprint of a key u64
//	flag 2, with a base of a log that was trimmed in agreement: its entry | its SHA-256 | the entry of its record
//	flag 4, while a model is imported: its id u64 | its configuration | writer u64 | clock i64 | pieces | that came |
//	    their bytes
//	flag 8, where a model has moved: models: count, each: id u64 | goes: 0, or 1, move u64 | entry | address | gone | has the name |
//	    came: 0, or 1, move u64 | entry | sum [32]
//	    moves that were turned away, and that have arrived: count, each u64 | places of decisions of other servers: count, each: model u64 |
//	    first and last event: epoch u64 | number | index | entry
//	    a parcel that comes: 0, or 1, model u64 | name | move u64 | sum [32] | writer u64 | pieces | that came |
//	    their sums | their state | places
//	position of the chain: bytes
//	SHA-256 of all before
//
// Models ascend by id, entries by sequence, keys by the time of closing. Equal states have equal bytes.

// stateMagic has version 10. Versions up to 9 were of earlier programs.
const stateMagic = "TRPS\x0a\x00"

// The flags of a state.
const (
	ofNodes = 1 << iota
	withBase
	withImport
	withMoves
	stateFlags = ofNodes | withBase | withImport | withMoves
)

// Image returns the bytes of the fold and of the chain that stands behind it. The caller writes or releases it. Memory:
// that of the state, with a shelf some megabytes and the states of models that have bytes in memory.
func (f *Fold) Image(chain *eventlog.Chain) (*Image, error) {
	var flags byte
	if f.cluster.nodes != nil {
		flags |= ofNodes
	}
	if f.base.Seq > 0 {
		flags |= withBase
	}
	if f.incoming != nil {
		flags |= withImport
	}
	if !f.Moves.empty() {
		flags |= withMoves
	}
	w := imager{writer: writer{append([]byte(stateMagic), flags)}, on: f.shelf}
	w.uint(f.seq)
	w.uint(f.lost)
	w.fixed(uint64(f.cluster.clock))
	w.uint(uint64(len(f.byID)))
	for _, id := range slices.Sorted(maps.Keys(f.byID)) {
		if err := w.model(f.byID[id]); err != nil {
			w.image.Release()
			return nil, fmt.Errorf("model %v: %w", id, err)
		}
		w.cut()
	}
	w.uint(uint64(f.open.Len()))
	for _, at := range slices.SortedFunc(f.open.All(), func(a, b uint32) int {
		return cmp.Compare(f.entries.At(a).seq, f.entries.At(b).seq)
	}) {
		w.open(f, f.entries.At(at))
		w.cut()
	}
	w.uint(uint64(f.closed.Len()))
	for i := range f.closed.Len() {
		c := f.closed.At(i)
		w.closed(f.used.At(c.key).key, f.use(c.key), c.at)
		w.cut()
	}
	if flags&ofNodes != 0 {
		w.nodes(f.cluster.nodes)
	}
	if flags&withBase != 0 {
		w.base(f.base)
	}
	if flags&withImport != 0 {
		w.incoming(f.incoming)
	}
	if flags&withMoves != 0 {
		w.moves(&f.Moves)
	}
	w.bytes(chain.AppendPosition(nil))
	w.push(nil)
	return &w.image, nil
}

// AppendState appends the bytes of Image.
func (f *Fold) AppendState(b []byte, chain *eventlog.Chain) ([]byte, error) {
	m, err := f.Image(chain)
	if err != nil {
		return b, err
	}
	out := bytes.NewBuffer(slices.Grow(b, m.Len()))
	if _, err := m.WriteTo(out); err != nil {
		return b, err
	}
	return out.Bytes(), nil
}

func (w *writer) open(f *Fold, o *openEntry) {
	k := f.batch(o)
	w.uint(o.seq)
	w.b = append(w.b, o.hash[:]...)
	w.fixed(uint64(k.epoch))
	w.uint(o.no)
	events := f.windows.events(o)
	w.uint(uint64(len(events)))
	for _, e := range events {
		w.uint(uint64(e.index))
		w.fixed(uint64(f.byPlace[e.model].ID))
		w.fixed(uint64(e.deadline))
		w.b = append(w.b, byte(e.state))
		w.fixed(math.Float64bits(e.y))
		if e.state&(costed|budgeted) != 0 {
			w.fixed(math.Float64bits(e.cost))
		}
		keys := f.rewardKeys[k.event(uint32(e.index))]
		w.uint(uint64(len(keys)))
		for _, k := range keys {
			w.fixed(uint64(k))
		}
		event := k.event(uint32(e.index))
		list, named := f.windows.list(event), f.windows.namedOf(event)
		switch {
		case list != nil:
			w.list(list)
		case named != nil:
			w.named(named)
		default:
			w.b = append(w.b, plainWindow)
		}
		w.bool(e.key != 0)
		if e.key != 0 {
			u := f.used.At(e.key - 1)
			w.b = append(append(w.b, u.key[:]...), u.request[:]...)
		}
	}
}

func (w *writer) closed(key [16]byte, u KeyUse, at int64) {
	w.b = append(append(w.b, key[:]...), u.Request[:]...)
	w.fixed(uint64(u.Event.Epoch))
	w.uint(u.Event.Batch)
	w.uint(uint64(u.Event.Index))
	w.uint(u.Seq)
	w.fixed(uint64(at))
}

// readState reads a state into an empty fold.
func readState(b []byte, f *Fold) (*eventlog.Chain, error) {
	n := len(b) - sha256.Size
	switch {
	case n <= len(stateMagic):
		return nil, errors.New("not the state of a server")
	case older(b):
		return nil, errors.New("of an earlier program")
	case string(b[:len(stateMagic)]) != stateMagic:
		return nil, errors.New("not the state of a server, or of another version")
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errors.New("wrong checksum")
	}
	r := reader{b: b[len(stateMagic):n]}
	laying := scratch{on: f.shelf}
	flags := r.byte()
	if flags&^stateFlags != 0 {
		return nil, fmt.Errorf("unknown flags %#x", flags)
	}
	f.seq, f.lost, f.cluster.clock = r.uint(), r.uint(), int64(r.fixed())
	for range r.count() {
		m, err := r.model(&f.shapes, &laying)
		if err != nil {
			return nil, err
		}
		f.registry.add(m)
		if !m.Deleted && m.Successor == 0 {
			f.install(m)
		}
		f.waiting += int64(m.Counts.Open)
	}
	for range r.count() {
		r.open(f)
	}
	for range r.count() {
		key, u, at := r.closed()
		place := f.remember(key, u)
		if place == 0 {
			r.fail("an idempotency key twice")
			break
		}
		f.closed.Push(closedKey{at, place - 1})
	}
	if flags&ofNodes != 0 {
		f.cluster.nodes = r.nodes()
	}
	if flags&withBase != 0 {
		f.base = r.base()
	}
	if flags&withImport != 0 {
		f.incoming = r.incoming()
	}
	if flags&withMoves != 0 {
		r.moves(&f.Moves)
	}
	position := r.bytes()
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	chain, err := eventlog.RestoreChain(position)
	if err != nil {
		return nil, err
	}
	if chain.Last() != f.seq {
		return nil, fmt.Errorf("the state is of entry %d, its chain of %d", f.seq, chain.Last())
	}
	return chain, nil
}

// older reports whether b begins as the states of earlier programs did.
func older(b []byte) bool {
	return (string(b[:4]) == "TRPS" || string(b[:4]) == "TRPC") && b[4] < stateMagic[4] && b[5] == 0
}

// open reads an open entry into the fold.
func (r *reader) open(f *Fold) {
	var k batchKey
	var hash eventlog.Hash
	seq := r.uint()
	copy(hash[:], r.take(16))
	k.epoch, k.no = eventlog.ID(r.fixed()), r.uint()
	n := r.count()
	if o, _ := f.windows.entry(k); o != nil || n == 0 {
		r.fail("an open entry twice, or without an event")
	}
	next := uint64(0)
	for range n {
		index := r.uint()
		m := f.byID[eventlog.ID(r.fixed())]
		e := openEvent{index: uint16(index), deadline: int64(r.fixed()), state: eventState(r.byte()),
			y: math.Float64frombits(r.fixed())}
		if e.state&(costed|budgeted) != 0 {
			e.cost = math.Float64frombits(r.fixed())
		}
		var keys []eventlog.ID
		for range r.count() {
			keys = append(keys, eventlog.ID(r.fixed()))
		}
		switch {
		case r.err != nil:
		case m == nil:
			r.fail("an event of no model")
		case index < next || index >= eventlog.MaxEvents:
			r.fail("an event at a place that it cannot have")
		}
		var list *openList
		var named *openNamed
		switch r.byte() {
		case plainWindow:
		case listWindow:
			list = r.list()
		case namedWindow:
			named = r.named()
		default:
			r.fail("a window that is none")
		}
		event := k.event(uint32(index))
		if r.bool() {
			e.key = f.remember(r.key(), KeyUse{r.key(), event, seq})
		}
		if r.err != nil {
			return
		}
		if list != nil {
			f.openList(event, list)
		}
		if named != nil {
			f.openNamed(event, named)
		}
		if len(keys) > 0 {
			f.noteKeys(event, keys...)
		}
		next, e.model = index+1, m.place
		f.await(k, seq, hash, e)
	}
	f.fit(k)
}

func (r *reader) closed() (key [16]byte, u KeyUse, at int64) {
	key, u.Request = r.key(), r.key()
	u.Event = eventlog.Event{Epoch: eventlog.ID(r.fixed()), Batch: r.uint(), Index: uint32(r.uint())}
	u.Seq, at = r.uint(), int64(r.fixed())
	return key, u, at
}
