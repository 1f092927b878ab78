package decide

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// keys are the idempotency keys of decisions, and the log that knows their use. Safe for concurrent use.
type keys struct {
	log     Log
	ids     eventlog.IDKeys
	joint   bool // other nodes decide too
	made    func(use fold.KeyUse) string
	pending pending
}

// write writes decisions and releases their keys (nil for none) when their fate is known: when the
// fold has the keys, or the records are certainly not in the log. A caller that gives up earlier does not
// change that: its next try must find the first decision and not make a second one.
func (k *keys) write(ctx context.Context, held []*reservation, records ...eventlog.Record) (eventlog.Receipt,
	error) {
	if !slices.ContainsFunc(held, func(use *reservation) bool { return use != nil }) {
		return k.log.Append(ctx, records...)
	}
	type result struct {
		receipt eventlog.Receipt
		err     error
	}
	done := make(chan result, 1)
	var left atomic.Bool // set by the caller when it leaves first; it has counted this call once more
	go func() {
		var r result
		if r.receipt, r.err = k.log.Append(context.WithoutCancel(ctx), records...); r.err == nil {
			if err := k.log.Applied(r.receipt.Seq); err != nil {
				r.err = &fault.Error{Code: fault.Unavailable, Want: "it is recorded, what came of it is not known yet",
					RetryAfter: time.Second, Unknown: true, Err: err}
			}
		}
		release := func() {
			for _, use := range held {
				k.pending.release(use)
			}
		}
		var e *fault.Error
		unknown := errors.As(r.err, &e) && e.Unknown
		if !unknown {
			release()
		}
		done <- r
		if !left.CompareAndSwap(false, true) {
			k.log.Leave()
		}
		if unknown {
			k.log.Settled()
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
		if k.log.Enter(); !left.CompareAndSwap(false, true) {
			k.log.Leave()
		}
		return eventlog.Receipt{}, &fault.Error{Code: fault.Unavailable, Want: fault.Unsure, RetryAfter: time.Second,
			Unknown: true, Err: ctx.Err()}
	}
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

// count returns how many keys there are.
func (p *pending) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.m)
}

// errOtherRequest answers a key that was used before.
var errOtherRequest = &fault.Error{Code: fault.Conflict, Field: "idempotency_key",
	Want: "it was used for another request"}

// UseKey is the form of an idempotency key in the log. root is the model, through all its rollbacks.
func UseKey(root eventlog.ID, key string) [16]byte {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, uint64(root)), key...))
	return [16]byte(sum[:16])
}

func newReservation(v *choose.Version, r *Request) *reservation {
	return &reservation{key: UseKey(v.Root, r.IdempotencyKey), request: r.hash(), done: make(chan struct{})}
}

// reserve takes the idempotency key of a request, if it has one, or returns the decision that was made with it.
func (k *keys) reserve(ctx context.Context, v *choose.Version, r *Request) (*reservation, *Decision, error) {
	if r.IdempotencyKey == "" {
		return nil, nil, nil
	}
	use := newReservation(v, r)
	old, err := k.hold(ctx, use)
	return use, old, err
}

// hold takes an idempotency key, or returns the decision that was made with it. While another call
// makes it, hold waits. After an error, or with a decision, nothing is held.
func (k *keys) hold(ctx context.Context, use *reservation) (*Decision, error) {
	for {
		k.pending.mu.Lock()
		other := k.pending.m[use.key]
		if other == nil {
			if k.pending.m == nil {
				k.pending.m = map[[16]byte]*reservation{}
			}
			k.pending.m[use.key] = use
		}
		k.pending.mu.Unlock()
		if other == nil {
			break
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	old, known := k.log.Key(use.key)
	if !known {
		return nil, nil
	}
	defer k.pending.release(use)
	if old.Request != use.request {
		return nil, errOtherRequest
	}
	return k.again(old)
}

// idOf returns the event id of the decision with a key.
func (k *keys) idOf(use fold.KeyUse) string {
	if k.made != nil {
		return k.made(use)
	}
	return k.ids.Format(eventlog.EventID{Event: use.Event, Hint: use.Seq})
}

// again is the answer that the decision with a key had.
func (k *keys) again(use fold.KeyUse) (*Decision, error) {
	r, err := k.log.Decision(use.Event, use.Seq)
	if err != nil {
		return nil, &fault.Error{Code: fault.Unavailable, Want: "the log cannot be read", RetryAfter: time.Second,
			Err: err}
	}
	at, err := Place(r)
	if err != nil {
		return nil, &fault.Error{Code: fault.Internal, Want: "the decision cannot be read", Err: err}
	}
	out := &Decision{
		EventID:    k.idOf(use),
		Action:     choose.Chosen{ID: r.Action, Index: at},
		Propensity: choose.Fraction{Num: r.Num, Den: r.Den}, Mode: model.Mode(r.Mode.String()), Seq: use.Seq,
		BasisSeq: r.BasisSeq, Durable: true, Repeated: true,
	}
	if r.List != nil {
		out.Action, out.Propensity, out.List = choose.Chosen{}, choose.Fraction{}, Entries(r)
	}
	if r.Group != eventlog.NoGroup {
		out.Group = r.Group.String()
	}
	out.tellNumbers(r)
	baseline := out.Mode == model.Apprentice || out.Mode == model.Shadow
	if r.Baseline > 0 {
		out.Mode = model.Guarded
	}
	if baseline {
		out.Would = wouldOf(r)
	}
	return out, nil
}

// first replaces a decision that another node made first with the same idempotency key: of two with one key the
// fold takes the earlier one.
func (k *keys) first(use *reservation, out *Decision, key eventlog.Event) error {
	if !k.joint || use == nil {
		return nil
	}
	old, known := k.log.Key(use.key)
	if !known || old.Event == key {
		return nil
	}
	if old.Request != use.request {
		return errOtherRequest
	}
	again, err := k.again(old)
	if err == nil {
		*out = *again
	}
	return err
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
