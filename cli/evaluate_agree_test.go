package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"troupe/serve"
	"troupe/serve/api"
	"troupe/serve/model"
	"troupe/timing"
)

// TestServerAndDirectoryAgree: the log of a server that runs and its directory when it is stopped give one answer, with all counts and warnings: whatever became of the last decisions, and whatever takes the sequence away.
func TestServerAndDirectoryAgree(t *testing.T) {
	for _, x := range []struct {
		name   string
		config func(*serve.ModelConfig)
		decide func(i int, r *serve.DecideRequest)
		reward func(i int) (float64, bool)
		by     string
		events int
		words  []string
	}{
		{name: "first", events: 52, words: []string{"12 decisions at the end of the log count with their first reward", "8 are left out"}},
		{name: "first, all paid", reward: func(int) (float64, bool) { return 0.5, true }, events: 60, words: []string{"20 decisions at the end"}},
		{name: "sum", config: func(c *serve.ModelConfig) { c.Reward.Rule = "sum" }, events: 40, words: []string{"count as reward 0 (10 events)"}},
		{name: "no default", config: func(c *serve.ModelConfig) { c.Reward.Default = model.Maybe{Word: "none"} }, events: 52, words: []string{"count as reward 0 (10 events)"}},
		{name: "shadow", decide: func(i int, r *serve.DecideRequest) {
			if i%5 == 1 {
				r.Mode = serve.Shadow
			}
		}, events: 41, words: []string{"before their windows are over"}},
		{name: "deferred", decide: func(i int, r *serve.DecideRequest) { r.Deferred = true }, events: 42, words: []string{`"inactive: deferred and never activated": 10`}},
		{name: "hashed", by: "city=Oslo|Bergen", config: func(c *serve.ModelConfig) { c.Dim = 0 }, decide: func(i int, r *serve.DecideRequest) {
			r.Context = fmt.Appendf(nil, `{"city": %q}`, []string{"Oslo", "Bergen"}[i%2])
			r.Actions = []serve.Action{{ID: "a"}, {ID: "b", Features: []byte(`{"price": 0.5}`)}}
		}, events: 52, words: []string{`"by": "city=Oslo|Bergen"`}},
		{name: "widened", config: func(c *serve.ModelConfig) { c.Reward.Adapt = true }, reward: func(i int) (float64, bool) { return float64(i) / 20, i != 52 },
			events: 52, words: []string{"no sequence: the range of rewards was changed", "was not declared"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir, ctx := t.TempDir(), context.Background()
			var now atomic.Int64
			now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
			s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()) })})
			if err != nil {
				t.Fatal(err)
			}
			c := serve.DefaultConfig("news")
			c.Dim, c.Reward.Min, c.Reward.Max, c.Reward.Adapt = 3, -1, 1, false
			if x.config != nil {
				x.config(&c)
			}
			if _, err := s.CreateModel(ctx, c, ""); err != nil {
				t.Fatal(err)
			}
			for i := range 60 {
				if i == 40 { // the windows of the first 40 are over
					now.Add(int64(time.Hour))
					if _, err := s.Expire(ctx); err != nil {
						t.Fatal(err)
					}
				}
				r := serve.DecideRequest{Actions: vectorActions(i)}
				if x.decide != nil {
					x.decide(i, &r)
				}
				d, err := s.Decide(ctx, "news", r)
				if err != nil {
					t.Fatal(err)
				}
				y, paid := float64(i%7)/6-0.5, i < 40 && i%4 != 2 || i >= 40 && i != 52
				if x.reward != nil {
					y, paid = x.reward(i)
				}
				if !paid {
					continue
				}
				if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: y}); err != nil {
					t.Fatal(err)
				}
			}
			edge, err := api.New(s, api.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer edge.Close()
			web := httptest.NewServer(edge)
			defer web.Close()
			answer := func(source string) (text string) {
				t.Helper()
				var out, errs bytes.Buffer
				if code := command(t.Context(), []string{"evaluate", source, "--model", "news", "--force", "--estimators", "all", "--json", "--by", x.by}, &out, &errs); code != 0 {
					t.Fatalf("%s: exit code %d: %s", source, code, &errs)
				}
				var r map[string]any
				if err := json.Unmarshal(out.Bytes(), &r); err != nil {
					t.Fatal(err)
				}
				r["log"].(map[string]any)["source"] = "log"
				b, err := json.MarshalIndent(r, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			plan := func(source string) string {
				t.Helper()
				var out, errs bytes.Buffer
				if code := command(t.Context(), []string{"evaluate", source, "--model", "news", "--plan", "--json"}, &out, &errs); code != 0 {
					t.Fatalf("%s: exit code %d: %s", source, code, &errs)
				}
				return out.String()
			}
			over, planned := answer(web.URL), plan(web.URL)
			if err := s.Close(ctx); err != nil {
				t.Fatal(err)
			}
			stopped := answer(dir)
			if diff := cmp.Diff(strings.Split(stopped, "\n"), strings.Split(over, "\n")); diff != "" {
				t.Errorf("the server that runs and the directory differ:\n%s", diff)
			}
			// A plan reads laws and no rewards, so open windows do not matter: all decisions that the model's choice was played in count,
			// but those that were never activated.
			laws := map[string]int{"shadow": 48, "deferred": 50}[x.name]
			if laws == 0 {
				laws = 60
			}
			if again := plan(dir); again != planned || !strings.Contains(again, fmt.Sprintf(`"decisions": %d,`, laws)) {
				t.Errorf("plans differ, or not of %d decisions:\n%s\n%s", laws, planned, again)
			}
			for _, word := range x.words {
				if !strings.Contains(stopped, word) {
					t.Errorf("%q is not said:\n%s", word, stopped)
				}
			}
			var r struct{ Log struct{ Events int } }
			if err := json.Unmarshal([]byte(stopped), &r); err != nil || r.Log.Events != x.events {
				t.Errorf("%d events, want %d (%v)", r.Log.Events, x.events, err)
			}
		})
	}
}
