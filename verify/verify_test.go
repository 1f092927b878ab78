package verify

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// heavy are checks that play ensembles of the theorem's own size, which takes four fifths of the time
// of all, and the longest of the others. They run in every troupe verify, which .ci/run plays with their plants, and
// here with TROUPE_RECORD.
var heavy = []string{
	"atoms (optimism) corrected",
	"atoms (share) corrected",
	"atoms (support) corrected",
	"claim:noise-subgaussian (sharper constants) corrected",
	"few (constants) corrected",
	"few (rare) corrected",
	"few (two arms) corrected",
	"few-exponent (constants) corrected",
	"few-exponent corrected",
	"few-horizon (curve) corrected",
	"janz2026:cor-5.6 printed",
	"janz2026:thm-5.4 printed",
	"lem:initialisation (m ≥ 10d) printed",
	"remark:es-improve-bound printed",
	"remark:es-sym-2 printed",
	"rem:max-over-ensemble (regret) corrected",
	"thm:sing-val-gamma printed",
	"thm:sing-val-gamma corrected",
	"thm:sing-val-gamma (repaired constants) corrected",
	"thm:uniform-concentration-sphere (fixed direction) printed",
}

// sharp are checks whose plants need the size of troupe verify; of the others a quarter is enough.
var sharp = []string{
	"inflation (rate) corrected",
	"inflation (three arms, frozen) corrected",
	"few-horizon (two arms, level below 0) corrected",
	"claim:ts (optimism) corrected",
	"few-horizon (one arm) corrected",
	"few-horizon (two arms) corrected",
	"janz2026:lem-I.1 printed",
	"janz2026:thm-4.2 printed",
	"rem:large-m printed",
	"rem:lower-vs-upper corrected",
}

// long says that tests play their exhaustive sizes.
func long() bool { return os.Getenv("TROUPE_LONG") != "" || os.Getenv("TROUPE_RECORD") != "" }

// lengthy are checks that take longest of the others and have no smaller size: what theory computes of waiting at many settings,
// of which theory's own tests play some, and a share of many random vectors. TROUPE_LONG plays them.
var lengthy = []string{
	"few-horizon (over) corrected",
	"few-horizon (second order) corrected",
	"few-horizon (within) corrected",
	"thm:uniform-concentration-sphere (fixed direction) corrected",
}

// sized returns the exhaustive size with TROUPE_LONG, otherwise one that fails on the same faults.
func sized(small, exhaustive int) int {
	if long() {
		return exhaustive
	}
	return small
}

// TestChecks runs the whole list plain and against its plants: every verdict is the expected one, and every plant changes it.
// With TROUPE_LONG the plain run is what `troupe verify` prints, otherwise a quarter of its sizes where that is enough.
func TestChecks(t *testing.T) {
	checks := slices.Clone(Checks)
	switch {
	case testing.Short(): // for the race detector, which is interested in a few of them, not in numbers
		checks = nil
		for i := 0; i < len(Checks); i += 8 {
			if name := Checks[i].Name(); !slices.Contains(heavy, name) && !slices.Contains(lengthy, name) {
				checks = append(checks, Checks[i])
			}
		}
	case os.Getenv("TROUPE_RECORD") == "":
		checks = slices.DeleteFunc(checks, func(c Check) bool { return slices.Contains(heavy, c.Name()) })
		few := len(Checks) - len(heavy)
		if !long() {
			checks = slices.DeleteFunc(checks, func(c Check) bool { return slices.Contains(lengthy, c.Name()) })
			few -= len(lengthy)
		}
		if len(checks) != few {
			t.Errorf("%d checks without the heavy ones, expected %d: a name has changed", len(checks), few)
		}
	}
	parts := map[int][]Check{}
	for _, c := range checks {
		part := 4
		if long() || slices.Contains(sharp, c.Name()) {
			part = 1
		}
		parts[part] = append(parts[part], c)
	}
	var results []Result
	for part, checks := range parts {
		played, err := Run(context.Background(), checks, Options{Seed: 1, Plants: true, part: part})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, played...)
	}
	for _, r := range results {
		t.Logf("%-70s %-9s %12.5g %2s %12.5g %8d  %.2f s  %s", r.Name(), r.Verdict, r.Observed, r.Relation, r.Bound, r.Samples, r.Seconds, r.Detail)
		if !r.Expected() {
			t.Errorf("%s: %s, expected %s\n%s", r.Name(), r.Verdict, r.Expect, r.Detail)
		}
		if p := r.Planted; !r.Caught() {
			t.Errorf("%s: the plant (%s) was not caught: %s, observed %.5g, bound %.5g\n%s", r.Name(), r.Plant, p.Verdict, p.Observed, p.Bound, p.Detail)
		}
	}
}

// TestWorkers: findings do not depend on the number of workers, and a run that is cancelled returns
// what is complete with the context's error.
func TestWorkers(t *testing.T) {
	checks, err := Select([]string{"claim:alpha-non-neg", "lem:sasha-bound", "lem:time-unif-bound", "alg:es"})
	if err != nil {
		t.Fatal(err)
	}
	var first string
	for _, workers := range []int{1, 8} {
		results, err := Run(context.Background(), checks, Options{Seed: 7, Workers: workers, part: sized(8, 1)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range results {
			results[i].Seconds = 0
		}
		b, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(b)
		} else if first != string(b) {
			t.Errorf("findings differ with %d workers", workers)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if results, err := Run(ctx, checks, Options{}); err == nil || len(results) != 0 {
		t.Errorf("cancelled run: %d results, %v", len(results), err)
	}
}

// TestJSON: the keys of the contract, and no number that JSON does not know.
func TestJSON(t *testing.T) {
	checks, err := Select([]string{"lem:conf-sets", "claim:mgf-bound-uniform-projection", "rem:large-m"})
	if err != nil {
		t.Fatal(err)
	}
	results, err := Run(context.Background(), checks, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(b, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, key := range []string{"label", "reading", "kind", "verdict", "observed", "bound", "samples", "p_value", "seconds"} {
			if _, ok := row[key]; !ok {
				t.Errorf("%v: no key %s", row["label"], key)
			}
		}
		if p := row["p_value"]; (p != nil) != (row["kind"] == "probability") {
			t.Errorf("%v: p_value = %v for kind %v", row["label"], p, row["kind"])
		}
	}
}

// TestSelect: an unknown label names the nearest one.
func TestSelect(t *testing.T) {
	if _, err := Select([]string{"lem:initialization"}); err == nil || !strings.Contains(err.Error(), `"lem:initialisation"`) {
		t.Errorf("misspelt label: %v", err)
	}
	all, err := Select(nil)
	if err != nil || len(all) != len(Checks) {
		t.Errorf("no label: %d checks, %v", len(all), err)
	}
}

// TestErrorBudget: the false alarm probability of a whole run is below 1e-6 by the union bound.
func TestErrorBudget(t *testing.T) {
	n := 0
	for _, c := range Checks {
		if c.Kind == Probability {
			n++
		}
	}
	if budget := float64(n) * Level; !(budget < 1e-6) {
		t.Errorf("%d probability checks at level %g: %g, want below 1e-6", n, Level, budget)
	}
	t.Logf("%d checks, %d of them probability, family-wise false alarm below %.1e", len(Checks), n, float64(n)*Level)
}

// TestList: every check says what it claims and what its plant is, and names are unique.
func TestList(t *testing.T) {
	var names []string
	for _, c := range Checks {
		if c.Label == "" || c.Statement == "" || c.Plant == "" || c.run == nil {
			t.Errorf("%s: incomplete", c.Name())
		}
		if slices.Contains(names, c.Name()) {
			t.Errorf("%s: twice", c.Name())
		}
		names = append(names, c.Name())
	}
	var labels []string
	for _, h := range Headings {
		labels = append(labels, h.Label)
	}
	if got := Labels(); !slices.Equal(got, labels) {
		t.Errorf("the labels of the checks and of the headings differ:\n%v\n%v", got, labels)
	}
}
