package serve

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"troupe/eventlog"
	"troupe/eventlog/eventlogtest"
	"troupe/internal/await"
	"troupe/policy"
	"troupe/serve/candidates"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// TestFeatures: a model that reads requests, a catalogue and a context; the mask; explain.
func TestFeatures(t *testing.T) {
	ctx := context.Background()
	clock := &fakeClock{}
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), clock)
	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id":"shop","actions":[{"id":"a","features":{"price":0.25}},{"id":"b","features":{"price":0.75}},{"id":"c","features":{"price":0.5}}]}`), &c); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, c, ""))
	user := json.RawMessage(`{"user":{"city":"Oslo","age":31}}`)
	d := must(s.Decide(ctx, "shop", DecideRequest{Context: user, Explain: true}))
	m := must(s.GetModel(ctx, "shop"))
	if len(d.Explain) != 3 || m.Kind != "requests" || m.ConfigVersion != 1 || !m.Config.Features.IsZero() || d.Explain[0].Score == nil {
		t.Fatalf("decision %+v, model %+v", d, m)
	}
	// The catalogue by id, one action excluded, one not available.
	d = must(s.Decide(ctx, "shop", DecideRequest{Context: user, Exclude: []string{"a"}, Available: []bool{true, true, false}, Explain: true}))
	if d.Action != (Chosen{ID: "b", Index: 1}) || d.Propensity.Num != d.Propensity.Den || len(d.Explain) != 1 {
		t.Fatalf("masked: %+v", d)
	}
	if p := must(s.Replay(ctx, d.EventID)); !p.Equal || p.Index != 0 {
		t.Fatalf("replay: %+v", p)
	}
	if e := must(s.Event(ctx, d.EventID)); e.Action != (Chosen{ID: "b", Index: 1}) || e.Status != "open" {
		t.Fatalf("event: %+v", e)
	}
	for _, bad := range []struct {
		r     DecideRequest
		field string
	}{
		{DecideRequest{Context: user, Exclude: []string{"a", "b", "c"}}, "actions"},
		{DecideRequest{Context: user, Available: []bool{true}}, "available"},
		{DecideRequest{Context: json.RawMessage(`{"user":{"city":"Oslo","age":1e999}}`)}, "context.user.age"},
		{DecideRequest{Context: json.RawMessage(`{"user":`)}, "context"},
		{DecideRequest{Context: user, Actions: []Action{{ID: "a"}, {ID: "a"}}}, "actions[1].id"},
		{DecideRequest{Context: user, Mode: "dreaming"}, "mode"},
		{DecideRequest{Context: user, Mode: Apprentice, Baseline: ptr(7)}, "baseline"},
		{DecideRequest{Context: user, IDs: []string{"a"}}, "ids"},
	} {
		_, err := s.Decide(ctx, "shop", bad.r)
		wantCode(t, err, Invalid, bad.field)
	}
	// What shapes the state cannot change; the rest can, on the right version only.
	n := m.Config
	n.Policy = PolicySpec{Raw: spec.Raw{"kind": "greedy"}, Options: policy.Kinds["greedy"]()}
	_, err := s.ConfigureModel(ctx, "shop", 0, n, "")
	wantCode(t, err, Invalid, "config.policy")
	n = m.Config
	n.Actions = n.Actions[:2]
	_, err = s.ConfigureModel(ctx, "shop", 2, n, "")
	wantCode(t, err, Conflict, "version")
	if m := must(s.ConfigureModel(ctx, "shop", 1, n, "")); m.ConfigVersion != 2 || len(m.Config.Actions) != 2 {
		t.Fatalf("configured: %+v", m)
	}
}

func ptr[T any](v T) *T { return &v }

// TestConfig: the JSON of a configuration reads back to itself; what is wrong is named.
func TestConfig(t *testing.T) {
	c := vectors("m", 4, func(c *ModelConfig) {
		c.Floor, c.Reward.Default = 0.05, Maybe{Set: true, Value: 0}
		c.Actions = []Entry{{ID: "x", Features: json.RawMessage(`[0.5,0,0,0]`)}}
	})
	a := must(json.Marshal(c))
	var back ModelConfig
	if err := json.Unmarshal(a, &back); err != nil {
		t.Fatal(err)
	}
	if b := must(json.Marshal(back)); string(a) != string(b) {
		t.Fatalf("%s\nreads back as\n%s", a, b)
	}
	for in, field := range map[string]string{
		`{"id":"m","dim":2,"window":"1m"}`:                               "window",
		`{"id":"m","dim":2,"policy":{"kind":"ensembel"}}`:                "policy.kind",
		`{"id":"m","dim":2,"policy":{"kind":"ts"}}`:                      "config.policy.kind",
		`{"id":"m","dim":2,"policy":{"kind":"ensemble","m":1000000}}`:    "config.policy.m",
		`{"id":"m","dim":2,"reward":{"min":1,"max":1}}`:                  "config.reward.min",
		`{"id":"m","dim":2,"reward":{"window":"PT0S"}}`:                  "config.reward.window",
		`{"id":"m","dim":2,"reward":{"max":1,"default":2}}`:              "config.reward.default",
		`{"id":"m","dim":2,"floor":0.00000001}`:                          "config.floor",
		`{"id":"a b","dim":2}`:                                           "config.id",
		`{"id":"m","dim":2,"actions":[{"id":"x"},{"id":"x"}]}`:           "config.actions[1].id",
		`{"id":"m","dim":2,"features":{"features":[]}}`:                  "config.dim",
		`{"id":"m","features":{"features":[{"feature":"action.x"}]}}`:    "features.features[0]",
		`{"id":"m","dim":2,"reward":{"window":"PT5M","rule":"average"}}`: "config.reward.rule",
	} {
		var c ModelConfig
		err := error(nil)
		if err = json.Unmarshal([]byte(in), &c); err == nil {
			_, err = c.Admit(model.Limits{Members: 1000})
			err = refused(err)
		} else {
			err = ConfigError(err)
		}
		wantCode(t, err, Invalid, field)
	}
}

// What could only fail at a decision is refused before: a policy without a law also when the features
// are not known yet, a catalogue that does not fit the schema; and an action without features, which
// would be decided as if all of them were 0.
func TestRefusedBeforeADecision(t *testing.T) {
	ctx := t.Context()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	for in, field := range map[string]string{
		`{"id":"m","policy":{"kind":"ts"}}`:                                                        "config.policy.kind",
		`{"id":"m","policy":{"kind":"ensemble"}}`:                                                  "config.policy.kind",
		`{"id":"m","policy":{"kind":"sparse"}}`:                                                    "config.policy.kind",
		`{"id":"m","dim":2,"policy":{"kind":"effects"},"sigma":2}`:                                 "config.sigma",
		`{"id":"m","sigma":2}`:                                                                     "config.sigma",
		`{"id":"m","dim":2,"actions":[{"id":"a","features":[0.1,0.1]},{"id":"b","features":[1]}]}`: "config.actions[1]",
		`{"id":"m","dim":2,"actions":[{"id":"a"}]}`:                                                "config.actions[0].features",
		`{"id":"m","features":{"features":[{"feature":"action.p","kind":"number","range":[0,1]}]},"actions":[{"id":"a","features":{"p":"x"}}]}`: "config.actions[0].features.p",
	} {
		var c ModelConfig
		if err := json.Unmarshal([]byte(in), &c); err != nil {
			t.Fatal(in, err)
		}
		wantCode(t, refused(c.Check()), Invalid, field)
		_, err := s.CreateModel(ctx, c, "")
		wantCode(t, err, Invalid, field)
	}
	for _, in := range []string{`{"id":"d"}`} {
		var c ModelConfig
		if err := json.Unmarshal([]byte(in), &c); err != nil {
			t.Fatal(in, err)
		}
		must(s.CreateModel(ctx, c, ""))
	}

	var c ModelConfig
	if err := json.Unmarshal([]byte(`{"id":"n","features":{"features":[{"feature":"action.p","kind":"number","range":[0,1]}]},"actions":[{"id":"a","features":{"p":1}}]}`), &c); err != nil {
		t.Fatal(err)
	}
	m := must(s.CreateModel(ctx, c, ""))
	m.Config.Actions = []Entry{{ID: "a", Features: json.RawMessage(`{"p":2}`)}}
	_, err := s.ConfigureModel(ctx, "n", 0, m.Config, "")
	wantCode(t, err, Invalid, "config.actions[0].features.p")
	must(s.CreateModel(ctx, vectors("v", 2), ""))
	for _, bad := range []struct {
		model string
		r     DecideRequest
		field string
	}{
		{"n", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "b"}}}, "actions[1].features"},
		{"n", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "b", Features: json.RawMessage(`null`)}}}, "actions[1].features"},
		{"n", DecideRequest{Actions: []Action{{ID: "b", Features: json.RawMessage(`{"p":"x"}`)}}}, "actions[0].features.p"},
		{"v", DecideRequest{Actions: []Action{{ID: "a"}}}, "actions[0].features: "},
		{"v", DecideRequest{Actions: []Action{{ID: "a", Features: json.RawMessage(`[1]`)}}}, "actions[0].features: "},
		{"v", DecideRequest{Packed: json.RawMessage(`{"dtype":"float16","shape":[1,2],"data":""}`)}, "packed: "},
		{"v", DecideRequest{Packed: json.RawMessage(`{"dtype":"float32","shape":[2,2],"data":"AAAAAAAAAAAAAIA/AACAPw=="}`)}, "packed: row 1: "},
	} {
		_, err := s.Decide(ctx, bad.model, bad.r)
		wantCode(t, err, Invalid, bad.field)
	}
	must(s.Decide(ctx, "n", DecideRequest{Actions: []Action{{ID: "a"}, {ID: "b", Features: json.RawMessage(`{}`)}}}))
}

// The limits of a request are those of the server, not those of package feature, and a larger server's log
// is read by a smaller one.
func TestRequestLimits(t *testing.T) {
	ctx, clock := t.Context(), &fakeClock{}
	log := eventlogtest.NewMemory(eventlogtest.MemoryOptions{})
	packed := func(k int) DecideRequest {
		data := base64.StdEncoding.EncodeToString(make([]byte, 4*2*k))
		return DecideRequest{Packed: fmt.Appendf(nil, `{"dtype":"float32","shape":[%d,2],"data":%q}`, k, data)}
	}
	s := open(t, log, clock, func(o *Options) {
		o.Limits.Feature.Actions, o.Limits.Feature.Bytes = 1200, 2<<20
	})
	must(s.CreateModel(ctx, vectors("m", 2), ""))
	d := must(s.Decide(ctx, "m", packed(1200)))
	_, err := s.Decide(ctx, "m", packed(1201))
	wantCode(t, err, Invalid, "packed: expected at most 1200 actions")
	_, err = s.Decide(ctx, "m", DecideRequest{Actions: make([]Action, 1201)})
	wantCode(t, err, Invalid, "actions: expected at most 1200 actions")
	must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 2, 2), Context: json.RawMessage(strings.Repeat(" ", 2<<20))}))
	_, err = s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 2, 2), Context: json.RawMessage(strings.Repeat(" ", 2<<20+1))})
	wantCode(t, err, Invalid, "context: expected at most 2097152 bytes")
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock)
	if r := must(s.Replay(ctx, d.EventID)); !r.Equal {
		t.Errorf("replay: %+v", r)
	}
	must(s.Decide(ctx, "m", packed(1000)))
	_, err = s.Decide(ctx, "m", packed(1001))
	wantCode(t, err, Invalid, "packed: expected at most 1000 actions")
}

// TestIdempotency: the same key gives the same decision, at once, together, and after a restart;
// with another request it is a conflict.
func TestIdempotency(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	r := DecideRequest{Actions: actions(0, 5, 3), IdempotencyKey: "order 7", Exclude: []string{"a0"}}
	out := make([]Decision, 16)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			d, err := s.Decide(ctx, "m", r)
			if err != nil {
				t.Error(err)
			}
			d.Repeated = false
			out[i] = d
		})
	}
	wg.Wait()
	for _, d := range out {
		if d.EventID != out[0].EventID || d.Action != out[0].Action || d.Propensity != out[0].Propensity || d.Seq != out[0].Seq {
			t.Fatalf("%+v and %+v", d, out[0])
		}
	}
	if c := must(s.GetModel(ctx, "m")).Counts; c.Decisions != 1 {
		t.Fatalf("%d decisions", c.Decisions)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock)
	d := must(s.Decide(ctx, "m", r))
	if !d.Repeated || d.EventID != out[0].EventID || d.Action != out[0].Action {
		t.Fatalf("after a restart: %+v, before %+v", d, out[0])
	}
	r.Actions = actions(1, 5, 3)
	_, err := s.Decide(ctx, "m", r)
	wantCode(t, err, Conflict, "idempotency_key")
}

// TestManyAtOnce: users, rewards in batches, control acts and expiry at the same time; then every
// decision is replayed and the counts must add up. It is mostly for the race detector.
func TestManyAtOnce(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock, func(o *Options) {
		o.ExpireEvery, o.LayAside, o.Dir, o.SnapshotEvery = time.Millisecond, time.Millisecond, t.TempDir(), 50
	})
	must(s.CreateModel(ctx, vectors("m", 3, func(c *ModelConfig) { c.Floor = 0.1 }), ""))
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for u := range 6 {
		wg.Go(func() {
			for n := range 12 {
				items, err := s.DecideBatch(ctx, "m", []DecideRequest{{Actions: actions(n+u, 4, 3)}, {}, {Actions: actions(n+u+1, 3, 3), Explain: true}})
				if err != nil || items[0].Err != nil || CodeOf(items[1].Err) != Invalid || items[2].Err != nil {
					t.Errorf("%v %+v", err, items)
					return
				}
				rs := []RewardRequest{{EventID: items[0].Decision.EventID, Value: 0.5}, {EventID: "x"}, {EventID: items[2].Decision.EventID, Value: -0.5}, {EventID: items[0].Decision.EventID, Value: 1}}
				rewards, err := s.RewardBatch(ctx, rs)
				if err != nil || rewards[0].Result.Status != Accepted || CodeOf(rewards[1].Err) != BadEventID || rewards[2].Result.Status != Accepted || rewards[3].Result.Status != Duplicate {
					t.Errorf("%v %+v", err, rewards)
					return
				}
				mu.Lock()
				ids = append(ids, items[0].Decision.EventID, items[2].Decision.EventID)
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		for n := range 10 {
			name := fmt.Sprint("copy", n)
			if _, err := s.CloneModel(ctx, CloneRequest{From: "m", Name: name}); err != nil {
				t.Error(err)
			}
			s.Health()
			if _, err := s.State(ctx, "m"); err != nil {
				t.Error(err)
			}
			if err := s.DeleteModel(ctx, name, ""); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	c := must(s.GetModel(ctx, "m")).Counts
	if c.Decisions != 144 || c.Rewards != 144 || c.Learned != 144 {
		t.Fatalf("counts %+v", c)
	}
	for i, id := range ids {
		if i%12 != 0 {
			continue
		}
		if p, err := s.Replay(ctx, id); err != nil || !p.Equal {
			t.Fatalf("replay %v: %v", p.Differs, err)
		}
	}
	clock.forward(time.Hour)
	await.Until(t, "the windows are closed", func() bool { return must(s.GetModel(ctx, "m")).Counts.Open == 0 })
}

// TestBackPressure: more calls than allowed are refused with TooBusy.
func TestBackPressure(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.Limits.InFlight, o.Limits.Open, o.Limits.Models = 1, 2, 1 })
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	_, err := s.CreateModel(ctx, vectors("n", 3), "")
	wantCode(t, err, TooBusy)
	done := must(s.begin(ctx))
	_, err = s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 2, 3)})
	wantCode(t, err, TooBusy)
	done()
	for range 2 {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 2, 3)}))
		must(s.Event(ctx, d.EventID))
	}
	_, err = s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 2, 3)})
	wantCode(t, err, TooBusy)
}

// policyVariants are the registered kinds as they come, and options that change how a law is stated or
// a state is kept.
func policyVariants() []spec.Raw {
	var out []spec.Raw
	for _, kind := range spec.Names(policy.Kinds) {
		out = append(out, spec.Raw{"kind": kind})
	}
	type raw = spec.Raw
	return append(out,
		raw{"kind": "atoms", "key": "fixed"}, raw{"kind": "atoms", "key": "round"}, raw{"kind": "atoms", "m": int64(4), "symmetric": false},
		raw{"kind": "auto", "link": "auto"}, raw{"kind": "auto", "key": "epoch", "m": int64(3), "guard": int64(2)},
		raw{"kind": "ensemble", "m": int64(4), "symmetric": false}, raw{"kind": "ensemble", "m": int64(4), "select": "max"},
		raw{"kind": "ensemble", "m": int64(4), "combine": "pair"}, raw{"kind": "ensemble", "m": int64(4), "combine": "signs"},
		raw{"kind": "ensemble", "m": int64(4), "combine": "gaussian"}, raw{"kind": "ensemble", "m": int64(4), "combine": "sphere"},
		raw{"kind": "ensemble", "m": int64(4), "targets": "gaussian", "init": "prior", "engine": "exact-law"},
		raw{"kind": "ensemble", "m": "grow", "targets": "gaussian", "init": "prior", "engine": "exact-law"},
		raw{"kind": "ensemble", "m": int64(4), "engine": "eager"}, raw{"kind": "ensemble", "m": int64(4), "engine": "lazy"}, raw{"kind": "ensemble", "m": int64(4), "engine": "blocked"},
		raw{"kind": "fixed", "index": int64(1)}, raw{"kind": "lazy", "symmetric": false}, raw{"kind": "lee-oh", "m": int64(4), "scale": raw{"kind": "constant", "value": 1.0}},
		raw{"kind": "doubling", "base": raw{"kind": "greedy"}}, raw{"kind": "doubling", "base": raw{"kind": "ts"}},
		raw{"kind": "mixed", "base": raw{"kind": "linucb"}}, raw{"kind": "mixed", "base": raw{"kind": "linphe"}})
}

// TestEveryPolicy: whatever the registry has either serves (decides with a probability that adds up
// to 1, learns, survives a restart with the same bytes, replays) or is refused when the model is made,
// with the ability that it lacks. Who is refused is written down, so that nobody gets in or out
// unseen.
func TestEveryPolicy(t *testing.T) {
	ctx := context.Background()
	refused := map[string]string{
		"ats": "known with groups", "cells": "(bandit.Prober)", "centred": "(bandit.Prober)", "confident-ts": "(bandit.Prober)", "evill": "(bandit.Prober)", "ensemble-pp": "is an integral", "linphe": "(bandit.Prober)", "ts": "(bandit.Prober)",
		"lee-oh": "m: is not set", // with m it is served
		// policies of the laboratory: the server's lists and numbers are the default policy's
		"cascade-ucb": "plays lists", "cascade-kl-ucb": "plays lists", "cascade-ts": "plays lists", "pbm-ts": "plays lists", "slots": "plays lists",
		"toprank": "plays lists", "bins": "plays numbers", "zooming": "plays numbers",
	}
	for i, raw := range policyVariants() {
		name, _ := json.Marshal(raw)
		kind := raw["kind"].(string)
		log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
		s := open(t, log, clock)
		var p PolicySpec
		if err := p.DecodeSpec(raw, "policy"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := vectors("m", 3, func(c *ModelConfig) { c.Policy, c.Floor = p, 0.125 })
		if kind == "logistic" || kind == "evill" || kind == "glm-es" || raw["link"] == "auto" {
			c.Reward.Min = 0
		}
		_, err := s.CreateModel(ctx, c, "")
		want := ""
		if i < len(policy.Kinds) {
			want = refused[kind]
		}
		if raw["combine"] == "gaussian" || raw["combine"] == "sphere" {
			want = "(bandit.Prober)"
		}
		if base, ok := raw["base"].(spec.Raw); ok && refused[base["kind"].(string)] != "" {
			want = "(bandit.Prober)"
		}
		if want != "" || err != nil {
			if want == "" || err == nil || CodeOf(err) != Invalid || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			continue
		}
		var ids []string
		for n := range 8 {
			d, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 4, 3), MinSeq: s.Health().Log, Explain: true})
			if err == nil {
				_, err = s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5})
			}
			if err != nil {
				t.Fatalf("%s: %v (%v)", name, err, err.(*Error).Err)
			}
			sum := 0.0
			for _, e := range d.Explain {
				sum += e.Propensity.Float()
			}
			if math.Abs(sum-1) > 1e-12 || d.Explain[d.Action.Index].Propensity != d.Propensity {
				t.Errorf("%s: the probabilities add up to %v; %+v of %+v", name, sum, d.Propensity, d.Explain)
			}
			ids = append(ids, d.EventID)
			if n%3 == 1 { // the state after the restart below is that of a server that laid nothing aside
				for range 2 {
					if _, err := s.aside.layAside(); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				if h := s.Health(); h.Awake != 0 || h.ModelBytes == 0 {
					t.Errorf("%s: %d models of %d bytes are awake", name, h.Awake, h.ModelBytes)
				}
			}
		}
		before := must(s.State(ctx, "m"))
		for _, id := range ids {
			if p, err := s.Replay(ctx, id); err != nil || !p.Equal {
				t.Errorf("%s: replay %v: %v", name, p.Differs, err)
			}
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		s = open(t, log, clock)
		if after := must(s.State(ctx, "m")); after.Digest != before.Digest || !bytes.Equal(after.Snapshot, before.Snapshot) || after.Learned != 8 {
			t.Errorf("%s: the state after a restart is another one", name)
		}
	}
}

// FuzzState: no bytes make restoreState panic, and what it accepts is written back unchanged.
func FuzzState(f *testing.F) {
	ctx := context.Background()
	s := open(f, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 2), ""))
	d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 2, 2), IdempotencyKey: "k"}))
	must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 1}))
	s.mu.Lock()
	f.Add(must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1))))
	s.mu.Unlock()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, in := range [][]byte{b, reseal(b)} {
			got, chain, err := fold.Restore(in, nil)
			if err != nil {
				continue
			}
			if out, err := got.AppendState(nil, chain); err != nil || len(out) == 0 {
				t.Fatal(err)
			}
		}
	})
}

// TestOneWins: of many rewards of one event at the same time exactly one is accepted, and a decision
// with its sequence as MinSeq is made on a state that has it.
func TestOneWins(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, func(o *Options) { o.Wait = 500 * time.Millisecond })
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	for n := range 20 {
		d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3)}))
		var accepted, at atomic.Int64
		var wg sync.WaitGroup
		for u := range 8 {
			wg.Go(func() {
				r, err := s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: float64(u) / 8})
				switch {
				case err != nil:
					t.Error(err)
				case r.Status == Accepted:
					accepted.Add(1)
					at.Store(int64(r.Seq))
				case r.Status != Duplicate:
					t.Errorf("status %s", r.Status)
				}
			})
		}
		wg.Wait()
		if accepted.Load() != 1 {
			t.Fatalf("%d rewards of one event were accepted", accepted.Load())
		}
		if d := must(s.Decide(ctx, "m", DecideRequest{Actions: actions(n, 3, 3), MinSeq: uint64(at.Load())})); d.BasisSeq < uint64(at.Load()) {
			t.Fatalf("min_seq %d, decided on %d", at.Load(), d.BasisSeq)
		}
	}
	_, err := s.Decide(ctx, "m", DecideRequest{Actions: actions(0, 3, 3), MinSeq: 1 << 40})
	wantCode(t, err, Unavailable, "min_seq")
	if n := len(s.progress.waiting); n != 0 {
		t.Fatalf("%d entries are still waited for", n)
	}
	if c := must(s.GetModel(ctx, "m")).Counts; c.Learned != 20 {
		t.Fatalf("%d lessons", c.Learned)
	}
}

// TestKeysRemembered holds the server to what it promises about idempotency keys: remembered while the
// window is open, whatever else happens; then for 24 hours to the nanosecond, or until fold.KeysKept others
// were closed after it; the same after a restart, from a snapshot or from zero.
func TestKeysRemembered(t *testing.T) {
	ctx := context.Background()
	log, clock, dir := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}, t.TempDir()
	with := func(o *Options) { o.Dir, o.keysKept = dir, 5 }
	s := open(t, log, clock, with)
	must(s.CreateModel(ctx, vectors("slow", 3, func(c *ModelConfig) { c.Reward.Window = Duration(model.MaxWindow) }), ""))
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	ids := map[string]string{}
	decide := func(model, key string) Decision {
		t.Helper()
		d, err := s.Decide(ctx, model, DecideRequest{Actions: actions(len(key), 3, 3), IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		if !d.Repeated {
			ids[model+key] = d.EventID
		}
		return d
	}
	tick := func(d time.Duration) { // the log learns the time from a batch
		t.Helper()
		clock.forward(d)
		must(s.Expire(ctx))
		must(s.progress.until(ctx, decide("slow", "").Seq))
	}
	expect := func(what, model, key string, known bool) {
		t.Helper()
		id, err := s.EventOfKey(ctx, model, key)
		if known && (err != nil || id != ids[model+key]) || !known && CodeOf(err) != NotFound {
			t.Errorf("%s: key %s of %s: %q %v, want known: %v", what, key, model, id, err, known)
		}
	}
	again := func() {
		t.Helper()
		s.mu.Lock()
		want := must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1)))
		s.mu.Unlock()
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{"", dir} {
			s = open(t, log, clock, func(o *Options) { o.Dir, o.keysKept = d, 5 })
			s.mu.Lock()
			got := must(s.fold.AppendState(nil, eventlog.NewChain(0, s.fold.Seq()+1)))
			s.mu.Unlock()
			if !bytes.Equal(got, want) {
				t.Fatalf("from %q: another state", d)
			}
			if d == "" {
				if err := s.Close(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	decide("slow", "long")
	decide("m", "a")
	window := 10 * time.Minute
	tick(window) // a is closed
	expect("just closed", "m", "a", true)
	tick(fold.KeysFor - 1)
	expect("a nanosecond before the end", "m", "a", true)
	if d := decide("m", "a"); !d.Repeated || d.EventID != ids["ma"] {
		t.Errorf("repeated %v, event %s", d.Repeated, d.EventID)
	}
	again()
	expect("after a restart", "m", "a", true)
	tick(1)
	expect("at the end", "m", "a", false)
	expect("after a day", "slow", "long", true)
	first := ids["ma"]
	if d := decide("m", "a"); d.Repeated || d.EventID == first {
		t.Errorf("a forgotten key gave an old decision: %+v", d)
	}
	for _, k := range []string{"b", "c", "d", "e", "f", "g"} {
		decide("m", k)
	}
	for _, k := range []string{"a", "b", "g"} {
		expect("all open: more than fold.KeysKept", "m", k, true)
	}
	tick(window)
	expect("closed first", "m", "a", false)
	expect("closed second", "m", "b", false)
	expect("the last five", "m", "c", true)
	expect("the last five", "m", "g", true)
	expect("open all the time", "slow", "long", true)
	if n := s.Health().Keys; n != 6 {
		t.Errorf("%d keys are remembered, want 6", n)
	}
	again()
	expect("after a restart", "m", "b", false)
	expect("after a restart", "m", "c", true)
	expect("after a restart", "slow", "long", true)
	must(s.RollbackModel(ctx, RollbackRequest{Name: "slow", ToSeq: must(s.GetModel(ctx, "slow")).Created.Seq}))
	expect("after a rollback", "slow", "long", true)
	must(s.CloneModel(ctx, CloneRequest{From: "slow", Name: "copy"}))
	expect("of a clone", "copy", "long", false)
	if err := s.DeleteModel(ctx, "slow", ""); err != nil {
		t.Fatal(err)
	}
	must(s.CreateModel(ctx, vectors("slow", 3), ""))
	expect("of another model with the name", "slow", "long", false)
	if d := decide("slow", "long"); d.Repeated {
		t.Error("another model with the same name knows the key")
	}
	again()
}

// TestIdempotentBatch: a key belongs to its item: repeated batches, in any order and at once, with
// other items between, decide each key once, also after a restart.
func TestIdempotentBatch(t *testing.T) {
	ctx := context.Background()
	log, clock := eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{}
	s := open(t, log, clock)
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	item := func(n int) DecideRequest {
		return DecideRequest{Actions: actions(n, 3, 3), IdempotencyKey: fmt.Sprint("k", n)}
	}
	rs := []DecideRequest{item(0), {Actions: actions(9, 3, 3)}, item(1), item(0), {IdempotencyKey: "bad"}, {Actions: actions(5, 3, 3), IdempotencyKey: "k1"}}
	first := must(s.DecideBatch(ctx, "m", rs))
	if first[3].Err != nil || !first[3].Decision.Repeated || first[3].Decision.EventID != first[0].Decision.EventID {
		t.Fatalf("a key twice in a batch: %+v", first[3])
	}
	wantCode(t, first[4].Err, Invalid, "actions")
	wantCode(t, first[5].Err, Conflict, "idempotency_key")
	second := must(s.DecideBatch(ctx, "m", rs))
	for i, same := range []bool{true, false, true, true} {
		a, b := first[i].Decision, second[i].Decision
		if (a.EventID == b.EventID) != same || b.Repeated != same || same && (a.Action != b.Action || a.Propensity != b.Propensity || a.Seq != b.Seq) {
			t.Errorf("item %d: %+v, then %+v", i, a, b)
		}
	}
	if d := must(s.Decide(ctx, "m", item(1))); d.EventID != first[2].Decision.EventID {
		t.Errorf("the key alone: %+v", d)
	}
	// Batches that share keys in opposite orders must not wait for each other.
	var wg sync.WaitGroup
	got := make([][]DecideItem, 8)
	for u := range got {
		wg.Go(func() {
			var rs []DecideRequest
			for n := range 20 {
				rs = append(rs, item(100+n))
			}
			if u%2 == 1 {
				slices.Reverse(rs)
			}
			got[u] = must(s.DecideBatch(ctx, "m", rs))
			if u%2 == 1 {
				slices.Reverse(got[u])
			}
		})
	}
	wg.Wait()
	for u := range got {
		for n, it := range got[u] {
			if it.Err != nil || it.Decision.EventID != got[0][n].Decision.EventID {
				t.Fatalf("batch %d, item %d: %+v, another has %+v", u, n, it, got[0][n])
			}
		}
	}
	if c := must(s.GetModel(ctx, "m")).Counts; c.Decisions != 2+2+20 {
		t.Errorf("%d decisions were made", c.Decisions)
	}
	if n := s.decider.Held(); n != 0 {
		t.Errorf("%d keys are still held", n)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, clock)
	if it := must(s.DecideBatch(ctx, "m", rs))[2]; it.Err != nil || !it.Decision.Repeated || it.Decision.EventID != first[2].Decision.EventID {
		t.Errorf("after a restart: %+v", it)
	}
}

// TestLargeCandidates: a decision whose candidates are kept can be replayed, however many there are,
// or is refused; it is never recorded without them.
func TestLargeCandidates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	request := func(k, d int) (r DecideRequest) {
		for i := range k {
			x := make([]float64, d)
			for j := range x {
				x[j] = float64(i%7+j%5+1) / 7919
			}
			r.Actions = append(r.Actions, Action{Features: must(json.Marshal(x))})
		}
		return r
	}
	const d = 1024 // the largest, so that the chosen vector is
	must(s.CreateModel(ctx, vectors("m", d, func(c *ModelConfig) {
		c.Policy = PolicySpec{Raw: spec.Raw{"kind": "greedy"}, Options: policy.Kinds["greedy"]()}
	}), ""))
	largest := 0
	for k := 100; ; k++ {
		x := make([]float64, k*d)
		for i := range x {
			x[i] = 0.1
		}
		if len(candidates.Append(nil, nil, x, d)) > candidates.MaxBytes {
			break
		}
		largest = k
	}
	r := request(largest, d)
	r.Caller = strings.Repeat("c", model.MaxText)
	r.Actions[0].ID = strings.Repeat("a", model.MaxText)
	r.Mode = Apprentice
	got, err := s.Decide(ctx, "m", r)
	if err != nil {
		t.Fatalf("%d candidates: %v", largest, err)
	}
	if p, err := s.Replay(ctx, got.EventID); err != nil || !p.Equal {
		t.Fatalf("replay: %v %v", p.Differs, err)
	}
	_, err = s.Decide(ctx, "m", request(largest+1, d))
	wantCode(t, err, TooLarge, "actions", "log_candidates")
	items := must(s.DecideBatch(ctx, "m", []DecideRequest{request(largest, d), request(largest+1, d), request(2, d)}))
	if items[0].Err != nil || items[2].Err != nil {
		t.Fatalf("%v, %v", items[0].Err, items[2].Err)
	}
	wantCode(t, items[1].Err, TooLarge)
	c := must(s.GetModel(ctx, "m")).Config
	c.LogCandidates = "none"
	must(s.ConfigureModel(ctx, "m", 0, c, ""))
	got, err = s.Decide(ctx, "m", request(largest+1, d))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Replay(ctx, got.EventID)
	wantCode(t, err, Gone, "log_candidates")
}

// gated is a log whose readers stop while the gate is closed, and that stores without an answer while
// it is mute.
type gated struct {
	*eventlogtest.Memory
	gate sync.RWMutex
	mute atomic.Bool
}

func (l *gated) Append(ctx context.Context, shard uint16, id string, b []byte) (uint64, bool, error) {
	seq, dup, err := l.Memory.Append(ctx, shard, id, b)
	if l.mute.Load() {
		return 0, false, errors.New("no answer")
	}
	return seq, dup, err
}

func (l *gated) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[eventlog.Entry, error] {
	return func(yield func(eventlog.Entry, error) bool) {
		for e, err := range l.Memory.Read(ctx, shard, from) {
			l.gate.RLock()
			//lint:ignore SA2001 only to wait
			l.gate.RUnlock()
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestKeyOfUnknownOutcome: a decision with a key was stored and the log's answer was lost for longer than
// anybody waits. Its key stays taken until the outcome is known and applied: a repetition waits and then
// finds the first decision, and never makes a second one.
func TestKeyOfUnknownOutcome(t *testing.T) {
	ctx := context.Background()
	log := &gated{Memory: eventlogtest.NewMemory(eventlogtest.MemoryOptions{})}
	s := open(t, log, &fakeClock{}, func(o *Options) {
		o.Committer = eventlog.CommitterOptions{Try: 2 * time.Millisecond, Patience: 5 * time.Millisecond}
	})
	must(s.CreateModel(ctx, vectors("m", 3), ""))
	r := DecideRequest{Actions: actions(0, 5, 3), IdempotencyKey: "order 7"}
	log.gate.Lock()
	log.mute.Store(true)
	_, err := s.Decide(ctx, "m", r)
	var e *Error
	if !errors.As(err, &e) || !e.Unknown {
		t.Fatalf("error %v, want an unknown outcome", err)
	}
	log.mute.Store(false)
	eventually(t, func() bool { return s.stopped() == nil }) // the log has answered; what it stored is not applied, for the gate is closed
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if d, err := s.Decide(short, "m", r); err == nil {
		t.Errorf("a second decision with the key: %+v", d)
	}
	log.gate.Unlock()
	d, err := s.Decide(ctx, "m", r)
	if err != nil || !d.Repeated {
		t.Fatalf("%+v %v", d, err)
	}
	if c := must(s.GetModel(ctx, "m")).Counts; c.Decisions != 1 {
		t.Errorf("%d decisions were made", c.Decisions)
	}
}

// TestStatesStay: states are written over once nobody holds them, and never before. Readers take versions of
// a model that learns all the time: what they hold has the bytes of its digest until they let go, a worker
// is put into exactly the state of its version or into none, and decisions that were begun on an old
// version are made on a newer one. Decisions and states are those of a fold of the log from zero.
func TestStatesStay(t *testing.T) {
	ctx := context.Background()
	s := open(t, eventlogtest.NewMemory(eventlogtest.MemoryOptions{}), &fakeClock{})
	must(s.CreateModel(ctx, vectors("m", 4), ""))
	request := DecideRequest{Actions: []Action{{Features: json.RawMessage(`[1,0,0,0]`)}, {Features: json.RawMessage(`[0,1,0,0]`)}, {Features: json.RawMessage(`[0,0,0.6,0.8]`)}}}
	e, first, err := s.model("m")
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var gone, held atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var w *choose.Worker
			for !stop.Load() {
				v := e.version.Load()
				runtime.Gosched()
				if next, err := v.Worker(w); err == choose.ErrOld {
					gone.Add(1)
				} else if err != nil {
					t.Error(err)
					return
				} else if w = next; w.StateDigest() != v.Digest || w.Version != v {
					t.Error("a worker is not in the state of its version")
					return
				}
				if v = e.version.Load(); v.State.Hold() {
					for range 3 {
						runtime.Gosched()
						if b, err := v.State.Bytes(); err != nil || fold.Digest(b) != v.Digest {
							t.Error("a state was written over while it was held")
							stop.Store(true)
						}
					}
					v.State.Release()
					held.Add(1)
				}
			}
		})
	}
	var ids []string
	for range 300 {
		d := must(s.Decide(ctx, "m", request))
		ids = append(ids, d.EventID)
		must(s.Reward(ctx, RewardRequest{EventID: d.EventID, Value: 0.5}))
	}
	if first.State.Hold() {
		t.Error("the first state is still there")
	}
	if c, err := s.decider.Choose(context.Background(), e, first, &request); err != nil || c.Decision.BasisSeq != e.version.Load().Seq || c.Record.BasisDigest != e.version.Load().Digest {
		t.Errorf("on a version whose state is gone: %+v, %v", c, err)
	}
	stop.Store(true)
	wg.Wait()
	for _, id := range ids {
		if r := must(s.Replay(ctx, id)); !r.Equal {
			t.Fatalf("%s differs in %v", id, r.Differs)
		}
	}
	v := e.version.Load()
	if state := must(s.fold.Named("m").State()); state != v.State || v.State.Holders() != 2 {
		t.Errorf("the newest state has %d holders, want the fold and the version", v.State.Holders())
	}
	if held.Load() == 0 {
		t.Error("no reader held anything")
	}
	t.Logf("%d times held, %d times too late", held.Load(), gone.Load())
}
