// Package lockstep plays up to eight replications of one policy in one environment at the same
// time. The numbers of the replications lie side by side in the lanes of vectors, so eight rounds
// cost little more than the longest chain of operations of one. Each replication gets the bits that
// it gets alone: the same actions, rewards, regrets and, after Part, the same state. The design page
// on lock-step has the reasons and the measurements.
//
// Package sim calls New and Play. New returns nil where replications cannot be played side by side or
// where that would not be faster.
//
// An environment or a policy takes part by one method, LockStep, which describes it to this package;
// this package knows no kind of either.
package lockstep

import (
	"errors"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Lanes is the largest number of replications side by side.
const Lanes = rng.Eight

// ErrAlone is the error of Play when something happened that concerns one replication. Nothing of
// this play counts; played alone, that replication returns its own error.
var ErrAlone = errors.New("lockstep: a replication must be played alone")

// Batch is up to eight replications side by side. Not safe for concurrent use.
type Batch struct {
	worlds   *environments
	policies *ensembles
}

// New puts replications side by side: replication l is policies[l] in worlds[l] with the random
// numbers of keys[l]. It returns nil where that is not possible or not faster than one after the
// other; environments and policies are only read then.
func New(worlds []bandit.Environment, policies []bandit.Policy, keys []rng.Key) *Batch {
	return newBatch(worlds, policies, keys, linalg.BatchesPay)
}

func newBatch(worlds []bandit.Environment, policies []bandit.Policy, keys []rng.Key,
	pays func(batches int) bool) *Batch {
	w := newEnvironments(worlds, keys)
	if w == nil {
		return nil
	}
	p := newEnsembles(policies, w.sets, keys, pays)
	if p == nil {
		return nil
	}
	return &Batch{w, p}
}

// Play plays the rounds after round from, which the policies have behind them, up to the horizon. observe gets the
// regrets and the rewards of round t, one for each lane, and ends the play with its error; lanes without a replication
// copy the first. The error is that of observe or ErrAlone. The policies keep the state they had.
func (b *Batch) Play(from, horizon int, observe func(t int, regret, reward *[Lanes]float64) error) error {
	var arms [Lanes]int
	var regret, y [Lanes]float64
	for t := from + 1; t <= horizon; t++ {
		round := uint64(t)
		if !b.policies.Select(&arms, round) {
			return ErrAlone
		}
		b.worlds.Pay(&y, &regret, &arms, round)
		if err := observe(t, &regret, &y); err != nil {
			return err
		}
		if !b.policies.Update(&arms, &y, round) { // a reward that is not finite is refused
			return ErrAlone
		}
	}
	return nil
}

// Part gives every policy the state after the last round. Policies and batch may go on then, each
// for itself.
func (b *Batch) Part() { b.policies.Part() }
