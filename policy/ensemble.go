package policy

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// EnsembleOptions configures linear ensemble sampling. Zero values take the preset's choice.
type EnsembleOptions struct {
	Preset    string  `key:"preset" doc:"practical, or paper: the theorem's λ, m and r_t" default:"practical"`
	M         int     `key:"m" doc:"ensemble size; grow: m_t = ⌈c·d·log t⌉, see grow" default:"max(16, 2d); theorem's m" word:"grow=-9223372036854775808"`
	Grow      float64 `key:"grow" doc:"c of m = \"grow\"" default:"1"`
	Lambda    float64 `key:"lambda" doc:"ridge parameter λ" default:"1; 5"`
	Delta     float64 `key:"delta" doc:"confidence level δ" default:"0.1"`
	Scale     Scale   `key:"scale" doc:"perturbation scale r_t" default:"constant σ/sd(U); 7β_t"`
	Targets   string  `key:"targets" doc:"law of U: uniform, gaussian, rademacher; sphere, coordinate for all members together" default:"uniform"`
	Init      string  `key:"init" doc:"S_0: corrected, printed, matched, prior, none" default:"matched; corrected"`
	Select    string  `key:"select" doc:"random member, or max over the ensemble" default:"random"`
	Symmetric bool    `key:"symmetric" doc:"draw a sign too, so that 2m models take part"`
	Reference string  `key:"reference" doc:"how members are combined: coordinate (one of them), pair, signs, gaussian, sphere" default:"coordinate"`
	Engine    string  `key:"engine" doc:"how S is kept, the same numbers whichever: auto, eager, blocked, lazy; other numbers of the same law, at a cost that m does not enter: exact-law" default:"auto"`
}

// Growing is the M of an ensemble that grows, m_t = max(1, ⌈c·d·log t⌉) in round t: no horizon needs to
// be known. It has Gaussian targets and the engine exact-law, which draws a new member from the state
// and not from the history.
const Growing = math.MinInt

// Doc implements spec.Documented.
func (*EnsembleOptions) Doc() string { return "linear ensemble sampling (alg:es)" }

// New implements Options.
func (o *EnsembleOptions) New(p Problem) (bandit.Policy, error) { return NewEnsemble(*o, p) }

// TargetLaw is the law of the perturbation targets U_t^j: mean 0, variance Var.
type TargetLaw struct {
	Name string
	Var  float64
	Draw func(word uint32) float64
	law  rng.Law

	joint func(u []float64, draw rng.Source) // instead of Draw and law: all members together
}

// TargetLaws are the laws a spec can name. The paper takes U uniform on [−1, 1], whose variance is
// 1/3 (claim:alpha-non-neg prints 2/3; see docs/design/paper.md).
var TargetLaws = []TargetLaw{
	{Name: "uniform", Var: 1.0 / 3, Draw: rng.UniformWord, law: rng.UniformLaw},
	{Name: "gaussian", Var: 1, Draw: rng.NormalWord, law: rng.NormalLaw},
	{Name: "rademacher", Var: 1, Draw: rng.SignWord, law: rng.SignLaw},
}

func targetLaw(name string) (TargetLaw, error) {
	var names []string
	for _, l := range TargetLaws {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return TargetLaw{}, fmt.Errorf("targets is %q%s", name, spec.Suggest(name, names))
}

var initNames = []string{"corrected", "printed", "matched", "prior", "none"}

// initial returns the function that draws S_0^j, from round j of the stream.
//
//	corrected  uniform on √(λd)·𝕊^{d−1}: Cov(S_0) = λI = V_0, what the proofs need
//	printed    uniform on λ√d·𝕊^{d−1}, as alg:es prints it; lem:initialisation is false for it
//	matched    uniform on √(λd·Var U)·𝕊^{d−1}: the stationary law of the recursion
//	prior      N(0, λI): a Gaussian prior N(0, λ⁻¹I) on each member
//	none       0
func initial(kind string, d int, lambda, variance float64, init rng.Stream) (func(row []float64, j int), error) {
	var size float64
	switch kind {
	case "corrected":
		size = math.Sqrt(lambda * float64(d))
	case "printed":
		size = lambda * math.Sqrt(float64(d))
	case "matched":
		size = math.Sqrt(lambda * float64(d) * variance)
	case "prior":
		size = math.Sqrt(lambda)
	case "none":
		return func(row []float64, _ int) { clear(row) }, nil
	default:
		return nil, fmt.Errorf("init is %q%s", kind, spec.Suggest(kind, initNames))
	}
	return func(row []float64, j int) {
		if kind == "prior" {
			init.Round(uint64(j)).Normals(row, 0)
		} else {
			init.Round(uint64(j)).Sphere(row, 0)
		}
		for i := range row {
			row[i] *= size
		}
	}, nil
}

// resolve fills in the preset's choices and checks everything.
func (o EnsembleOptions) resolve(p Problem) (EnsembleOptions, TargetLaw, error) {
	if err := p.check(); err != nil {
		return o, TargetLaw{}, err
	}
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Preset, "practical")
	if o.M == Growing {
		set(&o.Targets, "gaussian")
		set(&o.Init, "prior")
		if o.Grow == 0 {
			o.Grow = 1
		}
		if err := positive("grow", o.Grow); err != nil {
			return o, TargetLaw{}, err
		}
		if o.Engine == "" || o.Engine == "auto" {
			o.Engine = exactLaw
		}
		if o.Engine != exactLaw {
			return o, TargetLaw{}, fmt.Errorf("engine is %q, but m = \"grow\" needs %q", o.Engine, exactLaw)
		}
	} else if o.Grow != 0 {
		return o, TargetLaw{}, fmt.Errorf("grow is %v, but m is not \"grow\"", o.Grow)
	}
	set(&o.Targets, "uniform")
	set(&o.Select, "random")
	set(&o.Reference, "coordinate")
	law, err := ensembleLaw(o.Targets)
	if err != nil {
		return o, law, err
	}
	if o.Delta == 0 {
		o.Delta = 0.1
	}
	if err := level("delta", o.Delta); err != nil {
		return o, law, err
	}
	switch o.Preset {
	case "practical":
		if o.Lambda == 0 {
			o.Lambda = 1
		}
		if o.M == 0 {
			o.M = max(16, 2*p.Dim)
		}
		if o.Scale.Kind == "" {
			o.Scale = Constant(p.sigma() / math.Sqrt(law.Var))
		}
		set(&o.Init, "matched")
	case "paper":
		if o.Lambda == 0 {
			o.Lambda = 5
		}
		if o.M == 0 {
			if p.Horizon == 0 {
				return o, law, fmt.Errorf("preset is %q, which needs a known horizon", o.Preset)
			}
			if o.M, err = theory.Members(p.Dim, p.Horizon, o.Lambda, o.Delta*p.share()); err != nil {
				return o, law, err
			}
		}
		if o.Scale.Kind == "" {
			o.Scale = Scale{"beta", 7}
		}
		set(&o.Init, "corrected")
	default:
		return o, law, fmt.Errorf("preset is %q%s", o.Preset, spec.Suggest(o.Preset, []string{"practical", "paper"}))
	}
	if o.Select != "random" && o.Select != "max" {
		return o, law, fmt.Errorf("select is %q%s", o.Select, spec.Suggest(o.Select, []string{"random", "max"}))
	}
	if o.Engine == exactLaw {
		switch {
		case law.Name != "gaussian":
			return o, law, fmt.Errorf("targets is %q, but engine = %q needs \"gaussian\"", o.Targets, exactLaw)
		case o.Select != "random" || o.Reference != "coordinate":
			return o, law, fmt.Errorf("engine is %q, which looks at one member in a round: it needs select = \"random\" and reference = \"coordinate\"", exactLaw)
		}
	}
	if o.M != Growing {
		if err := checkMembers(o.M, p.Dim); err != nil {
			return o, law, err
		}
	}
	return o, law, positive("lambda", o.Lambda)
}

// Ensemble is linear ensemble sampling, Algorithm 1 (alg:es):
//
//	θ_t = θ̂_{t−1} + r_{t−1} ξ_t θ̃_{t−1}^{J_t},  X_t ∈ argmax ⟨x, θ_t⟩,
//	S_t^j = S_{t−1}^j + U_t^j X_t,  θ̃_t^j = V_t⁻¹S_t^j,
//
// with J_t uniform on the m members and ξ_t a fair sign (or always +1). Only S is stored for the
// members (see type members for how); one is solved when it is drawn. With select = "max" the action
// maximises over all models instead (rem:max-over-ensemble); reference combines several members
// (see referenceNames).
//
// Cost of a round: Select d² and one call of the oracle (max: m·d² and 2m calls), Update 3d² + m·d
// and m random words, or less where only some members are ever drawn. The state is d² + m·d
// numbers. Its law is exact: a count over 2m.
type Ensemble struct {
	opts   EnsembleOptions
	law    TargetLaw
	ridge  *linalg.Ridge
	radius radius
	m      int
	s      *members  // nil with a bridge
	bridge *bridge   // engine exact-law, otherwise nil
	sums   []float64 // what Sums returned since the last Update, or nil

	flat []float64   // scratch of AppendSnapshot: S row by row
	read [][]float64 // scratch of Restore

	reference *reference // nil: coordinate, one member at a time

	draws             rng.Rows
	sum               []float64 // S^j of the member at hand
	mixed             []float64 // Σ w_j S^j, for reference
	member, theta     []float64
	best, challenging bandit.Action
	scores            scores // of all models on a finite set, for Prob and select = "max"
}

// NewEnsemble returns the policy before round 1. The error names the option that is wrong.
func NewEnsemble(o EnsembleOptions, p Problem) (*Ensemble, error) {
	o, law, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	r, err := o.Scale.resolve(p, o.Lambda, o.Delta)
	if err != nil {
		return nil, err
	}
	d := p.Dim
	first, err := initial(o.Init, d, o.Lambda, law.Var, p.Init)
	if err != nil {
		return nil, err
	}
	ref, err := newReference(o)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{
		opts: o, law: law, ridge: linalg.NewRidge(d, o.Lambda), radius: r, m: o.M, reference: ref,
		sum: make([]float64, d), mixed: make([]float64, d), member: make([]float64, d), theta: make([]float64, d, linalg.Padded(d)),
	}
	if o.Engine == exactLaw {
		e.bridge = newBridge(d, max(o.M, 0), o.Grow, o.Lambda, first, p.Init, e.ridge)
		return e, nil
	}
	engine, err := o.engine(law, d)
	if err != nil {
		return nil, err
	}
	e.s, err = newMembers(d, o.M, law.law, p.Horizon, engine, first)
	if err != nil {
		return nil, err
	}
	e.s.joint = law.joint
	return e, nil
}

// Options returns the configuration with every default filled in.
func (e *Ensemble) Options() EnsembleOptions { return e.opts }

// Ridge returns the state of the regression: V_t, θ̂_t. It belongs to the policy.
func (e *Ensemble) Ridge() *linalg.Ridge { return e.ridge }

// Members returns m_t, the number of members of the coming round.
func (e *Ensemble) Members() int {
	if e.bridge != nil {
		return e.bridge.members()
	}
	return e.m
}

// Engine returns the name of the engine that keeps S now: eager, blocked, lazy or exact-law. The choice
// "auto" may turn from lazy to blocked on the way.
func (e *Ensemble) Engine() string {
	if e.bridge != nil {
		return exactLaw
	}
	return [...]string{now: eager, inBlocks: blocked, onDemand: lazy}[e.s.mode]
}

// Sums returns a copy of S_t, m×d, row j the sum of member j+1 of the paper. Until the next Update it
// is the same copy.
func (e *Ensemble) Sums() []float64 {
	if e.sums == nil {
		d := e.ridge.Dim()
		e.sums = make([]float64, e.Members()*d)
		if e.bridge == nil {
			e.s.sums(e.sums)
		} else {
			for j := range e.Members() {
				copy(e.sums[j*d:], e.bridge.load(j))
			}
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
	if e.opts.Symmetric {
		return 2 * e.Members()
	}
	return e.Members()
}

// Model stores θ̂ + r ξ θ̃^j in dst, 0 ≤ j < m, sign ξ = ±1. Cost d².
func (e *Ensemble) Model(dst []float64, j int, sign float64) {
	e.model(j, sign*e.Scale())
	copy(dst, e.theta)
}

// model stores θ̂ + c·θ̃^j in e.theta.
func (e *Ensemble) model(j int, c float64) {
	if e.bridge != nil {
		e.ridge.SolveShift(e.theta, e.bridge.load(j), 1, c)
		return
	}
	s, step := e.s.view(e.sum, j)
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
	if err := checkSet(set, e.ridge.Dim()); err != nil {
		return err
	}
	if e.opts.Select == "max" {
		return e.maximise(dst, set)
	}
	if e.reference != nil {
		return e.selectMixed(dst, set, draw)
	}
	j, sign := e.draws.IntnSign(draw, e.Members())
	if !e.opts.Symmetric {
		sign = 1
	}
	if e.bridge == nil && e.s.mode == onDemand {
		e.s.expect(draw)
	}
	e.model(j, sign*e.Scale())
	if e.bridge != nil {
		next, _ := e.draws.IntnSign(draw.Later(1), e.Members())
		e.bridge.expect(draw, next)
	}
	_, err := set.ArgMax(dst, e.theta)
	return err
}

// maximise stores in dst the best action of the best model; the first of equal models wins.
func (e *Ensemble) maximise(dst *bandit.Action, set bandit.ActionSet) error {
	if f, ok := set.(bandit.Finite); ok && e.bridge == nil && f.Len() <= scoresArms {
		return e.maxFinite(dst, f)
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
	if e.bridge == nil {
		e.s.settle()
	}
	for j := range e.Members() {
		if e.bridge == nil {
			e.s.load(e.sum, j)
		} else {
			copy(e.sum, e.bridge.load(j))
		}
		e.ridge.Solve(e.member, e.sum)
		e.shift(e.theta, r)
		if err := f(j, 1); err != nil {
			return err
		}
		if e.opts.Symmetric {
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
	if f, ok := set.(bandit.Finite); ok && e.bridge == nil && f.Len() <= scoresArms {
		return e.probFinite(dst, f)
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
	if e.bridge != nil {
		e.bridge.look(draw)
	}
	gain, ok := e.ridge.Update(a.X, y)
	if !ok {
		if err := checkAction(a, y, e.ridge.Dim()); err != nil {
			return err
		}
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	if e.bridge != nil {
		e.bridge.fix(a.X)
	} else {
		e.s.add(a.X, draw)
		if e.scores.valid {
			e.scores.follow(e, a, gain, draw)
		}
	}
	e.sums = nil
	return nil
}

// Warnings implements bandit.Warner.
func (e *Ensemble) Warnings(set bandit.ActionSet) []string {
	m := e.m
	if m == Growing {
		m = math.MaxInt
	}
	return spanWarning(set, m, e.ridge.Dim(), e.opts.Init)
}

// spanWarning speaks of the trap of accumulated ensembles: on a set that is not finite the actions
// of m < d members stay in the span of the initial vectors.
func spanWarning(set bandit.ActionSet, m, d int, init string) []string {
	if _, finite := set.(bandit.Finite); finite || (m >= d && init != "none") {
		return nil
	}
	why := fmt.Sprintf("m = %d members in dimension d = %d", m, d)
	if init == "none" {
		why = "members that start at 0"
	}
	return []string{fmt.Sprintf("%s explore only the span of their initial vectors on a set that is not finite: "+
		"regret grows linearly, and what a run shows is rounding; take m ≥ 2d = %d and a random init", why, 2*d)}
}

// AppendSnapshot implements bandit.Snapshotter. The bytes do not depend on the engine, except that
// exact-law has a kind of its own, with the members that were ever drawn.
func (e *Ensemble) AppendSnapshot(b []byte) ([]byte, error) {
	if e.bridge != nil {
		return appendSnapshot(b, "ensemble-exact-law", append(e.ridge.State(), e.bridge.state()...)), nil
	}
	e.flat = slices.Grow(e.flat[:0], e.m*e.ridge.Dim())[:e.m*e.ridge.Dim()]
	e.s.sums(e.flat)
	return appendSnapshot(b, "ensemble", append(e.ridge.State(), e.flat)), nil
}

// Restore implements bandit.Snapshotter.
func (e *Ensemble) Restore(b []byte) error {
	lengths := e.ridge.StateLengths()
	if e.bridge != nil {
		v, err := readSnapshot(b, "ensemble-exact-law", append(lengths, -1, -1, -1))
		if err != nil {
			return err
		}
		if err := e.bridge.restore(v[len(lengths):]); err != nil {
			return err
		}
		e.ridge.Restore(v)
		e.bridge.resume()
		e.sums = nil
		return nil
	}
	v, err := readInto(e.read, b, "ensemble", append(lengths, e.m*e.ridge.Dim()))
	if err != nil {
		return err
	}
	e.read = v // the server restores its workers after every batch
	e.ridge.Restore(v)
	e.s.set(v[len(v)-1])
	e.sums = nil
	return nil
}

// certain writes the law of a policy whose next action is not random.
func certain(dst *bandit.Law, set bandit.ActionSet, choose func(*bandit.Action, bandit.ActionSet) error) error {
	var a bandit.Action
	if err := choose(&a, set); err != nil {
		return err
	}
	if f, ok := set.(bandit.Finite); ok {
		zeros(dst, f.Len())
		dst.Atoms[a.Index].Count = 1
	} else {
		dst.Atoms = append(dst.Atoms[:0], bandit.Atom{Action: a, Count: 1})
	}
	share(dst, 1)
	return nil
}

// count writes the law of a policy that acts greedily for one of total equally likely parameters;
// models calls add with each of them.
func count(dst *bandit.Law, set bandit.ActionSet, total uint64, models func(add func(theta []float64) error) error) error {
	if f, ok := set.(bandit.Finite); ok {
		zeros(dst, f.Len())
		var a bandit.Action
		err := models(func(theta []float64) error {
			if _, err := set.ArgMax(&a, theta); err != nil {
				return err
			}
			dst.Atoms[a.Index].Count++
			return nil
		})
		share(dst, total)
		return err
	}
	dst.Atoms = dst.Atoms[:0]
	err := models(func(theta []float64) error {
		var a bandit.Action
		if _, err := set.ArgMax(&a, theta); err != nil {
			return err
		}
		dst.Atoms = append(dst.Atoms, bandit.Atom{Action: a, Count: 1})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(dst.Atoms, func(a, b bandit.Atom) int { return slices.Compare(a.X, b.X) })
	out := dst.Atoms[:0]
	for _, a := range dst.Atoms {
		if n := len(out); n > 0 && slices.Equal(out[n-1].X, a.X) {
			out[n-1].Count += a.Count
		} else {
			out = append(out, a)
		}
	}
	dst.Atoms = out
	share(dst, total)
	return nil
}

// zeros makes room for k arms of a finite set with count 0.
func zeros(dst *bandit.Law, k int) {
	if cap(dst.Atoms) < k {
		dst.Atoms = make([]bandit.Atom, k)
	}
	dst.Atoms = dst.Atoms[:k]
	for i := range dst.Atoms {
		dst.Atoms[i].X = dst.Atoms[i].X[:0]
		dst.Atoms[i].Index, dst.Atoms[i].Count, dst.Atoms[i].P = i, 0, 0
	}
}

// share turns counts into probabilities.
func share(dst *bandit.Law, total uint64) {
	dst.Total = total
	for i := range dst.Atoms {
		dst.Atoms[i].P = float64(dst.Atoms[i].Count) / float64(total)
	}
}
