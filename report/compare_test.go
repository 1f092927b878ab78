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
		if !strings.Contains(page.String(), "B minus A") {
			t.Error("the page does not say which way the difference goes")
		}
		if out := os.Getenv("TROUPE_SAMPLES"); out != "" {
			save(t, filepath.Join(out, "compare.html"), page.Bytes())
		}
		return chart.AsciiNumbers.Replace(strings.Join(all, " "))
	}
	if got, want := headline(), "Same spec: all 6720 numbers are the same."; got != want {
		t.Errorf("same files:\n got %s\nwant %s", got, want)
	}

	other := troupeOfSeven()
	other[3].a *= 1.5 // ts loses half as much again in the other code
	write(t, b, envs, other, 40, 1000, 12)
	got := headline()
	for _, want := range []string{"Same spec: 800 of 6720 numbers differ.", "The first is the regret of ts in arms-50, replication 1, round 6", "ts lost 37.1 more in B [33.9, 40.3]"} {
		if !strings.Contains(got, want) {
			t.Errorf("other code: %q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "greedy") {
		t.Errorf("greedy did not change:\n%s", got)
	}
}
