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
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/fold"
)

// Versions are the models as decisions see them.
type Versions interface {
	// Ready returns a model and the version that decides, one that has at least the sequence minSeq. It changes
	// nothing.
	Ready(ctx context.Context, name string, minSeq uint64) (Model, *choose.Version, error)
}

// Model is a model that decides.
type Model interface {
	// Worker returns a worker in the state of v, or of the newest version when v's state is gone. Done takes it back.
	Worker(v *choose.Version) (*choose.Worker, error)
	Done(w *choose.Worker)
	// Observe notes in a record what encoding its request met, and returns what is now known of its numbers; these
	// records go into the log with it. Warnings are those of the answer.
	Observe(w *choose.Worker, r *eventlog.Decision, now int64) Measured
	Warnings(n eventlog.Notes, v *choose.Version) []string
}

// Log takes the records of decisions, and knows which were made with a key.
type Log interface {
	// Append returns when the records are durable. An error with Unknown set: they may be in the log.
	Append(ctx context.Context, records ...eventlog.Record) (eventlog.Receipt, error)
	// Applied waits until an entry is applied, or the server stops; Settled, until that is so of every record whose
	// fate was unknown.
	Applied(seq uint64) error
	Settled()
	// Key returns the use of an idempotency key, Decision the record of a decision.
	Key(key [16]byte) (fold.KeyUse, bool)
	Decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error)
	// Enter counts a call that goes on after its caller has left, Leave ends one.
	Enter()
	Leave()
}

// Recent remembers the newest decisions, so that a reward need not read the log.
type Recent interface {
	// Put gets a decision that is durable. name is that of the model in the request, which belongs to the caller.
	Put(m Model, name string, q *Request, r *eventlog.Decision, key eventlog.Event, seq uint64)
}

// Options configure a Decider.
type Options struct {
	Limits feature.Limits  // of the features of one request
	Keys   eventlog.IDKeys // of event ids
	Joint  bool            // other nodes decide too
	// Choosing is a semaphore: as many decisions choose at a time.
	Choosing chan struct{}
	Random   func() eventlog.ID
	Now      func() time.Time
	// Clock is that of the log, 0 where this machine's is. It closes windows: where this node's clock is behind it, a
	// window has its whole length by that one.
	Clock func() int64
}

// Decider makes decisions. It is safe for concurrent use.
type Decider struct {
	versions Versions
	log      Log
	recent   Recent
	opt      Options
	pending  pending
}

// New returns a Decider.
func New(v Versions, l Log, r Recent, o Options) *Decider {
	return &Decider{versions: v, log: l, recent: r, opt: o}
}

// Decide chooses an action, and returns when the decision is durable.
func (d *Decider) Decide(ctx context.Context, name string, r *Request) (Decision, error) {
	m, v, err := d.versions.Ready(ctx, name, r.MinSeq)
	if err != nil {
		return Decision{}, err
	}
	if err := d.assign(v, r); err != nil {
		return Decision{}, err
	}
	if err := r.check(&d.opt.Limits); err != nil {
		return Decision{}, err
	}
	use, old, err := d.reserve(ctx, v, r)
	if err != nil {
		return Decision{}, err
	}
	if old != nil {
		return *old, nil
	}
	c, err := d.Choose(ctx, m, v, r)
	if err != nil {
		d.pending.release(use)
		return Decision{}, err
	}
	receipt, err := d.write(ctx, use, &c)
	if err != nil {
		return Decision{}, adviseKey(err, r.IdempotencyKey)
	}
	d.answer(&c, receipt, 0)
	d.recent.Put(m, name, r, c.Record, receipt.Event, receipt.Seq)
	if err := d.first(use, &c.Decision, receipt.Event); err != nil {
		return Decision{}, err
	}
	if use == nil {
		recycle(c.Record)
	}
	return c.Decision, nil
}

// Chosen is a decision that is not written yet.
type Chosen struct {
	Decision Decision
	Record   *eventlog.Decision
	Measured Measured
}

// Choose makes a decision and its record, on v or on a newer version; nothing is written.
func (d *Decider) Choose(ctx context.Context, m Model, v *choose.Version, r *Request) (c Chosen, err error) {
	select {
	case d.opt.Choosing <- struct{}{}:
		defer func() { <-d.opt.Choosing }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // a batch does not go on to choose what it cannot record
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
	q := r.candidates()
	if err := w.Encode(&q); err != nil {
		return c, fault.Refused(err)
	}
	if err := w.CheckCount(&q, d.opt.Limits.Actions); err != nil {
		return c, fault.Refused(err)
	}
	nonce, now := d.opt.Random(), d.opt.Now()
	if err := w.CheckCosts(); err != nil {
		return c, fault.Refused(err)
	}
	if err := w.CheckCaps(); err != nil {
		return c, fault.Refused(err)
	}
	w.Budget(now.UnixNano())
	w.Assign(r.unit.hash)
	draw, err := w.Choose(nonce, w.Count() <= choose.MaxLaw)
	var empty *choose.EmptyError
	if errors.As(err, &empty) {
		return c, &fault.Error{Code: fault.Conflict, Field: "budget", Want: empty.Error()}
	}
	if err != nil {
		return c, &fault.Error{Code: fault.Internal, Want: "the model cannot decide", Err: err}
	}
	if c.Decision, c.Record, err = d.record(w, r, draw, now); err != nil {
		return Chosen{}, err
	}
	c.Record.Draw = nonce
	c.Measured = m.Observe(w, c.Record, now.UnixNano())
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
	receipt, err := d.append(ctx, held, c.Measured.after(c.Record)...)
	if err != nil {
		c.Measured.forget()
	}
	return receipt, err
}

// answer completes a decision that is durable, record k of its receipt, and returns its key.
func (d *Decider) answer(c *Chosen, receipt eventlog.Receipt, k int) eventlog.Event {
	key := receipt.Event
	key.Index += uint32(k)
	c.Decision.Seq = receipt.Seq
	c.Decision.EventID = d.opt.Keys.Format(eventlog.EventID{Event: key, Hint: receipt.Seq})
	return key
}

// Measure is a record that goes into the log with a decision. Forget takes it back, after the log refused it.
type Measure struct {
	Record *eventlog.Learned
	Forget func()
}

// Measured are the measures of a decision.
type Measured []Measure

// after returns records with those of the measures behind them.
func (m Measured) after(records ...eventlog.Record) []eventlog.Record {
	for _, x := range m {
		records = append(records, x.Record)
	}
	return records
}

func (m Measured) forget() {
	for _, x := range m {
		x.Forget()
	}
}

// records are decisions that are written and answered, for reuse. Their X and Atoms belong to Recent.
var records = sync.Pool{New: func() any { return new(eventlog.Decision) }}

// recycle gives back a record to which there is no other reference.
func recycle(r *eventlog.Decision) {
	full := r.Full[:0]
	if cap(full) > 64<<10 {
		full = nil
	}
	*r = eventlog.Decision{Full: full}
	records.Put(r)
}
