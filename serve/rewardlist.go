package serve

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/serve/recent"
)

// shown is what a record has of r.Shown.
func (r *RewardRequest) shown() uint32 {
	if r.Shown == nil {
		return 0
	}
	return uint32(*r.Shown) + 1
}

// places returns the positions that a reward names, nil for one of the whole event; it refuses what does not fit the event.
func (r *RewardRequest) places(l *recent.KnownList) ([]int, error) {
	refuse := func(field string, value any, format string, a ...any) ([]int, error) {
		return nil, fault.Invalidf(field, value, format, a...)
	}
	named := 0
	for _, yes := range []bool{r.Position != nil, r.Slot != "", r.Action != "", r.Values != nil} {
		if yes {
			named++
		}
	}
	field := "value"
	switch {
	case r.Position != nil:
		field = "position"
	case r.Slot != "":
		field = "slot"
	case r.Action != "":
		field = "action"
	case r.Values != nil:
		field = "values"
	case r.Shown != nil:
		field = "shown"
	}
	switch {
	case l == nil && (named > 0 || r.Shown != nil):
		return refuse(field, "", "names a position, and the event is one action and no list")
	case l == nil:
		return nil, nil
	case r.Rewards != nil:
		return refuse("reward", "", "has names, and the event is a list, whose positions have one number each")
	case r.Shown != nil && (*r.Shown < 0 || *r.Shown > len(l.IDs)):
		return refuse("shown", *r.Shown, "expected 0 to %d, the positions of the list", len(l.IDs))
	case l.Whole && named > 0:
		return refuse(field, "", "names a position, and the model has one reward for the list (list.reward): send value alone")
	case r.OnlyCost && named == 0 && r.Shown != nil:
		return []int{}, nil
	case l.Whole, r.OnlyCost && named == 0:
		return nil, nil
	case named == 0:
		return refuse("value", r.Value, "is for no position: name one by position, slot or action, or send values; a model with "+
			"list.reward = \"list\" takes one reward for the list")
	case named > 1:
		return refuse(field, "", "stands beside another name of a position: expected one of position, slot, action and values")
	case r.OnlyCost:
		return refuse(field, "", "names a position, and a cost is that of the list: send it alone or with a reward")
	}
	at := 0
	switch {
	case r.Values != nil:
		if n := len(r.Values); n != len(l.IDs) {
			return refuse("values", n, "expected %d numbers, one for each position", len(l.IDs))
		}
		out := make([]int, len(l.IDs))
		for i := range out {
			out[i] = i
		}
		return out, nil
	case r.Position != nil:
		if at = *r.Position; at < 0 || at >= len(l.IDs) {
			return refuse("position", at, "expected 0 to %d", len(l.IDs)-1)
		}
	case r.Slot != "":
		if at = slices.Index(l.Slots, r.Slot); at < 0 {
			return refuse("slot", r.Slot, "is no slot of the list")
		}
	default:
		if at = slices.Index(l.IDs, r.Action); at < 0 {
			return refuse("action", r.Action, "is not in the list that was played")
		}
	}
	return []int{at}, nil
}

// prepareList checks the rewards of positions: a record for each, in one entry; the last one has what the list showed, from
// which the model learns.
func (s *rewards) prepareList(r *RewardRequest, id eventlog.EventID, d recent.Known, cfg *model.Compiled, at []int,
	cost float64) (p prepared, err error) {
	s.mu.RLock()
	seq := s.fold.Seq()
	have, open := s.fold.List(id.Event)
	known := make([]bool, len(at))
	totals := make([]float64, len(at))
	keys := make([]eventlog.ID, len(at))
	settles := cfg != nil && cfg.Config.Reward.Rule.Settles()
	for i, position := range at {
		if r.Key != "" {
			sum := sha256.Sum256(fmt.Appendf([]byte(r.Key), "\x00%d", position))
			keys[i] = eventlog.ID(binary.LittleEndian.Uint64(sum[:])) | 1
		}
		y := r.value(i)
		if totals[i] = y; open && position < len(have.Given) && cfg != nil {
			known[i] = settles && have.Given[position] || keys[i] != 0 && s.fold.KnownKey(id.Event, keys[i])
			if !settles && have.Given[position] {
				totals[i] = cfg.Config.Reward.Rule.Fold(have.Y[position], y, false)
			}
		}
	}
	s.mu.RUnlock()
	shown := len(d.List.IDs)
	if open {
		shown = have.Shown
	}
	if r.Shown != nil {
		shown = min(shown, *r.Shown)
	}
	now := s.opt.Clock.Now().UnixNano()
	for i, position := range at {
		y, field := r.value(i), "value"
		if r.Values != nil {
			field = fmt.Sprintf("values[%d]", i)
			p.known = append(p.known, PositionResult{position, Duplicate})
		}
		if err := model.RewardInput.Check(field, y); err != nil {
			return prepared{}, fault.Refused(err)
		}
		if cfg != nil {
			of := cfg.Config.Reward.Rewards()
			if err := of.Check(field, y); err != nil {
				return prepared{}, fault.Refused(err)
			}
			if of := cfg.Totals(); !known[i] && !of.Has(totals[i]) {
				return prepared{}, fault.Invalidf(field, y, "makes %v of the rewards of this position by the rule %s, expected %v",
					totals[i], cfg.Config.Reward.Rule, of)
			}
		}
		switch {
		case position >= shown && (r.Values == nil || y != 0):
			return prepared{}, fault.Invalidf(field, y, "is for position %d, and %d positions were shown", position, shown)
		case position >= shown:
			p.known[i].Status = Ignored
			continue
		case known[i]:
			continue
		}
		p.records = append(p.records, &eventlog.Reward{Event: id.Event, Model: d.Model, Positions: []uint64{uint64(position)},
			Ys: []float64{y}, Source: r.Caller, Time: now, Key: keys[i]})
		p.of = append(p.of, i)
	}
	if r.Values == nil {
		p.of = nil
	}
	if len(p.records) == 0 && (r.Shown == nil || open && shown == have.Shown) && r.Cost == nil {
		p.result = RewardResult{Status: Duplicate, Seq: seq, Positions: p.known}
		return p, nil
	}
	if len(p.records) == 0 { // what was shown alone, or a cost
		p.records = append(p.records, &eventlog.Reward{Event: id.Event, Model: d.Model, Source: r.Caller, Time: now, OnlyCost: true})
	}
	first, last := p.records[0].(*eventlog.Reward), p.records[len(p.records)-1].(*eventlog.Reward)
	first.Cost, first.Costed, first.Shown = cost, r.Cost != nil, r.shown()
	last.Atoms = d.Atoms
	return p, nil
}

// value is the reward of the i-th position that the request names.
func (r *RewardRequest) value(i int) float64 {
	if r.Values != nil {
		return r.Values[i]
	}
	return r.Value
}

// positionViews are the positions of a list whose window is open; those of a list with one reward have no values.
func positionViews(p fold.Positions) (out []PositionView) {
	for i := range p.K {
		x := PositionView{Position: i, Shown: i < p.Shown}
		if i < len(p.Given) && p.Given[i] {
			x.Value = &p.Y[i]
		}
		out = append(out, x)
	}
	return out
}
