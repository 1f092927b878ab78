package paged_test

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"

	"troupe/internal/paged"
)

type cell [3]float64

// contents returns what Each yields, nil where that does not ascend.
func contents(t *paged.Table) map[uint32]cell {
	m, last, ascends := map[uint32]cell{}, int64(-1), true
	t.Each(func(i uint32, w, a, g float64) {
		ascends = ascends && int64(i) > last
		m[i], last = cell{w, a, g}, int64(i)
	})
	if !ascends {
		return nil
	}
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
				now := w.table.Cell(i)
				if got := (cell{now.W, now.A, now.G}); got != c {
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

// TestReclaim: after a Share that was taken back, nothing is copied; without that a page, its node and the root are.
func TestReclaim(t *testing.T) {
	table := paged.New(18)
	write := func() { table.Set(12345, 1, 2, 3) }
	write()
	if n := testing.AllocsPerRun(100, func() { table.Share(); table.Reclaim(); write() }); n > 1 {
		t.Errorf("%v allocations, expected that of Share alone", n)
	}
	if n := testing.AllocsPerRun(100, func() { table.Share(); write(); table.Reclaim() }); n < 3 {
		t.Errorf("%v allocations, expected copies of the page, its node and the root", n)
	}
}

// TestMemory: 2^18 touched coordinates take at most 9 MB, and few ones of many at most 90 bytes each, wherever they are.
func TestMemory(t *testing.T) {
	hashed := func(i uint32) uint32 { return i * 2654435761 >> 14 }
	dense := func(i uint32) uint32 { return i }
	far := func(i uint32) uint32 { return i << 8 }
	for _, c := range []struct {
		n, most int
		at      func(uint32) uint32
	}{{1 << 18, 9e6, dense}, {1, 1000, hashed}, {1000, 90_000, hashed}, {1000, 90_000, dense}, {1000, 90_000, far}} {
		const copies = 16
		var tables [copies]*paged.Table
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := heap()
		for k := range tables {
			tables[k] = paged.New(18)
			for i := range uint32(c.n) {
				tables[k].Set(c.at(i), 1, 1, 1)
			}
		}
		took := int(heap()-before) / copies
		if took > c.most || tables[0].Touched() != c.n {
			t.Errorf("%d touched coordinates take %d bytes, expected at most %d", tables[0].Touched(), took, c.most)
		}
		runtime.KeepAlive(tables)
	}
}

// TestSearches: coordinates in regular steps, as many as a table has before it grows, are found as soon as hashed ones. A
// table in which the coordinates were their own homes fails with the larger steps.
func TestSearches(t *testing.T) {
	for step := range 12 {
		table := paged.New(24)
		for i := range uint32(3 << 10) {
			table.Set(i<<step, 1, 1, 1)
		}
		if n := table.Longest(); n < 1 || n > 400 {
			t.Errorf("step 2^%d: a search looks at %d slots", step, n)
		}
	}
}
