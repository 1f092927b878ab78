package report

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/sim"
)

// asked is a run of players under an estimand.
func asked(t *testing.T, players []player, reps int, estimand string, claims ...sim.Claim) *Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	write(t, dir, []sim.EnvironmentRow{linearEnv("one", 10, arms()), linearEnv("two", 10, ball())}, players, reps, 10_000, 54)
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	run.Manifest.Estimand, run.Manifest.Claims = estimand, claims
	return run
}

// The estimand decides who is first: greedy has a small median where it is not stuck, and most of its runs are lost.
func TestEstimandDecides(t *testing.T) {
	players := []player{
		{"steady", "ts", nil, nil, 13, 0.24, 0.3, 0, 0},
		{"gambler", "greedy", nil, nil, 5, 0.24, 0.3, 0.2, 0.3},
		{"slow", "linucb", nil, nil, 40, 0.24, 0.2, 0, 0},
	}
	for _, c := range []struct{ estimand, best, head string }{
		{"mean", "steady", "steady loses least everywhere."},
		{"median", "gambler", "gambler has the lowest median regret everywhere."},
		{"cvar-5", "steady", "steady has the lowest mean regret of the worst 5% everywhere."},
		{"lost", "steady", "gambler has a larger share of lost runs everywhere. steady and slow have a larger share of lost runs nowhere."},
	} {
		run := asked(t, players, 200, c.estimand)
		a := Analyze(run, 0)
		if got := a.Label(a.Best()); got != c.best {
			t.Errorf("%s: %s is first", c.estimand, got)
		}
		head, lead := Headline([]*Analysis{a, Analyze(run, 1)})
		if head.String() != c.head && c.estimand != "mean" {
			t.Errorf("%s: %s", c.estimand, head)
		}
		for i := range a.Policies {
			if v := a.Summary[i].Estimate; v != a.Estimand.Of(a.value(i)) {
				t.Errorf("%s: %s has %v", c.estimand, a.Label(i), v)
			}
		}
		page := pageOf(t, run)
		if want := meaning(a.Estimand); want != "" && !strings.Contains(page, want) {
			t.Errorf("%s: the page does not define it", c.estimand)
		}
		if c.estimand == "lost" && a.Pairs.Diff[1].Verdict != Worse || c.estimand == "median" && a.Pairs.Diff[0].Verdict != Worse {
			t.Errorf("%s: verdicts %+v, %v", c.estimand, a.Pairs.Diff, lead)
		}
	}
	few := asked(t, players, 50, "cvar-5")
	if a := Analyze(few, 0); a.Pairs.Places != nil || a.Pairs.Diff[1].OK || a.Pairs.Diff[1].Verdict != None {
		t.Errorf("cvar-5 of 50 replications: %+v", a.Pairs.Diff)
	}
	few = asked(t, players, 19, "median", sim.Claim{Less: "gambler", Than: "slow"})
	if a, c := Analyze(few, 0), few.Claims(); a.Pairs.Diff[0].OK || c[0].Answer != tooFewRuns {
		t.Errorf("19 replications: %+v, %v", a.Pairs.Diff, c)
	}
}

// Claims hold, are contradicted, or stay open; claims that came late are held to all pairs.
func TestClaims(t *testing.T) {
	players := []player{
		{"a", "ts", nil, nil, 10, 0.24, 0.3, 0, 0},
		{"b", "linucb", nil, nil, 30, 0.24, 0.3, 0, 0},
		{"c", "greedy", nil, nil, 10.01, 0.24, 0.3, 0, 0},
	}
	claims := []sim.Claim{{Less: "a", Than: "b"}, {Less: "b", Than: "a", Environment: "two"}, {Less: "a", Than: "c"},
		{Less: "a", Than: "b", Times: 0.5}, {Less: "a", Than: "b", Times: 0.2}}
	run := asked(t, players, 60, "", claims...)
	got := run.Claims()
	for i, want := range []string{holds, contradicted, openClaim, holds, contradicted} {
		if got[i].Answer != want {
			t.Errorf("claim %d %s, expected that it %s", i, got[i].Answer, want)
		}
	}
	if n := len(got[0].Each); n != 2 || len(got[1].Each) != 1 {
		t.Errorf("environments: %d, %d", n, len(got[1].Each))
	}
	said := ClaimsSaid(run)
	if text := said[0].String(); text != "The mean regret of a is less than that of b: this holds in both environments." {
		t.Error(text)
	}
	if text := said[1].String(); !strings.HasPrefix(text, "The mean regret of b is less than that of a in two: this is contradicted, the difference is +") {
		t.Error(text)
	}
	// With times the ratio of the two means of the tables stands there, and its interval excludes times exactly where the
	// claim is decided: a is about 10/30 of b, so .5 and .2 are decided, in both directions, and .34 is not.
	ratios := asked(t, players, 60, "", sim.Claim{Less: "a", Than: "b", Times: 0.5, Environment: "two"},
		sim.Claim{Less: "a", Than: "b", Times: 0.2, Environment: "two"}, sim.Claim{Less: "a", Than: "b", Times: 1.0 / 3, Environment: "two"})
	for i, c := range ratios.Claims() {
		x := c.Each[0]
		means := mean(x.a.Final(0)) / mean(x.a.Final(1))
		if r := x.Ratio; !r.OK || math.Abs(r.Value-means) > 1e-12 || (r.Hi < c.Times) != (c.Answer == holds) || (r.Lo > c.Times) != (c.Answer == contradicted) {
			t.Errorf("claim %d %s: ratio %+v of %v", i, c.Answer, r, c.Times)
		}
		if text := c.Say(ratios.estimand()).String(); !strings.Contains(text, ", the ratio is "+chart.Number(means, 3)+" [") || strings.Contains(text, "difference") {
			t.Error(text)
		}
	}
	late := asked(t, players, 60, "", claims...)
	late.Manifest.Restated = true
	wider := late.Claims()[0].Each[0].Interval
	if in := got[0].Each[0].Interval; !(wider.Hi > in.Hi && wider.Lo < in.Lo) {
		t.Errorf("late claims are not held to more: %+v and %+v", wider, in)
	}
	if !strings.Contains(pageOf(t, run), "this is contradicted") {
		t.Error("the page does not answer the claims")
	}
}

// What a run prints holds for all its environments at once: factors are not smaller than those of each environment alone,
// and with one environment they are those of stats.MaxT, which TestGolden holds.
func TestEnvironmentsTogether(t *testing.T) {
	both := asked(t, troupeOfSeven()[2:4], 60, "")
	alone := asked(t, troupeOfSeven()[2:4], 60, "")
	alone.Manifest.Environments, alone.Envs = alone.Manifest.Environments[:1], alone.Envs[:1]
	if x, y := Analyze(both, 0), Analyze(alone, 0); !(x.Pairs.Factor > y.Pairs.Factor) || x.Pairs.Level*2 != y.Pairs.Level {
		t.Errorf("factors %v and %v, levels %v and %v", x.Pairs.Factor, y.Pairs.Factor, x.Pairs.Level, y.Pairs.Level)
	}
	if a := Analyze(both, 1); a.Pairs.Places == nil || a.Estimand != infer.Mean {
		t.Errorf("%+v", a.Pairs.Places)
	}
}
