package members

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/rng"
)

// shape is a tile: n rounds from t, some groups of members, d features.
type shape struct {
	seed, t      uint64
	n, groups, d int
	law          rng.Law
}

// check compares addTiles at every level with one multiply-add after the other and targets by random access,
// bit for bit.
func check(t *testing.T, s shape) {
	t.Helper()
	r := rand.New(rand.NewPCG(s.seed, 7))
	src := rng.NewKey(s.seed).Stream(rng.Perturb).Round(s.t)
	number := func() float64 {
		switch r.IntN(8) {
		case 0:
			return 0
		case 1:
			return math.Copysign(0, -1)
		case 2:
			return r.NormFloat64() * 1e-310 // subnormal
		case 3:
			return r.NormFloat64() * 1e300
		}
		return r.NormFloat64()
	}
	x := make([]float64, s.n*s.d)
	for i := range x {
		x[i] = number()
	}
	fill := func() []*tile {
		r := rand.New(rand.NewPCG(s.seed, 8))
		var list []*tile
		for range s.groups {
			g := &tile{S: make([]float64, linalg.Members*s.d)}
			for i := range g.S {
				g.S[i] = r.NormFloat64()
			}
			for i := range g.Members {
				g.Members[i] = r.Uint32()
			}
			list = append(list, g)
		}
		return list
	}
	want := fill()
	for _, g := range want {
		for i, j := range g.Members {
			for k := range s.n {
				u := s.law.Of(src.Later(uint64(k)).Word(j))
				for f := range s.d {
					at := (i/8*s.d+f)*8 + i%8
					g.S[at] = math.FMA(u, x[k*s.d+f], g.S[at])
				}
			}
		}
	}
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		restore := cpu.Force(l)
		got := fill()
		addTiles(got, src, x, s.d, s.law, make([]float64, tileSize))
		restore()
		for k := range want {
			if i := slices.IndexFunc(indices(got[k].S), func(i int) bool {
				return math.Float64bits(got[k].S[i]) != math.Float64bits(want[k].S[i])
			}); i >= 0 {
				t.Fatalf("%+v at %v: group %d, feature %d, member %d is %v, want %v", s, l, k, i/8%s.d, i%8+i/8/s.d*8, got[k].S[i], want[k].S[i])
			}
			if got[k].Members != want[k].Members {
				t.Fatalf("%+v at %v: the members of group %d have changed", s, l, k)
			}
		}
	}
}

func indices(x []float64) []int {
	out := make([]int, len(x))
	for i := range out {
		out[i] = i
	}
	return out
}

// TestAddTiles goes through the dimensions of the kernels and their neighbours, with beginnings and ends inside
// blocks of rounds, one group and several, and both sides of the place where a word of the counter
// wraps.
func TestAddTiles(t *testing.T) {
	seed := uint64(1)
	for d := 1; d <= mostFused+2; d++ {
		for _, n := range []int{1, 7, 8, 9, 16, 29, 63, 64} {
			for _, law := range []rng.Law{rng.UniformLaw, rng.SignLaw} {
				check(t, shape{seed, seed * 13 % 64, n, 1 + int(seed%4), d, law})
				seed++
			}
		}
	}
	for d := 36; d <= 67; d++ {
		for _, n := range []int{15, 16, 40, 64} {
			check(t, shape{seed, seed * 11 % 64, n, 1 + int(seed%4), d, rng.Law(seed % 2)})
			seed++
		}
	}
	check(t, shape{seed, 64, 64, 5, 100, rng.UniformLaw})
	check(t, shape{seed, 4, 40, 3, 6, rng.NormalLaw})
	check(t, shape{seed, 4, 40, 3, 60, rng.NormalLaw})
	for back := uint64(0); back <= 80; back += 4 {
		check(t, shape{back, 1<<34 - back, 64, 2, 5, rng.UniformLaw})
		check(t, shape{back, 1<<34 - back, 64, 3, 40, rng.UniformLaw})
	}
	check(t, shape{seed, math.MaxUint64 - 64, 64, 2, 5, rng.SignLaw})
}

// FuzzAddTiles looks for a tile at which a kernel differs.
func FuzzAddTiles(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 1, 0, 0, 0, 0, 0, 0, 0, 64, 3, 10, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, 20)...)
		start := binary.LittleEndian.Uint64(b[8:])
		check(t, shape{binary.LittleEndian.Uint64(b), min(start, math.MaxUint64-tileRounds), 1 + int(b[16]%tileRounds),
			1 + int(b[17]%5), 1 + int(b[18]%64), rng.Law(b[19] % 3)})
	})
}

// TestGenerated runs the generator again and compares. It needs avo from the module proxy or cache.
func TestGenerated(t *testing.T) {
	want, err := os.ReadFile("tile_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", ".", "members")
	cmd.Dir = "../gen"
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
		t.Error("tile_amd64.s is not what internal/gen writes: run go run . members > ../members/tile_amd64.s there")
	}
}

// BenchmarkAddTiles compares the kernel with a table of targets, on eight groups in turn.
func BenchmarkAddTiles(b *testing.B) {
	src := rng.NewKey(1).Stream(rng.Perturb).Round(0)
	for _, d := range []int{4, 10, 50, 100} {
		var groups []*tile
		for range 8 {
			groups = append(groups, &tile{S: make([]float64, linalg.Members*d)})
		}
		x, u := make([]float64, tileRounds*d), make([]float64, tileSize)
		for i := range x {
			x[i] = 1e-3
		}
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/d=%d", name, d), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(8*linalg.Members*tileRounds), "ns/number")
			})
		}
		run("Add", func() { addTiles(groups, src, x, d, rng.UniformLaw, u) })
		run("table", func() {
			for _, g := range groups {
				addTable(g, src, x, d, rng.UniformLaw, u)
			}
		})
	}
}
