package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
)

// TestLogVersion: an empty log begins with the version of the program; a later program raises it once, by one record, and
// nothing goes back.
func TestLogVersion(t *testing.T) {
	ctx := context.Background()
	keys := eventlog.IDKeys{Keys: map[byte][]byte{0: []byte("0123456789abcdef")}}
	start := func(log eventlog.Log, version uint16) (*Server, error) {
		return Open(ctx, Options{Dir: t.TempDir(), Log: log, Keys: keys, SnapshotAfter: -1, SnapshotEvery: -1, future: version})
	}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	serveOnce := func(version uint16) {
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
	batches := func() (list string) {
		t.Helper()
		info := must(log.Info(ctx, 0))
		for d, err := range eventlog.Replay(ctx, log, eventlog.NewChain(0, 1), info.Last) {
			if err != nil {
				t.Fatal(err)
			}
			list += string(rune('0' + d.Version))
			for _, r := range d.Events() {
				if c, ok := r.(*eventlog.Control); ok && c.Act == eventlog.RaiseVersion && c.Version == 4 {
					list += "*"
				}
			}
		}
		return list
	}
	next, back := eventlogtest.NextVersion(t)
	for range 2 {
		serveOnce(0)
	}
	if got := batches(); got != "33" {
		t.Errorf("a new log: %s", got)
	}
	for range 2 {
		serveOnce(next)
	}
	if got := batches(); got != "334*44" {
		t.Errorf("a log that is raised: %s", got)
	}
	if _, err := start(log, 0); err == nil || !strings.Contains(err.Error(), "log version 3 was asked for, the log is of version 4") {
		t.Errorf("back to version 3: %v", err)
	}
	back()
	if _, err := start(log, 0); err == nil || !strings.Contains(err.Error(), "this program reads up to 3: a later program has raised the log") {
		t.Errorf("a version of the future: %v", err)
	}
}

// TestEarlierLog: the log of an earlier program is refused with the way over, also where a trim has left
// its end alone, and its snapshots are named as what they are.
func TestEarlierLog(t *testing.T) {
	ctx := context.Background()
	for _, first := range []uint64{1, 5} {
		log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
		s := open(t, log, &fakeClock{})
		must(s.CreateModel(ctx, vectors("news", 3), ""))
		for i := range 10 {
			must(s.Decide(ctx, "news", DecideRequest{Actions: actions(i, 4, 3)}))
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := Open(ctx, Options{Dir: t.TempDir(), Log: &earlier{log, first}, Keys: testKeys, Logger: slog.New(slog.DiscardHandler)})
		var other *eventlog.VersionError
		if !errors.As(err, &other) || other.Version != 2 || other.Seq != first || !strings.Contains(err.Error(), eventlog.WayOver) {
			t.Errorf("from entry %d: %v", first, err)
		}
	}
	state := append([]byte("TRPC\x07\x00"), make([]byte, 100)...)
	if _, _, err := fold.Restore(state, nil); err == nil || err.Error() != "of an earlier program" {
		t.Errorf("a snapshot: %v", err)
	}
}

// earlier is a log as a program of log version 2 would have written it, from entry first on.
type earlier struct {
	eventlog.Log
	first uint64
}

func (l *earlier) Info(ctx context.Context, shard uint16) (eventlog.Info, error) {
	info, err := l.Log.Info(ctx, shard)
	info.First = l.first
	return info, err
}

func (l *earlier) Get(ctx context.Context, shard uint16, seq uint64) (eventlog.Entry, error) {
	e, err := l.Log.Get(ctx, shard, seq)
	e.Data = old(e.Data)
	return e, err
}

func (l *earlier) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range l.Log.Read(ctx, shard, from) {
			if e.Data = old(e.Data); !yield(e, err) {
				return
			}
		}
	}
}

// old returns a batch with log version 2 in its header.
func old(b []byte) []byte {
	if len(b) < eventlog.HeaderSize {
		return b
	}
	b = bytes.Clone(b)
	b[10] = 2
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(b[68:], crc32.Update(crc32.Checksum(b[:68], table), table, b[eventlog.HeaderSize:]))
	return b
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
		eventually(t, func() bool {
			return all(nodes, func(c *ClusterHealth) bool {
				return c.Nodes[i].Live && c.Nodes[i].Readable == uint32(max(future, eventlog.LogVersion))
			})
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
		eventually(t, func() bool { return nodes[0].progress.applied.Load() > from+12 })
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
		if list, raised := versions(); list != "3" || raised != 0 {
			t.Fatalf("node %d is started as %d: the batches have the versions %s, %d records raise the log", step.node, step.future, list, raised)
		}
	}
	if h := nodes[0].Health().Cluster; h.LogVersion != 3 || h.Nodes[0].Readable != 4 || h.Nodes[2].Readable != 3 {
		t.Errorf("%+v", h)
	}
	restart(2, next)
	eventually(t, func() bool { return all(nodes, func(c *ClusterHealth) bool { return c.LogVersion == next }) })
	use()
	list, raised := versions()
	if raised != 1 || !strings.HasPrefix(list, "34") || !strings.HasSuffix(list, "4") {
		t.Errorf("all nodes are new: the batches have the versions %s, %d records raise the log", list, raised)
	}
	for i := range nodes { // what a node knows when it starts is enough
		restart(i, next)
	}
	use()
	if _, again := versions(); again != 1 {
		t.Errorf("%d records raise the log, want 1", again)
	}
	if s, err := openNode(t, m, 1, clocks[1]); err == nil || !strings.Contains(err.Error(), "log version 3 was asked for, the log is of version 4") { // it reads 4 and may not write it
		t.Errorf("a node that writes version 3 only: %v", err)
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
	if !errors.As(err, &later) || later.Version != 4 || later.Seq == 0 || !strings.Contains(err.Error(), "has log version 4 and this program reads up to 3: a later program has raised the log") {
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
