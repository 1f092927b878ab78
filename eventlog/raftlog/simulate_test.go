package raftlog

import (
	"bytes"
	"container/heap"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"troupe/eventlog/segment"
)

// sim plays a whole cluster in one goroutine: its nodes with their disks, their network, their clients and their operator,
// all from one seed. Time is a number. After each step the rules are checked:
//
//   - Two logs that have an entry of the same index and term have the same link there, so all before it is equal, too.
//   - An entry that a node takes for committed is the one that every node takes for committed at this index.
//   - A batch that was acknowledged is committed at its place, once. No batch is committed twice.
//   - A term has one leader. A node does not go back in its term, or vote twice in one.
//   - Nodes that have applied the same entries know the same members, and what a removed node sends changes nothing at a node that
//     knows of its removal.
//   - After a recovery (one node of a lost majority makes a new cluster) what the node had applied is there; the nodes of before
//     and the new cluster do not hear each other, and each keeps the rules above for itself.
//   - A node that is started again has all that it had made durable, and the content of its log is the cluster's.
//   - At the end, without faults, all batches get their answers, and all logs are equal, byte by byte.
type sim struct {
	opt    simOptions
	rng    *rand.Rand
	now    time.Duration
	events queue
	order  uint64
	nodes  []*simNode // by slot: where a client, an address and a disk are
	all    map[uint64]*simNode
	nextID uint64

	cut      map[[2]int]bool // from slot, to slot
	arrive   map[[2]int]time.Duration
	held     map[[2]int][]heldMessage // behind a connection that hangs
	lossy    float64
	late     float64
	doubled  float64
	quietEnd time.Duration // no new faults from here on

	h       *history             // of the newest cluster
	granted map[[2]uint64]uint64 // by node and term: for whom it voted
	acked   int
	answers []time.Duration
	history []operation
	left    []operation // of clients that left with their node
	leftIDs []batchID
	sick    *simNode // whose disk is gone or wrong, until it is replaced
	swap    *swap

	hash   uint64
	trace  io.Writer
	counts map[string]int
	err    error
}

type simOptions struct {
	seed    uint64
	nodes   int
	plant   plants
	disk    string        // fault of the disks: "no sync", "not again"
	reused  bool          // plant: a lost disk comes back under its raft id
	naive   bool          // plant: a recovery changes the members and nothing else
	endMark bool          // plant: the first empty entry ends the newest segment at a start
	calm    bool          // no faults of their own, and clients without pauses
	stale   bool          // plant: reads do not ask the leader
	payload int           // size of a batch, drawn when 0
	cost    time.Duration // of a MiB that a node sends
	maxAge  time.Duration // of a message that waits for a connection
	trace   io.Writer
}

// history is what is known of the log of a cluster, which a recovery ends.
type history struct {
	committed []committedEntry // by index-1
	links     map[[2]uint64]segment.Link
	places    map[batchID]uint64
	claims    map[batchID]outcome // what was acknowledged
	leaders   map[uint64]uint64
	shapes    map[uint64]string // members, by the entry that made them
	newest    uint64            // acknowledged entry
}

func newHistory() *history {
	return &history{links: map[[2]uint64]segment.Link{}, places: map[batchID]uint64{}, claims: map[batchID]outcome{}, leaders: map[uint64]uint64{},
		shapes: map[uint64]string{}}
}

// commit takes the next committed entry.
func (h *history) commit(r segment.Record) error {
	e := committedEntry{r.Term, r.Link, r.Kind, 0}
	if n := len(h.committed); n > 0 {
		e.seq = h.committed[n-1].seq
	}
	if r.Kind == segment.Batch {
		e.seq++
		id := batchID(r.Data[:idSize])
		if at, ok := h.places[id]; ok {
			return fmt.Errorf("the batch of entry %d is committed again as entry %d", at, r.Index)
		}
		h.places[id] = r.Index
	}
	h.committed = append(h.committed, e)
	return nil
}

type heldMessage struct {
	at time.Duration
	m  *pb.Message
}

// operation is a call of a client, for a check of the whole history: an append, or a read of how many batches there are.
type operation struct {
	client    int
	call, end time.Duration
	read      bool
	seq       uint64
}

type committedEntry struct {
	term uint64
	link segment.Link
	kind segment.Kind
	seq  uint64
}

// simNode is a place with a node. What is up is core and st.
type simNode struct {
	s    *sim
	h    *history
	slot int
	id   uint64
	fs   *memFS
	st   *store
	core *core

	up      bool
	gone    bool   // for good
	vacant  bool   // nobody is at this place
	shaped  uint64 // its members were compared up to here
	life    int
	paused  bool
	backlog []func()
	writing bool
	queue   []*write
	slow    time.Duration
	busy    time.Duration
	inbox   []func() // while it is busy

	chain    map[uint64]segment.Link // of durable entries
	checked  uint64                  // committed entries up to here were compared
	promised uint64                  // newest durable entry
	link     segment.Link
	hard     hard
	client   *client
	reads    map[uint64]question // barriers
	behind   int                 // refused snapshots
	broken   bool                // it found damage
	rotten   bool
	rot      string // the file that is
}

type client struct {
	no   uint64
	id   batchID
	data []byte
	sent time.Duration
	open bool
	deaf bool // its answers are not measured
}

// question is a read: what was acknowledged when it was asked, and when that was.
type question struct {
	newest uint64
	at     time.Duration
}

// swap is a change of members under way: a new node, or an old one that is to leave, or one for the other.
type swap struct {
	old, new     *simNode
	since, asked time.Duration
}

type event struct {
	at    time.Duration
	order uint64
	do    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func (s *sim) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, event{s.now + d, s.order, do})
}

func (s *sim) note(format string, a ...any) {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, s.hash)
	_, _ = fmt.Fprintf(h, format, a...)
	s.hash = h.Sum64()
	if s.trace != nil {
		_, _ = fmt.Fprintf(s.trace, "%9.3f ", s.now.Seconds())
		_, _ = fmt.Fprintf(s.trace, format+"\n", a...)
	}
}

func (s *sim) fail(format string, a ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at %.3f s: %s", s.now.Seconds(), fmt.Sprintf(format, a...))
		s.note("FAULT %v", s.err)
	}
}

func (s *sim) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a+1)))
}

const simSegment = 4096

// simLock: raft draws election timeouts from crypto/rand.Reader, which a simulation sets.
var simLock sync.Mutex

type seeded struct{ r *rand.ChaCha8 }

func (s seeded) Read(b []byte) (int, error) { return s.r.Read(b) }

// simulate plays a seed.
func simulate(o simOptions) *sim { return simulateWith(o, nil) }

// simulateWith plays a seed with events of the caller's.
func simulateWith(o simOptions, scene func(*sim)) (s *sim) {
	simLock.Lock()
	defer simLock.Unlock()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], o.seed)
	old := crand.Reader
	crand.Reader = seeded{rand.NewChaCha8(key)}
	defer func() { crand.Reader = old }()
	s = &sim{opt: o, rng: rand.New(rand.NewPCG(o.seed, 0x5eed)), all: map[uint64]*simNode{}, cut: map[[2]int]bool{}, arrive: map[[2]int]time.Duration{},
		h: newHistory(), granted: map[[2]uint64]uint64{}, trace: o.trace, counts: map[string]int{}}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(error); !ok || s.trace != nil {
				panic(r)
			}
			s.fail("panic: %v", r)
		}
	}()
	s.start()
	if scene != nil {
		scene(s)
	}
	s.run()
	return s
}

func (s *sim) start() {
	if s.opt.nodes == 0 {
		s.opt.nodes = []int{3, 3, 3, 3, 3, 5, 5, 1}[s.rng.IntN(8)]
	}
	var voters []uint64
	for range s.opt.nodes {
		s.nextID++
		voters = append(voters, s.nextID)
	}
	for slot, id := range voters {
		n := s.place(slot, id, people(voters...), nil)
		n.client = &client{}
		s.nodes = append(s.nodes, n)
		n.boot()
		s.after(s.between(0, 200*time.Millisecond), n.think)
	}
	for i := range uint64(s.opt.nodes) { // the first members
		r, err := s.nodes[0].st.seg.Get(i + 1)
		if err != nil {
			panic(err)
		}
		if err := s.h.commit(r); err != nil {
			panic(err)
		}
	}
	if s.opt.calm {
		s.quietEnd = 20 * time.Second
		return
	}
	s.quietEnd = s.between(2*time.Second, 12*time.Second)
	s.after(s.between(0, 2*time.Second), s.fault)
	s.after(50*time.Millisecond, s.operate)
	if s.rng.IntN(3) > 0 {
		s.lossy, s.late, s.doubled = s.rng.Float64()*.05, s.rng.Float64()*.05, s.rng.Float64()*.05
	}
}

func (s *sim) place(slot int, id uint64, voters, known []Member) *simNode {
	n := &simNode{s: s, h: s.h, slot: slot, id: id, fs: newMemFS(s.rng), chain: map[uint64]segment.Link{}}
	n.fs.noSync, n.fs.same = s.opt.disk == "no sync", s.opt.disk == "not again"
	s.all[id] = n
	if err := errors.Join(n.fs.MkdirAll("/log"), createStore(n.options(), voters, known)); err != nil {
		panic(err)
	}
	n.fs.root.flush() // made by an operator who waits
	return n
}

// flush makes everything durable.
func (n *inode) flush() {
	n.disk, n.writes = slices.Clone(n.now), nil
	n.names = nil
	for name, c := range n.children {
		n.durable[name] = c
		c.flush()
	}
}

func (n *simNode) options() storeOptions {
	size := int64(simSegment)
	if n.s.opt.calm {
		size = 1 << 20
	}
	return storeOptions{fs: n.fs, dir: "/log", id: n.id, size: size, keep: idsKept, plant: n.s.opt.plant}
}

// boot starts a node from its disk.
func (n *simNode) boot() {
	s := n.s
	if n.gone || n.up || n.broken {
		return
	}
	if s.opt.endMark {
		n.endAtEmpty()
	}
	n.life++
	st, err := openStore(n.options())
	if err != nil {
		var d *segment.DamageError
		if errors.As(err, &d) && n.rotten {
			if n.repair() {
				n.boot()
				return
			}
			s.note("node %d found damage: %v", n.id, err)
			n.broken = true
			s.counts["damage found at a start"]++
			return
		}
		s.fail("node %d does not start: %v", n.id, err)
		return
	}
	c, err := newCore(st)
	if errors.Is(err, ErrRemoved) {
		n.leave("it starts")
		return
	} else if err != nil {
		var d *segment.DamageError
		if errors.As(err, &d) && n.rotten {
			if n.repair() {
				n.boot()
				return
			}
			n.broken = true
			s.counts["damage found at a start"]++
			return
		}
		s.fail("node %d does not start: %v", n.id, err)
		return
	}
	n.st, n.core, n.up, n.writing, n.queue, n.paused, n.backlog = st, c, true, false, nil, false, nil
	if st.hard.term > n.hard.term {
		n.hard = st.hard
	}
	n.slow, n.busy, n.inbox, n.reads = 0, s.now, nil, map[uint64]question{}
	s.note("node %d starts: entries to %d, applied %d, term %d", n.id, n.last(), c.applied, st.hard.term)
	n.compare()
	n.checked = c.applied
	life := n.life
	var tick func()
	tick = func() {
		if n.life != life || !n.up {
			return
		}
		s.after(Tick, tick)
		if !n.paused {
			n.do(func() { n.core.tick() })
		}
	}
	n.do(n.core.begin)
	s.after(s.between(0, Tick), tick)
	if c := n.client; c != nil && c.open {
		n.do(func() { n.core.propose(c.id, c.data) })
	}
}

func (n *simNode) last() uint64 {
	last, _ := n.st.seg.Last()
	return last
}

// endAtEmpty is the fault of a log whose end mark is an entry of length 0, and that trusts it.
func (n *simNode) endAtEmpty() {
	names, _ := n.fs.ReadDir("/log/g0000")
	var last string
	for _, name := range names {
		if strings.HasSuffix(name, ".seg") {
			last = name
		}
	}
	f, err := n.fs.find("/log/g0000/" + last)
	if last == "" || err != nil {
		return
	}
	for at := 64; at+segment.HeadSize <= len(f.now); {
		size := int(binary.LittleEndian.Uint32(f.now[at:]))
		if size == 0 {
			return
		}
		if size == 1 && f.now[at+24] == byte(segment.Empty) {
			f.now = f.now[:at:at]
			f.disk, f.writes = slices.Clone(f.now), nil
			break
		}
		at += segment.HeadSize + size - 1
	}
	// What was acknowledged and applied is not known to such a log.
	for _, file := range []struct {
		name  string
		value []byte
	}{{segment.AckedName, nil}, {appliedFile, nil}} {
		f, err := n.fs.find("/log/g0000/" + file.name)
		if err != nil {
			return
		}
		le := binary.LittleEndian
		if file.name == appliedFile {
			sl := &slots{kind: 'X'}
			v := encodeApplied(0, segment.Link{})
			copy(f.now, sl.encode(1<<40, v))
			copy(f.now[slotStride:], sl.encode(1<<40, v))
		} else {
			for at := 0; at+52 <= len(f.now); at += slotStride {
				le.PutUint64(f.now[at+24:], 0)
				clear(f.now[at+32 : at+48])
				le.PutUint32(f.now[at+48:], crc(f.now[at:at+48]))
			}
		}
		f.disk, f.writes = slices.Clone(f.now), nil
	}
}

// compare looks at the whole content of a log that was opened.
func (n *simNode) compare() {
	s := n.s
	seg := n.st.seg
	last, _ := seg.Last()
	if n.promised > 0 {
		if r, err := seg.Get(n.promised); n.promised >= seg.Oldest() && (err != nil || r.Link != n.link) && !n.damaged(err) {
			s.fail("node %d had entry %d durable, and has %v %v (%v)", n.id, n.promised, r.Link, n.link, err)
		}
	}
	if h := n.st.hard; h.term < n.hard.term || h.term == n.hard.term && n.hard.vote != 0 && h.vote != n.hard.vote {
		s.fail("node %d had promised %+v, and knows %+v", n.id, n.hard, h)
	}
	r := seg.Reader(seg.Oldest())
	defer r.Close()
	for i := seg.Oldest(); i <= last; i++ {
		e, err := r.Next(last)
		if err != nil {
			if !n.damaged(err) {
				s.fail("node %d: entry %d: %v", n.id, i, err)
			}
			return
		}
		n.matches(e)
		if i <= n.core.applied && i <= uint64(len(n.h.committed)) && e.Link != n.h.committed[i-1].link {
			s.fail("node %d has applied another entry %d", n.id, i)
		}
	}
	s.counts["logs compared after a start"]++
}

// damaged returns whether an error is the damage that was done to this node, which it has noticed.
func (n *simNode) damaged(err error) bool {
	var d *segment.DamageError
	return n.rotten && errors.As(err, &d)
}

// matches: entries of the same index and term have the same link everywhere.
func (n *simNode) matches(e segment.Record) {
	key := [2]uint64{e.Index, e.Term}
	if l, ok := n.h.links[key]; !ok {
		n.h.links[key] = e.Link
	} else if l != e.Link {
		n.s.fail("node %d has another entry %d of term %d", n.id, e.Index, e.Term)
	}
}

// do lets a node take a step, and does what it wants.
func (n *simNode) do(step func()) {
	s := n.s
	if !n.up || s.err != nil {
		return
	}
	if n.paused {
		n.backlog = append(n.backlog, func() { n.do(step) })
		return
	}
	if n.busy > s.now || len(n.inbox) > 0 { // it is still at work
		if n.inbox = append(n.inbox, step); len(n.inbox) == 1 {
			n.wake()
		}
		return
	}
	n.step(step)
}

// wake lets a node go on when it has done what it was at.
func (n *simNode) wake() {
	life := n.life
	n.s.after(max(0, n.busy-n.s.now), func() {
		for n.life == life && n.up && len(n.inbox) > 0 {
			if n.busy > n.s.now {
				n.wake()
				return
			}
			step := n.inbox[0]
			n.inbox = n.inbox[1:]
			n.step(step)
		}
	})
}

func (n *simNode) step(step func()) {
	s := n.s
	step()
	if n.core.err != nil {
		n.ended(n.core.err)
		return
	}
	o := n.core.take()
	n.check()
	for _, m := range o.messages {
		s.send(n, m)
	}
	for _, x := range o.done {
		n.answer(x)
	}
	for _, no := range o.reads {
		q, ok := n.reads[no]
		if delete(n.reads, no); ok && n.core.applied < q.newest {
			s.fail("node %d answered a read with entries to %d, %d was acknowledged before", n.id, n.core.applied, q.newest)
		}
		if ok {
			s.history = append(s.history, operation{n.slot, q.at, s.now, true, n.core.seq})
		}
		s.counts["reads"]++
	}
	for _, r := range o.reached {
		if r.err != nil { // one that lags does not know the newest members
			s.note("node %d: %v", n.id, r.err)
			s.counts["changes of members that a node refused"]++
			continue
		}
		s.counts["changes of members that a node saw through"]++
	}
	if n.core.mem.removed(n.id) && len(n.core.writes) == 0 {
		n.leave("it runs")
		return
	}
	n.queue = append(n.queue, o.writes...)
	n.work()
	if o.fetch != nil {
		n.fetch(o.fetch)
	}
}

// leave ends a node that has heard of its removal.
func (n *simNode) leave(when string) {
	n.s.note("node %d hears that it was removed while %s", n.id, when)
	n.s.counts["nodes that heard of their removal"]++
	if slices.ContainsFunc(n.s.nodes, func(x *simNode) bool { return x == n }) && (n.s.swap == nil || n.s.swap.old != n) {
		n.s.fail("node %d takes itself for removed", n.id)
	}
	n.kill(false)
	n.gone = true
}

// hear takes a message.
func (n *simNode) hear(m *pb.Message) {
	removed, before := n.core.mem.removed(m.GetFrom()), n.core.raw.BasicStatus()
	n.core.receive(m)
	if !removed {
		return
	}
	n.s.counts["messages of removed nodes"]++
	if after := n.core.raw.BasicStatus(); after.GetTerm() != before.GetTerm() || after.GetVote() != before.GetVote() || after.Lead != before.Lead {
		n.s.fail("node %d was disturbed by node %d, which was removed", n.id, m.GetFrom())
	}
}

// ended: the node has ended itself. That is right after damage and errors of its disk only.
func (n *simNode) ended(err error) {
	s := n.s
	var sync *segment.SyncError
	switch {
	case errors.As(err, &sync) || errors.Is(err, errDisk) || errors.Is(err, errKilled):
		s.note("node %d ends: %v", n.id, err)
		n.kill(false)
		s.after(s.between(100*time.Millisecond, 2*time.Second), n.boot)
	case n.rotten:
		s.note("node %d found damage: %v", n.id, err)
		s.counts["damage found while running"]++
		n.kill(false)
		n.broken = true
	default:
		s.fail("node %d ended: %v", n.id, err)
	}
}

// work does the next write of a node, which takes a while.
func (n *simNode) work() {
	if n.writing || len(n.queue) == 0 || !n.up {
		return
	}
	n.writing = true
	w, life := n.queue[0], n.life
	d := n.s.between(0, 20*time.Microsecond)
	if w.hard != nil || w.snapshot != nil || len(w.entries) > 0 || w.sync || w.trim > 0 { // a sync
		d = n.slow + n.s.between(200*time.Microsecond, 3*time.Millisecond)
	}
	n.s.after(d, func() { n.finish(w, life) })
}

func (n *simNode) finish(w *write, life int) {
	s := n.s
	if n.life != life || !n.up || s.err != nil {
		return
	}
	if n.paused {
		n.backlog = append(n.backlog, func() { n.finish(w, life) })
		return
	}
	err := n.st.save(w)
	switch {
	case w.mend != nil && errors.As(err, new(*segment.DamageError)):
		s.fail("node %d was mended with other bytes: %v", n.id, err)
		return
	case err == nil:
	case passes(err):
		s.counts["writes tried again"]++
		s.after(100*time.Millisecond, func() { n.finish(w, life) })
		return
	case errors.Is(err, errKilled):
		power := s.rng.IntN(2) == 0
		s.note("node %d dies in the middle of a write, power %v", n.id, power)
		s.counts["killed in the middle of a write"]++
		if len(w.entries) > 0 { // which may have begun to cut
			if first := w.entries[0].GetIndex(); first <= n.promised {
				n.promised = first - 1
				if n.link, _ = n.chain[first-1]; first == 1 || n.link == (segment.Link{}) {
					n.promised = 0
				}
			}
		}
		n.kill(power)
		s.after(s.between(100*time.Millisecond, 3*time.Second), n.boot)
		return
	default:
		n.ended(err)
		return
	}
	if w.mend != nil {
		n.mended(w.mend.First)
	}
	n.promised, n.link = n.st.seg.Last()
	if w.hard != nil {
		n.hard = *w.hard
	}
	for _, e := range w.entries {
		if r, err := n.st.seg.Get(e.GetIndex()); err == nil {
			n.matches(r)
			n.chain[r.Index] = r.Link
		} else if !n.damaged(err) {
			s.fail("node %d: entry %d, just written: %v", n.id, e.GetIndex(), err)
		}
	}
	n.queue, n.writing = n.queue[1:], false
	n.do(func() { n.core.wrote(w) })
	n.work()
}

// check compares what a node takes for committed with what others did.
func (n *simNode) check() {
	s, c := n.s, n.core
	if c.leader {
		if old, ok := n.h.leaders[c.term]; ok && old != n.id {
			s.fail("term %d has two leaders, %d and %d", c.term, old, n.id)
		} else if !ok {
			n.h.leaders[c.term] = n.id
			s.note("node %d leads term %d", n.id, c.term)
			s.counts["elections"]++
		}
	}
	if c.applied == n.checked {
		return
	}
	seg := n.st.seg
	for i := max(n.checked+1, seg.Oldest()); i <= c.applied; i++ {
		r, err := seg.Get(i)
		if err != nil {
			if !n.damaged(err) {
				s.fail("node %d: entry %d, which is committed: %v", n.id, i, err)
			}
			return
		}
		switch next := uint64(len(n.h.committed)) + 1; {
		case i > next:
			s.fail("node %d has committed entry %d, the cluster has %d", n.id, i, next-1)
			return
		case i == next:
			if err := n.h.commit(r); err != nil {
				s.fail("%v", err)
			}
			s.note("entry %d: %d %v", i, r.Term, r.Link)
		case r.Link != n.h.committed[i-1].link:
			s.fail("node %d takes another entry %d for committed", n.id, i)
		}
	}
	n.checked = c.applied
	n.compareMembers()
	if want := n.h.committed[c.applied-1].seq; c.seq != want {
		s.fail("node %d: entry %d has sequence number %d, want %d", n.id, c.applied, c.seq, want)
	}
}

// compareMembers: they are a function of the log.
func (n *simNode) compareMembers() {
	m := n.core.mem
	if m.index == n.shaped || m.index > uint64(len(n.h.committed)) {
		return
	}
	n.shaped = m.index
	at := m.index
	for at > 0 && n.h.committed[at-1].kind != segment.Members {
		at--
	}
	c := m.conf
	shape := fmt.Sprint(c.GetVoters(), c.GetVotersOutgoing(), c.GetLearners(), c.GetLearnersNext(), c.GetAutoLeave(), m.book, m.gone)
	if old, ok := n.h.shapes[at]; !ok {
		n.h.shapes[at] = shape
	} else if old != shape {
		n.s.fail("node %d has other members since entry %d: %s, not %s", n.id, at, shape, old)
	}
}

// answer: the client of a node is told where its batch is.
func (n *simNode) answer(x outcome) {
	s, c := n.s, n.client
	if c == nil || !c.open || c.id != x.id {
		return
	}
	n.h.claims[x.id] = x
	if at, ok := n.h.places[x.id]; !ok && n.rotten { // it cannot be read here; final looks at it
	} else if !ok || at != x.index || n.h.committed[at-1].seq != x.seq {
		s.fail("node %d acknowledged a batch as entry %d, it is entry %d", n.id, x.index, at)
		return
	}
	if r, err := n.st.seg.Get(x.index); x.index >= n.st.seg.Oldest() && (err != nil || !bytes.Equal(r.Data, c.data)) && !n.damaged(err) {
		s.fail("node %d acknowledged entry %d, which is another batch (%v)", n.id, x.index, err)
	}
	c.open = false
	s.history = append(s.history, operation{n.slot, c.sent, s.now, false, x.seq})
	s.acked++
	n.h.newest = max(n.h.newest, x.index)
	s.note("client %d: batch %d is entry %d", n.slot, c.no, x.index)
	if !c.deaf {
		s.answers = append(s.answers, s.now)
	}
	if s.now < s.quietEnd {
		s.after(s.between(0, 80*time.Millisecond), n.s.nodes[n.slot].think)
	}
}

// think lets the client of a slot send its next batch.
func (n *simNode) think() {
	s := n.s
	n = s.nodes[n.slot]
	c := n.client
	if n.vacant || c.open || s.now >= s.quietEnd && c.no > 0 {
		return
	}
	c.no++
	size := 16 + s.rng.IntN(300)
	if s.opt.payload > 0 {
		size = s.opt.payload
	}
	if s.rng.IntN(200) == 0 {
		size = 70_000
	}
	c.data = make([]byte, size)
	binary.LittleEndian.PutUint64(c.data, c.no)
	c.data[8] = byte(n.slot)
	for i := 16; i < min(size, 100); i++ {
		c.data[i] = byte(s.rng.Uint32())
	}
	c.id, c.open, c.sent = batchID(c.data), true, s.now
	if s.rng.IntN(5) == 0 {
		q := question{n.h.newest, s.now}
		n.do(func() {
			if s.opt.stale { // the control does not ask the leader
				s.history = append(s.history, operation{n.slot, s.now, s.now + 1, true, n.core.seq})
				return
			}
			n.reads[n.core.barrier()] = q
		})
	}
	s.resend(n.slot, c.no)
}

// resend sends the batch of a client, now and each second, to the node that is at its place.
func (s *sim) resend(slot int, no uint64) {
	n := s.nodes[slot]
	c := n.client
	if n.vacant || !c.open || c.no != no {
		return
	}
	n.do(func() { n.core.propose(c.id, c.data) })
	s.after(time.Second, func() { s.resend(slot, no) })
}

func (s *sim) send(from *simNode, m *pb.Message) {
	to := s.all[m.GetTo()]
	if to == nil || to.gone {
		return
	}
	if to.h != from.h && !s.opt.naive { // another cluster: the connection is refused
		s.counts["messages between clusters"]++
		return
	}
	if m.GetType() == pb.MsgVoteResp && !m.GetReject() {
		key := [2]uint64{from.id, m.GetTerm()}
		if old, ok := s.granted[key]; ok && old != m.GetTo() {
			s.fail("node %d votes for nodes %d and %d in term %d", from.id, old, m.GetTo(), m.GetTerm())
		}
		s.granted[key] = m.GetTo()
	}
	if s.opt.cost > 0 {
		size := 100
		for _, e := range m.Entries {
			size += len(e.Data)
		}
		from.busy = max(from.busy, s.now) + s.opt.cost*time.Duration(size)>>20
	}
	if held, ok := s.held[[2]int{from.slot, to.slot}]; ok {
		s.held[[2]int{from.slot, to.slot}] = append(held, heldMessage{s.now, m})
		return
	}
	switch m.GetType() {
	case pb.MsgPreVote, pb.MsgPreVoteResp: // speak of a term that need not come
	default:
		if h := from.hard.term; m.GetTerm() > h {
			s.fail("node %d speaks of term %d, and only term %d is durable", from.id, m.GetTerm(), h)
		}
	}
	if s.cut[[2]int{from.slot, to.slot}] || from.slot != to.slot && s.rng.Float64() < s.lossy {
		s.counts["messages lost"]++
		return
	}
	copies := 1
	if s.rng.Float64() < s.doubled {
		copies = 2
		s.counts["messages doubled"]++
	}
	for range copies {
		d := s.between(100*time.Microsecond, 2*time.Millisecond)
		if s.rng.Float64() < s.late {
			d = s.between(2*time.Millisecond, 4*time.Second)
			s.counts["messages late"]++
		}
		if s.opt.calm { // in order, as on a connection
			at := max(s.now+d, s.arrive[[2]int{from.slot, to.slot}])
			s.arrive[[2]int{from.slot, to.slot}] = at
			d = at - s.now
		}
		x := &pb.Message{} // each copy of its own, as behind a network
		cloneInto(x, m)
		s.after(d, func() {
			if to := s.all[m.GetTo()]; to != nil && to.up && !s.cut[[2]int{from.slot, to.slot}] {
				to.do(func() { to.hear(x) })
			}
		})
	}
}

func cloneInto(x, m *pb.Message) {
	x.Type, x.To, x.From, x.Term, x.LogTerm, x.Index = m.Type, m.To, m.From, m.Term, m.LogTerm, m.Index
	x.Commit, x.Vote, x.Snapshot, x.Reject, x.RejectHint, x.Context = m.Commit, m.Vote, m.Snapshot, m.Reject, m.RejectHint, m.Context
	for _, e := range m.Entries {
		x.Entries = append(x.Entries, &pb.Entry{Term: e.Term, Index: e.Index, Type: e.Type, Data: e.Data})
	}
}

// fetch gets the segments of a snapshot from the node that sent it, or any other.
func (n *simNode) fetch(g *stage) {
	s, life := n.s, n.life
	s.after(s.between(time.Millisecond, 20*time.Millisecond), func() {
		if n.life != life || !n.up || n.paused || n.core.fetching != g {
			if n.life == life && n.up && n.paused {
				n.backlog = append(n.backlog, func() { n.fetch(g) })
			}
			return
		}
		from := s.all[g.msg.GetFrom()]
		first, at, size := g.want()
		if g.tries > 0 && first > 0 {
			from = s.nodes[s.rng.IntN(len(s.nodes))]
		}
		b := make([]byte, size)
		var err error
		if from == nil || from.h != n.h || !from.up || from.paused || s.cut[[2]int{from.slot, n.slot}] || s.cut[[2]int{n.slot, from.slot}] || s.rng.IntN(50) == 0 {
			err = errors.New("no answer")
		} else {
			err = from.st.read(first, b, at)
		}
		if err == nil {
			err = g.add(b)
		}
		if err == nil || errors.Is(err, errFile) {
			if _, _, size := g.want(); size > 0 {
				n.fetch(g)
				return
			}
			var index uint64
			var link segment.Link
			if index, link, err = n.core.proof(); err == nil {
				err = g.verify(index, link)
			}
		}
		if errors.Is(err, errKilled) {
			return
		}
		if errors.Is(err, errSnapshot) {
			n.behind++
		}
		s.note("node %d: snapshot of entry %d: %v", n.id, g.msg.GetSnapshot().GetMetadata().GetIndex(), err)
		if err == nil {
			s.counts["snapshots"]++
		} else {
			s.counts["snapshots refused or lost"]++
		}
		n.do(func() { n.core.fetched(g, err == nil) })
	})
}

func (n *simNode) kill(power bool) {
	if !n.up {
		return
	}
	n.up = false
	n.life++
	n.fs.kill(power)
	n.queue, n.backlog, n.writing = nil, nil, false
}

// run plays until the end.
func (s *sim) run() {
	deadline := s.quietEnd + 120*time.Second
	for s.err == nil && s.events.Len() > 0 {
		e := heap.Pop(&s.events).(event)
		if s.now = e.at; s.now > deadline {
			s.fail("no end: %s", s.state())
			return
		}
		e.do()
		s.counts["steps"]++
		if s.now > s.quietEnd+3*time.Second && s.settled() {
			break
		}
	}
	if s.err == nil {
		s.final()
	}
}

func (s *sim) state() string {
	var b strings.Builder
	nodes := slices.Clone(s.nodes)
	if s.swap != nil && s.swap.new != nil {
		nodes = append(nodes, s.swap.new)
	}
	for _, n := range nodes {
		if n.vacant {
			continue
		}
		_, _ = fmt.Fprintf(&b, "[slot %d node %d up %v broken %v behind %d", n.slot, n.id, n.up, n.broken, n.behind)
		if n.up {
			_, _ = fmt.Fprintf(&b, " lead %d term %d applied %d conf %v waiting %d writes %d fetching %v", n.core.lead, n.core.term, n.core.applied, n.core.mem.conf,
				len(n.core.waiting), len(n.core.writes), n.core.fetching != nil)
		}
		_, _ = fmt.Fprintf(&b, " open %v] ", n.client != nil && n.client.open)
	}
	return b.String()
}

// settled returns whether all clients have their answers, all nodes all entries, and nobody is to be replaced.
func (s *sim) settled() bool {
	if s.swap != nil || s.sick != nil || s.small() {
		return false
	}
	for _, n := range s.nodes {
		if n.vacant {
			continue
		}
		if !n.up || n.paused || n.client.open || n.core.applied != uint64(len(n.h.committed)) || len(n.core.writes) > 0 {
			return false
		}
	}
	return true
}

// final compares the files of all nodes, entry by entry, after they were started once more.
func (s *sim) final() {
	for id, x := range s.h.claims {
		if at, ok := s.h.places[id]; !ok || at != x.index || s.h.committed[at-1].seq != x.seq {
			s.fail("a batch was acknowledged as entry %d, at the end it is entry %d", x.index, at)
			return
		}
	}
	for _, n := range s.nodes {
		if n.vacant {
			continue
		}
		n.kill(true)
		n.boot()
		if s.err != nil || !n.up {
			return
		}
		seg := n.st.seg
		for i := seg.Oldest(); i <= uint64(len(s.h.committed)); i++ {
			r, err := seg.Get(i)
			if err != nil && n.damaged(err) {
				break
			}
			if err != nil || r.Link != s.h.committed[i-1].link {
				s.fail("node %d: entry %d at the end: %v", n.id, i, err)
				return
			}
		}
	}
	for i, id := range s.leftIDs {
		if at, ok := s.h.places[id]; ok { // it was taken, without an answer
			op := s.left[i]
			op.end, op.seq = 1<<62, s.h.committed[at-1].seq
			s.history = append(s.history, op)
		}
	}
	s.counts["entries"] = len(s.h.committed)
	s.counts["acknowledged"] = s.acked
}
