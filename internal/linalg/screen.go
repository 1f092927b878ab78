package linalg

import (
	"math"
	"math/bits"

	"troupe/internal/cpu"
)

// Screen finds the ArgMax of a list of rows that is asked for many times. It keeps a float32 copy of
// the rows and scores that first, with half of the bytes and twice the lanes; rows whose float32
// score could belong to the best are scored again by Dot. The answer is ArgMax's, bit for bit: the
// error of a float32 score is bounded by a theorem, not by hope. Safe for concurrent use.
//
// With all numbers scaled by powers of two so that ‖x‖ ≤ 1 and ‖θ‖ ≤ 1, rounding x and θ to float32
// and adding d products in any order with fused multiply-adds gives a score s' with
//
//	|s' − Dot(x, θ)| ≤ (d + 4)·2⁻²⁴·(1 + 2⁻¹⁰)·Σ|x_i θ_i| + d·2⁻¹⁴⁰ ≤ 1.01·(d + 4)·2⁻²⁴
//
// for d ≤ 512: two roundings of the factors, one for each addition, and what underflows (Higham,
// Accuracy and Stability of Numerical Algorithms, section 3.1); the error of Dot is far below.
type Screen struct {
	x       []float64 // the rows
	d       int
	scale   float64   // power of two: ‖row‖·scale ≤ 1
	panels  []float32 // [block of 64 rows][feature][64]
	blocks  int
	epsilon float64 // bound of the error of a score
}

const (
	screenRows = 64  // rows of a block
	screenDim  = 512 // largest dimension
)

// NewScreen returns a screen for the rows of x, d numbers each, or nil when it would not pay or
// could not be trusted: portable kernels, d above 512, or rows that are 0 or near the limits of
// float64. It keeps x, which must not change.
func NewScreen(x []float64, d int) *Screen {
	if d < 1 || len(x)%d != 0 || len(x) == 0 {
		panic(badLength)
	}
	var longest float64
	for i := 0; i < len(x); i += d {
		longest = max(longest, Norm(x[i:i+d]))
	}
	if cpu.Kernels() == cpu.Portable || d > screenDim || !(longest > 0x1p-400 && longest < 0x1p400) {
		return nil
	}
	_, e := math.Frexp(longest)
	rows := len(x) / d
	s := &Screen{
		x: x, d: d, scale: math.Ldexp(1, -e), blocks: (rows + screenRows - 1) / screenRows,
		epsilon: 1.01 * float64(d+4) * 0x1p-24,
	}
	s.panels = make([]float32, s.blocks*screenRows*d)
	for i := range s.blocks * screenRows {
		at, row := i/screenRows*d*screenRows+i%screenRows, min(i, rows-1) // the last row fills up
		for j := range d {
			s.panels[at+j*screenRows] = float32(x[row*d+j] * s.scale)
		}
	}
	return s
}

// ArgMax returns ArgMax(x, theta).
func (s *Screen) ArgMax(theta []float64) (at int, value float64) {
	d := s.d
	if len(theta) != d {
		panic(badLength)
	}
	size := Norm(theta)
	level := cpu.Kernels()
	if level == cpu.Portable || !(size > 0x1p-400 && size < 0x1p400) {
		return ArgMax(s.x, theta)
	}
	_, e := math.Frexp(size)
	shrink := math.Ldexp(1, -e)
	var narrow [screenDim]float32
	for i, v := range theta {
		narrow[i] = float32(v * shrink)
	}
	// The scores of the screen are those of the rows times back.
	back := shrink * s.scale
	slack := float32(2*s.epsilon) * (1 + 0x1p-20)
	least := float32(math.Inf(-1)) // below it no row can be the best
	value = math.Inf(-1)
	rows := len(s.x) / d
	for b := 0; b < s.blocks; b++ {
		var mask uint64
		if level == cpu.AVX512 {
			b, mask = screenAVX512(&s.panels[0], b, s.blocks, d, &narrow[0], least, slack)
		} else {
			b, mask = screenAVX2(&s.panels[0], b, s.blocks, d, &narrow[0], least, slack)
		}
		for ; mask != 0; mask &= mask - 1 {
			i := b*screenRows + bits.TrailingZeros64(mask)
			if i >= rows {
				break
			}
			if v := Dot(s.x[i*d:i*d+d], theta); v > value {
				at, value = i, v
			}
		}
		if bound := value*back - s.epsilon; bound > -2 {
			least = float32(bound) - 0x1p-22 // rounding to float32 moves it by less: |bound| < 2
		}
	}
	return at, value
}
