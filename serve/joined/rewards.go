package joined

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/serve/fold"
	"troupe/serve/model"
)

// names gives an event the names of the rewards of its model.
func (e *decision) names(of model.Rewards) {
	for _, x := range of {
		e.Rewards = append(e.Rewards, Named{x.Name, math.NaN()})
	}
}

// counted takes what the fold knows of rewards with names. A name without a value counts 0 once another one has its value, and
// all do where the default counts.
func (e *decision) counted(f *fold.Fold) {
	n, ok := f.RewardsOf(e.Key)
	if !ok {
		return
	}
	e.partial = slices.Contains(n.Given, false)
	for i := range min(len(e.Rewards), len(n.Values)) {
		e.Rewards[i].Value = n.Values[i]
	}
}

// setRewards gives every name the same value.
func (e *decision) setRewards(y float64) {
	for i := range e.Rewards {
		e.Rewards[i].Value = y
	}
}

// RewardColumns are the values by name of a decision whose reward counts, nil of a model with one reward; a value is nil where
// nothing counts. The columns of an export are ColumnOf their names.
func RewardColumns(d *Decided) (names []string, values []*float64) {
	for i := range d.Rewards {
		x := &d.Rewards[i]
		names = append(names, ColumnOf(x.Name))
		if values = append(values, nil); x.Value == x.Value && (d.State == Paid || d.State == Default) {
			values[i] = &x.Value
		}
	}
	return names, values
}

// ColumnOf is the name of the column of a reward in an export.
func ColumnOf(name string) string { return "reward." + name }

// outcome is the value of a reward by its name, ok where there is such a name.
func (d *Decided) outcome(name string) (y float64, ok bool) {
	for _, x := range d.Rewards {
		if x.Name == name {
			return x.Value, true
		}
	}
	return 0, false
}

// NoOutcomeError is the error of Options.Outcome for a model that does not have a reward of this name.
type NoOutcomeError struct{ Model, Outcome, Has string }

// Error names the rewards that there are.
func (e *NoOutcomeError) Error() string {
	return fmt.Sprintf("the model %s has no reward %q: expected one of %s", e.Model, e.Outcome, e.Has)
}

// rewardNames lists the names for an error.
func (d *Decided) rewardNames() string {
	if len(d.Rewards) == 0 {
		return "none, its reward has no name"
	}
	names := make([]string, len(d.Rewards))
	for i, x := range d.Rewards {
		names[i] = x.Name
	}
	return strings.Join(names, ", ")
}
