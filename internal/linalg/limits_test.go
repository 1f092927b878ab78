package linalg

import (
	"fmt"
	"testing"

	"troupe/internal/cpu"
)

// TestLimits: the loops touch what they say and nothing else. Rewrite leaves x/2 + 1/2 in every number
// of its slice and none beside it; Multiply counts by the width of the vectors; Read changes nothing.
func TestLimits(t *testing.T) {
	defer cpu.Force(cpu.Portable)()
	if _, ok := MachineLimits(); ok {
		t.Error("the portable level has limits")
	}
	for level := cpu.AVX2; level <= cpu.Best(); level++ {
		restore := cpu.Force(level)
		l, ok := MachineLimits()
		if !ok {
			t.Fatalf("%v has no limits", level)
		}
		if got, want := l.Multiply(10), 10*12*2*map[cpu.Level]float64{cpu.AVX2: 4, cpu.AVX512: 8}[level]; got != want {
			t.Errorf("%v: %v operations, want %v", level, got, want)
		}
		x := make([]float64, 64*5)
		for i := range x {
			x[i] = float64(i)
		}
		l.Read(x[64:256])
		l.Rewrite(x[64:256])
		for i, v := range x {
			want := float64(i)
			if i >= 64 && i < 256 {
				want = float64(i)/2 + 0.5
			}
			if v != want {
				t.Errorf("%v: number %d is %v, want %v", level, i, v, want)
			}
		}
		for _, f := range []func(){func() { l.Multiply(0) }, func() { l.Read(nil) }, func() { l.Rewrite(x[:63]) }} {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("a wrong length is accepted")
					}
				}()
				f()
			}()
		}
		restore()
	}
}

// TestLimitsGenerated runs the generator again and compares.
func TestLimitsGenerated(t *testing.T) { generated(t, "limits", "limits_amd64.s") }

// BenchmarkLimits says what this machine can do at most: GF are 10⁹ floating-point operations in a
// second; GB/s of Rewrite count bytes read and bytes written.
func BenchmarkLimits(b *testing.B) {
	for level := cpu.AVX2; level <= cpu.Best(); level++ {
		run := func(name string, f func(l Limits) (units float64), unit string) {
			b.Run(fmt.Sprintf("%s/%v", name, level), func(b *testing.B) {
				defer cpu.Force(level)()
				l, _ := MachineLimits()
				var sum float64
				for b.Loop() {
					sum += f(l)
				}
				b.ReportMetric(sum/float64(b.Elapsed().Nanoseconds()), unit)
			})
		}
		run("Multiply", func(l Limits) float64 { return l.Multiply(1000) }, "GF")
		for _, kib := range []int{32, 512, 8 << 10, 64 << 10} {
			x := make([]float64, kib<<7)
			for i := range x {
				x[i] = 1 // memory that was never written is one page of zeros, many times
			}
			bytes := float64(8 * len(x))
			run(fmt.Sprintf("Read/KiB=%d", kib), func(l Limits) float64 { l.Read(x); return bytes }, "GB/s")
			run(fmt.Sprintf("Rewrite/KiB=%d", kib), func(l Limits) float64 { l.Rewrite(x); return 2 * bytes }, "GB/s")
		}
	}
}
