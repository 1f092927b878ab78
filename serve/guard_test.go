package serve

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// watched makes a guarded model with a margin of .2 of rewards in [0, 1].
func watched(name string) ModelConfig {
	c := DefaultConfig(name)
	guardedAs(&c)
	return c
}

// guardedVisits decides with the baseline 0 and pays: action b is the better one.
func guardedVisits(t *testing.T, from, to int, at ...*Server) {
	t.Helper()
	for i := from; i < to; i++ {
		s, other := at[i%len(at)], at[(i+1)%len(at)]
		d := must(s.Decide(t.Context(), "m", DecideRequest{Actions: named("a", "b"), Baseline: new(0), MinSeq: s.progress.applied.Load(), IdempotencyKey: fmt.Sprint("g", i)}))
		if d.Mode != Guarded {
			t.Fatalf("decision %d has the mode %s", i, d.Mode)
		}
		y := 0.
		if i%10 < 4 || d.Action.ID == "b" && i%10 < 9 {
			y = 1
		}
		if i%7 > 0 { // others end with their window
			must(other.Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: y}))
		}
	}
}

// checkGuarded checks the records of a guarded model, and returns how many played the baseline and the policy.
func checkGuarded(t *testing.T, s *Server) (baseline, policy int) {
	t.Helper()
	for d, err := range must(s.Decisions(t.Context(), "m", 0, 1_000_000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		r := d.Record
		switch {
		case r.Baseline != 1:
			t.Fatalf("entry %d has the baseline %d", d.Seq, r.Baseline)
		case r.Play == eventlog.PlayBaseline && r.Mode == eventlog.Apprentice && r.Num == r.Den && r.Index == 0 && r.WouldAction != "":
			baseline++
		case r.Play == eventlog.PlayLaw && r.Mode == eventlog.Online && r.WouldAction == "":
			policy++
		default:
			t.Fatalf("entry %d: play %d, mode %v, %d/%d", d.Seq, r.Play, r.Mode, r.Num, r.Den)
		}
	}
	return baseline, policy
}

// TestGuarded: the baseline is played at first, the policy once that cannot break the margin, and mostly in the end; the
// records say which and replay, from the log alone and after a restart, where the guard goes on with the same state; a
// request without a baseline is refused by name.
func TestGuarded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir, log, clock := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	edit := func(o *Options) { o.Dir, o.SnapshotAfter = dir, 50 }
	s := open(t, log, clock, edit)
	must(s.CreateModel(ctx, watched("m"), ""))
	guardedVisits(t, 0, 3, s)
	if v := must(s.GetModel(ctx, "m")).Guard; v == nil || v.Plays || v.Decisions != 3 || v.Policy != 0 {
		t.Fatalf("after three decisions: %+v", v)
	}
	guardedVisits(t, 3, 120, s)
	clock.forward(time.Duration(must(s.GetModel(ctx, "m")).Config.Reward.Window))
	must(s.Expire(ctx))
	guardedVisits(t, 120, 700, s)
	clock.forward(time.Duration(must(s.GetModel(ctx, "m")).Config.Reward.Window))
	must(s.Expire(ctx))
	guardedVisits(t, 700, 760, s)
	baseline, policy := checkGuarded(t, s)
	if baseline < 40 || policy < 100 {
		t.Errorf("%d decisions played the baseline, %d the policy: this shows too little", baseline, policy)
	}
	v := must(s.GetModel(ctx, "m")).Guard
	if v.Lower < -.2 || v.Decisions != 760 || int(v.Policy) != policy {
		t.Errorf("the guard: %+v", v)
	}
	replayAll(t, s, s, "at first")
	d := must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b"), Baseline: new(1), IdempotencyKey: "again"}))
	if again := must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b"), Baseline: new(1), IdempotencyKey: "again"})); !again.Repeated || again.Mode != d.Mode || again.Action != d.Action || (again.Would == nil) != (d.Would == nil) {
		t.Errorf("a repetition: %+v, first %+v", again, d)
	}
	for field, q := range map[string]DecideRequest{
		"baseline":         {Actions: named("a", "b")},
		"defer_activation": {Actions: named("a", "b"), Baseline: new(0), Deferred: true},
	} {
		var e *Error
		if _, err := s.Decide(ctx, "m", q); !errors.As(err, &e) || e.Code != Invalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	must(s.CreateModel(ctx, DefaultConfig("plain"), ""))
	if _, err := s.Decide(ctx, "plain", DecideRequest{Actions: named("a", "b"), Baseline: new(0), Mode: Guarded}); err == nil {
		t.Error("a model without a guard has the mode")
	}
	want := *must(s.GetModel(ctx, "m")).Guard
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock, edit)
	alone := open(t, log, clock)
	for when, s := range map[string]*Server{"after a restart": s, "from the log alone": alone} {
		if got := *must(s.GetModel(ctx, "m")).Guard; got != want {
			t.Errorf("%s: %+v, before %+v", when, got, want)
		}
	}
	replayAll(t, s, alone, "from the log alone")

	// A rollback keeps what was lost, a copy begins anew, and another margin goes on with the same state.
	must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: 40}))
	if got := *must(s.GetModel(ctx, "m")).Guard; got.Decisions != want.Decisions || got.Lower != want.Lower {
		t.Errorf("after a rollback: %+v, before %+v", got, want)
	}
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	if got := *must(s.GetModel(ctx, "copy")).Guard; got.Decisions != 0 || got.Plays {
		t.Errorf("a copy: %+v", got)
	}
}

// TestGuardedOnThreeNodes: three nodes have one guard, and replay one another's decisions.
func TestGuardedOnThreeNodes(t *testing.T) {
	t.Parallel()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(t.Context(), watched("m"), ""))
	until := func() {
		for _, s := range nodes {
			must(s.progress.until(t.Context(), nodes[0].Health().Log))
		}
	}
	until()
	guardedVisits(t, 0, 150, nodes...)
	until()
	if baseline, policy := checkGuarded(t, nodes[1]); baseline < 20 || policy < 5 {
		t.Errorf("%d decisions played the baseline, %d the policy: this shows too little", baseline, policy)
	}
	replayAll(t, nodes[1], nodes[2], "at another node")
	agree(t, nodes...)
}
