package report

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"troupe/internal/stats"
	"troupe/theory"
)

const lostSpec = `name = "lost"
horizon = 1400
replications = 24
[[environment]]
name = "two arms"
kind = "linear"
d = 2
theta = "given"
value = [0.3, 0.0]
set = { kind = "basis" }
noise = { kind = "gaussian", sigma = 1.0 }
[[policy]]
kind = "ensemble"
m = [8, 2, 4]
lambda = 0.1
targets = "gaussian"
init = "prior"
scale = { kind = "constant", value = 1.0 }
[[policy]]
kind = "ts"
lambda = 0.1
`

// TestLostFigure: the points are the shares of runs whose regret is half of the worst, with their intervals, the curve is
// the law, and there is no figure where the law does not speak. The law is computed for m = 2 and 3, with TROUPE_LONG for
// each m to 8.
func TestLostFigure(t *testing.T) {
	analysis := func(spec string) *Analysis {
		t.Helper()
		run, err := Load(record(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		return Analyze(run, 0)
	}
	sizes, given := []float64{2, 3}, strings.Replace(lostSpec, "m = [8, 2, 4]", "m = [3, 2]", 1)
	if os.Getenv("TROUPE_LONG") != "" {
		sizes, given = []float64{2, 4, 8}, lostSpec
	}
	a := analysis(given)
	f := painter{a}.lostFigure("lost")
	if f == nil {
		t.Fatal("no figure")
	}
	marks := f.Panels[0].Marks
	if len(marks) != 1+len(sizes) || marks[0].Name != "law" {
		t.Fatalf("marks: %+v", marks)
	}
	for i, m := range sizes {
		k := slices.IndexFunc(a.Policies, func(p int) bool { return number(a.Run.Manifest.Policies[p].Options["m"]) == m })
		lost := 0
		for _, x := range a.X[k][len(a.Rounds)-1] {
			if x >= 0.3*1400/2 {
				lost++
			}
		}
		lo, hi := stats.ClopperPearson(lost, 24, 0.05)
		floor := f.Panels[0].Y.Lo
		x := marks[1+i]
		if x.X[0] != m || x.Y[0] != max(float64(lost)/24, floor) || x.Lo[0] != max(lo, floor) || x.Hi[0] != hi {
			t.Errorf("m = %v: %+v, want %d lost of 24, %v to %v", m, x, lost, lo, hi)
		}
		at := slices.Index(marks[0].X, m)
		want, _ := theory.Few{Best: 0.3, Lambda: 0.1, R: 1, Draws: m}.LostAmong(2, 1400)
		if at < 0 || math.Abs(marks[0].Y[at]-want) > 1e-12 {
			t.Errorf("m = %v: the law is at %d of %v, want %v", m, at, marks[0].Y, want)
		}
	}
	for _, c := range []struct{ name, old, by string }{
		{"uniform targets", `targets = "gaussian"`, `targets = "uniform"`},
		{"one size", "m = [8, 2, 4]", "m = 8"},
		{"two scales", "value = 1.0 }", "value = [1.0, 2.0] }"},
		{"too few rounds", "horizon = 1400", "horizon = 1300"},
		{"three arms of three means", "d = 2\ntheta = \"given\"\nvalue = [0.3, 0.0]", "d = 3\ntheta = \"given\"\nvalue = [0.3, 0.0, 0.1]"},
		{"another noise", "sigma = 1.0", "sigma = 0.5"},
		{"too few replications", "replications = 24", "replications = 19"},
	} {
		spec := strings.Replace(lostSpec, c.old, c.by, 1)
		if spec == lostSpec {
			t.Fatalf("%s: nothing was replaced", c.name)
		}
		if f := (painter{analysis(spec)}).lostFigure("lost"); f != nil {
			t.Errorf("%s: a figure", c.name)
		}
	}
}
