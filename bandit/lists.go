package bandit

import "math"

// Lists is an action set of lists: k of n items in order, offered to one of several segments of people. An action is a vector of
// Segments × Items × Positions coordinates, 1/√k for each item at its position in the block of the segment and 0 elsewhere, so that a
// reward that adds up over (segment, item, position) is linear.
type Lists interface {
	ActionSet
	Shape() ListShape
	// Segment returns for whom the list is, from 0.
	Segment() int
}

// ListShape says how lists are coded.
type ListShape struct {
	Items, Positions, Segments int
	// Own, where it is not nil, gives each position items of its own: position l has the items Own[l] … Own[l+1] − 1.
	Own []int
}

// Dim is Segments × Items × Positions.
func (s ListShape) Dim() int { return s.Segments * s.Items * s.Positions }

// Range returns the items that position l may have: from … to − 1.
func (s ListShape) Range(l int) (from, to int) {
	if s.Own == nil {
		return 0, s.Items
	}
	return s.Own[l], s.Own[l+1]
}

// Encode stores the list of a segment in dst.
func (s ListShape) Encode(dst *Action, segment int, list []int) {
	d := s.Dim()
	if cap(dst.X) < d {
		dst.X = make([]float64, d)
	}
	dst.X, dst.At, dst.Index = dst.X[:d], nil, NoIndex
	clear(dst.X)
	one := 1 / math.Sqrt(float64(s.Positions))
	for l, i := range list {
		dst.X[(segment*s.Items+i)*s.Positions+l] = one
	}
}

// Decode returns the list of an action in dst's storage, and its segment. ok is false for a vector that is no list.
func (s ListShape) Decode(dst []int, a Action) (list []int, segment int, ok bool) {
	dst = dst[:0]
	if len(a.X) != s.Dim() || a.At != nil {
		return dst, 0, false
	}
	for range s.Positions {
		dst = append(dst, -1)
	}
	found, block := 0, s.Items*s.Positions
	segment = -1
	for c, v := range a.X {
		if v == 0 {
			continue
		}
		g, i, l := c/block, c%block/s.Positions, c%s.Positions
		if dst[l] >= 0 || segment >= 0 && g != segment {
			return dst, 0, false
		}
		for _, j := range dst {
			if j == i {
				return dst, 0, false
			}
		}
		segment, dst[l] = g, i
		found++
	}
	return dst, segment, found == s.Positions
}

// Positioned is an Environment of lists that pays for each position.
type Positioned interface {
	Environment
	// ByPosition returns the rewards of the positions that the last call of Reward or Settle added up; nil where a list has one
	// reward only. It belongs to the environment.
	ByPosition() []float64
}

// PositionLearner is a policy that is told the rewards of the positions, after Select and before Update. Without, Update shares the
// reward among the positions.
type PositionLearner interface {
	ByPosition(a Action, rewards []float64) error
}
