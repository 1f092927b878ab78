package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
	"troupe/timing"
)

// writer admits calls, writes their records and waits until they are applied. It knows nothing of models.
type writer struct {
	opt       *Options
	log       eventlog.Log
	committer *eventlog.Committer // set by Open
	nodes     *nodes              // of a cluster, nil on a single machine
	calls     calls
	progress  progress // how far the applier is

	full    atomic.Bool   // the last append was refused for room
	refused atomic.Uint64 // calls answered TooBusy
}

func newWriter(o *Options) *writer {
	w := &writer{opt: o, log: o.Log}
	w.calls.idle, w.calls.done = make(chan struct{}), w.end
	return w
}

// beginWrite admits a call that will write.
func (s *writer) beginWrite(ctx context.Context) (done func(), err error) {
	if err := s.stopped(); err != nil {
		return nil, err
	}
	return s.begin(ctx)
}

// stopped is the error of every call that writes, while the log is damaged or the engine is gone. It
// passes when the engine comes back by itself.
func (s *writer) stopped() error {
	if err := s.progress.failure(); err != nil {
		return &Error{Code: Unavailable, Want: "read-only: " + err.Error(), Err: err}
	}
	var err error
	if l, ok := s.log.(eventlog.Stops); ok {
		err = l.Err()
	}
	var down *eventlog.ReplicaDownError
	var cut *eventlog.CutOffError
	var repairing *eventlog.RepairingError
	var gone *eventlog.GoneError
	if errors.As(err, &gone) {
		return &Error{Code: Unavailable, Want: gone.Error(), RetryAfter: time.Minute, Err: err}
	}
	if errors.As(err, &down) || errors.As(err, &cut) || errors.As(err, &repairing) {
		// The reason why nothing comes back is said first.
		want := err.Error()
		if w := s.lacks(); w != nil {
			want += "; " + w.Want
		}
		return &Error{Code: Unavailable, Want: want, RetryAfter: time.Second, Err: err}
	}
	if w := s.lacks(); w != nil && !errors.Is(err, eventlog.ErrBroken) {
		return w
	}
	if s.nodes != nil {
		if err := cmp.Or(s.nodes.cutOff(), s.nodes.doubtful()); err != nil {
			return s.orFull(err, Full)
		}
	}
	if err == nil {
		err = s.committer.Err()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, eventlog.ErrFull):
		return isFull(err, Full)
	case errors.Is(err, eventlog.ErrDown), errors.Is(err, eventlog.ErrUnsettled):
		return &Error{Code: Unavailable, Want: "the log is being opened again", RetryAfter: time.Second, Err: err}
	}
	return &Error{Code: Unavailable, Want: "the log has stopped; the server must be restarted", Err: err}
}

// lacks returns the error of every call while the applier is in the middle of an entry and does not get an older one,
// nil otherwise: the state is locked, and what needs it would hang.
func (s *writer) lacks() *Error {
	l := s.progress.lack.Load()
	if l == nil || l.err == nil && s.opt.Clock.Since(l.since) < readSlow {
		return nil
	}
	why := "there is no answer yet"
	if l.err != nil {
		why = l.err.Error()
	}
	return &Error{Code: Unavailable, RetryAfter: time.Second, Err: l.err, Want: fmt.Sprintf("the state waits for entry "+
		"%d of the log for %.0f s: %s", l.seq, s.opt.Clock.Since(l.since).Seconds(), why)}
}

func isFull(err error, code Code) *Error {
	return &Error{Code: code, Want: "the log is full", RetryAfter: 10 * time.Second, Err: err}
}

// orFull returns err, or that the log is full: then no checkpoint is stored, and a node seems to be cut off.
func (s *writer) orFull(err error, code Code) error {
	if s.full.Load() && !s.nodes.drained.Load() && s.nodes.stale() != nil {
		return isFull(err, code)
	}
	return err
}

// append writes records and turns refusals into errors of a Service.
func (s *writer) append(ctx context.Context, records ...eventlog.Record) (eventlog.Receipt, error) {
	receipt, err := s.committer.Append(ctx, records...)
	if err == nil {
		if s.full.Load() && s.full.CompareAndSwap(true, false) {
			s.opt.Logger.Info("the log takes records again")
		}
		return receipt, nil
	}
	e := &Error{Code: Unavailable, Want: "the log does not answer", RetryAfter: time.Second, Err: err}
	switch {
	case errors.Is(err, eventlog.ErrUnknown):
		e.Want, e.Unknown = fault.Unsure, true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // before anything was sent
		e = fault.TooLate(err)
	case errors.Is(err, eventlog.ErrUnsettled), errors.Is(err, eventlog.ErrDown):
		e.Want = "the log is being opened again, or has not answered for an earlier record yet"
	case errors.Is(err, eventlog.ErrFull):
		if s.full.CompareAndSwap(false, true) { // the error names the disk or the limit
			s.opt.Logger.Error("the log is full, decisions and rewards are refused", "error", err.Error())
		}
		e.Code, e.Want, e.RetryAfter = Full, "the log is full", 10*time.Second
	case errors.Is(err, eventlog.ErrBusy):
		s.refused.Add(1)
		e.Code, e.Want = TooBusy, "too much is waiting for the log"
	case errors.Is(err, eventlog.ErrVoid):
		e.Want = "it was not recorded: this node was cut off, and what it had sent was stored too late and does not " +
			"count; repeat the call"
	case errors.Is(err, eventlog.ErrTooLarge):
		e.Code, e.Want, e.RetryAfter = Invalid, fmt.Sprintf("expected a request whose record is below %d bytes",
			eventlog.MaxBatch), 0
	case errors.Is(err, eventlog.ErrMalformed):
		e.Code, e.Want, e.RetryAfter = Internal, "the record was refused", 0
	}
	return receipt, e
}

// What becomes of a repetition, wherever it is sent.
const (
	againReward = "repeat it as it was, at any node: it counts once"
	againSum    = "repeat it as it was, at any node, where the model's rule is first; under another rule a reward " +
		"without a key counts again"
)

// adviseReward adds to an error of unknown outcome what the caller of a reward can do, with a key or without one.
func adviseReward(err error, key string) error {
	if key == "" {
		return fault.Advise(err, againSum)
	}
	return fault.Advise(err, againReward)
}

// applied waits until the records of a receipt are applied and returns their outcomes.
func (s *writer) applied(ctx context.Context, r eventlog.Receipt, n int) ([]fold.Outcome, error) {
	limit := s.progress.timers.Get().(*timing.Timer)
	limit.Reset(s.opt.Wait)
	out, err := s.progress.within(ctx, r.Seq, limit.C)
	limit.Stop()
	s.progress.timers.Put(limit)
	if err == nil && len(out) < int(r.Event.Index)+n {
		err = errors.New("the outcome is no longer known")
	}
	if err != nil {
		return nil, &Error{Code: Unavailable, Want: "it is recorded, what came of it is not known yet",
			RetryAfter: time.Second, Unknown: true, Err: err}
	}
	return out[r.Event.Index : int(r.Event.Index)+n], nil
}

// write appends one record and waits for its outcome.
func (s *writer) write(ctx context.Context, r eventlog.Record) (fold.Outcome, uint64, error) {
	receipt, err := s.append(ctx, r)
	if err != nil {
		return fold.None, 0, err
	}
	out, err := s.applied(ctx, receipt, 1)
	if err != nil {
		return fold.None, receipt.Seq, err
	}
	return out[0], receipt.Seq, nil
}

// begin admits a call. done must be called at its end.
func (s *writer) begin(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w := s.lacks(); w != nil {
		return nil, w
	}
	if s.nodes != nil {
		if err := s.nodes.stale(); err != nil {
			return nil, s.orFull(err, Unavailable)
		}
	}
	c := &s.calls
	n := c.n.Add(1)
	switch { // closed is looked at after n was raised: close then waits for this call, or this call sees it
	case c.closed.Load():
		s.end()
		return nil, &Error{Code: Unavailable, Want: "the server is shutting down", RetryAfter: time.Second}
	case n > int64(s.opt.Limits.InFlight):
		s.end()
		s.refused.Add(1)
		return nil, &Error{Code: TooBusy, Want: fmt.Sprintf("%d calls are under way", n-1), RetryAfter: time.Second}
	}
	return c.done, nil
}

// enter counts a call that goes on after its caller has left. The caller is still counted.
func (s *writer) enter() { s.calls.n.Add(1) }

func (s *writer) end() {
	if c := &s.calls; c.n.Add(-1) == 0 && c.closed.Load() {
		c.once.Do(func() { close(c.idle) })
	}
}

// drain refuses new calls and waits for those under way, until ctx ends.
func (s *writer) drain(ctx context.Context) {
	s.enter() // so that the end below comes after closed was set
	s.calls.closed.Store(true)
	s.end()
	select {
	case <-s.calls.idle:
	case <-ctx.Done():
	}
}

// leave makes the log of a cluster that of this single machine: the rules of package fold for clusters, and their
// clock, end here.
func (s *writer) leave(ctx context.Context, names []string) {
	r := &eventlog.Control{Act: eventlog.Members, Digest: fold.NamesDigest(names), Time: s.opt.Clock.Now().UnixNano()}
	if _, err := s.append(ctx, r); err != nil {
		s.opt.Logger.Warn("the log is still a cluster's, whose clock stands still: no window closes", "error",
			err.Error())
		return
	}
	s.opt.Logger.Info("the log of a cluster is that of a single machine now", "nodes", strings.Join(names, ", "))
}

// here waits until an entry that another node has answered is applied.
func (s *writer) here(ctx context.Context, seq uint64) error {
	if s.nodes == nil || seq <= s.progress.applied.Load() {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
	defer cancel()
	if _, err := s.progress.until(wait, seq); err != nil {
		return &Error{Code: Unavailable, Want: "the decision is not applied here yet", RetryAfter: time.Second,
			Err: err}
	}
	return nil
}

// leaderWait is how long a start waits for a leader that has what this node's newest snapshot has: one that was
// just elected may not have applied all that it knows to be stored.
const leaderWait = 30 * time.Second

// endOfLog returns what the log has at the start.
func (s *writer) endOfLog(ctx context.Context, files fold.Files) (eventlog.Info, error) {
	info, err := s.log.Info(ctx, 0)
	if s.nodes == nil || err != nil {
		return info, err
	}
	seqs, err := files.List()
	for since := s.opt.Clock.Mark(); err == nil && len(seqs) > 0 && seqs[0] > info.Last &&
		s.opt.Clock.Since(since) < leaderWait; {
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-s.opt.Clock.After(200 * time.Millisecond):
		}
		info, err = s.log.Info(ctx, 0)
	}
	return info, err
}

// raiseLog writes the record that raises the log to the version of its committer. A log that takes
// nothing at present is raised by the first batch that it takes, which needs no record: the version in
// the header of a batch decides.
func (s *writer) raiseLog(ctx context.Context, version uint16) {
	r := &eventlog.Control{Act: eventlog.RaiseVersion, Version: uint32(version), Time: s.opt.Clock.Now().UnixNano()}
	if _, err := s.append(ctx, r); err != nil {
		s.opt.Logger.Warn("the record that raises the log's version was not written", "version", version, "error",
			err.Error())
		return
	}
	s.opt.Logger.Info("the log was raised; earlier programs cannot read it any more", "version", version)
}

// calls counts the calls under way, for back-pressure and for Close. It has no mutex: hundreds of calls that
// wake together would queue for it.
type calls struct {
	n      atomic.Int64
	closed atomic.Bool
	idle   chan struct{} // closed when closed and n = 0
	once   sync.Once
	done   func() // writer.end
}
