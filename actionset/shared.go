package actionset

import (
	"math"
	"slices"

	"troupe/bandit"
	"troupe/rng"
)

// Shared is a list of arms of which some are equal and share: arms with the same vector are a group, a policy chooses
// among the groups, and each arm of the group is played with the same probability. It lists all arms, as the
// environment and the recorders see them; Groups is what the policy gets. It implements bandit.Finite, Bounded,
// Rescaled and Container. It does not change after construction.
type Shared struct {
	all    *Finite
	groups *Groups
	of     []int   // group of arm i, in the order of first appearance
	arms   [][]int // of group g
}

// Groups lists the different arms of a Shared set, each once, in the order of their first appearance.
type Groups struct {
	*Finite
	whole *Shared
}

// Whole returns the set whose groups these are.
func (g *Groups) Whole() *Shared { return g.whole }

// Share returns a set in which equal arms of set share, and set itself where no two arms are equal. −0 equals 0.
// Cost: K·d numbers, and a table of the arms.
func Share(set *Finite) bandit.ActionSet {
	known := make(map[string]int, set.Len())
	s := &Shared{all: set, of: make([]int, 0, set.Len())}
	var block []float64
	var key []byte
	for i := range set.Len() {
		key = key[:0]
		for _, v := range set.At(i) {
			bits := math.Float64bits(v + 0)
			for k := range 8 {
				key = append(key, byte(bits>>(8*k)))
			}
		}
		g, ok := known[string(key)]
		if !ok {
			g = len(s.arms)
			known[string(key)] = g
			block, s.arms = append(block, set.At(i)...), append(s.arms, nil)
		}
		s.of, s.arms[g] = append(s.of, g), append(s.arms[g], i)
	}
	if len(s.arms) == set.Len() {
		return set
	}
	s.groups = &Groups{&Finite{x: slices.Clip(block), d: set.d, factor: set.factor}, s}
	s.groups.unread.Store(set.unread.Load())
	return s
}

// Groups returns the different arms.
func (s *Shared) Groups() *Groups { return s.groups }

// Group returns the number of the group of arm i.
func (s *Shared) Group(i int) int { return s.of[i] }

// Member returns an arm of group g, drawn uniformly with number 0 of the source.
func (s *Shared) Member(g int, draw rng.Source) int {
	arms := s.arms[g]
	return arms[draw.Intn(0, len(arms))]
}

// Dim returns d.
func (s *Shared) Dim() int { return s.all.d }

// Len returns the number K of all arms.
func (s *Shared) Len() int { return s.all.Len() }

// At returns arm i of all. The slice belongs to the set and must not be changed.
func (s *Shared) At(i int) []float64 { return s.all.At(i) }

// ArgMax returns the first arm of all with the largest ⟨x, theta⟩.
func (s *Shared) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	return s.all.ArgMax(dst, theta)
}

// Check looks at the numbers of a list that FiniteUnread made: see Finite.Check.
func (s *Shared) Check() error { return s.all.Check() }

// Radius returns max ‖x‖₂.
func (s *Shared) Radius() float64 { return s.all.Radius() }

// Factor returns what the arms were multiplied by.
func (s *Shared) Factor() float64 { return s.all.factor }

// Contains reports whether x is within tol of an arm.
func (s *Shared) Contains(x []float64, tol float64) bool { return s.all.Contains(x, tol) }
