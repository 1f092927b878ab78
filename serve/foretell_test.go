package serve

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/cryptotest"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

// featuresOf returns what the models read of the decisions of the log, by event, the newest last.
func featuresOf(t *testing.T, s *Server, model string) (records []*eventlog.Decision) {
	t.Helper()
	page := must(s.Log(context.Background(), model, 1, 1<<20))
	for r, err := range page.Records {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := r.Record.(*eventlog.Decision); ok {
			c := *d
			c.Atoms = slices.Clone(d.Atoms)
			records = append(records, &c)
		}
	}
	return records
}

// TestForetell: the curve of a decision's number has the expected rewards that an explained decision says of each cell in its context, with one
// and with two numbers; the best list has the expected rewards that an explained decision says of its entries, and no action stands where it never stood.
func TestForetell(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1) // the seeds of the models: with some of them the best list has the second item on top
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	for _, name := range []string{"one", "two", "list"} {
		must(s.CreateModel(ctx, DefaultConfig(name), "admin"))
	}
	asks := func(name string) []NumberAsk {
		if name == "one" {
			return []NumberAsk{playing("price", 1, 20, .5)}
		}
		return []NumberAsk{playing("bid", 0, 1, 0), playing("price", 1, 20, .5)}
	}
	for i := range 150 {
		for _, name := range []string{"one", "two"} {
			d := must(s.Decide(ctx, name, DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, i%2), Numbers: asks(name), Actions: []Action{{ID: "a"}, {ID: "b"}}}))
			u := (d.Numbers["price"] - 1) / 19
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1 - 2*(u-.6)*(u-.6)}))
		}
	}
	for _, name := range []string{"one", "two"} {
		for _, r := range featuresOf(t, s, name)[140:] {
			var u []float64
			var values []float64
			for v := 1.; v <= 20; v += .5 {
				values, u = append(values, v), append(u, (v-1)/19)
			}
			c := must(must(s.GetModel(ctx, name)).Foretell.Curve(ctx, r.Atoms, "price", u))
			if c == nil || len(c.Mean) != len(u) {
				t.Fatalf("%s: no curve", name)
			}
			if other := must(must(s.GetModel(ctx, name)).Foretell.Curve(ctx, r.Atoms, "hour", u)); other != nil {
				t.Errorf("%s: a number that is not played has a curve", name)
			}
			// The same request, explained, says it of the cells: of two numbers those whose bid is that of the decision.
			context := []byte(nil)
			for seg := range 2 {
				d := must(s.Decide(ctx, name, DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, seg), Numbers: asks(name), Actions: []Action{{ID: "a"}, {ID: "b"}}, Explain: true}))
				if last := featuresOf(t, s, name); last[len(last)-1].Context == r.Context {
					context = fmt.Appendf(nil, "%d", seg)
					found := 0
					for _, x := range d.Explain {
						at := slices.Index(values, x.Numbers["price"])
						if x.ID != r.Action || at < 0 || name == "two" {
							continue
						}
						if found++; x.Score == nil || math.Abs(*x.Score-c.Mean[at]) > 1e-9 || !(c.SD[at] > 0) {
							t.Fatalf("%s: at %v the curve has %v ± %v, the explanation %v", name, values[at], c.Mean[at], c.SD[at], *x.Score)
						}
					}
					if name == "one" && found != len(values) {
						t.Fatalf("%d cells were compared", found)
					}
				}
			}
			if context == nil {
				t.Fatal("the context of the decision was not found")
			}
		}
	}
	for i := range 200 {
		d := must(s.Decide(ctx, "list", DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, i%2), Choose: new(2), Actions: []Action{{ID: "a"}, {ID: "b"}, {ID: "c"}}}))
		var y []float64
		for _, e := range d.List {
			y = append(y, map[string]float64{"a": .2, "b": .9, "c": .4}[e.ID]/float64(1+e.Position))
		}
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Values: y}))
	}
	var lists []PlayedList
	for _, r := range featuresOf(t, s, "list") {
		lists = append(lists, PlayedList{r.Atoms, r.List.IDs})
	}
	slices.Reverse(lists)
	all := must(must(s.GetModel(ctx, "list")).Foretell.BestList(ctx, lists[:60])) // the context is that of the newest
	if all == nil || !slices.Equal(all.Actions, []string{"b", "c"}) || all.Approximate {
		t.Fatalf("the best list is %+v", all)
	}
	d := must(s.Decide(ctx, "list", DecideRequest{Context: []byte(`{"segment": "s1"}`), Choose: new(2), Actions: []Action{{ID: "a"}, {ID: "b"}, {ID: "c"}}, Explain: true}))
	for l, id := range all.Actions {
		i := slices.IndexFunc(d.Explain, func(x Explained) bool { return x.ID == id })
		if math.Abs(d.Explain[i].Values[l]-all.Expected[l]) > 1e-9 {
			t.Errorf("%s at %d: %v, the explanation has %v", id, l, all.Expected[l], d.Explain[i].Values[l])
		}
	}
	for _, l := range lists {
		if one := must(must(s.GetModel(ctx, "list")).Foretell.BestList(ctx, []PlayedList{l})); !slices.Equal(one.Actions, l.Actions) {
			t.Fatalf("of the list %v alone the best is %v", l.Actions, one.Actions)
		}
	}
}
