package serve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/serve/fold"
	"troupe/timing"
)

// TestOldStateIsNotReady: a node whose log does not take its first checkpoint has a state that may be old. It answers 503,
// also to reads, until one has come back.
func TestOldStateIsNotReady(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	if _, err := nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3), MinSeq: created}); err != nil {
		t.Fatal(err)
	}
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	l := &refusing{Log: m}
	l.shut.Store(true)
	late, err := openNode(t, l, 2, &nodeClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = late.Close(context.Background()) })
	if h := late.Health(); h.Ready {
		t.Errorf("it is ready with a state that nothing says is new: %+v", h)
	}
	_, err = late.GetModel(ctx, "news")
	wantCode(t, err, Unavailable, "has not reached a majority")
	l.shut.Store(false)
	eventually(t, func() bool { return late.Health().Ready })
	if _, err := late.GetModel(ctx, "news"); err != nil {
		t.Error(err)
	}
}

// refusing is a log that stores what is appended while it is shut only when it is open again.
type refusing struct {
	eventlog.Log
	shut atomic.Bool
}

func (l *refusing) Append(ctx context.Context, shard uint16, id string, batch []byte) (uint64, bool, error) {
	await.Poll(func() bool { return ctx.Err() != nil || !l.shut.Load() })
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	return l.Log.Append(ctx, shard, id, batch)
}

// TestClockAfterElection: a checkpoint that was held up by an election says nothing of a clock, and neither do those that
// came with it; a clock that is off is still seen afterwards.
func TestClockAfterElection(t *testing.T) {
	n, err := newNodes(Cluster{Node: "b", Nodes: []string{"a", "b", "c"}}, eventlog.IDKeys{}, timing.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	hear := func(node string, behind time.Duration) {
		n.hear(&eventlog.Checkpoint{Node: node, Time: now.Add(-behind).UnixNano()}, 1, now)
	}
	hear("a", 0)
	hear("c", 0)
	hear("b", 4*time.Second)
	if d := n.deviation(); d != 0 {
		t.Errorf("after an election the clock of this node is %v off", d)
	}
	n.unsteady = 0 // later
	hear("a", -time.Hour)
	hear("c", -time.Hour)
	hear("b", 0)
	if d := n.deviation(); d != -time.Hour {
		t.Errorf("a clock that is an hour behind is %v off", d)
	}
}

// TestPhantoms: of the decisions that three nodes wrote under one key at once, the log of the model has the one that counts.
func TestPhantoms(t *testing.T) {
	ctx := t.Context()
	_, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	const keys = 40
	for i := range keys {
		var wait sync.WaitGroup
		for _, s := range nodes {
			wait.Go(func() {
				r := DecideRequest{Actions: actions(i, 4, 3), IdempotencyKey: fmt.Sprint("key", i), MinSeq: created}
				if _, err := s.Decide(ctx, "news", r); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
	}
	m := must(nodes[0].GetModel(ctx, "news"))
	var listed, written uint64
	page := must(nodes[0].Log(ctx, "news", 0, 100_000))
	for r, err := range page.Records {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := r.Record.(*eventlog.Decision); ok {
			listed++
		}
	}
	if err := nodes[0].plain(ctx, 1, 1, page.Applied, func(d eventlog.Delivery, _ []fold.Outcome) error {
		for _, r := range d.Events() {
			if _, ok := r.(*eventlog.Decision); ok {
				written++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var ignored uint64
	for r, err := range page.All { // the others are there, marked
		if _, ok := r.Record.(*eventlog.Decision); err != nil || ok && r.Ignored {
			ignored++
		}
	}
	if listed+ignored != written {
		t.Errorf("%d decisions are listed and %d are marked, %d are in the log", listed, ignored, written)
	}
	if listed != keys || m.Counts.Decisions != keys {
		t.Errorf("%d decisions are listed, %d count, %d are in the log, want %d", listed, m.Counts.Decisions, written, keys)
	}
	t.Logf("%d decisions in the log for %d keys", written, keys)
}

// TestWhyNoMajority: a node without a majority says who is missing; where the nodes that are here are enough and do not make
// one for long, it says whose disk the log needs.
func TestWhyNoMajority(t *testing.T) {
	n, err := newNodes(Cluster{Node: "b", Nodes: nodeNames}, testKeys, timing.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	if text := n.why(time.Hour); text != "" {
		t.Errorf("without knowledge: %q", text)
	}
	for _, c := range []struct {
		missing []string
		silent  time.Duration
		want    string
		disk    bool
	}{
		{nil, time.Hour, "", false},
		{[]string{"a", "c"}, time.Hour, "no connection to a and c", false},
		{[]string{"a"}, 10 * time.Second, "no connection to a", false},
		{[]string{"a"}, time.Minute, "no connection to a, and a replica of the others is empty", true},
	} {
		n.Cluster.Missing = func() []string { return c.missing }
		text := n.why(c.silent)
		if !strings.Contains(text, c.want) || (text == "") != (c.want == "") || strings.Contains(text, "needs the disk of a;") != c.disk {
			t.Errorf("missing %v for %v: %q", c.missing, c.silent, text)
		}
	}
	n.Cluster.Missing = func() []string { return []string{"a"} }
	n.contact.Store(0)
	n.opened -= timing.Instant(time.Minute)
	if err := n.stale(); err == nil || !strings.Contains(err.Error(), "for 60 s; it has no connection to a, and") {
		t.Errorf("%v", err)
	}
}

// failing is a log whose replica on this node is gone, and which stores nothing.
type failing struct {
	refusing
	down atomic.Pointer[eventlog.ReplicaDownError]
}

func (l *failing) Err() error {
	if e := l.down.Load(); e != nil {
		return e
	}
	return nil
}

// TestFailedDiskIsTheReason: a node whose disk has failed says so, also when it has not reached a majority for long because of it.
func TestFailedDiskIsTheReason(t *testing.T) {
	t.Parallel()
	m, nodes, _ := three(t)
	if err := nodes[2].Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &failing{refusing: refusing{Log: m}}
	l.shut.Store(true)
	late, err := openNode(t, l, 2, &nodeClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.shut.Store(false); _ = late.Close(context.Background()) })
	if h := late.Health(); h.Ready || !strings.Contains(h.Reason, "has not reached a majority") {
		t.Errorf("%+v", h)
	}
	l.down.Store(&eventlog.ReplicaDownError{What: "input/output error"})
	if h := late.Health(); h.Ready || !strings.Contains(h.Reason, "the disk of this node has failed") {
		t.Errorf("%+v", h)
	}
}
