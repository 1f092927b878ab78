package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"troupe/internal/await"
	"troupe/serve"
)

// TestClusterServesOn: a node that is needed serves on when it is told to stop, and says why; when another node is back
// it ends in order. A second signal ends it at once. The time that it has is long, so that it is not what ends the wait.
func TestClusterServesOn(t *testing.T) {
	if os.Getenv("TROUPE_LONG") == "" {
		t.Skip("elections take seconds; TestNeeded of package serve is short")
	}
	t.Parallel()
	c, leader := startRealCluster(t, func(c *realCluster) { c.flags = []string{"--drain", "20m"} })
	x, y := (leader+1)%3, (leader+2)%3
	knows := func(i, gone int) { // a node sees the loss of another one some seconds later, and may itself be behind before
		t.Helper()
		for note := range await.Tries(t) {
			n := c.status().Nodes[i]
			if n.Cluster != nil && slices.Equal(serve.MayStop(n.Cluster.Fitness()), []string{c.names[gone]}) {
				return
			}
			note("%s does not know that %s is gone: %+v", c.names[i], c.names[gone], n)
		}
	}
	tell := func(i int, says string, times int) {
		t.Helper()
		if err := c.procs[i].Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		for note := range await.Tries(t) {
			if strings.Count(c.logs[i].String(), says) >= times {
				break
			}
			note("%s does not say %q: %s", c.names[i], says, c.logs[i])
		}
	}
	c.kill(x)
	c.ready(2)
	knows(y, x)
	why := c.names[y] + ` may not be stopped now; may be stopped now: `
	tell(y, `msg="this node is needed and serves on" because="`+why, 1)
	c.until(y, "GET", "/v1/models/news", nil)
	actions := map[string]any{"actions": []map[string]any{{"id": "x"}, {"id": "y"}}}
	if _, err := c.call(y, "POST", "/v1/models/news:decide", actions, nil); err != nil {
		t.Errorf("%s is needed and does not decide: %v", c.names[y], err)
	}
	c.start(x)
	if err := c.procs[y].Wait(); err != nil {
		t.Errorf("%s may be stopped and ends with %v", c.names[y], err)
	}
	c.procs[y] = nil
	c.up[y].Store(false)
	text := c.logs[y].String()
	if strings.Contains(text, "stops although it is needed") || !strings.Contains(text, "msg=draining") ||
		!strings.Contains(text, "msg=closed") {
		t.Errorf("%s did not end in order: %s", c.names[y], lastLines(text, 20))
	}

	knows(x, y)
	tell(x, "this node is needed and serves on", 1)
	if err := c.procs[x].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.procs[x].Wait(); err == nil || strings.Contains(c.logs[x].String(), "msg=closed") {
		t.Errorf("%s got a second signal, and ends with %v", c.names[x], err)
	}
	c.procs[x] = nil
	c.up[x].Store(false)
}
