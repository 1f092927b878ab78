package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
	"troupe/timing"
)

// trimming gives each node a directory under dir and lets it keep few entries.
func trimming(dir string) func(*Options) {
	return func(o *Options) {
		o.Dir, o.TrimEvery, o.KeepBytes, o.Wait = filepath.Join(dir, o.Cluster.Node), -1, 4000, time.Minute
	}
}

// pairs decides and rewards n times at one node after the other and returns the ids.
func pairs(t *testing.T, nodes []*Server, n int) (ids []string) {
	t.Helper()
	for i := range n {
		d := must(nodes[i%len(nodes)].Decide(t.Context(), "news", DecideRequest{Actions: actions(i, 3, 3)}))
		ids = append(ids, d.EventID)
		must(nodes[(i+1)%len(nodes)].Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: 0.5}))
	}
	return ids
}

// begin makes the model at node 0 and waits until the others have it.
func begin(t *testing.T, nodes []*Server) {
	t.Helper()
	must(nodes[0].CreateModel(t.Context(), vectors("news", 3), ""))
	for _, s := range nodes {
		eventually(t, func() bool { _, err := s.GetModel(t.Context(), "news"); return err == nil })
	}
}

// later puts the clocks on and waits until every window is closed.
func later(t *testing.T, nodes []*Server, clocks []*nodeClock, by time.Duration) {
	for _, c := range clocks {
		c.off.Add(int64(by))
	}
	for _, s := range nodes {
		eventually(t, func() bool { return s.Health().Open == 0 })
	}
}

// trimmed waits until a node has accepted a trim that goes beyond an entry and all have removed what it covers.
func trimmed(t *testing.T, at *Server, nodes []*Server, beyond uint64) (base uint64) {
	t.Helper()
	eventually(t, func() bool {
		_, err := at.Trim(context.Background())
		if err != nil && !strings.Contains(err.Error(), "under way") && !strings.Contains(err.Error(), "changed meanwhile") {
			t.Error(err)
		}
		return t.Failed() || at.Health().Cluster.Base > beyond
	})
	base = at.Health().Cluster.Base
	for _, s := range nodes {
		eventually(t, func() bool { h := s.Health().Cluster; return t.Failed() || h.Base == base && h.Trim == "" })
	}
	return base
}

// TestTrimOfNodes: a node proposes, all compute the same base, and the entries go when all have it. What keys need stays. No node looks
// behind the base, whatever is in the log; a node with an empty disk takes the base from the store, and refuses one that is
// not what the log says; a single machine goes on with the log and the base.
func TestTrimOfNodes(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m, nodes, clocks := three(t, trimming(dir))
	begin(t, nodes)
	key := DecideRequest{Actions: actions(0, 3, 3), IdempotencyKey: "k"}
	k := must(nodes[0].Decide(ctx, "news", key))
	old := pairs(t, nodes, 40)
	later(t, nodes, clocks, time.Hour)
	trimmed(t, nodes[0], nodes, 0)
	var first uint64 // the entries go a moment after the nodes have agreed
	eventually(t, func() bool { first = must(m.Info(ctx, 0)).First; return first > 1 })
	if first > k.Seq {
		t.Fatalf("the log begins with %d, a key needs %d", first, k.Seq)
	}
	if again := must(nodes[2].Decide(ctx, "news", key)); again.EventID != k.EventID {
		t.Fatalf("the key's decision is %+v", again)
	}
	later(t, nodes, clocks, 25*time.Hour)
	pairs(t, nodes, 20)
	later(t, nodes, clocks, time.Hour)
	base := trimmed(t, nodes[1], nodes, k.Seq)
	kept := must(nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(1, 3, 3), MinSeq: base}))
	info := must(m.Info(ctx, 0))
	if info.First <= k.Seq || info.First > base+1 {
		t.Fatalf("the log begins with %d, the base is %d, the key's decision was %d", info.First, base, k.Seq)
	}
	var files [][]byte
	for _, s := range nodes {
		files = append(files, must(os.ReadFile(filepath.Join(string(s.snapshots.files), fold.FileName(base)))))
		if got := s.fold.Base(); got.Seq != base || got.Sum != sha256.Sum256(files[len(files)-1]) || !bytes.Equal(files[0], files[len(files)-1]) {
			t.Errorf("%s has another base", s.nodes.Node)
		}
		if s.past.First.Load() != info.First || s.past.Base.Load() != base {
			t.Errorf("%s: the log begins with %d, base %d", s.nodes.Node, s.past.First.Load(), s.past.Base.Load())
		}
		_, err := s.Event(ctx, old[0])
		wantCode(t, err, Gone, "no longer kept")
		_, err = s.RollbackModel(ctx, RollbackRequest{Name: "news", ToSeq: base - 1})
		wantCode(t, err, Invalid, "where the log that is kept begins")
	}
	// A record that another node wrote before it knew of the trim, and one of a node that does not know it at all.
	id := must(nodes[0].GetModel(ctx, "news")).Incarnation
	for _, at := range []uint64{1, base - 1} {
		if out, _, err := nodes[0].write(ctx, &eventlog.Control{Act: eventlog.Rollback, Model: random(), Name: "news", From: id, AtSeq: at}); err != nil || out != fold.Conflict {
			t.Errorf("a rollback to entry %d before the base: %v, %v", at, out, err)
		}
	}
	must(nodes[2].RollbackModel(ctx, RollbackRequest{Name: "news", ToSeq: base, KeepLater: true}))
	if r, err := nodes[0].Replay(ctx, kept.EventID); err != nil || !r.Equal {
		t.Errorf("replay of what is kept: %+v, %v", r, err)
	}

	// Of the old disk only the name is left.
	again := func(edit func(*Options)) (*Server, error) {
		s, err := openNode(t, m, 2, clocks[2], trimming(dir), edit)
		if err == nil {
			t.Cleanup(func() { _ = s.Close(context.Background()) })
		}
		return s, err
	}
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	list := must(m.Bases(ctx))
	if len(list) != 1 || list[0].Seq != base {
		t.Fatalf("stored are %+v", list)
	}
	whole := must(m.GetBase(ctx, list[0]))
	for want, data := range map[string][]byte{"the log says": bytes.Replace(whole, []byte("news"), []byte("nuws"), 1), "cannot take one": whole[:len(whole)/2]} {
		if err := m.PutBase(ctx, list[0], data); err != nil {
			t.Fatal(err)
		}
		if _, err := again(func(o *Options) { o.Dir = t.TempDir() }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with a damaged base: %v", err)
		}
	}
	other := list[0]
	other.Sum[0] ^= 1
	if err := errors.Join(m.DropBases(ctx, base+1), m.PutBase(ctx, other, whole)); err != nil {
		t.Fatal(err)
	}
	if _, err := again(func(o *Options) { o.Dir = t.TempDir() }); err == nil || !strings.Contains(err.Error(), "does not say that the base") {
		t.Errorf("with a base that the log does not name: %v", err)
	}
	err := nodes[0].bases.restore(ctx, nodes[0].fold.Base()) // what is missing comes back
	if err != nil {
		t.Fatal(err)
	}
	if nodes[2], err = again(func(o *Options) { o.Dir = t.TempDir() }); err != nil || nodes[2].recovery.Snapshot != base {
		t.Fatalf("with an empty disk: %+v, %v", nodes[2], err)
	}
	pairs(t, nodes, 5)
	later(t, nodes, clocks, time.Hour)
	base = trimmed(t, nodes[2], nodes, base) // also when it never had the base before
	agree(t, nodes...)

	alone := t.TempDir()
	b := must(os.ReadFile(filepath.Join(dir, "a", "snapshots", fold.FileName(base))))
	if err := snapshotFiles(alone).Write(base, bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	one := open(t, m, &fakeClock{}, func(o *Options) { o.Dir = alone })
	digest := must(nodes[0].fold.Named("news").State()).Digest()
	if got := must(one.State(ctx, "news")); got.Digest != digest {
		t.Errorf("one machine has the digest %v, the nodes have %v", got.Digest, digest)
	}
	for _, s := range nodes {
		if err := s.progress.failure(); err != nil {
			t.Error(err)
		}
	}
}

// stepLog is a log whose steps of a trim fail once.
type stepLog struct {
	*eventlogtest.Memory
	mu   sync.Mutex
	fail string // the step
	did  bool   // it failed
	half bool   // after its effect
}

var errStep = errors.New("the machine is gone")

func (l *stepLog) step(name string, do func() error) error {
	l.mu.Lock()
	hit := l.fail == name && !l.did
	l.did = l.did || hit
	l.mu.Unlock()
	if hit && !l.half {
		return errStep
	}
	err := do()
	if hit && err == nil {
		err = errStep
	}
	return err
}

func (l *stepLog) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.did
}

func (l *stepLog) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	return l.step("trim", func() error {
		// Nothing goes while it is not stored: else a new disk has nothing to begin with.
		if list, err := l.Bases(ctx); err != nil || len(list) == 0 || list[0].Seq < upTo {
			return errors.Join(errors.New("entries are removed without a base in the store"), err)
		}
		return l.Memory.Trim(ctx, shard, upTo)
	})
}

func (l *stepLog) PutBase(ctx context.Context, b eventlog.Base, data []byte) error {
	if l.half && l.fail == "put" {
		return l.step("put", func() error { return l.Memory.PutBase(ctx, b, data[:len(data)/2]) })
	}
	return l.step("put", func() error { return l.Memory.PutBase(ctx, b, data) })
}

func (l *stepLog) DropBases(ctx context.Context, before uint64) error {
	return l.step("drop", func() error { return l.Memory.DropBases(ctx, before) })
}

// TestTrimInterrupted: all nodes stop at a step of a trim and start again, one of them with an empty disk; the trim comes to its end and all
// have the same state.
func TestTrimInterrupted(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"put", "half a put", "trim", "after trim", "drop"} {
		t.Run(step, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
			words := strings.Fields(step)
			l := &stepLog{Memory: m, fail: words[len(words)-1], half: len(words) > 1}
			var nodes []*Server
			clocks := []*nodeClock{{}, {}, {}}
			start := func(log eventlog.Log, empty int) {
				nodes = nil
				for i := range nodeNames {
					edit := trimming(dir)
					if i == empty {
						edit = trimming(t.TempDir())
					}
					s, err := openNode(t, log, i, clocks[i], edit)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = s.Close(context.Background()) })
					nodes = append(nodes, s)
				}
			}
			start(l, -1)
			begin(t, nodes)
			pairs(t, nodes, 30)
			later(t, nodes, clocks, time.Hour)
			eventually(t, func() bool { _, _ = nodes[1].Trim(ctx); return nodes[1].Health().Cluster.Base > 0 })
			eventually(t, l.failed)
			for _, s := range nodes {
				if err := s.Close(ctx); err != nil {
					t.Fatal(err)
				}
			}
			start(&stepLog{Memory: m}, 2)
			base := nodes[0].Health().Cluster.Base
			for _, s := range nodes {
				eventually(t, func() bool { return s.Health().Cluster.Trim == "" })
			}
			if first := must(m.Info(ctx, 0)).First; base == 0 || first < 2 || first > base+1 {
				t.Errorf("the log begins with %d, the base is %d", first, base)
			}
			if list := must(m.Bases(ctx)); len(list) != 1 || list[0].Seq != base {
				t.Errorf("stored are %+v", list)
			}
			pairs(t, nodes, 3)
			agree(t, nodes...)
		})
	}
}

// TestTrimWaits: while a node is away nothing is removed, and the others say for whom they wait; nor when one computes another base than
// the log says, whoever is wrong. A trim that did not see the newest change of a model is a conflict.
func TestTrimWaits(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m, nodes, clocks := three(t, trimming(dir))
	begin(t, nodes)
	pairs(t, nodes, 30)
	later(t, nodes, clocks, time.Hour)
	propose := func(seen, to uint64, sum byte) fold.Outcome {
		t.Helper()
		s := nodes[0]
		now := s.opt.Clock.Now().UnixNano()
		r := must(s.append(ctx, s.nodes.checkpoint(now, seen), &eventlog.Control{Act: eventlog.Trim, AtSeq: to, Data: slices.Repeat([]byte{sum}, 32), Time: now}))
		return must(s.applied(ctx, r, 2))[1]
	}
	seen := nodes[0].progress.applied.Load()
	must(nodes[0].PauseModel(ctx, "news", ""))
	must(nodes[0].ResumeModel(ctx, "news", ""))
	if out := propose(seen, 5, 1); out != fold.Conflict {
		t.Errorf("a trim that did not see a change: %v", out)
	}
	d := must(nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(0, 3, 3)}))
	eventually(t, func() bool { return nodes[0].progress.applied.Load() >= d.Seq })
	if out := propose(nodes[0].progress.applied.Load(), d.Seq, 1); out != fold.Conflict {
		t.Errorf("a trim of an open window: %v", out)
	}
	later(t, nodes, clocks, time.Hour)
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	if out := propose(nodes[0].progress.applied.Load(), 5, 1); out != fold.Accepted {
		t.Fatalf("a trim: %v", out)
	}
	for _, s := range nodes[:2] {
		eventually(t, func() bool { return strings.Contains(s.Health().Cluster.Trim, "this node computes another base") })
	}
	// The next one is right.
	eventually(t, func() bool { _, _ = nodes[1].Trim(ctx); return nodes[1].Health().Cluster.Base > 5 })
	eventually(t, func() bool {
		return nodes[0].Health().Cluster.Trim == "the base of entry "+fmt.Sprint(nodes[1].Health().Cluster.Base)+" is not known to be at c"
	})
	if first := must(m.Info(ctx, 0)).First; first != 1 {
		t.Errorf("the log begins with %d while a node has no base", first)
	}
	s, err := openNode(t, m, 2, clocks[2], trimming(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	nodes[2] = s
	for _, s := range nodes {
		eventually(t, func() bool { return s.Health().Cluster.Trim == "" })
	}
	if first := must(m.Info(ctx, 0)).First; first == 1 {
		t.Error("nothing was removed")
	}
	agree(t, nodes...)
}

// TestTrimmedImport: three nodes go on with the log of a single machine that was trimmed. They take its base from the store, which the description of the
// log names; then a record does, and it is a base like others: a later trim goes on from it, and a node with an empty disk
// begins with it. A base in the store that is another one is refused.
func TestTrimmedImport(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	m := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	clocks := []*nodeClock{{}, {}, {}}
	alone := open(t, m, nil, func(o *Options) {
		o.Dir, o.KeepBytes, o.TrimEvery, o.Clock = filepath.Join(dir, "alone"), 4000, -1, timing.At(clocks[0].now)
	})
	must(alone.CreateModel(ctx, vectors("news", 3), ""))
	pairs(t, []*Server{alone}, 40)
	clocks[0].off.Add(int64(time.Hour))
	must(alone.Expire(ctx))
	pairs(t, []*Server{alone}, 5)
	waiting := must(alone.Decide(ctx, "news", DecideRequest{Actions: actions(1, 3, 3)}))
	if first := must(alone.Trim(ctx)); first < 2 {
		t.Fatal("nothing was trimmed")
	}
	want := must(alone.State(ctx, "news")).Digest
	if err := alone.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range clocks {
		c.off.Store(int64(time.Hour))
	}
	info := must(m.Info(ctx, 0))
	seq := must(Base(filepath.Join(dir, "alone"), info.First))
	state := must(snapshotFiles(filepath.Join(dir, "alone")).Read(seq))
	base := eventlog.Base{Seq: seq, Size: int64(len(state)), Sum: sha256.Sum256(state)}
	cluster := func(o *Options) { o.Cluster.Imported, o.Cluster.ImportedBase = info.Last, base }
	start := func(i int, edit ...func(*Options)) *Server {
		t.Helper()
		s, err := openNode(t, m, i, clocks[i], append([]func(*Options){trimming(dir), cluster}, edit...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	}
	if _, err := openNode(t, m, 0, clocks[0], trimming(t.TempDir()), cluster); err == nil || !strings.Contains(err.Error(), "0 bases are stored") {
		t.Errorf("without a base: %v", err)
	}
	other := base
	other.Sum[0]++
	for _, b := range []eventlog.Base{base, other} {
		if err := m.PutBase(ctx, b, append([]byte{1}, state...)); err != nil {
			t.Fatal(err)
		}
		if _, err := openNode(t, m, 0, clocks[0], trimming(t.TempDir()), cluster); err == nil {
			t.Error("a base that is another one was taken")
		}
	}
	if err := m.PutBase(ctx, base, state); err != nil {
		t.Fatal(err)
	}
	var nodes []*Server
	for i := range nodeNames {
		nodes = append(nodes, start(i))
		if got := must(nodes[i].State(ctx, "news")).Digest; got != want {
			t.Errorf("node %d has the digest %v, the single machine had %v", i, got, want)
		}
	}
	if r := must(nodes[1].Reward(ctx, RewardRequest{EventID: waiting.EventID, Value: 0.5})); r.Status != Accepted {
		t.Errorf("a reward for a decision of before: %v", r.Status)
	}
	for _, s := range nodes {
		eventually(t, func() bool { h := s.Health().Cluster; return h.Base == seq && h.Trim == "" })
		if b := s.fold.Base(); b.Sum != base.Sum || b.Record <= info.Last {
			t.Errorf("the log names the base %+v", b)
		}
	}
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	if nodes[2] = start(2, trimming(t.TempDir())); nodes[2].recovery.Snapshot != seq {
		t.Errorf("an empty disk begins with entry %d, the base is that of %d", nodes[2].recovery.Snapshot, seq)
	}
	pairs(t, nodes, 30)
	later(t, nodes, clocks, time.Hour)
	trimmed(t, nodes[2], nodes, seq)
	if list := must(m.Bases(ctx)); len(list) != 1 || list[0].Seq <= seq {
		t.Errorf("stored are %+v", list)
	}
	agree(t, nodes...)
}
