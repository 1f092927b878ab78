package serve

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"troupe/eventlog/eventlogtest"
)

// TestWeights: a model that was taught that one action is right in one city and the other one elsewhere says that the city
// explains most, shows the city's weights, larger where the action is right, and none of a value that few requests had.
func TestWeights(t *testing.T) {
	for _, described := range []bool{false, true} { // what the actions' own features say could be said of their ids
		t.Run(fmt.Sprint(described), func(t *testing.T) {
			list := named("sport", "news")
			if described {
				list[0].Features, list[1].Features = []byte(`{"len": 3}`), []byte(`{"len": 5}`)
			}
			weights(t, described, list)
		})
	}
}

func weights(t *testing.T, described bool, list []Action) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	config := DefaultConfig("m")
	config.Floor = 1 // all is tried in all circumstances
	must(s.CreateModel(ctx, config, ""))
	r := rand.New(rand.NewPCG(3, 4))
	cities := []string{"Oslo", "<script>"}
	for n := range 250 {
		c, device := r.IntN(2), r.IntN(3)
		d := must(s.Decide(ctx, "m", DecideRequest{
			Context: fmt.Appendf(nil, `{"city": %q, "device": "d%d", "age": %d, "user": "u%d"}`, cities[c], device, 20+r.IntN(60), n),
			Actions: list,
		}))
		y := 0.0
		if (d.Action.ID == "sport") == (c == 0) != (r.IntN(8) == 0) {
			y = 1
		}
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
	}
	m := must(s.GetModel(ctx, "m"))
	for _, p := range m.Explained.Parts {
		if strings.Contains(p.Name, "field ") && p.Share > .01 {
			t.Errorf("a field has no name: %+v", m.Explained.Parts)
			break
		}
	}
	if first := m.Explained.Parts[0]; !described && !strings.Contains(first.Name, "context.city") {
		t.Errorf("%+v explains most", first)
	}
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
	low, high := map[string]float64{}, map[string]float64{} // by feature of the context and action
	for _, w := range m.Weights.Rows {
		if _, twice := weight[w.Name]; twice {
			t.Errorf("%s has two rows", w.Name)
		}
		weight[w.Name] = w.Weight
		if len(w.Features) == 2 {
			of := w.Features[0] + w.Name[strings.Index(w.Name, " × "):]
			if _, ok := low[of]; !ok {
				low[of], high[of] = w.Weight, w.Weight
			}
			low[of], high[of] = min(low[of], w.Weight), max(high[of], w.Weight)
		}
	}
	// What all values of a field add alike could be said of the action: how they differ could not.
	for of := range low {
		if city := "context.city × id=sport"; !described && strings.HasPrefix(of, "context.device") && high[of]-low[of] > (high[city]-low[city])/2 {
			t.Errorf("%s differs by %v, %s by %v", of, high[of]-low[of], city, high[city]-low[city])
		}
	}
	for i, city := range cities {
		right := [2]string{"sport", "news"}[i]
		if y, n := weight["context.city="+city+" × id="+right], weight["context.city="+cities[1-i]+" × id="+right]; !described && !(y > n+.1) {
			t.Errorf("%s: %v in %s and %v in the other city", right, y, city, n)
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
}
