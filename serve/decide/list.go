package decide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
)

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

// nameEntries fills in the names of the entries of a list, and their places in the request.
func (r *Request) nameEntries(o *choose.Offer, l *eventlog.List) {
	for p, row := range l.Rows {
		at := o.Place(int(row))
		id := o.IDs[at]
		if r.own() {
			at = slices.IndexFunc(r.Slots[p].Actions, func(a choose.Action) bool { return a.ID == id })
		}
		l.IDs, l.Index = append(l.IDs, id), append(l.Index, uint64(at))
	}
}

// baseline returns the candidates that the caller plays, from the top.
func (r *Request) baseline(o *choose.Offer, shape *choose.Shape, list *choose.List) ([]int, error) {
	rows, at := make([]int, shape.K), map[int]int{}
	for p := range rows {
		if rows[p] = -1; p >= len(r.Slots) || r.Slots[p].Baseline == "" {
			continue
		}
		field, id := fmt.Sprintf("slots[%d].baseline", p), r.Slots[p].Baseline
		for i := 0; i < o.Count() && rows[p] < 0; i++ {
			if o.IDs[o.Place(i)] == id && shape.Permits(i, p) {
				rows[p] = i
			}
		}
		if rows[p] < 0 {
			return nil, fault.Refused(model.Invalid(field, id, "%q is no action that may stand in the slot", id))
		}
		if q, twice := at[rows[p]]; twice {
			return nil, fault.Refused(model.Invalid(field, id, "%q is the baseline of slots[%d] too, and no action is played twice", id, q))
		}
		at[rows[p]] = p
	}
	if err := list.Complete(rows); err != nil {
		var none *choose.NoListError
		errors.As(err, &none)
		return nil, fault.Refused(model.Invalid(fmt.Sprintf("slots[%d].baseline", none.Position), "",
			"is missing, and the baselines of the other slots leave no action that may stand here"))
	}
	return rows, nil
}

// noList is the error of a list that could not be drawn.
func (r *Request) noList(m Model, v *choose.Version, err error) error {
	var count *choose.CountError
	var none *choose.NoListError
	var refused *model.Error
	switch {
	case errors.As(err, &count):
		return fault.Refused(model.Invalid(fmt.Sprintf("slots[%d].actions", min(count.Position, len(r.Slots)-1)), "", "%s", count))
	case errors.As(err, &none):
		return fault.Refused(model.Invalid(fmt.Sprintf("slots[%d].actions", none.Position), "", "%s", none))
	case errors.As(err, &refused):
		return fault.Refused(err)
	}
	return m.Broken(v, err)
}

// played returns the list that is played, as the log has it, and its candidates: the one that was drawn, or the caller's baseline;
// would is then the one that was drawn. full keeps the counts of all candidates.
func (r *Request) played(o *choose.Offer, shape *choose.Shape, list *choose.List, mode model.Mode, full bool) (l, would *eventlog.List,
	rows []int, err error) {
	l, rows = list.Record, list.Rows
	if mode == model.Apprentice || mode == model.Shadow {
		if rows, err = r.baseline(o, shape, list); err != nil {
			return nil, nil, nil, err
		}
		would, l = l, list.Counts(rows, full)
		would.Votes, would.All, would.Allowed = nil, nil, nil
		r.nameEntries(o, would)
	}
	if !full {
		l.Votes, l.All, l.Allowed = nil, nil, nil
	}
	r.nameEntries(o, l)
	for p := range r.Slots {
		l.Slots = append(l.Slots, r.Slots[p].name(p))
	}
	return l, would, rows, nil
}

// chooseList makes the decision of a list and its record, on the worker's version; nothing is written.
func (d *Decider) chooseList(ctx context.Context, m Model, w *choose.Worker, r *Request) (c Chosen, err error) {
	v, o := w.Version, &w.Offer
	config := &v.Compiled.Config
	mode := r.mode(config)
	if mode == model.Guarded {
		return c, fault.Refused(model.Invalid("mode", mode, "does not go with a list yet: play lists online, frozen, apprentice or shadow"))
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
	list, err := w.ChooseList(nonce, shape, full || r.Explain, late)
	if err == nil && list == nil {
		return c, fault.TooLate(ctx.Err())
	}
	if err != nil {
		return c, r.noList(m, v, err)
	}
	if r.Explain { // before the counts of the candidates may go
		c.Decision.Explain = w.ExplainList(list)
	}
	l, would, rows, err := r.played(o, shape, list, mode, full)
	if err != nil {
		return c, err
	}
	l.Whole = config.List.Whole()
	first := list.Marginals[0]
	record := &eventlog.Decision{
		Model: v.ID, BasisSeq: v.Seq, BasisDigest: v.Digest, Member: list.Member, Num: first.Num, Den: first.Den,
		Mode: model.Modes[mode], Deferred: r.Deferred, Caller: r.Caller, Time: now.UnixNano(),
		Deadline: opens + int64(config.Reward.Window), Action: l.IDs[0], Index: uint32(rows[0]), Offered: uint32(o.Count()),
		Costs: slices.Clone(o.Costs()), Groups: list.Groups, Config: v.Number, Draw: nonce, List: l,
		Floor: uint32(v.Compiled.FloorNum * (eventlog.FloorUnit / v.Compiled.FloorDen)),
	}
	if would != nil {
		record.WouldList, record.WouldAction, record.WouldNum, record.Num = would, would.IDs[0], first.Num, first.Den
	}
	record.Atoms = o.ListFeatures(rows)
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
	c.Decision = Decision{List: Entries(record), Mode: mode, BasisSeq: v.Seq, Durable: true, Explain: c.Decision.Explain}
	if would != nil {
		c.Decision.Would = wouldOf(record)
	}
	m.Observe(w, record)
	c.Decision.Warnings = m.Warnings(record.Notes, v)
	if r.Explain {
		c.Decision.Approximate = list.Draw.Approximate
		for p := range c.Decision.List {
			e := &c.Decision.List[p]
			prefix, _ := record.PrefixProb(p + 1).Float64()
			e.Prefix, e.Examination = &prefix, &list.Draw.Scale[p]
		}
	}
	return c, nil
}
