// Package bandit is the vocabulary: what an action set, a policy and an environment are, as
// interfaces and plain structs. It contains no algorithm.
//
// A round t of a stochastic linear bandit (ass:sg of the paper): the environment offers an action
// set 𝒳_t ⊂ 𝔹^d, the policy selects X_t ∈ 𝒳_t, the environment pays Y_t = ⟨X_t, θ*⟩ + Z_t, the
// policy updates. Two rules keep one policy usable in the simulator, in evaluation and in a
// server: Select reads and Update writes; and randomness is an argument (package rng).
package bandit

import (
	"errors"

	"troupe/rng"
)

// NoIndex is the Index of an action from a set that is not finite.
const NoIndex = -1

// Action is one element x of an action set 𝒳 ⊂ ℝᵈ.
//
// A dense action has At = nil and X of length d. A sparse action, of a Sparse set, has At of the
// length of X: X[k] is coordinate At[k], and every other coordinate is 0.
type Action struct {
	X     []float64 // feature vector, len d; with At the values that are not 0
	Index int       // arm number in a finite set, otherwise NoIndex
	At    []uint32  // coordinates of X, nil where X is dense
}

// Set copies x and index into a, a dense action, reusing a.X when its capacity allows.
func (a *Action) Set(x []float64, index int) {
	a.X = append(a.X[:0], x...)
	a.Index = index
	a.At = nil
}

// SetSparse copies the coordinates, the values and index into a, reusing its slices when their
// capacity allows. at and x have equal lengths.
func (a *Action) SetSparse(at []uint32, x []float64, index int) {
	if a.At == nil {
		a.At = []uint32{}
	}
	a.At = append(a.At[:0], at...)
	a.X = append(a.X[:0], x...)
	a.Index = index
}

// ActionSet is a non-empty compact set seen through its linear maximisation oracle. A value never
// changes after construction and is safe for concurrent use, so a policy may cache what it
// computed for a set under the set's identity.
type ActionSet interface {
	// Dim returns d.
	Dim() int
	// ArgMax stores in dst some x ∈ argmax ⟨x, theta⟩ and returns J(theta), the maximum. Equal
	// theta give the same x. dst.X is reused when it has capacity d and may not alias theta.
	// A theta of the wrong length panics; one that is not finite is an error and leaves dst as
	// it was.
	ArgMax(dst *Action, theta []float64) (value float64, err error)
}

// Finite lists its elements; index policies and exact propensities need it. ArgMax of a finite
// set returns the smallest index among the maximisers.
type Finite interface {
	ActionSet
	Len() int
	// At returns arm i, 0 ≤ i < Len. The slice belongs to the set and must not be changed.
	At(i int) []float64
}

// Sparse is a finite set in a large dimension whose actions are lists of the coordinates that are
// not 0. It does not implement Finite: a dense row has d numbers. Policies for dense vectors refuse
// it, because their state has d² numbers; policy kinds "sparse" and "hashed" take it.
type Sparse interface {
	ActionSet
	Len() int
	// Nonzeros returns the coordinates of action i, 0 ≤ i < Len, each below Dim, and their values,
	// in slices of equal length. A coordinate that is listed twice counts with the sum of its
	// values. The slices belong to the set and must not be changed.
	Nonzeros(i int) (at []uint32, value []float64)
}

// Priced is a finite set, dense or sparse, whose actions cost something. A policy that heeds prices chooses by the mean
// reward of an action less its price; Heeder says which policies do. A dense set takes the price off in ArgMax, so a
// policy that asks the oracle alone needs nothing more.
type Priced interface {
	ActionSet
	// Price returns what is taken off the mean reward of action i, in units of reward. It is finite.
	Price(i int) float64
}

// Costed is a finite set, dense or sparse, whose actions cost money that is to be kept within a budget.
type Costed interface {
	ActionSet
	// Cost returns what action i is stated to cost, in units of money, and NaN where that is known afterwards only.
	Cost(i int) float64
	// Budget returns the mean cost of a decision that is allowed.
	Budget() float64
}

// Payer is a policy that is told what the action of a round cost, after Select and before Update. It is called once in
// a round: with the state, it changes what is chosen next.
type Payer interface {
	Pay(a Action, cost float64) error
}

// Costly is an Environment whose actions cost money: its sets are Costed.
type Costly interface {
	Environment
	// Cost returns what an action of the set offered last cost.
	Cost(a Action) (float64, error)
}

// UnitBall is implemented by the unit Euclidean ball 𝔹^d only: some policies have a closed form
// there.
type UnitBall interface {
	ActionSet
	IsUnitBall()
}

// Policy chooses actions and learns from rewards. Select reads, Update writes: two calls of
// Select without an Update between them, with equal arguments, give equal actions (Select may
// fill caches). A call that returns an error leaves the state as it was. Not safe for concurrent
// use.
type Policy interface {
	// Select stores the action in dst. draw is this round's rng.Select source.
	Select(dst *Action, set ActionSet, draw rng.Source) error
	// Update learns reward y of action a, which need not be the one that Select chose. draw is
	// this round's rng.Perturb source.
	Update(a Action, y float64, draw rng.Source) error
}

// Atom is one possible next action and its probability.
type Atom struct {
	Action
	P     float64
	Count uint64 // P = Count/Total where Law.Total is positive
}

// Law is the distribution of the next action given the state. Over a finite set Atoms has one
// entry for each arm, in order, zeros included, and leaves X empty (Finite.At has it); otherwise it
// lists the distinct actions that have positive probability, in lexicographic order of X.
type Law struct {
	Atoms []Atom
	Total uint64 // common denominator where the law is a count, otherwise 0
}

// Prober states the exact law of the action that Select chooses. It changes nothing that can be
// observed. dst's storage is reused.
//
// draw is the decision's rng.Select source, the one that Select gets. The law is that of Select over
// all sources with the number of draw, draw.At(): a policy may let its candidates depend on the
// number of the decision, and takes all that it draws between them from the rest of the source.
// Given the number, the law is a conditional propensity; a policy whose candidates do not depend on
// the decision ignores draw.
type Prober interface {
	Prob(dst *Law, set ActionSet, draw rng.Source) error
}

// Joint is Select and Prob in one call, with their results, at less than the cost of both.
type Joint interface {
	SelectProb(dst *Action, law *Law, set ActionSet, draw rng.Source) error
}

// Snapshotter survives a round trip through bytes, bit for bit: a policy restored from a snapshot
// acts and learns exactly as the one that was saved.
type Snapshotter interface {
	AppendSnapshot(b []byte) ([]byte, error)
	// Restore replaces the state by a snapshot of a policy with the same configuration. Bytes
	// that are not such a snapshot are an error and leave the state as it was.
	Restore(b []byte) error
}

// Weighed is implemented by a Snapshotter that knows what its snapshot costs before it is taken.
type Weighed interface {
	// SnapshotCost returns how many bytes AppendSnapshot would append now, and about how many multiply-adds
	// it would do first. 0 bytes means that it is not known. It changes nothing and costs little.
	SnapshotCost() (bytes, work int)
}

// Warner says in words what a user should know about running this policy on a set, for instance
// that an accumulated ensemble with m < d is stuck in a subspace. nil means nothing to say.
type Warner interface {
	Warnings(set ActionSet) []string
}

// Confined is implemented by policies that on some sets choose from a proper subspace in real
// arithmetic, so that what a run shows beyond it is rounding. Such results are in no verdict.
type Confined interface {
	Confined(set ActionSet) bool
}

// Environment plays the world of one replication. It may hold the state of the current round and
// is not safe for concurrent use. Rounds are offered in order, t = 1, 2, ….
type Environment interface {
	Dim() int
	// Offer returns the action set of the round in draw. The set itself never changes; offering
	// the same set again is the sign that nothing has to be recomputed.
	Offer(draw rng.Source) (ActionSet, error)
	// Reward pays for an action of the set offered last.
	Reward(a Action, draw rng.Source) (float64, error)
	// Regret returns the pseudo-regret max_x μ_t(x) − μ_t(a) ≥ 0 of an action of the set offered
	// last. No policy ever sees it.
	Regret(a Action) (float64, error)
}

// Settler is an Environment that answers both questions about an action at once: Settle returns what
// Reward and Regret return, bit for bit, for less.
type Settler interface {
	Settle(a Action, draw rng.Source) (reward, regret float64, err error)
}

// Logged is an Environment that is a log: it knows the reward of one action of each round, the one that was
// taken when the log was written. A policy is asked for its choice, which is weighed by what it has in
// common with the log, and learns what the log says:
//
//	reward of the round  w·y,  regret  w·loss,  w = P(policy plays a)/propensity,  then Update(a, y)
//
// with the policy's exact law where it has one, and otherwise w = 1{Select = a}/propensity. Given the
// past the mean of w·y is that of the policy's own play, as long as no event is shown twice.
type Logged interface {
	Environment
	// Logged stores the action that was taken in the round offered last, and returns its reward, what
	// the reward lacks to the largest of the log, and the probability with which it was taken.
	Logged(dst *Action) (reward, loss, propensity float64)
}

// Errors of Select, Update and Prob.
var (
	// ErrUnsupported: the policy has no such operation on this kind of set (OFUL where it is
	// NP-hard, a propensity that is an integral).
	ErrUnsupported = errors.New("not supported on this action set")
	// ErrNotFinite: a reward or a vector holds NaN or an infinity.
	ErrNotFinite = errors.New("not a finite number")
	// ErrNumerical: the state lost too much precision to go on.
	ErrNumerical = errors.New("numerical failure")
)
