package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"troupe/cli/term"
	"troupe/internal/await"
)

// TestClusterSalvage: two of three disks are gone for good. A new cluster goes on with what the third one has, after the
// words are typed, and every event that it has is there with its reward.
func TestClusterSalvage(t *testing.T) {
	seldom(t, 1, 1)
	t.Parallel()
	g := newGrowing(t)
	end := background(t, func(ctx context.Context) { g.load(ctx, 50) })
	for g.pairs.Load() < 200 {
		g.status(g.nodes[0])
	}
	end()
	g.same() // all have applied everything
	rescue := filepath.Join(t.TempDir(), "rescue")
	left := g.nodes[2]
	data := filepath.Join(g.dir, "data-"+left.name)
	args := []string{"salvage", rescue, "--cluster", g.file(left), "--data", data}
	if text := g.run(term.Misused, args...); !strings.Contains(text, "n0 answers at ") {
		t.Error(text)
	}
	for _, n := range g.nodes {
		g.stop2(n)
	}
	text := g.run(term.Failed, args...)
	m := regexp.MustCompile(`--accept-loss "(entries after (\d+) may be missing)"`).FindStringSubmatch(text)
	if m == nil || !strings.Contains(text, "has entries 1 to "+m[2]+", all whole") || !strings.Contains(text, "only the disks of n0, n1 may have had entries") {
		t.Fatalf("salvage says %s", text)
	}
	if text := g.run(term.Misused, append(args, "--accept-loss", "entries after 1 may be missing")...); !strings.Contains(text, "nothing was written") {
		t.Error(text)
	}
	if _, err := os.Stat(rescue); err == nil {
		t.Error("a refusal has written files")
	}
	text = g.run(0, append(args, "--accept-loss", m[1])...)
	if !strings.Contains(text, "3 nodes in "+filepath.Join(rescue, "cluster")) {
		t.Error(text)
	}
	if text := g.run(term.Misused, append(args, "--accept-loss", m[1])...); !strings.Contains(text, "would be two logs") {
		t.Error(text)
	}
	g.dir = rescue // with the files of the new cluster, and no data
	g.start(g.nodes[1])
	g.start(g.nodes[2])
	g.run(0, "import", filepath.Join(rescue, "log"), "--cluster", g.file(g.nodes[0]), "--data", filepath.Join(g.dir, "data-"+g.nodes[0].name))
	g.start(g.nodes[0])
	for _, n := range g.nodes {
		g.await(n, 3)
		n.up.Store(true)
	}
	g.same()
	if status, text := g.call(t.Context(), g.nodes[1], "POST", "/v1/models/news:decide", "after", `{"actions": [{"id": "x"}, {"id": "y"}]}`); status != http.StatusOK {
		t.Errorf("decide: %d %s", status, text)
	}
	t.Log(fmt.Sprint(g.pairs.Load()), "pairs;", m[1])
}

// TestClusterUpBehindEmpty: one node has everything, one is behind, one has an empty disk. Two of them go on when they are the
// first two. With the empty one neither of the others does, because what was answered may be on the third disk; each names it,
// and when it is started nothing is lost.
func TestClusterUpBehindEmpty(t *testing.T) {
	seldom(t, 1, 1)
	t.Parallel()
	g := newGrowing(t)
	up, behind, empty := g.nodes[0], g.nodes[1], g.nodes[2]
	for _, missing := range []*growingNode{empty, behind, up} {
		g.nodes = []*growingNode{up, behind, empty}
		for _, n := range g.nodes { // callers go on with the two that stay
			n.up.Store(n != behind)
		}
		g.stop2(behind)
		end := background(t, func(ctx context.Context) { g.load(ctx, 50) })
		for want := g.pairs.Load() + 100; g.pairs.Load() < want; {
			g.status(up)
		}
		end()
		g.stop2(empty)
		g.stop2(up)
		if err := os.RemoveAll(filepath.Join(g.dir, "data-"+empty.name)); err != nil {
			t.Fatal(err)
		}
		var here []*growingNode
		for _, n := range g.nodes {
			if n != missing {
				here = append(here, n)
				g.start(n)
			}
		}
		serves := func(n *growingNode) bool {
			for _, x := range g.status(n).Nodes {
				if x.Name == n.name && x.Ready {
					return true
				}
			}
			return false
		}
		if missing == empty {
			await.Until(t, "the two that are left serve", func() bool { return serves(up) && serves(behind) })
		} else {
			// An election takes 9 s at most, and there must be none.
			for since := time.Now(); time.Since(since) < 15*time.Second; time.Sleep(200 * time.Millisecond) {
				if serves(here[0]) || serves(here[1]) {
					t.Fatalf("without %s: %+v", missing.name, g.status(up))
				}
			}
			if !strings.Contains(here[0].log.String(), "for="+missing.name) {
				t.Errorf("%s does not say that it waits for %s", here[0].name, missing.name)
			}
		}
		g.start(missing)
		for _, n := range g.nodes {
			g.await(n, 3)
			n.up.Store(true)
		}
		g.same()
	}
}
