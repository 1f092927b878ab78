package fold

import (
	"cmp"
	"iter"
	"slices"

	"troupe/eventlog"
	"troupe/internal/compact"
	"troupe/serve/model"
)

// windows are the events that wait for a reward. There may be millions, so they stand in blocks without pointers.
type windows struct {
	entries compact.Arena[openEntry]
	more    compact.Arena[[]openEvent] // the events of entries with several
	open    compact.Index              // of entries, by batch
	opened  []opened                   // new entries with open events, since the caller took them
	waiting int64                      // open events
	epochs  *epochs

	// keys of rewards, for the rules that take more than one
	rewardKeys map[eventlog.Event][]eventlog.ID
	lists      map[eventlog.Event]*openList // of the events that are lists
	named      map[eventlog.Event]*openNamed
}

// openEntry is an entry with decisions whose window is open. It takes 72 bytes.
type openEntry struct {
	no, seq uint64
	hash    eventlog.Hash
	one     [1]openEvent // its only event, or where its events are
}

// openEvent is a decision whose window is open. It takes 40 bytes.
type openEvent struct {
	deadline int64
	y        float64
	cost     float64 // with the state costed what it cost, with budgeted alone what is reserved
	model    uint32  // place of the model that decided
	key      uint32  // 1 + the place of its idempotency key, 0 for none
	index    uint16
	state    eventState

	// In openEntry.one: the place of the entry's epoch; and that it has several events, which stand in windows.more
	// at the place key.
	several bool
	epoch   uint32
}

// Window is the open window of a model in an entry, the last to end where it has several there.
type Window struct {
	Deadline int64
	Seq      uint64 // of the entry
	Model    uint32 // place of the model, see ModelAt
	at       uint32 // place of the entry
}

// Waiting returns how many events have open windows.
func (w *windows) Waiting() int64 { return w.waiting }

// opened is an entry that may be over meanwhile.
type opened struct {
	seq uint64
	at  uint32
}

// TakeOpened returns the windows of entries with new open events since the last call, each model of an entry once. They
// are valid until the next Apply.
func (w *windows) TakeOpened() iter.Seq[Window] {
	opened := w.opened
	w.opened = w.opened[:0]
	return func(yield func(Window) bool) {
		for _, o := range opened {
			b := w.still(o.at, o.seq)
			if b == nil {
				continue
			}
			for x := range lastOf(w.events(b)) {
				if !yield(Window{x.deadline, b.seq, x.model, o.at}) {
					return
				}
			}
		}
	}
}

// still returns the open entry seq, which was at a place, nil when it is over.
func (w *windows) still(at uint32, seq uint64) *openEntry {
	if b := w.entries.Look(at); b != nil && b.seq == seq {
		return b
	}
	return nil
}

// lastOf yields the event of each model that ends last.
func lastOf(events []openEvent) iter.Seq[openEvent] {
	return func(yield func(openEvent) bool) {
		for i, last := range events {
			of := func(e openEvent) bool { return e.model == last.model }
			if slices.ContainsFunc(events[:i], of) {
				continue
			}
			for _, e := range events[i:] {
				if of(e) && e.deadline > last.deadline {
					last = e
				}
			}
			if !yield(last) {
				return
			}
		}
	}
}

// events returns the open events of an entry, ascending by index, until one is added.
func (w *windows) events(b *openEntry) []openEvent {
	if b.one[0].several {
		return *w.more.At(b.one[0].key)
	}
	return b.one[:]
}

// batch returns what names an entry in keys of events.
func (w *windows) batch(b *openEntry) batchKey { return batchKey{w.epochs.ids[b.one[0].epoch], b.no} }

// entry returns the open entry of a batch, or nil.
func (w *windows) entry(k batchKey) (*openEntry, uint32) {
	if at, ok := w.open.Find(k.hash(), func(at uint32) bool { return w.batch(w.entries.At(at)) == k }); ok {
		return w.entries.At(at), at
	}
	return nil, 0
}

// await adds an event to the open entry of a batch, which begins with its first event.
func (w *windows) await(k batchKey, seq uint64, hash eventlog.Hash, e openEvent) {
	b, _ := w.entry(k)
	switch {
	case b == nil:
		e.epoch = w.epochs.hold(k.epoch)
		at, b := w.entries.New()
		*b = openEntry{no: k.no, seq: seq, hash: hash, one: [1]openEvent{e}}
		w.open.Add(at)
		w.opened = append(w.opened, opened{seq, at})
	case !b.one[0].several:
		place, more := w.more.New()
		*more = []openEvent{b.one[0], e}
		b.one[0] = openEvent{several: true, key: place, epoch: b.one[0].epoch}
	default:
		more := w.more.At(b.one[0].key)
		*more = append(*more, e)
	}
}

// fit gives the events of an entry no more room than they take, once all are there.
func (w *windows) fit(k batchKey) {
	if b, _ := w.entry(k); b != nil && b.one[0].several {
		if more := w.more.At(b.one[0].key); cap(*more)-len(*more) > len(*more)/8 {
			*more = append(make([]openEvent, 0, len(*more)), *more...)
		}
	}
}

// leave keeps some of the events of an entry, and ends it when there are none.
func (w *windows) leave(b *openEntry, at uint32, left []openEvent) {
	first := &b.one[0]
	switch {
	case len(left) == 0:
		w.open.Remove(at)
		w.epochs.release(first.epoch)
		if first.several {
			w.more.Free(first.key)
		}
		w.entries.Free(at)
	case first.several:
		*w.more.At(first.key) = left
	}
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

// stateOf returns the state in which the event of a decision begins. rule is that of the model that decided.
func stateOf(r *eventlog.Decision, rule model.Rule) (s eventState) {
	if r.Deferred {
		s |= inactive
	}
	if r.Mode == eventlog.Shadow || r.Mode == eventlog.Frozen {
		s |= noLearning
	}
	return s.withRule(rule)
}

// withRule returns the state with a rule.
func (s eventState) withRule(r model.Rule) eventState { return s | eventState(r.Code())*ruleLow }

// rule returns the rule by which the event was decided.
func (s eventState) rule() model.Rule { return model.RuleOf(int(s & (ruleLow | ruleHigh) / ruleLow)) }

// oldest returns the entry of the oldest open window, none when no window is open.
func (w *windows) oldest(none uint64) uint64 {
	for at := range w.open.All() {
		none = min(none, w.entries.At(at).seq)
	}
	return none
}

// find returns an open event of an entry, or nil.
func (w *windows) find(b *openEntry, index uint32) *openEvent {
	events := w.events(b)
	i, ok := slices.BinarySearchFunc(events, index, func(e openEvent, i uint32) int {
		return cmp.Compare(uint32(e.index), i)
	})
	if !ok {
		return nil
	}
	return &events[i]
}

// lookup returns the open event of a key, or nil.
func (w *windows) lookup(key eventlog.Event) (*openEntry, *openEvent) {
	if b, _ := w.entry(batchKey{key.Epoch, key.Batch}); b != nil {
		return b, w.find(b, key.Index)
	}
	return nil, nil
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

// Total returns what would count of an event with an open window after another reward, ok only where that is not the
// reward alone.
func (w *windows) Total(event eventlog.Event, y float64) (total float64, ok bool) {
	_, e := w.lookup(event)
	if e == nil || e.state&rewarded == 0 || e.state.rule().Settles() {
		return y, false
	}
	return e.state.rule().Fold(e.y, y, false), true
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
	_, e := w.lookup(event)
	return e != nil && w.knowsCost(e, event, key)
}

// Known reports whether a reward with this key (0 for none) would be a duplicate.
func (w *windows) Known(event eventlog.Event, key eventlog.ID) bool {
	_, e := w.lookup(event)
	return e != nil && w.knows(e, event, key)
}

// knows reports whether a reward with this key has no effect: the event has its one reward, or the key was
// used.
func (w *windows) knows(e *openEvent, event eventlog.Event, key eventlog.ID) bool {
	return e.state&rewarded != 0 && e.state.rule().Settles() || key != 0 && slices.Contains(w.rewardKeys[event], key)
}

// knowsCost is knows for a cost without a reward.
func (w *windows) knowsCost(e *openEvent, event eventlog.Event, key eventlog.ID) bool {
	return e.state&costed != 0 && e.state.rule().Settles() || key != 0 && slices.Contains(w.rewardKeys[event], key)
}

// noteKey remembers the key of a reward or a cost, under the rules that take more than one.
func (w *windows) noteKey(e *openEvent, event eventlog.Event, key eventlog.ID) {
	if key != 0 && !e.state.rule().Settles() {
		w.noteKeys(event, key)
	}
}

func (w *windows) noteKeys(event eventlog.Event, keys ...eventlog.ID) {
	if w.rewardKeys == nil {
		w.rewardKeys = map[eventlog.Event][]eventlog.ID{}
	}
	w.rewardKeys[event] = append(w.rewardKeys[event], keys...)
}

// What the window of an event has beside an action, in the bytes of a state.
const (
	plainWindow = iota
	listWindow
	namedWindow
)
