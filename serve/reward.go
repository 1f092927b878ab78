package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/recent"
)

// rewards takes rewards and activations.
type rewards struct {
	*state
	*writer
	recent *recent.Decisions
}

// Reward implements Service.
func (s *rewards) Reward(ctx context.Context, r RewardRequest) (RewardResult, error) {
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
		return RewardResult{}, adviseReward(err, r.Key)
	}
	return RewardResult{statuses[out], seq}, nil
}

// RewardBatch implements Service.
func (s *rewards) RewardBatch(ctx context.Context, rs []RewardRequest) ([]RewardItem, error) {
	if len(rs) == 0 || len(rs) > s.opt.Limits.Rewards {
		return nil, fault.Invalidf("rewards", len(rs), "expected 1 to %d rewards", s.opt.Limits.Rewards)
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
		var os []fold.Outcome
		if err == nil {
			os, err = s.applied(ctx, receipt, len(records))
		}
		for k, i := range at {
			if out[i].Err = adviseReward(err, rs[i].Key); err == nil {
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
		n := 8*len(record.X) + len(record.Atoms) + 1024
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
func (s *rewards) prepareReward(ctx context.Context, r *RewardRequest) (*eventlog.Reward, RewardResult, error) {
	if r.OnlyCost {
		r.Value = 0
	}
	cost, err := r.cost()
	if err != nil {
		return nil, RewardResult{}, err
	}
	if err := model.RewardInput.Check("value", r.Value); err != nil {
		return nil, RewardResult{}, fault.Refused(err)
	}
	if err := cmp.Or(model.CheckText("key", r.Key), model.CheckText("caller", r.Caller)); err != nil {
		return nil, RewardResult{}, fault.Refused(err)
	}
	id, d, err := s.recent.Find(ctx, r.EventID)
	if err != nil {
		return nil, RewardResult{}, err
	}
	var key eventlog.ID
	if r.Key != "" {
		sum := sha256.Sum256([]byte(r.Key))
		key = eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1
	}
	s.mu.RLock()
	seq, known := s.fold.Seq(), false
	total, several := r.Value, false
	var cfg *model.Compiled
	if m := s.fold.Model(d.Model); m != nil {
		cfg, known = s.fold.Current(m).Compiled, s.fold.Known(id.Event, key)
		total, several = s.fold.Total(id.Event, r.Value)
		if r.OnlyCost {
			known = s.fold.KnownCost(id.Event, key)
		}
	}
	s.mu.RUnlock()
	if r.Allow != nil {
		name := ""
		if cfg != nil {
			name = cfg.Config.ID
		}
		if err := r.Allow(name); err != nil {
			return nil, RewardResult{}, err
		}
	}
	if cfg != nil && !r.OnlyCost {
		of := cfg.Config.Reward.Rewards()
		if err := of.Check("value", r.Value); err != nil {
			return nil, RewardResult{}, fault.Refused(err)
		}
		if of := cfg.Totals(); several && !known && !of.Has(total) {
			return nil, RewardResult{}, fault.Invalidf("value", r.Value,
				"makes %v of the rewards of this event by the rule %s, expected %v", total, cfg.Config.Reward.Rule, of)
		}
	}
	if known {
		return nil, RewardResult{Duplicate, seq}, nil
	}
	return &eventlog.Reward{Event: id.Event, Model: d.Model, X: d.X, Atoms: d.Atoms, Y: r.Value, Source: r.Caller,
		Time: s.opt.Clock.Now().UnixNano(), Key: key, Cost: cost, Costed: r.Cost != nil, OnlyCost: r.OnlyCost}, RewardResult{}, nil
}

// cost returns the cost in a reward, 0 where there is none.
func (r *RewardRequest) cost() (float64, error) {
	switch {
	case r.Cost == nil && r.OnlyCost:
		return 0, fault.Invalidf("cost", "", "is missing, expected a number")
	case r.Cost == nil:
		return 0, nil
	}
	if !model.CostInput.Has(*r.Cost) {
		return 0, fault.Invalidf("cost", *r.Cost, "is %v, expected %v", *r.Cost, model.CostInput)
	}
	return *r.Cost + 0, nil // −0 is 0
}

// Activate implements Service.
func (s *rewards) Activate(ctx context.Context, eventID, caller string) (ActivateResult, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return ActivateResult{}, err
	}
	defer done()
	id, d, err := s.recent.Find(ctx, eventID)
	if err != nil {
		return ActivateResult{}, err
	}
	if !d.Deferred {
		return ActivateResult{Duplicate, d.Seq}, nil
	}
	out, seq, err := s.write(ctx, &eventlog.Activate{Event: id.Event, Time: s.opt.Clock.Now().UnixNano(), Model: d.Model})
	if err != nil {
		return ActivateResult{}, fault.Advise(err, againReward)
	}
	return ActivateResult{statuses[out], seq}, nil
}

var statuses = map[fold.Outcome]RewardStatus{fold.Accepted: Accepted, fold.Duplicate: Duplicate, fold.Late: Late,
	fold.Ignored: Ignored}
