package cli

import (
	"math"
	"testing"

	"troupe/theory"
)

// TestPlanPractical: the m of the plan is the smallest with a tolerated share, and the share is near what was measured
// where the plan is read most: two arms at 0.5 and 0.2, λ = 0.1, m = 8, T = 30 000, 36 of 1500 ensembles stuck (exact 99 %
// interval 0.0151 to 0.0360).
func TestPlanPractical(t *testing.T) {
	for _, s := range []theory.Setting{{D: 2, T: 30_000, Lambda: 0.1}, {D: 30, T: 1e6, Lambda: 1}} {
		for _, p := range []float64{0.2, 0.01, 1e-4, 1e-6} {
			q := practical{Arms: 2, Stuck: p, Gap: 0.3, R: 1}
			var m float64
			for _, r := range planPractical(s, q).Rows {
				if r.Policy == "ensemble" {
					m = r.M
				}
			}
			sigma := math.Sqrt(1 + s.Lambda)
			_, at := theory.Stuck(m, sigma, q.Gap)
			if at > p {
				t.Errorf("%v: m = %v has share %v, tolerated %v", s, m, at, p)
			}
			if m > 1 {
				if _, before := theory.Stuck(m-1, sigma, q.Gap); before <= p {
					t.Errorf("%v: m − 1 = %v has share %v already, tolerated %v", s, m-1, before, p)
				}
			}
		}
	}
	if _, share := theory.Stuck(8, math.Sqrt(1.1), 0.3); share < 0.0151 || share > 0.0360 {
		t.Errorf("the share of 8 members is %v, measured 36 of 1500", share)
	}
	if m := fewest(1e-30, 1, func(float64) float64 { return 0.1 }); m != 0 {
		t.Errorf("m = %v where no m is enough", m)
	}
}
