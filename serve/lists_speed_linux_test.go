package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"troupe/eventlog/eventlogtest"
)

// TestListSpeed: a list of 10 of 100 actions takes at most one and a half times the processor time of ten decisions among them,
// on models that have learned 1,000 events of the same contexts, with actions that have ids only, and with ten categories, of which lists have some twice;
// blocks of both are measured in turn.
func TestListSpeed(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to measure the time of lists")
	}
	for _, categories := range []int{0, 10} {
		t.Run(fmt.Sprint(categories), func(t *testing.T) { listSpeed(t, categories) })
	}
}

func listSpeed(t *testing.T, categories int) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("list"), "admin"))
	must(s.CreateModel(ctx, DefaultConfig("actions"), "admin"))
	const n, k = 100, 10
	var offers []Action
	for i := range n {
		a := Action{ID: fmt.Sprint("a", i)}
		if categories > 0 {
			a.Features = fmt.Appendf(nil, `{"category": "c%d"}`, i%categories)
		}
		offers = append(offers, a)
	}
	r := rand.New(rand.NewPCG(1, 1))
	asks := func(name string) DecideRequest {
		q := DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d", "device": "d%d"}`, r.IntN(4), r.IntN(3)), Actions: offers}
		if name == "list" {
			q.Choose = new(k)
		}
		return q
	}
	click := func(i, l int) float64 {
		if r.Float64() < (.05+.4*float64(i%17)/17)/(1+.3*float64(l)) {
			return 1
		}
		return 0
	}
	for range 1000 {
		d := must(s.Decide(ctx, "list", asks("list")))
		var values []float64
		for l, e := range d.List {
			values = append(values, click(e.Index, l))
		}
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Values: values}))
		d = must(s.Decide(ctx, "actions", asks("actions")))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: click(d.Action.Index, 0)}))
	}
	took := map[string][]float64{}
	for range 20 {
		for _, name := range []string{"list", "actions"} {
			from := processorTime()
			for range 20 {
				must(s.Decide(ctx, name, asks(name)))
			}
			took[name] = append(took[name], (processorTime()-from).Seconds()*1e6/20)
		}
	}
	for _, v := range took {
		slices.Sort(v)
	}
	list, actions := took["list"][10], took["actions"][10]
	if t.Logf("a list of %d of %d %.0f µs, a decision %.0f µs: %.2f times ten decisions", k, n, list, actions, list/actions/k); list > 1.5*k*actions {
		t.Errorf("a list takes %.2f times as long as ten decisions, expected 1.5 at most", list/actions/k)
	}
}
