package candidates

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestNarrowed: eight numbers at once become the float32s that they become one by one, or are left to that.
func TestNarrowed(t *testing.T) {
	odd := []float64{0, math.Copysign(0, -1), 1, -1, math.MaxFloat32, -math.MaxFloat32, math.MaxFloat64, math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat64,
		0x1p-126, 0x1p-127, 0x1.fffffep-127, 0x1p127, 0x1p128, 0x1.fffffeffp127, 1 + 0x1p-23, 1 + 0x1p-24, 0.1, 0x1p-1022, math.Inf(1), math.NaN()}
	r := rand.New(rand.NewPCG(1, 19))
	taken := 0
	for n := range 2000 {
		var x [8]float64
		for k := range x {
			x[k] = float64(float32(r.NormFloat64()))
		}
		if n < len(odd)*8 {
			x[n%8] = odd[n/8]
		}
		want := true // all are normal float32s
		for _, v := range x {
			_, ok := narrow(v)
			want = want && ok && math.Abs(v) >= 0x1p-126 && math.Abs(v) <= math.MaxFloat32
		}
		var dst [32]byte
		got := narrowed(&dst, &x)
		if got != want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
		if !got {
			continue
		}
		taken++
		for k, v := range x {
			if f, _ := narrow(v); binary.LittleEndian.Uint32(dst[4*k:]) != f {
				t.Errorf("%v becomes %#x, want %#x", v, binary.LittleEndian.Uint32(dst[4*k:]), f)
			}
		}
	}
	if taken < 1800 {
		t.Errorf("only %d of 2000 are taken together", taken)
	}
}
