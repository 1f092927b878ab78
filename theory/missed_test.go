package theory

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestMissed: Missed is P(m, σ, L) for t → ∞, falls with t, m and the distance from none, and is the share of t draws without a good model,
// within five standard errors; so is it for many models.
func TestMissed(t *testing.T) {
	for _, m := range []float64{1, 30, 5000} {
		lo, hi := Stuck(m, 1.2, 0.3)
		if p := Missed(m, 1.2, 0.3, math.Inf(1)); p < lo || p > hi {
			t.Errorf("m = %g: %v outside [%v, %v]", m, p, lo, hi)
		}
		last := 1.0
		for _, n := range []float64{1, 2, 10, 100, 1e4, 1e6, math.Inf(1)} {
			p := Missed(m, 1.2, 0.3, n)
			if p > last*1.0001 || p < lo {
				t.Errorf("m = %g, t = %g: %v after %v", m, n, p, last)
			}
			last = p
		}
	}
	r := rand.New(rand.NewPCG(36, 9))
	for _, c := range []struct {
		m          int
		sigma, gap float64
		t          int
	}{{3, 0.8, 0.2, 5}, {400, 1, 1, 20}, {20, 2, -0.5, 3}} {
		const n = 20_000
		hit := 0
		for range n {
			z, bad := r.NormFloat64(), true
			members := make(map[int]float64)
			for range c.t {
				j := r.IntN(c.m)
				if _, ok := members[j]; !ok {
					members[j] = r.NormFloat64()
				}
				v := c.sigma * members[j]
				if r.IntN(2) == 0 {
					v = -v
				}
				bad = bad && v <= -c.gap-z
			}
			if bad {
				hit++
			}
		}
		p := float64(hit) / n
		se := math.Sqrt(p * (1 - p) / n)
		got := Missed(float64(c.m), c.sigma, c.gap, float64(c.t))
		t.Logf("%+v: drawn %.4g ± %.2g, Missed %.4g", c, p, se, got)
		if math.Abs(got-p) > 5*se {
			t.Errorf("%+v: drawn %.4g ± %.2g, Missed %.4g", c, p, se, got)
		}
	}
}

// TestHorizonBounds: LostBy lies in Within; the bounds for two arms are on the right sides of each other, fall with T and m, and
// the one for good has the exponent of FewSecond between its terms.
func TestHorizonBounds(t *testing.T) {
	for _, c := range [][2]float64{{4, 0.7}, {40, 1}} {
		lo, hi, err := Within(c[0], c[1], 0.1, 1, 200, 400)
		p, _ := Few{Best: 1, Lambda: 0.1, R: c[1], Draws: c[0]}.LostBy(400)
		t.Logf("m = %g, r = %g: %.4g in [%.4g, %.4g]", c[0], c[1], p, lo, hi)
		if err != nil || p < lo || p > hi || hi == 1 {
			t.Errorf("m = %g, r = %g: %.4g in [%.4g, %.4g], %v", c[0], c[1], p, lo, hi, err)
		}
	}
	f := Few{Best: 3, Lambda: 0.1, R: 1, Draws: 20}
	up, err := f.AtMost(100, 200)
	good, err2 := f.ForGoodAtMost()
	down, err3 := f.LostWithin(2, 200)
	lost, err4 := f.Lost(2)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	t.Logf("two arms: [%.3g, %.3g] in 200 rounds, for good [%.3g, %.3g]", down, up, lost, good)
	if !(lost <= 1.01*down && down < good && good < up && up < 1) {
		t.Errorf("two arms: [%v, %v] in 200 rounds, for good [%v, %v]", down, up, lost, good)
	}
	f.Draws = 200
	if less, err := f.ForGoodAtMost(); err != nil || less > good/5 {
		t.Errorf("ten times the members: %v, before %v, %v", less, good, err)
	}
}

// TestStuckBounded: with more members than can be drawn the probability stays above the bound: sums of uniform numbers at their ends.
func TestStuckBounded(t *testing.T) {
	for _, c := range [][4]float64{{1.7, 0.2, 0.3}, {0.5, 2, 0.1}, {1, 0, 1}, {1.7, 0.6, 0.3, 1}, {0.5, 2, 0.1, -30}, {1.7, 0.6, 0.3, 1.1}} {
		want := 0.0
		if c[0]*c[1] <= c[3] { // no model of an arm that was not pulled reaches the level
			want = 1
		}
		for k := 1.0; k < 500; k++ {
			want = math.Max(want, normalTail((c[2]*k-c[3]+c[0]*(k+c[1]))/math.Sqrt(k)))
		}
		if got := StuckBounded(c[0], c[1], c[2], c[3]); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v, expected %v", c, got, want)
		}
	}
}

// TestHorizonRefuses: settings without meaning are errors or panics, as documented.
func TestHorizonRefuses(t *testing.T) {
	f := Few{Best: 0.3, Lambda: 1, R: 1, Draws: 4}
	bad := f
	bad.Best = math.NaN()
	for name, err := range map[string]error{
		"NaN": second(bad.ForGoodAtMost()), "no rounds": second(f.AtMost(5, 5)), "n below 0": second(f.AtMost(-1, 5)),
		"k = 0": second(f.LostWithin(0, 5)), "LostWithin": second(bad.LostWithin(1, 5)), "AtMost": second(bad.AtMost(1, 5)),
		"LostBy": second(bad.LostBy(10)), "one round": second(f.LostBy(1)), "NaN rounds": second(f.LostBy(math.NaN())),
		"no arms": second(f.LostAmong(0, 10)), "LostAmong": second(bad.LostAmong(2, 10)),
		"no pulls": third(f.ForGood(0)), "NaN pulls": third(f.ForGood(math.NaN())), "ForGood": third(bad.ForGood(5)),
	} {
		var domain *DomainError
		if !errors.As(err, &domain) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Within(0, 1, 1, 1, 1, 9); err == nil {
		t.Error("Within: m = 0 is no error")
	}
	for name, run := range map[string]func(){
		"t": func() { Missed(4, 1, 1, 0.5) }, "m": func() { Missed(0, 1, 1, 5) }, "gap": func() { Missed(4, 1, math.NaN(), 5) },
		"s": func() { f.Over(0, 3) }, "x": func() { f.Over(1, 0) }, "second": func() { FewSecond(1, 0, 1) },
		"bounded": func() { StuckBounded(1, -1, 1, 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			run()
		}()
	}
}

func second(_ float64, err error) error   { return err }
func third(_, _ float64, err error) error { return err }
