package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
)

// Server is the Service of one data directory.
type Server struct {
	opt  Options
	log  eventlog.Log
	own  *eventlog.JetStream // closed by Close; nil when the log was given
	keys eventlog.IDKeys
	past *history

	committer *eventlog.Committer
	chain     *eventlog.Chain // only the applier uses it after Open

	mu   sync.RWMutex // guards fold
	fold *fold

	names atomic.Pointer[map[string]*entry] // what Decide sees

	progress // how far the applier is

	admin     sync.Mutex // one control act at a time
	retaining sync.Mutex // one trim at a time
	calls     calls
	recent    recent            // the newest decisions
	reread    recent            // decisions of entries that were read again
	reading   [64]chan struct{} // by entry: who reads one
	wanted    wanted
	pending   pending
	turn      chan struct{} // one for each processor, not for each thread: who chooses
	windows   windows

	snapshots snapshots

	started  time.Time
	recovery Recovery
	full     atomic.Bool
	refused  atomic.Uint64
	forged   atomic.Uint64
	missing  atomic.Uint64
	open     atomic.Int64
	known    atomic.Int64 // idempotency keys

	stop    context.CancelFunc // of the applier and the timers
	ctx     context.Context
	workers sync.WaitGroup
	closing sync.Once
	closed  error
}

// entry is a model as Decide sees it.
type entry struct {
	version atomic.Pointer[version]
	bench   bench
}

var _ Service = (*Server)(nil)

// Open opens the data directory, folds the log and begins to serve. It returns when the state is that
// of the end of the log. A damaged log is an error that names the place (*eventlog.DamagedError,
// *eventlog.ChainError, *eventlog.GapError); a directory that another process uses is an
// *eventlog.LockedError; nothing was written then. Close must be called.
func Open(ctx context.Context, o Options) (_ *Server, err error) {
	o.defaults()
	if o.Dir == "" && o.Log == nil {
		return nil, errors.New("serve: neither Dir nor Log is set")
	}
	s := &Server{opt: o, log: o.Log, keys: o.Keys, started: o.Now()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.calls.idle, s.calls.done = make(chan struct{}), s.end
	s.turn = make(chan struct{}, min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	for i := range s.reading {
		s.reading[i] = make(chan struct{}, 1)
	}
	defer func() {
		if err != nil {
			s.stop()
			if s.own != nil {
				err = errors.Join(err, s.own.Close())
			}
		}
	}()
	if s.log == nil {
		js := o.JetStream
		js.Shards = 1
		if s.own, err = eventlog.OpenJetStream(ctx, filepath.Join(o.Dir, "log"), js); err != nil {
			return nil, err
		}
		s.log = s.own
	}
	if len(s.keys.Keys) == 0 {
		info, err := s.log.Info(ctx, 0)
		if err != nil {
			return nil, err
		}
		if s.keys, err = loadKeys(o.Dir, info.Last == 0); err != nil {
			return nil, err
		}
	}
	if err := s.keys.Check(); err != nil {
		return nil, err
	}
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	c := o.Committer
	c.Shard, c.Head, c.Now = 0, s.chain.Head(), o.Now
	if c.Batch == 0 {
		c.Batch = eventlog.MaxBatch // decisions with their candidates are some kilobytes each
	}
	if s.committer, err = eventlog.NewCommitter(s.log, c); err != nil {
		return nil, err
	}
	s.workers.Go(s.apply)
	if o.ExpireEvery > 0 {
		s.workers.Go(s.expireLoop)
	}
	if o.TrimEvery > 0 && (o.Keep > 0 || o.KeepBytes > 0) {
		s.workers.Go(s.retainLoop)
	}
	return s, nil
}

func (o *Options) defaults() {
	set := func(at *int, v int) {
		if *at == 0 {
			*at = v
		}
	}
	set(&o.Limits.Feature.Actions, 1000)
	set(&o.Limits.Feature.Bytes, 1<<20)
	set(&o.Limits.Models, 10_000)
	set(&o.Limits.Members, 1000)
	set(&o.Limits.Batch, 256)
	set(&o.Limits.Rewards, 10_000)
	set(&o.Limits.InFlight, 8192)
	set(&o.Limits.Open, 4_000_000)
	set(&o.SnapshotEvery, 200_000)
	for _, d := range []struct {
		at *time.Duration
		v  time.Duration
	}{{&o.SnapshotAfter, time.Minute}, {&o.ExpireEvery, 200 * time.Millisecond}, {&o.Wait, 5 * time.Second}, {&o.TrimEvery, 10 * time.Minute}} {
		if *d.at == 0 {
			*d.at = d.v
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// logReader gives a history the log.
type logReader struct{ s *Server }

func (l logReader) get(seq uint64) (eventlog.Entry, error) { return l.s.log.Get(l.s.ctx, 0, seq) }

func (l logReader) replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
	for d, err := range eventlog.Replay(l.s.ctx, l.s.log, c, until) {
		if err == nil {
			err = f(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recover makes the fold of the whole log, from the newest snapshot that can be used.
func (s *Server) recover(ctx context.Context) error {
	begin := time.Now()
	info, err := s.log.Info(ctx, 0)
	if err != nil {
		return err
	}
	s.past = &history{log: logReader{s}, nearest: s.nearest}
	s.past.first.Store(info.First)
	s.snapshots.dir, s.snapshots.base = "", s.past.base.Load
	if s.opt.Dir != "" {
		s.snapshots.dir = filepath.Join(s.opt.Dir, "snapshots")
	}
	if s.fold, s.chain, err = s.newest(ctx, info); err != nil {
		return err
	}
	if s.fold == nil {
		if info.First > 1 {
			return fmt.Errorf("serve: the log was trimmed, it begins with entry %d; no snapshot in %s can be its base: put one back from a backup%s",
				info.First, s.snapshots.dir, strings.Join(append([]string{""}, s.recovery.Skipped...), "\n  "))
		}
		s.fold, s.chain = newFold(s.past), eventlog.NewChain(0, 1)
	}
	s.recovery.Snapshot = s.fold.seq
	if info.First > 1 {
		base, err := s.oldest(ctx, info)
		if err != nil {
			return err
		}
		s.past.base.Store(base)
	}
	if err := s.catchUp(ctx, info.Last); err != nil {
		return err
	}
	s.recovery.Took = time.Since(begin)
	s.snapshots.since, s.snapshots.at = int(s.recovery.Events), time.Now()
	s.progress.init(s.fold.seq)
	empty := map[string]*entry{}
	s.names.Store(&empty)
	return s.publish()
}

// catchUp folds the entries up to last.
func (s *Server) catchUp(ctx context.Context, last uint64) error {
	for d, err := range eventlog.Replay(ctx, s.log, s.chain, last) {
		if err != nil {
			return err
		}
		if _, err := s.fold.apply(d); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		s.recovery.Batches++
		s.recovery.Events += uint64(d.Count)
	}
	return nil
}

// publish makes the versions of what has changed. The caller holds mu, or is alone.
func (s *Server) publish() error {
	for _, m := range s.fold.marked {
		if m.dirty = false; m.deleted || m.successor != 0 {
			continue
		}
		if _, err := m.snapshot(); err != nil {
			return fmt.Errorf("model %v: %w", m.id, err)
		}
		m.state.hold() // the fold does, too
		old := m.entry.version.Swap(&version{id: m.id, root: m.root, cfg: m.cfg, number: m.version, seed: m.seed, seq: s.fold.seq, paused: m.paused,
			failed: m.failed, state: m.state, digest: m.state.sum()})
		if old != nil {
			old.state.release()
		}
	}
	if s.fold.marked = s.fold.marked[:0]; s.fold.renamed {
		s.fold.renamed = false
		names := make(map[string]*entry, len(s.fold.names))
		for name, m := range s.fold.names {
			names[name] = &m.entry
		}
		s.names.Store(&names)
	}
	s.open.Store(s.fold.waiting)
	s.known.Store(int64(len(s.fold.keys)))
	s.windows.add(s.fold.opened)
	s.fold.opened = s.fold.opened[:0]
	return nil
}

// apply follows the log until Close. When it meets damage it stops, and with it everything that
// would write.
func (s *Server) apply() {
	for d, err := range eventlog.Follow(s.ctx, s.log, s.chain) {
		if err == nil {
			err = s.applyOne(d)
		}
		if err != nil {
			if s.ctx.Err() == nil {
				s.opt.Logger.Error("the server has stopped", "error", err.Error())
			}
			s.progress.fail(err)
			return
		}
		s.maybeSnapshot(int(d.Count))
	}
}

func (s *Server) applyOne(d eventlog.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := s.fold.apply(d)
	if err == nil {
		err = s.publish()
	}
	if err == nil {
		s.progress.advance(d.Seq, out)
	}
	return err
}

// progress is how far the applier is, and what came of the newest records.
type progress struct {
	pmu      sync.Mutex
	applied  atomic.Uint64
	outcomes map[uint64][]outcome
	oldest   uint64
	failed   error
	down     atomic.Bool        // failed is set
	waiting  map[uint64]*waiter // by entry
}

// waiter is what the callers that wait for one entry share.
type waiter struct {
	done    chan struct{} // closed when the entry is applied, or none will be any more
	out     []outcome     // set before that, or err
	err     error
	callers int
}

// outcomesKept is for how many entries the outcomes are remembered. A caller that waits for its own
// is there long before.
const outcomesKept = 4096

func (p *progress) init(seq uint64) {
	p.applied.Store(seq)
	p.outcomes, p.oldest, p.waiting = map[uint64][]outcome{}, seq+1, map[uint64]*waiter{}
}

func (p *progress) advance(seq uint64, out []outcome) {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	p.applied.Store(seq)
	p.outcomes[seq] = out
	for ; p.oldest+outcomesKept <= seq; p.oldest++ {
		delete(p.outcomes, p.oldest)
	}
	if w := p.waiting[seq]; w != nil {
		w.out = out
		close(w.done)
		delete(p.waiting, seq)
	}
}

func (p *progress) fail(err error) {
	p.pmu.Lock()
	defer p.pmu.Unlock()
	if p.failed == nil {
		p.failed = err
		p.down.Store(true)
		for _, w := range p.waiting {
			w.err = err
			close(w.done)
		}
		clear(p.waiting)
	}
}

func (p *progress) failure() error {
	if !p.down.Load() {
		return nil
	}
	p.pmu.Lock()
	defer p.pmu.Unlock()
	return p.failed
}

// until waits until entry seq is applied and returns its outcomes, nil when they are forgotten.
func (p *progress) until(ctx context.Context, seq uint64) ([]outcome, error) {
	return p.within(ctx, seq, nil)
}

// within is until, or at most until the timer has sent; nil is no limit. It says then what a context says
// whose deadline has passed. The callers of an entry wake together: what they wait for is handed to them,
// and the mutex is left alone.
func (p *progress) within(ctx context.Context, seq uint64, limit <-chan time.Time) ([]outcome, error) {
	p.pmu.Lock()
	if p.applied.Load() >= seq {
		defer p.pmu.Unlock()
		return p.outcomes[seq], nil
	}
	if p.failed != nil {
		defer p.pmu.Unlock()
		return nil, p.failed
	}
	w := p.waiting[seq]
	if w == nil {
		w = &waiter{done: make(chan struct{})}
		p.waiting[seq] = w
	}
	w.callers++
	p.pmu.Unlock()
	err := context.DeadlineExceeded
	select {
	case <-w.done:
		return w.out, w.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit:
	}
	p.pmu.Lock()
	defer p.pmu.Unlock()
	if w.callers--; w.callers == 0 && p.waiting[seq] == w {
		delete(p.waiting, seq)
	}
	return nil, err
}

// timers that are stopped: a reward needs one for some milliseconds.
var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

// calls counts what is under way, for back-pressure and for Close. It has no mutex: every call goes
// through here twice, and hundreds that wake together would queue for it.
type calls struct {
	n      atomic.Int64
	closed atomic.Bool
	idle   chan struct{} // closed when closed and n = 0
	once   sync.Once
	done   func() // Server.end
}

// begin admits a call. done must be called at its end.
func (s *Server) begin(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
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
func (s *Server) enter() { s.calls.n.Add(1) }

func (s *Server) end() {
	if c := &s.calls; c.n.Add(-1) == 0 && c.closed.Load() {
		c.once.Do(func() { close(c.idle) })
	}
}

// drain refuses new calls and waits for those under way, until ctx ends.
func (s *Server) drain(ctx context.Context) {
	s.enter() // so that somebody ends after closed was set
	s.calls.closed.Store(true)
	s.end()
	select {
	case <-s.calls.idle:
	case <-ctx.Done():
	}
}

// beginWrite admits a call that will write.
func (s *Server) beginWrite(ctx context.Context) (done func(), err error) {
	if err := s.stopped(); err != nil {
		return nil, err
	}
	return s.begin(ctx)
}

// stopped is the error of every call that writes, while the log is damaged or the engine is gone. It
// passes when the engine comes back by itself.
func (s *Server) stopped() error {
	if err := s.progress.failure(); err != nil {
		return &Error{Code: Unavailable, Want: "read-only: " + err.Error(), Err: err}
	}
	var err error
	if l, ok := s.log.(interface{ Err() error }); ok {
		err = l.Err()
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

// Close refuses new calls, lets those under way finish, writes a snapshot and closes the log. When
// ctx ends first it gives up on what is left: calls then end with an unknown outcome.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closed = s.close(ctx) })
	return s.closed
}

func (s *Server) close(ctx context.Context) error {
	s.drain(ctx)
	s.windows.stop()
	err := s.committer.Close(ctx)
	head := s.committer.Stats().Head.Seq
	if _, e := s.progress.until(ctx, head); e != nil {
		err = errors.Join(err, e)
	}
	s.stop()
	s.workers.Wait()
	s.snapshots.wait()
	if s.progress.stoppedClean() {
		err = errors.Join(err, s.writeSnapshot())
		s.snapshots.wait()
	}
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}

// stoppedClean says that the applier ended because it was told to.
func (p *progress) stoppedClean() bool {
	err := p.failure()
	return err == nil || errors.Is(err, context.Canceled)
}

// append writes records and turns refusals into errors of a Service.
func (s *Server) append(ctx context.Context, records ...eventlog.Record) (eventlog.Receipt, error) {
	receipt, err := s.committer.Append(ctx, records...)
	if err == nil {
		if s.full.Load() && s.full.CompareAndSwap(true, false) {
			s.opt.Logger.Info("the log takes records again")
		}
		return receipt, nil
	}
	e := &Error{Code: Unavailable, Want: "the log does not answer", RetryAfter: time.Second, Err: err}
	switch {
	case errors.Is(err, eventlog.ErrFull):
		if s.full.CompareAndSwap(false, true) { // it says whether it is the disk or the limit
			s.opt.Logger.Error("the log is full, decisions and rewards are refused", "error", err.Error())
		}
		e.Code, e.Want, e.RetryAfter = Full, "the log is full", 10*time.Second
	case errors.Is(err, eventlog.ErrBusy):
		s.refused.Add(1)
		e.Code, e.Want = TooBusy, "too much is waiting for the log"
	case errors.Is(err, eventlog.ErrUnknown):
		e.Want, e.Unknown = "nobody knows whether it was recorded", true
	case errors.Is(err, eventlog.ErrTooLarge):
		e.Code, e.Want, e.RetryAfter = Invalid, fmt.Sprintf("expected a request whose record is below %d bytes", eventlog.MaxBatch), 0
	case errors.Is(err, eventlog.ErrMalformed):
		e.Code, e.Want, e.RetryAfter = Internal, "the record was refused", 0
	}
	return receipt, e
}

// applied waits until the records of a receipt are applied and returns their outcomes.
func (s *Server) applied(ctx context.Context, r eventlog.Receipt, n int) ([]outcome, error) {
	limit := timers.Get().(*time.Timer)
	limit.Reset(s.opt.Wait)
	out, err := s.progress.within(ctx, r.Seq, limit.C)
	limit.Stop()
	timers.Put(limit)
	if err == nil && len(out) < int(r.Event.Index)+n {
		err = errors.New("the outcome is no longer known")
	}
	if err != nil {
		return nil, &Error{Code: Unavailable, Want: "it is recorded, what came of it is not known yet", RetryAfter: time.Second, Unknown: true, Err: err}
	}
	return out[r.Event.Index : int(r.Event.Index)+n], nil
}

// write appends one record and waits for its outcome.
func (s *Server) write(ctx context.Context, r eventlog.Record) (outcome, uint64, error) {
	receipt, err := s.append(ctx, r)
	if err != nil {
		return none, 0, err
	}
	out, err := s.applied(ctx, receipt, 1)
	if err != nil {
		return none, receipt.Seq, err
	}
	return out[0], receipt.Seq, nil
}

// Health implements Service.
func (s *Server) Health() Health {
	stats := s.committer.Stats()
	h := Health{
		Ready: true, Applied: s.progress.applied.Load(), Log: stats.Head.Seq, Epoch: s.committer.Epoch(), Committer: stats,
		Full: s.full.Load(), Models: len(*s.names.Load()), Open: uint64(max(0, s.open.Load())), Keys: uint64(s.known.Load()), Refused: s.refused.Load(),
		Forged: s.forged.Load(), Missing: s.missing.Load(), Started: s.started, Recovery: s.recovery,
	}
	h.Lag, _ = bits.Sub64(max(h.Log, h.Applied), h.Applied, 0)
	h.Snapshot, h.SnapshotError = s.snapshots.status()
	h.InFlight = s.calls.n.Load()
	closed := s.calls.closed.Load()
	err := s.stopped()
	var gap *eventlog.GapError
	var chain *eventlog.ChainError
	var files *eventlog.DamagedError
	if errors.As(err, &gap) || errors.As(err, &chain) || errors.As(err, &files) {
		h.Damage = errors.Unwrap(err).Error()
	}
	switch {
	case err != nil:
		h.Ready, h.Reason = false, err.(*Error).Want
		h.Full = h.Full || CodeOf(err) == Full
	case closed:
		h.Ready, h.Reason = false, "the server is shutting down"
	case h.Full:
		h.Ready, h.Reason = false, "the log is full"
	}
	return h
}

// model returns the version of a model by name.
func (s *Server) model(name string) (*entry, *version, error) {
	e := (*s.names.Load())[name]
	if e == nil {
		return nil, nil, &Error{Code: NotFound, Field: "model", Value: name, Want: "there is no such model"}
	}
	return e, e.version.Load(), nil
}

// ListModels implements Service.
func (s *Server) ListModels(ctx context.Context, after string, limit int) ([]Model, bool, error) {
	if limit == 0 {
		limit = 100
	}
	if limit < 1 || limit > 1000 {
		return nil, false, invalid("limit", limit, "expected 1 to 1000")
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := slices.Sorted(maps.Keys(s.fold.names))
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	names = names[from:]
	more := len(names) > limit
	models := []Model{}
	for _, n := range names[:min(limit, len(names))] {
		models = append(models, s.fold.names[n].view())
	}
	return models, more, nil
}

// GetModel implements Service.
func (s *Server) GetModel(ctx context.Context, name string) (Model, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return Model{}, err
	}
	defer done()
	return s.view(name)
}

func (s *Server) view(name string) (Model, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.fold.names[name]
	if m == nil {
		return Model{}, &Error{Code: NotFound, Field: "model", Value: name, Want: "there is no such model"}
	}
	return m.view(), nil
}

func (m *model) view() Model {
	return Model{
		Name: m.cfg.config.ID, Incarnation: m.id, Config: m.cfg.config, ConfigVersion: m.version, Paused: m.paused, Dim: m.cfg.dim,
		Warnings: m.cfg.warnings, Created: m.created, Changed: m.changed, Counts: m.counts, Failed: m.failed,
	}
}
