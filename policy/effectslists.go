package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/effects"
	"troupe/rng"
)

// Lister is implemented by policies that play lists: several actions in an order.
type Lister interface {
	// Lists returns the lists that effects.ListDraws members prefer, of the set and of the number of the draw. It is valid
	// until the next call; nil where shape.Late reported that there is no time left.
	Lists(set bandit.ActionSet, shape effects.ListShape, draw rng.Source) (*effects.ListDraw, error)
	// DecidedList, SettledList note a list and its rewards, as the methods of bandit.Witness do of an action. entries are
	// the actions from the top; a reward that is not given is not known. whole: the list has one reward, that of entry 0.
	DecidedList(event uint64, entries []bandit.Action) error
	SettledList(event uint64, entries []bandit.Action, y []float64, given []bool, whole bool) error
	// Examined and Gate are what is known of positions; see package effects.
	Examined() []effects.Examination
	Gate() (open bool, nats float64, any bool)
}

// Lists implements Lister.
func (p *Effects) Lists(set bandit.ActionSet, shape effects.ListShape, draw rng.Source) (*effects.ListDraw, error) {
	if err := p.open(set); err != nil {
		return nil, err
	}
	if n := len(p.actions); shape.K < 1 || shape.K > n {
		return nil, fmt.Errorf("policy: effects: a list of %d of %d actions", shape.K, n)
	}
	d := p.model.Lists(p.context, p.actions, shape, draw.At())
	return d, nil
}

// entriesOf reads the actions of a list. The context is that of the first.
func (p *Effects) entriesOf(entries []bandit.Action) (context []effects.Atom, actions [][]effects.Atom, err error) {
	for i, a := range entries {
		c, atoms, err := p.event(a)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			context = append([]effects.Atom(nil), c...)
		}
		actions = append(actions, append([]effects.Atom(nil), atoms...))
	}
	return context, actions, nil
}

// DecidedList implements Lister.
func (p *Effects) DecidedList(event uint64, entries []bandit.Action) error {
	context, actions, err := p.entriesOf(entries)
	if err == nil {
		p.model.DecidedList(event, context, actions)
	}
	return err
}

// SettledList implements Lister.
func (p *Effects) SettledList(event uint64, entries []bandit.Action, y []float64, given []bool, whole bool) error {
	context, actions, err := p.entriesOf(entries)
	if err != nil {
		return err
	}
	list := make([]effects.Entry, len(actions))
	for i := range list {
		if list[i].Action = actions[i]; i < len(given) && given[i] {
			if y[i]-y[i] != 0 {
				return fmt.Errorf("policy: effects: the reward of position %d is %v: %w", i, y[i], bandit.ErrNotFinite)
			}
			list[i].Y, list[i].Given = y[i], true
		}
	}
	p.model.LearnList(event, context, list, whole)
	return nil
}

// Examined implements Lister.
func (p *Effects) Examined() []effects.Examination { return p.model.Examined() }

// Gate implements Lister.
func (p *Effects) Gate() (open bool, nats float64, any bool) { return p.model.Gate() }

var _ Lister = (*Effects)(nil)
