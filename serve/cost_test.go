package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/fold"
)

// costly are k actions with costs 0, 1/8, 2/8, …
func costly(n, k int) []Action {
	out := actions(n, k, 3)
	for i := range out {
		out[i].Cost = new(float64(i) / 8)
	}
	return out
}

// TestCostsRefused: what is no cost is refused by its path, before anything is written.
func TestCostsRefused(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	cataloged := vectors("c", 3, func(c *ModelConfig) {
		for i, a := range actions(0, 3, 3) {
			c.Actions = append(c.Actions, Entry{ID: a.ID, Features: a.Features, Cost: new(float64(i))})
		}
	})
	must(s.CreateModel(ctx, cataloged, ""))
	d := must(s.Decide(ctx, "m", DecideRequest{Actions: costly(0, 3)}))
	before := s.Health().Log
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 2e15} {
		r := DecideRequest{Actions: costly(0, 3)}
		r.Actions[1].Cost = &bad
		_, err := s.Decide(ctx, "m", r)
		wantCode(t, err, Invalid, "actions[1].cost", "expected a cost from 0")
		_, err = s.Decide(ctx, "c", DecideRequest{Costs: []float64{0, 1, bad}})
		wantCode(t, err, Invalid, "costs[2]")
		_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: .5, Cost: &bad})
		wantCode(t, err, Invalid, "cost: is ", "expected a cost")
	}
	some := DecideRequest{Actions: costly(0, 3)}
	some.Actions[2].Cost = nil
	_, err := s.Decide(ctx, "m", some)
	wantCode(t, err, Invalid, "actions[2].cost", "all actions have a cost or none has")
	_, err = s.Decide(ctx, "m", DecideRequest{Actions: costly(0, 3), Costs: []float64{1, 2, 3}})
	wantCode(t, err, Invalid, "costs", "goes with packed or with the catalogue")
	_, err = s.Decide(ctx, "c", DecideRequest{Costs: []float64{1, 2}})
	wantCode(t, err, Invalid, "costs", "expected 3 numbers")
	_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, OnlyCost: true})
	wantCode(t, err, Invalid, "cost", "is missing")
	half := cataloged
	half.ID, half.Actions = "half", slices.Clone(cataloged.Actions)
	half.Actions[1].Cost = nil
	_, err = s.CreateModel(ctx, half, "")
	wantCode(t, err, Invalid, "config.actions[1].cost")
	for _, text := range []string{`-1`, `1e400`, `"1"`, `2e15`} {
		var c ModelConfig
		if err := json.Unmarshal([]byte(`{"id":"x","actions":[{"id":"a","cost":`+text+`}]}`), &c); err == nil {
			t.Errorf("a catalogue with the cost %s is taken", text)
		}
	}
	if after := s.Health().Log; after != before {
		t.Errorf("what was refused has written entries %d to %d", before+1, after)
	}
	// A repetition with another cost is another request.
	r := DecideRequest{Actions: costly(0, 3), IdempotencyKey: "k"}
	must(s.Decide(ctx, "m", r))
	r.Actions = costly(0, 3)
	r.Actions[1].Cost = new(.5)
	_, err = s.Decide(ctx, "m", r)
	wantCode(t, err, Conflict, "idempotency_key")
}

// costsOf lists the decisions of a model with what they cost.
func costsOf(t *testing.T, s *Server, model string) (out []string) {
	t.Helper()
	page := must(s.Decisions(context.Background(), model, 0, 1_000_000))
	for d, err := range page.Decisions {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%v %g %s %g", d.Record.Costs, d.Cost, d.State, d.Reward))
	}
	return out
}

// TestCosts: what a request states and what calls say later stands with the decisions, by the rule of the rewards, also in
// the state that a snapshot keeps, and a decision with costs replays.
func TestCosts(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	for _, rule := range []string{"first", "sum", "last"} {
		must(s.CreateModel(ctx, vectors(rule, 3, func(c *ModelConfig) { c.Reward.Rule = Rule(rule) }), ""))
	}
	pay := func(d Decision, key string, value, cost any, want RewardStatus) {
		t.Helper()
		r := RewardRequest{EventID: d.EventID, Key: key, OnlyCost: value == nil}
		if value != nil {
			r.Value = value.(float64)
		}
		if cost != nil {
			r.Cost = new(cost.(float64))
		}
		if got := must(s.Reward(ctx, r)); got.Status != want {
			t.Errorf("%v, %v: %s, want %s", value, cost, got.Status, want)
		}
	}
	costs := "[0 0.125 0.25]"
	var ids []string
	want := map[string][]string{}
	for _, rule := range []string{"first", "sum", "last"} {
		decide := func(line string) Decision {
			d := must(s.Decide(ctx, rule, DecideRequest{Actions: costly(len(ids), 3)}))
			ids = append(ids, d.EventID)
			if line == "stated" {
				line = fmt.Sprintf("%g none NaN", float64(d.Action.Index)/8)
			}
			want[rule] = append(want[rule], costs+" "+line)
			return d
		}
		decide("stated")
		d := decide("2 none NaN") // money was spent, and no reward came
		pay(d, "", nil, 2., Accepted)
		d = decide(map[string]string{"first": "2 paid 0.5", "sum": "5 paid 0.75", "last": "3 paid 0.25"}[rule])
		pay(d, "a", .5, 2., Accepted)
		again := Accepted
		if rule == "first" {
			again = Duplicate
		}
		pay(d, "b", .25, 3., again)
		pay(d, "b", .25, 3., Duplicate)
		d = decide("0 paid 0.5") // a cost of 0 is a cost
		pay(d, "c", nil, 0., Accepted)
		pay(d, "c", nil, 0., Duplicate)
		pay(d, "d", .5, nil, Accepted)
	}
	for rule, line := range map[string]string{"first": "1 paid 0.5", "sum": "5 paid 0.5", "last": "4 paid 0.5"} {
		d := must(s.Decide(ctx, rule, DecideRequest{Actions: costly(0, 3)}))
		want[rule] = append(want[rule], costs+" "+line)
		pay(d, "e", nil, 1., Accepted)
		pay(d, "f", .5, 4., Accepted)
	}
	d := must(s.Decide(ctx, "first", DecideRequest{Actions: actions(0, 3, 3)}))
	want["first"] = append(want["first"], "[] NaN none NaN")
	ids = append(ids, d.EventID)
	if v := must(s.Event(ctx, ids[1])); v.Cost == nil || *v.Cost != 2 || v.Status != "open" || fmt.Sprint(v.Decision.Costs) != costs {
		t.Errorf("the event: %+v", v)
	}
	// The state comes back from its bytes.
	must(s.progress.until(ctx, s.Health().Log))
	s.mu.RLock()
	b := must(s.fold.AppendState(nil, s.applier.chain))
	s.mu.RUnlock()
	f, chain, err := fold.Restore(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again := must(f.AppendState(nil, chain)); !slices.Equal(again, b) {
		t.Error("a state with costs does not come back from its bytes")
	}
	key := must(s.Event(ctx, ids[1])).Key
	if c, ok := f.Cost(key); !ok || c != 2 {
		t.Errorf("in the snapshot it has cost %v, %v", c, ok)
	}
	clock.forward(time.Hour)
	must(s.Expire(ctx))
	pay(Decision{EventID: ids[0]}, "", nil, 7., Late)
	for rule := range want {
		if got := costsOf(t, s, rule); !slices.Equal(got, want[rule]) {
			t.Errorf("rule %s:\n%q\nwant\n%q", rule, got, want[rule])
		}
	}
	for _, id := range ids {
		if r := must(s.Replay(ctx, id)); !r.Equal {
			t.Errorf("%s replays with other %v", id, r.Differs)
		}
	}
	// A log with costs is read by a server that begins anew.
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock)
	for rule := range want {
		if got := costsOf(t, s, rule); !slices.Equal(got, want[rule]) {
			t.Errorf("after a restart, rule %s:\n%q\nwant\n%q", rule, got, want[rule])
		}
	}
}

// TestCostsOfCatalogue: entries have costs, a request may state others, and those that are excluded are left out.
func TestCostsOfCatalogue(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) {
		for i, a := range actions(0, 3, 3) {
			c.Actions = append(c.Actions, Entry{ID: a.ID, Features: a.Features, Cost: new(float64(i))})
		}
	}), ""))
	for _, c := range []struct {
		r    DecideRequest
		want []float64
	}{
		{DecideRequest{}, []float64{0, 1, 2}},
		{DecideRequest{Costs: []float64{5, 6, 7}}, []float64{5, 6, 7}},
		{DecideRequest{Exclude: []string{"a0"}}, []float64{1, 2}},
		{DecideRequest{Costs: []float64{5, 6, 7}, Available: []bool{true, false, true}}, []float64{5, 7}},
		{DecideRequest{Actions: []Action{{ID: "a2"}, {ID: "a0"}}}, []float64{2, 0}},
		{DecideRequest{Actions: []Action{{ID: "a2", Cost: new(9.)}, {ID: "a0"}}}, []float64{9, 0}},
		{DecideRequest{Packed: json.RawMessage(`{"dtype":"float64","shape":[1,3],"data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`),
			IDs: []string{"x"}, Costs: []float64{.5}}, []float64{.5}},
	} {
		v := must(s.Event(ctx, must(s.Decide(ctx, "m", c.r)).EventID))
		if !slices.Equal(v.Decision.Costs, c.want) {
			t.Errorf("%+v: costs %v, want %v", c.r, v.Decision.Costs, c.want)
		}
	}
	_, err := s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a2"}, {ID: "new", Features: json.RawMessage(`[0,0,1]`)}}})
	wantCode(t, err, Invalid, "actions[1].cost")
	if got := must(s.GetModel(ctx, "m")).Config.Actions[2].Cost; got == nil || *got != 2 {
		t.Errorf("the catalogue has the cost %v", got)
	}
}

// TestCostsOnThreeNodes: nodes that take each other's costs have the same state.
func TestCostsOnThreeNodes(t *testing.T) {
	ctx := t.Context()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) { c.Reward.Rule = "sum" }), ""))
	created := nodes[0].Health().Log
	total := 0.
	var ids []eventlog.Event
	for i := range 30 {
		d := must(nodes[i%3].Decide(ctx, "m", DecideRequest{Actions: costly(i, 4), MinSeq: created}))
		r := RewardRequest{EventID: d.EventID, Value: .5, OnlyCost: i%4 == 0, Cost: new(float64(i)), Key: "a"}
		total += 2 * float64(i)
		for _, at := range []int{i + 1, i + 2, i} { // the key counts once
			must(nodes[at%3].Reward(ctx, r))
		}
		ids = append(ids, must(nodes[i%3].Event(ctx, d.EventID)).Key)
		r.Key = "b"
		must(nodes[(i+2)%3].Reward(ctx, r))
	}
	agree(t, nodes...)
	got := 0.
	for _, e := range ids {
		if c, ok := nodes[1].fold.Cost(e); ok {
			got += c
		}
	}
	if got != total {
		t.Errorf("the open events cost %v, want %v", got, total)
	}
}
