package fold

import (
	"fmt"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/internal/compact"
	"troupe/policy"
	"troupe/serve/model"
)

// Fold is the state of all models after a sequence of the log: what Apply has made of entries 1, …, Seq. It
// reads no clock and draws nothing. Not safe for concurrent use.
type Fold struct {
	seq      uint64
	entry    entry  // that is being folded
	lost     uint64 // entries that an operator has given up (Loss)
	registry        // models by id and by name
	windows         // of events that wait for a reward
	usedKeys        // idempotency keys
	cluster         // nodes and time
	base     Base   // of a cluster that has trimmed its log

	incoming *incoming // nil: no import is under way

	// only, if not nil, are the models whose policies are kept. The others have none: a look at the past
	// of a few models needs no others.
	only      map[eventlog.ID]bool
	past      *History
	deferring bool            // see Defer
	brief     bool            // see Brief
	cast      *model.Compiled // every policy that is kept is this one, see History.Recast

	shapes model.Shapes // of the configurations that were read
	fresh  fresh        // of the models that were laid aside

	// Scratch space of action.
	atoms []feature.Atom
	at    []uint32
	x     []float64
}

// New returns the fold of an empty log. It reads what it does not keep from past, which may be nil when no
// window of the rules sum and last closes and nothing is cloned or rolled back.
func New(past *History) *Fold {
	e := &epochs{places: map[eventlog.ID]uint32{}}
	f := &Fold{
		registry: registry{models: map[eventlog.ID]*Model{}, names: map[string]*Model{}},
		windows:  windows{epochs: e}, usedKeys: usedKeys{epochs: e}, past: past,
	}
	f.open = compact.NewIndex(func(at uint32) uint64 { return f.batch(f.entries.At(at)).hash() })
	f.keys = compact.NewIndex(func(at uint32) uint64 { return hashKey(f.used.At(at).key) })
	return f
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
	f.entry = entry{batchKey{d.Epoch, d.No}, d.Hash, d.Time, f.tick(d.Time)}
	if in := f.incoming; in != nil && in.over(f) {
		f.incoming = nil
	}
	out := make([]Outcome, 0, d.Count)
	for i, r := range d.Events() {
		o, err := f.record(i, r)
		if err != nil {
			return nil, fmt.Errorf("entry %d, record %d (%v): %w", d.Seq, i, r.Kind(), err)
		}
		out = append(out, o)
	}
	f.fit(f.entry.batchKey)
	f.forget(f.keysKept(), f.clock)
	return out, nil
}

// entry is what records need of their entry, beside its sequence.
type entry struct {
	batchKey
	hash eventlog.Hash
	time int64
	now  int64 // what policies that forget by time are told: time, in a cluster the clock
}

// record folds record i of the entry: a row for each kind.
func (f *Fold) record(i uint32, r eventlog.Record) (Outcome, error) {
	switch r := r.(type) {
	case *eventlog.Decision:
		return f.decision(i, r), nil
	case *eventlog.Reward:
		return f.reward(r)
	case *eventlog.Activate:
		return f.activate(r), nil
	case *eventlog.Expire:
		return f.expire(r)
	case *eventlog.Control:
		return f.control(r)
	case *eventlog.Piece:
		return f.piece(r), nil
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
		c.Tick(f.entry.now)
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

// checkpoint compares digests that a writer recorded for its state after an entry. Only one that
// was made just before can be compared.
func (f *Fold) checkpoint(r *eventlog.Checkpoint) (Outcome, error) {
	f.heard(r, f.seq)
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
