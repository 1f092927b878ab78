package playground

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/rng"
	"troupe/sim"
	"troupe/spec"
)

// setups are games of every kind of policy, set, noise and change.
var setups = []string{
	"seed=1&theta=0.6,0.3&arms=6&sigma=0.5&rounds=120&p=ensemble,m=16&p=atoms,m=4,scale=0.7&p=ts&p=linucb",
	"seed=7&theta=-0.2,0.9&arms=0&sigma=1&rounds=80&p=ensemble,m=1&p=ensemble,m=8,lambda=2,scale=0.3&p=linucb&p=greedy",
	"seed=3&theta=0.5,-0.5&arms=8&redraw=1&clicks=1&rounds=90&p=epsilon-greedy&p=atoms,change=restarts&p=linucb,scale=0.4,change=restarts&p=ts,scale=2",
	"seed=9&theta=0.5,0.4&arms=2&sigma=1&rounds=60&p=ats&p=ats,m=8,scale=1&p=ats,m=3,lambda=2&p=linucb",
	"seed=12&theta=0.8,0&from=40&later=-0.8,0.1&arms=5&sigma=0.3&rounds=150&p=greedy&p=linucb,change=restarts&p=ensemble&p=atoms",
}

func setupOf(t *testing.T, link string) Setup {
	t.Helper()
	s, err := ParseLink(link)
	if err != nil {
		t.Fatal(link, err)
	}
	return s.Setup
}

// traceOf plays a whole game.
func traceOf(t *testing.T, s Setup) string {
	t.Helper()
	g, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for {
		b.WriteString(g.Trace())
		if g.T() == s.Rounds {
			return b.String()
		}
		if err := g.Step(); err != nil {
			t.Fatal(err)
		}
	}
}

// watcher writes the trace of a cell that package sim plays.
type watcher struct {
	bandit.Policy
	player      int
	law         bandit.Law
	x           *bandit.Action
	lines       []string
	regret, sum float64
}

func (w *watcher) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if p, ok := w.Policy.(bandit.Prober); ok {
		if err := p.Prob(&w.law, set, draw); err != nil {
			return err
		}
	}
	w.x = dst
	return w.Policy.Select(dst, set, draw)
}

func (w *watcher) Round(t int, regret, reward float64) error {
	w.regret += regret
	w.sum += reward
	prober, _ := w.Policy.(bandit.Prober)
	w.lines = append(w.lines, fmt.Sprintf("%d,%d,%s,%s,%s,%s\n", t, w.player+1, Vector(w.x.X), LawText(prober, &w.law),
		number(w.regret), number(w.sum)))
	return nil
}

// TestSameAsRun: the spec of a setup, played by package sim, has the actions, the propensities and the regret of the
// playground in every round; and results.csv of troupe run has its sums, byte for byte.
func TestSameAsRun(t *testing.T) {
	for _, link := range append(setups, sceneLinks()...) {
		s := setupOf(t, link)
		if s.Rounds > 150 {
			s.Rounds = 150
		}
		var all strings.Builder
		for i := range s.Rounds {
			fmt.Fprintf(&all, "%d, ", i+1)
		}
		x, err := sim.Parse("playground.toml", strings.Replace(s.Spec(), "\n", "\ncheckpoints = ["+all.String()+"]\n", 1),
			sim.Kinds())
		if err != nil {
			t.Fatalf("%s\n%s", err, s.Spec())
		}
		if !reflect.DeepEqual(textOf(x.Environments[0].Options), textOf(s.environment())) {
			t.Errorf("%s: the spec has the environment %v, the game %v", link, textOf(x.Environments[0].Options), textOf(s.environment()))
		}
		got := strings.SplitAfter(traceOf(t, s), "\n")
		want := make([]string, len(got))
		for i, p := range x.Policies {
			k, _ := s.Players[i].kind()
			if !reflect.DeepEqual(p.Options, k.make(s.Players[i])) {
				t.Errorf("%s: the spec has the policy %+v, the game %+v", link, p.Options, k.make(s.Players[i]))
			}
			w := watch(t, x, s, i)
			for r, line := range w.lines {
				want[r*len(x.Policies)+i] = line
			}
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: the playground has\n%s, the simulator\n%s", link, got[i], want[i])
			}
		}
		compareResults(t, x, got)
	}
}

// watch plays policy i of a spec with the loop of package sim.
func watch(t *testing.T, x *sim.Experiment, s Setup, i int) *watcher {
	t.Helper()
	key := x.Key(1)
	world, err := x.Environments[0].Options.Build(key, &dataset.Source{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{Policy: g.seats[i].player, player: i} // before its first update
	if err := sim.Play(world, w, key, s.Rounds, w); err != nil {
		t.Fatal(err)
	}
	return w
}

func textOf(v any) string { return fmt.Sprintf("%+v", reflect.ValueOf(v).Elem().Interface()) }

// compareResults runs the spec and compares results.csv with the sums of a trace.
func compareResults(t *testing.T, x *sim.Experiment, trace []string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := sim.Run(context.Background(), x, sim.Options{Dir: dir, Workers: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, sim.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	fmt.Fprintln(&want, sim.ResultsHeader)
	n := len(x.Policies)
	for i, p := range x.Policies {
		for r := range x.Horizon {
			f := strings.Split(strings.TrimSpace(trace[r*n+i]), ",")
			name := p.Name
			if strings.Contains(name, ",") {
				name = `"` + name + `"`
			}
			fmt.Fprintf(&want, "%s,%s,1,%d,%s,%s\n", x.Environments[0].Name, name, r+1, f[4], f[5])
		}
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("results.csv begins\n%.400s\nthe playground has\n%.400s", got, want.Bytes())
	}
}

// TestLinks: a state survives its link, and what a link may not say is refused by name.
func TestLinks(t *testing.T) {
	for _, link := range append(setups, sceneLinks()...) {
		s, err := ParseLink(link)
		if err != nil {
			t.Fatal(link, err)
		}
		again, err := ParseLink(s.Link())
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%s became %s: %v", link, s.Link(), err)
		}
	}
	for link, want := range map[string]string{
		"":                     `link is "", expected key=value`,
		"seed=1&seed=2":        `link: has the key "seed" twice`,
		"sed=1":                `link: has the key "sed"; did you mean "seed"?`,
		"seed=-1":              "seed is -1, expected a whole number of at least 0",
		"seed=1.5":             `seed is "1.5", expected a whole number`,
		"theta=1":              `theta is "1", expected two numbers with a comma between them`,
		"theta=1,1":            "theta is [1 1], expected a point of the unit disc",
		"theta=NaN,0":          `theta is "NaN", expected a number`,
		"from=3&later=2,0":     "later is [2 0], expected a point of the unit disc",
		"from=1":               "from is 1, expected a round from 2 to 5000, or 0 for none",
		"arms=9":               "arms is 9, expected 2 to 8, or 0 for the unit disc",
		"arms=0&redraw=1":      "redraw is \"1\", expected arms",
		"redraw=yes":           `redraw is "yes", expected 0 or 1`,
		"sigma=0":              "sigma is 0, expected a number from 0.01 to 10",
		"sigma=Inf":            `sigma is "Inf", expected a number`,
		"rounds=5001":          "rounds is 5001, expected 1 to 5000",
		"t=0":                  "t is 0, expected a round from 1 to 500",
		"look=2":               "look is 2, expected a policy from 1 to 1",
		"p=oracle":             `p is "oracle", expected one of ensemble, atoms`,
		"p=ensemble,m=65":      "m is 65, expected 1 to 64, or 0 for the default",
		"p=greedy,m=2":         "m is 2, but greedy has no members",
		"p=greedy,scale=2":     "scale is 2, but greedy has no scale",
		"p=ts,change=restarts": `change is "restarts", but ts has no restarts`,
		"p=ts,change=none":     `change is "none", expected restarts`,
		"p=ts,lambda=-1":       "lambda is -1, expected a number from 0.001 to 1000",
		"p=ts,size=3":          `p: has the key "size"`,
		"p=ts&p=ts":            "p: names ts twice, expected policies that differ",
		"p=ts,m":               `p is "ts,m", expected a kind and m=`,
		"p=ts&p=ts,scale=1&p=ts,scale=2&p=ts,scale=3&p=ts,scale=4": "p: names 5 policies, expected 1 to 4",
		"seed=" + strings.Repeat("0", 3000):                        "link: has 3005 bytes, expected at most 2000",
	} {
		_, err := ParseLink(link)
		if bad, ok := err.(*spec.Error); !ok || !strings.Contains(bad.Error(), want) {
			t.Errorf("%q: %v, expected %s", link, err, want)
		}
	}
}
