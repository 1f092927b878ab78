// Package logs has the logarithms, exponentials and roots that results depend on, with the same bits on every machine:
// those of package math are assembly on some processors, and where they are Go, the compiler may fuse their operations.
// Here every operation and its rounding is spelt out.
package logs

import "math"

// Constants of FreeBSD's e_log.c, log(1+m) for 1+m in [√½, √2), and of its e_exp.c.
const (
	ln2Hi = 6.93147180369123816490e-01 // its low 32 bits are 0
	ln2Lo = 1.90821492927058770002e-10
	log1  = 6.666666666666735130e-01
	log2  = 3.999999999940941908e-01
	log3  = 2.857142874366239149e-01
	log4  = 2.222219843214978396e-01
	log5  = 1.818357216161805012e-01
	log6  = 1.531383769920937332e-01
	log7  = 1.479819860511658591e-01

	exp1 = 1.66666666666666657415e-01
	exp2 = -2.77777777770155933842e-03
	exp3 = 6.61375632143793436117e-05
	exp4 = -1.65339022054652515390e-06
	exp5 = 4.13813679705723846039e-08

	halfRoot = 0x3fe6a09e00000000 // bits of √½, rounded
)

// Normal returns log x for a positive normal number x: not 0, subnormal, infinite or NaN. Its error is
// below one unit in the last place. The kernels of package rng do the same operations.
func Normal(x float64) float64 {
	const one = 0x3ff0000000000000
	b := math.Float64bits(x) + (one - halfRoot)
	k := float64(int64(b>>52) - 1023)
	m := math.Float64frombits(b&(1<<52-1)+halfRoot) - 1
	s := m / (2 + m)
	z := float64(s * s)
	r := math.FMA(log7, z, log6)
	r = math.FMA(r, z, log5)
	r = math.FMA(r, z, log4)
	r = math.FMA(r, z, log3)
	r = math.FMA(r, z, log2)
	r = math.FMA(r, z, log1)
	h := float64(float64(0.5*m) * m)
	t := math.FMA(s, math.FMA(r, z, h), float64(k*ln2Lo))
	return math.FMA(k, ln2Hi, m-(h-t))
}

// Log returns log x, with the special cases of math.Log. Its error is below one unit in the last place.
func Log(x float64) float64 {
	switch {
	case x >= 0x1p-1022 && x <= math.MaxFloat64:
		return Normal(x)
	case x > 0 && x < 1: // subnormal
		return Normal(x*0x1p52) - 52*math.Ln2
	case x == 0:
		return math.Inf(-1)
	case x < 0:
		return math.NaN()
	}
	return x // +∞, NaN
}

// Log1p returns log(1 + x), with the special cases of math.Log1p. Its error is below three units in the
// last place.
func Log1p(x float64) float64 {
	if !(x > -1 && x <= math.MaxFloat64) || x == 0 {
		switch {
		case x == -1:
			return math.Inf(-1)
		case x < -1:
			return math.NaN()
		}
		return x // ±0, +∞, NaN
	}
	// u = (1 + x)(1 + ε), and what rounding took away is known: log(1+x) = log u + log(1 + c/u), c/u tiny.
	u := 1 + x
	c := x - (u - 1)
	if x > 1 {
		c = 1 - (u - x)
	}
	return Log(u) + c/u
}

// Root returns x^{1/n} for 0 < x ≤ 1, x normal, and n ≥ 1: exp(log(x)/n). Its relative error is below
// 1e-14.
func Root(x float64, n int) float64 {
	if !(x >= 0x1p-1022 && x <= 1) || n < 1 {
		panic("logs: Root of a number outside (0, 1], or of order below 1")
	}
	if n == 1 {
		return x
	}
	// FreeBSD's e_exp.c: y = k log 2 + r, |r| ≤ ½ log 2, and exp r = 1 + 2r/(R(r²) − r).
	y := Normal(x) / float64(n)
	k := math.Floor(float64(y*(1/math.Ln2)) + 0.5)
	hi, lo := math.FMA(-k, ln2Hi, y), float64(k*ln2Lo)
	r := hi - lo
	t := float64(r * r)
	p := math.FMA(exp5, t, exp4)
	p = math.FMA(p, t, exp3)
	p = math.FMA(p, t, exp2)
	p = math.FMA(p, t, exp1)
	c := r - float64(t*p)
	return math.Ldexp(1-((lo-float64(r*c)/(2-c))-hi), int(k))
}
