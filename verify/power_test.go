package verify

import (
	"math"
	"os"
	"strings"
	"testing"

	"troupe/internal/linalg"
	"troupe/internal/stats"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// hoeffding is the deviation of the share of n trials that has a probability of at most the level: 2·e^{−2n·deviation²} = level.
func hoeffding(n int, level float64) float64 { return math.Sqrt(math.Log(2/level) / 2 / float64(n)) }

// TestPower: at the rate that Power names a check is refuted nine times of ten; a claim that no number of failures refutes
// says so. Level 1e-8 for each of the simulated rates, 1000 trials of each, 4000 with TROUPE_LONG.
func TestPower(t *testing.T) {
	trials := sized(1000, 4000)
	for _, c := range []struct {
		n int
		q float64
	}{{60, 0.1}, {18, 0.2}, {300, 0.1}, {1000, 0.001}} {
		k, p := needed(c.n, c.q), rateNoticed(c.n, c.q)
		if binomialTail(k, c.n, c.q) > Level || binomialTail(k-1, c.n, c.q) <= Level {
			t.Errorf("n = %d, q = %v: %d failures refute it, %d do not", c.n, c.q, k, k-1)
		}
		found := 0
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
		if share := float64(found) / float64(trials); math.Abs(share-noticed) > hoeffding(trials, 1e-8) {
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
	// Of 16 runs eight must fail at q = 0.03, which happens with probability 0.9 at a rate of 0.63: the eleventh largest ratio decides.
	ratios := []float64{9e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4}
	if got := runs(ratios).factor(0.03); math.Abs(got-1/1e-4) > 1e-9 {
		t.Errorf("factor %v, expected that of the eleventh largest ratio", got)
	}
	var w tightest
	w.see(2, 3, nil)
	w.see(1, 100, nil)
	if f := w.finding("x"); f.Power.Factor != 1.5 || f.Power.String() != "would have noticed a bound 1.50 times tighter" {
		t.Errorf("%+v", f.Power)
	}
}

// TestRuns: the factor of a probability check is found nine times of ten by fresh runs, and one that is a third nearer to 1 is not; the
// interval of the sharpest factor has the true one. The ratios are uniform on (0, 1/2), so that a claim of q = 0.1 is true
// of a bound 1/(0.5·0.9) times tighter. 700 trials, 2000 with TROUPE_LONG.
func TestRuns(t *testing.T) {
	const n, q = 200, 0.1
	trials := sized(700, 2000)
	draw := rng.NewKey(11).Stream(rng.Reward)
	played := func(i int, tighter float64) runs {
		var r runs
		for j := range n {
			r.see(draw.Round(uint64(i)).Float64(j) / 2 * tighter)
		}
		return r
	}
	truth := 1 / (0.5 * (1 - q))
	var factor float64
	covered := 0
	for i := range trials {
		p := played(i, 1).finding(q, "").Power
		factor += p.Factor / float64(trials)
		if p.SharpestLow <= truth && truth <= p.SharpestHigh {
			covered++
		}
	}
	if share, se := float64(covered)/float64(trials), math.Sqrt(0.95*0.05/float64(trials)); share < 0.95-2*se { // two standard errors
		t.Errorf("%d of %d intervals have the true factor", covered, trials)
	}
	refuted := func(tighter float64) float64 {
		k := 0
		for i := range trials {
			if played(trials+i, tighter).finding(q, "").Verdict == Refuted {
				k++
			}
		}
		return float64(k) / float64(trials)
	}
	// The mean factor is near the one that is noticed with probability 0.9, at level 1e-8.
	if share := refuted(factor); math.Abs(share-noticed) > hoeffding(trials, 1e-8) {
		t.Errorf("a bound %.3f times tighter is refuted with probability %.3f", factor, share)
	}
	if share := refuted(1 + (factor-1)*2/3); share > 0.1 {
		t.Errorf("a bound that is a third nearer is refuted with probability %.3f", share)
	}
	// A share that is claimed to be at least 0.1 and is 0.3: a claim that is larger by the factor is refuted as often.
	f := chance(700, 1000, 0.9, "").larger(700, 1000, 0.1)
	k := needed(1000, 1-0.1*f.Power.Factor)
	if p := binomialTail(k, 1000, 0.7); math.Abs(p-noticed) > 0.03 || f.Power.SharpestLow > 3 || f.Power.SharpestHigh < 3 {
		t.Errorf("%+v: refuted with probability %v", f.Power, p)
	}
	var nan runs
	if nan.see(math.NaN()); nan[0] <= 1 {
		t.Error("NaN has not failed")
	}
}

// TestMembersRecord prints how few members keep the claims, with TROUPE_RECORD=1: the table of docs/record/sharpest.md.
func TestMembersRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD=1 plays it")
	}
	const T, q = 500, 1e-3
	for _, c := range []float64{400, 60, 20, 10, 5, 3, 2, 1} {
		m := int(math.Ceil(c * math.Log(T/q)))
		k, n, worst := 0, 0, 0.0
		for i := range 8 {
			for _, choose := range rules {
				for _, r0 := range levels {
					key := rng.NewKey(uint64(i)).Child(choose.name)
					top := 0.0
					newProcess(key.Stream(rng.Instance).Round(uint64(10*r0)), m, 5, r0).play(key.At(uint64(10*r0)), T, choose, rng.UniformWord, 1./3, func(t int, r, _, _ float64) {
						if t > 0 {
							top = max(top, 0.6*r, 0.09/r)
						}
					})
					n++
					worst = max(worst, top)
					if top > 1 {
						k++
					}
				}
			}
		}
		lo, hi := stats.ClopperPearson(k, n, 0.05)
		t.Logf("process, m = %g log(T/q) = %d: %d of %d runs leave [0.09, 5/3], %.3f to %.3f; nearest %.3f", c, m, k, n, lo, hi, worst)
	}
	set := theory.Setting{D: 2, T: 1000, Lambda: 1, Delta: 0.1}
	a := must(theory.AtomsFor(set, theory.AtomsChoice{}))
	for _, m := range []int{32, 64, 96, 128, 160, 192, 256} {
		k, n := 0, 300
		g := make([]float64, m*2)
		for i := range n {
			atoms := mustAtoms(policy.AtomsOptions{Key: theory.DecisionKey, M: m}, 2, 1000, rng.NewKey(uint64(i)))
			fail := false
			for e := range uint64(a.Keys) {
				for j := range m {
					copy(g[2*j:2*j+2], atoms.Direction(e, j))
					fail = fail || linalg.Norm(g[2*j:2*j+2]) > a.Width
				}
				for j := range g {
					g[j] *= a.Gamma
				}
				fail = fail || shareBeyond(g) < a.P
			}
			if fail {
				k++
			}
		}
		lo, hi := stats.ClopperPearson(k, n, 0.05)
		t.Logf("atoms, d = 2, %g keys, m = %d of %g: %d of %d draws fail, %.3f to %.3f, allowed %g", a.Keys, m, a.Members, k, n, lo, hi, set.Delta)
	}
}

// TestBlunt: a claim of one per cent on six runs is not contradicted, and one of a tenth on 300 holds; the finding of an
// event of at least a probability is judged by its factor, and a plant that only makes a check blunt is not noticed.
func TestBlunt(t *testing.T) {
	few, many := make(runs, 6), make(runs, 300)
	for _, c := range []struct {
		name string
		f    Finding
		want Verdict
	}{
		{"six runs, 0.01", few.finding(0.01, ""), NotContradicted},
		{"300 runs, 0.1", many.finding(0.1, ""), Holds},
		{"at least 0.1, seen 0.3", chance(700, 1000, 0.9, "").happened(0.1).larger(700, 1000, 0.1), Holds},
		{"at least 0.005, seen 0.3", chance(700, 1000, 0.995, "").happened(0.005).larger(700, 1000, 0.005), NotContradicted},
		{"a bound of 20 times", (&tightest{lhs: 1, rhs: 20, n: 1}).finding(""), NotContradicted},
		{"a bound of 2 times", (&tightest{lhs: 1, rhs: 2, n: 1}).finding(""), Holds},
		{"probability 1", chance(0, 6, 1, ""), Vacuous},
	} {
		check := Check{Kind: Probability, Expect: Holds, run: func(*session) Finding { return c.f }}
		f := check.examine(nil)
		if f.Verdict != c.want {
			t.Errorf("%s: %s, expected %s (%+v)", c.name, f.Verdict, c.want, f.Power)
		}
		r := Result{Check: check, Finding: Finding{Verdict: Holds}, Planted: &f}
		if f.Verdict == NotContradicted && r.Caught() {
			t.Errorf("%s: a blunt plant counts as noticed", c.name)
		}
		if r.Finding = f; r.Expected() != (c.want != Vacuous) {
			t.Errorf("%s: expected %v", c.name, r.Expected())
		}
	}
}
