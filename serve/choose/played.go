package choose

import (
	"troupe/feature"
	"troupe/rng"
	"troupe/serve/candidates"
	"troupe/serve/numbers"
)

// played is the numbers of an offer. With them the candidates are the cells of the actions: those of the first action in
// turn, then those of the next one.
type played struct {
	grid    *numbers.Grid // nil: no numbers are played
	masks   []uint8       // which numbers each available action plays
	of      []int32       // the available action of each candidate
	first   []int32       // the first candidate of each action, and their number at the end
	actions [][]feature.Atom
	cells   []numbers.Cell // scratch
}

// expand makes the cells of the actions the candidates.
func (p *played) expand(s *sparse, h *feature.AtomEncoder) {
	p.actions = append(p.actions[:0], s.actions...)
	out, of := p.grid.Expand(p.actions, p.masks)
	s.clear()
	var at []uint32
	var x []float64
	for _, a := range out {
		from := len(x)
		at, x = h.AppendVector(at, x, s.context, a)
		s.actions = append(s.actions, a)
		s.at, s.x = append(s.at, at[from:len(at):len(at)]), append(s.x, x[from:len(x):len(x)])
	}
	p.index(of)
}

// index finds the first candidate of each action.
func (p *played) index(of []int32) {
	p.of, p.first = of, append(p.first[:0], 0)
	for i, a := range of {
		for len(p.first) <= int(a) {
			p.first = append(p.first, int32(i))
		}
	}
	p.first = append(p.first, int32(len(of)))
}

// recorded takes the numbers of a record.
func (p *played) recorded(set *candidates.Set) {
	p.grid, p.masks = set.Grid, set.Masks
	if p.grid != nil {
		p.index(set.Of)
	}
}

// share is how many cells the action of candidate i has, and which of them it is.
func (p *played) share(i int) (cells, at int) {
	if p.grid == nil {
		return 1, 0
	}
	a := p.of[i]
	return int(p.first[a+1] - p.first[a]), i - int(p.first[a])
}

// Point is where in a cell numbers are played, as parts of it.
type Point [numbers.Most]float64

// point draws the point of a decision. That of a unit in a span is one: a number does not flicker.
func point(own rng.Source) (p Point) {
	s := own.Sub(8)
	for i := range p {
		p[i] = s.Float64(i)
	}
	return p
}
