package linalg

import (
	"math"
	"math/bits"

	"troupe/internal/cpu"
)

// Prefilter finds the ArgMax of a list of rows that is asked for many times. It keeps the rows as 16-bit whole
// numbers and scores those first, with a quarter of the bytes and four times the lanes; rows whose score there
// could belong to the best of their thousand, and of those before, are scored again by Dot: one or two as a rule.
// The answer is ArgMax's, bit for bit: the error of a score is bounded by a theorem, not by hope. Safe for
// concurrent use.
//
// With all numbers scaled by powers of two so that ‖x‖ ≤ 1 and ‖θ‖ ≤ 1, let X and Θ be Ax and Aθ rounded to whole
// numbers. Their product is exact: by Cauchy and Schwarz no sum of some of its terms is above (A + √d/2)² < 2³¹ for
// d ≤ 512. And since no number is off by more than a half, it differs from A²⟨x, θ⟩ by at most
//
//	A(‖x‖₁ + ‖θ‖₁)/2 + d/4 ≤ A√d + d/4
//
// The rounding errors of Dot and of the bound itself are below 1 in that scale.
type Prefilter struct {
	x      []float64 // the rows
	d      int
	panels []int16 // [block of 64 rows][two features][64][2]
	blocks int
	off    float64 // bound of the error of a score
}

const (
	prefilterRows   = 64    // rows of a block
	prefilterBlocks = 16    // blocks of a call of the kernel
	prefilterDim    = 512   // largest dimension
	prefilterSize   = 32700 // A; a rounded number stays an int16
)

// nearest rounds x, |x| < 2¹⁵, to the nearest whole number.
func nearest(x float64) int16 { return int16(math.Float64bits(float64(x) + 0x1.8p52)) }

// NewPrefilter returns a prefilter for the rows of x, d numbers each, or nil when it would not pay or
// could not be trusted: portable kernels, d above 512, or rows that are 0 or near the limits of
// float64. It keeps x, which must not change.
func NewPrefilter(x []float64, d int) *Prefilter {
	if d < 1 || len(x)%d != 0 || len(x) == 0 {
		panic(badLength)
	}
	var longest float64
	for i := 0; i < len(x); i += d {
		longest = max(longest, Norm(x[i:i+d]))
	}
	if cpu.Kernels() == cpu.Portable || d > prefilterDim || !(longest > 0x1p-400 && longest < 0x1p400) {
		return nil
	}
	_, e := math.Frexp(longest)
	scale := math.Ldexp(prefilterSize, -e)
	rows := len(x) / d
	pairs := (d + 1) / 2
	s := &Prefilter{
		x: x, d: d, blocks: (rows + prefilterRows - 1) / prefilterRows,
		off: float64(prefilterSize*math.Sqrt(float64(d))) + float64(float64(d)/4) + 1,
	}
	s.panels = make([]int16, s.blocks*prefilterRows*2*pairs)
	for i := range s.blocks * prefilterRows {
		at, row := i/prefilterRows*pairs*2*prefilterRows+2*(i%prefilterRows), min(i, rows-1) // the last row fills up
		for j := range d {
			s.panels[at+j/2*2*prefilterRows+j%2] = nearest(x[row*d+j] * scale)
		}
	}
	return s
}

// ArgMax returns ArgMax(x, theta), or ok = false where the length of theta is not between 2⁻⁴⁰⁰ and 2⁴⁰⁰, or
// not a number.
func (s *Prefilter) ArgMax(theta []float64) (at int, value float64, ok bool) {
	d := s.d
	if len(theta) != d {
		panic(badLength)
	}
	size := Norm(theta)
	level := cpu.Kernels()
	if level == cpu.Portable || !(size > 0x1p-400 && size < 0x1p400) {
		return 0, 0, false
	}
	_, e := math.Frexp(size)
	by := math.Ldexp(prefilterSize, -e)
	// A row whose score is lower by more than twice the error than another's is not the best.
	slack := int32(2*s.off) + 2
	top := int32(math.MinInt32)
	value = math.Inf(-1)
	rows, pairs := len(s.x)/d, (d+1)/2
	for b := 0; b < s.blocks; b += prefilterBlocks {
		panels, n := &s.panels[b*prefilterRows*2*pairs], min(prefilterBlocks, s.blocks-b)
		var masks [prefilterBlocks]uint64
		var hit uint64
		if level == cpu.AVX512 {
			hit, top = prefilterAVX512(panels, n, d, &theta[0], by, top, slack, &masks[0])
		} else {
			hit, top = prefilterAVX2(panels, n, d, &theta[0], by, top, slack, &masks[0])
		}
		for ; hit != 0; hit &= hit - 1 {
			k := bits.TrailingZeros64(hit) % prefilterBlocks
			for mask := masks[k]; mask != 0; mask &= mask - 1 {
				i := (b+k)*prefilterRows + bits.TrailingZeros64(mask)
				if i >= rows {
					break
				}
				if v := Dot(s.x[i*d:i*d+d], theta); v > value {
					at, value = i, v
				}
			}
		}
	}
	return at, value, true
}
