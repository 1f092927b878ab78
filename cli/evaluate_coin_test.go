package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"troupe/ope"
	"troupe/serve"
	"troupe/serve/api"
	"troupe/timing"
)

// TestDoesItPay: the log of a model with a budget says against a coin of the same cost whether choosing pays: from the directory,
// from its export as JSON lines and as Parquet with the same numbers; decisions under the hard stop are counted apart, and an action
// that came later has no point. A log without costs says nothing of it.
func TestDoesItPay(t *testing.T) {
	ctx := t.Context()
	t.Chdir(t.TempDir()) // for the page
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Unix(1_800_000_000, 0)
	s, err := serve.Open(ctx, serve.Options{Dir: dir, Clock: timing.At(func() time.Time { return now }), ExpireEvery: -1, SnapshotAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"id":"router","floor":0.2,"budget":{"mean":3}}`, `{"id":"free"}`} {
		var c serve.ModelConfig
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(31, 8))
	costs := []float64{.5, 2, 8, 1}
	const n = 400
	for i := range n {
		hard := r.IntN(2) == 0
		q := serve.DecideRequest{Context: fmt.Appendf(nil, `{"hard":"%v"}`, hard)}
		for k, id := range []string{"small", "mid", "large", "new"} {
			if k < 3 || i >= 300 {
				q.Actions = append(q.Actions, serve.Action{ID: id, Cost: &costs[k]})
			}
		}
		d, err := s.Decide(ctx, "router", q)
		if err != nil {
			t.Fatal(err)
		}
		p := []float64{.8, .85, .9, .5}[d.Action.Index]
		if hard {
			p = []float64{.1, .5, .9, .1}[d.Action.Index]
		}
		y := 0.
		if r.Float64() < p {
			y = 1
		}
		if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: y}); err != nil {
			t.Fatal(err)
		}
		for k := range q.Actions {
			q.Actions[k].Cost = nil
		}
		if d, err = s.Decide(ctx, "free", q); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: y}); err != nil {
			t.Fatal(err)
		}
	}
	edge, err := api.New(s, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	served := func() (v struct {
		Early, Pending int
		Coin           *ope.CoinResult
	}) {
		t.Helper()
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:8080/v1/models/router/coin", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != 200 || v.Coin == nil {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		return v
	}
	early := served() // first rewards count before their windows are over
	if early.Early != n || early.Pending != 0 {
		t.Errorf("%d early, %d pending, of %d decisions", early.Early, early.Pending, n)
	}
	now = now.Add(time.Hour)
	if _, err := s.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	settled := served()
	if settled.Early != 0 || !reflect.DeepEqual(settled.Coin, early.Coin) {
		t.Errorf("%+v once the windows are over, before %+v", settled, early)
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
	var first *ope.CoinResult
	jsonl, parquet := filepath.Join(t.TempDir(), "d.jsonl"), filepath.Join(t.TempDir(), "d.parquet")
	run("log", "export", dir, "--model", "router", "--out", jsonl)
	run("log", "export", dir, "--model", "router", "--format", "parquet", "--out", parquet)
	for _, source := range []string{dir, jsonl, parquet} {
		args := []string{"evaluate", source, "--model", "router", "--target", "uniform", "--json"}
		if source != dir {
			args = append(args, "--rewards", "0,1")
		}
		var got struct {
			Coin *ope.CoinResult `json:"coin"`
		}
		if err := json.Unmarshal([]byte(run(args...)), &got); err != nil || got.Coin == nil {
			t.Fatalf("%s: %v, %+v", source, err, got)
		}
		if first == nil {
			first = got.Coin
		}
		if !reflect.DeepEqual(got.Coin, first) {
			t.Errorf("%s:\n%+v\nwant\n%+v", source, got.Coin, first)
		}
	}
	if !reflect.DeepEqual(settled.Coin, first) {
		t.Errorf("the server says %+v, evaluate %+v", settled.Coin, first)
	}
	if first.Events+first.Stopped != n || first.Stopped == 0 || len(first.Actions) != 4 || !first.Compared || first.Difference == nil || first.Lower > *first.Difference ||
		first.Upper < *first.Difference || first.Policy.Cost < .5 || first.Policy.Cost > 8 {
		t.Errorf("%+v", first)
	}
	for k, name := range []string{"small", "mid", "large"} {
		p := first.Actions[k]
		truth := []float64{.45, .675, .9}[k]
		if p.Action != name || p.Cost != costs[k] || p.Lower > truth || p.Upper < truth {
			t.Errorf("%s: %+v, the truth is %v", name, p, truth)
		}
	}
	if p := first.Actions[3]; p.Action != "new" || p.Absent == 0 || p.Lacking != p.Absent {
		t.Errorf("an action that came later: %+v", p)
	}
	stop := first.WithStop
	if stop == nil || stop.Events != n || !stop.Compared || stop.Policy.Cost >= first.Policy.Cost ||
		!(stop.Actions[2].Cost < costs[2]) || stop.Actions[2].Lacking > 0 {
		t.Errorf("with the stop: %+v", stop)
	}
	text := run("evaluate", dir, "--model", "router", "--target", "uniform")
	for _, want := range []string{"pays", "choosing", "under the hard stop", "with those: choosing", "under the same stop", "did not offer it", "the decisions", "small", "% of the coin"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if text := run("evaluate", dir, "--model", "free", "--target", "uniform"); strings.Contains(text, "choosing") {
		t.Errorf("without costs:\n%s", text)
	}
}
