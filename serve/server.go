package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/decide"
	"troupe/serve/fold"
	"troupe/serve/recent"
)

// Server is the Service of one data directory.
type Server struct {
	opt  Options
	log  eventlog.Log
	own  *eventlog.JetStream // closed by Close; nil when the log was given
	keys eventlog.IDKeys
	past *fold.History

	batches *eventlog.BatchKeys // of keys

	committer *eventlog.Committer
	chain     *eventlog.Chain // only the applier uses it after Open

	mu      sync.RWMutex // guards fold and entries
	fold    *fold.Fold
	entries map[eventlog.ID]*entry // of the models that have a name, by incarnation

	names atomic.Pointer[map[string]*entry] // what Decide sees

	progress // how far the applier is

	admin     sync.Mutex    // one control act at a time
	retaining sync.Mutex    // one trim at a time
	due       chan struct{} // a model may have enough rewards to learn a schema
	recasting sync.Mutex    // one copy with another policy at a time
	calls     calls
	recent    *recent.Decisions
	shown     shown // the newest requests
	decider   *decide.Decider
	choosing  chan struct{} // semaphore: one decision for each processor chooses at a time
	windows   windows

	snapshots snapshots
	bases     bases
	lagging   lagging
	replica   replicaCheck
	nodes     *nodes // of a cluster, nil on a single machine
	unwritten unwritten

	started  time.Time
	recovery Recovery
	based    atomic.Uint64 // entry of the newest base that the log of a cluster names
	full     atomic.Bool
	space    space
	refused  atomic.Uint64
	open     atomic.Int64
	known    atomic.Int64 // idempotency keys
	joint    bool         // several nodes have written the log
	lawful   bool         // the log is written in a version that has the law of a decision

	stop    context.CancelFunc // of the applier and the timers
	ctx     context.Context
	workers sync.WaitGroup
	closing sync.Once
	closed  error
}

// entry is a model as Decide sees it.
type entry struct {
	server  *Server
	version atomic.Pointer[choose.Version]
	workers choose.Pool
	used    atomic.Bool // it has decided since the last look of layAside
	pace    pace        // of the requests that are remembered
	observed
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
	s.due = make(chan struct{}, 1)
	s.shown.limit = shownBytes
	if n := o.Limits.ModelBytes; n > 0 {
		s.shown.limit = int(min(shownBytes, n/16))
	}
	s.calls.idle, s.calls.done = make(chan struct{}), s.end
	s.lagging.step = bandit.Work.Step
	s.choosing = make(chan struct{}, min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	defer func() {
		if err != nil {
			s.stop()
			if s.own != nil {
				err = errors.Join(err, s.own.Close())
			}
		}
	}()
	if err := s.openLog(ctx); err != nil {
		return nil, err
	}
	if o.Cluster != nil {
		if s.nodes, err = newNodes(*o.Cluster, s.keys); err != nil {
			return nil, err
		}
	}
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	s.joint = s.nodes != nil || s.chain.Format() == eventlog.Format3
	c, err := s.committerOptions()
	if err != nil {
		return nil, err
	}
	raise, err := s.logVersion(ctx, &c)
	if err != nil {
		return nil, err
	}
	if s.lawful = c.Version >= 2; s.lawful {
		if err := s.fold.MarkLearned(); err != nil {
			return nil, err
		}
		if err := s.publish(); err != nil {
			return nil, err
		}
	}
	if s.committer, err = eventlog.NewCommitter(s.log, c); err != nil {
		return nil, err
	}
	s.decider = s.newDecider()
	names, _ := s.namesOfLog()
	s.fold.Defer()
	s.workers.Go(s.apply)
	if s.lawful {
		s.workers.Go(s.learnLoop)
	}
	if raise {
		s.raiseLog(ctx, c.Version)
	}
	if s.nodes == nil && names != nil && !o.KeepLogVersion {
		s.leave(ctx, names)
	}
	if s.nodes != nil {
		s.nodes.contact.Store(noContact)
		s.workers.Go(s.nodeLoop)
		s.workers.Go(s.baseLoop)
	}
	s.startLoops()
	if s.nodes != nil {
		s.nodes.await(ctx)
	}
	return s, nil
}

// openLog opens the log of a single machine unless there is one, and reads the keys of event ids unless they were
// given.
func (s *Server) openLog(ctx context.Context) (err error) {
	if s.log == nil {
		js := s.opt.JetStream
		js.Shards = 1
		if len(s.keys.Keys) > 0 {
			js.Keys = s.keys.Batches()
		} else {
			js.Keys = BatchKeys(s.opt.Dir)
		}
		if s.own, err = eventlog.OpenJetStream(ctx, filepath.Join(s.opt.Dir, "log"), js); err != nil {
			return err
		}
		s.log = s.own
	}
	if len(s.keys.Keys) == 0 {
		info, err := s.log.Info(ctx, 0)
		if err != nil {
			return err
		}
		if s.keys, err = loadKeys(s.opt.Dir, info.Last == 0); err != nil {
			return err
		}
	}
	s.batches = s.keys.Batches()
	return s.keys.Check()
}

// committerOptions are those of a writer that goes on from what was recovered; a node of a cluster that does not fit
// the log is an error.
func (s *Server) committerOptions() (eventlog.CommitterOptions, error) {
	c := s.opt.Committer
	c.Shard, c.Head, c.Now, c.Keys = 0, s.chain.Head(), s.opt.Now, s.batches
	// the log was a cluster's; this is its only writer now
	if c.Format = s.chain.Format(); c.Format == eventlog.Format3 {
		c.Head, _ = s.chain.Rolling()
	}
	if c.Format == eventlog.Format3 {
		if err := s.lostKey(); err != nil {
			return c, err
		}
	}
	if s.nodes != nil {
		if err := cmp.Or(s.fits(), s.fitKeys()); err != nil {
			return c, err
		}
		s.nodes.rolling.Store(&eventlog.Head{})
		s.nodes.advance(s.chain, s.fold.Clock())
		c.Format, c.Applied = eventlog.Format3, s.nodes.appliedHead
		// A leader that is gone does not answer, and one that steps down forgets what it has not stored.
		c.Try, c.FirstTry = cmp.Or(c.Try, 2*time.Second), cmp.Or(c.FirstTry, 250*time.Millisecond)
		c.Head = s.nodes.appliedHead()
	}
	if c.Batch == 0 {
		c.Batch = eventlog.MaxBatch // decisions with their candidates are some kilobytes each
	}
	return c, nil
}

// startLoops starts what the server does by the clock.
func (s *Server) startLoops() {
	o := &s.opt
	if o.LayAside > 0 {
		s.workers.Go(s.asideLoop)
	}
	if o.ExpireEvery > 0 {
		s.workers.Go(s.expireLoop)
	}
	s.workers.Go(s.spaceLoop)
	if o.TrimEvery > 0 && (o.Keep > 0 || o.KeepBytes > 0) {
		s.workers.Go(s.retainLoop)
	}
}

// logReader gives a history the log.
type logReader struct{ s *Server }

func (l logReader) Get(seq uint64) (eventlog.Entry, error) { return l.s.log.Get(l.s.ctx, 0, seq) }

func (l logReader) Replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
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
	s.snapshots.files = snapshotFiles(s.opt.Dir)
	info, err := s.endOfLog(ctx)
	if err != nil {
		return err
	}
	s.space.set(info)
	s.past = &fold.History{Log: logReader{s}, Nearest: s.snapshots.files.Nearest, Keys: s.batches,
		KeysKept: s.opt.keysKept}
	s.past.First.Store(info.First)
	s.recent = recent.New(recent.Options{Keys: s.keys, Log: s.log, Past: s.past, Here: s.here, Logger: s.opt.Logger})
	s.snapshots.base = s.past.Base.Load
	s.bases = bases{log: s.log, batches: s.batches, past: s.past, files: s.snapshots.files, logger: s.opt.Logger}
	if s.nodes != nil {
		s.bases.imported = s.nodes.ImportedBase
	}
	if s.fold, s.chain, err = s.newest(ctx, info); err != nil {
		return err
	}
	var untaken error
	if s.fold == nil && info.First > 1 && s.nodes != nil {
		if untaken = s.bases.take(ctx, info.First); untaken == nil {
			if s.fold, s.chain, err = s.newest(ctx, info); err != nil {
				return err
			}
		}
	}
	if s.fold == nil {
		if info.First > 1 && s.nodes != nil {
			return fmt.Errorf("serve: the log was trimmed, it begins with entry %d; this node has no base, and "+
				"cannot take one from the others: %w", info.First, untaken)
		}
		if info.First > 1 {
			return fmt.Errorf("serve: the log was trimmed, it begins with entry %d; no snapshot in %s can be its "+
				"base: put one back from a backup%s",
				info.First, s.snapshots.files, strings.Join(append([]string{""}, s.recovery.Skipped...), "\n  "))
		}
		s.fold, s.chain = fold.New(s.past), s.past.Chain(1)
	}
	s.recovery.Snapshot = s.fold.Seq()
	if info.First > 1 {
		base, err := s.oldest(ctx, info)
		if err != nil {
			return err
		}
		s.past.Base.Store(base)
	}
	if err := s.catchUp(ctx, info.Last); err != nil {
		return err
	}
	if err := s.bases.confirm(s.fold.Base()); err != nil {
		return err
	}
	if s.noteUnwritten(); s.unwritten.count.Load() > 0 {
		s.opt.Logger.Error("entries of the log have no effect, because no node of this cluster has written them",
			"entries", s.unwritten.count.Load(), "newest", s.unwritten.newest.Load())
	}
	if n := s.unwritten.declared.Load(); n > 0 {
		s.opt.Logger.Warn("entries of the log have no effect, because an operator has declared them void", "entries", n)
	}
	s.noteBase()
	s.recovery.Took = time.Since(begin)
	s.snapshots.since, s.snapshots.at = int(s.recovery.Events), time.Now()
	s.progress.init(s.fold.Seq())
	s.entries = map[eventlog.ID]*entry{}
	s.names.Store(&map[string]*entry{})
	return s.publish()
}

// catchUp folds the entries up to last.
func (s *Server) catchUp(ctx context.Context, last uint64) error {
	for d, err := range eventlog.Replay(ctx, s.log, s.chain, last) {
		if err != nil {
			return err
		}
		if _, err := s.fold.Apply(d); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		s.recovery.version = max(s.recovery.version, d.Version)
		s.recovery.Batches++
		s.recovery.Events += uint64(d.Count)
	}
	return nil
}

// publish makes the versions of the models that have changed. The caller holds mu, or is alone.
func (s *Server) publish() error {
	for _, m := range s.fold.TakeChanged() {
		if m.Deleted || m.Successor != 0 {
			delete(s.entries, m.ID)
			if m.Deleted {
				s.shown.forget(m.Name())
			}
			continue
		}
		e := s.entries[m.ID]
		if e == nil {
			e = &entry{server: s}
			s.entries[m.ID] = e
		}
		var v *choose.Version
		if old := e.version.Load(); m.Lagging() && old != nil {
			v = old.Meanwhile(m)
			s.follow(m)
		} else {
			var err error
			if v, err = choose.VersionOf(m, s.fold.Seq()); err != nil {
				return fmt.Errorf("model %v: %w", m.ID, err)
			}
		}
		if m.Due(s.kept()) {
			s.wakeLearner()
		}
		v.State.Publish() // the published version holds it, beside the fold
		if old := e.version.Swap(v); old != nil {
			old.State.Release()
		}
	}
	if s.fold.TakeRenamed() {
		names := map[string]*entry{}
		for m := range s.fold.Models() {
			if e := s.entries[m.ID]; e != nil {
				names[m.Name()] = e
			}
		}
		s.names.Store(&names)
	}
	s.open.Store(s.fold.Waiting())
	s.known.Store(int64(s.fold.Keys()))
	s.windows.add(s.fold.TakeOpened())
	return nil
}

// briefEntry is the number of events of an entry during which decisions of a model that learns may wait.
const briefEntry = 4

// publishedOf returns the published version of a model, after the entry that is being applied: the state of the one
// before may be gone already.
func (s *Server) publishedOf(e *entry) *choose.Version {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return e.version.Load()
}

// apply follows the log until Close. When it meets damage it stops, and then nothing is written any more.
func (s *Server) apply() {
	for d, err := range eventlog.Follow(s.ctx, s.log, s.chain) {
		if err == nil && d.Unwritten != "" {
			s.tellUnwritten(d)
		}
		if err == nil {
			err = s.applyOne(d)
		}
		if err != nil {
			if s.ctx.Err() == nil {
				s.opt.Logger.Error("the server has stopped", "error", err.Error())
			}
			s.progress.fail(err)
			// the next start must not take the state from them
			if differs := (*DifferError)(nil); errors.As(err, &differs) {
				s.snapshots.wait()
				if err := s.snapshots.files.SetAside(s.past.Base.Load()+1, ".differs"); err != nil {
					s.opt.Logger.Error("snapshots are not set aside", "error", err.Error())
				}
			}
			return
		}
		s.maybeSnapshot(int(d.Count))
	}
}

func (s *Server) applyOne(d eventlog.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clock := s.fold.Clock()
	s.fold.Brief(d.Count <= briefEntry)
	out, err := s.fold.Apply(d)
	if err == nil {
		err = s.publish()
	}
	if err == nil && s.nodes != nil {
		err = s.superseded(d)
	}
	if err == nil && s.nodes != nil {
		s.nodes.advance(s.chain, s.fold.Clock())
		if err = s.mark(d.Seq, clock, s.fold.Clock()); err == nil {
			err = s.hear(d)
		}
	}
	if err == nil {
		s.noteBase()
		s.progress.advance(d.Seq, out)
	}
	return err
}

// Close refuses new calls, lets those under way finish, writes a snapshot and closes the log. When
// ctx ends first it gives up on what is left: calls then end with an unknown outcome.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closed = s.close(ctx) })
	return s.closed
}

// settle lets all models catch up, after the applier has ended.
func (s *Server) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.fold.Models() {
		s.fold.Settle(m)
	}
}

func (s *Server) close(ctx context.Context) error {
	s.drain(ctx)
	s.windows.stop()
	last := ctx
	// the calls are answered; what may be under way is a checkpoint of a node that reaches no majority
	if s.nodes != nil {
		var cancel context.CancelFunc
		last, cancel = context.WithTimeout(ctx, closeWait)
		defer cancel()
	}
	err := s.committer.Close(last)
	if s.nodes != nil && errors.Is(err, eventlog.ErrStopped) && s.nodes.silence() > closeWait {
		err = nil // see above
	}
	head := s.committer.Stats().Head.Seq
	if _, e := s.progress.until(ctx, head); e != nil {
		err = errors.Join(err, e)
	}
	s.stop()
	s.workers.Wait()
	s.snapshots.wait()
	s.settle()
	if s.progress.stoppedClean() {
		err = errors.Join(err, s.writeSnapshot())
		s.snapshots.wait()
	}
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}
