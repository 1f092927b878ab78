package decide

import (
	"bytes"
	"context"
	"slices"

	"troupe/eventlog"
	"troupe/serve/choose"
)

// batch is what is decided and not written yet of several requests, and where it goes.
type batch struct {
	d     *Decider
	ctx   context.Context
	name  string
	rs    []Request
	out   []Item
	held  []*reservation // of rs, nil for one without a key, and when it is released or on its way
	model Model
	on    *choose.Version // that decides all, nil when there is none; its state is held
	ready []Chosen
	at    []int // their places in out
	size  int
}

// Batch decides several requests on one version, which has the largest MinSeq of all, and returns when all are durable.
// A request whose MinSeq cannot be had gets an error, and the others are decided without it.
// More work than Options.Work is TooLarge for all.
func (d *Decider) Batch(ctx context.Context, name string, rs []Request) ([]Item, error) {
	out := make([]Item, len(rs))
	b := &batch{d: d, ctx: ctx, name: name, rs: rs, out: out}
	b.settle()
	b.declare()
	if b.on == nil {
		return out, nil
	}
	defer b.on.State.Release()
	if err := checkWorkOf(d.opt.Work, b.on, rs); err != nil {
		return nil, err
	}
	var same map[int]int
	b.held, same = d.reserveAll(ctx, b.on, rs, out)
	defer func() { // those that were not sent
		for _, use := range b.held {
			d.keys.pending.release(use)
		}
	}()
	b.decide()
	b.write()
	for i, first := range same {
		if out[i] = out[first]; out[i].Err == nil {
			out[i].Decision.Repeated, out[i].Decision.Explain = true, nil
		}
	}
	return out, nil
}

// settle finds the version for all, and gives those for which there is none their error.
func (b *batch) settle() {
	for ctx := b.ctx; ; {
		least, left := uint64(0), false
		for i := range b.rs {
			if b.out[i].Err == nil {
				least, left = max(least, b.rs[i].MinSeq), true
			}
		}
		if !left {
			return
		}
		m, v, err := b.d.versions.Ready(ctx, b.name, least)
		switch {
		case err == nil && v.State.Hold():
			b.model, b.on = m, v
			return
		case err == nil: // there is a newer one already
			continue
		}
		for i := range b.rs {
			if b.out[i].Err == nil && b.rs[i].MinSeq == least {
				b.out[i].Err = err
			}
		}
		waited, cancel := context.WithCancel(b.ctx) // the others do not wait again
		cancel()
		ctx = waited
	}
}

// declare fixes the numbers of a model without any by the first request that declares them, and finds the version for all
// again.
func (b *batch) declare() {
	for i := range b.rs {
		r := &b.rs[i]
		if b.on == nil {
			return
		}
		if b.out[i].Err != nil || !r.declares(b.on) {
			continue
		}
		err := r.assign(b.on, b.d.opt.Limits.Bytes, b.d.opt.Keys)
		if err == nil {
			err = r.check(&b.d.opt.Limits)
		}
		if err == nil {
			err = b.d.declare(b.ctx, b.name, b.on, r)
		}
		if err != nil {
			b.out[i].Err = err
			continue
		}
		b.on.State.Release()
		b.on = nil
		b.settle()
		return
	}
}

// decide makes the decisions, and writes them where they are many.
func (b *batch) decide() {
	for i := range b.rs {
		r := &b.rs[i]
		if b.out[i].Err != nil || r.IdempotencyKey != "" && b.held[i] == nil {
			continue // it has its answer, or will have that of an earlier item
		}
		var c Chosen
		err := r.assign(b.on, b.d.opt.Limits.Bytes, b.d.opt.Keys)
		if err == nil {
			err = r.check(&b.d.opt.Limits)
		}
		if err == nil {
			c, err = b.d.Choose(b.ctx, b.model, b.on, r)
		}
		if err != nil {
			b.out[i].Err = err
			continue
		}
		if b.held[i] != nil {
			b.held[i].mark(c.Record)
		}
		n := sizeOf(c.Record)
		if b.size+n > eventlog.MaxBatch/2 {
			b.write()
		}
		b.ready, b.at, b.size = append(b.ready, c), append(b.at, i), b.size+n
	}
}

// write makes what is ready durable, and answers it.
func (b *batch) write() {
	if len(b.ready) == 0 {
		return
	}
	d := b.d
	var uses []*reservation
	for _, i := range b.at {
		uses, b.held[i] = append(uses, b.held[i]), nil
	}
	keys := slices.Clone(uses)
	var all []eventlog.Record
	for k := range b.ready {
		all = append(all, b.ready[k].Record)
	}
	receipt, err := d.keys.write(b.ctx, uses, all...)
	for k, i := range b.at {
		if err != nil {
			b.out[i] = Item{Err: adviseKey(err, b.rs[i].IdempotencyKey)}
			continue
		}
		c := &b.ready[k]
		key := d.answer(c, receipt, k)
		d.recent.Put(b.model, b.name, &b.rs[i], c.Record, key, receipt.Seq)
		if err := d.keys.first(keys[k], &c.Decision, key); err != nil {
			b.out[i] = Item{Err: err}
		} else {
			b.out[i].Decision = c.Decision
		}
	}
	b.ready, b.at, b.size = nil, nil, 0
}

// reserveAll takes the idempotency keys of a batch. held has the reservations of the items that are to
// be decided; what is known already goes into out; same are the items that repeat an earlier one.
func (d *Decider) reserveAll(ctx context.Context, v *choose.Version, rs []Request,
	out []Item) (held []*reservation, same map[int]int) {
	held = make([]*reservation, len(rs))
	var order []int
	first := map[[16]byte]int{}
	for i := range rs {
		if rs[i].IdempotencyKey == "" || out[i].Err != nil {
			continue
		}
		if out[i].Err = rs[i].assign(v, d.opt.Limits.Bytes, d.opt.Keys); out[i].Err != nil {
			continue
		}
		use := newReservation(v, &rs[i])
		k, twice := first[use.key]
		switch {
		case !twice:
			first[use.key], held[i] = i, use
			order = append(order, i)
		case held[k].request != use.request:
			out[i].Err = errOtherRequest
		default:
			if same == nil {
				same = map[int]int{}
			}
			same[i] = k
		}
	}
	// All batches take keys in one order, so that two of them never wait for each other.
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(held[a].key[:], held[b].key[:]) })
	for _, i := range order {
		old, err := d.keys.hold(ctx, held[i])
		if old != nil {
			out[i].Decision = *old
		}
		if out[i].Err = err; old != nil || err != nil {
			held[i] = nil
		}
	}
	return held, same
}
