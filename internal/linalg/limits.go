package linalg

import "troupe/internal/cpu"

// Limits are loops that do nothing but run into a limit of the machine, with the instructions of the
// level at which the kernels run: what they reach is what a kernel can reach at most. There are none
// for the portable level, whose loops show the compiler's limits and not the machine's.
type Limits struct{ wide bool }

// MachineLimits returns the loops; ok is false at the portable level.
func MachineLimits() (l Limits, ok bool) {
	level := cpu.Kernels()
	return Limits{wide: level == cpu.AVX512}, level != cpu.Portable
}

// Multiply does n > 0 rounds of twelve independent vector fused multiply-adds in registers and returns the
// number of floating-point operations, two for each multiply-add.
func (l Limits) Multiply(n int) (flops float64) {
	if n < 1 {
		panic("linalg: limits: no rounds")
	}
	width := 4.0
	if l.wide {
		width = 8
		multiplyAVX512(n)
	} else {
		multiplyAVX2(n)
	}
	return float64(n) * 12 * width * 2
}

// Read loads all of x, whose length must be a positive multiple of 64.
func (l Limits) Read(x []float64) {
	if len(x) == 0 || len(x)%64 != 0 {
		panic(badLength)
	}
	if l.wide {
		readAVX512(&x[0], len(x)/64)
	} else {
		readAVX2(&x[0], len(x)/64)
	}
}

// Rewrite loads all of x, whose length must be a positive multiple of 64, and stores x/2 + 1/2 in its
// place, which stays finite however often.
func (l Limits) Rewrite(x []float64) {
	if len(x) == 0 || len(x)%64 != 0 {
		panic(badLength)
	}
	if l.wide {
		rewriteAVX512(&x[0], len(x)/64)
	} else {
		rewriteAVX2(&x[0], len(x)/64)
	}
}
