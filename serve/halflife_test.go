package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"troupe/eventlog/eventlogtest"
	"troupe/spec"
)

// forgetting is a model with a half-life: the default one, or one of another kind on the fields of requests that turning
// makes.
func forgetting(t testing.TB, kind string, half any) ModelConfig {
	t.Helper()
	c := DefaultConfig("news")
	raw := spec.Raw{"kind": kind, "half_life": half}
	if kind != "effects" {
		raw["change"] = "restarts"
		if err := c.UnmarshalJSON([]byte(`{"id": "news", "reward": {"min": 0, "max": 1}, "features": {"model": "disjoint", "features": [
			{"feature": "context.segment", "kind": "category", "levels": ["s0", "s1", "s2"]}, {"feature": "id", "kind": "category", "levels": ["a", "b", "c"]}]}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHalfLifeServed: a model with a half-life, by events or by the time of the log, has one state as it goes, from the
// log alone, and from a snapshot, and every decision replays. The option stands in the configuration. A clock that is
// set back is counted and said, and refuses nothing.
func TestHalfLifeServed(t *testing.T) {
	for _, x := range []struct {
		kind string
		half any
	}{{"effects", int64(50)}, {"effects", "1h"}, {"auto", int64(25)}, {"auto", "1h"}, {"atoms", "1h"}, {"linucb", "1h"}, {"logistic", "1h"}} {
		ctx, half := t.Context(), x.half
		dir, log, clock := t.TempDir(), eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
		edit := func(o *Options) { o.Dir, o.SnapshotAfter = dir, 50 }
		s := open(t, log, clock, edit)
		must(s.CreateModel(ctx, forgetting(t, x.kind, half), ""))
		if raw := must(s.GetModel(ctx, "news")).Config.Policy.Raw; fmt.Sprint(raw["half_life"]) != fmt.Sprint(half) ||
			raw["change"] != "restarts" {
			t.Errorf("the policy is %v", raw)
		}
		var ids []string
		play := func(n, turn int) {
			t.Helper()
			for range n {
				clock.forward(time.Minute)
				ids = append(ids, turning(t, []*Server{s}, len(ids), len(ids)+1, turn)...)
			}
		}
		play(150, 0)
		warns := func() bool {
			return strings.Contains(strings.Join(must(s.GetModel(ctx, "news")).Warnings, " "), "the time of the log was before")
		}
		if warns() {
			t.Error("a warning of a clock that was not set back")
		}
		clock.forward(-30 * time.Minute)
		play(100, 1) // the first 29 are before the latest time
		if warns() != (half == "1h") {
			t.Errorf("half_life %v of %s: warnings %v", half, x.kind, must(s.GetModel(ctx, "news")).Warnings)
		}
		want := must(s.State(ctx, "news")).Digest
		for i := 0; i < len(ids); i += 13 {
			if r := must(s.Replay(ctx, ids[i])); !r.Equal {
				t.Fatalf("half_life %v of %s: decision %d: %+v", half, x.kind, i, r)
			}
		}
		must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "copy"}))
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s = open(t, log, clock, edit)
		for when, s := range map[string]*Server{"with a snapshot": s, "from the log alone": open(t, log, clock)} {
			if got := must(s.State(ctx, "news")).Digest; got != want {
				t.Errorf("half_life %v of %s: another state %s", half, x.kind, when)
			}
			if (half == "1h") != strings.Contains(strings.Join(must(s.GetModel(ctx, "news")).Warnings, " "), "with 29 learned") {
				t.Errorf("%s: warnings %v", when, must(s.GetModel(ctx, "news")).Warnings)
			}
		}
		play(20, 1)
		if a, b := must(s.State(ctx, "news")).Digest, must(s.State(ctx, "copy")).Digest; a == b {
			t.Error("the copy has learned what the model has")
		}
		must(s.CloneModel(ctx, CloneRequest{From: "news", Name: "keeps", Change: changeTo(spec.Raw{"kind": x.kind})}))
		if raw := must(s.GetModel(ctx, "keeps")).Config.Policy.Raw; raw["half_life"] != nil {
			t.Errorf("a copy under another policy has %v", raw)
		}
	}
}

// TestHalfLifeNodes: three nodes have equal bytes, by events and by the time of the log, which is the median of theirs.
func TestHalfLifeNodes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		kind string
		half any
	}{{"effects", int64(50)}, {"effects", "10m"}, {"auto", "10m"}, {"logistic", int64(25)}} {
		_, nodes, clocks := three(t)
		must(nodes[0].CreateModel(t.Context(), forgetting(t, x.kind, x.half), ""))
		for _, s := range nodes {
			eventually(t, func() bool { _, err := s.GetModel(t.Context(), "news"); return err == nil })
		}
		for i := range 3 {
			turning(t, nodes, 60*i, 60*(i+1), i)
			for k, c := range clocks {
				c.off.Add(int64(time.Duration(k+1) * time.Minute))
			}
		}
		eventually(t, func() bool { return must(nodes[2].GetModel(t.Context(), "news")).Counts.Learned == 180 })
		agree(t, nodes...)
	}
}

// TestHalfLifeRefused: what has no meaning is refused with its field, and nothing is made or changed.
func TestHalfLifeRefused(t *testing.T) {
	ctx := t.Context()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	for text, want := range map[string]string{
		`{"kind": "effects", "half_life": "9m"}`:                                                         "expected at least reward.window, 10m0s",
		`{"kind": "effects", "half_life": 49}`:                                                           "half_life",
		`{"kind": "effects", "half_life": -1}`:                                                           "half_life",
		`{"kind": "effects", "half_life": "soon"}`:                                                       "half_life",
		`{"kind": "effects", "half_life": true}`:                                                         "half_life",
		`{"kind": "sparse", "half_life": "7d"}`:                                                          "half_life",
		`{"kind": "auto", "half_life": "7d", "change": "restarts"}`:                                      "",
		`{"kind": "auto", "half_life": "9m", "change": "restarts"}, "dim": 3`:                            "expected at least reward.window, 10m0s",
		`{"kind": "auto", "half_life": "7d"}, "dim": 3`:                                                  `half_life: is "7d", but change is "none"`,
		`{"kind": "linucb", "half_life": "7d", "change": "restarts", "discount": 0.9}, "dim": 3`:         `half_life: is "7d", but discount is 0.9`,
		`{"kind": "atoms", "half_life": 24, "change": "restarts"}, "dim": 3`:                             "half_life: is 24, expected a number of events, at least 25",
		`{"kind": "logistic", "half_life": "1ms", "change": "restarts"}, "dim": 3`:                       "expected a time of at least 1s",
		`{"kind": "mixed", "base": {"kind": "auto", "half_life": "7d", "change": "restarts"}}, "dim": 3`: "nothing here says when an event came",
	} {
		c := DefaultConfig("news")
		err := c.UnmarshalJSON([]byte(`{"id": "news", "policy": ` + text + `}`))
		if err == nil {
			_, err = s.CreateModel(ctx, c, "")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	must(s.CreateModel(ctx, forgetting(t, "effects", "1h"), ""))
	m := must(s.GetModel(ctx, "news"))
	c := m.Config
	c.Reward.Window = Duration(2 * time.Hour)
	if _, err := s.ConfigureModel(ctx, "news", m.ConfigVersion, c, ""); CodeOf(err) != Invalid {
		t.Errorf("a window that is longer than the half-life: %v", err)
	}
	c.Reward.Window = Duration(time.Minute)
	must(s.ConfigureModel(ctx, "news", m.ConfigVersion, c, ""))
	for _, half := range []any{"2h", int64(100), nil} {
		c := DefaultConfig("news")
		raw := spec.Raw{"kind": "effects"}
		if half != nil {
			raw["half_life"] = half
		}
		if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ConfigureModel(ctx, "news", 0, c, ""); err == nil {
			t.Errorf("half_life may become %v", half)
		}
	}
	if got := must(s.GetModel(context.Background(), "news")).Config.Policy.Raw["half_life"]; got != "1h" {
		t.Errorf("half_life is %v", got)
	}
}
