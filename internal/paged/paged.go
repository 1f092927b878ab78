// Package paged holds the state of a sparse model: three numbers for each of 2^bits coordinates, in
// pages that are copied when they are written.
//
// A Table belongs to one writer. Share returns the table of this moment for readers at the cost of one
// pointer; from then on the writer copies a page before it changes it, once for each Share, so that
// publishing costs the pages that were touched. A page has eight coordinates, because hashed
// coordinates that are learned together lie in different pages. Only touched pages exist.
//
// The digest of a table is a sum over its touched coordinates, so that keeping it costs the touched
// coordinates too. It finds accidents: it is no protection against values that were chosen to collide.
package paged

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// A coordinate has 3 bits within its page, 5 within a lower node, 5 within an upper node, and the rest
// in the root.
const (
	pageBits = 3
	nodeBits = 5
	page     = 1 << pageBits
	fan      = 1 << nodeBits
)

// Page holds eight coordinates. Coordinate i is slot i mod 8.
type Page struct {
	WA [2 * page]float64 // weight w and what its precision A has gained, interleaved: 2·slot and 2·slot + 1
	G  [page]float64     // sum of squared gradients, 0 before the first
}

// Slot returns the place of coordinate i in its page.
func Slot(i uint32) int { return int(i & (page - 1)) }

// A node has a bit for each child that belongs to the same writer as the node: such a child is not copied.
type lower struct {
	own   uint32
	pages [fan]*Page
}

type upper struct {
	stamp uint64 `horizon:"-"` // of the writer that the node belongs to
	own   uint32
	nodes [fan]*lower
}

// Digest identifies the contents of a table.
type Digest [2]uint64

// Table is the state of 2^bits coordinates. An untouched coordinate has zeros. The zero value is not
// usable. Not safe for concurrent use, but what Share returned is, for reading.
type Table struct {
	root    []*upper
	bits    int
	stamp   uint64 `horizon:"-"` // pages with this stamp belong to this table alone; 0: it must not be written
	shared  bool   // root is shared
	before  uint64 `horizon:"-"` // stamp before the last Share
	owned   bool   // root was not shared then
	touched int
	digest  Digest
}

// New returns an empty table of 2^bits coordinates, 1 ≤ bits ≤ 32.
func New(bits int) *Table {
	if bits < 1 || bits > 32 {
		panic("paged: New: bits outside 1 to 32")
	}
	t := &Table{root: make([]*upper, 1<<max(0, bits-pageBits-2*nodeBits)), bits: bits, stamp: stamps.Add(1)}
	for i := range t.root {
		t.root[i] = &noUpper
	}
	return t
}

// What is not there is one page of zeros, so that reading takes no branch.
var (
	noPage  Page
	noLower lower
	noUpper upper
)

func init() {
	for i := range noLower.pages {
		noLower.pages[i] = &noPage
	}
	for i := range noUpper.nodes {
		noUpper.nodes[i] = &noLower
	}
}

// Bits returns the logarithm of the number of coordinates.
func (t *Table) Bits() int { return t.bits }

// Touched returns the number of coordinates with G ≠ 0.
func (t *Table) Touched() int { return t.touched }

// Digest identifies the contents: tables with equal contents have equal digests.
func (t *Table) Digest() Digest { return t.digest }

// stamps numbers the writers of this process. A stamp decides which writer copies a page, never what the page holds.
var stamps atomic.Uint64

// Share returns the table as it is, for readers in other goroutines. The result must not be written;
// Clone makes a table of it that may be. Cost: nothing but the copies of pages that t writes later.
func (t *Table) Share() *Table {
	s := *t
	s.stamp = 0
	t.before, t.owned = t.stamp, !t.shared
	t.shared, t.stamp = true, stamps.Add(1)
	return &s
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

// Page returns the page of coordinate i for reading, a page of zeros where nothing was written.
func (t *Table) Page(i uint32) *Page {
	return t.root[i>>(pageBits+2*nodeBits)].nodes[i>>(pageBits+nodeBits)&(fan-1)].pages[i>>pageBits&(fan-1)]
}

// write returns the page of coordinate i for writing.
func (t *Table) write(i uint32) *Page {
	if t.stamp == 0 {
		panic("paged: a shared table is written")
	}
	if t.shared {
		t.root, t.shared, t.before = append([]*upper(nil), t.root...), false, 0
	}
	u := t.root[i>>(pageBits+2*nodeBits)]
	if u.stamp != t.stamp {
		u = &upper{stamp: t.stamp, nodes: u.nodes}
		t.root[i>>(pageBits+2*nodeBits)] = u
	}
	k := i >> (pageBits + nodeBits) & (fan - 1)
	l := u.nodes[k]
	if u.own>>k&1 == 0 {
		l = &lower{pages: l.pages}
		u.nodes[k] = l
		u.own |= 1 << k
	}
	k = i >> pageBits & (fan - 1)
	p := l.pages[k]
	if l.own>>k&1 == 0 {
		c := *p
		p = &c
		l.pages[k] = p
		l.own |= 1 << k
	}
	return p
}

// Edit returns the page of coordinate i, of which the caller changes that coordinate and no other, and
// then calls Done with the same arguments. Cost: O(1), and a copy of the page and of its nodes at most
// once after a Share.
func (t *Table) Edit(i uint32) *Page {
	p, s := t.write(i), Slot(i)
	if g := p.G[s]; g != 0 {
		h := hash(i, p.WA[2*s], p.WA[2*s+1], g)
		t.digest[0] -= h[0]
		t.digest[1] -= h[1]
	} else {
		t.touched++
	}
	return p
}

// Done ends an Edit. G of the coordinate is not 0.
func (t *Table) Done(i uint32, p *Page) {
	s := Slot(i)
	h := hash(i, p.WA[2*s], p.WA[2*s+1], p.G[s])
	t.digest[0] += h[0]
	t.digest[1] += h[1]
}

// Set stores the numbers of coordinate i; g ≠ 0.
func (t *Table) Set(i uint32, w, a, g float64) {
	p, s := t.Edit(i), Slot(i)
	p.WA[2*s], p.WA[2*s+1], p.G[s] = w, a, g
	t.Done(i, p)
}

// Each calls f for every touched coordinate in ascending order.
func (t *Table) Each(f func(i uint32, w, a, g float64)) {
	for r, u := range t.root {
		if u == &noUpper {
			continue
		}
		for n, l := range u.nodes {
			if l == &noLower {
				continue
			}
			for k, p := range l.pages {
				if p == &noPage {
					continue
				}
				first := uint32(((r<<nodeBits|n)<<nodeBits | k) << pageBits)
				for s, g := range p.G {
					if g != 0 {
						f(first|uint32(s), p.WA[2*s], p.WA[2*s+1], g)
					}
				}
			}
		}
	}
}

// hash mixes a coordinate and its numbers into 128 bits.
func hash(i uint32, w, a, g float64) Digest {
	at := (uint64(i) + 1) * 0x9e3779b97f4a7c15
	h, l := bits.Mul64(math.Float64bits(w)^at, math.Float64bits(a)^0xe7037ed1a0b428db)
	x := h ^ l
	h, l = bits.Mul64(math.Float64bits(g)^x, at^0x589965cc75374cc3)
	return Digest{x + bits.RotateLeft64(h, 29), h ^ l}
}
