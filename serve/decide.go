package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// A decision takes this way:
//
//  1. ready: the model's newest version, after MinSeq
//  2. checkDecide: what can be refused without a worker
//  3. hold (idempotency.go): the idempotency key, or the decision that was made with it
//  4. choose: a worker encodes the candidates, draws, and newRecord writes down what it did
//  5. append: the record is durable
//  6. answer: the event id

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
	if err := s.checkDecide(&r); err != nil {
		return Decision{}, err
	}
	use, old, err := s.reserve(ctx, v, &r)
	if err != nil {
		return Decision{}, err
	}
	if old != nil {
		return *old, nil
	}
	d, record, measured, err := s.choose(ctx, e, v, &r, use)
	if err != nil {
		s.pending.release(use)
		return Decision{}, err
	}
	var held []*reservation
	if use != nil {
		held = []*reservation{use}
	}
	receipt, err := s.appendReserved(ctx, held, measured.after(record)...)
	if err != nil {
		measured.forget()
		return Decision{}, adviseKey(err, r.IdempotencyKey)
	}
	s.answer(&d, record, receipt, 0)
	s.remember(e, model, &r, record, receipt.Event, receipt.Seq)
	if err := s.first(use, &d, receipt.Event); err != nil {
		return Decision{}, err
	}
	if use == nil {
		recycle(record)
	}
	return d, nil
}

// roomForLaw is a part of the room that candidates.MaxBytes leaves for what is not candidates.
const roomForLaw = 6000

// sizeOf returns about how many bytes the record of a decision takes.
func sizeOf(r *eventlog.Decision) int {
	return len(r.Full) + 8*(len(r.X)+len(r.Costs)) + len(r.Atoms) + len(r.Request) + 4*len(r.Law) + 2*len(r.Groups) + 1024
}

// records are decisions that are written and answered, for reuse. Their X and Atoms belong to recent.
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
	var e, last *entry // last is the one that decided last
	var v *choose.Version
	var batch []eventlog.Record
	var at []int // their places in out
	var measured measured
	size := 0
	flush := func() {
		if len(batch) == 0 {
			return
		}
		var uses []*reservation
		for _, i := range at {
			uses, held[i] = append(uses, held[i]), nil
		}
		keys := slices.Clone(uses)
		receipt, err := s.appendReserved(ctx, uses, measured.after(batch...)...)
		if err != nil {
			measured.forget()
		}
		for k, i := range at {
			if out[i].Err = err; err == nil {
				record := batch[k].(*eventlog.Decision)
				s.answer(&out[i].Decision, record, receipt, k)
				key := receipt.Event
				key.Index += uint32(k)
				s.remember(last, model, &rs[i], record, key, receipt.Seq)
				if out[i].Err = s.first(keys[k], &out[i].Decision, key); out[i].Err != nil {
					out[i].Decision = Decision{}
				}
			} else {
				out[i] = DecideItem{Err: adviseKey(err, rs[i].IdempotencyKey)}
			}
		}
		batch, at, measured, size = nil, nil, nil, 0
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
		if err = s.checkDecide(r); err == nil {
			var m []measure
			last = e
			out[i].Decision, record, m, err = s.choose(ctx, e, v, r, held[i])
			measured = append(measured, m...)
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		n := sizeOf(record)
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

// ready returns the version that decides a request. It waits for MinSeq, and lets a model without a schema
// learn one.
func (s *Server) ready(ctx context.Context, model string, r *DecideRequest) (*entry, *choose.Version, error) {
	// A model that another node has just made is here when MinSeq is.
	if _, _, err := s.model(model); err != nil && r.MinSeq <= s.progress.applied.Load() {
		return nil, nil, err
	}
	if s.open.Load() >= int64(s.opt.Limits.Open) {
		s.refused.Add(1)
		return nil, nil, &Error{Code: TooBusy, Want: "too many decisions wait for their reward",
			RetryAfter: 5 * time.Second}
	}
	if r.MinSeq > s.progress.applied.Load() {
		wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
		defer cancel()
		if _, err := s.progress.until(wait, r.MinSeq); err != nil {
			return nil, nil, &Error{Code: Unavailable, Field: "min_seq",
				Want: "the state of that sequence is not here yet", RetryAfter: time.Second, Err: err}
		}
	}
	e, v, err := s.model(model)
	if err == nil && r.MinSeq > v.Seq {
		if err = s.caughtUp(ctx, model); err == nil {
			e, v, err = s.model(model)
		}
	}
	if err == nil && !v.Compiled.Ready() && !v.Paused {
		if err = s.learnFeatures(ctx, model, r); err == nil {
			e, v, err = s.model(model)
		}
	}
	if err == nil {
		err = usable(v)
	}
	if err != nil {
		return nil, nil, err
	}
	return e, v, nil
}

// usable returns why a version does not decide.
func usable(v *choose.Version) error {
	switch {
	case v.Paused:
		return errorf(Paused, "the model is paused")
	case v.Failed != "":
		return &Error{Code: Unavailable, Want: "the model has failed: " + v.Failed}
	}
	return nil
}

// checkDecide refuses what can be refused before a worker is taken: the mode, texts and sizes.
func (s *Server) checkDecide(r *DecideRequest) error {
	if _, ok := model.Modes[r.Mode]; !ok && r.Mode != "" {
		return invalid("mode", r.Mode, "expected online, apprentice, shadow or frozen")
	}
	if err := checkText("caller", r.Caller); err != nil {
		return err
	}
	if err := checkText("slot", r.Slot); err != nil {
		return err
	}
	q := r.candidates()
	return refused(q.Check(&s.opt.Limits.Feature))
}

// candidates returns the part of a request that package choose reads.
func (r *DecideRequest) candidates() choose.Request {
	return choose.Request{Context: r.Context, Actions: r.Actions, Packed: r.Packed, IDs: r.IDs, Available: r.Available,
		Exclude: r.Exclude, Costs: r.Costs}
}

// choose makes the decision and its record, on v or on a newer version; nothing is written yet.
func (s *Server) choose(ctx context.Context, e *entry, v *choose.Version, r *DecideRequest, use *reservation) (Decision,
	*eventlog.Decision, measured, error) {
	none := Decision{}
	select {
	case s.choosing <- struct{}{}:
		defer func() { <-s.choosing }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // a batch does not go on to choose what it cannot record
		return none, nil, nil, tooLate(err)
	}
	w, err := s.worker(e, v)
	if err != nil {
		return none, nil, nil, err
	}
	defer e.workers.Put(w)
	q := r.candidates()
	if err := w.Encode(&q); err != nil {
		return none, nil, nil, refused(err)
	}
	if err := w.CheckCount(&q, s.opt.Limits.Feature.Actions); err != nil {
		return none, nil, nil, refused(err)
	}
	nonce, now := random(), s.opt.Now()
	if err := w.CheckCosts(); err != nil {
		return none, nil, nil, refused(err)
	}
	w.Budget(now.UnixNano())
	c, err := w.Choose(nonce, s.lawful && w.Count() <= choose.MaxLaw)
	var empty *choose.EmptyError
	if errors.As(err, &empty) {
		return none, nil, nil, &Error{Code: Conflict, Field: "budget", Want: empty.Error()}
	}
	if err != nil {
		return none, nil, nil, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
	}
	d, record, err := s.newRecord(w, r, c, now)
	if err != nil {
		return none, nil, nil, err
	}
	record.Draw = nonce
	var measured measured
	if s.lawful {
		measured = e.observe(w, record, now.UnixNano())
		d.Warnings = e.warnings(record.Notes, w.Version)
	}
	if use != nil {
		record.Idempotency = append(append([]byte(nil), use.key[:]...), use.request[:]...)
	}
	if r.Explain {
		d.Explain = w.Explain()
	}
	return d, record, measured, nil
}

// worker returns a worker in the state of v, or of the newest version when v's state is gone.
func (s *Server) worker(e *entry, v *choose.Version) (*choose.Worker, error) {
	if !e.used.Load() {
		e.used.Store(true)
	}
	for {
		w, err := e.workers.Take(v)
		if err == nil {
			return w, nil
		}
		if err != choose.ErrOld {
			return nil, &Error{Code: Internal, Want: "the model cannot decide", Err: err}
		}
		v = s.publishedOf(e)
		if err := usable(v); err != nil {
			return nil, err
		}
	}
}

// deadline is the end of a window that begins now. The clock of the log closes windows: where this node's clock is
// behind it, the window has its whole length by that one.
func (s *Server) deadline(now time.Time, window time.Duration) int64 {
	at := now.UnixNano()
	if s.nodes != nil {
		at = max(at, s.nodes.clock.Load())
	}
	return at + int64(window)
}

// newRecord returns the decision that a worker drew, or in the modes apprentice and shadow the caller's, and
// its record.
func (s *Server) newRecord(w *choose.Worker, r *DecideRequest, c choose.Choice, now time.Time) (Decision,
	*eventlog.Decision, error) {
	v := w.Version
	config := &v.Compiled.Config
	mode := Mode(config.Mode)
	if r.Mode != "" {
		mode = r.Mode
	}
	d := Decision{Mode: mode, BasisSeq: v.Seq, Durable: true, Propensity: Fraction{Num: c.Num, Den: c.Den}}
	record := records.Get().(*eventlog.Decision)
	*record = eventlog.Decision{
		Full: record.Full, Model: v.ID, Slot: r.Slot, BasisSeq: v.Seq, BasisDigest: v.Digest, Member: c.Member,
		Negative: c.Negative, Num: c.Num, Den: c.Den,
		Mode: model.Modes[mode], Deferred: r.Deferred, Caller: r.Caller,
		Time: now.UnixNano(), Deadline: s.deadline(now, time.Duration(config.Reward.Window)),
	}
	if mode == Apprentice || mode == Shadow {
		played, err := r.baseline(w)
		if err != nil {
			return Decision{}, nil, err
		}
		d.Would = &Would{w.IDs[w.Place(c.Index)], d.Propensity}
		record.WouldAction, record.WouldNum = d.Would.Action, c.Num
		c.Index, record.Num = played, c.Den
		d.Propensity = Fraction{Num: c.Den, Den: c.Den}
	}
	at := w.Place(c.Index)
	d.Action = Chosen{ID: w.IDs[at], Index: at}
	record.Action, record.Index, record.Offered = d.Action.ID, uint32(c.Index), uint32(w.Count())
	record.X, record.Atoms = w.Features(c.Index)
	if record.Costs = slices.Clone(w.Costs()); len(record.Costs) > 0 && !s.lawful {
		return Decision{}, nil, &Error{Code: Conflict, Field: "actions",
			Want: "costs need log version 2: start the server without --log-version 1"}
	}
	if len(r.Context) > 0 {
		record.Context = fold.Digest(r.Context)
	}
	record.Full = w.AppendCandidates(record.Full[:0], true)
	record.Candidates = fold.Digest(record.Full)
	if config.LogCandidates != "full" {
		record.Full = w.AppendCandidates(record.Full[:0], false)
	}
	if s.lawful {
		record.Law, record.Groups, record.Voters = w.Law()
		record.Floor = uint32(v.Compiled.FloorNum * (eventlog.FloorUnit / v.Compiled.FloorDen))
		record.Config = v.Number
		if record.Price, record.Expects = c.Price, c.Expects; c.Stopped {
			record.Play, record.Floor = eventlog.PlayStop, 0 // the law has the floor in it
		}
	}
	n := len(record.Full) + len(record.Atoms) + max(0, 6*len(record.Law)-roomForLaw) + 8*len(record.Costs)
	if v.Keeps && mode != Shadow && mode != Frozen {
		q := r.candidates()
		if record.Request = w.Kept(&q, c.Index, min(eventlog.MaxRequest,
			candidates.MaxBytes-n)); record.Request == nil {
			record.Notes |= eventlog.NoteUnstored
		}
	}
	if n > candidates.MaxBytes {
		return Decision{}, nil, &Error{Code: TooLarge, Field: "actions", Value: fmt.Sprintf("%d bytes", n),
			Want: fmt.Sprintf("the features of the candidates take %d bytes, of which a record holds %d; send fewer "+
				"actions or float32, or set log_candidates = \"none\" and give up replay", n, candidates.MaxBytes)}
	}
	return d, record, nil
}

// baseline returns the candidate that the caller plays in the modes apprentice and shadow.
func (r *DecideRequest) baseline(w *choose.Worker) (candidate int, err error) {
	given := 0
	if r.Baseline != nil {
		given = *r.Baseline
	}
	candidate = -1
	if given >= 0 && given < len(w.IDs) {
		candidate = w.Candidate(given)
	}
	if candidate < 0 {
		return 0, invalid("baseline", given, "expected the place of an available action, 0 to %d", len(w.IDs)-1)
	}
	return candidate, nil
}

// answer completes a decision that is durable, record k of its receipt.
func (s *Server) answer(d *Decision, r *eventlog.Decision, receipt eventlog.Receipt, k int) {
	key := receipt.Event
	key.Index += uint32(k)
	d.Seq = receipt.Seq
	d.EventID = s.keys.Format(eventlog.EventID{Event: key, Hint: receipt.Seq})
	s.recent.put(key, known{receipt.Seq, r.Model, r.X, r.Atoms, r.Slot, r.Deferred}, recentBytes)
}
