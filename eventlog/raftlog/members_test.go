package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/eventlog/segment"
	"troupe/internal/await"
)

// TestRemovedIsNotHeard: a node that was removed, and has not heard of it, asks for votes at a moment without a leader. A node that
// knows of the removal does not answer. In the control it does, and the node that was removed leads.
func TestRemovedIsNotHeard(t *testing.T) {
	play := func(hear bool) (term uint64, leads bool) {
		s := quorum(t, plants{hearGone: hear}, "a", "b")
		last, _ := s.nodes[1].st.seg.Last()
		s.drop = func(m *pb.Message) bool { return m.GetTo() == 3 && m.GetCommit() > last }
		s.nodes[1].core.pursue(nil, 3)
		for range 4 {
			s.nodes[1].core.tick()
			s.settle()
		}
		for _, id := range []uint64{1, 2} {
			if !s.nodes[id].core.mem.removed(3) {
				t.Fatalf("node %d has members %v", id, s.nodes[id].core.mem)
			}
		}
		if end, _ := s.nodes[3].st.seg.Last(); end != last+1 || s.nodes[3].core.mem.removed(3) {
			t.Fatalf("node 3 has entries to %d, want %d, and should not know", end, last+1)
		}
		s.cut[1] = true
		s.nodes[2].fs.kill(false)
		s.open(2, plants{hearGone: hear})
		before := s.nodes[2].core.term
		s.campaign(3)
		return s.nodes[2].core.raw.BasicStatus().GetTerm() - before, s.nodes[3].core.leader
	}
	if term, leads := play(false); term != 0 || leads {
		t.Errorf("%d terms later, the node that was removed leads: %v", term, leads)
	}
	if term, leads := play(true); term == 0 || !leads {
		t.Errorf("the control: %d terms later, the node that was removed leads: %v", term, leads)
	}
}

// TestAdmit: the leader takes no change that would stop the log, and none that no goal has.
func TestAdmit(t *testing.T) {
	s := quorum(t, plants{}, "a")
	c := s.nodes[1].core
	step := func(kind pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
		return &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: &id}
	}
	change := func(context []byte, steps ...*pb.ConfChangeSingle) *pb.ConfChangeV2 {
		return &pb.ConfChangeV2{Changes: steps, Context: context}
	}
	idle := func(n int) {
		for range n {
			for _, id := range []uint64{1, 2, 3} {
				s.nodes[id].core.tick()
			}
			s.settle()
		}
	}
	idle(heartbeatTicks + 1)
	for want, cc := range map[string]*pb.ConfChangeV2{
		"node 2 is a member, or was one": change(appendBook(nil, people(2)), step(pb.ConfChangeAddLearnerNode, 2)),
		"node 9 is not a learner":        change(nil, step(pb.ConfChangeAddNode, 9)),
		"node 9 is not a member":         change(nil, step(pb.ConfChangeRemoveNode, 9)),
		"node 8 is not a member":         change(appendBook(nil, people(8)), step(pb.ConfChangeUpdateNode, 8)),
		// Who has the certificate of another name must not be node 2 from then on.
		`node 2 has the name "node-2", which stays its own`: change(appendBook(nil, []Member{{2, "node-4", "place-4"}}), step(pb.ConfChangeUpdateNode, 2)),
	} {
		if err := c.admit(cc); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %q", cc, err, want)
		}
	}
	if _, _, err := c.mem.next(&goal{add: &Member{2, "node-4", "place-4"}}); err == nil || !strings.Contains(err.Error(), `node 2 has the name "node-2"`) {
		t.Errorf("the goal of another name: %v", err)
	}
	if cc, _, err := c.mem.next(&goal{add: &Member{2, "node-2", "place-9"}}); err != nil || cc.Changes[0].GetType() != pb.ConfChangeUpdateNode {
		t.Errorf("the goal of another address: %v, %v", cc, err)
	}
	if err := s.nodes[2].core.admit(change(nil, step(pb.ConfChangeRemoveNode, 3))); err == nil {
		t.Error("a follower has taken a change")
	}
	for what, cc := range map[string]*pb.ConfChangeV2{
		"no steps":            change(nil),
		"a node 0":            change(nil, step(pb.ConfChangeRemoveNode, 0)),
		"three steps":         change(nil, step(pb.ConfChangeAddNode, 4), step(pb.ConfChangeRemoveNode, 1), step(pb.ConfChangeRemoveNode, 2)),
		"two removals":        change(nil, step(pb.ConfChangeRemoveNode, 1), step(pb.ConfChangeRemoveNode, 2)),
		"no name":             change(nil, step(pb.ConfChangeAddLearnerNode, 4)),
		"another name":        change(appendBook(nil, people(5)), step(pb.ConfChangeAddLearnerNode, 4)),
		"more behind a name":  change(append(appendBook(nil, people(4)), 0), step(pb.ConfChangeAddLearnerNode, 4)),
		"an explicit joining": {Transition: pb.ConfChangeTransitionJointExplicit.Enum(), Changes: []*pb.ConfChangeSingle{step(pb.ConfChangeRemoveNode, 1)}},
	} {
		if got, ok := parseChange(must(proto.Marshal(cc))); ok {
			t.Errorf("%s: taken as %v", what, got)
		}
	}
	// With one of three silent, the other one of the two that hear each other must not go.
	s.cut[3] = true
	idle(2*electionTicks + 2)
	if err := c.admit(change(nil, step(pb.ConfChangeRemoveNode, 2))); err == nil || !strings.Contains(err.Error(), "of 2 voters behind the change 1 have") {
		t.Errorf("the second last voter that answers: %v", err)
	}
	if err := c.admit(change(nil, step(pb.ConfChangeRemoveNode, 3))); err != nil {
		t.Errorf("the voter that does not answer: %v", err)
	}
	s.settle()
	idle(2)
	if m := c.mem; !m.removed(3) || m.has(3) {
		t.Fatalf("members %v", m)
	}
	if err := c.admit(change(appendBook(nil, people(3)), step(pb.ConfChangeAddLearnerNode, 3))); err == nil {
		t.Error("the id of a node that was removed was taken again")
	}
	c.pursue(&people(3)[0], 0)
	if o := c.take(); len(o.reached) != 1 || o.reached[0].err == nil {
		t.Errorf("a goal with the id of a node that was removed: %v", o.reached)
	}
}

// FuzzMembers: bytes of members are what was written, or refused.
func FuzzMembers(f *testing.F) {
	m := members{index: 9, conf: &pb.ConfState{Voters: []uint64{1, 2}}, book: people(1, 2), gone: []uint64{7}, known: people(8)}
	f.Add(m.encode(3))
	f.Add([]byte("TRPM\x02\x00\x03\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := parseMembers(b, 3); ok {
			if again, ok := parseMembers(m.encode(3), 3); !ok || fmt.Sprint(again.book, again.gone, again.known) != fmt.Sprint(m.book, m.gone, m.known) {
				t.Fatalf("%x comes back as %v", b, again)
			}
		}
		if book, rest, ok := takeBook(b); ok && len(b) > 0 && !bytes.Equal(append(appendBook(nil, book), rest...), b) {
			t.Fatalf("book %v", book)
		}
	})
}

// town is nodes in this process that come and go.
type town struct {
	t    *testing.T
	dir  string
	net  *local
	logs map[uint64]*Log
}

func newTown(t *testing.T) *town {
	x := &town{t, t.TempDir(), &local{nodes: map[uint64]*Log{}, cut: map[uint64]bool{}}, map[uint64]*Log{}}
	t.Cleanup(func() {
		for id := range x.logs {
			x.stop(id)
		}
	})
	return x
}

func (x *town) options(id uint64) Options {
	return Options{Dir: filepath.Join(x.dir, fmt.Sprint(id)), Cluster: 7, ID: id, Shards: 2, Reserve: 1 << 20, MaxBytes: 10 << 20, Network: x.net, Logf: x.t.Logf,
		segment: 8000}
}

func (x *town) open(o Options) *Log {
	x.t.Helper()
	l, err := Open(o)
	if err != nil {
		x.t.Fatal(err)
	}
	x.net.bring(l)
	x.logs[l.opt.ID] = l
	return l
}

func (x *town) stop(id uint64) {
	x.net.mu.Lock()
	delete(x.net.nodes, id)
	x.net.mu.Unlock()
	if err := x.logs[id].Close(); err != nil {
		x.t.Error(err)
	}
	delete(x.logs, id)
}

// join makes a node that joins, and takes it in.
func (x *town) join(at *Log, id, old uint64) *Log {
	x.t.Helper()
	o := x.options(id)
	o.Cluster = at.opt.Cluster
	if err := Join(o, people(at.opt.ID)...); err != nil {
		x.t.Fatal(err)
	}
	l := x.open(o)
	var err error
	if old == 0 {
		err = at.Add(x.t.Context(), people(id)[0])
	} else {
		err = at.Replace(x.t.Context(), old, people(id)[0])
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return l
}

func (x *town) append(l *Log, from, to int) {
	x.t.Helper()
	for i := from; i < to; i++ {
		for shard := range uint16(2) {
			if seq, dup, err := l.Append(x.t.Context(), shard, fmt.Sprint(i), eventlogtest.Payload(0, i, 100)); err != nil || dup || seq != uint64(i+1) {
				x.t.Fatalf("batch %d is entry %d, %v, %v", i, seq, dup, err)
			}
		}
	}
}

// TestGrow: a log of one node grows to three, a node takes the place of another one, and nodes leave until one is left. All entries
// stay, at each that is a member.
func TestGrow(t *testing.T) { synctest.Test(t, playGrow) }

func playGrow(t *testing.T) {
	x := newTown(t)
	if err := Create(x.options(1), people(1)...); err != nil {
		t.Fatal(err)
	}
	a := x.open(x.options(1))
	x.append(a, 0, 50)
	b := x.join(a, 2, 0)
	x.append(b, 50, 100)
	c := x.join(b, 3, 0)
	x.append(c, 100, 120)
	d := x.join(c, 4, 1) // node 1 leads, perhaps
	await.Until(t, "node 1 hears that it was removed, or is left alone", func() bool {
		return errors.Is(a.Err(), ErrRemoved) || !slices.Contains(c.Status(0).Voters, 1) && !slices.Contains(c.Status(1).Voters, 1)
	})
	x.append(d, 120, 150)
	if s := d.Status(0); !slices.Equal(s.Voters, []uint64{2, 3, 4}) || !slices.Equal(s.Members, people(2, 3, 4)) || len(s.Learners) > 0 {
		t.Errorf("members %+v", s)
	}
	moved := Member{2, "node-2", "another-place:1"}
	if err := d.Add(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	if s := d.Status(1); len(s.Members) != 3 || s.Members[0] != moved {
		t.Errorf("members %+v after a move", s)
	}
	for _, l := range []*Log{b, c, d} {
		if err := l.Ready(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for i, e := range contents(t, l, 0, 1, 150) {
			if e != string(eventlogtest.Payload(0, i, 100)) {
				t.Fatalf("node %d: entry %d is another one", l.opt.ID, i+1)
			}
		}
	}
	for want, err := range map[string]error{
		"node 1 was removed":      d.Add(t.Context(), people(1)[0]),
		`name = "node-3" is that`: d.Add(t.Context(), Member{9, "node-3", "x"}),
		"it is not a member":      d.Remove(t.Context(), 9),
		"addr = ":                 d.Add(t.Context(), Member{9, "x", ""}),
		"want no space":           d.Add(t.Context(), Member{9, "x y", "z"}),
		"in the place of node 2":  d.Replace(t.Context(), 2, people(2)[0]),
		"want 1 to 2^63 - 1":      d.Introduce(t.Context(), Member{1 << 63, "x", "y"}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, id := range []uint64{2, 3} {
		if err := d.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	x.append(d, 150, 160)
	x.stop(4)
	d = x.open(Options{Dir: x.options(4).Dir, Network: x.net, segment: 8000}) // ids are those of the directory
	if got := contents(t, d, 1, 1, 160); len(got) != 160 {
		t.Errorf("%d entries", len(got))
	}
	if s := d.Status(0); !slices.Equal(s.Voters, []uint64{4}) || s.Node != 4 {
		t.Errorf("status %+v after a restart", s)
	}
}

// TestRemoved: a node that hears of its removal ends, and does not start again.
func TestRemoved(t *testing.T) { synctest.Test(t, playRemoved) }

func playRemoved(t *testing.T) {
	x := newTown(t)
	if err := Create(x.options(1), people(1)...); err != nil {
		t.Fatal(err)
	}
	a := x.open(x.options(1))
	b := x.join(a, 2, 0)
	if err := b.Remove(t.Context(), 2); err != nil { // of itself
		t.Fatal(err)
	}
	await.Until(t, "node 2 is out", func() bool { return !slices.Contains(a.Status(1).Voters, 2) })
	x.append(a, 0, 5)
	if b.Err() != nil { // it may not have heard
		if _, _, err := b.Append(t.Context(), 0, "x", nil); !errors.Is(err, eventlog.ErrBroken) {
			t.Errorf("an append at a node that was removed: %v", err)
		}
		x.stop(2)
		if _, err := Open(x.options(2)); !errors.Is(err, ErrRemoved) {
			t.Errorf("a node that was removed starts again: %v", err)
		}
	}
}

// TestNotAdded: a node that does not answer does not become a voter; the error says why.
func TestNotAdded(t *testing.T) { synctest.Test(t, playNotAdded) }

func playNotAdded(t *testing.T) {
	x := newTown(t)
	if err := Create(x.options(1), people(1)...); err != nil {
		t.Fatal(err)
	}
	a := x.open(x.options(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() { done <- a.Add(ctx, people(2)[0]) }()
	await.Until(t, "a learner", func() bool { return slices.Contains(a.Status(0).Learners, 2) })
	await.Until(t, "a refusal", func() bool {
		why := false
		if err := a.shards[0].call(t.Context(), func(c *core) { why = len(c.goals) == 1 && errors.Is(c.goals[0].why, errBehind) }); err != nil {
			t.Fatal(err)
		}
		return why
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "has not got the log") {
		t.Errorf("a node that does not answer: %v", err)
	}
	x.append(a, 0, 5)
	if err := a.Remove(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if s := a.Status(0); len(s.Learners) > 0 || len(s.Members) != 1 {
		t.Errorf("members %+v", s)
	}
}

// TestIntroduce: what a node was told of others outlives a restart, and ends when the log names them.
func TestIntroduce(t *testing.T) { synctest.Test(t, playIntroduce) }

func playIntroduce(t *testing.T) {
	x := newTown(t)
	told := &listener{local: x.net}
	o := x.options(1)
	o.Network = told
	if err := Create(o, people(1)...); err != nil {
		t.Fatal(err)
	}
	a := x.open(o)
	if err := a.Introduce(t.Context(), people(1, 2, 5)...); err != nil {
		t.Fatal(err)
	}
	if got := told.now(); !slices.Equal(got, people(2, 5)) {
		t.Errorf("the network knows %v", got)
	}
	x.stop(1)
	a = x.open(o)
	if got := told.now(); !slices.Equal(got, people(2, 5)) {
		t.Errorf("after a restart the network knows %v", got)
	}
	x.join(a, 2, 0)
	if got := told.now(); len(got) != 2 || !slices.Contains(got, people(2)[0]) || !slices.Contains(got, people(5)[0]) {
		t.Errorf("the network knows %v", got)
	}
	if err := a.Remove(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the network forgets node 2", func() bool { return slices.Equal(told.now(), people(5)) })
}

// listener is a network that is told of peers.
type listener struct {
	*local
	peers []Member
}

func (x *listener) SetPeers(peers ...Member) error {
	x.local.mu.Lock()
	defer x.local.mu.Unlock()
	x.peers = slices.Clone(peers)
	return nil
}

func (x *listener) now() []Member {
	x.local.mu.Lock()
	defer x.local.mu.Unlock()
	return slices.Clone(x.peers)
}

// TestRecover: two of three nodes are lost. The third one becomes a new log, keeps all entries, and grows again. The old
// directories do not open as members of it.
func TestRecover(t *testing.T) { synctest.Test(t, playRecover) }

func playRecover(t *testing.T) {
	x := newTown(t)
	if err := Create(x.options(1), people(1)...); err != nil {
		t.Fatal(err)
	}
	a := x.open(x.options(1))
	b, c := x.join(a, 2, 0), x.join(a, 3, 0)
	x.append(a, 0, 100)
	for _, l := range []*Log{b, c} {
		for shard := range uint16(2) { // otherwise the newest entries may be at the two others alone, and are lost
			if err := l.Ready(t.Context(), shard); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range []uint64{1, 2, 3} {
		x.stop(id)
	}
	self := Member{11, "node-3", "place-3"}
	o := Options{Dir: x.options(3).Dir, segment: 8000}
	for want, err := range map[string]error{
		"cluster = 0":            second(Recover(o, 0, self)),
		"want another id":        second(Recover(o, 7, self)),
		"is node 3 of cluster":   second(Recover(o, 8, Member{3, "x", "y"})),
		"member id = 0":          second(Recover(o, 8, Member{})),
		"troupe-replica missing": second(Recover(Options{Dir: t.TempDir()}, 8, self)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) && !errors.Is(err, eventlog.ErrNoLog) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r, err := Recover(o, 8, self)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Shards) != 2 || r.Shards[1].Batches != 100 || !slices.Equal(r.Shards[0].Members, people(1, 2, 3)) || r.Before.ID != 3 || r.Before.Cluster != 7 {
		t.Errorf("recovered %+v", r)
	}
	if _, err := Open(x.options(3)); err == nil || !strings.Contains(err.Error(), "want node 3 of cluster 0000000000000007") {
		t.Errorf("opened as before: %v", err)
	}
	n := x.options(11)
	n.Dir, n.Cluster = o.Dir, 8
	d := x.open(n)
	x.append(d, 100, 120)
	e := x.join(d, 12, 0)
	x.append(e, 120, 140)
	for i, got := range contents(t, e, 1, 1, 140) {
		if got != string(eventlogtest.Payload(0, i, 100)) {
			t.Fatalf("entry %d is another one", i+1)
		}
	}
	if s := e.Status(0); !slices.Equal(s.Voters, []uint64{11, 12}) {
		t.Errorf("members %+v", s)
	}
	if err := e.Add(t.Context(), people(1)[0]); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("an id of before is taken: %v", err)
	}
}

// TestAlone: the only node of a log leads it before a tick, so a start waits for no election.
func TestAlone(t *testing.T) {
	s := newScript(t, plants{}, 1)
	c := s.nodes[1].core
	c.begin()
	s.settle()
	if !c.leader || c.applied != 2 || c.now != 0 {
		t.Errorf("leads %v, applied %d at tick %d", c.leader, c.applied, c.now)
	}
	s = newScript(t, plants{}, 1, 2, 3)
	s.nodes[1].core.begin()
	if o := s.nodes[1].core.take(); len(o.messages)+len(o.writes) > 0 {
		t.Error("one of three asks for votes at once")
	}
}

func second[T any](_ T, err error) error { return err }

// TestRecoverEveryOperation: a recovery is killed in the middle of each operation on the disk, with and without a loss of power. Until it
// is complete the directory does not open; the same call completes it; another one is refused.
func TestRecoverEveryOperation(t *testing.T) {
	for _, power := range []bool{false, true} {
		interrupted := 0
		for k := 0; ; k++ {
			fs := newMemFS(rand.New(rand.NewPCG(5, uint64(k))))
			o := Options{Dir: "/log", Cluster: 7, ID: 1, fs: fs, segment: 700, Network: nobody{}}
			if err := Create(o, people(1, 2, 3)...); err != nil {
				t.Fatal(err)
			}
			st := must(openStore(o.store(0)))
			if err := errors.Join(st.save(&write{hard: &hard{3, 2}, entries: someEntries(4, 20, 3), applied: 15}), st.close(true)); err != nil {
				t.Fatal(err)
			}
			fs.root.flush()
			self := Member{9, "node-9", "place-9"}
			fs.ops = k
			_, err := Recover(o, 8, self)
			fs.kill(power)
			if err != nil {
				if !errors.Is(err, errKilled) {
					t.Fatalf("operation %d: %v", k, err)
				}
				m, err := readMarker(fs, o.Dir)
				if err != nil {
					t.Fatalf("operation %d: %v", k, err)
				}
				if interrupted++; m.before != 0 {
					if _, err := Open(Options{Dir: o.Dir, fs: fs}); !errors.Is(err, ErrRecovering) {
						t.Fatalf("operation %d: opened with %v", k, err)
					}
					if _, err := Recover(o, 10, self); err == nil {
						t.Fatalf("operation %d: another recovery was begun", k)
					}
				}
				if m.cluster == 7 || m.before != 0 {
					if _, err := Recover(o, 8, self); err != nil {
						t.Fatalf("operation %d: again: %v", k, err)
					}
				}
				fs.kill(true)
			}
			s, err2 := openStore(Options{fs: fs, Dir: o.Dir, ID: 9, Cluster: 8, segment: 700}.store2())
			if err2 != nil {
				t.Fatalf("operation %d: %v", k, err2)
			}
			c := must(newCore(s))
			if conf := c.mem.conf; !slices.Equal(conf.GetVoters(), []uint64{9}) || c.mem.joint() || !slices.Equal(c.mem.gone, []uint64{1, 2, 3}) {
				t.Fatalf("operation %d: members %v", k, c.mem)
			}
			for i, want := range someEntries(4, 20, 3) {
				if r := must(s.seg.Get(uint64(i + 4))); !bytes.Equal(r.Data, want.Data) {
					t.Fatalf("operation %d: entry %d is another one", k, i+4)
				}
			}
			if last, _ := s.seg.Last(); c.applied != last || last < 22 || last > 24 {
				t.Fatalf("operation %d: applied %d of %d", k, c.applied, last)
			}
			// A node that reads the whole log finds the same members.
			j := members{conf: &pb.ConfState{}}
			fresh := newMemFS(rand.New(rand.NewPCG(6, 6)))
			q := storeOptions{fs: fresh, dir: "/log", id: 20, keep: 20}
			if err := errors.Join(fresh.MkdirAll(q.dir), createStore(q, nil, people(9))); err != nil {
				t.Fatal(err)
			}
			reader := must(newCore(must(openStore(q))))
			for i := uint64(1); i <= c.applied; i++ {
				if r := must(s.seg.Get(i)); r.Kind == segment.Members {
					var cc pb.ConfChangeV2
					if err := proto.Unmarshal(r.Data, &cc); err != nil {
						t.Fatal(err)
					}
					j = j.after(i, &cc, reader.raw.ApplyConfChange(&cc))
				}
			}
			if fmt.Sprint(j.book, j.gone, j.conf.GetVoters()) != fmt.Sprint(c.mem.book, c.mem.gone, c.mem.conf.GetVoters()) {
				t.Fatalf("operation %d: a node that joins finds %v, want %v", k, j, c.mem)
			}
			if err == nil {
				break
			}
		}
		if t.Logf("power lost %v: interrupted at %d operations", power, interrupted); interrupted < 20 {
			t.Errorf("interrupted at %d operations only", interrupted)
		}
	}
}

func (o Options) store2() storeOptions { return o.store(0) }
