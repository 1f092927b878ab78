package serve

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fold"
)

// state is the fold of the log, and what is published of it for decisions, which do not wait for mu. The applier changes
// it; calls read it. It knows nothing of how records are written.
type state struct {
	past *fold.History
	now  func() time.Time

	mu      sync.RWMutex // guards fold and entries
	fold    *fold.Fold
	entries map[eventlog.ID]*entry // of the models that have a name, by incarnation

	names atomic.Pointer[map[string]*entry] // what Decide sees
	based atomic.Uint64                     // entry of the newest base that the log of a cluster names
	open  atomic.Int64                      // events whose window is open
	known atomic.Int64                      // idempotency keys

	lagging lagging
	windows windows
	shown   shown         // the newest requests
	due     chan struct{} // a model may have enough rewards to learn a schema
}

// entry is a model as Decide sees it.
type entry struct {
	state   *state
	version atomic.Pointer[choose.Version]
	workers choose.Pool
	used    atomic.Bool // it has decided since the last look of layAside
	pace    pace        // of the requests that are remembered
	observed
}

// publish makes the versions of the models that have changed. The caller holds mu, or is alone.
func (s *state) publish() error {
	for _, m := range s.fold.TakeChanged() {
		if m.Deleted || m.Successor != 0 {
			delete(s.entries, m.ID)
			if m.Deleted {
				s.shown.forget(m.Name())
			}
			continue
		}
		e := s.entries[m.ID]
		if e == nil {
			e = &entry{state: s}
			s.entries[m.ID] = e
		}
		var v *choose.Version
		if old := e.version.Load(); m.Lagging() && old != nil {
			v = old.Meanwhile(m)
			s.follow(m)
		} else {
			var err error
			if v, err = choose.VersionOf(m, s.fold.Seq()); err != nil {
				return fmt.Errorf("model %v: %w", m.ID, err)
			}
		}
		if m.Due(s.kept()) {
			s.wakeLearner()
		}
		v.State.Publish() // the published version holds it, beside the fold
		if old := e.version.Swap(v); old != nil {
			old.State.Release()
		}
	}
	if s.fold.TakeRenamed() {
		names := map[string]*entry{}
		for m := range s.fold.Models() {
			if e := s.entries[m.ID]; e != nil {
				names[m.Name()] = e
			}
		}
		s.names.Store(&names)
	}
	s.open.Store(s.fold.Waiting())
	s.known.Store(int64(s.fold.Keys()))
	s.windows.add(s.fold.TakeOpened())
	return nil
}

// publishedOf returns the published version of a model, after the entry that is being applied: the state of the one
// before may be gone already.
func (s *state) publishedOf(e *entry) *choose.Version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return e.version.Load()
}

// settle lets all models catch up, after the applier has ended.
func (s *state) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.fold.Models() {
		s.fold.Settle(m)
	}
}

// model returns the version of a model by name.
func (s *state) model(name string) (*entry, *choose.Version, error) {
	e := (*s.names.Load())[name]
	if e == nil {
		return nil, nil, noModel(name)
	}
	return e, e.version.Load(), nil
}

// kept returns the first entry that acts may still need.
func (s *state) kept() uint64 {
	if base := s.based.Load(); base > 0 {
		return max(s.past.First.Load(), base+1)
	}
	return s.past.First.Load()
}

// noteBase takes the newest base of the fold, and reports whether it is another one. The caller holds mu, or is alone.
func (s *state) noteBase() bool {
	b := s.fold.Base().Seq
	return s.based.Swap(b) != b
}

// wakeLearner lets learnLoop look for models that are due. It never waits.
func (s *state) wakeLearner() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// modelBytes returns about how many bytes all models take now, and how many of them are not laid aside.
func (s *state) modelBytes() (bytes int64, awake int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for m := range s.fold.Models() {
		if bytes += m.Now(); m.Awake() {
			awake++
		}
	}
	return bytes, awake
}

func (s *state) view(name string) (Model, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.fold.Named(name)
	if m == nil {
		return Model{}, noModel(name)
	}
	return s.viewOf(m), nil
}

// viewOf returns a model as its owner sees it. The caller holds mu.
func (s *state) viewOf(m *fold.Model) Model {
	var seen *observed
	if e := s.entries[m.ID]; e != nil {
		seen = &e.observed
	}
	lo, hi := m.Range()
	out := Model{
		Kind: kindOf(m.Compiled), Notes: notesOf(m), Range: Range{Min: lo, Max: hi,
			Declared: !m.Compiled.Config.Reward.Adapt, ChangedSeq: m.Memory.RangeSeq},
		Name: m.Name(), Incarnation: m.ID, Config: m.Compiled.Config, ConfigVersion: m.Version, Paused: m.Paused,
		Dim:      m.Compiled.Dim,
		Warnings: modelWarnings(m, seen), Created: m.Created, Changed: m.Changed, Counts: m.Counts, Failed: m.Failed,
	}
	if b := m.Spending; b != nil {
		limit := m.Compiled.Config.Budget.Limit()
		out.Budget = &BudgetView{Price: b.Price(limit), Granted: b.Granted, Spent: b.Spent, Reserved: b.Reserved,
			Left: b.Left(limit, s.now().UnixNano()), Decisions: b.Decisions, Stopped: b.Stopped, Paid: b.Paid}
	}
	if y, ok := m.MissingReward(); ok && (m.Memory.Adopted || m.Compiled.Config.Reward.Default.Set) {
		out.Missing = &Missing{Value: y, Adopted: m.Memory.Adopted, Seq: m.Memory.AdoptedSeq}
	}
	for _, s := range m.Memory.Statistics.All() {
		n := Number{Name: s.Name, Mean: s.Mean, Deviation: s.Deviation, Generation: s.Generation}
		if s.Width > 0 {
			n.Center, n.Width = &s.Center, &s.Width
		}
		out.Numbers = append(out.Numbers, n)
	}
	if c := m.Noticed(); c.Seen > 0 {
		out.Noticed = &NoticedView{At: c.At, Seen: c.Seen, Posterior: c.Posterior, Before: c.Before, After: c.After}
	}
	out.Learners, out.Memory = slices.Clone(m.Learners()), m.Size()
	if seen != nil {
		out.Seen = seen.seen()
		seen.nameFields(out.Learners)
	}
	first := s.kept()
	out.Learning = learningOf(m, first)
	out.Warnings = append(out.Warnings, learningWarnings(m, first)...)
	return out
}

// keyUse returns what an idempotency key was used for.
func (s *state) keyUse(key [16]byte) (fold.KeyUse, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.fold.Key(key)
}
