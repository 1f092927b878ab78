package plan

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func runPlan(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	c := Command()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

// The JSON is a contract: these keys, these bounds, finite numbers or null.
func TestPlanJSON(t *testing.T) {
	out, err := runPlan(t, "-d", "2,5,10", "-T", "1e3..1e6", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 12 {
		t.Fatalf("%d objects, want 12", len(rows))
	}
	for _, row := range rows {
		for _, key := range []string{"d", "T", "delta", "lambda", "log_N", "m", "beta_tilde", "r", "trivial"} {
			if _, ok := row[key].(float64); !ok {
				t.Errorf("%s = %v", key, row[key])
			}
		}
		bounds, _ := row["bounds"].(map[string]any)
		for _, key := range []string{"theorem1", "theorem1_constant_r", "ts", "ts_exact_cap", "max", "mix", "max_mix", "oful"} {
			if v, ok := bounds[key].(float64); !ok || v <= 0 {
				t.Errorf("bounds.%s = %v", key, bounds[key])
			}
		}
	}
	if r := rows[9]; r["d"] != 10.0 || r["T"] != 1e4 || r["m"] != 39400.0 {
		t.Errorf("row 9: d, T, m = %v, %v, %v", r["d"], r["T"], r["m"])
	}
	// In one dimension the proof for Thompson sampling says nothing: null, and the reason.
	out, err = runPlan(t, "-d", "1", "--json")
	if err != nil || !strings.Contains(out, `"ts": null`) || !strings.Contains(out, "claim:ts needs d \\u003e= 2") {
		t.Errorf("d = 1: %v\n%s", err, out)
	}
}

func TestPlanText(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-d", "10", "-T", "10000", "--delta", "0.1", "--lambda", "5"},
			[]string{"39,400", "3.15 MB", "janz2026: by its own lemmas 5,345 members", "10^37.78", "9.828", "68.8", "20,000", "vacuous", "constant unknown"}},
		{[]string{"-d", "2", "-T", "1e3..1e6"}, []string{"9,724", "v: vacuous"}},
		{[]string{"-d", "2", "-T", "1e3", "--arms", "50"}, []string{"qin2022", "leeoh2024"}},
		{[]string{"-d", "1"}, []string{"claim:ts needs d >= 2"}},
		{[]string{"--delta", "1"}, []string{"none"}},
		{[]string{"--explain"}, []string{"rem:max-over-ensemble", "probability 1 - 3 delta"}},
	} {
		out, err := runPlan(t, c.args...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("%v: no %q in\n%s", c.args, w, out)
			}
		}
		for _, line := range strings.Split(out, "\n") {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%v: %d columns: %s", c.args, utf8.RuneCountInString(line), line)
			}
		}
		if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
			t.Errorf("%v: NaN or Inf in\n%s", c.args, out)
		}
	}
}

// Misuse names the flag and the value and has exit code 2.
func TestPlanMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-d", "0"}, "-d 0: thm:es needs d >= 1"},
		{[]string{"-d", "2.5"}, "-d 2.5: expected a whole number"},
		{[]string{"-d", "x"}, `-d "x": expected a finite number`},
		{[]string{"-T", "0"}, "-T 0: thm:es needs"},
		{[]string{"-T", "1e30"}, "-T 1e+30: expected at most 2^53"},
		{[]string{"-T", "1e6..1e3"}, `-T "1e6..1e3"`},
		{[]string{"-T", "inf"}, `-T "inf"`},
		{[]string{"--delta", "0"}, "--delta 0: thm:es needs 0 < delta <= 1"},
		{[]string{"--delta", "1.5"}, "--delta 1.5"},
		{[]string{"--delta", "NaN"}, `--delta "NaN"`},
		{[]string{"--lambda", "4"}, "--lambda 4: thm:es needs lambda >= 5"},
		{[]string{"--lambda", "1..5"}, `--lambda "1..5"`},
		{[]string{"--arms", "1"}, "--arms 1"},
		{[]string{"-d", "9007199254740992"}, "-d "},
		{[]string{"-d", "1..1e12"}, "at most 10000"},
		{[]string{"-T", "1..1e15", "-d", "1..1000"}, "settings"},
	} {
		out, err := runPlan(t, c.args...)
		var coded interface{ ExitCode() int }
		if !errors.As(err, &coded) || coded.ExitCode() != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want exit code 2 and %q", c.args, err, c.want)
		}
		if strings.Contains(out, "beta_tilde") {
			t.Errorf("%v: printed a plan", c.args)
		}
	}
}

// TestFleet: the figures of a fleet are those of an own computation, and more of anything never needs fewer machines.
func TestFleet(t *testing.T) {
	ask := fleetAsk{Rate: 20_000, Nodes: 3, Cores: 8, Use: .5, Pair: 450, PairBytes: 800, Models: 100, Window: 600, Days: 30}
	p, err := planFleet(ask)
	if err != nil {
		t.Fatal(err)
	}
	// One of three nodes is busy for 20,000 × 450 µs × 1.6 = 14.4 s in a second, and a machine may be for 4.
	want := fleet{Ask: ask, Processor: 43.2, Cells: 4, Machines: 12, CellRate: 5000,
		Memory:  60e6 + 25*130e3 + 5000*600*60,
		Disk:    5000 * 800 * 30 * 86400,
		Network: 2 * 5000 * 800}
	want.Ask.Factor = 1.6
	p.Processor = math.Round(p.Processor*1e9) / 1e9
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
	ask = fleetAsk{Rate: 100_000, Nodes: 1, Cores: 64, Use: 1, Pair: 40, PairBytes: 700, Models: 1, Window: 60, Days: 1}
	if p, err = planFleet(ask); err != nil || p.Cells != 4 || !slices.Equal(p.Regret, []float64{2, 4}) {
		t.Errorf("a rate that one machine's cores would serve, but no cell was tried with: %+v, %v", p, err)
	}
	more := []func(*fleetAsk){func(a *fleetAsk) { a.Rate *= 3 }, func(a *fleetAsk) { a.Pair *= 30 }, func(a *fleetAsk) { a.Nodes = 3 },
		func(a *fleetAsk) { a.Cores = 1 }, func(a *fleetAsk) { a.Use = .01 }}
	for i, change := range more {
		b := ask
		change(&b)
		if q, err := planFleet(b); err != nil || q.Machines < p.Machines || q.Processor < p.Processor {
			t.Errorf("more, %d: %+v, %v; before %+v", i, q, err, p)
		}
	}
	for flag, change := range map[string]func(*fleetAsk){
		"--rate 0:":                          func(a *fleetAsk) { a.Rate = 0 },
		"--rate +Inf:":                       func(a *fleetAsk) { a.Rate = math.Inf(1) },
		"--use NaN:":                         func(a *fleetAsk) { a.Use = math.NaN() },
		"--nodes 2:":                         func(a *fleetAsk) { a.Nodes = 2 },
		"--models 0:":                        func(a *fleetAsk) { a.Models = 0 },
		"--days -1:":                         func(a *fleetAsk) { a.Days = -1 },
		"--rate 1e+09 at --pair-cost 1e+09:": func(a *fleetAsk) { a.Rate, a.Pair = 1e9, 1e9 },
	} {
		b := ask
		change(&b)
		if _, err := planFleet(b); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("error %v, want one of %s", err, flag)
		}
	}
}
