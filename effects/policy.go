package effects

import (
	"errors"
	"fmt"

	"troupe/bandit"
	"troupe/rng"
)

// Policy is a Model as a bandit.Policy: sets are lists of atoms (bandit.AtomList), those of the context first.
type Policy struct {
	Model *Model

	context []Atom
	actions [][]Atom
	atoms   []Atom
	prices  bandit.Priced
}

// NewPolicy returns a policy without events.
func NewPolicy(init rng.Stream) *Policy { return &Policy{Model: newModel(init)} }

var errNoList = errors.New("effects: the vector is no list of atoms")

// list reads the atoms of a vector, which it appends to dst: those of the context, then those of the action.
func list(dst []Atom, x []float64) (atoms []Atom, context int, err error) {
	n := len(x)
	if n < 5 {
		return dst, 0, errNoList
	}
	action, c := x[n-2], x[n-1]
	if !(action >= 1 && action < 1<<20 && c >= 0 && c < 1<<20) || 2*(int(action)+int(c))+3 != n {
		return dst, 0, errNoList
	}
	for i := 0; i < n-3; i += 2 {
		dst = append(dst, Atom{uint64(x[i]), x[i+1]})
	}
	return dst, int(c), nil
}

// open reads a set.
func (p *Policy) open(set bandit.ActionSet) error {
	s, ok := set.(bandit.Sparse)
	if !ok {
		return fmt.Errorf("effects: needs requests as lists of atoms, this is a %T: %w", set, bandit.ErrUnsupported)
	}
	p.prices, _ = set.(bandit.Priced)
	p.atoms, p.actions = p.atoms[:0], p.actions[:0]
	for i := range s.Len() {
		_, x := s.Nonzeros(i)
		from := len(p.atoms)
		if i > 0 {
			n := len(x)
			if n < 5 || 2*(int(x[n-2])+len(p.context))+3 != n {
				return errNoList
			}
			x = x[2*len(p.context):]
			for k := 0; k < len(x)-3; k += 2 {
				p.atoms = append(p.atoms, Atom{uint64(x[k]), x[k+1]})
			}
			p.actions = append(p.actions, p.atoms[from:len(p.atoms):len(p.atoms)])
			continue
		}
		atoms, c, err := list(p.atoms, x)
		if err != nil {
			return err
		}
		p.atoms = atoms
		p.context = atoms[:c:c]
		p.actions = append(p.actions, atoms[c:len(atoms):len(atoms)])
	}
	return nil
}

func (p *Policy) votes(set bandit.ActionSet, draw rng.Source) (votes []uint64, winner []int, err error) {
	if err := p.open(set); err != nil {
		return nil, nil, err
	}
	var prices func(i int) float64
	if p.prices != nil {
		prices = p.prices.Price
	}
	votes, winner = p.Model.Votes(p.context, p.actions, prices, draw.At())
	return votes, winner, nil
}

// Select implements bandit.Policy. It uses number 0 of the source.
func (p *Policy) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	_, winner, err := p.votes(set, draw)
	if err != nil {
		return err
	}
	p.choose(dst, set, winner[draw.Intn(0, voters)])
	return nil
}

func (p *Policy) choose(dst *bandit.Action, set bandit.ActionSet, i int) {
	at, x := set.(bandit.Sparse).Nonzeros(i)
	dst.SetSparse(at, x, i)
}

// Prob implements bandit.Prober: a count over 64 draws.
func (p *Policy) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	votes, _, err := p.votes(set, draw)
	if err == nil {
		law(dst, votes)
	}
	return err
}

// SelectProb implements bandit.Joint.
func (p *Policy) SelectProb(dst *bandit.Action, to *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	votes, winner, err := p.votes(set, draw)
	if err != nil {
		return err
	}
	law(to, votes)
	p.choose(dst, set, winner[draw.Intn(0, voters)])
	return nil
}

func law(dst *bandit.Law, votes []uint64) {
	dst.Atoms = dst.Atoms[:0]
	for i, n := range votes {
		dst.Atoms = append(dst.Atoms, bandit.Atom{Action: bandit.Action{Index: i}, P: float64(n) / voters, Count: n})
	}
	dst.Total = voters
}

// Update implements bandit.Policy: a decision whose reward comes at once. It draws nothing.
func (p *Policy) Update(a bandit.Action, y float64, _ rng.Source) error {
	context, action, err := p.event(a)
	switch {
	case err != nil:
		return err
	case y-y != 0:
		return fmt.Errorf("effects: the reward is %v: %w", y, bandit.ErrNotFinite)
	}
	p.Model.Decided(0, context, action)
	p.Model.Learn(0, context, action, y)
	return nil
}

func (p *Policy) event(a bandit.Action) (context, action []Atom, err error) {
	atoms, c, err := list(p.atoms[:0], a.X)
	if err != nil {
		return nil, nil, err
	}
	p.atoms = atoms
	return atoms[:c:c], atoms[c:], nil
}

// Decided implements bandit.Witness.
func (p *Policy) Decided(event uint64, a bandit.Action) error {
	context, action, err := p.event(a)
	if err == nil {
		p.Model.Decided(event, context, action)
	}
	return err
}

// Settled implements bandit.Witness.
func (p *Policy) Settled(event uint64, a bandit.Action, y float64) error {
	context, action, err := p.event(a)
	switch {
	case err != nil:
		return err
	case y-y != 0:
		return fmt.Errorf("effects: the reward is %v: %w", y, bandit.ErrNotFinite)
	}
	p.Model.Learn(event, context, action, y)
	return nil
}

// Dropped implements bandit.Witness.
func (p *Policy) Dropped(event uint64) { p.Model.Dropped(event) }

// Score implements bandit.Scorer.
func (p *Policy) Score(a bandit.Action) float64 {
	context, action, err := p.event(a)
	if err != nil {
		return 0
	}
	return p.Model.Estimate(context, action)
}

// DrawnMember implements bandit.MemberDrawer: the draw that plays.
func (p *Policy) DrawnMember(draw rng.Source) (j int, xi float64) { return draw.Intn(0, voters), 1 }

// Redraws implements bandit.Redrawer.
func (p *Policy) Redraws() bool { return true }
