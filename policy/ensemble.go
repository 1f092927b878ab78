package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/members"
	"troupe/rng"
)

// Ensemble is linear ensemble sampling, Algorithm 1 (alg:es):
//
//	θ_t = θ̂_{t−1} + r_{t−1} ξ_t θ̃_{t−1}^{J_t},  X_t ∈ argmax ⟨x, θ_t⟩,
//	S_t^j = S_{t−1}^j + U_t^j X_t,  θ̃_t^j = V_t⁻¹S_t^j,
//
// with J_t uniform on the m members and ξ_t a fair sign (or always +1). Only S is stored for the
// members (see package internal/members for how); one is solved when it is drawn. With select = "max" the action
// maximises over all models instead (rem:max-over-ensemble); reference combines several members
// (see referenceNames).
//
// Cost of a round: Select d² and one call of the oracle (max: m·d² and 2m calls), Update 3d² + m·d
// and m random words, or less where only some members are ever drawn. The state is d² + m·d
// numbers. Its law is exact: a count over 2m.
type Ensemble struct {
	opts      EnsembleOptions
	ridge     *linalg.Ridge
	radius    radius
	engine    engine     // S
	reference *reference // nil: coordinate, one member at a time
	shortlist *shortlist // the best arms of all members at once; nil where the engine does not keep them all
	sums      []float64  // what Sums returned since the last Update, or nil

	draws             rng.Rows  // J_t and ξ_t
	sum               []float64 // S^j of the member at hand
	mixed             []float64 // Σ w_j S^j, for reference
	member, theta     []float64 // V⁻¹ of one of them, and the model
	best, challenging bandit.Action
	read              [][]float64 // scratch of Restore
	few               []string    `horizon:"-"` // what thm:few says of these options
}

// NewEnsemble returns the policy before round 1. The error names the option that is wrong.
func NewEnsemble(o EnsembleOptions, p Problem) (*Ensemble, error) {
	plan, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	d := p.Dim
	e := &Ensemble{
		opts: plan.opts, ridge: linalg.NewRidge(d, plan.opts.Lambda), radius: plan.radius, reference: plan.reference,
		sum: make([]float64, d), mixed: make([]float64, d), member: make([]float64, d),
		theta: make([]float64, d, linalg.Padded(d)),
	}
	if o := plan.opts; o.Scale.Kind == "constant" && !o.Growing {
		e.few = fewWarning(p, plan.frozen(p))
	}
	if plan.engine == exactLawName {
		e.engine = newExactLaw(plan, p, e.ridge, &e.draws)
		return e, nil
	}
	kept := newAccumulated(members.Config{
		Dim: d, Members: plan.opts.M, Horizon: p.Horizon, Engine: plan.engine,
		Law: plan.law.law, Joint: plan.law.joint, First: plan.first,
	}, e.ridge)
	e.engine = kept
	e.shortlist = &shortlist{e: e, kept: kept}
	return e, nil
}

// Options returns the configuration with every default filled in.
func (e *Ensemble) Options() EnsembleOptions { return e.opts }

// Ridge returns the state of the regression: V_t, θ̂_t. It belongs to the policy.
func (e *Ensemble) Ridge() Regression { return e.ridge }

// Members returns m_t, the number of members of the coming round.
func (e *Ensemble) Members() int { return e.engine.members() }

// Engine returns the name of the engine that keeps S now: eager, blocked, lazy or exact-law. The choice
// "auto" may turn from lazy to blocked on the way.
func (e *Ensemble) Engine() string { return e.engine.name() }

// Sums returns a copy of S_t, m×d, row j the sum of member j+1 of the paper. Until the next Update it
// is the same copy.
func (e *Ensemble) Sums() []float64 {
	if e.sums == nil {
		d := e.ridge.Dim()
		e.sums = make([]float64, e.Members()*d)
		e.engine.settle()
		for j := range e.Members() {
			e.engine.load(e.sums[j*d:j*d+d], j)
		}
	}
	return e.sums
}

// Scale returns r_t, the scale that the next Select uses.
func (e *Ensemble) Scale() float64 {
	if e.radius.coef == 0 {
		return e.radius.fixed // no logarithm
	}
	return e.radius.at(e.ridge.LogDetRatio())
}

// Models returns the number of models that take part: 2m, or m without symmetrisation.
func (e *Ensemble) Models() int {
	return e.signs() * e.Members()
}

// signs returns how many signs a member takes part with.
func (e *Ensemble) signs() int {
	if e.opts.OneSided {
		return 1
	}
	return 2
}

// Model stores θ̂ + r ξ θ̃^j in dst, 0 ≤ j < m, sign ξ = ±1. Cost d².
func (e *Ensemble) Model(dst []float64, j int, sign float64) {
	e.model(j, sign*e.Scale())
	copy(dst, e.theta)
}

// model stores θ̂ + c·θ̃^j in e.theta.
func (e *Ensemble) model(j int, c float64) {
	s, step := e.engine.view(j)
	e.ridge.SolveShift(e.theta, s, step, c)
}

// shift stores θ̂ + c·member in dst, with the operations of SolveShift.
func (e *Ensemble) shift(dst []float64, c float64) {
	hat := e.ridge.Theta()
	for i, v := range e.member {
		dst[i] = math.FMA(c, v, hat[i])
	}
}

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source; a reference law has
// its own.
func (e *Ensemble) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := checkDim(set, e.ridge.Dim()); err != nil {
		return err
	}
	if e.opts.Init == priorSpan {
		if _, ok := set.(bandit.UnitBall); !ok {
			return fmt.Errorf("policy: ensemble: init = %q is for the unit ball, whose law does not change under rotations, this is %s: %w",
				priorSpan, described(set), bandit.ErrUnsupported)
		}
	}
	if e.opts.Select == "max" || e.reference != nil {
		if err := checkNumbers(set); err != nil {
			return err
		}
		if e.reference != nil {
			return e.selectMixed(dst, set, draw)
		}
		return e.maximise(dst, set)
	}
	j, sign := e.draws.IntnSign(draw, e.Members())
	if e.opts.OneSided {
		sign = 1
	}
	s, step := e.engine.draw(draw, j)
	e.ridge.SolveShift(e.theta, s, step, sign*e.Scale())
	_, err := set.ArgMax(dst, e.theta)
	return err
}

// maximise stores in dst the best action of the best model; the first of equal models wins.
func (e *Ensemble) maximise(dst *bandit.Action, set bandit.ActionSet) error {
	if f, ok := e.shortlist.takes(set); ok {
		return e.shortlist.maximise(dst, f)
	}
	top := math.Inf(-1)
	err := e.each(func(int, float64) error {
		v, err := set.ArgMax(&e.challenging, e.theta)
		if err == nil && v > top {
			top = v
			e.best, e.challenging = e.challenging, e.best
		}
		return err
	})
	if err != nil {
		return err
	}
	dst.Set(e.best.X, e.best.Index)
	return nil
}

// each calls f for every model (j, ξ), the model itself in e.theta, until f fails.
func (e *Ensemble) each(f func(j int, sign float64) error) error {
	r := e.Scale()
	e.engine.settle()
	for j := range e.Members() {
		e.engine.load(e.sum, j)
		e.ridge.Solve(e.member, e.sum)
		e.shift(e.theta, r)
		if err := f(j, 1); err != nil {
			return err
		}
		if !e.opts.OneSided {
			e.shift(e.theta, -r)
			if err := f(j, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// Prob implements bandit.Prober: the share of the models that choose each action, a count over
// Models(). With select = "max" the one action has probability 1; with a reference law it is a count
// over that law's models, or refused where they cannot be counted.
func (e *Ensemble) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if err := checkSet(set, e.ridge.Dim()); err != nil {
		return err
	}
	if e.opts.Select == "max" {
		return certain(dst, set, e.maximise)
	}
	if e.reference != nil {
		return e.probMixed(dst, set)
	}
	if f, ok := e.shortlist.takes(set); ok {
		return e.shortlist.count(dst, f)
	}
	return count(dst, set, uint64(e.Models()), func(add func(theta []float64) error) error {
		return e.each(func(int, float64) error { return add(e.theta) })
	})
}

// Update implements bandit.Policy: the targets U_t^j come from the column layout of the source.
func (e *Ensemble) Update(a bandit.Action, y float64, draw rng.Source) error {
	if len(a.X) != e.ridge.Dim() || a.At != nil {
		return checkAction(a, y, e.ridge.Dim())
	}
	gain, ok := e.engine.update(a.X, y, draw)
	if !ok {
		if err := checkAction(a, y, e.ridge.Dim()); err != nil {
			return err
		}
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	if e.shortlist != nil {
		e.shortlist.update(a, gain, draw)
	}
	e.sums = nil
	return nil
}

// Warnings implements bandit.Warner.
func (e *Ensemble) Warnings(set bandit.ActionSet) []string {
	m := e.opts.M
	if e.opts.Growing {
		m = math.MaxInt
	}
	if e.opts.Init == priorSpan { // chosen to play in a span, without rounding
		return e.few
	}
	return append(spanWarning(set, m, e.ridge.Dim(), e.opts.Init), e.few...)
}

// spanWarning speaks of the trap of accumulated ensembles: on the unit ball the actions
// of m < d members stay in the span of the initial vectors.
func spanWarning(set bandit.ActionSet, m, d int, init string) []string {
	if !spanOnly(set, m, d, init) {
		return nil
	}
	why := fmt.Sprintf("m = %d members in dimension d = %d", m, d)
	if init == "none" {
		why = "members that start at 0"
	}
	return []string{fmt.Sprintf("%s explore only the span of their initial vectors on the unit ball: "+
		"regret grows linearly, and what a run shows is rounding; take m ≥ 2d = %d and a random init", why, 2*d)}
}

// AppendSnapshot implements bandit.Snapshotter. The bytes do not depend on the engine, except that
// exact-law has a kind of its own, with the members that were ever drawn.
func (e *Ensemble) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, e.engine.kind(), append(e.ridge.State(), e.engine.state()...)), nil
}

// SnapshotCost implements bandit.Weighed: a lazy engine brings all members up to date for a snapshot.
func (e *Ensemble) SnapshotCost() (bytes, work int) {
	numbers, work := e.engine.cost()
	lengths := append(e.ridge.StateLengths(), e.engine.lengths()...)
	for _, n := range e.ridge.StateLengths() {
		numbers += n
	}
	return snapshotSize(e.engine.kind(), len(lengths), numbers), work
}

// Restore implements bandit.Snapshotter.
func (e *Ensemble) Restore(b []byte) error {
	lengths := e.ridge.StateLengths()
	v, err := readInto(e.read, b, e.engine.kind(), append(lengths, e.engine.lengths()...))
	if err != nil {
		return err
	}
	e.read = v // the server restores its workers after every batch
	if err := e.engine.check(v[len(lengths):]); err != nil {
		return err
	}
	e.ridge.Restore(v)
	e.engine.restore(v[len(lengths):])
	e.sums = nil
	return nil
}

// DrawnMember implements bandit.MemberDrawer. Where a combination of members plays, none is drawn.
func (e *Ensemble) DrawnMember(draw rng.Source) (j int, xi float64) {
	if e.opts.Select != "random" || e.opts.Reference != "coordinate" {
		return 0, 0
	}
	return drawMember(draw, e.Members(), !e.opts.OneSided)
}

// View implements bandit.Viewer.
func (e *Ensemble) View(dst *bandit.View, _ uint64) bool {
	*dst = bandit.View{M: e.Members(), Signs: bandit.SignsOf(!e.opts.OneSided), Scale: constantly(e.Scale()),
		Model: e.Model, Mixed: e.opts.Reference != "coordinate"}
	return true
}

// Additive implements bandit.Additive.
func (e *Ensemble) Additive() error { return nil }
