package serve

import (
	"context"
	"slices"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
	"troupe/serve/choose"
	"troupe/serve/fold"
)

// model returns the version of a model by name.
func (s *Server) model(name string) (*entry, *choose.Version, error) {
	e := (*s.names.Load())[name]
	if e == nil {
		return nil, nil, noModel(name)
	}
	return e, e.version.Load(), nil
}

// ListModels implements Service.
func (s *Server) ListModels(ctx context.Context, after string, limit int) ([]Model, bool, error) {
	if limit == 0 {
		limit = 100
	}
	if limit < 1 || limit > 1000 {
		return nil, false, invalid("limit", limit, "expected 1 to 1000")
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := s.fold.Names()
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	names = names[from:]
	more := len(names) > limit
	models := []Model{}
	for _, n := range names[:min(limit, len(names))] {
		models = append(models, s.viewOf(s.fold.Named(n)))
	}
	return models, more, nil
}

// GetModel implements Service.
func (s *Server) GetModel(ctx context.Context, name string) (Model, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Model{}, err
	}
	defer done()
	out, err := s.view(name)
	if err != nil {
		return out, err
	}
	if e, v, err := s.model(name); err == nil && v.ID == out.Incarnation {
		out.Weights = s.weigh(e, v, out.Seen)
	}
	out.Requests = s.requestsOf(name)
	return out, nil
}

func (s *Server) view(name string) (Model, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.fold.Named(name)
	if m == nil {
		return Model{}, noModel(name)
	}
	return s.viewOf(m), nil
}

// viewOf returns a model as its owner sees it. The caller holds mu.
func (s *Server) viewOf(m *fold.Model) Model {
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
			Left: b.Left(limit, s.opt.Now().UnixNano()), Decisions: b.Decisions, Stopped: b.Stopped, Paid: b.Paid}
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

// LearnerView is one of the models that learn side by side in the policy hashed.
type LearnerView = policy.HashedModel

// nameFields fills in the names of fields that small models read.
func (o *observed) nameFields(learners []LearnerView) {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make(map[uint32]string, len(o.features))
	for name, x := range o.features {
		if x.feature != 0 {
			names[feature.FieldNumber(x.feature)] = name
		}
	}
	for i := range learners {
		if l := &learners[i]; l.Field != 0 {
			l.Name = names[l.Field]
		}
	}
}

// notesOf names the counts of notes, nil when there are none.
func notesOf(m *fold.Model) map[string]uint64 {
	var out map[string]uint64
	for i, n := range m.Notes {
		if n > 0 {
			if out == nil {
				out = map[string]uint64{}
			}
			out[eventlog.Notes(1<<i).String()] = n
		}
	}
	return out
}

// State implements Service.
func (s *Server) State(ctx context.Context, name string) (StateView, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return StateView{}, err
	}
	defer done()
	s.mu.RLock()
	m := s.fold.Named(name)
	if m == nil {
		s.mu.RUnlock()
		return StateView{}, noModel(name)
	}
	v := s.entries[m.ID].version.Load()
	out := StateView{
		Name: name, Incarnation: m.ID, Seq: s.fold.Seq(), Digest: v.Digest, Dim: v.Compiled.Dim,
		Learned: m.Counts.Learned,
	}
	out.Learners = m.Learners()
	if m.Lagging() {
		out.Seq = v.Seq
	}
	v.State.Hold() // nothing is published while the fold is locked: v is the newest
	s.mu.RUnlock()
	defer v.State.Release()
	if out.Snapshot, err = v.Snapshot(); err != nil {
		return out, &Error{Code: Internal, Want: "the state cannot be read", Err: err}
	}
	if v.Compiled.Encoder == nil {
		return out, nil
	}
	e, err := v.Estimate()
	if err != nil {
		return out, &Error{Code: Internal, Want: "the state cannot be read", Err: err}
	}
	out.Theta, out.Spread, out.LogDet = e.Theta, e.Spread, e.LogDet
	out.Coordinates = make([]string, v.Compiled.Dim)
	for i := range out.Coordinates {
		out.Coordinates[i] = v.Compiled.Encoder.Coordinate(i)
	}
	return out, nil
}
