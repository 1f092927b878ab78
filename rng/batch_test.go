package rng

import (
	"fmt"
	"math"
	"testing"

	"troupe/internal/cpu"
)

// TestBatch: every number of eight streams side by side is the one that the stream itself gives, at
// every level, for every law, with odd and even numbers of members and fewer streams than eight, and
// where the counters carry. Nothing is written beyond the members asked for, one filler aside.
func TestBatch(t *testing.T) {
	levels(t, func(t *testing.T) {
		for _, n := range []int{1, 3, 8} {
			streams := func(role Role) []Stream {
				s := make([]Stream, n)
				for l := range s {
					s[l] = NewKey(uint64(5 + 1000*l)).At(uint64(l)).Stream(role)
				}
				return s
			}
			of := func(s []Stream, l int) Stream {
				if l < n {
					return s[l]
				}
				return s[0]
			}
			perturb, choose := streams(Perturb), streams(Select)
			o, rows := NewBatch(perturb), NewBatch(choose)
			mixed := NewBatch(perturb) // asked in both layouts in turns
			for _, round := range []uint64{0, 1, 6, 7, 8, 15, 16, 4<<32 - 1, 4 << 32, 1<<34 + 5, 1<<40 + 17, 3} {
				for _, law := range []Law{UniformLaw, SignLaw, NormalLaw} {
					for _, m := range []int{1, 2, 7, 20} {
						stride := m + m%2 + 4
						dst := make([]float64, 4*stride*Eight)
						for i := range dst {
							dst[i] = 3.5
						}
						o.Fill(dst, stride, m, round, law)
						for k := range 4 {
							for j := range stride {
								for l := range Eight {
									got, want := dst[(k*stride+j)*Eight+l], 3.5
									if j < m+m%2 {
										want = law.Of(of(perturb, l).Round(round&^3 + uint64(k)).Word(uint32(j)))
									}
									if got != want {
										t.Fatalf("Fill: %d streams, law %d, m=%d, round %d: member %d of stream %d in row %d is %v, want %v", n, law, m, round, j, l, k, got, want)
									}
								}
							}
						}
					}
				}
				four := make([]float64, 4*2*Eight)
				mixed.Fill(four, 2, 2, round, UniformLaw)
				normal := *mixed.Normals(round)
				for l := range Eight {
					s := of(perturb, l).Round(round &^ 3)
					if four[Eight+l] != UniformWord(s.Word(1)) || normal[l] != of(perturb, l).Round(round).Normal(0) {
						t.Fatalf("round %d, stream %d: both layouts in turns", round, l)
					}
				}
				z := *rows.Normals(round)
				for _, m := range []int{7, 1, 1<<32 - 1, 1 << 32, math.MaxInt, 20} {
					at, signs := rows.Choice(round, m)
					for l := range Eight {
						s := of(choose, l).Round(round)
						if at[l] != s.Intn(0, m) || signs[l] != s.Sign(1) || z[l] != s.Normal(0) {
							t.Fatalf("round %d, stream %d, m = %d: %v, %v, %v; want %v, %v, %v", round, l, m, at[l], signs[l], z[l], s.Intn(0, m), s.Sign(1), s.Normal(0))
						}
					}
				}
			}
		}
	})
}

// TestBatchRefuses: misuse panics.
func TestBatchRefuses(t *testing.T) {
	refused := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	k := NewKey(1)
	o := NewBatch([]Stream{k.Stream(Perturb)})
	refused("no stream", func() { NewBatch(nil) })
	refused("nine streams", func() { NewBatch(make([]Stream, 9)) })
	refused("two roles", func() { NewBatch([]Stream{k.Stream(Perturb), k.Stream(Select)}) })
	refused("no room", func() { o.Fill(make([]float64, 63), 2, 1, 0, UniformLaw) })
	refused("odd stride", func() { o.Fill(make([]float64, 640), 3, 3, 0, UniformLaw) })
	refused("no arm", func() { o.Choice(0, 0) })
}

// BenchmarkBatch: four rounds of targets, and what is drawn in one round, for eight streams.
func BenchmarkBatch(b *testing.B) {
	var streams []Stream
	for l := range Eight {
		streams = append(streams, NewKey(uint64(l)).Stream(Perturb))
	}
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		for _, m := range []int{20, 100} {
			b.Run(fmt.Sprintf("Fill/m=%d/%v", m, l), func(b *testing.B) {
				defer cpu.Force(l)()
				o, dst := NewBatch(streams), make([]float64, 4*m*Eight)
				for t := uint64(0); b.Loop(); t += 4 {
					o.Fill(dst, m, m, t, UniformLaw)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(dst)), "ns/number")
			})
		}
		b.Run("Normals/"+l.String(), func(b *testing.B) {
			defer cpu.Force(l)()
			o := NewBatch(streams)
			for t := uint64(0); b.Loop(); t++ {
				o.Normals(t)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*Eight), "ns/number")
		})
	}
}
