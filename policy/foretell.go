package policy

import (
	"troupe/bandit"
	"troupe/effects"
)

// Foreteller is implemented by policies that say what they expect of numbers and of lists.
type Foreteller interface {
	// Curve says what is expected of an action where its number knob is at each place of its range, see effects.Curve.
	Curve(a bandit.Action, knob int, u, mean, sd []float64) (bool, error)
	// BestList returns the list that is expected to earn most, see effects.BestList. The context is that of the first entry.
	BestList(entries []bandit.Action, shape effects.ListShape) (list []int32, value []float64, approximate bool, err error)
}

// Curve implements Foreteller.
func (p *Effects) Curve(a bandit.Action, knob int, u, mean, sd []float64) (bool, error) {
	context, action, err := p.event(a)
	if err != nil {
		return false, err
	}
	return effects.Curve(p.model, context, action, knob, u, mean, sd), nil
}

// BestList implements Foreteller.
func (p *Effects) BestList(entries []bandit.Action, shape effects.ListShape) (list []int32, value []float64, approximate bool, err error) {
	context, actions, err := p.entriesOf(entries)
	if err != nil {
		return nil, nil, false, err
	}
	list, value, approximate = effects.BestList(p.model, context, actions, shape)
	return list, value, approximate, nil
}

var _ Foreteller = (*Effects)(nil)
