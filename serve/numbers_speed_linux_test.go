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

// TestNumberSpeed: a decision of a number with 64 cells takes at most three times the processor time of one of 20 actions, on
// models that have learned 1,000 events of the same contexts; blocks of both are measured in turn.
func TestNumberSpeed(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to measure the time of decisions")
	}
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("number"), "admin"))
	must(s.CreateModel(ctx, DefaultConfig("actions"), "admin"))
	var offers []Action
	for i := range 20 {
		offers = append(offers, Action{ID: fmt.Sprint("a", i)})
	}
	r := rand.New(rand.NewPCG(1, 1))
	asks := func(name string) DecideRequest {
		q := DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d", "device": "d%d"}`, r.IntN(4), r.IntN(3))}
		if name == "number" {
			q.Numbers = []NumberAsk{playing("bid", 0, 1, 0)}
		} else {
			q.Actions = offers
		}
		return q
	}
	for range 1000 {
		for _, name := range []string{"number", "actions"} {
			d := must(s.Decide(ctx, name, asks(name)))
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: r.Float64() * (d.Numbers["bid"] + float64(d.Action.Index)/20)}))
		}
	}
	took := map[string][]float64{}
	for range 20 {
		for _, name := range []string{"number", "actions"} {
			from := processorTime()
			for range 100 {
				must(s.Decide(ctx, name, asks(name)))
			}
			took[name] = append(took[name], (processorTime()-from).Seconds()*1e4)
		}
	}
	for _, v := range took {
		slices.Sort(v)
	}
	number, actions := took["number"][10], took["actions"][10]
	if t.Logf("a number %.0f µs, 20 actions %.0f µs: %.2f times", number, actions, number/actions); number > 3*actions {
		t.Errorf("a number takes %.2f times as long as 20 actions, expected 3 at most", number/actions)
	}
}
