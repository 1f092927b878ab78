package serve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/timing"
)

// nodeClock is a clock that runs, and that tests put off.
type nodeClock struct{ off atomic.Int64 }

func (c *nodeClock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

var nodeNames = []string{"a", "b", "c"}

// openNode opens the server of a node on a log that it shares with others.
func openNode(t testing.TB, log eventlog.Log, i int, clock *nodeClock, edit ...func(*Options)) (*Server, error) {
	t.Helper()
	o := Options{
		Log: log, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: 10 * time.Millisecond, SnapshotEvery: -1,
		Cluster: &Cluster{Node: nodeNames[i], Nodes: nodeNames, Every: 20 * time.Millisecond},
	}
	for _, f := range edit {
		f(&o)
	}
	return Open(context.Background(), o)
}

// three opens three nodes on a log in memory.
func three(t testing.TB, edit ...func(*Options)) (m *eventlogtest.Memory, nodes []*Server, clocks []*nodeClock) {
	t.Helper()
	m = eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	for i := range nodeNames {
		clocks = append(clocks, &nodeClock{})
		s, err := openNode(t, m, i, clocks[i], edit...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		eventually(t, func() bool {
			h := s.Health()
			return len(h.Cluster.Nodes) == 3 && !slices.ContainsFunc(h.Cluster.Nodes, func(n NodeHealth) bool { return !n.Live })
		})
	}
	return m, nodes, clocks
}

// eventually waits for a condition.
func eventually(t await.Test, cond func() bool) {
	t.Helper()
	await.Until(t, "the condition", cond)
}

// agree waits until all nodes have applied the same entry and compares the bytes of their folds.
func agree(t *testing.T, nodes ...*Server) {
	t.Helper()
	for _, s := range nodes { // no more checkpoints
		s.drain(context.Background())
		s.windows.stop()
	}
	last := func() uint64 { return must(nodes[0].log.Info(context.Background(), 0)).Last }
	for note := range await.Tries(t) {
		end := last()
		var states []string
		for i, s := range nodes {
			if _, err := s.progress.until(context.Background(), end); err != nil {
				t.Fatalf("node %d: %v", i, err)
			}
			s.mu.RLock() // a checkpoint that is under way may be applied: the applier's own chain is not for others
			b, err := s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1))
			s.mu.RUnlock()
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, string(b))
		}
		if now := last(); now > end { // a checkpoint was under way: some states may have it
			note("the log had %d entries and has %d", end, now)
			continue
		}
		for i := range states {
			if states[i] != states[0] {
				t.Errorf("the state of node %d differs from that of node 0", i)
			}
		}
		break
	}
}

// TestAnyNode: what one node answered, another one takes: rewards, repetitions, rewards of rewards, min_seq; and all
// nodes have the same state, as has one that starts later, and a single machine that folds the log.
func TestAnyNode(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	for i := range 60 {
		at, other, third := nodes[i%3], nodes[(i+1)%3], nodes[(i+2)%3]
		r := DecideRequest{Actions: actions(i, 4, 3), MinSeq: created}
		if i%2 == 0 {
			r.IdempotencyKey = fmt.Sprint("k", i)
		}
		d, err := at.Decide(ctx, "news", r)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			r.MinSeq = d.Seq
			again, err := other.Decide(ctx, "news", r)
			if err != nil || !again.Repeated || again.EventID != d.EventID || again.Action != d.Action {
				t.Fatalf("repeated at another node: %+v, error %v, want %+v", again, err, d)
			}
			r.Actions = actions(i+1, 4, 3)
			_, err = third.Decide(ctx, "news", r)
			wantCode(t, err, Conflict, "idempotency_key")
		}
		got, err := other.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})
		if err != nil || got.Status != Accepted {
			t.Fatalf("%+v, error %v", got, err)
		}
		got, err = third.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})
		if err != nil || got.Status != Duplicate {
			t.Fatalf("again: %+v, error %v", got, err)
		}
	}
	if err := nodes[2].Close(ctx); err != nil { // two processes of one name would not both stay
		t.Fatal(err)
	}
	late, err := openNode(t, m, 2, &nodeClock{}, func(o *Options) { o.Dir = dir })
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Close(ctx); err != nil { // with a snapshot
		t.Fatal(err)
	}
	if late, err = openNode(t, m, 2, &nodeClock{}, func(o *Options) { o.Dir = dir }); err != nil || late.Health().Recovery.Snapshot == 0 {
		t.Fatalf("%+v, error %v", late.Health().Recovery, err)
	}
	t.Cleanup(func() { _ = late.Close(context.Background()) })
	if n := nodes[1].fold.Named("news").Counts; n.Decisions != 60 || n.Rewards != 60 {
		t.Errorf("%+v", n)
	}
	agree(t, nodes[0], nodes[1], late)
	digest := must(nodes[0].fold.Named("news").State()).Digest()
	one := open(t, m, &fakeClock{})
	if got := must(one.State(ctx, "news")); got.Digest != digest || got.Learned != 60 {
		t.Errorf("one machine has the digest %v after %d updates, the nodes have %v", got.Digest, got.Learned, digest)
	}
}

// TestSameKeyAtOnce: two nodes get one idempotency key at the same time; one decision is made, both callers have it.
func TestSameKeyAtOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	const n = 200
	repeated, refused := 0, 0
	for i := range n {
		var ds [2]Decision
		var errs [2]error
		batch := i%5 == 0
		var wg sync.WaitGroup
		for k := range 2 {
			wg.Go(func() {
				r := DecideRequest{Actions: actions(i, 4, 3), IdempotencyKey: fmt.Sprint("k", i), MinSeq: created}
				if i%10 == 9 { // two requests with one key: one of them is refused
					r.Actions = actions(i+k, 4, 3)
				}
				if !batch {
					ds[k], errs[k] = nodes[(i+k)%3].Decide(ctx, "news", r)
					return
				}
				items, err := nodes[(i+k)%3].DecideBatch(ctx, "news", []DecideRequest{{Actions: actions(i, 4, 3), MinSeq: created}, r})
				if errs[k] = err; err == nil {
					ds[k], errs[k] = items[1].Decision, items[1].Err
				}
			})
		}
		wg.Wait()
		if i%10 == 9 {
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("two requests with one key: %v, %v", errs[0], errs[1])
			}
			wantCode(t, errors.Join(errs[0], errs[1]), Conflict)
			refused++
			continue
		}
		if err := errors.Join(errs[0], errs[1]); err != nil {
			t.Fatal(err)
		}
		if ds[0].EventID == "" || ds[0].Action != ds[1].Action || ds[0].Seq != ds[1].Seq {
			t.Fatalf("round %d: %+v and %+v", i, ds[0], ds[1])
		}
		for _, d := range ds {
			if d.Repeated {
				repeated++
			}
		}
		if got := must(nodes[(i+2)%3].Reward(ctx, RewardRequest{EventID: ds[1].EventID, Value: 1})); got.Status != Accepted {
			t.Fatalf("%+v", got)
		}
	}
	c := nodes[2].fold.Named("news").Counts
	if want := uint64(n + 2*n/5); c.Decisions != want || c.Rewards != n-n/10 || repeated != n-n/10 || refused != n/10 {
		t.Errorf("%d decisions, want %d; %d rewards; %d repeated, %d refused", c.Decisions, want, c.Rewards, repeated, refused)
	}
	agree(t, nodes...)
}

// TestActsAtOnce: of two changes of one configuration, and of two models with one name, one wins.
func TestActsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, nodes, _ := three(t)
	both := func(act func(*Server) error) (won int, lost error) {
		var errs [2]error
		var wg sync.WaitGroup
		for k := range 2 {
			wg.Go(func() { errs[k] = act(nodes[k]) })
		}
		wg.Wait()
		for _, err := range errs {
			if err == nil {
				won++
			}
		}
		return won, errors.Join(errs[0], errs[1])
	}
	for i := range 20 {
		name := fmt.Sprint("m", i)
		won, err := both(func(s *Server) error { _, err := s.CreateModel(ctx, vectors(name, 3), "test"); return err })
		if won != 1 {
			t.Fatalf("%d created %s", won, name)
		}
		wantCode(t, err, Conflict, "config.id")
		for _, s := range nodes {
			eventually(t, func() bool { _, err := s.GetModel(ctx, name); return err == nil })
		}
		won, err = both(func(s *Server) error {
			_, err := s.ConfigureModel(ctx, name, 1, vectors(name, 3, func(c *ModelConfig) { c.Floor = 0.125 }), "test")
			return err
		})
		if won != 1 {
			t.Fatalf("%d configured %s", won, name)
		}
		wantCode(t, err, Conflict, "version")
	}
	agree(t, nodes...)
}

// TestClocksOfNodes: one clock that is a day ahead, or behind, closes no window early, forgets no key, and makes its
// node not ready; windows close when the others' clocks have passed their ends.
func TestClocksOfNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, nodes, clocks := three(t)
	short := vectors("news", 3, func(c *ModelConfig) { c.Reward.Window = Duration(time.Hour) })
	if _, err := nodes[0].CreateModel(ctx, short, "test"); err != nil {
		t.Fatal(err)
	}
	r := DecideRequest{Actions: actions(0, 4, 3), IdempotencyKey: "k"}
	d, err := nodes[0].Decide(ctx, "news", r)
	if err != nil {
		t.Fatal(err)
	}
	id := must(testKeys.Parse(d.EventID))
	early := &eventlog.Expire{Event: id.Event, Count: 1, Model: must(nodes[0].GetModel(ctx, "news")).Incarnation}
	if _, _, err := nodes[0].write(ctx, early); err != nil { // whoever writes it
		t.Fatal(err)
	}
	before := nodes[1].fold.Clock()
	for _, day := range []time.Duration{48 * time.Hour, -48 * time.Hour, 2 * time.Second, -2 * time.Second} {
		clocks[0].off.Store(int64(day)) // of the node that closes windows
		eventually(t, func() bool { h := nodes[0].Health(); return !h.Ready && strings.Contains(h.Reason, "clock") })
		if h := nodes[1].Health(); !h.Ready {
			t.Errorf("another node is not ready: %s", h.Reason)
		}
		from := nodes[1].progress.applied.Load()
		eventually(t, func() bool { return nodes[1].progress.applied.Load() > from+20 })  // with checkpoints of all
		at, err := nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)}) // by the wrong clock
		if err != nil {
			t.Fatal(err)
		}
		from = nodes[1].progress.applied.Load()
		eventually(t, func() bool { return nodes[1].progress.applied.Load() > from+20 })
		if got, err := nodes[1].Reward(ctx, RewardRequest{EventID: at.EventID, Value: 1}); err != nil || got.Status != Accepted {
			t.Errorf("clock %v: the reward of a decision by that clock: %+v, %v", day, got, err)
		}
		status := func() (v EventView) { v, _ = nodes[1].Event(ctx, d.EventID); return v }
		if s := status().Status; s != "open" {
			t.Errorf("clock %v: the window is %s", day, s)
		}
		if again, err := nodes[2].Decide(ctx, "news", r); err != nil || again.EventID != d.EventID {
			t.Errorf("clock %v: the key made another decision: %+v, %v", day, again, err)
		}
	}
	clocks[0].off.Store(0)
	nodes[1].mu.RLock()
	if now := nodes[1].fold.Clock(); now <= before || now > time.Now().Add(time.Minute).UnixNano() {
		t.Errorf("the clock of the log went from %v to %v", before, now)
	}
	nodes[1].mu.RUnlock()
	for _, c := range clocks {
		c.off.Store(int64(2 * time.Hour))
	}
	eventually(t, func() bool { v, err := nodes[2].Event(ctx, d.EventID); return err == nil && v.Status == "closed" })
	// The next live node closes the windows of one that is gone.
	d, err = nodes[1].Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range clocks {
		c.off.Store(int64(4 * time.Hour))
	}
	eventually(t, func() bool { v, err := nodes[2].Event(ctx, d.EventID); return err == nil && v.Status == "closed" })
	agree(t, nodes[1:]...)
}

// blind is a log whose reader sees nothing new while it is shut.
type blind struct {
	eventlog.Log
	mu   sync.Mutex
	shut bool
}

func (l *blind) set(shut bool) { l.mu.Lock(); l.shut = shut; l.mu.Unlock() }

func (l *blind) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range l.Log.Read(ctx, shard, from) {
			await.Poll(func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return !l.shut || ctx.Err() != nil
			})
			if !yield(e, err) {
				return
			}
		}
	}
}

// asked is a log that is asked for its replicas: a node does that after each of its checkpoints.
type asked struct {
	blind
	asked atomic.Bool
}

func (l *asked) Replicas(context.Context) ([]eventlog.Replica, error) {
	l.asked.Store(true)
	return nil, errors.New("none")
}

// deaf is a log that stores what is appended while it is shut only when it is open again, at most as long as the try allows.
type deaf struct {
	blind
	tried chan struct{} // capacity 1: an Append waits
}

func (l *deaf) Append(ctx context.Context, shard uint16, id string, batch []byte) (uint64, bool, error) {
	await.Poll(func() bool {
		l.mu.Lock()
		shut := l.shut
		l.mu.Unlock()
		if shut {
			select {
			case l.tried <- struct{}{}:
			default:
			}
		}
		return !shut || ctx.Err() != nil
	})
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	return l.Log.Append(ctx, shard, id, batch)
}

// TestUnknownAtAnyNode: callers give up at a node that is cut off, and are told what they can do. With a key they get the decision that counts from another node, whether the first
// one is stored later or is void; the node that was cut off gives it too when it is back. Without a key they are told that a repetition is another decision.
func TestUnknownAtAnyNode(t *testing.T) {
	for _, late := range []bool{false, true} {
		if late && os.Getenv("TROUPE_LONG") == "" {
			continue // many entries
		}
		m, nodes, _ := three(t)
		if _, err := nodes[0].CreateModel(t.Context(), vectors("news", 3), "test"); err != nil {
			t.Fatal(err)
		}
		if err := nodes[2].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := &deaf{blind{Log: m}, make(chan struct{}, 1)}
		cut, err := openNode(t, l, 2, &nodeClock{}, func(o *Options) { o.Cluster.Every = time.Hour })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.set(false); _ = cut.Close(context.Background()) })
		eventually(t, func() bool { return cut.committer.Stats().Batches > 0 }) // its checkpoint, the only one for an hour
		paid, err := cut.Decide(t.Context(), "news", DecideRequest{Actions: actions(0, 4, 3), MinSeq: must(m.Info(t.Context(), 0)).Last})
		if err != nil {
			t.Fatal(err)
		}
		l.set(true)
		cut.nodes.contact.Store(int64(time.Hour)) // it does not find out here that it is cut off
		keyed, plain := DecideRequest{Actions: actions(1, 4, 3), IdempotencyKey: "order 7"}, DecideRequest{Actions: actions(2, 4, 3)}
		ctx, giveUp := context.WithCancel(t.Context())
		calls := []func() error{ // the first one is under way, the others are in one batch behind it
			func() error { _, err := cut.Decide(ctx, "news", keyed); return err },
			func() error { _, err := cut.Decide(ctx, "news", plain); return err },
			func() error { _, err := cut.Reward(ctx, RewardRequest{EventID: paid.EventID, Value: 1}); return err },
			func() error {
				_, err := cut.Reward(ctx, RewardRequest{EventID: paid.EventID, Value: 1, Key: "once"})
				return err
			},
		}
		told := make([]error, len(calls))
		var callers sync.WaitGroup
		for i, call := range calls {
			waiting := cut.committer.Stats().Waiting
			callers.Go(func() { told[i] = call() })
			if i == 0 {
				<-l.tried
			} else {
				eventually(t, func() bool { return cut.committer.Stats().Waiting > waiting })
			}
		}
		giveUp()
		callers.Wait()
		for i, words := range []string{"the same Idempotency-Key, at any node", "has no Idempotency-Key, so a repetition is another decision", "where the model's rule is first", "it counts once"} {
			var e *Error
			if wantCode(t, told[i], Unavailable, "not known whether", words); !errors.As(told[i], &e) || !e.Unknown {
				t.Errorf("%v: want an unknown outcome", told[i])
			}
		}
		first, err := nodes[0].Decide(t.Context(), "news", keyed)
		if err != nil || first.Repeated {
			t.Fatalf("%+v, %v", first, err)
		}
		if late {
			busy, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: testKeys.Batches(), Applied: nodes[0].nodes.appliedHead})
			if err != nil {
				t.Fatal(err)
			}
			for i := range eventlog.VoidAfter + 1 {
				if _, err := busy.Append(t.Context(), eventlogtest.Event(int64(i))); err != nil {
					t.Fatal(err)
				}
			}
			if err := busy.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.set(false)
		counted := func() uint64 { return must(nodes[1].GetModel(t.Context(), "news")).Counts.Decisions }
		if late {
			eventually(t, func() bool { return cut.committer.Stats().Void > 0 })
		} else {
			eventually(t, func() bool { return counted() == 3 }) // with the one that has no key
		}
		eventually(t, func() bool { return cut.progress.applied.Load() >= first.Seq })
		for _, s := range []*Server{cut, nodes[1]} {
			again, err := s.Decide(t.Context(), "news", keyed)
			if err != nil || again.EventID != first.EventID || !again.Repeated {
				t.Errorf("late %v: %+v and then %+v, %v", late, first, again, err)
			}
		}
		if n := counted(); n > 3 || n < 2 { // what waited behind a batch that is void may be stored in time
			t.Errorf("late %v: %d decisions count", late, n)
		}
	}
}

// TestNodeBehind: a node that reads nothing for too many entries tells its callers that their calls do not count, and
// they do not; the others do not stop, and it goes on when it reads again.
func TestNodeBehind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	l := &blind{Log: m}
	if err := nodes[2].Close(ctx); err != nil {
		t.Fatal(err)
	}
	cut, err := openNode(t, l, 2, &nodeClock{}, func(o *Options) { o.Cluster.Every = time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cut.Close(context.Background()) })
	if _, err := cut.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3), MinSeq: created}); err != nil {
		t.Fatal(err)
	}
	l.set(true)
	busy, err := eventlog.NewCommitter(m, eventlog.CommitterOptions{Format: eventlog.Format3, Keys: testKeys.Batches(), Applied: nodes[0].nodes.appliedHead})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30_000 {
		if _, err := busy.Append(ctx, eventlogtest.Event(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := busy.Close(ctx); err != nil {
		t.Fatal(err)
	}
	cut.nodes.contact.Store(int64(cut.nodes.passed()))
	_, err = cut.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3)})
	wantCode(t, err, Unavailable, "not recorded", "does not count")
	var told *Error
	if errors.As(err, &told); told.Unknown {
		t.Errorf("%v: its outcome is known", err)
	}
	if h := cut.Health(); h.Committer.Void != 1 {
		t.Errorf("%+v", h.Committer)
	}
	cut.nodes.contact.Store(int64(cut.nodes.passed() - 6*time.Second))
	_, err = cut.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3)})
	wantCode(t, err, Unavailable, "majority")
	if h := cut.Health(); h.Ready {
		t.Error("a node that is cut off is ready")
	}
	if _, err := nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(2, 4, 3)}); err != nil {
		t.Fatal(err)
	}
	l.set(false)
	end := must(m.Info(ctx, 0)).Last
	if _, err := cut.progress.until(ctx, end); err != nil {
		t.Fatal(err)
	}
	cut.nodes.contact.Store(int64(cut.nodes.passed()))
	if _, err := cut.Decide(ctx, "news", DecideRequest{Actions: actions(3, 4, 3)}); err != nil {
		t.Fatal(err)
	}
	agree(t, nodes[0], nodes[1], cut)
	if n := nodes[1].fold.Named("news").Counts.Decisions; n != 3 {
		t.Errorf("%d decisions count, want 3", n)
	}
}

// TestKeysOfNodes: keys are rotated node by node, first the new key everywhere and then its use; ids of both are good at
// every node all the time, and a node that would break that does not start.
func TestKeysOfNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	key := func(n byte) []byte { return slices.Repeat([]byte{n}, 32) }
	with := func(current byte, all ...byte) eventlog.IDKeys {
		k := eventlog.IDKeys{Current: current, Keys: map[byte][]byte{}}
		for _, n := range all {
			k.Keys[n] = key(n)
		}
		return k
	}
	m, nodes, clocks := three(t, func(o *Options) { o.Keys = with(1, 1) })
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	created := nodes[0].Health().Log
	var ids []string
	decideAll := func() {
		t.Helper()
		for _, s := range nodes {
			d, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3), MinSeq: created})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, d.EventID)
		}
		for _, s := range nodes {
			for _, id := range ids {
				if _, err := s.Event(ctx, id); err != nil {
					t.Fatalf("%s: %v", id, err)
				}
			}
		}
	}
	start := func(i int, k eventlog.IDKeys) error {
		s, err := openNode(t, m, i, clocks[i], func(o *Options) { o.Keys = k })
		if err == nil {
			nodes[i] = s
			t.Cleanup(func() { _ = s.Close(context.Background()) })
			said := s.Health().Log
			eventually(t, func() bool { h := s.Health(); return h.Ready && h.Applied > said+1 && h.Cluster.Nodes[i].Applied > 0 })
		}
		return err
	}
	again := func(i int, k eventlog.IDKeys) {
		t.Helper()
		if err := nodes[i].Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := start(i, k); err != nil {
			t.Fatal(err)
		}
		decideAll()
	}
	decideAll()
	again(0, with(1, 1, 2))
	again(1, with(1, 1, 2))
	if err := nodes[1].Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := start(1, with(2, 1, 2)); err == nil || !strings.Contains(err.Error(), "key 2 of fingerprint "+KeyFingerprint(2, key(2)).String()+", which node c does not have") {
		t.Fatalf("a new key that node c does not have is used: %v", err)
	}
	if err := start(1, with(2, 2)); err == nil || !strings.Contains(err.Error(), "its MAC is of a key that keys.json does not have") {
		t.Fatalf("a node without the others' key: %v", err)
	}
	dropped := with(2, 2)
	dropped.Dropped = map[byte][]byte{1: key(1)}
	if err := start(1, dropped); err == nil || !strings.Contains(err.Error(), "which is not in keys.json of this node") {
		t.Fatalf("a node that does not recognise the ids of the others: %v", err)
	}
	if err := start(1, with(1, 1, 2)); err != nil {
		t.Fatal(err)
	}
	again(2, with(1, 1, 2))
	for i := range nodes {
		again(i, with(2, 1, 2))
	}
	if got := nodes[0].Health().Cluster.KeyNumbers; !slices.Equal(got, []int{2, 1}) {
		t.Errorf("key numbers are %v", got)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
		t.Error("two events have one id")
	}
	for i := range nodes { // the ids of the first key are not recognised any more; what stands under it counts
		if err := nodes[i].Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := start(i, dropped); err != nil {
			t.Fatal(err)
		}
	}
	if n := nodes[0].Health().Cluster.Unwritten; n != 0 {
		t.Errorf("%d entries have no effect", n)
	}
	agree(t, nodes...)
}

// TestOtherCluster: a node with other keys, other nodes, or a name that is not among them does not start.
func TestOtherCluster(t *testing.T) {
	m, nodes, _ := three(t)
	for want, edit := range map[string]func(*Options){
		"give every node the same keys.json": func(o *Options) {
			o.Keys = eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("another key of 32 bytes, or more")}}
		},
		"give every node the same cluster.toml": func(o *Options) { o.Cluster.Nodes = []string{"a", "b", "c", "d", "e"} },
		`node "x" is not one`:                   func(o *Options) { o.Cluster.Node = "x" },
	} {
		if s, err := openNode(t, m, 2, &nodeClock{}, edit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
			if err == nil {
				_ = s.Close(t.Context())
			}
		}
	}
	agree(t, nodes...)
}

// TestStaleReads: a node that may be more than 5 s behind answers no call, also none that only reads, and is not ready;
// the others do.
func TestStaleReads(t *testing.T) {
	ctx := t.Context()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3), "test"); err != nil {
		t.Fatal(err)
	}
	d, err := nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)})
	if err != nil {
		t.Fatal(err)
	}
	l := &asked{blind: blind{Log: m}}
	s, err := openNode(t, l, 2, &nodeClock{}, func(o *Options) { o.Cluster.Every = time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.set(false); _ = s.Close(context.Background()) })
	reads := map[string]func(*Server) error{
		"model":  func(s *Server) error { _, err := s.GetModel(ctx, "news"); return err },
		"models": func(s *Server) error { _, _, err := s.ListModels(ctx, "", 0); return err },
		"event":  func(s *Server) error { _, err := s.Event(ctx, d.EventID); return err },
		"state":  func(s *Server) error { _, err := s.State(ctx, "news"); return err },
		"log":    func(s *Server) error { _, err := s.Log(ctx, "news", 1, 10); return err },
	}
	for name, read := range reads {
		if err := read(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually(t, func() bool { return l.asked.Load() && s.Health().Lag == 0 }) // its only checkpoint has come back, and is applied
	l.set(true)
	s.nodes.contact.Store(int64(s.nodes.passed() - contactFor - time.Millisecond))
	for name, read := range reads {
		wantCode(t, read(s), Unavailable, "majority")
		if err := read(nodes[0]); err != nil {
			t.Errorf("%s at another node: %v", name, err)
		}
	}
	if h := s.Health(); h.Ready || h.Cluster == nil {
		t.Errorf("a node that is behind is ready: %+v", h)
	}
}

// TestOtherMembers: the log of a cluster that was exported goes on at a single machine, whose clock closes windows, and,
// imported, at a cluster with other nodes; without an import these do not start.
func TestOtherMembers(t *testing.T) {
	ctx := t.Context()
	m, nodes, _ := three(t)
	if _, err := nodes[0].CreateModel(ctx, vectors("news", 3, func(c *ModelConfig) { c.Reward.Window = Duration(time.Hour) }), "test"); err != nil {
		t.Fatal(err)
	}
	d, err := nodes[0].Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nodes {
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	others := func(imported uint64) func(*Options) {
		return func(o *Options) {
			o.Cluster.Node, o.Cluster.Nodes, o.Cluster.Imported = "x", []string{"x"}, imported
		}
	}
	if s, err := openNode(t, m, 0, &nodeClock{}, others(0)); err == nil {
		t.Error("another cluster goes on with the log")
		_ = s.Close(ctx)
	}
	end := must(m.Info(ctx, 0)).Last
	s, err := openNode(t, m, 0, &nodeClock{}, others(end))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { h := s.Health(); return h.Ready && len(h.Cluster.Nodes) == 1 && h.Cluster.Nodes[0].Live })
	if got, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}); err != nil || got.Status != Accepted {
		t.Errorf("%+v, %v", got, err)
	}
	again, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	clock := &nodeClock{}
	clock.off.Store(int64(2 * time.Hour))
	one, err := Open(ctx, Options{Log: m, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close(context.Background())
	eventually(t, func() bool { v, err := one.Event(ctx, again.EventID); return err == nil && v.Status == "closed" })
	if one.fold.Nodes() != nil {
		t.Error("the log is still a cluster's")
	}
}
