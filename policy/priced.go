package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
)

// Price puts prices on a list of actions, dense or sparse, in units of reward; with keep, ascending and not empty, the
// result has these actions only, in that order, and price is by the place in the whole list. It keeps all three. Sets
// of other kinds are bandit.ErrUnsupported.
func Price(set bandit.ActionSet, price []float64, keep []int) (bandit.Priced, error) {
	switch s := set.(type) {
	case bandit.Sparse:
		return &pricedSparse{prices{price, keep, s.Len()}, s}, nil
	case bandit.Finite:
		return newPricedDense(prices{price, keep, s.Len()}, s), nil
	}
	return nil, fmt.Errorf("policy: prices need a list of actions, this is %s: %w", described(set),
		bandit.ErrUnsupported)
}

// prices are those of a list of which some actions are left.
type prices struct {
	price []float64
	keep  []int // nil: all
	k     int
}

// indexInSet is the number in the whole set of action i of those that are left.
func (p *prices) indexInSet(i int) int {
	if p.keep == nil {
		return i
	}
	return p.keep[i]
}

// Len returns the number of actions that are left.
func (p *prices) Len() int {
	if p.keep == nil {
		return p.k
	}
	return len(p.keep)
}

// Price implements bandit.Priced.
func (p *prices) Price(i int) float64 { return p.price[p.indexInSet(i)] }

type pricedDense struct {
	prices
	set bandit.Finite

	rows  []float64 // (x, price) of the actions that are left, one after the other; nil for long lists
	theta []float64 // (theta, −1)
}

// pricedRows bounds the numbers of pricedDense.rows, which a decision makes anew. Products of numbers within tame do
// not overflow: no score is an infinity or NaN, which would lose unseen.
const (
	pricedRows = 1 << 17
	tame       = 0x1p500
)

func newPricedDense(p prices, set bandit.Finite) *pricedDense {
	s := &pricedDense{prices: p, set: set}
	d, k := set.Dim(), p.Len()
	if k > pricedRows/(d+1) {
		return s
	}
	room := make([]float64, (k+1)*(d+1))
	s.rows, s.theta = room[:0:k*(d+1)], room[k*(d+1):]
	for i := range k {
		at := p.indexInSet(i)
		s.rows = append(append(s.rows, set.At(at)...), p.price[at])
	}
	if !linalg.Within(s.rows, tame) {
		s.rows = nil
	}
	s.theta[d] = -1
	return s
}

func (p *pricedDense) Dim() int           { return p.set.Dim() }
func (p *pricedDense) At(i int) []float64 { return p.set.At(p.indexInSet(i)) }
func (p *pricedDense) Check() error       { return checkNumbers(p.set) }

// ArgMax implements bandit.ActionSet: the first action with the largest ⟨x, theta⟩ − price. One call at a time.
func (p *pricedDense) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	d := p.set.Dim()
	if len(theta) != d {
		panic("policy: theta has the wrong length")
	}
	if p.rows != nil && linalg.Within(theta, tame) {
		copy(p.theta, theta)
		arm, best := linalg.ArgMax(p.rows, p.theta)
		dst.Set(p.rows[arm*(d+1):arm*(d+1)+d], arm)
		return best, nil
	}
	best, arm, k := math.Inf(-1), -1, p.Len()
	for i := range k {
		at := i
		if p.keep != nil {
			at = p.keep[i]
		}
		v := linalg.Dot(p.set.At(at), theta) - p.price[at]
		if v-v != 0 {
			return 0, fmt.Errorf("policy: theta gives action %d the value %v: %w", i, v, bandit.ErrNotFinite)
		}
		if v > best {
			best, arm = v, i
		}
	}
	dst.Set(p.At(arm), arm)
	return best, nil
}

type pricedSparse struct {
	prices
	set bandit.Sparse
}

func (p *pricedSparse) Dim() int                             { return p.set.Dim() }
func (p *pricedSparse) Nonzeros(i int) ([]uint32, []float64) { return p.set.Nonzeros(p.indexInSet(i)) }

// ArgMax implements bandit.ActionSet, as that of pricedDense.
func (p *pricedSparse) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	best, arm := math.Inf(-1), -1
	for i := range p.Len() {
		at, x := p.Nonzeros(i)
		v := -p.Price(i)
		for k, c := range at {
			v += float64(x[k] * theta[c])
		}
		if v-v != 0 {
			return 0, fmt.Errorf("policy: theta gives action %d the value %v: %w", i, v, bandit.ErrNotFinite)
		}
		if v > best {
			best, arm = v, i
		}
	}
	at, x := p.Nonzeros(arm)
	dst.SetSparse(at, x, arm)
	return best, nil
}

// Heeds implements bandit.Heeder where the base does.
func (m *Mixed) Heeds() bool { return bandit.Heeds(m.base) }

// Heeds implements bandit.Heeder: scores of the logistic model are logits, which prices cannot be taken off.
func (a *Auto) Heeds() bool { return a.logit == nil }

// Heeds implements bandit.Heeder.
func (e *Ensemble) Heeds() bool { return e.reference == nil }

// Heeds implements bandit.Heeder.
func (s *Sparse) Heeds() bool { return true }

// Heeds implements bandit.Heeder.
func (a *Atoms) Heeds() bool { return true }

// Heeds implements bandit.Heeder.
func (g *Greedy) Heeds() bool { return true }

// Heeds implements bandit.Heeder.
func (e *EpsilonGreedy) Heeds() bool { return true }

// Heeds implements bandit.Heeder.
func (u *LinUCB) Heeds() bool { return true }

// Heeds implements bandit.Heeder.
func (s *Thompson) Heeds() bool { return true }

// Heeds implements bandit.Heeder.
func (a *ATS) Heeds() bool { return true }
