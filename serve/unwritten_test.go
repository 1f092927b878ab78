package serve

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
)

// lines is a log of a program that tests read.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// poison stores bytes in the log that no node has written.
func poison(t testing.TB, m *eventlogtest.Memory, id string, data []byte) uint64 {
	t.Helper()
	seq, _, err := m.Append(context.Background(), 0, id, data)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// TestPoison: 70 bytes of garbage in the log, which made every node read-only for good, have no effect: each node goes
// on serving, counts them, names the entry in its health and its log; a node that starts later, one that goes on from a
// snapshot and a single machine find the same state.
func TestPoison(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var said lines
	dir := t.TempDir()
	m, nodes, clocks := three(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		if o.Cluster.Node == "c" {
			o.Dir = dir
		}
	})
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	at := poison(t, m, "poison", bytes.Repeat([]byte{0xfe}, 70))
	for i, s := range nodes {
		d, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(i, 4, 3), MinSeq: at})
		if err != nil {
			t.Fatalf("node %d: %v", i, err)
		}
		if r, err := nodes[(i+1)%3].Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}); err != nil || r.Status != Accepted {
			t.Fatalf("node %d: %+v, %v", i, r, err)
		}
		if h := s.Health(); !h.Ready || h.Cluster.Unwritten != 1 || h.Cluster.UnwrittenEntry != at {
			t.Errorf("node %d: ready %v (%s), %d entries, the newest %d, want 1 and %d", i, h.Ready, h.Reason, h.Cluster.Unwritten, h.Cluster.UnwrittenEntry, at)
		}
	}
	if text := said.text(); strings.Count(text, "no node of this cluster has written it") != 3 || !strings.Contains(text, fmt.Sprint("entry=", at)) {
		t.Errorf("the log says %s", text)
	}
	if err := nodes[2].Close(ctx); err != nil { // it writes a snapshot
		t.Fatal(err)
	}
	last := poison(t, m, "more", nil)
	for _, from := range []string{"a snapshot", "the beginning"} {
		s, err := openNode(t, m, 2, clocks[2], func(o *Options) {
			if from == "a snapshot" {
				o.Dir = dir
			}
		})
		if err != nil {
			t.Fatalf("from %s: %v", from, err)
		}
		if h := s.Health(); h.Cluster.Unwritten != 2 || h.Cluster.UnwrittenEntry != last {
			t.Errorf("from %s: %d entries, the newest %d", from, h.Cluster.Unwritten, h.Cluster.UnwrittenEntry)
		}
		if _, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(5, 4, 3)}); err != nil {
			t.Fatal(err)
		}
		// it is not shown either
		page, err := s.Log(ctx, "news", at, 10)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range page.Records {
			if err != nil || r.Seq == at {
				t.Errorf("from %s: %+v, %v", from, r, err)
			}
		}
		if from == "the beginning" {
			agree(t, nodes[0], nodes[1], s)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnyEntry: whatever stands in the log between what three nodes write, garbage, batches of them with changed bytes,
// old ones again, they go on, and all folds are equal, as is one from the beginning.
func TestAnyEntry(t *testing.T) {
	ctx := t.Context()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	r := rand.New(rand.NewPCG(1, 2))
	bad, newest := uint64(0), uint64(0)
	for i := range 120 {
		var data []byte
		info := must(m.Info(ctx, 0))
		old := must(m.Get(ctx, 0, 1+r.Uint64N(info.Last)))
		switch i % 4 {
		case 0:
			data = make([]byte, r.IntN(200))
			for k := range data {
				data[k] = byte(r.Uint32())
			}
		case 1:
			if data = bytes.Clone(old.Data); len(data) > 0 {
				data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
			}
		case 2:
			data = old.Data[:r.IntN(len(old.Data)+1)]
		case 3: // whole, again: it counted once
			data = old.Data
		}
		if b, err := testKeys.Batches().Parse(data); err != nil || b.No == 0 {
			bad++
		}
		newest = poison(t, m, fmt.Sprint("poison", i), data)
		if _, err := nodes[i%3].Decide(ctx, "news", DecideRequest{Actions: actions(i, 4, 3), MinSeq: max(created, newest)}); err != nil {
			t.Fatalf("after %x: %v", data, err)
		}
	}
	last := must(m.Info(ctx, 0)).Last // the last decision is behind the newest of them
	for i, s := range nodes {
		eventually(t, func() bool { return s.progress.applied.Load() >= last })
		if n := s.Health().Cluster.Unwritten; n != bad {
			t.Errorf("node %d: %d entries without effect, want %d", i, n, bad)
		}
	}
	if n := must(nodes[1].GetModel(ctx, "news")).Counts.Decisions; n != 120 {
		t.Errorf("%d decisions count, want 120", n)
	}
	agree(t, nodes...)
	past := &fold.History{Log: logReader{nodes[0].ctx, nodes[0].log}, Nearest: func(uint64) []byte { return nil }, Keys: testKeys.Batches()}
	past.First.Store(1)
	nodes[0].mu.RLock() // as in agree
	at := eventlog.NewChain(0, nodes[0].fold.Seq()+1)
	want := must(nodes[0].fold.AppendState(nil, at))
	f, _, err := past.Fold(nil, nodes[0].fold.Seq())
	nodes[0].mu.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if got := must(f.AppendState(nil, at)); !bytes.Equal(got, want) {
		t.Error("a fold from the beginning differs from that of the nodes")
	}
}

// TestKeysOfLog: a node whose keys.json is not the cluster's does not begin with an empty state in which nothing has an
// effect: it refuses, and so does a single machine, and a file that has lost a key; one that has it as dropped starts.
func TestKeysOfLog(t *testing.T) {
	ctx := t.Context()
	one, two := NewKey(), NewKey()
	keys := func(current byte, k, dropped map[byte][]byte) func(o *Options) {
		return func(o *Options) { o.Keys = eventlog.IDKeys{Current: current, Keys: k, Dropped: dropped} }
	}
	both := map[byte][]byte{1: one, 2: two}
	m, nodes, clocks := three(t, keys(1, both, nil))
	for i, s := range nodes { // they go on under the second key
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := openNode(t, m, i, clocks[i], keys(2, both, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
	}
	for _, c := range []struct {
		what string
		keys func(*Options)
		want string
	}{
		{"another file", keys(1, map[byte][]byte{1: NewKey()}, nil), "entry 1: its MAC is of a key that keys.json does not have"},
		{"the file of before", keys(1, map[byte][]byte{1: one}, nil), "keys.json lacks a key of fingerprint"},
		{"without the first key", keys(2, map[byte][]byte{2: two}, nil), "entry 1: its MAC is of a key"},
	} {
		for _, single := range []bool{false, true} {
			s, err := openNode(t, m, 2, clocks[2], c.keys, func(o *Options) {
				if single {
					o.Cluster = nil
				}
			})
			if err == nil {
				s.Close(ctx)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, single %v: %v, want %q", c.what, single, err, c.want)
			}
		}
	}
	s, err := openNode(t, m, 2, clocks[2], keys(2, map[byte][]byte{2: two}, map[byte][]byte{1: one}))
	if err != nil {
		t.Fatalf("with the first key dropped: %v", err)
	}
	if h := s.Health(); h.Cluster.Unwritten != 0 {
		t.Errorf("%d entries have no effect", h.Cluster.Unwritten)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestDeclaredVoidNodes: an entry that a node wrote and no node can read makes all of them read-only, also after a restart, and
// they say what to do. When it is declared void they start again with all that counts but that entry, and serve; a fold from the
// beginning and one from a snapshot are equal.
func TestDeclaredVoidNodes(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	inDir := func(o *Options) {
		if o.Cluster.Node == "c" {
			o.Dir = dir
		}
	}
	m, nodes, clocks := three(t, inDir)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	before := must(nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3), MinSeq: nodes[0].Health().Log}))
	bad := poison(t, m, "bad", must(testKeys.Batches().Append(nil, eventlog.Header{Format: eventlog.Format3, Epoch: 77, No: 1, After: 2,
		Prev: eventlog.Hash{1}}, &eventlog.Activate{Event: eventlog.Event{Epoch: 1, Batch: 1}})))
	for i, s := range nodes {
		eventually(t, func() bool { return !s.Health().Ready })
		if h := s.Health(); !strings.Contains(h.Reason, fmt.Sprintf("entry %d: ", bad)) || !strings.Contains(h.Reason, "troupe cluster void") {
			t.Errorf("node %d: %s", i, h.Reason)
		}
		_ = s.Close(ctx)
		if _, err := openNode(t, m, i, clocks[i], inDir); err == nil || !strings.Contains(err.Error(), "troupe cluster void") {
			t.Fatalf("node %d starts again: %v", i, err)
		}
	}
	found, err := eventlog.FindUnusable(ctx, m, testKeys.Batches(), 0)
	if err != nil || len(found.Left()) != 1 || found.Left()[0].Seq != bad || found.Left()[0].Records != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	declared, err := found.DeclareVoid(ctx, "test", clocks[0].now())
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		s, err := openNode(t, m, i, clocks[i], inDir)
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = s
		defer s.Close(context.Background())
	}
	for i, s := range nodes {
		if r, err := s.Reward(ctx, RewardRequest{EventID: before.EventID, Value: 1}); err != nil {
			t.Errorf("node %d: %+v, %v", i, r, err)
		}
		if _, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(i, 4, 3), MinSeq: declared}); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
		if h := s.Health(); !h.Ready || h.Cluster.Declared != 1 || h.Cluster.Unwritten != 0 {
			t.Errorf("node %d: %+v", i, h.Cluster)
		}
	}
	if err := nodes[2].Close(ctx); err != nil { // it writes a snapshot
		t.Fatal(err)
	}
	c, err := openNode(t, m, 2, clocks[2], inDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if r := c.Health().Recovery; r.Snapshot < declared || c.Health().Cluster.Declared != 1 {
		t.Errorf("from a snapshot: %+v, %d declared", r, c.Health().Cluster.Declared)
	}
	agree(t, nodes[0], nodes[1], c)
}
