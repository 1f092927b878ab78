package lockstep

import (
	"troupe/bandit"
	"troupe/rng"
)

// Ensembles and Environments are the two halves of a batch.
type (
	Ensembles    = ensembles
	Environments = environments
)

// NewEnsembles puts policies side by side, by the rule of sizes or at any size.
func NewEnsembles(of []bandit.Policy, sets []bandit.ActionSet, keys []rng.Key, pays func(int) bool) *Ensembles {
	return newEnsembles(of, sets, keys, pays)
}

// NewEnvironments puts environments side by side.
func NewEnvironments(of []bandit.Environment, keys []rng.Key) *Environments {
	return newEnvironments(of, keys)
}

// Sets returns the action sets, one for each environment.
func (o *environments) Sets() []bandit.ActionSet { return o.sets }
