package actionset

import (
	"fmt"
	"math"
	"sync"

	"troupe/bandit"
	"troupe/rng"
)

// mostPositions bounds a list: ArgMax goes through all sets of filled positions.
const mostPositions = 12

// Lists is the lists of k of n items in order for one segment (bandit.Lists). It lies on the unit sphere.
//
// ArgMax finds the best assignment of items to positions exactly, items in turn over sets of filled positions: O(n k 2ᵏ). Equal values
// keep what was found first. Where each position has items of its own it is the best of each.
type Lists struct {
	shape   bandit.ListShape
	segment int
	pool    *sync.Pool
}

// listScratch is room for ArgMax.
type listScratch struct {
	best, next []float64
	back       []int8
	list       []int
}

// NewLists returns the sets of all segments.
func NewLists(shape bandit.ListShape) ([]*Lists, error) {
	n, k := shape.Items, shape.Positions
	switch {
	case k < 1 || k > mostPositions:
		return nil, fmt.Errorf("actionset: positions is %d, expected 1 to %d", k, mostPositions)
	case n < k:
		return nil, fmt.Errorf("actionset: items is %d, expected at least %d, the positions", n, k)
	case shape.Segments < 1:
		return nil, fmt.Errorf("actionset: segments is %d, expected at least 1", shape.Segments)
	case n > 1<<16 || float64(n)*float64(k)*float64(shape.Segments) > 1<<20:
		return nil, fmt.Errorf("actionset: %d items at %d positions for %d segments, expected a product of at most %d", n, k, shape.Segments, 1<<20)
	}
	pool := &sync.Pool{New: func() any {
		return &listScratch{make([]float64, 1<<k), make([]float64, 1<<k), make([]int8, n<<k), make([]int, k)}
	}}
	var out []*Lists
	for g := range shape.Segments {
		out = append(out, &Lists{shape, g, pool})
	}
	return out, nil
}

// Dim implements bandit.ActionSet.
func (s *Lists) Dim() int { return s.shape.Dim() }

// Shape implements bandit.Lists.
func (s *Lists) Shape() bandit.ListShape { return s.shape }

// Segment implements bandit.Lists.
func (s *Lists) Segment() int { return s.segment }

// Radius implements Bounded: every list has norm 1.
func (s *Lists) Radius() float64 { return 1 }

// ArgMax implements bandit.ActionSet.
func (s *Lists) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, s.Dim()); err != nil {
		return 0, err
	}
	n, k := s.shape.Items, s.shape.Positions
	w := s.pool.Get().(*listScratch)
	defer s.pool.Put(w)
	at := func(i, l int) float64 { return theta[(s.segment*n+i)*k+l] }
	total := 0.0
	if s.shape.Own != nil {
		for l := range k {
			from, to := s.shape.Range(l)
			best := from
			for i := from + 1; i < to; i++ {
				if at(i, l) > at(best, l) {
					best = i
				}
			}
			w.list[l] = best
			total += at(best, l)
		}
	} else {
		total = s.assign(w, at)
	}
	s.shape.Encode(dst, s.segment, w.list)
	return total / math.Sqrt(float64(k)), nil
}

// assign finds the best list.
func (s *Lists) assign(w *listScratch, at func(i, l int) float64) float64 {
	n, k := s.shape.Items, s.shape.Positions
	all := 1<<k - 1
	for m := range w.best {
		w.best[m] = math.Inf(-1)
	}
	w.best[0] = 0
	for i := range n {
		copy(w.next, w.best)
		back := w.back[i<<k : (i+1)<<k]
		for m := range back {
			back[m] = -1
		}
		for m, v := range w.best {
			if math.IsInf(v, -1) {
				continue
			}
			for l := range k {
				if m>>l&1 == 0 {
					if to := m | 1<<l; v+at(i, l) > w.next[to] {
						w.next[to], back[to] = v+at(i, l), int8(l)
					}
				}
			}
		}
		w.best, w.next = w.next, w.best
	}
	m := all
	for i := n - 1; i >= 0; i-- {
		if l := w.back[i<<k+m]; l >= 0 {
			w.list[l] = i
			m &^= 1 << l
		}
	}
	return w.best[all]
}

// ListsOptions are the options of kind "lists".
type ListsOptions struct {
	Items     int `key:"items" doc:"number of items n"`
	Positions int `key:"positions" doc:"length of a list k, at most 12; d = n·k"`
}

// Doc says what the kind is.
func (*ListsOptions) Doc() string {
	return "lists of k of n items in order, as vectors of n·k coordinates with 1/√k for each item at its position"
}

func (o *ListsOptions) shape() bandit.ListShape {
	return bandit.ListShape{Items: o.Items, Positions: o.Positions, Segments: 1}
}

func (o *ListsOptions) check() error {
	_, err := NewLists(o.shape())
	return err
}

// Dim implements Builder: n·k.
func (o *ListsOptions) Dim(d int) (int, error) {
	sets, err := NewLists(o.shape())
	if err != nil {
		return 0, err
	}
	return own(sets[0], nil, d)
}

// Build implements Builder.
func (o *ListsOptions) Build(d int, _ rng.Source) (bandit.ActionSet, error) {
	sets, err := NewLists(o.shape())
	if err != nil {
		return nil, err
	}
	return fitOwn(sets[0], nil, d, false)
}

// Contains implements Container: the convex hull of the lists where each position has all items, and their product otherwise. Every
// position has mass 1/√k, every item at most that, and nothing is negative or of another segment.
func (s *Lists) Contains(x []float64, tol float64) bool {
	n, k := s.shape.Items, s.shape.Positions
	one := 1 / math.Sqrt(float64(k))
	places, items := make([]float64, k), make([]float64, n)
	if len(x) != s.Dim() {
		return false
	}
	for c, v := range x {
		g, i, l := c/(n*k), c%(n*k)/k, c%k
		from, to := s.shape.Range(l)
		switch {
		case v < -tol:
			return false
		case g != s.segment || i < from || i >= to:
			if math.Abs(v) > tol {
				return false
			}
			continue
		}
		places[l] += v
		items[i] += v
	}
	for _, v := range places {
		if math.Abs(v-one) > tol {
			return false
		}
	}
	for _, v := range items {
		if v > one+tol {
			return false
		}
	}
	return true
}
