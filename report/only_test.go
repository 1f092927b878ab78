package report

import (
	"slices"
	"strings"
	"testing"

	"troupe/sim"
)

// What is shown of a run has the intervals of the whole run, to the bit, and its looks.
func TestOnly(t *testing.T) {
	run := asked(t, troupeOfSeven(), 60, "")
	full := Analyze(run, 1)
	some, err := run.Only([]string{"ensemble(m=*)", "policy=greedy", "environment=tw*"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range some.Manifest.Policies {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"ensemble(m=4)", "ensemble(m=16)", "ensemble(m=64)", "greedy"}) || len(some.Envs) != 1 {
		t.Fatalf("%q in %d environments", names, len(some.Envs))
	}
	a := Analyze(some, 0)
	if a.Name != "two" || a.Pairs.Factor != full.Pairs.Factor || a.Band.Factor != full.Band.Factor || a.Pairs.Level != full.Pairs.Level {
		t.Errorf("%s: factors %v, %v; %v and %v in the whole", a.Name, a.Pairs.Factor, a.Band.Factor, full.Pairs.Factor, full.Band.Factor)
	}
	for i := range a.Policies {
		for j := range a.Policies {
			x, y := full.index(a.Label(i)), full.index(a.Label(j))
			if i != j && a.between(i, j) != full.between(x, y) {
				t.Errorf("%s − %s: %+v, in the whole %+v", a.Label(i), a.Label(j), a.between(i, j), full.between(x, y))
			}
		}
	}
	all, _ := run.looks()
	if got, _ := some.looks(); got[3].Light != all[6].Light || len(got) != 4 {
		t.Errorf("looks %v", got)
	}
	if page := pageOf(t, some); !strings.Contains(page, "Shown are 4 of 7 policies and 1 of 2 environments.") || strings.Contains(page, "linucb</span>") {
		t.Error("the page does not say what is shown, or shows more")
	}
	for _, bad := range []string{"nix", "policy=two", "environment=greedy", "ensemble(m=4", ""} {
		if _, err := run.Only([]string{bad}); err == nil || !strings.Contains(err.Error(), "names nothing") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Two runs as one have the policies of both in the environments of both, at the checkpoints of both.
func TestTogether(t *testing.T) {
	a, b := asked(t, troupeOfSeven()[:3], 60, ""), asked(t, troupeOfSeven()[2:4], 40, "")
	both, err := Together(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range both.Manifest.Policies {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"ensemble(m=4)", "ensemble(m=16)", "ensemble(m=64) (A)", "ensemble(m=64) (B)", "ts"}) {
		t.Errorf("%q", names)
	}
	x := Analyze(both, 0)
	if x.R() != 40 || !slices.Equal(x.Final(2), x.Final(3)) || x.Pairs.Diff[3].Verdict == Worse {
		t.Errorf("%d replications, %+v", x.R(), x.Pairs.Diff)
	}
	if page := pageOf(t, both); !strings.Contains(page, "Two runs: A is") || !strings.Contains(page, "common random numbers") {
		t.Error("the page does not name the runs")
	}
	b.Manifest.Seed = 2
	if both, err = Together(a, b); err != nil || strings.Contains(pageOf(t, both), "common random numbers") {
		t.Errorf("runs of two seeds have common random numbers: %v", err)
	}
	b.Manifest.Environments = slices.Clone(b.Manifest.Environments)
	b.Manifest.Environments[0].Options = map[string]any{"d": 11}
	if _, err := Together(a, b); err == nil || !strings.Contains(err.Error(), `environment "one" is not the same in both runs`) {
		t.Errorf("another environment of the name: %v", err)
	}
	b.Manifest.Environments = []sim.EnvironmentRow{{Name: "three"}}
	if _, err := Together(a, b); err == nil || !strings.Contains(err.Error(), "no environment in common") {
		t.Errorf("nothing in common: %v", err)
	}
	b.Manifest.Estimand = "median"
	if _, err := Together(a, b); err == nil || !strings.Contains(err.Error(), "different estimands") {
		t.Errorf("two estimands: %v", err)
	}
}
