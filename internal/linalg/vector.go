package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// Axpy adds alpha·x to y. y must not be shorter than x; they may be the same slice.
func Axpy(alpha float64, x, y []float64) {
	y = y[:len(x)]
	if len(x) >= 8 {
		switch cpu.Kernels() {
		case cpu.AVX512:
			axpyAVX512(alpha, &x[0], &y[0], len(x))
			return
		case cpu.AVX2:
			axpyAVX2(alpha, &x[0], &y[0], len(x))
			return
		}
	}
	for len(x) >= 4 && len(y) >= 4 {
		y[0] += float64(alpha * x[0])
		y[1] += float64(alpha * x[1])
		y[2] += float64(alpha * x[2])
		y[3] += float64(alpha * x[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		y[i] += float64(alpha * v)
	}
}

// Divide divides every number of x by one. Each quotient is rounded as a quotient is.
func Divide(x []float64, by float64) {
	switch level := cpu.Kernels(); {
	case len(x) == 0:
	case level == cpu.AVX512:
		divideAVX512(&x[0], len(x), by)
	case level == cpu.AVX2:
		divideAVX2(&x[0], len(x), by)
	default:
		for i := range x {
			x[i] /= by
		}
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
		s += float64((v / top) * (v / top))
	}
	return top * math.Sqrt(s)
}

// Finite reports whether no element is NaN or an infinity.
func Finite(x []float64) bool { return Within(x, math.MaxFloat64) }

// Within reports whether |x_i| ≤ limit for all i, which is false for NaN. limit is not negative.
func Within(x []float64, limit float64) bool {
	if len(x) == 0 {
		return true
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		return withinAVX512(&x[0], len(x), limit) == 0
	case cpu.AVX2:
		return withinAVX2(&x[0], len(x), limit) == 0
	}
	top := math.Float64bits(limit) // numbers without sign are in the order of their bits, NaN after the others
	var most uint64
	for _, v := range x {
		most = max(most, math.Float64bits(v)&^(1<<63))
	}
	return most <= top
}

// hypot returns √(p² + q²) without overflow on the way. math.Hypot does the same operations, but those
// that are not assembly may be fused.
func hypot(p, q float64) float64 {
	p, q = math.Abs(p), math.Abs(q)
	p, q = max(p, q), min(p, q)
	if p == 0 || math.IsInf(p, 1) {
		return p
	}
	q /= p
	return p * math.Sqrt(1+float64(q*q))
}

// MaxAbs returns the largest |x_i|, 0 without any. No number may be NaN.
func MaxAbs(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		return maxAbsAVX512(&x[0], len(x))
	case cpu.AVX2:
		return maxAbsAVX2(&x[0], len(x))
	}
	var most float64
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	return most
}

// Prefetch asks for the numbers of x, which a later call will read, without waiting for them. It changes nothing;
// on machines without a kernel for it, it does nothing.
func Prefetch(x []float64) {
	if len(x) > 0 {
		prefetch(&x[0], len(x))
	}
}

// AddAbs adds |w_i|·by to dst_i by one fused multiply-add, and then more.
func AddAbs(dst, w []float64, by, more float64) {
	if len(w) != len(dst) {
		panic(badLength)
	}
	if len(dst) == 0 {
		return
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		addAbsAVX512(&dst[0], &w[0], len(dst), by, more)
	case cpu.AVX2:
		addAbsAVX2(&dst[0], &w[0], len(dst), by, more)
	default:
		for i, v := range w {
			dst[i] = math.FMA(math.Abs(v), by, dst[i]) + more
		}
	}
}
