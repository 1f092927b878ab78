package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// Kinds is the registry of the kinds of policy that a spec file can name; adding one is a line here and its function
// below.
var Kinds = spec.Registry[Options]{
	"atoms":                makeAtoms,
	"ats":                  makeATS,
	"auto":                 makeAuto,
	"bag":                  makeBag,
	"budgeted":             makeBudgeted,
	"cassel":               makeCassel,
	"cells":                makeCells,
	"centred":              makeCentred,
	"coin":                 makeCoin,
	"confident-ts":         makeConfident,
	"doubling":             makeDoubling,
	"effects":              makeEffects,
	"ensemble":             makeEnsemble,
	"ensemble-incremental": makeIncremental,
	"ensemble-pp":          makeEnsemblePP,
	"epsilon-greedy":       makeEpsilonGreedy,
	"evill":                makeEVILL,
	"fixed":                makeFixed,
	"glm-es":               makeGLMES,
	"greedy":               makeGreedy,
	"ids":                  makeIDS,
	"lazy":                 makeLazy,
	"lee-oh":               makeLeeOh,
	"linphe":               makeLinPHE,
	"linucb":               makeLinUCB,
	"logistic":             makeLogistic,
	"lvr":                  makeLVR,
	"mixed":                makeMixed,
	"sparse":               makeSparse,
	"squarecb":             makeSquareCB,
	"ts":                   makeThompson,
	"cascade-kl-ucb":       makeCascadeKLUCB,
	"cascade-ts":           makeCascadeTS,
	"cascade-ucb":          makeCascadeUCB,
	"pbm-ts":               makePBMTS,
	"slots":                makeSlots,
	"toprank":              makeTopRank,
	"bins":                 makeBins,
	"zooming":              makeZooming,
	"uniform":              makeUniform,
}

// Functions with names, and no literals: the linker then leaves the kinds out of a program that does not look them up.

func makeAtoms() Options         { return &AtomsOptions{} }
func makeATS() Options           { return &ATSOptions{} }
func makeAuto() Options          { return &AutoOptions{} }
func makeBag() Options           { return &BagOptions{} }
func makeBudgeted() Options      { return &BudgetedOptions{} }
func makeCassel() Options        { return &CasselOptions{} }
func makeCells() Options         { return &CellsOptions{} }
func makeCentred() Options       { return &CentredOptions{} }
func makeCoin() Options          { return &CoinOptions{} }
func makeConfident() Options     { return &ConfidentOptions{} }
func makeDoubling() Options      { return &DoublingOptions{} }
func makeEffects() Options       { return &EffectsOptions{} }
func makeEnsemble() Options      { return &EnsembleOptions{} }
func makeIncremental() Options   { return &IncrementalOptions{} }
func makeEnsemblePP() Options    { return &EnsemblePPOptions{} }
func makeEpsilonGreedy() Options { return &EpsilonGreedyOptions{} }
func makeEVILL() Options         { return &EVILLOptions{} }
func makeFixed() Options         { return &FixedOptions{} }
func makeGLMES() Options         { return &GLMESOptions{} }
func makeGreedy() Options        { return &GreedyOptions{} }
func makeIDS() Options           { return &IDSOptions{} }
func makeLazy() Options          { return &LazyOptions{} }
func makeLeeOh() Options         { return &LeeOhOptions{} }
func makeLinPHE() Options        { return &LinPHEOptions{} }
func makeLinUCB() Options        { return &LinUCBOptions{} }
func makeLogistic() Options      { return &LogisticOptions{} }
func makeLVR() Options           { return &LVROptions{} }
func makeMixed() Options         { return &MixedOptions{} }
func makeSparse() Options        { return &SparseOptions{} }
func makeSquareCB() Options      { return &SquareCBOptions{} }
func makeThompson() Options      { return &ThompsonOptions{} }
func makeCascadeKLUCB() Options  { return &CascadeKLUCBOptions{} }
func makeCascadeTS() Options     { return &CascadeTSOptions{} }
func makeCascadeUCB() Options    { return &CascadeUCBOptions{} }
func makePBMTS() Options         { return &PBMTSOptions{} }
func makeSlots() Options         { return &SlotsOptions{} }
func makeTopRank() Options       { return &TopRankOptions{} }
func makeBins() Options          { return &BinsOptions{} }
func makeZooming() Options       { return &ZoomingOptions{} }
func makeUniform() Options       { return &UniformOptions{} }

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

// RequestReader is implemented by options of policies that read requests as they come, as feature.AtomEncoder encodes them.
type RequestReader interface{ ReadsRequests() }

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

	// Means are the mean rewards of orthogonal unit arms in a few instances, where they are known and do not change. A
	// policy may use them in its warnings only: they are given to one that does not play.
	Means [][]float64

	// Timed says that the policy is told the times of events (Clocked).
	Timed bool

	// Share multiplies every confidence level δ, so that a wrapper that restarts its base can
	// divide δ between the restarts; 0 means 1.
	Share float64

	// Lists says how lists are coded, where the actions are lists; nil: they are none.
	Lists *bandit.ListShape

	// Numbers says how numbers are coded, where the actions are cells of an interval; nil: they are none.
	Numbers *bandit.NumberShape

	// Examination is how often each position of a list is examined, where the environment has such numbers; for policies that are
	// told.
	Examination []float64

	// Turns lets the cells of a worker take turns while a policy waits for another program; nil: it waits alone.
	Turns Turns
}

// Turns is a worker that plays several cells by turns, one of which runs at a time.
type Turns interface {
	// Yield lets the other cells go on, and returns when it is this one's turn. A policy calls it inside a method of
	// its own, from the goroutine that called the method.
	Yield()
	// Worker is equal for the cells of one worker and for no others.
	Worker() any
}
