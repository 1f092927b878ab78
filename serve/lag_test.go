package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/eventlog/eventlogtest"
	"troupe/spec"
)

// wide returns candidates of d coordinates, of which a few are not zero.
func wide(r *rand.Rand, d, k int) (out []Action) {
	for i := range k {
		x := make([]float64, d)
		for range 8 {
			x[r.IntN(d)] = r.Float64()/4 - 0.1
		}
		out = append(out, Action{ID: fmt.Sprint(i), Features: fmt.Append(nil, vectorText(x))})
	}
	return out
}

func vectorText(x []float64) string {
	b := []byte{'['}
	for i, v := range x {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, v)
	}
	return string(append(b, ']'))
}

// TestLaggingModel: while a model chooses λ anew, which is stopped halfway here, the others decide and learn, and so does
// the model itself, on the state of before. When it goes on, the state is that of a server without the pause, bit for
// bit, and every decision replays.
func TestLaggingModel(t *testing.T) {
	ctx := context.Background()
	const d = 130
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	dir := t.TempDir()
	s := open(t, log, &fakeClock{}, func(o *Options) { o.Wait, o.Dir, o.SnapshotEvery = time.Minute, dir, 1 })
	var steps atomic.Int64
	gate, reached := make(chan struct{}), make(chan struct{})
	s.lagging.step = func(c bandit.Work) bool {
		if steps.Add(1) == d {
			close(reached)
			<-gate
		}
		return c.Step()
	}
	auto := DefaultConfig("auto")
	auto.Dim = d
	must(s.CreateModel(ctx, auto, ""))
	must(s.CreateModel(ctx, DefaultConfig("other"), ""))
	r := rand.New(rand.NewPCG(1, 2))
	var events []string
	play := func(name string, n int) (seq uint64) {
		for range n {
			q := DecideRequest{Actions: named("a", "b")}
			if name != "other" {
				q.Actions = wide(r, d, 3)
			}
			e := must(s.Decide(ctx, name, q))
			events = append(events, e.EventID)
			seq = must(s.Reward(ctx, RewardRequest{EventID: e.EventID, Value: r.Float64()})).Seq
		}
		return seq
	}
	last := play("auto", 16)
	<-reached
	before := must(s.GetModel(ctx, "auto"))
	if state := must(s.State(ctx, "auto")); state.Learned != 16 || state.Seq >= last {
		t.Errorf("the state is of entry %d and %d updates, with the last in entry %d", state.Seq, state.Learned, last)
	}
	// 16 events more make another choice due, before the first one is done.
	last = play("auto", 20)
	basis := must(s.Decide(ctx, "auto", DecideRequest{Actions: wide(r, d, 3)})).BasisSeq
	if basis >= last || basis < before.Created.Seq {
		t.Errorf("a decision is on entry %d", basis)
	}
	play("other", 30)
	if m := must(s.GetModel(ctx, "other")); m.Counts.Learned != 30 {
		t.Errorf("the other model has learned %d events", m.Counts.Learned)
	}
	if v := must(s.Decide(ctx, "other", DecideRequest{Actions: named("a", "b"), MinSeq: last})); v.BasisSeq <= last {
		t.Errorf("the other model decides on entry %d", v.BasisSeq)
	}
	must(s.PauseModel(ctx, "auto", ""))
	if _, err := s.Decide(ctx, "auto", DecideRequest{Actions: wide(r, d, 3)}); err == nil {
		t.Error("a model that lags cannot be paused")
	}
	must(s.ResumeModel(ctx, "auto", ""))
	s.opt.Wait, s.lagging.wait = 50*time.Millisecond, 50*time.Millisecond // for those that wait in vain
	for name, err := range map[string]error{
		"decide":    second(s.Decide(ctx, "auto", DecideRequest{Actions: wide(r, d, 3), MinSeq: last})),
		"clone":     second(s.CloneModel(ctx, CloneRequest{From: "auto", Name: "copy"})),
		"rollback":  second(s.RollbackModel(ctx, RollbackRequest{Name: "auto", ToSeq: last})),
		"configure": second(s.ConfigureModel(ctx, "auto", 0, before.Config, "")),
	} {
		var e *Error
		if !errors.As(err, &e) || e.Code != Unavailable || e.RetryAfter == 0 {
			t.Errorf("%s: %v, want to be told to try again", name, err)
		}
	}
	if seq, _ := s.snapshots.status(); seq == 0 || seq > basis+1 { // the reward that made λ due is in entry basis + 2
		t.Errorf("there is a snapshot of entry %d, the model lagged after %d", seq, basis)
	}
	close(gate)
	s.opt.Wait, s.lagging.wait = time.Minute, time.Minute
	if err := s.caughtUp(ctx, "auto"); err != nil {
		t.Fatal(err)
	}
	if n := steps.Load(); n < 4*d {
		t.Errorf("%d steps, want two choices of %d", n, 2*d)
	}
	if v := must(s.Decide(ctx, "auto", DecideRequest{Actions: wide(r, d, 3), MinSeq: last})); v.BasisSeq < last {
		t.Errorf("a decision that wants entry %d is on entry %d", last, v.BasisSeq)
	}
	must(s.CloneModel(ctx, CloneRequest{From: "auto", Name: "copy"}))
	mixed := DefaultConfig("mixed")
	mixed.Dim = d
	if err := mixed.Policy.DecodeSpec(spec.Raw{"kind": "mixed", "epsilon": 0.1, "base": spec.Raw{"kind": "auto"}}, "policy"); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, mixed, ""))
	steps.Store(d)
	play("mixed", 36)
	if err := s.caughtUp(ctx, "mixed"); err != nil || steps.Load() < 5*d {
		t.Errorf("the base of mixed: %v, %d steps", err, steps.Load())
	}
	applied(s)
	for i, e := range events {
		if got := must(s.Replay(ctx, e)); !got.Equal {
			t.Fatalf("event %d does not replay: %v", i, got.Differs)
		}
	}
	again := open(t, log, &fakeClock{}) // folds the log from entry 1, without a pause
	for _, name := range []string{"auto", "copy", "other", "mixed"} {
		a, b := must(s.State(ctx, name)), must(again.State(ctx, name))
		if a.Digest != b.Digest || !bytes.Equal(a.Snapshot, b.Snapshot) || a.Learned != b.Learned || a.Learned < 30 {
			t.Errorf("%s: digest %v after %d events, without a pause %v after %d", name, a.Digest, a.Learned, b.Digest, b.Learned)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestCloseLagging: a server that is closed while a model lags writes a snapshot with all that the log has.
func TestCloseLagging(t *testing.T) {
	ctx := context.Background()
	log, dir := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), t.TempDir()
	s := open(t, log, &fakeClock{}, func(o *Options) { o.Dir = dir })
	s.lagging.step = func(bandit.Work) bool { <-s.ctx.Done(); return false }
	c := DefaultConfig("auto")
	c.Dim = 128
	must(s.CreateModel(ctx, c, ""))
	r := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		e := must(s.Decide(ctx, "auto", DecideRequest{Actions: wide(r, 128, 2)}))
		must(s.Reward(ctx, RewardRequest{EventID: e.EventID, Value: r.Float64()}))
	}
	applied(s)
	if m := must(s.GetModel(ctx, "auto")); m.Counts.Learned != 16 {
		t.Fatalf("%d events were learned before the choice", m.Counts.Learned)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	restored, folded := open(t, log, &fakeClock{}, func(o *Options) { o.Dir = dir }), open(t, log, &fakeClock{})
	if restored.recovery.Snapshot == 0 {
		t.Fatal("there is no snapshot")
	}
	a, b := must(restored.State(ctx, "auto")), must(folded.State(ctx, "auto"))
	if a.Digest != b.Digest || a.Learned != 40 || b.Learned != 40 {
		t.Errorf("digests %v and %v after %d and %d events", a.Digest, b.Digest, a.Learned, b.Learned)
	}
}
