package decide

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// append writes decisions and releases their keys (nil for none) when their fate is known: when the
// fold has the keys, or the records are certainly not in the log. A caller that gives up earlier does not
// change that: its next try must find the first decision and not make a second one.
func (d *Decider) append(ctx context.Context, held []*reservation, records ...eventlog.Record) (eventlog.Receipt,
	error) {
	if !slices.ContainsFunc(held, func(use *reservation) bool { return use != nil }) {
		return d.log.Append(ctx, records...)
	}
	type result struct {
		receipt eventlog.Receipt
		err     error
	}
	done := make(chan result, 1)
	var left atomic.Bool // set by the caller when it leaves first; it has counted this call once more
	go func() {
		var r result
		if r.receipt, r.err = d.log.Append(context.WithoutCancel(ctx), records...); r.err == nil {
			if err := d.log.Applied(r.receipt.Seq); err != nil {
				r.err = &fault.Error{Code: fault.Unavailable, Want: "it is recorded, what came of it is not known yet",
					RetryAfter: time.Second, Unknown: true, Err: err}
			}
		}
		release := func() {
			for _, use := range held {
				d.pending.release(use)
			}
		}
		var e *fault.Error
		unknown := errors.As(r.err, &e) && e.Unknown
		if !unknown {
			release()
		}
		done <- r
		if !left.CompareAndSwap(false, true) {
			d.log.Leave()
		}
		if unknown {
			d.log.Settled()
			release()
		}
	}()
	select {
	case r := <-done:
		return r.receipt, r.err
	case <-ctx.Done():
		select {
		case r := <-done: // both happened: the result is known
			return r.receipt, r.err
		default:
		}
		if d.log.Enter(); !left.CompareAndSwap(false, true) {
			d.log.Leave()
		}
		return eventlog.Receipt{}, &fault.Error{Code: fault.Unavailable, Want: fault.Unsure, RetryAfter: time.Second, Unknown: true,
			Err: ctx.Err()}
	}
}

// reserveAll takes the idempotency keys of a batch. held has the reservations of the items that are to
// be decided; what is known already goes into out; same are the items that repeat an earlier one.
func (d *Decider) reserveAll(ctx context.Context, name string, rs []Request,
	out []Item) (held []*reservation, same map[int]int) {
	held = make([]*reservation, len(rs))
	var v *choose.Version
	var order []int
	first := map[[16]byte]int{}
	for i := range rs {
		if rs[i].IdempotencyKey == "" {
			continue
		}
		if v == nil {
			if _, v, out[i].Err = d.versions.Ready(ctx, name, rs[i].MinSeq); out[i].Err != nil {
				continue
			}
		}
		if out[i].Err = d.assign(v, &rs[i]); out[i].Err != nil {
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
		old, err := d.hold(ctx, held[i])
		if old != nil {
			out[i].Decision = *old
		}
		if out[i].Err = err; old != nil || err != nil {
			held[i] = nil
		}
	}
	return held, same
}

// reservation is an idempotency key whose decision is being made.
type reservation struct {
	key, request [16]byte
	done         chan struct{}
}

// mark writes the key into the record of its decision.
func (r *reservation) mark(record *eventlog.Decision) {
	record.Idempotency = append(append([]byte(nil), r.key[:]...), r.request[:]...)
}

// pending are the keys whose decisions are being made.
type pending struct {
	mu sync.Mutex
	m  map[[16]byte]*reservation
}

// release ends a reservation; nil is none.
func (p *pending) release(r *reservation) {
	if r == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.m, r.key)
	close(r.done)
}

// errOtherRequest answers a key that was used before.
var errOtherRequest = &fault.Error{Code: fault.Conflict, Field: "idempotency_key", Want: "it was used for another request"}

// UseKey is the form of an idempotency key in the log. root is the model, through all its rollbacks.
func UseKey(root eventlog.ID, key string) [16]byte {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, uint64(root)), key...))
	return [16]byte(sum[:16])
}

func newReservation(v *choose.Version, r *Request) *reservation {
	return &reservation{key: UseKey(v.Root, r.IdempotencyKey), request: r.hash(), done: make(chan struct{})}
}

// hash is what makes two requests the same.
func (r *Request) hash() (h [16]byte) {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(string(r.context()))
	text(string(r.Packed))
	for _, a := range r.Actions {
		b = append(b, 1)
		text(a.ID)
		text(string(a.Features))
		if a.Cost != nil {
			b = binary.LittleEndian.AppendUint64(append(b, 7), math.Float64bits(*a.Cost))
		}
	}
	for _, id := range r.IDs {
		b = append(b, 2)
		text(id)
	}
	for _, ok := range r.Available {
		if b = append(b, 3, 0); ok {
			b[len(b)-1] = 1
		}
	}
	for _, id := range r.Exclude {
		b = append(b, 4)
		text(id)
	}
	for _, c := range r.Costs {
		b = binary.LittleEndian.AppendUint64(append(b, 8), math.Float64bits(c))
	}
	if r.Baseline != nil {
		b = binary.AppendVarint(append(b, 5), int64(*r.Baseline))
	}
	if r.Deferred {
		b = append(b, 6)
	}
	if r.unit.path != "" {
		b = binary.LittleEndian.AppendUint64(append(b, 9), uint64(r.unit.hash))
	}
	text(string(r.Mode))
	if r.Slot != "" {
		text(r.Slot)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// reserve takes the idempotency key of a request, if it has one, or returns the decision that was made with it.
func (d *Decider) reserve(ctx context.Context, v *choose.Version, r *Request) (*reservation, *Decision, error) {
	if r.IdempotencyKey == "" {
		return nil, nil, nil
	}
	use := newReservation(v, r)
	old, err := d.hold(ctx, use)
	return use, old, err
}

// hold takes an idempotency key, or returns the decision that was made with it. While another call
// makes it, hold waits. After an error, or with a decision, nothing is held.
func (d *Decider) hold(ctx context.Context, use *reservation) (*Decision, error) {
	for {
		d.pending.mu.Lock()
		other := d.pending.m[use.key]
		if other == nil {
			if d.pending.m == nil {
				d.pending.m = map[[16]byte]*reservation{}
			}
			d.pending.m[use.key] = use
		}
		d.pending.mu.Unlock()
		if other == nil {
			break
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	old, known := d.log.Key(use.key)
	if !known {
		return nil, nil
	}
	defer d.pending.release(use)
	if old.Request != use.request {
		return nil, errOtherRequest
	}
	return d.again(old)
}

// again is the answer that the decision with a key had.
func (d *Decider) again(use fold.KeyUse) (*Decision, error) {
	r, err := d.log.Decision(use.Event, use.Seq)
	if err != nil {
		return nil, &fault.Error{Code: fault.Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	at, err := Place(r)
	if err != nil {
		return nil, &fault.Error{Code: fault.Internal, Want: "the decision cannot be read", Err: err}
	}
	out := &Decision{
		EventID:    d.opt.Keys.Format(eventlog.EventID{Event: use.Event, Hint: use.Seq}),
		Action:     choose.Chosen{ID: r.Action, Index: at},
		Propensity: choose.Fraction{Num: r.Num, Den: r.Den}, Mode: model.Mode(r.Mode.String()), Seq: use.Seq,
		BasisSeq: r.BasisSeq, Durable: true, Repeated: true,
	}
	baseline := out.Mode == model.Apprentice || out.Mode == model.Shadow
	if r.Baseline > 0 {
		out.Mode = model.Guarded
	}
	if baseline {
		out.Would = &Would{r.WouldAction, choose.Fraction{Num: r.WouldNum, Den: r.Den}}
	}
	return out, nil
}

// Place returns the index of the chosen action among the actions of the request.
func Place(r *eventlog.Decision) (int, error) {
	set, err := candidates.Parse(r.Full)
	if err != nil {
		return 0, err
	}
	return set.Place(int(r.Index))
}

// first replaces a decision that another node made first with the same idempotency key: of two with one key the
// fold takes the earlier one.
func (d *Decider) first(use *reservation, out *Decision, key eventlog.Event) error {
	if !d.opt.Joint || use == nil {
		return nil
	}
	old, known := d.log.Key(use.key)
	if !known || old.Event == key {
		return nil
	}
	if old.Request != use.request {
		return errOtherRequest
	}
	again, err := d.again(old)
	if err == nil {
		*out = *again
	}
	return err
}

// Held returns the number of keys whose decisions are being made.
func (d *Decider) Held() int {
	d.pending.mu.Lock()
	defer d.pending.mu.Unlock()
	return len(d.pending.m)
}

// What becomes of a repetition, wherever it is sent.
const (
	againKey = "repeat it with the same Idempotency-Key, at any node: the answer is the one decision that counts"
	againNew = "it has no Idempotency-Key, so a repetition is another decision; if it was recorded, no reward can " +
		"name it, and it ends with its window"
)

// adviseKey adds to an error of unknown outcome what the caller of a decision can do, with a key or without one.
func adviseKey(err error, key string) error {
	if key == "" {
		return fault.Advise(err, againNew)
	}
	return fault.Advise(err, againKey)
}
