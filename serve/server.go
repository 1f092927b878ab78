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
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/decide"
	"troupe/serve/fold"
	"troupe/serve/recent"
	"troupe/serve/shelf"
)

// Server is the Service of one data directory. It wires its parts and has no work of its own: the state and the writer
// are below all others, of which none knows another unless its fields say so.
type Server struct {
	*lifetime
	*state
	*writer

	*control
	*decisions
	*rewards
	*reading
	*exports
	moves *moves

	applier   *applier
	snapshots *snapshots
	aside     *aside
	expiry    *expiry
	trimmer   *trimmer
	member    *member

	own     *eventlog.Disk // closed by Close; nil when the log was given
	keys    eventlog.IDKeys
	batches *eventlog.BatchKeys // of keys
	recent  *recent.Decisions
	bases   bases
	space   space

	started  time.Time
	recovery Recovery
	closing  sync.Once
	closed   error
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
	s := newServer(o)
	defer func() {
		if err != nil {
			s.stop()
			err = errors.Join(err, s.closeFiles())
		}
	}()
	if err := s.openLog(ctx); err != nil {
		return nil, err
	}
	if o.Cluster != nil {
		if s.nodes, err = newNodes(*o.Cluster, s.keys, o.Clock); err != nil {
			return nil, err
		}
	}
	if err := s.recover(ctx); err != nil {
		return nil, err
	}
	c, err := s.committerOptions()
	if err != nil {
		return nil, err
	}
	raise, err := s.logVersion(ctx, &c)
	if err != nil {
		return nil, err
	}
	if s.committer, err = eventlog.NewCommitter(s.log, c); err != nil {
		return nil, err
	}
	s.wire()
	names, _ := s.member.namesOfLog()
	s.fold.Defer()
	s.workers.Go(s.applier.apply)
	if raise {
		s.raiseLog(ctx, c.Version)
	}
	if s.nodes == nil && names != nil && !o.KeepLogVersion {
		s.leave(ctx, names)
	}
	if s.nodes != nil {
		s.nodes.contact.Store(noContact)
		s.workers.Go(s.member.nodeLoop)
		s.workers.Go(s.trimmer.agreement.baseLoop)
		if s.nodes.Engine != nil {
			s.workers.Go(s.member.membersLoop)
			s.workers.Go(s.member.groupsLoop)
		}
		if s.nodes.Repair != nil {
			s.workers.Go(s.member.mendLoop)
		}
		if s.nodes.Walk != nil && s.nodes.Care != nil && s.nodes.WalkEvery > 0 {
			s.workers.Go(s.member.walkLoop)
		}
	}
	s.startLoops()
	if s.nodes != nil {
		s.nodes.await(ctx)
	}
	return s, nil
}

// newServer returns a server whose state is empty and that writes nothing.
func newServer(o Options) *Server {
	l := &lifetime{}
	l.ctx, l.stop = context.WithCancel(context.Background())
	st := &state{time: o.Clock}
	st.shown.limit = shownBytes
	if n := o.Limits.ModelBytes; n > 0 {
		st.shown.limit = int(min(shownBytes, n/16))
	}
	w := newWriter(&o)
	st.lagging = lagging{lifetime: l, wait: o.Wait, failed: w.progress.fail, step: bandit.Work.Step}
	u := &unwritten{time: o.Clock}
	m := &member{lifetime: l, state: st, writer: w, unwritten: u, replica: &replica{lifetime: l, writer: w},
		glances: &glances{state: st, writer: w}}
	snaps := &snapshots{state: st, opt: w.opt, files: snapshotFiles(o.Dir)}
	return &Server{lifetime: l, state: st, writer: w, member: m, keys: o.Keys, started: o.Clock.Now(), snapshots: snaps,
		applier: &applier{lifetime: l, state: st, writer: w, member: m, snapshots: snaps, unwritten: u}}
}

// wire makes the parts that answer calls, after the state was recovered.
func (s *Server) wire() {
	o, admin := s.opt, &sync.Mutex{}
	s.aside = &aside{state: s.state, shelf: s.snapshots.shelf, limit: o.Limits.ModelBytes, crowd: cmp.Or(o.crowded, crowded), logger: o.Logger,
		recent: s.recent, freed: o.LaidAside}
	s.control = &control{state: s.state, writer: s.writer, admin: admin, aside: s.aside}
	s.reading = &reading{state: s.state, writer: s.writer, keys: s.keys, recent: s.recent}
	following := &followers{space: &s.space}
	s.exports = &exports{state: s.state, writer: s.writer, keys: s.keys, files: s.snapshots.files, followers: following,
		joint: s.nodes != nil || s.applier.chain.Format() == eventlog.Format3}
	s.rewards = &rewards{state: s.state, writer: s.writer, recent: s.recent}
	turns := decide.NewTurns(min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	d := newDecider(deciding{s.lifetime, s.state, s.writer, s.recent, s.control}, decide.Options{
		Keys: s.keys, Turns: turns, Work: o.Limits.Work})
	s.decisions = &decisions{s.writer, d, turns}
	s.moves = &moves{s.state, s.writer, s.control, s.keys, s.recent}
	s.expiry = &expiry{s.lifetime, s.state, s.writer}
	n := needs{s.state, s.writer, following}
	s.trimmer = &trimmer{lifetime: s.lifetime, state: n.state, writer: n.writer, needs: n, admin: admin, snapshots: s.snapshots, bases: &s.bases,
		agreement: &agreement{s.lifetime, n, admin, s.snapshots, &s.bases}}
}

// openLog opens the log of a single machine unless there is one, and reads the keys of event ids unless they were
// given.
func (s *Server) openLog(ctx context.Context) (err error) {
	if s.log == nil {
		disk := s.opt.Disk
		disk.Shards, disk.Clock = 1, s.opt.Clock
		if s.own, err = eventlog.OpenDisk(ctx, filepath.Join(s.opt.Dir, "log"), disk); err != nil {
			return err
		}
		s.log = s.own
	}
	if len(s.keys.Keys) == 0 {
		info, err := s.log.Info(ctx, 0)
		if err != nil {
			return err
		}
		if s.keys, err = loadKeys(s.opt.Dir, info.Last == 0, s.opt.Cell); err != nil {
			return err
		}
	}
	if err := checkCell(s.keys, s.opt.Cell); err != nil {
		return err
	}
	s.batches = s.keys.Batches()
	return s.keys.Check()
}

// committerOptions are those of a writer that goes on from what was recovered; a node of a cluster that does not fit
// the log is an error.
func (s *Server) committerOptions() (eventlog.CommitterOptions, error) {
	c := s.opt.Committer
	c.Shard, c.Head, c.Now, c.Clock, c.Keys = 0, s.applier.chain.Head(), s.opt.Clock.Now, s.opt.Clock, s.batches
	// the log was a cluster's; this is its only writer now
	if c.Format = s.applier.chain.Format(); c.Format == eventlog.Format3 {
		c.Head, _ = s.applier.chain.Rolling()
	}
	if c.Format == eventlog.Format3 {
		if err := s.member.lostKey(s.keys); err != nil {
			return c, err
		}
	}
	if s.nodes != nil {
		if err := cmp.Or(s.member.fits(), s.member.fitKeys()); err != nil {
			return c, err
		}
		s.nodes.rolling.Store(&eventlog.Head{})
		s.nodes.advance(s.applier.chain, s.fold.Clock())
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
	o := s.opt
	if o.LayAside > 0 {
		s.workers.Go(func() { s.aside.asideLoop(s.ctx, o.LayAside) })
	}
	if o.ExpireEvery > 0 {
		s.workers.Go(s.expiry.expireLoop)
	}
	s.workers.Go(func() { s.space.loop(s.ctx, s.log, o.Clock) })
	if o.TrimEvery > 0 && (o.Keep > 0 || o.KeepBytes > 0) {
		s.workers.Go(s.trimmer.retainLoop)
	}
}

// recover makes the fold of the whole log, from the newest snapshot that can be used.
func (s *Server) recover(ctx context.Context) error {
	begin := s.opt.Clock.Mark()
	s.snapshots.log = s.log
	info, err := s.endOfLog(ctx, s.snapshots.files)
	if err != nil {
		return err
	}
	if s.opt.Dir != "" {
		if s.snapshots.shelf, err = shelf.Open(s.opt.Dir); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
	}
	s.space.set(info)
	s.past = &fold.History{Log: logReader{s.ctx, s.log}, Nearest: s.snapshots.files.Nearest, Keys: s.batches,
		KeysKept: s.opt.keysKept}
	s.past.First.Store(info.First)
	patient := &patientReader{ctx: ctx, most: openFor, log: s.log, clock: s.opt.Clock, progress: &s.progress,
		logger: s.opt.Logger}
	own := s.past.ReadThrough(patient)
	s.snapshots.past = own
	s.recent = recent.New(recent.Options{Keys: s.keys, Log: s.log, Past: s.past, Here: s.here, Places: func(key eventlog.Event) []uint64 { return placesOf(s.state, key) }, Logger: s.opt.Logger})
	s.member.recent = s.recent
	s.bases = bases{log: s.log, batches: s.batches, past: s.past, files: s.snapshots.files, logger: s.opt.Logger}
	if s.nodes != nil {
		s.bases.imported = s.nodes.ImportedBase
	}
	if s.fold, s.applier.chain, err = s.snapshots.newest(ctx, info); err != nil {
		return err
	}
	var untaken error
	if s.fold == nil && info.First > 1 && s.nodes != nil {
		untaken = untilAnswered(ctx, s.opt.Clock, openFor, func() error { return s.bases.take(ctx, info.First) })
		if untaken == nil {
			if s.fold, s.applier.chain, err = s.snapshots.newest(ctx, info); err != nil {
				return err
			}
		}
	}
	if s.fold == nil {
		if err := s.readable(ctx, info); err != nil {
			return err
		}
		if info.First > 1 && s.nodes != nil {
			return fmt.Errorf("serve: the log was trimmed, it begins with entry %d; this node has no base, and "+
				"cannot take one from the others: %w", info.First, untaken)
		}
		if info.First > 1 {
			return fmt.Errorf("serve: the log was trimmed, it begins with entry %d; no snapshot in %s can be its "+
				"base: put one back from a backup%s",
				info.First, s.snapshots.files, strings.Join(append([]string{""}, s.snapshots.skipped...), "\n  "))
		}
		s.fold, s.applier.chain = fold.NewOn(own, s.snapshots.shelf), own.Chain(1)
	}
	s.recovery.Skipped = s.snapshots.skipped
	s.recovery.Snapshot = s.fold.Seq()
	if info.First > 1 {
		base, err := s.snapshots.oldest(ctx, info)
		if err != nil {
			return err
		}
		s.past.Base.Store(base)
	}
	if err := s.applier.catchUp(ctx, info.Last, &s.recovery); err != nil {
		return err
	}
	patient.ctx, patient.most = s.ctx, 0
	if err := s.bases.confirm(s.fold.Base()); err != nil {
		return err
	}
	u := s.member.unwritten
	if u.note(s.applier.chain); u.count.Load() > 0 {
		s.opt.Logger.Error("entries of the log have no effect, because no node of this cluster has written them",
			"entries", u.count.Load(), "newest", u.newest.Load())
	}
	if n := u.declared.Load(); n > 0 {
		s.opt.Logger.Warn("entries of the log have no effect, because an operator has declared them void", "entries", n)
	}
	if s.noteBase() {
		s.nodes.noteTrim()
	}
	s.recovery.Took = s.opt.Clock.Since(begin)
	s.snapshots.since, s.snapshots.at = int(s.recovery.Events), s.opt.Clock.Mark()
	s.progress.init(s.fold.Seq(), s.opt.Clock)
	s.entries = map[eventlog.ID]*entry{}
	return s.publish()
}

// readable returns why this program cannot read the log: another one has written it. A trimmed log without a snapshot
// could not be read either, but that is not why.
func (s *Server) readable(ctx context.Context, info eventlog.Info) error {
	if info.Last < info.First {
		return nil
	}
	e, err := s.log.Get(ctx, 0, info.First)
	if err == nil {
		_, err = eventlog.ParseHeader(e.Data)
	}
	var other *eventlog.VersionError
	if errors.As(err, &other) {
		other.Seq = info.First
		return fmt.Errorf("serve: %w", other)
	}
	return nil // what else is wrong is found when the log is read
}

// MovesOf returns what moves the models of a service to other servers and takes theirs, nil where it does not. A Service around
// another one has Unwrap.
func MovesOf(s Service) MoveService {
	switch x := s.(type) {
	case *Server:
		return x.moves
	case interface{ Unwrap() Service }:
		return MovesOf(x.Unwrap())
	}
	return nil
}

// Trim removes from the log what Options.Keep and KeepBytes do not want kept and nothing needs, and returns the first
// entry that is left. It reads and folds what goes once more, which takes as long as a restart over as many entries, on
// one processor; the server goes on meanwhile. The server does it by itself every Options.TrimEvery. In a cluster Trim
// proposes: the entries go, soon afterwards, when all nodes have the base.
func (s *Server) Trim(ctx context.Context) (first uint64, err error) { return s.trimmer.trim(ctx) }

// Expire closes the windows that have ended by the server's clock and returns how many events that
// were. The server does it by itself every Options.ExpireEvery.
func (s *Server) Expire(ctx context.Context) (events int, err error) { return s.expiry.expire(ctx) }

// Drain prepares the stop of a node: another one leads the log, new calls are refused with Unavailable, and it
// returns when those under way are answered, or when ctx ends. Only a new start takes calls again. The error is Needed,
// and nothing has changed, while the node may not be stopped, see MayStop.
func (s *Server) Drain(ctx context.Context) error { return s.member.drain(ctx) }

// AwaitStop waits until this node of a cluster may be stopped, see MayStop, at most until ctx ends. It returns why the
// node may still not be stopped, empty when it may; on a single machine it returns at once. says is called with the
// reason when a wait begins. The node serves on meanwhile.
func (s *Server) AwaitStop(ctx context.Context, says func(why string)) (why string) {
	return s.member.awaitStop(ctx, says)
}

// CheckReplica implements Service.
func (s *Server) CheckReplica(ctx context.Context) (ReplicaCheck, error) {
	return s.member.replica.check(ctx)
}

// RemoveNode implements Service.
func (s *Server) RemoveNode(ctx context.Context, name string) error {
	return s.member.removeNode(ctx, name, s.admin)
}

// Close refuses new calls, lets those under way finish, writes a snapshot and closes the log. When
// ctx ends first it gives up on what is left: calls then end with an unknown outcome.
func (s *Server) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closed = s.close(ctx) })
	return s.closed
}

func (s *Server) close(ctx context.Context) error {
	s.drain(ctx)
	swept := make(chan struct{})
	go func() { s.windows.stop(); close(swept) }()
	select {
	case <-swept:
	case <-ctx.Done(): // the sweep may wait for the state, which the applier holds while the log does not answer
	}
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
	<-swept
	s.snapshots.wait()
	s.settle()
	if s.progress.stoppedClean() {
		err = errors.Join(err, s.snapshots.writeSnapshot(s.applier.chain))
		s.snapshots.wait()
	}
	return errors.Join(err, s.closeFiles())
}

// closeFiles closes what the server has opened, and gives up what is laid aside.
func (s *Server) closeFiles() error {
	err := s.snapshots.shelf.Close()
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}

// newestVersion is the version of the newest batch. A cluster that elects does not give it, so a node asks again.
func (s *Server) newestVersion(ctx context.Context) (version uint16, err error) {
	for since := s.opt.Clock.Mark(); ; {
		version, err = eventlog.NewestVersion(ctx, s.log, 0, s.batches)
		if err == nil || s.nodes == nil || errors.Is(err, eventlog.ErrNotFound) ||
			s.opt.Clock.Since(since) > leaderWait {
			return version, err
		}
		select {
		case <-ctx.Done():
			return version, err
		case <-s.opt.Clock.After(200 * time.Millisecond):
		}
	}
}

// logVersion sets the version in which c writes: the one that was asked for, the highest when none was. It returns
// whether the log is of a lower version, so that it has to be raised. A node of a cluster writes in the version that
// the log has until every node can read a higher one; see raiseTogether.
func (s *Server) logVersion(ctx context.Context, c *eventlog.CommitterOptions) (raise bool, err error) {
	newest, err := s.newestVersion(ctx)
	if err != nil {
		return false, err
	}
	// in a cluster the newest batch may be of a node that had not heard of the raise
	newest = max(newest, s.recovery.version)
	if s.opt.KeepLogVersion && newest > 0 {
		c.Version = newest
	}
	if c.Version == 0 {
		c.Version = s.opt.newest()
	}
	if c.Version < newest {
		return false, fmt.Errorf("log version %d was asked for, the log is of version %d already; a log never goes "+
			"back", c.Version, newest)
	}
	if s.nodes != nil {
		s.nodes.readable, c.Version = c.Version, max(newest, eventlog.LogVersion)
	}
	return newest > 0 && newest < c.Version, nil
}
