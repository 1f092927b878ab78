package serve

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/rng"
)

// fold is the state of all models after a sequence of the log: what apply has made of entries
// 1, …, seq. It reads no clock and draws nothing. Not safe for concurrent use.
type fold struct {
	seq    uint64
	lost   uint64 // entries that an operator has given up (Loss)
	models map[eventlog.ID]*model
	names  map[string]*model
	open   map[batchKey]*openBatch
	keys   map[[16]byte]keyUse
	closed []closedKey // of keys, in the order in which their windows were closed
	gone   int         // closed[:gone] were forgotten
	clock  int64       // the latest time that a batch bears: what was logged says how late it is

	// only, if not nil, are the models whose policies are kept; the others have none, for a look at
	// the past of a few.
	only map[eventlog.ID]bool
	past past

	// What has changed for the reader of the fold, who empties these.
	opened  []*openBatch // new entries with open events
	marked  []*model     // their versions are old
	renamed bool         // names has changed
	waiting int64        // open events; not emptied
}

// past is where the fold looks up what it does not keep: it is all in the log, before seq.
type past interface {
	// decisions returns the records of the entry at seq, which is this batch and has this hash: by
	// place, nil where a record is no decision.
	decisions(k batchKey, seq uint64, hash eventlog.Hash) ([]*eventlog.Decision, error)
	// policyAt returns the policy bytes of an incarnation after entry seq, and how many updates they
	// have seen. The chain lists it and its ancestors.
	policyAt(chain []eventlog.ID, seq uint64) (snapshot []byte, learned uint64, err error)
}

func newFold(p past) *fold {
	return &fold{
		models: map[eventlog.ID]*model{}, names: map[string]*model{}, open: map[batchKey]*openBatch{}, keys: map[[16]byte]keyUse{}, past: p,
	}
}

// model is one incarnation.
type model struct {
	id      eventlog.ID
	cfg     *compiled
	version uint64
	seed    rng.Key
	paused  bool
	deleted bool
	failed  string
	created Stamp
	changed Stamp
	counts  Counts
	since   uint64 // entry that began this incarnation
	parent  eventlog.ID
	root    eventlog.ID // the incarnation that was created or cloned; rollbacks keep it
	// A rollback made successor of this one. Rewards of decisions up to cut go there, and of later
	// ones with keepLater.
	successor eventlog.ID
	cut       uint64
	keepLater bool

	policy learner      // nil: features not learned, retired, or not in only
	last   uint64       // entry of the last update
	state  *policyState // of the policy; nil when it has changed since
	room   room         // of states
	dirty  bool         // it is in fold.marked
	entry  entry
}

// policyState is a snapshot of a policy with its digest. Its bytes do not change as long as somebody holds it:
// the fold, a published version, or who reads them. After the last of these they are written over
// with a later state of the model, so that a state a batch, hundreds in a second, makes no garbage. nil is
// the state of no policy.
type policyState struct {
	bytes   []byte
	digest  eventlog.ID
	room    *room
	holders atomic.Int64
}

// hold says whether the bytes are still there, and stay until release.
func (s *policyState) hold() bool {
	if s == nil {
		return true
	}
	for n := s.holders.Load(); n > 0; n = s.holders.Load() {
		if s.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (s *policyState) release() {
	if s != nil && s.holders.Add(-1) == 0 {
		s.room.put(s.bytes)
	}
}

// data and sum are nil and 0 without a policy.
func (s *policyState) data() []byte {
	if s == nil {
		return nil
	}
	return s.bytes
}

func (s *policyState) sum() eventlog.ID {
	if s == nil {
		return 0
	}
	return s.digest
}

// room is memory that nobody holds any more.
type room struct {
	mu   sync.Mutex
	free [][]byte
}

// newState returns the state of these bytes, which the caller holds and which belong to it from now on.
func (r *room) newState(b []byte) *policyState {
	s := &policyState{bytes: b, digest: digest(b), room: r}
	s.holders.Store(1)
	return s
}

func (r *room) put(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) < 2 {
		r.free = append(r.free, b[:0])
	}
}

func (r *room) take() (b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		b, r.free = r.free[n-1], r.free[:n-1]
	}
	return b
}

// keyUse is what became of an idempotency key.
type keyUse struct {
	request [16]byte // hash of the request
	event   eventlog.Event
	seq     uint64
}

// closedKey is a key whose window is closed.
type closedKey struct {
	key [16]byte
	at  int64 // fold.clock then
}

// The promise about idempotency keys, and about event ids that callers choose: a key is remembered as
// long as the window of its event is open, and then for keysFor by the times in the log, unless
// keysKept others were closed after it. These bound the memory, about 170 MiB for closed keys; open
// ones are bounded by Limits.Open. They are constants because the state is a function of the log.
const keysFor = 24 * time.Hour

var keysKept = 1 << 20 // a variable for tests

type batchKey struct {
	epoch eventlog.ID
	no    uint64
}

// openBatch is an entry with decisions whose window is open.
type openBatch struct {
	batchKey
	seq    uint64
	hash   eventlog.Hash
	events []openEvent // ascending by index
	uses   [][16]byte  // idempotency keys of events, zero for none; nil when there is none at all
	// keys of rewards, by index, for the rules that take more than one
	keys map[uint32][]eventlog.ID
}

type openEvent struct {
	deadline int64
	y        float64
	model    *model // that decided
	index    uint32
	state    eventState
}

type eventState uint8

const (
	inactive eventState = 1 << iota // deferred, not activated
	rewarded
	noLearning // frozen or shadow
	ruleSum    // neither ruleSum nor ruleLast: first
	ruleLast
)

// find returns an open event, or nil.
func (b *openBatch) find(index uint32) *openEvent {
	i, ok := slices.BinarySearchFunc(b.events, index, func(e openEvent, i uint32) int { return int(e.index) - int(i) })
	if !ok {
		return nil
	}
	return &b.events[i]
}

// lookup returns the open event of a key, or nil.
func (f *fold) lookup(key eventlog.Event) (*openBatch, *openEvent) {
	if b := f.open[batchKey{key.Epoch, key.Batch}]; b != nil {
		return b, b.find(key.Index)
	}
	return nil, nil
}

// outcome is what the fold made of a record.
type outcome uint8

const (
	none outcome = iota
	accepted
	duplicate
	late
	ignored
	conflict // a control record that came too late: name taken, or model gone
)

var statuses = map[outcome]RewardStatus{accepted: Accepted, duplicate: Duplicate, late: Late, ignored: Ignored}

// apply folds one entry. The outcomes are those of its records, in order. After an error the fold is
// of no use any more: it is neither before the entry nor after it.
func (f *fold) apply(d eventlog.Delivery) ([]outcome, error) {
	if d.Seq != f.seq+1 {
		panic("serve: the fold was given an entry out of order")
	}
	f.seq = d.Seq
	if d.Repeat {
		return nil, nil
	}
	f.clock = max(f.clock, d.Time)
	out := make([]outcome, 0, d.Count)
	for i, r := range d.Events() {
		o, err := f.record(d, i, r)
		if err != nil {
			return nil, fmt.Errorf("entry %d, record %d (%v): %w", d.Seq, i, r.Kind(), err)
		}
		out = append(out, o)
	}
	f.forget()
	return out, nil
}

func (f *fold) record(d eventlog.Delivery, i uint32, r eventlog.Record) (outcome, error) {
	switch r := r.(type) {
	case *eventlog.Decision:
		return f.decision(d, i, r), nil
	case *eventlog.Reward:
		return f.reward(r), nil
	case *eventlog.Activate:
		return f.activate(r), nil
	case *eventlog.Expire:
		return f.expire(r)
	case *eventlog.Control:
		return f.control(r)
	case *eventlog.Loss:
		f.lost++
		return accepted, nil
	case *eventlog.Checkpoint:
		return f.checkpoint(r)
	}
	return none, fmt.Errorf("a record of kind %v", r.Kind())
}

// heir follows the rollbacks of a model to the incarnation that counts, whatever was decided when.
func (f *fold) heir(m *model) *model {
	for m.successor != 0 {
		m = f.models[m.successor]
	}
	return m
}

// pupil returns the incarnation that learns from an event that m decided in entry seq, or nil.
func (f *fold) pupil(m *model, seq uint64) *model {
	for m.successor != 0 {
		if seq > m.cut && !m.keepLater {
			return nil
		}
		m = f.models[m.successor]
	}
	if m.deleted {
		return nil
	}
	return m
}

func (f *fold) decision(d eventlog.Delivery, i uint32, r *eventlog.Decision) outcome {
	m := f.models[r.Model]
	if m == nil {
		return ignored
	}
	h := f.heir(m)
	h.counts.Decisions++
	h.counts.Open++
	f.waiting++
	h.counts.Last = time.Unix(0, r.Time).UTC()
	e := openEvent{index: i, model: m, deadline: r.Deadline}
	if r.Deferred {
		e.state |= inactive
	}
	if r.Mode == eventlog.Shadow || r.Mode == eventlog.Frozen {
		e.state |= noLearning
	}
	switch m.cfg.config.Reward.Rule {
	case "sum":
		e.state |= ruleSum
	case "last":
		e.state |= ruleLast
	}
	k := batchKey{d.Epoch, d.No}
	b := f.open[k]
	if b == nil {
		b = &openBatch{batchKey: k, seq: d.Seq, hash: d.Hash}
		f.open[k] = b
		f.opened = append(f.opened, b)
	}
	b.events = append(b.events, e)
	if b.uses != nil {
		b.uses = append(b.uses, [16]byte{})
	}
	if len(r.Idempotency) == 32 {
		f.remember(b, [16]byte(r.Idempotency), keyUse{[16]byte(r.Idempotency[16:]), d.Key(i), d.Seq})
	}
	return accepted
}

// remember keeps the key of the newest event of b; the first use of a key stays.
func (f *fold) remember(b *openBatch, key [16]byte, use keyUse) {
	if _, twice := f.keys[key]; twice {
		return
	}
	f.keys[key] = use
	if b.uses == nil {
		b.uses = make([][16]byte, len(b.events))
	}
	b.uses[len(b.events)-1] = key
}

// forget drops the keys that need not be remembered any more.
func (f *fold) forget() {
	for f.gone < len(f.closed) && (len(f.closed)-f.gone > keysKept || f.closed[f.gone].at+int64(keysFor) <= f.clock) {
		delete(f.keys, f.closed[f.gone].key)
		f.gone++
	}
	if f.gone > 1024 && f.gone > len(f.closed)/2 {
		f.closed, f.gone = append([]closedKey(nil), f.closed[f.gone:]...), 0
	}
}

func (f *fold) reward(r *eventlog.Reward) outcome {
	m := f.models[r.Model]
	if m == nil {
		return ignored
	}
	h := f.heir(m)
	b, e := f.lookup(r.Event)
	if e == nil || e.model != m {
		h.counts.Late++
		return late
	}
	first := e.state&(ruleSum|ruleLast) == 0
	if first && e.state&rewarded != 0 || r.Key != 0 && slices.Contains(b.keys[r.Event.Index], r.Key) {
		h.counts.Duplicates++
		return duplicate
	}
	if r.Key != 0 && !first {
		if b.keys == nil {
			b.keys = map[uint32][]eventlog.ID{}
		}
		b.keys[r.Event.Index] = append(b.keys[r.Event.Index], r.Key)
	}
	if e.state&ruleSum != 0 {
		e.y += r.Y
	} else {
		e.y = r.Y
	}
	e.state = e.state&^inactive | rewarded
	p := f.pupil(m, b.seq)
	if p == nil || e.state&noLearning != 0 {
		h.counts.Ignored++
		return ignored
	}
	p.counts.Rewards++
	p.counts.RewardSum += r.Y
	if first {
		f.learn(p, r.X, r.Y, r.Event)
	}
	return accepted
}

// learn moves a model by one event. A policy that refuses has failed for good: every replica finds
// the same, nothing is skipped silently, and the other models go on.
func (f *fold) learn(m *model, x []float64, y float64, key eventlog.Event) {
	if m.failed != "" || m.policy == nil {
		return
	}
	if err := m.policy.Update(bandit.Action{X: x, Index: bandit.NoIndex}, y, m.targets(key)); err != nil {
		m.failed = fmt.Sprintf("entry %d: event %v/%d/%d: %v", f.seq, key.Epoch, key.Batch, key.Index, err)
		f.mark(m)
		return
	}
	m.counts.Learned++
	m.last = f.seq
	m.changedState()
	f.mark(m)
}

// mark says that a model needs a new version.
func (f *fold) mark(m *model) {
	if !m.dirty {
		m.dirty = true
		f.marked = append(f.marked, m)
	}
}

// install makes m the model of its name.
func (f *fold) install(m *model) {
	f.models[m.id], f.names[m.cfg.config.ID], f.renamed = m, m, true
	f.mark(m)
}

// targets returns the source of U_t^1, …, U_t^m of an event: the event's key is the round.
func (m *model) targets(key eventlog.Event) rng.Source {
	return m.seed.At(uint64(key.Epoch)).Stream(rng.Perturb).Round(key.Batch*eventlog.MaxEvents + uint64(key.Index))
}

// draw returns the source of a decision's choice.
func draw(seed rng.Key, incarnation, nonce eventlog.ID) rng.Source {
	return seed.At(uint64(incarnation)).Stream(rng.Select).Round(uint64(nonce))
}

func (f *fold) activate(r *eventlog.Activate) outcome {
	_, e := f.lookup(r.Event)
	switch {
	case e == nil:
		return late
	case e.state&inactive == 0:
		return duplicate
	}
	e.state &^= inactive
	return accepted
}

// expire closes windows. This is where the rules sum and last learn, and where defaults count.
func (f *fold) expire(r *eventlog.Expire) (outcome, error) {
	k := batchKey{r.Event.Epoch, r.Event.Batch}
	b := f.open[k]
	if b == nil {
		return late, nil
	}
	var decisions []*eventlog.Decision // of the whole entry, read when the first event needs it
	left, uses := b.events[:0:0], b.uses[:0:0]
	for i, e := range b.events {
		if e.index < r.Event.Index || e.index >= r.Event.Index+r.Count || e.model.id != r.Model {
			left = append(left, e)
			if b.uses != nil {
				uses = append(uses, b.uses[i])
			}
			continue
		}
		if b.uses != nil && b.uses[i] != [16]byte{} {
			f.closed = append(f.closed, closedKey{b.uses[i], f.clock})
		}
		delete(b.keys, e.index)
		h := f.heir(e.model)
		h.counts.Open--
		f.waiting--
		p := f.pupil(e.model, b.seq)
		y, learns := e.y, e.state&noLearning == 0 && p != nil
		if e.state&rewarded != 0 {
			learns = learns && e.state&(ruleSum|ruleLast) != 0
		} else {
			h.counts.Expired++
			y = r.Y
			if learns = learns && r.Default && e.state&inactive == 0; learns {
				p.counts.Defaulted++
				p.counts.RewardSum += y
			}
		}
		if learns && p.policy != nil {
			if decisions == nil {
				var err error
				if decisions, err = f.past.decisions(k, b.seq, b.hash); err != nil {
					return none, err
				}
			}
			if int(e.index) >= len(decisions) || decisions[e.index] == nil {
				return none, fmt.Errorf("entry %d has no decision at place %d", b.seq, e.index)
			}
			f.learn(p, decisions[e.index].X, y, eventlog.Event{Epoch: k.epoch, Batch: k.no, Index: e.index})
		}
	}
	if b.events, b.uses = left, uses; len(left) == 0 {
		delete(f.open, k)
	}
	return accepted, nil
}

// secrets is what a create record has beside the configuration.
type secrets struct {
	Config ModelConfig `json:"config"`
	Seed   string      `json:"seed,omitempty"` // 32 hexadecimal digits; create only
}

func encodeSeed(k rng.Key) string {
	var b [16]byte
	for i, w := range k {
		b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(w>>24), byte(w>>16), byte(w>>8), byte(w)
	}
	return hex.EncodeToString(b[:])
}

func decodeSeed(s string) (k rng.Key, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return k, fmt.Errorf("a seed has 32 hexadecimal digits")
	}
	for i := range k {
		k[i] = uint32(b[4*i])<<24 | uint32(b[4*i+1])<<16 | uint32(b[4*i+2])<<8 | uint32(b[4*i+3])
	}
	return k, nil
}

// foldLimits: the fold takes what the log holds, whatever today's limits are. Its encoders read the largest
// requests that any server may be told to take; choose looks at the limits of this one.
var foldLimits = Limits{Members: 1 << 31, Feature: feature.Limits{Actions: MaxActions, Bytes: MaxBytes}}

func (f *fold) control(r *eventlog.Control) (outcome, error) {
	at := Stamp{f.seq, time.Unix(0, r.Time).UTC()}
	var s secrets
	var cfg *compiled
	if len(r.Config) > 0 {
		err := json.Unmarshal(r.Config, &s)
		if err == nil {
			cfg, err = s.Config.logged()
		}
		if err != nil {
			return none, fmt.Errorf("configuration of %q: %w", r.Name, err)
		}
	}
	m := f.models[r.Model]
	switch r.Act {
	case eventlog.Create:
		if f.names[r.Name] != nil || m != nil || cfg == nil {
			return conflict, nil
		}
		seed, err := decodeSeed(s.Seed)
		if err != nil {
			return none, err
		}
		m = &model{id: r.Model, cfg: cfg, version: 1, seed: seed, created: at, changed: at, since: f.seq, root: r.Model}
		if err := f.begin(m); err != nil {
			return none, err
		}
		f.install(m)
		return accepted, nil
	case eventlog.Clone:
		from := f.models[r.From]
		if f.names[r.Name] != nil || m != nil || cfg == nil || from == nil || r.AtSeq >= f.seq {
			return conflict, nil
		}
		m = &model{id: r.Model, cfg: cfg, version: 1, seed: from.seed, created: at, changed: at, since: f.seq, parent: from.id, root: r.Model}
		if err := f.inherit(m, from, r); err != nil {
			return none, err
		}
		f.install(m)
		return accepted, nil
	case eventlog.Rollback:
		from := f.models[r.From]
		if from == nil || m != nil || f.names[r.Name] != from || r.AtSeq >= f.seq {
			return conflict, nil
		}
		m = &model{id: r.Model, cfg: from.cfg, version: from.version, seed: from.seed, created: from.created, changed: at,
			since: f.seq, parent: from.id, root: from.root, paused: from.paused}
		if err := f.inherit(m, from, r); err != nil {
			return none, err
		}
		learned := m.counts.Learned
		m.counts = from.counts
		m.counts.Learned = learned
		from.counts = Counts{}
		from.successor, from.cut, from.keepLater = m.id, r.AtSeq, r.KeepLater
		from.policy = nil
		from.changedState()
		f.install(m)
		return accepted, nil
	case eventlog.RaiseVersion:
		return accepted, nil
	}
	if m == nil || m.deleted || m.successor != 0 {
		return conflict, nil
	}
	if r.Act == eventlog.Configure && (cfg == nil || m.cfg.sameShape(cfg) != nil) {
		return conflict, nil
	}
	m.changed = at
	f.mark(m)
	switch r.Act {
	case eventlog.Configure:
		learned := m.cfg.encoder == nil && cfg.encoder != nil
		m.cfg = cfg
		m.version++
		if learned {
			return accepted, f.begin(m)
		}
	case eventlog.Pause:
		m.paused = true
	case eventlog.Resume:
		m.paused = false
	case eventlog.Delete:
		m.deleted, m.policy = true, nil
		m.changedState()
		delete(f.names, m.cfg.config.ID)
		f.renamed = true
	}
	return accepted, nil
}

// begin gives a model its policy before the first event, once its features are known.
func (f *fold) begin(m *model) (err error) {
	if m.cfg.encoder != nil && f.keeps(m.id) {
		m.policy, err = m.cfg.newPolicy(m.seed)
	}
	return err
}

func (f *fold) keeps(id eventlog.ID) bool { return f.only == nil || f.only[id] }

// lineage lists an incarnation and its ancestors.
func (f *fold) lineage(m *model) []eventlog.ID {
	chain := []eventlog.ID{m.id}
	for m.parent != 0 {
		m = f.models[m.parent]
		chain = append(chain, m.id)
	}
	return chain
}

// inherit gives m the state that from had after entry r.AtSeq.
func (f *fold) inherit(m, from *model, r *eventlog.Control) error {
	m.counts.Learned = from.counts.Learned
	if m.cfg.encoder == nil || !f.keeps(m.id) {
		return nil
	}
	if err := f.begin(m); err != nil {
		return err
	}
	var b []byte
	var err error
	if from.policy != nil && from.last <= r.AtSeq && from.since <= r.AtSeq {
		b, err = from.snapshot()
	} else if b, m.counts.Learned, err = f.past.policyAt(f.lineage(from), r.AtSeq); err == nil && b == nil {
		m.counts.Learned = 0 // before its features were learned: the state at the beginning
	}
	if err != nil {
		return err
	}
	if b != nil {
		if err := m.policy.Restore(b); err != nil {
			return err
		}
	}
	m.last = f.seq
	if _, err := m.snapshot(); err != nil {
		return err
	}
	// What was recorded before a loss is the digest of a state that nobody can compute any more.
	if f.lost == 0 && r.Digest != 0 && r.Digest != m.state.sum() {
		return fmt.Errorf("the state of %v after entry %d has the digest %v, the record says %v", r.From, r.AtSeq, m.state.sum(), r.Digest)
	}
	return nil
}

// snapshot sets state and returns its bytes, nil without a policy. They are what they are until the model
// changes; who wants them for longer holds m.state.
func (m *model) snapshot() ([]byte, error) {
	if m.state == nil && m.policy != nil {
		b, err := m.policy.AppendSnapshot(m.room.take())
		if err != nil {
			return nil, err
		}
		m.state = m.room.newState(b)
	}
	return m.state.data(), nil
}

// changedState says that state is that of the policy no longer.
func (m *model) changedState() {
	m.state.release()
	m.state = nil
}

// checkpoint compares digests that a writer has stated of its state after an entry. Only one that
// was made just before can be compared.
func (f *fold) checkpoint(r *eventlog.Checkpoint) (outcome, error) {
	if f.lost > 0 { // see inherit
		return accepted, nil
	}
	for _, s := range r.States {
		m := f.models[s.Model]
		if m == nil || m.policy == nil || m.last > r.Seq || r.Seq >= f.seq {
			continue
		}
		if _, err := m.snapshot(); err != nil {
			return none, err
		}
		if m.state.sum() != s.Digest {
			return none, fmt.Errorf("model %v has the digest %v, the writer says %v after entry %d", s.Model, m.state.sum(), s.Digest, r.Seq)
		}
	}
	return accepted, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest is two checksums with different polynomials: 64 bits against accidents, not enemies.
func digest(b []byte) eventlog.ID {
	return eventlog.ID(crc32.ChecksumIEEE(b))<<32 | eventlog.ID(crc32.Checksum(b, castagnoli))
}
