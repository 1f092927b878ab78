package rng

import (
	"math"

	"troupe/internal/cpu"
	"troupe/internal/logs"
)

// The normal law is drawn by inversion: z = Φ⁻¹(p) by algorithm AS 241 (Wichura 1988, PPND16),
// rational functions whose relative error is 10⁻¹⁶. The operations and their order are spelt out,
// with every contraction a fused multiply-add and the logarithm of internal/logs, so that portable Go, AVX2
// and AVX-512 give the same bits on every machine. math.Erfinv does not promise that: its logarithm
// is assembly on some.
//
// All functions take q = p − ½, which is exact for the p = (2k+1)/2ⁿ⁺¹ that words of n ≤ 52 bits
// become, and never 0.

// Coefficients of AS 241 in order of rising powers: |q| ≤ 0.425, then √(−log p) up to 5 and beyond.
var (
	ppndA = [8]float64{
		3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
		4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3,
	}
	ppndB = [8]float64{
		1, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
		2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3,
	}
	ppndC = [8]float64{
		1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
		1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
	}
	ppndD = [8]float64{
		1, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
		1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
	}
	ppndE = [8]float64{
		6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
		2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
	}
	ppndF = [8]float64{
		1, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
		7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
	}
)

// horner returns Σ c_i r^i.
func horner(c *[8]float64, r float64) float64 {
	s := c[7]
	s = math.FMA(s, r, c[6])
	s = math.FMA(s, r, c[5])
	s = math.FMA(s, r, c[4])
	s = math.FMA(s, r, c[3])
	s = math.FMA(s, r, c[2])
	s = math.FMA(s, r, c[1])
	return math.FMA(s, r, c[0])
}

// quantile returns Φ⁻¹(½ + q) for 0 < |q| < ½, ½ − |q| a normal number.
func quantile(q float64) float64 {
	a := math.Abs(q)
	if a <= 0.425 {
		r := math.FMA(-q, q, 0.180625)
		return float64(q*horner(&ppndA, r)) / horner(&ppndB, r)
	}
	r := math.Sqrt(-logs.Normal(0.5 - a))
	if r <= 5 {
		r -= 1.6
		r = horner(&ppndC, r) / horner(&ppndD, r)
	} else {
		r -= 5
		r = horner(&ppndE, r) / horner(&ppndF, r)
	}
	return math.Copysign(r, q)
}

// half returns q for 52 of 64 random bits: p = (2k+1)/2⁵³, k the top 52 bits of w.
func half(w uint64) float64 {
	return math.Float64frombits(0x3ff0000000000000|w>>12) - 1.5 + 0x1p-53
}

// half32 returns q for a word: p = (2w+1)/2³³.
func half32(w uint32) float64 {
	return (float64(int32(w^1<<31)) + 0.5) * 0x1p-32
}

// quantiles replaces each q in x by quantile(q).
func quantiles(x []float64) {
	switch cpu.Kernels() {
	case cpu.AVX512:
		if n := len(x) &^ 7; n > 0 {
			quantilesAVX512(&x[0], n)
			x = x[n:]
		}
	case cpu.AVX2:
		if n := len(x) &^ 3; n > 0 {
			quantilesAVX2(&x[0], n)
			x = x[n:]
		}
	}
	for i, q := range x {
		x[i] = quantile(q)
	}
}
