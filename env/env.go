// Package env holds the worlds that policies play in: linear bandits with every action set and
// noise, the contextual settings of the literature, and classification of real data.
//
// Three nouns:
//
//   - Options are one [[environment]] table of an experiment file; Kinds is the list of what it may
//     say. Build makes the environment of one replication from the replication's key;
//   - a Law is the noise: it pays a reward around a mean and knows its subgaussian constant;
//   - the instance is what is drawn before round 1 (θ*, fixed arms, the order of the rows). It comes
//     from the key's rng.Instance stream, one of its rounds for each thing that is drawn, so that
//     two environments of one replication share what they can share: the same θ* for the same d,
//     whatever the set and the noise.
//
// What changes from round to round is computed from the round's own source: a set that is redrawn
// from rng.Offer, a reward from rng.Reward. An environment carries no generator state; asked for
// round t again it gives the same set.
//
// # Inside the assumption and outside
//
// The paper assumes 𝒳_t ⊂ 𝔹^d, ‖θ*‖ ≤ 1, a mean ⟨x, θ*⟩ and 1-subgaussian noise. Sets that leave
// the ball are refused, or rescaled on request with a recorded factor. Everything else that steps
// outside is allowed and said: Notes lists it for the manifest of a run, and Sigma is false when
// the noise has no subgaussian constant.
//
// # Regret
//
// Regret is the pseudo-regret against the true mean of the round: with a drift against the best
// action for θ_t, with misspecification against the best arm of the true, non-linear mean, in
// classification against the best arm for this row (full information).
package env

import (
	"troupe/bandit"
	"troupe/dataset"
	"troupe/rng"
	"troupe/spec"
)

// Kinds is the registry of the environments of this package; adding one is a line here and its function below.
// sim.Kinds has kind "vw" beside them, of package env/vw.
var Kinds = spec.Registry[Options]{
	"linear":          makeLinear,
	"russo":           makeRusso,
	"sphere-contexts": makeSphereContexts,
	"priced":          makePriced,
	"priced-table":    makePricedTable,
	"classification":  makeClassification,
	"adversary":       makeAdversary,
	"correlated":      makeCorrelated,
	"one-hot":         makeOneHot,
	"clicks":          makeClicks,
	"list":            makeList,
	"number":          makeNumber,
}

// Functions with names, and no literals: the linker then leaves the kinds out of a program that does not look them up.

func makeLinear() Options         { return NewLinear() }
func makeRusso() Options          { return NewRusso() }
func makeSphereContexts() Options { return NewSphereContexts() }
func makePriced() Options         { return NewPriced() }
func makePricedTable() Options    { return NewPricedTable() }
func makeClassification() Options { return NewClassification() }
func makeAdversary() Options      { return NewAdversary() }
func makeCorrelated() Options     { return NewCorrelated() }
func makeOneHot() Options         { return NewOneHot() }
func makeClicks() Options         { return NewClicks() }
func makeList() Options           { return NewList() }
func makeNumber() Options         { return NewNumber() }

// Options is a decoded [[environment]] table: a kind's options struct.
type Options interface {
	spec.Documented
	// Build returns the environment of the replication with the given key. data loads files; kinds
	// that read none ignore it. An option that is wrong is a *spec.Error whose Path is the option's
	// key within the table. Options do not change: Build may be called concurrently.
	Build(key rng.Key, data DataSource) (bandit.Environment, error)
}

// FileReader is implemented by options of environments that read a file.
type FileReader interface {
	// DataFile returns the file as the table names it; it may be empty.
	DataFile() string
}

// DataSource loads data files: *dataset.Source.
type DataSource interface {
	Encoded(path string, o dataset.Options, enc dataset.Encoding) (*dataset.Encoded, error)
	// Other reads a file that is no table, once for each key.
	Other(path, key string, read func(file string) (any, error)) (any, error)
}

// Passes is implemented by options of environments that must not show an event twice: Rounds returns how
// many rounds one pass has, the longest horizon.
type Passes interface {
	Rounds(data DataSource) (int, error)
}

// Truth is implemented by environments with a linear mean.
type Truth interface {
	// Theta returns θ*, in the units of the actions that are offered; under drift θ_t of the round
	// offered last. The slice belongs to the environment.
	Theta() []float64
}

// Noted is implemented by environments that say what a reader of their results should know:
// rescaling factors, steps outside the assumptions. The text does not depend on the replication.
type Noted interface {
	Notes() []string
}

// Listed is implemented by environments whose actions are lists. ListShape says how they are coded, before round 1.
type Listed interface{ ListShape() bandit.ListShape }

// Numbered is implemented by environments whose actions are numbers. NumberShape says how they are coded, before round 1.
type Numbered interface{ NumberShape() bandit.NumberShape }

// Examined is implemented by environments of lists that may tell how often each position is examined, from 0 to 1; nil where
// that depends on the clicks above or on more than the position.
type Examined interface{ Examination() []float64 }

// Noisy is implemented by environments that know how noisy their rewards are.
type Noisy interface {
	// Sigma returns a σ such that the reward minus its mean is σ-subgaussian given the past:
	// E exp(s·Z) ≤ exp(s²σ²/2). ok is false when there is none; sigma is then a scale, for want of
	// better.
	Sigma() (sigma float64, ok bool)
}

// Bounded is implemented by environments that know how much a round can cost.
type Bounded interface {
	// LargestRegret returns a number that the regret of an action never exceeds, in any round of any
	// replication; it does not depend on the replication. ok is false when there is none.
	LargestRegret() (largest float64, ok bool)
}

// Reacting is implemented by environments whose later rounds depend on the actions of earlier ones. What they have seen
// is in no snapshot, so a cell of such an environment is played from round 1 where others go on.
type Reacting interface {
	// Reacts does nothing.
	Reacts()
}

// Redrawn is implemented by environments that may draw a new action set in each round.
type Redrawn interface {
	// Redraws reports whether this one does, and what it pays depends on the set, the action and the source alone. Then
	// several policies can play the rounds side by side: one Offer, and Settle for the action of each.
	Redraws() bool
}

// Rounds of the rng.Instance stream, one for each thing that is drawn before round 1.
const (
	drawTheta = 0 // θ*
	drawArms  = 1 // fixed arms
	drawOrder = 2 // the order in which rows of data are visited
	drawDrift = 3 // the direction into which θ* turns
	drawWave  = 4 // the misspecification
	drawSigns = 5 // signs of shared features
)

// wrong returns a *spec.Error for an option.
func wrong(key, format string, args ...any) error { return spec.Errorf(key, format, args...) }

// oneOf refuses a word that is none of the valid ones.
func oneOf(key, v string, valid ...string) error {
	for _, w := range valid {
		if v == w {
			return nil
		}
	}
	return wrong(key, "is %q%s", v, spec.Suggest(v, valid))
}
