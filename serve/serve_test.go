package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/serve/fold"
	"troupe/spec"
	"troupe/timing"
)

// children are what this binary does instead of tests when an environment variable says so; each
// returns true when it was its turn.
var children = []func() bool{child, restartChild, budgetChild}

func TestMain(m *testing.M) {
	for _, work := range children {
		if work() {
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// fakeClock is a clock that tests turn.
type fakeClock struct{ ns atomic.Int64 }

func (c *fakeClock) now() time.Time          { return time.Unix(1_800_000_000, c.ns.Load()).UTC() }
func (c *fakeClock) forward(d time.Duration) { c.ns.Add(int64(d)) }

var testKeys = eventlog.IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("0123456789abcdef0123456789abcdef")}}

// open opens a server on a log, with the clock in the test's hand.
func open(t testing.TB, log eventlog.Log, clock *fakeClock, edit ...func(*Options)) *Server {
	t.Helper()
	o := Options{Log: log, Keys: testKeys, Clock: timing.At(clock.now), ExpireEvery: -1, SnapshotEvery: -1, Wait: time.Minute}
	for _, f := range edit {
		f(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func vectors(name string, d int, edit ...func(*ModelConfig)) ModelConfig {
	c := DefaultConfig(name)
	c.Dim, c.Floor = d, 0
	c.Policy = PolicySpec{Raw: spec.Raw{"kind": "ensemble"}, Options: policy.Kinds["ensemble"]()}
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt, c.Reward.Default = -1, 1, false, Maybe{Word: "none"}
	for _, f := range edit {
		f(&c)
	}
	return c
}

// actions are k vectors of length d, different for each n.
func actions(n, k, d int) []Action {
	out := make([]Action, k)
	for i := range out {
		x := make([]float64, d)
		x[(n+i)%d] = 0.5
		x[(n*7+i*3+1)%d] += float64(i+1) / float64(4*k)
		b, err := json.Marshal(x)
		if err != nil {
			panic(err)
		}
		out[i] = Action{ID: fmt.Sprintf("a%d", i), Features: b}
	}
	return out
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func wantCode(t *testing.T, err error, code Code, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", code)
	}
	if CodeOf(err) != code {
		t.Fatalf("%v: code %s, want %s", err, CodeOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%v: want %q in it", err, w)
		}
	}
}

// TestWalk goes once through the life of a model, by hand.
func TestWalk(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	m, err := s.CreateModel(ctx, vectors("news", 3), "admin")
	if err != nil {
		t.Fatal(err)
	}
	if m.Dim != 3 || m.ConfigVersion != 1 || m.Incarnation == 0 {
		t.Fatalf("created: %+v", m)
	}
	_, err = s.CreateModel(ctx, vectors("news", 3), "admin")
	wantCode(t, err, Conflict)
	_, err = s.Decide(ctx, "sport", DecideRequest{Actions: actions(0, 4, 3)})
	wantCode(t, err, NotFound)

	d, err := s.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3), Explain: true})
	if err != nil {
		t.Fatal(err)
	}
	if d.Propensity.Num == 0 || d.Propensity.Den != 32 || len(d.Explain) != 4 || !d.Durable || d.Action.ID != fmt.Sprintf("a%d", d.Action.Index) {
		t.Fatalf("decided: %+v", d)
	}
	var sum uint64
	for _, e := range d.Explain {
		sum += e.Propensity.Num
	}
	if sum != 32 {
		t.Fatalf("the propensities add up to %d/32", sum)
	}
	before := must(s.State(ctx, "news"))
	r := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
	if r.Status != Accepted || r.Seq <= d.Seq {
		t.Fatalf("reward: %+v", r)
	}
	if after := must(s.State(ctx, "news")); after.Digest == before.Digest || after.Learned != 1 {
		t.Fatal("the reward changed nothing")
	}
	if r := must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1})); r.Status != Duplicate {
		t.Fatalf("second reward: %+v", r)
	}
	_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1.5})
	wantCode(t, err, Invalid, "value", "[-1, 1]")
	_, err = s.Reward(ctx, RewardRequest{EventID: strings.Replace(d.EventID, d.EventID[5:6], "z", 1) + "0", Value: 1})
	wantCode(t, err, BadEventID)

	// A second one gets no reward; its window closes; what comes later is late.
	d2 := must(s.Decide(ctx, "news", DecideRequest{Actions: actions(1, 4, 3), MinSeq: r.Seq}))
	if d2.BasisSeq < r.Seq {
		t.Fatalf("min_seq %d, decided on %d", r.Seq, d2.BasisSeq)
	}
	if n := must(s.Expire(ctx)); n != 0 {
		t.Fatalf("%d windows closed too early", n)
	}
	clock.forward(10*time.Minute + time.Second)
	if n := must(s.Expire(ctx)); n != 2 {
		t.Fatalf("%d windows closed, want 2", n)
	}
	if r := must(s.Reward(ctx, RewardRequest{EventID: d2.EventID, Value: 1})); r.Status != Late {
		t.Fatalf("late reward: %+v", r)
	}
	c := must(s.GetModel(ctx, "news")).Counts
	want := Counts{Decisions: 2, Rewards: 1, Late: 1, Expired: 1, Learned: 1, RewardSum: 1, Last: c.Last}
	if c != want {
		t.Fatalf("counts\n%+v, want\n%+v", c, want)
	}
	if v := must(s.Event(ctx, d.EventID)); v.Status != "closed" || v.Decision.Action != d.Action.ID || v.Model != "news" {
		t.Fatalf("event: %+v", v)
	}
	for _, id := range []string{d.EventID, d2.EventID} {
		if p := must(s.Replay(ctx, id)); !p.Equal {
			t.Fatalf("replay: %+v", p)
		}
	}
	must(s.PauseModel(ctx, "news", ""))
	_, err = s.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)})
	wantCode(t, err, Paused)
	must(s.ResumeModel(ctx, "news", ""))
	must(s.Decide(ctx, "news", DecideRequest{Actions: actions(0, 4, 3)}))
	if err := s.DeleteModel(ctx, "news", ""); err != nil {
		t.Fatal(err)
	}
	_, err = s.GetModel(ctx, "news")
	wantCode(t, err, NotFound)
	if h := s.Health(); !h.Ready || h.Lag != 0 || h.Missing != 0 || h.Forged != 0 || h.Malformed != 1 {
		t.Fatalf("health: %+v", h)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = s.Decide(ctx, "news", DecideRequest{})
	wantCode(t, err, Unavailable)
}

// counted counts what a history reads of a log.
type counted struct {
	fold.Log
	entries, gets int
}

func (c *counted) Get(seq uint64) (eventlog.Entry, error) {
	c.gets++
	return c.Log.Get(seq)
}

func (c *counted) Replay(chain *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
	return c.Log.Replay(chain, until, func(d eventlog.Delivery) error {
		c.entries++
		return f(d)
	})
}

// A rollback to a time before other rollbacks needs the states that those began with, and these need
// those of earlier ones. Each is computed once: n rollbacks fold the log n + 1 times, not 2ⁿ times, and
// the state is the same.
func TestRollbacksInRollbacks(t *testing.T) {
	ctx := t.Context()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("news", 3), ""))
	play := func(n int) (seq uint64) {
		for i := range n {
			d := must(s.Decide(ctx, "news", DecideRequest{Actions: actions(i, 4, 3)}))
			seq = must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})).Seq
		}
		return seq
	}
	play(3)
	const n = 12
	for range n {
		seq := play(2)
		play(1)
		must(s.RollbackModel(ctx, RollbackRequest{Name: "news", ToSeq: seq}))
	}
	last := s.progress.applied.Load()
	want := must(s.State(ctx, "news")).Digest

	c := &counted{Log: logReader{s.ctx, s.log}}
	h := &fold.History{Log: c, Nearest: func(uint64) []byte { return nil }}
	h.First.Store(1)
	f, _, err := h.Fold(nil, last)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.Named("news").State(); err != nil || s.Digest() != want {
		t.Errorf("folded from nothing: digest %v, %v; want %v", s.Digest(), err, want)
	}
	if c.entries > (n+1)*int(last) {
		t.Errorf("%d entries were read of a log of %d with %d rollbacks, want at most %d", c.entries, last, n, (n+1)*last)
	}
}

// Rewards for decisions that are not in memory, because the server was started again or much is newer, read
// the log. Those of one entry read it twice, not each; the rewards count as ever.
func TestLateRewardsReadTogether(t *testing.T) {
	ctx, clock := t.Context(), &fakeClock{}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(t, log, clock)
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	var ids []string
	for range 3 {
		var rs []DecideRequest
		for i := range 8 {
			rs = append(rs, DecideRequest{Actions: actions(i, 4, 3)})
		}
		for _, it := range must(s.DecideBatch(ctx, "m", rs)) {
			ids = append(ids, it.Decision.EventID)
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock)
	c := &counted{Log: s.past.Log}
	s.past.Log = c
	for _, id := range ids {
		if r := must(s.Reward(ctx, RewardRequest{EventID: id, Value: 0.5})); r.Status != Accepted {
			t.Fatalf("reward of %s: %+v", id, r)
		}
	}
	if c.gets != 6 {
		t.Errorf("%d rewards of 3 entries read the log %d times, want 6", len(ids), c.gets)
	}
	if k := must(s.GetModel(ctx, "m")).Counts; k.Rewards != 24 || k.Learned != 24 {
		t.Errorf("counts %+v", k)
	}
	// Who waits for another's reading waits no longer than he has time.
	far := must(s.keys.Parse(ids[0]))
	far.Hint = 999
	done := must(s.recent.Turn(ctx, far.Hint))
	far.Event.Batch = 77 // not in memory
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.Reward(short, RewardRequest{EventID: s.keys.Format(far), Value: 0.5})
	wantCode(t, err, Unavailable)
	done()
	before := s.Health().Missing
	far = must(s.keys.Parse(ids[0]))
	far.Event.Index = 99
	_, err = s.Reward(ctx, RewardRequest{EventID: s.keys.Format(far), Value: 0.5})
	wantCode(t, err, NotFound)
	if s.Health().Missing != before+1 {
		t.Error("an id of ours without a decision raised no alarm")
	}
}

// The clock decides when windows are closed and nothing else: while it jumps an hour forth and back, decisions
// and rewards are answered, each event that was not closed counts once, and the log folds to the same state.
func TestClockJumps(t *testing.T) {
	ctx, clock := t.Context(), &fakeClock{}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(t, log, clock)
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	var ids []string
	for i, jump := range []time.Duration{0, time.Hour, -time.Hour, -time.Hour, 2 * time.Hour, -time.Hour} {
		clock.forward(jump)
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(i, 4, 3), IdempotencyKey: fmt.Sprint(i)}))
		if again := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(i, 4, 3), IdempotencyKey: fmt.Sprint(i)})); again.EventID != d.EventID {
			t.Errorf("jump %d: the key made another decision", i)
		}
		ids = append(ids, d.EventID)
	}
	for i, id := range ids {
		if r := must(s.Reward(ctx, RewardRequest{EventID: id, Value: 0.5})); r.Status != Accepted {
			t.Errorf("reward %d: %s, no window was closed", i, r.Status)
		}
	}
	// At 0 h the windows that began an hour earlier have ended, and those of an hour later have not.
	if n := must(s.Expire(ctx)); n != 1 {
		t.Errorf("%d windows closed, want that of −1 h", n)
	}
	clock.forward(time.Hour + 11*time.Minute)
	if n := must(s.Expire(ctx)); n != 5 {
		t.Errorf("%d windows closed an hour later, want 5", n)
	}
	want, counts := must(s.State(ctx, "m")).Digest, must(s.GetModel(ctx, "m")).Counts
	if counts.Rewards != 6 || counts.Learned != 6 || counts.Open != 0 {
		t.Errorf("counts %+v", counts)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	clock.forward(-24 * time.Hour)
	s = open(t, log, clock)
	if got := must(s.State(ctx, "m")).Digest; got != want {
		t.Errorf("after a restart on another day: digest %v, want %v", got, want)
	}
	must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 4, 3)}))
}

// reseal gives bytes the checksum of a state.
func reseal(b []byte) []byte {
	if len(b) < sha256.Size {
		return nil
	}
	n := len(b) - sha256.Size
	sum := sha256.Sum256(b[:n])
	return append(append([]byte(nil), b[:n]...), sum[:]...)
}

// TestSnapshots: whatever becomes of the snapshots, the state is the same; a snapshot of an entry that
// the log does not have any more says that the log has lost its end.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log, clock, dir := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, t.TempDir()
	snap := filepath.Join(dir, "snapshots")
	with := func(o *Options) { o.Dir, o.SnapshotEvery = dir, 10 }
	s := open(t, log, clock, with)
	workload(s, clock)
	var last string
	for n := range 20 {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3), IdempotencyKey: fmt.Sprint(n)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.25}))
		last = d.EventID
	}
	state := func(s *Server) []byte {
		s.mu.Lock()
		defer s.mu.Unlock()
		return must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1)))
	}
	want := state(s)
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	files := must(filepath.Glob(filepath.Join(snap, "*.snap")))
	if len(files) < 2 || len(files) > 3 {
		t.Fatalf("%d snapshots, want 2 to %d", len(files), 3)
	}
	newest := files[len(files)-1]
	good := must(os.ReadFile(newest))
	reopen := func(name string, skipped int) {
		t.Helper()
		s, err := Open(ctx, Options{Log: log, Keys: testKeys, Clock: timing.At(clock.now), Dir: dir, ExpireEvery: -1, SnapshotEvery: -1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer func() { _ = s.Close(ctx) }()
		if !bytes.Equal(state(s), want) {
			t.Errorf("%s: another state", name)
		}
		if len(s.recovery.Skipped) != skipped {
			t.Errorf("%s: skipped %v, want %d", name, s.recovery.Skipped, skipped)
		}
		if r := must(s.Replay(ctx, last)); !r.Equal {
			t.Errorf("%s: replay: %v", name, r.Differs)
		}
		if d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(19, 3, 3), IdempotencyKey: "19"})); !d.Repeated || d.EventID != last {
			t.Errorf("%s: the key 19 is forgotten", name)
		}
	}
	reopen("whole", 0)
	write := func(b []byte) {
		if err := os.WriteFile(newest, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := 0; at < len(good); at += len(good)/23 + 1 {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		write(bad)
		reopen(fmt.Sprintf("bit flipped at byte %d", at), 1)
		write(good) // Close of reopen found nothing new to write
	}
	write(good[:len(good)/2])
	reopen("cut", 1)
	if err := os.RemoveAll(snap); err != nil {
		t.Fatal(err)
	}
	reopen("none", 0)

	// The end of the log is lost.
	log.Cut(0, 2)
	_, err := Open(ctx, Options{Log: log, Keys: testKeys, Dir: dir})
	var gap *eventlog.GapError
	if !errors.As(err, &gap) || gap.Last != must(newestSnapshot(snap)) {
		t.Fatalf("error %v, want a gap", err)
	}
	// Without a snapshot nobody knows, but an id that we signed does.
	if err := os.RemoveAll(snap); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock)
	_, err = s.Reward(ctx, RewardRequest{EventID: last, Value: 0})
	wantCode(t, err, NotFound, "not in the log")
	if h := s.Health(); h.Missing != 1 {
		t.Fatalf("health: %+v", h)
	}
}

func newestSnapshot(dir string) (uint64, error) {
	seqs, err := fold.Files(dir).List()
	if err != nil || len(seqs) == 0 {
		return 0, err
	}
	return seqs[0], nil
}

// TestKeysFile: keys are made once and read back; ids survive a restart; a damaged file is named.
func TestKeysFile(t *testing.T) {
	dir := t.TempDir()
	a := must(loadKeys(dir, true, 0))
	b := must(loadKeys(dir, false, 0))
	id := eventlog.EventID{Event: eventlog.Event{Epoch: 1, Batch: 2, Index: 3}, Hint: 4}
	if got, err := b.Parse(a.Format(id)); err != nil || got != id {
		t.Fatalf("%+v %v", got, err)
	}
	name := filepath.Join(dir, KeyFile)
	if info := must(os.Stat(name)); info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", info.Mode())
	}
	if err := os.WriteFile(name, []byte(`{"current":1,"keys":{"1":"AAAA"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(what, word string) {
		t.Helper()
		if _, err := loadKeys(dir, false, 0); err == nil || !strings.Contains(err.Error(), KeyFile) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: error %v, want %q in it", what, err, word)
		}
	}
	refused("a key that is too short", "key")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	refused("gone, with a log", "not there")
	if err := os.WriteFile(name, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := must(loadKeys(dir, false, 0))
	if _, err := c.Parse(a.Format(id)); err == nil {
		t.Error("the new keys are the old ones")
	}
	whole := must(os.ReadFile(name))
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := loadKeys(dir, false, 0); err == nil && got.Format(id) != c.Format(id) {
			t.Fatalf("a bit of byte %d is flipped, and the keys are others: %s", i, bad)
		}
	}
}

// TestCells: the ids of a cell's events begin with its character, of its first key and of its last, and a server does not
// start with the keys of another cell.
func TestCells(t *testing.T) {
	seen := map[byte]bool{}
	for cell := range eventlog.LastCell + 1 {
		k := must(loadKeys(t.TempDir(), true, cell))
		for range eventlog.CellKeys - 1 {
			text := k.Format(eventlog.EventID{Event: eventlog.Event{Epoch: 7, Batch: 3}})
			if text[0] != eventlog.CellMark(cell) || eventlog.CellOf(k.Current) != cell {
				t.Fatalf("cell %d, key %d: the id %s", cell, k.Current, text)
			}
			next := k.Current + 1
			k = eventlog.IDKeys{Current: next, Keys: map[byte][]byte{next: NewKey()}}
		}
		seen[eventlog.CellMark(cell)] = true
	}
	if len(seen) != 32 {
		t.Errorf("%d characters for 32 cells", len(seen))
	}
	dir := t.TempDir()
	for cell, want := range []string{"", "", "of cell 0, and this server is cell 2"} {
		s, err := Open(t.Context(), Options{Dir: dir, Cell: []int{0, 0, 2}[cell], ExpireEvery: -1})
		if err == nil {
			err = s.Close(t.Context())
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
