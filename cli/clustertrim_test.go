package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"troupe/cli/source"
	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/serve"
)

// TestClusterTrim: three processes trim their log while they serve. A node is killed over and over meanwhile, one loses its disk and is rebuilt or begins with
// nothing, all are killed at once; the state is the same everywhere, and so it is in exports of what is left.
func TestClusterTrim(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("takes a minute; package serve trims with three nodes on a log in memory")
	}
	ctx := t.Context()
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := command(ctx, args, &out, &out); code != 0 {
			t.Fatalf("troupe %s: code %d:\n%s", strings.Join(args, " "), code, &out)
		}
		return out.String()
	}
	c := newRealCluster(t)
	c.flags = []string{"--keep-bytes", "1048576", "--trim-every", "1s"}
	for i := range c.names {
		c.start(i)
	}
	c.ready(3)
	if _, err := c.call(0, "POST", "/v1/models", map[string]any{"id": "news", "reward": map[string]any{"window": "1s"}}, nil); err != nil {
		t.Fatal(err)
	}
	for i := range c.names {
		c.has(i, "news")
	}
	each, more := 50, 1 // without keys: a remembered one keeps its decision in the log
	if os.Getenv("TROUPE_RECORD") != "" {
		each, more = 250, 4
	}
	var requests []map[string]any
	for i := range each {
		requests = append(requests, map[string]any{"context": map[string]any{"hour": i % 24}, "actions": []map[string]any{{"id": "x"}, {"id": "y"}, {"id": "z"}}})
	}
	decided, accepted := 0, 0
	work := func(n int, nodes ...int) { // batches
		t.Helper()
		for k := range n * more {
			var d struct {
				Results []struct{ Decision struct{ Event_ID string } }
			}
			at := nodes[k%len(nodes)]
			if _, err := c.call(at, "POST", "/v1/models/news:decideBatch", map[string]any{"requests": requests}, &d); err != nil {
				t.Fatal(err)
			}
			var rewards []map[string]any
			var paid struct {
				Results []struct{ Result struct{ Status string } }
			}
			for i, r := range d.Results {
				rewards = append(rewards, map[string]any{"event_id": r.Decision.Event_ID, "value": i % 2})
			}
			if _, err := c.call(nodes[(k+1)%len(nodes)], "POST", "/v1/rewards:batch", map[string]any{"rewards": rewards}, &paid); err != nil {
				t.Fatal(err)
			}
			for _, r := range paid.Results {
				if r.Result.Status == "accepted" {
					accepted++
				}
			}
			decided += len(d.Results)
		}
	}
	first := func() uint64 {
		t.Helper()
		config, err := readCluster(c.file(0))
		if err != nil {
			t.Fatal(err)
		}
		n, err := (&entrySource{config: config}).begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	trimmed := func(beyond uint64) (now uint64) {
		t.Helper()
		for note := range await.Tries(t) {
			if now = first(); now > beyond {
				return now
			}
			note("the log begins with %d, and not behind %d", now, beyond)
		}
		return now
	}
	work(100, 0, 1, 2)
	begins := trimmed(1)
	t.Logf("the log begins with entry %d after %d pairs", begins, decided)

	// Away while the others go on: nothing is removed, and the status says why.
	c.kill(2)
	c.ready(2)
	work(100, 0, 1)
	played(t, "is not known to be at", func() string { return run("cluster", "status", "--cluster", c.file(0)) })
	waits := first()
	c.start(2)
	c.ready(3)
	begins = trimmed(waits)

	// Killed at any moment.
	for round := range 6 {
		victim := round % 3
		work(30, (victim+1)%3, (victim+2)%3)
		time.Sleep(time.Duration(round) * 300 * time.Millisecond) // while its nodes agree on a trim, or not
		c.kill(victim)
		c.ready(2)
		c.start(victim)
		c.ready(3)
	}
	for i := range c.names {
		c.kill(i)
	}
	for i := range c.names {
		c.start(i)
	}
	c.ready(3)
	work(60, 0, 1, 2)
	begins = trimmed(begins)

	// Two ways back from a lost disk.
	data := filepath.Join(c.dir, "data-c")
	ways := []string{"rebuild", "start"}
	if c.raft() {
		ways = []string{"start", "start"}
	}
	for _, way := range ways {
		c.kill(2)
		c.ready(2)
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if way == "rebuild" {
			t.Log(run("cluster", "rebuild", "c", "--cluster", c.file(2), "--data", data))
		}
		c.start(2)
		c.ready(3)
		if !c.raft() && !strings.Contains(c.logs[2].String(), "the base of the log was taken from the other nodes") {
			t.Errorf("%s: node c did not say that it took the base", way)
		}
		work(60, 2, 0, 1)
		begins = trimmed(begins)
	}
	c.level()
	digest, learned := c.digestOf(0)
	for i := range c.names {
		for note := range await.Tries(t) {
			d, n := c.digestOf(i)
			if d == digest && n == learned {
				break
			}
			note("node %s has the digest %s after %d updates, node a %s after %d", c.names[i], d, n, digest, learned)
		}
	}
	if learned != accepted {
		t.Errorf("%d rewards were accepted and %d learned", accepted, learned)
	}
	t.Logf("%d pairs, %d rewards accepted in their window, %d learned; the log begins with entry %d", decided, accepted, learned, begins)
	same := func(dir string) {
		t.Helper()
		r, err := eventlog.Verify(source.Dir(dir), serve.BatchKeys(dir))
		if err != nil || !r.OK() || r.Shards[0].First <= 1 {
			t.Fatalf("%s: %+v, %v", dir, r, err)
		}
		s, err := serve.Open(ctx, serve.Options{Dir: dir, KeepLogVersion: true})
		if err != nil {
			t.Fatal(err)
		}
		state, err := s.State(ctx, "news")
		if err != nil || state.Digest.String() != digest || fmt.Sprint(state.Learned) != fmt.Sprint(learned) {
			t.Errorf("%s has the digest %v after %d updates, the cluster %s after %d, error %v", dir, state.Digest, state.Learned, digest, learned, err)
		}
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	back := filepath.Join(c.dir, "back")
	for try := 0; ; try++ { // every second the log is trimmed, maybe while it is copied
		var out bytes.Buffer
		if code := command(ctx, []string{"cluster", "export", back, "--cluster", c.file(0)}, &out, &out); code == 0 {
			t.Log(out.String())
			break
		} else if again := "remove " + back + " and export again"; try == 20 || !strings.Contains(out.String(), again) {
			t.Fatalf("troupe cluster export: code %d:\n%s", code, &out)
		}
		if err := os.RemoveAll(back); err != nil {
			t.Fatal(err)
		}
	}
	same(back)
	if c.raft() {
		return
	}
	c.stop(2)
	stopped := filepath.Join(c.dir, "stopped")
	t.Log(run("cluster", "export", stopped, "--cluster", c.file(2), "--data", data))
	same(stopped)
}
