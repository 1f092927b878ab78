package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
	"troupe/serve"
	"troupe/serve/fold"
	"troupe/timing"
)

// vectorLog is the directory of a stopped server with n decisions of a model on plain vectors, all paid.
func vectorLog(t *testing.T, n int) string {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()) })})
	if err != nil {
		t.Fatal(err)
	}
	c := serve.DefaultConfig("news")
	c.Dim, c.Floor = 3, 0
	c.Reward.Min, c.Reward.Max, c.Reward.Adapt = -1, 1, false
	if _, err := s.CreateModel(ctx, c, ""); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; at += 64 {
		var batch []serve.DecideRequest
		for i := at; i < min(at+64, n); i++ {
			batch = append(batch, serve.DecideRequest{Actions: vectorActions(i)})
		}
		out, err := s.DecideBatch(ctx, "news", batch)
		if err != nil {
			t.Fatal(err)
		}
		var rewards []serve.RewardRequest
		for i, d := range out {
			rewards = append(rewards, serve.RewardRequest{EventID: d.Decision.EventID, Value: float64((at+i)%7)/6 - 0.5})
		}
		if _, err := s.RewardBatch(ctx, rewards); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(time.Hour))
	if _, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: vectorActions(0)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

func vectorActions(i int) (out []serve.Action) {
	for k := range 4 {
		a := float64(3*i+5*k) / 7
		out = append(out, serve.Action{ID: fmt.Sprint(k), Features: fmt.Appendf(nil, "[%g, %g, 0.25]", 0.9*math.Cos(a), 0.9*math.Sin(a))})
	}
	return out
}

// TestTrain: troupe train writes the same bytes for any number of workers; a server whose --models file starts a model from them
// decides with the law of the trained policy, after a restart too. What cannot be trained says why, and leaves no file.
func TestTrain(t *testing.T) {
	dir, to := vectorLog(t, 320), t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(to, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	policy := write("policy.toml", "kind = \"ensemble\"\nm = 16\n")
	run := func(code int, word string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"train"}, args...), &out, &errs); got != code || !strings.Contains(out.String()+errs.String(), word) {
			t.Errorf("%v: exit code %d, want %d; %q in\n%s%s", args, got, code, word, &out, &errs)
		}
	}
	file := filepath.Join(to, "warm.model")
	run(0, "ensemble learned 320 events", dir, "--model", "news", "--policy", policy, "--workers", "1", "--out", file)
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	run(0, "1 left out: the window was open", dir, "--policy", policy, "--workers", "8", "--out", file)
	if eight, err := os.ReadFile(file); err != nil || !bytes.Equal(one, eight) {
		t.Errorf("8 workers write other bytes than 1: %v", err)
	}
	none := filepath.Join(to, "none.model")
	run(2, "no such file", filepath.Join(to, "nothing"), "--out", none)
	run(2, "--out FILE is missing", dir)
	run(0, "learned 10 events, of 320, evenly spaced, in the order of the log", dir, "--cap", "10", "--out", filepath.Join(to, "capped.model"))
	run(2, "expected a number of events", dir, "--cap", "-1", "--out", none)
	run(2, "kind", dir, "--policy", write("bad.toml", "kind = \"ensembel\"\n"), "--out", none)
	run(2, "did you mean", dir, "--model", "nws", "--out", none)
	run(2, "leave it out", dir, "--schema", policy, "--out", none)
	hashed, export := hashedLog(t, 64), filepath.Join(to, "export.jsonl")
	run(2, "the kind effects learns them", hashed, "--policy", policy, "--out", none)
	var out, errs bytes.Buffer
	if code := command(t.Context(), []string{"log", "export", hashed, "--out", export}, &out, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	run(0, "effects learned 64 events", export, "--out", filepath.Join(to, "exported.model"))
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("a refused training has left a file: %v", err)
	}

	saved, err := fold.ReadSaved(one)
	if err != nil {
		t.Fatal(err)
	}
	p, err := saved.Compiled.NewPolicy(saved.Seed)
	if err == nil {
		err = p.Restore(saved.Policy)
	}
	if err != nil {
		t.Fatal(err)
	}
	var block []float64
	for _, a := range vectorActions(5) {
		var x []float64
		if err := json.Unmarshal(a.Features, &x); err != nil {
			t.Fatal(err)
		}
		block = append(block, x...)
	}
	set, err := actionset.FiniteOf(3, block)
	if err != nil {
		t.Fatal(err)
	}
	var law bandit.Law
	if err := p.Prob(&law, set, rng.Source{}); err != nil {
		t.Fatal(err)
	}
	configs, err := readModels(write("models.toml", "[[model]]\nid = \"warm\"\nstart = \"warm.model\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	for life := range 2 {
		s, err := serve.Open(t.Context(), serve.Options{Dir: data, SnapshotEvery: -1, SnapshotAfter: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := ensureModels(t.Context(), s, configs, "", slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		d, err := s.Decide(t.Context(), "warm", serve.DecideRequest{Actions: vectorActions(5), Explain: true})
		if err != nil {
			t.Fatal(err)
		}
		for k, e := range d.Explain {
			if e.Propensity.Num*law.Total != law.Atoms[k].Count*e.Propensity.Den {
				t.Errorf("life %d: action %d has the propensity %+v, the trained policy %d/%d", life, k, e.Propensity, law.Atoms[k].Count, law.Total)
			}
		}
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(data, "snapshots")); err != nil { // the second life folds the log from entry 1
			t.Fatal(err)
		}
	}
	for text, word := range map[string]string{
		"[[model]]\nid = \"x\"\nstart = \"none.model\"\n":              "no such file",
		"[[model]]\nid = \"x\"\nstart = \"policy.toml\"\n":             "not a saved model",
		"[[model]]\nid = \"x\"\nstart = \"warm.model\"\nfloor = 0.5\n": "cannot stand beside start",
	} {
		if _, err := readModels(write("models.toml", text)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
