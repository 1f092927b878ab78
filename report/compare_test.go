package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/report/chart"
	"troupe/sim"
)

// Two runs of one spec with the same numbers, with one number changed, and of other code.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	envs := []sim.EnvironmentRow{linearEnv("arms-50", 10, arms())}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, envs, troupeOfSeven(), 40, 1000, 12)
	write(t, b, envs, troupeOfSeven(), 40, 1000, 12)
	headline := func() string {
		t.Helper()
		c, err := Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		head, lead := c.Verdict()
		var all []string
		for _, p := range append([]Prose{head}, lead...) {
			all = append(all, p.String())
		}
		var page bytes.Buffer
		if err := c.WriteHTML(&page); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), "second run minus the first") {
			t.Error("the page does not say which way the difference goes")
		}
		if out := os.Getenv("TROUPE_SAMPLES"); out != "" {
			save(t, filepath.Join(out, "compare.html"), page.Bytes())
		}
		return chart.AsciiNumbers.Replace(strings.Join(all, " "))
	}
	if got, want := headline(), "Both runs are equal, number for number. Two runs of tour, 40 replications each: all 6,720 numbers that both have are the same. The intervals hold for all rows at once (95%)."; got != want {
		t.Errorf("same files:\n got %s\nwant %s", got, want)
	}

	other := troupeOfSeven()
	other[3].a *= 1.5 // ts loses half as much again in the other code
	write(t, b, envs, other, 40, 1000, 12)
	got := headline()
	for _, want := range []string{"ts changed in 40 of 40 replications. The other six are equal, number for number.", "800 of 6,720 numbers differ. The first is the regret of ts in arms-50, replication 1, round 6", "ts lost 37.1 more in the second run [33.9, 40.3]"} {
		if !strings.Contains(got, want) {
			t.Errorf("other code: %q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "greedy") {
		t.Errorf("greedy did not change:\n%s", got)
	}
}

// TestCompareRare: a small change in most runs beside one that a few runs with linear regret would reverse is said to
// be so, and one that no such run can reverse is not.
func TestCompareRare(t *testing.T) {
	run := func(seed uint64, shift func(i int) float64, stuck float64) *Run {
		r := exactRun("", 0, make([]float64, 50))
		r.Manifest.Seed, r.Manifest.Policies = seed, r.Manifest.Policies[:1]
		r.Envs[0].Cells = r.Envs[0].Cells[:1]
		for i, c := range r.Envs[0].Cells[0] {
			c.Regret[0] = 10 + shift(i)
		}
		r.Envs[0].Cells[0][7].Regret[0] += stuck
		return r
	}
	words := func(stuck float64, shift func(i int) float64) string {
		_, lead := compareRuns(run(1, func(int) float64 { return 0 }, stuck), run(1, shift, stuck)).Verdict()
		var all []string
		for _, p := range lead {
			all = append(all, p.String())
		}
		return strings.Join(all, " ")
	}
	const clause = "would reverse this change"
	if got := words(80, func(i int) float64 { return 1 + 0.01*float64(i%7) }); !strings.Contains(got, clause) || !strings.Contains(got, "One run in ") {
		t.Errorf("a change of 1 beside losses of 90: %q", got)
	}
	if got := words(0, func(i int) float64 { return 40 + 0.1*float64(i%7) }); strings.Contains(got, clause) || !strings.Contains(got, "more in the second run") {
		t.Errorf("a change of 40 beside losses of 50: %q", got)
	}
}
