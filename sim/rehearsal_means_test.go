package sim

import (
	"fmt"
	"strings"
	"testing"
)

// TestFewMembersAreNoted: a run says which of its ensembles will lose runs, from the spec's own means, noise and λ. The first two are instances that were
// played: with means (2.3, 2.0), λ = 1, noise 1 and m = 19, 34 of 200 runs were lost, and at λ = 0.1 6 of 200. The others: the law (theory.Few.LostAmong)
// times T·Δ against (1 + r²) Σ log T/Δ/2, 34 for a gap of 0.3 and T = 30,000, worked out beside each.
func TestFewMembersAreNoted(t *testing.T) {
	const spec = `
name = "x"
horizon = %d
replications = 1
[[environment]]
name = "arms"
kind = "linear"
%s
[[policy]]
name = "few"
kind = "ensemble"
targets = "gaussian"
init = "prior"
%s
`
	two := func(a, b float64) string {
		return fmt.Sprintf("d = 2\ntheta = \"given\"\nvalue = [%v, %v]\nset = { kind = \"basis\" }\n", a, b)
	}
	for _, c := range []struct {
		name, env, policy string
		rounds            int
		want              string
	}{
		{"level 2, λ = 1", two(2.3, 2), "m = 19\nlambda = 1.0", 30_000, "about 16%"},
		{"level 2, λ = 0.1", two(2.3, 2), "m = 19\nlambda = 0.1", 30_000, "about 2.1%"},
		{"level 0, λ = 1, .0036·9000 = 32", two(0.3, 0), "m = 32\nlambda = 1.0", 30_000, ""},
		{"level 0, λ = 0.1, .0098·9000 = 88", two(0, 0.3), "m = 32\nlambda = 0.1", 30_000, "about 0.9"},
		{"a level of −2 is a credit", two(-1.7, -2), "m = 16\nlambda = 1.0", 30_000, ""},
		{"click rates .55 and .5", two(0.55, 0.5) + "noise = { kind = \"bernoulli\", values = \"zero-one\" }\n", "m = 16\nlambda = 1.0", 30_000, "centre the rewards"},
		{"click rates, seven times the members", two(0.65, 0.5) + "noise = { kind = \"bernoulli\", values = \"zero-one\" }\n", "m = 500\nlambda = 1.0", 30_000, ""},
		{"ratings 4.2 and 4", two(4.2, 4), "m = 64\nlambda = 0.5", 30_000, "about"},
		{"half of the noise", two(0.15, 0) + "noise = { kind = \"gaussian\", sigma = 0.5 }\n", "m = 16\nlambda = 0.1", 30_000, "about 1.8%"},
		{"three arms, the second counts", "d = 3\ntheta = \"given\"\nvalue = [2.3, -5.0, 2.0]\nset = { kind = \"basis\" }\n", "m = 19\nlambda = 1.0", 30_000, "centre the rewards"},
		{"β_t", two(2.3, 2), "m = 19\nlambda = 1.0\nscale = { kind = \"beta\", value = 1.0 }", 30_000, ""},
		{"a drift", two(2.3, 2) + "drift = 0.001\n", "m = 19\nlambda = 1.0", 30_000, "some runs may never"},
		{"a ball", "d = 2\n", "m = 19\nlambda = 1.0", 30_000, ""},
		{"too early", two(2.3, 2), "m = 19\nlambda = 1.0", 1000, ""},
	} {
		x := parseReal(t, fmt.Sprintf(spec, c.rounds, c.env, c.policy))
		said := strings.Join(run(t, x, Options{}).Manifest.Notes, "\n")
		if got := strings.Contains(said, "few frozen members"); got != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: notes %q, want %q", c.name, said, c.want)
		}
	}
	// Drawn means: the share is that of the replications' own instances, and the arms of a set that is not orthogonal are not known.
	for set, want := range map[string]bool{`{ kind = "basis" }`: true, `{ kind = "random-sphere", arms = 2 }`: false} {
		env := "d = 2\ntheta = \"gaussian\"\nsigma_theta = 3.0\nset = " + set + "\n"
		x := parseReal(t, strings.Replace(fmt.Sprintf(spec, 2000, env, "m = 2\nlambda = 1.0"), "replications = 1", "replications = 8", 1))
		said := strings.Join(run(t, x, Options{}).Manifest.Notes, "\n")
		if got := strings.Contains(said, "% of the runs"); got != want {
			t.Errorf("%s: notes %q, want a share: %v", set, said, want)
		}
	}
}
