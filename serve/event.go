package serve

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"troupe/eventlog"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/decide"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

// Event implements Service.
func (s *reading) Event(ctx context.Context, eventID string) (EventView, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return EventView{}, err
	}
	defer done()
	id, d, err := s.recent.Whole(ctx, eventID)
	if err != nil {
		return EventView{}, err
	}
	at, err := decide.Place(d)
	if err != nil {
		return EventView{}, &Error{Code: Internal, Want: "the decision cannot be read", Err: err}
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
	defer cancel()
	if _, err := s.progress.until(wait, id.Hint); err != nil {
		return EventView{}, &Error{Code: Unavailable, Want: "the decision is not applied yet", RetryAfter: time.Second,
			Err: err}
	}
	v := EventView{
		EventID: eventID, Key: id.Event, Seq: id.Hint, Incarnation: d.Model, Decision: *d,
		Time: time.Unix(0, d.Time).UTC(), Deadline: time.Unix(0, d.Deadline).UTC(),
	}
	if v.List = decide.Entries(d); v.List == nil && (d.Action != "" || len(d.Numbers) == 0) {
		v.Action = Chosen{ID: d.Action, Index: at}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.fold.Model(d.Model); m != nil {
		if m = s.fold.Current(m); !m.Deleted {
			v.Model = m.Name()
			v.Request = s.requestOf(v.Model, id.Event)
		}
	}
	if p, ok := s.fold.List(id.Event); ok {
		v.Positions = positionViews(p)
	}
	status, y := s.fold.Event(id.Event)
	if v.Status = statusNames[status]; status == fold.Rewarded {
		v.Value = &y
	}
	if n, ok := s.fold.RewardsOf(id.Event); ok {
		if m := s.fold.Model(d.Model); m != nil {
			v.Reward = namedView(m.Compiled.Config.Rewards, n)
		}
	}
	if c, ok := s.fold.Cost(id.Event); ok {
		v.Cost = &c
	}
	return v, nil
}

var statusNames = map[fold.Status]string{fold.Closed: "closed", fold.Open: "open", fold.Inactive: "inactive",
	fold.Rewarded: "rewarded"}

// EventOfKey returns the id of the event that a decision with this idempotency key made, for callers that
// name their events themselves. NotFound when the model has no such key, or when the key is forgotten because
// the window of its event was closed long ago (see DecideRequest.IdempotencyKey).
func (s *reading) EventOfKey(ctx context.Context, model, key string) (eventID string, err error) {
	if err := checkText("idempotency_key", key); err != nil {
		return "", err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	_, v, err := s.model(model)
	if err != nil {
		return "", err
	}
	use, ok := s.keyUse(decide.UseKey(v.Root, key))
	if !ok {
		return "", errorf(NotFound, "no decision with this key is remembered")
	}
	return eventIDOf(s.recent, s.keys, use), nil
}

// eventIDOf returns the id of the decision with an idempotency key, as its caller got it: also where another server has made it.
func eventIDOf(of *recent.Decisions, keys eventlog.IDKeys, use fold.KeyUse) string {
	if c, seq, _ := of.Carried(use.Event); c != nil && seq == use.Seq {
		return c.ID()
	}
	return keys.Format(eventlog.EventID{Event: use.Event, Hint: use.Seq})
}

// Owner implements Service.
func (s *reading) Owner(ctx context.Context, eventID string) (Owner, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Owner{}, err
	}
	defer done()
	_, d, err := s.recent.Find(ctx, eventID)
	if err != nil {
		return Owner{}, err
	}
	var out Owner
	if d.List != nil {
		out.Slots = d.List.Slots
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.fold.Model(d.Model); m != nil {
		out.Model = s.fold.Current(m).Name()
	}
	return out, nil
}

// Replay implements Service.
func (s *reading) Replay(ctx context.Context, eventID string) (Replayed, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Replayed{}, err
	}
	defer done()
	id, d, err := s.recent.Whole(ctx, eventID)
	if err != nil {
		return Replayed{}, err
	}
	if len(placesOf(s.state, id.Event)) > 0 {
		return Replayed{}, errorf(Gone, "the decision was made at another server, which has the state of that time")
	}
	return s.replay(id.Event, id.Hint, d)
}

// replay draws once more from the recorded candidates, in the state of that time, and compares.
func (s *reading) replay(key eventlog.Event, seq uint64, r *eventlog.Decision) (Replayed, error) {
	out := Replayed{Key: key, Seq: seq, Recorded: *r}
	fail := func(code Code, want string, err error) (Replayed, error) {
		return out, &Error{Code: code, Want: want, Err: err}
	}
	set, err := candidates.Parse(r.Full)
	switch {
	case err != nil:
		return fail(Internal, "the candidates cannot be read", err)
	case set.K == 0:
		return fail(Gone, "the candidates were not kept (log_candidates)", nil)
	case int(r.Index) >= set.K:
		return fail(Internal, "the record names a candidate that it does not have", nil)
	}
	// A snapshot before the decision's state has the model's ancestors too.
	past, err := s.past.At([]eventlog.ID{r.Model}, r.BasisSeq)
	var trimmed *fold.TrimmedError
	switch {
	case errors.As(err, &trimmed):
		return fail(Gone, trimmed.Error(), err)
	case err != nil:
		return fail(Unavailable, "the state of that time cannot be computed", err)
	}
	m := past.Model(r.Model)
	if m == nil || !m.HasPolicy() {
		return fail(Internal, "the model had no state then", nil)
	}
	v, err := choose.VersionOf(m, past.Seq())
	if err != nil {
		return fail(Internal, "the state cannot be read", err)
	}
	w, err := v.Worker(nil)
	if err != nil {
		return fail(Internal, "the state cannot be read", err)
	}
	if err := w.Offer.Recorded(&set); err != nil {
		return fail(Internal, "the candidates do not fit the model", err)
	}
	w.Offer.SetCosts(r.Costs)
	if r.List != nil {
		return replayList(out, r, v, w, &set)
	}
	if w.Price(0); r.Price > 0 {
		w.Budget(r.Time)
	}
	w.Assign(r.Unit)
	_, span := w.Assigned()
	w.Reassign(r.Unit, r.Span)
	c, err := w.Choose(r.Draw, len(r.Law) > 0)
	if err != nil {
		return fail(Internal, "the model cannot decide", err)
	}
	if r.Group != eventlog.NoGroup {
		c = w.Group(r.Draw, c)
	}
	compare(&out, r, v, w, c, span)
	return out, nil
}

// compare notes what the policy chooses now, and in what it differs from the record.
func compare(out *Replayed, r *eventlog.Decision, v *choose.Version, w *choose.Worker, c choose.Choice,
	span uint64) {
	out.Digest, out.Index, out.Num, out.Den, out.Member, out.Negative = v.Digest, c.Index, c.Num, c.Den, c.Member,
		c.Negative
	differ := func(name string, same bool) {
		if !same {
			out.Differs = append(out.Differs, name)
		}
	}
	differ("digest", out.Digest == r.BasisDigest)
	differ("member", out.Member == r.Member && out.Negative == r.Negative)
	differ("den", out.Den == r.Den)
	differ("group", c.Group == r.Group)
	differ("span", span == r.Span)
	out.Price, out.Expects, out.Stopped = c.Price, c.Expects, c.Stopped
	differ("price", c.Price == r.Price)
	differ("expects", c.Expects == r.Expects)
	differ("play", c.Stopped == (r.Play == eventlog.PlayStop) &&
		(r.Baseline == 0 || v.Plays == (r.Play != eventlog.PlayBaseline)))
	switch r.Mode {
	case eventlog.Apprentice, eventlog.Shadow: // the policy's choice is known by its id and propensity
		differ("num", out.Num == r.WouldNum)
		out.Action = r.WouldAction
		differ("index", c.Index == int(r.Index) || r.WouldAction != r.Action)
	default:
		differ("num", out.Num == r.Num)
		differ("index", c.Index == int(r.Index))
		if c.Index == int(r.Index) {
			out.Action = r.Action
		}
	}
	if w.Offer.Plays() {
		values := make([]float64, len(r.Numbers))
		for i, n := range r.Numbers {
			values[i] = n.Value
		}
		differ("x", bytes.Equal(w.Offer.Exactly(int(r.Index), values), r.Atoms))
		differ("numbers", c.Index != int(r.Index) || slices.Equal(w.Offer.Values(nil, c.Index, c.Point), values))
	} else {
		x, atoms := w.Offer.Features(int(r.Index))
		differ("x", slices.Equal(x, r.X) && bytes.Equal(atoms, r.Atoms))
	}
	if len(r.Law) > 0 {
		law, groups, voters := w.Law()
		differ("law", slices.Equal(law, r.Law) && slices.Equal(groups, r.Groups) && voters == r.Voters)
	}
	out.Equal = len(out.Differs) == 0
}
