package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"troupe/cli/term"
	"troupe/internal/await"
	"troupe/serve"
	"troupe/timing"
)

// wantSchema is the format that docs/reference/formats.md promises to readers.
const wantSchema = `message decisionRow {
	required binary event (STRING);
	optional binary event_id (STRING);
	required int64 seq (INT(64,false));
	required int64 time (TIMESTAMP(isAdjustedToUTC=true,unit=NANOS));
	required binary model (STRING);
	required binary incarnation (STRING);
	required binary mode (STRING);
	required binary action (STRING);
	required int32 index (INT(32,false));
	required int32 row (INT(32,false));
	required int32 offered (INT(32,false));
	required int64 num (INT(64,false));
	required int64 den (INT(64,false));
	required double propensity;
	required int64 basis_seq (INT(64,false));
	required group x (LIST) {
		repeated group list {
			required double element;
		}
	}
	optional group law (LIST) {
		repeated group list {
			required double element;
		}
	}
	optional group candidates (LIST) {
		repeated group list {
			required group element {
				required group x (LIST) {
					repeated group list {
						required double element;
					}
				}
			}
		}
	}
	optional group sparse_row (LIST) {
		repeated group list {
			required int32 element (INT(32,true));
		}
	}
	optional group sparse_hash (LIST) {
		repeated group list {
			required int64 element (INT(64,false));
		}
	}
	optional group sparse_value (LIST) {
		repeated group list {
			required double element;
		}
	}
	required boolean active;
	required int32 rewards (INT(32,false));
	optional double reward_first;
	optional double reward_sum;
	optional double reward_last;
	optional double delay_seconds;
	required boolean expired;
	optional double default;
	optional double reward;
	optional group numbers (LIST) {
		repeated group list {
			required group element {
				required binary name (STRING);
				required double value;
				required double low;
				required double high;
			}
		}
	}
	optional double density;
	optional group costs (LIST) {
		repeated group list {
			required double element;
		}
	}
	optional double cost;
	optional double price;
	optional boolean stopped;
	optional binary unit (STRING);
	optional binary group (STRING);
	optional double control;
	optional binary control_plays (STRING);
	optional group slots (LIST) {
		repeated group list {
			required group element {
				required binary id (STRING);
				required binary action (STRING);
				required group actions (LIST) {
					repeated group list {
						required int64 element (INT(64,true));
					}
				}
				optional double reward;
				required double propensity;
				required double prefix;
				required double marginal;
				optional group marginals (LIST) {
					repeated group list {
						required double element;
					}
				}
				required boolean shown;
			}
		}
	}
	optional int32 positions (INT(32,false));
	optional boolean one_reward;
	required binary reward_state (STRING);
}`

// readRow is declared here, apart from the writer's type, with the types that a reader would choose.
type readRow struct {
	Event      string    `parquet:"event" json:"event"`
	EventID    *string   `parquet:"event_id,optional" json:"event_id"`
	Model      string    `parquet:"model" json:"model"`
	Mode       string    `parquet:"mode" json:"mode"`
	Action     string    `parquet:"action" json:"action"`
	Index      uint32    `parquet:"index" json:"index"`
	Row        uint32    `parquet:"row" json:"row"`
	Offered    uint32    `parquet:"offered" json:"offered"`
	Seq        uint64    `parquet:"seq" json:"seq"`
	Num        uint64    `parquet:"num" json:"num"`
	Den        uint64    `parquet:"den" json:"den"`
	Propensity float64   `parquet:"propensity" json:"propensity"`
	BasisSeq   uint64    `parquet:"basis_seq" json:"basis_seq"`
	Active     bool      `parquet:"active" json:"active"`
	Rewards    uint32    `parquet:"rewards" json:"rewards"`
	First      *float64  `parquet:"reward_first,optional" json:"reward_first"`
	Sum        *float64  `parquet:"reward_sum,optional" json:"reward_sum"`
	Last       *float64  `parquet:"reward_last,optional" json:"reward_last"`
	Expired    bool      `parquet:"expired" json:"expired"`
	Default    *float64  `parquet:"default,optional" json:"default"`
	Reward     *float64  `parquet:"reward,optional" json:"reward"`
	Costs      []float64 `parquet:"costs,list,optional" json:"costs"`
	Cost       *float64  `parquet:"cost,optional" json:"cost"`
	State      string    `parquet:"reward_state" json:"reward_state"`
	Law        []float64 `parquet:"law,list,optional" json:"law"`

	X          []float64 `parquet:"x,list" json:"x"`
	Candidates []struct {
		X []float64 `parquet:"x,list"`
	} `parquet:"candidates,list,optional" json:"-"`
	Rows [][]float64 `parquet:"-" json:"candidates"`
}

// TestLogExport: every kind of decision, exported as JSON lines and as Parquet, is what the server
// answered: the caller's id, the place in the request and among the available, the exact propensity,
// candidates and nulls, rewards by all rules, defaults. Then what can go wrong with the file.
func TestLogExport(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Unix(1_800_000_000, 123_456_789)
	s, err := serve.Open(ctx, serve.Options{Dir: dir, Clock: timing.At(func() time.Time { return now }), ExpireEvery: -1, SnapshotAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string, edit func(*serve.ModelConfig)) {
		t.Helper()
		c := serve.DefaultConfig(name)
		c.Dim, c.Floor = 2, 0
		c.Reward.Min, c.Reward.Max, c.Reward.Adapt, c.Reward.Default = -1, 1, false, serve.Maybe{Word: "none"}
		edit(&c)
		if _, err := s.CreateModel(ctx, c, ""); err != nil {
			t.Fatal(err)
		}
	}
	create("full", func(c *serve.ModelConfig) {})
	create("bare", func(c *serve.ModelConfig) { c.LogCandidates = "none" })
	create("costs", func(c *serve.ModelConfig) {})
	create("sum", func(c *serve.ModelConfig) { c.Reward.Rule = "sum" })
	create("default", func(c *serve.ModelConfig) { c.Reward.Default = serve.Maybe{Set: true, Value: -0.25} })
	type wanted struct {
		d     serve.Decision
		model string
		f     func(readRow) bool
	}
	var want []wanted
	vectors := []string{"[0.5,0]", "[0,0.5]", "[0.3,0.1]"}
	decide := func(model string, r serve.DecideRequest, f func(readRow) bool) serve.Decision {
		t.Helper()
		for i, v := range vectors {
			a := serve.Action{ID: fmt.Sprint("a", i), Features: json.RawMessage(v)}
			if model == "costs" {
				a.Cost = new(float64(i) / 8)
			}
			r.Actions = append(r.Actions, a)
		}
		d, err := s.Decide(ctx, model, r)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, wanted{d, model, f})
		return d
	}
	reward := func(d serve.Decision, values ...float64) {
		t.Helper()
		for _, v := range values {
			now = now.Add(time.Second)
			if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	three := [][]float64{{0.5, 0}, {0, 0.5}, {0.3, 0.1}}
	reward(decide("full", serve.DecideRequest{}, func(r readRow) bool {
		return slices.EqualFunc(r.Rows, three, slices.Equal) && *r.First == 0.5 && *r.Sum == 0.5 && *r.Last == 0.5 && r.Rewards == 1 && !r.Expired
	}), 0.5)
	decide("full", serve.DecideRequest{Exclude: []string{"a0"}}, func(r readRow) bool {
		return r.Index == r.Row+1 && slices.EqualFunc(r.Rows, three[1:], slices.Equal) && r.Offered == 2 && r.First == nil && r.Sum == nil && r.Last == nil && r.Rewards == 0
	})
	decide("bare", serve.DecideRequest{}, func(r readRow) bool { return r.Rows == nil && len(r.X) == 2 && r.Offered == 3 })
	decide("full", serve.DecideRequest{Deferred: true}, func(r readRow) bool { return !r.Active && !r.Expired })
	reward(decide("sum", serve.DecideRequest{}, func(r readRow) bool {
		return *r.First == 0.25 && *r.Sum == -0.25 && *r.Last == -0.5 && r.Rewards == 2 && r.Expired && r.Default == nil &&
			r.State == "paid" && *r.Reward == -0.25
	}), 0.25, -0.5)
	decide("default", serve.DecideRequest{}, func(r readRow) bool {
		return r.Expired && *r.Default == -0.25 && r.First == nil && r.State == "default" && *r.Reward == -0.25
	})
	uncosted := func(r readRow) bool { return r.Costs == nil && r.Cost == nil }
	for i := range want {
		f := want[i].f
		want[i].f = func(r readRow) bool { return f(r) && uncosted(r) }
	}
	eighths := []float64{0, .125, .25}
	reward(decide("costs", serve.DecideRequest{}, func(r readRow) bool { // stated only
		return slices.Equal(r.Costs, eighths) && *r.Cost == eighths[r.Index]
	}), 0.5)
	d := decide("costs", serve.DecideRequest{Exclude: []string{"a0"}}, func(r readRow) bool { // said by a call
		return slices.Equal(r.Costs, eighths[1:]) && *r.Cost == 0.75 && r.Rewards == 0 && r.Reward == nil
	})
	if _, err := s.Reward(ctx, serve.RewardRequest{EventID: d.EventID, Cost: new(0.75), OnlyCost: true}); err != nil {
		t.Fatal(err)
	}
	two := 2
	decide("full", serve.DecideRequest{Mode: serve.Shadow, Baseline: &two}, func(r readRow) bool {
		return r.Mode == "shadow" && r.Num == r.Den && r.Index == 2 && r.Action == "a2"
	})
	now = now.Add(time.Hour)
	if _, err := s.Expire(ctx); err != nil {
		t.Fatal(err)
	}
	want[0].f, want[3].f = func(r readRow) bool {
		return *r.First == 0.5 && r.Expired && r.State == "paid" && *r.Reward == 0.5
	}, func(r readRow) bool {
		return !r.Active && r.Expired && r.Default == nil && r.State == "inactive" && r.Reward == nil
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}

	run := func(ctx context.Context, code int, word string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(ctx, append([]string{"log", "export", dir}, args...), &out, &errs); got != code || !strings.Contains(errs.String(), word) {
			t.Errorf("%v: exit code %d, want %d; %q, want %q in it", args, got, code, &errs, word)
		}
		return out.String()
	}
	to := t.TempDir()
	file := filepath.Join(to, "d.parquet")
	run(ctx, 0, "", "--format", "parquet", "--out", file)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Schema().String(); got != wantSchema {
		t.Errorf("the schema is\n%s\nwant\n%s", got, wantSchema)
	}
	fromParquet, err := parquet.ReadFile[readRow](file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(run(ctx, 0, "")), "\n")
	if len(fromParquet) != len(want) || len(lines) != len(want) {
		t.Fatalf("%d rows of Parquet, %d lines, want %d", len(fromParquet), len(lines), len(want))
	}
	for i, w := range want {
		var j readRow
		if err := json.Unmarshal([]byte(lines[i]), &j); err != nil {
			t.Fatal(err)
		}
		q := fromParquet[i]
		for _, c := range q.Candidates {
			q.Rows = append(q.Rows, c.X)
		}
		q.Candidates = nil
		for name, r := range map[string]readRow{"jsonl": j, "parquet": q} {
			d := w.d
			x := three[r.Index]
			if r.EventID == nil || *r.EventID != d.EventID || r.Model != w.model || r.Action != d.Action.ID || int(r.Index) != d.Action.Index || r.Seq != d.Seq ||
				r.BasisSeq != d.BasisSeq || r.Num != d.Propensity.Num || r.Den != d.Propensity.Den || r.Propensity != d.Propensity.Float() || r.Mode != string(d.Mode) ||
				!slices.Equal(r.X, x) || !w.f(r) || r.Mode == "online" && (len(r.Law) != int(r.Offered) || math.Abs(r.Law[r.Row]-r.Propensity) > 1e-12) {
				t.Errorf("%s, row %d (%s): %+v, the server answered %+v", name, i, w.model, r, d)
			}
		}
	}

	// What is there already stays until the new file is whole.
	left := func(what string, names ...string) {
		t.Helper()
		var have []string
		entries, err := os.ReadDir(to)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			have = append(have, e.Name())
		}
		if !slices.Equal(have, names) {
			t.Errorf("%s leaves %v, want %v", what, have, names)
		}
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	run(stopped, term.Interrupted, "nothing was written", "--out", file)
	run(ctx, term.Misused, "is a directory", "--out", to)
	run(ctx, term.Misused, "no such file", "--out", filepath.Join(to, "none", "x"))
	run(ctx, term.Misused, "expected jsonl or parquet", "--format", "csv")
	run(ctx, term.Misused, "needs --out", "--format", "parquet")
	blocks, err := filepath.Glob(filepath.Join(dir, "log/g0000/*.seg"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Clone(b)
	broken[len(b)/2] ^= 1
	if err := os.WriteFile(blocks[0], broken, 0o600); err != nil {
		t.Fatal(err)
	}
	run(ctx, term.Failed, "is damaged", "--format", "parquet", "--out", file)
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed: %v", err)
	}
	left("what failed", "d.parquet")
	if err := os.WriteFile(blocks[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	run(ctx, 0, "", "--out", file) // replaces it
	if text, err := os.ReadFile(file); err != nil || string(text) != strings.Join(lines, "\n")+"\n" {
		t.Errorf("replaced: %v", err)
	}
	left("what succeeded", "d.parquet")
}

// TestTrimmedLog: a trimmed directory is verified with its base and exported with the names of its
// models; without a base verify and serve say so.
func TestTrimmedLog(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Unix(1_800_000_000, 0)
	s, err := serve.Open(ctx, serve.Options{Dir: dir, Clock: timing.At(func() time.Time { return now }), ExpireEvery: -1, SnapshotAfter: -1, TrimEvery: -1, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c := serve.DefaultConfig("news")
	c.Dim = 2
	if _, err := s.CreateModel(ctx, c, ""); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		now = now.Add(5 * time.Minute)
		if _, err := s.Decide(ctx, "news", serve.DecideRequest{Actions: []serve.Action{{ID: "a", Features: json.RawMessage("[1,0]")}}}); err != nil {
			t.Fatal(err)
		}
		// a decision is answered when it is durable, which is before its window is known
		await.Until(t, "the decision is applied", func() bool { return s.Health().Lag == 0 })
		if _, err := s.Expire(ctx); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Trim(ctx)
	if err != nil || first < 20 {
		t.Fatalf("trimmed to entry %d, error %v", first, err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	run := func(code int, word string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := command(ctx, args, &out, &errs); got != code || !strings.Contains(out.String()+errs.String(), word) {
			t.Errorf("%v: exit code %d, want %d; %q in\n%s%s", args, got, code, word, &out, &errs)
		}
		return out.String()
	}
	run(0, fmt.Sprintf("entries %d to", first), "log", "verify", dir)
	rows := strings.Split(strings.TrimSpace(run(0, "", "log", "export", dir)), "\n")
	if len(rows) < 10 || len(rows) > 16 || strings.Count(strings.Join(rows, ""), `"model":"news"`) != len(rows) {
		t.Errorf("%d rows, the first is %s", len(rows), rows[0])
	}
	if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	run(1, "no snapshot in", "log", "verify", dir)
	run(1, "no snapshot in", "serve", "--data", dir, "--listen", "127.0.0.1:0")
}

// TestCostsAreNotConverted: the costs of an export are read over, and Vowpal Wabbit's cost stays the negative reward.
func TestCostsAreNotConverted(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "d.jsonl"), filepath.Join(dir, "d.vw")
	row := `{"event":"1/1/0","event_id":"x","seq":2,"time":"2027-01-15T08:00:00Z","model":"m","incarnation":"1","mode":"online","action":"a","index":0,"row":0,"offered":2,"num":1,"den":2,"propensity":0.5,"basis_seq":1,"x":[0.5],"law":[0.5,0.5],"candidates":[[0.5],[0.25]],"active":true,"rewards":1,"reward_first":0.75,"reward_sum":0.75,"reward_last":0.75,"delay_seconds":1,"expired":true,"default":null,"reward":0.75,"reward_state":"paid"`
	for _, costs := range []string{"", `,"costs":[33,44],"cost":55`} {
		if err := os.WriteFile(in, []byte(row+costs+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, errs bytes.Buffer
		if code := command(t.Context(), []string{"convert", in, out, "--lossy"}, &stdout, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		text, err := os.ReadFile(out)
		if err != nil || !strings.Contains(string(text), "-0.75:0.5") || strings.Contains(string(text), "33") || strings.Contains(string(text), "55") {
			t.Errorf("with %q: %q, %v", costs, text, err)
		}
	}
}
