package theory

import (
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// stuckByQuadrature is P(m, σ, L) by Gauss–Legendre, from the density in Z: it shares no formula with
// theory.Stuck but the error function.
func stuckByQuadrature(m, sigma, gap float64) float64 {
	n := distuv.UnitNormal
	f := func(z float64) float64 { // Z = −gap − z
		return n.Prob(gap+z) * math.Pow(math.Erf(z/sigma/math.Sqrt2), m)
	}
	var sum float64
	x, w := legendre()
	for a := 0.0; a < 40; a++ {
		for i, v := range x {
			sum += w[i] * f(a+v)
		}
	}
	return sum
}

// legendre are the nodes and weights on [0, 1].
var legendre = sync.OnceValues(func() (x, weight []float64) {
	x, weight = make([]float64, 60), make([]float64, 60)
	quad.Legendre{}.FixedLocations(x, weight, 0, 1)
	return x, weight
})

// sized returns the exhaustive size with TROUPE_LONG, otherwise one that fails on the same faults.
func sized(small, long int) int {
	if os.Getenv("TROUPE_LONG") != "" {
		return long
	}
	return small
}

// TestStuck: the enclosure and the closed forms against quadrature; the planted exponent σ²/2 is seen.
func TestStuck(t *testing.T) {
	for _, m := range []float64{1, 2, 8, 64, 1000, 1e5} {
		for _, sigma := range []float64{0.2, 1, 1.1, 3, 8} {
			for _, gap := range []float64{0, 0.3, 2} {
				p := stuckByQuadrature(m, sigma, gap)
				lo, hi := Stuck(m, sigma, gap)
				if !(lo <= p*(1+1e-9) && p <= hi*(1+1e-9)) || p > 1e-12 && hi/lo > 1.15 {
					t.Errorf("m = %g, σ = %g, L = %g: %g outside [%g, %g]", m, sigma, gap, p, lo, hi)
				}
				if x := StuckPower(m, sigma, gap); x > p*(1+1e-9) {
					t.Errorf("m = %g, σ = %g, L = %g: StuckPower %g above %g", m, sigma, gap, x, p)
				}
				for name, x := range map[string]float64{"StuckFew": StuckFew(m, sigma, gap), "StuckMany": StuckMany(m, sigma, gap)} {
					if x < p*(1-1e-9) {
						t.Errorf("m = %g, σ = %g, L = %g: %s %g below %g", m, sigma, gap, name, x, p)
					}
				}
			}
		}
	}
	// The closed forms are not idle: the moments are tight for few members, the power has its exponent.
	if p, x := stuckByQuadrature(3, 20, 0), StuckFew(3, 20, 0); x > 1.02*p {
		t.Errorf("StuckFew %g for %g", x, p)
	}
	slope := (math.Log(StuckPower(1e150, 1.1, 0)) - math.Log(StuckPower(1e100, 1.1, 0))) / math.Log(1e50)
	if math.Abs(slope+1.21) > 0.01 {
		t.Errorf("exponent of StuckPower %g, want −σ² = −1.21", slope)
	}
}

// TestForGood: the sums over blocks of pulls enclose the plain largest term and sum, at levels below, at and above 0, and a simulation from the definition
// (10 000 tapes of 80 pulls, 20 000 with TROUPE_LONG, Δ = 0.3, λ = 1, r = 1, m = 16) lies between them at level 1e-6. At most one pull for ever, which
// is P(m, r√(1+λ), Δ), is rarer, and the test tells it.
func TestForGood(t *testing.T) {
	for _, c := range []struct{ m, r, lambda, gap, level, pulls float64 }{
		{16, 1, 1, 0.3, 0, 80}, {28, 1, 1, 0.3, 0, math.Inf(1)}, {300, 1.5, 0.1, 0.2, 0, math.Inf(1)}, {4, 1, 2, 1, 0, 3}, {64, 0.7, 5, 0.1, 0, 50},
		{16, 1, 1, 0.3, 1, math.Inf(1)}, {400, 1.2, 0.5, 0.2, 3, 40}, {64, 1, 1, 0.3, -1, math.Inf(1)}, {8, 1, 5, 0.1, -6, math.Inf(1)}, {2000, 1, 1, 0.3, 2, 1},
	} {
		var top, sum float64
		if c.level > 0 {
			top = math.Pow(math.Erf(c.level*math.Sqrt(c.lambda)/c.r/math.Sqrt2), c.m)
			sum = top
		}
		for k := 1.0; k <= min(c.pulls, 40/c.gap/c.gap+2*c.lambda*math.Abs(c.level)/c.gap); k++ {
			p := stuckByQuadrature(c.m, c.r*math.Sqrt(1+c.lambda/k), c.gap*math.Sqrt(k)-c.lambda*c.level/math.Sqrt(k))
			top, sum = max(top, p), sum+p
		}
		lo, hi, err := Few{Best: c.level + c.gap, Other: c.level, Lambda: c.lambda, R: c.r, Draws: c.m}.ForGood(c.pulls)
		if err != nil {
			t.Fatal(err)
		}
		if lo > top*(1+1e-9) || lo < 0.9*top || hi < min(1, sum)*(1-1e-9) || hi > 1.3*sum {
			t.Errorf("%+v: [%g, %g] for the largest term %g and the sum %g", c, lo, hi, top, sum)
		}
	}
	const m, pulls = 16, 80
	n := sized(10_000, 20_000)
	r := rand.New(rand.NewPCG(16, 3))
	lost := 0
	for range n {
		var w [m]float64
		for j := range w {
			w[j] = r.NormFloat64()
		}
		noise := 0.0
		for k := 1.0; k <= pulls; k++ {
			noise += r.NormFloat64()
			top := 0.0
			for j := range w {
				w[j] += r.NormFloat64()
				top = max(top, math.Abs(w[j]))
			}
			if 0.3*k+noise+top <= 0 {
				lost++
				break
			}
		}
	}
	lo, hi, _ := Few{Best: 0.3, Lambda: 1, R: 1, Draws: m}.ForGood(pulls)
	t.Logf("lost in %d of %d runs, between %.4f and %.4f", lost, n, lo, hi)
	if (distuv.Binomial{N: float64(n), P: lo}).CDF(float64(lost)) < 1e-6 || (distuv.Binomial{N: float64(n), P: hi}).Survival(float64(lost)-1) < 1e-6 {
		t.Errorf("lost in %d of %d runs, between %g and %g", lost, n, lo, hi)
	}
	if _, once := Stuck(m, math.Sqrt2, 0.3); (distuv.Binomial{N: float64(n), P: once}).Survival(float64(lost)-1) >= 1e-6 {
		t.Errorf("the test does not tell at most one pull: %d of %d, %g", lost, n, once)
	}
}

// TestFewMembers: at the necessary m − 1 the stuck probability is above δ, and the two sizes are of
// order log(1/δ) for every c, in the range that the page states.
func TestFewMembers(t *testing.T) {
	const lambda, gap = 1.0, 0.1
	for _, c := range []float64{0.2, 0.5, 1, 2} {
		for _, delta := range []float64{1e-3, 1e-6, 1e-12, 1e-24} {
			sigma := c * Beta(lambda, delta, math.Log(2)) * math.Sqrt2
			need, enough := FewNecessary(sigma, gap, delta), FewSufficient(c, delta)
			if need > enough {
				t.Errorf("c = %g, δ = %g: necessary %g, sufficient %g", c, delta, need, enough)
			}
			if m := math.Ceil(need) - 1; m >= 1 {
				if p := stuckByQuadrature(m, sigma, gap); !(p > delta) {
					t.Errorf("c = %g, δ = %g: %g with m = %g members below the necessary %g", c, delta, p, m, need)
				}
			}
			// The closed form of the page.
			l, y := -math.Log(delta), 1/(5.5*c*math.Sqrt(1+lambda))
			if simple := (0.4375*l - math.Log(4)) / -math.Log(math.Erf(y/math.Sqrt2)); simple > need*(1+1e-3) {
				t.Errorf("c = %g, δ = %g: closed form %g above the supremum %g", c, delta, simple, need)
			}
		}
	}
	if a, b := FewSufficient(1, 1e-12), FewSufficient(1, 1e-6); math.Abs(a/b-2) > 1e-12 {
		t.Errorf("FewSufficient is not linear in log(1/δ): %g, %g", a, b)
	}
}

// TestFewShare: S(s) against a direct sum, the number of epochs against counting, and the share below
// the frequency of its own three events, drawn without the formulas (n = 200 000, level 1e-6).
func TestFewShare(t *testing.T) {
	f := Few{Best: 0.2, Other: 0, Lambda: 0.5, R: 0.3, Draws: 2}
	var sum float64
	for n := range 100_000 {
		k := 0.5 + float64(n)
		sum += distuv.UnitNormal.CDF(-0.9 * k / math.Sqrt(float64(n)+0.09*k))
	}
	if got := f.failing(0.9); got < sum || got > sum*1.000001 {
		t.Errorf("S = %g, summed directly %g", got, sum)
	}
	for _, T := range []int{2, 10, 3000} {
		for _, lambda := range []float64{0.1, 1, 7} {
			seen := map[float64]bool{}
			for n := range T - 1 {
				seen[math.Floor(math.Log2((1+lambda)*(lambda+float64(n))/lambda/lambda))] = true
			}
			if got, most := Epochs(float64(T), lambda, 2), 2+math.Log2(1+float64(T)/lambda); got < float64(len(seen)) || got > most {
				t.Errorf("T = %d, λ = %g: %g epochs, counted %d, at most %g", T, lambda, got, len(seen), most)
			}
		}
	}
	share, err := f.Share()
	if err != nil || !(share > 1e-3) {
		t.Fatalf("share %g, %v", share, err)
	}
	// A run of the two models from its definition: 40 rounds, m = 2.
	const n = 200_000
	stuck := 0
	r := rand.New(rand.NewPCG(16, 2))
	for range n {
		var w [2][2]float64 // member, arm
		for j := range w {
			w[j] = [2]float64{math.Sqrt(0.5) * r.NormFloat64(), math.Sqrt(0.5) * r.NormFloat64()}
		}
		var b [2]float64
		v, mean, pulls := [2]float64{0.5, 0.5}, [2]float64{0.2, 0}, 0
		for t := 0; t < 40 && pulls < 2; t++ {
			j, sign := r.IntN(2), float64(2*r.IntN(2)-1)
			a := 0
			if (b[1]+sign*0.3*w[j][1])/v[1] > (b[0]+sign*0.3*w[j][0])/v[0] {
				a = 1
			}
			if a == 0 {
				pulls++
			}
			b[a] += mean[a] + r.NormFloat64()
			v[a]++
			for k := range w {
				w[k][a] += r.NormFloat64()
			}
		}
		if pulls == 1 {
			stuck++
		}
	}
	t.Logf("pulled once in %d of %d runs, thm:few promises %.4f", stuck, n, share)
	if (distuv.Binomial{N: float64(n), P: share}).CDF(float64(stuck)) < 1e-6 {
		t.Errorf("pulled once in %d of %d runs, thm:few promises %g", stuck, n, share)
	}
	if (distuv.Binomial{N: float64(n), P: 20 * share}).CDF(float64(stuck)) >= 1e-6 {
		t.Errorf("a bound 20 times as large passes: %d of %d, %g", stuck, n, share)
	}
	for _, bad := range []Few{{Best: 0, Other: 0, Lambda: 1, R: 1, Draws: 1}, {Best: 1, Lambda: 0, R: 1, Draws: 1},
		{Best: 1, Lambda: 1, R: math.Inf(1), Draws: 1}, {Best: 1, Lambda: 1, R: 1}, {Best: math.NaN(), Lambda: 1, R: 1, Draws: 1}} {
		if _, err := bad.Share(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
