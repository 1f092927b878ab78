package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/members"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// EnsembleOptions configures linear ensemble sampling. The zero value is the default of a spec file; a
// zero field takes what its sentence says, which depends on the preset.
type EnsembleOptions struct {
	// Preset is "practical" (the default), "paper": the λ, m and r_t of the paper's theorem, "janz2026": the ensemble of
	// arXiv 2602.08026, theorem 4.1, with Gaussian targets and prior, without signs, r_t = 40β_t and the m that the lemmas
	// behind it need (theory.Janz2026Direct; 33 to 57 times below the printed one), or "uninflated": models that spread by
	// β_t/√d instead of β_t, r_t = β_t/(√d·sd(U)).
	Preset string `key:"preset" doc:"practical; paper: the theorem's λ, m and r_t; janz2026: Gaussian targets and prior, no signs, r_t = 40β_t, m as its lemmas need (arXiv 2602.08026); uninflated: models spread by β_t/√d" default:"practical"`

	// M is the number of members; 0 means max(16, 2d), or the theorem's m (presets "paper", "janz2026").
	M int `key:"m" doc:"ensemble size; grow: m_t = ⌈c·d·log t⌉, see grow" default:"max(16, 2d); paper: theorem's m; janz2026: that of its lemmas" word:"grow=Growing"`
	// Growing replaces M by m_t = max(1, ⌈Grow·d·log t⌉) members in round t, so that no horizon needs to be
	// known. It has Gaussian targets and the engine exact-law, which draws a new member from the state.
	// A spec says m = "grow".
	Growing bool
	// Grow is the c of a growing ensemble; 0 means 1.
	Grow float64 `key:"grow" doc:"c of m = \"grow\"" default:"1"`

	// Lambda is the ridge parameter λ > 0; 0 means 1, or 5 (preset "paper").
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1; paper: 5"`
	// Delta is the confidence level δ in (0, 1] of β_t and of the theorem's m; 0 means 0.1.
	Delta float64 `key:"delta" doc:"confidence level δ" default:"0.1"`
	// Scale is the perturbation scale r_t; the zero value means the constant σ/sd(U), or 7β_t (preset "paper").
	Scale Scale `key:"scale" doc:"perturbation scale r_t" default:"constant σ/sd(U); paper: 7β_t; janz2026: 40β_t; uninflated: β_t/(√d·sd(U))"`

	// Targets is the law of U_t^j: "uniform" on [−1, 1] (the default), "gaussian", "rademacher", or, for
	// all members together, "sphere" or "coordinate".
	Targets string `key:"targets" doc:"law of U: uniform, gaussian, rademacher; sphere, coordinate for all members together" default:"uniform; janz2026: gaussian"`
	// Init is the law of S_0^j: "corrected", "printed", "matched", "prior" or "none"; "" means "matched", or
	// "corrected" (preset "paper").
	Init string `key:"init" doc:"law of the initial vectors S_0, by length. corrected √(λd), the theorem's; printed λ√d, the paper's slip; matched √(λd·Var U), as long as what is added later; prior Gaussian N(0, λI); none 0. prior-span: prior turned so that m < d members are exactly 0 outside their span, for the ball and a θ* of uniform direction" default:"matched; paper: corrected; janz2026: prior"`

	// Select is "random" for a random member (the default), or "max" for the maximum over the ensemble.
	Select string `key:"select" doc:"random member, or max over the ensemble" default:"random"`
	// OneSided leaves the sign ξ_t out, so that m models take part and not 2m. A spec says symmetric = false.
	OneSided bool `key:"symmetric" doc:"draw a sign too, so that 2m models take part; false in janz2026" not:"true"`
	// Reference is how members are combined: "coordinate" for one of them (the default), "pair", "signs",
	// "gaussian" or "sphere".
	Reference string `key:"combine" once:"reference" doc:"how members are combined: coordinate (one of them), pair, signs, gaussian, sphere" default:"coordinate"`

	// Engine is how S is kept: "auto" (the default), "eager", "blocked" and "lazy" give the same numbers;
	// "exact-law" gives other numbers of the same law, at a cost that does not depend on m.
	Engine string `key:"engine" doc:"how S is kept, the same numbers whichever: auto, eager, blocked, lazy; other numbers of the same law, at a cost that m does not enter: exact-law" default:"auto; janz2026: exact-law"`
}

// Doc implements spec.Documented.
func (*EnsembleOptions) Doc() string { return "linear ensemble sampling (alg:es)" }

// New implements Options.
func (o *EnsembleOptions) New(p Problem) (bandit.Policy, error) { return NewEnsemble(*o, p) }

// The presets of the ensemble; uninflated is also one of Thompson sampling.
const (
	presetPractical  = "practical"
	presetPaper      = "paper"
	presetJanz2026   = "janz2026"
	presetUninflated = "uninflated"
)

// ensemblePlan is what NewEnsemble compiles from options and problem.
type ensemblePlan struct {
	opts      EnsembleOptions // with every default filled in
	law       targetLaw
	radius    radius
	first     func(row []float64, j int) // stores S_0^j
	reference *reference                 // nil: one member at a time
	engine    string                     // how S is kept
}

// resolve fills in the defaults, checks everything and derives the rest. Errors name the option.
func (o EnsembleOptions) resolve(p Problem) (ensemblePlan, error) {
	if err := p.check(); err != nil {
		return ensemblePlan{}, err
	}
	o = o.defaults(p)
	if err := o.check(p); err != nil {
		return ensemblePlan{}, err
	}
	return o.derive(p)
}

// defaults fills in what is not set, apart from the theorem's m, which derive computes.
func (o EnsembleOptions) defaults(p Problem) EnsembleOptions {
	fill(&o.Preset, presetPractical)
	if o.Preset == presetJanz2026 {
		fill(&o.Targets, "gaussian")
		fill(&o.Init, "prior")
		fill(&o.Scale, betaScale(40))
		fill(&o.Engine, exactLawName)
		o.OneSided = true
	}
	if o.Growing {
		fill(&o.Targets, "gaussian")
		fill(&o.Init, "prior")
		fill(&o.Grow, 1)
		if o.Engine == "" || o.Engine == members.Auto {
			o.Engine = exactLawName
		}
	}
	fill(&o.Targets, "uniform")
	fill(&o.Select, "random")
	fill(&o.Reference, "coordinate")
	fill(&o.Engine, members.Auto)
	fill(&o.Delta, 0.1)
	if o.Preset == presetPaper {
		fill(&o.Lambda, 5)
		fill(&o.Scale, betaScale(7))
		fill(&o.Init, "corrected")
		return o
	}
	fill(&o.Lambda, 1)
	if !o.Growing && o.Preset != presetJanz2026 {
		fill(&o.M, max(16, 2*p.Dim))
	}
	if law, err := ensembleLaw(o.Targets); err == nil {
		if o.Preset == presetUninflated {
			fill(&o.Scale, betaScale(1/math.Sqrt(float64(p.Dim)*law.variance)))
		}
		fill(&o.Scale, Constant(p.sigma()/math.Sqrt(law.variance)))
	}
	fill(&o.Init, "matched")
	return o
}

// fill stores v in the field unless that is set.
func fill[T comparable](field *T, v T) {
	var zero T
	if *field == zero {
		*field = v
	}
}

// check returns an error that names the first option that is wrong, alone or beside another.
func (o EnsembleOptions) check(p Problem) error {
	if err := oneOf("preset", o.Preset, presetPractical, presetPaper, presetJanz2026, presetUninflated); err != nil {
		return err
	}
	switch {
	case o.Growing && o.M != 0:
		return spec.Refuse("m", o.M, "but the ensemble grows: expected one of the two")
	case !o.Growing && o.Grow != 0:
		return spec.Refuse("grow", o.Grow, "but m is not \"grow\"")
	case o.Growing && o.Engine != exactLawName:
		return spec.Refuse("engine", o.Engine, "but m = \"grow\" needs %q", exactLawName)
	case o.Growing:
		if err := positive("grow", o.Grow); err != nil {
			return err
		}
	case o.M == 0 && p.Horizon == 0:
		return spec.Refuse("preset", o.Preset, "which needs a known horizon")
	case o.M != 0:
		if err := checkMembers(o.M, p.Dim); err != nil {
			return err
		}
	}
	law, err := ensembleLaw(o.Targets)
	if err != nil {
		return err
	}
	for _, err := range []error{
		level("delta", o.Delta), positive("lambda", o.Lambda),
		oneOf("select", o.Select, "random", "max"), oneOf("init", o.Init, initNames...),
		oneOf("combine", o.Reference, referenceNames...),
		oneOf("engine", o.Engine, members.Auto, members.Eager, members.Blocked, members.Lazy, exactLawName),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case o.Engine == exactLawName && law.name != "gaussian":
		return spec.Refuse("targets", o.Targets, "but engine = %q needs \"gaussian\"", exactLawName)
	case o.Engine == exactLawName && (o.Select != "random" || o.Reference != "coordinate"):
		return spec.Refuse("engine", o.Engine,
			"which looks at one member in a round: it needs select = \"random\" and combine = \"coordinate\"")
	case o.Init == priorSpan && (o.Targets != "gaussian" || o.Growing):
		return spec.Refuse("init", o.Init, "but targets = %q: expected gaussian ones and a fixed m", o.Targets)
	case o.Init == priorSpan && o.Engine == exactLawName:
		return spec.Refuse("init", o.Init, "but engine = %q draws members of its own", o.Engine)
	case law.joint != nil && o.Engine != members.Auto && o.Engine != members.Eager:
		return spec.Refuse("engine", o.Engine, "but targets = %q are drawn for all members at once: it needs %q",
			law.name, members.Eager)
	case o.Reference == "pair" && o.M == 1:
		return spec.Refuse("m", o.M, "expected at least 2 for combine = %q", o.Reference)
	case o.Reference != "coordinate" && o.OneSided:
		return spec.Refuse("symmetric", false, "but combine = %q is symmetric by nature", o.Reference)
	case o.Reference != "coordinate" && o.Select == "max":
		return spec.Refuse("select", o.Select, "which maximises over single members: it needs combine = %q",
			referenceNames[0])
	}
	return nil
}

// frozen says what the law of lost runs needs of an accumulated ensemble with a constant scale.
func (plan ensemblePlan) frozen(p Problem) frozenMembers {
	o := plan.opts
	f := frozenMembers{
		r: o.Scale.Value * math.Sqrt(plan.law.variance) / p.sigma(), lambda: o.Lambda, draws: float64(o.M),
		lawless: o.Select != "random" || o.Reference != "coordinate", instead: `take more members, or kind = "atoms"`,
	}
	if o.OneSided {
		f.draws = math.Max(1, f.draws/2) // signs act like twice the members
	}
	if plan.law.name != "gaussian" {
		f.size, f.first = o.Scale.Value/p.sigma(), math.Sqrt(o.Lambda*float64(p.Dim)*plan.law.variance)
		f.instead = `take more members and targets = "gaussian" with init = "prior", or kind = "atoms"`
	}
	return f
}

// derive computes what options that passed check stand for.
func (o EnsembleOptions) derive(p Problem) (plan ensemblePlan, err error) {
	if o.M == 0 && !o.Growing {
		if o.M, err = o.theorem(p); err != nil {
			return plan, fmt.Errorf("preset is %q: %w", o.Preset, err)
		}
		if err := checkMembers(o.M, p.Dim); err != nil {
			return plan, err
		}
	}
	plan.opts, plan.engine = o, o.Engine
	if plan.law, err = ensembleLaw(o.Targets); err != nil {
		return plan, err
	}
	if plan.radius, err = o.Scale.resolve(p, o.Lambda, o.Delta); err != nil {
		return plan, err
	}
	plan.first = initial(o.Init, p.Dim, o.Lambda, plan.law.variance, p.Init)
	plan.reference = newReference(o.Reference, o.M)
	// Waiting for a member to be drawn does not pay where a round touches more than one, and joint
	// targets exist only for all members at once.
	switch {
	case plan.law.joint != nil:
		plan.engine = members.Eager
	case o.Engine != members.Auto || o.Reference == "coordinate":
	case o.Reference == "pair" && o.M*p.Dim > members.EagerSize:
		plan.engine = members.Blocked
	default:
		plan.engine = members.Eager
	}
	return plan, nil
}

// theorem returns the number of members that a preset's theorem asks for.
func (o EnsembleOptions) theorem(p Problem) (int, error) {
	delta := o.Delta * p.share()
	if o.Preset != presetJanz2026 {
		return theory.Members(p.Dim, p.Horizon, o.Lambda, delta)
	}
	m, err := theory.Janz2026Direct(theory.Setting{D: p.Dim, T: float64(p.Horizon), Lambda: o.Lambda, Delta: delta})
	if err == nil && m > math.MaxInt32 {
		err = fmt.Errorf("m is %g, more than %d", m, math.MaxInt32)
	}
	return int(m), err
}

// targetLaw is the law of the perturbation targets U_t^j: mean 0, a variance, and how to draw one from a
// word of the column layout. joint, where it is not nil, draws the targets of all members together
// instead.
type targetLaw struct {
	name     string
	variance float64
	draw     func(word uint32) float64
	law      rng.Law
	joint    func(u []float64, draw rng.Source)
}

// targetLaws are the laws of independent targets. The paper takes U uniform on [−1, 1], whose variance is
// 1/3 (claim:alpha-non-neg prints 2/3; see docs/design/paper.md).
var targetLaws = []targetLaw{
	{name: "uniform", variance: 1.0 / 3, draw: rng.UniformWord, law: rng.UniformLaw},
	{name: "gaussian", variance: 1, draw: rng.NormalWord, law: rng.NormalLaw},
	{name: "rademacher", variance: 1, draw: rng.SignWord, law: rng.SignLaw},
}

// jointTargets are laws of U_t ∈ ℝ^m as one vector, so that the members are no longer independent given the
// actions. Each U^j still has mean 0 and variance 1.
var jointTargets = []targetLaw{
	{name: "sphere", variance: 1, joint: func(u []float64, draw rng.Source) { // uniform on √m·𝕊^{m−1}
		draw.Sphere(u, 0)
		c := math.Sqrt(float64(len(u)))
		for j := range u {
			u[j] *= c
		}
	}},
	{name: "coordinate", variance: 1, joint: func(u []float64, draw rng.Source) { // ±√m for one member
		clear(u)
		u[draw.Intn(0, len(u))] = math.Sqrt(float64(len(u))) * draw.Sign(1)
	}},
}

// independentLaw returns a law of independent targets by its name.
func independentLaw(name string) (targetLaw, error) { return lawOf(name, targetLaws) }

// ensembleLaw is independentLaw for a policy that can draw the targets of all members together.
func ensembleLaw(name string) (targetLaw, error) {
	return lawOf(name, append(targetLaws[:len(targetLaws):len(targetLaws)], jointTargets...))
}

func lawOf(name string, laws []targetLaw) (targetLaw, error) {
	var names []string
	for _, l := range laws {
		if l.name == name {
			return l, nil
		}
		names = append(names, l.name)
	}
	return targetLaw{}, oneOf("targets", name, names...)
}

var initNames = []string{"corrected", "printed", "matched", "prior", priorSpan, "none"}

// priorSpan is a law of S_0 for the ball.
const priorSpan = "prior-span"

// initial returns the function that draws S_0^j, from round j of the stream. kind is one of initNames:
//
//	corrected  uniform on √(λd)·𝕊^{d−1}: Cov(S_0) = λI = V_0, what the proofs need
//	printed    uniform on λ√d·𝕊^{d−1}, as alg:es prints it; lem:initialisation is false for it
//	matched    uniform on √(λd·Var U)·𝕊^{d−1}: the stationary law of the recursion
//	prior      N(0, λI): a Gaussian prior N(0, λ⁻¹I) on each member
//	prior-span prior, turned: S_0 = QR of N(0, λI) with Q left out, R_jj = √λ χ_{d−j+1} and R_ij ~ N(0, λ), i < j. On the
//	           ball the law of a run is the same under rotations where θ* has a uniform direction, and with m < d members
//	           coordinates m + 1, …, d stay exact zeros, also in float64: no rounding leaves the span
//	none       0
func initial(kind string, d int, lambda, variance float64, init rng.Stream) func(row []float64, j int) {
	var size float64
	switch kind {
	case "corrected":
		size = math.Sqrt(lambda * float64(d))
	case "printed":
		size = lambda * math.Sqrt(float64(d))
	case "matched":
		size = math.Sqrt(lambda * float64(d) * variance)
	case "prior", priorSpan:
		size = math.Sqrt(lambda)
	case "none":
		return func(row []float64, _ int) { clear(row) }
	}
	return func(row []float64, j int) {
		if kind == "prior" || kind == priorSpan {
			init.Round(uint64(j)).Normals(row, 0)
			if kind == priorSpan && j < d { // the length of what is below row j is χ_{d−j}
				row[j] = linalg.Norm(row[j:])
				clear(row[j+1:])
			}
		} else {
			init.Round(uint64(j)).Sphere(row, 0)
		}
		for i := range row {
			row[i] *= size
		}
	}
}
