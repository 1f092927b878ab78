package serve

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/feature"
	"troupe/spec"
)

func changeTo(raw spec.Raw) *ModelChange {
	x := &ModelChange{}
	if err := x.Policy.DecodeSpec(raw, "policy"); err != nil {
		panic(err)
	}
	return x
}

// TestCloneWithAnotherPolicy: a copy with another policy has the state of that policy after the model's rewards in the
// order of the log, computed here from the records alone; it goes on to learn, comes back bit for bit, and can be rolled
// back and copied itself.
func TestCloneWithAnotherPolicy(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, vectors("old", 3), ""))
	must(s.CreateModel(ctx, DefaultConfig("noise"), ""))
	var events []string
	play := func(name string, n int) {
		for i := range n {
			d := must(s.Decide(ctx, name, DecideRequest{Actions: actions(i, 4, 3)}))
			events = append(events, d.EventID)
			if i%3 != 0 {
				must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(i%7) / 7}))
			}
			must(s.Decide(ctx, "noise", DecideRequest{Actions: named("a", "b")}))
		}
		applied(s)
	}
	play("old", 40)
	early := s.progress.applied.Load()
	play("old", 20)
	must(s.RollbackModel(ctx, RollbackRequest{Name: "old", ToSeq: early}))
	c := must(s.GetModel(ctx, "old")).Config
	c.Floor, c.Reward.Window = 0.1, Duration(time.Hour)
	must(s.ConfigureModel(ctx, "old", 0, c, ""))
	play("old", 30)
	auto := must(s.CloneModel(ctx, CloneRequest{From: "old", Name: "new", Change: changeTo(spec.Raw{"kind": "auto", "m": int64(8)})}))
	if auto.Config.Policy.Raw["kind"] != "auto" || auto.Config.Floor != 0.1 || auto.Counts.Learned != must(s.GetModel(ctx, "old")).Counts.Learned || auto.Counts.Learned < 40 {
		t.Fatalf("the copy is %+v, %+v", auto.Config, auto.Counts)
	}
	// The same from the records: rewards that counted, but those that the rollback took back.
	m := s.fold.Named("new")
	p := must(m.Compiled.NewPolicy(m.Seed))
	taken := must(s.GetModel(ctx, "old")).Changed.Seq
	var rollback uint64
	for seq := uint64(1); seq <= taken; seq++ {
		for _, r := range must(eventlog.ParseBatch(must(log.Get(ctx, 0, seq)).Data)).Events() {
			if c, ok := r.(*eventlog.Control); ok && c.Act == eventlog.Rollback {
				rollback = seq
			}
		}
	}
	for seq := uint64(1); seq <= auto.Created.Seq; seq++ {
		for _, r := range must(eventlog.ParseBatch(must(log.Get(ctx, 0, seq)).Data)).Events() {
			if r, ok := r.(*eventlog.Reward); ok && (seq <= early || seq > rollback) && len(r.X) > 0 {
				if err := p.Update(bandit.Action{X: r.X, Index: bandit.NoIndex}, r.Y, m.Targets(r.Event)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := must(s.State(ctx, "new")); !bytes.Equal(got.Snapshot, must(p.AppendSnapshot(nil))) {
		t.Error("the copy has another state than its policy after the rewards of the log")
	}
	at := must(s.CloneModel(ctx, CloneRequest{From: "old", Name: "then", AtSeq: early, Change: changeTo(spec.Raw{"kind": "auto", "m": int64(8)})}))
	if at.Counts.Learned >= auto.Counts.Learned || at.Counts.Learned == 0 {
		t.Errorf("the copy of entry %d has learned %d events", early, at.Counts.Learned)
	}
	reads := must(s.CloneModel(ctx, CloneRequest{From: "old", Name: "reads", Change: changeTo(spec.Raw{"kind": "effects"})}))
	if reads.Counts.Learned != auto.Counts.Learned || reads.Failed != "" || reads.Explained == nil {
		t.Errorf("the copy under effects is %+v", reads)
	}
	play("new", 20)
	play("reads", 5)
	must(s.CloneModel(ctx, CloneRequest{From: "new", Name: "again", Change: changeTo(spec.Raw{"kind": "atoms"})}))
	must(s.CloneModel(ctx, CloneRequest{From: "new", Name: "plain", AtSeq: auto.Created.Seq}))
	must(s.RollbackModel(ctx, RollbackRequest{Name: "new", ToSeq: auto.Created.Seq}))
	if a, b := must(s.State(ctx, "plain")), must(s.State(ctx, "new")); a.Digest != b.Digest {
		t.Error("a rollback to the beginning of the copy is not that beginning")
	}
	must(s.CloneModel(ctx, CloneRequest{From: "new", Name: "back", Change: changeTo(spec.Raw{"kind": "ensemble"})}))
	play("again", 5)
	for i, e := range events[len(events)-30:] {
		if r := must(s.Replay(ctx, e)); !r.Equal {
			t.Errorf("event %d does not replay: %v", i, r.Differs)
		}
	}
	restarted := open(t, log, clock)
	for _, name := range []string{"old", "new", "then", "again", "plain", "back", "reads"} {
		a, b := must(s.State(ctx, name)), must(restarted.State(ctx, name))
		if a.Digest != b.Digest || !bytes.Equal(a.Snapshot, b.Snapshot) || a.Learned != b.Learned {
			t.Errorf("%s: digest %v after a restart, want %v", name, b.Digest, a.Digest)
		}
	}
}

// TestCloneOfRequests: a copy with another half-life of a model that reads requests learns from the atoms in the log, its
// range and default are the model's, and it decides. The decisions that are open in the model are not in the copy.
func TestCloneOfRequests(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	world(t, s, clock, 60, 1)
	must(s.Decide(ctx, "m", DecideRequest{Context: []byte(`{"x": 1}`), Actions: named("a", "b")})) // stays open
	applied(s)
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "fades", Change: changeTo(spec.Raw{"kind": "effects", "half_life": int64(50)})}))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "still", Change: changeTo(spec.Raw{"kind": "effects", "change": "none"})}))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "same"}))
	a, b := must(s.GetModel(ctx, "m")), must(s.GetModel(ctx, "fades"))
	if b.Config.Policy.Raw["half_life"] != int64(50) || b.Counts.Learned != a.Counts.Learned || a.Counts.Learned == 0 || b.Range != a.Range || *b.Missing != *a.Missing || b.Explained == nil {
		t.Errorf("the copy is %+v, the model %+v", b, a)
	}
	digests := map[string]eventlog.ID{}
	for _, name := range []string{"m", "fades", "still", "same"} {
		digests[name] = must(s.State(ctx, name)).Digest
	}
	if digests["same"] != digests["m"] || digests["fades"] == digests["m"] {
		t.Errorf("digests %v", digests)
	}
	for _, name := range []string{"fades", "still"} {
		d := must(s.Decide(ctx, name, DecideRequest{Context: []byte(`{"x": 1}`), Actions: named("a", "b")}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
		if r := must(s.Replay(ctx, d.EventID)); !r.Equal {
			t.Errorf("does not replay: %v", r.Differs)
		}
	}
	restarted := open(t, log, clock)
	for _, name := range []string{"m", "fades", "still", "same"} {
		if a, b := must(s.State(ctx, name)), must(restarted.State(ctx, name)); a.Digest != b.Digest || !bytes.Equal(a.Snapshot, b.Snapshot) {
			t.Errorf("%s: digest %v after a restart, want %v", name, b.Digest, a.Digest)
		}
		if a, b := snapshotOf(s.fold.Named(name)), snapshotOf(restarted.fold.Named(name)); !bytes.Equal(a, b) {
			t.Errorf("%s: other open decisions after a restart", name)
		}
	}
}

// TestCloneRefused: what a copy cannot learn from the log is refused with the reason, and nothing is written.
func TestCloneRefused(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("old", 3), ""))
	must(s.CreateModel(ctx, DefaultConfig("requests"), ""))
	head := s.committer.Stats().Head.Seq
	schema := &ModelChange{Features: FeatureSpec{Schema: must(feature.Decode(spec.Raw{"features": []any{
		map[string]any{"feature": "id", "kind": "category", "levels": []any{"a", "b"}}}}, "features"))}}
	for _, c := range []struct {
		from   string
		change *ModelChange
		want   string
	}{
		{"old", schema, "not the requests"},
		{"requests", schema, "not the requests"},
		{"old", changeTo(spec.Raw{"kind": "ensemble"}), "is what the model has"},
		{"old", changeTo(spec.Raw{"kind": "ts"}), "cannot state its law"},
		{"old", changeTo(spec.Raw{"kind": "auto", "m": int64(100_000)}), "at most"},
		{"requests", changeTo(spec.Raw{"kind": "auto"}), "vectors of a fixed length"},
		{"requests", changeTo(spec.Raw{"kind": "effects"}), "is what the model has"},
		{"requests", &ModelChange{Sigma: 2}, "taken from the data"},
	} {
		_, err := s.CloneModel(ctx, CloneRequest{From: c.from, Name: "copy", Change: c.change})
		wantCode(t, err, Invalid, c.want)
	}
	_, err := s.CloneModel(ctx, CloneRequest{From: "none", Name: "copy", Change: schema})
	wantCode(t, err, NotFound, "no such model")
	_, err = s.CloneModel(ctx, CloneRequest{From: "old", Name: "requests", Change: changeTo(spec.Raw{"kind": "auto"})})
	wantCode(t, err, Conflict, "there is a model")
	s.past.First.Store(2)
	_, err = s.CloneModel(ctx, CloneRequest{From: "old", Name: "copy", Change: changeTo(spec.Raw{"kind": "atoms"})})
	wantCode(t, err, Gone, "trimmed")
	if got := s.committer.Stats().Head.Seq; got != head {
		t.Errorf("something was written: the log ends with entry %d, want %d", got, head)
	}
}

// TestTrimKeepsForCopies: a log is not trimmed below what a copy with another policy has learned from, until the copy lies
// before the base.
func TestTrimKeepsForCopies(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("old", 3), ""))
	for i := range 10 {
		d := must(s.Decide(ctx, "old", DecideRequest{Actions: actions(i, 3, 3)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
	}
	applied(s)
	before := s.progress.applied.Load()
	m := must(s.CloneModel(ctx, CloneRequest{From: "old", Name: "new", Change: changeTo(spec.Raw{"kind": "auto"})}))
	s.mu.Lock()
	var whole bool
	for x := range s.fold.Inherited() {
		whole = x.Whole && x.Since == m.Created.Seq
	}
	s.mu.Unlock()
	if !whole {
		t.Error("the fold does not know that the copy has learned from the whole log")
	}
	if to := must(s.trimmer.needs.needed(ctx, before)); to != 0 {
		t.Errorf("entries up to %d can go", to)
	}
}

// TestDigestAfterDefault: a model is taken back, and copied, to before a change of what a missing reward means, which
// changes what its digest covers.
func TestDigestAfterDefault(t *testing.T) {
	ctx := context.Background()
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(t, log, &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) {
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt, c.Reward.Default = 0, 1, false, Maybe{Word: "auto"}
	}), ""))
	r := rand.New(rand.NewPCG(1, 1))
	play := func() {
		for i := range 5 {
			d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(i, 3, 3)}))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: r.Float64()}))
		}
		applied(s)
	}
	play()
	early := s.progress.applied.Load()
	play()
	c := must(s.GetModel(ctx, "m")).Config
	if c.Reward.Default.Word != "auto" {
		t.Fatalf("default %+v", c.Reward.Default)
	}
	c.Reward.Default = Maybe{Set: true, Value: 0}
	must(s.ConfigureModel(ctx, "m", 0, c, ""))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy", AtSeq: early}))
	must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: early}))
	play()
	if err := s.progress.failure(); err != nil {
		t.Fatal(err)
	}
	open(t, log, &fakeClock{})
}
