package policy

import (
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// A warning where constant scale, few members, few arms and a known long horizon meet, and in no
// other case: each condition alone is taken away.
func TestFewWarning(t *testing.T) {
	set, err := actionset.NewFinite([][]float64{{1, 0}, {0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	long := Problem{Dim: 2, Horizon: 30_000, Arms: 2, Init: rng.NewKey(1).Stream(rng.Init)}
	short, unknown, many := long, long, long
	short.Horizon, unknown.Horizon, many.Arms = 300, 0, 100
	beta := Scale{Kind: "beta", Value: 1}
	for _, c := range []struct {
		name  string
		o     Options
		p     Problem
		warns bool
	}{
		{"ensemble", &EnsembleOptions{M: 8, Lambda: 0.1}, long, true},
		{"ensemble, prior", &EnsembleOptions{M: 8, Lambda: 0.1, Targets: "gaussian", Init: "prior"}, long, true},
		{"ensemble, many members", &EnsembleOptions{M: 4096, Lambda: 0.1}, long, false},
		{"ensemble, beta", &EnsembleOptions{M: 8, Lambda: 0.1, Scale: beta}, long, false},
		{"ensemble, short", &EnsembleOptions{M: 8, Lambda: 0.1}, short, false},
		{"ensemble, unknown horizon", &EnsembleOptions{M: 8, Lambda: 0.1}, unknown, false},
		{"ensemble, many arms", &EnsembleOptions{M: 8, Lambda: 0.1}, many, false},
		{"epoch", &AtomsOptions{M: 8, Lambda: 0.1, Key: "epoch"}, long, true},
		{"fixed", &AtomsOptions{M: 8, Lambda: 0.1, Key: "fixed"}, long, true},
		{"epoch, many members", &AtomsOptions{M: 4096, Lambda: 0.1, Key: "epoch"}, long, false},
		{"epoch, beta", &AtomsOptions{M: 8, Lambda: 0.1, Key: "epoch", Scale: beta}, long, false},
		{"decision", &AtomsOptions{M: 8, Lambda: 0.1}, long, false},
	} {
		p, err := c.o.New(c.p)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(p.(bandit.Warner).Warnings(set), "\n")
		if strings.Contains(got, "thm:few") != c.warns {
			t.Errorf("%s: warnings %q, expected one: %v", c.name, got, c.warns)
		}
	}
}
