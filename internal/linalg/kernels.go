package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// This file is the arithmetic that speed depends on, in portable Go; kernels_amd64.s, which
// internal/gen writes, is the same with AVX2 and with AVX-512. One order of operations is the
// meaning of each kernel, so all three give the same bits:
//
//   - a product is added to a sum by one fused multiply-add;
//   - a sum over time goes through time in order, one step after the other;
//   - a sum over features has eight partial sums p_l, l = feature mod 8, each in order from 0, and
//     ends as ((p0+p4)+(p2+p6)) + ((p1+p5)+(p3+p7)) (the last term turns −0 into 0, so that
//     features padded by zeros change nothing).
//
// Kernels are wide over members or over features, never over time.

// Members is the number of ensemble members that a pair of panels holds. S is stored in panels of
// eight members: entry (member j, feature i) of a d-dimensional ensemble is at
// (j/8·d + i)·8 + j mod 8.
const Members = 16

// Dot returns Σ a_i b_i in the order of sums over features. b must not be shorter than a.
func Dot(a, b []float64) float64 {
	b = b[:len(a)]
	if len(a) == 0 {
		return 0
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		return dotAVX512(&a[0], &b[0], len(a))
	case cpu.AVX2:
		return dotAVX2(&a[0], &b[0], len(a))
	}
	return dot(a, b)
}

func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var p0, p1, p2, p3, p4, p5, p6, p7 float64
	if len(a) >= 8 {
		// 0 + ab differs from ab by the sign of 0 at most, and the sum ends with + 0.
		p0 = float64(a[0] * b[0])
		p1 = float64(a[1] * b[1])
		p2 = float64(a[2] * b[2])
		p3 = float64(a[3] * b[3])
		p4 = float64(a[4] * b[4])
		p5 = float64(a[5] * b[5])
		p6 = float64(a[6] * b[6])
		p7 = float64(a[7] * b[7])
		a, b = a[8:], b[8:]
	}
	for len(a) >= 8 && len(b) >= 8 {
		p0 = math.FMA(a[0], b[0], p0)
		p1 = math.FMA(a[1], b[1], p1)
		p2 = math.FMA(a[2], b[2], p2)
		p3 = math.FMA(a[3], b[3], p3)
		p4 = math.FMA(a[4], b[4], p4)
		p5 = math.FMA(a[5], b[5], p5)
		p6 = math.FMA(a[6], b[6], p6)
		p7 = math.FMA(a[7], b[7], p7)
		a, b = a[8:], b[8:]
	}
	switch len(a) {
	case 7:
		p6 = math.FMA(a[6], b[6], p6)
		fallthrough
	case 6:
		p5 = math.FMA(a[5], b[5], p5)
		fallthrough
	case 5:
		p4 = math.FMA(a[4], b[4], p4)
		fallthrough
	case 4:
		p3 = math.FMA(a[3], b[3], p3)
		fallthrough
	case 3:
		p2 = math.FMA(a[2], b[2], p2)
		fallthrough
	case 2:
		p1 = math.FMA(a[1], b[1], p1)
		fallthrough
	case 1:
		p0 = math.FMA(a[0], b[0], p0)
	}
	return ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7)) + 0
}

// dotRows stores Dot(row i, x) in dst, the rows of a being ld numbers apart. It is the portable form of a
// product with a matrix; the FMAs that a machine without its own level would ask for one by one begin
// with the ninth feature.
func dotRows(dst, a, x []float64, ld int) {
	d := len(x)
	if d < 8 {
		for i := range dst {
			dst[i] = dot(a[i*ld:i*ld+d], x)
		}
		return
	}
	if d == 10 {
		dotRows10(dst, a, (*[10]float64)(x), ld)
		return
	}
	head := (*[8]float64)(x)
	more := x[8:]
	for i := range dst {
		row := a[i*ld:][:d]
		first := (*[8]float64)(row)
		rest := row[8:]
		p0 := float64(first[0] * head[0])
		p1 := float64(first[1] * head[1])
		p2 := float64(first[2] * head[2])
		p3 := float64(first[3] * head[3])
		p4 := float64(first[4] * head[4])
		p5 := float64(first[5] * head[5])
		p6 := float64(first[6] * head[6])
		p7 := float64(first[7] * head[7])
		y, z := rest, more
		for len(y) >= 8 && len(z) >= 8 {
			p0 = math.FMA(y[0], z[0], p0)
			p1 = math.FMA(y[1], z[1], p1)
			p2 = math.FMA(y[2], z[2], p2)
			p3 = math.FMA(y[3], z[3], p3)
			p4 = math.FMA(y[4], z[4], p4)
			p5 = math.FMA(y[5], z[5], p5)
			p6 = math.FMA(y[6], z[6], p6)
			p7 = math.FMA(y[7], z[7], p7)
			y, z = y[8:], z[8:]
		}
		if n := len(y); n > 0 && n == len(z) {
			p0 = math.FMA(y[0], z[0], p0)
			if n > 1 {
				p1 = math.FMA(y[1], z[1], p1)
			}
			if n > 2 {
				p2 = math.FMA(y[2], z[2], p2)
			}
			if n > 3 {
				p3 = math.FMA(y[3], z[3], p3)
			}
			if n > 4 {
				p4 = math.FMA(y[4], z[4], p4)
			}
			if n > 5 {
				p5 = math.FMA(y[5], z[5], p5)
			}
			if n > 6 {
				p6 = math.FMA(y[6], z[6], p6)
			}
		}
		dst[i] = ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7)) + 0
	}
}

// dotRows10 is dotRows for ten features, those of the paper's experiments: sums that take a fused step come first,
// while little else is in registers that a call of math.FMA would have to save.
func dotRows10(dst, a []float64, x *[10]float64, ld int) {
	x8, x9 := x[8], x[9]
	for i, at := 0, 0; i < len(dst) && at <= len(a)-10; i, at = i+1, at+ld {
		row := (*[10]float64)(a[at:])
		p0 := math.FMA(row[8], x8, float64(row[0]*x[0]))
		p1 := math.FMA(row[9], x9, float64(row[1]*x[1]))
		p2 := float64(row[2] * x[2])
		p3 := float64(row[3] * x[3])
		p4 := float64(row[4] * x[4])
		p5 := float64(row[5] * x[5])
		p6 := float64(row[6] * x[6])
		p7 := float64(row[7] * x[7])
		dst[i] = ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7)) + 0
	}
}

// MulSym stores A·x in dst for a d×d matrix stored row by row: dst_i is Dot(row i, x). dst may not
// alias x. Cost d².
func MulSym(dst, a, x []float64) {
	d := len(x)
	dst = dst[:d]
	for i := range dst {
		dst[i] = Dot(a[:d], x)
		a = a[d:]
	}
}

// Padded returns the length of a row of d numbers that is filled up with zeros to whole vectors.
// Without remainders no load crosses a store of another length, which the processor would wait for.
func Padded(d int) int { return (d + 7) &^ 7 }

// mulPadded is MulSym for an exactly symmetric matrix with padded rows. x has d numbers, dst
// Padded(d), those beyond d become 0.
func mulPadded(dst, a, x []float64) {
	d := len(x)
	ld := Padded(d)
	if len(dst) != ld || len(a) != d*ld || d == 0 {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		mulPaddedAVX512(&dst[0], &a[0], &x[0], d, ld)
	case cpu.AVX2:
		mulPaddedAVX2(&dst[0], &a[0], &x[0], d, ld)
	default:
		dotRows(dst[:d], a, x, ld)
		clear(dst[d:])
	}
}

// rankOne is the Sherman–Morrison step of a d×d matrix with padded rows: a_ij ← fma(−s, k_i·k_j, a_ij),
// which keeps an exactly symmetric matrix so. k has Padded(d) numbers, those beyond d are 0.
func rankOne(a []float64, s float64, k []float64, d int) {
	ld := Padded(d)
	if len(k) != ld || len(a) != d*ld || d == 0 {
		panic(badLength)
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		rankOneAVX512(&a[0], s, &k[0], d, ld)
	case cpu.AVX2:
		rankOneAVX2(&a[0], s, &k[0], d, ld)
	default:
		stepRows(a, -s, k[:d], ld)
	}
}

// stepRows is rankOne in portable Go, a_ij ← fma(s, k_i·k_j, a_ij). At d = 10 the numbers from the sixth on of the
// first five rows are copies of those across the diagonal; where places are not known to the compiler copies take the
// time that they save.
func stepRows(a []float64, s float64, k []float64, ld int) {
	if len(k) == 10 && ld == 16 {
		k := (*[10]float64)(k)
		for i, at := 0, 0; i < 5 && at <= len(a)-5; i, at = i+1, at+16 {
			v, row := k[i], (*[5]float64)(a[at:])
			row[0] = math.FMA(s, float64(v*k[0]), row[0])
			row[1] = math.FMA(s, float64(v*k[1]), row[1])
			row[2] = math.FMA(s, float64(v*k[2]), row[2])
			row[3] = math.FMA(s, float64(v*k[3]), row[3])
			row[4] = math.FMA(s, float64(v*k[4]), row[4])
		}
		for i, at := 5, 80; i < 10 && at <= len(a)-10; i, at = i+1, at+16 {
			v, row := k[i], (*[10]float64)(a[at:])
			row[0] = math.FMA(s, float64(v*k[0]), row[0])
			row[1] = math.FMA(s, float64(v*k[1]), row[1])
			row[2] = math.FMA(s, float64(v*k[2]), row[2])
			row[3] = math.FMA(s, float64(v*k[3]), row[3])
			row[4] = math.FMA(s, float64(v*k[4]), row[4])
			row[5] = math.FMA(s, float64(v*k[5]), row[5])
			row[6] = math.FMA(s, float64(v*k[6]), row[6])
			row[7] = math.FMA(s, float64(v*k[7]), row[7])
			row[8] = math.FMA(s, float64(v*k[8]), row[8])
			row[9] = math.FMA(s, float64(v*k[9]), row[9])
			column := (*[65]float64)(a[i:])
			column[0], column[16], column[32], column[48], column[64] = row[0], row[1], row[2], row[3], row[4]
		}
		return
	}
	for i, v := range k {
		row := a[i*ld:][:len(k)]
		w := k[:len(row)]
		j := 3
		for ; j < len(row); j += 4 {
			row[j-3] = math.FMA(s, float64(v*w[j-3]), row[j-3])
			row[j-2] = math.FMA(s, float64(v*w[j-2]), row[j-2])
			row[j-1] = math.FMA(s, float64(v*w[j-1]), row[j-1])
			row[j] = math.FMA(s, float64(v*w[j]), row[j])
		}
		for j -= 3; j < len(row); j++ {
			row[j] = math.FMA(s, float64(v*w[j]), row[j])
		}
	}
}

// ArgMax returns the row of x, a list of rows of d = len(theta) numbers, that has the largest
// Dot(row, theta), the first among equals, and the product. Products that are NaN lose; without
// any other the answer is row 0 and −∞. Cost one pass over x.
func ArgMax(x, theta []float64) (at int, value float64) {
	d := len(theta)
	if d == 0 || len(x)%d != 0 {
		panic(badLength)
	}
	rows := len(x) / d
	switch level := cpu.Kernels(); {
	case level == cpu.AVX512 && rows >= 8:
		return argMaxAVX512(&x[0], rows, d, &theta[0])
	case level >= cpu.AVX2 && rows >= 4:
		return argMaxAVX2(&x[0], rows, d, &theta[0])
	case level >= cpu.AVX2:
		value = math.Inf(-1)
		for i := range rows {
			if v := Dot(x[i*d:i*d+d], theta); v > value {
				at, value = i, v
			}
		}
		return at, value
	}
	return argMax(x, theta)
}

func argMax(x, theta []float64) (at int, value float64) {
	d := len(theta)
	value = math.Inf(-1)
	var values [16]float64
	rows := len(x) / d
	for i := 0; i < rows; i += len(values) {
		some := values[:min(len(values), rows-i)]
		dotRows(some, x[i*d:], theta, d)
		for k, v := range some {
			if v > value {
				at, value = i+k, v
			}
		}
	}
	return at, value
}

// AddPanels adds one step to panels of members: S^j ← S^j + u_j x, for 8 members in each panel.
// s holds ⌈len(u)/8⌉ panels of len(x) features. Where the last panel has more members than u, they get
// any numbers: u needs the room for them.
func AddPanels(s, u, x []float64) {
	d, panels := len(x), (len(u)+7)>>3
	if d == 0 || len(s) != panels*8*d || cap(u) < panels*8 {
		panic(badLength)
	}
	if panels == 0 {
		return
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		addPanelsAVX512(&s[0], panels, d, &u[0], &x[0])
	case cpu.AVX2:
		addPanelsAVX2(&s[0], panels, d, &u[0], &x[0])
	default:
		for ; len(u) > 4; s, u = s[8*d:], u[8:max(8, len(u))] {
			addPanel(s, (*[8]float64)(u[:8]), x)
		}
		if len(u) > 0 {
			addHalf(s, (*[4]float64)(u[:4]), x)
		}
	}
}

// addPanel is AddPanels for one panel.
//
// On amd64 a math.FMA is a load, a jump on the flag that the machine has it, the instruction, a jump over the call of
// the slow one, and a store. Places known to the compiler keep everything else out from between: a comparison of an
// index would spoil the flags, and a number that is alive across the call is stored each time it changes.
func addPanel(s []float64, u *[8]float64, x []float64) {
	u0, u1, u2, u3, u4, u5, u6, u7 := u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7]
	for i, at := 0, 0; i < len(x) && at <= len(s)-8; i, at = i+1, at+8 {
		v, row := x[i], (*[8]float64)(s[at:])
		row[0] = math.FMA(u0, v, row[0])
		row[1] = math.FMA(u1, v, row[1])
		row[2] = math.FMA(u2, v, row[2])
		row[3] = math.FMA(u3, v, row[3])
		row[4] = math.FMA(u4, v, row[4])
		row[5] = math.FMA(u5, v, row[5])
		row[6] = math.FMA(u6, v, row[6])
		row[7] = math.FMA(u7, v, row[7])
	}
}

// addHalf is addPanel for the first four members.
func addHalf(s []float64, u *[4]float64, x []float64) {
	u0, u1, u2, u3 := u[0], u[1], u[2], u[3]
	for i, at := 0, 0; i < len(x) && at <= len(s)-4; i, at = i+1, at+8 {
		v, row := x[i], (*[4]float64)(s[at:])
		row[0] = math.FMA(u0, v, row[0])
		row[1] = math.FMA(u1, v, row[1])
		row[2] = math.FMA(u2, v, row[2])
		row[3] = math.FMA(u3, v, row[3])
	}
}

// AddTile adds n steps to a pair of panels: S^j ← S^j + u_{tj} x_t for t = 0, …, n−1 and 16 members
// j. s holds two panels of d features, u n rows of 16 numbers, x n rows of d. Every number of S is
// loaded and stored once.
func AddTile(s, u, x []float64, d int) {
	if n := len(u) / Members; d < 1 || len(u)%Members != 0 || len(x) != n*d || len(s) != Members*d {
		panic(badLength)
	}
	if cpu.Kernels() == cpu.Portable {
		tilePanel(s[:8*d], u, x, d, 0)
		tilePanel(s[8*d:], u[min(8, len(u)):], x, d, 0)
		return
	}
	addTile(s, u, x, d, 0)
}

// addTile is AddTile for the features from, …, d−1, with vectors.
func addTile(s, u, x []float64, d, from int) {
	n := len(u) / Members
	if n == 0 {
		return
	}
	if cpu.Kernels() == cpu.AVX512 {
		size, wide, narrow := chunks(d-from, mostChunk)
		addTileAVX512(&s[8*from], d, &u[0], &x[from], n, size, wide, narrow)
		return
	}
	size, wide, narrow := chunks(d-from, mostChunk/2)
	addTileAVX2(&s[8*from], d, &u[0], &x[from], n, size, wide, narrow)
	addTileAVX2(&s[8*(d+from)], d, &u[8], &x[from], n, size, wide, narrow)
}

// mostChunk is the largest number of features that a tile of 16 members takes at once with AVX-512.
const mostChunk = 12

// chunks divides features into as few chunks of at most so many as will do, of almost equal size, so that none is too
// small to keep the multipliers busy: wide of them of the size and narrow of one less.
func chunks(features, most int) (size, wide, narrow int) {
	k := (features + most - 1) / most
	size = (features + k - 1) / k
	narrow = k*size - features
	return size, k - narrow, narrow
}

// tilePanel is AddTile for one panel and the features from, …, d−1; u begins with the panel's first member. Four steps
// are a chain that needs one register, and one load and store of S.
func tilePanel(s, u, x []float64, d, from int) {
	for ; len(x) >= 4*d; x = x[4*d:] {
		w := (*[3*Members + 8]float64)(u)
		x0, x1, x2, x3 := x[:d], x[d:][:d], x[2*d:][:d], x[3*d:][:d]
		for i, at := from, 8*from; i < d && at <= len(s)-8; i, at = i+1, at+8 {
			row := (*[8]float64)(s[at:])
			v0, v1, v2, v3 := x0[i], x1[i], x2[i], x3[i]
			row[0] = math.FMA(w[48], v3, math.FMA(w[32], v2, math.FMA(w[16], v1, math.FMA(w[0], v0, row[0]))))
			row[1] = math.FMA(w[49], v3, math.FMA(w[33], v2, math.FMA(w[17], v1, math.FMA(w[1], v0, row[1]))))
			row[2] = math.FMA(w[50], v3, math.FMA(w[34], v2, math.FMA(w[18], v1, math.FMA(w[2], v0, row[2]))))
			row[3] = math.FMA(w[51], v3, math.FMA(w[35], v2, math.FMA(w[19], v1, math.FMA(w[3], v0, row[3]))))
			row[4] = math.FMA(w[52], v3, math.FMA(w[36], v2, math.FMA(w[20], v1, math.FMA(w[4], v0, row[4]))))
			row[5] = math.FMA(w[53], v3, math.FMA(w[37], v2, math.FMA(w[21], v1, math.FMA(w[5], v0, row[5]))))
			row[6] = math.FMA(w[54], v3, math.FMA(w[38], v2, math.FMA(w[22], v1, math.FMA(w[6], v0, row[6]))))
			row[7] = math.FMA(w[55], v3, math.FMA(w[39], v2, math.FMA(w[23], v1, math.FMA(w[7], v0, row[7]))))
		}
		u = u[min(4*Members, len(u)):]
	}
	for ; len(x) > 0; x = x[d:] {
		addPanel(s[8*from:], (*[8]float64)(u), x[from:d])
		u = u[min(Members, len(u)):]
	}
}

// tileCorner is tilePanel for the features from, …, to−1, up to eight, where member l of the panel may be left out in
// features before from+l: rows of a symmetric matrix on its diagonal. The lanes are a loop, and the chain has eight
// steps.
func tileCorner(s, u, x []float64, d, from, to int) {
	for ; len(x) >= 8*d; x = x[8*d:] {
		w := (*[7*Members + 8]float64)(u)
		x0, x1, x2, x3 := x[:d], x[d:][:d], x[2*d:][:d], x[3*d:][:d]
		x4, x5, x6, x7 := x[4*d:][:d], x[5*d:][:d], x[6*d:][:d], x[7*d:][:d]
		for i := from; i < to; i++ {
			row := (*[8]float64)(s[8*i:])
			v0, v1, v2, v3, v4, v5, v6, v7 := x0[i], x1[i], x2[i], x3[i], x4[i], x5[i], x6[i], x7[i]
			for l := 0; l <= i-from && l < len(row); l++ {
				p := math.FMA(w[l], v0, row[l])
				p = math.FMA(w[Members+l], v1, p)
				p = math.FMA(w[2*Members+l], v2, p)
				p = math.FMA(w[3*Members+l], v3, p)
				p = math.FMA(w[4*Members+l], v4, p)
				p = math.FMA(w[5*Members+l], v5, p)
				p = math.FMA(w[6*Members+l], v6, p)
				row[l] = math.FMA(w[7*Members+l], v7, p)
			}
		}
		u = u[min(8*Members, len(u)):]
	}
	for ; len(x) > 0; x = x[d:] {
		addPanel(s[8*from:], (*[8]float64)(u), x[from:to])
		u = u[min(Members, len(u)):]
	}
}

// AddSteps adds the steps of one member: row ← row + u_k x_k for k = first, …, first+n−1, where u
// has the layout of rng.Source.FillRounds (u_k at k mod 4·16 + k/4) and x holds the n rows x_k of
// d = len(row) numbers.
func AddSteps(row []float64, u *[64]float64, first int, x []float64) {
	d := len(row)
	if d == 0 || len(x)%d != 0 || first < 0 || first+len(x)/d > len(u) {
		panic(badLength)
	}
	n := len(x) / d
	if n == 0 {
		return
	}
	switch cpu.Kernels() {
	case cpu.AVX512:
		addStepsAVX512(&row[0], d, &u[0], first, n, &x[0])
	case cpu.AVX2:
		addStepsAVX2(&row[0], d, &u[0], first, n, &x[0])
	default:
		addSteps(row, u, first, x)
	}
}

// addSteps is AddSteps in portable Go, four steps as a chain.
func addSteps(row []float64, u *[64]float64, first int, x []float64) {
	d, k := len(row), first
	step := func(k int) float64 { return u[k&3*16+k>>2&15] }
	for ; len(x) >= 4*d; x, k = x[4*d:], k+4 {
		w0, w1, w2, w3 := step(k), step(k+1), step(k+2), step(k+3)
		x0, x1, x2, x3 := x[:d], x[d:][:d], x[2*d:][:d], x[3*d:][:d]
		i := 1
		for ; i < len(row); i += 2 {
			row[i-1] = math.FMA(w3, x3[i-1], math.FMA(w2, x2[i-1], math.FMA(w1, x1[i-1],
				math.FMA(w0, x0[i-1], row[i-1]))))
			row[i] = math.FMA(w3, x3[i], math.FMA(w2, x2[i], math.FMA(w1, x1[i], math.FMA(w0, x0[i], row[i]))))
		}
		if i--; i < len(row) {
			row[i] = math.FMA(w3, x3[i], math.FMA(w2, x2[i], math.FMA(w1, x1[i], math.FMA(w0, x0[i], row[i]))))
		}
	}
	for ; len(x) > 0; x, k = x[d:], k+1 {
		w := step(k)
		for i, v := range x[:d] {
			row[i] = math.FMA(w, v, row[i])
		}
	}
}
