package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// loseSnapshots flips a bit in every snapshot that the engine of a node has, which is stopped.
func (c *realCluster) loseSnapshots(i int) {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.dir, "data-"+c.names[i], "log", "jetstream", "*", "_js_", "*",
		"snapshots", "snap.*"))
	if err != nil || len(names) == 0 {
		c.t.Fatalf("node %s has no snapshots of the engine: %v", c.names[i], err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			b[len(b)/2] ^= 1
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestClusterSnapshotsLost: the engine's snapshots are damaged at all three nodes, which are stopped. None starts, and
// each says that the log is whole, up to which entry, and which commands go on with it; these do, and nothing is lost.
func TestClusterSnapshotsLost(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c, _ := startRealCluster(t)
	var ids []string
	for n := range 60 {
		var d struct {
			ID string `json:"event_id"`
		}
		if _, err := c.call(n%3, "POST", "/v1/models/news:decide", map[string]any{"context": map[string]any{"n": n},
			"actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, &d); err != nil {
			t.Fatal(err)
		}
		if _, err := c.call((n+1)%3, "POST", "/v1/events/"+d.ID+":reward", map[string]any{"value": n % 2}, nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	c.level()
	digest, learned := c.digestOf(0)
	var all sync.WaitGroup
	for i := range c.names { // at once, so that none waits for the others; each writes its snapshots
		all.Go(func() { c.stop(i) })
	}
	all.Wait()
	for i := range c.names {
		c.loseSnapshots(i)
	}

	lines := regexp.MustCompile(`damaged here and at (\w) and (\w), so every node has lost it\. ` +
		`The log is in other files: entries 1 to (\d+) are whole here\. ` +
		`At the node where these are the most: troupe cluster export DIR --data DATA --until (\d+),`)
	for since := time.Now(); ; { // a node that started long after another one had ended heard nothing of it
		for i := range c.names {
			c.start(i)
		}
		say := 0
		for i := range c.names {
			if err := c.procs[i].Wait(); err == nil {
				t.Errorf("%s starts without the engine's snapshots", c.names[i])
			}
			c.procs[i] = nil
			c.up[i].Store(false)
			if lines.MatchString(c.logs[i].String()) {
				say++
			}
		}
		if say == 3 {
			break
		}
		if time.Since(since) > 4*time.Minute {
			t.Fatalf("%d of the nodes say what is lost", say)
		}
	}
	most, until := 0, 0
	for i := range c.names {
		played(t, "so every node has lost it", c.logs[i].String)
		m := lines.FindStringSubmatch(c.logs[i].String())
		n, err := strconv.Atoi(m[3])
		if err != nil || m[3] != m[4] {
			t.Fatalf("%s says %q", c.names[i], m[0])
		}
		if n > until {
			most, until = i, n
		}
	}

	run := func(args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := command(t.Context(), args, &out, &out); code != 0 {
			t.Fatalf("troupe %s: code %d: %s", strings.Join(args, " "), code, &out)
		}
	}
	saved, next := filepath.Join(c.dir, "saved"), filepath.Join(c.dir, "next")
	run("cluster", "export", saved, "--cluster", c.file(most), "--data", filepath.Join(c.dir, "data-"+c.names[most]),
		"--until", fmt.Sprint(until))
	var nodes []string
	for i, n := range c.names {
		nodes = append(nodes, fmt.Sprintf("%s=%s:%s/%s", n, c.hosts[i], c.ports[i], c.ports[3+i]))
	}
	run("cluster", "init", "--nodes", strings.Join(nodes, ","), "--out", filepath.Join(next, "cluster"), "--import", saved)
	c.dir = next
	c.start(1)
	c.start(2)
	run("cluster", "import", saved, "--cluster", c.file(0), "--data", filepath.Join(c.dir, "data-a"))
	c.start(0)
	c.ready(3)
	c.level()
	for i := range c.names {
		if d, n := c.digestOf(i); d != digest || n != learned {
			t.Errorf("%s has the digest %s after %d updates, the cluster had %s after %d", c.names[i], d, n, digest, learned)
		}
		for _, id := range ids {
			if _, err := c.call(i, "GET", "/v1/events/"+id, nil, nil); err != nil {
				t.Fatalf("%s: %v", c.names[i], err)
			}
		}
	}
}
