package choose

import (
	"fmt"
	"slices"

	"troupe/feature"
	"troupe/rng"
	"troupe/serve/candidates"
	"troupe/serve/model"
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

// numbers makes the cells of the actions the candidates, where the model or the request has numbers.
func (o *Offer) numbers(r *Request) error {
	p := &o.played
	p.grid = nil
	list := o.compiled.Config.Numbers
	if len(list) == 0 {
		if len(r.Numbers) > 0 {
			return model.Invalid("numbers", len(r.Numbers), "the model does not have them yet; send the request again")
		}
		for i := range r.Actions {
			if len(r.Actions[i].Numbers) > 0 {
				return model.Invalid(fmt.Sprintf("actions[%d].numbers[0]", i), r.Actions[i].Numbers[0], "is no number of the model, which has none").Told()
			}
		}
		return nil
	}
	g, err := numbers.Asked(list, r.Numbers)
	if err != nil {
		return model.NumberError("numbers", err)
	}
	p.grid, p.masks = g, p.masks[:0]
	cells := 0
	for i := range o.sparse.actions {
		at := o.place(i)
		mask := g.All()
		if names := o.namesOf(r, at); names != nil {
			if mask, err = maskOf(list, names, at); err != nil {
				return err
			}
		}
		p.masks = append(p.masks, mask)
		cells += g.Cells(mask)
	}
	if cells > numbers.MaxCells {
		return model.Invalid("actions", len(p.masks), "have %d cells together, and %d are allowed: offer fewer actions, or narrow the numbers", cells, numbers.MaxCells)
	}
	o.expand()
	if len(o.costs) > 0 {
		costs := slices.Clone(o.costs)
		o.costs = o.costs[:0]
		for _, a := range p.of {
			o.costs = append(o.costs, costs[a])
		}
	}
	return nil
}

// namesOf are the numbers that an action of a request plays by what it says, or the catalogue where it says nothing: nil is all.
func (o *Offer) namesOf(r *Request, at int) []string {
	if at < len(r.Actions) && r.Actions[at].Numbers != nil {
		return r.Actions[at].Numbers
	}
	if n, ok := o.compiled.Catalogue[o.IDs[at]]; ok {
		return o.compiled.Config.Actions[n].Numbers
	}
	return nil
}

// maskOf is the mask of the numbers that an action plays.
func maskOf(list []numbers.Range, names []string, action int) (mask uint8, err error) {
	for k, name := range names {
		at := slices.IndexFunc(list, func(r numbers.Range) bool { return r.Name == name })
		field := fmt.Sprintf("actions[%d].numbers[%d]", action, k)
		switch {
		case at < 0:
			return 0, model.Invalid(field, name, "is no number of the model, which has %s", numbers.Names(list)).Told()
		case mask>>at&1 != 0:
			return 0, model.Invalid(field, name, "is given twice").Told()
		}
		mask |= 1 << at
	}
	return mask, nil
}

// expand makes the cells of the actions the candidates.
func (o *Offer) expand() {
	p, s := &o.played, &o.sparse
	p.actions = append(p.actions[:0], s.actions...)
	out, of := p.grid.Expand(p.actions, p.masks)
	s.clear()
	var at []uint32
	var x []float64
	for _, a := range out {
		from := len(x)
		at, x = o.compiled.Atoms.AppendVector(at, x, s.context, a)
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

// Alone reports whether the request has no actions and plays numbers only.
func (o *Offer) Alone() bool { return o.alone }

// Plays reports whether numbers are played.
func (o *Offer) Plays() bool { return o.played.grid != nil }

// Grid returns the numbers that are played, nil without.
func (o *Offer) Grid() *numbers.Grid { return o.played.grid }

// Cells returns the cell of each number in candidate i. It is valid until the next call.
func (o *Offer) Cells(i int) []numbers.Cell {
	p := &o.played
	_, at := p.share(i)
	p.cells = p.grid.Of(p.cells[:0], p.masks[p.of[i]], at)
	return p.cells
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

// Values appends the numbers that are played at a point of candidate i, in the order of the model's.
func (o *Offer) Values(dst []float64, i int, p Point) []float64 {
	for _, c := range o.Cells(i) {
		dst = append(dst, c.At(p[c.Number]))
	}
	return dst
}

// Exactly returns the atoms of candidate i with these values of its numbers.
func (o *Offer) Exactly(i int, values []float64) []byte {
	a := o.played.grid.Exact(o.sparse.actions[i], o.played.masks[o.played.of[i]], values)
	return feature.AppendAtoms(feature.AppendAtoms(nil, o.sparse.context), a)
}
