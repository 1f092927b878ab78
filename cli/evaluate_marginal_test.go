package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"troupe/ope"
	"troupe/rng"
	"troupe/serve"
	"troupe/spec"
	"troupe/timing"
)

// clickLog is the directory of a stopped server with n decisions of a model among four articles, in batches of 16: a click depends on the
// reader's interest and on the article.
func clickLog(t testing.TB, n int, change func(*serve.ModelConfig)) string {
	t.Helper()
	return stoppedLog(t, n, time.Hour, change)
}

// stoppedLog is the same, stopped after one further decision without a reward that comes so much later; 0: while all windows are open.
func stoppedLog(t testing.TB, n int, later time.Duration, change func(*serve.ModelConfig)) string {
	t.Helper()
	dir, ctx := t.TempDir(), context.Background()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	s, err := serve.Open(ctx, serve.Options{Dir: dir, ExpireEvery: -1, Clock: timing.At(func() time.Time { return time.Unix(0, now.Load()) })})
	if err != nil {
		t.Fatal(err)
	}
	config := serve.DefaultConfig("news")
	change(&config)
	if _, err := s.CreateModel(ctx, config, ""); err != nil {
		t.Fatal(err)
	}
	sections := []string{"sport", "politics", "culture", "local"}
	var actions []serve.Action
	for k, name := range sections {
		a := serve.Action{ID: name}
		if config.Dim > 0 {
			x := make([]float64, config.Dim)
			x[k] = 1
			a.Features, _ = json.Marshal(x)
		}
		actions = append(actions, a)
	}
	draws := rng.NewKey(1).Stream(rng.Reward)
	for at := 0; at < n; at += 16 {
		var batch []serve.DecideRequest
		for i := at; i < min(at+16, n); i++ {
			r := serve.DecideRequest{Actions: actions}
			if config.Dim == 0 {
				r.Context = fmt.Appendf(nil, `{"likes": %q, "hour": %d}`, sections[draws.Round(uint64(i)).Intn(0, 4)], i/100%24)
			}
			batch = append(batch, r)
		}
		out, err := s.DecideBatch(ctx, "news", batch)
		if err != nil {
			t.Fatal(err)
		}
		var rewards []serve.RewardRequest
		for i, d := range out {
			draw, p, y := draws.Round(uint64(at+i)), 0.06+0.02*float64(d.Decision.Action.Index), 0.0
			if d.Decision.Action.Index == draw.Intn(0, 4) {
				p += 0.1
			}
			if draw.Float64(1) < p {
				y = 1
			}
			rewards = append(rewards, serve.RewardRequest{EventID: d.Decision.EventID, Value: y})
		}
		if _, err := s.RewardBatch(ctx, rewards); err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(later))
	if _, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: actions}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEvaluateStopped: the log of a stopped server whose windows are open is evaluated up to the first decision without a reward, and says so;
// without a final reward it is refused with what helps, also by --law marginal, before anything is drawn.
func TestEvaluateStopped(t *testing.T) {
	run := func(code int, dir string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"evaluate", dir}, args...), &out, &errs); got != code {
			t.Fatalf("%v: exit code %d, want %d:\n%s%s", args, got, code, &out, &errs)
		}
		return out.String() + errs.String()
	}
	fixed := func(c *serve.ModelConfig) { c.Reward.Adapt = false }
	var r ope.Result
	if err := json.Unmarshal([]byte(run(0, stoppedLog(t, 320, 0, fixed), "--json")), &r); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(r.Warnings, "\n"); r.Log.Events != 320 || r.Log.Pending != 1 || r.Targets[0].Uplift.Sequence == nil ||
		!strings.Contains(said, "320 decisions at the end of the log count with their first reward") || !strings.Contains(said, "1 is left out") {
		t.Errorf("%+v\n%s", r.Log, said)
	}
	summed := stoppedLog(t, 32, 0, func(c *serve.ModelConfig) { c.Reward.Adapt, c.Reward.Rule = false, "sum" })
	for _, args := range [][]string{{"--json"}, {"--law", "marginal", "--redraws", "1000000"}} {
		if said := run(2, summed, args...); !strings.Contains(said, "33 decisions of any model, and the first one has no final reward") || !strings.Contains(said, "start the server once") {
			t.Errorf("%v: %s", args, said)
		}
	}
}

// TestEvaluateMarginal: --law marginal gives estimates without the members of each decision beside the recorded ones, which stay; it is refused
// by name where members are shared, and for logs without states. With TROUPE_RECORD it prints what docs/record/evaluation.md has.
func TestEvaluateMarginal(t *testing.T) {
	run := func(code int, word string, args ...string) (r ope.Result) {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(t.Context(), append([]string{"evaluate"}, args...), &out, &errs); got != code || !strings.Contains(out.String()+errs.String(), word) {
			t.Fatalf("%v: exit code %d, want %d; %q in\n%s%s", args, got, code, word, &out, &errs)
		}
		if code == 0 && out.Bytes()[0] == '{' {
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	n, redraws := 480, 64
	if os.Getenv("TROUPE_RECORD") != "" {
		n, redraws = 20_000, 1024
	}
	dir := clickLog(t, n, func(c *serve.ModelConfig) { c.Reward.Adapt = false })
	before := run(0, "", dir, "--json")
	r := run(0, "", dir, "--law", "marginal", "--json", "--redraws", fmt.Sprint(redraws))
	x := r.Targets[0]
	m := x.Diagnostics.Marginal
	if m == nil || m.Redraws != redraws || m.Without != 0 || x.Uplift.Marginal == nil || x.Uplift.Sequence == nil || *x.Uplift.Sequence != *before.Targets[0].Uplift.Sequence {
		t.Fatalf("%+v, %+v", m, x.Uplift)
	}
	if m.ESS < 0.5*x.Diagnostics.ESS || m.WeightMean > 1.5 {
		t.Errorf("%.0f effective decisions without the members, %.0f with them; largest weights %.3g, %.3g", m.ESS, x.Diagnostics.ESS, m.WeightMax, x.Diagnostics.WeightMax)
	}
	if n > 480 {
		for _, e := range x.Estimates {
			if e.Sequence != nil {
				t.Logf("%-13s %.4f  %.4f … %.4f, width %.4f", e.Estimator, *e.Value, e.Sequence[0], e.Sequence[1], e.Sequence[1]-e.Sequence[0])
			}
		}
		t.Logf("recorded %+v", x.Diagnostics)
		t.Logf("marginal %+v", *m)
		t.Logf("difference recorded %v, marginal %v", *x.Uplift.Sequence, *x.Uplift.Marginal)
	}
	run(0, "without the members", dir, "--law", "marginal", "--redraws", "8", "--out", t.TempDir())
	last := run(0, "", dir, "--target", "news@20", "--law", "marginal", "--redraws", "8", "--split", "0.5", "--json", "--force") // half of a small log may overlap too little
	if d := last.Targets[0].Diagnostics.Marginal; d.Without != 0 || d.Redraws != 8 || last.Log.Events >= r.Log.Events {
		t.Errorf("%d events, %+v", last.Log.Events, d)
	}
	kept := func(c *serve.ModelConfig) {
		c.Dim = 4
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": "ensemble"}, "policy"); err != nil {
			t.Fatal(err)
		}
	}
	run(2, "--law marginal: the model news: the policy is ensemble", clickLog(t, 32, kept), "--law", "marginal", "--json")
	epoch := func(c *serve.ModelConfig) {
		c.Dim = 4
		if err := c.Policy.DecodeSpec(spec.Raw{"kind": "atoms", "key": "epoch"}, "policy"); err != nil {
			t.Fatal(err)
		}
	}
	run(2, `atoms with key = "epoch"`, clickLog(t, 32, epoch), "--law", "marginal", "--json")
	run(2, "the data directory of a server that is stopped", "http://127.0.0.1:1", "--model", "news", "--law", "marginal")
	run(2, "--law marginl", dir, "--law", "marginl")
	run(2, "--redraws 0", dir, "--redraws", "0")
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "troupe-redraws-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}
