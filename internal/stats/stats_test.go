package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// Summaries agree with gonum/stat, which computes them in another way.
func TestSummaryAgainstGonum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 2, 60).Draw(t, "x")
		near := func(name string, got, want float64) {
			if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
				t.Fatalf("%s = %v, gonum says %v", name, got, want)
			}
		}
		near("Mean", Mean(x), stat.Mean(x, nil))
		near("Variance", Variance(x), stat.Variance(x, nil))
		near("StdErr", StdErr(x), stat.StdErr(stat.StdDev(x, nil), float64(len(x))))
		y := make([]float64, len(x))
		for i := range y {
			y[i] = float64(i)
		}
		_, slope := stat.LinearRegression(y, x, nil, false)
		near("Slope", Slope(y, x), slope)
	})
}

// The mean of large, close values: the naive sum is off in the tenth digit.
func TestMeanOfLargeValues(t *testing.T) {
	x := make([]float64, 1000)
	for i := range x {
		x[i] = 1e15 + float64(i%3)
	}
	want := 1e15 + (334*0+333*1+333*2)/1000.0
	if got := Mean(x); got != want {
		t.Errorf("Mean = %.3f, want %.3f", got, want)
	}
}

// Quantiles by hand: R's quantile(c(1, 2, 4, 8), p, type = 7).
func TestQuantile(t *testing.T) {
	x := []float64{1, 2, 4, 8}
	for _, c := range []struct{ p, want float64 }{{0, 1}, {0.25, 1.75}, {0.5, 3}, {0.75, 5}, {0.9, 6.8}, {1, 8}} {
		if got := Quantile(x, c.p); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Quantile(%v) = %v, want %v", c.p, got, c.want)
		}
	}
}

func TestWorstMean(t *testing.T) {
	x := make([]float64, 200)
	for i := range x {
		x[i] = float64(i + 1)
	}
	if got, want := WorstMean(x, 0.05), 195.5; got != want { // ten values, 191 … 200
		t.Errorf("WorstMean of 1…200 = %v, want %v", got, want)
	}
	if got, want := WorstMean(x[:50], 0.05), 49.0; got != want { // ⌈2.5⌉ = 3 values
		t.Errorf("WorstMean of 1…50 = %v, want %v", got, want)
	}
	if got, want := WorstMean(x[:3], 0.05), 3.0; got != want {
		t.Errorf("WorstMean of 1…3 = %v, want %v", got, want)
	}
}

// The binomial law against exact rational arithmetic.
func TestBinomialCDFExact(t *testing.T) {
	for _, n := range []int{1, 2, 7, 30, 61} {
		for _, p := range []float64{0, 0.03125, 0.25, 0.5, 0.96875, 1} { // dyadic: exact in a rational
			rp := new(big.Rat).SetFloat64(p)
			rq := new(big.Rat).Sub(big.NewRat(1, 1), rp)
			sum := new(big.Rat)
			for k := 0; k <= n; k++ {
				term := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
				for range k {
					term.Mul(term, rp)
				}
				for range n - k {
					term.Mul(term, rq)
				}
				sum.Add(sum, term)
				want, _ := sum.Float64()
				if got := BinomialCDF(k, n, p); math.Abs(got-want) > 1e-13 {
					t.Fatalf("P(Bin(%d, %v) ≤ %d) = %v, exactly %v", n, p, k, got, want)
				}
			}
		}
	}
}

// Clopper–Pearson against the quantiles of the beta law, which is how textbooks give it.
func TestClopperPearsonAgainstBeta(t *testing.T) {
	for _, n := range []int{1, 5, 20, 200} {
		for _, alpha := range []float64{0.05, 0.05 / 21, 0.05 / 190} {
			for k := 0; k <= n; k += max(1, n/20) {
				lo, hi := ClopperPearson(k, n, alpha)
				wantLo, wantHi := 0.0, 1.0
				if k > 0 {
					wantLo = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(alpha / 2)
				}
				if k < n {
					wantHi = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - alpha/2)
				}
				if math.Abs(lo-wantLo) > 1e-9 || math.Abs(hi-wantHi) > 1e-9 {
					t.Fatalf("ClopperPearson(%d, %d, %v) = [%v, %v], beta quantiles [%v, %v]", k, n, alpha, lo, hi, wantLo, wantHi)
				}
			}
		}
	}
}

// Exact coverage, by enumeration: for every share the interval covers with probability ≥ 1 − alpha.
// The planted fault, the normal interval, does not.
func TestClopperPearsonCovers(t *testing.T) {
	const n, alpha = 30, 0.05
	coverage := func(interval func(k int) (lo, hi float64), p float64) float64 {
		var c float64
		for k := range n + 1 {
			if lo, hi := interval(k); lo <= p && p <= hi {
				c += BinomialCDF(k, n, p) - BinomialCDF(k-1, n, p)
			}
		}
		return c
	}
	exact := func(k int) (float64, float64) { return ClopperPearson(k, n, alpha) }
	normal := func(k int) (float64, float64) {
		p := float64(k) / n
		h := 1.96 * math.Sqrt(p*(1-p)/n)
		return p - h, p + h
	}
	caught := false
	for i := 1; i < 200; i++ {
		p := float64(i) / 200
		if c := coverage(exact, p); c < 1-alpha-1e-12 {
			t.Errorf("coverage at %v is %v", p, c)
		}
		caught = caught || coverage(normal, p) < 1-alpha-1e-12
	}
	if !caught {
		t.Error("the normal interval passes too: this test cannot fail")
	}
}

// Ranks against their definition by the exact law, and the sample sizes from which upper ends
// exist: 0.99ⁿ ≤ 0.025 from n = 368 on, 0.95ⁿ ≤ 0.025 from n = 72 on.
func TestQuantileRanks(t *testing.T) {
	for _, n := range []int{1, 5, 20, 72, 200} {
		for _, p := range []float64{0.05, 0.5, 0.95, 0.99} {
			lo, hi := QuantileRanks(n, p, 0.05)
			bin := distuv.Binomial{N: float64(n), P: p}
			below := func(k int) float64 { return bin.CDF(float64(k)) } // P(Bin ≤ k)
			if lo > 0 && below(lo-1) > 0.025+1e-12 {
				t.Errorf("n=%d p=%v: lower rank %d errs with %v", n, p, lo, below(lo-1))
			}
			if below(lo) <= 0.025-1e-12 && lo < n {
				t.Errorf("n=%d p=%v: lower rank %d could be higher", n, p, lo)
			}
			if hi <= n && 1-below(hi-1) > 0.025+1e-12 {
				t.Errorf("n=%d p=%v: upper rank %d errs with %v", n, p, hi, 1-below(hi-1))
			}
			if hi > 1 && 1-below(hi-2) <= 0.025-1e-12 {
				t.Errorf("n=%d p=%v: upper rank %d could be lower", n, p, hi)
			}
		}
	}
	for _, c := range []struct {
		p float64
		n int
	}{{0.99, 368}, {0.95, 72}} {
		if _, hi := QuantileRanks(c.n, c.p, 0.05); hi != c.n {
			t.Errorf("the %v quantile has its first upper end at n = %d; rank %d", c.p, c.n, hi)
		}
		if _, hi := QuantileRanks(c.n-1, c.p, 0.05); hi != c.n {
			t.Errorf("the %v quantile has no upper end at n = %d; rank %d", c.p, c.n-1, hi)
		}
	}
	x := []float64{1, 2, 3}
	if lo, hi := QuantileInterval(x, 0.5, 0.05); !math.IsInf(lo, -1) || !math.IsInf(hi, 1) {
		t.Errorf("three values give no 95%% interval for the median; got [%v, %v]", lo, hi)
	}
}

// uniform is a Draw of a seeded PCG generator, read in any order.
func uniform(seed uint64) Draw {
	return func(b, i, n int) int {
		r := rand.New(rand.NewPCG(seed, uint64(b)<<32|uint64(i)))
		return r.IntN(n)
	}
}

// MaxT against a direct computation from the definition on small data.
func TestMaxTAgainstDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n, b = 25, 199
	var d [][]float64
	for range 4 {
		x := make([]float64, n)
		for i := range x {
			x[i] = 5 + r.NormFloat64()*float64(1+len(d))
		}
		d = append(d, x)
	}
	draw := uniform(9)
	got, ok := NewResamples(n, b, draw).MaxT(d, 0.95)
	if !ok {
		t.Fatal("no factor")
	}
	var ts []float64
	for j := range b {
		var worst float64
		for _, x := range d {
			y := make([]float64, n)
			for i := range y {
				y[i] = x[draw(j, i, n)]
			}
			worst = max(worst, math.Abs(stat.Mean(y, nil)-stat.Mean(x, nil))/stat.StdErr(stat.StdDev(y, nil), n))
		}
		ts = append(ts, worst)
	}
	slices.Sort(ts)
	if want := ts[int(math.Ceil(0.95*(b+1)))-1]; math.Abs(got-want) > 1e-9*want {
		t.Errorf("MaxT = %v, from the definition %v", got, want)
	}
}

// With one contrast and normal data the factor is near Student's quantile, and a superset of
// contrasts never has a smaller factor on the same resamples.
func TestMaxTIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		const n = 40
		s := NewResamples(n, 99, uniform(r.Uint64()))
		var d [][]float64
		last := 0.0
		for range 5 {
			x := make([]float64, n)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			d = append(d, x)
			c, ok := s.MaxT(d, 0.95)
			if !ok || c < last {
				t.Fatalf("factor %v (%v) after %v with %d contrasts", c, ok, last, len(d))
			}
			last = c
		}
	})
}

// Contrasts that move in too few replications say nothing and spoil nothing.
func TestMaxTDegenerate(t *testing.T) {
	const n = 30
	s := NewResamples(n, 199, uniform(2))
	same, rare, fine := make([]float64, n), make([]float64, n), make([]float64, n)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range fine {
		fine[i] = r.NormFloat64()
	}
	rare[3], rare[7] = 4, -1
	if _, ok := s.MaxT([][]float64{same, rare}, 0.95); ok {
		t.Error("a factor out of nothing")
	}
	with, ok1 := s.MaxT([][]float64{same, rare, fine}, 0.95)
	without, ok2 := s.MaxT([][]float64{fine}, 0.95)
	if !ok1 || !ok2 || with != without {
		t.Errorf("factor %v (%v) with degenerate contrasts, %v (%v) without", with, ok1, without, ok2)
	}
	if Estimable(rare) || !Estimable(fine) {
		t.Error("Estimable: two moving replications of 30 are too few, 30 are enough")
	}
}

// The exponent of a pure power law is exact, and its interval holds it.
func TestExponent(t *testing.T) {
	const n = 50
	r := rand.New(rand.NewPCG(7, 8))
	ts := []float64{100, 200, 500, 1000}
	curve := make([][]float64, len(ts))
	g := make([]float64, n)
	for i := range g {
		g[i] = math.Exp(r.NormFloat64())
	}
	for k, t := range ts {
		curve[k] = make([]float64, n)
		for i := range g {
			curve[k][i] = g[i] * math.Pow(t, 0.3)
		}
	}
	s := NewResamples(n, 199, uniform(1))
	b, lo, hi, ok := s.Exponent(ts, curve, 0.95)
	if !ok || math.Abs(b-0.3) > 1e-12 || math.Abs(lo-0.3) > 1e-12 || math.Abs(hi-0.3) > 1e-12 {
		t.Errorf("exponent %v [%v, %v] %v, want 0.3 exactly: every replication has it", b, lo, hi, ok)
	}
	for i := range n { // half of the replications linear: the interval opens
		if i%2 == 0 {
			for k, t := range ts {
				curve[k][i] = 0.01 * t
			}
		}
	}
	b, lo, hi, ok = s.Exponent(ts, curve, 0.95)
	if !ok || !(lo < b && b < hi) || hi-lo < 0.01 {
		t.Errorf("exponent %v [%v, %v] %v, want an open interval around it", b, lo, hi, ok)
	}
	curve[2] = make([]float64, n)
	if _, _, _, ok := s.Exponent(ts, curve, 0.95); ok {
		t.Error("a mean of zero has no logarithm")
	}
}

// The first resamples of many are those that are drawn for fewer, of replications and of blocks.
func TestFirst(t *testing.T) {
	for _, n := range []int{11, 1<<14 + 3} {
		most, few := NewResamples(n, 7, uniform(6)).First(3), NewResamples(n, 3, uniform(6))
		if most.N() != n || most.B() != 3 {
			t.Fatalf("%d resamples of %d, expected 3 of %d", most.B(), most.N(), n)
		}
		for j := range 3 {
			if !slices.Equal(most.Weights(j), few.Weights(j)) {
				t.Errorf("n = %d: resample %d is another one", n, j)
			}
		}
	}
}

// The result does not depend on the number of processors: every resample writes its own place.
func TestResamplesAreDraws(t *testing.T) {
	s := NewResamples(11, 7, uniform(4))
	if s.N() != 11 || s.B() != 7 {
		t.Fatalf("N = %d, B = %d", s.N(), s.B())
	}
	for j := range s.B() {
		var sum float64
		for _, w := range s.Weights(j) {
			sum += w
		}
		if sum != 11 {
			t.Errorf("resample %d has %v replications", j, sum)
		}
	}
}

func BenchmarkMaxT(b *testing.B) {
	const n = 200
	s := NewResamples(n, 2000, uniform(1))
	r := rand.New(rand.NewPCG(1, 2))
	d := make([][]float64, 190)
	for k := range d {
		d[k] = make([]float64, n)
		for i := range d[k] {
			d[k][i] = r.NormFloat64()
		}
	}
	for b.Loop() {
		s.MaxT(d, 0.95)
	}
}

// TestBlocks: with more replications than are drawn one by one the factor of one contrast is near the normal quantile, the interval of an
// exponent near its delta method, and memory is bounded; sums that leave every second replication out are told.
func TestBlocks(t *testing.T) {
	const n, b = 2*mostBlocks + 5, 400
	r := rand.New(rand.NewPCG(3, 4))
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
		y[i] = 3 + r.NormFloat64()
	}
	s := NewResamples(n, b, func(_, _, k int) int { return r.IntN(k) })
	if len(s.weights) > mostBlocks*b {
		t.Errorf("%d counts", len(s.weights))
	}
	sum := 0.0
	for _, w := range s.Weights(7) {
		sum += w
	}
	if math.Abs(sum-n) > 30 {
		t.Errorf("counts add up to %v, want about %d", sum, n)
	}
	if c, ok := s.MaxT([][]float64{x}, 0.95); !ok || math.Abs(c-1.96) > 0.25 {
		t.Errorf("factor %v, want about 1.96", c)
	}
	ones := make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	_, lo, hi, ok := s.Exponent([]float64{1, math.E}, [][]float64{ones, y}, 0.95)
	want := 2 * 1.96 / 3 / math.Sqrt(n)
	if !ok || math.Abs((hi-lo)/want-1) > 0.15 {
		t.Errorf("interval %v to %v, want a width of about %v", lo, hi, want)
	}
}
