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
	"troupe/feature"
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
		if m.Kind != "hashed" || len(m.Learners) < 6 || len(m.Numbers) == 0 || m.Failed != "" || m.Config.Floor != 0.01 || m.Config.Policy.Raw["kind"] != "hashed" {
			t.Errorf("%s: the model is %+v", c.name, m)
		}
	}
}

// TestEqualCandidates: two new actions without features have probability 1/2 each, exactly, whether they have ids or
// not, and are chosen as often. Level 1e-6 (normal quantile 4.9), random seeds of the server.
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
	}{
		{"ids", func(*ModelConfig) {}, named("a", "b"), false},
		{"none", func(*ModelConfig) {}, []Action{{Features: []byte(`{"topic": "x"}`)}, {Features: []byte(`{"topic": "x"}`)}}, true},
		{"vectors", func(c *ModelConfig) { c.Dim = 2 }, []Action{{ID: "a", Features: []byte(`[0.5, 0]`)}, {ID: "b", Features: []byte(`[0.5, -0]`)}}, true},
		{"greedy", greedy, []Action{{ID: "a", Features: []byte(`[0.5, 0]`)}, {ID: "b", Features: []byte(`[0, 0.5]`)}}, false},
	} {
		config := DefaultConfig(c.name)
		c.edit(&config)
		must(s.CreateModel(ctx, config, ""))
		first := must(s.Decide(ctx, c.name, DecideRequest{Actions: c.actions, Explain: true}))
		if got := len(first.Warnings) > 0; got != c.alike {
			t.Errorf("%s: warnings %q", c.name, first.Warnings)
		}
		for _, e := range first.Explain {
			if 2*e.Propensity.Num != e.Propensity.Den {
				t.Errorf("%s: explained %+v", c.name, e)
			}
		}
		count, total := 0, 10_000
		requests := slices.Repeat([]DecideRequest{{Actions: c.actions}}, 250)
		for range total / len(requests) {
			for _, x := range must(s.DecideBatch(ctx, c.name, requests)) {
				if x.Err != nil {
					t.Fatal(x.Err)
				}
				if p := x.Decision.Propensity; 2*p.Num != p.Den {
					t.Fatalf("%s: propensity %d/%d", c.name, p.Num, p.Den)
				}
				count += x.Decision.Action.Index
			}
		}
		if count < 5000-245 || count > 5000+245 {
			t.Errorf("%s: the second action was chosen %d of %d times", c.name, count, total)
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

// world is a server whose models went through everything that the encoder's state knows: records of statistics,
// a wider range, a default reward from the data.
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

// TestStateOfTheEncoder: statistics, range and adopted default come back bit for bit after a restart from the log
// alone and from a snapshot; clones and rollbacks have those of their time; every decision replays.
func TestStateOfTheEncoder(t *testing.T) {
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
	if m := must(s.GetModel(ctx, "m")); len(m.Numbers) != 0 || m.Missing == nil || !m.Missing.Adopted || m.Missing.Value != 0 {
		t.Fatalf("after 30 decisions: %+v", m)
	}
	events = append(events, world(t, s, clock, 60, 2)...)
	applied(s)
	m := must(s.GetModel(ctx, "m"))
	if len(m.Numbers) != 2 || m.Range.Min != 0 || m.Range.Max != 4 || m.Range.Declared || m.Range.ChangedSeq == 0 || m.Counts.Defaulted == 0 {
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
	if m := must(s.GetModel(ctx, "begin")); m.Missing != nil || len(m.Numbers) > 0 || m.Range.Max != 1 {
		t.Errorf("the clone of the beginning: %+v", m)
	}
	must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: early}))
	if m := must(s.GetModel(ctx, "m")); len(m.Numbers) != 0 || must(s.State(ctx, "m")).Digest != first {
		t.Errorf("rolled back: %+v", m)
	}
	events = append(events, world(t, s, clock, 50, 3)...)
	applied(s)
	if m := must(s.GetModel(ctx, "m")); len(m.Numbers) != 2 {
		t.Errorf("after the rollback: %+v", m.Numbers)
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
		x.Seen, y.Seen, x.Weights, y.Weights = nil, nil, nil, nil // counted, and named, from the start of a server on
		for _, m := range []*Model{&x, &y} {
			for i := range m.Learners {
				m.Learners[i].Name = "" // named from the start of a server on
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
	applied(s) // the scale of age is known
	for _, text := range []string{`{"age": "31"}`, `{"vip": 1}`, `{"age": 31, "vip": "yes", "city": "Oslo"}`} {
		if d := ask(text); len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "another type") {
			t.Errorf("%s: warnings %q", text, d.Warnings)
		}
	}
	applied(s)
	if m := must(s.GetModel(ctx, "m")); m.Notes["type"] != 3 || len(m.Numbers) != 1 {
		t.Errorf("notes %v, numbers %v", m.Notes, m.Numbers)
	}
	for range 20 {
		ask(`{"vip": 1}`)
	}
	applied(s)
	if d := ask(`{"vip": 1}`); len(d.Warnings) > 0 {
		t.Errorf("after many: %q", d.Warnings)
	}
}

// TestRefusedStatistics: a measure that the log refuses is made again.
func TestRefusedStatistics(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	e, v, err := s.model("m")
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for i := range 32 {
			r := DecideRequest{Context: fmt.Appendf(nil, `{"x": %d}`, i*i), Actions: named("a", "b")}
			got, err := s.decider.Choose(ctx, e, v, &r)
			if err != nil || (len(got.Measured) > 0) != (i == 31) {
				t.Fatalf("round %d, request %d: %d measures, %v", round, i, len(got.Measured), err)
			}
			for _, m := range got.Measured {
				m.Forget()
			}
		}
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
	must(s.CreateModel(ctx, DefaultConfig("hashed"), ""))
	must(s.CreateModel(ctx, vectors("auto", 2, func(c *ModelConfig) { *c = DefaultConfig("auto"); c.Dim = 2 }), ""))
	for _, name := range []string{"hashed", "auto"} {
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
		if name == "hashed" {
			if lo, hi := s.fold.Named(name).Policy().(*policy.Hashed).Range(); lo != m.Range.Min || hi != m.Range.Max {
				t.Errorf("the policy folds by [%v, %v]", lo, hi)
			}
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

// TestStatisticsArePublished: a record of statistics alone changes the digest and what the next decision encodes with,
// and so does a default that is adopted.
func TestStatisticsArePublished(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	before := must(s.State(ctx, "m")).Digest
	for i := range 32 {
		must(s.Decide(ctx, "m", DecideRequest{Context: fmt.Appendf(nil, `{"x": %d}`, i*i), Actions: named("a", "b")}))
	}
	applied(s)
	_, v, err := s.model("m")
	if err != nil || len(v.State.Statistics().All()) != 1 || v.Digest == before {
		t.Errorf("after 32 values: statistics %v, digest %v, before %v, error %v", v.State.Statistics().All(), v.Digest, before, err)
	}
	before = v.Digest
	must(s.Reward(ctx, RewardRequest{EventID: must(s.Decide(ctx, "m", DecideRequest{Actions: named("a", "b")})).EventID, Value: 1}))
	applied(s)
	clock.forward(11 * time.Minute)
	must(s.Expire(ctx))
	if d := must(s.State(ctx, "m")).Digest; d == before {
		t.Errorf("the digest is %v before and after a default was adopted", d)
	}
	// The second record of a generation has no effect.
	e, v, err := s.model("m")
	if err != nil {
		t.Fatal(err)
	}
	old := v.State.Statistics().All()[0]
	twice := old
	twice.Mean++
	if out, _, err := s.write(ctx, fold.Measured(v.ID, twice, 1)); err != nil || out != fold.Duplicate {
		t.Errorf("a second record: %v, %v", out, err)
	}
	if got := e.version.Load().State.Statistics().All()[0]; got != old {
		t.Errorf("a second record made %+v of %+v", got, old)
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

// TestHashedCut: numbers that hashed features cut at ±3 are counted by feature; a decision has a note, and the model a
// warning, when that is often, and not for the tails of a normal number.
func TestHashedCut(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("m"), ""))
	r := rand.New(rand.NewPCG(7, 7))
	for n := range 600 {
		x := r.Float64()
		if n > 100 && n%7 == 0 {
			x = 50 // too few for a new standard
		}
		must(s.Decide(ctx, "m", DecideRequest{Context: fmt.Appendf(nil, `{"normal": %.4f, "far": %.4f}`, r.NormFloat64(), x), Actions: named("a", "b")}))
		applied(s) // a decision is cut by what was applied before it
	}
	m := must(s.GetModel(ctx, "m"))
	byName := map[string]FeatureView{}
	for _, f := range m.Seen.Features {
		byName[f.Name] = f
	}
	far, normal := byName["context.far"], byName["context.normal"]
	if far.Requests != 600 || far.Outside < 30 || far.Outside > 71 || *far.High != 50 || normal.Requests != 600 || normal.Outside > 29 {
		t.Errorf("seen: %+v, %+v", far, normal)
	}
	if n := m.Notes["clamped"]; n < 10 || n >= far.Outside { // from the tenth on, and when they are more than one of twenty
		t.Errorf("%d decisions have the note, %v", n, m.Notes)
	}
	if words := strings.Join(m.Warnings, "\n"); !strings.Contains(words, "three standard deviations") || !strings.Contains(words, `"context.far"`) || strings.Contains(words, `"context.normal"`) {
		t.Errorf("warnings %q", m.Warnings)
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

// TestAdvice: what to send in place of a number that is cut depends on what its values look like.
func TestAdvice(t *testing.T) {
	series := func(f func(n int) float64) string {
		var o observed
		var x *sight
		for n := range 100 {
			o.requests++
			x = o.sight(&feature.Given{Name: []byte("x"), Kind: 'n', Number: true, X: f(n)})
		}
		return x.advice()
	}
	for _, c := range []struct {
		name, want string
		f          func(n int) float64
	}{
		{"seconds", "Unix time", func(n int) float64 { return 1.76e9 + float64(37*n%1000) }},
		{"milliseconds", "Unix time", func(n int) float64 { return 1.76e12 + float64(n) }},
		{"counter", "grows", func(n int) float64 { return float64(3 * n) }},
		{"cents", "cents", func(n int) float64 { return float64(n*n*n*37%90_000 + 99) }},
		{"normal", "", func(n int) float64 { return math.Sin(float64(n)) }},
	} {
		if got := series(c.f); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
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

// TestSampledPairs: a model that reads pairs warns when a context has more of them than are read, and one that reads none
// does not.
func TestSampledPairs(t *testing.T) {
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	ctx := context.Background()
	for _, name := range []string{"default", "none"} {
		config := DefaultConfig(name)
		if name == "none" {
			config.Features.Hashed = &model.Hashed{Model: "hashed", Bits: model.DefaultBits, Pairs: "no"}
		}
		must(s.CreateModel(ctx, config, ""))
		for _, n := range []int{20, 64, 70} {
			numbers := map[string]any{}
			for i := range n {
				numbers[fmt.Sprint("x", i)] = float64(i) + .5
			}
			must(s.Decide(ctx, name, DecideRequest{Context: must(json.Marshal(numbers)), Actions: named("a", "b")}))
			words := strings.Join(must(s.GetModel(ctx, name)).Warnings, "\n")
			want := "in 1 of 3 requests since the server started the context has more than 2048 pairs of values, up to 2415;"
			if has := strings.Contains(words, "pairs of values"); has != (name == "default" && n == 70) || has && !strings.Contains(words, want) {
				t.Errorf("model %s, %d numbers: %s", name, n, words)
			}
		}
	}
}
