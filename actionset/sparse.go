package actionset

import (
	"fmt"
	"math"

	"troupe/bandit"
)

// Sparse is a list of K actions in ℝᵈ, each given by its coordinates that are not 0. It implements
// bandit.Sparse.
type Sparse struct {
	d    int
	from []int // action i has the entries from[i] ≤ k < from[i+1]
	at   []uint32
	x    []float64
}

// MaxNonzeros is the largest number of coordinates of one sparse action.
const MaxNonzeros = 65_536

// maxSparse bounds the values of a sparse action.
const maxSparse = 1e18

// SparseOf returns the set of len(from) − 1 actions; action i has value x[k] at coordinate at[k] for
// from[i] ≤ k < from[i+1]. It keeps the slices, which must not be changed afterwards. A coordinate may
// be listed twice: its values are added.
//
// Errors name the action and the entry: no action, bounds that descend, a coordinate of d or more, a
// value that is not finite or beyond 1e18, more than MaxNonzeros entries. Cost: one pass.
func SparseOf(d int, from []int, at []uint32, x []float64) (*Sparse, error) {
	if d < 1 || d > 1<<32 {
		return nil, fmt.Errorf("actionset: sparse actions have dimension %d, expected at least 1 and at most 2^32", d)
	}
	if len(from) < 2 || from[0] != 0 || from[len(from)-1] != len(at) || len(at) != len(x) {
		return nil, fmt.Errorf("actionset: %d bounds of %d coordinates and %d values, expected bounds from 0 to the "+
			"number of both", len(from), len(at), len(x))
	}
	for i := range len(from) - 1 {
		n := from[i+1] - from[i]
		if n < 0 || n > MaxNonzeros {
			return nil, fmt.Errorf("actionset: actions[%d] has %d coordinates that are not 0, expected at most %d", i,
				n, MaxNonzeros)
		}
		for k := from[i]; k < from[i+1]; k++ {
			if int64(at[k]) >= int64(d) {
				return nil, fmt.Errorf("actionset: actions[%d]: coordinate %d is %d, expected less than %d", i,
					k-from[i], at[k], d)
			}
			if !(math.Abs(x[k]) <= maxSparse) {
				return nil, fmt.Errorf("actionset: actions[%d]: value of coordinate %d is %v, expected a number of "+
					"at most %g", i, at[k], x[k], float64(maxSparse))
			}
		}
	}
	return &Sparse{d, from, at, x}, nil
}

// Dim returns d.
func (s *Sparse) Dim() int { return s.d }

// Len returns K.
func (s *Sparse) Len() int { return len(s.from) - 1 }

// Nonzeros implements bandit.Sparse.
func (s *Sparse) Nonzeros(i int) (at []uint32, value []float64) {
	a, b := s.from[i], s.from[i+1]
	return s.at[a:b:b], s.x[a:b:b]
}

// ArgMax implements bandit.ActionSet for a theta of d numbers: the lowest index among equals. Cost:
// one multiplication for each entry, and d to look at theta.
func (s *Sparse) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, s.d); err != nil {
		return 0, err
	}
	best, arm := math.Inf(-1), 0
	for i := range s.Len() {
		at, x := s.Nonzeros(i)
		var v float64
		for k, c := range at {
			v += float64(x[k] * theta[c])
		}
		if v > best {
			best, arm = v, i
		}
	}
	at, x := s.Nonzeros(arm)
	dst.SetSparse(at, x, arm)
	return best, nil
}

var _ bandit.Sparse = (*Sparse)(nil)
