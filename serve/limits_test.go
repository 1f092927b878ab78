package serve

import (
	"math"
	"testing"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/serve/model"
)

// limited are floors and caps with which most laws of these tests are clipped.
func limited(c *ModelConfig) {
	c.Floors, c.Caps = model.Shares{"b": .2, "never": .1}, model.Shares{"a": .5}
}

// sampled reports whether the decision number i is replayed: one of seven, with TROUPE_LONG every one. Each is computed from
// the log, so that the work for all is the square of their number.
func sampled(i int) bool { return long() || i%7 == 0 }

// replayAll replays the decisions of a model that are sampled, and returns how many of all were clipped.
func replayAll(t *testing.T, s, by *Server, when string) (clipped int) {
	t.Helper()
	n := 0
	for d, err := range must(s.Decisions(t.Context(), "m", 0, 1_000_000)).Decisions {
		if err != nil {
			t.Fatal(err)
		}
		if n++; sampled(n) {
			if r := must(by.Replay(t.Context(), d.EventID)); !r.Equal {
				t.Fatalf("%s: the decision of entry %d replays with other %v", when, d.Seq, r.Differs)
			}
		}
		if d.Record.Play == eventlog.PlayFloors {
			clipped++
		}
	}
	return clipped
}

// TestLimitsServed: what was decided with floors and caps keeps to them in the record of each decision, replays from the
// log alone and after a restart with a snapshot, and with the configuration of its time; a copy has them; the state does
// not depend on them, and a configuration without them is that of before.
func TestLimitsServed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir, log, clock := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	edit := func(o *Options) { o.Dir, o.SnapshotAfter = dir, 50 }
	s := open(t, log, clock, edit)
	must(s.CreateModel(ctx, budgeted("m", model.Budget{Mean: 1}, limited), ""))
	all, worths := []string{"a", "b", "c"}, map[string]float64{"a": .9, "b": .05, "c": .4}
	keeps := func(n int, seed uint64) {
		t.Helper()
		for i, d := range ask(t, n, seed, all, worths, s) {
			r := must(s.Event(ctx, d.EventID)).Decision
			law := func(i int) float64 {
				p := float64(r.Law[i]) / float64(r.Voters)
				if r.Groups == nil && r.Floor > 0 {
					p = (1-float64(r.Floor)/1e6)*p + float64(r.Floor)/1e6/3
				}
				return p
			}
			if a, b := law(0), law(1); a > .5+1e-15 || b < .2-1e-15 {
				t.Fatalf("decision %d: a has %v, b %v", i, a, b)
			}
			if got := float64(r.Num) / float64(r.Den); math.Abs(got-law(int(r.Index))) > 1e-15 {
				t.Fatalf("decision %d: propensity %v, the law has %v", i, got, law(int(r.Index)))
			}
		}
	}
	keeps(120, 1)
	if n := replayAll(t, s, s, "at first"); n < 60 {
		t.Fatalf("%d decisions were clipped: this shows too little", n)
	}
	m := must(s.GetModel(ctx, "m"))
	c := m.Config
	c.Floors, c.Caps = nil, nil
	must(s.ConfigureModel(ctx, "m", m.ConfigVersion, c, ""))
	before := 0
	for _, d := range ask(t, 40, 2, all, worths, s) {
		if r := must(s.Event(ctx, d.EventID)).Decision; r.Play != eventlog.PlayLaw || r.Floor != 10_000 {
			t.Fatalf("without floors and caps: play %d, floor %d", r.Play, r.Floor)
		}
		if d.Action.ID == "a" {
			before++
		}
	}
	if before < 28 {
		t.Errorf("a was played %d times of 40 without its cap: this shows too little", before)
	}
	m = must(s.GetModel(ctx, "m"))
	c = m.Config
	limited(&c)
	must(s.ConfigureModel(ctx, "m", m.ConfigVersion, c, ""))
	keeps(40, 3)
	want := must(s.State(ctx, "m")).Digest
	must(s.CloneModel(ctx, CloneRequest{From: "m", Name: "copy"}))
	if c := must(s.GetModel(ctx, "copy")).Config; c.Floors["b"] != .2 || c.Caps["a"] != .5 {
		t.Errorf("a copy has floors %v, caps %v", c.Floors, c.Caps)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock, edit)
	alone := open(t, log, clock)
	for when, s := range map[string]*Server{"after a restart": s, "from the log alone": alone} {
		if got := must(s.State(ctx, "m")).Digest; got != want {
			t.Errorf("%s %v, before %v", when, got, want)
		}
		replayAll(t, s, s, when)
	}
	keeps(20, 4)
}

// TestLimitsOnThreeNodes: three nodes decide with floors and caps, have equal states, and replay one another's decisions.
func TestLimitsOnThreeNodes(t *testing.T) {
	t.Parallel()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(t.Context(), budgeted("m", model.Budget{Mean: 2}, limited), ""))
	until := func() {
		for _, s := range nodes {
			must(s.progress.until(t.Context(), nodes[0].Health().Log))
		}
	}
	until()
	ask(t, 90, 1, []string{"a", "b", "c"}, map[string]float64{"a": .9, "b": .2, "c": .6}, nodes...)
	until()
	if n := replayAll(t, nodes[1], nodes[2], "at another node"); n < 30 {
		t.Errorf("%d decisions were clipped: this shows too little", n)
	}
	agree(t, nodes...)
}
