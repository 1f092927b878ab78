package policy

import (
	"troupe/bandit"
	"troupe/rng"
)

// LimitLazySteps sets the number of steps that lazy keeps, in numbers, until undo is called.
func LimitLazySteps(n int) (undo func()) {
	old := lazySteps
	lazySteps = n
	return func() { lazySteps = old }
}

// Doubts returns the number of models of which the oracle was asked in the last Prob.
func (e *Ensemble) Doubts() int { return e.scores.doubts }

// Follows reports whether the next question about the same set starts from the scores of the last one.
func (e *Ensemble) Follows() bool { return e.scores.valid }

// OctetOfAnySize is NewOctet where it does not matter what pays.
func OctetOfAnySize(of []bandit.Policy, sets []bandit.ActionSet, keys []rng.Key) *Octet {
	return newOctet(of, sets, keys, func(int) bool { return true })
}

// Listed reports whether the next question about the same set looks at lists of arms only, and how many are on them for eight members.
func (e *Ensemble) Listed() (arms float64, listed bool) {
	if e.scores.contest == nil || !e.scores.valid {
		return 0, false
	}
	n, listed := e.scores.contest.Listed()
	return float64(n) / float64((e.m+7)/8), listed
}
