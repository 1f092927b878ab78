package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
)

func playing(name string, lo, hi, step float64) NumberAsk {
	a := NumberAsk{Name: name, Min: &lo, Max: &hi}
	if step > 0 {
		a.Step = &step
	}
	return a
}

// numberServer has a model shop, which has learned from n decisions with a price of 1 to 20 in steps of ½, or a bid of any
// size in [0, 1].
func numberServer(t *testing.T, a NumberAsk, n int, edit ...func(*ModelConfig)) (*Server, eventlog.Log, *fakeClock, []Decision) {
	t.Helper()
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	c := DefaultConfig("shop")
	for _, f := range edit {
		f(&c)
	}
	must(s.CreateModel(ctx, c, "admin"))
	r := rand.New(rand.NewPCG(1, 2))
	var out []Decision
	for i := range n {
		q := DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, i%3), Numbers: []NumberAsk{a}}
		if c.Unit != "" {
			q.Context = fmt.Appendf(nil, `{"segment": "s%d", "user": %d}`, i%3, i%40)
		}
		d := must(s.Decide(ctx, "shop", q))
		v := d.Numbers[a.Name]
		u := (v - *a.Min) / (*a.Max - *a.Min)
		y := 1 - 4*(u-.6)*(u-.6) + .2*r.NormFloat64()
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
		out = append(out, d)
	}
	return s, log, clock, out
}

// TestNumbers: the first request fixes the range; a decision has the number, its exact propensity or density, and its record
// has the law of all cells, which sums to 1; what is learned moves the numbers to the best one; every decision is replayed,
// and a restart, from the log and from a snapshot, has the same state.
func TestNumbers(t *testing.T) {
	ctx := context.Background()
	for _, x := range []struct {
		ask   NumberAsk
		cells int
	}{{playing("price", 1, 20, .5), 39}, {playing("bid", 0, 1, 0), 64}} {
		s, log, clock, all := numberServer(t, x.ask, 300)
		m := must(s.GetModel(ctx, "shop"))
		if len(m.Config.Numbers) != 1 || m.Config.Numbers[0].Name != x.ask.Name || m.ConfigVersion != 2 {
			t.Fatalf("the configuration %d has the numbers %+v", m.ConfigVersion, m.Config.Numbers)
		}
		near := 0
		for i, d := range all {
			v := d.Numbers[x.ask.Name]
			e := must(s.Event(ctx, d.EventID))
			r := &e.Decision
			if int(r.Offered) != x.cells || len(r.Law) != x.cells || r.Voters != 64 || len(r.Numbers) != 1 || r.Numbers[0].Value != v {
				t.Fatalf("record %+v", r)
			}
			num, den := d.Propensity.Num, d.Propensity.Den
			if x.ask.Step == nil {
				c := d.Density.Cell["bid"]
				if d.Propensity != (Fraction{}) || !(v >= c[0] && v <= c[1]) || math.Abs(c[1]-c[0]-1./64) > 1e-12 || r.Width() != c[1]-c[0] {
					t.Fatalf("decision %+v", d)
				}
				num, den = d.Density.Num, d.Density.Den
			} else if d.Density != nil || math.Mod(v, .5) != 0 || v < 1 || v > 20 || r.Width() != 0 {
				t.Fatalf("decision %+v", d)
			}
			// (1−f)·v/N + f/G = ((100−1)·v·G + N)/(100·N·G)
			want := (99*r.Law[r.Index]*uint64(x.cells) + 64)
			if num*6400*uint64(x.cells) != want*den {
				t.Fatalf("the propensity is %d/%d, want %d/%d", num, den, want, 6400*x.cells)
			}
			if u := (v - *x.ask.Min) / (*x.ask.Max - *x.ask.Min); i >= 200 && math.Abs(u-.6) < .15 {
				near++
			}
			if i%37 == 0 {
				if p := must(s.Replay(ctx, d.EventID)); !p.Equal {
					t.Fatalf("decision %d differs in %v", i, p.Differs)
				}
			}
		}
		// One model in sixty is still far from the best number after 200 decisions, by its seed (60 runs of both: 116 of 120 had
		// 77 to 100 near ones, the others 1, 66, 71 and 77). Three in a row are a fault.
		for range 2 {
			if near >= 70 {
				break
			}
			_, _, _, more := numberServer(t, x.ask, 300)
			near = 0
			for _, d := range more[200:] {
				if u := (d.Numbers[x.ask.Name] - *x.ask.Min) / (*x.ask.Max - *x.ask.Min); math.Abs(u-.6) < .15 {
					near++
				}
			}
		}
		if near < 70 {
			t.Errorf("%s: %d of the last 100 numbers are near the best one, want 70 by one of three models", x.ask.Name, near)
		}
		was := must(s.State(ctx, "shop"))
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s = open(t, log, clock)
		if is := must(s.State(ctx, "shop")); is.Digest != was.Digest || is.Learned != 300 {
			t.Fatalf("after a restart the state is %v, was %v", is, was)
		}
		if p := must(s.Replay(ctx, all[280].EventID)); !p.Equal {
			t.Fatalf("after a restart the decision differs in %v", p.Differs)
		}
	}
}

// TestNumberLaw: 20,000 decisions without rewards agree with the law that their records state: cell by cell by χ² at the
// level 10⁻⁶, and the places within the cells are uniform.
func TestNumberLaw(t *testing.T) {
	ctx := context.Background()
	s, _, _, _ := numberServer(t, playing("bid", 0, 1, 0), 60)
	var n [64]float64
	var want [64]float64
	var places [10]float64
	const count = 20000
	for i := 0; i < count; i += 200 {
		var rs []DecideRequest
		for range 200 {
			rs = append(rs, DecideRequest{Context: json.RawMessage(`{"segment": "s1"}`)})
		}
		for _, item := range must(s.DecideBatch(ctx, "shop", rs)) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
			d := item.Decision
			c := d.Density.Cell["bid"]
			n[int(c[0]*64)]++
			places[min(9, int(10*(d.Numbers["bid"]-c[0])*64))]++
			r := must(s.Event(ctx, d.EventID)).Decision
			for k, v := range r.Law {
				want[k] += .99*float64(v)/64 + .01/64
			}
		}
	}
	var chi, chi10 float64
	for k := range n {
		chi += (n[k] - want[k]) * (n[k] - want[k]) / want[k]
	}
	for k := range places {
		chi10 += (places[k] - count/10) * (places[k] - count/10) / (count / 10)
	}
	// quantiles of χ² with 63 and 9 degrees at 1 − 10⁻⁶
	if chi > 132 || chi10 > 47 {
		t.Errorf("χ² is %.1f over cells (limit 132) and %.1f within them (limit 47)", chi, chi10)
	}
}

// TestNumberRefusals: each refusal names the field and what was expected, and none fixes the numbers of the model.
func TestNumberRefusals(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, DefaultConfig("shop"), "admin"))
	f := func(x float64) *float64 { return &x }
	yes := true
	for _, x := range []struct {
		asks  []NumberAsk
		field string
		words string
	}{
		{[]NumberAsk{playing("a", 1, 2, 0), playing("b", 1, 2, 0), playing("c", 1, 2, 0), playing("d", 1, 2, 0)}, "numbers", "at most 3"},
		{[]NumberAsk{playing("a", 2, 2, 0)}, "numbers[0].min", "less than max"},
		{[]NumberAsk{playing("a", 3, 2, 0)}, "numbers[0].min", "less than max"},
		{[]NumberAsk{{Name: "a", Min: f(1)}}, "numbers[0].max", "is missing"},
		{[]NumberAsk{{Name: "a", Max: f(1)}}, "numbers[0].min", "is missing"},
		{[]NumberAsk{{Name: "", Min: f(1), Max: f(2)}}, "numbers[0].name", "expected a name"},
		{[]NumberAsk{playing("a", 1, math.Inf(1), 0)}, "numbers[0].max", "expected a number in"},
		{[]NumberAsk{playing("a", math.NaN(), 1, 0)}, "numbers[0].min", "expected a number in"},
		{[]NumberAsk{playing("a", 1, 2, 1.5)}, "numbers[0].step", "leaves one value"},
		{[]NumberAsk{playing("a", 0, 1001, 1)}, "numbers[0].step", "1.002"},
		{[]NumberAsk{{Name: "a", Min: f(0), Max: f(1), Step: f(0)}}, "numbers[0].step", "above 0"},
		{[]NumberAsk{{Name: "a", Min: f(0), Max: f(1), Log: &yes}}, "numbers[0].min", "more than 0"},
		{[]NumberAsk{{Name: "a", Min: f(1), Max: f(2), Log: &yes, Cyclic: &yes}}, "numbers[0].log", "cyclic"},
		{[]NumberAsk{playing("a", 1, 2, 0), playing("a", 1, 2, 0)}, "numbers[1].name", "two numbers"},
		{[]NumberAsk{playing("a", 0, 99, 1), playing("b", 0, 99, 1)}, "numbers", "4096"},
	} {
		_, err := s.Decide(ctx, "shop", DecideRequest{Numbers: x.asks})
		wantCode(t, err, Invalid, x.words)
		if e := err.(*Error); e.Field != x.field {
			t.Errorf("%v: the field is %q, want %q", err, e.Field, x.field)
		}
	}
	_, err := s.Decide(ctx, "shop", DecideRequest{Context: json.RawMessage(`{"a": `), Numbers: []NumberAsk{playing("price", 1, 20, .5)}})
	wantCode(t, err, Invalid, "context")
	if m := must(s.GetModel(ctx, "shop")); m.ConfigVersion != 1 || len(m.Config.Numbers) != 0 {
		t.Fatalf("a request that was refused fixed the numbers %+v", m.Config.Numbers)
	}
	must(s.Decide(ctx, "shop", DecideRequest{Numbers: []NumberAsk{playing("price", 1, 20, .5)}}))
	for _, x := range []struct {
		ask   NumberAsk
		field string
		words string
	}{
		{playing("cost", 1, 20, .5), "numbers[0].name", "which has price"},
		{playing("price", 0, 20, .5), "numbers[0].min", "[1, 20]"},
		{playing("price", 1, 21, .5), "numbers[0].max", "[1, 20]"},
		{playing("price", 1, 20, 1), "numbers[0].step", "cannot change"},
		{NumberAsk{Name: "price", Log: &yes}, "numbers[0].log", "cannot change"},
		{playing("price", 4.1, 4.2, .5), "numbers[0].min", "leaves no step"},
	} {
		_, err := s.Decide(ctx, "shop", DecideRequest{Numbers: []NumberAsk{x.ask}})
		wantCode(t, err, Invalid, x.words)
		if e := err.(*Error); e.Field != x.field {
			t.Errorf("%v: the field is %q, want %q", err, e.Field, x.field)
		}
	}
	_, err = s.Decide(ctx, "shop", DecideRequest{Actions: []Action{{ID: "a", Numbers: []string{"cost"}}}})
	wantCode(t, err, Invalid, "actions[0].numbers[0]", "which has price")
	two := 2
	_, err = s.Decide(ctx, "shop", DecideRequest{Choose: &two, Actions: []Action{{ID: "a"}, {ID: "b"}}})
	wantCode(t, err, Invalid, "choose", "plays numbers")
	_, err = s.Decide(ctx, "shop", DecideRequest{Mode: "apprentice"})
	wantCode(t, err, Invalid, "baseline")
	c := must(s.GetModel(ctx, "shop")).Config
	c.Numbers = slices.Clone(c.Numbers)
	c.Numbers[0].Max = 30
	_, err = s.ConfigureModel(ctx, "shop", 0, c, "admin")
	wantCode(t, err, Invalid, "numbers", "cannot change")
}

// TestNarrowedNumbers: a request narrows a range for itself; cells that are cut are played on what is left of them, and the
// law counts those that are left.
func TestNarrowedNumbers(t *testing.T) {
	ctx := context.Background()
	s, _, _, _ := numberServer(t, playing("bid", 0, 1, 0), 20)
	lo, hi := .505, .52
	for range 40 {
		d := must(s.Decide(ctx, "shop", DecideRequest{Numbers: []NumberAsk{{Name: "bid", Min: &lo, Max: &hi}}}))
		r := must(s.Event(ctx, d.EventID)).Decision
		if c := d.Density.Cell["bid"]; r.Offered != 2 || d.Numbers["bid"] < lo || d.Numbers["bid"] > hi || c != [2]float64{lo, .515625} && c != [2]float64{.515625, hi} {
			t.Fatalf("decision %+v of %d cells", d, r.Offered)
		}
		if p := must(s.Replay(ctx, d.EventID)); !p.Equal {
			t.Fatalf("differs in %v", p.Differs)
		}
	}
	s, _, _, _ = numberServer(t, playing("price", 1, 20, .5), 20)
	low := 19.
	d := must(s.Decide(ctx, "shop", DecideRequest{Numbers: []NumberAsk{{Name: "price", Min: &low}}, Explain: true}))
	if d.Numbers["price"] < 19 || len(d.Explain) != 3 {
		t.Fatalf("decision %+v", d)
	}
}

// TestNumbersWithActions: an action plays all numbers, or those that it lists; the candidates are all their cells. A
// repetition with the same key has the same answer.
func TestNumbersWithActions(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, DefaultConfig("shop"), "admin"))
	q := DecideRequest{Context: json.RawMessage(`{"segment": "new"}`), Numbers: []NumberAsk{playing("price", 1, 20, .5), playing("bid", 0, 1, 0)},
		Actions: []Action{{ID: "basic", Numbers: []string{"price"}}, {ID: "plus"}, {ID: "none", Numbers: []string{}}}}
	seen := map[string]int{}
	for i := range 200 {
		q.IdempotencyKey = fmt.Sprint("k", i)
		d := must(s.Decide(ctx, "shop", q))
		r := must(s.Event(ctx, d.EventID)).Decision
		if r.Offered != 39+39*16+1 || r.Action != d.Action.ID || q.Actions[d.Action.Index].ID != d.Action.ID {
			t.Fatalf("record %+v", r)
		}
		if n := map[string]int{"basic": 1, "plus": 2, "none": 0}[d.Action.ID]; len(d.Numbers) != n || (d.Density != nil) != (n == 2) {
			t.Fatalf("decision %+v", d)
		}
		seen[d.Action.ID]++
		again := must(s.Decide(ctx, "shop", q))
		if !again.Repeated || again.EventID != d.EventID || fmt.Sprint(again.Numbers, again.Action, again.Propensity) != fmt.Sprint(d.Numbers, d.Action, d.Propensity) {
			t.Fatalf("repeated: %+v, was %+v", again, d)
		}
		if p := must(s.Replay(ctx, d.EventID)); !p.Equal {
			t.Fatalf("differs in %v", p.Differs)
		}
		y := map[string]float64{"basic": .4, "plus": .6, "none": .5}[d.Action.ID]
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
	}
	other := q
	other.Numbers = []NumberAsk{playing("price", 2, 20, .5), playing("bid", 0, 1, 0)}
	_, err := s.Decide(ctx, "shop", other)
	wantCode(t, err, Conflict, "another request")
	if seen["plus"] < 100 || seen["basic"] == 0 {
		t.Errorf("played %v, want plus most, and not alone", seen)
	}
}

// TestUnitNumber: a person keeps its number while the model stays what it is, also within a cell.
func TestUnitNumber(t *testing.T) {
	ctx := context.Background()
	s, _, _, _ := numberServer(t, playing("bid", 0, 1, 0), 40, func(c *ModelConfig) { c.Unit, c.Floor = "context.user", 0 })
	var numbers []float64
	for u := range 50 {
		q := DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s1", "user": %d}`, u)}
		first := must(s.Decide(ctx, "shop", q))
		numbers = append(numbers, first.Numbers["bid"])
		for range 5 {
			if d := must(s.Decide(ctx, "shop", q)); d.Numbers["bid"] != first.Numbers["bid"] {
				t.Fatalf("person %d gets %v and then %v", u, first.Numbers["bid"], d.Numbers["bid"])
			}
		}
		if p := must(s.Replay(ctx, first.EventID)); !p.Equal {
			t.Fatalf("differs in %v", p.Differs)
		}
	}
	slices.Sort(numbers)
	if n := len(slices.Compact(numbers)); n < 40 {
		t.Errorf("50 persons get %d numbers", n)
	}
}

// TestNumbersFixedOnce: first requests with other ranges arrive at once, at one server and at three nodes. One of the ranges is
// the model's, at every node; requests within it are decided, the others refused with their field; all decisions are learned.
func TestNumbersFixedOnce(t *testing.T) {
	ctx := context.Background()
	alone := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	_, nodes, _ := three(t)
	for _, servers := range [][]*Server{{alone}, nodes} {
		for round := range 5 {
			name := fmt.Sprint("shop", round)
			made := must(servers[0].CreateModel(ctx, DefaultConfig(name), "admin"))
			var wg sync.WaitGroup
			errs, out := make([]error, 9), make([]Decision, 9)
			for i := range errs {
				wg.Go(func() {
					q := DecideRequest{Numbers: []NumberAsk{playing("price", 1, float64(10+i%3), .5)}, MinSeq: made.Created.Seq}
					if i >= 6 { // and in a batch, behind an item that is refused
						items, err := servers[i%len(servers)].DecideBatch(ctx, name, []DecideRequest{{Numbers: []NumberAsk{playing("", 1, 2, 0)}, MinSeq: made.Created.Seq}, q})
						if err != nil {
							errs[i] = err
							return
						}
						if CodeOf(items[0].Err) != Invalid {
							t.Errorf("a number without a name: %v", items[0].Err)
						}
						out[i], errs[i] = items[1].Decision, items[1].Err
						return
					}
					out[i], errs[i] = servers[i%len(servers)].Decide(ctx, name, q)
				})
			}
			wg.Wait()
			list := must(servers[0].GetModel(ctx, name)).Config.Numbers
			if len(list) != 1 || list[0].Max < 10 || list[0].Max > 12 {
				t.Fatalf("the numbers are %+v", list)
			}
			for i, err := range errs {
				if most := float64(10 + i%3); most > list[0].Max {
					wantCode(t, err, Invalid, "the range of the model")
				} else if v := out[i].Numbers["price"]; err != nil || v < 1 || v > most {
					t.Fatalf("the range is %+v: request %d up to %v got %v, %v", list[0], i, most, v, err)
				} else {
					must(servers[0].Reward(ctx, RewardRequest{EventID: out[i].EventID, Value: v}))
				}
			}
			for _, s := range servers {
				eventually(t, func() bool {
					return must(s.GetModel(ctx, name)).Counts.Learned == must(servers[0].GetModel(ctx, name)).Counts.Decisions
				})
				if m := must(s.GetModel(ctx, name)); !slices.Equal(m.Config.Numbers, list) || m.ConfigVersion != 2 {
					t.Fatalf("a node has the numbers %+v in version %d of the configuration", m.Config.Numbers, m.ConfigVersion)
				}
			}
		}
	}
	agree(t, nodes...)
}
