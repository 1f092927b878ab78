package cli

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"troupe/cli/term"
	"troupe/internal/await"
)

// flip changes one bit in the middle of the first block file of a node, which may run.
func (c *realCluster) flip(i int) {
	c.t.Helper()
	c.flipAt(i, -1)
}

// flipAt is flip at a place of the file.
func (c *realCluster) flipAt(i int, at int64) {
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
	if err == nil && at < 0 {
		at = info.Size() / 2
	}
	b := make([]byte, 1)
	if err == nil {
		_, err = f.ReadAt(b, at)
	}
	if err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b, at)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// metrics returns what a node says at /metrics.
func (c *realCluster) metrics(i int) string {
	c.t.Helper()
	a, err := c.http.Get("http://127.0.0.1:" + c.ports[3+i] + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// mended waits until a node has made its files anew so often, is ready, and says so at every place.
func (c *realCluster) mended(i int, times uint64) {
	c.t.Helper()
	begun := time.Now()
	for note := range await.Tries(c.t) {
		n := c.status().Nodes[i]
		if n.Ready && n.Cluster.Damage == "" && n.Cluster.Repairs == times && n.Cluster.Verified != nil {
			break
		}
		note("node %s, %d repairs: %+v\n%s", c.names[i], times, n, c.logs[i])
	}
	c.t.Logf("%s is ready with files made anew after %v", c.names[i], time.Since(begun).Round(100*time.Millisecond))
	var out bytes.Buffer
	command(c.t.Context(), []string{"cluster", "status", "--cluster", c.file(i)}, &out, &out)
	if !strings.Contains(out.String(), fmt.Sprintf("are made anew from the others since %s", time.Now().UTC().Format("2006-01-02"))) ||
		!strings.Contains(out.String(), fmt.Sprintf("(%d times in all)", times)) || !regexp.MustCompile("all files read, and whole: .*"+c.names[i]+" 20").MatchString(out.String()) {
		c.t.Errorf("the status says %s", &out)
	}
	if text := c.metrics(i); !strings.Contains(text, fmt.Sprintf("\ntroupe_cluster_replica_repairs_total %d\n", times)) ||
		!strings.Contains(text, "\ntroupe_cluster_replica_damaged 0\n") {
		c.t.Error("the metrics do not say that the files were made anew")
	}
}

// TestClusterDamage: a bit is flipped in the files of the leader while it runs and another node is away. It finds out when it is asked, and takes what is damaged from
// the third one, alone. Then a bit is flipped while it is stopped: with the others it
// makes the files anew at its start; with one of them it starts and says so, and has whole files when the third one is there. Every time all have the state of
// before.
func TestClusterDamage(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c, bad := startRealCluster(t)
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
			for note := range await.Tries(t) {
				d, n := c.digestOf(i)
				if d == digest && n == learned {
					break
				}
				note("node %s has the digest %s after %d updates, it was %s after %d", c.names[i], d, n, digest, learned)
			}
			for _, id := range ids {
				if _, err := c.call(i, "GET", "/v1/events/"+id, nil, nil); err != nil {
					t.Fatalf("node %s: %v", c.names[i], err)
				}
			}
		}
	}
	verify := func(i int) (int, string) {
		var out bytes.Buffer
		code := command(t.Context(), []string{"cluster", "verify", "--cluster", c.file(i)}, &out, &out)
		return code, out.String()
	}
	bad = c.ready(3)
	third := (bad + 1) % 3
	c.kill(third)
	c.flip(bad)
	if code, text := verify(bad); code != term.Failed || strings.Count(text, "damaged: jetstream/") != 1 || strings.Count(text, "whole, ") != 1 {
		t.Errorf("a node is damaged, and one is away: %d, %s", code, text)
	}
	c.mended(bad, 1)
	c.start(third)
	c.ready(3)
	c.level()
	same(0, 1, 2)
	if code, text := verify(bad); code != 0 || strings.Count(text, "whole, ") != 3 {
		t.Errorf("all are whole: %d, %s", code, text)
	}

	c.stop(bad)
	c.flip(bad)
	c.start(bad)
	c.mended(bad, 2)
	c.level()
	same(0, 1, 2)

	for i := range c.names {
		c.kill(i)
	}
	c.flip(bad)
	c.start(bad)
	for note := range await.Tries(t) {
		if strings.Contains(c.logs[bad].String(), "the node starts although its files are damaged") {
			break
		}
		note("node %s does not start: %s", c.names[bad], c.logs[bad])
	}
	leader := 3 - bad - third
	c.start(leader)
	begun := time.Now()
	c.ready(2)
	t.Logf("with another node it answers after %v", time.Since(begun).Round(100*time.Millisecond))
	same(bad, leader)
	c.start(third)
	c.ready(3)
	for note := range await.Tries(t) { // the engine may have cut its files, and have filled them from the other one
		n := c.status().Nodes[bad]
		if n.Ready && n.Cluster.Damage == "" {
			t.Logf("%d repairs in all", n.Cluster.Repairs)
			break
		}
		note("node %s: %+v\n%s", c.names[bad], n, c.logs[bad])
	}
	c.level()
	same(0, 1, 2)
}

// TestClusterDamageRead: a bit is flipped in an old block file of the leader while it runs. Every export from this node is whole, because what its
// files do not give is read from the others, which its log says. It reads its files then, finds the bit, and makes them anew.
func TestClusterDamageRead(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("writes 20 MB to three logs and waits until the engine reads the file again")
	}
	c, _ := startRealCluster(t)
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
	c.mended(leader, 1)
	c.ready(3)
	c.level()
	want, _ := c.digestOf(leader)
	for i := range c.names {
		if got, _ := c.digestOf(i); got != want {
			t.Errorf("node %s has the digest %s, the damaged one %s", c.names[i], got, want)
		}
	}
}
