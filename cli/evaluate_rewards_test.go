package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/cli/evaluate"
	"troupe/internal/decimal"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/timing"
)

// TestRewardsOfServer: what a model with rewards has got is evaluated side by side, and its mean by name is the same from the server
// that runs, from its directory, from both exports of it and from both of the server's answers, and on the model's page; without
// --outcome it is the weighted sum that the model has learned.
func TestRewardsOfServer(t *testing.T) {
	dir, to, ctx := t.TempDir(), t.TempDir(), context.Background()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()) })})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = s.Close(ctx)
		}
	}()
	c := serve.DefaultConfig("news")
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt, c.Reward.Rule = -10, 10, false, "sum"
	c.Rewards = serve.Rewards{{Name: "click", Weight: 1}, {Name: "latency", Weight: 0}, {Name: "revenue", Weight: .5}}
	other := serve.DefaultConfig("other")
	for _, c := range []serve.ModelConfig{c, other} {
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	const n = 80
	sums := map[string]float64{}
	for i := range n {
		d, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: []serve.Action{{ID: "a"}, {ID: "b"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []map[string]float64{{"click": float64(i % 2)}, {"revenue": float64(i%7) / 4, "latency": .25}, {"revenue": .25}}[:i%4] {
			if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Rewards: r}); err != nil {
				t.Fatal(err)
			}
			for name, v := range r {
				sums[name] += v
			}
		}
		if d, err = s.Decide(ctx, "other", serve.DecideRequest{Actions: []serve.Action{{ID: "a"}, {ID: "b"}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: 1}); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(time.Hour))
	if _, err := s.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	edge, err := api.New(s, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer edge.Close()
	var fetched atomic.Int32 // answers with decisions
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models/news/decisions" {
			fetched.Add(1)
		}
		edge.ServeHTTP(w, r)
	}))
	defer web.Close()
	get := func(path, accept string) []byte {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, "GET", web.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != 200 {
			t.Fatalf("%s: %d, %v", path, a.StatusCode, err)
		}
		return b
	}
	page := string(get("/models/news", "text/html"))
	for name, sum := range sums {
		if want := decimal.Short(sum/n, 4); !strings.Contains(page, want) {
			t.Errorf("the page does not have the mean of %s, %s", name, want)
		}
	}
	run := func(words string, code int, args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(ctx, args, &out, &errs); got != code || !strings.Contains(errs.String(), words) {
			t.Fatalf("%q: exit code %d, want %d with %q: %s%s", args, got, code, words, &out, &errs)
		}
		return out.Bytes()
	}
	save := func(name string, b []byte) string {
		t.Helper()
		file := filepath.Join(to, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	check := func(source string, outcomes ...string) {
		t.Helper()
		args := []string{"evaluate", source, "--model", "news", "--target", "uniform", "--force", "--json"}
		for _, o := range []string{"click=0:1", "latency=0:1", "revenue=0:3"} {
			args = append(args, "--outcome", o)
		}
		var a evaluate.Outcomes
		if err := json.Unmarshal(run("", 0, args...), &a); err != nil {
			t.Fatal(err)
		}
		if len(a.Outcomes) != 3 || math.Abs(a.Each-(1-.05/3)) > 1e-12 {
			t.Fatalf("%s: %d rewards, each at the level %v", source, len(a.Outcomes), a.Each)
		}
		for _, o := range a.Outcomes {
			if v := valueOf(t, o.Result, "logged"); o.Result.Log.Events != n || math.Abs(v-sums[o.Name]/n) > 1e-12 {
				t.Errorf("%s: %s has mean %v of %d events, want %v", source, o.Name, v, o.Result.Log.Events, sums[o.Name]/n)
			}
		}
		r := answer(t, source, "--model", "news", "--target", "uniform", "--force", "--rewards=-10,10")
		if v, want := valueOf(t, r, "logged"), (sums["click"]+.5*sums["revenue"])/n; math.Abs(v-want) > 1e-12 {
			t.Errorf("%s: the weighted sum has mean %v, want %v", source, v, want)
		}
		run("clicks", 2, "evaluate", source, "--model", "news", "--target", "uniform", "--outcome", "clicks", "--json")
		run("--outcome click=MIN:MAX", 2, "evaluate", source, "--model", "news", "--target", "uniform", "--outcome", "click=0.5:0.6", "--json")
	}
	check(web.URL)
	// Several rewards are of the same decisions, also of a server that goes on.
	before := fetched.Load()
	three := []string{"evaluate", web.URL, "--model", "news", "--target", "uniform", "--force", "--json", "--outcome", "click=0:1", "--outcome", "latency=0:1", "--outcome", "revenue=0:3"}
	run("", 0, three...)
	if got := fetched.Load() - before; got != 1 {
		t.Errorf("three rewards fetch the decisions %d times, want once", got)
	}
	c.ID = "empty"
	if _, err := s.CreateModel(ctx, c, ""); err != nil {
		t.Fatal(err)
	}
	three[3] = "empty"
	run(web.URL+": no decision of the model empty with a final reward", 2, three...)
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "troupe-evaluate-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
	check(save("served.jsonl", get("/v1/models/news/decisions", "application/x-ndjson")))
	check(save("served.parquet", get("/v1/models/news/decisions", "application/vnd.apache.parquet")))
	closed = true
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	check(dir)
	for _, format := range []string{"jsonl", "parquet"} {
		for _, model := range []string{"", "news"} {
			file := filepath.Join(to, fmt.Sprint("log", model, ".", format))
			run("", 0, "log", "export", dir, "--format", format, "--model", model, "--out", file)
			check(file)
			if b, err := os.ReadFile(file); err != nil || model == "" && format == "jsonl" && slices.ContainsFunc(strings.Split(string(b), "\n"),
				func(line string) bool {
					return strings.Contains(line, `"other"`) == strings.Contains(line, "reward.click") && line != ""
				}) {
				t.Errorf("the columns of rewards are those of the wrong model: %v", err)
			}
		}
	}
	run("the other rewards", 2, "convert", filepath.Join(to, "lognews.jsonl"), filepath.Join(to, "x.csv"))
}
