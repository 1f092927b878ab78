package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// AutoOptions configures atoms that take the noise scale and λ from the data.
type AutoOptions struct {
	A        float64  `key:"a" doc:"scale of the members in units of the estimated noise; ½ is better in the median and sometimes stuck" default:"1"`
	M        int      `key:"m" doc:"members m: propensities are counts over 2m" default:"32"`
	Key      string   `key:"key" doc:"when members are redrawn: decision, epoch, fixed or round, as for atoms" default:"decision"`
	Guard    int      `key:"guard" doc:"number of members that use the prior noise scale for ever" default:"1"`
	Link     string   `key:"link" doc:"linear; auto: also a logistic model, and the one that predicts better plays" default:"linear"`
	Change   string   `key:"change" doc:"restarts: models begun at different times, weighted by what they predicted, notice a change; or none" default:"none"`
	HalfLife HalfLife `key:"half_life" doc:"with restarts: the number of later events after which an event counts half, or a time such as 7d; 0: events keep their weight while the world stays"`
	BaseRate float64  `key:"base_rate" doc:"mean reward before the first event, for the logistic model of link = auto" default:"0.5"`
}

// The values of AutoOptions.Link, beside linear.
const autoLink = "auto"

// Doc implements spec.Documented.
func (*AutoOptions) Doc() string {
	return "atoms whose noise scale and λ are chosen from the data (docs/design/auto.md)"
}

// New implements Options.
func (o *AutoOptions) New(p Problem) (bandit.Policy, error) {
	one, err := NewAuto(*o, p)
	if err != nil || one.opts.Change != restarts {
		return one, err
	}
	return newRestarts("auto", one.opts, o.HalfLife, p, func() (hypothesis, error) { return NewAuto(*o, p) })
}

func (o AutoOptions) resolve(p Problem) (AutoOptions, error) {
	fill(&o.A, 1)
	fill(&o.BaseRate, 0.5)
	if o.M == 0 {
		o.M = 32
	}
	if o.Guard == 0 {
		o.Guard = 1
	}
	if o.Key == "" {
		o.Key = theory.DecisionKey
	}
	if o.Link == "" {
		o.Link = linear
	}
	if err := positive("a", o.A); err != nil {
		return o, err
	}
	if err := checkMembers(o.M, p.Dim); err != nil {
		return o, err
	}
	c, err := changeOptions{change: o.Change, halfLife: o.HalfLife}.resolve(p.Timed)
	if err != nil {
		return o, err
	}
	o.Change = c.change
	if err := checkKey(o.Key); err != nil {
		return o, err
	}
	if o.Guard < 1 || o.Guard > o.M {
		return o, spec.Refuse("guard", o.Guard, "expected 1 to m = %d", o.M)
	}
	if err := oneOf("link", o.Link, linear, autoLink); err != nil {
		return o, err
	}
	if o.Link == autoLink {
		if err := p.unitRange(`link = "auto"`); err != nil {
			return o, err
		}
	}
	return o, checkBaseRate(o.BaseRate)
}

// autoGrid is where λ is taken from, the largest first: 2², 2¹, …, 2⁻¹⁴. autoFirst is λ before the first
// choice, and autoFrom the number of updates at that choice.
var autoGrid = func() (grid []float64) {
	for k := 2; k >= -14; k-- {
		grid = append(grid, math.Ldexp(1, k))
	}
	return grid
}()

const (
	autoFirst = 1
	autoFrom  = 16
	autoPrior = 1 // ν₀
)

// Auto is Atoms with a noise scale and a λ from the data:
//
//	θ_t = θ̂ + a·σ̂·ξ·L⁻ᵀg(e, J),  LLᵀ = V = λI + ΣXXᵀ,  σ̂² = (ν₀s₀² + RSS)/(ν₀ + n),
//
// with RSS = min_θ Σ(Y − ⟨X, θ⟩)² + λ‖θ‖², ν₀ = 1 and s₀ the noise level of the problem, which is half the
// range of rewards in a server. This is the normal–inverse-gamma model with its point estimate of the
// variance. After n = 16, 32, 64, … updates λ is chosen anew, as the maximiser over 2², 2¹, …, 2⁻¹⁴ of the
// evidence
//
//	−½[(ν₀ + n) log σ̂²(λ) + log det(V_λ/λ^d)],
//
// ties to the larger λ. The first guard members use s₀ in place of σ̂ for ever, so that a model whose first
// rewards are all alike does not stop exploring. The choice is a function of the sums and of n: the state
// is one of the log, and Merge adds sums and then chooses.
//
// No theorem covers a plug-in σ̂: `troupe plan` and `troupe verify` state none for this policy. For the
// theorem take Atoms with scale = { kind = "beta" }.
//
// With link = "auto" a logistic model (Logistic, with λ = 1 and the same a) learns beside the linear one.
// Each predicts a reward before it learns it; the logistic one plays when its sum of squared errors is
// below 0.99 times the other's. Rewards are in [0, 1] then.
//
// Cost of a round: that of Atoms; a choice of λ costs 7d³/3 (no more than 3d of such rounds) and 2d²
// numbers of memory while it lasts, or the same for each block of disjoint features. See Defer for where that is
// too long to wait.
type Auto struct {
	models
	opts   AutoOptions
	root   *linalg.Root
	prior  float64 // s₀
	rss    float64
	square float64 // Σy²
	logRho float64
	lost   float64 // events that were forgotten: Σ(1 − weight)
	g      directions
	member []float64

	logit  *logisticFold // nil unless link = "auto"
	errors [2]float64    // sums of squared one-step errors: linear, logistic

	deferred bool
	pending  *Choice
}

// NewAuto returns the policy before round 1. The error names the option that is wrong.
func NewAuto(o AutoOptions, p Problem) (*Auto, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	o, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	a := &Auto{
		models: newModels(o.M, p.Dim, true), opts: o, root: linalg.NewRoot(p.Dim, autoFirst), prior: p.sigma(),
		logRho: logs.Log(2), g: newDirections(p.Init, o.M, p.Dim), member: make([]float64, p.Dim),
	}
	if o.Link == autoLink {
		fold := newLogisticFold(p.Dim, 1, o.BaseRate)
		a.logit = &fold
	}
	return a, nil
}

// Options returns the configuration with every default filled in.
func (a *Auto) Options() AutoOptions { return a.opts }

// Root returns the state of the linear regression. It belongs to the policy.
func (a *Auto) Root() SquareRoot {
	a.settle()
	return a.root
}

// RSS returns min_θ Σ(Y − ⟨X, θ⟩)² + λ‖θ‖².
func (a *Auto) RSS() float64 {
	a.settle()
	return a.rss
}

// Sigma returns σ̂.
func (a *Auto) Sigma() float64 {
	a.settle()
	return math.Sqrt(a.variance(a.rss))
}

// variance returns (ν₀s₀² + RSS)/(ν₀ + n).
func (a *Auto) variance(rss float64) float64 {
	return (float64(autoPrior*a.prior*a.prior) + rss) / (autoPrior + (float64(a.root.Len()) - a.lost))
}

// Link returns the model that plays, "linear" or "logistic".
func (a *Auto) Link() string {
	if a.logit != nil && a.errors[1] < 0.99*a.errors[0] {
		return logistic
	}
	return linear
}

// Errors returns the sums of squared one-step errors of the linear and of the logistic model, 0 and 0
// without link = "auto".
func (a *Auto) Errors() (linear, logistic float64) { return a.errors[0], a.errors[1] }

// Scale returns the size of member j, 0 ≤ j < m: a·σ̂, a·s₀ for a guard, and a where the logistic model
// plays.
func (a *Auto) Scale(j int) float64 {
	switch {
	case a.Link() == logistic:
		return a.opts.A
	case j < a.opts.Guard:
		return a.opts.A * a.prior
	}
	return a.opts.A * a.Sigma()
}

// Key returns the key e of a decision, as Atoms.Key with ρ = 2.
func (a *Auto) Key(decision uint64) uint64 {
	if a.Link() == logistic {
		return keyAt(a.opts.Key, decision, a.logit.n, a.logit.logDet(), a.logRho)
	}
	return keyAt(a.opts.Key, decision, a.root.Len(), a.root.LogDetRatio(), a.logRho)
}

// playing returns θ̂ and the factor of the model that plays.
func (a *Auto) playing() (theta []float64, f *linalg.Factor) {
	a.settle()
	if a.Link() == logistic {
		return a.logit.theta, a.logit.f
	}
	return a.root.Theta(), a.root.Factor()
}

// solve stores the members of a decision in block, m×d, each with its scale.
func (a *Auto) solve(block []float64, decision uint64) {
	_, f := a.playing()
	key := a.Key(decision)
	for j := range a.m {
		copy(block[j*a.d:j*a.d+a.d], a.g.at(key, j))
	}
	f.SolveLTRows(block)
	rest := a.Scale(a.m)
	for j := range a.m {
		c := rest
		if j < a.opts.Guard {
			c = a.Scale(j)
		}
		for i := range a.d {
			block[j*a.d+i] *= c
		}
	}
}

// Model stores θ̂ + ξ·Scale(j)·L⁻ᵀg(e, j) of a decision in dst, 0 ≤ j < m, sign ξ = ±1. Cost d²/2.
func (a *Auto) Model(dst []float64, decision uint64, j int, sign float64) {
	theta, f := a.playing()
	copy(a.member, a.g.at(a.Key(decision), j))
	f.SolveLT(a.member)
	shift(dst, theta, sign*a.Scale(j), a.member)
}

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source.
func (a *Auto) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return a.choose(dst, set, draw, a.Model)
}

// Prob implements bandit.Prober: a count over 2m.
func (a *Auto) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	theta, _ := a.playing()
	return a.law(dst, set, draw.At(), theta, 1, a.solve, a.Model)
}

// Estimate returns the reward that the playing model expects of a vector.
func (a *Auto) Estimate(x []float64) float64 {
	if a.settle(); a.Link() == logistic {
		return a.logit.mean(x)
	}
	return linalg.Dot(x, a.root.Theta())
}

// Update implements bandit.Policy. It draws nothing.
func (a *Auto) Update(x bandit.Action, y float64, draw rng.Source) error {
	_, err := a.reckon(x, y, draw)
	return err
}

// reckon implements hypothesis. The prediction is that of the linear model.
func (a *Auto) reckon(x bandit.Action, y float64, _ rng.Source) (predicted, error) {
	if err := checkAction(x, y, a.d); err != nil {
		return predicted{}, err
	}
	a.settle()
	var e [2]float64
	if a.logit != nil {
		e[0], e[1] = y-linalg.Dot(x.X, a.root.Theta()), y-a.logit.mean(x.X)
		if err := a.logit.learn(`link = "auto"`, x.X, y); err != nil {
			return predicted{}, err
		}
	}
	before := a.root.LogDetRatio()
	growth, ok := a.root.UpdateResidual(x.X, y)
	if !ok {
		return predicted{}, fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	s := predicted{square: growth, spread: max(0, a.root.LogDetRatio()-before)}
	a.rss += growth
	a.square += float64(y * y)
	for i, v := range e {
		a.errors[i] += float64(v * v)
	}
	if n := a.root.Len(); n >= autoFrom && n&(n-1) == 0 {
		a.choice()
	}
	return s, nil
}

// fade implements hypothesis: the sums of the noise fade with those of the regression.
func (a *Auto) fade(gamma float64) bool {
	a.settle()
	if !a.root.Fade(gamma) {
		return false
	}
	if a.logit != nil {
		a.logit.fade(gamma)
	}
	a.rss *= gamma
	a.square *= gamma
	a.lost = float64(gamma*a.lost) + float64((1-gamma)*float64(a.root.Len()))
	for i := range a.errors {
		a.errors[i] *= gamma
	}
	return true
}

// choice starts a choice of λ, and finishes it unless it may wait.
func (a *Auto) choice() {
	n := autoPrior + (float64(a.root.Len()) - a.lost)
	square, prior := a.square, float64(autoPrior*a.prior*a.prior)
	score := func(logDet, explained float64) float64 {
		return -0.5 * (float64(n*logs.Log((prior+max(0, square-explained))/n)) + logDet)
	}
	a.pending = &Choice{work: a.root.NewReweigh(autoGrid, score)}
	if !a.deferred {
		a.settle()
	}
}

// settle finishes a choice that waits.
func (a *Auto) settle() {
	if a.pending == nil {
		return
	}
	for !a.pending.Step() {
	}
	if a.pending.work.Apply() {
		a.rss = max(0, a.square-a.root.Explained())
	}
	a.pending = nil
}

// Choice is a choice of λ that is under way. It is safe for concurrent use.
type Choice struct {
	mu   sync.Mutex
	work *linalg.Reweigh
	done bool
}

// Step does a slice of the work, at most about 6d² operations, and reports whether all is done. The
// result does not depend on which goroutine does which slice, or when.
func (c *Choice) Step() (done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = c.done || c.work.Step()
	return c.done
}

// Defer says whether a choice of λ may wait. Without it, which is how a policy starts, Update does all of
// the choice that it makes due, 7d³/3 operations: at d = 1024 seconds on one core. With it, Update leaves
// the choice in Pending, and the caller does its steps where they delay no other model, on another goroutine or
// a few between other work, before it gives the policy its next call:
//
//	if c := auto.Pending(); c != nil {
//		go func() { for !c.Step() {} ; ready <- auto }() // updates of this policy queue meanwhile
//	}
//
// A call that needs the state while a choice is pending finishes it first and waits for the slice that
// runs, so the bits of every action, law, update and snapshot are those without Defer. Decisions that may
// use an older state take it from a snapshot made before the update.
func (a *Auto) Defer(on bool) {
	a.deferred = on
	if !on {
		a.settle()
	}
}

// Pending returns the choice of λ that waits, a *Choice, nil when there is none.
func (a *Auto) Pending() bandit.Work {
	if a.pending == nil {
		return nil
	}
	return a.pending
}

// Merge adds the events that another policy of equal configuration has seen: the sums add, and where there
// are 16 events or more λ is chosen from them. It returns an error, and changes nothing, when the
// configurations differ, and with link = "auto", whose logistic model depends on the order of events.
func (a *Auto) Merge(o *Auto) error {
	if a.opts != o.opts || a.d != o.d || a.g.stream != o.g.stream || a.prior != o.prior {
		return errors.New("policy: merge of auto with different options or different streams")
	}
	if a.logit != nil {
		return errors.New(`policy: auto with link = "auto" does not merge, it depends on the order of events: replay the merged log`)
	}
	a.settle()
	o.settle()
	if !a.root.Merge(o.root) {
		return fmt.Errorf("policy: merge refused: %w", bandit.ErrNumerical)
	}
	a.square += o.square
	a.rss = max(0, a.square-a.root.Explained())
	if a.root.Len() >= autoFrom {
		a.choice()
	}
	return nil
}

// state lists what a snapshot holds.
func (a *Auto) state() [][]float64 {
	a.settle()
	v := append(a.root.State(), []float64{a.root.Lambda(), a.rss, a.square, a.errors[0], a.errors[1]})
	if !a.opts.HalfLife.IsZero() {
		v[3] = append(v[3], a.lost)
	}
	if a.logit != nil {
		v = append(v, a.logit.state()...)
	}
	return v
}

// AppendSnapshot implements bandit.Snapshotter.
func (a *Auto) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "auto", a.state()), nil
}

// Restore implements bandit.Snapshotter.
func (a *Auto) Restore(b []byte) error {
	a.settle()
	v, err := readSnapshot(b, "auto", lengthsOf(a.state()))
	if err != nil {
		return err
	}
	bad := errors.New("policy: snapshot holds no state of auto")
	own := v[3]
	for _, x := range own[1:] {
		if !(x >= 0) {
			return bad
		}
	}
	if !slices.Contains(autoGrid, own[0]) {
		return bad
	}
	if a.logit != nil && !a.logit.valid(v[4:]) || !a.root.RestoreWith(own[0], v) {
		return bad
	}
	if a.logit != nil {
		a.logit.put(v[4:])
	}
	a.rss, a.square, a.errors = own[1], own[2], [2]float64{own[3], own[4]}
	if !a.opts.HalfLife.IsZero() {
		a.lost = own[5]
	}
	return nil
}

// Finish implements bandit.Deferrer.
func (a *Auto) Finish() { a.settle() }

// View implements bandit.Viewer. With link = "auto" two models play, with members of their own, and there is none.
func (a *Auto) View(dst *bandit.View, decision uint64) bool {
	if a.opts.Link == "auto" {
		return false
	}
	*dst = bandit.View{M: a.opts.M, Signs: bandit.SignsOf(true), Scale: a.Scale,
		Model: func(theta []float64, j int, xi float64) { a.Model(theta, decision, j, xi) }}
	return true
}

// Redraws implements bandit.Redrawer.
func (a *Auto) Redraws() bool { return a.opts.Key == theory.DecisionKey }

// Additive implements bandit.Additive.
func (a *Auto) Additive() error {
	return errors.New("its noise scale and λ come from the number of events")
}

// Resolved implements Resolver.
func (a *Auto) Resolved() any { return a.opts }

// Widens implements Widener: the logistic link folds rewards by their range.
func (o *AutoOptions) Widens() bool { return o.Link != "auto" }
