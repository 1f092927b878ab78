package ope

import "troupe/internal/cpu"

//go:noescape
func growAVX2(p, l *[steps]float64, t *float64, stride, n int)

// growSmallAVX2 is growAVX2 for t ≤ mostTerm.
//
//go:noescape
func growSmallAVX2(p, l *[steps]float64, t *float64, stride, n int)

// growSmall is grow for t ≤ mostTerm, with the same bits.
func growSmall(p *[steps]float64, ts []float64, stride, n int) {
	if cpu.Kernels() >= cpu.AVX2 {
		_ = ts[(n-1)*stride]
		growSmallAVX2(p, &lambdas, &ts[0], stride, n)
		return
	}
	growPortable(p, ts, stride, n)
}

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

//go:noescape
func shiftAVX2(rows, terms, shift *float64, events *int, n int) (most float64)

//go:noescape
func duelAVX2(rows, lo, up, shift *float64, events *int, n int) (most float64)

// shiftTerms stores max(φ(k) + c_k, 0) of some events, one row after the other, and returns the largest; with the same
// bits at every level.
func shiftTerms(rows *lateRows, terms *[mostLate][len(clips)]float64, shift *[len(clips)]float64, events []int) float64 {
	if len(events) == 0 || cpu.Kernels() < cpu.AVX2 {
		return shiftPortable(rows, terms, shift, events)
	}
	return shiftAVX2(&rows[0], &terms[0][0], &shift[0], &events[0], len(events))
}

// duelTerms stores max(lo(k) + up(k) − 1 + c_k, 0), likewise.
func duelTerms(rows *lateRows, lo, up *[mostLate][len(clips)]float64, shift *[len(clips)]float64, events []int) float64 {
	if len(events) == 0 || cpu.Kernels() < cpu.AVX2 {
		return duelPortable(rows, lo, up, shift, events)
	}
	return duelAVX2(&rows[0], &lo[0][0], &up[0][0], &shift[0], &events[0], len(events))
}
