package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// Kinds is the registry: one line for each kind of policy that a spec file can name.
var Kinds = spec.Registry[Options]{
	"atoms":                func() Options { return &AtomsOptions{} },
	"auto":                 func() Options { return &AutoOptions{} },
	"bag":                  func() Options { return &BagOptions{} },
	"budgeted":             func() Options { return &BudgetedOptions{} },
	"cassel":               func() Options { return &CasselOptions{} },
	"coin":                 func() Options { return &CoinOptions{} },
	"confident-ts":         func() Options { return &ConfidentOptions{} },
	"doubling":             func() Options { return &DoublingOptions{} },
	"ensemble":             func() Options { return &EnsembleOptions{} },
	"ensemble-incremental": func() Options { return &IncrementalOptions{} },
	"ensemble-pp":          func() Options { return &EnsemblePPOptions{} },
	"epsilon-greedy":       func() Options { return &EpsilonGreedyOptions{} },
	"evill":                func() Options { return &EVILLOptions{} },
	"fixed":                func() Options { return &FixedOptions{} },
	"glm-es":               func() Options { return &GLMESOptions{} },
	"greedy":               func() Options { return &GreedyOptions{} },
	"hashed":               func() Options { return &HashedOptions{} },
	"ids":                  func() Options { return &IDSOptions{} },
	"lazy":                 func() Options { return &LazyOptions{} },
	"lee-oh":               func() Options { return &LeeOhOptions{} },
	"linphe":               func() Options { return &LinPHEOptions{} },
	"linucb":               func() Options { return &LinUCBOptions{} },
	"logistic":             func() Options { return &LogisticOptions{} },
	"lvr":                  func() Options { return &LVROptions{} },
	"mixed":                func() Options { return &MixedOptions{} },
	"sparse":               func() Options { return &SparseOptions{} },
	"squarecb":             func() Options { return &SquareCBOptions{} },
	"ts":                   func() Options { return &ThompsonOptions{} },
	"uniform":              func() Options { return &UniformOptions{} },
}

// Register adds a kind of one's own to Kinds, for all of the process: models of a server and their logs, training and
// evaluation name it like every other kind. A name that is taken is an error. Call it in main or init, before anything
// reads Kinds; cli.Main does it for the kinds of its catalogue. A log that names a kind is read only by programs that
// have it (ADR 30).
func Register(name string, options func() Options) error {
	if Kinds[name] != nil {
		return fmt.Errorf("policy: there is a kind %q already", name)
	}
	Kinds[name] = options
	return nil
}

// Options is a decoded [[policy]] table: a kind's options struct.
type Options interface {
	spec.Documented
	// New builds the policy for a problem. Errors name the option and its value.
	New(p Problem) (bandit.Policy, error)
}

// FeatureReader is implemented by options of policies that act on the sparse sets of hashed features.
type FeatureReader interface {
	// ReadsFeatures returns how many bits the coordinates have, and whether vectors end with a list of their atoms.
	ReadsFeatures() (bits int, list bool)
	// WithFeatures returns the options with what features of a server say: their bits and which pairs they have.
	WithFeatures(bits int, pairs string) Options
}

// Widener is implemented by options of policies that can learn from rewards outside the range that they began with.
type Widener interface {
	Widens() bool
}

// Resolver is implemented by policies whose options in force a server writes into the configuration of a new model, so
// that it keeps them when the defaults change.
type Resolver interface {
	// Resolved returns an options struct with every default filled in.
	Resolved() any
}

// Problem is what a policy may know of the problem before round 1.
type Problem struct {
	Dim     int        // d ≥ 1
	Horizon int        // T, 0 when unknown
	Arms    int        // K, 0 when the action set is not finite
	Sigma   float64    // subgaussian constant of the noise, 0 means 1
	Init    rng.Stream // draws before round 1; "round" j belongs to member j

	// Low and High are the declared range of rewards, 0 and 0 where none is declared.
	Low, High float64

	// Share multiplies every confidence level δ, so that a wrapper that restarts its base can
	// divide δ between the restarts; 0 means 1.
	Share float64
}
