package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// local is a network in this process. Messages are bytes on it, as elsewhere.
type local struct {
	mu    sync.RWMutex
	nodes map[uint64]*Log
	cut   map[uint64]bool
}

func (x *local) at(id uint64) *Log {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.cut[id] {
		return nil
	}
	return x.nodes[id]
}

// cutOff takes nodes off the network.
func (x *local) cutOff(ids ...uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		x.cut[id] = true
	}
}

// bring has a node on the network, also one that was cut off.
func (x *local) bring(l *Log) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.nodes[l.opt.ID] = l
	delete(x.cut, l.opt.ID)
}

func (x *local) Send(group uint16, m *pb.Message) {
	to := x.at(m.GetTo())
	if to == nil || x.at(m.GetFrom()) == nil {
		return
	}
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	var copied pb.Message
	if err := proto.Unmarshal(b, &copied); err != nil {
		panic(err)
	}
	to.Receive(group, &copied)
}

func (x *local) Fetch(_ context.Context, group uint16, node, first uint64, b []byte, at int64) error {
	from := x.at(node)
	if from == nil {
		return errors.New("no answer")
	}
	return from.File(group, first, b, at)
}

// cluster is a place with three nodes. Its log is that of one of them, and Close closes all.
type cluster struct {
	dir  string
	made bool
}

type clusterLog struct {
	*Log
	all []*Log
	net *local
}

func (l *clusterLog) Close() error {
	var errs []error
	for _, x := range l.all {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

func (c *cluster) Open(t *testing.T, limit uint64) eventlogtest.Log { return c.open(t, limit, 0) }

func (c *cluster) open(t *testing.T, limit uint64, segment int64) *clusterLog {
	t.Helper()
	x := &local{nodes: map[uint64]*Log{}, cut: map[uint64]bool{}}
	l := &clusterLog{net: x}
	for id := uint64(1); id <= 3; id++ {
		o := Options{Dir: filepath.Join(c.dir, fmt.Sprint(id)), Cluster: 7, ID: id, Reserve: 1 << 20, Shards: 2, MaxBytes: int64(limit), Network: x, Logf: t.Logf, segment: segment}
		if !c.made {
			if err := Create(o, people(1, 2, 3)...); err != nil {
				t.Fatal(err)
			}
		}
		n, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		x.bring(n)
		l.all = append(l.all, n)
	}
	c.made = true
	l.Log = l.all[1]
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for shard := range uint16(2) {
		if err := l.Ready(ctx, shard); err != nil {
			t.Fatalf("shard %d: %v", shard, err)
		}
	}
	return l
}

// people are nodes with names and addresses.
func people(ids ...uint64) (all []Member) {
	for _, id := range ids {
		all = append(all, Member{id, fmt.Sprint("node-", id), fmt.Sprint("place-", id)})
	}
	return all
}

// TestLog: three nodes in this process are a log.
func TestLog(t *testing.T) {
	eventlogtest.TestLog(t, func(t *testing.T) eventlogtest.Engine { return &cluster{dir: t.TempDir()} })
}

func (l *clusterLog) leader(t *testing.T, shard uint16) *Log {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for {
		for _, n := range l.all {
			if s := n.Status(shard); s.Leader == s.Node && l.net.at(s.Node) != nil {
				return n
			}
		}
		if !l.opt.Clock.Sleep(ctx, 10*time.Millisecond) {
			t.Fatal("no leader")
		}
	}
}

// contents returns the batches of a node from first on.
func contents(t *testing.T, l *Log, shard uint16, first, last uint64) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	for e, err := range l.Read(ctx, shard, first) {
		if err != nil {
			t.Fatalf("node %d: %v", l.opt.ID, err)
		}
		if all = append(all, string(e.Data)); e.Seq == last {
			break
		}
	}
	return all
}

// TestJoin: a node that joins a log whose beginning was trimmed gets the files of the others, follows, and keeps what it has over
// a restart.
func TestJoin(t *testing.T) {
	c := &cluster{dir: t.TempDir()}
	l := c.open(t, 10<<20, 8000)
	defer func() { _ = l.Close() }()
	const n = 300
	for i := range n {
		if _, _, err := l.Append(t.Context(), 0, fmt.Sprint(i), eventlogtest.Payload(0, i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range l.all {
		if err := x.Ready(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := x.Trim(t.Context(), 0, n/2); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Dir: filepath.Join(c.dir, "4"), Cluster: 7, ID: 4, Shards: 2, MaxBytes: 10 << 20, Network: l.net, Logf: t.Logf, segment: 8000}
	if err := Join(o, people(1, 2, 3)...); err != nil {
		t.Fatal(err)
	}
	joined, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l.net.bring(joined)
	if err := l.Add(t.Context(), people(4)[0]); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, _, err := l.Append(t.Context(), 0, fmt.Sprint("more", i), eventlogtest.Payload(0, n+i, 100)); err != nil {
			t.Fatal(err)
		}
	}
	// The first entry that the node has is the first one of a segment, at or before the first that the others still give out.
	var first uint64
	for ctx := t.Context(); first <= 1; joined.opt.Clock.Sleep(ctx, 10*time.Millisecond) {
		info, err := joined.Info(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		first = info.First
	}
	if first > n/2+1 {
		t.Fatalf("the node that joined begins with %d", first)
	}
	want := contents(t, l.Log, 0, n/2+1, n+20)
	if got := contents(t, joined, 0, n/2+1, n+20); !slices.Equal(got, want) {
		t.Fatal("the node that joined has another content")
	}
	if seq, dup, err := joined.Append(t.Context(), 0, "3", nil); seq != 4 || !dup || err != nil {
		t.Errorf("a batch that was trimmed, again: %d, %v, %v", seq, dup, err)
	}
	if err := joined.Close(); err != nil {
		t.Fatal(err)
	}
	if joined, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer joined.Close()
	l.net.bring(joined)
	if got := contents(t, joined, 0, n/2+1, n+20); !slices.Equal(got, want) {
		t.Fatal("the node that joined has another content after a restart")
	}
}

// TestCommitter: a committer at one node writes while leaders are cut off. What was acknowledged is there once, at all nodes.
func TestCommitter(t *testing.T) {
	c := &cluster{dir: t.TempDir()}
	l := c.open(t, 100<<20, 20_000)
	defer func() { _ = l.Close() }()
	w := eventlogtest.NewCommitter(t, l, eventlog.CommitterOptions{Try: 2 * time.Second, Patience: 30 * time.Second})
	h := eventlogtest.NewHistory()
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				_ = h.Append(t.Context(), w) // its outcome is in the history
			}
		})
	}
	for range 2 {
		cut := l.leader(t, 0).opt.ID
		before := w.Stats().Batches
		l.net.cutOff(cut)
		if cut != l.opt.ID { // the others go on without it
			for w.Stats().Batches < before+50 {
				if !l.opt.Clock.Sleep(t.Context(), 10*time.Millisecond) {
					t.Fatal("no batch is stored")
				}
			}
		} else {
			l.opt.Clock.Sleep(t.Context(), 2*time.Second)
		}
		l.net.bring(l.all[cut-1])
		for before = w.Stats().Batches; w.Stats().Batches < before+50; {
			if !l.opt.Clock.Sleep(t.Context(), 10*time.Millisecond) {
				t.Fatal("no batch is stored")
			}
		}
	}
	close(done)
	wg.Wait()
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, n := range l.all {
		if err := n.Ready(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if err := h.Check(t.Context(), n); err != nil {
			t.Errorf("node %d: %v", n.opt.ID, err)
		}
	}
	t.Logf("%d events acknowledged, %d unknown, %d refused", len(h.Acked), len(h.Unknown), len(h.Refused))
}

// nobody is the network of a node that is alone.
type nobody struct{}

func (nobody) Send(uint16, *pb.Message) {}
func (nobody) Fetch(context.Context, uint16, uint64, uint64, []byte, int64) error {
	return errors.New("no other node")
}

// TestOptions: wrong options are errors that name the field, and make nothing.
func TestOptions(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		o      Options
		voters []Member
		want   string
	}{
		{Options{Dir: dir + "/a", ID: 1, Network: nobody{}}, nil, "cluster = 0"},
		{Options{Dir: dir + "/a", Cluster: 7, Network: nobody{}}, nil, "id = 0"},
		{Options{Dir: dir + "/a", Cluster: 7, ID: 1 << 63, Network: nobody{}}, nil, "id = 9223372036854775808"},
		{Options{Dir: dir + "/a", Cluster: 7, ID: 3, Network: nobody{}}, people(1, 2), "id = 3"},
		{Options{Dir: dir + "/a", Cluster: 7, ID: 1, Network: nobody{}}, people(1, 1), "an id and a name of its own"},
	} {
		if err := Create(c.o, c.voters...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, voters %v: %v", c.o, c.voters, err)
		}
	}
	o := Options{Dir: dir + "/b", Cluster: 7, ID: 7, Network: nobody{}}
	if _, err := Open(o); !errors.Is(err, eventlog.ErrNoLog) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := Create(o, people(7)...); err != nil {
		t.Fatal(err)
	}
	if err := Create(o, people(7)...); err == nil {
		t.Error("a node was made twice")
	}
	// A power loss in Create leaves what the next call takes away; without the note of it nothing is taken away.
	marker := filepath.Join(o.Dir, eventlog.ReplicaMarker)
	text := must(os.ReadFile(marker))
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	if err := Create(o, people(7)...); err == nil || !strings.Contains(err.Error(), "want an empty directory") {
		t.Errorf("entries without a marker: %v", err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, creating), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Create(o, people(7)...); err != nil {
		t.Errorf("after a power loss: %v", err)
	}
	if again := must(os.ReadFile(marker)); !bytes.Equal(text, again) {
		t.Errorf("the marker is %q", again)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, creating)); err == nil {
		t.Error("the note of a creation stays")
	}
	if _, err := eventlog.OpenDisk(t.Context(), o.Dir, eventlog.DiskOptions{}); !errors.As(err, new(*eventlog.OtherKindError)) {
		t.Errorf("opened as the log of a single machine: %v", err)
	}
	for field, wrong := range map[string]Options{
		"want node 8":              {Dir: o.Dir, Cluster: 7, ID: 8},
		"cluster 0000000000000009": {Dir: o.Dir, Cluster: 9, ID: 7},
		"with 3":                   {Dir: o.Dir, Cluster: 7, ID: 7, Shards: 3},
	} {
		wrong.Network = nobody{}
		if _, err := Open(wrong); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o); !errors.As(err, new(*eventlog.LockedError)) {
		t.Errorf("opened twice: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	o.Reserve = 1 << 60
	if l, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, _, err := l.Append(t.Context(), 0, "x", []byte("x")); !errors.Is(err, eventlog.ErrFull) {
		t.Errorf("below the reserve: %v", err)
	}
}

// TestReceiveBounded: a node that is sent more than it can store loses messages, and takes no more memory than its bound.
func TestReceiveBounded(t *testing.T) {
	s := &shard{inbox: make(chan *pb.Message, maxInbox)}
	l := &Log{shards: []*shard{s}}
	m := &pb.Message{Entries: []*pb.Entry{{Data: make([]byte, 1<<20)}}}
	for range 1000 {
		l.Receive(0, m)
	}
	if n := len(s.inbox); n != 63 || s.held.Load() > maxHeld {
		t.Errorf("%d messages of 1 MiB wait, %d bytes", n, s.held.Load())
	}
	l.Receive(1, m) // no such group
	for range 2 * maxInbox {
		l.Receive(0, &pb.Message{})
	}
	if n := len(s.inbox); n != maxInbox || s.held.Load() > maxHeld {
		t.Errorf("%d messages wait, %d bytes", n, s.held.Load())
	}
}
