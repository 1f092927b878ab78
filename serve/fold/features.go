package fold

import (
	"fmt"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
)

// Features are what a record has of the action that was chosen: its vector, or the atoms of one.
type Features struct {
	X     []float64
	Atoms []byte

	seq      uint64             // entry of the decision
	kept     bool               // it has its request
	decision *eventlog.Decision // nil: not read yet
}

// action returns the vector that the policy of m learns from. It is valid until the next call.
func (f *Fold) action(m *Model, x Features) (bandit.Action, error) {
	if m.Compiled.Hashed == nil {
		return bandit.Action{X: x.X, Index: bandit.NoIndex}, nil
	}
	context, rest, err := feature.ReadAtoms(f.atoms[:0], x.Atoms)
	if err != nil {
		return bandit.Action{}, err
	}
	n := len(context)
	if f.atoms, rest, err = feature.ReadAtoms(context, rest); err == nil && (len(rest) > 0 || len(f.atoms) == n) {
		err = fmt.Errorf("the atoms of a decision are not those of a context and an action")
	}
	if err != nil {
		return bandit.Action{}, err
	}
	f.at, f.x = m.Compiled.Hashed.AppendVector(f.at[:0], f.x[:0], f.atoms[:n], f.atoms[n:])
	return bandit.Action{At: f.at, X: f.x, Index: bandit.NoIndex}, nil
}
