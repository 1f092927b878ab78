package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// Arms finds the ArgMax of a list of rows that is asked for many times. The kernels have a copy of the
// rows in blocks of 16, one in each lane, so that no sum crosses the lanes; the order of sums, and so
// every bit of the answer, is ArgMax's. Portable Go scores the rows as they are by plain multiplications
// and additions first, six rows at a time, and by Dot only those that could be the best: on amd64
// math.FMA asks each time whether the machine has it. Safe for concurrent use.
//
// With u = 2⁻⁵³ such a score and Dot differ from ⟨x, θ⟩ by at most du/(1 − du)·‖x‖‖θ‖ each, and by
// d·2⁻¹⁰⁷⁵ where products underflow (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
type Arms struct {
	x      []float64 // the rows
	d      int
	panels []float64 // [block of 16 rows][feature][16]; nil in portable Go
	blocks int
	radius float64 // max ‖row‖
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
	for _, v := range theta {
		if !(math.Abs(v) <= most) {
			return -1, 0
		}
	}
	if a.d < roughDim {
		at, value = argMax(a.x, theta)
	} else {
		at, value = a.rough(theta)
	}
	copy(dst, a.x[at*a.d:])
	return at, value
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

// rough6 stores the products of six rows with theta in s and reports whether one is above least, or NaN.
func rough6(s *[roughRows]float64, x, theta []float64, least float64) bool {
	d := len(theta)
	x0, x1, x2, x3, x4, x5 := x[:d], x[d:][:d], x[2*d:][:d], x[3*d:][:d], x[4*d:][:d], x[5*d:][:d]
	var s0, s1, s2, s3, s4, s5 float64
	for j, t := range theta {
		s0 += float64(x0[j] * t)
		s1 += float64(x1[j] * t)
		s2 += float64(x2[j] * t)
		s3 += float64(x3[j] * t)
		s4 += float64(x4[j] * t)
		s5 += float64(x5[j] * t)
	}
	if s0 <= least && s1 <= least && s2 <= least && s3 <= least && s4 <= least && s5 <= least {
		return false
	}
	*s = [roughRows]float64{s0, s1, s2, s3, s4, s5}
	return true
}
