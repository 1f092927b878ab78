package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// stuckDifference draws a paired difference of the review's two-arm instance at T = 30 000: 0.8 % of
// the runs never find the better arm and lose 0.3·T, the others differ by a little. Values lie in
// [−9000, 9000]; the mean is 0.008·9000 − 0.992·15.
func stuckDifference(r *rand.Rand) float64 {
	if r.Float64() < 0.008 {
		return 9000
	}
	return -30 * r.Float64()
}

// cutPareto draws from a Pareto law of index 1.2 cut off at 10⁴: without the cut it has no variance.
func cutPareto(r *rand.Rand) float64 { return math.Min(1e4, 3*math.Pow(r.Float64(), -1/1.2)) }

// Null: the interval covers the mean with probability at least 0.95 on the population of rare stuck
// runs and on the heavy tail. n = 400 trials for each number of observations, 1000 with TROUPE_LONG, refused when the number
// covered has probability below 1e-3 under 0.95. The same rule refuses the planted mean ± 1.96 s.e.
// on both populations. Fixed seeds.
func TestBettingCoverage(t *testing.T) {
	const alpha, level = 0.05, 1e-3
	trials := sized(400, 1000)
	// E min(c, bX) for P(X > x) = x^−a, x ≥ 1: b + ∫_b^c (y/b)^−a dy.
	const a, b, c = 1.2, 3.0, 1e4
	pareto := b + b/(a-1)*(1-math.Pow(c/b, 1-a))
	for _, pop := range []struct {
		name   string
		draw   func(r *rand.Rand) float64
		lo, hi float64
		mean   float64
		n      int
	}{
		{"stuck runs", stuckDifference, -9000, 9000, 0.008*9000 - 0.992*15, 50},
		{"stuck runs", stuckDifference, -9000, 9000, 0.008*9000 - 0.992*15, 200},
		{"heavy tail", cutPareto, 0, 1e4, pareto, 50},
		{"heavy tail", cutPareto, 0, 1e4, pareto, 200},
	} {
		covered, planted := 0, 0
		x := make([]float64, pop.n)
		for trial := range trials {
			r := rand.New(rand.NewPCG(16, uint64(trial)))
			for i := range x {
				x[i] = pop.draw(r)
			}
			if l, h := BettingInterval(x, pop.lo, pop.hi, alpha); l <= pop.mean && pop.mean <= h {
				covered++
			}
			if math.Abs(Mean(x)-pop.mean) <= 1.96*StdErr(x) {
				planted++
			}
		}
		t.Logf("%s, n = %d: covered %d of %d, ± 1.96 s.e. %d", pop.name, pop.n, covered, trials, planted)
		if BinomialCDF(covered, trials, 1-alpha) < level {
			t.Errorf("%s, n = %d: covered %d of %d (seed 16)", pop.name, pop.n, covered, trials)
		}
		if BinomialCDF(planted, trials, 1-alpha) >= level {
			t.Errorf("%s, n = %d: the planted ± 1.96 s.e. passes with %d of %d: this test cannot fail", pop.name, pop.n, planted, trials)
		}
	}
}

// Null: all intervals of the sequence cover at once with probability at least 0.95, for rare stuck
// runs and for a fair coin, where many looks hurt most. n = 60 trials of 80 observations, 120 with TROUPE_LONG, refused at
// level 1e-3; the same rule refuses the planted mean ± 1.96 s.e. looked at after every observation
// from the tenth on.
func TestBettingSequenceCoverage(t *testing.T) {
	const n, alpha, level = 80, 0.05, 1e-3
	trials := sized(60, 120)
	coin := func(r *rand.Rand) float64 { return float64(r.IntN(2)) }
	for _, pop := range []struct {
		name         string
		draw         func(r *rand.Rand) float64
		lo, hi, mean float64
	}{
		{"stuck runs", stuckDifference, -9000, 9000, 0.008*9000 - 0.992*15},
		{"coin", coin, 0, 1, 0.5},
	} {
		covered, planted := 0, 0
		x := make([]float64, n)
		for trial := range trials {
			r := rand.New(rand.NewPCG(17, uint64(trial)))
			sum, squares := 0.0, 0.0
			normal := true
			for i := range x {
				x[i] = pop.draw(r)
				sum, squares = sum+x[i], squares+x[i]*x[i]
				if k := float64(i + 1); k >= 10 {
					se := math.Sqrt(math.Max(0, squares-sum*sum/k) / (k - 1) / k)
					normal = normal && math.Abs(sum/k-pop.mean) <= 1.96*se
				}
			}
			l, h := BettingSequence(x, pop.lo, pop.hi, alpha)
			if l[n-1] <= pop.mean && pop.mean <= h[n-1] { // ends never move outwards
				covered++
			}
			if normal {
				planted++
			}
		}
		t.Logf("%s: covered %d of %d, ± 1.96 s.e. %d", pop.name, covered, trials, planted)
		if BinomialCDF(covered, trials, 1-alpha) < level {
			t.Errorf("%s: covered at all times in %d of %d trials (seed 17)", pop.name, covered, trials)
		}
		if BinomialCDF(planted, trials, 1-alpha) >= level {
			t.Errorf("%s: the planted ± 1.96 s.e. passes with %d of %d: this test cannot fail", pop.name, planted, trials)
		}
	}
}

// The ends against the definition on a grid of means: a mean is in the interval exactly when neither
// product has reached 2/α, each product multiplied out. The interval is not trivial.
func TestBettingIsItsDefinition(t *testing.T) {
	const alpha = 0.1
	r := rand.New(rand.NewPCG(3, 1))
	for _, n := range []int{0, 1, 2, 20, 150} {
		x := make([]float64, n)
		for i := range x {
			x[i] = 2 + 3*r.Float64()*r.Float64() // in [2, 5]
		}
		refuted := func(mean float64, k int, horizon func(i int) float64) bool {
			mu := (mean - 2) / 3
			up, down, peak := 1.0, 1.0, 1.0
			sum, q := 0.5, 0.25
			for i := range k {
				v := (x[i] - 2) / 3
				bet := math.Sqrt(2 * math.Log(2/alpha) / (q / float64(i+1) * horizon(i+1)))
				up *= 1 + math.Min(bet, 0.5/mu)*(v-mu)
				down *= 1 - math.Min(bet, 0.5/(1-mu))*(v-mu)
				peak = max(peak, up, down)
				sum += v
				d := v - sum/float64(i+2)
				q += d * d
			}
			return peak >= 2/alpha
		}
		fixed := func(int) float64 { return float64(n) }
		l, h := BettingInterval(x, 2, 5, alpha)
		ls, hs := BettingSequence(x, 2, 5, alpha)
		for _, k := range []int{1, n / 2, n} {
			for g := 1; g < 300; g++ {
				mean := 2 + 3*float64(g)/300
				if in := l <= mean && mean <= h; k == n && in == refuted(mean, n, fixed) {
					t.Fatalf("n = %d: %v in [%v, %v] is %v", n, mean, l, h, in)
				}
				if k < 1 || k > n {
					continue
				}
				in := ls[k-1] <= mean && mean <= hs[k-1]
				if in == refuted(mean, k, func(i int) float64 { return float64(i) * math.Log1p(float64(i)) }) {
					t.Fatalf("after %d of %d: %v in [%v, %v] is %v", k, n, mean, ls[k-1], hs[k-1], in)
				}
			}
		}
		if n == 0 && (l != 2 || h != 5) || n == 150 && h-l > 0.6 {
			t.Errorf("n = %d: [%v, %v]", n, l, h)
		}
	}
}

// RareLoss: one more loss of worst in every OneIn runs takes the mean to zero, by construction; the
// probability of missing it is that of a binomial; and the border is where the rule says.
func TestRareLoss(t *testing.T) {
	for _, n := range []int{30, 200, 1692} {
		x := make([]float64, n)
		for i := range x {
			x[i] = 54.3
		}
		got := RareLoss(x, 9000, 0.05)
		if after := 54.3 - 9000/got.OneIn; math.Abs(after) > 1e-9 {
			t.Errorf("n = %d: one in %v leaves %v", n, got.OneIn, after)
		}
		if want := BinomialCDF(0, n, 1/got.OneIn); math.Abs(got.Unseen-want) > 1e-12 || got.Reverses != (want > 0.05) {
			t.Errorf("n = %d: %+v, want unseen %v", n, got, want)
		}
	}
	// 3·9000/54.3 = 497: 200 runs do not exclude it, 1692 do.
	if x := make([]float64, 5); !RareLoss(x, 1, 0.05).Reverses {
		t.Error("a difference of zero is settled")
	}
	if got := RareLoss([]float64{2, 2}, 1, 0.05); got.Reverses || got.OneIn != 0.5 {
		t.Errorf("a mean above the worst loss: %+v", got)
	}
	for _, f := range []func(){
		func() { RareLoss([]float64{1}, 0, 0.05) }, func() { RareLoss([]float64{1}, 1, 0) },
		func() { BettingInterval([]float64{2}, 0, 1, 0.05) }, func() { BettingInterval([]float64{math.NaN()}, 0, 1, 0.05) },
		func() { BettingInterval(nil, 1, 1, 0.05) }, func() { BettingSequence(nil, 0, 1, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		}()
	}
}
