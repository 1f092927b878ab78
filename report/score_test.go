package report

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"troupe/experiments"
	"troupe/sim"
)

// suitePlays are what suiteRun has played, by text.
var suitePlays = map[string]*sim.Outcome{}

// suiteRun plays a suite with two policies and three replications unless the change of its text says more. Each text is
// played once for all tests.
func suiteRun(t *testing.T, change func(string) string) *Run {
	t.Helper()
	e, ok := experiments.Find("suite/linear-v1")
	if !ok {
		t.Fatal("no suite")
	}
	worlds, _, _ := strings.Cut(e.Text, "[[policy]]")
	text := strings.Replace(worlds, "replications = 20", "replications = 3", 1) + "[[policy]]\nkind = \"uniform\"\n[[policy]]\nkind = \"ts\"\nscale = 0.5\n"
	text = change(text)
	out := suitePlays[text]
	if out == nil {
		x, err := sim.Parse("x.toml", text, sim.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		if out, err = sim.Run(context.Background(), x, sim.Options{}); err != nil {
			t.Fatal(err)
		}
		suitePlays[text] = out
	}
	run, err := Of(out)
	if err != nil {
		t.Fatal(err)
	}
	run.Manifest.Policies = slices.Clone(run.Manifest.Policies)
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
	few := pageOf(t, run)
	var many *Run
	if os.Getenv("TROUPE_LONG") != "" {
		many = suiteRun(t, twenty)
	} else { // the same cells, which TestDifficulty plays too
		many = withEnsemble(t)
		many.Manifest.Policies = many.Manifest.Policies[:2]
		for e := range many.Envs {
			many.Envs[e].Cells = many.Envs[e].Cells[:2]
		}
	}
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
	if !(ts.First && !uniform.First && uniform.Paired && uniform.BehindLo > 0 &&
		math.Abs(uniform.Behind-ts.Mean) < 1e-12) {
		t.Errorf("ts is not alone in the first place: %+v, %+v", ts, uniform)
	}
	page := pageOf(t, many)
	for _, want := range []string{"To quote: <code>suite/linear-v1 d5055cfdfafa534d: ts 0.", "only it may be first"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	one := suiteRun(t, func(s string) string { return strings.Replace(s, "replications = 3", "replications = 1", 1) })
	if s, why := Scores(one); s == nil || why != "" || s.R != 1 || s.Rows[0].OK {
		t.Errorf("one replication: %+v, %q", s, why)
	}
	refused := func(from, to string) *Run { // nothing is computed: with TROUPE_LONG three replications
		return suiteRun(t, func(s string) string {
			if os.Getenv("TROUPE_LONG") == "" {
				s = strings.Replace(s, "replications = 3", "replications = 1", 1)
			}
			return strings.Replace(s, from, to, 1)
		})
	}
	if s, why := Scores(refused("norm = 0.3", "norm = 0.4")); s != nil || why != "" {
		t.Errorf("another environment is of the suite: %v, %q", s, why)
	}
	if s, why := Scores(refused(`"uniform"`, `"greedy"`)); s != nil || !strings.Contains(why, "needs a policy of kind uniform") {
		t.Errorf("a score without uniform play: %v, %q", s, why)
	}
}

// twenty has twenty replications, with another seed.
func twenty(text string) string {
	return strings.Replace(strings.Replace(text, "seed = 1", "seed = 5", 1), "replications = 3", "replications = 20", 1)
}

// withEnsemble is twenty with a third policy.
func withEnsemble(t *testing.T) *Run {
	t.Helper()
	return suiteRun(t, func(s string) string { return twenty(s) + "[[policy]]\nkind = \"ensemble\"\nm = 4\n" })
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

// The differences of scores hold at once, and a policy that has the highest score is said to be first or perhaps first.
// Null: at most 5 % of the runs miss. Runs of n replications are drawn from a population of 4096 whose score is known,
// with regrets that share the instance, heavy tails and policies that lose everything in one replication of 50. More than 26
// misses in 300 runs have probability .0026 under the null, more than 11 in 100 have .0043.
func TestScoreCovers(t *testing.T) {
	const policies, envs, population = 6, 5, 4096
	r := rand.New(rand.NewPCG(3, 1))
	var pop [envs][policies][]float64
	for e := range envs {
		for range population {
			instance := math.Exp(0.5 * r.NormFloat64())
			for p := range policies {
				x := instance * (0.1 + 0.02*float64(p%3)) * math.Exp(0.8*r.NormFloat64())
				if p >= 4 && r.IntN(50) == 0 {
					x = instance * 3
				}
				if p == 0 {
					x = instance * (5 + 0.2*r.NormFloat64()) // uniform play
				}
				pop[e][p] = append(pop[e][p], x)
			}
		}
	}
	names := []string{"uniform", "a", "b", "c", "d", "e"}
	score := func(n int, at func(i int) int) *Score {
		s := &Score{R: n, Seed: 1}
		if e := s.rank(names, envs, 0, func(e, p int) []float64 {
			v := make([]float64, n)
			for i := range v {
				v[i] = pop[e][p][at(i)]
			}
			return v
		}); e >= 0 {
			t.Fatal(e)
		}
		return s
	}
	truth, best := make(map[string]float64), ""
	for _, row := range score(population, func(i int) int { return i }).Rows {
		truth[row.Policy] = row.Mean
		if best == "" {
			best = row.Policy
		}
	}
	sizes, runs, most := []int{20}, 100, 11
	if os.Getenv("TROUPE_LONG") != "" {
		sizes, runs, most = []int{20, 50, 200}, 300, 26
	}
	for _, n := range sizes {
		wrong, rows := 0, 0
		for range runs {
			drawn := make([]int, n)
			for i := range drawn {
				drawn[i] = r.IntN(population)
			}
			s := score(n, func(i int) int { return drawn[i] })
			miss := false
			for _, row := range s.Rows {
				behind := truth[s.Rows[0].Policy] - truth[row.Policy]
				miss = miss || row.Paired && (behind < row.BehindLo-1e-9 || row.BehindHi+1e-9 < behind) ||
					row.Policy == best && !row.First
				if row.Policy == "a" && (truth["a"] < row.Lo || row.Hi < truth["a"]) {
					rows++
				}
			}
			if miss {
				wrong++
			}
		}
		t.Logf("n = %d: %d of %d runs are wrong, and the interval of one row in %d", n, wrong, runs, rows)
		if wrong > most || rows > most {
			t.Errorf("n = %d: %d of %d runs are wrong, and the interval of one row in %d", n, wrong, runs, rows)
		}
	}
}

// What is said of the first place: the leader alone, some beside it, all, and nothing below 20 replications.
func TestScoreSays(t *testing.T) {
	for _, c := range []struct {
		r     int
		first []bool
		want  string
	}{
		{20, []bool{true, false, false}, "a has the highest score, and only it may be first"},
		{20, []bool{true, true, false}, "a has the highest score, and b may be first too"},
		{20, []bool{true, true, true}, "each of the policies may be first"},
		{19, []bool{false, false, false}, ""},
	} {
		s := &Score{R: c.r}
		for i, f := range c.first {
			s.Rows = append(s.Rows, ScoreRow{Policy: string(rune('a' + i)), First: f})
		}
		if got := s.Say().String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: %q", c.first, got)
		}
	}
}
