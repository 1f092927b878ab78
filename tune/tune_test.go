package tune

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"troupe/sim"
)

const small = `name = "small"
seed = 3
horizon = 600
replications = 4
[[environment]]
name = "arms"
kind = "linear"
d = 4
set = { kind = "random-sphere", arms = 12 }
[[environment]]
kind = "linear"
d = 4
[[policy]]
kind = "linucb"
tune = { scale = { kind = "beta", value = [0.05, 0.2, 1.0, 4.0] } }
[[policy]]
kind = "epsilon-greedy"
tune = { epsilon = [0.02, 0.5, 0.9], lambda = [1.0, 2.0] }
[[policy]]
kind = "uniform"
`

func parse(t testing.TB, text string) *sim.Experiment {
	t.Helper()
	x, err := sim.Parse("small.toml", text, sim.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestPlan: stages halve, shares are equal up to rounding, no replication more than there are is played.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		points, replications int
		want                 string
	}{
		{2, 200, "[{2 100}]"}, {3, 60, "[{3 10} {2 15}]"}, {7, 200, "[{7 9} {4 16} {2 36}]"}, {8, 200, "[{8 8} {4 16} {2 36}]"},
		{100, 100, ""}, {2, 3, ""},
	} {
		stages, err := plan(c.points, c.replications)
		if (err != nil) != (c.want == "") || err == nil && fmt.Sprint(stages) != c.want {
			t.Errorf("%d points, %d replications: %v, %v, want %s", c.points, c.replications, stages, err, c.want)
		}
	}
}

// TestRun: the values that are bad by a wide margin do not win, the result does not depend on the
// number of workers, and its spec is one that runs, with the textbook policies under their old names.
func TestRun(t *testing.T) {
	x := parse(t, small)
	r, err := Run(context.Background(), x, Options{Replications: 72, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Policies) != 2 || len(r.Policies[0].Points) != 4 || len(r.Policies[1].Points) != 6 {
		t.Fatalf("%+v", r)
	}
	for _, bad := range []string{"linucb(scale=4β)", "epsilon-greedy(epsilon=0.9", "epsilon-greedy(epsilon=0.5"} {
		for i := range r.Policies {
			if strings.HasPrefix(r.Policies[i].Winner().Case.Name, bad) {
				t.Errorf("%s wins", bad)
			}
		}
	}
	if p := &r.Policies[1]; len(p.Edges) == 0 || !strings.HasPrefix(p.Edges[0], "epsilon = 0.02 is the smallest") {
		t.Errorf("edges %q", p.Edges)
	}
	for i := range r.Policies {
		p := &r.Policies[i]
		wins, last := 0.0, p.Winner().Stage
		for k := range p.Points {
			wins += p.Points[k].Wins
			if p.Points[k].Stage > last {
				t.Errorf("%s: a point of a later stage comes after one of an earlier stage", p.Name)
			}
		}
		if wins < 0.999 || wins > 1.001 || p.Played > 72 || p.Played < 65 {
			t.Errorf("%s: wins add up to %v, %d replications played", p.Name, wins, p.Played)
		}
	}
	if from := r.From(&r.Policies[1]); !strings.Contains(from, "; epsilon = 0.02 is the smallest value tried, so the best may lie outside") {
		t.Errorf("what the page shows has no warning of the edge: %s", from)
	}
	text, err := r.Spec("small-tuned")
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(context.Background(), x, Options{Replications: 72, Workers: 3})
	if err != nil {
		t.Fatal(err)
	}
	if other, err := again.Spec("small-tuned"); err != nil || other != text {
		t.Errorf("three workers choose otherwise, error %v:\n%s\n%s", err, text, other)
	}
	y := parse(t, text)
	var names []string
	for _, c := range y.Policies {
		names = append(names, c.Name)
		if (c.Tuned != "") != strings.HasSuffix(c.Name, " tuned") || c.Tune != nil {
			t.Errorf("%s: tuned %q", c.Name, c.Tuned)
		}
	}
	if want := []string{"linucb", "linucb tuned", "epsilon-greedy", "epsilon-greedy tuned", "uniform"}; !slices.Equal(names, want) {
		t.Errorf("policies %q, want %q", names, want)
	}
	if !slices.Equal([]string{x.Environments[0].Name, x.Environments[1].Name}, []string{y.Environments[0].Name, y.Environments[1].Name}) || y.Horizon != 600 || y.Seed != 3 {
		t.Error("the rest of the spec is another")
	}
	if _, err := sim.Run(context.Background(), y, sim.Options{}); err != nil {
		t.Error(err)
	}
}

// TestFreshInstances: no replication of the tuning has the random numbers of one of the run.
func TestFreshInstances(t *testing.T) {
	x := parse(t, small)
	seen := map[string]bool{}
	for _, stream := range []string{"", "tune 1", "tune 2"} {
		y := x.Of(x.Policies, 4, stream)
		for r := range 4 {
			k := fmt.Sprint(y.Key(r + 1))
			if seen[k] {
				t.Errorf("stream %q, replication %d has the key of another", stream, r+1)
			}
			seen[k] = true
		}
	}
}

// TestRefused: what cannot be tuned is refused by name before a round is played.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"value = [0.05, 0.2, 1.0, 4.0]", "value = [-1.0, 0.2]", "scale.value is -1, expected a positive number"},
		{"tune = { scale = { kind = \"beta\", value = [0.05, 0.2, 1.0, 4.0] } }", "tune = { scael = [1.0, 2.0] }", `unknown key "scael"; did you mean "scale"?`},
		{"tune = { scale = { kind = \"beta\", value = [0.05, 0.2, 1.0, 4.0] } }", "tune = { scale = [1.0] }", "has one combination"},
		{"epsilon = [0.02, 0.5, 0.9]", "epsilon = [0.02, 0.5, 2.0]", "epsilon is 2"},
	} {
		_, err := Run(context.Background(), parse(t, strings.Replace(small, c.from, c.to, 1)), Options{Replications: 72})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.to, err, c.want)
		}
	}
	if _, err := Run(context.Background(), parse(t, small), Options{Replications: 20}); err == nil || !strings.Contains(err.Error(), `policy "linucb": a grid of 4 points needs at least 16 replications`) && !strings.Contains(err.Error(), `policy "epsilon-greedy": a grid of 6 points`) {
		t.Errorf("error %v", err)
	}
	none := small[:strings.Index(small, "[[policy]]")] + "[[policy]]\nkind = 'uniform'\n"
	if _, err := Run(context.Background(), parse(t, none), Options{}); err == nil || !strings.Contains(err.Error(), "no policy or agent of small has a grid") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := Run(ctx, parse(t, small), Options{Replications: 72}); err != sim.ErrInterrupted || r != nil {
		t.Errorf("interrupted: %v, %v", r, err)
	}
}

// TestAgain: values of an earlier tuning are replaced and keep their policy's name; what a spec says
// beside its tables stays.
func TestAgain(t *testing.T) {
	x := parse(t, `name = "again"
seed = 3
horizon = 100
replications = 4
until = "settled"
[[environment]]
name = "arms"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 6 }
[[policy]]
kind = "ts"
[[policy]]
name = "ts tuned"
kind = "ts"
scale = { kind = "constant", value = 7.0 }
tune = { scale = { kind = "constant", value = [0.3, 0.6] } }
tuned = "long ago"
`)
	r, err := Run(context.Background(), x, Options{Replications: 12, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Spec("again-tuned")
	if err != nil {
		t.Fatal(err)
	}
	y := parse(t, text)
	if len(y.Policies) != 2 || y.Policies[0].Name != "ts" || y.Policies[1].Name != "ts tuned" || y.Policies[1].Tuned != r.From(&r.Policies[0]) || strings.Contains(text, "7.0") || !strings.Contains(text, `until = "settled"`) {
		t.Errorf("%d policies:\n%s", len(y.Policies), text)
	}
}

// The points that are open are the likeliest, up to 95 % of the resamples, and what the page shows counts them.
func TestOpen(t *testing.T) {
	x := parse(t, small)
	for _, c := range []struct {
		wins []float64
		want []int
	}{
		{[]float64{0.96, 0.04, 0}, []int{0}},
		{[]float64{0.3, 0.1, 0.6}, []int{2, 0, 1}},
		{[]float64{0.5, 0.05, 0.45}, []int{0, 2}},
	} {
		p := Policy{Points: make([]Point, len(c.wins))}
		for i, w := range c.wins {
			p.Points[i].Wins, p.Points[i].Stage = w, i
		}
		var got []int
		for _, q := range p.Open() {
			got = append(got, q.Stage)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %v are open %v, want %v", c.wins, got, c.want)
		}
		from := (&Result{Experiment: x, Replications: 9}).From(&p)
		if strings.HasSuffix(from, ", undecided among 3 points") != (len(c.want) > 2) {
			t.Errorf("%v: %s", c.wins, from)
		}
	}
}

// TestAgents: agents that play episodes are tuned like policies, the spec that is written has them, tuned beside as
// they were, and a second tuning replaces tuned values.
func TestAgents(t *testing.T) {
	const deep = `name = "deep"
seed = 3
horizon = 100
[[environment]]
kind = "deep-sea"
size = 6
[[agent]]
kind = "atoms"
m = 8
tune = { prior = [0.001, 1.0] }
[[agent]]
kind = "uniform"
`
	x := parse(t, deep)
	r, err := Run(t.Context(), x, Options{Replications: 40})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Policies[0].Winner().Case.Table["prior"]); got != "1" {
		t.Errorf("prior %s won; with .001 an atom hopes for nothing", got)
	}
	text, err := r.Spec("deep-tuned")
	if err != nil {
		t.Fatal(err)
	}
	y := parse(t, text)
	var names []string
	for _, p := range y.Policies {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, ", "); got != "atoms, atoms tuned, uniform" {
		t.Errorf("the spec that was written has %s:\n%s", got, text)
	}
	if y.Policies[1].Tuned == "" || !strings.Contains(y.Policies[1].Tuned, "replications of 100 episodes") {
		t.Errorf("tuned = %q", y.Policies[1].Tuned)
	}
	again := strings.Replace(text, `name = "atoms tuned"`, "name = \"atoms tuned\"\ntune = { prior = [0.5, 1.0] }", 1)
	r, err = Run(t.Context(), parse(t, again), Options{Replications: 40})
	if err != nil {
		t.Fatal(err)
	}
	if text, err = r.Spec("deep-tuned"); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "[[agent]]"); n != 3 {
		t.Errorf("tuned again, the spec has %d agents, expected 3:\n%s", n, text)
	}
}
