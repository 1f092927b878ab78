// Package decide makes decisions. A decision takes this way:
//
//  1. Versions.Ready: the model's newest version, after MinSeq
//  2. check: what can be refused without a worker
//  3. reserve: the idempotency key, or the decision that was made with it
//  4. Choose: a worker encodes the candidates, draws, and record writes down what it did
//  5. write: the record is durable
//  6. answer: the event id
//
// The server gives it the models ([Versions]), the log ([Log]) and what remembers the newest decisions ([Recent]).
// Reading a version changes nothing.
package decide

import (
	"context"
	"errors"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/model"
)

// Decide chooses an action, and returns when the decision is durable.
func (d *Decider) Decide(ctx context.Context, name string, r *Request) (Decision, error) {
	m, v, err := d.versions.Ready(ctx, name, r.MinSeq)
	if err != nil {
		return Decision{}, err
	}
	if err := r.assign(v, d.opt.Limits.Bytes, d.opt.Keys); err != nil {
		return Decision{}, err
	}
	if err := r.check(&d.opt.Limits); err != nil {
		return Decision{}, err
	}
	if r.NoNumbers && len(v.Compiled.Config.Numbers) > 0 {
		return Decision{}, fault.Refused(model.Invalid("actions", "", "belong to a model that plays numbers, for which this call has no place; "+
			"ask with :decide, or make a model without numbers"))
	}
	if of := v.Compiled.Config.Rewards; r.OneReward && len(of) > 0 {
		return Decision{}, fault.Refused(model.Invalid("actions", "", "belong to a model with the rewards %s, for which this service has no "+
			"place: ask with :decide, or make a model without rewards", of.List()))
	}
	if r.declares(v) {
		if err := d.declare(ctx, name, v, r); err != nil {
			return Decision{}, err
		}
		if m, v, err = d.versions.Ready(ctx, name, r.MinSeq); err != nil {
			return Decision{}, err
		}
	}
	if err := checkWork(d.opt.Work, v, r); err != nil {
		return Decision{}, err
	}
	use, old, err := d.keys.reserve(ctx, v, r)
	if err != nil {
		return Decision{}, err
	}
	if old != nil {
		return *old, nil
	}
	c, err := d.Choose(ctx, m, v, r)
	if err != nil {
		d.keys.pending.release(use)
		return Decision{}, err
	}
	receipt, err := d.write(ctx, use, &c)
	if err != nil {
		return Decision{}, adviseKey(err, r.IdempotencyKey)
	}
	d.answer(&c, receipt, 0)
	d.recent.Put(m, name, r, c.Record, receipt.Event, receipt.Seq)
	if err := d.keys.first(use, &c.Decision, receipt.Event); err != nil {
		return Decision{}, err
	}
	if use == nil {
		recycle(c.Record)
	}
	return c.Decision, nil
}

// Choose makes a decision and its record, on v or on a newer version; nothing is written.
func (d *Decider) Choose(ctx context.Context, m Model, v *choose.Version, r *Request) (c Chosen, err error) {
	q := r.candidates()
	leave, err := d.opt.Turns.Enter(ctx, v.ID, r.listWork(q.Work(v.Compiled, r.Explain)))
	if err == nil {
		defer leave()
		err = ctx.Err()
	}
	if err != nil { // a batch does not go on to choose what it cannot record
		return c, fault.TooLate(err)
	}
	w, err := m.Worker(v)
	if err != nil {
		return c, err
	}
	defer m.Done(w)
	if err := r.sameUnit(w.Version); err != nil {
		return c, err
	}
	q.Late = ctx.Err
	if err := w.Offer.Read(&q, d.opt.Limits.Actions); err != nil {
		if late := ctx.Err(); late != nil {
			return c, fault.TooLate(late)
		}
		return c, fault.Refused(err)
	}
	if err := fits(&w.Offer, &w.Version.Compiled.Config); err != nil {
		return c, err
	}
	w.Until(ctx.Err)
	defer w.Until(nil)
	if r.IsList() && w.Offer.Plays() {
		return c, fault.Refused(model.Invalid("choose", r.positions(), "does not go with a model that plays numbers: a list has no numbers, so "+
			"make another model for lists"))
	}
	if r.IsList() {
		return d.chooseList(ctx, m, w, r)
	}
	nonce, now := d.opt.Random(), d.opt.Now()
	w.Budget(now.UnixNano())
	w.Assign(r.unit.hash)
	draw, err := w.Choose(nonce, w.Offer.Count() <= choose.MaxLaw)
	if late := ctx.Err(); err != nil && late != nil && errors.Is(err, late) {
		return c, fault.TooLate(late)
	}
	var empty *choose.EmptyError
	if errors.As(err, &empty) {
		return c, &fault.Error{Code: fault.Conflict, Field: "budget", Want: empty.Error()}
	}
	if err != nil {
		return c, m.Broken(w.Version, err)
	}
	if mode := r.mode(&w.Version.Compiled.Config); mode == model.Online || mode == model.Frozen {
		draw = w.Group(nonce, draw)
	}
	if c.Decision, c.Record, err = record(w, r, draw, now, max(now.UnixNano(), d.opt.Clock())); err != nil {
		return Chosen{}, err
	}
	c.Record.Draw = nonce
	m.Observe(w, c.Record)
	c.Decision.Warnings = m.Warnings(c.Record.Notes, w.Version)
	if r.Explain {
		c.Decision.Explain = w.Explain()
	}
	return c, nil
}

// write makes a decision durable.
func (d *Decider) write(ctx context.Context, use *reservation, c *Chosen) (eventlog.Receipt, error) {
	var held []*reservation
	if use != nil {
		held = []*reservation{use}
		use.mark(c.Record)
	}
	return d.keys.write(ctx, held, c.Record)
}
