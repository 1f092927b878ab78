package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/internal/await"
	"troupe/timing"
)

// fits is an Engine that does what it is told at once.
type fits struct {
	mu    sync.Mutex
	names []string // of the newest Fit that had an end
	gone  []string
	said  [][]string // to Changed
	out   error      // of InGroup
}

func (f *fits) InGroup(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out
}

func (f *fits) Fit(_ context.Context, names, gone []string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names, f.gone = names, gone
	return "", nil
}

func (f *fits) Changed(names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, names)
}

func (f *fits) has() (names, gone string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.names, ""), strings.Join(f.gone, "")
}

// TestMembers: a new node is one of the cluster's when the engine has its server and the others are a majority, whatever
// they have in their files; one that is stopped is removed, and does not start again.
func TestMembers(t *testing.T) {
	t.Parallel()
	engine := &fits{}
	member := func(o *Options) { o.Cluster.Engine = engine }
	m, nodes, _ := three(t, member)
	open := func(name string, list string, joins bool) (*Server, error) {
		return openNode(t, m, 0, &nodeClock{}, member, func(o *Options) {
			o.Cluster.Node, o.Cluster.Nodes, o.Cluster.Joins = name, strings.Split(list, ""), joins
		})
	}
	said := func(s *Server) (names string) {
		for _, n := range s.Health().Cluster.Nodes {
			names += n.Name
		}
		return names
	}
	lists := func(s *Server, want string) {
		t.Helper()
		eventually(t, func() bool { return said(s) == want })
	}
	eventually(t, func() bool { names, _ := engine.has(); return names == "abc" })

	if _, err := open("d", "abcd", false); !errors.As(err, new(*RemovedError)) || !strings.Contains(err.Error(), "node d was removed from the cluster, whose nodes are a, b, c") {
		t.Errorf("a node that is not on the list starts: %v", err)
	}
	if _, err := open("d", "abxd", true); err == nil || !strings.Contains(err.Error(), "the log is that of the nodes a, b, c, this node has a, b, x, d") {
		t.Errorf("a node of another cluster starts: %v", err)
	}
	engine.out = errors.New("no server of it yet")
	d, err := open("d", "abcd", true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	eventually(t, func() bool {
		return d.Health().Reason == "this node is not one of the cluster's yet: no server of it yet"
	})
	if _, err := d.Decide(t.Context(), "news", DecideRequest{}); CodeOf(err) != Unavailable {
		t.Errorf("a node that is not on the list decides: %v", err)
	}
	lists(nodes[0], "abc")
	engine.mu.Lock()
	engine.out = nil
	engine.mu.Unlock()
	for _, s := range append(slices.Clone(nodes), d) {
		lists(s, "abcd")
	}
	eventually(t, func() bool { names, _ := engine.has(); return names == "abcd" })
	eventually(t, func() bool { return d.Health().Ready })

	refused := func(s *Server, name, want string, code Code) {
		t.Helper()
		if err := s.RemoveNode(t.Context(), name); CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("remove %s: %v, want %s", name, err, want)
		}
	}
	refused(nodes[0], "x", "expected one of the nodes a, b, c, d", Invalid)
	refused(nodes[0], "a", "this is node a: ask another one to remove it", Conflict)
	refused(nodes[0], "b", "node b is live: drain it and stop it first", Conflict)
	_ = nodes[1].Close(t.Context())
	eventually(t, func() bool { return nodes[0].Health().Cluster.Settled })
	remove := func(s *Server, name string) {
		t.Helper()
		for note := range await.Tries(t) {
			err := s.RemoveNode(t.Context(), name)
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), "is live") {
				t.Fatalf("remove %s: %v", name, err)
			}
			note("remove %s: %v", name, err)
		}
	}
	remove(nodes[0], "b")
	for _, s := range []*Server{nodes[0], nodes[2], d} {
		lists(s, "acd")
	}
	eventually(t, func() bool { names, gone := engine.has(); return names == "acd" && gone == "b" })
	refused(nodes[0], "c", "the cluster has 3 nodes, the least there may be", Conflict)
	b, err := open("b", "abcd", true)
	if err != nil {
		t.Fatalf("a node that was removed does not come back with an empty disk: %v", err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	lists(nodes[0], "acdb")

	_ = nodes[2].Close(t.Context()) // starts again with its file of before
	c, err := open("c", "abc", false)
	if err != nil {
		t.Fatal(err)
	}
	lists(c, "acdb")
	eventually(t, func() bool { return c.Health().Ready })
	_ = c.Close(t.Context())
	_ = d.Close(t.Context())
	eventually(t, func() bool { // a call before would remove c, while d counts as there
		silent := 0
		for _, n := range nodes[0].Health().Cluster.Nodes {
			if !n.Live && (n.Name == "c" || n.Name == "d") {
				silent++
			}
		}
		return silent == 2
	})
	refused(nodes[0], "c", "a majority of the 4 nodes is 3, and c and d would be missing", Conflict)
}

// TestOldListIsNotFitted: a node whose list may be older than the log leaves the servers of the log as they are: one
// that just began, and one that has not heard from a majority for a while. Then no other one is live for it, so it is
// the first.
func TestOldListIsNotFitted(t *testing.T) {
	engine, clock := &fits{}, timing.NewFake(time.Unix(1e9, 0))
	n := must(newNodes(Cluster{Node: "b", Nodes: nodeNames, Engine: engine}, testKeys, clock.Clock()))
	n.contact.Store(noContact)
	s := &member{lifetime: &lifetime{ctx: t.Context()}, writer: &writer{opt: &Options{Clock: clock.Clock()}, nodes: n}}
	list, fitted := n.members.Load(), timing.Instant(0)
	clock.Advance(time.Hour)
	step := func(what string, judges bool, want string) {
		t.Helper()
		engine.mu.Lock()
		engine.names = nil
		engine.mu.Unlock()
		fitted = 0
		_, judged, settled := s.fitStep(list, &fitted)
		if names, _ := engine.has(); names != want || judged != judges || settled != (want != "") {
			t.Errorf("%s: the servers are fitted to %q, judged %v, settled %v; want %q", what, names, judged, settled,
				want)
		}
	}
	step("it just began", false, "")
	n.reached(n.passed())
	step("what it wrote came back", true, "abc")
	clock.Advance(contactFor)
	step("5 s ago", true, "abc")
	clock.Advance(1)
	step("longer ago", false, "")
	n.reached(n.passed())
	n.hear(&eventlog.Checkpoint{Node: "a"}, 1, clock.Now())
	step("a is live, and comes first", true, "")
}

// TestRemovalWaitsForReplicas: a node is not removed while too few of those that stay have all of the log.
func TestRemovalWaitsForReplicas(t *testing.T) {
	n := &nodes{}
	whole := func(names string) (out []eventlog.Replica) {
		for _, name := range strings.Split(names, "") {
			out = append(out, eventlog.Replica{Name: name, Current: true})
		}
		return out
	}
	behind := append(whole("ab"), eventlog.Replica{Name: "d", Behind: "is 700 entries behind"})
	for _, x := range []struct {
		replicas []eventlog.Replica
		stay     string
		most     int
		want     string // in the error, empty for none
	}{
		{whole("abcd"), "acd", 3, ""},
		{whole("abc"), "acd", 3, "d has no replica yet"}, // d was just added: without b, two replicas would be left
		{append(whole("abc"), behind[2]), "acd", 3, "d is 700 entries behind"},
		{whole("abcd"), "abce", 3, ""}, // e is away, and three of five are there
		{behind, "abd", 3, "a change of the nodes is under way: d is 700 entries behind"},
		{nil, "acd", 3, ""}, // a log that does not say
	} {
		n.replicas = x.replicas
		err := n.replicated(strings.Split(x.stay, ""), x.most)
		if (err == nil) != (x.want == "") || err != nil && (CodeOf(err) != Changing || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%v, %s stay: %v, want %q", x.replicas, x.stay, err, x.want)
		}
	}
}
