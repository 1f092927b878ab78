package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Member is a node of a log.
type Member struct {
	ID   uint64 // raft id: of one directory, never used again for another one
	Name string // in its certificate
	Addr string // host:port
}

// Bounds of what a log knows about its members.
const (
	maxBook = 32   // members, and nodes that a node that joins is told of
	maxText = 255  // bytes of a name, and of an address
	maxGone = 1024 // newest ids of nodes that were removed
)

// ErrRemoved: the node was removed from its log. Its raft id is never taken again; another directory can join.
var ErrRemoved = errors.New("raftlog: this node was removed from the log")

func (m Member) check() error {
	if m.ID == 0 || m.ID >= 1<<63 {
		return fmt.Errorf("raftlog: member id = %d, want 1 to 2^63 - 1", m.ID)
	}
	for _, x := range []struct{ field, text string }{{"name", m.Name}, {"addr", m.Addr}} {
		if x.text == "" || len(x.text) > maxText || !utf8.ValidString(x.text) {
			return fmt.Errorf("raftlog: member %d: %s = %.300q, want 1 to %d bytes of text", m.ID, x.field, x.text, maxText)
		}
		for _, r := range x.text {
			if unicode.IsSpace(r) || unicode.IsControl(r) {
				return fmt.Errorf("raftlog: member %d: %s = %q, want no space", m.ID, x.field, x.text)
			}
		}
	}
	return nil
}

// members is who takes part from an entry on. It is a function of the log, but for known.
type members struct {
	index uint64 // the entry that made them
	conf  *pb.ConfState
	book  []Member // of the nodes in conf, ascending by id
	gone  []uint64 // nodes that were removed, the newest ones last
	known []Member // nodes that this one was told of, and that the log that it has does not name yet
}

func (m members) has(id uint64) bool {
	c := m.conf
	return slices.Contains(c.GetVoters(), id) || slices.Contains(c.GetVotersOutgoing(), id) || slices.Contains(c.GetLearners(), id) ||
		slices.Contains(c.GetLearnersNext(), id)
}

func (m members) removed(id uint64) bool { return slices.Contains(m.gone, id) }

// joint returns whether a change is between its two halves.
func (m members) joint() bool { return len(m.conf.GetVotersOutgoing()) > 0 }

func (m members) member(id uint64) (x Member, ok bool) {
	i := slices.IndexFunc(m.book, func(x Member) bool { return x.ID == id })
	if i < 0 {
		return x, false
	}
	return m.book[i], true
}

// after returns the members behind a change, of which raft has made conf.
func (m members) after(index uint64, cc *pb.ConfChangeV2, conf *pb.ConfState) members {
	next := members{index: index, conf: conf, gone: m.gone}
	news, _, _ := takeBook(cc.GetContext()) // one that is not readable was never admitted
	for _, x := range append(slices.Clone(m.book), news...) {
		if i := slices.IndexFunc(next.book, func(y Member) bool { return y.ID == x.ID }); i >= 0 {
			next.book[i] = x
		} else if next.has(x.ID) {
			next.book = append(next.book, x)
		}
	}
	slices.SortFunc(next.book, func(a, b Member) int { return compare(a.ID, b.ID) })
	for _, ids := range [][]uint64{m.conf.GetVoters(), m.conf.GetVotersOutgoing(), m.conf.GetLearners(), m.conf.GetLearnersNext()} {
		for _, id := range ids {
			if !next.has(id) && !next.removed(id) {
				next.gone = append(slices.Clip(next.gone), id)
			}
		}
	}
	next.gone = next.gone[max(0, len(next.gone)-maxGone):]
	next.known = next.unknown(m.known)
	return next
}

// unknown returns which of some nodes these members do not name.
func (m members) unknown(of []Member) []Member {
	return slices.DeleteFunc(slices.Clone(of), func(x Member) bool { return m.has(x.ID) || m.removed(x.ID) })
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// appendBook appends u16 n | n × (id u64 | length u8 | name | length u8 | address).
func appendBook(b []byte, book []Member) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(len(book)))
	for _, m := range book {
		b = le.AppendUint64(b, m.ID)
		b = append(append(b, byte(len(m.Name))), m.Name...)
		b = append(append(b, byte(len(m.Addr))), m.Addr...)
	}
	return b
}

// takeBook returns what appendBook wrote, and what stands behind it. Without bytes there are no members.
func takeBook(b []byte) (book []Member, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, true
	}
	if len(b) < 2 || binary.LittleEndian.Uint16(b) > maxBook {
		return nil, nil, false
	}
	n := int(binary.LittleEndian.Uint16(b))
	b = b[2:]
	text := func() (s string) {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			ok = false
			return ""
		}
		s, b = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
		return s
	}
	ok = true
	for range n {
		if len(b) < 8 {
			return nil, nil, false
		}
		m := Member{ID: binary.LittleEndian.Uint64(b)}
		b = b[8:]
		m.Name = text()
		m.Addr = text()
		if !ok {
			return nil, nil, false
		}
		book = append(book, m)
	}
	return book, b, true
}

// appendState appends what a snapshot has of members beside conf: book | u16 n | n × id u64.
func (m members) appendState(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(appendBook(b, m.book), uint16(len(m.gone)))
	for _, id := range m.gone {
		b = le.AppendUint64(b, id)
	}
	return b
}

func (m *members) takeState(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, false
	}
	if m.book, b, ok = takeBook(b); !ok || len(b) < 2 {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint16(b))
	if b = b[2:]; n > maxGone || len(b) < 8*n {
		return nil, false
	}
	m.gone = nil
	for ; n > 0; n-- {
		m.gone, b = append(m.gone, binary.LittleEndian.Uint64(b)), b[8:]
	}
	return b, true
}

// encode returns the file of members.
func (m members) encode(group uint16) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16([]byte("TRPM\x02\x00"), group)
	b = le.AppendUint64(b, m.index)
	b = appendBook(m.appendState(b), m.known)
	b, err := (proto.MarshalOptions{Deterministic: true}).MarshalAppend(b, m.conf)
	if err != nil {
		panic("raftlog: members: " + err.Error()) // numbers only
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseMembers(b []byte, group uint16) (m members, ok bool) {
	le := binary.LittleEndian
	if len(b) < 20 || string(b[:6]) != "TRPM\x02\x00" || le.Uint16(b[6:]) != group ||
		le.Uint32(b[len(b)-4:]) != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return m, false
	}
	m = members{index: le.Uint64(b[8:]), conf: &pb.ConfState{}}
	rest, ok := m.takeState(b[16 : len(b)-4])
	if !ok || len(rest) == 0 {
		return m, false
	}
	if m.known, rest, ok = takeBook(rest); !ok {
		return m, false
	}
	return m, proto.Unmarshal(rest, m.conf) == nil
}

// goal is a change of members that a caller of this node waits for: a node that is to take part, with one that it takes the
// place of, or a node that is to leave. It is reached in steps: a learner, which gets the log; a voter, when it has what was
// committed a heartbeat ago, in one joint change with the removal of the other one.
type goal struct {
	no     uint64
	add    *Member
	remove uint64
	sent   uint64 // tick
	why    error  // for what the leader has not taken the next step, where that is this node
}

// reached is the end of a goal.
type reached struct {
	no  uint64
	err error
}

const goalAgain = 7 // ticks

var (
	errUnderWay = errors.New("another change of the members is under way, or the leader is new")
	errBehind   = errors.New("the new node has not got the log yet")
	errNoMember = errors.New("it is not a member")
	errLeaves   = errors.New("the leader hands over before it is removed")
)

// pursue begins to work for a change of members. Its end is in out.reached.
func (c *core) pursue(add *Member, remove uint64) (no uint64) {
	c.goalNo++
	if c.err != nil {
		return c.goalNo
	}
	defer c.catch(nil)
	g := &goal{no: c.goalNo, add: add, remove: remove}
	c.goals = append(c.goals, g)
	c.advance(g)
	c.drain()
	return g.no
}

// abandon ends the work for a change. What was done stays done: a node may be a learner.
func (c *core) abandon(no uint64) (why error) {
	c.goals = slices.DeleteFunc(c.goals, func(g *goal) bool {
		if g.no == no {
			why = g.why
		}
		return g.no == no
	})
	return why
}

// settleGoals looks at all goals. again says that a message may have been lost.
func (c *core) settleGoals(again bool) {
	for _, g := range slices.Clone(c.goals) {
		if !again || c.now-g.sent >= goalAgain {
			c.advance(g)
		}
	}
}

// advance takes the next step towards a goal.
func (c *core) advance(g *goal) {
	cc, done, err := c.mem.next(g)
	switch {
	case done || err != nil:
		c.abandon(g.no)
		c.out.reached = append(c.out.reached, reached{g.no, err})
	case cc == nil:
	case c.leader:
		g.sent, g.why = c.now, c.admit(cc)
	case c.lead != 0:
		g.sent, g.why = c.now, nil
		data, err := (proto.MarshalOptions{Deterministic: true}).Marshal(cc)
		if err != nil {
			panic("raftlog: a change of members: " + err.Error())
		}
		_ = c.raw.Step(&pb.Message{Type: pb.MsgProp.Enum(), From: &c.id, Entries: []*pb.Entry{{Type: pb.EntryConfChangeV2.Enum(), Data: data}}})
	default:
		g.why = errors.New("there is no leader")
	}
}

// next returns the next step from these members to a goal, nil while a change is under way.
func (m members) next(g *goal) (cc *pb.ConfChangeV2, done bool, err error) {
	if m.joint() || m.conf.GetAutoLeave() {
		return nil, false, nil
	}
	step := func(t pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
		return &pb.ConfChangeSingle{Type: t.Enum(), NodeId: &id}
	}
	if x := g.add; x != nil {
		now, _ := m.member(x.ID)
		switch {
		case m.removed(x.ID):
			return nil, false, fmt.Errorf("raftlog: node %d was removed, its id is not taken again", x.ID)
		case !m.has(x.ID):
			if i := slices.IndexFunc(m.book, func(y Member) bool { return y.Name == x.Name && y.ID != g.remove }); i >= 0 && x.Name != "" {
				return nil, false, fmt.Errorf("raftlog: name = %q is that of node %d, want another one", x.Name, m.book[i].ID)
			}
			if len(m.book) >= maxBook {
				return nil, false, fmt.Errorf("raftlog: the log has %d nodes, at most %d", len(m.book), maxBook)
			}
			return &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{step(pb.ConfChangeAddLearnerNode, x.ID)}, Context: appendBook(nil, []Member{*x})}, false, nil
		case now.Name != "" && now.Name != x.Name:
			return nil, false, fmt.Errorf("raftlog: node %d has the name %q, which stays its own, want it in place of %q", x.ID, now.Name, x.Name)
		case now != *x:
			return &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{step(pb.ConfChangeUpdateNode, x.ID)}, Context: appendBook(nil, []Member{*x})}, false, nil
		case !slices.Contains(m.conf.GetVoters(), x.ID):
			cc = &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{step(pb.ConfChangeAddNode, x.ID)}}
			if g.remove != 0 && m.has(g.remove) {
				cc.Changes = append(cc.Changes, step(pb.ConfChangeRemoveNode, g.remove))
			}
			return cc, false, nil
		}
	}
	switch {
	case g.remove == 0 || m.removed(g.remove):
		return nil, true, nil
	case !m.has(g.remove):
		return nil, false, fmt.Errorf("raftlog: node %d: %w", g.remove, errNoMember)
	}
	return &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{step(pb.ConfChangeRemoveNode, g.remove)}}, false, nil
}

// parseChange returns the change in an entry that another node proposes, false for one that no goal has.
func parseChange(data []byte) (cc *pb.ConfChangeV2, ok bool) {
	cc = &pb.ConfChangeV2{}
	if len(data) > maxMembers || proto.Unmarshal(data, cc) != nil {
		return nil, false
	}
	book, rest, ok := takeBook(cc.GetContext())
	if !ok || len(rest) > 0 || cc.GetTransition() != pb.ConfChangeTransitionAuto {
		return nil, false
	}
	for _, x := range cc.Changes {
		if id := x.GetNodeId(); id == 0 || id >= 1<<63 {
			return nil, false
		}
	}
	switch len(cc.Changes) {
	case 1:
		switch one := cc.Changes[0]; one.GetType() {
		case pb.ConfChangeAddLearnerNode, pb.ConfChangeUpdateNode:
			return cc, len(book) == 1 && book[0].ID == one.GetNodeId()
		case pb.ConfChangeAddNode, pb.ConfChangeRemoveNode:
			return cc, len(book) == 0
		}
	case 2:
		a, b := cc.Changes[0], cc.Changes[1]
		return cc, len(book) == 0 && a.GetType() == pb.ConfChangeAddNode && b.GetType() == pb.ConfChangeRemoveNode && a.GetNodeId() != b.GetNodeId()
	}
	return nil, false
}

// admit proposes a change of members at the leader, or says why not. It takes no change that would leave fewer than a majority
// of voters that have what was committed a heartbeat ago, and no id that was there before.
func (c *core) admit(cc *pb.ConfChangeV2) error {
	m := c.mem
	switch {
	case !c.leader:
		return raft.ErrProposalDropped
	case m.joint() || m.conf.GetAutoLeave() || c.changing > c.applied || c.appliedTerm != c.term:
		return errUnderWay
	}
	voters := slices.Clone(m.conf.GetVoters())
	for _, x := range cc.Changes {
		id := x.GetNodeId()
		switch x.GetType() {
		case pb.ConfChangeAddLearnerNode:
			if m.has(id) || m.removed(id) {
				return fmt.Errorf("node %d is a member, or was one", id)
			}
		case pb.ConfChangeUpdateNode: // of its address: who has a certificate of another name must not become this node
			now, ok := m.member(id)
			if !ok {
				return fmt.Errorf("node %d is not a member", id)
			}
			if book, _, ok := takeBook(cc.GetContext()); now.Name != "" && (!ok || len(book) != 1 || book[0].Name != now.Name) {
				return fmt.Errorf("node %d has the name %q, which stays its own", id, now.Name)
			}
		case pb.ConfChangeAddNode:
			if !slices.Contains(m.conf.GetLearners(), id) {
				return fmt.Errorf("node %d is not a learner", id)
			}
			if !c.caughtUp(id) {
				return errBehind
			}
			voters = append(voters, id)
		case pb.ConfChangeRemoveNode:
			if !m.has(id) {
				return fmt.Errorf("node %d is not a member", id)
			}
			if id == c.id {
				c.transfer()
				return errLeaves
			}
			voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == id })
		}
	}
	ready := 0
	for _, id := range voters {
		if id == c.id || c.caughtUp(id) {
			ready++
		}
	}
	if ready <= len(voters)/2 {
		return fmt.Errorf("of %d voters behind the change %d have the newest entries, want more than half", len(voters), ready)
	}
	err := c.raw.ProposeConfChange(cc)
	c.drain()
	return err
}

// caughtUp returns whether the leader knows a node to have what was committed a heartbeat ago.
func (c *core) caughtUp(id uint64) (ok bool) {
	c.raw.WithProgress(func(x uint64, _ raft.ProgressType, p tracker.Progress) {
		if x == id {
			ok = p.RecentActive && p.State == tracker.StateReplicate && p.Match >= c.marks[0]
		}
	})
	return ok
}

// successor returns the voter that has most of the log, beside this leader; 0 for none.
func (c *core) successor() (best uint64) {
	match := uint64(0)
	c.raw.WithProgress(func(id uint64, t raft.ProgressType, p tracker.Progress) {
		if id != c.id && t == raft.ProgressTypePeer && p.RecentActive && p.Match >= match && slices.Contains(c.mem.conf.GetVoters(), id) {
			best, match = id, p.Match
		}
	})
	return best
}

// transfer lets the successor lead.
func (c *core) transfer() {
	if best := c.successor(); best != 0 {
		c.raw.TransferLeader(best)
	}
}

// progress is what this leader knows of the members; nil at another node.
func (c *core) progress() (all []Progress) {
	if !c.leader {
		return nil
	}
	last, _ := c.st.LastIndex()
	c.raw.WithProgress(func(id uint64, t raft.ProgressType, p tracker.Progress) {
		m, _ := c.mem.member(id)
		x := Progress{Member: m, Voter: t == raft.ProgressTypePeer, Active: p.RecentActive || id == c.id, Current: id == c.id || c.caughtUp(id)}
		x.Lag = last - min(last, p.Match)
		all = append(all, x)
	})
	return all
}

// introduce sets the nodes that this one was told of; done is closed when that is durable.
func (c *core) introduce(known []Member, done chan struct{}) {
	if c.err != nil {
		return
	}
	c.mem.known = known
	m := c.mem
	c.give(&write{members: &m, sync: true, done: done})
}
