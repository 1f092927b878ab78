package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// Arms finds the ArgMax of a short list of rows that is asked for many times. It keeps a copy of the
// rows in blocks of 16, one in each lane, so that no sum crosses the lanes; the order of sums, and so
// every bit of the answer, is ArgMax's. Safe for concurrent use.
type Arms struct {
	x      []float64 // the rows
	d      int
	panels []float64 // [block of 16 rows][feature][16]
	blocks int
}

// NewArms returns the arms for the rows of x, d numbers each, or nil where that would not pay: with the
// portable kernels, and with AVX2 for more than 32 rows. It keeps x, which must not change.
func NewArms(x []float64, d int) *Arms {
	if d < 1 || len(x)%d != 0 || len(x) == 0 {
		panic(badLength)
	}
	rows := len(x) / d
	if level := cpu.Kernels(); level == cpu.Portable || level == cpu.AVX2 && rows > 32 {
		return nil
	}
	a := &Arms{x: x, d: d, blocks: (rows + 15) / 16}
	a.panels = make([]float64, a.blocks*16*d)
	for i := range a.blocks * 16 {
		at, row := i/16*d*16+i%16, min(i, rows-1) // the last row fills up: the first of equals wins
		for j := range d {
			a.panels[at+j*16] = x[row*d+j]
		}
	}
	return a
}

// ArgMax returns ArgMax(x, theta) and stores that row in dst; or at = −1, and nothing else, when some
// |theta_i| ≤ most does not hold. dst may not alias theta.
func (a *Arms) ArgMax(dst, theta []float64, most float64) (at int, value float64) {
	if len(theta) != a.d || len(dst) != a.d {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		return armsAVX512(&a.panels[0], a.blocks, a.d, &theta[0], most, &a.x[0], &dst[0])
	case cpu.AVX2:
		return armsAVX2(&a.panels[0], a.blocks, a.d, &theta[0], most, &a.x[0], &dst[0])
	}
	for _, v := range theta {
		if !(math.Abs(v) <= most) {
			return -1, 0
		}
	}
	at, value = argMax(a.x, theta)
	copy(dst, a.x[at*a.d:])
	return at, value
}
