package bandit

// Numbers is a finite set of actions that are cells of one number or two in an interval, offered to one of several segments: arm i is cell
// i, of two numbers i = first·Cells[1] + second. Its vector is a basis of the interval at the middle of the cell, in the block of the
// segment.
type Numbers interface {
	Finite
	Shape() NumberShape
	// Segment returns for whom the number is, from 0.
	Segment() int
}

// NumberShape says how numbers are coded.
type NumberShape struct {
	Cells    []int // of each number
	Segments int
	Features int  // of a segment; the first one is above 0 in every arm of it
	Cyclic   bool // the last cell is beside the first one
}

// Segment reads the segment of an action, −1 where it is none.
func (s NumberShape) Segment(a Action) int {
	if len(a.X) != s.Segments*s.Features {
		return -1
	}
	for g := range s.Segments {
		if a.X[g*s.Features] > 0 {
			return g
		}
	}
	return -1
}
