package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"troupe/ope"
	"troupe/serve"
	"troupe/timing"
)

// TestEvaluateDirectory: the directory of a stopped server is evaluated with the range and the rule of its model; what is
// open at the end is pending.
func TestEvaluateDirectory(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()) })})
	if err != nil {
		t.Fatal(err)
	}
	config := serve.DefaultConfig("news")
	config.Dim = 2
	config.Floor = 0.5
	config.Reward.Min, config.Reward.Max, config.Reward.Adapt = -1, 1, false
	if _, err := s.CreateModel(ctx, config, ""); err != nil {
		t.Fatal(err)
	}
	decide := func() serve.Decision {
		d, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: []serve.Action{
			{ID: "a", Features: json.RawMessage(`[0.6, 0.8]`)}, {ID: "b", Features: json.RawMessage(`[1, 0]`)}}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const n = 40
	for i := range n {
		d := decide()
		if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: 1 - 2*float64(i%2)}); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(time.Hour))
	decide()
	decide()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	page := filepath.Join(t.TempDir(), "page")
	if code := command(ctx, []string{"evaluate", dir, "--target", "uniform", "--json", "--out", page}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var r ope.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Log.Events != n || r.Log.Pending != 2 || r.Rewards != [2]float64{-1, 1} || r.Log.Adaptive != "yes" || *r.Log.Model != "news" || r.Log.Format != "server" {
		t.Errorf("log %+v, rewards %v", r.Log, r.Rewards)
	}
	u := r.Targets[0]
	if v := *u.Estimates[0].Value; v != 0 {
		t.Errorf("the logged value is %v, expected 0", v)
	}
	if u.Uplift.Sequence == nil || u.Diagnostics.ESS < 10 {
		t.Errorf("uplift %+v, diagnostics %+v", u.Uplift, u.Diagnostics)
	}
	errs.Reset()
	if code := command(ctx, []string{"evaluate", dir, "--model", "nws"}, &out, &errs); code != 2 {
		t.Errorf("an unknown model: exit %d, %s", code, &errs)
	}
}

// hashedLog is the directory of a stopped server with n decisions of a hashed model: the action that is named by the
// context pays 1, the others 0.
func hashedLog(t *testing.T, n int) string {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()) })})
	if err != nil {
		t.Fatal(err)
	}
	config := serve.DefaultConfig("news")
	config.Floor = 0.5
	if _, err := s.CreateModel(ctx, config, ""); err != nil {
		t.Fatal(err)
	}
	names := []string{"sport", "politics", "culture"}
	var actions []serve.Action
	for _, name := range names {
		actions = append(actions, serve.Action{ID: name})
	}
	for range n / 64 {
		var batch []serve.DecideRequest
		for i := range 64 {
			batch = append(batch, serve.DecideRequest{Context: json.RawMessage(`{"likes": "` + names[i%3] + `"}`), Actions: actions})
		}
		out, err := s.DecideBatch(ctx, "news", batch)
		if err != nil {
			t.Fatal(err)
		}
		var rewards []serve.RewardRequest
		for i, d := range out {
			y := 0.0
			if d.Decision.Action.ID == names[i%3] {
				y = 1
			}
			rewards = append(rewards, serve.RewardRequest{EventID: d.Decision.EventID, Value: y})
		}
		if _, err := s.RewardBatch(ctx, rewards); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(time.Hour))
	if _, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: actions}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEvaluateHashed: decisions of a hashed model have their candidates and the logger's law: the reward model knows what each
// action pays (uniform play is worth 1/3 here; the first 256 events are predicted by 0), and dr has its sequence. A policy can
// be trained on one half.
func TestEvaluateHashed(t *testing.T) {
	dir := hashedLog(t, 1024)
	target := filepath.Join(t.TempDir(), "target.toml")
	if err := os.WriteFile(target, []byte("kind = \"effects\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(want, dm float64, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := command(context.Background(), append([]string{"evaluate", dir, "--json"}, args...), &out, &errs); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		var r ope.Result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Targets[0].Estimates {
			if e.Estimator == "dm" && math.Abs(*e.Value-dm) > 0.05 {
				t.Errorf("%v dm: %v, expected %.3f", args, *e.Value, dm)
			}
			if e.Estimator == "dr" && (e.Sequence == nil || e.Sequence[0] > want || e.Sequence[1] < want || math.Abs(*e.Value-want) > 0.1) {
				t.Errorf("%v dr: %v, %v (%v), expected around %.3f", args, *e.Value, e.Sequence, e.Why, want)
			}
		}
	}
	check(1.0/3, 1.0/3, "--target", "uniform")
	check(1, 1, "--target", target, "--split", "0.5")
}

// TestEvaluateExport: an export says what the directory says, as JSON lines and as Parquet, hashed candidates included.
func TestEvaluateExport(t *testing.T) {
	dir, to := hashedLog(t, 512), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := command(context.Background(), args, &out, &errs); code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, &errs)
		}
		return out.String()
	}
	answers := map[string][]*ope.Evaluated{}
	for _, source := range []string{dir, filepath.Join(to, "d.parquet"), filepath.Join(to, "d.jsonl")} {
		if format := strings.TrimPrefix(filepath.Ext(source), "."); format != "" && source != dir {
			run("log", "export", dir, "--format", format, "--out", source)
		}
		var r ope.Result
		if err := json.Unmarshal([]byte(run("evaluate", source, "--target", "uniform", "--json")), &r); err != nil {
			t.Fatal(err)
		}
		if r.Log.Events != 512 || r.Log.Pending != 1 || r.Log.Adaptive != "yes" {
			t.Errorf("%s: %+v", source, r.Log)
		}
		answers[source] = r.Targets
	}
	for source, got := range answers {
		if diff := cmp.Diff(answers[dir], got); diff != "" {
			t.Errorf("%s differs from the directory:\n%s", source, diff)
		}
	}
	// Without candidates actions are known by their place, which is said; all estimators but the bootstrap of a log that learned.
	rows, err := os.ReadFile(filepath.Join(to, "d.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(to, "bare.jsonl")
	rows = regexp.MustCompile(`"sparse_(row|hash|value)":\[[^]]*\]`).ReplaceAll(rows, []byte(`"sparse_$1":[]`))
	if err := os.WriteFile(bare, rows, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ file, warning string }{{bare, "512 decisions without candidates"}, {filepath.Join(to, "d.jsonl"), ""}} {
		out := run("evaluate", x.file, "--target", "uniform", "--estimators", "all", "--json")
		if strings.Contains(out, "without candidates") != (x.warning != "") || !strings.Contains(out, x.warning) || !strings.Contains(out, "refused: the log is adaptive") {
			t.Errorf("%s: %s", x.file, out)
		}
	}
}
