package linalg

import "math"

// Dot returns Σ a_i b_i with four partial sums that are added as (s0+s1)+(s2+s3): one fixed order,
// so equal inputs give equal bits everywhere in this module. b must not be shorter than a.
func Dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	for len(a) >= 4 && len(b) >= 4 {
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
		s3 += a[3] * b[3]
		a, b = a[4:], b[4:]
	}
	switch len(a) {
	case 3:
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
		s2 += a[2] * b[2]
	case 2:
		s0 += a[0] * b[0]
		s1 += a[1] * b[1]
	case 1:
		s0 += a[0] * b[0]
	}
	return (s0 + s1) + (s2 + s3)
}

// Axpy adds alpha·x to y. y must not be shorter than x; they may be the same slice.
func Axpy(alpha float64, x, y []float64) {
	y = y[:len(x)]
	for len(x) >= 4 && len(y) >= 4 {
		y[0] += alpha * x[0]
		y[1] += alpha * x[1]
		y[2] += alpha * x[2]
		y[3] += alpha * x[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		y[i] += alpha * v
	}
}

// MulSym stores A·x in dst for a square matrix A stored row by row in full, d² numbers. dst may
// not alias x.
func MulSym(dst, a, x []float64) {
	d := len(x)
	dst = dst[:d]
	for i := range dst {
		dst[i] = Dot(a[:d], x)
		a = a[d:]
	}
}

// Norm returns the Euclidean norm, without overflow or underflow.
func Norm(x []float64) float64 {
	q := Dot(x, x)
	if q > 1e-280 && q < 1e280 {
		return math.Sqrt(q)
	}
	var top float64
	for _, v := range x {
		top = max(top, math.Abs(v))
	}
	if top == 0 || math.IsInf(top, 0) || math.IsNaN(top) {
		return top
	}
	var s float64
	for _, v := range x {
		s += (v / top) * (v / top)
	}
	return top * math.Sqrt(s)
}

// Finite reports whether no element is NaN or an infinity.
func Finite(x []float64) bool {
	var s float64
	for _, v := range x {
		s += v * 0 // 0 for a finite v, otherwise NaN
	}
	return s == 0
}
