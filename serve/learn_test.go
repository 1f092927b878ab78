package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// These tests use models of which only the name is given.

func named(ids ...string) (out []Action) {
	for _, id := range ids {
		out = append(out, Action{ID: id})
	}
	return out
}

// applied waits until all that was written is in the state.
func applied(s *Server) { must(s.progress.until(context.Background(), s.committer.Stats().Head.Seq)) }

// TestLearnsWithNothingSet: after a request that is not typical (one action, no context), in two worlds: one in
// which one of three actions pays, and one in which the right action depends on the city.
func TestLearnsWithNothingSet(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		right func(city int) string
		least int
	}{
		{"one", func(int) string { return "b" }, 85},
		{"cities", func(city int) string { return string('a' + rune(city%3)) }, 60},
	} {
		must(s.CreateModel(ctx, DefaultConfig(c.name), ""))
		must(s.Decide(ctx, c.name, DecideRequest{Actions: named("x")}))
		right := 0
		const rounds = 400
		for n := range rounds {
			city := r.IntN(6)
			d := must(s.Decide(ctx, c.name, DecideRequest{
				Context: fmt.Appendf(nil, `{"city": "city%d", "age": %d}`, city, 20+r.IntN(50)),
				Actions: []Action{{ID: "a", Features: []byte(`{"price": 3}`)}, {ID: "b", Features: []byte(`{"price": 4}`)}, {ID: "c", Features: []byte(`{"price": 5}`)}},
			}))
			y := 0.0
			if d.Action.ID == c.right(city) {
				if y = 1; n >= rounds-100 {
					right++
				}
			}
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
		}
		if right < c.least {
			t.Errorf("%s: %d of the last 100 decisions were right, want %d", c.name, right, c.least)
		}
		m := must(s.GetModel(ctx, c.name))
		if m.Kind != "requests" || m.Explained == nil || m.Failed != "" || m.Config.Floor != 0.01 || m.Config.Policy.Raw["kind"] != "effects" {
			t.Errorf("%s: the model is %+v", c.name, m)
		}
		if !strings.Contains(m.Explained.Text, " of what differs between decisions") {
			t.Errorf("%s: it says %q", c.name, m.Explained.Text)
		}
	}
}

// TestEqualCandidates: two new actions without features have probability 1/2 each and are chosen as often. It is 1/2
// exactly, but for a model that reads requests and ids that tell the actions apart: there it is a count over 64 draws,
// whose mean is 1/2. Level 1e-6 (normal quantile 4.9), random seeds of the server.
func TestEqualCandidates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	greedy := func(c *ModelConfig) {
		c.Dim = 2
		c.Policy = PolicySpec{Raw: spec.Raw{"kind": "greedy"}, Options: policy.Kinds["greedy"]()}
	}
	for _, c := range []struct {
		name    string
		edit    func(*ModelConfig)
		actions []Action
		alike   bool
		drawn   bool
	}{
		{"ids", func(*ModelConfig) {}, named("a", "b"), false, true},
		{"none", func(*ModelConfig) {}, []Action{{Features: []byte(`{"topic": "x"}`)}, {Features: []byte(`{"topic": "x"}`)}}, true, false},
		{"vectors", func(c *ModelConfig) { c.Dim = 2 }, []Action{{ID: "a", Features: []byte(`[0.5, 0]`)}, {ID: "b", Features: []byte(`[0.5, -0]`)}}, true, false},
		{"greedy", greedy, []Action{{ID: "a", Features: []byte(`[0.5, 0]`)}, {ID: "b", Features: []byte(`[0, 0.5]`)}}, false, false},
	} {
		config := DefaultConfig(c.name)
		c.edit(&config)
		must(s.CreateModel(ctx, config, ""))
		first := must(s.Decide(ctx, c.name, DecideRequest{Actions: c.actions, Explain: true}))
		if got := len(first.Warnings) > 0; got != c.alike {
			t.Errorf("%s: warnings %q", c.name, first.Warnings)
		}
		for _, e := range first.Explain {
			if !c.drawn && 2*e.Propensity.Num != e.Propensity.Den || c.drawn && e.Voters != 64 {
				t.Errorf("%s: explained %+v", c.name, e)
			}
		}
		count, total, sum := 0, 10_000, 0.
		requests := slices.Repeat([]DecideRequest{{Actions: c.actions}}, 250)
		for range total / len(requests) {
			for _, x := range must(s.DecideBatch(ctx, c.name, requests)) {
				if x.Err != nil {
					t.Fatal(x.Err)
				}
				p := x.Decision.Propensity
				if !c.drawn && 2*p.Num != p.Den {
					t.Fatalf("%s: propensity %d/%d", c.name, p.Num, p.Den)
				}
				if second := x.Decision.Action.Index; second == 1 {
					count++
					sum += p.Float()
				} else {
					sum += 1 - p.Float()
				}
			}
		}
		if count < 5000-245 || count > 5000+245 {
			t.Errorf("%s: the second action was chosen %d of %d times", c.name, count, total)
		}
		// the standard deviation of a law is .99·√(1/4/64) = .062, that of the mean of 10,000 .00062
		if mean := sum / float64(total); math.Abs(mean-.5) > 4.9*.00062 {
			t.Errorf("%s: the second action has the probability %v in the mean", c.name, mean)
		}
		applied(s)
		m := must(s.GetModel(ctx, c.name))
		if want := map[bool]uint64{true: uint64(total) + 1}[c.alike]; m.Notes["alike"] != want || strings.Contains(strings.Join(m.Warnings, ""), "tell them apart") != c.alike {
			t.Errorf("%s: notes %v, warnings %q, want %d", c.name, m.Notes, m.Warnings, want)
		}
		if r := must(s.Replay(ctx, first.EventID)); !r.Equal {
			t.Errorf("%s: the decision does not replay: %v", c.name, r.Differs)
		}
	}
}

// world is a server whose models went through everything that a model keeps beside its policy: a wider range, a default
// reward from the data.
func world(t *testing.T, s *Server, clock *fakeClock, n int, seed uint64) (events []string) {
	t.Helper()
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range n {
		d := must(s.Decide(ctx, "m", DecideRequest{
			Context: fmt.Appendf(nil, `{"x": %.3f, "y": %d, "word": "w%d"}`, r.NormFloat64(), r.IntN(100), r.IntN(5)),
			Actions: named("a", "b", "c")[:2+r.IntN(2)], Exclude: []string{"zz"},
		}))
		events = append(events, d.EventID)
		if r.IntN(3) == 0 {
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 3}))
		}
		if i%20 == 19 {
			applied(s)
			clock.forward(11 * time.Minute)
			must(s.Expire(ctx))
		}
	}
	return events
}

// TestStateBesidePolicy: range and adopted default come back bit for bit after a restart from the log alone and from a
// snapshot; clones and rollbacks have those of their time; every decision replays.
func TestStateBesidePolicy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	began := s.progress.applied.Load()
	events := world(t, s, clock, 30, 1)
	applied(s)
	early := s.progress.applied.Load()
	first := must(s.State(ctx, "m")).Digest
	if m := must(s.GetModel(ctx, "m")); m.Missing == nil || !m.Missing.Adopted || m.Missing.Value != 0 {
		t.Fatalf("after 30 decisions: %+v", m)
	}
	events = append(events, world(t, s, clock, 60, 2)...)
	applied(s)
	m := must(s.GetModel(ctx, "m"))
	if m.Range.Min != 0 || m.Range.Max != 4 || m.Range.Declared || m.Range.ChangedSeq == 0 || m.Counts.Defaulted == 0 {
		t.Fatalf("after 90 decisions: %+v, counts %+v", m, m.Counts)
	}
	if words := strings.Join(m.Warnings, "\n"); !strings.Contains(words, "counts as 0") || !strings.Contains(words, "widened the range to [0, 4]") {
		t.Errorf("warnings: %q", m.Warnings)
	}
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "now"}))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "early", AtSeq: early}))
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "begin", AtSeq: began}))
	if got := must(s.State(ctx, "early")).Digest; got != first {
		t.Errorf("the clone of entry %d has the digest %v, then it was %v", early, got, first)
	}
	if m := must(s.GetModel(ctx, "begin")); m.Missing != nil || m.Range.Max != 1 {
		t.Errorf("the clone of the beginning: %+v", m)
	}
	must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: early}))
	if m := must(s.GetModel(ctx, "m")); must(s.State(ctx, "m")).Digest != first {
		t.Errorf("rolled back: %+v", m)
	}
	events = append(events, world(t, s, clock, 50, 3)...)
	applied(s)
	if m := must(s.GetModel(ctx, "m")); m.Range.Max != 4 || m.Counts.Learned < 40 {
		t.Errorf("after the rollback: %+v", m)
	}
	for i, e := range events {
		if r := must(s.Replay(ctx, e)); !r.Equal && i%7 == 0 {
			t.Errorf("event %d does not replay: %v", i, r.Differs)
		}
	}
	again := open(t, log, clock) // folds the log from entry 1
	state := must(s.fold.AppendState(nil, s.applier.chain))
	for _, name := range []string{"m", "now", "early", "begin"} {
		a, b := must(s.State(ctx, name)), must(again.State(ctx, name))
		if a.Digest != b.Digest || !bytes.Equal(a.Snapshot, b.Snapshot) || a.Learned != b.Learned {
			t.Errorf("%s: digest %v after a restart, want %v", name, b.Digest, a.Digest)
		}
		x, y := must(s.GetModel(ctx, name)), must(again.GetModel(ctx, name))
		x.Seen, y.Seen, x.Weights, y.Weights = nil, nil, nil, nil                    // counted, and named, from the start of a server on
		if r := float64(x.Memory.Used) / float64(y.Memory.Used); r < .9 || r > 1.1 { // of when it was looked at last
			t.Errorf("%s takes %+v, after a restart %+v", name, x.Memory, y.Memory)
		}
		x.Memory, y.Memory = ModelSize{}, ModelSize{}
		for _, m := range []*Model{&x, &y} {
			if e := m.Explained; e != nil {
				for i := range e.Parts {
					e.Parts[i].Name = "" // named from the start of a server on
				}
				e.Text = ""
			}
		}
		if p, q := must(json.Marshal(x)), must(json.Marshal(y)); !bytes.Equal(p, q) {
			t.Errorf("%s after a restart:\n%s\nwant\n%s", name, q, p)
		}
	}
	restored, chain, err := fold.Restore(state, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b := must(restored.AppendState(nil, chain)); !bytes.Equal(b, state) {
		t.Error("a state that was restored has other bytes")
	}
}

// TestClicksOnly: a model that gets rewards for successes only learns nearly as well as one that gets zeros too. Seeds
// are random; in 80 runs the smallest ratio was 0.94, and a model that learns nothing from silence has 0.5.
func TestClicksOnly(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	share := func(name string, zeros bool) (recent int) {
		must(s.CreateModel(ctx, DefaultConfig(name), ""))
		r := rand.New(rand.NewPCG(5, 6))
		for n := range 600 {
			d := must(s.Decide(ctx, name, DecideRequest{Actions: named("a", "b")}))
			y := 0.0
			if r.Float64() < map[string]float64{"a": 0.05, "b": 0.5}[d.Action.ID] {
				y = 1
			}
			if y > 0 || zeros {
				must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
			}
			if n%10 == 9 {
				applied(s)
				clock.forward(11 * time.Minute)
				must(s.Expire(ctx))
			}
			if n >= 400 {
				recent += d.Action.Index
			}
		}
		return recent
	}
	all, only := share("zeros", true), share("clicks", false)
	if all < 150 || float64(only) < 0.8*float64(all) {
		t.Errorf("of the last 200 decisions the better action had %d with zeros and %d with clicks only", all, only)
	}
	c := DefaultConfig("told")
	c.Reward.Default = Maybe{Word: "none"}
	must(s.CreateModel(ctx, c, ""))
	for range 120 {
		must(s.Decide(ctx, "told", DecideRequest{Actions: named("a", "b")}))
	}
	applied(s)
	clock.forward(11 * time.Minute)
	must(s.Expire(ctx))
	if m := must(s.GetModel(ctx, "told")); m.Missing != nil || !strings.Contains(strings.Join(m.Warnings, ""), "got no reward") {
		t.Errorf("a model that was told none: %+v, %q", m.Missing, m.Warnings)
	}
}

// TestDrift: values of another type than before are read, counted, and no error.
func TestDrift(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	ask := func(context string) Decision {
		return must(s.Decide(ctx, "m", DecideRequest{Context: []byte(context), Actions: named("a", "b")}))
	}
	for i := range 40 {
		if d := ask(fmt.Sprintf(`{"age": %d, "vip": true, "city": null}`, 20+i)); len(d.Warnings) > 0 {
			t.Fatalf("decision %d: %q", i, d.Warnings)
		}
	}
	applied(s)
	for _, text := range []string{`{"age": "31"}`, `{"vip": 1}`, `{"age": 31, "vip": "yes", "city": "Oslo"}`} {
		if d := ask(text); len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "another type") {
			t.Errorf("%s: warnings %q", text, d.Warnings)
		}
	}
	applied(s)
	if m := must(s.GetModel(ctx, "m")); m.Notes["type"] != 3 {
		t.Errorf("notes %v", m.Notes)
	}
	for range 20 {
		ask(`{"vip": 1}`)
	}
	applied(s)
	if d := ask(`{"vip": 1}`); len(d.Warnings) > 0 {
		t.Errorf("after many: %q", d.Warnings)
	}
}

// TestAnyReward: without a declared range any reward is taken; with one, those outside are refused.
func TestAnyReward(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	reward := func(name string, y float64) error {
		d := must(s.Decide(ctx, name, DecideRequest{Actions: []Action{{ID: "a", Features: []byte(`[0.5, 0.5]`)}}}))
		_, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y})
		return err
	}
	must(s.CreateModel(ctx, DefaultConfig("requests"), ""))
	must(s.CreateModel(ctx, vectors("auto", 2, func(c *ModelConfig) { *c = DefaultConfig("auto"); c.Dim = 2 }), ""))
	for _, name := range []string{"requests", "auto"} {
		for _, y := range []float64{1, -3, 250, 0} {
			if err := reward(name, y); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, reward(name, 1e200), Invalid, "value")
		m := must(s.GetModel(ctx, name))
		if m.Range.Min != -3 || m.Range.Max != 253 || m.Failed != "" || m.Counts.Learned != 4 {
			t.Errorf("%s: range %+v, %+v", name, m.Range, m.Counts)
		}
	}
	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id": "declared", "reward": {"min": 0, "max": 5}}`), &c); err != nil {
		t.Fatal(err)
	}
	m := must(s.CreateModel(ctx, c, ""))
	if !m.Range.Declared || m.Range.Max != 5 {
		t.Errorf("declared: %+v", m.Range)
	}
	wantCode(t, reward("declared", 6), Invalid, "[0, 5]")
	m.Config.Reward.Max = 6
	_, err := s.ConfigureModel(ctx, "declared", 0, m.Config, "")
	wantCode(t, err, Invalid, "range")
	// What GET shows can be sent back, and so can the little that was said.
	for _, config := range []ModelConfig{must(s.GetModel(ctx, "declared")).Config, c} {
		must(s.ConfigureModel(ctx, "declared", 0, config, ""))
	}
}

// TestRecordedLaw: the law in a record is that of the draw, for policies of every way to state one.
func TestRecordedLaw(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	for _, kind := range []string{"ensemble", "auto", "epsilon-greedy", "mixed", "uniform"} {
		c := DefaultConfig(kind)
		c.Dim, c.Policy = 3, PolicySpec{Raw: spec.Raw{"kind": kind}, Options: policy.Kinds[kind]()}
		must(s.CreateModel(ctx, c, ""))
		list := actions(0, 3, 3)
		list = append(list, Action{ID: "twin", Features: list[1].Features})
		d := must(s.Decide(ctx, kind, DecideRequest{Actions: list, Explain: true}))
		v := must(s.Event(ctx, d.EventID)).Decision
		if len(v.Law) != 4 || v.Floor != 10_000 || v.Config != 1 {
			t.Fatalf("%s: recorded %+v", kind, v)
		}
		var sum float64
		size := map[uint32]float64{}
		for _, g := range v.Groups {
			size[g]++
		}
		for i, e := range d.Explain {
			g := 1.0
			if v.Groups != nil {
				g = size[v.Groups[i]]
			}
			p := 0.99*float64(v.Law[i])/float64(v.Voters)/g + 0.01/4
			if got := e.Propensity.Float(); got-p > 1e-12 || p-got > 1e-12 {
				t.Errorf("%s: candidate %d has %v, its record says %v", kind, i, got, p)
			}
			sum += p
		}
		if sum < 1-1e-12 || sum > 1+1e-12 || d.Explain[1].Propensity != d.Explain[3].Propensity {
			t.Errorf("%s: the law sums to %v; the twins have %v and %v", kind, sum, d.Explain[1].Propensity, d.Explain[3].Propensity)
		}
		if r := must(s.Replay(ctx, d.EventID)); !r.Equal {
			t.Errorf("%s: does not replay: %v", kind, r.Differs)
		}
	}
}

// TestSchemaNotes: what a declared schema ignores and clamps is in the warnings of the first decisions, with the names
// of the features, and in the counts of the model, which a restart keeps.
func TestSchemaNotes(t *testing.T) {
	ctx := context.Background()
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	s := open(t, log, &fakeClock{})
	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id": "m", "features": {"unknown": "ignore", "features": [
		{"feature": "context.age", "kind": "number", "range": [0, 100], "outside": "clamp"},
		{"feature": "context.city", "kind": "category", "levels": ["Oslo"], "unseen": "other"},
		{"feature": "id", "kind": "category", "levels": ["a", "b"]}], "crosses": [["context.age", "id"], ["context.city", "id"]]}}`), &c); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	ask := func(context string) Decision {
		return must(s.Decide(ctx, "m", DecideRequest{Context: []byte(context), Actions: named("a", "b")}))
	}
	if d := ask(`{"age": 31, "city": "Oslo", "_tag": 1, "none": null}`); len(d.Warnings) > 0 {
		t.Errorf("a request that the schema knows: %q", d.Warnings)
	}
	first := ask(`{"age": 131, "city": "Rome", "weather": {"rain": true}}`)
	if words := strings.Join(first.Warnings, "\n"); len(first.Warnings) != 2 || !strings.Contains(words, `"context.weather.rain"`) || !strings.Contains(words, `"context.city"`) || !strings.Contains(words, `clamped to the range of the schema`) || !strings.Contains(words, `"context.age"`) {
		t.Errorf("warnings %q", first.Warnings)
	}
	if notes := must(s.Event(ctx, first.EventID)).Decision.Notes; notes != eventlog.NoteIgnored|eventlog.NoteClamped {
		t.Errorf("recorded notes %v", notes)
	}
	for range warned {
		ask(`{"age": 131}`)
	}
	applied(s)
	if d := ask(`{"age": 131}`); len(d.Warnings) > 0 {
		t.Errorf("after many: %q", d.Warnings)
	}
	seen := must(s.GetModel(ctx, "m")).Seen
	for i, want := range []string{"context.age 13 0 12 0", "context.city 2 1 0 0", "context.weather.rain 1 1 0 0", "id 13 0 0 0"} {
		f := seen.Features[i]
		if got := fmt.Sprint(f.Name, " ", f.Requests, f.Ignored, f.Clamped, f.Mistyped); got != want {
			t.Errorf("seen: %s, want %s", got, want)
		}
	}
	if f := seen.Features[0]; seen.Requests != 13 || len(seen.Features) != 4 || *f.Low != 31 || *f.High != 131 {
		t.Errorf("seen: %+v", seen)
	}
	_, err := s.Decide(ctx, "m", DecideRequest{Context: []byte(`{"age": "31"}`), Actions: named("a", "b")})
	wantCode(t, err, Invalid, "expected a number")
	applied(s)
	again := open(t, log, &fakeClock{})
	for _, s := range []*Server{s, again} {
		m := must(s.GetModel(ctx, "m"))
		if m.Notes["ignored"] != 1 || m.Notes["clamped"] != warned+2 || len(m.Notes) != 2 || len(m.Warnings) != 2 || !strings.Contains(m.Warnings[0], "in 1 of 13 decisions: a feature or a level was ignored") {
			t.Errorf("notes %v, warnings %q", m.Notes, m.Warnings)
		}
	}
}

// TestDefaultIsPublished: a default that is adopted changes the digest.
func TestDefaultIsPublished(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	for i := range 32 {
		must(s.Decide(ctx, "m", DecideRequest{Context: fmt.Appendf(nil, `{"x": %d}`, i*i), Actions: named("a", "b")}))
	}
	must(s.Reward(ctx, RewardRequest{EventID: must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b")})).EventID, Value: 1}))
	applied(s)
	before := must(s.State(ctx, "m")).Digest
	clock.forward(11 * time.Minute)
	must(s.Expire(ctx))
	if d := must(s.State(ctx, "m")).Digest; d == before {
		t.Errorf("the digest is %v before and after a default was adopted", d)
	}
}

// TestScaledRewards: with a declared range, rewards × 1000 lead to the same choices, draw by draw.
func TestScaledRewards(t *testing.T) {
	ctx := context.Background()
	var servers [2]*Server
	for i := range servers {
		servers[i] = open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
		var c ModelConfig
		if err := json.Unmarshal(fmt.Appendf(nil, `{"id": "m", "reward": {"min": 0, "max": %d}}`, []int{1, 1000}[i]), &c); err != nil {
			t.Fatal(err)
		}
		seed := must(fold.ControlConfig(must(c.Admit(model.DefaultLimits)).Config, &rng.Key{1, 2, 3, 4}))
		if out, _, err := servers[i].write(ctx, &eventlog.Control{Act: eventlog.Create, Model: 7, Name: "m", Config: seed}); err != nil || out != fold.Accepted {
			t.Fatal(out, err)
		}
	}
	choose := func(s *Server, n int) (index int, atoms []byte) {
		e, v, err := s.model("m")
		if err != nil {
			t.Fatal(err)
		}
		w := must(e.Worker(v))
		defer e.workers.Put(w)
		q := choose.Request{Context: fmt.Appendf(nil, `{"city": "c%d"}`, n%3), Actions: named("a", "b", "c")}
		if err := w.Offer.Encode(&q); err != nil {
			t.Fatal(err)
		}
		index = must(w.Choose(eventlog.ID(n+1), true)).Index
		_, atoms = w.Offer.Features(index)
		return index, atoms
	}
	right := 0
	for n := range 200 {
		a, atoms := choose(servers[0], n)
		if b, _ := choose(servers[1], n); a != b {
			t.Fatalf("draw %d: action %d with rewards in [0, 1], %d with rewards in [0, 1000]", n, a, b)
		}
		y := 0.0
		if a == n%3 {
			y = 1
			right++
		}
		for i, s := range servers {
			d := &eventlog.Decision{Model: 7, Den: 1, Num: 1, Offered: 3, Index: uint32(a), Atoms: atoms, Deadline: 1 << 62}
			receipt := must(s.append(ctx, d))
			if _, _, err := s.write(ctx, &eventlog.Reward{Event: receipt.Event, Model: 7, Atoms: atoms, Y: []float64{y, 1000 * y}[i]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if right < 80 {
		t.Errorf("%d of 200 were right: nothing was learned", right)
	}
}

// TestSpread: the state of auto has its estimate and, at each coordinate, the spread of the members, which is about
// σ̂·√(V⁻¹)ᵢᵢ: it falls where events come and stays where none do.
func TestSpread(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	c := DefaultConfig("m")
	c.Dim = 2
	must(s.CreateModel(ctx, c, ""))
	for range 40 {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a", Features: []byte(`[1, 0]`)}}}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.7}))
	}
	applied(s)
	v := must(s.State(ctx, "m"))
	if len(v.Theta) != 2 || len(v.Spread) != 2 || v.Theta[0] < 0.6 || v.Theta[0] > 0.8 || v.Theta[1] != 0 {
		t.Fatalf("state %+v", v)
	}
	if ratio := v.Spread[1] / v.Spread[0]; ratio < 2 {
		t.Errorf("spread %v", v.Spread)
	}
}

// TestLearnsInPlace: a reward changes the pages of the published version where nothing decides on it, and then the state
// of that version is gone. While something does, its state stays as it was.
func TestLearnsInPlace(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id": "m"}`), &c); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	pair := func(n int) {
		t.Helper()
		d := must(s.Decide(ctx, "m", DecideRequest{Context: fmt.Appendf(nil, `{"city": "c%d"}`, n%3), Actions: named("a", "b")}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n % 2)}))
	}
	for n := range 20 {
		pair(n)
	}
	e, v, err := s.model("m")
	if err != nil {
		t.Fatal(err)
	}
	w := must(e.Worker(v))
	before := w.StateDigest()
	pair(20)
	if e.version.Load() == v {
		t.Fatal("the reward was not learned")
	}
	if w.StateDigest() != before || !v.State.Hold() {
		t.Fatal("the state of a version has changed while a worker was in it")
	}
	v.State.Release()
	e.workers.Put(w)
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	copied := must(s.State(ctx, "copy"))
	pair(21)
	pair(22)
	if again := must(s.State(ctx, "copy")); again.Digest != copied.Digest || !bytes.Equal(again.Snapshot, copied.Snapshot) {
		t.Fatal("a copy has changed with its source")
	}
	next := e.version.Load()
	pair(23)
	if next.State.Hold() {
		t.Error("the pages of a version that nothing holds were copied")
	}
	var calls sync.WaitGroup // decisions wait for the version after a state that is gone
	for i := range 4 {
		calls.Go(func() {
			for n := range 10 {
				pair(i + n)
			}
		})
	}
	calls.Wait()
}

// TestOnlySuccessesSoFar: while windows are open and all rewards are equal, the model says that it learns nothing.
func TestOnlySuccessesSoFar(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id": "m"}`), &c); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	says := func() bool {
		return slices.ContainsFunc(must(s.GetModel(ctx, "m")).Warnings, func(w string) bool {
			return strings.Contains(w, "rewards so far are 1")
		})
	}
	pair := func(y float64) {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b")}))
		must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b")}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
	}
	for range 10 {
		if says() {
			t.Fatal("a warning too early")
		}
		pair(1)
	}
	if !says() {
		t.Errorf("no warning: %v", must(s.GetModel(ctx, "m")).Warnings)
	}
	if pair(0); says() {
		t.Error("a warning although rewards differ")
	}
}
