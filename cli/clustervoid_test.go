package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"troupe/cli/term"
	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/serve"
)

// nodesHere are three nodes of a cluster in this process.
type nodesHere struct {
	t       *testing.T
	dir     string
	names   []string
	logs    []*clusterServer
	servers []*serve.Server
}

func newNodesHere(t *testing.T) *nodesHere {
	t.Helper()
	c := &nodesHere{t: t, dir: t.TempDir(), names: []string{"a", "b", "c"}, logs: make([]*clusterServer, 3), servers: make([]*serve.Server, 3)}
	ports := freePorts(t, 6)
	c.run(0, "cluster", "init", "--out", filepath.Join(c.dir, "cluster"), "--nodes", fmt.Sprintf("a=127.0.0.1:%s/%s,b=127.0.0.1:%s/%s,c=127.0.0.1:%s/%s",
		ports[0], ports[3], ports[1], ports[4], ports[2], ports[5]))
	t.Cleanup(c.stop)
	return c
}

func (c *nodesHere) file(i int) string {
	return filepath.Join(c.dir, "cluster", c.names[i], clusterFile)
}
func (c *nodesHere) data(i int) string { return filepath.Join(c.dir, "data-"+c.names[i]) }

// run runs a command that must end with this exit code.
func (c *nodesHere) run(want int, args ...string) string {
	c.t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	if code := command(ctx, args, &out, &out); code != want {
		c.t.Fatalf("troupe %s: exit code %d, want %d: %s", strings.Join(args, " "), code, want, &out)
	}
	return out.String()
}

// start starts all nodes and waits until each of them answers.
func (c *nodesHere) start() (errs []error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	errs = make([]error, 3)
	var all sync.WaitGroup
	for i := range c.names {
		all.Go(func() {
			logger := slog.New(slog.DiscardHandler)
			l, err := newClusterServer(&serveFlags{cluster: c.file(i), data: c.data(i), maxLog: 1 << 30, listens: true}, logger)
			if err != nil {
				errs[i] = err
				return
			}
			o := serve.Options{Dir: c.data(i), Logger: logger}
			c.logs[i] = l
			if errs[i] = l.open(ctx, &o); errs[i] == nil {
				c.servers[i], errs[i] = serve.Open(ctx, o)
			}
		})
	}
	all.Wait()
	return errs
}

func (c *nodesHere) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	var all sync.WaitGroup
	for i := range c.names {
		all.Go(func() {
			if s := c.servers[i]; s != nil {
				_ = s.Close(ctx)
			}
		})
	}
	all.Wait()
	for i := range c.names {
		all.Go(func() {
			if l := c.logs[i]; l != nil {
				_ = l.close()
			}
		})
	}
	all.Wait()
	clear(c.servers)
	clear(c.logs)
}

// decide decides at a node, which must know what is in the log up to an entry.
func (c *nodesHere) decide(i int, seq uint64) serve.Decision {
	c.t.Helper()
	for note := range await.Tries(c.t) {
		d, err := c.servers[i].Decide(context.Background(), "news", serve.DecideRequest{Actions: []serve.Action{{ID: "x"}, {ID: "y"}}, MinSeq: seq})
		if err == nil {
			return d
		}
		note("node %s: %v", c.names[i], err)
	}
	return serve.Decision{}
}

// put stores an entry as something that has got into the log's account.
func (c *nodesHere) put(data []byte) uint64 {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	m, err := c.logs[0].node.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: "troupe.ev.0", Data: data})
	var seq uint64
	if err == nil {
		_, err = fmt.Sscanf(string(m.Data[strings.Index(string(m.Data), `"seq":`):]), `"seq":%d`, &seq)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return seq
}

func (c *nodesHere) begin() {
	c.t.Helper()
	if errs := c.start(); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		c.t.Fatal(errs)
	}
	for note := range await.Tries(c.t) {
		_, err := c.servers[0].CreateModel(context.Background(), serve.DefaultConfig("news"), "test")
		if err == nil {
			break
		}
		note("%v", err)
	}
}

// broken stores an entry with a right MAC that no node can read, and returns its number.
func (c *nodesHere) broken() uint64 {
	c.t.Helper()
	b, err := c.logs[0].keys.Batches().Append(nil, eventlog.Header{Format: eventlog.Format3, Epoch: 77, No: 1, After: 2, Prev: eventlog.Hash{1}},
		&eventlog.Activate{Event: eventlog.Event{Epoch: 1, Batch: 1}})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.put(b)
}

// TestClusterPoison: 70 bytes that no node has written stand in the log of three nodes. All of them go on serving and say so; a copy of the log is whole and
// says so, and a single machine goes on with it. What is before an entry that a node wrote and that no node can read is got out with --until.
func TestClusterPoison(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	// Not in parallel: a process that another test starts has the sockets of this one until it runs its own program, so that a
	// port is in use for a moment after its node was closed.
	c := newNodesHere(t)
	c.begin()
	at := c.put(bytes.Repeat([]byte{0xfe}, 70))
	for i, s := range c.servers {
		c.decide(i, at)
		if h := s.Health(); !h.Ready || h.Cluster.Unwritten != 1 || h.Cluster.UnwrittenEntry != at {
			t.Errorf("node %s: ready %v (%s), %d entries, the newest %d", c.names[i], h.Ready, h.Reason, h.Cluster.Unwritten, h.Cluster.UnwrittenEntry)
		}
	}
	last := c.decide(0, 0).Seq
	bad := c.broken()
	for i, s := range c.servers {
		for note := range await.Tries(t) {
			if !s.Health().Ready {
				break
			}
			note("node %s goes on behind entry %d", c.names[i], bad)
		}
	}
	c.stop()
	c.getsOut(bad, last)
	c.declared(bad, last)
}

// getsOut copies what is before an entry that no node can read, and lets a single machine go on with it.
func (c *nodesHere) getsOut(bad, last uint64) {
	t := c.t
	t.Helper()
	out := filepath.Join(c.dir, "out")
	export := func(code int, dir string, more ...string) string {
		t.Helper()
		return c.run(code, append([]string{"cluster", "export", filepath.Join(c.dir, dir), "--cluster", c.file(1), "--data", c.data(1)}, more...)...)
	}
	if text := export(term.Failed, "all"); !strings.Contains(text, fmt.Sprintf("or with --until %d what is before it", bad-1)) {
		t.Error(text)
	}
	if text := export(term.Failed, "all", "--until", fmt.Sprint(bad)); !strings.Contains(text, "is damaged") {
		t.Error(text)
	}
	if text := export(term.Misused, "all", "--until", "0"); !strings.Contains(text, "--until 0: expected an entry") {
		t.Error(text)
	}
	if text := export(0, "out", "--until", fmt.Sprint(bad-1)); !strings.Contains(text, fmt.Sprintf("entries 1 to %d", bad-1)) {
		t.Error(text)
	}
	if text := c.run(0, "log", "verify", out); !strings.Contains(text, "1 entries without effect") || !strings.Contains(text, "verdict  whole") {
		t.Error(text)
	}
	s, err := serve.Open(t.Context(), serve.Options{Dir: out})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	if h := s.Health(); h.Applied < last {
		t.Errorf("the single machine has entries up to %d, the cluster had decided in %d", h.Applied, last)
	}
	if _, err := s.Decide(t.Context(), "news", serve.DecideRequest{Actions: []serve.Action{{ID: "x"}, {ID: "y"}}}); err != nil {
		t.Error(err)
	}
}

// declared declares an entry void at one node while the others run as they are, and starts all.
func (c *nodesHere) declared(bad, last uint64) {
	t := c.t
	t.Helper()
	for i, err := range c.start() { // they do not start, and their replicas are there
		if err == nil || !strings.Contains(err.Error(), "see troupe cluster void") {
			t.Fatalf("node %s: %v", c.names[i], err)
		}
	}
	if err := c.logs[0].close(); err != nil {
		t.Fatal(err)
	}
	c.logs[0] = nil
	void := func(code int, want string, more ...string) {
		t.Helper()
		if text := c.run(code, append([]string{"cluster", "void", "--cluster", c.file(0), "--data", c.data(0)}, more...)...); !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %q", more, text, want)
		}
	}
	void(term.Failed, fmt.Sprintf("entry %d: writer 000000000000004d has the rolling hash", bad))
	void(term.Misused, fmt.Sprintf("entry %d can be read, or has no effect already: nothing was written", last), fmt.Sprint(last), "--accept-loss")
	void(term.Failed, "nothing was written: what these entries have is lost with --accept-loss", fmt.Sprint(bad))
	void(0, "declares them void", fmt.Sprint(bad), "--accept-loss")
	void(0, "declared void by entry", fmt.Sprint(bad), "--accept-loss") // once more is the same
	c.stop()
	if errs := c.start(); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatal(errs)
	}
	for i, s := range c.servers {
		c.decide(i, last)
		if h := s.Health(); !h.Ready || h.Cluster.Declared != 1 || h.Cluster.Unwritten != 1 {
			t.Errorf("node %s: %+v", c.names[i], h.Cluster)
		}
	}
	c.stop()
	whole := filepath.Join(c.dir, "whole")
	c.run(0, "cluster", "export", whole, "--cluster", c.file(1), "--data", c.data(1))
	if text := c.run(0, "log", "verify", whole); !strings.Contains(text, "1 entries without effect: an operator has declared them void") {
		t.Error(text)
	}
}
