package policy

import (
	"fmt"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
)

// shown is a finite list of actions of a set that cannot be listed, such as a ball: those that the set calls best for
// some models. A policy that weighs arms against each other weighs these. No action comes twice.
type shown struct {
	d     int
	x     []float64 // row by row
	index []int     // as the set numbers them, mostly bandit.NoIndex
	best  bandit.Action
}

// Dim implements bandit.ActionSet.
func (s *shown) Dim() int { return s.d }

// Len implements bandit.Finite.
func (s *shown) Len() int { return len(s.index) }

// At implements bandit.Finite.
func (s *shown) At(i int) []float64 { return s.x[i*s.d : i*s.d+s.d] }

// clear empties the list, which will have at most so many actions.
func (s *shown) clear(d, most int) {
	s.d, s.x, s.index = d, slices.Grow(s.x[:0], most*d), slices.Grow(s.index[:0], most)
}

// add appends the best action of a set for a model, unless it is there, and returns its place.
func (s *shown) add(set bandit.ActionSet, theta []float64) (int, error) {
	if _, err := set.ArgMax(&s.best, theta); err != nil {
		return 0, err
	}
	for i := range s.index {
		if slices.Equal(s.At(i), s.best.X) {
			return i, nil
		}
	}
	s.x, s.index = append(s.x, s.best.X...), append(s.index, s.best.Index)
	return len(s.index) - 1, nil
}

// ArgMax implements bandit.ActionSet: the first of equal actions.
func (s *shown) ArgMax(dst *bandit.Action, theta []float64) (value float64, err error) {
	at := 0
	for i := range s.index {
		if v := linalg.Dot(s.At(i), theta); i == 0 || v > value {
			at, value = i, v
		}
	}
	dst.Set(s.At(at), s.index[at])
	return value, nil
}

// set stores action i in dst, numbered as its own set numbers it.
func (s *shown) set(dst *bandit.Action, i int) { dst.Set(s.At(i), s.index[i]) }

// needsList refuses a set whose arms cannot be listed, for a law over all of them.
func needsList(kind string, set bandit.ActionSet) error {
	if _, ok := set.(bandit.Finite); ok {
		return nil
	}
	return fmt.Errorf("policy: %s: a law needs a finite set, this is %s: %w", kind, described(set),
		bandit.ErrUnsupported)
}
