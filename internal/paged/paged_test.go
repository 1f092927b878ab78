package paged_test

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"troupe/internal/paged"
)

type cell [3]float64

func contents(t *paged.Table) map[uint32]cell {
	m := map[uint32]cell{}
	t.Each(func(i uint32, w, a, g float64) { m[i] = cell{w, a, g} })
	return m
}

// TestTable compares tables, shared states and clones with maps under random writes. A page that is
// written without a copy changes a shared state, and the comparison with its map fails.
func TestTable(t *testing.T) {
	for _, bits := range []int{1, 10, 13, 14, 20, 28} {
		r := rand.New(rand.NewPCG(uint64(bits), 1))
		type pair struct {
			table *paged.Table
			want  map[uint32]cell
		}
		writers := []pair{{paged.New(bits), map[uint32]cell{}}}
		var shared []pair
		for range 3000 {
			w := &writers[r.IntN(len(writers))]
			switch r.IntN(40) {
			case 0:
				shared = append(shared, pair{w.table.Share(), maps.Clone(w.want)})
			case 2:
				w.table.Share()
				w.table.Reclaim()
			case 1:
				if len(shared) > 0 && len(writers) < 4 {
					s := shared[r.IntN(len(shared))]
					writers = append(writers, pair{s.table.Clone(), maps.Clone(s.want)})
				}
			default:
				i := uint32(r.Uint64N(1 << bits))
				if r.IntN(2) == 0 {
					i &= 31
					i &= 1<<bits - 1
				}
				c := cell{r.NormFloat64(), 1 + r.Float64(), r.Float64()}
				w.table.Set(i, c[0], c[1], c[2])
				w.want[i] = c
				p, s := w.table.Page(i), paged.Slot(i)
				if got := (cell{p.WA[2*s], p.WA[2*s+1], p.G[s]}); got != c {
					t.Fatalf("bits %d: coordinate %d is %v after Set, expected %v", bits, i, got, c)
				}
			}
		}
		for _, p := range append(writers, shared...) {
			if !maps.Equal(contents(p.table), p.want) {
				t.Fatalf("bits %d: a table differs from its map", bits)
			}
			if p.table.Touched() != len(p.want) {
				t.Fatalf("bits %d: %d touched, expected %d", bits, p.table.Touched(), len(p.want))
			}
			again := paged.New(bits)
			for i, c := range p.want { // in any order
				again.Set(i, 0.5, 9, 9)
				again.Set(i, c[0], c[1], c[2])
			}
			if again.Digest() != p.table.Digest() {
				t.Fatalf("bits %d: equal contents have the digests %x and %x", bits, again.Digest(), p.table.Digest())
			}
		}
	}
}

// TestDigest changes each bit of each number of one coordinate.
func TestDigest(t *testing.T) {
	base := paged.New(18)
	base.Set(5, 0.25, 1.5, 2)
	seen := map[paged.Digest]bool{base.Digest(): true, {}: true}
	for _, c := range []struct {
		i uint32
		v cell
	}{{4, cell{0.25, 1.5, 2}}, {5, cell{-0.25, 1.5, 2}}, {5, cell{0.25, 1.5000000000000002, 2}}, {5, cell{0.25, 1.5, 2.0000000000000004}}, {5, cell{1.5, 0.25, 2}}, {5, cell{0.25, 2, 1.5}}} {
		o := paged.New(18)
		o.Set(c.i, c.v[0], c.v[1], c.v[2])
		if seen[o.Digest()] {
			t.Errorf("coordinate %d with %v has the digest of another table", c.i, c.v)
		}
		seen[o.Digest()] = true
	}
}

func TestShareIsReadOnly(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Set on a shared table did not panic")
		}
	}()
	paged.New(10).Share().Set(1, 1, 1, 1)
}

// TestReclaim: after a Share that was taken back, nothing is copied; without that a page and its nodes are.
func TestReclaim(t *testing.T) {
	table := paged.New(18)
	write := func() { table.Set(12345, 1, 2, 3) }
	write()
	if n := testing.AllocsPerRun(100, func() { table.Share(); table.Reclaim(); write() }); n > 1 {
		t.Errorf("%v allocations, expected that of Share alone", n)
	}
	if n := testing.AllocsPerRun(100, func() { table.Share(); write(); table.Reclaim() }); n < 4 {
		t.Errorf("%v allocations, expected copies of the page and its nodes", n)
	}
}

// TestMemory: 2^18 touched coordinates take at most 8 MB.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p := paged.New(18)
	for i := range uint32(1 << 18) {
		p.Set(i, 1, 1, 1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := after.HeapAlloc - before.HeapAlloc; n > 8e6 || p.Touched() != 1<<18 {
		t.Errorf("%d touched coordinates take %d bytes, expected at most 8e6", p.Touched(), n)
	}
	runtime.KeepAlive(p)
}
