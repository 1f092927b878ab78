package fold

import (
	"fmt"

	"troupe/bandit"
	"troupe/feature"
	"troupe/serve/model"
)

// Features are what a record has of the action that was chosen: its vector, or the atoms of one.
type Features struct {
	X     []float64
	Atoms []byte
}

// vectors makes the vectors that policies learn from. It is the scratch space of one goroutine.
type vectors struct {
	atoms []feature.Atom
	at    []uint32
	x     []float64
}

// action returns the vector that the policy of a configuration learns from. It is valid until the next call.
func (v *vectors) action(c *model.Compiled, x Features) (bandit.Action, error) {
	if c.Atoms == nil {
		return bandit.Action{X: x.X, Index: bandit.NoIndex}, nil
	}
	context, rest, err := feature.ReadAtoms(v.atoms[:0], x.Atoms)
	if err != nil {
		return bandit.Action{}, err
	}
	n := len(context)
	if v.atoms, rest, err = feature.ReadAtoms(context, rest); err == nil && (len(rest) > 0 || len(v.atoms) == n) {
		err = fmt.Errorf("the atoms of a decision are not those of a context and an action")
	}
	if err != nil {
		return bandit.Action{}, err
	}
	v.at, v.x = c.Atoms.AppendVector(v.at[:0], v.x[:0], v.atoms[:n], v.atoms[n:])
	return bandit.Action{At: v.at, X: v.x, Index: bandit.NoIndex}, nil
}
