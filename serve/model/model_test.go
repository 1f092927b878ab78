package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"troupe/feature"
	"troupe/rng"
	"troupe/spec"
)

func read(t *testing.T, text string) Config {
	t.Helper()
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func admit(t *testing.T, text string) *Compiled {
	t.Helper()
	out, err := read(t, text).Admit(DefaultLimits)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// refusal is why a text is no configuration of a new model, and of which field, nothing when it is one.
func refusal(text string) (field, want string) {
	var c Config
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		_, err = c.Admit(DefaultLimits)
	}
	if err == nil {
		return "", ""
	}
	var e *Error
	if errors.As(err, &e) || errors.As(ErrorAt("config", err), &e) {
		return e.Field, e.Want
	}
	return "?", err.Error()
}

// TestDefaults: what a configuration that says little is, and that it is written out.
func TestDefaults(t *testing.T) {
	c := admit(t, `{"id":"m"}`)
	if c.Atoms == nil || c.Encoder != nil || c.Dim != c.Atoms.Dim() || !c.Remembers() || c.FloorNum != 1 || c.FloorDen != 100 {
		t.Errorf("compiled %+v", c)
	}
	var written map[string]any
	if err := json.Unmarshal(c.JSON, &written); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id": "m", "mode": "online", "floor": 0.01, "log_candidates": "full",
		"reward": map[string]any{"min": 0.0, "max": 1.0, "adapt": true, "rule": "first", "window": "10m0s", "default": "auto"},
		"policy": map[string]any{"kind": "effects", "change": "restarts"},
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Error(diff)
	}
	for text, kind := range map[string]string{`{"id":"m","dim":3}`: "auto", `{"id":"m","features":{"features":[{"feature":"action.p","kind":"number","range":[0,1]}]}}`: "auto", `{"id":"m","dim":3,"policy":{"kind":"effects"}}`: "effects"} {
		if c := admit(t, text); c.Config.Policy.Raw["kind"] != kind || c.Config.Reward.Default.Word != "auto" {
			t.Errorf("%s: %v, %+v", text, c.Config.Policy.Raw, c.Config.Reward)
		}
	}
	if c := admit(t, `{"id":"m","dim":3,"policy":{"kind":"ensemble"}}`); c.Config.Reward.Adapt || c.Problem(rng.Key{}).Sigma != 0.5 {
		t.Errorf("a policy that does not widen the range: %+v", c.Config.Reward)
	}
}

// TestRoundTrip: the JSON of a configuration is one text, reads back to itself, and a log's configuration compiles to the
// same policy state.
func TestRoundTrip(t *testing.T) {
	schema := `{"unknown":"ignore","features":[{"feature":"action.p","kind":"number","range":[0,1],"outside":"clamp"}]`
	for _, text := range []string{
		`{"id":"m"}`, `{"id":"m","dim":3,"policy":{"kind":"auto","m":8},"sigma":0.25}`,
		`{"id":"m","dim":2,"policy":{"kind":"mixed","epsilon":0.1,"base":{"kind":"ensemble","m":4}},"floor":0}`,
		`{"id":"m","features":` + schema + `}}`,
		`{"id":"m","policy":{"kind":"effects","change":"none","half_life":"1d"},"reward":{"min":-2,"max":3,"default":-1,"rule":"last","window":"PT1H30M"},"mode":"shadow"}`,
		`{"id":"m","reward":{"default":"none"},"actions":[{"id":"a","features":{"x":1}},{"id":"b"}],"log_candidates":"none"}`,
	} {
		first := admit(t, text)
		again := read(t, string(first.JSON))
		b, err := again.MarshalJSON()
		if err != nil || string(b) != string(first.JSON) {
			t.Errorf("%s\n%s\nreads back as\n%s %v", text, first.JSON, b, err)
		}
		logged, err := again.Logged()
		if err != nil {
			t.Fatal(err)
		}
		if first.SameShape(logged) != nil || first.SameState(logged) != nil || string(logged.JSON) != string(first.JSON) {
			t.Errorf("%s: as read from a log it is %s", text, logged.JSON)
		}
		p, err1 := first.NewPolicy(rng.NewKey(3))
		q, err2 := logged.NewPolicy(rng.NewKey(3))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		x, err1 := p.AppendSnapshot(nil)
		y, err2 := q.AppendSnapshot(nil)
		if err1 != nil || err2 != nil || string(x) != string(y) {
			t.Errorf("%s: the log's policy begins with another state", text)
		}
	}
}

// TestRefusals: what is wrong is refused with its field.
func TestRefusals(t *testing.T) {
	schema := `"features":{"features":[{"feature":"action.p","kind":"number","range":[0,1]}]}`
	for text, want := range map[string]string{
		`{}`:                                                       "config.id",
		`{"id":"a/b"}`:                                             "config.id",
		`{"id":"m","dim":-1}`:                                      "config.dim",
		`{"id":"m","dim":1025}`:                                    "config.dim",
		`{"id":"m","dim":3,` + schema + `}`:                        "config.dim",
		`{"id":"m","floor":1.5}`:                                   "config.floor",
		`{"id":"m","floor":0.0000001}`:                             "config.floor",
		`{"id":"m","mode":"off"}`:                                  "config.mode",
		`{"id":"m","reward":{"min":1,"max":1}}`:                    "config.reward.min",
		`{"id":"m","reward":{"min":0,"max":1,"default":2}}`:        "config.reward.default",
		`{"id":"m","reward":{"rule":"mean"}}`:                      "config.reward.rule",
		`{"id":"m","reward":{"window":"0s"}}`:                      "config.reward.window",
		`{"id":"m","reward":{"window":"721h"}}`:                    "config.reward.window",
		`{"id":"m","reward":{"window":"soon"}}`:                    "config.reward.window",
		`{"id":"m","log_candidates":"some"}`:                       "config.log_candidates",
		`{"id":"m","sigma":0.1}`:                                   "config.sigma",
		`{"id":"m","dim":2,"sigma":-1}`:                            "config.sigma",
		`{"id":"m","policy":{"kind":"ensemble"}}`:                  "config.policy.kind",
		`{"id":"m","dim":2,"policy":{"kind":"ts"}}`:                "config.policy.kind",
		`{"id":"m","dim":2,"policy":{"kind":"ensemble","m":1001}}`: "config.policy.m",
		`{"id":"m","dim":2,"policy":{"kind":"mixed","base":{"kind":"ensemble","m":1001}}}`: "config.policy.m",
		`{"id":"m","policy":{"kind":"hashed"}}`:                                            "config.policy.kind",
		`{"id":"m","policy":{"kind":"sparse"}}`:                                            "config.policy.kind",
		`{"id":"m","policy":{"kind":"effects","change":"sometimes"}}`:                      "config.policy.change",
		`{"id":"m","policy":{"kind":"effects","half_life":49}}`:                            "config.policy.half_life",
		`{"id":"m","features":{"model":"hashed"}}`:                                         "config.features.model",
		`{"id":"m","actions":[{"id":"a"},{"id":"a"}]}`:                                     "config.actions[1].id",
		`{"id":"m",` + schema + `,"actions":[{"id":"a","features":{"p":2}}]}`:              "config.actions[0].features.p",
		`{"id":"m","dim":2,"actions":[{"id":"a"}]}`:                                        "config.actions[0].features",
		`{"id":"m","colour":1}`:                                                            "config.colour",
	} {
		if field, why := refusal(text); field != want || why == "" {
			t.Errorf("%s: field %q (%s), want %q", text, field, why, want)
		}
	}
}

// TestSameShape: what may change in a configuration, and what may not.
func TestSameShape(t *testing.T) {
	base := map[string]any{"id": "m", "dim": 3, "policy": map[string]any{"kind": "auto"}, "reward": map[string]any{"min": 0, "max": 1}}
	with := func(key string, value any) *Compiled {
		c := map[string]any{}
		for k, v := range base {
			c[k] = v
		}
		if key != "" {
			c[key] = value
		}
		b, _ := json.Marshal(c)
		return admit(t, string(b))
	}
	own := with("", nil)
	for key, value := range map[string]any{"floor": 0.5, "mode": "frozen", "log_candidates": "none", "actions": []any{map[string]any{"id": "a", "features": []float64{0, 0, 1}}},
		"reward": map[string]any{"min": 0, "max": 1, "window": "1h", "default": 0.5, "rule": "sum"}} {
		if err := own.SameShape(with(key, value)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	for key, value := range map[string]any{"id": "n", "dim": 4, "policy": map[string]any{"kind": "auto", "m": 8}, "sigma": 3.0} {
		err := own.SameShape(with(key, value))
		var e *Error
		if !errors.As(err, &e) || !strings.HasPrefix(e.Field, "config.") {
			t.Errorf("%s may change: %v", key, err)
		}
		if same := own.SameState(with(key, value)) == nil; same != (key == "id") {
			t.Errorf("%s: a copy may have it: %v", key, same)
		}
	}
	open, wide := admit(t, `{"id":"m"}`), admit(t, `{"id":"m","reward":{"min":0,"max":2}}`)
	if open.SameShape(wide) == nil {
		t.Error("the range of rewards may change")
	}
}

// TestKeep: a configuration that says nothing of a part keeps the model's own, also where today's default is another.
func TestKeep(t *testing.T) {
	old, err := read(t, `{"id":"m","dim":2,"policy":{"kind":"ensemble"},"floor":0,"reward":{"min":-1,"max":1}}`).Logged()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]func(Config) bool{
		`{"id":"m"}`: func(c Config) bool {
			return c.Floor == 0 && c.Reward.Min == -1 && !c.Reward.Adapt && c.Dim == 2 && c.Reward.Default.Word == ""
		},
		`{"id":"m","dim":2,"policy":{"kind":"ensemble"}}`: func(c Config) bool { return reflect.DeepEqual(c.Policy.Raw, old.Config.Policy.Raw) },
		`{"id":"m","floor":0.25,"reward":{"window":"1h"}}`: func(c Config) bool {
			return c.Floor == 0.25 && time.Duration(c.Reward.Window) == time.Hour && c.Reward.Max == 1
		},
		`{"id":"m","reward":{"default":0.5}}`: func(c Config) bool { return c.Reward.Default.Set && c.Reward.Default.Value == 0.5 },
	} {
		c := read(t, text)
		c.Keep(old.Config)
		compiled, err := c.Compile(DefaultLimits)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !want(c) || old.SameShape(compiled) != nil {
			t.Errorf("%s makes %s", text, compiled.JSON)
		}
	}
}

// TestRecast: which copies of a model may have which policy.
func TestRecast(t *testing.T) {
	kind := func(raw spec.Raw) (x Change) {
		if err := x.Policy.DecodeSpec(raw, "policy"); err != nil {
			t.Fatal(err)
		}
		return x
	}
	auto := admit(t, `{"id":"m","dim":2}`).Config
	got, err := kind(spec.Raw{"kind": "ensemble"}).Recast(auto, -3, 5, DefaultLimits)
	if err != nil || got.Config.Reward.Adapt || got.Config.Reward.Min != -3 || got.Config.Reward.Max != 5 {
		t.Errorf("to a policy that does not widen: %+v, %v", got, err)
	}
	if got, err := kind(spec.Raw{"kind": "sparse"}).Recast(auto, 0, 1, DefaultLimits); err != nil || !got.Config.Reward.Adapt || got.Atoms != nil {
		t.Errorf("to sparse: %+v, %v", got, err)
	}
	schema := &feature.Schema{Format: feature.Format, Model: "shared", Unknown: "ignore", Features: []feature.Feature{{Name: "action", Weight: 1, Kind: &feature.Vector{Size: 2, Bound: 1, Outside: "refuse"}}}}
	for name, x := range map[string]Change{
		"a schema": {Features: FeatureSpec{Schema: schema}},
	} {
		var e *Error
		if _, err := x.Recast(auto, 0, 1, DefaultLimits); !errors.As(err, &e) || !strings.Contains(e.Want, "apprentice") {
			t.Errorf("%s: %v", name, err)
		}
	}
	then := read(t, `{"id":"n","dim":2,"policy":{"kind":"ensemble"},"floor":0,"reward":{"min":0,"max":9,"rule":"sum"}}`)
	cast, err := then.As(got.Config)
	if err != nil || cast.Config.Reward.Rule != "sum" || cast.Config.Reward.Max != 5 || cast.Config.ID != "n" || cast.SameState(got) != nil {
		t.Errorf("as another: %s, %v", cast.JSON, err)
	}
}

// TestDurations: both ways to write one.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"10m": 10 * time.Minute, "PT10M": 10 * time.Minute, "PT1H30M": 90 * time.Minute, "1h30m0s": 90 * time.Minute} {
		var d Duration
		if err := d.DecodeSpec(text, ""); err != nil || time.Duration(d) != want {
			t.Errorf("%s is %v, %v", text, d, err)
		}
	}
	for _, v := range []any{"", "ten", "P1D", int64(10), nil} {
		var d Duration
		if err := d.DecodeSpec(v, "window"); err == nil {
			t.Errorf("%v is %v", v, d)
		}
	}
}

// TestKeepsChange: a model without the option change keeps its table, whatever says the same; a new one has it written.
func TestKeepsChange(t *testing.T) {
	for table, change := range map[string]string{
		`{"kind": "effects"}`:                     "restarts",
		`{"kind": "effects", "change": "none"}`:   "none",
		`{"kind": "atoms"}`:                       "<nil>",
		`{"kind": "atoms", "change": "restarts"}`: "restarts",
	} {
		own := admit(t, `{"id": "m", "dim": 2, "policy": `+table+`}`).Config
		for _, again := range []string{"", `, "dim": 2, "policy": {"kind": "` + own.Policy.Raw["kind"].(string) + `"}`, `, "policy": ` + table} {
			c := read(t, `{"id": "m"`+again+`}`)
			if c.Keep(own); fmt.Sprint(c.Policy.Raw["change"]) != change || !SameJSON(c.Policy.Raw, own.Policy.Raw) {
				t.Errorf("%s, then %s: %v", table, again, c.Policy.Raw)
			}
		}
	}
}
