package compact

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// thing is a value with its key.
type thing struct{ key, value uint64 }

// spread is a bijection of 64 bits.
func spread(k uint64) uint64 {
	k = (k ^ k>>31) * 0x9e3779b97f4a7c15
	return k ^ k>>29
}

// TestIndexed plays additions and removals of an arena with an index against a map, also with hashes that collide.
func TestIndexed(t *testing.T) {
	for name, hash := range map[string]func(uint64) uint64{
		"spread":   spread,
		"one part": func(k uint64) uint64 { return spread(k) << partBits },
		"few":      func(k uint64) uint64 { return k % 7 << (partBits - 2) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var a Arena[thing]
			x := NewIndex(func(p uint32) uint64 { return hash(a.At(p).key) })
			find := func(key uint64) (uint32, bool) {
				return x.Find(hash(key), func(p uint32) bool { return a.At(p).key == key })
			}
			want := map[uint64]uint64{}
			for round := range 30_000 {
				grow := round/5000%2 == 0 // phases of growing and of shrinking
				key := r.Uint64N(600)
				place, ok := find(key)
				if _, known := want[key]; known != ok {
					t.Fatalf("round %d: key %d is found: %v, want %v", round, key, ok, known)
				}
				switch {
				case ok && a.At(place).value != want[key]:
					t.Fatalf("round %d: key %d has %d, want %d", round, key, a.At(place).value, want[key])
				case ok && (!grow || r.IntN(4) == 0):
					x.Remove(place)
					a.Free(place)
					delete(want, key)
				case !ok && (grow || r.IntN(4) == 0):
					place, v := a.New()
					if *v != (thing{}) {
						t.Fatalf("round %d: a new value is %v", round, *v)
					}
					*v = thing{key, r.Uint64()}
					want[key] = v.value
					x.Add(place)
				}
				if x.Len() != len(want) {
					t.Fatalf("round %d: %d places, want %d", round, x.Len(), len(want))
				}
			}
			got := map[uint64]uint64{}
			for p := range x.All() {
				got[a.At(p).key] = a.At(p).value
			}
			if len(got) != len(want) {
				t.Fatalf("%d places are listed, want %d", len(got), len(want))
			}
			for k, v := range want {
				if got[k] != v {
					t.Errorf("key %d has %d, want %d", k, got[k], v)
				}
			}
		})
	}
}

// TestShrinks: what was large gives its memory back, in whatever order values go, but for one block.
func TestShrinks(t *testing.T) {
	const n = 40 * block
	for name, order := range map[string]func([]uint32){
		"first in, first out": func([]uint32) {},
		"last in, first out":  slices.Reverse[[]uint32],
		"by chance": func(p []uint32) {
			rand.New(rand.NewPCG(3, 4)).Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var a Arena[thing]
			x := NewIndex(func(p uint32) uint64 { return spread(a.At(p).key) })
			for range 3 {
				var places []uint32
				for i := range n {
					p, v := a.New()
					v.key = uint64(i)
					x.Add(p)
					places = append(places, p)
				}
				if len(a.blocks) != n/block {
					t.Fatalf("%d blocks for %d values", len(a.blocks), n)
				}
				order(places)
				for _, p := range places {
					x.Remove(p)
					a.Free(p)
				}
				blocks, slots := 0, 0
				for _, b := range a.blocks {
					if b != nil {
						blocks++
					}
				}
				for _, p := range x.parts {
					slots += len(p.slots)
				}
				if blocks != 1 || a.empty != 1 || len(a.room) != n/block || slots > parts*firstSize {
					t.Errorf("%d blocks, %d empty, %d with room, %d slots", blocks, a.empty, len(a.room), slots)
				}
			}
		})
	}
}

// TestDeque plays a deque against a slice.
func TestDeque(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var d Deque[int]
	var want []int
	for round := range 60_000 {
		switch k := r.IntN(20); {
		case k < 10+round/10_000%2 || len(want) == 0:
			d.Push(round)
			want = append(want, round)
		case k < 15:
			if got := d.Shift(); got != want[0] {
				t.Fatalf("round %d: first %d, want %d", round, got, want[0])
			}
			want = want[1:]
		default:
			if got := d.Pop(); got != want[len(want)-1] {
				t.Fatalf("round %d: last %d, want %d", round, got, want[len(want)-1])
			}
			want = want[:len(want)-1]
		}
		if d.Len() != len(want) || d.Len() > 0 && (*d.At(0) != want[0] || *d.At(d.Len() - 1) != want[len(want)-1]) {
			t.Fatalf("round %d: %d values, want %d, or others", round, d.Len(), len(want))
		}
		if most := len(want)/block + 3; len(d.blocks) > most {
			t.Fatalf("round %d: %d blocks for %d values", round, len(d.blocks), len(want))
		}
	}
	for i, v := range want {
		if *d.At(i) != v {
			t.Fatalf("value %d is %d, want %d", i, *d.At(i), v)
		}
	}
}

// TestBytes: 100,000 values of 40 bytes with an index take at most 52 bytes each.
func TestBytes(t *testing.T) {
	type value struct {
		key uint64
		_   [4]uint64
	}
	var a Arena[value]
	x := NewIndex(func(p uint32) uint64 { return spread(a.At(p).key) })
	const n = 100_000
	for i := range n {
		p, v := a.New()
		v.key = uint64(i)
		x.Add(p)
	}
	bytes := len(a.blocks)*int(unsafe.Sizeof(*a.blocks[0])) + 8*cap(a.blocks)
	for _, p := range x.parts {
		bytes += 4*len(p.slots) + int(unsafe.Sizeof(p))
	}
	if each := float64(bytes) / n; each > 52 {
		t.Errorf("%.1f bytes for a value", each)
	} else {
		t.Logf("%.1f bytes for a value", each)
	}
}
