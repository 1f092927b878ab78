package evaluate

import (
	"testing"

	"troupe/ope"
)

// TestAnySure: what "sure" means is said where an interval holds at every look, and only there.
func TestAnySure(t *testing.T) {
	r := &ope.Result{Targets: []*ope.Evaluated{{Estimates: []ope.Estimate{{Estimator: "logged"}, {Estimator: "ips"}},
		Uplift: &ope.Uplift{}}}}
	if anySure(r) {
		t.Error("a log without a sequence is said to be sure")
	}
	r.Targets[0].Estimates[1].Sequence = &ope.Pair{0, 1}
	if !anySure(r) {
		t.Error("the sequence of ips is not seen")
	}
}
