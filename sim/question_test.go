package sim

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

const questionSpec = `horizon = 100
replications = 2
estimand = "lost"

[[claim]]
less = "ts"
than = "greedy"
times = 0.5
environment = "ball"

[[environment]]
name = "ball"
kind = "linear"
d = 2
set = { kind = "ball" }

[[policy]]
kind = "ts"

[[policy]]
kind = "greedy"
`

// What is asked is part of the experiment, and of no cell: the same numbers under every estimand, another identity, and a
// directory that is not continued under another question.
func TestQuestion(t *testing.T) {
	play := func(text, dir string, force bool) (*Outcome, error) {
		x, err := Parse("q.toml", text, Kinds())
		if err != nil {
			t.Fatal(err)
		}
		return Run(context.Background(), x, Options{Dir: dir, Force: force})
	}
	dir := t.TempDir()
	lost, err := play(questionSpec, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	claim := Claim{Less: "ts", Than: "greedy", Times: 0.5, Environment: "ball"}
	if m := lost.Manifest; m.Estimand != "lost" || len(m.Claims) != 1 || m.Claims[0] != claim || m.Restated {
		t.Errorf("the manifest has %q, %v, %v", m.Estimand, m.Claims, m.Restated)
	}
	head, rest, _ := strings.Cut(questionSpec, "estimand")
	_, rest, _ = strings.Cut(rest, "\n\n[[environment]]")
	plain := head + "\n[[environment]]" + rest
	mean, err := play(plain, "", false)
	if err != nil || !bytes.Equal(mean.Results, lost.Results) || mean.Manifest.Identity == lost.Manifest.Identity {
		t.Errorf("other numbers or one identity: %v", err)
	}
	if again, _ := play(strings.Replace(plain, "horizon", "estimand = \"mean\"\nhorizon", 1), "", false); again.Manifest.Identity != mean.Manifest.Identity {
		t.Error("the default written out is another experiment")
	}
	var refused *DirError
	if _, err := play(plain, dir, false); !errors.As(err, &refused) || !strings.Contains(refused.Why, "another estimand or other claims") {
		t.Errorf("continued under another question: %v", err)
	}
	forced, err := play(plain, dir, true)
	if err != nil || forced.Reused != 4 || !forced.Manifest.Restated {
		t.Errorf("with force: %v, %+v", err, forced)
	}
}

// Questions that cannot be asked are errors at their place.
func TestQuestionFaults(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"lost"`, `"mode"`, `q.toml:3:1: estimand is "mode"; expected one of cvar-5, lost, mean, median`},
		{`"lost"`, `"lots"`, `q.toml:3:1: estimand is "lots"; did you mean "lost"?`},
		{`"lost"`, `""`, `q.toml:3:1: estimand is ""`},
		{`"lost"`, "\"lost\"\ncheckpoints = [10]", "q.toml:3:1: estimand is \"lost\", which needs a checkpoint near half the horizon, from 42 to 60"},
		{`"lost"`, "\"lost\"\nuntil = \"settled\"", "q.toml:4:1: until is about means"},
		{`"lost"`, "\"lost\"\nreference = \"ts\"", "q.toml:4:1: reference compares means"},
		{`less = "ts"`, `less = "tss"`, `q.toml:6:1: less is "tss", which is no policy of this experiment; did you mean "ts"?`},
		{`less = "ts"`, "", `q.toml:5:3: less is missing`},
		{`less = "ts"`, `less = "greedy"`, `q.toml:7:1: than is "greedy", the policy itself`},
		{`times = 0.5`, `times = 0.0`, `q.toml:8:1: times is 0`},
		{`times = 0.5`, `times = inf`, `q.toml:8:1: times is +Inf`},
		{`times = 0.5`, `factor = 2`, `q.toml:8:1: unknown key "factor"`},
		{`environment = "ball"`, `environment = "bal"`, `q.toml:9:1: environment is "bal", which is no environment of this experiment; did you mean "ball"?`},
		{"[[claim]]", "[claim]", "q.toml:5:2: claim is a table, expected 1 to 100 tables [[claim]]"},
	} {
		_, err := Parse("q.toml", strings.Replace(questionSpec, c.old, c.new, 1), Kinds())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.new, err, c.want)
		}
	}
	rangeSpec := strings.Replace(questionSpec, "less = \"ts\"\nthan = \"greedy\"\ntimes = 0.5\n", "of = \"ts\"\nover = \"greedy\"\nfrom = 0.5\nto = 0.9\n", 1)
	x, err := Parse("q.toml", rangeSpec, Kinds())
	if want := (Claim{Of: "ts", Over: "greedy", From: 0.5, To: 0.9, Environment: "ball"}); err != nil || len(x.Claims) != 1 || x.Claims[0] != want {
		t.Errorf("a range: %v, %v", x, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{`of = "ts"`, `of = "tss"`, `q.toml:6:1: of is "tss", which is no policy of this experiment; did you mean "ts"?`},
		{`over = "greedy"`, `over = "greedyy"`, `q.toml:7:1: over is "greedyy", which is no policy`},
		{`over = "greedy"`, `over = "ts"`, "q.toml:5:3: the number of ts is divided by itself"},
		{`over = "greedy"`, `over_environment = "ball"`, "q.toml:5:3: the number of ts is divided by itself"},
		{`over = "greedy"`, `over_environment = "bal"`, `q.toml:7:1: over_environment is "bal", which is no environment`},
		{`over = "greedy"`, `measure = "slope"`, `q.toml:7:1: measure is "slope"; expected one of exponent, lost, rate, regret`},
		{`from = 0.5`, `measure = "lost"`, `q.toml:8:1: measure is "lost", which is not divided by anything`},
		{`from = 0.5`, `less = "ts"`, `q.toml:8:1: less is for a claim without of`},
		{`from = 0.5`, `times = 2`, `q.toml:8:1: times is for a claim without of`},
		{`from = 0.5`, `at = 0`, `q.toml:8:1: at is 0; leave the key out for its default, the horizon`},
		{`from = 0.5`, `per = 0`, `q.toml:8:1: per is 0, expected a positive number`},
		{`from = 0.5`, `per = nan`, `q.toml:8:1: per is NaN`},
		{`from = 0.5`, `from = inf`, `q.toml:8:1: from is +Inf`},
		{`to = 0.9`, `to = nan`, `q.toml:9:1: to is NaN`},
		{`to = 0.9`, `to = 0.4`, `q.toml:9:1: to is 0.4, expected at least from, which is 0.5`},
		{"from = 0.5\nto = 0.9\n", "", `q.toml:5:3: of = "ts" has no range: expected from, to, or both`},
	} {
		_, err := Parse("q.toml", strings.Replace(rangeSpec, c.old, c.new, 1), Kinds())
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.new, err, c.want)
		}
	}
	mixed := strings.Replace(questionSpec, "times = 0.5", "from = 0.5", 1)
	if _, err := Parse("q.toml", mixed, Kinds()); err == nil || !strings.HasPrefix(err.Error(), "q.toml:8:1: from is for a claim with of = POLICY") {
		t.Errorf("from beside less: %v", err)
	}
	twice := strings.Replace(questionSpec, "[[environment]]", "[[claim]]\nless = \"ts\"\nthan = \"greedy\"\ntimes = 0.5\nenvironment = \"ball\"\n[[environment]]", 1)
	if _, err := Parse("q.toml", twice, Kinds()); err == nil || !strings.HasPrefix(err.Error(), "q.toml:11:3: claim[1] is the same claim") {
		t.Errorf("a claim that stands twice: %v", err)
	}
}
