package sim

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"troupe/shards"
)

const sweepSpec = `horizon = 300
seed = 7
replications = 3

[[environment]]
name = "w"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 6 }

[[policy]]
kind = "ensemble"
m = 4

[[policy]]
kind = "linucb"
`

// sweptRun plays a spec and returns its outcome and the lines of results.csv.
func sweptRun(t *testing.T, text, dir string) (*Outcome, []string) {
	t.Helper()
	x, err := Parse("s.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(context.Background(), x, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return out, strings.Split(strings.TrimSpace(string(out.Results)), "\n")[1:]
}

// under returns the lines of an environment, without its name.
func under(lines []string, env string) []string {
	var out []string
	for _, l := range lines {
		l = strings.ReplaceAll(l, `"`, "")
		if rest, ok := strings.CutPrefix(l, env+","); ok {
			out = append(out, rest)
		}
	}
	return out
}

// Each value of a swept horizon, seed or feedback has the numbers of a run with that value.
func TestSweepsBesideOptions(t *testing.T) {
	_, plain := sweptRun(t, sweepSpec, "")
	for _, c := range []struct{ name, old, swept, value, env string }{
		{"horizon", "horizon = 300", "horizon = [40, 300]", "horizon = 40", "w(horizon=40)"},
		{"seed", "seed = 7", "seed = [7, 8]", "seed = 8", "w(seed=8)"},
		{"feedback", "d = 3", "d = 3\nfeedback = { batch = [1, 20] }", "d = 3\nfeedback = { batch = 20 }", "w(batch=20)"},
		{"delay", "d = 3", `d = 3` + "\n" + `feedback = [{ batch = 1 }, { delay = { kind = "fixed", rounds = [4, 9] } }]`,
			"d = 3\n" + `feedback = { delay = { kind = "fixed", rounds = 9 } }`, "w(feedback=delay fixed(rounds=9))"},
		{"own", "d = 3", "d = 3\nhorizon = [40, 300]\nseed = 8", "d = 3\nhorizon = 40\nseed = 8", "w(horizon=40)"},
	} {
		_, swept := sweptRun(t, strings.Replace(sweepSpec, c.old, c.swept, 1), "")
		_, alone := sweptRun(t, strings.Replace(sweepSpec, c.old, c.value, 1), "")
		got, want := under(swept, c.env), under(alone, "w")
		if len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %d lines of %s, a run alone has %d and they are not the same", c.name, len(got), c.env, len(want))
		}
		if slices.Equal(want, under(plain, "w")) {
			t.Errorf("%s: the value makes no difference", c.name)
		}
	}
}

// A run with horizons of its own goes on, is divided, merged and replayed to the same bytes, and a longer one begins where
// a shorter one of the same run ends.
func TestSweptHorizonFiles(t *testing.T) {
	text := strings.Replace(sweepSpec, "horizon = 300", "horizon = [40, 300]", 1)
	whole, _ := sweptRun(t, text, "")
	dir := t.TempDir()
	sweptRun(t, strings.Replace(sweepSpec, "horizon = 300", "horizon = [40]", 1), dir)
	grown, _ := sweptRun(t, text, dir)
	if !bytes.Equal(grown.Results, whole.Results) {
		t.Error("another horizon added to a directory gives other bytes")
	}
	if m := grown.Manifest; m.Horizon != 300 || m.Environments[0].Horizon != 40 || m.Environments[1].Horizon != 300 {
		t.Errorf("%d, %+v", m.Horizon, m.Environments)
	}
	again, _ := sweptRun(t, text, dir)
	if again.Played != 0 {
		t.Errorf("%d cells were played again", again.Played)
	}
	x, err := Parse("s.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	parts := t.TempDir()
	for n := 1; n <= 2; n++ {
		if _, err := Run(context.Background(), x, Options{Dir: parts, Shard: shards.Part{Index: n, Of: 2}}); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := Merge(context.Background(), MergeOptions{Sources: []string{parts}, Dir: parts, Kinds: Kinds()})
	if err != nil || !bytes.Equal(merged.Outcome.Results, whole.Results) {
		t.Errorf("merged parts have other bytes: %v", err)
	}
	rows, err := Replay(context.Background(), x, 0, 1, 2, Options{})
	if err != nil || rows[len(rows)-1].Round != 40 {
		t.Errorf("replay: %v, %v", rows, err)
	}
}

// A data file can be swept.
func TestSweptData(t *testing.T) {
	text := "horizon = 20\nreplications = 1\n[[environment]]\nkind = \"classification\"\ndata = [\"a.csv\", \"b.csv\"]\n" +
		"[[policy]]\nkind = \"uniform\"\n"
	x, err := Parse("s.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Environments) != 2 || x.Environments[1].Name != "classification(data=b.csv)" {
		t.Errorf("%+v", x.Environments)
	}
}

// zip plays first values with first ones; what does not fit is an error at its place.
func TestZip(t *testing.T) {
	zip := strings.Replace(sweepSpec, "m = 4", "m = [2, 4, 8]\nscale = [0.5, 0.7, 1.0]\nlambda = [1.0, 2.0]\nzip = [\"m\", \"scale\"]", 1)
	x, err := Parse("s.toml", zip, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range x.Policies {
		names = append(names, c.Name)
	}
	want := []string{"ensemble(m=2, scale=0.5, lambda=1)", "ensemble(m=2, scale=0.5, lambda=2)", "ensemble(m=4, scale=0.7, lambda=1)",
		"ensemble(m=4, scale=0.7, lambda=2)", "ensemble(m=8, scale=1, lambda=1)", "ensemble(m=8, scale=1, lambda=2)", "linucb"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	env := strings.Replace(sweepSpec, "d = 3", "d = [3, 5]\nhorizon = [40, 90]\nzip = [\"d\", \"horizon\"]", 1)
	if x, err = Parse("s.toml", env, Kinds()); err != nil || len(x.Environments) != 2 || x.HorizonOf(1) != 90 || x.Horizon != 90 {
		t.Errorf("%v, %+v", err, x)
	}
	for _, c := range []struct{ old, new, want string }{
		{"[0.5, 0.7, 1.0]", "[0.5, 0.7]", "s.toml:14:1: scale has 2 values, and m has 3: sweeps in zip have the same number"},
		{`["m", "scale"]`, `["m", "scal"]`, `s.toml:16:13: zip[1] is "scal", which is no sweep of this table`},
		{`["m", "scale"]`, `["m", "kind"]`, `s.toml:16:13: zip[1] is "kind", which is no sweep of this table`},
		{`["m", "scale"]`, `["m"]`, `s.toml:16:1: zip is a list of 1, expected a list of two sweeps or more`},
		{`["m", "scale"]`, `["m", "m"]`, `s.toml:16:13: zip[1] is "m", which stands in zip already`},
		{`["m", "scale"]`, `[["m", "scale"], ["lambda", "m"]]`, `s.toml:16:35: zip[1][1] is "m", which stands in zip already`},
		{`["m", "scale"]`, `"m"`, `s.toml:16:1: zip is the string "m", expected a list of sweeps`},
		{`["m", "scale"]`, `["m", 3]`, `s.toml:16:13: zip[1] is 3, expected the name of a sweep`},
		{"horizon = 300", "horizon = [300, 0]", "s.toml:1:17: horizon[1] is 0, expected a whole number from 1 to"},
		{"horizon = 300", "horizon = []", "s.toml:1:1: horizon is an empty list"},
		{"horizon = 300", "horizon = [300, 300]", "s.toml:1:17: horizon[1] is 300, which stands in the list already"},
		{"seed = 7", "seed = [7, 1.5]", "s.toml:2:12: seed[1] is 1.5, expected a whole number"},
		{"d = 3", "d = 3\nhorizon = \"x\"", "s.toml:9:1: horizon is the string \"x\", expected a whole number"},
		{"d = 3", "d = 3\nfeedback = [{ batch = 2 }, 3]", "s.toml:9:1: feedback is 3, expected a table"},
		{"d = 3", "d = 3\nfeedback = { batch = [2, -1] }", "s.toml:9:14: feedback.batch is -1, expected at least 1"},
	} {
		_, err := Parse("s.toml", strings.Replace(zip, c.old, c.new, 1), Kinds())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.new, err, c.want)
		}
	}
}
