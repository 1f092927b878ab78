package linalg

import "math"

// AddGaussian adds a draw of N(0, A) to sum, from independent standard normals z. A is positive
// semidefinite, exactly symmetric, d×d with padded rows, and is overwritten; least[i] is the rounding
// error of A_ii, and what is left of a variance that is not above it counts as 0. A may be singular,
// and a difference of matrices.
//
// It is a Cholesky factorisation: A = Σ_k c_k c_kᵀ/p_k, c_k what is left of column k and p_k its
// entry k, and the draw is Σ_k c_k z_k/√p_k. The largest variance that is left comes next, which is
// what keeps a singular matrix from dividing noise by noise. Standard deviations must not be below
// 1e-60 of each other. Cost d³.
func AddGaussian(sum, a, least, z []float64) {
	d := len(sum)
	ld := Padded(d)
	if len(a) != d*ld || len(least) != d || len(z) != d {
		panic(badLength)
	}
	var room [128]float64
	c := room[:]
	if ld > len(room) {
		c = make([]float64, ld)
	}
	c = c[:ld]
	for range d {
		// The largest diagonal entry. Positive numbers are ordered like their bits, negative ones lose,
		// and integers are compared without a branch.
		k, top := 0, int64(-1)
		for i, at := 0, 0; i < d; i, at = i+1, at+ld+1 {
			if b := int64(math.Float64bits(a[at])); b > top {
				k, top = i, b
			}
		}
		if top <= 0 {
			return
		}
		row := a[k*ld : k*ld+ld]
		if pivot := row[k]; pivot > least[k] {
			copy(c, row)
			s := 1 / pivot
			rankOne(a, s, c, d)
			f := math.Sqrt(s) * z[k]
			for i := range sum {
				sum[i] = math.FMA(c[i], f, sum[i])
			}
		}
		// What is left of the row and the column is rounding.
		clear(row)
		for i := k; i < len(a); i += ld {
			a[i] = 0
		}
	}
}
