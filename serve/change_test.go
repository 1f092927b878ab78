package serve

import (
	"context"
	"fmt"
	"testing"

	"troupe/spec"
)

// turning makes decisions from..to at the nodes in turn and rewards them at the next one. Which action is good
// depends on the segment, and on turn.
func turning(t *testing.T, nodes []*Server, from, to, turn int) (ids []string) {
	t.Helper()
	ctx := t.Context()
	for i := from; i < to; i++ {
		s, other := nodes[i%len(nodes)], nodes[(i+1)%len(nodes)]
		segment := i % 3
		d, err := s.Decide(ctx, "news", DecideRequest{Context: fmt.Appendf(nil, `{"segment": "s%d"}`, segment), Actions: named("a", "b", "c")})
		if err != nil {
			t.Fatal(err)
		}
		y := 0.0
		if (d.Action.Index+segment+turn)%3 == 0 || i%17 == 0 {
			y = 1
		}
		if _, err := other.Reward(ctx, RewardRequest{EventID: d.EventID, Value: y}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.EventID)
	}
	return ids
}

// since returns the decision after which what plays has learned, as the model noticed it last, 0 when it noticed nothing.
func since(m Model) uint64 {
	if m.Noticed == nil {
		return 0
	}
	return m.Noticed.At
}

// TestChangedWorld: a model that is made with its name notices that its world has changed. Every decision, before, in
// and after the change, is drawn again to the same action, propensity and member; the state is the same bits from the
// log and from a snapshot, and a copy from before the change has noticed nothing.
func TestChangedWorld(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	start := func() *Server {
		s, err := Open(ctx, Options{Dir: dir, SnapshotEvery: -1, SnapshotAfter: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	must(s.CreateModel(ctx, DefaultConfig("news"), ""))
	if c := must(s.GetModel(ctx, "news")).Config.Policy.Raw["change"]; c != "restarts" {
		t.Errorf("change is %v", c)
	}
	ids := turning(t, []*Server{s}, 0, 400, 0)
	must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "before"}))
	ids = append(ids, turning(t, []*Server{s}, 400, 700, 1)...)
	m := must(s.GetModel(ctx, "news"))
	if got := since(must(s.GetModel(ctx, "before"))); got > 0 {
		t.Errorf("the copy has noticed a change at decision %d", got)
	}
	if m.Noticed == nil || m.Noticed.At < 250 || m.Noticed.Seen <= 400 || m.Noticed.Seen > 700 || m.Noticed.Posterior < .99 {
		t.Fatalf("noticed %+v", m.Noticed)
	}
	want := must(s.State(ctx, "news")).Digest
	for i := 0; i < len(ids); i += 13 {
		r := must(s.Replay(ctx, ids[i]))
		if !r.Equal {
			t.Fatalf("decision %d: %+v", i, r)
		}
	}
	for _, way := range []string{"with a snapshot", "again"} {
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s = start()
		if got := must(s.State(ctx, "news")).Digest; got != want {
			t.Errorf("%s: another state", way)
		}
		if got := must(s.GetModel(ctx, "news")).Noticed; got == nil || *got != *m.Noticed { // it is laid aside
			t.Errorf("%s: noticed %+v, before %+v", way, got, m.Noticed)
		}
	}
	turning(t, []*Server{s}, 700, 720, 1)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestChangeOption: the option is written out, none is kept, and a model that has none keeps none when nothing is
// said of it.
func TestChangeOption(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	make := func(name, text string) ModelConfig {
		c := DefaultConfig(name)
		if err := c.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		must(s.CreateModel(ctx, c, ""))
		return must(s.GetModel(ctx, name)).Config
	}
	for text, want := range map[string]any{
		`{"id": "a"}`: "restarts",
		`{"id": "b", "policy": {"kind": "effects"}}`:                              "restarts",
		`{"id": "c", "policy": {"kind": "effects", "change": "none"}}`:            "none",
		`{"id": "d", "dim": 2}`:                                                   nil,
		`{"id": "e", "dim": 2, "policy": {"kind": "auto", "change": "restarts"}}`: "restarts",
		`{"id": "f", "policy": {"kind": "effects", "half_life": 500}}`:            "restarts",
	} {
		name := text[8:9]
		c := make(name, text)
		if c.Policy.Raw["change"] != want {
			t.Errorf("%s has change %v", text, c.Policy.Raw["change"])
		}
		if got := fmt.Sprint(c.Policy.Raw); name == "a" && got != "map[change:restarts kind:effects]" {
			t.Errorf("the policy of a model of which only the name is given is %s", got)
		}
		for _, again := range []string{`{"id": "` + name + `", "floor": 0.5}`, text} {
			c := DefaultConfig(name)
			if err := c.UnmarshalJSON([]byte(again)); err != nil {
				t.Fatal(err)
			}
			must(s.ConfigureModel(ctx, name, 0, c, ""))
			raw := must(s.GetModel(ctx, name)).Config.Policy.Raw
			if raw["change"] != want {
				t.Errorf("%s, then %s: change is %v", text, again, raw["change"])
			}
		}
	}
	c := DefaultConfig("c")
	if err := c.UnmarshalJSON([]byte(`{"id": "c", "policy": {"kind": "effects", "change": "restarts"}}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ConfigureModel(ctx, "c", 0, c, ""); err == nil {
		t.Error("a model may change whether it restarts")
	}
}

// TestChangeOfCopy: a copy under the default policy of today notices the change of its source's rewards, which its source
// was told not to look for, and so does the copy of the same policy not.
func TestChangeOfCopy(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(ctx, Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	c := DefaultConfig("news")
	if err := c.Policy.DecodeSpec(spec.Raw{"kind": "effects", "change": "none"}, "policy"); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	turning(t, []*Server{s}, 0, 400, 0)
	turning(t, []*Server{s}, 400, 700, 1)
	must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "same"}))
	must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "notices", Change: changeTo(spec.Raw{"kind": "effects"})}))
	for name, want := range map[string]bool{"news": false, "same": false, "notices": true} {
		if m := must(s.GetModel(ctx, name)); (since(m) >= 250) != want || (m.Config.Policy.Raw["change"] == "restarts") != want {
			t.Errorf("%s: %v, noticed at %d", name, m.Config.Policy.Raw, since(m))
		}
	}
}

// TestChangedNodes: three nodes have equal bytes through a change.
func TestChangedNodes(t *testing.T) {
	t.Parallel()
	_, nodes, _ := three(t)
	must(nodes[0].CreateModel(t.Context(), DefaultConfig("news"), ""))
	for _, s := range nodes {
		eventually(t, func() bool { _, err := s.GetModel(t.Context(), "news"); return err == nil })
	}
	turning(t, nodes, 0, 250, 0)
	turning(t, nodes, 250, 600, 1)
	eventually(t, func() bool { return must(nodes[2].GetModel(t.Context(), "news")).Counts.Learned == 600 })
	if got := since(must(nodes[2].GetModel(t.Context(), "news"))); got < 200 {
		t.Errorf("a change was noticed at decision %d", got)
	}
	agree(t, nodes...)
}
