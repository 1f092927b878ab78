package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
)

// streamEngine is one node that is alone, and a Stream on its connection.
type streamEngine struct{ dir string }

type nodeLog struct {
	*eventlog.Stream
	node *eventlog.Node
	once sync.Once
}

func (l *nodeLog) Close() error {
	err := l.Stream.Close()
	l.once.Do(func() { err = errors.Join(err, l.node.Close()) })
	return err
}

func (e *streamEngine) Open(t *testing.T, limit uint64) eventlogtest.Log {
	t.Helper()
	n, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: e.dir, Cluster: "c", Name: "a", Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.OpenStream(t.Context(), n.Conn(), eventlog.StreamOptions{Shards: 2, MaxBytes: int64(limit), Create: n.Fresh(), Logf: t.Logf})
	if err == nil {
		err = n.Joined()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &nodeLog{Stream: l, node: n}
}

// TestStream: the conformance suite on a node that is alone.
func TestStream(t *testing.T) {
	eventlog.Beside(t)
	eventlogtest.TestLog(t, func(t *testing.T) eventlogtest.Engine { return &streamEngine{t.TempDir()} })
}

// trio is three nodes in this process, with a Stream at each.
type trio struct {
	t         *testing.T
	dirs      []string
	addresses []string
	nodes     []*eventlog.Node
	logs      []*eventlog.Stream
	shards    uint16
	limit     int64
	damaged   func(*eventlog.DamagedReplicaError) error
	repair    bool
	rescues   atomic.Int64    // how often a Stream lowered the quorum of the engine's own group
	suspects  [3]atomic.Int64 // how often a Stream said that its server's files may be damaged
}

func newTrio(t *testing.T, shards uint16, limit int64) *trio {
	c := &trio{t: t, addresses: eventlog.FreePorts(t, 3), shards: shards, limit: limit, nodes: make([]*eventlog.Node, 3), logs: make([]*eventlog.Stream, 3)}
	for range 3 {
		c.dirs = append(c.dirs, t.TempDir())
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (c *trio) options(i int) eventlog.NodeOptions {
	return eventlog.NodeOptions{Dir: c.dirs[i], Cluster: "c", Name: string(rune('a' + i)), Listen: c.addresses[i],
		Routes: c.addresses, Damaged: c.damaged, Repair: c.repair, Keys: eventlogtest.Keys,
		Logf: func(format string, a ...any) {
			if strings.Contains(format, "counts servers that are gone and has no leader") {
				c.rescues.Add(1)
				c.t.Logf(format, a...)
			}
		}}
}

func (c *trio) start(i int) {
	c.t.Helper()
	n, err := eventlog.StartNode(context.Background(), c.options(i))
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = n
}

// open waits for a majority.
func (c *trio) open(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	l, err := eventlog.OpenStream(ctx, c.nodes[i].Conn(), eventlog.StreamOptions{Shards: c.shards, MaxBytes: c.limit, Replicas: 3, Create: c.nodes[i].Fresh(), Node: c.nodes[i],
		Suspect: func() { c.suspects[i].Add(1) }, Logf: c.t.Logf})
	if err == nil {
		err = c.nodes[i].Joined()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.logs[i] = l
}

func (c *trio) stop(i int) {
	if c.logs[i] != nil {
		_ = c.logs[i].Close()
		c.logs[i] = nil
	}
	if c.nodes[i] != nil {
		_ = c.nodes[i].Close()
		c.nodes[i] = nil
	}
}

func (c *trio) Close() error {
	for i := range 3 {
		c.stop(i)
	}
	return nil
}

// trioEngine opens a trio for the conformance suite; the log is that of node a.
type trioEngine struct{ c *trio }

type trioLog struct {
	*eventlog.Stream
	c *trio
}

func (l *trioLog) Close() error {
	err := l.Stream.Close()
	_ = l.c.Close()
	return err
}

func (e *trioEngine) Open(t *testing.T, limit uint64) eventlogtest.Log {
	t.Helper()
	if e.c == nil {
		e.c = newTrio(t, 2, int64(limit))
	}
	for i := range 3 {
		e.c.start(i)
	}
	e.c.open(0)
	return &trioLog{e.c.logs[0], e.c}
}

// TestStreamThree: the conformance suite on three nodes.
func TestStreamThree(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: each case starts three nodes and elects")
	}
	t.Parallel()
	eventlogtest.TestLog(t, func(t *testing.T) eventlogtest.Engine {
		t.Parallel()
		return &trioEngine{}
	})
}

// TestThreeNodes: three writers at three nodes, one of which stops and comes back; what was acknowledged is there
// once, and every node reads the same log.
func TestThreeNodes(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take seconds")
	}
	t.Parallel()
	c := newTrio(t, 1, 1<<30)
	for i := range 3 {
		c.start(i)
	}
	for i := range 3 {
		c.open(i)
	}
	if _, err := eventlog.OpenStream(t.Context(), c.nodes[0].Conn(), eventlog.StreamOptions{Shards: 2, Replicas: 3}); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("a stream that is not there, of a cluster that has a log: %v", err)
	}
	for i := range 6 { // twice round: whoever leads, another one does afterwards
		if err := c.logs[i%3].HandOver(t.Context()); err != nil {
			t.Error(err)
		}
		r, err := c.logs[i%3].Replicas(t.Context())
		// Step-downs so close may end in an election, which the node may win; and it hears of one a moment later.
		for note := range await.Tries(t) {
			if err == nil && r[0].Name != string(rune('a'+i%3)) && !c.nodes[i%3].Leads() {
				break
			}
			note("node %d still leads: %+v, error %v", i%3, r, err)
			if err := c.logs[i%3].HandOver(t.Context()); err != nil {
				t.Error(err)
			}
			r, err = c.logs[i%3].Replicas(t.Context())
		}
	}
	h := eventlogtest.NewHistory()
	write := func(nodes []int, events int) {
		var wg sync.WaitGroup
		for _, i := range nodes {
			f := follow(t, c.logs[i])
			w, err := eventlog.NewCommitter(c.logs[i], eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys, Applied: f.applied, Try: time.Second, Patience: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for range events {
					if err := h.Append(t.Context(), w); err != nil {
						t.Error(err)
					}
				}
				if err := w.Close(t.Context()); err != nil {
					t.Error(err)
				}
				f.stop()
				if err := <-f.done; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	write([]int{0, 1, 2}, 40)
	replicas, err := c.logs[0].Replicas(t.Context())
	if err != nil || len(replicas) != 3 || !replicas[0].Leader || len(c.nodes[0].Peers()) != 2 {
		t.Fatalf("%+v, peers %v, error %v", replicas, c.nodes[0].Peers(), err)
	}
	leader := int(replicas[0].Name[0] - 'a')
	c.stop((leader + 1) % 3) // a follower
	write([]int{leader, (leader + 2) % 3}, 20)
	c.start((leader + 1) % 3)
	c.open((leader + 1) % 3)
	write([]int{0, 1, 2}, 10)
	var ends []eventlog.Head
	for i := range 3 {
		chain, err := eventlog.Tail(t.Context(), c.logs[i], 0, eventlogtest.Keys)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := chain.Rolling()
		ends = append(ends, end)
	}
	if ends[0] != ends[1] || ends[0] != ends[2] {
		t.Errorf("the nodes read different logs: %v", ends)
	}
	if err := h.Check(t.Context(), c.logs[leader]); err != nil || len(h.Acked) != 190 {
		t.Errorf("%d events acknowledged, error %v", len(h.Acked), err)
	}
}

// TestDamagedLeader: a node with a flipped bit leads, and does not give some entries, which the test sees when it asks that node. Readers at every node get
// all of them from the others, one by one and in order, and another node leads then.
func TestDamagedLeader(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("TROUPE_LONG is not set: elections take seconds")
	}
	t.Parallel()
	const n, bad = 60, 2
	c := newTrio(t, 1, 120_000) // block files of 32 kB
	for i := range 3 {
		c.start(i)
	}
	for i := range 3 {
		c.open(i)
	}
	w, err := eventlog.NewCommitter(c.logs[0], eventlog.CommitterOptions{Format: eventlog.Format3, Keys: eventlogtest.Keys})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float64, 200)
	for i := range n {
		for k := range x {
			x[k] = 1 / float64(1+i+k)
		}
		if _, err := w.Append(t.Context(), &eventlog.Reward{Event: eventlog.Event{Epoch: 1, Batch: uint64(i + 1)}, Model: 1, X: x}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want, err := eventlog.Tail(t.Context(), c.logs[0], 0, eventlogtest.Keys)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := want.Rolling()
	lead := func() string {
		r, err := c.logs[0].Replicas(t.Context())
		if err != nil || len(r) == 0 {
			return ""
		}
		return r[0].Name
	}
	toBad := func() {
		t.Helper()
		for note := range await.Tries(t) {
			if lead() == "c" {
				break
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = c.nodes[0].Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN.TROUPE_EV_0", []byte(`{"placement":{"preferred":"c"}}`))
			cancel()
			note("node c does not lead")
		}
	}
	for note := range await.Tries(t) { // the replica has all of it
		if r, err := c.nodes[bad].Check(); err == nil && r.Last == n {
			break
		}
		note("node c does not have the log")
	}
	c.stop(bad)
	names, err := filepath.Glob(filepath.Join(c.dirs[bad], "jetstream", "*", "streams", "TROUPE_EV_0", "msgs", "*.blk"))
	if err != nil || len(names) < 3 {
		t.Fatalf("%v, %v", names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(names[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.damaged = func(*eventlog.DamagedReplicaError) error { return nil }
	c.start(bad)
	c.open(bad)
	lacks := func() (list []uint64) { // what node c does not give
		t.Helper()
		for seq := range uint64(n) {
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			m, err := c.nodes[bad].Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.TROUPE_EV_0", fmt.Appendf(nil, `{"seq":%d}`, seq+1))
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(m.Data), `"error"`) {
				list = append(list, seq+1)
			}
		}
		return list
	}
	for reader, read := range []func() error{
		func() error { // any replica answers, sometimes the damaged one
			chain, err := eventlog.Tail(t.Context(), c.logs[0], 0, eventlogtest.Keys)
			if err == nil {
				if got, _ := chain.Rolling(); got != end {
					err = fmt.Errorf("the log ends with %v, it was %v", got, end)
				}
			}
			return err
		},
		func() error { _, err := c.logs[1].Get(t.Context(), 0, lacks()[0]); return err },
		func() error { _, err := c.logs[bad].Get(t.Context(), 0, lacks()[0]); return err },
	} {
		toBad()
		if missing := lacks(); len(missing) == 0 || lead() != "c" {
			t.Fatalf("node c gives all entries, or %s leads", lead())
		}
		reads := 0
		for note := range await.Tries(t) {
			if lead() != "c" {
				break
			}
			if err := read(); err != nil {
				t.Fatalf("reader %d: %v", reader, err)
			}
			reads++
			note("reader %d: node c leads after %d reads", reader, reads)
		}
		t.Logf("reader %d: node c lacked an entry, after %d reads %s leads", reader, reads, lead())
	}
	if c.suspects[0].Load() != 0 || c.suspects[1].Load() != 0 || c.suspects[bad].Load() != 1 {
		t.Errorf("suspects %d %d %d", c.suspects[0].Load(), c.suspects[1].Load(), c.suspects[bad].Load())
	}
}

// TestOtherKind: neither kind of directory is opened as the other, by any program, and nothing in it changes.
func TestOtherKind(t *testing.T) {
	eventlog.Beside(t)
	one, node := t.TempDir(), t.TempDir()
	eventlog.Works(t, one)
	n, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: node, Cluster: "c", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var locked *eventlog.LockedError
	if _, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: node, Cluster: "c", Name: "a"}); !errors.As(err, &locked) {
		t.Errorf("twice: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	state := func(dir string) (s string) {
		_ = filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() && info.Name() != "lock" {
				s += fmt.Sprintln(name, info.Size(), info.ModTime())
			}
			return err
		})
		return s
	}
	odd := t.TempDir()
	if err := os.WriteFile(filepath.Join(odd, "letter.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := state(one) + state(node) + state(odd)
	for what, open := range map[string]func() error{
		"the log of a single machine": func() error {
			_, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: one, Cluster: "c", Name: "a"})
			return err
		},
		"cluster c, node a": func() error {
			_, err := eventlog.OpenDisk(t.Context(), node, eventlog.DiskOptions{})
			return err
		},
		"a replica of a cluster's log": func() error { _, err := eventlog.Verify(node, nil); return err },
		"not of cluster c, node b": func() error {
			_, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: node, Cluster: "c", Name: "b"})
			return err
		},
		"files that are no replica": func() error {
			_, err := eventlog.StartNode(t.Context(), eventlog.NodeOptions{Dir: odd, Cluster: "c", Name: "b"})
			return err
		},
	} {
		var other *eventlog.OtherKindError
		if err := open(); !errors.As(err, &other) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after := state(one) + state(node) + state(odd); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}
