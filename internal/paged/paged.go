// Package paged holds the state of a sparse model: three numbers for each touched one of 2^bits coordinates, in
// pages that are copied when they are written.
//
// A Table belongs to one writer. Share returns the table of this moment for readers at the cost of one
// pointer; from then on the writer copies a page before it changes it, once for each Share, so that
// publishing costs the pages that were touched.
//
// A table is a hash table with open addressing: a coordinate stands in the first free slot from its home on. Of 2^k
// slots at most three quarters are taken; then the table is made anew with twice as many, up to one for each
// coordinate, where every coordinate has a home of its own. So a table takes 45 to 90 bytes for a touched coordinate,
// whatever the coordinates are, and 34 when all are touched. A page has eight slots, and only pages with a coordinate
// exist. Homes depend on a number that each process draws, so that no choice of coordinates makes long searches; where
// a coordinate stands shows nowhere.
//
// The digest of a table is a sum over its touched coordinates, so that keeping it costs the touched
// coordinates too. It finds accidents: it is no protection against values that were chosen to collide.
package paged

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// A slot has 3 bits within its page, 4 within a node, and the rest in the root.
const (
	pageBits = 3
	nodeBits = 4
	page     = 1 << pageBits
	fan      = 1 << nodeBits
)

// Cell has the numbers of a coordinate. Its 32 bytes lie in one line of the cache.
type Cell struct {
	W, A float64 // weight w, and what its precision A has gained
	G    float64 // sum of squared gradients, 0 before the first
	key  uint32  // coordinate + 1, 0 in a free slot
}

// node has a bit for each page that belongs to the same writer as the node: such a page is not copied.
type node struct {
	stamp uint64 `horizon:"-"` // of the writer that the node belongs to
	own   uint32
	pages [fan]*[page]Cell // nil without a coordinate
}

// Digest identifies the contents of a table.
type Digest [2]uint64

// Table is the state of 2^bits coordinates. An untouched coordinate has zeros. The zero value is not
// usable. Not safe for concurrent use, but what Share returned is, for reading.
type Table struct {
	root    []*node
	mask    uint32 // 2^bits − 1
	shift   uint8  // bits less those of a slot
	bits    uint8
	half    uint8  // of bits
	shared  bool   // root is shared
	owned   bool   // root was not shared before the last Share
	slots   uint32 // less 1
	stamp   uint64 `horizon:"-"` // pages with this stamp belong to this table alone; 0: it must not be written
	before  uint64 `horizon:"-"` // stamp before the last Share
	touched int
	digest  Digest
}

// New returns an empty table of 2^bits coordinates, 1 ≤ bits ≤ 31.
func New(bits int) *Table {
	if bits < 1 || bits > 31 {
		panic("paged: New: bits outside 1 to 31")
	}
	t := &Table{mask: 1<<bits - 1, bits: uint8(bits), half: uint8(bits+1) / 2, stamp: stamps.Add(1)}
	t.make(pageBits)
	return t
}

// make gives the table 2^k empty slots.
func (t *Table) make(k int) {
	t.root = make([]*node, 1<<max(0, k-pageBits-nodeBits)) // nil without a coordinate
	t.slots, t.shift = 1<<k-1, uint8(max(0, int(t.bits)-k))
}

// Bits returns the logarithm of the number of coordinates.
func (t *Table) Bits() int { return int(t.bits) }

// Touched returns the number of coordinates that were edited.
func (t *Table) Touched() int { return t.touched }

// Digest identifies the contents: tables with equal contents have equal digests.
func (t *Table) Digest() Digest { return t.digest }

// stamps numbers the writers of this process. A stamp decides which writer copies a page, never what the page holds.
var stamps atomic.Uint64

// factors are odd, so that multiplying by one is a bijection of 2^bits coordinates.
var factors = func() [2]uint32 {
	v := maphash.String(maphash.MakeSeed(), "paged")
	return [2]uint32{uint32(v) | 1, uint32(v>>32) | 1}
}()

// Share returns the table as it is, for readers in other goroutines. The result must not be written;
// Clone makes a table of it that may be. Cost: nothing but the copies of pages that t writes later.
func (t *Table) Share() *Table {
	s := new(Table)
	t.ShareTo(s)
	return s
}

// ShareTo is Share into a table that nothing reads any more.
func (t *Table) ShareTo(s *Table) {
	*s = *t
	s.stamp = 0
	t.before, t.owned = t.stamp, !t.shared
	t.shared, t.stamp = true, stamps.Add(1)
}

// Reclaim takes back what the last Share gave: t goes on as if that call had not been made, so that it writes its pages
// in place. Nothing may read the result of that Share, or a Clone of it, any more. It has no effect on a table that was
// never shared, or was written since.
func (t *Table) Reclaim() {
	if t.before != 0 {
		t.stamp, t.shared, t.before = t.before, !t.owned, 0
	}
}

// Clone returns a table of its own with the contents of a shared one, which does not change: pages are
// copied when the clone writes them. Calls on one shared table may run at the same time.
func (t *Table) Clone() *Table {
	c := *t
	c.shared, c.stamp, c.before = true, stamps.Add(1), 0
	return &c
}

// home returns the slot where the search for coordinate i begins: the upper bits of a bijection of 2^bits numbers.
func (t *Table) home(i uint32) uint32 {
	i = i * factors[0] & t.mask
	return (i ^ i>>(t.half&31)) * factors[1] & t.mask >> (t.shift & 31)
}

// at returns the cell of a slot, nil where its page does not exist. It compares pointers with nil where a read would
// do, because that read would be of another line of the page.
func (t *Table) at(slot uint32) *Cell {
	n := t.root[slot>>(pageBits+nodeBits)]
	if n == nil {
		return nil
	}
	p := n.pages[slot>>pageBits&(fan-1)]
	if p == nil {
		return nil
	}
	return &p[slot&(page-1)]
}

// Cell returns the numbers of coordinate i < 2^bits, zeros where nothing was written.
func (t *Table) Cell(i uint32) (c Cell) {
	if slot, found := t.slot(i); found {
		c = *t.at(slot)
	}
	return c
}

// Together is how many coordinates Read takes at most.
const Together = 64

// Read stores w and what A has gained of at most Together coordinates, each modulo mask + 1. It is faster than Cell for
// each: lines that are not in the cache are fetched at the same time, because nothing is compared before all are read.
func (t *Table) Read(w, a []float64, at []uint32, mask uint32) {
	var keys [Together]uint32
	w, a = w[:len(at)], a[:len(at)]
	got := keys[:len(at)]
	for k, i := range at {
		if c := t.at(t.home(i & mask)); c != nil {
			got[k], w[k], a[k] = c.key, c.W, c.A // zeros in a free slot
		} else {
			w[k], a[k] = 0, 0
		}
	}
	for k, key := range got {
		if i := at[k] & mask; key != 0 && key != i+1 {
			c := t.Cell(i)
			w[k], a[k] = c.W, c.A
		}
	}
}

// slot returns where coordinate i stands, or the free slot where it will.
func (t *Table) slot(i uint32) (slot uint32, found bool) {
	for slot = t.home(i); ; slot = (slot + 1) & t.slots {
		c := t.at(slot)
		if c == nil || c.key == 0 || c.key == i+1 {
			return slot, c != nil && c.key != 0
		}
	}
}

// write returns the cell of a slot for writing.
func (t *Table) write(slot uint32) *Cell {
	if t.stamp == 0 {
		panic("paged: a shared table is written")
	}
	if t.shared {
		t.root, t.shared, t.before = slices.Clone(t.root), false, 0
	}
	n := t.root[slot>>(pageBits+nodeBits)]
	if n == nil || n.stamp != t.stamp {
		own := &node{stamp: t.stamp}
		if n != nil {
			own.pages = n.pages
		}
		n, t.root[slot>>(pageBits+nodeBits)] = own, own
	}
	k := slot >> pageBits & (fan - 1)
	p := n.pages[k]
	if n.own>>k&1 == 0 {
		own := new([page]Cell)
		if p != nil {
			*own = *p
		}
		p, n.pages[k] = own, own
		n.own |= 1 << k
	}
	return &p[slot&(page-1)]
}

// each calls f for every touched coordinate, in the order of slots.
func (t *Table) each(f func(slot uint32, c *Cell)) {
	for r, n := range t.root {
		if n == nil {
			continue
		}
		for k, p := range n.pages {
			if p == nil {
				continue
			}
			for s := range p {
				if c := &p[s]; c.key != 0 {
					f(uint32((r<<nodeBits|k)<<pageBits|s), c)
				}
			}
		}
	}
}

// grow makes the table anew with twice as many slots.
func (t *Table) grow() {
	old := *t
	t.make(bits.Len32(t.slots) + 1)
	t.shared, t.before = false, 0
	old.each(func(_ uint32, c *Cell) {
		slot, _ := t.slot(c.key - 1)
		*t.write(slot) = *c
	})
}

// Edit returns the cell of coordinate i, which the caller changes and then gives to Done. Cost: O(1), and a copy of the
// page, its node and the root at most once after a Share; all are copied when the table grows.
func (t *Table) Edit(i uint32) *Cell {
	slot, found := t.slot(i)
	if !found && t.slots < t.mask && 4*uint64(t.touched+1) > 3*(uint64(t.slots)+1) && t.stamp != 0 {
		t.grow()
		slot, _ = t.slot(i)
	}
	c := t.write(slot)
	if found {
		h := c.hash()
		t.digest[0] -= h[0]
		t.digest[1] -= h[1]
	} else {
		c.key = i + 1
		t.touched++
	}
	return c
}

// Done ends an Edit. G of the coordinate is not 0.
func (t *Table) Done(c *Cell) {
	h := c.hash()
	t.digest[0] += h[0]
	t.digest[1] += h[1]
}

// Set stores the numbers of coordinate i; g ≠ 0.
func (t *Table) Set(i uint32, w, a, g float64) {
	c := t.Edit(i)
	c.W, c.A, c.G = w, a, g
	t.Done(c)
}

// Each calls f for every touched coordinate in ascending order. Cost: that of sorting them.
func (t *Table) Each(f func(i uint32, w, a, g float64)) {
	order := make([]uint64, 0, t.touched) // coordinate and slot
	t.each(func(slot uint32, c *Cell) { order = append(order, uint64(c.key-1)<<32|uint64(slot)) })
	slices.Sort(order)
	for _, o := range order {
		c := t.at(uint32(o))
		f(uint32(o>>32), c.W, c.A, c.G)
	}
}

// hash mixes a coordinate and its numbers into 128 bits.
func (c *Cell) hash() Digest {
	at := uint64(c.key) * 0x9e3779b97f4a7c15
	h, l := bits.Mul64(math.Float64bits(c.W)^at, math.Float64bits(c.A)^0xe7037ed1a0b428db)
	x := h ^ l
	h, l = bits.Mul64(math.Float64bits(c.G)^x, at^0x589965cc75374cc3)
	return Digest{x + bits.RotateLeft64(h, 29), h ^ l}
}
