package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"troupe/ope"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/timing"
)

// TestDoesTheModelPay: the log of a model with a control group is answered from it first: by the server, from the directory,
// from its export as JSON lines and as Parquet, with the same numbers; a log without one says nothing of it.
func TestDoesTheModelPay(t *testing.T) {
	ctx := t.Context()
	cryptotest.SetGlobalRandom(t, 1) // the seeds of the models
	t.Chdir(t.TempDir())             // for the page
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Unix(1_800_000_000, 0)
	s, err := serve.Open(ctx, serve.Options{Dir: dir, Clock: timing.At(func() time.Time { return now }), ExpireEvery: -1, SnapshotAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"id":"offers","control":{"share":0.2,"plays":"first"},"reward":{"min":0,"max":1}}`,
		`{"id":"free","reward":{"min":0,"max":1}}`, `{"id":"home","unit":"context.user","control":{"share":0.3},"reward":{"min":0,"max":1}}`} {
		var c serve.ModelConfig
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(50, 8))
	actions := []serve.Action{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for i := range 500 {
		for _, m := range []string{"offers", "free", "home"} {
			d, err := s.Decide(ctx, m, serve.DecideRequest{Actions: actions, Context: fmt.Appendf(nil, `{"user":%d}`, i/2)})
			if err != nil {
				t.Fatal(err)
			}
			y := 0.
			if r.Float64() < []float64{.2, .3, .8}[d.Action.Index] {
				y = 1
			}
			if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: y}); err != nil {
				t.Fatal(err)
			}
		}
	}
	edge, err := api.New(s, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	served := func(model string) (c ope.ControlResult) {
		t.Helper()
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080/v1/models/"+model+"/control", nil))
		var v struct{ Comparison *ope.ControlResult }
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 || v.Comparison == nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		return *v.Comparison
	}
	offers, home := served("offers"), served("home")
	if offers.Settled != "better" || offers.Decisions != 500 || offers.Difference.AtEnd == nil || math.Abs(offers.Difference.Mean-.5) > .2 {
		t.Errorf("offers: %+v", offers)
	}
	if u := home.ByUnit; u == nil || u.Normal == nil && u.Why == "" || u.Units[0]+u.Units[1] != 250 || u.Decisions[0]+u.Decisions[1] != 500 || home.Again != 250 {
		t.Errorf("home: %+v %+v", home, u)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := command(ctx, args, &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, &errs)
		}
		return out.String()
	}
	same := func(how string, got *ope.ControlResult, want ope.ControlResult) {
		t.Helper()
		if got == nil {
			t.Fatalf("%s: no comparison", how)
		}
		if got.Sentence != want.Sentence || got.Decisions != want.Decisions || got.Controlled != want.Controlled || got.Again != want.Again ||
			math.Abs(got.Difference.Every[0]-want.Difference.Every[0]) > 1e-9 || math.Abs(got.Model.Mean-want.Model.Mean) > 1e-9 {
			t.Errorf("%s: %+v, served %+v", how, got, want)
		}
	}
	evaluated := func(source string, more ...string) *ope.ControlResult {
		t.Helper()
		out := run(append([]string{"evaluate", source, "--json"}, more...)...)
		var v ope.Result
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return v.Control
	}
	same("directory", evaluated(dir, "--model", "offers"), offers)
	same("units", evaluated(dir, "--model", "home"), home)
	if c := evaluated(dir, "--model", "free"); c != nil {
		t.Errorf("a log without a control group: %+v", c)
	}
	text := run("evaluate", dir, "--model", "offers", "--out", "page")
	if at := strings.Index(text, "control   The model earns 0."); at < 0 || at > strings.Index(text, "overlap") {
		t.Errorf("the answer does not begin with it:\n%s", text)
	}
	page, err := os.ReadFile(filepath.Join("page", "evaluate.html"))
	if err != nil || !strings.Contains(string(page), "<h1>The model earns 0.") || !strings.Contains(string(page), "which plays the first action") {
		t.Errorf("the page does not begin with it: %v", err)
	}

	now = now.Add(time.Hour) // the windows are over
	s, err = serve.Open(ctx, serve.Options{Dir: dir, Clock: timing.At(func() time.Time { return now }), ExpireEvery: -1, SnapshotAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"jsonl", "parquet"} {
		file := "offers." + format
		run("log", "export", dir, "--model", "offers", "--format", format, "--out", file)
		same(format, evaluated(file), offers)
	}
}
