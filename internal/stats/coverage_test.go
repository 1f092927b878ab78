package stats

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Coverage of the simultaneous intervals where bandits need them: heavy tails made of replications
// that got stuck. A population is finite and known, so the true differences are known exactly; a
// trial draws R of its rows, computes the intervals of all pairs and asks whether every one covers.

// finalRegrets are the regrets after 10 000 rounds of seven policies on 200 common instances (50
// random arms on the sphere, d = 10, Gaussian noise of 0.5): ensembles of 4, 16 and 64 at too small
// a scale (0.6), Thompson sampling, LinUCB with radius 0.8, ε-greedy and greedy. Between 0 and 85 %
// of the replications of a policy got stuck.
func finalRegrets(t *testing.T) [][]float64 {
	f, err := os.Open("testdata/final-regrets.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recs, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]float64
	for _, rec := range recs[1:] {
		var row []float64
		for _, s := range rec {
			v, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	if len(rows) != 200 || len(rows[0]) != 7 {
		t.Fatalf("%d rows of %d", len(rows), len(rows[0]))
	}
	return rows
}

// madeUp returns a population of seven policies: lognormal, with a common part, and with
// probability stuck[p] a loss drawn from tail on top.
func madeUp(rows int, stuck []float64, tail func(r *rand.Rand) float64) [][]float64 {
	r := rand.New(rand.NewPCG(2024, 11))
	spread := []float64{0.5, 0.45, 0.4, 0.25, 0.5, 0.6, 0.8}
	pop := make([][]float64, rows)
	for i := range pop {
		common := r.NormFloat64()
		for p, level := range []float64{45, 60, 85, 120, 42, 380, 60} {
			v := level * math.Exp(spread[p]*(0.3*common+0.95*r.NormFloat64()))
			if r.Float64() < stuck[p] {
				v += tail(r)
			}
			pop[i] = append(pop[i], v)
		}
	}
	return pop
}

// contrasts returns all paired differences.
func contrasts(rows [][]float64) [][]float64 {
	var d [][]float64
	for a := range rows[0] {
		for b := range a {
			x := make([]float64, len(rows))
			for i, row := range rows {
				x[i] = row[a] - row[b]
			}
			d = append(d, x)
		}
	}
	return d
}

// sized returns the number of trials: long with TROUPE_LONG.
func sized(small, long int) int {
	if os.Getenv("TROUPE_LONG") != "" {
		return long
	}
	return small
}

// coverage runs trials and returns in how many all intervals covered, for the resampled factor and
// for the planted fault, ± 1.96 standard errors.
func coverage(pop [][]float64, R, B, trials int, seed uint64) (covered, planted int) {
	var truth []float64
	for _, x := range contrasts(pop) {
		truth = append(truth, Mean(x))
	}
	for trial := range trials {
		r := rand.New(rand.NewPCG(seed, uint64(trial)))
		rows := make([][]float64, R)
		for i := range rows {
			rows[i] = pop[r.IntN(len(pop))]
		}
		d := contrasts(rows)
		inner := rand.New(rand.NewPCG(seed^0x5eed, uint64(trial)))
		s := NewResamples(R, B, func(_, _, n int) int { return inner.IntN(n) })
		c, ok := s.MaxT(d, 0.95)
		all, normal := ok, true
		for k, x := range d {
			dev, se := math.Abs(Mean(x)-truth[k]), StdErr(x)
			all = all && dev <= c*se
			normal = normal && dev <= 1.96*se
		}
		if all {
			covered++
		}
		if normal {
			planted++
		}
	}
	return covered, planted
}

// Null: at R replications the intervals cover all 21 differences at once with probability at least
// 0.91 (nominal 0.95; resampling with 300 draws costs a little). n = 240 trials for each R, 600 with TROUPE_LONG; refuse
// when the number covered has probability below 1e-3 under 0.91. The same rule must refuse the
// planted ± 1.96 standard errors. Fixed seeds.
func TestCoverage(t *testing.T) {
	const B, floor, alpha = 300, 0.91, 1e-3
	trials := sized(240, 600)
	pop := finalRegrets(t)
	refuse := func(k int) bool { return BinomialCDF(k, trials, floor) < alpha }
	for _, R := range []int{30, 100, 200} {
		covered, planted := coverage(pop, R, B, trials, uint64(R))
		t.Logf("R = %d: covered %.1f%%, each at ±1.96: %.1f%%", R, 100*float64(covered)/float64(trials), 100*float64(planted)/float64(trials))
		if refuse(covered) {
			t.Errorf("R = %d: all intervals covered in %d of %d trials; under %v that has probability below %v", R, covered, trials, floor, alpha)
		}
		if !refuse(planted) {
			t.Errorf("R = %d: the planted ±1.96 passes (%d of %d): this test cannot fail", R, planted, trials)
		}
	}
}

// Where the method ends, and the page says so: what is not in the sample is not in its resamples.
// Failures in 3 to 6 % of the replications of some policies are often absent from 30 replications;
// losses with a Pareto tail of index 1.2 have no variance at all. Null: coverage at least 0.91;
// shown to be false at level 1e-3 in both cases. At R = 200 the rare failures are in the sample and
// coverage is back (same rule as TestCoverage).
func TestWhereTheMethodEnds(t *testing.T) {
	const B = 200
	lognormal := func(r *rand.Rand) float64 { return 900 * math.Exp(0.6*r.NormFloat64()) }
	pareto := func(r *rand.Rand) float64 { return 300 * math.Pow(r.Float64(), -1/1.2) }
	rare := []float64{0.12, 0.06, 0.04, 0, 0.06, 0.03, 0.85}
	even := []float64{0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02}
	for _, c := range []struct {
		name   string
		pop    [][]float64
		R      int
		covers bool
	}{
		{"rare failures", madeUp(2000, rare, lognormal), 30, false},
		{"rare failures", madeUp(2000, rare, lognormal), 200, true},
		{"Pareto 1.2", madeUp(20000, even, pareto), 50, false},
	} {
		trials := 400
		if c.covers {
			trials = sized(160, 400)
		}
		covered, _ := coverage(c.pop, c.R, B, trials, 1)
		t.Logf("%s, R = %d: covered %.1f%%", c.name, c.R, 100*float64(covered)/float64(trials))
		switch {
		case !c.covers && BinomialCDF(covered, trials, 0.91) >= 1e-3:
			t.Errorf("%s, R = %d: covered %d of %d: the method does better than the page says", c.name, c.R, covered, trials)
		case c.covers && BinomialCDF(covered, trials, 0.91) < 1e-3:
			t.Errorf("%s, R = %d: covered %d of %d: worse than the page says", c.name, c.R, covered, trials)
		}
	}
}

// Null: the intervals of the six quotients of a mean to Thompson sampling's cover all at once with
// probability at least 0.91 (nominal 0.95). n = 200 trials for each R, 500 with TROUPE_LONG, refused at level 1e-3; the
// same rule refuses the planted ±1.96. Fixed seeds.
func TestRatioCoverage(t *testing.T) {
	const B, floor, alpha, reference = 300, 0.91, 1e-3, 3
	trials := sized(200, 500)
	pop := finalRegrets(t)
	column := func(rows [][]float64, p int) []float64 {
		x := make([]float64, len(rows))
		for i, row := range rows {
			x[i] = row[p]
		}
		return x
	}
	refuse := func(k int) bool { return BinomialCDF(k, trials, floor) < alpha }
	for _, R := range []int{30, 100, 200} {
		covered, planted := 0, 0
		for trial := range trials {
			r := rand.New(rand.NewPCG(uint64(R), uint64(trial)))
			rows := make([][]float64, R)
			for i := range rows {
				rows[i] = pop[r.IntN(len(pop))]
			}
			ref := column(rows, reference)
			var rivals [][]float64
			var truth []float64
			for p := range rows[0] {
				if p != reference {
					rivals = append(rivals, column(rows, p))
					truth = append(truth, Mean(column(pop, p))/Mean(column(pop, reference)))
				}
			}
			s := NewResamples(R, B, func(_, _, n int) int { return r.IntN(n) })
			c, ok := s.RatioFactor(rivals, ref, 0.95)
			all, normal := ok, true
			for i, x := range rivals {
				q, z := Fieller(x, ref, c), Fieller(x, ref, 1.96)
				all = all && (!q.OK || q.Lo <= truth[i] && truth[i] <= q.Hi)
				normal = normal && z.OK && z.Lo <= truth[i] && truth[i] <= z.Hi
			}
			if all {
				covered++
			}
			if normal {
				planted++
			}
		}
		t.Logf("R = %d: covered %.1f%%, each at ±1.96: %.1f%%", R, 100*float64(covered)/float64(trials), 100*float64(planted)/float64(trials))
		if refuse(covered) {
			t.Errorf("R = %d: all quotients covered in %d of %d trials; under %v that has probability below %v", R, covered, trials, floor, alpha)
		}
		if !refuse(planted) {
			t.Errorf("R = %d: the planted ±1.96 passes (%d of %d): this test cannot fail", R, planted, trials)
		}
	}
}

// A quotient and a difference with the same factor say the same: 1 is in the one exactly when 0 is
// in the other. And a quotient of exact multiples is exact.
func TestFiellerAgreesWithTheDifference(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	inside := 0
	for range 2000 {
		n := 5 + r.IntN(30)
		x, y, d := make([]float64, n), make([]float64, n), make([]float64, n)
		shift := r.Float64()
		for i := range x {
			x[i], y[i] = math.Exp(r.NormFloat64())+shift, math.Exp(r.NormFloat64())
			d[i] = x[i] - y[i]
		}
		c := 1 + 2*r.Float64()
		q := Fieller(x, y, c)
		if !q.OK {
			continue
		}
		zero := math.Abs(Mean(d)) <= c*StdErr(d)
		if one := q.Lo <= 1 && 1 <= q.Hi; one != zero {
			t.Fatalf("1 in [%v, %v] is %v, 0 in %v ± %v is %v", q.Lo, q.Hi, one, Mean(d), c*StdErr(d), zero)
		}
		if zero {
			inside++
		}
	}
	if inside < 300 || inside > 1700 {
		t.Errorf("%d of 2000 cases inside: the comparison is one-sided", inside)
	}
	if q := Fieller([]float64{2, 4, 6}, []float64{1, 2, 3}, 1.5); !q.OK || math.Abs(q.Lo-2) > 1e-9 || math.Abs(q.Hi-2) > 1e-9 {
		t.Errorf("twice the same sample: %+v", q)
	}
	if q := Fieller([]float64{1, 2, 3}, []float64{-1, 0, 1.5}, 3); q.OK {
		t.Errorf("a reference that may be zero has the interval %+v", q)
	}
}
