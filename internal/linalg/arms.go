package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// Arms finds the ArgMax of a list of rows that is asked for many times. The kernels have a copy of the
// rows in blocks of 16, one in each lane, so that no sum crosses the lanes; the order of sums, and so
// every bit of the answer, is ArgMax's. Portable Go scores the rows roughly first, and by Dot only those that
// could be the best: on amd64 math.FMA asks each time whether the machine has it. Safe for concurrent use.
//
// Rough scores are whole numbers, and three rows share a float64. With ‖cx‖ ≤ A for all rows and ‖eθ‖ ≤ A, let X and Θ
// be cx and eθ rounded to whole numbers: X−cx and Θ−eθ have no entry above a half, so
//
//	|⟨X, Θ⟩ − ce⟨x, θ⟩| = |⟨X−cx, Θ⟩ + ⟨cx, Θ−eθ⟩| ≤ (‖Θ‖₁ + ‖cx‖₁)/2
//
// A row is looked at by Dot unless that excludes it. By Cauchy and Schwarz no sum of some of the terms of ⟨X, Θ⟩ is
// above (A + √d/2)² < 2¹⁶. So for words W = X + 2¹⁸X′ + 2³⁶X″ of three rows no sum of terms of ⟨W, Θ⟩ needs more than
// the 53 bits of a float64: a multiplication and an addition without rounding serve three rows. Roundings of c, e, cx,
// eθ, of Dot and of the bound are below 1 in that scale, for d ≤ 512.
//
// Where that is not possible the rows are scored as they are by plain multiplications and additions, six rows at a
// time. With u = 2⁻⁵³ such a score and Dot differ from ⟨x, θ⟩ by at most du/(1 − du)·‖x‖‖θ‖ each, and by
// d·2⁻¹⁰⁷⁵ where products underflow (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
type Arms struct {
	x      []float64 // the rows
	d      int
	panels []float64 // [block of 16 rows][feature][16]; nil in portable Go
	blocks int
	radius float64 // max ‖row‖

	// [3 rows][feature], filled up with zeros to blocks of six; nil with kernels, or where it would not serve
	words  []float64
	scale  float64 // c
	spread float64 // max ‖c·row‖₁
}

const roughDim = 16 // dimension from which on scoring twice pays in portable Go

// NewArms returns the arms for the rows of x, d numbers each, or nil where that would not pay: with AVX2
// for more than 32 rows, and where a copy would take more than 1 MiB. It keeps x, which must not change.
func NewArms(x []float64, d int) *Arms {
	if d < 1 || len(x)%d != 0 || len(x) == 0 {
		panic(badLength)
	}
	rows, level := len(x)/d, cpu.Kernels()
	if level == cpu.AVX2 && rows > 32 || level != cpu.Portable && len(x) > 1<<17 {
		return nil
	}
	a := &Arms{x: x, d: d, blocks: (rows + 15) / 16}
	for i := 0; i < len(x); i += d {
		if r := Norm(x[i : i+d]); !(r <= a.radius) {
			a.radius = r // NaN stays
		}
	}
	if level == cpu.Portable {
		if d >= roughDim {
			a.pack()
		}
		return a
	}
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
	if level := cpu.Kernels(); level == cpu.AVX512 && a.panels != nil {
		return armsAVX512(&a.panels[0], a.blocks, a.d, &theta[0], most, &a.x[0], &dst[0])
	} else if level == cpu.AVX2 && a.panels != nil {
		return armsAVX2(&a.panels[0], a.blocks, a.d, &theta[0], most, &a.x[0], &dst[0])
	}
	top := math.Float64bits(most) << 1 // numbers without sign are in the order of their bits, NaN after the others
	for _, v := range theta {
		if math.Float64bits(v)<<1 > top {
			return -1, 0
		}
	}
	switch {
	case a.words != nil && a.d <= packFew:
		var whole [packFew]float64
		at, value = a.packed(theta, whole[:a.d])
	case a.words != nil:
		var whole [prefilterDim]float64
		at, value = a.packed(theta, whole[:a.d])
	case a.d < roughDim:
		at, value = argMax(a.x, theta)
	default:
		at, value = a.rough(theta)
	}
	copy(dst, a.x[at*a.d:])
	return at, value
}

const (
	packRows  = 3  // rows in a word
	packBits  = 18 // bits of a row in a word
	packWords = 6  // words of a block
	packFew   = 64 // features of a small list
	packTop   = 1 << (packBits - 1)
	packTops  = packTop<<(2*packBits) | packTop<<packBits | packTop // of every row
	packOnes  = packTops / packTop
	packLeast = -1 << 16 // no whole score is as small
	shifter   = 0x1.8p52 // x + shifter − shifter is x rounded to a whole number
)

// pack makes words, scale and spread, unless d or the size of the rows forbids it.
func (a *Arms) pack() {
	d := a.d
	if d > prefilterDim || !(a.radius > 0x1p-400 && a.radius < 0x1p400) {
		return
	}
	a.scale = packSize(d) / a.radius
	rows := len(a.x) / d
	n := (rows + packRows*packWords - 1) / (packRows * packWords) * packWords
	a.words = make([]float64, n*d)
	for i := range rows {
		unit := float64(int64(1) << (i % packRows * packBits))
		word := a.words[i/packRows*d:][:d]
		var size float64
		for j, v := range a.x[i*d : i*d+d] {
			v = float64(v * a.scale)
			size += math.Abs(v)
			word[j] += float64(unit * (v + shifter - shifter))
		}
		a.spread = max(a.spread, size)
	}
}

// packSize is A.
func packSize(d int) float64 { return 255.9 - float64(math.Sqrt(float64(d))/2) }

// packed is argMax by way of words; whole is scratch for d numbers.
func (a *Arms) packed(theta, whole []float64) (at int, value float64) {
	d := len(whole)
	theta = theta[:d]
	var q0, q1 float64
	for j, v := range theta {
		if j&1 == 0 {
			q0 += float64(v * v)
		} else {
			q1 += float64(v * v)
		}
	}
	size := math.Sqrt(q0 + q1)
	if !(size > 0x1p-400 && size < 0x1p400) {
		return a.rough(theta)
	}
	e := packSize(d) / size
	off := a.spread
	for j, v := range theta {
		v = float64(v*e) + shifter - shifter
		whole[j] = v
		off += math.Abs(v)
	}
	off = float64(off/2) + 1
	back := a.scale * e // the whole scores are those of the rows times back, up to off

	value = math.Inf(-1)
	least := int64(packLeast) // a row whose whole score is not above it is not the best
	const block = packRows * packWords
	rows := len(a.x) / d
	var sums [packWords]int64
	var scores [block]int64
	for i, words := 0, a.words; i < rows; i, words = i+block, words[packWords*d:] {
		if !pack6(&sums, words, whole, (packTop-1-least)*packOnes) {
			continue
		}
		best := 0
		for k, w := range &sums {
			for l := range packRows {
				s := w << (64 - packBits) >> (64 - packBits)
				w = (w - s) >> packBits
				if r := packRows*k + l; i+r < rows {
					scores[r] = s
					if s > scores[best] {
						best = r
					}
				} else {
					scores[r] = packLeast
				}
			}
		}
		for k := -1; k < block; k++ { // the one with the best whole score first
			r := k
			if k < 0 {
				r = best
			} else if k == best {
				continue
			}
			if scores[r] <= least {
				continue
			}
			v := dot(a.x[(i+r)*d:][:d], theta)
			if v > value || v == value && i+r < at {
				at, value = i+r, v
				least = int64(math.Floor(float64(v*back) - off)) // above packLeast: A² + off ≤ (A + √d/2)² + 1
			}
		}
	}
	return at, value
}

// pack6 stores the products of six words with whole in s. It reports whether the top bit of a row is set after
// bias has been added.
func pack6(s *[packWords]int64, words, whole []float64, bias int64) bool {
	s0, s1, s2, s3, s4, s5 := sums6(words, whole)
	w0, w1, w2, w3, w4, w5 := int64(s0), int64(s1), int64(s2), int64(s3), int64(s4), int64(s5)
	if ((w0+bias)|(w1+bias)|(w2+bias)|(w3+bias)|(w4+bias)|(w5+bias))&packTops == 0 {
		return false
	}
	*s = [packWords]int64{w0, w1, w2, w3, w4, w5}
	return true
}

// rough is argMax by way of rough scores.
func (a *Arms) rough(theta []float64) (at int, value float64) {
	d := a.d
	n := float64(d)
	slack := float64(2*(n+8)*0x1p-53*a.radius*Norm(theta)) + float64(n*0x1p-1070)
	value = math.Inf(-1)
	least := value // a row whose rough score is not above it is not the best
	var scores [roughRows]float64
	for i, x := 0, a.x; len(x) > 0; i += len(scores) {
		n := min(len(scores), len(x)/d)
		if n < len(scores) {
			dotRows(scores[:n], x, theta, d)
		} else if !rough6(&scores, x, theta, least) {
			x = x[n*d:]
			continue
		}
		for k, s := range scores[:n] {
			if s <= least {
				continue
			}
			if v := dot(x[k*d:k*d+d], theta); v > value {
				at, value = i+k, v
				least = v - slack
			}
		}
		x = x[n*d:]
	}
	return at, value
}

// roughRows is how many rows are scored at a time: that many sums hide the latency of an addition, and
// with their products they just fit the registers.
const roughRows = 6

// sums6 returns the products of six rows with theta, by multiplications and additions that are not fused.
func sums6(x, theta []float64) (s0, s1, s2, s3, s4, s5 float64) {
	d := len(theta)
	x0, x1, x2, x3, x4, x5 := x[:d], x[d:][:d], x[2*d:][:d], x[3*d:][:d], x[4*d:][:d], x[5*d:][:d]
	for j, t := range theta {
		s0 += float64(x0[j] * t)
		s1 += float64(x1[j] * t)
		s2 += float64(x2[j] * t)
		s3 += float64(x3[j] * t)
		s4 += float64(x4[j] * t)
		s5 += float64(x5[j] * t)
	}
	return s0, s1, s2, s3, s4, s5
}

// rough6 stores the products of six rows with theta in s and reports whether one is above least, or NaN.
func rough6(s *[roughRows]float64, x, theta []float64, least float64) bool {
	s0, s1, s2, s3, s4, s5 := sums6(x, theta)
	if s0 <= least && s1 <= least && s2 <= least && s3 <= least && s4 <= least && s5 <= least {
		return false
	}
	*s = [roughRows]float64{s0, s1, s2, s3, s4, s5}
	return true
}
