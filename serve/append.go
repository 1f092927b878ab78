package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
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
	if l, ok := s.log.(interface{ Err() error }); ok {
		err = l.Err()
	}
	var down *eventlog.ReplicaDownError
	var cut *eventlog.CutOffError
	var repairing *eventlog.RepairingError
	if errors.As(err, &down) || errors.As(err, &cut) || errors.As(err, &repairing) { // the reason why nothing comes back, so it is said first
		return &Error{Code: Unavailable, Want: err.Error(), RetryAfter: time.Second, Err: err}
	}
	if s.nodes != nil {
		if err := cmp.Or(s.nodes.cutOff(), s.nodes.doubtful()); err != nil {
			return err
		}
	}
	if err == nil {
		err = s.committer.Err()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, eventlog.ErrFull):
		return &Error{Code: Full, Want: "the log is full", RetryAfter: 10 * time.Second, Err: err}
	case errors.Is(err, eventlog.ErrDown), errors.Is(err, eventlog.ErrUnsettled):
		return &Error{Code: Unavailable, Want: "the log is being opened again", RetryAfter: time.Second, Err: err}
	}
	return &Error{Code: Unavailable, Want: "the log has stopped; the server must be restarted", Err: err}
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
	case errors.Is(err, eventlog.ErrVersion):
		e.Code, e.Want, e.RetryAfter = Conflict, "the log is kept at a version that has no such record (--log-version)",
			0
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
	limit := s.progress.timers.Get().(*time.Timer)
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
