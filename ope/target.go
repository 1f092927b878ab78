package ope

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"troupe/logged"
	"troupe/spec"
)

// Target is a policy to evaluate: its law over what was offered.
type Target interface {
	// Name is what the answer calls it.
	Name() string
	// Law stores π_e(·|x) of an event in dst, of length K. q is the reward model's prediction for the event; it
	// depends on earlier events only. Safe for concurrent use. An error is about this event.
	Law(dst []float64, e *logged.Event, q []float64) error
}

// Learner is a Target that learns: its law is asked for in the order of the log, and after each event it is told
// what happened. Not safe for concurrent use.
type Learner interface {
	Target
	// Learn is called after Law for the same event.
	Learn(e *logged.Event) error
}

// ListTarget is a Target that has laws for the slots of a list as well.
type ListTarget interface {
	Target
	// Stand stores what the law says of a slot: the conditional law over Allowed given the entries above, the marginals of all K
	// actions, or probabilities of the entry alone. s is clear; what the target does not have is left as it is.
	Stand(s *logged.Standing, e *logged.Event, slot int) error
}

// Uniform plays every offered action alike.
type Uniform struct{}

// Name implements Target.
func (Uniform) Name() string { return "uniform" }

// Law implements Target.
func (Uniform) Law(dst []float64, _ *logged.Event, _ []float64) error {
	p := 1 / float64(len(dst))
	for i := range dst {
		dst[i] = p
	}
	return nil
}

// Stand implements ListTarget: uniform over what is left at each position.
func (Uniform) Stand(s *logged.Standing, e *logged.Event, slot int) error {
	allowed := e.Slots[slot].Allowed
	for range allowed {
		s.Law = append(s.Law, 1/float64(len(allowed)))
	}
	from, n := allowed, float64(len(allowed))
	switch sets, all := e.Sets(); {
	case sets == logged.SetsShared:
		from, n = e.Slots[0].Allowed, float64(all)
	case sets == logged.SetsOverlap && len(allowed) < e.K: // a sum over what may stand above
		return nil
	}
	s.Marginals = append(s.Marginals, make([]float64, e.K)...)
	for _, a := range from {
		s.Marginals[a] = 1 / n
	}
	return nil
}

// Column is the target whose law the log itself has.
type Column struct{}

// Name implements Target.
func (Column) Name() string { return "column" }

// Law implements Target.
func (Column) Law(dst []float64, e *logged.Event, _ []float64) error {
	if e.Target == nil {
		return fmt.Errorf("target: missing, expected the law of the target (--target column)")
	}
	copy(dst, e.Target)
	return nil
}

// Stand implements ListTarget.
func (Column) Stand(s *logged.Standing, e *logged.Event, slot int) error {
	t := e.Slots[slot].Target
	if t == nil {
		return fmt.Errorf("slots[%d].target: missing, expected what the target plays there, or target_list_law (--target column)", slot)
	}
	s.Conditional, s.Prefix, s.Marginal = t.Conditional, t.Prefix, t.Marginal
	s.Law, s.Marginals = append(s.Law, t.Law...), append(s.Marginals, t.Marginals...)
	return nil
}

// Greedy plays argmax q, the smallest index among equals. With a progressive q it is a learning target: index 0 for
// the first 256 events.
type Greedy struct{}

// Name implements Target.
func (Greedy) Name() string { return "greedy" }

// Law implements Target.
func (Greedy) Law(dst []float64, _ *logged.Event, q []float64) error {
	clear(dst)
	best := 0
	for i, v := range q {
		if v > q[best] {
			best = i
		}
	}
	dst[best] = 1
	return nil
}

// Fixed plays by one law whatever the context.
type Fixed struct {
	Label string
	P     []float64
}

// NewFixed checks the law.
func NewFixed(label string, p []float64) (*Fixed, error) {
	s := 0.0
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("p[%d] is %v, expected a probability", i, v)
		}
		s += v
	}
	if math.Abs(s-1) > logged.Tolerance {
		return nil, fmt.Errorf("p sums to %v, expected 1", s)
	}
	return &Fixed{label, slices.Clone(p)}, nil
}

// Name implements Target.
func (f *Fixed) Name() string { return f.Label }

// Law implements Target.
func (f *Fixed) Law(dst []float64, _ *logged.Event, _ []float64) error {
	if len(dst) != len(f.P) {
		return fmt.Errorf("%d actions, expected %d, as p has", len(dst), len(f.P))
	}
	copy(dst, f.P)
	return nil
}

// Softmax plays by the column q of the log: π(a) = (1 − floor) exp(β q(a))/Σ_b exp(β q(b)) + floor/K.
type Softmax struct {
	Label          string
	Inverse, Floor float64 // β, of any sign; the share of uniform decisions
}

// NewSoftmax checks the numbers.
func NewSoftmax(label string, inverse, floor float64) (*Softmax, error) {
	switch {
	case !finite(inverse):
		return nil, spec.Errorf("inverse_temperature", "is %v, expected a finite number", inverse)
	case !(floor >= 0 && floor <= 1):
		return nil, spec.Errorf("floor", "is %v, expected a share from 0 to 1", floor)
	}
	return &Softmax{label, inverse, floor}, nil
}

// Name implements Target.
func (s *Softmax) Name() string { return s.Label }

// Law implements Target.
func (s *Softmax) Law(dst []float64, e *logged.Event, _ []float64) error {
	if e.Q == nil {
		return fmt.Errorf("q: missing, expected the column that the softmax is of")
	}
	most := math.Inf(-1)
	for i, q := range e.Q {
		dst[i] = float64(s.Inverse * q)
		most = max(most, dst[i])
	}
	sum := 0.0
	for i := range dst {
		dst[i] = math.Exp(dst[i] - most)
		sum += dst[i]
	}
	for i := range dst {
		dst[i] = float64((1-s.Floor)*(dst[i]/sum)) + s.Floor/float64(len(dst))
	}
	return nil
}

// BTS plays the items with the largest draws of Beta(α_i, β_i): the logger of the Open Bandit Dataset. The law of
// position l is P(item i has rank l), by integration.
type BTS struct {
	Label string
	ranks [][]float64 // ranks[l][i]
}

// NewBTS computes the laws of ranks 0 … lists−1:
//
//	P(rank of i is l) = ∫ f_i(x) P(exactly l of the others exceed x) dx,
//
// f_i the density of Beta(α_i, β_i), the inner probability a Poisson-binomial, by composite Gauss–Legendre
// quadrature over panels that follow the items' quantiles. Sums over items and over ranks are 1 within 1e-12.
// Cost: O(panels·K²·lists).
func NewBTS(label string, alpha, beta []float64, lists int) (*BTS, error) {
	if len(alpha) != len(beta) || len(alpha) == 0 {
		return nil, fmt.Errorf("alpha has length %d and beta %d, expected the same, one number for each item",
			len(alpha), len(beta))
	}
	for i := range alpha {
		if !(alpha[i] > 0 && alpha[i] < 1e12 && beta[i] > 0 && beta[i] < 1e12) {
			return nil, fmt.Errorf("item %d has alpha %v and beta %v, expected positive numbers", i, alpha[i], beta[i])
		}
	}
	if lists < 1 || lists > len(alpha) {
		return nil, fmt.Errorf("lists of %d, expected 1 to %d", lists, len(alpha))
	}
	return &BTS{label, rankLaws(alpha, beta, lists)}, nil
}

// Name implements Target.
func (b *BTS) Name() string { return b.Label }

// Ranks returns P(item i has rank l) as ranks[l][i].
func (b *BTS) Ranks() [][]float64 { return b.ranks }

// Stand implements ListTarget: the law of a rank is a marginal, P(item i has rank l). The position is the slot's id where that is a
// number from 1, as in an Open Bandit file, else its place.
func (b *BTS) Stand(s *logged.Standing, e *logged.Event, slot int) error {
	x, at := &e.Slots[slot], slot
	if n, err := strconv.Atoi(x.ID); err == nil && n >= 1 {
		at = n - 1
	}
	if at >= len(b.ranks) {
		return fmt.Errorf("slot %s, expected one of %d, the length of a list", x.ID, len(b.ranks))
	}
	if e.K != len(b.ranks[at]) {
		return fmt.Errorf("%d actions, expected %d, as alpha has", e.K, len(b.ranks[at]))
	}
	s.Marginals = append(s.Marginals, b.ranks[at]...)
	return nil
}

// Law implements Target.
func (b *BTS) Law(dst []float64, e *logged.Event, _ []float64) error {
	at := max(e.Position, 0)
	if at >= len(b.ranks) {
		return fmt.Errorf("position %d, expected below %d, the length of a list", at, len(b.ranks))
	}
	if len(dst) != len(b.ranks[at]) {
		return fmt.Errorf("%d actions, expected %d, as alpha has", len(dst), len(b.ranks[at]))
	}
	copy(dst, b.ranks[at])
	return nil
}
