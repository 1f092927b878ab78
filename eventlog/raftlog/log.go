package raftlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog"
	"troupe/eventlog/segment"
	"troupe/timing"
)

// Network carries messages between the nodes of a log. Its methods are called from many goroutines.
type Network interface {
	// Send passes a message to the node m.GetTo(), whose Log.Receive takes it, or loses it. It does not wait. Messages that could
	// not be sent for a second are thrown away: raft sends again, and answers to old messages make a leader send much.
	// m is not changed any more, and must not be.
	Send(group uint16, m *pb.Message)
	// Fetch fills b with what Log.File of a node returns.
	Fetch(ctx context.Context, group uint16, node, first uint64, b []byte, at int64) error
}

// Peers is a Network that has to know the nodes that it speaks with. A Log calls SetPeers when it is opened, and when they change.
type Peers interface {
	SetPeers(...Member) error
}

// Options say where a node is and what it uses.
type Options struct {
	Dir     string      // of this node
	Cluster eventlog.ID // of the log, the same at all its nodes; Open takes that of the directory when it is 0
	ID      uint64      // raft id, as NewID draws it, never used again for another directory; Open takes that of the directory when it is 0
	// Shards is the number of shards, 1 when 0. Each is replicated by itself.
	Shards uint16
	// MaxBytes is the limit of each shard, 64 GiB when 0. Batches that other nodes have under way may exceed it.
	MaxBytes int64
	// Reserve is what stays free on the disk, 256 MiB when 0, negative for nothing. Below it Append is refused with ErrFull here;
	// what other nodes store is still stored.
	Reserve int64
	Network Network
	Clock   timing.Clock                  // the machine's when it is not set
	Logf    func(format string, a ...any) // gets what the operator should know; it may be nil

	segment int64      // size of a segment in tests
	fs      segment.FS // of tests
}

func (o *Options) defaults() error {
	if o.Shards == 0 {
		o.Shards = 1
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = eventlog.DefaultMaxBytes
	}
	if o.Reserve == 0 {
		o.Reserve = 256 << 20
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.fs == nil {
		o.fs = segment.OS
	}
	if o.Cluster == 0 {
		return errors.New("raftlog: cluster = 0, want the id of the log")
	}
	if o.ID == 0 || o.ID >= 1<<63 {
		return fmt.Errorf("raftlog: id = %d, want 1 to 2^63 - 1", o.ID)
	}
	if o.Shards > maxShards {
		return fmt.Errorf("raftlog: shards = %d, at most %d", o.Shards, maxShards)
	}
	return nil
}

// maxShards bounds the shards of a log.
const maxShards = 1024

// NewID draws an id for a node, or for a cluster.
func NewID() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // which never fails
		if id := binary.LittleEndian.Uint64(b[:]) >> 1; id > 0 {
			return id
		}
	}
}

func (o *Options) store(shard uint16) storeOptions {
	return storeOptions{fs: o.fs, dir: o.Dir, group: shard, id: o.ID, size: o.segment, keep: idsKept}
}

// Create makes the directory of a node of a new log. The first nodes of a log are all made with the same voters, all of them; a
// log may begin with one, and grow (Log.Add). A directory that has a node already is an error.
func Create(o Options, voters ...Member) error {
	if err := o.defaults(); err != nil {
		return err
	}
	if !slices.ContainsFunc(voters, func(m Member) bool { return m.ID == o.ID }) {
		return fmt.Errorf("raftlog: id = %d, want one of the voters %v", o.ID, voters)
	}
	return o.create(voters, nil)
}

// Join makes the directory of a node that is to join a log. known are all its nodes (Status), of which any may lead it and so speak to
// this one. Log.Add at one of them takes it in.
func Join(o Options, known ...Member) error {
	if err := o.defaults(); err != nil {
		return err
	}
	if len(known) == 0 || slices.ContainsFunc(known, func(m Member) bool { return m.ID == o.ID }) {
		return fmt.Errorf("raftlog: known = %v, want the nodes of the log that node %d joins", known, o.ID)
	}
	return o.create(nil, known)
}

func (o *Options) create(voters, known []Member) error {
	if n := len(voters) + len(known); n > maxBook {
		return fmt.Errorf("raftlog: %d nodes, at most %d", n, maxBook)
	}
	for _, list := range [][]Member{voters, known} {
		for i, m := range list {
			if err := m.check(); err != nil {
				return err
			}
			if slices.ContainsFunc(list[:i], func(x Member) bool { return x.ID == m.ID || x.Name == m.Name }) {
				return fmt.Errorf("raftlog: nodes %v, want an id and a name of its own for each", list)
			}
		}
	}
	if err := o.fs.MkdirAll(o.Dir); err != nil {
		return err
	}
	if o.fs == segment.OS {
		lock, err := eventlog.LockDir(o.Dir)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	names, err := o.fs.ReadDir(o.Dir)
	if err != nil {
		return err
	}
	begun := slices.Contains(names, creating) && !slices.Contains(names, eventlog.ReplicaMarker)
	for _, name := range names {
		switch {
		case name == "lock" || name == creating && begun:
		case begun: // a node that never answered
			if err := o.fs.RemoveAll(filepath.Join(o.Dir, name)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("raftlog: %s has %s already, want an empty directory", o.Dir, name)
		}
	}
	if err := errors.Join(segment.WriteFile(o.fs, filepath.Join(o.Dir, creating), nil), o.fs.SyncDir(o.Dir)); err != nil {
		return err
	}
	for n := range o.Shards {
		if err := createStore(o.store(n), voters, known); err != nil {
			return err
		}
	}
	// Last, so that a crash leaves no node or a whole one.
	if err := errors.Join(segment.WriteFile(o.fs, filepath.Join(o.Dir, eventlog.ReplicaMarker), []byte(marker{o.Cluster, o.ID, o.Shards, 0}.text())), o.fs.SyncDir(o.Dir)); err != nil {
		return err
	}
	return o.created()
}

// creating is a file in a directory in which Create or Join is under way, or was when the power was lost. Without the marker, what is
// beside it is of no node.
const creating = "creating"

// created says that the directory is that of a node. From then on nothing in it is thrown away.
func (o *Options) created() error {
	names, err := o.fs.ReadDir(o.Dir)
	if err != nil || !slices.Contains(names, creating) {
		return err
	}
	return errors.Join(o.fs.Remove(filepath.Join(o.Dir, creating)), o.fs.SyncDir(o.Dir))
}

// readMarker takes what is not set in the options from the marker of a directory, and compares the rest.
func (o *Options) readMarker() error {
	m, err := readMarker(o.fs, o.Dir)
	if err != nil {
		return err
	}
	if o.Cluster == 0 {
		o.Cluster = m.cluster
	}
	if o.ID == 0 {
		o.ID = m.id
	}
	if o.Shards == 0 {
		o.Shards = m.shards
	}
	if err := o.defaults(); err != nil {
		return err
	}
	switch {
	case m.before != 0:
		return fmt.Errorf("raftlog: %s: %w", o.Dir, ErrRecovering)
	case m != (marker{o.Cluster, o.ID, o.Shards, 0}):
		return fmt.Errorf("raftlog: %s is of node %d of cluster %v with %d shards, want node %d of cluster %v with %d", o.Dir, m.id, m.cluster, m.shards,
			o.ID, o.Cluster, o.Shards)
	}
	return nil
}

// Log is a node of a replicated log. It is an eventlog.Log: Append returns when a majority has the batch durable and this
// node, too; Read, Get and Info are of what this node knows to be committed. Its methods may be called from many goroutines.
//
// A node whose disk fails, or that is told something that contradicts what it knows to be committed, ends: Err says why, Append
// returns ErrBroken, and what is committed here can still be read.
type Log struct {
	opt    Options
	lock   io.Closer // nil in tests without a disk
	shards []*shard
	done   chan struct{}  // closed by Close
	ended  chan struct{}  // closed by fail
	calls  sync.WaitGroup // under way
	work   sync.WaitGroup // loops

	mu     sync.Mutex
	closed bool
	peers  []Member // that the network was told
	broken atomic.Pointer[error]
}

var (
	_ eventlog.Stops     = (*Log)(nil)
	_ eventlog.HandsOver = (*Log)(nil)
)

// shard is one group of raft: a core, and the goroutines around it. loop calls the core; save writes to the store.
type shard struct {
	log   *Log
	n     uint16
	st    *store
	calls chan func(*core)
	inbox chan *pb.Message
	wrote chan *write

	held     atomic.Int64               // bytes in inbox and in queue
	waiters  map[batchID][]chan outcome // only loop uses these
	barriers map[uint64]chan struct{}
	goals    map[uint64]chan error
	peers    []Member
	status   atomic.Pointer[Status]
	gone     atomic.Bool           // the node was removed from it; it ends when it was from all
	blocked  atomic.Pointer[error] // why the write under way is tried again, nil when it is not

	mu    sync.Mutex
	queue []*write
	wake  chan struct{} // capacity 1
	first uint64        // sequence number of the oldest batch that may be read
	start uint64        // index of the oldest entry that counts
	index uint64        // of the newest entry that is committed
	last  uint64        // sequence number of the newest batch up to there
	more  chan struct{} // closed and replaced when last grows
}

// Status is what a node knows of its group.
type Status struct {
	Node, Leader, Term, Applied uint64
	Voters, Learners            []uint64
	Members                     []Member // of both, ascending by id
	Removed                     []uint64 // nodes that were members, the newest ones last
}

// Progress is what the leader of a shard knows of a member.
type Progress struct {
	Member
	Voter   bool
	Active  bool   // it was heard of within an election timeout
	Current bool   // it has what was committed a heartbeat ago
	Lag     uint64 // entries that it is not known to have
}

const (
	maxInbox   = 4096
	maxHeld    = 64 << 20 // bytes that wait for the loop and for the disk, from other nodes
	maxAppends = 64       // calls of Append under way in a shard; others wait
)

// Open starts the node in a directory that Create has made. Damaged files are an error that wraps *segment.DamageError: the
// node may have forgotten what it promised, and must be replaced by one with another raft id.
func Open(o Options) (_ *Log, err error) {
	if o.fs == nil {
		o.fs = segment.OS
	}
	if err := o.readMarker(); err != nil {
		return nil, err
	}
	l := &Log{opt: o, done: make(chan struct{}), ended: make(chan struct{})}
	if o.fs == segment.OS {
		if l.lock, err = eventlog.LockDir(o.Dir); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			if l.lock != nil {
				err = errors.Join(err, l.lock.Close())
			}
			for _, s := range l.shards {
				err = errors.Join(err, s.st.close(false))
			}
		}
	}()
	if err := o.created(); err != nil {
		return nil, err
	}
	var cores []*core
	for n := range o.Shards {
		s := &shard{log: l, n: n, calls: make(chan func(*core), maxAppends), inbox: make(chan *pb.Message, maxInbox),
			wrote: make(chan *write), waiters: map[batchID][]chan outcome{}, barriers: map[uint64]chan struct{}{}, goals: map[uint64]chan error{},
			wake: make(chan struct{}, 1), more: make(chan struct{})}
		if s.st, err = openStore(o.store(n)); err != nil {
			return nil, fmt.Errorf("shard %d: %w", n, err)
		}
		l.shards = append(l.shards, s)
		c, err := makeCore(s.st)
		if err != nil {
			return nil, fmt.Errorf("shard %d: %w", n, err)
		}
		s.gone.Store(c.mem.removed(c.id))
		if err := s.place(c, max(s.st.segments().Oldest(), s.st.start())); err != nil {
			return nil, fmt.Errorf("shard %d: %w", n, err)
		}
		if s.st.torn > 0 {
			o.Logf("shard %d: %d bytes of a write that was interrupted, and never confirmed, were removed", n, s.st.torn)
		}
		cores = append(cores, c)
		s.publish(c)
	}
	if !slices.ContainsFunc(l.shards, func(x *shard) bool { return !x.gone.Load() }) {
		return nil, fmt.Errorf("raftlog: %s: %w", o.Dir, ErrRemoved)
	}
	for i, s := range l.shards {
		l.work.Go(func() { s.loop(cores[i]) })
		l.work.Go(s.save)
	}
	return l, nil
}

// place takes the beginning and the end of what may be read.
func (s *shard) place(c *core, start uint64) error {
	seq, err := s.st.segments().Seq(start - 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.first, s.index, s.last = start, seq+1, c.applied, c.seq
	return err
}

// loop takes what happens one by one.
func (s *shard) loop(c *core) {
	l := s.log
	c.begin()
	s.emit(c)
	tick := l.opt.Clock.Ticker(Tick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.tick()
		case m := <-s.inbox:
			s.held.Add(-weight(m.Entries))
			c.receive(m)
		case f := <-s.calls:
			f(c)
		case w := <-s.wrote:
			c.wrote(w)
			if w.snapshot != nil && c.err == nil {
				if err := s.place(c, w.snapshot.segments[0].First); err != nil {
					c.fail(err)
				}
			}
		case <-l.done:
			return
		}
		if c.err != nil {
			l.fail(fmt.Errorf("shard %d: %w", s.n, c.err))
			return
		}
		s.emit(c)
		if c.mem.removed(c.id) && len(c.writes) == 0 && !s.gone.Swap(true) { // and has written it down
			if !slices.ContainsFunc(l.shards, func(x *shard) bool { return !x.gone.Load() }) {
				l.fail(ErrRemoved)
				return
			}
		}
	}
}

// emit does what a core wants.
func (s *shard) emit(c *core) {
	o := c.take()
	if len(o.writes) > 0 {
		for _, w := range o.writes {
			s.held.Add(weight(w.entries))
		}
		s.mu.Lock()
		s.queue = append(s.queue, o.writes...)
		s.mu.Unlock()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	for _, m := range o.messages {
		s.log.opt.Network.Send(s.n, m)
	}
	if o.applied {
		s.mu.Lock()
		s.index, s.last = c.applied, c.seq
		close(s.more)
		s.more = make(chan struct{})
		s.mu.Unlock()
	}
	if now := s.status.Load(); o.applied || now.Leader != c.lead || now.Term != c.term {
		s.publish(c)
	}
	for _, r := range o.reached {
		if g := s.goals[r.no]; g != nil {
			g <- r.err
			delete(s.goals, r.no)
		}
	}
	for _, x := range o.done {
		for _, w := range s.waiters[x.id] {
			w <- x
		}
		delete(s.waiters, x.id)
	}
	for _, no := range o.reads {
		if b := s.barriers[no]; b != nil {
			close(b)
			delete(s.barriers, no)
		}
	}
	if o.fetch != nil {
		s.log.work.Go(func() { s.fetch(o.fetch) })
	}
}

// save does the writes of a shard, in order. What the system has no room for is tried again.
func (s *shard) save() {
	l := s.log
	for {
		s.mu.Lock()
		var w *write
		if len(s.queue) > 0 {
			w, s.queue = s.queue[0], s.queue[1:]
		}
		s.mu.Unlock()
		if w == nil {
			select {
			case <-s.wake:
				continue
			case <-l.done:
				return
			}
		}
		err := s.st.save(w)
		for said := false; err != nil && passes(err); err = s.st.save(w) {
			why := err
			s.blocked.Store(&why)
			if !said {
				l.opt.Logf("shard %d: a write is tried again: %v", s.n, err)
				said = true
			}
			select {
			case <-l.opt.Clock.After(100 * time.Millisecond):
			case <-l.done:
				return
			}
		}
		s.blocked.Store(nil)
		if err != nil {
			select {
			case s.calls <- func(c *core) { c.fail(err) }:
			case <-l.done:
			}
			return
		}
		s.held.Add(-weight(w.entries))
		if w.done != nil {
			close(w.done)
		}
		select {
		case s.wrote <- w:
		case <-l.done:
			return
		}
		if l.Err() != nil {
			return
		}
	}
}

// fetch gets the files of a snapshot, from the node that sent it or another one.
func (s *shard) fetch(g *stage) {
	l := s.log
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.work.Go(func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	})
	err := s.fetchAll(ctx, g)
	if err != nil {
		l.opt.Logf("shard %d: the snapshot of entry %d: %v", s.n, g.msg.GetSnapshot().GetMetadata().GetIndex(), err)
	}
	select {
	case s.calls <- func(c *core) { c.fetched(g, err == nil) }:
	case <-l.done:
	case <-l.ended:
	}
}

func (s *shard) fetchAll(ctx context.Context, g *stage) error {
	sources := []uint64{g.msg.GetFrom()}
	for _, id := range g.msg.GetSnapshot().GetMetadata().GetConfState().GetVoters() {
		if id != s.log.opt.ID && id != sources[0] {
			sources = append(sources, id)
		}
	}
	b := make([]byte, chunk)
	for {
		first, at, n := g.want()
		if n == 0 {
			break
		}
		from := sources[0]
		if first > 0 {
			from = sources[g.tries%len(sources)]
		}
		if err := s.log.opt.Network.Fetch(ctx, s.n, from, first, b[:n], at); err != nil {
			return err
		}
		if err := g.add(b[:n]); err != nil && !errors.Is(err, errFile) {
			return err
		}
	}
	var index uint64
	var link segment.Link
	var err error
	if e := s.call(ctx, func(c *core) { index, link, err = c.proof() }); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	return g.verify(index, link)
}

// call has f called by the loop, and waits for it.
func (s *shard) call(ctx context.Context, f func(*core)) error {
	done := make(chan struct{})
	select {
	case s.calls <- func(c *core) { f(c); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.log.done:
		return eventlog.ErrClosed
	case <-s.log.ended:
		return s.log.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.log.done:
		return eventlog.ErrClosed
	case <-s.log.ended:
		return s.log.Err()
	}
}

// weight is what entries take in memory, about.
func weight(entries []*pb.Entry) int64 {
	n := int64(100)
	for _, e := range entries {
		n += int64(len(e.Data)) + 100
	}
	return n
}

// Receive takes a message of another node, which the caller has made sure of. It does not wait: a node that has too much to
// do loses messages.
func (l *Log) Receive(group uint16, m *pb.Message) {
	if int(group) >= len(l.shards) {
		return
	}
	s, n := l.shards[group], weight(m.Entries)
	if s.held.Add(n) > maxHeld {
		s.held.Add(-n)
		return
	}
	select {
	case s.inbox <- m:
	default:
		s.held.Add(-n)
	}
}

// File fills b from an offset of a file that another node needs for a snapshot or a repair: the segment that begins with the entry
// first, the ids of trimmed batches when first is 0, or the list of sealed segments when it is 2^64 - 1.
func (l *Log) File(group uint16, first uint64, b []byte, at int64) error {
	s, err := l.begin(group)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	return s.st.read(first, b, at)
}

// Status returns what this node knows of a shard.
func (l *Log) Status(shard uint16) Status {
	now := l.shards[shard].status.Load()
	if now == nil {
		return Status{Node: l.opt.ID}
	}
	s := *now // whose lists belong to the caller
	s.Voters, s.Learners, s.Members, s.Removed = slices.Clone(s.Voters), slices.Clone(s.Learners), slices.Clone(s.Members), slices.Clone(s.Removed)
	return s
}

// Progress returns what this node knows of the members of a shard where it leads it; none where another one does.
func (l *Log) Progress(ctx context.Context, shard uint16) (all []Progress, err error) {
	s, err := l.begin(shard)
	if err != nil {
		return nil, err
	}
	defer l.calls.Done()
	err = s.call(ctx, func(c *core) { all = c.progress() })
	return all, err
}

// HandOver lets another node lead each shard that this one leads. It returns when another one does.
func (l *Log) HandOver(ctx context.Context) error {
	for _, s := range l.shards {
		for s.status.Load().Leader == l.opt.ID || s.status.Load().Leader == 0 {
			if _, err := l.begin(s.n); err != nil {
				return err
			}
			err := s.call(ctx, func(c *core) {
				if c.leader {
					c.transfer()
				}
			})
			l.calls.Done()
			if err != nil {
				return err
			}
			if !l.opt.Clock.Sleep(ctx, Tick) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// Ready waits until all that was committed in a shard when it was called can be read here. It asks the leader, which asks a
// majority whether it still is; nothing is written.
func (l *Log) Ready(ctx context.Context, shard uint16) error {
	s, err := l.begin(shard)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	done := make(chan struct{})
	if err := s.call(ctx, func(c *core) { s.barriers[c.barrier()] = done }); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return eventlog.ErrClosed
	case <-l.ended:
		return l.Err()
	}
}

// begin enters a call that Close waits for.
func (l *Log) begin(shard uint16) (*shard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, eventlog.ErrClosed
	}
	if int(shard) >= len(l.shards) {
		return nil, fmt.Errorf("shard %d of %d: %w", shard, len(l.shards), eventlog.ErrShard)
	}
	l.calls.Add(1)
	return l.shards[shard], nil
}

// Err returns nil while the node takes part, otherwise why not: an error that wraps eventlog.ErrBroken.
func (l *Log) Err() error {
	if err := l.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Blocked returns why this node writes nothing at present and tries again: its disk has no room. It is nil otherwise.
func (l *Log) Blocked() error {
	for _, s := range l.shards {
		if err := s.blocked.Load(); err != nil {
			return *err
		}
	}
	return nil
}

func (l *Log) fail(err error) {
	err = fmt.Errorf("%w: %w", eventlog.ErrBroken, err)
	if l.broken.CompareAndSwap(nil, &err) {
		l.opt.Logf("this node has ended: %v", err)
		close(l.ended)
	}
}

// Append implements eventlog.Log.
func (l *Log) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s, err := l.begin(shard)
	if err != nil {
		return 0, false, err
	}
	defer l.calls.Done()
	if len(batch) > eventlog.MaxBatch {
		return 0, false, fmt.Errorf("batch of %d bytes: %w", len(batch), eventlog.ErrTooLarge)
	}
	if err := l.Err(); err != nil {
		return 0, false, err
	}
	if s.gone.Load() {
		return 0, false, fmt.Errorf("%w: shard %d: %w", eventlog.ErrBroken, shard, ErrRemoved)
	}
	sum := hashID(id)
	data := append(sum[:len(sum):len(sum)], batch...)
	w := make(chan outcome, 1)
	var full error
	propose := func(c *core) {
		if _, ok := c.ids.place[sum]; !ok {
			if full = s.room(c, len(data)); full != nil {
				close(w)
				return
			}
		}
		s.waiters[sum] = append(s.waiters[sum], w)
		c.propose(sum, data)
	}
	select {
	case s.calls <- propose:
	case <-ctx.Done():
		return 0, false, ctx.Err()
	case <-l.done:
		return 0, false, eventlog.ErrClosed
	case <-l.ended:
		return 0, false, l.Err()
	}
	select {
	case x, ok := <-w:
		if !ok {
			return 0, false, full
		}
		return x.seq, x.dup, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.done:
		err = fmt.Errorf("%w: the log is being closed", eventlog.ErrUnknown)
	case <-l.ended: // it may be committed all the same
		err = fmt.Errorf("%w: %v", eventlog.ErrUnknown, l.Err())
	}
	leave := func(c *core) {
		rest := slices.DeleteFunc(s.waiters[sum], func(x chan outcome) bool { return x == w })
		if s.waiters[sum] = rest; len(rest) == 0 {
			delete(s.waiters, sum)
			c.forget(sum)
		}
	}
	select {
	case s.calls <- leave:
	case <-l.done:
	case <-l.ended:
	}
	return 0, false, err
}

// room refuses a batch that the shard has no room for.
func (s *shard) room(c *core, n int) error {
	s.mu.Lock()
	start := s.start
	s.mu.Unlock()
	have, err := s.st.segments().Bytes(start)
	if err != nil {
		return fmt.Errorf("%w: %w", eventlog.ErrFull, err)
	}
	for _, p := range c.waiting {
		have += uint64(segment.HeadSize + len(p.data))
	}
	if o := &s.log.opt; o.Reserve > 0 && o.fs == segment.OS {
		free, err := eventlog.FreeBytes(o.Dir)
		if err != nil {
			return fmt.Errorf("%w: free space of %s: %v", eventlog.ErrFull, o.Dir, err)
		}
		if free < uint64(o.Reserve)+uint64(n) {
			return fmt.Errorf("%w: %d bytes are free on the disk of %s, %d are reserved", eventlog.ErrFull, free, o.Dir, o.Reserve)
		}
	}
	if have+uint64(segment.HeadSize+n) > uint64(s.log.opt.MaxBytes) {
		return fmt.Errorf("%w: shard %d has %d bytes, its limit is %d", eventlog.ErrFull, s.n, have, s.log.opt.MaxBytes)
	}
	return nil
}

// Read implements eventlog.Log.
func (l *Log) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		s, err := l.begin(shard)
		if err != nil {
			yield(eventlog.Entry{}, err)
			return
		}
		defer l.calls.Done()
		var r *segment.Reader
		var of *segment.Store
		defer func() {
			if r != nil {
				r.Close()
			}
		}()
		for {
			s.mu.Lock()
			first, last, index, more := s.first, s.last, s.index, s.more
			s.mu.Unlock()
			if from < first {
				yield(eventlog.Entry{}, &eventlog.GapError{Shard: shard, First: from, Last: first - 1})
				return
			}
			for from <= last && ctx.Err() == nil {
				if seg := s.st.segments(); r == nil || of != seg { // a snapshot has taken its place
					if r != nil {
						r.Close()
					}
					at, err := seg.Index(from)
					if err != nil {
						yield(eventlog.Entry{}, s.readError(from, err))
						return
					}
					r, of = seg.Reader(at), seg
				}
				e, err := r.Next(index)
				if err != nil {
					yield(eventlog.Entry{}, s.readError(from, err))
					return
				}
				if e.Kind != segment.Batch {
					continue
				}
				if !yield(eventlog.Entry{Seq: from, Data: slices.Clone(e.Data[idSize:])}, nil) {
					return
				}
				from++
				select {
				case <-l.done:
					yield(eventlog.Entry{}, eventlog.ErrClosed)
					return
				default:
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
			case <-l.done:
			}
			if err := ctx.Err(); err != nil {
				yield(eventlog.Entry{}, err)
				return
			}
			select {
			case <-l.done:
				yield(eventlog.Entry{}, eventlog.ErrClosed)
				return
			default:
			}
		}
	}
}

// readError is the error of a read of a batch that is known to be there.
func (s *shard) readError(seq uint64, err error) error {
	if errors.Is(err, segment.ErrNotFound) { // trimmed meanwhile
		s.mu.Lock()
		defer s.mu.Unlock()
		return &eventlog.GapError{Shard: s.n, First: seq, Last: max(seq, s.first-1)}
	}
	return fmt.Errorf("shard %d: entry %d: %w", s.n, seq, err)
}

// Get implements eventlog.Log.
func (l *Log) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	s, err := l.begin(shard)
	if err != nil {
		return eventlog.Entry{}, err
	}
	defer l.calls.Done()
	if err := ctx.Err(); err != nil {
		return eventlog.Entry{}, fmt.Errorf("shard %d: entry %d: %w", shard, seq, err)
	}
	s.mu.Lock()
	first, last := s.first, s.last
	s.mu.Unlock()
	var r segment.Record
	if err = segment.ErrNotFound; seq >= first && seq <= last {
		var at uint64
		if at, err = s.st.segments().Index(seq); err == nil {
			r, err = s.st.segments().Get(at)
		}
	}
	switch {
	case errors.Is(err, segment.ErrNotFound):
		return eventlog.Entry{}, fmt.Errorf("shard %d: entry %d: %w", shard, seq, eventlog.ErrNotFound)
	case err != nil:
		return eventlog.Entry{}, fmt.Errorf("shard %d: entry %d: %w", shard, seq, err)
	}
	return eventlog.Entry{Seq: seq, Data: r.Data[idSize:]}, nil
}

// Trim implements eventlog.Log. It is of this node only: each node trims its own files. Files go as a whole.
func (l *Log) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := l.begin(shard)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	if err := l.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	first, last := s.first, s.last
	s.mu.Unlock()
	switch {
	case upTo < first:
		return nil
	case upTo >= last:
		return fmt.Errorf("shard %d: trim up to %d, the last entry is %d: %w", shard, upTo, last, eventlog.ErrTrim)
	}
	at, err := s.st.segments().Index(upTo + 1)
	if err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	done := make(chan struct{})
	if err := s.call(ctx, func(c *core) { c.trim(at, done) }); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return fmt.Errorf("%w: the log is being closed", eventlog.ErrUnknown)
	case <-l.ended:
		return l.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at > s.start {
		s.start, s.first = at, upTo+1
	}
	return nil
}

// Info implements eventlog.Log.
func (l *Log) Info(_ context.Context, shard uint16) (eventlog.Info, error) {
	s, err := l.begin(shard)
	if err != nil {
		return eventlog.Info{}, err
	}
	defer l.calls.Done()
	s.mu.Lock()
	i := eventlog.Info{First: s.first, Last: s.last, Limit: uint64(l.opt.MaxBytes), Sync: "fsync"}
	start := s.start
	s.mu.Unlock()
	i.Bytes, err = s.st.segments().Bytes(start)
	return i, err
}

// Close ends the calls under way and releases the directory. Appends that are interrupted have an unknown outcome. Close
// waits for every Read to end, so a loop over Read must not call it.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	l.calls.Wait()
	l.work.Wait()
	var errs []error
	for _, s := range l.shards {
		errs = append(errs, s.st.close(l.Err() == nil))
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	return errors.Join(errs...)
}
