package serve

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"troupe/eventlog/eventlogtest"
)

// TestWeights: a model that was taught that one action is right in one city and the other one elsewhere shows the city's
// weights first, with their signs, and none of a value that few requests had.
func TestWeights(t *testing.T) {
	ctx := context.Background()
	for _, policy := range []string{"", "sparse"} {
		t.Run(policy, func(t *testing.T) {
			s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
			config := DefaultConfig("m")
			if policy != "" {
				config = must(DecodeModel(map[string]any{"id": "m", "policy": map[string]any{"kind": policy}}, "model"))
			}
			must(s.CreateModel(ctx, config, ""))
			r := rand.New(rand.NewPCG(3, 4))
			cities := []string{"Oslo", "<script>"}
			for n := range 250 {
				c, device := r.IntN(2), r.IntN(3)
				d := must(s.Decide(ctx, "m", DecideRequest{
					Context: fmt.Appendf(nil, `{"city": %q, "device": "d%d", "age": %d, "user": "u%d"}`, cities[c], device, 20+r.IntN(60), n),
					Actions: []Action{{ID: "sport", Features: []byte(`{"len": 3}`)}, {ID: "news", Features: []byte(`{"len": 5}`)}},
				}))
				y := 0.0
				if (d.Action.ID == "sport") == (c == 0) {
					y = 1
				}
				must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
			}
			m := must(s.GetModel(ctx, "m"))
			if m.Weights == nil || len(m.Weights.Rows) < 8 {
				t.Fatalf("weights are %+v", m.Weights)
			}
			for i, w := range m.Weights.Rows {
				if !(w.Spread > 0) || w.Weight == 0 || len(w.Features) == 0 || strings.Contains(w.Name, "=u") {
					t.Errorf("row %d is %+v", i, w)
				}
				if i > 0 && math.Abs(w.Weight)/w.Spread > math.Abs(m.Weights.Rows[i-1].Weight)/m.Weights.Rows[i-1].Spread {
					t.Errorf("row %d is out of order", i)
				}
			}
			weight := map[string]float64{}
			largest := m.Weights.Rows[0]
			for _, w := range m.Weights.Rows {
				if _, twice := weight[w.Name]; twice {
					t.Errorf("%s has two rows", w.Name)
				}
				if weight[w.Name] = w.Weight; math.Abs(w.Weight) > math.Abs(largest.Weight) {
					largest = w
				}
			}
			if !slices.Contains(largest.Features, "context.city") {
				t.Errorf("the largest weight is %+v, expected one of context.city", largest)
			}
			for i, city := range cities {
				right, wrong := [2]string{"sport", "news"}[i], [2]string{"news", "sport"}[i]
				if y, n := weight["context.city="+city+" × id="+right], weight["context.city="+city+" × id="+wrong]; !(y > 0 && n <= 0) {
					t.Errorf("%s: %v for the right action and %v for the other one", city, y, n)
				}
			}
			for _, f := range m.Seen.Features {
				switch has := f.Weight != nil; {
				case f.Name == "context.city" && (!has || f.Kind != "string" || f.Weight.Features[0] != f.Name), f.Name == "context.age" && f.Kind != "number", f.Name == "context.user" && has:
					t.Errorf("feature %+v with weight %+v", f, f.Weight)
				}
			}
			if list, _, err := s.ListModels(ctx, "", 0); err != nil || list[0].Weights != nil {
				t.Error("the list of models has weights")
			}
		})
	}
}
