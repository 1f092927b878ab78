package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/cli/term"
	"troupe/internal/await"
)

// TestClusterReplace: machines are lost for good, one after the other, under load, and another one at another address takes
// the name of each. Nothing that was acknowledged is lost, and all nodes have one state.
func TestClusterReplace(t *testing.T) {
	rounds := seldom(t, 20, 2)
	t.Parallel()
	c, _ := startRealCluster(t)
	l := &clusterLoad{events: map[string]string{}}
	authority := filepath.Join(c.dir, "cluster", authorityDir)
	for round := range rounds {
		end := background(t, func(ctx context.Context) { c.run(ctx, l, 4) })
		l.more(t, 30)
		gone := round % 3
		stays := (gone + 1) % 3
		out := filepath.Join(t.TempDir(), "new")
		ports := freePorts(t, 2)
		to := c.names[gone] + "=127.0.0.1:" + ports[0] + "/" + ports[1]
		run := func(want int, node string) string {
			t.Helper()
			var text bytes.Buffer
			args := []string{"cluster", "replace", node, "--cluster", c.file(stays), "--authority", authority, "--out", out}
			if code := command(t.Context(), args, &text, &text); code != want {
				t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, &text)
			}
			return text.String()
		}
		if text := run(term.Failed, to); !strings.Contains(text, c.names[gone]+" is not replaced, nothing was written: it answers at") {
			t.Errorf("a node that answers is replaced: %s", text)
		}
		c.kill(gone)
		if err := os.RemoveAll(filepath.Join(c.dir, "data-"+c.names[gone])); err != nil {
			t.Fatal(err)
		}
		if text := run(term.Misused, "d=127.0.0.1:1/2"); !strings.Contains(text, "d is not one of the nodes a, b, c") {
			t.Error(text)
		}
		if text := run(term.Misused, c.names[stays]+"=127.0.0.1:1/2"); !strings.Contains(text, "give that of a node that stays") {
			t.Error(text)
		}
		if text := run(term.Misused, c.names[gone]+"=127.0.0.1:"+c.ports[stays]); !strings.Contains(text, "which is there already") {
			t.Error(text)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("a refusal has written files")
		}
		run(0, to)
		c.ports[gone], c.ports[3+gone] = ports[0], ports[1]
		folder := func(i int) string { return filepath.Dir(c.file(i)) }
		copyFiles(t, filepath.Join(out, c.names[gone]), folder(gone), clusterFile, caFile, certFile, keyFile, "keys.json")
		c.start(gone)
		for _, i := range []int{stays, (gone + 2) % 3} {
			copyFiles(t, filepath.Join(out, c.names[i]), folder(i), clusterFile)
			for note := range await.Tries(t) {
				s := c.statusAt(gone)
				if slices.Contains(s.MayStop, c.names[i]) {
					break
				}
				note("%s may not be stopped: %+v", c.names[i], s)
			}
			c.drain(i)
			c.leave(i)
			c.stop(i)
			c.start(i)
		}
		c.ready(3)
		l.more(t, 30)
		end()
		c.level()
		c.check(l)
	}
	t.Logf("%d replacements, %d events with a key, %d without, %d of unknown outcome", rounds, len(l.events), l.unkeyed, l.unknown)
	c.kill(0)
	c.kill(1)
	var text bytes.Buffer
	out := filepath.Join(t.TempDir(), "new")
	args := []string{"cluster", "replace", "b=127.0.0.1:1/2", "--cluster", c.file(2), "--authority", authority, "--out", out}
	if code := command(t.Context(), args, &text, &text); code != term.Failed || !strings.Contains(text.String(), "no majority of the cluster: a does not answer") {
		t.Errorf("a node is replaced without a majority: %d, %s", code, &text)
	}
}
