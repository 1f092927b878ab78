package serve

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"troupe/eventlog/eventlogtest"
	"troupe/policy"
	"troupe/serve/fold"
	"troupe/spec"
)

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sized are configurations of models whose memory is known to be of different kinds.
func sized() map[string]func(name string) ModelConfig {
	return map[string]func(name string) ModelConfig{
		"ensemble": func(name string) ModelConfig {
			return vectors(name, 48, func(c *ModelConfig) {
				c.Policy = PolicySpec{Raw: spec.Raw{"kind": "ensemble", "m": int64(48)}, Options: &policy.EnsembleOptions{M: 48}}
			})
		},
		"auto":     func(name string) ModelConfig { c := DefaultConfig(name); c.Dim = 64; return c },
		"requests": DefaultConfig,
	}
}

// TestCrowdedModels: while the models that are not laid aside take more than the bound, one that was not used since the last look is
// laid aside by the looks between those for all; below the bound it stays.
func TestCrowdedModels(t *testing.T) {
	for crowded, want := range map[int64][]int{1: {1, 0, 0}, 1 << 40: {1, 1, 1}} {
		s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) {
			o.LayAside, o.crowded = -1, crowded
		})
		must(s.CreateModel(t.Context(), DefaultConfig("m"), ""))
		d := must(s.Decide(t.Context(), "m", DecideRequest{Actions: actions(1, 2, 3)}))
		must(s.Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: 1}))
		for i, n := range want {
			if _, err := s.aside.layAsideSoon(); err != nil || s.Health().Awake != n {
				t.Errorf("bound %d, look %d: %d models are awake, expected %d; error %v", crowded, i, s.Health().Awake, n, err)
			}
		}
		must(s.Decide(t.Context(), "m", DecideRequest{Actions: actions(1, 2, 3)}))
		must(s.Reward(t.Context(), RewardRequest{EventID: d.EventID, Value: 1}))
	}
}

// TestModelSize: null: what a model is said to take is what the heap takes for it, within a factor of 2.5, used and laid aside.
func TestModelSize(t *testing.T) {
	const n = 24
	for kind, config := range sized() {
		t.Run(kind, func(t *testing.T) {
			s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.LayAside = -1 })
			warm := must(s.CreateModel(t.Context(), config("warm"), ""))
			before := heapNow()
			said := fold.Size{}
			for i := range n {
				m := must(s.CreateModel(t.Context(), config(fmt.Sprint("m", i)), ""))
				if kind != "requests" && m.Memory.Used <= m.Memory.Aside {
					t.Fatalf("a new model is said to take %+v", m.Memory)
				}
			}
			d := warm.Dim
			if kind == "requests" {
				d = 8
			}
			for i := range n {
				name := fmt.Sprint("m", i)
				for round := range 3 {
					dec := must(s.Decide(t.Context(), name, DecideRequest{Actions: actions(round, 4, d)}))
					must(s.Reward(t.Context(), RewardRequest{EventID: dec.EventID, Value: 0.5}))
				}
				m := must(s.GetModel(t.Context(), name))
				said.Used, said.Aside = said.Used+m.Memory.Used, said.Aside+m.Memory.Aside
			}
			compare := func(what string, say int64) {
				t.Helper()
				s.recent.Forget() // decisions are not of the model
				took := heapNow() - before
				if h := s.Health(); what == "used" && (h.Awake != n || h.ModelBytes < say) {
					t.Errorf("%d models of %d bytes are awake, want %d of %d", h.Awake, h.ModelBytes, n, say)
				}
				if ratio := float64(took) / float64(say); ratio < 0.4 || ratio > 2.5 {
					t.Errorf("%s: a model takes %d bytes and is said to take %d", what, took/n, say/n)
				}
			}
			compare("used", said.Used)
			for range 2 {
				must(s.aside.layAside())
			}
			compare("laid aside", said.Aside)
		})
	}
}

// TestModelBytes: a model that does not fit into the bound is refused before anything is written, models are laid aside for a new
// one, and one too many is refused.
func TestModelBytes(t *testing.T) {
	ctx := context.Background()
	config := sized()["ensemble"]
	one := must(open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}).CreateModel(ctx, config("m"), "")).Memory
	limit := one.Used + 7*one.Aside/2
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.LayAside, o.Limits.ModelBytes = -1, limit })
	big := vectors("big", 200)
	at := s.Health().Log
	_, err := s.CreateModel(ctx, big, "")
	wantCode(t, err, TooBusy, "--max-model-bytes", "while it is used")
	if s.Health().Log != at {
		t.Error("a refused model is in the log")
	}
	for i := range 4 {
		name := fmt.Sprint("m", i)
		must(s.CreateModel(ctx, config(name), ""))
		d := must(s.Decide(ctx, name, DecideRequest{Actions: actions(i, 3, 48)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
		if h := s.Health(); h.Awake != 1 {
			t.Errorf("%d models are awake after model %d", h.Awake, i)
		}
	}
	_, err = s.CreateModel(ctx, config("m4"), "")
	wantCode(t, err, TooBusy, "--max-model-bytes", "config")
	_, err = s.CloneModel(ctx, CloneRequest{From: "m0", Name: "copy"})
	wantCode(t, err, TooBusy, "--max-model-bytes")
	if err := s.DeleteModel(ctx, "m0", ""); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, config("m4"), ""))
	// The bound lays aside what learned longest ago, and what is used stays exact.
	for i := 1; i < 5; i++ {
		d := must(s.Decide(ctx, fmt.Sprint("m", i), DecideRequest{Actions: actions(i, 3, 48)}))
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
	}
	if n, _ := must(s.aside.layAsideTo(limit)), 0; n != 3 || !s.fold.Named("m4").Awake() {
		t.Errorf("%d models were laid aside for the bound, want the 3 oldest", n)
	}
}

// TestAsideForgets: with a model its newest decisions leave the memory, and how much that freed is told; its rewards still
// count, and those of a model that is awake need no log.
func TestAsideForgets(t *testing.T) {
	var told int64
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) {
		o.LayAside, o.LaidAside = -1, func(bytes int64) { told += bytes }
	})
	events := map[string][]string{}
	for _, name := range []string{"idle", "busy"} {
		must(s.CreateModel(t.Context(), vectors(name, 8, func(*ModelConfig) {}), ""))
		for round := range 20 {
			d := must(s.Decide(t.Context(), name, DecideRequest{Actions: actions(round, 4, 8)}))
			events[name] = append(events[name], d.EventID)
		}
		must(s.Reward(t.Context(), RewardRequest{EventID: events[name][0], Value: 1}))
	}
	must(s.aside.layAside()) // both were used
	must(s.Reward(t.Context(), RewardRequest{EventID: events["busy"][1], Value: 1}))
	if n := must(s.aside.layAside()); n != 1 || told <= 0 {
		t.Fatalf("%d models were laid aside, which freed %d bytes", n, told)
	}
	held := func(name string) (n int) {
		for _, id := range events[name] {
			if s.recent.Holds(id) {
				n++
			}
		}
		return n
	}
	if idle, busy := held("idle"), held("busy"); idle != 0 || busy != 20 {
		t.Errorf("%d decisions of the idle model are in memory and %d of the busy one, expected 0 and 20", idle, busy)
	}
	for _, id := range events["idle"][1:] {
		if r := must(s.Reward(t.Context(), RewardRequest{EventID: id, Value: 1})); r.Status != Accepted {
			t.Errorf("a reward of a model that was laid aside is %s", r.Status)
		}
	}
}
