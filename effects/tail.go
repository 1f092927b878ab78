package effects

import "math"

// tail keeps a mean and a variance of its own for each value that has no coordinate: of a field with many values, or of
// a block that is full. It has pages of 32 cells; a value has its place in one page. A full tail forgets, in the page
// of a new value, the value that was not learned for the longest time.
type tail struct {
	pages []*page
	used  int
	sum   uint64 // of all cells, for the digest
}

const (
	pageCells = 32
	maxPages  = 128 // 4,096 values
)

type page struct {
	cells  [pageCells]cell
	shared *share
}

// cell is a value: n = Σ x², r = Σ x·(residual + own mean), over its events.
type cell struct {
	key   uint64 // 0: free
	n, r  float64
	group int32
	last  uint32 // event that learned it last
}

func (c *cell) digest() uint64 {
	if c.key == 0 {
		return 0
	}
	return mix(c.key ^ mix(math.Float64bits(c.n)^mix(math.Float64bits(c.r))))
}

// find returns the cell of a key, nil when it has none.
func (t *tail) find(key uint64) *cell {
	if len(t.pages) == 0 {
		return nil
	}
	p := t.pages[key>>32&uint64(len(t.pages)-1)]
	if p == nil {
		return nil
	}
	for i := range p.cells {
		if p.cells[i].key == key {
			return &p.cells[i]
		}
	}
	return nil
}

// own returns the page of a key, which may be changed.
func (t *tail) own(key uint64) *page {
	at := key >> 32 & uint64(len(t.pages)-1)
	p := t.pages[at]
	if p.shared != nil {
		c := *p
		c.shared = nil
		p, t.pages[at] = &c, &c
	}
	return p
}

// change returns the cell of a key, made if it is not there, for a change that ends with settle.
func (t *tail) change(key uint64, group int32) *cell {
	if len(t.pages) == 0 {
		t.pages = []*page{{}}
	}
	for {
		p := t.own(key)
		free, oldest := -1, 0
		for i := range p.cells {
			c := &p.cells[i]
			switch {
			case c.key == key:
				t.sum -= c.digest()
				return c
			case c.key == 0:
				if free < 0 {
					free = i
				}
			case p.cells[oldest].key != 0 && c.last < p.cells[oldest].last:
				oldest = i
			}
		}
		if free < 0 && len(t.pages) < maxPages {
			t.double()
			continue
		}
		if free < 0 {
			t.sum -= p.cells[oldest].digest()
			free = oldest
			t.used--
		}
		t.used++
		p.cells[free] = cell{key: key, group: group}
		return &p.cells[free]
	}
}

func (t *tail) settle(c *cell) { t.sum += c.digest() }

// double gives the tail twice as many pages.
func (t *tail) double() {
	old := t.pages
	t.pages = make([]*page, 2*len(old))
	for i := range t.pages {
		t.pages[i] = &page{}
	}
	for _, p := range old {
		for _, c := range p.cells {
			if c.key == 0 {
				continue
			}
			q := t.pages[c.key>>32&uint64(len(t.pages)-1)]
			for i := range q.cells {
				if q.cells[i].key == 0 {
					q.cells[i] = c
					break
				}
			}
		}
	}
}

// tailKey is the key of a value in a block.
func tailKey(block int32, key uint64) uint64 { return mix2(key, uint64(block)+7) | 1 }

// anyBlock has a cell for each value that was learned in any block, without events.
const anyBlock = -1

// tailEstimate returns mean and variance of the sum of a vector's loose values in a block.
func tailEstimate(t *tail, block int32, v *vector, h *hyper, s2 float64) (z, q float64) {
	for i := range v.tail {
		l := &v.tail[i]
		prior := h.prior(l.group)
		c := t.find(tailKey(block, l.key))
		if c == nil && l.value && t.find(tailKey(anyBlock, l.key)) == nil {
			continue
		}
		if c == nil {
			q += float64(float64(l.x*l.x) * prior)
			continue
		}
		d := c.n + s2/prior
		z += float64(l.x * c.r / d)
		q += float64(float64(l.x*l.x) * s2 / d)
	}
	return z, q
}

// gain returns Σ x²/(n + x² + σ²/τ) over the loose values of a vector: how much of a residual they take away together, where each
// learns all of it. Above 1 they would take away more than there is, and with thousands of values that come together the tail
// would swing ever further, so the residual is divided by it.
func (t *tail) gain(block int32, v *vector, h *hyper, s2 float64) float64 {
	var g float64
	for i := range v.tail {
		l := &v.tail[i]
		x2 := float64(l.x * l.x)
		d := x2 + s2/h.prior(l.group)
		if c := t.find(tailKey(block, l.key)); c != nil {
			d += c.n
		}
		g += x2 / d
	}
	return g
}
