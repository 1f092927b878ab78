package logs

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestAgainstBig: both functions against log computed with 120 bits, in units of the last place of the
// result, over all magnitudes, around 1, and at the ends.
func TestAgainstBig(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	worst, worst1 := 0.0, 0.0
	n := 2000
	if testing.Short() {
		n = 200
	}
	for range n {
		x := math.Ldexp(0.5+r.Float64()/2, r.IntN(2090)-1065)
		near := 1 + (r.Float64()-0.5)*math.Ldexp(1, -r.IntN(50))
		small := (r.Float64() - 0.5) * math.Ldexp(1, -r.IntN(1000))
		for _, v := range []float64{x, near} {
			if v > 0 && v <= math.MaxFloat64 && v != 1 {
				worst = max(worst, ulps(Log(v), exact(new(big.Float).SetFloat64(v))))
			}
		}
		for _, v := range []float64{x, near, small, -math.Abs(near - 1)} {
			if v > -1 && v <= math.MaxFloat64 && v != 0 {
				one := new(big.Float).SetPrec(2200).SetFloat64(1)
				worst1 = max(worst1, ulps(Log1p(v), exact(one.Add(one, new(big.Float).SetFloat64(v)))))
			}
		}
	}
	t.Logf("Log is off by %.2f units, Log1p by %.2f", worst, worst1)
	if worst >= 1 || worst1 >= 3 {
		t.Errorf("Log is off by %.2f units of the last place, Log1p by %.2f; expected below 1 and 3", worst, worst1)
	}
}

// exact returns log x with 120 bits or so: Σ 2/(2k+1)·s^{2k+1}, s = (m−1)/(m+1), for x = m·2ᵉ, m in [½, 1),
// or m = x near 1; the same series gives log 2 = log(4/2)… from s = 1/3.
func exact(x *big.Float) *big.Float {
	const precision = 1200 // x − 1 may be as small as 2⁻¹⁰⁰⁰
	series := func(m *big.Float) *big.Float {
		one := new(big.Float).SetPrec(precision).SetInt64(1)
		up, down := new(big.Float).SetPrec(precision).Sub(m, one), new(big.Float).SetPrec(precision).Add(m, one)
		s := up.Quo(up, down)
		square := new(big.Float).SetPrec(200).Mul(s, s)
		sum, power := new(big.Float).SetPrec(200), new(big.Float).SetPrec(200).Set(s)
		for k := int64(1); k < 400 && power.Sign() != 0; k += 2 {
			term := new(big.Float).SetPrec(200).Quo(power, new(big.Float).SetInt64(k))
			sum.Add(sum, term)
			if term.MantExp(nil) < sum.MantExp(nil)-140 {
				break
			}
			power.Mul(power, square)
		}
		return sum.Mul(sum, new(big.Float).SetInt64(2))
	}
	m := new(big.Float)
	e := x.MantExp(m)
	if e == 1 || e == 0 { // x in [½, 2): no cancellation
		m.Set(x)
		e = 0
	}
	two := series(new(big.Float).SetInt64(2))
	two.Mul(two, new(big.Float).SetInt64(int64(e)))
	return two.Add(two, series(m))
}

// ulps returns |got − want| in units of the last place of want.
func ulps(got float64, want *big.Float) float64 {
	near, _ := want.Float64()
	unit := math.Nextafter(math.Abs(near), math.Inf(1)) - math.Abs(near)
	diff := new(big.Float).SetPrec(300).Sub(new(big.Float).SetFloat64(got), want)
	d, _ := diff.Quo(diff, new(big.Float).SetFloat64(unit)).Float64()
	return math.Abs(d)
}

// TestBits holds a few results to their bits: they must be the same on every machine.
func TestBits(t *testing.T) {
	for _, c := range []struct {
		x          float64
		log, log1p uint64
	}{
		{0.1, 0xc0026bb1bbb55515, 0x3fb8663f793c46c7},
		{0.9999, 0xbf1a3738d2cf1cc2, 0x3fe62dda22c2bf90},
		{1e-09, 0xc034b927f32bffb8, 0x3e112e0be801f1d9},
		{3, 0x3ff193ea7aad030a, 0x3ff62e42fefa39ef},
		{134, 0x401397635107586b, 0x40139f0059fd2595},
		{1e300, 0x4085963447f87fb5, 0x4085963447f87fb5},
		{2.5e-310, 0xc0864714a9115cd0, 0x2e055c9a3f6c},
		{1.0000001, 0x3e7ad7f2847b6492, 0x3fe62e4319d22c7f},
	} {
		if got := math.Float64bits(Log(c.x)); got != c.log {
			t.Errorf("Log(%v) has the bits %#x, want %#x", c.x, got, c.log)
		}
		if got := math.Float64bits(Log1p(c.x)); got != c.log1p {
			t.Errorf("Log1p(%v) has the bits %#x, want %#x", c.x, got, c.log1p)
		}
	}
}

// TestSpecial: the special cases are those of package math.
func TestSpecial(t *testing.T) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, -2, math.Inf(1), math.Inf(-1), math.NaN()} {
		if a, b := Log(x), math.Log(x); a != b && (a == a || b == b) {
			t.Errorf("Log(%v) = %v, want %v", x, a, b)
		}
		if a, b := Log1p(x), math.Log1p(x); a != b && (a == a || b == b) || math.Signbit(a) != math.Signbit(b) {
			t.Errorf("Log1p(%v) = %v, want %v", x, a, b)
		}
	}
	for e := -1074; e < 1024; e++ { // powers of two
		x := math.Ldexp(1, e)
		if a, b := Log(x), float64(e)*math.Ln2; math.Abs(a-b) > 1e-15*math.Abs(b) {
			t.Errorf("Log(2^%d) = %v, want %v", e, a, b) // math.Log is wrong below 2^-1022 on amd64
		}
	}
}

// TestRoot: the n-th power of the n-th root, against math.Pow, and what is refused.
func TestRoot(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		x, n := math.Ldexp(r.Float64(), -r.IntN(54)), 1+r.IntN(200)
		if x == 0 {
			continue
		}
		if got, want := Root(x, n), math.Pow(x, 1/float64(n)); !(math.Abs(got-want) <= 1e-14*want) {
			t.Fatalf("Root(%v, %d) = %v, want %v", x, n, got, want)
		}
	}
	if got := Root(1, 7); got != 1 {
		t.Errorf("Root(1, 7) = %v", got)
	}
	if got := math.Float64bits(Root(0.3, 10)); got != 0x3fec5ec42b8b4a19 {
		t.Errorf("Root(0.3, 10) has the bits %#x", got)
	}
	for _, f := range []func(){func() { Root(0, 2) }, func() { Root(1.5, 2) }, func() { Root(math.NaN(), 2) }, func() { Root(0.5, 0) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a root that cannot be is computed")
				}
			}()
			f()
		}()
	}
}
