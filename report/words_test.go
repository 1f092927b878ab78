package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/internal/golden"
	"troupe/report/headline"
	"troupe/sim"
)

// copied is a made-up run of two environments in which change has overwritten cells: policy p takes those of policy
// from[p] where environment e is in only, or everywhere.
func copied(t *testing.T, from map[int]int, only ...int) *Run {
	t.Helper()
	run := loaded(t, []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("arms-50", 10, arms())},
		troupeOfSeven()[3:], 60, 10_000, 20)
	for e := range run.Envs {
		if len(only) > 0 && !slices.Contains(only, e) {
			continue
		}
		for p, q := range from {
			run.Envs[e].Cells[p] = run.Envs[e].Cells[q]
		}
	}
	return run
}

func told(head Prose, lead []Prose) string {
	s := head.String() + "\n"
	for _, p := range lead {
		s += "  " + p.String() + "\n"
	}
	return plainSpaces.Replace(s)
}

// A policy loses more where the interval of the mean says so, and nowhere else: △, more lost in most replications, is too
// close to call, and has a sentence of its own.
func TestHeadlineIsByTheMean(t *testing.T) {
	envs := []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("arms-50", 10, arms())}
	behind := false
	seven := troupeOfSeven()
	for _, players := range [][]player{seven, seven[1:5], {seven[1], seven[3], seven[6]}} {
		run := loaded(t, envs, players, 60, 10_000, 20)
		all := []*Analysis{Analyze(run, 0), Analyze(run, 1)}
		triangles := map[string]bool{}
		for i := range players {
			for _, a := range all {
				d := a.Pairs.Diff[i]
				if got := (sentences{a}).headline().Policies[slices.Index(a.Order, i)]; (got.Standing == headline.LosesMore) != (i != a.Best() && d.Lo > 0) {
					t.Errorf("%s in %s: %v, by the interval %v to %v", players[i].name, a.Name, got, d.Lo, d.Hi)
				}
				if d.Verdict == Behind {
					triangles[a.Label(i)] = true
				}
			}
		}
		got := tally(all)
		if len(got.behind) != len(triangles) {
			t.Errorf("behind in most replications: %q, by the tables %v", got.behind, triangles)
		}
		behind = behind || len(triangles) > 0
		text := told(Headline(all))
		for l := range triangles {
			if len(triangles) <= 6 && !strings.Contains(text, l+" lost more") && !strings.Contains(text, l+" and ") &&
				!strings.Contains(text, l+", ") {
				t.Errorf("△ of %s is in no sentence:\n%s", l, text)
			}
		}
	}
	if !behind {
		t.Error("no run has a △: nothing was tested")
	}
}

// Policies with the same numbers are called so, and where all are the same none leads.
func TestSameNumbers(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		name string
		run  *Run
	}{
		{"one pair behind the best, everywhere", copied(t, map[int]int{3: 2})},
		{"two share the lowest mean", copied(t, map[int]int{0: 1})},
		{"all the same in one environment", copied(t, map[int]int{1: 0, 2: 0, 3: 0}, 1)},
		{"all the same", copied(t, map[int]int{1: 0, 2: 0, 3: 0})},
	} {
		all := []*Analysis{Analyze(c.run, 0), Analyze(c.run, 1)}
		fmt.Fprintf(&b, "## %s\n%s", c.name, told(Headline(all)))
		for _, a := range all {
			fmt.Fprintf(&b, "%s: %s", a.Name, told(a.Verdict()))
			if err := a.Leader("x").Text(&b, 80, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	golden.Compare(t, "testdata/same.txt", plainSpaces.Replace(b.String()))
	// The same as the reference that the spec names.
	alike := copied(t, map[int]int{3: 2})
	alike.Manifest.Reference = "greedy"
	a := Analyze(alike, 0)
	var table strings.Builder
	if err := a.Versus("x").Text(&table, 80, false); err != nil {
		t.Fatal(err)
	}
	_, p := sentences{a}.versus()
	if !strings.HasSuffix(p.String(), " epsilon-greedy(epsilon=0.02) lost the same as it in all 60 replications.") ||
		!strings.Contains(table.String(), "the same") {
		t.Errorf("against a policy of the same numbers: %s\n%s", p, table.String())
	}
	// Equal arms: no policy has any regret.
	run := copied(t, map[int]int{1: 0, 2: 0, 3: 0})
	for e := range run.Envs {
		for _, c := range run.Envs[e].Cells[0] {
			clear(c.Regret)
		}
	}
	a = Analyze(run, 0)
	text := told(a.Verdict())
	for i := range a.Policies {
		if d := a.Pairs.Diff[i]; d.Verdict != Same || (leaderTable{a}).leads(i) || d.OK {
			t.Errorf("equal arms: policy %d has %+v", i, d)
		}
	}
	if strings.Contains(text, "lowest") || !strings.Contains(text, "lost the same") {
		t.Errorf("equal arms:\n%s", text)
	}
	legend := Legend([]*Analysis{a})
	if strings.Contains(legend, "◆") || !strings.Contains(legend, "= the same in every replication") {
		t.Errorf("equal arms, legend: %s", legend)
	}
	if m := a.Summary[0].Mean; m != 0 || math.IsNaN(m) {
		t.Error(fmt.Sprint("equal arms, mean ", m))
	}
}

// The words under the overview are those of its marks.
func TestOverviewMarks(t *testing.T) {
	page := pageOf(t, copied(t, map[int]int{1: 0, 2: 0, 3: 0}))
	if !strings.Contains(page, "= the same in every replication") || strings.Contains(page, "◆ lowest mean") {
		t.Error("the overview explains marks that it does not have, or not those that it has")
	}
}
