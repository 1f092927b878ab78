package serve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/timing"
)

// standing is a cluster in which all nodes are as they should be, seen from a.
func standing(names ...string) *ClusterHealth {
	c := &ClusterHealth{Node: "a"}
	for _, name := range names {
		c.Nodes = append(c.Nodes, NodeHealth{Name: name, Live: true, Heard: .4, Applied: 41200})
		c.Replicas = append(c.Replicas, eventlog.Replica{Name: name, Leader: name == "a", Current: true})
	}
	return c
}

// TestMayStop: one of the nodes may be stopped when those that stay are a majority without those that lack something, and
// the words say what each lacks.
func TestMayStop(t *testing.T) {
	for _, test := range []struct {
		what, nodes string
		change      func(*ClusterHealth)
		names, want string
	}{
		{"three", "abc", func(*ClusterHealth) {}, "abc", "one of a, b, c"},
		{"a replica that is behind", "abc", func(c *ClusterHealth) { c.Replicas[2].Behind = "is 4812 entries behind" },
			"c", "c; not another one: c is 4812 entries behind"},
		{"two of three", "abc", func(c *ClusterHealth) {
			c.Replicas[1].Behind, c.Replicas[2].Behind = "does not run", "is 4812 entries behind in the engine's own group"
		}, "", "none: a majority would be missing, because b does not run, c is 4812 entries behind in the engine's own group"},
		{"one of five", "abcde", func(c *ClusterHealth) { c.Replicas[2].Behind = "does not run" }, "abcde",
			"one of a, b, c, d, e"},
		{"two of five", "abcde", func(c *ClusterHealth) { c.Replicas[2].Behind, c.Nodes[4].Heard = "does not run", 7 },
			"ce", "one of c, e; not another one: c does not run, e was not heard of for 7 s"},
		{"two", "ab", func(*ClusterHealth) {}, "", "none: a majority would be missing"},
		{"a node that was never there", "abc", func(c *ClusterHealth) { c.Nodes[1].Heard = -1 }, "b",
			"b; not another one: b was never heard of"},
		{"another state", "abc", func(c *ClusterHealth) { c.Nodes[1].Differs = true }, "b",
			"b; not another one: b has models with another digest"},
		{"entries that were not applied", "abc", func(c *ClusterHealth) { c.Nodes[1].Lag = 4812 }, "b",
			"b; not another one: b has not applied 4812 entries"},
		{"what a busy log writes meanwhile", "abc", func(c *ClusterHealth) { c.Nodes[1].Lag = 300 }, "abc", "one of a, b, c"},
		{"no replica", "abc", func(c *ClusterHealth) { c.Replicas = c.Replicas[:2] }, "c",
			"c; not another one: c has no replica that is known of"},
		{"servers of others", "abc", func(c *ClusterHealth) {
			c.Replicas, c.Attested = []eventlog.Replica{{Name: "n1", Leader: true}, {Name: "n2", Behind: "does not run"}},
				&Attested{By: AttestedByServers, Is: true}
		}, "abc", "one of a, b, c"},
	} {
		c := standing(strings.Split(test.nodes, "")...)
		test.change(c)
		if names := strings.Join(MayStop(c.Fitness()), ""); names != test.names {
			t.Errorf("%s: %q may be stopped, want %q", test.what, names, test.names)
		}
		if text := MayStopText(c.Fitness()); text != test.want {
			t.Errorf("%s: %q, want %q", test.what, text, test.want)
		}
	}
}

// TestPresentReplicas: what the engine's other groups have counts with what the log has, and what was asked for long ago
// is not known.
func TestPresentReplicas(t *testing.T) {
	n, err := newNodes(Cluster{Node: "a", Nodes: []string{"a", "b", "c"}}, eventlog.IDKeys{}, timing.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	n.replicas = []eventlog.Replica{{Name: "a", Leader: true, Current: true}, {Name: "b", Current: true}, {Name: "c", Behind: "does not run"}}
	says := func(want ...string) {
		t.Helper()
		for i, r := range n.present() {
			if r.Behind != want[i] {
				t.Errorf("%s: %q, want %q", r.Name, r.Behind, want[i])
			}
		}
	}
	n.asked = n.passed()
	says("", "", "does not run") // a log without other groups
	n.groups = true
	const unknown = "may be behind: no node leads the engine's own group"
	says(unknown, unknown, "does not run")
	n.behind, n.behindAt = map[string]string{"b": "is 3 entries behind in the engine's own group"}, n.passed()
	says("", "is 3 entries behind in the engine's own group", "does not run")
	n.behindAt -= 2*contactFor + time.Second
	says(unknown, unknown, "does not run")
	n.asked -= contactFor + time.Second
	says("may be behind: no node leads the log", "may be behind: no node leads the log", "does not run")
	if n.replicas[0].Behind != "" {
		t.Error("what is known was changed")
	}
}

// standingLog is a log whose replicas a test says, with a leader that can be moved.
type standingLog struct {
	eventlog.Log
	mu       sync.Mutex
	replicas []eventlog.Replica
	moved    int
}

func (l *standingLog) Replicas(context.Context) ([]eventlog.Replica, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.replicas), nil
}

func (l *standingLog) HandOver(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved++
	return nil
}

// says sets what is known of the replica of c, and returns how often the lead was handed over.
func (l *standingLog) says(behind string) (moved int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replicas[2].Behind = behind
	return l.moved
}

// TestNeeded: a node without which the others would be no majority is not drained, says why, and changes nothing; told
// to stop, it waits until it may. A single machine waits for nothing.
func TestNeeded(t *testing.T) {
	const lacks = "is 4812 entries behind"
	const why = "a may not be stopped now; may be stopped now: c; not another one: c " + lacks
	l := &standingLog{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{})}
	l.replicas = standing("a", "b", "c").Replicas
	l.says(lacks)
	var nodes []*Server
	for i := range nodeNames {
		s, err := openNode(t, l, i, &nodeClock{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		nodes = append(nodes, s)
	}
	a, c := nodes[0], nodes[2]
	needed := func(s *Server) string { return s.member.clusterHealth().needed() }
	eventually(t, func() bool { return needed(a) == why && needed(c) == "" })

	err := a.Drain(t.Context())
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != Needed || e.Want != why {
		t.Errorf("drain of a node that is needed: %v", err)
	}
	if h := a.Health(); l.says(lacks) != 0 || h.Cluster.Drained {
		t.Errorf("a node that is needed was drained: %+v", h)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got := a.AwaitStop(ended, func(string) {}); got != why {
		t.Errorf("at the end of its time: %q, want %q", got, why)
	}
	said, out := make(chan string, 2), make(chan string)
	go func() { out <- a.AwaitStop(t.Context(), func(why string) { said <- why }) }()
	select {
	case got := <-said:
		if got != why {
			t.Errorf("it waits because %q, want %q", got, why)
		}
	case got := <-out:
		t.Fatalf("a node that is needed does not wait: %q", got)
	}
	l.says("")
	if got := <-out; got != "" || len(said) != 0 {
		t.Errorf("it may be stopped, and %q; said %d times more", got, len(said))
	}
	if err := a.Drain(t.Context()); err != nil || l.says("") == 0 || !a.Health().Cluster.Drained {
		t.Errorf("drain of a node that may be stopped: %v", err)
	}

	single, err := Open(t.Context(), Options{Log: eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), Keys: testKeys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = single.Close(context.Background()) })
	if got := single.AwaitStop(t.Context(), func(why string) { t.Errorf("a single machine waits: %s", why) }); got != "" {
		t.Errorf("a single machine may not be stopped: %s", got)
	}
	for _, c := range []*ClusterHealth{standing("a"), {Node: "d", Nodes: standing("a", "b", "c").Nodes}} {
		if why := c.needed(); why != "" { // alone, and not one of the cluster's yet
			t.Errorf("%s is needed: %s", c.Node, why)
		}
	}
}
