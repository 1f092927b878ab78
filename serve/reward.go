package serve

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"troupe/eventlog"
)

// Reward implements Service.
func (s *Server) Reward(ctx context.Context, r RewardRequest) (RewardResult, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return RewardResult{}, err
	}
	defer done()
	record, result, err := s.prepareReward(ctx, &r)
	if record == nil {
		return result, err
	}
	out, seq, err := s.write(ctx, record)
	if err != nil {
		return RewardResult{}, err
	}
	return RewardResult{statuses[out], seq}, nil
}

// RewardBatch implements Service.
func (s *Server) RewardBatch(ctx context.Context, rs []RewardRequest) ([]RewardItem, error) {
	if len(rs) == 0 || len(rs) > s.opt.Limits.Rewards {
		return nil, invalid("rewards", len(rs), "expected 1 to %d rewards", s.opt.Limits.Rewards)
	}
	done, err := s.beginWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out := make([]RewardItem, len(rs))
	var records []eventlog.Record
	var at []int
	size := 0
	flush := func() {
		if len(records) == 0 {
			return
		}
		receipt, err := s.append(ctx, records...)
		var os []outcome
		if err == nil {
			os, err = s.applied(ctx, receipt, len(records))
		}
		for k, i := range at {
			if out[i].Err = err; err == nil {
				out[i].Result = RewardResult{statuses[os[k]], receipt.Seq}
			}
		}
		records, at, size = nil, nil, 0
	}
	for i := range rs {
		record, result, err := s.prepareReward(ctx, &rs[i])
		if record == nil {
			out[i] = RewardItem{result, err}
			continue
		}
		n := 8*len(record.X) + 1024
		if size+n > eventlog.MaxBatch/2 || len(records) == eventlog.MaxEvents/2 {
			flush()
		}
		records, at, size = append(records, record), append(at, i), size+n
	}
	flush()
	return out, nil
}

// prepareReward checks a reward and returns its record, or the answer to one that need not be
// written: the state knows already that it changes nothing.
func (s *Server) prepareReward(ctx context.Context, r *RewardRequest) (*eventlog.Reward, RewardResult, error) {
	if r.Value-r.Value != 0 {
		return nil, RewardResult{}, invalid("value", r.Value, "expected a finite number")
	}
	if err := checkID("key", r.Key); err != nil {
		return nil, RewardResult{}, err
	}
	if err := checkID("caller", r.Caller); err != nil {
		return nil, RewardResult{}, err
	}
	id, d, err := s.find(ctx, r.EventID)
	if err != nil {
		return nil, RewardResult{}, err
	}
	var key eventlog.ID
	if r.Key != "" {
		sum := sha256.Sum256([]byte(r.Key))
		key = eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1
	}
	s.mu.RLock()
	known := false
	if m := s.fold.models[d.model]; m != nil {
		if c := s.fold.heir(m).cfg.config.Reward; r.Value < c.Min || r.Value > c.Max {
			s.mu.RUnlock()
			return nil, RewardResult{}, invalid("value", r.Value, "expected a number in [%v, %v]", c.Min, c.Max)
		}
		if b, e := s.fold.lookup(id.Event); e != nil {
			first := e.state&(ruleSum|ruleLast) == 0
			known = first && e.state&rewarded != 0 || key != 0 && slices.Contains(b.keys[id.Event.Index], key)
		}
	}
	seq := s.fold.seq
	s.mu.RUnlock()
	if known {
		return nil, RewardResult{Duplicate, seq}, nil
	}
	return &eventlog.Reward{Event: id.Event, Model: d.model, X: d.x, Y: r.Value, Source: r.Caller, Time: s.opt.Now().UnixNano(), Key: key}, RewardResult{}, nil
}

// Activate implements Service.
func (s *Server) Activate(ctx context.Context, eventID, caller string) (ActivateResult, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return ActivateResult{}, err
	}
	defer done()
	id, d, err := s.find(ctx, eventID)
	if err != nil {
		return ActivateResult{}, err
	}
	if !d.deferred {
		return ActivateResult{Duplicate, d.seq}, nil
	}
	out, seq, err := s.write(ctx, &eventlog.Activate{Event: id.Event, Time: s.opt.Now().UnixNano(), Model: d.model})
	if err != nil {
		return ActivateResult{}, err
	}
	return ActivateResult{statuses[out], seq}, nil
}

// Event implements Service.
func (s *Server) Event(ctx context.Context, eventID string) (EventView, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return EventView{}, err
	}
	defer done()
	id, d, err := s.findWhole(ctx, eventID)
	if err != nil {
		return EventView{}, err
	}
	at, err := place(d)
	if err != nil {
		return EventView{}, &Error{Code: Internal, Want: "the decision cannot be read", Err: err}
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
	defer cancel()
	if _, err := s.progress.until(wait, id.Hint); err != nil {
		return EventView{}, &Error{Code: Unavailable, Want: "the decision is not applied yet", RetryAfter: time.Second, Err: err}
	}
	v := EventView{
		EventID: eventID, Key: id.Event, Seq: id.Hint, Incarnation: d.Model, Decision: *d, Action: Chosen{d.Action, at},
		Time: time.Unix(0, d.Time).UTC(), Deadline: time.Unix(0, d.Deadline).UTC(), Status: "closed",
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.fold.models[d.Model]; m != nil {
		if h := s.fold.heir(m); !h.deleted {
			v.Model = h.cfg.config.ID
		}
	}
	if _, e := s.fold.lookup(id.Event); e != nil {
		switch {
		case e.state&rewarded != 0:
			y := e.y
			v.Status, v.Value = "rewarded", &y
		case e.state&inactive != 0:
			v.Status = "inactive"
		default:
			v.Status = "open"
		}
	}
	return v, nil
}

// Owner implements Service.
func (s *Server) Owner(ctx context.Context, eventID string) (Owner, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Owner{}, err
	}
	defer done()
	_, d, err := s.find(ctx, eventID)
	if err != nil {
		return Owner{}, err
	}
	out := Owner{Slot: d.slot}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.fold.models[d.model]; m != nil {
		out.Model = s.fold.heir(m).cfg.config.ID
	}
	return out, nil
}

// Replay implements Service.
func (s *Server) Replay(ctx context.Context, eventID string) (Replayed, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Replayed{}, err
	}
	defer done()
	id, d, err := s.findWhole(ctx, eventID)
	if err != nil {
		return Replayed{}, err
	}
	return s.past.replay(id.Event, id.Hint, d)
}

// replay decides once more.
func (h *history) replay(key eventlog.Event, seq uint64, r *eventlog.Decision) (Replayed, error) {
	out := Replayed{Key: key, Seq: seq, Recorded: *r}
	fail := func(code Code, want string, err error) (Replayed, error) {
		return out, &Error{Code: code, Want: want, Err: err}
	}
	f, err := decodeFull(r.Full)
	switch {
	case err != nil:
		return fail(Internal, "the candidates cannot be read", err)
	case f.k == 0:
		return fail(Gone, "the candidates were not kept (log_candidates)", nil)
	case int(r.Index) >= f.k:
		return fail(Internal, "the record names a candidate that it does not have", nil)
	}
	// A snapshot before the decision's state has the model's ancestors too.
	past, err := h.at([]eventlog.ID{r.Model}, r.BasisSeq)
	var trimmed errTrimmed
	switch {
	case errors.As(err, &trimmed):
		return fail(Gone, trimmed.Error(), err)
	case err != nil:
		return fail(Unavailable, "the state of that time cannot be computed", err)
	}
	m := past.models[r.Model]
	if m == nil || m.policy == nil {
		return fail(Internal, "the model had no state then", nil)
	}
	if _, err := m.snapshot(); err != nil {
		return fail(Internal, "the state cannot be read", err)
	}
	v := &version{id: m.id, cfg: m.cfg, seed: m.seed, seq: past.seq, state: m.state, digest: m.state.sum()}
	w, err := v.prepare(nil)
	if err != nil {
		return fail(Internal, "the state cannot be read", err)
	}
	if f.d != m.cfg.dim {
		return fail(Internal, "the candidates do not fit the model", nil)
	}
	w.x = f.x
	c, err := w.choose(r.Draw)
	if err != nil {
		return fail(Internal, "the model cannot decide", err)
	}
	out.Digest, out.Index, out.Num, out.Den, out.Member, out.Negative = v.digest, c.index, c.num, c.den, c.member, c.negative
	differ := func(name string, same bool) {
		if !same {
			out.Differs = append(out.Differs, name)
		}
	}
	differ("digest", out.Digest == r.BasisDigest)
	differ("member", out.Member == r.Member && out.Negative == r.Negative)
	differ("den", out.Den == r.Den)
	switch r.Mode {
	case eventlog.Apprentice, eventlog.Shadow: // the policy's choice is known by its id and propensity
		differ("num", out.Num == r.WouldNum)
		out.Action = r.WouldAction
		differ("index", c.index == int(r.Index) || r.WouldAction != r.Action)
	default:
		differ("num", out.Num == r.Num)
		differ("index", c.index == int(r.Index))
		if c.index == int(r.Index) {
			out.Action = r.Action
		}
	}
	d := m.cfg.dim
	differ("x", slices.Equal(f.x[int(r.Index)*d:(int(r.Index)+1)*d], r.X))
	out.Equal = len(out.Differs) == 0
	return out, nil
}
