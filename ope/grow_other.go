//go:build !amd64

package ope

// grow is p[j] *= 1 + λ[j]·t for t = ts[0], ts[stride], …, n ≥ 1 of them in this order.
func grow(p *[steps]float64, ts []float64, stride, n int) { growPortable(p, ts, stride, n) }

// growSmall is grow for t ≤ mostTerm.
func growSmall(p *[steps]float64, ts []float64, stride, n int) { growPortable(p, ts, stride, n) }

func shiftTerms(rows *lateRows, terms *[mostLate][len(clips)]float64, shift *[len(clips)]float64, events []int) float64 {
	return shiftPortable(rows, terms, shift, events)
}

func duelTerms(rows *lateRows, lo, up *[mostLate][len(clips)]float64, shift *[len(clips)]float64, events []int) float64 {
	return duelPortable(rows, lo, up, shift, events)
}
