package cli

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"troupe/cli/term"
)

// flip changes one bit in the middle of the first block file of a node, which may run.
func (c *realCluster) flip(i int) {
	c.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(c.dir, "data-"+c.names[i], "log", "jetstream", "TROUPE", "streams", "TROUPE_EV_0", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		c.t.Fatalf("no block files: %v", err)
	}
	f, err := os.OpenFile(blocks[0], os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	b := make([]byte, 1)
	if err == nil {
		_, err = f.ReadAt(b, info.Size()/2)
	}
	if err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b, info.Size()/2)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// movesAway waits until another node than i leads, and i says at every place that its files are damaged.
func (c *realCluster) movesAway(i int) (leader int) {
	c.t.Helper()
	begun := time.Now()
	for {
		s := c.status()
		if n := s.Nodes[i]; n.Ready && n.Cluster != nil && strings.Contains(n.Cluster.Damage, ".blk at byte") && s.Leader != "" && s.Leader != c.names[i] {
			c.t.Logf("%s leads %v after the damage of %s was known", s.Leader, time.Since(begun).Round(10*time.Millisecond), c.names[i])
			leader = slices.Index(c.names, s.Leader)
			break
		}
		if time.Since(begun) > time.Minute {
			c.t.Fatalf("node %s is damaged: %+v", c.names[i], s)
		}
		time.Sleep(20 * time.Millisecond)
	}
	var out bytes.Buffer
	command(c.t.Context(), []string{"cluster", "status", "--cluster", c.file(i)}, &out, &out)
	a, err := c.http.Get("http://127.0.0.1:" + c.ports[3+i] + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	metrics, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	for place, ok := range map[string]bool{
		"the status":  strings.Contains(out.String(), "the files of "+c.names[i]+" are damaged: jetstream/"),
		"the metrics": strings.Contains(string(metrics), "\ntroupe_cluster_replica_damaged 1\n"),
		"its log":     strings.Contains(c.logs[i].String(), "damaged"),
	} {
		if !ok {
			c.t.Errorf("%s of node %s does not say that its files are damaged: %s", place, c.names[i], &out)
		}
	}
	return leader
}

// TestClusterDamage: a bit is flipped in the files of the leader while it runs. It finds out when it is asked, and another node leads. The others find out
// before one of them is rebuilt. When all have been stopped, and the others are no majority, the node starts and says so; with another one it answers, and all
// have the state of before, and it does not lead. Then it is rebuilt.
func TestClusterDamage(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c := newRealCluster(t)
	for i := range c.names {
		c.start(i)
	}
	bad := c.ready(3)
	c.makeModel()
	var ids []string
	for n := range 90 {
		var d struct {
			ID string `json:"event_id"`
		}
		if _, err := c.call(n%3, "POST", "/v1/models/news:decide", map[string]any{"context": map[string]any{"n": n}, "actions": []map[string]any{{"id": "x"}, {"id": "y"}}}, &d); err != nil {
			t.Fatal(err)
		}
		if _, err := c.call((n+1)%3, "POST", "/v1/events/"+d.ID+":reward", map[string]any{"value": n % 2}, nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	c.level()
	digest, learned := c.digestOf(bad)
	same := func(nodes ...int) {
		t.Helper()
		for _, i := range nodes {
			for since := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				d, n := c.digestOf(i)
				if d == digest && n == learned {
					break
				}
				if time.Since(since) > time.Minute {
					t.Fatalf("node %s has the digest %s after %d updates, it was %s after %d", c.names[i], d, n, digest, learned)
				}
			}
			for _, id := range ids {
				if _, err := c.call(i, "GET", "/v1/events/"+id, nil, nil); err != nil {
					t.Fatalf("node %s: %v", c.names[i], err)
				}
			}
		}
	}
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := command(t.Context(), args, &out, &out)
		return code, out.String()
	}
	rebuild := func(i int) (int, string) {
		return run("cluster", "rebuild", c.names[i], "--cluster", c.file(i), "--data", filepath.Join(c.dir, "data-"+c.names[i]))
	}

	bad = c.ready(3)
	c.flip(bad)
	config, err := readCluster(c.file(0))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := config.named(c.names[bad]).checkReplica(t.Context(), ""); err != nil || len(r.Damage) == 0 {
		t.Fatalf("the files of %s: %+v, %v", c.names[bad], r, err)
	}
	leader := c.movesAway(bad)
	third := 3 - bad - leader
	c.kill(third)
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) { // its digest is compared within some seconds
		code, text := rebuild(third)
		if code == term.Failed && strings.Contains(text, "the files of "+c.names[bad]+" are damaged, too") {
			break
		}
		if code != term.Failed || time.Since(since) > time.Minute {
			t.Fatalf("rebuild beside a damaged node: %d, %s", code, text)
		}
	}
	for i := range c.names {
		c.kill(i)
	}
	c.start(bad)
	for since := time.Now(); !strings.Contains(c.logs[bad].String(), "the node starts although its files are damaged"); time.Sleep(20 * time.Millisecond) {
		if time.Since(since) > time.Minute {
			t.Fatalf("node %s does not start: %s", c.names[bad], c.logs[bad])
		}
	}
	c.start(leader)
	begun := time.Now()
	c.ready(2)
	t.Logf("with another node it answers after %v", time.Since(begun).Round(100*time.Millisecond))
	c.movesAway(bad)
	same(bad, leader)
	c.start(third)
	c.ready(3)
	c.level()
	same(0, 1, 2)
	c.kill(bad)
	for since := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		code, text := rebuild(bad)
		if code == 0 {
			t.Log(strings.TrimSpace(text))
			break
		}
		if time.Since(since) > 2*time.Minute {
			t.Fatal(text)
		}
	}
	c.start(bad)
	c.ready(3)
	same(0, 1, 2)
}

// TestClusterDamageRead: a bit is flipped in an old block file of the leader while it runs. Every export from this node is whole, because what its
// files do not give is read from the others, which its log says. It reads its files then, finds the bit, and another node leads.
func TestClusterDamageRead(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("writes 20 MB to three logs and waits until the engine reads the file again")
	}
	c := newRealCluster(t)
	for i := range c.names {
		c.start(i)
	}
	c.ready(3)
	c.makeModel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		var requests []map[string]any
		for range 50 {
			x := map[string]any{}
			for j := range 250 {
				x[fmt.Sprint("feature", j)] = random.Float64()
			}
			requests = append(requests, map[string]any{"context": x, "actions": []map[string]any{{"id": "x"}, {"id": "y"}}})
		}
		var d struct {
			Results []struct{ Decision *struct{ Seq uint64 } }
		}
		if _, err := c.call(n%3, "POST", "/v1/models/news:decideBatch", map[string]any{"requests": requests}, &d); err != nil || d.Results[0].Decision == nil {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	c.level()
	leader := c.ready(3)
	c.flip(leader)
	before := len(c.logs[leader].String())
	for since := time.Now(); ; {
		dir := filepath.Join(c.dir, "back")
		var out bytes.Buffer
		if code := command(t.Context(), []string{"cluster", "export", dir, "--cluster", c.file(0), "--node", c.names[leader]}, &out, &out); code != 0 {
			t.Fatalf("export: %d, %s", code, &out)
		}
		if strings.Contains(c.logs[leader].String()[before:], "are missing") {
			t.Logf("read through another replica after %v: %s", time.Since(since).Round(time.Second), &out)
			break
		}
		if time.Since(since) > 3*time.Minute {
			t.Fatal("the engine never read the file again")
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	c.movesAway(leader)
	c.ready(3)
	c.level()
	want, _ := c.digestOf(leader)
	for i := range c.names {
		if got, _ := c.digestOf(i); got != want {
			t.Errorf("node %s has the digest %s, the damaged one %s", c.names[i], got, want)
		}
	}
}
