package ope

import (
	"context"
	"os"
	"strings"
	"testing"

	"troupe/internal/stats"
)

// plays returns how many runs are played: few, more with TROUPE_LONG, those of docs/record/evaluation.md with TROUPE_RECORD.
func plays(few, long, record int) int {
	switch {
	case os.Getenv("TROUPE_RECORD") != "":
		return record
	case os.Getenv("TROUPE_LONG") != "":
		return long
	}
	return few
}

// unlikely says that of n events of probability p at most, m happened, which chance does with a probability below level.
func unlikely(m, n int, p, level float64) bool {
	return m > 0 && 1-stats.BinomialCDF(m-1, n, p) < level
}

// TestCoverage: the sequences cover at least 95 %, also at every look, in every setting and in all of them together (exact
// binomial test at level 10⁻⁴ for each interval and setting, 10⁻⁵ together; seed 1). What the other intervals do is in
// docs/record/evaluation.md.
func TestCoverage(t *testing.T) {
	runs := plays(4, 16, 2000)
	together := map[string]int{}
	for _, s := range Settings {
		if runs < 100 {
			s.N /= 2
		}
		c, err := Coverage(context.Background(), s, runs, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"dr sequence", "ips sequence", "difference sequence", "any look", "ls lower", "ix lower"} {
			together[name] += c.Misses[name]
			if m := c.Misses[name]; unlikely(m, c.Runs, 0.05, 1e-4) {
				t.Errorf("%s: %s misses %d of %d", s.Name, name, m, c.Runs)
			}
		}
		if c.Given["dr sequence"]+c.Contradict != runs {
			t.Errorf("%s: %d sequences and %d contradictions in %d runs", s.Name, c.Given["dr sequence"], c.Contradict, runs)
		}
	}
	for name, m := range together {
		if n := runs * len(Settings); unlikely(m, n, 0.05, 1e-5) {
			t.Errorf("all settings: %s misses %d of %d", name, m, n)
		}
	}
}

// TestCoverageFaults: what the theorem needs is needed. A reward that a later choice decides is missed far too often;
// a model that is the reward contradicts itself in every run.
func TestCoverageFaults(t *testing.T) {
	runs := plays(12, 24, 2000)
	s := Setting{Name: "interference", N: 1000, K: 2, Rate: 0.5, Floor: 0.4, Interference: true}
	c, err := Coverage(context.Background(), s, runs, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Misses["any look"] + c.Contradict; 1-stats.BinomialCDF(m-1, runs, 0.05) > 1e-6 {
		t.Errorf("a later choice decides rewards, and the sequence misses only %d of %d", m, runs)
	}
	s = Setting{Name: "leak", N: 1000, K: 5, Rate: 0.5, Floor: 0.3, Leak: true}
	if c, err = Coverage(context.Background(), s, runs, 2, 1); err != nil {
		t.Fatal(err)
	}
	if c.Contradict < runs/2 || c.Contradict+c.Misses["dr sequence"] < runs*3/4 {
		t.Errorf("q is the reward: %d contradictions and %d misses in %d runs", c.Contradict, c.Misses["dr sequence"], runs)
	}
}

// TestNormalFails: the usual intervals cover much less than they say where clicks are rare and a logger learns, or an
// action was never logged. A table without this row would be wrong.
func TestNormalFails(t *testing.T) {
	for _, name := range []string{"one action never logged", "3% clicks, logger learns"} {
		for _, s := range Settings {
			if s.Name != name {
				continue
			}
			c, err := Coverage(context.Background(), s, plays(6, 24, 2000), 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			given := c.Given["dr normal"] + c.Given["dr-stable"] + c.Given["el"]
			if strings.Contains(name, "never") && given != 0 {
				t.Errorf("%s: %d normal intervals for a target without support", name, given)
			}
			if strings.Contains(name, "clicks") && c.Misses["snips normal"]*6 < c.Runs {
				t.Errorf("%s: snips misses %d of %d", name, c.Misses["snips normal"], c.Runs)
			}
		}
	}
}
