package fold

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"troupe/eventlog"
	"troupe/serve/model"
)

type batchKey struct {
	epoch eventlog.ID
	no    uint64
}

// OpenEntry is an entry with decisions whose window is open.
type OpenEntry struct {
	batchKey
	seq    uint64
	hash   eventlog.Hash
	events []openEvent // ascending by index
	uses   [][16]byte  // idempotency keys of events, zero for none; nil when there is none at all
	// keys of rewards, by index, for the rules that take more than one
	keys map[uint32][]eventlog.ID
}

// windows are the events that wait for a reward.
type windows struct {
	open    map[batchKey]*OpenEntry
	opened  []*OpenEntry // new entries with open events, since the caller took them
	waiting int64        // open events
}

// Waiting returns how many events have open windows.
func (w *windows) Waiting() int64 { return w.waiting }

// TakeOpened returns the entries with new open events since the last call. The slice is valid until the next
// Apply.
func (w *windows) TakeOpened() []*OpenEntry {
	out := w.opened
	w.opened = w.opened[:0]
	return out
}

type openEvent struct {
	deadline int64
	y        float64
	cost     float64 // with the state costed what it cost, with budgeted alone what is reserved
	model    *Model  // that decided
	index    uint32
	state    eventState
}

type eventState uint8

const (
	inactive eventState = 1 << iota // deferred, not activated
	rewarded
	noLearning // frozen or shadow
	ruleLow    // the code of the rule of its decision, two bits
	ruleHigh
	hasRequest // its request is in the log
	costed     // what it cost is known
	budgeted   // it was decided under a budget and reserves what it states, until its cost is known
)

// withRule returns the state with a rule.
func (s eventState) withRule(r model.Rule) eventState { return s | eventState(r.Code())*ruleLow }

// rule returns the rule by which the event was decided.
func (s eventState) rule() model.Rule { return model.RuleOf(int(s & (ruleLow | ruleHigh) / ruleLow)) }

// find returns an open event, or nil.
func (b *OpenEntry) find(index uint32) *openEvent {
	i, ok := slices.BinarySearchFunc(b.events, index, func(e openEvent, i uint32) int { return int(e.index) - int(i) })
	if !ok {
		return nil
	}
	return &b.events[i]
}

// await returns the open entry of a batch, a new one at its first event.
func (w *windows) await(k batchKey, seq uint64, hash eventlog.Hash) *OpenEntry {
	b := w.open[k]
	if b == nil {
		b = &OpenEntry{batchKey: k, seq: seq, hash: hash}
		w.open[k] = b
		w.opened = append(w.opened, b)
	}
	return b
}

// lookup returns the open event of a key, or nil.
func (w *windows) lookup(key eventlog.Event) (*OpenEntry, *openEvent) {
	if b := w.open[batchKey{key.Epoch, key.Batch}]; b != nil {
		return b, b.find(key.Index)
	}
	return nil, nil
}

// Seq returns the place of the entry in the log.
func (b *OpenEntry) Seq() uint64 { return b.seq }

// Windows yields the models that have open events in the entry, each with the end of its last window there.
func (b *OpenEntry) Windows() iter.Seq2[eventlog.ID, int64] {
	return func(yield func(eventlog.ID, int64) bool) {
		for i, e := range b.events {
			if slices.ContainsFunc(b.events[:i], func(o openEvent) bool { return o.model == e.model }) {
				continue
			}
			last := e.deadline
			for _, o := range b.events[i:] {
				if o.model == e.model {
					last = max(last, o.deadline)
				}
			}
			if !yield(e.model.ID, last) {
				return
			}
		}
	}
}

// Expiry returns the record that closes the windows of a model's open events in an entry, and how many they
// are, nil and 0 when none is open.
func (f *Fold) Expiry(b *OpenEntry, id eventlog.ID, now int64) (r *eventlog.Expire, events int) {
	for _, e := range b.events {
		if e.model.ID != id {
			continue
		}
		if r == nil {
			r = &eventlog.Expire{Event: eventlog.Event{Epoch: b.epoch, Batch: b.no, Index: e.index}, Model: id,
				Time: now}
		}
		r.Count = e.index - r.Event.Index + 1
		events++
	}
	if r == nil {
		return nil, 0
	}
	if m := f.Current(f.models[id]); !m.Deleted {
		if y, ok := m.MissingReward(); ok {
			r.Default, r.Y = true, y
		}
	}
	return r, events
}

// Status is how far an event is.
type Status uint8

const (
	Closed   Status = iota // the window is over, or the event is unknown
	Open                   // no reward yet
	Inactive               // deferred and not activated
	Rewarded               // it has a reward
)

// Event returns the status of an event and its reward so far.
func (w *windows) Event(key eventlog.Event) (status Status, y float64) {
	_, e := w.lookup(key)
	switch {
	case e == nil:
		return Closed, 0
	case e.state&rewarded != 0:
		return Rewarded, e.y
	case e.state&inactive != 0:
		return Inactive, 0
	}
	return Open, 0
}

// Cost returns what an event with an open window has cost so far, not ok where no call has said it.
func (w *windows) Cost(key eventlog.Event) (cost float64, ok bool) {
	if _, e := w.lookup(key); e != nil && e.state&costed != 0 {
		return e.cost, true
	}
	return 0, false
}

// KnownCost is Known for a cost without a reward.
func (w *windows) KnownCost(event eventlog.Event, key eventlog.ID) bool {
	b, e := w.lookup(event)
	return e != nil && b.knowsCost(e, key)
}

// Known reports whether a reward with this key (0 for none) would be a duplicate.
func (w *windows) Known(event eventlog.Event, key eventlog.ID) bool {
	b, e := w.lookup(event)
	return e != nil && b.knows(e, key)
}

// knows reports whether a reward with this key has no effect: the event has its one reward, or the key was
// used.
func (b *OpenEntry) knows(e *openEvent, key eventlog.ID) bool {
	return e.state&rewarded != 0 && e.state.rule().Settles() || key != 0 && slices.Contains(b.keys[e.index], key)
}

// knowsCost is knows for a cost without a reward.
func (b *OpenEntry) knowsCost(e *openEvent, key eventlog.ID) bool {
	return e.state&costed != 0 && e.state.rule().Settles() || key != 0 && slices.Contains(b.keys[e.index], key)
}

// remember remembers the key of a reward or a cost, under the rules that take more than one.
func (b *OpenEntry) remember(e *openEvent, key eventlog.ID) {
	if key == 0 || e.state.rule().Settles() {
		return
	}
	if b.keys == nil {
		b.keys = map[uint32][]eventlog.ID{}
	}
	b.keys[e.index] = append(b.keys[e.index], key)
}

func (f *Fold) decision(i uint32, r *eventlog.Decision) Outcome {
	m := f.models[r.Model]
	if m == nil {
		return Ignored
	}
	if f.nodes != nil && len(r.Idempotency) == 32 {
		if _, known := f.keys[[16]byte(r.Idempotency)]; known { // another node was first
			return Duplicate
		}
	}
	h := f.Current(m)
	h.Counts.Decisions++
	if h.Compiled.FloorEnds(h.Counts.Decisions) {
		f.markChanged(h)
	}
	h.Counts.Open++
	f.waiting++
	h.Counts.Last = time.Unix(0, r.Time).UTC()
	for i := range h.Notes {
		h.Notes[i] += uint64(r.Notes >> i & 1)
	}
	if r.Notes != 0 {
		f.markChanged(h)
	}
	e := openEvent{index: i, model: m, deadline: r.Deadline}
	if r.Deferred {
		e.state |= inactive
	}
	if r.Mode == eventlog.Shadow || r.Mode == eventlog.Frozen {
		e.state |= noLearning
	}
	if len(r.Request) > 0 {
		e.state |= hasRequest
		if h.Learning != nil {
			h.Learning.Requests++
			h.Learning.Bytes += uint64(len(r.Request))
		}
	}
	e.state = e.state.withRule(m.Compiled.Config.Reward.Rule)
	f.reserve(h, &e, r)
	f.guards(h, f.entry.event(i), r)
	b := f.await(f.entry.batchKey, f.seq, f.entry.hash)
	b.events = append(b.events, e)
	if b.uses != nil {
		b.uses = append(b.uses, [16]byte{})
	}
	if len(r.Idempotency) == 32 {
		f.remember(b, [16]byte(r.Idempotency), KeyUse{[16]byte(r.Idempotency[16:]), f.entry.event(i), f.seq})
	}
	return Accepted
}

func (f *Fold) reward(r *eventlog.Reward) (Outcome, error) {
	m := f.models[r.Model]
	if m == nil {
		return Ignored, nil
	}
	h := f.Current(m)
	b, e := f.lookup(r.Event)
	if e == nil || e.model != m {
		h.Counts.Late++
		return Late, nil
	}
	rule := e.state.rule()
	if r.OnlyCost && b.knowsCost(e, r.Key) || !r.OnlyCost && b.knows(e, r.Key) {
		h.Counts.Duplicates++
		return Duplicate, nil
	}
	b.remember(e, r.Key)
	if r.Costed {
		f.pays(h, e, r.Cost)
	}
	if r.OnlyCost {
		return Accepted, nil
	}
	e.y = rule.Fold(e.y, r.Y, e.state&rewarded == 0)
	e.state = e.state&^inactive | rewarded
	if rule.Settles() {
		f.guardSettles(h, r.Event, e.y, true)
	}
	p := f.learner(m, b.seq)
	if p == nil || e.state&noLearning != 0 {
		h.Counts.Ignored++
		return Ignored, nil
	}
	p.Counts.Rewards++
	p.Counts.RewardSum += r.Y
	if !rule.Settles() {
		return Accepted, nil
	}
	return Accepted, f.learn(p, Features{X: r.X, Atoms: r.Atoms, seq: b.seq, kept: e.state&hasRequest != 0}, r.Y, true,
		r.Event)
}

func (f *Fold) activate(r *eventlog.Activate) Outcome {
	_, e := f.lookup(r.Event)
	switch {
	case e == nil:
		return Late
	case e.state&inactive == 0:
		return Duplicate
	}
	e.state &^= inactive
	return Accepted
}

// expire closes windows. This is where the rules sum and last learn, and where defaults count.
func (f *Fold) expire(r *eventlog.Expire) (Outcome, error) {
	k := batchKey{r.Event.Epoch, r.Event.Batch}
	b := f.open[k]
	if b == nil {
		return Late, nil
	}
	var decisions []*eventlog.Decision // of the whole entry, read when the first event needs it
	left, uses := b.events[:0:0], b.uses[:0:0]
	for i, e := range b.events {
		if e.index < r.Event.Index || e.index >= r.Event.Index+r.Count || e.model.ID != r.Model || f.nodes != nil &&
			e.deadline > f.clock {
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
		h := f.Current(e.model)
		h.Counts.Open--
		f.waiting--
		f.close(h, &e)
		f.guardExpires(h, &e, eventlog.Event{Epoch: k.epoch, Batch: k.no, Index: e.index}, r)
		p := f.learner(e.model, b.seq)
		y, learns := e.y, e.state&noLearning == 0 && p != nil
		if e.state&rewarded != 0 {
			learns = learns && !e.state.rule().Settles()
		} else {
			h.Counts.Expired++
			if p != nil && e.state&(noLearning|inactive) == 0 {
				if err := f.missed(p, r.Default, r.Y); err != nil {
					return None, err
				}
			}
			y = r.Y
			if learns = learns && r.Default && e.state&inactive == 0; learns {
				p.Counts.Defaulted++
				p.Counts.RewardSum += y
			}
		}
		if learns && p.HasPolicy() {
			if decisions == nil {
				var err error
				if decisions, err = f.past.decisions(k, b.seq, b.hash); err != nil {
					return None, err
				}
			}
			if int(e.index) >= len(decisions) || decisions[e.index] == nil {
				return None, fmt.Errorf("entry %d has no decision at place %d", b.seq, e.index)
			}
			d := decisions[e.index]
			x := Features{X: d.X, Atoms: d.Atoms, seq: b.seq, kept: e.state&hasRequest != 0, decision: d}
			if err := f.learn(p, x, y, e.state&rewarded != 0, eventlog.Event{Epoch: k.epoch, Batch: k.no,
				Index: e.index}); err != nil {
				return None, err
			}
		}
	}
	if b.events, b.uses = left, uses; len(left) == 0 {
		delete(f.open, k)
	}
	return Accepted, nil
}

// OldestOpen returns the entry of the oldest open window, one past the fold when none is open.
func (f *Fold) OldestOpen() uint64 {
	oldest := f.seq + 1
	for _, b := range f.open {
		oldest = min(oldest, b.seq)
	}
	return oldest
}
