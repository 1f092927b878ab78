package fold

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
	"troupe/serve/model"
)

// Fold is the state of all models after a sequence of the log: what Apply has made of entries 1, …, Seq. It
// reads no clock and draws nothing. Not safe for concurrent use.
type Fold struct {
	seq    uint64
	lost   uint64 // entries that an operator has given up (Loss)
	models map[eventlog.ID]*Model
	names  map[string]*Model
	open   map[batchKey]*OpenEntry
	keys   map[[16]byte]KeyUse
	closed []closedKey // of keys, in the order in which their windows were closed
	gone   int         // closed[:gone] were forgotten
	clock  int64       // the latest time of a batch; in a cluster the median of the nodes' clocks
	now    int64       // the time of the entry that is applied, in a cluster clock
	nodes  *nodes      // of a cluster, nil on a single machine
	base   Base        // of a cluster that has trimmed its log

	incoming *incoming // nil: no import is under way

	// only, if not nil, are the models whose policies are kept. The others have none: a look at the past
	// of a few models needs no others.
	only      map[eventlog.ID]bool
	past      *History
	deferring bool            // see Defer
	brief     bool            // see Brief
	cast      *model.Compiled // every policy that is kept is this one, see History.Recast

	// Changes since the caller took them.
	opened  []*OpenEntry // new entries with open events
	changed []*Model     // models whose published versions are old
	renamed bool         // names has changed

	waiting int64 // open events

	shapes model.Shapes // of the configurations that were read

	// Scratch space of action.
	atoms []feature.Atom
	at    []uint32
	x     []float64
}

// New returns the fold of an empty log. It reads what it does not keep from past, which may be nil when no
// window of the rules sum and last closes and nothing is cloned or rolled back.
func New(past *History) *Fold {
	return &Fold{
		models: map[eventlog.ID]*Model{}, names: map[string]*Model{}, open: map[batchKey]*OpenEntry{},
		keys: map[[16]byte]KeyUse{}, past: past,
	}
}

// DropPolicies drops what the models have learned. The fold then follows names, configurations, windows and rewards and
// learns nothing: readers of a log that need only what counted save the policies' time and memory.
func (f *Fold) DropPolicies() {
	f.only = map[eventlog.ID]bool{}
	for _, m := range f.models {
		m.drop()
	}
}

// Seq returns the last entry that was applied.
func (f *Fold) Seq() uint64 { return f.seq }

// Model returns an incarnation, nil when there is none.
func (f *Fold) Model(id eventlog.ID) *Model { return f.models[id] }

// Named returns the model that has a name now, nil when there is none.
func (f *Fold) Named(name string) *Model { return f.names[name] }

// Names returns the names of all models in alphabetical order.
func (f *Fold) Names() []string { return slices.Sorted(maps.Keys(f.names)) }

// Models yields every incarnation, of deleted models too, in no order.
func (f *Fold) Models() iter.Seq[*Model] { return maps.Values(f.models) }

// Waiting returns how many events have open windows.
func (f *Fold) Waiting() int64 { return f.waiting }

// TakeChanged returns the models that have changed since the last call. The slice is valid until the next
// Apply.
func (f *Fold) TakeChanged() []*Model {
	out := f.changed
	for _, m := range out {
		m.changed = false
	}
	f.changed = f.changed[:0]
	return out
}

// TakeRenamed reports whether the set of names, or the incarnation behind a name, has changed since the last
// call.
func (f *Fold) TakeRenamed() bool {
	out := f.renamed
	f.renamed = false
	return out
}

// TakeOpened returns the entries with new open events since the last call. The slice is valid until the next
// Apply.
func (f *Fold) TakeOpened() []*OpenEntry {
	out := f.opened
	f.opened = f.opened[:0]
	return out
}

// Outcome is what the fold made of a record.
type Outcome uint8

const (
	None      Outcome = iota // the record has no outcome
	Accepted                 // it counts
	Duplicate                // a reward or activation that was there already
	Late                     // the window of its event is over
	Ignored                  // it has no effect
	Conflict                 // a control record that came too late: name taken, or model gone
)

// Apply folds one entry. The outcomes are those of its records, in order. After an error the fold is
// of no use any more: it is neither before the entry nor after it.
func (f *Fold) Apply(d eventlog.Delivery) ([]Outcome, error) {
	if d.Seq != f.seq+1 {
		panic("fold: given an entry out of order")
	}
	f.seq = d.Seq
	if d.Repeat {
		return nil, nil
	}
	if f.nodes == nil {
		f.clock = max(f.clock, d.Time)
	}
	if f.now = d.Time; f.nodes != nil {
		f.now = f.clock
	}
	if in := f.incoming; in != nil && in.over(f, d) {
		f.incoming = nil
	}
	out := make([]Outcome, 0, d.Count)
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

func (f *Fold) record(d eventlog.Delivery, i uint32, r eventlog.Record) (Outcome, error) {
	switch r := r.(type) {
	case *eventlog.Decision:
		return f.decision(d, i, r), nil
	case *eventlog.Reward:
		return f.reward(r)
	case *eventlog.Activate:
		return f.activate(r), nil
	case *eventlog.Expire:
		return f.expire(r)
	case *eventlog.Control:
		return f.control(d, r)
	case *eventlog.Piece:
		return f.piece(d, r, d.Time), nil
	case *eventlog.Loss:
		f.lost++
		return Accepted, nil
	case *eventlog.Checkpoint:
		return f.checkpoint(r)
	case *eventlog.Learned:
		return f.learned(r)
	}
	return None, fmt.Errorf("a record of kind %v", r.Kind())
}

// learn moves a model by one event. A policy that refuses has failed for good: every replica finds the same, nothing is
// skipped silently, and the other models go on. given is false for a default reward. An error is that of the log, from
// which the request of an event may be needed, or of a snapshot that no policy can be built from.
func (f *Fold) learn(m *Model, x Features, y float64, given bool, key eventlog.Event) error {
	if m.Failed != "" || !m.HasPolicy() {
		return nil
	}
	if err := f.wake(m); err != nil {
		return err
	}
	switch {
	case m.Compiled.Hashed == nil && len(x.X) == 0 && len(x.Atoms) > 0: // decided before a learned schema took over
		if ok, err := f.toSchema(m, &x, key); !ok {
			m.Counts.Ignored++
			return err
		}
	case m.Compiled.Hashed != nil && len(x.Atoms) == 0: // decided with a learned schema that a rollback took back
		m.Counts.Ignored++
		return nil
	}
	f.rewarded(m, y, given)
	u := update{x, y, key, f.seq}
	if m.wait(u) {
		m.Last = f.seq
		return nil
	}
	f.Settle(m)
	a, err := f.action(m, x)
	if err == nil {
		f.keep(m, a, y, &x, key)
	}
	if f.brief && err == nil && m.state.retire() {
		m.policy.(policy.Sharer).Reclaim()
		m.dropState()
	}
	if c, ok := m.policy.(policy.Clocked); ok {
		c.Tick(f.now)
	}
	m.update(u, a, err)
	if m.Failed != "" {
		f.markChanged(m)
		return nil
	}
	c := m.deferrer()
	m.lagging = c != nil && c.Pending() != nil
	return f.touch(m)
}

// Brief says whether the entry that is applied next is short. A model that shares its pages with the published version
// alone then learns in place: whoever wants to decide meanwhile waits for the next version (State.Hold is false). While
// decisions are under way on the version, and in long entries, the pages that change are copied.
func (f *Fold) Brief(yes bool) { f.brief = yes }

// markChanged notes that a model needs a new version.
func (f *Fold) markChanged(m *Model) {
	if !m.changed {
		m.changed = true
		f.changed = append(f.changed, m)
	}
}

// checkpoint compares digests that a writer recorded for its state after an entry. Only one that
// was made just before can be compared.
func (f *Fold) checkpoint(r *eventlog.Checkpoint) (Outcome, error) {
	f.heard(r)
	if f.lost > 0 || f.cast != nil { // see inherit
		return Accepted, nil
	}
	for _, p := range r.Prices {
		m := f.models[p.Model]
		if m == nil || m.Spending == nil || m.Successor != 0 || m.Spending.Seq > r.Seq || m.Changed.Seq > r.Seq ||
			r.Seq >= f.seq {
			continue
		}
		if own := m.price(p.Model); own != p {
			return None, fmt.Errorf("model %v has the price %v and spent %v, the writer says %v and %v after entry %d", p.Model,
				own.Price, own.Spent, p.Price, p.Spent, r.Seq)
		}
	}
	for _, s := range r.States {
		m := f.models[s.Model]
		if m == nil || !m.HasPolicy() || m.Last > r.Seq || r.Seq >= f.seq {
			continue
		}
		state, err := m.State()
		if err != nil {
			return None, err
		}
		if state.Digest() != s.Digest {
			return None, fmt.Errorf("model %v has the digest %v, the writer says %v after entry %d", s.Model,
				state.Digest(), s.Digest, r.Seq)
		}
	}
	return Accepted, nil
}
