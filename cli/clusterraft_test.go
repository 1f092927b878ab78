package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClusterRecover: two of three disks are lost. The third one says what it has, and goes on alone as a new cluster when the operator
// accepts the loss; the others come back with empty disks. All events that it had are there, with equal states. A node of before is
// refused.
func TestClusterRecover(t *testing.T) {
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	t.Parallel()
	c, _ := startRealClusterOn(t, []string{"--engine", engineRaft})
	l := &clusterLoad{events: map[string]string{}}
	l.bulk = c.withBulk(l)
	l.bulk.more(1)
	end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
	l.more(t, 50)
	l.bulk.reach()
	end()
	c.level()
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := command(t.Context(), args, &out, &out); code != want {
			t.Fatalf("troupe %s: %d: %s", strings.Join(args, " "), code, &out)
		}
		return out.String()
	}
	data := func(i int) string { return filepath.Join(c.dir, "data-"+c.names[i]) }
	next := filepath.Join(c.dir, "next")
	recovers := func(words ...string) []string {
		return append([]string{"cluster", "recover", "--cluster", c.file(1), "--data", data(1), "--out", next}, words...)
	}
	if text := run(2, recovers()...); !strings.Contains(text, "answers at") {
		t.Errorf("while nodes run: %s", text)
	}
	for i := range c.names {
		c.kill(i)
	}
	for _, args := range [][]string{{"log", "verify", data(1)}, {"log", "verify", data(1), "--json"}} {
		if text := run(0, args...); !strings.Contains(strings.ToLower(text), "shard") {
			t.Errorf("verify: %s", text)
		}
	}
	old := filepath.Join(c.dir, "old")
	if err := os.Rename(data(0), old); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(data(2)); err != nil {
		t.Fatal(err)
	}
	run(2, recovers("--accept-loss", "all is well")...)
	text := run(1, recovers()...)
	_, words, _ := strings.Cut(text, "--accept-loss ")
	words = strings.Trim(strings.TrimSpace(words), `"`)
	if _, err := os.Stat(next); err == nil {
		t.Error("files were written without consent")
	}
	t.Log(run(0, recovers("--accept-loss", words)...))
	run(0, recovers("--accept-loss", words)...) // again: it is done
	// The files are not the consent for another directory: two nodes would be the only voter of one cluster.
	if text := run(2, "cluster", "recover", "--cluster", c.file(0), "--data", old, "--out", next); !strings.Contains(text, "is of another recovery") {
		t.Errorf("another node with the same files: %s", text)
	}
	for i, name := range c.names {
		text, err := os.ReadFile(filepath.Join(next, name, clusterFile))
		if err == nil {
			err = os.WriteFile(c.file(i), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.start(1)
	c.ready(1)
	c.start(0)
	c.start(2)
	c.ready(3)
	l.bulk.more(1)
	end = background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
	l.more(t, 50)
	l.bulk.reach()
	end()
	c.level()
	c.check(l)
	c.kill(0)
	if err := os.RemoveAll(data(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, data(0)); err != nil {
		t.Fatal(err)
	}
	if text := run(2, "serve", "--cluster", c.file(0), "--data", data(0)); !strings.Contains(text, "is of cluster") {
		t.Errorf("a node of before: %s", text)
	}
}

// TestRaftRefuses: commands that work on the other engine say so.
func TestRaftRefuses(t *testing.T) {
	dir := t.TempDir()
	run := func(want int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if code := command(t.Context(), args, &out, &out); code != want || !strings.Contains(out.String(), says) {
			t.Errorf("troupe %s: %d: %s", strings.Join(args, " "), code, &out)
		}
	}
	run(2, "expected one of jetstream, raft", "cluster", "init", "--engine", "paxos", "--nodes", "a,b,c", "--out", dir)
	run(2, "does not go with --engine raft", "cluster", "init", "--engine", "raft", "--import", dir, "--nodes", "a,b,c", "--out", dir)
	for _, engine := range engines {
		run(0, "3 nodes", "cluster", "init", "--engine", engine, "--nodes", "a=127.0.0.1,b=127.0.0.2,c=127.0.0.3", "--out", filepath.Join(dir, engine))
	}
	at := []string{"--cluster", filepath.Join(dir, engineRaft, "a", clusterFile), "--data", filepath.Join(dir, "data")}
	for _, args := range [][]string{{"rebuild", "a"}, {"salvage", filepath.Join(dir, "x")}, {"export", filepath.Join(dir, "x")}, {"void"}} {
		run(2, "is a cluster of the engine raft, for which this command is not there", append(append([]string{"cluster"}, args...), at...)...)
	}
	at[1] = filepath.Join(dir, engineStream, "a", clusterFile)
	run(2, "see troupe cluster salvage", append([]string{"cluster", "recover", "--out", filepath.Join(dir, "y")}, at...)...)
}
