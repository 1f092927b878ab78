package plan

import (
	"testing"

	"troupe/theory"
)

// TestPlanPractical: below the necessary m the lower bound is above the tolerated share, the sufficient m is the smallest
// whose upper bound is not, and the bounds enclose what was simulated on one arm beside nothing: at Δ = 0.3, λ = 1, m = 28
// 0.0110 ± 0.0003 are lost within 80 pulls. On two arms at 0.5 and 0.2, λ = 0.1, m = 8, T = 30 000, 36 of 1500
// ensembles were stuck (exact 99 % interval 0.0151 to 0.0360), which the lower bound does not exceed.
func TestPlanPractical(t *testing.T) {
	for _, s := range []theory.Setting{{D: 2, T: 30_000, Lambda: 0.1}, {D: 30, T: 1e6, Lambda: 1}} {
		for _, p := range []float64{0.2, 0.01, 1e-4, 1e-6} {
			q := practical{Arms: 2, Stuck: p, Gap: 0.3, R: 1}
			at := func(m float64) (lo, hi float64) { return theory.ForGood(m, q.R, s.Lambda, q.Gap, s.T/2) }
			for _, r := range planPractical(s, q).Rows {
				if r.AtMost != nil && r.AtLeast > *r.AtMost || r.Most != nil && r.Cost > *r.Most {
					t.Errorf("%v, tolerated %v: %s: a lower bound is above the upper one: %+v", s, p, r.Policy, r)
				}
				lo, hi := at(r.M)
				switch r.Policy {
				case "ensemble, necessary":
					if lo > p {
						t.Errorf("%v: m = %v loses %v at least, tolerated %v", s, r.M, lo, p)
					}
					if lo, _ := at(max(1, r.M-1)); r.M > 1 && lo <= p {
						t.Errorf("%v: m − 1 = %v loses %v at least already, tolerated %v", s, r.M-1, lo, p)
					}
				case "ensemble, enough":
					if hi > p || *r.AtMost != hi {
						t.Errorf("%v: m = %v loses up to %v, the plan says %v, tolerated %v", s, r.M, hi, *r.AtMost, p)
					}
					if _, hi := at(max(1, r.M-1)); r.M > 1 && hi <= p {
						t.Errorf("%v: m − 1 = %v loses up to %v, tolerated %v", s, r.M-1, hi, p)
					}
				case "atoms, key = decision":
					if r.AtMost != nil || r.Most != nil {
						t.Error("an upper bound on Thompson sampling: none is known")
					}
				}
			}
		}
	}
	p := planPractical(theory.Setting{D: 2, T: 30_000, Lambda: 1}, practical{Arms: 2, Stuck: 0.01, Gap: 0.3, R: 1})
	for _, r := range p.Rows {
		if r.Policy == "ensemble, enough" && r.M <= 28 {
			t.Errorf("m = %v is enough for a share of 0.01, and at m = 28 0.0110 ± 0.0003 are lost", r.M)
		}
	}
	if lo, _ := theory.ForGood(8, 1, 0.1, 0.3, 15_000); lo > 0.0360 {
		t.Errorf("8 members lose %v at least, measured 36 of 1500", lo)
	}
	if m := fewest(1e-30, 1, func(float64) float64 { return 0.1 }); m != 0 {
		t.Errorf("m = %v where no m is enough", m)
	}
}
