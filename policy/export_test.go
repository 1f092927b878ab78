package policy

import (
	"troupe/internal/linalg"
	"troupe/internal/members"
)

// LimitLazySteps sets the number of steps that lazy keeps, in numbers, until undo is called.
func LimitLazySteps(n int) (undo func()) {
	old := members.LazySteps
	members.LazySteps = n
	return func() { members.LazySteps = old }
}

// Doubts returns the number of models of which the oracle was asked in the last Prob.
func (e *Ensemble) Doubts() int { return e.shortlist.doubts }

// Follows reports whether the next question about the same set starts from the scores of the last one.
func (e *Ensemble) Follows() bool { return e.shortlist.valid }

// Listed reports whether the next question about the same set looks at lists of arms only, and how many are on them for eight members.
func (e *Ensemble) Listed() (arms float64, listed bool) {
	if e.shortlist.list == nil || !e.shortlist.valid {
		return 0, false
	}
	n, listed := e.shortlist.list.Listed()
	return float64(n) / float64((e.Members()+7)/8), listed
}

// FollowedScores returns ⟨x_a, θ̃^j⟩ as the last question had it, of member j and arm a of fewer than linalg.ShortlistArms, and what it
// may be off by for each arm, or ok = false where they were computed afresh or not kept.
func (e *Ensemble) FollowedScores() (score func(j, a int) float64, bounds []float64, ok bool) {
	q := e.shortlist
	if q.list == nil || !q.valid || q.arms >= linalg.ShortlistArms {
		return nil, nil, false
	}
	return func(j, a int) float64 {
		return q.list.Scores(j / linalg.Members)[(j%linalg.Members/8*q.arms+a)*8+j%8]
	}, q.errors, true
}

// PoissonWeight is the weight that a bag of Poisson weights reads from a word.
func PoissonWeight(word uint32) int {
	return (&Bag{opts: BagOptions{Weights: "poisson"}}).weight(word)
}

// SolvedMember returns θ̃^j as the last question had it and a bound of its error, for an ensemble that keeps it for the next one, and how
// many steps it has followed.
func (e *Ensemble) SolvedMember(j int) (member []float64, off float64, steps int, ok bool) {
	o, d := &e.shortlist.solved, e.ridge.Dim()
	if !o.valid || len(o.steps) > 0 {
		return nil, 0, 0, false
	}
	for i := range d {
		member = append(member, o.panels[(j/8*d+i)*8+j%8])
	}
	return member, o.off, o.taken, true
}

// StudentLog is studentLog.
var StudentLog = studentLog

// Weights returns the weights of the copies.
func (r *Restarts) Weights() []uint32 { return r.weights() }
