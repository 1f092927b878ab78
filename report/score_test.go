package report

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"troupe/experiments"
	"troupe/sim"
)

// suiteRun plays a suite with two policies and three replications unless the change of its text says more.
func suiteRun(t *testing.T, change func(string) string) *Run {
	t.Helper()
	e, ok := experiments.Find("suite/linear-v1")
	if !ok {
		t.Fatal("no suite")
	}
	worlds, _, _ := strings.Cut(e.Text, "[[policy]]")
	text := strings.Replace(worlds, "replications = 20", "replications = 3", 1) + "[[policy]]\nkind = \"uniform\"\n[[policy]]\nkind = \"ts\"\nscale = 0.5\n"
	x, err := sim.Parse("x.toml", change(text), sim.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	out, err := sim.Run(context.Background(), x, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := Of(out)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// The score is the mean of 1 − regret/(regret of uniform play), the suite is known by its environments and its
// horizon alone, and its hash never changes: papers quote it.
func TestScore(t *testing.T) {
	run := suiteRun(t, func(s string) string { return strings.Replace(s, "seed = 1", "seed = 5", 1) })
	s, why := Scores(run)
	if s == nil || why != "" {
		t.Fatalf("no score: %q", why)
	}
	if s.Suite != "linear-v1" || s.Hash != "d5055cfdfafa534d" || s.R != 3 || len(s.Rows) != 2 {
		t.Errorf("%+v", s)
	}
	want := 0.0
	for e := range run.Envs {
		a, b := 0.0, 0.0
		for r := range 3 {
			u, v := run.Envs[e].Cells[0][r].Regret, run.Envs[e].Cells[1][r].Regret
			a, b = a+v[len(v)-1], b+u[len(u)-1]
		}
		want += (1 - a/b) / 12
	}
	ts, uniform := s.Rows[0], s.Rows[1]
	if ts.Policy != "ts" || math.Abs(ts.Mean-want) > 1e-12 || uniform.Mean != 0 {
		t.Errorf("%+v and %+v, expected %v and 0", ts, uniform, want)
	}
	few, many := pageOf(t, run), suiteRun(t, func(s string) string {
		return strings.Replace(strings.Replace(s, "seed = 1", "seed = 5", 1), "replications = 3", "replications = 20", 1)
	})
	if q := s.Quote(ts, "9.9"); ts.OK || uniform.OK || q != "" || strings.Contains(few, "To quote") {
		t.Errorf("three replications have an interval or a line to quote: %+v, %q", ts, q)
	}
	if s, why = Scores(many); s == nil || why != "" {
		t.Fatalf("no score: %q", why)
	}
	ts, uniform = s.Rows[0], s.Rows[1]
	if !ts.OK || !(ts.Lo <= ts.Mean && ts.Mean <= ts.Hi && ts.Lo < ts.Hi) {
		t.Errorf("ts has %+v", ts)
	}
	if uniform.Mean != 0 || uniform.Lo != 0 || uniform.Hi != 0 {
		t.Errorf("uniform has %+v", uniform)
	}
	q := s.Quote(ts, "9.9")
	if !strings.HasPrefix(q, "suite/linear-v1 d5055cfdfafa534d: ts 0.") ||
		!strings.HasSuffix(q, fmt.Sprintf("], 20 replications, seed 5, engine %d, troupe 9.9", sim.Engine)) {
		t.Errorf("the line is %q", q)
	}
	if !strings.Contains(pageOf(t, many), "To quote: <code>suite/linear-v1 d5055cfdfafa534d: ts 0.") {
		t.Error("the page has no line to quote")
	}
	one := suiteRun(t, func(s string) string { return strings.Replace(s, "replications = 3", "replications = 1", 1) })
	if s, why := Scores(one); s == nil || why != "" || s.R != 1 || s.Rows[0].OK {
		t.Errorf("one replication: %+v, %q", s, why)
	}
	if s, why := Scores(suiteRun(t, func(s string) string { return strings.Replace(s, "norm = 0.3", "norm = 0.4", 1) })); s != nil || why != "" {
		t.Errorf("another environment is of the suite: %v, %q", s, why)
	}
	if s, why := Scores(suiteRun(t, func(s string) string { return strings.Replace(s, `"uniform"`, `"greedy"`, 1) })); s != nil || !strings.Contains(why, "needs a policy of kind uniform") {
		t.Errorf("a score without uniform play: %v, %q", s, why)
	}
}

// pageOf is the page of a run.
func pageOf(t *testing.T, run *Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := compose(run, Options{}).writePage(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
