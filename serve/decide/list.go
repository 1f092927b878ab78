package decide

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Slot is a position of a list. All slots of a request have candidates of their own, or none has: then all choose from
// those of the request.
type Slot struct {
	// ID names the position, at most 256 bytes, each once; empty means its place in decimal digits.
	ID string `json:"id,omitempty" doc:"name of the position; without it its place in decimal digits"`
	// Actions are the slot's own candidates. An id that stands in two slots is played at most once.
	Actions []choose.Action `json:"actions,omitempty" doc:"the slot's own candidates: all slots have some, or none has"`
	// Exclude lists ids that may not stand here.
	Exclude []string `json:"exclude,omitempty" doc:"ids that may not stand here"`
	// Features are refused: what positions differ in is learned of each.
	Features json.RawMessage `json:"features,omitempty" doc:"not read yet, and refused: what positions differ in is learned of each"`
}

// ListEntry is one entry of the list that a decision played.
type ListEntry struct {
	Position   int             `json:"position" doc:"from 0, in the order of the slots"`
	Slot       string          `json:"slot,omitempty" doc:"name of the position, where the request has slots"`
	ID         string          `json:"id" doc:"name of the action"`
	Index      int             `json:"index" doc:"its place among the actions of the request, or of its slot where that has its own"`
	Propensity choose.Fraction `json:"propensity" doc:"probability of this action at this position"`
	// Prefix and Examination are there where an explanation was asked for.
	Prefix      *float64 `json:"prefix,omitempty" doc:"with explain: probability of the entries from the top to this one"`
	Examination *float64 `json:"examination,omitempty" doc:"with explain: learned scale of the position, 1 at the first"`
}

// IsList reports whether a request asks for a list.
func (r *Request) IsList() bool { return r.Choose != nil || r.Slots != nil }

// positions is k, 1 for a request that asks for no list.
func (r *Request) positions() int {
	switch {
	case r.Slots != nil:
		return max(1, len(r.Slots))
	case r.Choose != nil:
		return max(1, *r.Choose)
	}
	return 1
}

// own reports whether the slots have candidates of their own.
func (r *Request) own() bool { return len(r.Slots) > 0 && r.Slots[0].Actions != nil }

// ownActions are the candidates of all slots, each id once, in the order of the slots.
func (r *Request) ownActions() []choose.Action {
	if r.union != nil {
		return r.union
	}
	seen := map[string]int{}
	for s := range r.Slots {
		for i, a := range r.Slots[s].Actions {
			if a.ID == "" {
				a.ID = fmt.Sprintf("%d/%d", s, i) // refused by checkList
			}
			if _, ok := seen[a.ID]; !ok {
				seen[a.ID] = len(r.union)
				r.union = append(r.union, a)
			}
		}
	}
	return r.union
}

// checkList refuses what can be refused of a list before a worker is taken.
func (r *Request) checkList(l *feature.Limits) error {
	if !r.IsList() {
		return nil
	}
	most := func(field string, k int) error {
		if k > eventlog.MaxPositions {
			return &fault.Error{Code: fault.TooLarge, Field: field, Value: strconv.Itoa(k),
				Want: fmt.Sprintf("has %d positions, at most %d are allowed", k, eventlog.MaxPositions)}
		}
		return nil
	}
	refuse := func(field string, value any, format string, a ...any) error {
		return fault.Refused(model.Invalid(field, value, format, a...))
	}
	switch {
	case r.Choose != nil && r.Slots != nil:
		return refuse("choose", *r.Choose, "does not go with slots: choose is short for slots without names")
	case r.Choose != nil && *r.Choose < 1:
		return refuse("choose", *r.Choose, "expected the number of positions, 1 to %d", eventlog.MaxPositions)
	case r.Slots != nil && len(r.Slots) == 0:
		return refuse("slots", 0, "expected 1 to %d slots", eventlog.MaxPositions)
	case len(r.Numbers) > 0:
		return refuse("numbers", len(r.Numbers), "do not go with a list, which has no numbers; make one decision for each")
	case len(r.Packed) > 0:
		return refuse("packed", "", "does not go with a list: send actions")
	case r.Baseline != nil:
		return refuse("baseline", *r.Baseline, "does not go with a list yet: lists are played online or frozen")
	}
	if r.Choose != nil {
		return most("choose", *r.Choose)
	}
	if err := most("slots", len(r.Slots)); err != nil {
		return err
	}
	own, seen, count := r.own(), map[string]int{}, 0
	features := map[string]string{}
	for s := range r.Slots {
		x := &r.Slots[s]
		field := fmt.Sprintf("slots[%d]", s)
		if err := model.CheckText(field+".id", x.ID); err != nil {
			return fault.Refused(err)
		}
		name := x.name(s)
		if at, twice := seen[name]; twice {
			return refuse(field+".id", name, "is the id of slots[%d] too", at)
		}
		seen[name] = s
		switch {
		case len(x.Features) > 0:
			return refuse(field+".features", "", "are not read yet: what positions differ in is learned of each, so leave them out, or put "+
				"what all positions share into the context")
		case own != (x.Actions != nil):
			return refuse(field+".actions", "", "all slots have candidates of their own, or none has")
		case own && len(x.Actions) == 0:
			return refuse(field+".actions", 0, "expected at least one action")
		}
		inSlot := map[string]bool{}
		for i, a := range x.Actions {
			at := fmt.Sprintf("%s.actions[%d]", field, i)
			if err := model.CheckText(at+".id", a.ID); err != nil {
				return fault.Refused(err)
			}
			text := string(a.Features)
			had, known := features[a.ID]
			switch {
			case a.ID == "":
				return refuse(at+".id", "", "is missing: actions of slots need an id, which is played at most once")
			case inSlot[a.ID]:
				return refuse(at+".id", a.ID, "is the id of two actions of the slot")
			case known && had != text:
				return refuse(at+".features", a.ID, "differ from those of the same action in another slot")
			}
			inSlot[a.ID], features[a.ID] = true, text
		}
		count += len(x.Actions)
	}
	switch {
	case own && len(r.Actions) > 0:
		return refuse("actions", len(r.Actions), "do not go with slots that have actions of their own")
	case own && (len(r.Available) > 0 || len(r.Costs) > 0):
		return refuse("available", "", "and costs do not go with slots that have actions of their own: use exclude, and the cost of the action")
	case count > l.Actions:
		return refuse("slots", count, "have more than %d actions in all", l.Actions)
	}
	return nil
}

func (s *Slot) name(at int) string {
	if s.ID == "" {
		return strconv.Itoa(at)
	}
	return s.ID
}

// appendList appends what tells lists apart to the hash of a request.
func (r *Request) appendList(b []byte) []byte {
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	if r.Choose != nil {
		b = binary.AppendVarint(append(b, 20), int64(*r.Choose))
	}
	for i := range r.Slots {
		s := &r.Slots[i]
		b = append(b, 21)
		text(s.ID)
		for _, a := range s.Actions {
			b = append(b, 22)
			text(a.ID)
			text(string(a.Features))
			if a.Cost != nil {
				b = append(b, fmt.Sprint(*a.Cost)...)
			}
		}
		for _, id := range s.Exclude {
			b = append(b, 23)
			text(id)
		}
	}
	return b
}

// shape is which lists a request permits among the candidates of an offer.
func (r *Request) shape(o *choose.Offer) (*choose.Shape, error) {
	n, k := o.Count(), r.positions()
	s := &choose.Shape{K: k}
	field := "choose"
	if r.Slots != nil {
		field = "slots"
	}
	switch {
	case k > n && !r.own():
		return nil, fault.Refused(model.Invalid(field, k, "%d of %d actions", k, n))
	case n*k > choose.MaxLaw:
		return nil, &fault.Error{Code: fault.TooLarge, Field: field, Value: strconv.Itoa(n * k),
			Want: fmt.Sprintf("%d actions at %d positions, at most %d of both together are allowed", n, k, choose.MaxLaw)}
	}
	restricted := r.own() || slices.ContainsFunc(r.Slots, func(s Slot) bool { return len(s.Exclude) > 0 })
	if !restricted {
		return s, nil
	}
	s.Restrict(n)
	for l := range r.Slots {
		x := &r.Slots[l]
		here := map[string]bool{}
		for _, a := range x.Actions {
			here[a.ID] = true
		}
		for _, id := range x.Exclude {
			if r.own() && !here[id] || !r.own() && !slices.Contains(o.IDs, id) {
				return nil, fault.Refused(model.Invalid(fmt.Sprintf("slots[%d].exclude", l), id, "expected the id of an action of the slot"))
			}
			here[id] = false
		}
		for i := range n {
			id := o.IDs[o.Place(i)]
			yes, named := here[id]
			s.Permit(i, l, yes || !named && !r.own())
		}
	}
	return s, nil
}

// chooseList makes the decision of a list and its record, on the worker's version; nothing is written.
func (d *Decider) chooseList(ctx context.Context, m Model, w *choose.Worker, r *Request) (c Chosen, err error) {
	v, o := w.Version, &w.Offer
	config := &v.Compiled.Config
	mode := r.mode(config)
	switch mode {
	case model.Apprentice, model.Shadow, model.Guarded:
		return c, fault.Refused(model.Invalid("mode", mode, "does not go with a list yet: lists are played online or frozen"))
	}
	if err := v.Compiled.CheckLists(); err != nil {
		return c, fault.Refused(err)
	}
	if len(v.Floors) > 0 {
		return c, fault.Refused(model.Invalid("entered", "", "an action that has entered has a floor, which does not go with lists"))
	}
	shape, err := r.shape(o)
	if err != nil {
		return c, err
	}
	nonce, now := d.opt.Random(), d.opt.Now()
	opens := max(now.UnixNano(), d.opt.Clock())
	w.Assign(r.unit.hash)
	late := func() bool { return ctx.Err() != nil }
	full := config.LogCandidates == "full"
	list, err := w.ChooseList(nonce, shape, full, late)
	if err == nil && list == nil {
		return c, fault.TooLate(ctx.Err())
	}
	var count *choose.CountError
	var none *choose.NoListError
	var refused *model.Error
	switch {
	case errors.As(err, &count):
		return c, fault.Refused(model.Invalid(fmt.Sprintf("slots[%d].actions", min(count.Position, len(r.Slots)-1)), "", "%s", count))
	case errors.As(err, &none):
		return c, fault.Refused(model.Invalid(fmt.Sprintf("slots[%d].actions", none.Position), "", "%s", none))
	case errors.As(err, &refused):
		return c, fault.Refused(err)
	case err != nil:
		return c, m.Broken(v, err)
	}
	l := list.Record
	l.Whole = config.List.Whole()
	for p, i := range list.Rows {
		at := o.Place(i)
		l.IDs = append(l.IDs, o.IDs[at])
		if r.own() {
			at = slices.IndexFunc(r.Slots[p].Actions, func(a choose.Action) bool { return a.ID == o.IDs[o.Place(i)] })
		}
		l.Index = append(l.Index, uint64(at))
		if r.Slots != nil {
			l.Slots = append(l.Slots, r.Slots[p].name(p))
		}
	}
	first := list.Marginals[0]
	record := &eventlog.Decision{
		Model: v.ID, BasisSeq: v.Seq, BasisDigest: v.Digest, Member: list.Member, Num: first.Num, Den: first.Den,
		Mode: model.Modes[mode], Deferred: r.Deferred, Caller: r.Caller, Time: now.UnixNano(), Slot: r.Slot,
		Deadline: opens + int64(config.Reward.Window), Action: l.IDs[0], Index: uint32(list.Rows[0]), Offered: uint32(o.Count()),
		Costs: slices.Clone(o.Costs()), Groups: list.Groups, Config: v.Number, Draw: nonce, List: l,
		Floor: uint32(v.Compiled.FloorNum * (eventlog.FloorUnit / v.Compiled.FloorDen)),
	}
	record.Atoms = o.ListFeatures(list.Rows)
	if context := r.context(); len(context) > 0 {
		record.Context = fold.Digest(context)
	}
	record.Unit, record.Span = w.Assigned()
	record.Full = o.AppendCandidates(nil, true)
	record.Candidates = fold.Digest(record.Full)
	if !full {
		record.Full = o.AppendCandidates(record.Full[:0], false)
	}
	if err := tooLong(len(record.Full) + len(record.Atoms) + max(0, 4*len(l.Votes)+10*len(l.All)-roomForLaw) + 8*len(record.Costs)); err != nil {
		return c, err
	}
	if len(record.Atoms) > eventlog.MaxData {
		return c, &fault.Error{Code: fault.TooLarge, Field: "actions", Value: fmt.Sprintf("%d bytes", len(record.Atoms)),
			Want: fmt.Sprintf("the features of the list take %d bytes, of which a record holds %d", len(record.Atoms), eventlog.MaxData)}
	}
	c.Record = record
	c.Decision = Decision{List: listEntries(record), Mode: mode, BasisSeq: v.Seq, Durable: true}
	m.Observe(w, record)
	c.Decision.Warnings = m.Warnings(record.Notes, v)
	if r.Explain {
		c.Decision.Explain = w.ExplainList(list)
		for p := range c.Decision.List {
			e := &c.Decision.List[p]
			prefix, _ := record.PrefixProb(p + 1).Float64()
			e.Prefix, e.Examination = &prefix, &list.Draw.Scale[p]
		}
	}
	return c, nil
}

// listEntries is the answer of a record of a list.
func listEntries(r *eventlog.Decision) (out []ListEntry) {
	l := r.List
	for p, id := range l.IDs {
		e := ListEntry{Position: p, ID: id, Index: int(l.Index[p]), Propensity: choose.MarginalOf(l, p, uint64(r.Floor), eventlog.FloorUnit)}
		if len(l.Slots) > 0 {
			e.Slot = l.Slots[p]
		}
		out = append(out, e)
	}
	return out
}

// listWork is the estimated work of a list: k decisions.
func (r *Request) listWork(one time.Duration) time.Duration {
	return time.Duration(r.positions()) * one
}
