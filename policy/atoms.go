package policy

import (
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// AtomsOptions configures an ensemble whose members are computed instead of kept.
type AtomsOptions struct {
	Preset   string   `key:"preset" doc:"practical, or theorem: m and r_t of docs/papers/atoms.md" default:"practical"`
	M        int      `key:"m" doc:"number of members" default:"8; theorem: theorem's m"`
	Key      string   `key:"key" doc:"when members are redrawn: decision (for each), epoch (det V grew by rho), fixed (never), round (after each update)" default:"decision"`
	Rho      float64  `key:"rho" doc:"growth of det V that ends an epoch" default:"2"`
	Lambda   float64  `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta    float64  `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	Scale    Scale    `key:"scale" doc:"perturbation scale r_t" default:"constant σ; theorem: 1.35β_t"`
	Discount float64  `key:"discount" doc:"γ in (0, 1]: an event counts γ times less with each later one" default:"1"`
	Change   string   `key:"change" doc:"restarts: models begun at different times, weighted by what they predicted, notice a change; or none" default:"none"`
	HalfLife HalfLife `key:"half_life" doc:"with restarts: the number of later events after which an event counts half, or a time such as 7d; 0: events keep their weight while the world stays"`
	OneSided bool     `key:"symmetric" doc:"draw a sign too, so that 2m models take part" not:"true"`
}

// Doc implements spec.Documented.
func (*AtomsOptions) Doc() string {
	return "members computed from V and a counter, redrawn for each decision (docs/papers/atoms.md)"
}

// New implements Options.
func (o *AtomsOptions) New(p Problem) (bandit.Policy, error) {
	one, err := NewAtoms(*o, p)
	if err != nil || one.opts.Change != restarts {
		return one, err
	}
	return newRestarts("atoms", one.opts, o.HalfLife, p, func() (hypothesis, error) { return NewAtoms(*o, p) })
}

// resolve fills in the preset's choices.
func (o AtomsOptions) resolve(p Problem) (AtomsOptions, error) {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Preset, "practical")
	set(&o.Key, theory.DecisionKey)
	if o.Rho == 0 {
		o.Rho = 2
	}
	if o.Lambda == 0 {
		o.Lambda = 1
	}
	if o.Delta == 0 {
		o.Delta = 0.1
	}
	fill(&o.Discount, 1)
	if err := level("discount", o.Discount); err != nil {
		return o, err
	}
	if o.Discount < 1 && o.Preset == "theorem" {
		return o, spec.Refuse("discount", o.Discount,
			"but preset = \"theorem\" is about a parameter that does not change")
	}
	c, err := changeOptions{o.Change, o.HalfLife, o.Discount}.resolve(p.Timed)
	if err != nil {
		return o, err
	}
	if o.Change = c.change; o.Change == restarts && o.Preset == "theorem" {
		return o, spec.Refuse("change", o.Change, "but preset = \"theorem\" is about a parameter that does not change")
	}
	if err := checkKey(o.Key); err != nil {
		return o, err
	}
	if !(o.Rho > 1) || math.IsInf(o.Rho, 0) {
		return o, spec.Refuse("rho", o.Rho, "expected a number above 1")
	}
	switch o.Preset {
	case "practical":
		if o.M == 0 {
			o.M = 8
		}
	case "theorem":
		if p.Horizon == 0 {
			return o, spec.Refuse("preset", o.Preset, "which needs a known horizon")
		}
		a, err := o.theorem(p)
		if err != nil {
			return o, err
		}
		if o.M == 0 {
			o.M = int(a.Members)
		}
		if o.Scale.Kind == "" {
			o.Scale = betaScale(a.Gamma)
		}
	default:
		return o, oneOf("preset", o.Preset, "practical", "theorem")
	}
	return o, checkMembers(o.M, p.Dim)
}

// theorem returns the parameters of thm:atoms for filled-in options.
func (o AtomsOptions) theorem(p Problem) (theory.Atoms, error) {
	return theory.AtomsFor(
		theory.Setting{D: p.Dim, T: float64(p.Horizon), Lambda: o.Lambda, Delta: o.Delta * p.share()},
		theory.AtomsChoice{Key: o.Key, Rho: o.Rho})
}

// checkKey returns an error unless key is one of those of Atoms.
func checkKey(key string) error {
	return oneOf("key", key, theory.DecisionKey, theory.EpochKey, theory.FixedKey, theory.RoundKey)
}

// Atoms is an ensemble whose members are functions of (V, b) and a key:
//
//	θ_t = θ̂_{t−1} + r_{t−1} ξ_t L_{t−1}⁻ᵀ g(e, J_t),  X_t ∈ argmax ⟨x, θ_t⟩,  V_{t−1} = L_{t−1}L_{t−1}ᵀ,
//
// with J_t uniform on the m members, ξ_t a fair sign (or always +1), and g(e, j) ~ N(0, I) computed
// from the init stream by the key e and the member's number j. The key is
//
//	decision  the number of the decision's source, draw.At(): m fresh members for each decision,
//	          also between two updates. The law of all decisions together is that of Thompson
//	          sampling, however late the rewards come; m is the resolution of a recorded propensity
//	epoch     ⌊log(det V_{t−1}/λ^d)/log ρ⌋: m fresh members each time det V has grown by ρ. Few
//	          members explore less than Thompson sampling on few arms, and more of them are needed
//	          the longer it runs
//	fixed     0 for ever: the cleanest theorem, but it needs m ≥ 2d in practice
//	round     the number of updates: m fresh members after each update. Thompson sampling where an
//	          update follows each decision; decisions between two updates share their members
//
// With decision and round the law of Prob is a conditional propensity: a count given the m
// candidates, which the stream and the log determine.
//
// With discount = γ < 1 the regression forgets: V_t = γV_{t−1} + (1 − γ)λI + X_tX_tᵀ, b_t = γb_{t−1} + Y_tX_t, so that
// event i has the weight γ^{t−i}; the order of the events matters then, and Merge is refused. An update costs d³.
//
// A bound on the regret with explicit constants and its proof are in docs/papers/atoms.md. Compared with
// Ensemble: nothing is kept for a member, so an update costs d² whatever m is; the state is a sum
// over events, so it merges by adding and a late event gives the same members; members span ℝᵈ
// again in each epoch, so m < d works on every set. What Ensemble has and this has not: it needs no
// square root of V⁻¹, and it is the paper's algorithm.
//
// Cost of a round: Select d²/2 and one call of the oracle, Update 4d², Prob m·d²/2 and K·m·d. The
// state is d(d+1)/2 + d + 1 numbers, beside a cache of m·d.
type Atoms struct {
	atomic
	opts   AtomsOptions
	logRho float64
	g      directions
	member []float64
	least  int // the theorem's m where its preset was asked for
	few    []string
}

// NewAtoms returns the policy before round 1. The error names the option that is wrong.
func NewAtoms(o AtomsOptions, p Problem) (*Atoms, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	o, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	core, err := newAtomic(p, o.M, o.Lambda, o.Delta, o.Scale, !o.OneSided)
	if err != nil {
		return nil, err
	}
	core.discount = o.Discount
	least := 0
	if o.Preset == "theorem" {
		t, err := o.theorem(p)
		if err != nil {
			return nil, err
		}
		least = int(t.Members)
	}
	return &Atoms{
		atomic: core, opts: o, logRho: logs.Log(o.Rho),
		g: newDirections(p.Init, o.M, p.Dim), member: make([]float64, p.Dim), least: least, few: o.few(p),
	}, nil
}

// few returns what thm:few says of these options.
func (o AtomsOptions) few(p Problem) []string {
	draws := float64(o.M)
	switch {
	case o.Key == theory.EpochKey && p.Horizon >= 2:
		// A third of the epochs: 0.0070 of the runs of 8 members are lost where the law has it for 45 (docs/record/stuck.md).
		draws *= math.Max(1, theory.Epochs(float64(p.Horizon), o.Lambda, o.Rho)/3)
	case o.Key != theory.FixedKey:
		return nil // redrawn as often as the arm is looked at
	}
	r := 1.0 // σ, the default
	switch o.Scale.Kind {
	case "constant":
		r = o.Scale.Value / p.sigma()
	case "":
	default:
		return nil
	}
	return fewWarning(p, frozenMembers{r: r, lambda: o.Lambda, draws: draws, instead: fmt.Sprintf("take key = %q", theory.DecisionKey)})
}

// Options returns the configuration with every default filled in.
func (a *Atoms) Options() AtomsOptions { return a.opts }

// Key returns the key e of a decision in the present state. decision is the number of its source,
// draw.At(); only key = "decision" depends on it.
func (a *Atoms) Key(decision uint64) uint64 {
	return keyAt(a.opts.Key, decision, a.root.Len(), a.root.LogDetRatio(), a.logRho)
}

// keyAt returns the key e of a decision after n updates.
func keyAt(kind string, decision, n uint64, logDet, logRho float64) uint64 {
	switch kind {
	case theory.DecisionKey:
		return decision
	case theory.FixedKey:
		return 0
	case theory.RoundKey:
		return n
	}
	return epochOf(logDet, logRho)
}

// epochOf returns ⌊x(1 + ε) + ε⌋ for x = logDet/logRho ≥ 0, ε = 10⁻⁹. Without ε a determinant that is
// a power of ρ, as features that are 0 or 1 make it, would fall into one epoch or the next by the
// rounding errors of log det, which depend on the order of the events.
func epochOf(logDet, logRho float64) uint64 {
	const slack = 1e-9
	x := logDet / logRho
	return uint64(x + float64(slack*(1+x)))
}

// Direction returns g(e, j) for a decision, 0 ≤ j < m. The slice belongs to the policy and is valid
// until the next call of a method.
func (a *Atoms) Direction(decision uint64, j int) []float64 { return a.g.at(a.Key(decision), j) }

// solve stores all members of a decision in block, m×d: row j is L⁻ᵀg(e, j).
func (a *Atoms) solve(block []float64, decision uint64) {
	key, d := a.Key(decision), a.root.Dim()
	for j := range a.m {
		copy(block[j*d:j*d+d], a.g.at(key, j))
	}
	a.root.Factor().SolveLTRows(block)
}

// Model stores θ̂ + r ξ L⁻ᵀg(e, j) of a decision in dst, 0 ≤ j < m, sign ξ = ±1. Cost d²/2.
func (a *Atoms) Model(dst []float64, decision uint64, j int, sign float64) {
	copy(a.member, a.g.at(a.Key(decision), j))
	a.root.Factor().SolveLT(a.member)
	shift(dst, a.root.Theta(), sign*a.Scale(), a.member)
}

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source. With key =
// "decision" the candidates are those of the source's number and come from the init stream.
func (a *Atoms) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return a.choose(dst, set, draw, a.Model)
}

// Update implements bandit.Policy. It draws nothing.
func (a *Atoms) Update(x bandit.Action, y float64, _ rng.Source) error { return a.learn(x, y) }

// reckon implements hypothesis.
func (a *Atoms) reckon(x bandit.Action, y float64, _ rng.Source) (predicted, error) {
	if a.discount > 0 && a.discount < 1 {
		if err := checkAction(x, y, a.root.Dim()); err != nil {
			return predicted{}, err
		}
		s := foretell(a.root, x.X, y)
		return s, a.learn(x, y)
	}
	before := a.root.LogDetRatio()
	if err := checkAction(x, y, a.root.Dim()); err != nil {
		return predicted{}, err
	}
	growth, ok := a.root.UpdateResidual(x.X, y)
	if !ok {
		return predicted{}, fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	return predicted{square: growth, spread: max(0, a.root.LogDetRatio()-before)}, nil
}

// fade implements hypothesis.
func (a *Atoms) fade(gamma float64) bool { return a.root.Fade(gamma) }

// Prob implements bandit.Prober: a count over Models(). With key = "decision" or "round" it is the
// law given the m candidates of this decision.
func (a *Atoms) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	return a.law(dst, set, draw.At(), a.root.Theta(), a.Scale(), a.solve, a.Model)
}

// Merge adds the events that another policy of equal configuration has seen, as if this one had
// seen them too: V and b are sums, and members are functions of them. It returns an error, and
// changes nothing, when the configurations differ. It implements bandit.Merger.
func (a *Atoms) Merge(other bandit.Policy) error {
	o, ok := other.(*Atoms)
	if !ok {
		return fmt.Errorf("policy: merge of atoms with a %T: %w", other, bandit.ErrUnsupported)
	}
	if a.opts.Discount < 1 {
		return fmt.Errorf("policy: merge of atoms with discount = %v: their state depends on the order of the "+
			"events: %w", a.opts.Discount, bandit.ErrUnsupported)
	}
	if a.opts != o.opts || a.root.Dim() != o.root.Dim() || a.g.stream != o.g.stream {
		return errors.New("policy: merge of atoms with different options or different streams")
	}
	return a.merge(o.atomic)
}

// Warnings implements bandit.Warner.
func (a *Atoms) Warnings(set bandit.ActionSet) []string {
	if a.m < a.least {
		return []string{fmt.Sprintf("m = %d is below the %d members that preset = \"theorem\" needs: thm:atoms does "+
			"not cover this run", a.m, a.least)}
	}
	if d := a.root.Dim(); a.opts.Key == theory.FixedKey && a.m < 2*d {
		return []string{fmt.Sprintf("m = %d members in dimension d = %d that are never redrawn leave directions "+
			"unexplored; "+
			"take key = %q, or m ≥ 2d = %d", a.m, d, theory.DecisionKey, 2*d)}
	}
	return a.few
}

// AppendSnapshot implements bandit.Snapshotter.
func (a *Atoms) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "atoms", a.root.State()), nil
}

// Restore implements bandit.Snapshotter.
func (a *Atoms) Restore(b []byte) error {
	v, err := readSnapshot(b, "atoms", lengthsOf(a.root.State()))
	if err != nil {
		return err
	}
	if !a.root.Restore(v) {
		return errors.New("policy: snapshot holds no state of a regression")
	}
	return nil
}

// atomic is what Atoms and Lazy share: the regression in square-root form, the scale, and m members
// that are solved on demand.
type atomic struct {
	models
	root     *linalg.Root
	radius   radius
	discount float64 // γ; 0 or 1: nothing is forgotten
}

func newAtomic(p Problem, m int, lambda, delta float64, scale Scale, symmetric bool) (atomic, error) {
	g, err := newRegression(p, lambda, delta, scale, Constant(p.sigma()))
	if err != nil {
		return atomic{}, err
	}
	return atomic{
		models: newModels(m, p.Dim, symmetric),
		root:   linalg.NewRoot(p.Dim, g.ridge.Lambda()), radius: g.radius,
	}, nil
}

// Root returns the state of the regression: the factor of V_t, θ̂_t. It belongs to the policy.
func (a *atomic) Root() SquareRoot { return a.root }

// Scale returns r_t, the scale that the next Select uses.
func (a *atomic) Scale() float64 { return a.radius.at(a.root.LogDetRatio()) }

// learn updates the regression; a refused update changes nothing.
func (a *atomic) learn(x bandit.Action, y float64) error {
	if err := checkAction(x, y, a.root.Dim()); err != nil {
		return err
	}
	ok := false
	if a.discount > 0 && a.discount < 1 {
		ok = a.root.Forget(a.discount, x.X, y)
	} else {
		ok = a.root.Update(x.X, y)
	}
	if !ok {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	return nil
}

func (a *atomic) merge(o atomic) error {
	if !a.root.Merge(o.root) {
		return fmt.Errorf("policy: merge refused: %w", bandit.ErrNumerical)
	}
	return nil
}

// View implements bandit.Viewer.
func (a *Atoms) View(dst *bandit.View, decision uint64) bool {
	*dst = bandit.View{M: a.m, Signs: bandit.SignsOf(a.symmetric), Scale: constantly(a.Scale()),
		Model: func(theta []float64, j int, xi float64) { a.Model(theta, decision, j, xi) }}
	return true
}

// Redraws implements bandit.Redrawer.
func (a *Atoms) Redraws() bool { return a.opts.Key == theory.DecisionKey }

// Additive implements bandit.Additive.
func (a *Atoms) Additive() error { return forgets(a.opts.Discount) }
