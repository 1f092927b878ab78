package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/joined"
	"troupe/serve/model"
)

// twoRewards is a model of vectors whose rewards have names.
func twoRewards(name string, rule Rule, weights map[string]float64) ModelConfig {
	c := vectors(name, 2)
	for _, n := range slices.Sorted(maps.Keys(weights)) {
		c.Rewards = append(c.Rewards, NamedWeight{Name: n, Weight: weights[n]})
	}
	c.Reward.Rule, c.Reward.Min, c.Reward.Max, c.Reward.Default = rule, -1000, 1000, Maybe{}
	return c
}

// ownEvent is an event with rewards as this test counts them.
type ownEvent struct {
	id      string
	values  map[string]float64
	keys    map[string]bool
	learned bool
	closed  bool
}

// give folds a reward by a rule, and returns the status that it has.
func (e *ownEvent) give(rule Rule, names int, reward map[string]float64, key string) RewardStatus {
	if e.closed {
		return Late
	}
	if key != "" && rule != "first" && e.keys[key] {
		return Duplicate
	}
	changed := false
	for name, v := range reward {
		old, had := e.values[name]
		switch {
		case rule == "first" && had:
			continue
		case rule == "sum":
			v += old
		}
		e.values[name], changed = v, true
	}
	if !changed {
		return Duplicate
	}
	e.keys[key] = true
	e.learned = e.learned || rule == "first" && len(e.values) == names
	return Accepted
}

// TestRewardsWithNames: by each rule, on random sequences of rewards with names, of which some are missing, sent twice, sent
// again under a key or late, each name is folded by itself and the model learns their weighted sum, once: with the rule first when all
// names have come, otherwise when the window closes. The event, the export and the estimate of the policy say what an own
// computation says, and so do a server that replays the log and one that begins with a snapshot.
func TestRewardsWithNames(t *testing.T) {
	ctx := context.Background()
	weights := map[string]float64{"click": 1, "latency": 0, "revenue": .05, "trust": -2.5}
	names := slices.Sorted(maps.Keys(weights))
	for _, rule := range []Rule{"first", "sum", "last"} {
		for _, none := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, none %v", rule, none), func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, uint64(len(rule))))
				log, clock, dir := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, t.TempDir()
				with := func(o *Options) { o.Dir, o.SnapshotEvery = dir, 20 }
				s := open(t, log, clock, with)
				cfg := twoRewards("m", rule, weights)
				if none {
					cfg.Reward.Default = Maybe{Word: "none"}
				}
				if m := must(s.CreateModel(ctx, cfg, "")); !none && (!m.Config.Reward.Default.Set || m.Config.Reward.Default.Value != 0) {
					t.Fatalf("the default is %+v, want 0", m.Config.Reward.Default)
				}
				plain := vectors("plain", 2)
				plain.Reward.Min, plain.Reward.Max = -1000, 1000
				must(s.CreateModel(ctx, plain, ""))
				one := DecideRequest{Actions: []Action{{ID: "a", Features: json.RawMessage(`[0.5, 0.25]`)}}}
				var events []*ownEvent
				learn := func(y float64) { // what the model with names should have learned, in its order
					d := must(s.Decide(ctx, "plain", one))
					must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
				}
				total := func(e *ownEvent) (y float64) {
					for _, n := range names {
						y += float64(weights[n] * e.values[n])
					}
					return y
				}
				for round := range 3 {
					for range 12 {
						d := must(s.Decide(ctx, "m", one))
						must(s.progress.until(ctx, d.Seq))
						events = append(events, &ownEvent{id: d.EventID, values: map[string]float64{}, keys: map[string]bool{}})
					}
					for range 40 {
						e := events[r.IntN(len(events))]
						reward := map[string]float64{}
						for len(reward) == 0 {
							for _, n := range names {
								if r.IntN(2) == 0 {
									reward[n] = float64(r.IntN(20)) - 5
								}
							}
						}
						key := ""
						if r.IntN(2) == 0 {
							key = fmt.Sprint("k", r.IntN(3))
						}
						before := e.learned
						want := e.give(rule, len(names), reward, key)
						got, err := s.Reward(ctx, RewardRequest{EventID: e.id, Rewards: reward, Key: key})
						if err != nil || got.Status != want {
							t.Fatalf("round %d, %v by %q: %v, %v, want %v", round, reward, key, got.Status, err, want)
						}
						if e.learned && !before {
							learn(total(e))
						}
						if v := must(s.Event(ctx, e.id)); !e.closed && len(e.values) > 0 &&
							(!maps.Equal(v.Reward, e.values) || v.Value == nil || math.Abs(*v.Value-total(e)) > 1e-9) {
							t.Fatalf("the event has %v, want %v and %v", v.Reward, e.values, total(e))
						}
					}
					clock.forward(time.Hour)
					must(s.Expire(ctx))
					for _, e := range events {
						if e.closed {
							continue
						}
						if e.closed = true; !e.learned && (len(e.values) > 0 || !none) {
							learn(total(e))
						}
					}
				}
				view, twin := must(s.State(ctx, "m")), must(s.State(ctx, "plain"))
				if view.Learned != twin.Learned {
					t.Fatalf("%d events are learned, want %d", view.Learned, twin.Learned)
				}
				for i := range view.Theta {
					if math.Abs(view.Theta[i]-twin.Theta[i]) > 1e-9*(1+math.Abs(twin.Theta[i])) {
						t.Errorf("θ[%d] = %v, want %v of the weighted sums", i, view.Theta[i], twin.Theta[i])
					}
				}
				at := 0
				for x, err := range must(s.Decisions(ctx, "m", 0, 10_000)).Decisions {
					if err != nil {
						t.Fatal(err)
					}
					e := events[at]
					at++
					columns, values := joined.RewardColumns(x.Decided)
					if len(columns) != len(names) || columns[0] != "reward.click" {
						t.Fatalf("columns %v", columns)
					}
					counts := len(e.values) > 0 || !none
					for i, n := range names {
						if (values[i] != nil) != counts || counts && *values[i] != e.values[n] {
							t.Errorf("%s of event %d is %v, want %v", n, at, values[i], e.values[n])
						}
					}
					if counts && math.Abs(x.Reward-total(e)) > 1e-9 {
						t.Errorf("event %d has %v, want %v", at, x.Reward, total(e))
					}
				}
				if at != len(events) {
					t.Errorf("%d decisions, want %d", at, len(events))
				}
				// a window that is open at the end, with one name
				d := must(s.Decide(ctx, "m", one))
				must(s.progress.until(ctx, d.Seq))
				must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Rewards: map[string]float64{"click": 1}}))
				state := func(s *Server) []byte {
					s.mu.Lock()
					defer s.mu.Unlock()
					return must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1)))
				}
				want := state(s)
				if err := s.Close(ctx); err != nil {
					t.Fatal(err)
				}
				for i, edit := range []func(*Options){func(*Options) {}, with} {
					again := open(t, log, clock, edit)
					if !bytes.Equal(state(again), want) {
						t.Errorf("server %d has another state", i)
					}
					if v := must(again.Event(ctx, d.EventID)); v.Reward["click"] != 1 {
						t.Errorf("server %d: the event has %v", i, v.Reward)
					}
					if err := again.Close(ctx); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// TestRewardNamesRefused: what a model with rewards, and one without, does not take is refused with its field, and nothing is
// recorded; so are configurations that no reward could use.
func TestRewardNamesRefused(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	cfg := twoRewards("m", "sum", map[string]float64{"click": 1, "revenue": .5})
	cfg.Reward.Min, cfg.Reward.Max = 0, 2
	must(s.CreateModel(ctx, cfg, ""))
	must(s.CreateModel(ctx, vectors("plain", 2), ""))
	must(s.CreateModel(ctx, DefaultConfig("lists"), ""))
	one := DecideRequest{Actions: []Action{{ID: "a", Features: json.RawMessage(`[0.5, 0.25]`)}}}
	d, p := must(s.Decide(ctx, "m", one)), must(s.Decide(ctx, "plain", one))
	l := must(s.Decide(ctx, "lists", listRequest(1, 2, "a", "b", "c")))
	must(s.progress.until(ctx, l.Seq))
	must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Rewards: map[string]float64{"revenue": 2}}))
	head := s.committer.Stats().Head.Seq
	type m = map[string]float64
	for _, c := range []struct {
		event string
		r     RewardRequest
		want  []string
	}{
		{d.EventID, RewardRequest{Value: 1}, []string{"value", "is one number", "click and revenue", "reward"}},
		{d.EventID, RewardRequest{Rewards: m{}}, []string{"reward", "is empty", "click and revenue"}},
		{d.EventID, RewardRequest{Rewards: m{"clicks": 1}}, []string{"reward.clicks", "is no reward", "click and revenue"}},
		{d.EventID, RewardRequest{Rewards: m{"click": math.NaN()}}, []string{"reward.click", "expected a reward in"}},
		{d.EventID, RewardRequest{Rewards: m{"click": math.Inf(1)}}, []string{"reward.click", "expected a reward in"}},
		{d.EventID, RewardRequest{Rewards: m{"click": -2e100}}, []string{"reward.click", "expected a reward in"}},
		{d.EventID, RewardRequest{Rewards: m{"click": 1.5}}, []string{"reward", "makes 2.5", "rule sum", "[0, 2]"}},
		{d.EventID, RewardRequest{Rewards: m{"click": -1.5}}, []string{"reward", "makes -0.5", "[0, 2]"}},
		{d.EventID, RewardRequest{Rewards: m{"click": 1}, Value: 1}, []string{"reward", "stands beside value"}},
		{d.EventID, RewardRequest{Rewards: m{"click": 1}, OnlyCost: true, Cost: new(1.0)}, []string{"reward", "stands beside value"}},
		{d.EventID, RewardRequest{Rewards: m{"click": 1}, Position: new(0)}, []string{"position", "no list"}},
		{p.EventID, RewardRequest{Rewards: m{"click": 1}}, []string{"reward", "was made without rewards", "value, a number"}},
		{l.EventID, RewardRequest{Rewards: m{"click": 1}}, []string{"reward", "is a list"}},
	} {
		c.r.EventID = c.event
		_, err := s.Reward(ctx, c.r)
		wantCode(t, err, Invalid, c.want...)
		items, err := s.RewardBatch(ctx, []RewardRequest{c.r})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, items[0].Err, Invalid, c.want...)
	}
	if now := s.committer.Stats().Head.Seq; now != head {
		t.Errorf("the log has %d entries more", now-head)
	}
	nine := m{}
	for i := range 9 {
		nine[fmt.Sprint("r", i)] = 1
	}
	for _, c := range []struct {
		weights m
		edit    func(c *ModelConfig)
		want    []string
	}{
		{nine, nil, []string{"config.rewards", "has 9 names", "1 to 8"}},
		{m{"click": 0, "revenue": 0}, nil, []string{"config.rewards", "only weights of 0"}},
		{m{"click": math.NaN()}, nil, []string{"config.rewards.click", "[-1e+06, 1e+06]"}},
		{m{"click": math.Inf(-1)}, nil, []string{"config.rewards.click", "[-1e+06, 1e+06]"}},
		{m{"click": 1e7}, nil, []string{"config.rewards.click", "[-1e+06, 1e+06]"}},
		{m{"a click": 1}, nil, []string{"config.rewards", "letters, digits"}},
		{m{"": 1}, nil, []string{"config.rewards", "letters, digits"}},
		{m{"click": 1}, func(c *ModelConfig) { c.Reward.Default = Maybe{Set: true, Value: 1} }, []string{"config.reward.default", "0, so that each"}},
		{m{"click": 1}, func(c *ModelConfig) { c.Reward.Default = Maybe{Word: "auto"} }, []string{"config.reward.default", "or none"}},
		{m{"click": 1}, func(c *ModelConfig) { c.List.Reward = "list" }, []string{"config.list.reward", "does not go with rewards"}},
		{m{"click": 1}, func(c *ModelConfig) { c.Rewards = Rewards{} }, []string{"config.rewards", "has 0 names"}},
	} {
		cfg := twoRewards("new", "first", c.weights)
		if c.edit != nil {
			c.edit(&cfg)
		}
		_, err := s.CreateModel(ctx, cfg, "")
		wantCode(t, err, Invalid, c.want...)
	}
	for name, edit := range map[string]func(c *ModelConfig){
		"weight": func(c *ModelConfig) { c.Rewards = Rewards{{Name: "click", Weight: 2}, {Name: "revenue", Weight: .5}} },
		"name": func(c *ModelConfig) {
			c.Rewards = append(slices.Clone(c.Rewards), NamedWeight{Name: "zeal", Weight: 1})
		},
	} {
		m := must(s.GetModel(ctx, "m"))
		edit(&m.Config)
		_, err := s.ConfigureModel(ctx, "m", 0, m.Config, "")
		wantCode(t, err, Invalid, "config.rewards", "cannot change", name[:0])
	}
	free := DefaultConfig("free")
	free.Rewards = Rewards{{Name: "click", Weight: 1}}
	must(s.CreateModel(ctx, free, ""))
	_, err := s.Decide(ctx, "free", listRequest(1, 2, "a", "b", "c"))
	wantCode(t, err, Invalid, "rewards", "does not go with lists")
	quiet := ModelConfig{}
	quiet = DefaultConfig("m")
	quiet.Reward.Window = Duration(time.Hour)
	if got := must(s.ConfigureModel(ctx, "m", 0, quiet, "")); len(got.Config.Rewards) != 2 || !got.Config.Reward.Default.Set {
		t.Errorf("a change that does not name rewards left %v, default %+v", got.Config.Rewards, got.Config.Reward.Default)
	}
}

// TestRewardNamesBeside: rewards with names go with numbers, a budget, a guard, a control group and a deferred decision, and a clone,
// a rollback and a file of the model keep them.
func TestRewardNamesBeside(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	type m = map[string]float64
	make := func(name string, edit func(c *ModelConfig)) {
		c := DefaultConfig(name)
		c.Rewards = Rewards{{Name: "click", Weight: 1}, {Name: "cost", Weight: -.5}}
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt = -1, 1, false
		edit(&c)
		must(s.CreateModel(ctx, c, ""))
	}
	of := named("a", "b")
	price := NumberAsk{Name: "price", Min: new(1.0), Max: new(2.0)}
	for _, c := range []struct {
		name string
		edit func(c *ModelConfig)
		ask  DecideRequest
	}{
		{"plain", func(*ModelConfig) {}, DecideRequest{Actions: of}},
		{"numbers", func(*ModelConfig) {}, DecideRequest{Actions: of, Numbers: []NumberAsk{price}}},
		{"budget", func(c *ModelConfig) { c.Budget = model.Budget{Mean: 3, Per: "decision", OnEmpty: model.Cheapest} }, DecideRequest{Actions: []Action{{ID: "a", Cost: new(1.0)}, {ID: "b", Cost: new(2.0)}}}},
		{"guard", func(c *ModelConfig) { c.Mode, c.Guard.Margin, c.Guard.Confidence = "guarded", .1, .95 }, DecideRequest{Actions: of, Baseline: new(0)}},
		{"control", func(c *ModelConfig) { c.Control.Share, c.Control.Plays = .25, "uniform" }, DecideRequest{Actions: of}},
		{"deferred", func(*ModelConfig) {}, DecideRequest{Actions: of, Deferred: true}},
	} {
		make(c.name, c.edit)
		for i, r := range []m{{"click": 1, "cost": .5}, {"click": 1}} {
			d := must(s.Decide(ctx, c.name, c.ask))
			must(s.progress.until(ctx, d.Seq))
			if got, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Rewards: r, Cost: new(1.0)}); err != nil || got.Status != Accepted {
				t.Fatalf("%s: %v, %v", c.name, got.Status, err)
			}
			if v := must(s.GetModel(ctx, c.name)); v.Counts.Learned != uint64(1) {
				t.Errorf("%s: %d learned after reward %d, want 1: a name is missing", c.name, v.Counts.Learned, i)
			}
		}
		clock.forward(time.Hour)
		must(s.Expire(ctx))
		if v := must(s.GetModel(ctx, c.name)); v.Counts.Learned != 2 || v.Counts.Rewards != 2 || math.Abs(v.Counts.RewardSum-1.75) > 1e-12 || v.Counts.Open != 0 {
			t.Errorf("%s: %+v", c.name, v.Counts)
		}
	}
	saved := must(s.SaveModel(ctx, "plain", 0))
	if _, err := s.CloneModel(ctx, CloneRequest{From: "plain", Name: "copy"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateModelFrom(ctx, "loaded", saved, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"copy", "loaded"} {
		d := must(s.Decide(ctx, name, DecideRequest{Actions: of}))
		must(s.progress.until(ctx, d.Seq))
		if got, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Rewards: m{"click": 1, "cost": 0}}); err != nil || got.Status != Accepted {
			t.Errorf("%s: %v, %v", name, got.Status, err)
		}
		_, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1})
		wantCode(t, err, Invalid, "value", "click and cost")
	}
}
