package ope

import "troupe/internal/cpu"

//go:noescape
func growAVX2(p, l *[steps]float64, t *float64, stride, n int)

// grow is p[j] *= 1 + λ[j]·t for t = ts[0], ts[stride], …, n ≥ 1 of them in this order, with the same bits at every
// level.
func grow(p *[steps]float64, ts []float64, stride, n int) {
	if cpu.Kernels() >= cpu.AVX2 {
		_ = ts[(n-1)*stride]
		growAVX2(p, &lambdas, &ts[0], stride, n)
		return
	}
	growPortable(p, ts, stride, n)
}
