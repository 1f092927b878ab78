package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog/segment"
)

// Times of a node in ticks. A follower that has heard nothing for one to two election times asks for votes; a leader that has
// heard no majority for one steps down.
const (
	Tick           = 50 * time.Millisecond
	electionTicks  = 20 // 1 s
	heartbeatTicks = 2  // 100 ms

	proposeAgain  = 10  // a batch that was passed on and has not come back
	snapshotAgain = 100 // a snapshot that was sent and is not there
	slowWrite     = 20  // a leader whose disk takes so long hands over
	noteEvery     = 20
)

// Sizes in bytes.
const (
	messageSize     = 64 << 10 // of the entries in a message; a larger entry goes alone
	inflightSize    = 2 << 20  // to a follower that has not confirmed
	uncommittedSize = 16 << 20 // at the leader
	applySize       = 4 << 20
)

// core is a node without a disk, a network and a clock. What happens outside is told to it by calls: tick, receive, wrote,
// propose and so on; what is to be done is in out, which the caller takes after every call. The same calls give the same
// results, but for the election timeouts, which raft draws. One goroutine at a time may call it.
//
// A core goes through these steps in each call:
//
//  1. Raft is told what happened.
//  2. What raft wants is taken, until it wants nothing more (drain): messages, a write for the store, entries that are
//     committed and durable here.
//  3. A message leaves at once when the term that it speaks of is durable, otherwise with the write that makes it so. Raft
//     orders its own answers behind their write.
//  4. Entries that are committed get their sequence numbers, and their callers an answer.
type core struct {
	id  uint64
	st  *store
	raw *raft.RawNode
	now uint64 // ticks
	err error  // why this node has ended

	applied uint64 // newest entry that is committed and was looked at
	seq     uint64 // of the newest batch among them
	mem     members
	noted   uint64 // applied in the newest write that was given out
	durable uint64 // applied in the newest of them that makes notes durable

	ids     ids
	waiting []*proposal // in the order of the calls
	reads   []*read
	readNo  uint64
	goals   []*goal // changes of members that are waited for
	goalNo  uint64

	changing    uint64                 // newest entry of the log that changes the members
	appliedTerm uint64                 // term of the newest applied entry
	marks       [heartbeatTicks]uint64 // what was applied at the last ticks, the oldest first

	lead, term uint64
	leader     bool

	writes   []*write // given out and not done, oldest first
	hard     *write   // the newest of them with a term or a vote
	given    hard     // the newest term and vote that were given out
	snapSent map[uint64]uint64
	fetching *stage
	handed   uint64 // when a leader with a slow disk handed over
	refused  uint64 // messages that no node of this log sends

	out output
}

// output is what a caller of a core has to do.
type output struct {
	messages []*pb.Message // to send, in order; any of them may be lost
	writes   []*write      // for the store, in order; wrote is called for each when it is done
	fetch    *stage        // a snapshot to fetch and verify; fetched is called when it is there
	done     []outcome
	reads    []uint64 // that are answered: all that was committed when they were asked is applied
	reached  []reached
	applied  bool // applied has grown
}

// proposal is a batch that waits to be committed.
type proposal struct {
	id   batchID
	data []byte // with the id
	sent uint64 // tick; 0 for not yet
}

// outcome is the answer to a batch: its place.
type outcome struct {
	id         batchID
	seq, index uint64
	dup        bool // it was there before
}

// read is a question for the newest committed entry.
type read struct {
	no    uint64
	sent  uint64
	index uint64 // 0 until the leader has answered
}

// newCore returns the node of a store, ErrRemoved for one that is no member any more.
func newCore(st *store) (c *core, err error) {
	if st.members.removed(st.opt.id) {
		return nil, ErrRemoved
	}
	return makeCore(st)
}

func makeCore(st *store) (c *core, err error) {
	c = &core{id: st.opt.id, st: st, ids: ids{keep: st.opt.keep}, snapSent: map[uint64]uint64{}}
	defer c.catch(&err)
	c.mem = st.members
	c.applied, c.noted, c.term, c.given = st.noted, st.noted, st.hard.term, st.hard
	if err := c.ids.read(st); err != nil {
		return nil, err
	}
	if c.seq, err = st.seg.Seq(c.applied); err != nil {
		return nil, err
	}
	if c.appliedTerm, err = st.Term(c.applied); err != nil {
		return nil, err
	}
	size := uint64(messageSize)
	if st.opt.plant.large {
		size = 1 << 20
	}
	c.raw, err = raft.NewRawNode(&raft.Config{
		ID: c.id, Storage: st, Applied: c.applied,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks, PreVote: true, CheckQuorum: true, StepDownOnRemoval: true,
		AsyncStorageWrites: true,
		MaxSizePerMsg:      size, MaxInflightMsgs: 256, MaxInflightBytes: inflightSize,
		MaxUncommittedEntriesSize: uncommittedSize, MaxCommittedSizePerReady: applySize,
		Logger: quiet{},
	})
	return c, err
}

// begin is called once, before the first tick. The only voter of a log leads it at once, and waits for no election.
func (c *core) begin() {
	defer c.catch(nil)
	if v := c.mem.conf.GetVoters(); len(v) == 1 && v[0] == c.id && !c.mem.joint() && c.err == nil {
		_ = c.raw.Campaign()
	}
	c.drain()
}

// catch turns a panic of raft into the end of the node: raft panics rather than go on against its own rules.
func (c *core) catch(err *error) {
	if r := recover(); r != nil {
		p, ok := r.(error)
		if !ok {
			p = fmt.Errorf("%v", r)
		}
		c.err = fmt.Errorf("raftlog: node %d: %w", c.id, p)
		if err != nil {
			*err = c.err
		}
	}
}

// take returns what there is to do.
func (c *core) take() output {
	o := c.out
	c.out = output{}
	return o
}

// tick is called once for each Tick of time.
func (c *core) tick() {
	if c.err != nil {
		return
	}
	defer c.catch(nil)
	c.now++
	c.raw.Tick()
	for _, p := range slices.Clone(c.waiting) {
		if c.now-p.sent >= proposeAgain {
			c.send(p)
		}
	}
	for _, r := range c.reads {
		if r.index == 0 && c.now-r.sent >= proposeAgain {
			c.ask(r)
		}
	}
	c.settleGoals(true)
	copy(c.marks[:], c.marks[1:])
	c.marks[len(c.marks)-1] = c.applied
	c.watchSnapshots()
	c.watchDisk()
	if c.leader && c.now%proposeAgain == 0 && c.mem.conf.GetAutoLeave() {
		// Raft proposes the end of a joint change once, and not while the leader hands over.
		_ = c.raw.ProposeConfChange(&pb.ConfChangeV2{})
	}
	c.keepNotes()
	c.drain()
}

// keepNotes has the applied entry noted at each tick, and the notes made durable once a second.
func (c *core) keepNotes() {
	sync := c.now%noteEvery == 0 && c.durable < c.applied
	if len(c.writes) == 0 && c.noted < c.applied || sync {
		c.give(&write{sync: sync})
	}
	if sync {
		c.durable = c.applied
	}
}

// watchSnapshots tells raft that a snapshot was lost, so that it is sent again: raft waits for it otherwise.
func (c *core) watchSnapshots() {
	if len(c.snapSent) == 0 {
		return
	}
	var lost []uint64
	c.raw.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if at, ok := c.snapSent[id]; ok && p.State == tracker.StateSnapshot && c.now-at >= snapshotAgain {
			lost = append(lost, id)
		}
	})
	for _, id := range lost {
		delete(c.snapSent, id)
		c.raw.ReportSnapshot(id, raft.SnapshotFailure)
	}
}

// watchDisk hands over when this leader's disk is slow: others may commit, but its own callers wait.
func (c *core) watchDisk() {
	if !c.leader || len(c.writes) == 0 || c.now-c.writes[0].tick < slowWrite || c.now-c.handed < slowWrite {
		return
	}
	c.handed = c.now
	c.transfer()
}

// receive takes a message of another node. One that no node of this log sends is counted and dropped.
func (c *core) receive(m *pb.Message) {
	if c.err != nil {
		return
	}
	defer c.catch(nil)
	if m.GetTo() != c.id || m.GetFrom() == c.id || c.mem.removed(m.GetFrom()) && !c.st.opt.plant.hearGone ||
		raft.IsLocalMsg(m.GetType()) || !wellFormed(m) || !c.possible(m) {
		c.refused++
		return
	}
	switch m.GetType() {
	case pb.MsgProp:
		for _, e := range m.Entries {
			if kindOf(e) == segment.Members {
				cc, _ := parseChange(e.Data)
				_ = c.admit(cc) // it is sent again
			} else {
				c.propose1(e.Data)
			}
		}
	case pb.MsgSnap:
		c.snapshot(m)
	default:
		_ = c.raw.Step(m) // an answer of a node that is no member any more
	}
	c.drain()
}

// Bounds of numbers that come from others: no log gets so far, and raft adds one to them.
const (
	maxNumber = 1 << 62
	maxAhead  = 1 << 32 // terms that this node has not heard of
)

// possible returns false for messages that a node of this log cannot send, whatever happened: a term has one leader, and only that
// one sends entries, heartbeats and snapshots in it.
func (c *core) possible(m *pb.Message) bool {
	if max(m.GetTerm(), m.GetIndex(), m.GetCommit(), m.GetLogTerm(), m.GetSnapshot().GetMetadata().GetIndex()) >= maxNumber ||
		m.GetTerm() > c.term+maxAhead {
		return false
	}
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		return m.GetTerm() != c.term || c.lead == 0 || m.GetFrom() == c.lead
	}
	return true
}

// wellFormed returns whether a store can hold the entries of a message, and they follow each other.
func wellFormed(m *pb.Message) bool {
	term := m.GetLogTerm()
	for i, e := range m.Entries {
		if !valid(e) {
			return false
		}
		switch m.GetType() {
		case pb.MsgApp:
			if e.GetIndex() != m.GetIndex()+uint64(i)+1 || e.GetTerm() < term || e.GetTerm() > m.GetTerm() {
				return false
			}
			term = e.GetTerm()
		case pb.MsgProp:
			switch kindOf(e) {
			case segment.Batch:
			case segment.Members:
				if _, ok := parseChange(e.Data); !ok {
					return false
				}
			default:
				return false
			}
		}
	}
	return m.GetType() != pb.MsgReadIndex || len(m.Entries) == 1
}

// propose takes a batch behind its id. Its outcome comes in out when it is committed, perhaps at once, perhaps never. It is
// sent again until forget is called: when there is a new leader, and after a while, because a message may be lost.
func (c *core) propose(id batchID, data []byte) {
	if c.err != nil {
		return
	}
	defer c.catch(nil)
	if at, ok := c.ids.place[id]; ok && at.index <= c.applied {
		c.out.done = append(c.out.done, c.outcome(id, at, true))
		return
	}
	i := slices.IndexFunc(c.waiting, func(p *proposal) bool { return p.id == id })
	if i < 0 {
		i = len(c.waiting)
		c.waiting = append(c.waiting, &proposal{id: id, data: data})
	}
	c.send(c.waiting[i])
	c.drain()
}

// forget ends the wait for a batch. It may be committed all the same.
func (c *core) forget(id batchID) {
	c.waiting = slices.DeleteFunc(c.waiting, func(p *proposal) bool { return p.id == id })
}

// send passes a batch to the leader, which may be this node.
func (c *core) send(p *proposal) {
	switch p.sent = c.now; {
	case c.leader:
		c.propose1(p.data)
	case c.lead != 0:
		_ = c.raw.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: &c.id, Entries: []*pb.Entry{{Data: p.data}}})
	default:
		p.sent = 0
	}
}

// propose1 puts a batch behind the log of the leader, unless it is there.
func (c *core) propose1(data []byte) {
	if _, ok := c.ids.place[batchID(data)]; c.leader && (!ok || c.st.opt.plant.twice) {
		_ = c.raw.Propose(data) // dropped while the leader hands over or too much waits; it is sent again
		c.drain()               // so that its id is known before the next one comes
	}
}

// barrier asks for all that is committed now. Its number is in out.reads when it is applied here.
func (c *core) barrier() (no uint64) {
	c.readNo++
	if c.err != nil {
		return c.readNo
	}
	defer c.catch(nil)
	r := &read{no: c.readNo}
	c.reads = append(c.reads, r)
	c.ask(r)
	c.drain()
	return r.no
}

func (c *core) ask(r *read) {
	r.sent = c.now
	if c.lead == 0 {
		return
	}
	b := binary.LittleEndian.AppendUint64(nil, c.id)
	c.raw.ReadIndex(binary.LittleEndian.AppendUint64(b, r.no))
}

func (c *core) answered(s raft.ReadState) {
	if len(s.RequestCtx) != 16 || binary.LittleEndian.Uint64(s.RequestCtx) != c.id {
		return
	}
	no := binary.LittleEndian.Uint64(s.RequestCtx[8:])
	for _, r := range c.reads {
		if r.no == no && r.index == 0 {
			r.index = max(s.Index, 1)
		}
	}
}

func (c *core) settleReads() {
	c.reads = slices.DeleteFunc(c.reads, func(r *read) bool {
		if r.index == 0 || r.index > c.applied {
			return false
		}
		c.out.reads = append(c.out.reads, r.no)
		return true
	})
}

// trim lets the entries before an index go, as far as they stand in whole segments. They must have been
// applied. done is closed when they are gone; it may be nil.
func (c *core) trim(first uint64, done chan struct{}) {
	if c.err == nil && first <= c.applied {
		c.give(&write{trim: first, done: done})
	}
}

// snapshot begins to fetch what this node lacks. Raft is told when it is there.
func (c *core) snapshot(m *pb.Message) {
	if m.GetSnapshot().GetMetadata().GetIndex() <= c.applied {
		_ = c.raw.Step(m) // which answers that it is there
		return
	}
	if c.fetching != nil {
		return
	}
	g, err := newStage(c.st.opt, m)
	if errors.Is(err, errSnapshot) {
		c.refused++
		return
	} else if err != nil {
		panic(err)
	}
	c.fetching, c.out.fetch = g, g
}

// proof is the entry whose link a snapshot must have: the newest one that this node has applied, 0 while it takes part in no
// decision.
func (c *core) proof() (index uint64, link segment.Link, err error) {
	if c.applied == 0 || !slices.Contains(c.mem.conf.GetVoters(), c.id) && !slices.Contains(c.mem.conf.GetVotersOutgoing(), c.id) {
		return 0, link, nil
	}
	r, err := c.st.segments().Get(c.applied)
	return c.applied, r.Link, err
}

// fetched ends the fetch of a snapshot. ok says that it is there and verified.
func (c *core) fetched(g *stage, ok bool) {
	if c.fetching = nil; c.err != nil {
		return
	}
	defer c.catch(nil)
	if !ok {
		if err := g.drop(); err != nil {
			panic(err)
		}
		return
	}
	c.fetching = g // until raft has decided
	_ = c.raw.Step(g.msg)
	c.drain()
	if c.fetching == g && !slices.ContainsFunc(c.writes, func(w *write) bool { return w.snapshot == g }) {
		c.fetching = nil // raft has gone on meanwhile
		if err := g.drop(); err != nil {
			panic(err)
		}
	}
}

// wrote is called when the oldest write that was given out is durable. Its held messages leave, raft gets its answers.
func (c *core) wrote(w *write) {
	if c.err != nil {
		return
	}
	defer c.catch(nil)
	if len(c.writes) == 0 || c.writes[0] != w {
		panic("raftlog: writes out of order")
	}
	if c.writes = c.writes[1:]; c.hard == w {
		c.hard = nil
	}
	if w.snapshot != nil {
		c.fetching = nil
		meta := w.snapshot.msg.GetSnapshot().GetMetadata()
		c.applied, c.appliedTerm, c.mem, c.out.applied = meta.GetIndex(), meta.GetTerm(), *c.st.current.Load(), true
		if err := c.ids.read(c.st); err != nil {
			panic(err)
		}
		var err error
		if c.seq, err = c.st.segments().Seq(c.applied); err != nil {
			panic(err)
		}
		c.answerPlaced()
	}
	c.out.messages = append(c.out.messages, w.held...)
	for _, m := range w.responses {
		if m.GetTo() == c.id {
			_ = c.raw.Step(m)
		} else {
			c.out.messages = append(c.out.messages, m)
		}
	}
	c.drain()
}

// answerPlaced answers the batches that came with a snapshot.
func (c *core) answerPlaced() {
	c.waiting = slices.DeleteFunc(c.waiting, func(p *proposal) bool {
		at, ok := c.ids.place[p.id]
		if !ok || at.index > c.applied {
			return false
		}
		c.out.done = append(c.out.done, c.outcome(p.id, at, false))
		return true
	})
}

// outcome is the answer to a batch that is committed.
func (c *core) outcome(id batchID, at spot, dup bool) outcome {
	if at.seq == 0 {
		var err error
		if at.seq, err = c.st.segments().Seq(at.index); errors.Is(err, segment.ErrNotFound) { // trimmed meanwhile
			for _, p := range c.st.trimmedIDs() {
				if p.id == id {
					at.seq, err = p.seq, nil
				}
			}
		}
		if err != nil {
			panic(err)
		}
	}
	return outcome{id, at.seq, at.index, dup}
}

// fail ends the node: its store could not do what it was given.
func (c *core) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// drain takes what raft wants until it wants nothing more.
func (c *core) drain() {
	for c.raw.HasReady() {
		rd := c.raw.Ready()
		term := c.raw.BasicStatus().HardState.GetTerm()
		if s := rd.SoftState; s != nil {
			c.lead, c.leader = s.Lead, s.RaftState == raft.StateLeader
		}
		for _, m := range rd.Messages {
			if m.GetTo() == raft.LocalAppendThread {
				c.append(m) // first, because messages of a new term wait for it
			}
		}
		var apply []*pb.Message
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
			case raft.LocalApplyThread:
				apply = append(apply, m)
			default:
				c.leave(m)
			}
		}
		for _, m := range apply {
			c.apply(m)
		}
		for _, s := range rd.ReadStates {
			c.answered(s)
		}
		if rd.SoftState != nil || term != c.term { // a new leader, perhaps: what waits is sent again, and not by the clock
			c.term = term
			for _, p := range slices.Clone(c.waiting) { // which a batch that is committed at once leaves
				c.send(p)
			}
			for _, r := range c.reads {
				if r.index == 0 {
					c.ask(r)
				}
			}
			c.settleGoals(false)
		}
	}
	c.settleReads()
}

// append gives out a write of raft.
func (c *core) append(m *pb.Message) {
	w := &write{entries: m.Entries, responses: m.Responses}
	if m.Term != nil { // with vote and commit index
		if h := (hard{m.GetTerm(), m.GetVote()}); h != c.given {
			w.hard, c.given = &h, h
		}
	}
	if m.Snapshot != nil {
		w.snapshot = c.fetching
		if w.snapshot == nil || w.snapshot.msg.GetSnapshot().GetMetadata().GetIndex() != m.Snapshot.GetMetadata().GetIndex() {
			panic("raftlog: a snapshot that was not fetched")
		}
	}
	c.ids.add(m.Entries)
	for i, e := range m.Entries {
		if i == 0 && e.GetIndex() <= c.changing {
			c.changing = 0 // it was replaced
		}
		if kindOf(e) == segment.Members {
			c.changing = e.GetIndex()
		}
	}
	c.give(w)
	if w.hard != nil {
		c.hard = w
	}
	if c.st.opt.plant.commitFirst && m.Commit != nil {
		w.applied = m.GetCommit()
	}
}

func (c *core) give(w *write) {
	w.tick, w.applied = c.now, max(w.applied, c.applied)
	c.noted = c.applied
	c.writes = append(c.writes, w)
	c.out.writes = append(c.out.writes, w)
}

// leave sends a message, once the term and the vote that were given out before it are durable. Raft itself orders only
// answers behind their write. Without this rule a candidate can win, write entries elsewhere, lose its power before its own
// term is durable, and win the same term once more with other entries.
func (c *core) leave(m *pb.Message) {
	if m.GetType() == pb.MsgSnap {
		c.snapSent[m.GetTo()] = c.now
	}
	if c.hard != nil && !c.st.opt.plant.early {
		c.hard.held = append(c.hard.held, m)
		return
	}
	c.out.messages = append(c.out.messages, m)
}

// apply looks at entries that are committed and durable here, in order.
func (c *core) apply(m *pb.Message) {
	for _, e := range m.Entries {
		if e.GetIndex() != c.applied+1 {
			panic(fmt.Sprintf("raftlog: entry %d is applied behind entry %d", e.GetIndex(), c.applied))
		}
		switch c.applied = e.GetIndex(); kindOf(e) {
		case segment.Batch:
			c.seq++
			id := batchID(e.Data[:idSize])
			if i := slices.IndexFunc(c.waiting, func(p *proposal) bool { return p.id == id }); i >= 0 {
				c.waiting = slices.Delete(c.waiting, i, i+1)
				c.out.done = append(c.out.done, outcome{id, c.seq, c.applied, false})
			}
		case segment.Members:
			var cc pb.ConfChangeV2
			if err := proto.Unmarshal(e.Data, &cc); err != nil {
				panic(err)
			}
			c.mem = c.mem.after(c.applied, &cc, c.raw.ApplyConfChange(&cc))
			m := c.mem
			c.give(&write{members: &m})
		}
		c.appliedTerm = e.GetTerm()
	}
	now := c.mem
	now.index = c.applied
	c.st.current.Store(&now)
	c.out.applied = true
	for _, r := range m.Responses {
		_ = c.raw.Step(r)
	}
}

// quiet is a logger of raft that keeps only what ends a node.
type quiet struct{}

func (quiet) Debug(...any)                   {}
func (quiet) Debugf(string, ...any)          {}
func (quiet) Info(...any)                    {}
func (quiet) Infof(string, ...any)           {}
func (quiet) Warning(...any)                 {}
func (quiet) Warningf(string, ...any)        {}
func (quiet) Error(...any)                   {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (quiet) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
