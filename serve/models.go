package serve

import (
	"context"
	"fmt"
	"slices"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

// reading answers what is known: models, events, states of the past.
type reading struct {
	*state
	*writer
	keys   eventlog.IDKeys
	recent *recent.Decisions
}

// ListModels implements Service.
func (s *reading) ListModels(ctx context.Context, after string, limit int) ([]Model, bool, error) {
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
func (s *reading) GetModel(ctx context.Context, name string) (Model, error) {
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
	out.Foretell = &foretelling{s.writer, s.state, name}
	return out, nil
}

// State implements Service.
func (s *reading) State(ctx context.Context, name string) (StateView, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return StateView{}, err
	}
	defer done()
	s.mu.RLock()
	m := s.fold.Named(name)
	if m == nil {
		s.mu.RUnlock()
		return StateView{}, missing(s.state, name)
	}
	v := s.entries[m.ID].version.Load()
	out := StateView{
		Name: name, Incarnation: m.ID, Seq: s.fold.Seq(), Digest: v.Digest, Dim: v.Compiled.Dim,
		Learned: m.Counts.Learned,
	}
	var seen *observed
	if e := s.entries[m.ID]; e != nil {
		seen = &e.observed
	}
	out.Explained = explainedOf(m, seen)
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

// SaveModel implements Service.
func (s *reading) SaveModel(ctx context.Context, name string, seq uint64) ([]byte, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s.mu.RLock()
	m := s.fold.Named(name)
	if m == nil {
		s.mu.RUnlock()
		return nil, missing(s.state, name)
	}
	v := s.entries[m.ID].version.Load()
	saved := fold.Saved{Compiled: v.Compiled, Seed: v.Seed, Learned: m.Counts.Learned, Memory: m.Memory}
	chain, oldest, applied := s.fold.Lineage(m), m.Created.Seq, s.fold.Seq()
	held := v.State != nil && v.State.Hold() // nothing is published while the fold is locked: v is the newest
	s.mu.RUnlock()
	if held {
		defer v.State.Release()
	}
	began := "where the model began"
	if base := s.past.Base.Load(); base > oldest {
		oldest, began = base, "where the log that is kept begins"
	}
	switch {
	case seq == 0:
		saved.Origin = fold.Origin{Models: chain, Seq: applied}
	case seq < oldest || seq > applied:
		code := Invalid
		if seq < oldest {
			code = Gone
		}
		return nil, &Error{Code: code, Field: "seq", Value: fmt.Sprint(seq),
			Want: fmt.Sprintf("expected a sequence from %d, %s, to %d, the present", oldest, began, applied)}
	default:
		if saved, err = s.savedAt(chain, seq); err != nil {
			return nil, &Error{Code: Unavailable, Want: "the state of that time cannot be computed", Err: err}
		}
		saved.Origin = fold.Origin{Models: chain, Seq: seq}
		return saved.Append(nil)
	}
	if !held {
		return nil, &Error{Code: Conflict, Field: "model", Value: name,
			Want: "has no state yet: its features are not known"}
	}
	if saved.Policy, err = v.Snapshot(); err != nil {
		return nil, &Error{Code: Internal, Want: "the state cannot be read", Err: err}
	}
	return saved.Append(nil)
}

// savedAt is the first model of a chain that existed after an entry, as it was then.
func (s *reading) savedAt(chain []eventlog.ID, seq uint64) (out fold.Saved, err error) {
	f, err := s.past.At(chain, seq)
	if err != nil {
		return out, err
	}
	for _, id := range chain {
		m := f.Model(id)
		if m == nil || !m.HasPolicy() {
			continue
		}
		v, err := choose.VersionOf(m, seq)
		if err != nil {
			return out, err
		}
		out = fold.Saved{Compiled: m.Compiled, Seed: m.Seed, Learned: m.Counts.Learned, Memory: m.Memory}
		out.Policy, err = v.Snapshot()
		return out, err
	}
	return out, fmt.Errorf("the model had no state after entry %d", seq)
}

// requestsOf returns the newest requests of a model that are remembered, the oldest first.
func (s *reading) requestsOf(model string) (out []RequestView) {
	s.shown.each(model, func(r *shownRequest) {
		v := r.view()
		v.EventID = s.keys.Format(eventlog.EventID{Event: r.key, Hint: r.seq})
		out = append(out, v)
	})
	return out
}

// requestOf returns the request of a decision, nil when it is not remembered.
func (s *reading) requestOf(model string, key eventlog.Event) (out *RequestView) {
	s.shown.each(model, func(r *shownRequest) {
		if r.key == key {
			v := r.view()
			out = &v
		}
	})
	return out
}
