package serve

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"troupe/eventlog/eventlogtest"
)

// TestExplained: a model that reads requests says after 100 rewards which field matters and which does not, from a world in
// which all was tried; a reward that is far from all others is named until a second one like it comes.
func TestExplained(t *testing.T) {
	ctx := t.Context()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	c := DefaultConfig("m")
	c.Floor = 1
	must(s.CreateModel(ctx, c, ""))
	r := rand.New(rand.NewPCG(4, 4))
	pay := func(value func(city, action int) float64) {
		city := r.IntN(2)
		d := must(s.Decide(ctx, "m", DecideRequest{Context: fmt.Appendf(nil, `{"city": "c%d", "device": "d%d"}`, city, r.IntN(3)), Actions: named("a", "b")}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: value(city, d.Action.Index)}))
	}
	matches := func(city, action int) float64 {
		if p := r.Float64(); city == action && p < .9 || p < .1 {
			return 1
		}
		return 0
	}
	view := func() Model { applied(s); return must(s.GetModel(ctx, "m")) }
	if e := view().Explained; e != nil {
		t.Errorf("before the first reward: %+v", e)
	}
	for range 99 {
		pay(matches)
	}
	if e := view().Explained; e == nil || e.Text != "" {
		t.Errorf("after 99 rewards: %+v", e)
	}
	for range 301 {
		pay(matches)
	}
	m := view()
	e := m.Explained
	if e == nil || e.Share < .4 || e.Share > .9 || len(e.Parts) < 3 || e.Parts[0].Name != "context.city" || e.Parts[0].Share < .8 {
		t.Fatalf("explained %+v", e)
	}
	if !strings.HasPrefix(e.Text, "`context.city` explains ") || !strings.Contains(e.Text, "there is nothing that can be seen yet") ||
		!strings.Contains(e.Text, "`context.device`") || !strings.Contains(e.Text, fmt.Sprintf("All of it explains %.0f%% of the rewards' variance", 100*e.Share)) {
		t.Errorf("it says %q", e.Text)
	}
	warns := func(m Model) bool {
		return strings.Contains(strings.Join(m.Warnings, "\n"), "a reward (2500) is far from all others")
	}
	if warns(m) || len(e.Far) > 0 {
		t.Errorf("a warning without a far reward: %q", m.Warnings)
	}
	far := func(int, int) float64 { return 2500 }
	pay(far)
	if m = view(); !warns(m) || len(m.Explained.Far) != 1 || m.Explained.Far[0] != 2500 {
		t.Errorf("after a reward of 2500: %+v, %q", m.Explained, m.Warnings)
	}
	if lists, _, err := s.ListModels(ctx, "", 0); err != nil || !warns(lists[0]) {
		t.Errorf("the list of models does not say it: %v", err)
	}
	pay(far)
	if m = view(); warns(m) || len(m.Explained.Far) > 0 {
		t.Errorf("after a second one: %+v, %q", m.Explained, m.Warnings)
	}
}

// TestExplainedOffers: where actions have features a part has the names of what it is of: a number of the action and one of the
// context that matter together, by their difference too; no part is a number.
func TestExplainedOffers(t *testing.T) {
	ctx := t.Context()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	c := DefaultConfig("m")
	c.Floor = 1
	must(s.CreateModel(ctx, c, ""))
	r := rand.New(rand.NewPCG(5, 5))
	for n := range 400 {
		budget := 100 + r.IntN(900)
		var offers []Action
		var prices []int
		for i := range 3 {
			prices = append(prices, 100+r.IntN(900))
			offers = append(offers, Action{ID: fmt.Sprint("o", n%7, i), Features: fmt.Appendf(nil, `{"price": %d, "brand": "b%d"}`, prices[i], r.IntN(3))})
		}
		d := must(s.Decide(ctx, "m", DecideRequest{Context: fmt.Appendf(nil, `{"budget": %d, "segment": "s%d"}`, budget, r.IntN(3)), Actions: offers}))
		y := 0.
		if over := prices[d.Action.Index] - budget; over < 0 && r.Float64() < .9 {
			y = 1
		}
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
	}
	applied(s)
	e := must(s.GetModel(ctx, "m")).Explained
	if e == nil {
		t.Fatal("nothing is explained")
	}
	names := map[string]float64{}
	for _, p := range e.Parts {
		if names[p.Name] > 0 || strings.Contains(p.Name, "field ") {
			t.Errorf("part %q: twice, or without a name", p.Name)
		}
		names[p.Name] += p.Share
	}
	if names["action.price with context.budget"] < .5 || names["action with context.segment"] > .2 || names["context.segment"] > .2 {
		t.Errorf("parts %v", e.Parts)
	}
	if _, there := names["action with context.segment"]; !there {
		t.Errorf("what ids have of their own is no part: %v", e.Parts)
	}
}

// TestEarlierKinds: the features and the policies of earlier programs are refused with what to do.
func TestEarlierKinds(t *testing.T) {
	for text, want := range map[string]string{
		`{"id": "m", "features": {"model": "hashed"}}`:             "leave features out",
		`{"id": "m", "features": {"model": "hashed", "bits": 12}}`: "leave features out",
		`{"id": "m", "policy": {"kind": "hashed"}}`:                "leave policy out",
		`{"id": "m", "policy": {"kind": "hashed", "small": "no"}}`: "leave policy out",
		`{"id": "m", "policy": {"kind": "sparse"}}`:                "give features (a schema) or dim, or leave policy out",
	} {
		var c ModelConfig
		err := c.UnmarshalJSON([]byte(text))
		if err == nil {
			err = c.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
