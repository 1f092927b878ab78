package sim

import (
	"math"
	"strings"
	"testing"

	"troupe/dataset"
)

// The lower bound of given orthogonal arms is Σ 2σ²/Δ in every replication, and where there is none the reason is
// said.
func TestInstanceLowers(t *testing.T) {
	x := parseReal(t, `
replications = 3
[[environment]]
name = "orthogonal"
kind = "linear"
theta = "given"
d = 3
value = [0.9, 0.5, 0.1]
set = { kind = "basis" }
noise = { kind = "gaussian", sigma = 0.5 }
[[environment]]
name = "random"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 7 }
[[environment]]
name = "ball"
kind = "linear"
d = 3
[[environment]]
name = "redrawn"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 7, redraw = true }
[[environment]]
name = "tails"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 7 }
noise = { kind = "student-t" }
[[environment]]
name = "drift"
kind = "linear"
d = 3
drift = 0.1
set = { kind = "random-sphere", arms = 7 }
[[environment]]
name = "clicks"
kind = "clicks"
[[policy]]
kind = "uniform"
`)
	all, err := InstanceLowers(t.Context(), x, new(dataset.Source))
	if err != nil {
		t.Fatal(err)
	}
	if want := 2*0.25/0.4 + 2*0.25/0.8; math.Abs(all[0].Mean-want) > 1e-6*want || all[0].N != 3 || all[0].Gap > 1e-6 {
		t.Errorf("%+v, expected %v", all[0], want)
	}
	if all[1].Why != "" || !(all[1].Mean > 0) || all[1].Gap > 1e-6 {
		t.Errorf("%+v", all[1])
	}
	for i, want := range []string{"not finite", "changes from round to round", "not Gaussian", "drift", "not of kind linear"} {
		if l := all[2+i]; !strings.Contains(l.Why, want) || l.Mean != 0 {
			t.Errorf("%s: %+v, expected %q", l.Environment, l, want)
		}
	}
}
