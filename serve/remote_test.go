package serve

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/model"
)

// openAlone opens a server that is the only node on a log, with servers of others.
func openAlone(t *testing.T, log eventlog.Log, edit ...func(*Options)) *Server {
	t.Helper()
	s, err := openNode(t, log, 0, &nodeClock{}, append([]func(*Options){func(o *Options) { o.Cluster.Nodes = []string{"a"} }}, edit...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// TestOneNode: a cluster of one node decides, learns, closes windows, and goes on after its end. While its log is not trusted it writes
// nothing and says why.
func TestOneNode(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	var wrong atomic.Pointer[error]
	trust := func(o *Options) {
		o.Cluster.Trusted = func() error {
			if err := wrong.Load(); err != nil {
				return *err
			}
			return nil
		}
		o.Cluster.Vouched = "Ops"
	}
	s := openAlone(t, m, trust)
	config := vectors("news", 3)
	config.Reward.Window = model.Duration(50 * time.Millisecond)
	if _, err := s.CreateModel(ctx, config, "test"); err != nil {
		t.Fatal(err)
	}
	d := must(s.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3), IdempotencyKey: "k"}))
	if got := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})); got.Status != Accepted {
		t.Fatalf("%+v", got)
	}
	must(s.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3)}))
	eventually(t, func() bool { return s.Health().Open == 0 })

	err := errors.New("n2 does not sync")
	wrong.Store(&err)
	_, err = s.Decide(ctx, "news", DecideRequest{Actions: actions(2, 4, 3)})
	wantCode(t, err, Unavailable, "")
	if h := s.Health(); h.Ready || !strings.Contains(h.Reason, "n2 does not sync") || *h.Cluster.Attested != (Attested{"Ops", false}) {
		t.Errorf("not trusted: ready %v, %q, %+v", h.Ready, h.Reason, h.Cluster.Attested)
	}
	if _, err := s.GetModel(ctx, "news"); err != nil {
		t.Errorf("reading: %v", err)
	}
	wrong.Store(nil)
	if h := s.Health(); !h.Ready || !h.Cluster.Attested.Is {
		t.Errorf("trusted again: %+v", h)
	}
	must(s.Decide(ctx, "news", DecideRequest{Actions: actions(2, 4, 3)}))
	eventually(t, func() bool { c := must(s.GetModel(ctx, "news")).Counts; return c.Decisions == 3 && c.Expired == 2 })
	want := must(s.GetModel(ctx, "news")).Counts
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = openAlone(t, m, trust)
	if got := must(s.GetModel(ctx, "news")).Counts; got != want {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	vouched := false
	for seq := must(m.Info(ctx, 0)).Last; seq > 0 && !vouched; seq-- {
		b := must(eventlog.ParseBatch(must(m.Get(ctx, 0, seq)).Data))
		for _, r := range b.Events() {
			c, ok := r.(*eventlog.Checkpoint)
			vouched = vouched || ok && c.Vouched == "Ops"
		}
	}
	if !vouched {
		t.Error("the log does not say who vouches")
	}
}

// TestTwoOfOneName: of two processes with one name the one that began later stays.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	older := openAlone(t, m)
	if _, err := older.CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(older.Health().Cluster.Nodes) == 1 })
	newer := openAlone(t, m)
	eventually(t, func() bool { return !older.Health().Ready })
	if h := older.Health(); !strings.Contains(h.Reason, "another process serves as node a") {
		t.Errorf("the older process stops with %q", h.Reason)
	}
	_, err := older.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)})
	wantCode(t, err, Unavailable, "")
	seen := newer.Health().Applied
	eventually(t, func() bool { return newer.Health().Applied > seen+5 })
	if h := newer.Health(); !h.Ready {
		t.Errorf("the newer process stops with %q", h.Reason)
	}
	must(newer.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)}))
}
