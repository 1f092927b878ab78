package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/serve/model"
	"troupe/spec"
)

// learner is a model that learns a schema after n rewards.
func learner(name string, n int) ModelConfig {
	c := DefaultConfig(name)
	c.Features.Hashed = &model.Hashed{Model: "hashed", Bits: model.DefaultBits, Pairs: "auto", Learn: model.Learn{After: n}}
	return c
}

// linearUser sends decisions with four numbers, of whose rewards each is linear in them with its own slopes.
type linearUser struct {
	r      *rand.Rand
	events []string
}

func newLinearUser(seed uint64) *linearUser { return &linearUser{r: rand.New(rand.NewPCG(seed, 3))} }

func (u *linearUser) request() (r DecideRequest, x [4]float64) {
	for i := range x {
		x[i] = u.r.Float64()*2 - 1
	}
	r.Context = fmt.Appendf(nil, `{"a": %.4f, "b": %.4f, "c": %.4f, "d": %.4f}`, x[0], x[1], x[2], x[3])
	r.Actions = named("one", "two", "three")
	return r, x
}

func (u *linearUser) value(x [4]float64, action int) float64 {
	slopes := [3][4]float64{{0.2, -0.1, 0.05, 0}, {-0.2, 0.1, 0, 0.1}, {0.05, 0.05, -0.2, 0.1}}[action]
	y := 0.5
	for i, v := range x {
		y += slopes[i] * v
	}
	return y
}

func (u *linearUser) play(t *testing.T, s *Server, name string, n int) {
	t.Helper()
	ctx := context.Background()
	for range n {
		r, x := u.request()
		d := must(s.Decide(ctx, name, r))
		u.events = append(u.events, d.EventID)
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: u.value(x, d.Action.Index)}))
	}
}

// tried waits until a model has n tries behind it.
func tried(t *testing.T, s *Server, name string, n int) *LearningView {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		m := must(s.GetModel(context.Background(), name))
		if m.Learning != nil && len(m.Learning.Tries) >= n {
			return m.Learning
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s: after a minute %+v", name, m.Learning)
		}
	}
}

// TestLearnedSchemaTakesOver: where rewards are linear in a few numbers, the model of a learned schema predicts better and
// takes over. The whole life, with copies and rollbacks before and after, is the same after a restart that folds the log
// from its first entry.
func TestLearnedSchemaTakesOver(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock, func(o *Options) { o.LayAside = time.Millisecond })
	must(s.CreateModel(ctx, learner("m", 100), ""))
	u := newLinearUser(1)
	u.play(t, s, "m", 50)
	applied(s)
	early := s.progress.applied.Load()
	late, x := u.request() // decided by the hashed model, rewarded when the learned one decides
	lateEvent := must(s.Decide(ctx, "m", late))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	if v := must(s.GetModel(ctx, "m")).Learning; v == nil || v.Phase != "collecting" || v.Rewards != 50 || v.Next != 100 || v.Requests != 51 || v.Bytes < 51*100 {
		t.Fatalf("half way: %+v", v)
	}
	u.play(t, s, "m", 50)
	v := tried(t, s, "m", 1)
	try := v.Tries[0]
	if v.Phase != "learned" || !try.TookOver || !(try.Learned < try.Hashed) || try.Rewards != 100 || v.Adopted != try.Seq || try.Dim < 15 || len(try.Reasons) == 0 {
		t.Fatalf("after 100 rewards: %+v", try)
	}
	m := must(s.GetModel(ctx, "m"))
	if m.Kind != "schema" || m.Config.Policy.Raw["kind"] != "auto" || m.Counts.Learned != 100 || m.ConfigVersion != 2 {
		t.Fatalf("the model is %+v", m)
	}
	must(s.Reward(ctx, RewardRequest{EventID: lateEvent.EventID, Value: u.value(x, lateEvent.Action.Index)}))
	applied(s)
	if c := must(s.GetModel(ctx, "m")).Counts; c.Learned != 101 || c.Ignored != 0 {
		t.Errorf("a reward of a decision from before: %+v", c)
	}
	right := 0
	for range 100 {
		r, x := u.request()
		d := must(s.Decide(ctx, "m", r))
		best := 0
		for k := range 3 {
			if u.value(x, k) > u.value(x, best) {
				best = k
			}
		}
		if d.Action.Index == best {
			right++
		}
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: u.value(x, d.Action.Index)}))
	}
	if right < 85 {
		t.Errorf("%d of 100 decisions of the learned model were right", right)
	}
	// The configuration that it was made with is still accepted, and changes nothing of the schema.
	again := learner("m", 100)
	again.Floor = 0.02
	if m := must(s.ConfigureModel(ctx, "m", 0, again, "")); m.Kind != "schema" || m.Config.Floor != 0.02 {
		t.Errorf("configured again: %+v", m.Config)
	}
	u.play(t, s, "copy", 50)
	if v := tried(t, s, "copy", 1); !v.Tries[0].TookOver || v.Tries[0].Rewards != 100 {
		t.Errorf("the copy: %+v", v)
	}
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "then", AtSeq: early}))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "now"}))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "atoms", Change: changeTo(map[string]any{"kind": "atoms"})}))
	if m := must(s.GetModel(ctx, "then")); m.Kind != "hashed" || m.Learning.Phase != "collecting" || m.Learning.Rewards != 50 || m.Config.Floor != 0.02 {
		t.Errorf("the copy of an earlier time: %+v %+v", m.Kind, m.Learning)
	}
	if m := must(s.GetModel(ctx, "atoms")); m.Counts.Learned != 201 {
		t.Errorf("the copy with another policy has learned %+v", m.Counts)
	}
	_, err := s.RollbackModel(ctx, RollbackRequest{Name: "now", ToSeq: early})
	wantCode(t, err, Invalid, "to_seq")
	_, err = s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: early, KeepLater: true})
	wantCode(t, err, Invalid, "keep_later", "learned schema")
	lost := must(s.Decide(ctx, "m", late))
	m = must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: early}))
	if m.Kind != "hashed" || m.Learning.Phase != "collecting" || m.Counts.Learned != 50 {
		t.Errorf("rolled back: %+v %+v", m, m.Learning)
	}
	must(s.Reward(ctx, RewardRequest{EventID: lost.EventID, Value: 0.5}))
	u.play(t, s, "m", 50)
	tried(t, s, "m", 1)
	u.play(t, s, "m", 5)
	applied(s)
	for i, e := range u.events {
		if i%7 != 0 {
			continue
		}
		if r := must(s.Replay(ctx, e)); !r.Equal {
			t.Errorf("event %d does not replay: %v", i, r.Differs)
		}
	}
	restarted := open(t, log, clock)
	for _, name := range []string{"m", "copy", "then", "now", "atoms"} {
		a, b := must(s.State(ctx, name)), must(restarted.State(ctx, name))
		if a.Digest != b.Digest || string(a.Snapshot) != string(b.Snapshot) || a.Learned != b.Learned {
			t.Errorf("%s: digest %v after a restart, want %v", name, b.Digest, a.Digest)
		}
		x, y := must(s.GetModel(ctx, name)), must(restarted.GetModel(ctx, name))
		if fmt.Sprintf("%+v", *x.Learning) != fmt.Sprintf("%+v", *y.Learning) || x.Counts != y.Counts {
			t.Errorf("%s: %+v %+v after a restart, want %+v %+v", name, y.Learning, y.Counts, x.Learning, x.Counts)
		}
	}
}

// pairUser sends two strings of six levels; each pair of them has its own right action, which no model without pairs of
// context values can tell.
func pairUser(t *testing.T, s *Server, name string, n int, seed uint64) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seed, 4))
	for range n {
		a, b := r.IntN(6), r.IntN(6)
		d := must(s.Decide(ctx, name, DecideRequest{Context: fmt.Appendf(nil, `{"a": "a%d", "b": "b%d"}`, a, b), Actions: named("one", "two", "three")}))
		y := 0.0
		if d.Action.Index == (a+b)%3 {
			y = 1
		}
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
	}
}

// TestLearnedSchemaDoesNotTakeOver: where rewards need pairs, the hashed model goes on after three tries, requests are not
// kept any more, and a restart finds the same. A floor of a half keeps all actions in the comparison: with the default's
// one percent a schema takes over in some of 100 runs (docs/record/does-it-learn.md).
func TestLearnedSchemaDoesNotTakeOver(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	c := learner("m", 500)
	c.Floor = 0.5
	must(s.CreateModel(ctx, c, ""))
	for k, n := range []int{500, 500, 1000} {
		pairUser(t, s, "m", n, uint64(k))
		v := tried(t, s, "m", k+1)
		if try := v.Tries[k]; try.TookOver || !(try.Learned > try.Hashed) || v.Phase == "learned" {
			t.Fatalf("try %d: %+v", k, v)
		}
	}
	before := must(s.GetModel(ctx, "m"))
	if v := before.Learning; v.Phase != "hashed" || v.Next != 0 || v.Requests != 2000 || before.Kind != "hashed" {
		t.Errorf("after all tries: %+v", v)
	}
	pairUser(t, s, "m", 10, 9)
	if v := must(s.GetModel(ctx, "m")).Learning; v.Requests != 2000 {
		t.Errorf("requests are kept after the last try: %d", v.Requests)
	}
	applied(s)
	restarted := open(t, log, clock)
	if a, b := must(s.State(ctx, "m")), must(restarted.State(ctx, "m")); a.Digest != b.Digest {
		t.Errorf("digest %v after a restart, want %v", b.Digest, a.Digest)
	}
}

// TestLearnedSchemaAndTrims: what was trimmed before a try is not learned from, and says so; what a try has learned from
// stays until the base is behind its record. A server that starts from the base has the same state.
func TestLearnedSchemaAndTrims(t *testing.T) {
	ctx := context.Background()
	dir, clock := t.TempDir(), &fakeClock{}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	edit := func(o *Options) { o.Dir, o.TrimEvery, o.Keep = dir, -1, 48*time.Hour }
	s := open(t, log, clock, edit)
	c := learner("m", 200)
	// the small models of the default are linear, too, and one is as good as that of a schema
	if err := c.Policy.DecodeSpec(spec.Raw{"kind": "hashed", "small": "no"}, "policy"); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	u := newLinearUser(2)
	pass := func(by time.Duration) {
		clock.forward(by)
		must(s.Expire(ctx))
	}
	u.play(t, s, "m", 150)
	pass(time.Hour)
	must(s.PauseModel(ctx, "m", ""))
	must(s.ResumeModel(ctx, "m", ""))
	pass(72 * time.Hour)
	if first := must(s.Trim(ctx)); first < 150 {
		t.Fatalf("the log begins with %d", first)
	}
	if v := must(s.GetModel(ctx, "m")).Learning; v.Rewards != 0 || v.Phase != "collecting" {
		t.Fatalf("after a trim: %+v", v)
	}
	u.play(t, s, "m", 199)
	applied(s)
	if v := must(s.GetModel(ctx, "m")).Learning; v.Rewards != 199 || len(v.Tries) > 0 {
		t.Fatalf("one too few: %+v", v)
	}
	pass(30 * time.Hour)
	u.play(t, s, "m", 1)
	v := tried(t, s, "m", 1)
	if v.Tries[0].From < 150 || v.Tries[0].Rewards != 200 {
		t.Fatalf("the try: %+v", v)
	}
	if !v.Tries[0].TookOver {
		t.Fatalf("it did not take over: %s", v.Tries[0].Why)
	}
	// The requests are old, the record is not: they stay.
	pass(19 * time.Hour)
	for k := range 2 {
		first := must(s.Trim(ctx))
		if k == 0 && first > v.Tries[0].From {
			t.Errorf("the log begins with %d, a try learned from entry %d on", first, v.Tries[0].From)
		}
		restarted := open(t, log, clock, edit)
		if a, b := must(s.State(ctx, "m")), must(restarted.State(ctx, "m")); a.Digest != b.Digest {
			t.Errorf("log from %d: digest %v after a restart, want %v", first, b.Digest, a.Digest)
		}
		_ = restarted.Close(ctx)
		pass(100 * time.Hour)
	}
	if first := must(s.Trim(ctx)); first <= v.Adopted {
		t.Errorf("the log begins with %d, long after entry %d", first, v.Adopted)
	}
}

// TestLearnAfterRefused: bad values are refused by their field, and nothing is made.
func TestLearnAfterRefused(t *testing.T) {
	for text, want := range map[string][]string{
		`{"learn": {"after": 19}}`:                                {"features.learn.after", "is 19", "20 to 20000"},
		`{"learn": {"after": 20001}}`:                             {"features.learn.after", "is 20001"},
		`{"learn": {"after": 50.5}}`:                              {"features.learn.after", "is 50.5"},
		`{"learn": {"after": "50"}}`:                              {"features.learn.after", "50"},
		`{"learn": {}}`:                                           {"features.learn.after", "is missing"},
		`{"learn": {"afer": 50}}`:                                 {"features.learn.afer", "did you mean"},
		`{"learn": 50}`:                                           {"features.learn", "expected a table { after = N }"},
		`{"learn": false}`:                                        {"features.learn"},
		`{"learn": {"after": 50}, "bit": 18}`:                     {"features.bit"},
		`{"model": "hashed", "learn": {"after": 50}, "bits": 99}`: {"features.bits"},
	} {
		var c ModelConfig
		err := c.UnmarshalJSON([]byte(`{"id": "m", "features": ` + text + `}`))
		if err == nil {
			t.Errorf("%s was taken", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q in it", text, err, w)
			}
		}
	}
	var c ModelConfig
	if err := c.UnmarshalJSON([]byte(`{"id": "m", "features": {"learn": {"after": 50}}, "policy": {"kind": "sparse"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "config.policy.kind") {
		t.Errorf("the kind sparse: %v", err)
	}
}
