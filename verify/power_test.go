package verify

import (
	"math"
	"strings"
	"testing"

	"troupe/rng"
)

// TestPower: at the rate that Power names a check is refuted nine times of ten; a claim that no number of failures refutes
// says so. Level 1e-8 for each of the simulated rates.
func TestPower(t *testing.T) {
	for _, c := range []struct {
		n int
		q float64
	}{{60, 0.1}, {18, 0.2}, {300, 0.1}, {1000, 0.001}} {
		k, p := needed(c.n, c.q), rateNoticed(c.n, c.q)
		if binomialTail(k, c.n, c.q) > Level || binomialTail(k-1, c.n, c.q) <= Level {
			t.Errorf("n = %d, q = %v: %d failures refute it, %d do not", c.n, c.q, k, k-1)
		}
		found := 0
		const trials = 4000
		draw := rng.NewKey(9).Stream(rng.Reward)
		for i := range trials {
			src, failed := draw.Round(uint64(i)), 0
			for j := range c.n {
				if src.Float64(j) < p {
					failed++
				}
			}
			if failed >= k {
				found++
			}
		}
		// Hoeffding: a deviation of 0.05 has probability 2·e^{−2·4000·0.0025} < 1e-8.
		if share := float64(found) / trials; math.Abs(share-noticed) > 0.05 {
			t.Errorf("n = %d, q = %v: a rate of %.3f is refuted with probability %.3f, expected 0.9", c.n, c.q, p, share)
		}
		if f := chance(k, c.n, c.q, ""); f.Verdict != Refuted || f.Power.Rate != 0 {
			t.Errorf("%d of %d failures: %+v", k, c.n, f)
		}
		if f := chance(k-1, c.n, c.q, ""); f.Verdict != Holds || f.Power.Rate != p {
			t.Errorf("%d of %d failures: %+v", k-1, c.n, f)
		}
	}
	if p := rateNoticed(6, 0.1); p != 1 {
		t.Errorf("six runs notice a rate of %v, expected none", p)
	}
	if s := (Power{Rate: 1}).String(); !strings.Contains(s, "no rate") {
		t.Error(s)
	}
	// Of 16 runs eight must fail at q = 0.03: the eighth largest ratio decides.
	ratios := []float64{9e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4}
	if got := factorNoticed(ratios, 0.03); math.Abs(got-1/9e-4) > 1e-9 {
		t.Errorf("factor %v, expected that of the eighth largest ratio", got)
	}
	var w tightest
	w.see(2, 3, nil)
	w.see(1, 100, nil)
	if f := w.finding("x"); f.Power.Factor != 1.5 || f.Power.String() != "would have noticed a bound 1.50 times tighter" {
		t.Errorf("%+v", f.Power)
	}
}
