package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/serve/model"
	"troupe/spec"
)

// budgeted is a model with hashed features and a budget.
func budgeted(name string, b model.Budget, edit ...func(*ModelConfig)) ModelConfig {
	c := DefaultConfig(name)
	c.Budget = b
	if b.Per == "" {
		_, c.Budget.Per = b.Most()
	}
	for _, f := range edit {
		f(&c)
	}
	return c
}

// models are three actions with the costs of a small, a middle and a large language model, in units of the middle one.
func models(costs ...float64) []Action {
	out := make([]Action, len(costs))
	for i, c := range costs {
		out[i] = Action{ID: fmt.Sprint("m", i), Features: fmt.Appendf(nil, `{"size": "m%d"}`, i), Cost: new(c)}
	}
	return out
}

// worth is the mean reward of an action in a context: the dear ones are needed for hard requests only.
func worth(hard bool, action int) float64 {
	if hard {
		return []float64{.2, .6, .9}[action]
	}
	return []float64{.8, .85, .86}[action]
}

// spend makes n decisions with their rewards on s, or on several nodes in turn, and returns what was spent and the ids.
func spend(t *testing.T, n int, name string, seed uint64, at ...*Server) (cost float64, ids []string) {
	t.Helper()
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range n {
		s := at[i%len(at)]
		hard := r.IntN(3) == 0
		d, err := s.Decide(ctx, name, DecideRequest{Context: json.RawMessage(fmt.Sprintf(`{"hard": "%v"}`, hard)), Actions: models(.1, 1, 10),
			MinSeq: s.progress.applied.Load()})
		if err != nil {
			t.Fatal(err)
		}
		cost += []float64{.1, 1, 10}[d.Action.Index]
		ids = append(ids, d.EventID)
		y := 0.
		if r.Float64() < worth(hard, d.Action.Index) {
			y = 1
		}
		if _, err := at[(i+1)%len(at)].Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}); err != nil {
			t.Fatal(err)
		}
	}
	return cost, ids
}

// decisionsOf lists the records of the decisions of a model.
func decisionsOf(t *testing.T, s *Server, name string) (out []*eventlog.Decision) {
	t.Helper()
	page := must(s.Decisions(context.Background(), name, 0, 1_000_000))
	for d, err := range page.Decisions {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d.Record)
	}
	return out
}

// TestBudgetIsKept: what is spent stays within the budget, the price rises to it, the law of every decision is exact, what a
// decision was expected to cost follows from its law, and decisions replay with their prices (sampled).
func TestBudgetIsKept(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1) // the seeds of the models: with one in forty less than half of the budget is spent
	ctx := context.Background()
	for _, kind := range []string{"hashed", "auto"} {
		t.Run(kind, func(t *testing.T) {
			log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
			s := open(t, log, clock)
			n := 600
			if kind == "auto" {
				n = 500
			}
			must(s.CreateModel(ctx, budgeted("m", model.Budget{Mean: 2}, func(c *ModelConfig) {
				if kind == "auto" {
					c.Features.Schema = nil
					if err := json.Unmarshal([]byte(`{"id":"m","policy":{"kind":"auto"},"features":{"features":[{"feature":"context.hard","kind":"category","levels":["true","false"]},{"feature":"action.size","kind":"category","levels":["m0","m1","m2"]}]},"budget":{"mean":2}}`), c); err != nil {
						t.Fatal(err)
					}
				}
			}), ""))
			cost, ids := spend(t, n, "m", 1, s)
			if mean := cost / float64(n); mean > 2.0001 || mean < 1 {
				t.Errorf("a decision costs %.3f in the mean, the budget is 2", mean)
			}
			stopped := 0
			for i, r := range decisionsOf(t, s, "m") {
				if r.Price <= 0 || r.Expects <= 0 || !slices.Equal(r.Costs, []float64{.1, 1, 10}) {
					t.Fatalf("decision %d: price %v, expects %v, costs %v", i, r.Price, r.Expects, r.Costs)
				}
				var sum uint64
				e := 0.
				size := map[uint32]int{}
				for k, v := range r.Law {
					g := uint32(k)
					if r.Groups != nil {
						g = r.Groups[k]
					}
					size[g]++
					if size[g] == 1 {
						sum += v
					}
				}
				for k, v := range r.Law {
					g := uint32(k)
					if r.Groups != nil {
						g = r.Groups[k]
					}
					p := float64(v) / float64(r.Voters) / float64(size[g])
					eps := float64(r.Floor) / eventlog.FloorUnit
					p = (1-eps)*p + eps/3
					e += p * r.Costs[k]
					if k == int(r.Index) && math.Abs(p-float64(r.Num)/float64(r.Den)) > 1e-15 {
						t.Fatalf("decision %d: the law gives its action %v, the propensity is %d/%d", i, p, r.Num, r.Den)
					}
				}
				if sum != r.Voters {
					t.Fatalf("decision %d: %d of %d votes", i, sum, r.Voters)
				}
				if r.Play == eventlog.PlayStop {
					if stopped++; r.Floor != 0 || e > r.Expects {
						t.Fatalf("decision %d under the hard stop: %+v", i, r)
					}
				} else if math.Abs(e-r.Expects) > 1e-12 {
					t.Fatalf("decision %d: the law expects %v, recorded is %v", i, e, r.Expects)
				}
			}
			m := must(s.GetModel(ctx, "m"))
			if b := m.Budget; b == nil || b.Decisions != uint64(n) || b.Stopped != uint64(stopped) || stopped == 0 ||
				math.Abs(b.Reserved-cost) > 1e-9 || b.Spent != 0 || math.Abs(b.Granted-2*float64(n)) > 1e-9 || b.Left <= 0 {
				t.Errorf("the budget: %+v; %d decisions cost %v, %d stopped", b, n, cost, stopped)
			}
			for i, id := range ids {
				if !sampled(i) {
					continue
				}
				if r := must(s.Replay(ctx, id)); !r.Equal || r.Price != r.Recorded.Price || r.Price == 0 {
					t.Fatalf("%s replays with other %v: %+v", id, r.Differs, r)
				}
			}
			clock.forward(time.Hour)
			must(s.Expire(ctx))
			if b := must(s.GetModel(ctx, "m")).Budget; math.Abs(b.Spent-cost) > 1e-9 || b.Reserved > 1e-9 || b.Paid != b.Spent {
				t.Errorf("when the windows are closed: %+v, want %v spent", b, cost)
			}
			before := must(s.GetModel(ctx, "m")).Budget
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
			if after := must(open(t, log, clock).GetModel(ctx, "m")).Budget; *after != *before {
				t.Errorf("after a restart %+v, before %+v", after, before)
			}
		})
	}
}

// TestBudgetOfADay: a day has its own money, by the time of the decisions in UTC; with carry what is left goes on.
func TestBudgetOfADay(t *testing.T) {
	ctx := context.Background()
	for _, carry := range []bool{false, true} {
		clock := &fakeClock{} // 1,800,000,000 s is 8 o'clock
		s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
		must(s.CreateModel(ctx, budgeted("m", model.Budget{Total: 20, Carry: carry}), ""))
		decide := func() Decision {
			return must(s.Decide(ctx, "m", DecideRequest{Actions: models(3, 3), MinSeq: s.progress.applied.Load()}))
		}
		left := func() float64 { return must(s.GetModel(ctx, "m")).Budget.Left }
		settle := func() { must(s.progress.until(ctx, s.Health().Log)) }
		if left() != 20 {
			t.Fatalf("a day begins with %v", left())
		}
		for range 4 {
			decide()
		}
		if settle(); left() != 8 {
			t.Errorf("%v is left of 20 after 12", left())
		}
		clock.forward(15*time.Hour + 59*time.Minute)
		if left() != 8 {
			t.Errorf("%v is left one minute before midnight", left())
		}
		clock.forward(time.Minute)
		// The windows are not closed: what is reserved is money of this day.
		if want := map[bool]float64{false: 8, true: 28}[carry]; left() != want {
			t.Errorf("carry %v: %v is left at midnight, want %v", carry, left(), want)
		}
		must(s.Expire(ctx))
		decide()
		if settle(); carry && left() != 25-3+3 && left() != 25 || !carry && left() != 17 {
			t.Errorf("carry %v: the new day has %v", carry, left())
		}
	}
}

// TestBudgetEmpty: when nothing is within what is left, the cheapest is played or the request is refused, as was said; a
// budget that is below the cheapest action altogether has to say it.
func TestBudgetEmpty(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	for _, name := range []string{"", model.Cheapest, model.Refuse} {
		must(s.CreateModel(ctx, budgeted("m"+name, model.Budget{Mean: 1, OnEmpty: name}), ""))
	}
	_, err := s.Decide(ctx, "m", DecideRequest{Actions: models(5, 3, 4)})
	wantCode(t, err, Invalid, "actions[1].cost", "the cheapest action, m1", "the budget is 1 for a decision", "budget.on_empty")
	_, err = s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}}})
	wantCode(t, err, Invalid, "actions[0].cost", "is missing", "the model has a budget")
	_, err = s.Decide(ctx, "m"+model.Refuse, DecideRequest{Actions: models(5, 3, 4)})
	wantCode(t, err, Conflict, "budget", "has 1 left", "costs 3")
	for range 20 {
		if d := must(s.Decide(ctx, "m"+model.Cheapest, DecideRequest{Actions: models(5, 3, 4)})); d.Action.ID != "m1" || d.Propensity.Num != d.Propensity.Den {
			t.Fatalf("%+v, want the cheapest", d)
		}
	}
	// For a while nothing is left, because a cost was larger than it was stated: actions above the budget are not played, those
	// within it are, which add nothing to what was spent too much.
	for _, name := range []string{"", model.Refuse} {
		d := must(s.Decide(ctx, "m"+name, DecideRequest{Actions: models(.5)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Cost: new(35.), OnlyCost: true}))
		must(s.progress.until(ctx, s.Health().Log))
		if name == model.Refuse {
			_, err := s.Decide(ctx, "m"+name, DecideRequest{Actions: models(.9, .4, .8)})
			wantCode(t, err, Conflict, "left", "costs 0.4")
			continue
		}
		played := map[string]int{}
		for range 120 {
			played[must(s.Decide(ctx, "m", DecideRequest{Actions: models(.95, .9, 1.2, 5)})).Action.ID]++
		}
		if left := must(s.GetModel(ctx, "m")).Budget.Left; left > 0 || played["m0"] == 0 || played["m1"] == 0 || len(played) != 2 {
			t.Errorf("with %v left %v were played, want m0 and m1", left, played)
		}
	}
}

// TestBudgetRefused: configurations that cannot be kept are refused by path, when a model is made and when it is changed.
func TestBudgetRefused(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	for text, words := range map[string]string{
		`{"budget":{}}`:                                              "budget: is empty",
		`{"budget":{"mean":-1}}`:                                     "budget.mean: is -1",
		`{"budget":{"mean":1e999}}`:                                  "",
		`{"budget":{"mean":0}}`:                                      "budget.mean: is 0",
		`{"budget":{"mean":1,"total":2}}`:                            "expected one of them",
		`{"budget":{"mean":1,"carry":true}}`:                         "carry",
		`{"budget":{"mean":1,"per":"day"}}`:                          `budget.per: is "day", expected "decision"`,
		`{"budget":{"total":1,"per":"week"}}`:                        `budget.per: is "week", expected "day"`,
		`{"budget":{"mean":1,"on_empty":"cheap"}}`:                   `budget.on_empty: is "cheap", expected cheapest or refuse`,
		`{"budget":{"meen":1}}`:                                      `did you mean "mean"`,
		`{"budget":5}`:                                               "expected a table",
		`{"budget":{"mean":1},"policy":{"kind":"logistic"},"dim":2}`: "policy.kind",
		`{"budget":{"mean":1},"actions":[{"id":"a","cost":3},{"id":"b","cost":2}]}`: "config.actions[1].cost",
		`{"budget":{"mean":1},"actions":[{"id":"a","cost":3},{"id":"b"}]}`:          "config.actions[1].cost",
	} {
		var c ModelConfig
		err := json.Unmarshal([]byte(`{"id":"x",`+text[1:]), &c)
		if err == nil {
			_, err = s.CreateModel(ctx, c, "")
		}
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", text, err, words)
		}
	}
	cost := 2.
	clicks := DefaultConfig("clicks")
	clicks.Dim, clicks.Policy = 2, PolicySpec{Raw: spec.Raw{"kind": "logistic"}, Options: policy.Kinds["logistic"]()}
	listed := budgeted("listed", model.Budget{Mean: 3}, func(c *ModelConfig) { c.Actions = []Entry{{ID: "a", Cost: &cost}} })
	for field, c := range map[string]ModelConfig{"config.policy.kind": clicks, "config.actions[0].cost": listed} {
		m := must(s.CreateModel(ctx, c, ""))
		changed := m.Config
		changed.Budget = model.Budget{Mean: 1, Per: "decision"}
		_, err := s.ConfigureModel(ctx, m.Name, 0, changed, "")
		wantCode(t, err, Invalid, field)
		if got := must(s.GetModel(ctx, m.Name)); got.ConfigVersion != m.ConfigVersion {
			t.Errorf("%s: a refused budget made version %d", m.Name, got.ConfigVersion)
		}
	}
	changed := must(s.GetModel(ctx, "listed")).Config
	changed.Actions = []Entry{{ID: "a", Cost: new(5.)}}
	_, err := s.ConfigureModel(ctx, "listed", 0, changed, "")
	wantCode(t, err, Invalid, "config.actions[0].cost", "the budget is 3")
}

// TestBudgetChanges: a changed budget goes on with what was spent and with the same price of money, one that is taken away ends, a
// rollback keeps what was spent, a copy begins anew.
func TestBudgetChanges(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	m := must(s.CreateModel(ctx, budgeted("m", model.Budget{Mean: 2}), ""))
	spend(t, 50, "m", 3, s)
	before := *must(s.GetModel(ctx, "m")).Budget
	change := func(b model.Budget) *BudgetView {
		t.Helper()
		c := must(s.GetModel(ctx, "m")).Config
		if c.Budget = b; !b.IsZero() {
			_, c.Budget.Per = b.Most()
		}
		return must(s.ConfigureModel(ctx, "m", 0, c, "")).Budget
	}
	b := change(model.Budget{Mean: 4})
	if math.Abs(b.Price/before.Price-1) > 1e-12 || b.Granted != before.Granted || b.Reserved != before.Reserved || b.Left != before.Left+2 {
		t.Errorf("the budget was doubled: %+v, before %+v", b, before)
	}
	_, ids := spend(t, 20, "m", 4, s)
	for _, id := range ids {
		if r := must(s.Replay(ctx, id)); !r.Equal {
			t.Fatalf("replays with other %v", r.Differs)
		}
	}
	held := *must(s.GetModel(ctx, "m")).Budget
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	if b := must(s.GetModel(ctx, "copy")).Budget; b.Decisions != 0 || b.Reserved != 0 {
		t.Errorf("a copy begins with %+v", b)
	}
	back := must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: m.Created.Seq}))
	if *back.Budget != held {
		t.Errorf("after a rollback %+v, before %+v", back.Budget, held)
	}
	_, ids = spend(t, 20, "m", 5, s)
	for _, id := range ids {
		if r := must(s.Replay(ctx, id)); !r.Equal {
			t.Fatalf("after a rollback replays with other %v", r.Differs)
		}
	}
	if b := change(model.Budget{}); b != nil {
		t.Errorf("without a budget: %+v", b)
	}
	if d := must(s.Decide(ctx, "m", DecideRequest{Actions: []Action{{ID: "a"}}})); d.EventID == "" {
		t.Error("no decision without a cost")
	}
	if b := change(model.Budget{Total: 5}); b.Decisions != 0 || b.Left != 5 {
		t.Errorf("a new budget: %+v", b)
	}
}

// TestLateCosts: a cost that comes replaces what is reserved, once by the rule first, again by the others; a window that ends
// pays what was stated, and nothing for what was not played.
func TestLateCosts(t *testing.T) {
	ctx := context.Background()
	for _, rule := range []Rule{"first", "sum", "last"} {
		clock := &fakeClock{}
		s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
		must(s.CreateModel(ctx, budgeted("m", model.Budget{Mean: 8}, func(c *ModelConfig) { c.Reward.Rule = rule }), ""))
		decide := func(r DecideRequest) Decision {
			r.Actions = models(4)
			return must(s.Decide(ctx, "m", r))
		}
		look := func(when string, reserved, spent float64) {
			t.Helper()
			must(s.progress.until(ctx, s.Health().Log))
			if b := must(s.GetModel(ctx, "m")).Budget; b.Reserved != reserved || b.Spent != spent || b.Paid != spent {
				t.Errorf("rule %s, %s: reserved %v, spent %v, paid %v; want %v and %v", rule, when, b.Reserved, b.Spent, b.Paid, reserved, spent)
			}
		}
		pay := func(d Decision, key string, cost float64) {
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Key: key, OnlyCost: true, Cost: &cost}))
		}
		a, b, c := decide(DecideRequest{}), decide(DecideRequest{}), decide(DecideRequest{Deferred: true})
		decide(DecideRequest{Mode: Shadow})
		decide(DecideRequest{Mode: Apprentice})
		look("decided", 12, 0)
		pay(a, "1", 6)
		look("one cost", 8, 6)
		pay(a, "2", 5)
		want := map[Rule]float64{"first": 6, "sum": 11, "last": 5}[rule]
		look("another one", 8, want)
		must(s.Reward(ctx, RewardRequest{EventID: b.EventID, Value: 1}))
		look("a reward without a cost", 8, want)
		_ = c
		clock.forward(time.Hour)
		must(s.Expire(ctx))
		look("closed", 0, want+4)
	}
}

// TestBudgetOnThreeNodes: nodes that spend at once have the same prices to the bit, and what they spend above the budget is at
// most what was decided before one another's records were folded.
func TestBudgetOnThreeNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(ctx, budgeted("m", model.Budget{Mean: 2}), ""))
	created := nodes[0].Health().Log
	for _, s := range nodes {
		must(s.progress.until(ctx, created))
	}
	spend(t, 60, "m", 9, nodes...)
	const callers, each = 6, 40
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			s := nodes[i%3]
			for range each {
				d, err := s.Decide(ctx, "m", DecideRequest{Actions: models(.1, 1, 10)})
				if err == nil {
					_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1, Cost: new([]float64{.1, 1, 10}[d.Action.Index])})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	agree(t, nodes...)
	var want []eventlog.Price
	for i, s := range nodes {
		s.mu.RLock()
		got, b := s.fold.Prices(), s.fold.Named("m").Spending
		s.mu.RUnlock()
		if i == 0 {
			want = got
		}
		if len(got) != 1 || !slices.Equal(got, want) || got[0].Price == 0 {
			t.Errorf("node %d has the prices %v, node 0 %v", i, got, want)
		}
		if b.Decisions != 60+callers*each {
			t.Errorf("node %d: %d decisions", i, b.Decisions)
		}
		if over := b.Spent + b.Reserved - b.Granted; over > (callers-1)*10 {
			t.Errorf("node %d: %v above the budget with %d callers at once", i, over, callers)
		}
	}
}

const budgetDir = "TROUPE_SERVE_BUDGET"

// budgetChild decides under a budget until it is killed.
func budgetChild() bool {
	dir := os.Getenv(budgetDir)
	if dir == "" {
		return false
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{Dir: dir, SnapshotEvery: 100, SnapshotAfter: 1, ExpireEvery: 5 * time.Millisecond})
	if err != nil {
		fmt.Println("E", err)
		os.Exit(1)
	}
	if _, err := s.GetModel(ctx, "m"); err != nil {
		must(s.CreateModel(ctx, budgeted("m", model.Budget{Mean: 2}, func(c *ModelConfig) { c.Reward.Window = Duration(50 * time.Millisecond) }), ""))
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: models(.1, 1, 10)}))
		fmt.Println("decided")
		if i%3 > 0 {
			must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(d.Action.Index) / 2, Cost: new(float64(i % 5)), OnlyCost: i%3 == 1}))
		}
	}
}

// TestBudgetSurvivesKills: after ten kills at random places the price from the snapshots is that of the whole log to the bit, and
// decisions of all lives replay with their prices.
func TestBudgetSurvivesKills(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(31, 2))
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), budgetDir+"="+dir)
		out := must(cmd.StdoutPipe())
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 10 + r.IntN(40) {
			var word string
			if _, err := fmt.Fscan(out, &word); err != nil || word == "E" {
				t.Fatalf("%q, %v", word, err)
			}
		}
		time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond) // it is killed anywhere
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	look := func() (p []eventlog.Price, b BudgetView, from uint64) {
		s := must(Open(ctx, Options{Dir: dir, SnapshotEvery: -1, SnapshotAfter: -1, ExpireEvery: -1}))
		defer s.Close(ctx)
		page := must(s.Decisions(ctx, "m", 0, 1_000_000))
		n := 0
		for d, err := range page.Decisions {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%17 == 0 {
				if r := must(s.Replay(ctx, d.EventID)); !r.Equal {
					t.Fatalf("decision %d replays with other %v", n, r.Differs)
				}
			}
		}
		m := must(s.GetModel(ctx, "m"))
		b = *m.Budget
		b.Left = 0
		if uint64(n) != b.Decisions || n < 90 {
			t.Errorf("%d decisions in the log, %d in the budget", n, b.Decisions)
		}
		return s.fold.Prices(), b, s.recovery.Snapshot
	}
	p, b, from := look()
	files := must(filepath.Glob(filepath.Join(dir, "snapshots", "*")))
	if from == 0 || len(files) == 0 {
		t.Fatalf("began with the snapshot of entry %d, %d files", from, len(files))
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	whole, all, none := look()
	if none != 0 || !slices.Equal(p, whole) || b != all || len(p) != 1 {
		t.Errorf("from a snapshot %v %+v, from the log %v %+v", p, b, whole, all)
	}
}

// TestBudgetTime compares the processor time of a decision with a budget to one without, whole decisions with their rewards on a log in
// memory, in blocks that take turns. docs/record/budget.md has the figures: TROUPE_RECORD=1.
func TestBudgetTime(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD=1 measures")
	}
	ctx := context.Background()
	for _, kind := range []string{"hashed, 3 actions", "ensemble, K = 20, d = 32, m = 32", "auto, K = 20, d = 32"} {
		var s [2]*Server
		var times [2][]float64
		requests := benchRequests()
		if strings.HasPrefix(kind, "hashed") {
			requests = nil
			for i := range 64 {
				requests = append(requests, DecideRequest{Context: fmt.Appendf(nil, `{"hard": "%v", "n": %d}`, i%3 == 0, i%7), Actions: models(.1, 1, 10)})
			}
		}
		costs := make([]float64, 20)
		for i := range costs {
			costs[i] = float64(i%5) / 2
		}
		for i := range s {
			s[i] = open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
			c := DefaultConfig("m")
			switch {
			case strings.HasPrefix(kind, "ensemble"):
				c = benchModel()
			case strings.HasPrefix(kind, "auto"):
				c.Dim = 32
			}
			if i == 1 {
				c.Budget = model.Budget{Mean: 1.2, Per: "decision"}
			}
			must(s[i].CreateModel(ctx, c, ""))
		}
		for block := range 80 {
			for i := range s {
				begin := processorTime()
				for n := range 50 {
					r := requests[n]
					if len(r.Packed) > 0 {
						r.Costs = costs
					}
					d := must(s[i].Decide(ctx, "m", r))
					must(s[i].Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(n%2) / 2}))
				}
				if block >= 20 {
					times[i] = append(times[i], (processorTime()-begin).Seconds()/50*1e6)
				}
			}
		}
		for i := range times {
			slices.Sort(times[i])
		}
		a, b := times[0][len(times[0])/2], times[1][len(times[1])/2]
		t.Logf("%s: %.1f µs without, %.1f µs with a budget: %.3f", kind, a, b, b/a)
	}
}
