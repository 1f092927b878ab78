package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"troupe/ope"
	"troupe/serve"
)

// TestEvaluateDirectory: the directory of a stopped server is evaluated with the range and the rule of its model; what is
// open at the end is pending.
func TestEvaluateDirectory(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Now: func() time.Time { return time.Unix(0, now.Load()) }})
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
