package experiments

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"troupe/sim"
	"troupe/spec"
)

// Every embedded experiment decodes, goes by the name of its file, and says in a line what it is
// about. The paper's own experiments are there.
func TestExperiments(t *testing.T) {
	have := make(map[string]bool)
	for _, e := range All() {
		x, err := sim.Parse(e.File, e.Text, sim.Kinds())
		if err != nil {
			t.Error(err)
			continue
		}
		if x.Name != e.Name || file(e.Name) != e.File {
			t.Errorf("%s: the experiment is called %q, whose file would be %s", e.File, e.Name, file(e.Name))
		}
		if have[e.Name] {
			t.Errorf("two experiments are called %q", e.Name)
		}
		have[e.Name] = true
		if !strings.HasPrefix(e.Text, "# ") || e.Doc == "" || utf8.RuneCountInString(e.Doc) > 52 {
			t.Errorf("%s: the first line says %q, want a comment of at most 52 characters", e.File, e.Doc)
		}
		if found, ok := Find(e.Name); !ok || found != e {
			t.Errorf("Find(%q) = %v, %v", e.Name, found.File, ok)
		}
	}
	for _, name := range []string{"default", "tour", "paper/ensemble-size", "paper/dimension", "paper/horizon",
		"paper/symmetrisation", "paper/targets", "paper/initialisation", "paper/random-or-max",
		"paper/perturbation-scale", "paper/action-sets", "paper/theorem", "paper/theorem-large",
		"paper/regret-in-m", "paper/regret-in-m-ball", "paper/price-of-few", "classification/mushroom",
		"classification/shuttle", "classification/letter", "classification/pendigits",
		"sparse/letter-pairs", "sparse/pendigits-pairs", "sparse/mushroom-pairs", "sparse/correlated", "sparse/vw", "clicks/which", "paper/phase", "paper/phase-ball", "paper/finite-horizon", "paper/inflation", "paper/inflation-long", "paper/inflation-beta", "paper/inflation-arms", "paper/inflation-unit", "paper/inflation-random", "drift", "beyond/budget", "beyond/change"} {
		if !have[name] {
			t.Errorf("no experiment %s", name)
		}
	}
	for _, name := range []string{"paper/theorem", "paper/theorem-large", "paper/regret-in-m", "paper/regret-in-m-ball",
		"paper/symmetrisation", "paper/random-or-max", "paper/targets", "paper/price-of-few", "clicks/which", "paper/phase", "paper/phase-ball",
		"paper/finite-horizon", "paper/inflation", "paper/inflation-long", "paper/inflation-beta", "paper/inflation-arms", "paper/inflation-unit", "paper/inflation-random", "beyond/budget"} {
		e, _ := Find(name)
		if x, err := sim.Parse(e.File, e.Text, sim.Kinds()); err != nil || x.Hypothesis == "" {
			t.Errorf("%s answers a question without a hypothesis (%v)", name, err)
		}
	}
	if _, ok := Find("nothing"); ok {
		t.Error("Find finds nothing")
	}
}

// No experiment compares numbers for an accumulated ensemble in the trap: m < d, or members that
// start at zero, on a set that is not finite. What a simulation shows there is rounding. The
// library warns of it, so an experiment that stays out has no such warning when it starts.
func TestNoTrap(t *testing.T) {
	for _, e := range All() {
		if dir := path.Dir(e.File); dir == "classification" || dir == "sparse" {
			continue // finite sets, and files that need not be here
		}
		for key, value := range map[string]string{"replications": "1", "horizon": "1"} {
			var err error
			if e.Text, err = spec.Override(e.File, e.Text, key, value); err != nil {
				t.Fatal(err)
			}
		}
		x, err := sim.Parse(e.File, e.Text, sim.Kinds())
		if err != nil {
			t.Error(err)
			continue
		}
		_, err = sim.Run(t.Context(), x, sim.Options{Note: func(note string) {
			if strings.Contains(note, "span of") {
				t.Errorf("%s: %s", e.File, note)
			}
		}})
		if err != nil {
			t.Error(err)
		}
	}
}

// The rule of the package comment has no exceptions on disk: every file here is embedded.
func TestEveryFileIsEmbedded(t *testing.T) {
	embedded := make(map[string]bool)
	for _, e := range All() {
		embedded[e.File] = true
	}
	for _, dir := range []string{".", "beyond", "classification", "sparse"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := path.Join(dir, e.Name()); strings.HasSuffix(name, ".toml") && !embedded[name] {
				t.Errorf("%s is not embedded", name)
			}
		}
	}
}

// edges says which values of a tuned policy are the first or last of its grid, in the words of troupe tune.
func edges(grid []sim.PolicyCase, p sim.PolicyCase) []string {
	tried := make(map[string][]float64)
	for _, c := range grid {
		for _, v := range c.Chosen() {
			if at, ok := spec.Number(v.Value); ok {
				tried[v.Key] = append(tried[v.Key], at)
			}
		}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(tried)) {
		var value any = p.Table
		for part := range strings.SplitSeq(key, ".") {
			if in, ok := value.(spec.Raw); ok {
				value = in[part]
			}
		}
		at, _ := spec.Number(value)
		switch lo, hi := slices.Min(tried[key]), slices.Max(tried[key]); {
		case lo == hi:
		case at == lo:
			out = append(out, fmt.Sprintf("%s = %v is the smallest value tried", key, at))
		case at == hi:
			out = append(out, fmt.Sprintf("%s = %v is the largest value tried", key, at))
		}
	}
	return out
}

// What ranks policies ranks tuned ones: in an experiment with policies of several kinds, each kind that has something to
// tune stands there with tuned values, or the comment says why not. Where tuned values come from can be run: the experiment
// that it names exists, and values beside their grid are on it.
func TestTuned(t *testing.T) {
	nothing := map[string]bool{"auto": true, "uniform": true, "greedy": true} // what these have is not a constant of exploration
	for _, e := range All() {
		x, err := sim.Parse(e.File, e.Text, sim.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		kinds, tuned := make(map[string]bool), make(map[string]bool)
		for i, p := range x.Policies {
			kinds[p.Kind] = true
			if p.Tuned == "" {
				continue
			}
			tuned[p.Kind] = true
			from, _, _ := strings.Cut(strings.TrimPrefix(p.Tuned, "troupe tune "), ":")
			name, _, _ := strings.Cut(from, " ")
			if _, ok := Find(name); !ok {
				t.Errorf("%s: %s is tuned by %q, which is no experiment", e.Name, p.Name, name)
			}
			if p.Tune == nil {
				continue
			}
			grid, err := x.Grid(i)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(grid, func(c sim.PolicyCase) bool {
				return !slices.ContainsFunc(slices.Collect(maps.Keys(p.Tune)), func(k string) bool { return fmt.Sprint(c.Table[k]) != fmt.Sprint(p.Table[k]) })
			}) {
				t.Errorf("%s: the values of %s are not on its grid", e.Name, p.Name)
			}
			for _, edge := range edges(grid, p) {
				if !strings.Contains(p.Tuned, edge+", so the best may lie outside") {
					t.Errorf("%s: %s: the page does not warn that %s", e.Name, p.Name, edge)
				}
			}
		}
		if len(kinds) < 2 || strings.Contains(e.Text, "\n# Not tuned: ") {
			continue
		}
		for k := range kinds {
			if !nothing[k] && !tuned[k] {
				t.Errorf("%s ranks %s without tuned values, and does not say why (# Not tuned: …)", e.Name, k)
			}
		}
	}
}
