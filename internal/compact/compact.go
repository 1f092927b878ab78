// Package compact holds many small values in blocks. Values of a type without pointers cost their own bytes, rounded to
// nothing, and the garbage collector does not visit them; a place in an index is four bytes more.
//
// None of the types is safe for concurrent use, but reading is, while nothing is written.
package compact

import "iter"

const block = 256

// Arena holds values at places: numbers that stay while the value does. The zero value is empty.
type Arena[T any] struct {
	blocks []*arenaBlock[T]
	room   []uint32 // blocks that have a free place, or do not exist
	empty  int      // blocks that exist and have no value
}

type arenaBlock[T any] struct {
	values [block]T
	free   [block]uint8 // free[:left] are the free places
	left   int
}

// New returns the place of a new value, which is zero. Cost: O(1).
func (a *Arena[T]) New() (place uint32, v *T) {
	if len(a.room) == 0 {
		a.room = append(a.room, uint32(len(a.blocks)))
		a.blocks = append(a.blocks, nil)
	}
	i := a.room[len(a.room)-1]
	b := a.blocks[i]
	switch {
	case b == nil:
		b = &arenaBlock[T]{left: block}
		for k := range b.free {
			b.free[k] = uint8(block - 1 - k)
		}
		a.blocks[i] = b
	case b.left == block:
		a.empty--
	}
	b.left--
	if b.left == 0 {
		a.room = a.room[:len(a.room)-1]
	}
	k := b.free[b.left]
	return i*block | uint32(k), &b.values[k]
}

// At returns the value at a place, until it is freed.
func (a *Arena[T]) At(place uint32) *T { return &a.blocks[place/block].values[place%block] }

// Look is At for a place that may have been freed: then it returns nil, a zero value, or that of a later New.
func (a *Arena[T]) Look(place uint32) *T {
	if b := a.blocks[place/block]; b != nil {
		return &b.values[place%block]
	}
	return nil
}

// Free gives a place back. One block without values is kept, others go. Cost: O(1).
func (a *Arena[T]) Free(place uint32) {
	i := place / block
	b := a.blocks[i]
	if b.left == 0 {
		a.room = append(a.room, i)
	}
	clear(b.values[place%block : place%block+1])
	b.free[b.left] = uint8(place % block)
	b.left++
	switch {
	case b.left < block:
	case a.empty > 0:
		a.blocks[i] = nil
	default:
		a.empty++
	}
}

// parts is the number of tables of an Index, so that none is large when it grows.
const (
	partBits  = 8
	parts     = 1 << partBits
	firstSize = 8
)

// Index finds places by keys that stand elsewhere. It is made of hash tables with open addressing, of which at most
// three quarters are taken: 5 to 11 bytes a place.
type Index struct {
	hash  func(place uint32) uint64 // of the key at a place
	parts []part                    // nil while nothing was added
	n     int
}

type part struct {
	slots []uint32 // place + 1, 0 for a free one; a power of two of them
	n     int
}

// NewIndex returns an empty index of keys with a hash of which all bits are good.
func NewIndex(hash func(place uint32) uint64) Index { return Index{hash: hash} }

// Len returns the number of places.
func (x *Index) Len() int { return x.n }

// Find returns the place whose key has the hash h and is the one that is wanted. Cost: O(1).
func (x *Index) Find(h uint64, is func(place uint32) bool) (place uint32, ok bool) {
	if x.n == 0 {
		return 0, false
	}
	p := &x.parts[h%parts]
	if p.n == 0 {
		return 0, false
	}
	for i := p.home(h); p.slots[i] != 0; i = p.next(i) {
		if place = p.slots[i] - 1; is(place) {
			return place, true
		}
	}
	return 0, false
}

// Add adds a place, whose key no other one has. Cost: O(1), when the part grows that of the part.
func (x *Index) Add(place uint32) {
	if x.parts == nil {
		x.parts = make([]part, parts)
	}
	h := x.hash(place)
	p := &x.parts[h%parts]
	if 4*(p.n+1) > 3*len(p.slots) {
		x.resize(p, max(firstSize, 2*len(p.slots)))
	}
	p.put(h, place)
	p.n++
	x.n++
}

// Remove takes a place out, which is there with the key that it was added with. Cost: O(1).
func (x *Index) Remove(place uint32) {
	h := x.hash(place)
	p := &x.parts[h%parts]
	i := p.home(h)
	for p.slots[i] != place+1 {
		if p.slots[i] == 0 {
			panic("compact: Remove: a place that is not in the index")
		}
		i = p.next(i)
	}
	// Those behind it move up where that brings them no further than to their home.
	for k := p.next(i); p.slots[k] != 0; k = p.next(k) {
		if home := p.home(x.hash(p.slots[k] - 1)); p.from(home, k) >= p.from(i, k) {
			p.slots[i], i = p.slots[k], k
		}
	}
	p.slots[i] = 0
	p.n--
	x.n--
	if n := len(p.slots); n > firstSize && 8*p.n < n {
		x.resize(p, n/2)
	}
}

// All yields the places in no order. The index must not change meanwhile.
func (x *Index) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := range x.parts {
			for _, s := range x.parts[i].slots {
				if s != 0 && !yield(s-1) {
					return
				}
			}
		}
	}
}

func (x *Index) resize(p *part, size int) {
	old := p.slots
	p.slots = make([]uint32, size)
	for _, s := range old {
		if s != 0 {
			p.put(x.hash(s-1), s-1)
		}
	}
}

func (p *part) home(h uint64) uint32          { return uint32(h>>partBits) & uint32(len(p.slots)-1) }
func (p *part) next(i uint32) uint32          { return (i + 1) & uint32(len(p.slots)-1) }
func (p *part) from(home, slot uint32) uint32 { return (slot - home) & uint32(len(p.slots)-1) }

func (p *part) put(h uint64, place uint32) {
	i := p.home(h)
	for p.slots[i] != 0 {
		i = p.next(i)
	}
	p.slots[i] = place + 1
}

// Deque is a row of values that grows at its end and shrinks at both. The zero value is empty.
type Deque[T any] struct {
	blocks  []*[block]T
	head, n int // the first value is head places into the first block
}

// Len returns the number of values.
func (d *Deque[T]) Len() int { return d.n }

// At returns value i, 0 ≤ i < Len, until the deque changes.
func (d *Deque[T]) At(i int) *T {
	if uint(i) >= uint(d.n) {
		panic("compact: At: outside of the deque")
	}
	k := d.head + i
	return &d.blocks[k/block][k%block]
}

// Push appends a value. Cost: O(1).
func (d *Deque[T]) Push(v T) {
	if d.head+d.n == len(d.blocks)*block {
		d.blocks = append(d.blocks, new([block]T))
	}
	d.n++
	*d.At(d.n - 1) = v
}

// Pop removes the last value and returns it. Cost: O(1).
func (d *Deque[T]) Pop() T {
	at := d.At(d.n - 1)
	v := *at
	clear(d.blocks[(d.head+d.n-1)/block][(d.head+d.n-1)%block:][:1])
	d.n--
	if k := len(d.blocks) - 1; d.head+d.n <= (k-1)*block { // the last block and the one before it are empty
		d.blocks[k] = nil
		d.blocks = d.blocks[:k]
	}
	return v
}

// Shift removes the first value and returns it. Cost: O(1).
func (d *Deque[T]) Shift() T {
	v := *d.At(0)
	clear(d.blocks[0][d.head : d.head+1])
	d.head, d.n = d.head+1, d.n-1
	if d.head == block {
		d.blocks[0] = nil
		d.blocks, d.head = d.blocks[1:], 0
	}
	return v
}
