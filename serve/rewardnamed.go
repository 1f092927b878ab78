package serve

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/recent"
)

// keyOf is the hash of a caller's key, 0 for none.
func keyOf(key string) eventlog.ID {
	if key == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(key))
	return eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1
}

// unnamed refuses names for a model with one reward, and one number for a model whose rewards have names.
func (r *RewardRequest) unnamed(of model.Rewards) error {
	switch {
	case r.Rewards != nil && (r.Value != 0 || r.OnlyCost):
		return fault.Invalidf("reward", "", "stands beside value, expected one of them")
	case r.Rewards != nil && len(of) == 0:
		names := slices.Sorted(maps.Keys(r.Rewards))
		return fault.Invalidf("reward", strings.Join(names, ", "), "has names, and the model was made without rewards: "+
			"expected value, a number")
	case r.Rewards == nil && len(of) > 0 && !r.OnlyCost:
		return fault.Refused(of.Unnamed("value", r.Value))
	}
	return nil
}

// named returns the values of a request as the log has them: a mask of places and the values in their order.
func (r *RewardRequest) named(of model.Rewards) (mask uint64, values []float64, err error) {
	if len(r.Rewards) == 0 {
		return 0, nil, fault.Invalidf("reward", "{}", "is empty, expected one at least of %s", of.List())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Rewards)) {
		v, field := r.Rewards[name], "reward."+name
		i := of.Index(name)
		if i < 0 {
			return 0, nil, fault.Invalidf(field, v, "is no reward of the model, which has %s", of.List())
		}
		if err := model.RewardInput.Check(field, v); err != nil {
			return 0, nil, fault.Refused(err)
		}
		mask, values = mask|1<<i, append(values, v+0) // −0 is 0
	}
	return mask, values, nil
}

// prepareNamed checks rewards with names.
func (s *rewards) prepareNamed(r *RewardRequest, id eventlog.EventID, d recent.Known, cfg *model.Compiled, cost float64) (p prepared,
	err error) {
	of := cfg.Config.Rewards
	mask, values, err := r.named(of)
	if err != nil {
		return p, err
	}
	key := keyOf(r.Key)
	s.mu.RLock()
	seq := s.fold.Seq()
	total, known := s.fold.RewardsAfter(id.Event, of, mask, values, key)
	s.mu.RUnlock()
	if known {
		p.result = RewardResult{Status: Duplicate, Seq: seq}
		return p, nil
	}
	if in := cfg.Config.Reward.Rewards(); !in.Has(total) {
		return p, fault.Invalidf("reward", total, "makes %v of the event, the weighted sum of its rewards by the rule %s, expected %v",
			total, cfg.Config.Reward.Rule, in)
	}
	p.records = []eventlog.Record{&eventlog.Reward{Event: id.Event, Model: d.Model, X: d.X, Atoms: d.Atoms, Named: mask, Values: values,
		Source: r.Caller, Time: s.opt.Clock.Now().UnixNano(), Key: key, Cost: cost, Costed: r.Cost != nil}}
	return p, nil
}

// namedView is what an open event has of rewards with names, nil for nothing.
func namedView(of model.Rewards, n fold.NamedRewards) map[string]float64 {
	out := map[string]float64{}
	for i := range min(len(of), len(n.Given)) {
		if n.Given[i] {
			out[of[i].Name] = n.Values[i]
		}
	}
	return out
}
