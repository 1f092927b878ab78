package eventlog

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"troupe/internal/scratch"
)

// Tests that need what is not exported are in this package, others in eventlog_test with package
// eventlogtest, which this one cannot import. What the others need from here:
var (
	Refused = refused
	Works   = works
	Rounds  = rounds
	Sized   = sized
	Beside  = beside
	Wide    = wide

	FreePorts = freePorts
)

// SetNoSync makes options of an engine that does not sync.
func (o *DiskOptions) SetNoSync() { o.noSync = true }

// SetRescueAfter sets how long the engine's own group must have had no leader before it is rescued.
func (n *Node) SetRescueAfter(d time.Duration) {
	n.leaderless.mu.Lock()
	defer n.leaderless.mu.Unlock()
	n.leaderless.after = d
}

// HandOver lets another server lead the engine's own group.
func (n *Node) HandOver(ctx context.Context, to string) error { return n.handOver(ctx, to) }

// GroupSize is how many servers this node counts in the engine's own group, 0 for none.
func (n *Node) GroupSize() int {
	z, err := n.srv.Load().Jsz(&server.JSzOptions{})
	if err != nil || z.Meta == nil {
		return 0
	}
	return z.Meta.Size
}

// failer is what *testing.T, *testing.B, *testing.F and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// rounds is how often a test repeats something: the value of an environment variable, otherwise full with
// TROUPE_LONG and a quarter of it without.
func rounds(env string, full int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return sized(max(1, full/4), full)
}

// sized is the size of a test: all with TROUPE_LONG, otherwise quick.
func sized(quick, all int) int {
	if os.Getenv("TROUPE_LONG") != "" {
		return all
	}
	return quick
}

// wide says whether as many tests run at a time as there are, each part of one with nodes of its own: not with
// TROUPE_LONG, where there are more of them, nor with -short, which is played with the race detector.
func wide() bool {
	return os.Getenv("TROUPE_LONG") == "" && os.Getenv("TROUPE_RECORD") == "" && !testing.Short()
}

func event(id int64) Record { return &Activate{Event: Event{1, 1, 0}, Time: id} }

func newCommitter(t failer, l Log, opt CommitterOptions) *Committer {
	t.Helper()
	chain, err := Tail(context.Background(), l, opt.Shard, nil)
	if err != nil {
		t.Fatal(err)
	}
	opt.Head = chain.Head()
	c, err := NewCommitter(l, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// oneBatch is a whole batch of a little more than n bytes, by a writer of its own.
func oneBatch(shard uint16, i, n int) []byte {
	return must(AppendBatch(nil, Header{Shard: shard, Epoch: ID(i + 1), No: 1},
		&Control{Act: Create, Model: 1, Config: bytes.Repeat([]byte{byte(i)}, n)}))
}

// computing has a place for each test that computes for the most part.
var computing = make(chan struct{}, 2)

// beside lets a test that computes run beside those that wait for elections, two such tests at a time.
func beside(t *testing.T) {
	t.Helper()
	t.Parallel()
	computing <- struct{}{}
	t.Cleanup(func() { <-computing })
}

var worked atomic.Int64

// works opens a log, writes one event to every shard, reads all, and closes.
func works(t *testing.T, dir string) {
	t.Helper()
	l, err := OpenDisk(t.Context(), dir, DiskOptions{MaxBytes: 1 << 30, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for shard := range l.Shards() {
		c := newCommitter(t, l, CommitterOptions{Shard: shard})
		if _, err := c.Append(t.Context(), event(-worked.Add(1))); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := Tail(t.Context(), l, shard, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// freePorts returns addresses on loopback for nodes that listen later.
func freePorts(t *testing.T, n int) (addresses []string) {
	t.Helper()
	ports, err := scratch.Ports(n)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ports {
		addresses = append(addresses, "127.0.0.1:"+p)
	}
	return addresses
}
