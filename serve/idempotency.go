package serve

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
	"troupe/serve/choose"
	"troupe/serve/fold"
)

// appendReserved writes decisions and releases their keys (nil for none) when their fate is known: when the
// fold has the keys, or the records are certainly not in the log. A caller that gives up earlier does not
// change that: its next try must find the first decision and not make a second one.
func (s *Server) appendReserved(ctx context.Context, held []*reservation, records ...eventlog.Record) (eventlog.Receipt,
	error) {
	if !slices.ContainsFunc(held, func(use *reservation) bool { return use != nil }) {
		return s.append(ctx, records...)
	}
	type result struct {
		receipt eventlog.Receipt
		err     error
	}
	done := make(chan result, 1)
	var left atomic.Bool // set by the caller when it leaves first; it has counted this call once more
	go func() {
		var r result
		if r.receipt, r.err = s.append(context.WithoutCancel(ctx), records...); r.err == nil {
			if _, err := s.progress.until(s.ctx, r.receipt.Seq); err != nil {
				r.err = &Error{Code: Unavailable, Want: "it is recorded, what came of it is not known yet",
					RetryAfter: time.Second, Unknown: true, Err: err}
			}
		}
		release := func() {
			for _, use := range held {
				s.pending.release(use)
			}
		}
		var e *Error
		unknown := errors.As(r.err, &e) && e.Unknown
		if !unknown {
			release()
		}
		done <- r
		if !left.CompareAndSwap(false, true) {
			s.end()
		}
		if unknown {
			s.settled()
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
		if s.enter(); !left.CompareAndSwap(false, true) {
			s.end()
		}
		return eventlog.Receipt{}, &Error{Code: Unavailable, Want: unsure, RetryAfter: time.Second, Unknown: true,
			Err: ctx.Err()}
	}
}

// settled waits until the fate of every batch is known and what was stored is applied, or until the server
// stops.
func (s *Server) settled() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for errors.Is(s.committer.Err(), eventlog.ErrUnsettled) {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
	}
	_, _ = s.progress.until(s.ctx, s.committer.Stats().Head.Seq)
}

// reserveAll takes the idempotency keys of a batch. held has the reservations of the items that are to
// be decided; what is known already goes into out; same are the items that repeat an earlier one.
func (s *Server) reserveAll(ctx context.Context, model string, rs []DecideRequest,
	out []DecideItem) (held []*reservation, same map[int]int) {
	held = make([]*reservation, len(rs))
	var v *choose.Version
	var order []int
	first := map[[16]byte]int{}
	for i := range rs {
		if rs[i].IdempotencyKey == "" {
			continue
		}
		if v == nil {
			if _, v, out[i].Err = s.ready(ctx, model, &rs[i]); out[i].Err != nil {
				continue
			}
		}
		use, err := newReservation(v, &rs[i])
		if err != nil {
			out[i].Err = err
			continue
		}
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
		old, err := s.hold(ctx, held[i])
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
var errOtherRequest = &Error{Code: Conflict, Field: "idempotency_key", Want: "it was used for another request"}

// useKey is the form of an idempotency key in the log. root is the model, through all its rollbacks.
func useKey(root eventlog.ID, key string) [16]byte {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, uint64(root)), key...))
	return [16]byte(sum[:16])
}

func newReservation(v *choose.Version, r *DecideRequest) (*reservation, error) {
	if err := checkText("idempotency_key", r.IdempotencyKey); err != nil {
		return nil, err
	}
	return &reservation{key: useKey(v.Root, r.IdempotencyKey), request: r.hash(), done: make(chan struct{})}, nil
}

// reserve takes the idempotency key of a request, if it has one, or returns the decision that was made with it.
func (s *Server) reserve(ctx context.Context, v *choose.Version, r *DecideRequest) (*reservation, *Decision, error) {
	if r.IdempotencyKey == "" {
		return nil, nil, nil
	}
	use, err := newReservation(v, r)
	if err != nil {
		return nil, nil, err
	}
	old, err := s.hold(ctx, use)
	return use, old, err
}

// hold takes an idempotency key, or returns the decision that was made with it. While another call
// makes it, hold waits. After an error, or with a decision, nothing is held.
func (s *Server) hold(ctx context.Context, use *reservation) (*Decision, error) {
	for {
		s.pending.mu.Lock()
		other := s.pending.m[use.key]
		if other == nil {
			if s.pending.m == nil {
				s.pending.m = map[[16]byte]*reservation{}
			}
			s.pending.m[use.key] = use
		}
		s.pending.mu.Unlock()
		if other == nil {
			break
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.RLock()
	old, known := s.fold.Key(use.key)
	s.mu.RUnlock()
	if !known {
		return nil, nil
	}
	defer s.pending.release(use)
	if old.Request != use.request {
		return nil, errOtherRequest
	}
	d, err := s.past.Decision(old.Event, old.Seq)
	if err != nil {
		return nil, &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	return s.again(d, old)
}

// again is the answer that a recorded decision had.
func (s *Server) again(r *eventlog.Decision, use fold.KeyUse) (*Decision, error) {
	at, err := place(r)
	if err != nil {
		return nil, &Error{Code: Internal, Want: "the decision cannot be read", Err: err}
	}
	d := &Decision{
		EventID:    s.keys.Format(eventlog.EventID{Event: use.Event, Hint: use.Seq}),
		Action:     Chosen{ID: r.Action, Index: at},
		Propensity: Fraction{Num: r.Num, Den: r.Den}, Mode: Mode(r.Mode.String()), Seq: use.Seq, BasisSeq: r.BasisSeq,
		Durable: true, Repeated: true,
	}
	if d.Mode == Apprentice || d.Mode == Shadow {
		d.Would = &Would{r.WouldAction, Fraction{Num: r.WouldNum, Den: r.Den}}
	}
	return d, nil
}

// hash is what makes two requests the same.
func (r *DecideRequest) hash() (h [16]byte) {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(string(r.Context))
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
	text(string(r.Mode))
	if r.Slot != "" {
		text(r.Slot)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}

// EventOfKey returns the id of the event that a decision with this idempotency key made, for callers that
// name their events themselves. NotFound when the model has no such key, or when the key is forgotten because
// the window of its event was closed long ago (see DecideRequest.IdempotencyKey).
func (s *Server) EventOfKey(ctx context.Context, model, key string) (eventID string, err error) {
	if err := checkText("idempotency_key", key); err != nil {
		return "", err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	_, v, err := s.model(model)
	if err != nil {
		return "", err
	}
	s.mu.RLock()
	use, ok := s.fold.Key(useKey(v.Root, key))
	s.mu.RUnlock()
	if !ok {
		return "", errorf(NotFound, "no decision with this key is remembered")
	}
	return s.keys.Format(eventlog.EventID{Event: use.Event, Hint: use.Seq}), nil
}
