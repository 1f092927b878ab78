package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// GaussianWork is the number of scratch numbers that AddGaussian needs.
func GaussianWork(d int) int { return 4*Padded(d) + 2*d }

// AddGaussian adds a draw of N(0, A) to sum, from independent standard normals z. A is positive
// semidefinite, exactly symmetric, d×d with padded rows, and is overwritten; least[i] is the rounding
// error of A_ii, and what is left of a variance that is not above it counts as 0. A may be singular,
// and a difference of matrices. work has GaussianWork(d) numbers, whatever they are.
//
// It is a Cholesky factorisation: A = Σ_k c_k c_kᵀ/p_k, c_k what is left of column k and p_k its
// entry k, and the draw is Σ_k c_k z_k/√p_k. The largest variance that is left comes next, which is
// what keeps a singular matrix from dividing noise by noise. Standard deviations must not be below
// 1e-60 of each other. What is left of an entry is A_ij ← fma(−1/p_k, c_ki·c_kj, A_ij) for one pivot after the other;
// a column makes these steps when its own turn comes, the diagonal at once. Cost d³/2.
func AddGaussian(sum, a, least, z, work []float64) {
	d := len(sum)
	ld := Padded(d)
	if d == 0 || len(a) != d*ld || len(least) != d || len(z) != d || len(work) != GaussianWork(d) {
		panic(badLength)
	}
	level := cpu.Kernels()
	if level == cpu.Portable {
		addGaussian(sum, a, least, z, work)
		return
	}
	// Groups of eight coordinates: what is left of the diagonal, ones where a pivot may still come, the
	// coordinates' numbers, and the sum; internal/gen/gaussian.go knows the places. Then a pair for each pivot.
	groups, steps := work[:4*ld], work[4*ld:]
	for i, at := 0, 0; i < ld; i, at = i+8, at+32 {
		g := (*[32]float64)(groups[at:])
		n := min(8, d-i)
		clear(g[:])
		for l := range n {
			g[l] = a[(i+l)*(ld+1)]
			g[8+l] = ones
		}
		for l := range 8 {
			g[16+l] = float64(i + l)
		}
		copy(g[24:], sum[i:i+n])
	}
	if level == cpu.AVX512 {
		gaussianAVX512(&a[0], d, ld, &groups[0], &steps[0], &least[0], &z[0])
	} else {
		gaussianAVX2(&a[0], d, ld, &groups[0], &steps[0], &least[0], &z[0])
	}
	for i := 0; i < d; i += 8 {
		copy(sum[i:], groups[4*i+24:4*i+32])
	}
}

// ones has all bits set.
var ones = math.Float64frombits(math.MaxUint64)

// addGaussian is AddGaussian in portable Go.
func addGaussian(sum, a, least, z, work []float64) {
	d := len(sum)
	ld := Padded(d)
	left, step, order := work[:d], work[ld:ld+d], work[2*ld:2*ld+d]
	for i := range left {
		left[i] = a[i*(ld+1)]
	}
	for q := 0; ; {
		// The largest diagonal entry. Positive numbers are ordered like their bits, negative ones lose,
		// and integers are compared without a branch.
		k, top := 0, int64(0)
		for i, v := range left {
			if b := int64(math.Float64bits(v)); b > top {
				k, top = i, b
			}
		}
		if top == 0 {
			return
		}
		pivot := left[k]
		if pivot <= least[k] { // what is left of this coordinate is rounding
			left[k] = math.Inf(-1)
			continue
		}
		c := a[k*ld:][:d]
		for p, s := range step[:q] {
			past := a[int(order[p])*ld:][:len(c)]
			entry := past[k]
			for i, v := range past {
				c[i] = math.FMA(-s, float64(v*entry), c[i])
			}
		}
		s := 1 / pivot
		f := math.Sqrt(s) * z[k]
		for i, v := range c {
			if left[i] == math.Inf(-1) { // its pivot came before
				v, c[i] = 0, 0
			} else {
				left[i] = math.FMA(-s, float64(v*v), left[i])
			}
			sum[i] = math.FMA(v, f, sum[i])
		}
		left[k] = math.Inf(-1)
		step[q], order[q] = s, float64(k)
		q++
	}
}
