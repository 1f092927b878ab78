package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/model"
)

// enter lets an action enter a model, or leave it.
func enter(t *testing.T, s *Server, name, id string, floor float64, decisions int, prior Prior) {
	t.Helper()
	m := must(s.GetModel(context.Background(), name))
	c := must(m.Config.Enter(id, floor, decisions, prior, m.Counts.Decisions))
	must(s.ConfigureModel(context.Background(), name, m.ConfigVersion, c, ""))
}

func leave(t *testing.T, s *Server, name, id string) {
	t.Helper()
	m := must(s.GetModel(context.Background(), name))
	must(s.ConfigureModel(context.Background(), name, m.ConfigVersion, must(m.Config.Leave(id)), ""))
}

// ask makes n decisions between actions of which each pays 1 with the probability that worths has, on several nodes in turn. It
// returns what was played.
func ask(t *testing.T, n int, seed uint64, ids []string, worths map[string]float64, at ...*Server) (out []Decision) {
	t.Helper()
	ctx := context.Background()
	r := rand.New(rand.NewPCG(seed, 77))
	for i := range n {
		q := DecideRequest{Context: json.RawMessage(fmt.Sprintf(`{"hour": "%d"}`, r.IntN(3))), MinSeq: at[i%len(at)].progress.applied.Load()}
		for _, id := range ids {
			q.Actions = append(q.Actions, Action{ID: id, Cost: new(1.)})
		}
		d := must(at[i%len(at)].Decide(ctx, "m", q))
		y := 0.
		if r.Float64() < worths[d.Action.ID] {
			y = 1
		}
		must(at[(i+1)%len(at)].Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}))
		out = append(out, d)
	}
	return out
}

// scores are the estimates of actions in a context, of a decision that does not count.
func scores(t *testing.T, s *Server, name string, ids ...string) (out []float64) {
	t.Helper()
	q := DecideRequest{Context: json.RawMessage(`{"hour": "1"}`), Explain: true, Mode: Shadow, Baseline: new(0)}
	for _, id := range ids {
		q.Actions = append(q.Actions, Action{ID: id, Cost: new(1.)})
	}
	for _, x := range must(s.Decide(context.Background(), name, q)).Explain {
		out = append(out, *x.Score)
	}
	return out
}

// TestEnterLeave: an action that leaves is not played while requests offer it, and changes nothing of the others, to the bit; one that
// enters knows nothing of what its id had learned, has its floor for so many decisions and not longer, and a guess of its mean;
// decisions replay (sampled), also from the log alone and after a restart with a snapshot, and a rollback and a copy go on.
func TestEnterLeave(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir, log, clock := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	edit := func(o *Options) { o.Dir, o.SnapshotAfter = dir, 50 }
	s := open(t, log, clock, edit)
	must(s.CreateModel(ctx, budgeted("m", model.Budget{Mean: 1}, func(c *ModelConfig) { c.Floor = .02 }), ""))
	all := []string{"a", "b", "c"}
	worths := map[string]float64{"a": .9, "b": .05, "c": .4}
	ask(t, 200, 1, all, worths, s)
	before := scores(t, s, "m", "a", "c", "b", "never")
	if !(before[2] < before[3]-.1) {
		t.Fatalf("the scores %v do not tell b from an action that was never played: this shows nothing", before)
	}
	restore := s.progress.applied.Load()
	leave(t, s, "m", "b")
	if got := scores(t, s, "m", "a", "c"); !slices.Equal(got, before[:2]) {
		t.Errorf("b has left: a and c have %v, before %v", got, before[:2])
	}
	for _, d := range ask(t, 60, 2, all, worths, s) {
		if d.Action.ID == "b" {
			t.Fatal("an action that has left was played")
		}
	}
	others := scores(t, s, "m", "a", "c", "never")
	enter(t, s, "m", "b", .25, 40, Prior{})
	if got := scores(t, s, "m", "a", "c", "b"); !slices.Equal(got, others) {
		t.Errorf("b has entered: %v, want a and c as before and b as an action that was never played: %v", got, others)
	}
	applied(s) // the probe counts
	made := must(s.GetModel(ctx, "m")).Counts.Decisions
	worths["b"] = .95
	played := 0
	for i, d := range ask(t, 60, 3, all, worths, s) {
		r := must(s.Event(ctx, d.EventID)).Decision
		law := float64(r.Law[1]) / float64(r.Voters)
		// the probe of the scores above is one of the 40, and a decision is counted when it is applied
		if i < 37 && (r.Play != eventlog.PlayFloors || r.Floor != 0 || law < .25) || i >= 40 && r.Play == eventlog.PlayFloors {
			t.Errorf("decision %d: play %d, b has the probability %v", i, r.Play, law)
		}
		if d.Action.ID == "b" {
			played++
		}
	}
	if played < 10 {
		t.Errorf("b was played %d times of 60", played)
	}
	if c := must(s.GetModel(ctx, "m")).Config.Entered; len(c) != 1 || c[0].Times != 1 || uint64(c[0].Until) > made+39 || uint64(c[0].Until) < made+37 {
		t.Errorf("entered %+v after %d decisions", c, made)
	}
	enter(t, s, "m", "d", 0, 0, Prior{Mean: .3, Events: 50})
	if got := scores(t, s, "m", "d", "never"); got[0] < .15 || got[0] > .45 || got[1] < .6 {
		t.Errorf("a guess of .3: %v, an action without one %v", got[0], got[1])
	}
	ask(t, 20, 4, []string{"a", "d"}, worths, s)
	digest := func(s *Server) eventlog.ID { return must(s.State(ctx, "m")).Digest }
	want := digest(s)
	replayAll(t, s, s, "at first")
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	if got := digest(s); got != want || must(s.State(ctx, "copy")).Digest != want {
		t.Errorf("a copy has another state")
	}
	for _, e := range must(s.GetModel(ctx, "copy")).Config.Entered {
		if e.Floor != 0 || e.Until != 0 || e.Times == 0 {
			t.Errorf("a copy has %+v", e)
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock, edit)
	if got := digest(s); got != want {
		t.Errorf("after a restart %v, before %v", got, want)
	}
	alone := open(t, log, clock)
	if got := digest(alone); got != want {
		t.Errorf("from the log alone %v, want %v", got, want)
	}
	replayAll(t, alone, alone, "from the log alone")
	must(s.RollbackModel(ctx, RollbackRequest{Name: "m", ToSeq: restore}))
	if got := scores(t, s, "m", "a", "c"); !slices.Equal(got, before[:2]) {
		t.Errorf("after a rollback a and c have %v, want %v", got, before[:2])
	}
	ask(t, 20, 5, all, worths, s)
	replayAll(t, s, s, "after a rollback")
}

// TestEnterOnThreeNodes: three nodes between which actions come and go have equal states, and the floor holds at each.
func TestEnterOnThreeNodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(ctx, budgeted("m", model.Budget{Mean: 2}), ""))
	until := func() {
		for _, s := range nodes {
			must(s.progress.until(ctx, nodes[0].Health().Log))
		}
	}
	worths := map[string]float64{"a": .9, "b": .2, "c": .6}
	until()
	ask(t, 60, 1, []string{"a", "b"}, worths, nodes...)
	until()
	leave(t, nodes[0], "m", "b")
	until()
	enter(t, nodes[0], "m", "c", .3, 30, Prior{Mean: .5, Events: 10})
	until()
	ask(t, 60, 2, []string{"a", "b", "c"}, worths, nodes...)
	until()
	floors := replayAll(t, nodes[1], nodes[2], "at another node")
	if floors < 25 {
		t.Errorf("%d decisions had a floor, expected about 30", floors)
	}
	agree(t, nodes...)
}
