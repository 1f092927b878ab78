package rng

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"troupe/internal/cpu"
)

// levels runs a test at every level that this machine offers.
func levels(t *testing.T, f func(t *testing.T)) {
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			defer cpu.Force(l)()
			f(t)
		})
	}
}

// checkFill compares FillMembers, FillRounds, Columns and Rows with random access, bit for bit.
func checkFill(t *testing.T, s Source, members [Lanes]uint32, n, stride int, law Law) {
	t.Helper()
	const guard = 3.5
	quad := s.t >> 2
	dst := make([]float64, (4*n-1)*stride+Lanes+1)
	for i := range dst {
		dst[i] = guard
	}
	s.FillMembers(dst[:len(dst)-1], stride, &members, n, law)
	for r := range 4 * n {
		round := Source{s.key, s.role, quad<<2 + uint64(r)}
		for i, j := range members {
			if got, want := dst[r*stride+i], law.Of(round.Word(j)); got != want {
				t.Fatalf("FillMembers: round %d member %d: %v, want %v", round.t, j, got, want)
			}
		}
		for i := r*stride + Lanes; i < min((r+1)*stride, len(dst)); i++ {
			if dst[i] != guard {
				t.Fatalf("FillMembers wrote %v beyond lane 15 of row %d", dst[i], r)
			}
		}
	}
	if dst[len(dst)-1] != guard {
		t.Fatal("FillMembers wrote beyond its slice")
	}
	var along [4 * Lanes]float64
	s.FillRounds(&along, members[0], law)
	for i := range uint64(Lanes) {
		for k := range uint64(4) {
			round := Source{s.key, s.role, (quad+i)<<2 + k}
			if got, want := along[k*Lanes+i], law.Of(round.Word(members[0])); got != want {
				t.Fatalf("FillRounds: round %d: %v, want %v", round.t, got, want)
			}
		}
	}
	var rows Rows
	for _, s := range []Source{s, {s.key, s.role, s.t + 1}, {s.key, s.role, s.t + 40}, {s.key.key().At(1).pack(), s.role, s.t}, {s.key, Select, s.t}, s} {
		for i := range 2 {
			if got, want := rows.Uint64(s, i), s.Uint64(i); got != want {
				t.Fatalf("Rows: round %d number %d: %x, want %x", s.t, i, got, want)
			}
			if rows.Intn(s, i, 7) != s.Intn(i, 7) || rows.Normal(s, i) != s.Normal(i) {
				t.Fatalf("Rows: round %d: a reading differs", s.t)
			}
		}
		if j, sign := rows.IntnSign(s, 7); j != s.Intn(0, 7) || sign != s.Sign(1) {
			t.Fatalf("Rows: round %d: member %d with sign %v, want %d with %v", s.t, j, sign, s.Intn(0, 7), s.Sign(1))
		}
	}
}

// TestKernels: the kernels of every level against random access, where counters carry too.
func TestKernels(t *testing.T) {
	levels(t, func(t *testing.T) {
		st := NewKey(77).Stream(Perturb)
		var list [Lanes]uint32
		for i := range list {
			list[i] = uint32(i*i*2654435761) ^ 5
		}
		list[3] = math.MaxUint32
		for _, round := range []uint64{0, 1, 4, 62, 63, 1<<34 - 4, 1<<34 - 8, 1<<34 - 64, 1<<34 - 60, 1<<34 + 1, math.MaxUint64 - 255} {
			for _, n := range []int{1, 2, 3, 16, 17} {
				for law := UniformLaw; law <= NormalLaw; law++ {
					checkFill(t, st.Round(round), list, n, Lanes+n%3*8, law)
				}
			}
		}
		TestColumns(t)
	})
}

// TestQuantiles: whole vectors against quantile, bit for bit, lane by lane: the middle, the tails and
// the far tails in every mixture, and lengths that leave a remainder.
func TestQuantiles(t *testing.T) {
	levels(t, func(t *testing.T) {
		s := NewKey(3).Stream(Instance).Round(9)
		for i := range 3000 {
			x := make([]float64, 1+i%19)
			for j := range x {
				w := s.Uint64(i*20 + j)
				switch {
				case i%5 == 1 && j%3 == 0:
					w >>= w >> 6 % 40 // tails of all sizes
				case i%5 == 2:
					w = ^(w >> (w >> 6 % 52))
				}
				x[j] = half(w)
				if i%5 == 3 {
					x[j] = half32(uint32(w))
				}
			}
			if i == 0 {
				x = []float64{half(0), half(1<<64 - 1), 0.425, -0.425, math.Nextafter(0.425, 1), half32(0), 0x1p-53, half32(1<<32 - 1)}
			}
			got := append([]float64(nil), x...)
			quantiles(got)
			for j, q := range x {
				if want := quantile(q); math.Float64bits(got[j]) != math.Float64bits(want) {
					t.Fatalf("quantile of %v in lane %d of %d is %v, want %v", q, j, len(x), got[j], want)
				}
			}
		}
	})
}

// FuzzQuantiles is TestQuantiles with any words.
func FuzzQuantiles(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(1<<63), uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, a, b, c, d uint64) {
		for l := cpu.Portable; l <= cpu.Best(); l++ {
			restore := cpu.Force(l)
			x := []float64{half(a), half(b), half(c), half(d), half32(uint32(a)), half32(uint32(b)), half32(uint32(c)), half32(uint32(d))}
			got := append([]float64(nil), x...)
			quantiles(got)
			for j, q := range x {
				if want := quantile(q); math.Float64bits(got[j]) != math.Float64bits(want) {
					t.Fatalf("%v: quantile of %v is %v, want %v", l, q, got[j], want)
				}
			}
			restore()
		}
	})
}

// FuzzKernels looks for a counter, a key or a shape at which a kernel differs from random access.
func FuzzKernels(f *testing.F) {
	f.Add(uint64(1), uint64(5), uint32(0), uint8(16), uint8(0))
	f.Add(uint64(0), uint64(1<<34-1), uint32(math.MaxUint32), uint8(3), uint8(7))
	f.Fuzz(func(t *testing.T, seed, round uint64, member uint32, shape, law uint8) {
		for l := cpu.Portable; l <= cpu.Best(); l++ {
			restore := cpu.Force(l)
			var list [Lanes]uint32
			for i := range list {
				list[i] = member + uint32(i)*uint32(seed>>32)
			}
			checkFill(t, NewKey(seed).Stream(Perturb).Round(min(round, math.MaxUint64-512)), list, 1+int(shape%20), Lanes+int(shape>>5), Law(law%3))
			restore()
		}
	})
}

// TestGenerated runs the generator again and compares. It needs avo from the module proxy or cache.
func TestGenerated(t *testing.T) {
	want, err := os.ReadFile("fill_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".", "rng")
	cmd.Dir = "../internal/gen"
	cmd.Env = append(os.Environ(), "GOARCH=", "GOOS=") // of the machine that compiles, whatever this test was built for
	var stderr strings.Builder
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		if strings.Contains(stderr.String(), "github.com/mmcloughlin/avo") {
			t.Skip("avo is neither cached nor available through the module proxy:", stderr.String())
		}
		t.Fatal(err, stderr.String())
	}
	if string(got) != string(want) {
		t.Error("fill_amd64.s is not what internal/gen writes: run go run . rng > ../../rng/fill_amd64.s there")
	}
}

func BenchmarkFillMembers(b *testing.B) {
	var list [Lanes]uint32
	for i := range list {
		list[i] = uint32(i)
	}
	s := NewKey(1).Stream(Perturb).Round(0)
	dst := make([]float64, 64*Lanes)
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		for _, n := range []int{1, 16} {
			for _, law := range []Law{UniformLaw, NormalLaw} {
				b.Run(fmt.Sprintf("%v/n=%d/law=%d", l, n, law), func(b *testing.B) {
					defer cpu.Force(l)()
					for b.Loop() {
						s.FillMembers(dst, Lanes, &list, n, law)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(64*n), "ns/number")
				})
			}
		}
	}
}

// BenchmarkFillKernels measures what the other kernels of this package give: one member over 64 rounds,
// words alone, and quantiles of the normal law.
func BenchmarkFillKernels(b *testing.B) {
	s := NewKey(1).Stream(Perturb).Round(0)
	var along [4 * Lanes]float64
	var words [4 * Lanes]uint32
	blocks := s.blocks(uint32(s.role), 0)
	q, x := make([]float64, 64), make([]float64, 64)
	for i := range q {
		q[i] = (float64(i) - 31.5) / 64.5
	}
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		run := func(name string, numbers int, f func()) {
			b.Run(fmt.Sprintf("%s/%v", name, l), func(b *testing.B) {
				defer cpu.Force(l)()
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(numbers), "ns/number")
			})
		}
		run("FillRounds", 64, func() { s.FillRounds(&along, 7, UniformLaw) })
		run("words", 64, func() { blocks.words(&words) })
		run("quantiles", 64, func() {
			copy(x, q)
			quantiles(x)
		})
	}
}

func BenchmarkRows(b *testing.B) {
	st := NewKey(1).Stream(Select)
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		b.Run(l.String(), func(b *testing.B) {
			defer cpu.Force(l)()
			var r Rows
			t, sum := uint64(0), uint64(0)
			for b.Loop() {
				sum += r.Uint64(st.Round(t), 0) + r.Uint64(st.Round(t), 1)
				t++
			}
			_ = sum
		})
	}
	b.Run("Source", func(b *testing.B) {
		t, sum := uint64(0), uint64(0)
		for b.Loop() {
			sum += st.Round(t).Uint64(0) + st.Round(t).Uint64(1)
			t++
		}
		_ = sum
	})
}
