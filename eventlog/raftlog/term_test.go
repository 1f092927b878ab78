package raftlog

import (
	"errors"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// script plays nodes by hand: which messages arrive, whose disk is slow.
type script struct {
	t     *testing.T
	nodes map[uint64]*scripted
	cut   map[uint64]bool
	until uint64 // settle stops when this node leads, before it says so
	drop  func(*pb.Message) bool
}

type scripted struct {
	fs     *memFS
	core   *core
	st     *store
	writes []*write
	slow   bool // writes are not done
}

func newScript(t *testing.T, plant plants, voters ...uint64) *script {
	s := &script{t, map[uint64]*scripted{}, map[uint64]bool{}, 0, func(*pb.Message) bool { return false }}
	for _, id := range voters {
		n := &scripted{fs: newMemFS(rand.New(rand.NewPCG(id, 3)))}
		s.nodes[id] = n
		if err := n.fs.MkdirAll("/log"); err != nil {
			t.Fatal(err)
		}
		o := storeOptions{fs: n.fs, dir: "/log", id: id, keep: idsKept, plant: plant}
		if err := createStore(o, people(voters...), nil); err != nil {
			t.Fatal(err)
		}
		n.fs.root.flush()
		s.open(id, plant)
	}
	return s
}

func (s *script) open(id uint64, plant plants) {
	n := s.nodes[id]
	st, err := openStore(storeOptions{fs: n.fs, dir: "/log", id: id, keep: idsKept, plant: plant})
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := newCore(st)
	if err != nil {
		s.t.Fatal(err)
	}
	n.st, n.core, n.writes = st, c, nil
}

// settle delivers messages and does writes until there are none.
func (s *script) settle() {
	s.t.Helper()
	for again := true; again; {
		again = false
		for id := uint64(1); id <= uint64(len(s.nodes)); id++ {
			n := s.nodes[id]
			if s.until > 0 && s.nodes[s.until].core.leader {
				return
			}
			if n.core.err != nil {
				s.t.Fatalf("node %d: %v", id, n.core.err)
			}
			o := n.core.take()
			n.writes = append(n.writes, o.writes...)
			for _, m := range o.messages {
				again = true
				if to := s.nodes[m.GetTo()]; !s.cut[id] && !s.cut[m.GetTo()] && !s.drop(m) {
					x := &pb.Message{}
					cloneInto(x, m)
					to.core.receive(x)
				}
			}
			for len(n.writes) > 0 && !n.slow {
				again = true
				w := n.writes[0]
				n.writes = n.writes[1:]
				if err := n.st.save(w); err != nil {
					s.t.Fatal(err)
				}
				n.core.wrote(w)
			}
		}
	}
}

// campaign lets time pass for a node until it leads or many elections would have been over.
func (s *script) campaign(id uint64) {
	s.until = id
	defer func() { s.until = 0 }()
	for range 4 * electionTicks {
		if s.nodes[id].core.leader {
			return
		}
		s.nodes[id].core.tick()
		s.settle()
	}
}

// TestTermFirst: a node that loses its power before its term is durable does not win this term once more with other entries.
// Without the rule of core.leave it does, and two nodes take different entries for committed: the control.
func TestTermFirst(t *testing.T) {
	play := func(early bool) (x, y string) {
		s := newScript(t, plants{early: early}, 1, 2, 3)
		a := s.nodes[1]
		a.slow = true // nothing of it becomes durable
		s.campaign(1)
		if a.core.leader != early {
			t.Fatalf("leader before its term is durable: %v", a.core.leader)
		}
		batch := func(s string) (id batchID, data []byte) {
			id = hashID(s)
			return id, append(id[:], s...)
		}
		s.cut[3] = true
		a.core.propose(batch("first"))
		s.settle() // node 2 has it
		a.fs.kill(true)
		a.slow = false
		s.open(1, plants{early: early})
		s.cut[2], s.cut[3] = true, false
		s.campaign(1)
		if !a.core.leader {
			t.Fatal("no leader")
		}
		a.core.propose(batch("second"))
		s.settle()
		s.cut[2] = false
		for range electionTicks {
			a.core.tick()
			s.settle()
		}
		last := a.core.applied
		r1, err1 := a.st.seg.Get(last)
		r2, err2 := s.nodes[2].st.seg.Get(last)
		if err1 != nil || err2 != nil || s.nodes[2].core.applied != last {
			t.Fatalf("entry %d: %v, %v, node 2 has applied %d", last, err1, err2, s.nodes[2].core.applied)
		}
		return string(r1.Data[idSize:]), string(r2.Data[idSize:])
	}
	if x, y := play(false); x != "second" || y != "second" {
		t.Errorf("the newest committed entry is %q at node 1 and %q at node 2", x, y)
	}
	if x, y := play(true); x == y {
		t.Error("the control found no difference")
	} else {
		t.Logf("without the rule node 1 takes %q for committed and node 2 %q", x, y)
	}
}

// quorum returns three nodes that have committed batches, of which all know.
func quorum(t *testing.T, plant plants, batches ...string) *script {
	s := newScript(t, plant, 1, 2, 3)
	s.campaign(1)
	for _, name := range batches {
		id := hashID(name)
		s.nodes[1].core.propose(id, append(id[:], name...))
		s.settle()
	}
	for range 4 {
		for id := uint64(1); id <= 3; id++ {
			s.nodes[id].core.tick()
		}
		s.settle()
	}
	return s
}

// TestAppliedStays: a node that has the key of another one forges a message, of a later term and with other entries. No node
// loses an entry that it has applied: neither while it runs, nor after it was killed. The store refuses such a write whatever
// raft says, and changes nothing; without that rule it cuts: the control.
func TestAppliedStays(t *testing.T) {
	entries := func(first, term uint64) (x []*pb.Entry) {
		for i := first; i <= first+1; i++ {
			x = append(x, &pb.Entry{Index: &i, Term: &term, Data: make([]byte, 40)})
		}
		return x
	}
	for _, restart := range []bool{false, true} {
		s := quorum(t, plants{}, "a", "b", "c", "d")
		b := s.nodes[2]
		applied := b.core.applied
		before, err := b.st.seg.Get(applied)
		if err != nil || applied != 8 {
			t.Fatalf("applied %d, %v", applied, err)
		}
		if restart {
			b.fs.kill(false)
			s.open(2, plants{})
		}
		for low := uint64(2); low <= applied; low++ {
			term, from, index, commit := b.core.term+1, uint64(3), low-1, uint64(0)
			prev, err := b.st.seg.Term(index)
			if err != nil {
				t.Fatal(err)
			}
			b.core.receive(&pb.Message{Type: pb.MsgApp.Enum(), From: &from, To: &b.core.id, Term: &term, LogTerm: &prev, Index: &index,
				Commit: &commit, Entries: entries(low, term)})
			for _, w := range b.core.take().writes {
				if err = b.st.save(w); err != nil {
					break
				}
				b.core.wrote(w)
			}
			if r, err := b.st.seg.Get(applied); err != nil || r.Link != before.Link {
				t.Fatalf("restart %v: entry %d is gone after a forged entry %d: %v", restart, applied, low, err)
			}
		}
	}
	for _, control := range []bool{false, true} {
		b := quorum(t, plants{cutApplied: control}, "a", "b", "c", "d").nodes[2]
		err := b.st.save(&write{entries: entries(b.st.noted, 9)})
		last, _ := b.st.seg.Last()
		if refused := errors.Is(err, errCut) && last == 8; refused == control {
			t.Errorf("control %v: %v, the log ends at %d", control, err, last)
		}
	}
}

// TestForgedSnapshot: a voter takes no snapshot of another history: without the entry that it has applied, or with another link
// there. A node that joins has none, and takes it. A file with other bytes than the list says is asked for again, and then
// the snapshot is given up.
func TestForgedSnapshot(t *testing.T) {
	mine, other := quorum(t, plants{}, "a", "b", "c", "d").nodes[1], quorum(t, plants{}, "a", "b", "x", "d", "e").nodes[1]
	fetch := func(o storeOptions, flip bool) (*stage, error) {
		snap, err := other.st.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		g, err := newStage(o, &pb.Message{Type: pb.MsgSnap.Enum(), Snapshot: snap})
		if err != nil {
			return nil, err
		}
		for {
			first, at, n := g.want()
			if n == 0 {
				return g, nil
			}
			b := make([]byte, n)
			if err := other.st.read(first, b, at); err != nil {
				t.Fatal(err)
			}
			if flip && first == 0 {
				b[0] ^= 1
			}
			if err := g.add(b); err != nil && !errors.Is(err, errFile) {
				return g, err
			}
		}
	}
	index, link, err := mine.core.proof()
	if err != nil || index != mine.core.applied {
		t.Fatalf("the proof is entry %d, %v", index, err)
	}
	g, err := fetch(mine.st.opt, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.verify(index, link); !errors.Is(err, errSnapshot) {
		t.Errorf("a snapshot of another history: %v", err)
	}
	if err := g.verify(0, link); err != nil {
		t.Errorf("a node that joins: %v", err)
	}
	g.opt.plant.anySnapshot = true
	if err := g.verify(index, link); err != nil {
		t.Errorf("the control refused: %v", err)
	}
	if _, err := fetch(mine.st.opt, true); !errors.Is(err, errSnapshot) {
		t.Errorf("a file with other bytes: %v", err)
	}
	for _, data := range [][]byte{nil, make([]byte, 73), make([]byte, 74), make([]byte, 146), append([]byte{1, 0}, make([]byte, 150)...)} {
		if _, err := newStage(mine.st.opt, &pb.Message{Snapshot: &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: &index}}}); !errors.Is(err, errSnapshot) {
			t.Errorf("a list of %d bytes: %v", len(data), err)
		}
	}
}

// TestImpossible: a node that has the key of a follower cannot write in the leader's term, and no number makes a term or an index
// overflow.
func TestImpossible(t *testing.T) {
	s := quorum(t, plants{}, "a", "b")
	b := s.nodes[2]
	last, _ := b.st.seg.Last()
	term, leader, other := b.core.term, uint64(1), uint64(3)
	app := func(from, term, index uint64) *pb.Message {
		next := index + 1
		return &pb.Message{Type: pb.MsgApp.Enum(), From: &from, To: &b.core.id, Term: &term, LogTerm: &b.core.term, Index: &index,
			Entries: []*pb.Entry{{Index: &next, Term: &term, Data: make([]byte, 40)}}}
	}
	huge := uint64(1) << 62
	for what, m := range map[string]*pb.Message{
		"entries of a follower in the leader's term": app(other, term, last),
		"a heartbeat of a follower":                  {Type: pb.MsgHeartbeat.Enum(), From: &other, To: &b.core.id, Term: &term, Commit: &last},
		"a huge term":                                app(other, huge, last),
		"a term far ahead":                           app(other, term+maxAhead+1, last),
		"a huge index":                               app(leader, term, huge),
		"a huge commit index":                        {Type: pb.MsgHeartbeat.Enum(), From: &leader, To: &b.core.id, Term: &term, Commit: &huge},
		"an entry behind a gap":                      {Type: pb.MsgApp.Enum(), From: &leader, To: &b.core.id, Term: &term, LogTerm: &term, Index: &last, Entries: someEntries(last+2, last+2, term)},
		"a local message":                            {Type: pb.MsgHup.Enum(), From: &leader, To: &b.core.id},
		"a message to another node":                  {Type: pb.MsgHeartbeat.Enum(), From: &leader, To: &other, Term: &term},
		"members that were proposed by a node":       {Type: pb.MsgProp.Enum(), From: &other, To: &b.core.id, Entries: []*pb.Entry{{Type: pb.EntryConfChangeV2.Enum()}}},
		"a batch without an id":                      {Type: pb.MsgProp.Enum(), From: &other, To: &b.core.id, Entries: []*pb.Entry{{Data: make([]byte, 8)}}},
	} {
		refused := b.core.refused
		b.core.receive(m)
		if o := b.core.take(); b.core.refused != refused+1 || len(o.messages)+len(o.writes) > 0 || b.core.err != nil {
			t.Errorf("%s: %d refused, %d messages, %d writes, %v", what, b.core.refused-refused, len(o.messages), len(o.writes), b.core.err)
		}
	}
	b.core.receive(app(leader, term, last))
	if len(b.core.take().writes) == 0 {
		t.Error("entries of the leader were refused")
	}
}
