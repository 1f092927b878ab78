package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/feature"
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
		if use, err = newReservation(v, &r); err == nil {
			old, err = s.hold(ctx, use)
		}
		if err != nil {
			return Decision{}, err
		}
		if old != nil {
			return *old, nil
		}
	}
	d, record, err := s.choose(e, v, &r, use)
	if err != nil {
		s.pending.release(use)
		return Decision{}, err
	}
	receipt, err := s.appendHeld(ctx, []*reservation{use}, record)
	if err != nil {
		return Decision{}, err
	}
	s.answer(&d, record, receipt, 0)
	if use == nil {
		drop(record)
	}
	return d, nil
}

// records are decisions that are written and answered. Their X belongs to recent.
var records = sync.Pool{New: func() any { return new(eventlog.Decision) }}

// drop says that nobody looks at a record any more.
func drop(r *eventlog.Decision) {
	full := r.Full[:0]
	if cap(full) > 64<<10 {
		full = nil
	}
	*r = eventlog.Decision{Full: full}
	records.Put(r)
}

// appendHeld writes decisions and gives their keys free, nil for none, when it is known what became of
// them: when the fold knows the keys, or the records are certainly not in the log. A caller who gives
// up earlier does not change that, for when he tries again he must find the first decision and not make
// a second one.
func (s *Server) appendHeld(ctx context.Context, held []*reservation, records ...eventlog.Record) (eventlog.Receipt, error) {
	if !slices.ContainsFunc(held, func(use *reservation) bool { return use != nil }) {
		return s.append(ctx, records...)
	}
	type result struct {
		receipt eventlog.Receipt
		err     error
	}
	done := make(chan result, 1)
	var left atomic.Bool // by the caller, before the end; it has counted this call once more
	go func() {
		var r result
		if r.receipt, r.err = s.append(context.WithoutCancel(ctx), records...); r.err == nil {
			if _, err := s.progress.until(s.ctx, r.receipt.Seq); err != nil {
				r.err = &Error{Code: Unavailable, Want: "it is recorded, what came of it is not known yet", RetryAfter: time.Second, Unknown: true, Err: err}
			}
		}
		free := func() {
			for _, use := range held {
				s.pending.release(use)
			}
		}
		var e *Error
		unknown := errors.As(r.err, &e) && e.Unknown
		if !unknown {
			free()
		}
		done <- r
		if !left.CompareAndSwap(false, true) {
			s.end()
		}
		if unknown {
			s.settled()
			free()
		}
	}()
	select {
	case r := <-done:
		return r.receipt, r.err
	case <-ctx.Done():
		select {
		case r := <-done: // both: the better news
			return r.receipt, r.err
		default:
		}
		if s.enter(); !left.CompareAndSwap(false, true) {
			s.end()
		}
		return eventlog.Receipt{}, &Error{Code: Unavailable, Want: "nobody knows whether it was recorded", RetryAfter: time.Second, Unknown: true, Err: ctx.Err()}
	}
}

// settled waits until the log has said what became of every batch, and what it has stored is applied;
// or until there is no hope of that in this process.
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
	out := make([]DecideItem, len(rs))
	held, same := s.reserveAll(ctx, model, rs, out)
	defer func() { // those that were not sent
		for _, use := range held {
			s.pending.release(use)
		}
	}()
	var e *entry
	var v *version
	var batch []eventlog.Record
	var at []int // their places in out
	size := 0
	flush := func() {
		if len(batch) == 0 {
			return
		}
		var uses []*reservation
		for _, i := range at {
			uses, held[i] = append(uses, held[i]), nil
		}
		receipt, err := s.appendHeld(ctx, uses, batch...)
		for k, i := range at {
			if out[i].Err = err; err == nil {
				s.answer(&out[i].Decision, batch[k].(*eventlog.Decision), receipt, k)
			} else {
				out[i].Decision = Decision{}
			}
		}
		batch, at, size = nil, nil, 0
	}
	for i := range rs {
		r := &rs[i]
		if r.IdempotencyKey != "" && held[i] == nil {
			continue // it has its answer, or will have that of an earlier item
		}
		var err error
		if e == nil || r.MinSeq > 0 {
			if e, v, err = s.ready(ctx, model, r); err != nil {
				e, out[i].Err = nil, err
				continue
			}
		}
		var record *eventlog.Decision
		if out[i].Decision, record, err = s.choose(e, v, r, held[i]); err != nil {
			out[i].Err = err
			continue
		}
		n := len(record.Full) + 8*len(record.X) + 1024
		if size+n > eventlog.MaxBatch/2 {
			flush()
		}
		batch, at, size = append(batch, record), append(at, i), size+n
	}
	flush()
	for i, first := range same {
		if out[i] = out[first]; out[i].Err == nil {
			out[i].Decision.Repeated, out[i].Decision.Explain = true, nil
		}
	}
	return out, nil
}

// reserveAll takes the idempotency keys of a batch. held has the reservations of the items that are to
// be decided; what is known already goes into out; same are the items that repeat an earlier one.
func (s *Server) reserveAll(ctx context.Context, model string, rs []DecideRequest, out []DecideItem) (held []*reservation, same map[int]int) {
	held = make([]*reservation, len(rs))
	var v *version
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
	// Two batches with keys in common would wait for each other, did they not take them in one order.
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
	if err == nil {
		err = v.usable()
	}
	if err != nil {
		return nil, nil, err
	}
	return e, v, nil
}

// choose makes the decision and its record, on v or on a newer version; nothing is written yet.
func (s *Server) choose(e *entry, v *version, r *DecideRequest, use *reservation) (Decision, *eventlog.Decision, error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	w, err := e.take(v)
	if err != nil {
		return Decision{}, nil, err
	}
	defer e.bench.put(w)
	v = w.at
	cfg := v.cfg
	mode := Mode(cfg.config.Mode)
	if r.Mode != "" {
		mode = r.Mode
	}
	recorded, ok := modes[mode]
	if !ok {
		return Decision{}, nil, invalid("mode", mode, "expected online, apprentice, shadow or frozen")
	}
	if err := errors.Join(checkID("caller", r.Caller), checkID("slot", r.Slot)); err != nil {
		return Decision{}, nil, err
	}
	if err := r.within(&s.opt.Limits.Feature); err != nil {
		return Decision{}, nil, err
	}
	if err := w.encode(r); err != nil {
		return Decision{}, nil, err
	}
	if n, most := w.batch.Len(), s.opt.Limits.Feature.Actions; n > most {
		field := "actions"
		if len(r.Packed) > 0 {
			field = "packed"
		}
		return Decision{}, nil, invalid(field, n, "expected at most %d actions", most)
	}
	nonce := random()
	c, err := w.choose(nonce)
	if err != nil {
		return Decision{}, nil, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
	}
	now := s.opt.Now()
	d := Decision{Mode: mode, BasisSeq: v.seq, Durable: true, Propensity: Fraction{c.num, c.den}}
	record := records.Get().(*eventlog.Decision)
	*record = eventlog.Decision{
		Full: record.Full, Model: v.id, Slot: r.Slot, BasisSeq: v.seq, BasisDigest: v.digest, Member: c.member, Negative: c.negative, Num: c.num, Den: c.den,
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
	if cfg.config.LogCandidates != "full" {
		w.buf = w.appendFull(w.buf[:0], false)
	}
	if len(w.buf) > maxFull {
		return Decision{}, nil, &Error{Code: TooLarge, Field: "actions", Value: fmt.Sprintf("%d bytes", len(w.buf)),
			Want: fmt.Sprintf("the vectors of the candidates take %d bytes, of which a record holds %d; send fewer actions or float32, or set log_candidates = \"none\" and give up replay", len(w.buf), maxFull)}
	}
	record.Full = append(record.Full[:0], w.buf...)
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
	s.recent.put(key, known{receipt.Seq, r.Model, r.X, r.Slot, r.Deferred}, recentBytes)
}

// recent remembers the newest decisions, so that a reward need not look into the log. It has parts, so
// that the many callers of one batch do not queue for one mutex.
type recent [16]recentPart

type recentPart struct {
	mu    sync.Mutex
	m     map[eventlog.Event]known
	queue []eventlog.Event // oldest first, from head on
	head  int
	bytes int
}

// known is what rewards need of a decision.
type known struct {
	seq      uint64
	model    eventlog.ID
	x        []float64
	slot     string
	deferred bool
}

func (k known) size() int { return 8*len(k.x) + 256 }

// recentBytes bounds the newest decisions, rereadBytes those that were read again, about.
const (
	recentBytes = 32 << 20
	rereadBytes = 16 << 20
)

func (c *recent) put(key eventlog.Event, k known, limit int) {
	c[key.Index%uint32(len(c))].put(key, k, limit/len(c))
}

func (c *recent) get(key eventlog.Event) (known, bool) { return c[key.Index%uint32(len(c))].get(key) }

func (c *recentPart) put(key eventlog.Event, k known, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.m[key]; ok {
		return
	}
	if c.m == nil {
		c.m = map[eventlog.Event]known{}
	}
	c.m[key] = k
	c.queue = append(c.queue, key)
	for c.bytes += k.size(); c.bytes > limit; c.head++ {
		c.bytes -= c.m[c.queue[c.head]].size()
		delete(c.m, c.queue[c.head])
	}
	if c.head > 1024 && c.head > len(c.queue)/2 {
		c.queue, c.head = append(c.queue[:0], c.queue[c.head:]...), 0
	}
}

func (c *recentPart) get(key eventlog.Event) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.m[key]
	return k, ok
}

// wanted are the entries that were read last.
type wanted struct {
	mu   sync.Mutex
	seqs [128]uint64
	at   int
}

// again reports whether an entry is among them, and adds it.
func (w *wanted) again(seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.seqs[:], seq) {
		return true
	}
	w.seqs[w.at] = seq
	w.at = (w.at + 1) % len(w.seqs)
	return false
}

// find returns what is known of the decision of an event id, from memory or from the log.
func (s *Server) find(ctx context.Context, text string) (eventlog.EventID, known, error) {
	id, err := s.parse(text)
	if err != nil {
		return id, known{}, err
	}
	if k, ok := s.recent.get(id.Event); ok {
		return id, k, nil
	}
	if k, ok := s.reread.get(id.Event); ok {
		return id, k, nil
	}
	// Who comes late, after a restart or when much is newer, often has neighbours who do, too. An entry that
	// is wanted twice in a short time is read for all of them; one that is not would only cost more.
	reading := s.reading[id.Hint%uint64(len(s.reading))]
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return id, known{}, &Error{Code: Unavailable, Want: "the log does not answer", RetryAfter: time.Second, Err: ctx.Err()}
	}
	if k, ok := s.reread.get(id.Event); ok {
		return id, k, nil
	}
	var d *eventlog.Decision
	if s.wanted.again(id.Hint) {
		d, err = s.past.among(id.Event, id.Hint, func(key eventlog.Event, d *eventlog.Decision) {
			s.reread.put(key, known{id.Hint, d.Model, d.X, d.Slot, d.Deferred}, rereadBytes)
		})
	} else {
		d, err = s.past.decision(id.Event, id.Hint)
	}
	if err != nil {
		return id, known{}, s.lost(ctx, id, err)
	}
	return id, known{id.Hint, d.Model, d.X, d.Slot, d.Deferred}, nil
}

// findWhole returns the decision of an event id, with its candidates, from the log.
func (s *Server) findWhole(ctx context.Context, text string) (eventlog.EventID, *eventlog.Decision, error) {
	id, err := s.parse(text)
	if err != nil {
		return id, nil, err
	}
	d, err := s.past.decision(id.Event, id.Hint)
	if err != nil {
		return id, nil, s.lost(ctx, id, err)
	}
	return id, d, nil
}

func (s *Server) parse(text string) (eventlog.EventID, error) {
	id, err := s.keys.Parse(text)
	if err != nil || id.Shard != 0 || id.Token {
		s.forged.Add(1)
		return id, &Error{Code: BadEventID, Field: "event_id", Want: "expected an event id of this server", Err: err}
	}
	return id, nil
}

// lost says why a decision was not found in the log.
func (s *Server) lost(ctx context.Context, id eventlog.EventID, err error) error {
	if !errors.Is(err, eventlog.ErrNotFound) {
		return &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	if info, e := s.log.Info(ctx, 0); e == nil && id.Hint < info.First {
		return &Error{Code: Gone, Field: "event_id", Want: "the decision is no longer kept"}
	}
	// We sign an id only when its decision is durable: the log has lost something.
	s.missing.Add(1)
	s.opt.Logger.Error("an acknowledged decision is not in the log", "seq", id.Hint, "batch", id.Event.Batch, "epoch", id.Event.Epoch.String())
	return &Error{Code: NotFound, Field: "event_id", Want: "the decision is not in the log", Err: err}
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

// release gives a key free; nil is no key.
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

// useKey is what the log knows of an idempotency key. root is the model, through all its rollbacks.
func useKey(root eventlog.ID, key string) [16]byte {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, uint64(root)), key...))
	return [16]byte(sum[:16])
}

func newReservation(v *version, r *DecideRequest) (*reservation, error) {
	if err := checkID("idempotency_key", r.IdempotencyKey); err != nil {
		return nil, err
	}
	return &reservation{key: useKey(v.root, r.IdempotencyKey), request: r.hash(), done: make(chan struct{})}, nil
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
	old, known := s.fold.keys[use.key]
	s.mu.RUnlock()
	if !known {
		return nil, nil
	}
	defer s.pending.release(use)
	if old.request != use.request {
		return nil, errOtherRequest
	}
	d, err := s.past.decision(old.event, old.seq)
	if err != nil {
		return nil, &Error{Code: Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	return s.again(d, old)
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

// within refuses what is larger than the limits, before it is read.
func (r *DecideRequest) within(l *feature.Limits) error {
	large := func(field string, b []byte) error {
		if len(b) > l.Bytes {
			return invalid(field, len(b), "expected at most %d bytes", l.Bytes)
		}
		return nil
	}
	if n := len(r.Actions); n > l.Actions {
		return invalid("actions", n, "expected at most %d actions", l.Actions)
	}
	if err := large("context", r.Context); err != nil {
		return err
	}
	if err := large("packed", r.Packed); err != nil {
		return err
	}
	for i := range r.Actions {
		if len(r.Actions[i].Features) > l.Bytes {
			return large(fmt.Sprintf("actions[%d].features", i), r.Actions[i].Features)
		}
	}
	return nil
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
	if r.Slot != "" {
		text(r.Slot)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}
