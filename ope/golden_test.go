package ope

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/logged"
)

// goldenRow is what golden.json has of an estimator.
type goldenRow struct {
	Value, SE, Lower *float64
	Normal, Sequence *Pair
	Interval         *Pair
	Beta             *float64
	Matched          *int
	Lambda           *float64 `json:"lambda_"`
	Alpha, Gamma     *float64
}

func golden(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	var g map[string]json.RawMessage
	readJSON(t, "testdata/golden.json", &g)
	return g
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	decode(t, b, into)
}

func decode(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// evaluate runs an evaluation of a file.
func evaluate(t testing.TB, name string, ro logged.Options, o Options) *Result {
	t.Helper()
	r, err := logged.Open(name, ro)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := Evaluate(context.Background(), r, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

// goldenSet are the parameters of the golden values.
var goldenSet = map[string]float64{"ips-clip": 4, "switch-dr": 4, "dros": 16, "sg-ips": 0.125, "sg-dr": 0.125, "es": 0.5, "ix": 0.125, "ls": 0.25}

// TestGolden compares every estimator with values that were computed twice, in float64 and in exact rationals:
// formulas to 1e-12, sequences to 1e-9, el to 1e-8.
func TestGolden(t *testing.T) {
	var files map[string]map[string]map[string]json.RawMessage
	decode(t, golden(t)["files"], &files)
	checked := 0
	near := func(what string, got *float64, want, tolerance float64) {
		t.Helper()
		checked++
		if got == nil || !(math.Abs(*got-want) <= tolerance) {
			t.Errorf("%s: %v, want %v", what, deref(got), want)
		}
	}
	for name, targets := range files {
		for target, rows := range targets {
			if name == "lists.dsjson" {
				continue
			}
			keys := slices.DeleteFunc(Keys(), func(k string) bool { return k == "mrdr" || k == "bootstrap" })
			o := Options{Targets: []Target{targetOf(target)}, Estimators: keys, Set: goldenSet, Workers: 2}
			r := evaluate(t, "../logged/testdata/"+name, logged.Options{}, o)
			got := r.Targets[0]
			for _, e := range got.Estimates {
				raw, ok := rows[e.Estimator]
				if !ok {
					if e.Value != nil && e.Estimator != "el" && e.Estimator != "dr-stable" {
						t.Errorf("%s %s: %s has no golden value", name, target, e.Estimator)
					}
					continue
				}
				var w goldenRow
				decode(t, raw, &w)
				what := name + " " + target + " " + e.Estimator
				tolerance := 1e-12
				if e.Estimator == "el" {
					tolerance = 1e-8
				}
				near(what, e.Value, *w.Value, tolerance)
				if w.SE != nil {
					near(what+" se", e.SE, *w.SE, 1e-12)
					near(what+" normal", &e.Normal[0], w.Normal[0], 1e-12)
					near(what+" normal", &e.Normal[1], w.Normal[1], 1e-12)
				}
				if w.Beta != nil {
					near(what+" beta", &e.Beta, *w.Beta, 1e-12)
				}
				if w.Lower != nil {
					near(what+" lower", e.Lower, *w.Lower, 1e-12)
				}
				if w.Sequence != nil {
					near(what+" sequence", &e.Sequence[0], w.Sequence[0], 1e-9)
					near(what+" sequence", &e.Sequence[1], w.Sequence[1], 1e-9)
				}
				if w.Interval != nil {
					near(what+" interval", &e.Interval[0], w.Interval[0], 1e-8)
					near(what+" interval", &e.Interval[1], w.Interval[1], 1e-8)
				}
			}
			if raw, ok := rows["uplift"]; ok {
				var w goldenRow
				decode(t, raw, &w)
				what := name + " " + target + " uplift"
				near(what, got.Uplift.Plain, *w.Value, 1e-12)
				near(what+" se", got.Uplift.SE, *w.SE, 1e-12)
				near(what+" sequence", &got.Uplift.Sequence[0], w.Sequence[0], 1e-9)
				near(what+" sequence", &got.Uplift.Sequence[1], w.Sequence[1], 1e-9)
			}
			var d struct {
				N, Presented, ESS float64
				WeightMean        float64   `json:"weight_mean"`
				WeightMax         float64   `json:"weight_max"`
				WeightZero        float64   `json:"weight_zero"`
				CalibrationZ      []float64 `json:"calibration_z"`
			}
			decode(t, rows["diagnostics"], &d)
			g := got.Diagnostics
			for i, p := range [][2]float64{{g.ESS, d.ESS}, {g.WeightMean, d.WeightMean}, {g.WeightMax, d.WeightMax}, {g.WeightZero, d.WeightZero}, {r.Log.Presented, d.Presented}} {
				near(name+" "+target+" diagnostics "+string(rune('0'+i)), &p[0], p[1], 1e-10)
			}
			for k, z := range d.CalibrationZ {
				near(name+" "+target+" calibration", g.CalibrationZ[k], z, 1e-12)
			}
			if raw, ok := rows["slope"]; ok {
				goldenSlope(t, name+" "+target, target, raw)
			}
		}
	}
	if checked < 250 {
		t.Errorf("only %d values were compared", checked)
	}
}

func deref(p *float64) any {
	if p == nil {
		return nil
	}
	return *p
}

func targetOf(name string) Target {
	switch name {
	case "uniform":
		return Uniform{}
	case "greedy":
		return Greedy{}
	}
	return Column{}
}

// goldenSlope compares values, widths and choices of SLOPE++.
func goldenSlope(t *testing.T, what, target string, raw json.RawMessage) {
	var want map[string]struct {
		Grid, Values, Widths []float64
		Chosen               float64
	}
	decode(t, raw, &want)
	o := Options{Targets: []Target{targetOf(target)}, Grid: map[string][]float64{}}
	for key, w := range want {
		o.Estimators = append(o.Estimators, key)
		o.Grid[key] = w.Grid
	}
	for _, e := range evaluate(t, "../logged/testdata/events.jsonl", logged.Options{}, o).Targets[0].Estimates {
		w := want[e.Estimator]
		for i := range w.Grid {
			if math.Abs(e.Values[i]-w.Values[i]) > 1e-12 || math.Abs(e.Widths[i]-w.Widths[i]) > 1e-12 {
				t.Errorf("%s %s at %v: %v ± %v, want %v ± %v", what, e.Estimator, w.Grid[i], e.Values[i], e.Widths[i], w.Values[i], w.Widths[i])
			}
		}
		if *e.Parameter != w.Chosen || *e.Chosen != "slope++" {
			t.Errorf("%s %s: %v was chosen, want %v", what, e.Estimator, *e.Parameter, w.Chosen)
		}
	}
}

func TestGoldenLists(t *testing.T) {
	var files map[string]map[string]map[string]float64
	g := golden(t)
	var all map[string]json.RawMessage
	decode(t, g["files"], &all)
	files = map[string]map[string]map[string]float64{}
	var lists map[string]map[string]any
	decode(t, all["lists.dsjson"], &lists)
	files["lists.dsjson"] = map[string]map[string]float64{"uniform": {}}
	for k, v := range lists["uniform"] {
		if f, ok := v.(float64); ok {
			files["lists.dsjson"]["uniform"][k] = f
		}
	}
	r := evaluate(t, "../logged/testdata/lists.dsjson", logged.Options{}, Options{Targets: []Target{Uniform{}}})
	n := 0
	for _, e := range r.Targets[0].Estimates {
		key, is := map[string]string{"logged": "logged", "sips": "sips", "rips": "rips", "conditional": "iips"}[e.Estimator]
		if !is { // a conditional law has no marginals and no law of lists
			if e.Estimator == "cascade-dr" {
				continue
			}
			if e.Value != nil || e.Why == nil || !strings.Contains(*e.Why, "150 of 150 lists are left out") && e.Estimator != "pbm" {
				t.Errorf("%s: %v %v", e.Estimator, deref(e.Value), e.Why)
			}
			continue
		}
		if w := files["lists.dsjson"]["uniform"][key]; e.Value == nil || math.Abs(*e.Value-w) > 1e-12 {
			t.Errorf("%s: %v, want %v", e.Estimator, deref(e.Value), w)
		}
		n++
		if e.Estimator != "logged" && (e.Sequence == nil || !(e.Sequence[0] <= *e.Value && *e.Value <= e.Sequence[1])) {
			t.Errorf("%s: sequence %v around %v", e.Estimator, e.Sequence, *e.Value)
		}
	}
	if n != 4 {
		t.Errorf("%d estimators", n)
	}
}

// TestTwins: the same log in five formats gives the same estimates to the last bit, as far as each can say it.
func TestTwins(t *testing.T) {
	columns, err := logged.ParseColumns("action=arm,reward=click,propensity=prob,time=when,context=x0:x1:x2,law=pi_b_*,target=pi_e_*,q=q_*")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"uniform", "column"} {
		o := Options{Targets: []Target{targetOf(target)}, Estimators: []string{"logged", "ips", "snips", "cv", "el", "ips-clip", "sg-ips", "es", "ls"}}
		want := evaluate(t, "../logged/testdata/events.jsonl", logged.Options{}, o).Targets[0]
		for _, f := range []struct {
			name string
			o    logged.Options
			law  bool
		}{{"events.csv", logged.Options{Columns: columns}, true}, {"events.npz", logged.Options{}, true}, {"events.dsjson", logged.Options{}, true}, {"events.vw", logged.Options{}, false}} {
			if target == "column" && (f.name == "events.dsjson" || f.name == "events.vw") {
				continue
			}
			got := evaluate(t, "../logged/testdata/"+f.name, f.o, o).Targets[0]
			for i, e := range got.Estimates {
				w := want.Estimates[i]
				if *e.Value != *w.Value || (e.SE != nil && *e.SE != *w.SE) || (e.Sequence != nil && *e.Sequence != *w.Sequence) {
					t.Errorf("%s %s %s: %v %v, want %v %v", f.name, target, e.Estimator, *e.Value, e.Sequence, *w.Value, w.Sequence)
				}
			}
			if got.Diagnostics.ESS != want.Diagnostics.ESS {
				t.Errorf("%s: ess %v, want %v", f.name, got.Diagnostics.ESS, want.Diagnostics.ESS)
			}
		}
	}
}

// TestGoldenVowpalWabbit compares estimates on VW's own logs.
func TestGoldenVowpalWabbit(t *testing.T) {
	dir := filepath.FromSlash("../../shared/data/vw/")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("../shared/data/vw is not beside the checkout")
	}
	var want map[string]json.RawMessage
	decode(t, golden(t)["vw"], &want)
	for _, name := range []string{"dsjson_cb.json", "igl.dsjson", "explore_eval_egreedy.dat"} {
		var w struct {
			N, Presented, Logged, IPS, SNIPS, ESS float64
			WeightMax                             float64 `json:"weight_max"`
			WeightMean                            float64 `json:"weight_mean"`
		}
		decode(t, want[name], &w)
		r := evaluate(t, filepath.Join(dir, name), logged.Options{}, Options{Targets: []Target{Uniform{}}, Estimators: []string{"logged", "ips", "snips"}})
		e, d := r.Targets[0].Estimates, r.Targets[0].Diagnostics
		for i, p := range [][2]float64{{float64(r.Log.Events), w.N}, {*e[0].Value, w.Logged}, {*e[1].Value, w.IPS}, {*e[2].Value, w.SNIPS}, {d.ESS, w.ESS}, {d.WeightMax, w.WeightMax}, {d.WeightMean, w.WeightMean}} {
			if math.Abs(p[0]-p[1]) > 1e-12*(1+math.Abs(p[1])) {
				t.Errorf("%s, number %d: %v, want %v", name, i, p[0], p[1])
			}
		}
	}
}

// TestGoldenOpenBandit compares the law of Bernoulli-TS with integrals computed apart (1e-10), and the estimates on
// both logs of the men's campaign.
func TestGoldenOpenBandit(t *testing.T) {
	var g struct {
		Men struct {
			Ranks     [][]float64
			Prior     struct{ Alpha, Beta []float64 }
			Estimates map[string]map[string]map[string]float64
		}
	}
	readJSON(t, "testdata/obd-men.json", &g)
	b, err := NewBTS("bts", g.Men.Prior.Alpha, g.Men.Prior.Beta, 3)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for l := range 3 {
		sum := 0.0
		for i, p := range b.Ranks()[l] {
			worst = max(worst, math.Abs(p-g.Men.Ranks[i][l]))
			sum += p
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("rank %d: the law sums to 1 %+.2g", l, sum-1)
		}
	}
	if worst > 1e-10 {
		t.Errorf("the law of Bernoulli-TS is off by %.2g", worst)
	}
	dir := filepath.FromSlash("../../shared/data/obd/")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("../shared/data/obd is not beside the checkout")
	}
	for _, logger := range []string{"random", "bts"} {
		ro := logged.Options{}
		if logger == "random" {
			ro.Logger = Uniform{}
		}
		r := evaluate(t, filepath.Join(dir, logger, "men/men.csv"), ro, Options{Targets: []Target{Uniform{}, b}, Estimators: []string{"logged", "ips", "snips"}})
		for _, x := range r.Targets {
			w := g.Men.Estimates[logger][x.Name]
			e := x.Estimates
			for i, p := range [][2]float64{{*e[0].Value, w["logged"]}, {*e[1].Value, w["ips"]}, {*e[2].Value, w["snips"]}, {x.Diagnostics.ESS, w["ess"]},
				{x.Diagnostics.WeightMax, w["weight_max"]}, {x.Diagnostics.WeightMean, w["weight_mean"]}, {*e[1].SE, w["ips_se"]}, {*e[2].SE, w["snips_se"]}} {
				// The propensities of random/men are 1/34 in the file and in the law.
				if math.Abs(p[0]-p[1]) > 1e-9*(1+math.Abs(p[1])) {
					t.Errorf("%s %s, number %d: %v, want %v", logger, x.Name, i, p[0], p[1])
				}
			}
		}
	}
}

// TestImpressions: with Lists the rows of one impression of an Open Bandit file are one event, and the sequences of lists of several lengths hold the
// value: rewards of the same kind under the logger's own law (w = 1) have a mean that is known. A planted row with another user stays apart.
func TestImpressions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "men.csv")
	var b strings.Builder
	b.WriteString(",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0,user-item_affinity_1\n")
	row, clicks := 0, 0
	for i := range 400 {
		for position := range 1 + i%3 {
			user := "a"
			if i%7 == 6 && position == 2 {
				user = "b"
			}
			click := 0
			if (i*7+position)%5 == 0 {
				click = 1
			}
			clicks += click
			fmt.Fprintf(&b, "%d,2019-11-24 00:%02d:%02d.5+00:00,%d,%d,%d,0.5,%s,0,0\n", row, i/60, i%60, row%2, 3-position, click, user)
			row++
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	bts, err := NewBTS("bts", []float64{1, 1}, []float64{1, 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	r := evaluate(t, file, logged.Options{Lists: true, Logger: Uniform{}}, Options{Targets: []Target{Uniform{}}})
	if want := 400 + 400/21; r.Log.Events != want {
		t.Errorf("%d events, want %d", r.Log.Events, want)
	}
	mean := float64(clicks) / float64(r.Log.Events)
	for _, e := range r.Targets[0].Estimates {
		if k := e.Estimator; k != "logged" && k != "iips" && k != "pbm" { // an Open Bandit file has marginals
			if k != "pi" && !strings.Contains(*e.Why, "lists are left out") {
				t.Errorf("%s: %v", k, *e.Why)
			}
			continue
		}
		if *e.Value < mean-1e-12 || *e.Value > mean+1e-12 {
			t.Errorf("%s: %v, want %v", e.Estimator, *e.Value, mean)
		}
		switch {
		case e.Estimator != "iips":
		case e.Sequence == nil || e.Sequence[0] > mean || e.Sequence[1] < mean || e.Sequence[0] < 0.1 || e.Sequence[1] > 1.2:
			t.Errorf("%s: %v around %v", e.Estimator, e.Sequence, mean)
		}
	}
	rows := evaluate(t, file, logged.Options{Logger: Uniform{}}, Options{Targets: []Target{Uniform{}}, Q: "none"})
	if rows.Log.Events != row {
		t.Errorf("%d rows, want %d", rows.Log.Events, row)
	}
	var st logged.Standing
	e := &logged.Event{K: 2, Slots: []logged.Slot{{ID: "2", Allowed: []int{1, 0}}, {ID: "3", Allowed: []int{1, 0}}}}
	if err := bts.Stand(&st, e, 0); err != nil || st.Marginals[1] != bts.Ranks()[1][1] {
		t.Errorf("%v %v", st, err)
	}
	if err := bts.Stand(&st, e, 1); err == nil {
		t.Error("a slot beyond the list was taken")
	}
}
