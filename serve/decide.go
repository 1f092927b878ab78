package serve

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"troupe/eventlog"
)

// Decide implements Service.
func (s *Server) Decide(ctx context.Context, model string, r DecideRequest) (Decision, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return Decision{}, err
	}
	defer done()
	e, v, err := s.ready(ctx, model, &r)
	if err != nil {
		return Decision{}, err
	}
	var use *reservation
	if r.IdempotencyKey != "" {
		var old *Decision
		if use, old, err = s.reserve(ctx, model, &r); err != nil || old != nil {
			if err != nil {
				return Decision{}, err
			}
			return *old, nil
		}
		defer s.pending.release(use)
	}
	d, record, err := s.choose(e, v, &r, use)
	if err != nil {
		return Decision{}, err
	}
	receipt, err := s.append(ctx, record)
	if err != nil {
		return Decision{}, err
	}
	s.answer(&d, record, receipt, 0)
	if use != nil {
		// The key is taken until the fold knows it.
		if _, err := s.applied(ctx, receipt, 1); err != nil {
			return Decision{}, err
		}
	}
	return d, nil
}

// DecideBatch implements Service.
func (s *Server) DecideBatch(ctx context.Context, model string, rs []DecideRequest) ([]DecideItem, error) {
	if len(rs) == 0 || len(rs) > s.opt.Limits.Batch {
		return nil, invalid("requests", len(rs), "expected 1 to %d requests", s.opt.Limits.Batch)
	}
	done, err := s.beginWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var e *entry
	var v *version
	out := make([]DecideItem, len(rs))
	var records []eventlog.Record
	var at []int // their places in out
	size := 0
	flush := func() {
		if len(records) == 0 {
			return
		}
		receipt, err := s.append(ctx, records...)
		for k, i := range at {
			if out[i].Err = err; err == nil {
				s.answer(&out[i].Decision, records[k].(*eventlog.Decision), receipt, k)
			} else {
				out[i].Decision = Decision{}
			}
		}
		records, at, size = nil, nil, 0
	}
	for i := range rs {
		r := &rs[i]
		if r.IdempotencyKey != "" {
			out[i].Err = invalid("idempotency_key", "", "expected none in a batch")
			continue
		}
		var err error
		if e == nil || r.MinSeq > 0 {
			if e, v, err = s.ready(ctx, model, r); err != nil {
				e, out[i].Err = nil, err
				continue
			}
		}
		var record *eventlog.Decision
		if out[i].Decision, record, err = s.choose(e, v, r, nil); err != nil {
			out[i].Err = err
			continue
		}
		n := len(record.Full) + 8*len(record.X) + 1024
		if size+n > eventlog.MaxBatch/2 {
			flush()
		}
		records, at, size = append(records, record), append(at, i), size+n
	}
	flush()
	return out, nil
}

// ready returns the version that decides a request, after waiting for MinSeq, and with features
// learned.
func (s *Server) ready(ctx context.Context, model string, r *DecideRequest) (*entry, *version, error) {
	if _, _, err := s.model(model); err != nil {
		return nil, nil, err
	}
	if s.open.Load() >= int64(s.opt.Limits.Open) {
		s.refused.Add(1)
		return nil, nil, &Error{Code: TooBusy, Want: "too many decisions wait for their reward", RetryAfter: 5 * time.Second}
	}
	if r.MinSeq > s.progress.applied.Load() {
		wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
		defer cancel()
		if _, err := s.progress.until(wait, r.MinSeq); err != nil {
			return nil, nil, &Error{Code: Unavailable, Field: "min_seq", Want: "the state of that sequence is not here yet", RetryAfter: time.Second, Err: err}
		}
	}
	e, v, err := s.model(model)
	if err == nil && v.cfg.encoder == nil && !v.paused {
		if err = s.learnFeatures(ctx, model, r); err == nil {
			e, v, err = s.model(model)
		}
	}
	switch {
	case err != nil:
		return nil, nil, err
	case v.paused:
		return nil, nil, errorf(Paused, "the model is paused")
	case v.failed != "":
		return nil, nil, &Error{Code: Unavailable, Want: "the model has failed: " + v.failed}
	}
	return e, v, nil
}

// choose makes the decision and its record; nothing is written yet.
func (s *Server) choose(e *entry, v *version, r *DecideRequest, use *reservation) (Decision, *eventlog.Decision, error) {
	cfg := v.cfg
	mode := Mode(cfg.config.Mode)
	if r.Mode != "" {
		mode = r.Mode
	}
	recorded, ok := modes[mode]
	if !ok {
		return Decision{}, nil, invalid("mode", mode, "expected online, apprentice, shadow or frozen")
	}
	if err := checkID("caller", r.Caller); err != nil {
		return Decision{}, nil, err
	}
	w, err := e.bench.take(v)
	if err != nil {
		return Decision{}, nil, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
	}
	defer e.bench.put(w)
	if err := w.encode(r); err != nil {
		return Decision{}, nil, err
	}
	nonce := random()
	c, err := w.choose(nonce)
	if err != nil {
		return Decision{}, nil, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
	}
	now := s.opt.Now()
	d := Decision{Mode: mode, BasisSeq: v.seq, Durable: true, Propensity: Fraction{c.num, c.den}}
	record := &eventlog.Decision{
		Model: v.id, BasisSeq: v.seq, BasisDigest: v.digest, Member: c.member, Negative: c.negative, Num: c.num, Den: c.den,
		Mode: recorded, Deferred: r.Deferred, Caller: r.Caller, Draw: nonce,
		Time: now.UnixNano(), Deadline: now.Add(time.Duration(cfg.config.Reward.Window)).UnixNano(),
	}
	if mode == Apprentice || mode == Shadow {
		given := 0
		if r.Baseline != nil {
			given = *r.Baseline
		}
		played := -1
		if given >= 0 && given < len(w.ids) {
			played = w.candidate(given)
		}
		if played < 0 {
			return Decision{}, nil, invalid("baseline", given, "expected the place of an available action, 0 to %d", len(w.ids)-1)
		}
		d.Would = &Would{w.ids[w.given(c.index)], Fraction{c.num, c.den}}
		record.WouldAction, record.WouldNum = d.Would.Action, c.num
		c.index, record.Num = played, c.den
		d.Propensity = Fraction{c.den, c.den}
	}
	at := w.given(c.index)
	d.Action = Chosen{w.ids[at], at}
	k := len(w.x) / cfg.dim
	record.Action, record.Index, record.Offered = d.Action.ID, uint32(c.index), uint32(k)
	record.X = append([]float64(nil), w.x[c.index*cfg.dim:(c.index+1)*cfg.dim]...)
	if len(r.Context) > 0 {
		record.Context = digest(r.Context)
	}
	w.buf = w.appendFull(w.buf[:0], true)
	record.Candidates = digest(w.buf)
	if cfg.config.LogCandidates != "full" || len(w.buf) > maxFull {
		w.buf = w.appendFull(w.buf[:0], false)
	}
	record.Full = append([]byte(nil), w.buf...)
	if use != nil {
		record.Idempotency = append(append([]byte(nil), use.key[:]...), use.request[:]...)
	}
	if r.Explain {
		d.Explain = w.explain()
	}
	return d, record, nil
}

// answer completes a decision that is durable, record k of its receipt.
func (s *Server) answer(d *Decision, r *eventlog.Decision, receipt eventlog.Receipt, k int) {
	key := receipt.Event
	key.Index += uint32(k)
	d.Seq = receipt.Seq
	d.EventID = s.keys.Format(eventlog.EventID{Event: key, Hint: receipt.Seq})
	s.recent.put(key, known{r, receipt.Seq})
}

// recent remembers the newest decisions, so that a reward need not look into the log.
type recent struct {
	mu    sync.Mutex
	m     map[eventlog.Event]known
	queue []eventlog.Event // oldest first, from head on
	head  int
	bytes int
}

type known struct {
	*eventlog.Decision
	seq uint64
}

func (k known) size() int { return 8*len(k.X) + 512 }

// recentBytes bounds recent, about.
const recentBytes = 32 << 20

func (c *recent) put(key eventlog.Event, k known) {
	// Only what a reward needs: the candidates would fill the memory.
	r := *k.Decision
	r.Full = nil
	k.Decision = &r
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[eventlog.Event]known{}
	}
	c.m[key] = k
	c.queue = append(c.queue, key)
	for c.bytes += k.size(); c.bytes > recentBytes; c.head++ {
		c.bytes -= c.m[c.queue[c.head]].size()
		delete(c.m, c.queue[c.head])
	}
	if c.head > 1024 && c.head > len(c.queue)/2 {
		c.queue, c.head = append(c.queue[:0], c.queue[c.head:]...), 0
	}
}

func (c *recent) get(key eventlog.Event) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.m[key]
	return k, ok
}

// find returns the decision of an event id, from memory or from the log. whole asks for everything,
// the candidates too.
func (s *Server) find(ctx context.Context, text string, whole bool) (eventlog.EventID, known, error) {
	id, err := s.keys.Parse(text)
	if err != nil || id.Shard != 0 || id.Token {
		s.forged.Add(1)
		return id, known{}, &Error{Code: BadEventID, Field: "event_id", Want: "expected an event id of this server", Err: err}
	}
	if !whole {
		if k, ok := s.recent.get(id.Event); ok {
			return id, k, nil
		}
	}
	d, err := s.past.decision(id.Event, id.Hint, eventlog.Hash{})
	if err == nil {
		return id, known{d, id.Hint}, nil
	}
	if !errors.Is(err, eventlog.ErrNotFound) {
		return id, known{}, &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	if info, e := s.log.Info(ctx, 0); e == nil && id.Hint < info.First {
		return id, known{}, &Error{Code: Gone, Field: "event_id", Want: "the decision is no longer kept"}
	}
	// We sign an id only when its decision is durable: the log has lost something.
	s.missing.Add(1)
	s.opt.Logger.Error("an acknowledged decision is not in the log", "seq", id.Hint, "batch", id.Event.Batch, "epoch", id.Event.Epoch.String())
	return id, known{}, &Error{Code: NotFound, Field: "event_id", Want: "the decision is not in the log", Err: err}
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

func (p *pending) release(r *reservation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.m, r.key)
	close(r.done)
}

// reserve takes an idempotency key, or returns the decision that was made with it. While another
// call makes it, reserve waits.
func (s *Server) reserve(ctx context.Context, model string, r *DecideRequest) (*reservation, *Decision, error) {
	if err := checkID("idempotency_key", r.IdempotencyKey); err != nil {
		return nil, nil, err
	}
	key := sha256.Sum256([]byte(model + "\x00" + r.IdempotencyKey))
	use := &reservation{key: [16]byte(key[:16]), request: r.hash(), done: make(chan struct{})}
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
			return nil, nil, ctx.Err()
		}
	}
	s.mu.RLock()
	var old keyUse
	var known bool
	if m := s.fold.names[model]; m != nil {
		old, known = m.keys[use.key]
	}
	s.mu.RUnlock()
	if !known {
		return use, nil, nil
	}
	defer s.pending.release(use)
	if old.request != use.request {
		return nil, nil, &Error{Code: Conflict, Field: "idempotency_key", Want: "it was used for another request"}
	}
	d, err := s.past.decision(old.event, old.seq, eventlog.Hash{})
	if err != nil {
		return nil, nil, &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	out, err := s.again(d, old)
	return nil, out, err
}

// again is the answer that a recorded decision had.
func (s *Server) again(r *eventlog.Decision, use keyUse) (*Decision, error) {
	at, err := place(r)
	if err != nil {
		return nil, &Error{Code: Internal, Want: "the decision cannot be read", Err: err}
	}
	d := &Decision{
		EventID: s.keys.Format(eventlog.EventID{Event: use.event, Hint: use.seq}), Action: Chosen{r.Action, at},
		Propensity: Fraction{r.Num, r.Den}, Mode: Mode(r.Mode.String()), Seq: use.seq, BasisSeq: r.BasisSeq, Durable: true, Repeated: true,
	}
	if d.Mode == Apprentice || d.Mode == Shadow {
		d.Would = &Would{r.WouldAction, Fraction{r.WouldNum, r.Den}}
	}
	return d, nil
}

// place returns the index of the chosen action among the actions of the request.
func place(r *eventlog.Decision) (int, error) {
	f, err := decodeFull(r.Full)
	if err != nil {
		return 0, err
	}
	if f.given == nil {
		return int(r.Index), nil
	}
	if int(r.Index) >= len(f.given) {
		return 0, fmt.Errorf("candidate %d of %d", r.Index, len(f.given))
	}
	return f.given[r.Index], nil
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
	if r.Baseline != nil {
		b = binary.AppendVarint(append(b, 5), int64(*r.Baseline))
	}
	if r.Deferred {
		b = append(b, 6)
	}
	text(string(r.Mode))
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}
