package serve

import (
	"context"
	"errors"
	"strings"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// TestLogVersion: an empty log begins with version 2; a log of version 1 is raised once, by one record; a
// server that is asked for version 1 keeps it and refuses to go back.
func TestLogVersion(t *testing.T) {
	ctx := context.Background()
	keys := eventlog.IDKeys{Keys: map[byte][]byte{0: []byte("0123456789abcdef")}}
	start := func(log eventlog.Log, version uint16) (*Server, error) {
		return Open(ctx, Options{Dir: t.TempDir(), Log: log, Keys: keys, SnapshotAfter: -1, SnapshotEvery: -1,
			Committer: eventlog.CommitterOptions{Version: version}})
	}
	serveOnce := func(log eventlog.Log, version uint16) {
		t.Helper()
		s, err := start(log, version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.append(ctx, &eventlog.Checkpoint{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// batches lists the versions of the entries; with * where an entry raises the log.
	batches := func(log eventlog.Log) (list string) {
		t.Helper()
		info, err := log.Info(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for d, err := range eventlog.Replay(ctx, log, eventlog.NewChain(0, 1), info.Last) {
			if err != nil {
				t.Fatal(err)
			}
			list += string(rune('0' + d.Version))
			for _, r := range d.Events() {
				if c, ok := r.(*eventlog.Control); ok && c.Act == eventlog.RaiseVersion && c.Version == 2 {
					list += "*"
				}
			}
		}
		return list
	}
	fresh := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	serveOnce(fresh, 0)
	if got := batches(fresh); got != "2" {
		t.Errorf("an empty log: %s", got)
	}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	for range 2 {
		serveOnce(log, 1)
	}
	if got := batches(log); got != "11" {
		t.Errorf("a log that is kept at version 1: %s", got)
	}
	for range 2 {
		serveOnce(log, 0)
	}
	if got := batches(log); got != "112*22" {
		t.Errorf("a log that is raised: %s", got)
	}
	if _, err := start(log, 1); err == nil || !strings.Contains(err.Error(), "log version 1 was asked for, the log is of version 2") {
		t.Errorf("back to version 1: %v", err)
	}
	if _, err := start(log, 3); err == nil || !strings.Contains(err.Error(), "log version 3") {
		t.Errorf("a version of the future: %v", err)
	}
	// A record that version 1 does not have is refused.
	s, err := start(eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	_, err = s.append(ctx, &eventlog.Checkpoint{Seq: 1, Node: "a"})
	var e *Error
	if !errors.As(err, &e) || e.Code != Conflict || !errors.Is(err, eventlog.ErrVersion) {
		t.Errorf("a new field in version 1: %v", err)
	}
}

// TestRollingUpgrade: nodes of an old and a new program have one log and one state. It is raised, once, when the last one is new, and not before; until
// then a node goes back. Afterwards an old program does not start and says why. "New" is a program with a log version that does not exist yet.
func TestRollingUpgrade(t *testing.T) {
	ctx := t.Context()
	next, back := eventlogtest.NextVersion(t)
	m, nodes, clocks := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	restart := func(i int, future uint16) {
		t.Helper()
		if err := nodes[i].Close(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := openNode(t, m, i, clocks[i], func(o *Options) { o.future = future })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		nodes[i] = s
		eventually(func() bool {
			return all(nodes, func(c *ClusterHealth) bool { return c.Nodes[i].Live && c.Nodes[i].Readable == uint32(max(future, 2)) })
		})
	}
	// use decides and rewards at each node, and waits for checkpoints of all, after which a raise would have come.
	use := func() {
		t.Helper()
		for i, s := range nodes {
			d, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(i, 4, 3), MinSeq: created})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := nodes[(i+1)%3].Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}); err != nil || got.Status != Accepted {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		from := nodes[0].progress.applied.Load()
		eventually(func() bool { return nodes[0].progress.applied.Load() > from+12 })
	}
	versions := func() (list string, raised int) {
		t.Helper()
		for d, err := range eventlog.Replay(ctx, m, eventlog.NewChain(0, 1).Trust(testKeys.Batches()), must(m.Info(ctx, 0)).Last) {
			if err != nil {
				t.Fatal(err)
			}
			if v := string(rune('0' + d.Version)); !strings.HasSuffix(list, v) {
				list += v
			}
			for _, r := range d.Events() {
				if c, ok := r.(*eventlog.Control); ok && c.Act == eventlog.RaiseVersion {
					raised++
				}
			}
		}
		return list, raised
	}
	for _, step := range []struct {
		node   int
		future uint16
	}{{2, next}, {0, next}, {2, 0}, {0, 0}, {0, next}, {1, next}} { // the last one but c, and back
		restart(step.node, step.future)
		use()
		if list, raised := versions(); list != "2" || raised != 0 {
			t.Fatalf("node %d is started as %d: the batches have the versions %s, %d records raise the log", step.node, step.future, list, raised)
		}
	}
	if h := nodes[0].Health().Cluster; h.LogVersion != 2 || h.Nodes[0].Readable != 3 || h.Nodes[2].Readable != 2 {
		t.Errorf("%+v", h)
	}
	restart(2, next)
	eventually(func() bool { return all(nodes, func(c *ClusterHealth) bool { return c.LogVersion == next }) })
	use()
	list, raised := versions()
	if raised != 1 || !strings.HasPrefix(list, "23") || !strings.HasSuffix(list, "3") {
		t.Errorf("all nodes are new: the batches have the versions %s, %d records raise the log", list, raised)
	}
	for i := range nodes { // what a node knows when it starts is enough
		restart(i, next)
	}
	use()
	if _, again := versions(); again != 1 {
		t.Errorf("%d records raise the log, want 1", again)
	}
	if s, err := openNode(t, m, 1, clocks[1]); err == nil || !strings.Contains(err.Error(), "log version 2 was asked for, the log is of version 3") { // it reads 3 and may not write it
		t.Errorf("a node that writes version 2 only: %v", err)
		if err == nil {
			_ = s.Close(ctx)
		}
	}
	agree(t, nodes...)
	for _, s := range nodes {
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	back()
	_, err := openNode(t, m, 1, clocks[1])
	var later *eventlog.VersionError
	if !errors.As(err, &later) || later.Version != 3 || later.Seq == 0 || !strings.Contains(err.Error(), "has log version 3 and this program reads up to 2: a later program has raised the log") {
		t.Errorf("a program from before: %v", err)
	}
}

// all reports whether every node sees its cluster so.
func all(nodes []*Server, f func(*ClusterHealth) bool) bool {
	for _, s := range nodes {
		if !f(s.Health().Cluster) {
			return false
		}
	}
	return true
}
