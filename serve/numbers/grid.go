package numbers

import (
	"fmt"
	"math"

	"troupe/feature"
)

// Played is a number that a request plays: its range, and the part of it that may be played.
type Played struct {
	Range
	Low, High float64

	first, count int // cells, of
	cells        int // cells of the range
}

// Grid is what a request plays. Cells are numbered with the last number counting fastest, and only those that are left.
type Grid struct{ Numbers []Played }

// Whole plays all ranges of a model whole.
func Whole(list []Range) *Grid {
	g := &Grid{}
	for _, r := range list {
		g.Numbers = append(g.Numbers, Played{Range: r, Low: r.Min, High: r.Max})
	}
	g.settle()
	return g
}

// Narrow leaves of number i what lies in [lo, hi]. The error is an *Error.
func (g *Grid) Narrow(i int, lo, hi float64) error {
	p := &g.Numbers[i]
	switch {
	case !(lo >= p.Min && lo <= p.Max):
		return wrong("min", lo, "expected a number in [%v, %v], the range of the model", p.Min, p.Max)
	case !(hi >= p.Min && hi <= p.Max):
		return wrong("max", hi, "expected a number in [%v, %v], the range of the model", p.Min, p.Max)
	case lo > hi || lo == hi && p.Step == 0:
		return wrong("min", lo, "expected less than max, which is %v", hi)
	}
	was := *p
	p.Low, p.High = lo, hi
	p.settle(len(g.Numbers))
	if p.count == 0 {
		*p = was
		return wrong("min", lo, "leaves no step of %v in [%v, %v]", p.Step, lo, hi)
	}
	return nil
}

func (g *Grid) settle() {
	for i := range g.Numbers {
		g.Numbers[i].settle(len(g.Numbers))
	}
}

// settle finds the cells that are left.
func (p *Played) settle(together int) {
	n := p.Cells(together)
	p.cells, p.first, p.count = n, n, 0
	for c := range n {
		lo, hi := p.Bounds(c, n)
		if p.Step > 0 && lo >= p.Low && lo <= p.High || p.Step == 0 && lo < p.High && hi > p.Low {
			p.first = min(p.first, c)
			p.count = c - p.first + 1
		}
	}
}

// Cells is how many cells an action has that plays the numbers of a mask.
func (g *Grid) Cells(mask uint8) int {
	n := 1
	for i := range g.Numbers {
		if mask>>i&1 != 0 {
			n *= g.Numbers[i].count
		}
	}
	return n
}

// All is the mask of all numbers.
func (g *Grid) All() uint8 { return 1<<len(g.Numbers) - 1 }

// Cell is the cell of one number: its bounds, which are equal for one with steps.
type Cell struct {
	Number    int // in Grid.Numbers
	Low, High float64
}

// Of appends the cell of each number of a mask in cell c of an action.
func (g *Grid) Of(dst []Cell, mask uint8, c int) []Cell {
	from := len(dst)
	for i := len(g.Numbers) - 1; i >= 0; i-- {
		p := &g.Numbers[i]
		if mask>>i&1 == 0 {
			continue
		}
		lo, hi := p.Bounds(p.first+c%p.count, p.cells)
		c /= p.count
		if p.Step == 0 {
			lo, hi = max(lo, p.Low), min(hi, p.High)
		}
		dst = append(dst, Cell{i, lo, hi})
	}
	for i, k := from, len(dst)-1; i < k; i, k = i+1, k-1 {
		dst[i], dst[k] = dst[k], dst[i]
	}
	return dst
}

// At is the value at a part u of a cell, from 0 to 1.
func (c Cell) At(u float64) float64 {
	if c.Low == c.High {
		return c.Low
	}
	return min(c.Low+float64(u*(c.High-c.Low)), c.High)
}

// Find is the cell of an action in which values lie, in the order of the mask.
func (g *Grid) Find(mask uint8, values []float64) (cell int, err error) {
	k := 0
	for i := range g.Numbers {
		p := &g.Numbers[i]
		if mask>>i&1 == 0 {
			continue
		}
		v := values[k]
		k++
		at := -1
		for c := range p.count {
			lo, hi := p.Bounds(p.first+c, p.cells)
			if p.Step > 0 && math.Abs(v-lo) <= 1e-9*p.Step || p.Step == 0 && v >= max(lo, p.Low) && v <= min(hi, p.High) {
				at = c
				break
			}
		}
		if at < 0 {
			e := wrong(p.Name, v, "expected a number in [%v, %v]", p.Low, p.High)
			if p.Step > 0 {
				e.Want += fmt.Sprintf(", %v and a whole number of steps of %v", p.Min, p.Step)
			}
			return 0, e
		}
		cell = cell*p.count + at
	}
	return cell, nil
}

// Width is the product of the widths of the cells of numbers without steps, 1 without one.
func Width(cells []Cell) float64 {
	w := 1.
	for _, c := range cells {
		if c.High > c.Low {
			w *= c.High - c.Low
		}
	}
	return w
}

// Expand returns the candidates of actions: for each action in turn one for each of its cells, whose atoms are those of the
// action and, of each number, its atom with the place of the middle of the cell. of is the action of each.
func (g *Grid) Expand(actions [][]feature.Atom, masks []uint8) (out [][]feature.Atom, of []int32) {
	n, size := 0, 0
	for a := range actions {
		c := g.Cells(masks[a])
		n, size = n+c, size+c*(len(actions[a])+len(g.Numbers))
	}
	room := make([]feature.Atom, 0, size)
	out, of = make([][]feature.Atom, 0, n), make([]int32, 0, n)
	var tags [Most]uint64
	var places [Most][]float64
	for i := range g.Numbers {
		p := &g.Numbers[i]
		tags[i] = p.Atom()
		for c := range p.count {
			lo, hi := p.Bounds(p.first+c, p.cells)
			if p.Step == 0 {
				lo, hi = max(lo, p.Low), min(hi, p.High)
			}
			places[i] = append(places[i], (p.Place(lo)+p.Place(hi))/2)
		}
	}
	for a, atoms := range actions {
		mask := masks[a]
		for c := range g.Cells(mask) {
			from := len(room)
			room = append(room, atoms...)
			end := len(room)
			rest := c
			for i := len(g.Numbers) - 1; i >= 0; i-- {
				if mask>>i&1 == 0 {
					continue
				}
				room = append(room, feature.Atom{Hash: tags[i], Value: places[i][rest%len(places[i])]})
				rest /= len(places[i])
			}
			for i, k := end, len(room)-1; i < k; i, k = i+1, k-1 {
				room[i], room[k] = room[k], room[i]
			}
			out, of = append(out, room[from:len(room):len(room)]), append(of, int32(a))
		}
	}
	return out, of
}

// Exact returns the atoms of a candidate with the places of values in place of those of the middle of its cell.
func (g *Grid) Exact(atoms []feature.Atom, mask uint8, values []float64) []feature.Atom {
	out := append([]feature.Atom(nil), atoms...)
	k := len(out) - len(values)
	n := 0
	for i := range g.Numbers {
		if mask>>i&1 != 0 {
			out[k+n].Value = g.Numbers[i].Place(values[n])
			n++
		}
	}
	return out
}
