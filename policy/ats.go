package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// ATSOptions configures absolute Thompson sampling (m = 1) and its ensemble form (EATS).
type ATSOptions struct {
	M          int     `key:"m" doc:"members, of which the largest perturbation counts; where an arm needs more than r‖x‖ to be tried, more of them find it less often" default:"1"`
	Lambda     float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta      float64 `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	Scale      Scale   `key:"scale" doc:"mean width r_t of the objective" default:"beta 1"`
	Members    string  `key:"members" doc:"fresh: drawn again in every round; frozen: the accumulated ensemble with Gaussian targets" default:"fresh"`
	Normaliser string  `key:"normaliser" doc:"mean: c_m = E max |Z_j|, so that the objective is on average LinUCB's; log: √(2 log 2m); none: 1" default:"mean"`
	Groups     int     `key:"groups" doc:"with fresh members: number of groups of m, of which one is played; a decision then has an exact propensity k/groups on every set" default:"1"`
	Preset     string  `key:"preset" doc:"theorem: what thm:ats covers, fresh members with λ ≥ 1, scale beta 1 and normaliser mean" default:"none"`
}

// Doc implements spec.Documented.
func (*ATSOptions) Doc() string {
	return "absolute Thompson sampling and its ensemble form: the largest absolute perturbation, normalised (Kitamura, Liu & Szepesvári 2026)"
}

const (
	atsFresh, atsFrozen        = "fresh", "frozen"
	atsMean, atsLog, atsNone   = "mean", "log", "none"
	atsTheorem, atsPresetless  = "theorem", "none"
	atsMostGroups, atsMostArms = 1 << 16, 256
)

// New implements Options.
func (o *ATSOptions) New(p Problem) (bandit.Policy, error) {
	q, err := o.resolve()
	if err != nil {
		return nil, err
	}
	if q.Members == atsFrozen {
		scale := q.Scale
		scale.Value /= q.norm()
		return NewEnsemble(EnsembleOptions{M: q.M, Lambda: q.Lambda, Delta: q.Delta, Scale: scale, Targets: "gaussian",
			Init: "prior", Select: "max"}, p)
	}
	return newATS(q, p)
}

// resolve fills in the defaults and checks what does not depend on the problem.
func (o ATSOptions) resolve() (ATSOptions, error) {
	fill(&o.M, 1)
	fill(&o.Lambda, 1)
	fill(&o.Delta, 0.1)
	fill(&o.Scale, betaScale(1))
	fill(&o.Members, atsFresh)
	fill(&o.Normaliser, atsMean)
	fill(&o.Groups, 1)
	fill(&o.Preset, atsPresetless)
	for _, err := range []error{
		oneOf("members", o.Members, atsFresh, atsFrozen), oneOf("normaliser", o.Normaliser, atsMean, atsLog, atsNone),
		oneOf("preset", o.Preset, atsTheorem, atsPresetless), positive("lambda", o.Lambda), level("delta", o.Delta),
	} {
		if err != nil {
			return o, err
		}
	}
	switch theorem := o.Preset == atsTheorem; {
	case o.M < 1:
		return o, spec.Refuse("m", o.M, "expected at least 1")
	case o.Groups < 1 || o.Groups > atsMostGroups:
		return o, spec.Refuse("groups", o.Groups, "expected 1 to %d", atsMostGroups)
	case o.Groups > 1 && o.Members == atsFrozen:
		return o, spec.Refuse("groups", o.Groups, "but members = %q are one group", o.Members)
	case theorem && o.Members != atsFresh:
		return o, spec.Refuse("members", o.Members, "but preset = %q needs %q", o.Preset, atsFresh)
	case theorem && o.Lambda < 1:
		return o, spec.Refuse("lambda", o.Lambda, "but preset = %q needs at least 1", o.Preset)
	case theorem && o.Normaliser != atsMean:
		return o, spec.Refuse("normaliser", o.Normaliser, "but preset = %q needs %q", o.Preset, atsMean)
	case theorem && (o.Scale.Kind != "beta" || o.Scale.Value != 1):
		return o, spec.Refuse("scale", fmt.Sprintf("%s %v", o.Scale.Kind, o.Scale.Value), "but preset = %q needs beta 1", o.Preset)
	}
	return o, nil
}

// norm is what the largest perturbation is divided by.
func (o ATSOptions) norm() float64 {
	switch o.Normaliser {
	case atsLog:
		return math.Sqrt(2 * math.Log(2*float64(o.M)))
	case atsNone:
		return 1
	}
	return theory.MaxAbsNormal(float64(o.M))
}

// ATS is absolute Thompson sampling with fresh members. With ζ_1, …, ζ_m ~ N(0, I) drawn in each round and η_j = L⁻ᵀζ_j
// ~ N(0, V⁻¹), V = LLᵀ,
//
//	X_t ∈ argmax_x ⟨x, θ̂_{t−1}⟩ + (r_{t−1}/c_m) max_{j≤m} |⟨x, η_j⟩|,   c_m = E max_j |Z_j|,
//
// which is the best action of the best of the 2m models θ̂ ± (r/c_m)η_j; of equal models the first wins. The objective of
// each x has the mean of LinUCB's, ⟨x, θ̂⟩ + r‖x‖, for every m; as m → ∞ on a fixed finite set it tends to it. m = 1 is
// ATS, any m EATS (Kitamura, Liu & Szepesvári 2026, arXiv 2606.28616; the normaliser is our reading of its abstract,
// which also fits √(2 log m)). Regret: thm:ats, docs/papers/absolute.md. Frozen members are the accumulated ensemble with
// select = "max" and the scale r/c_m, a *Ensemble.
//
// With one group the law of the action given the state is an integral. Prob computes it on two arms, and on at most 256
// arms that are orthogonal in the norm of V⁻¹, to about 1e-6; on other sets the error is bandit.ErrUnsupported. With groups
// = g, g groups of m members belong to the number of the decision, and one is drawn: Prob is then the exact conditional
// law k/g on every set, and the law over all decisions is the same as with one group, because the groups are exchangeable
// and independent of the draw.
//
// Cost of a round: Select m·d²/2, m·d normals and 2m calls of the oracle; Update 6d². Prob with groups: g times Select.
type ATS struct {
	regression
	opts              ATSOptions
	factor            *linalg.Factor
	norm              float64
	groups            directions // of a decision, with several groups
	eta, model        []float64  // η_j and a model
	best, challenging bandit.Action
	other             []float64 // V⁻¹x of an arm, for the law
}

func newATS(o ATSOptions, p Problem) (*ATS, error) {
	g, err := newRegression(p, o.Lambda, o.Delta, o.Scale, betaScale(1))
	if err != nil {
		return nil, err
	}
	if err := checkMembers(o.M, p.Dim); err != nil {
		return nil, err
	}
	if n := o.M * o.Groups; o.Groups > 1 {
		if err := checkMembers(n, p.Dim); err != nil {
			return nil, spec.Refuse("groups", o.Groups, "with m = %d: %v", o.M, err)
		}
	}
	d := p.Dim
	a := &ATS{regression: g, opts: o, factor: linalg.NewBlockFactor(d, g.ridge.Lambda()), norm: o.norm(),
		eta: make([]float64, d), model: make([]float64, d), other: make([]float64, d)}
	if o.Groups > 1 {
		a.groups = newDirections(p.Init, o.M*o.Groups, d)
	}
	return a, nil
}

// Options returns the configuration with every default filled in.
func (a *ATS) Options() ATSOptions { return a.opts }

// Normaliser returns what the largest perturbation is divided by, c_m by default.
func (a *ATS) Normaliser() float64 { return a.norm }

// Select implements bandit.Policy. With one group it uses numbers 0, …, md − 1 of the source, otherwise number 0 (the
// group).
func (a *ATS) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := checkNumbers(set); err != nil {
		return err
	}
	if err := checkDim(set, a.ridge.Dim()); err != nil {
		return err
	}
	group := 0
	if a.opts.Groups > 1 {
		group = draw.Intn(0, a.opts.Groups)
	}
	return a.choose(dst, set, draw, group)
}

// choose stores in dst the action of a group.
func (a *ATS) choose(dst *bandit.Action, set bandit.ActionSet, draw rng.Source, group int) error {
	d, c, top := a.ridge.Dim(), a.Scale()/a.norm, math.Inf(-1)
	hat := a.ridge.Theta()
	for j := range a.opts.M {
		if a.opts.Groups > 1 {
			copy(a.eta, a.groups.at(draw.At(), group*a.opts.M+j))
		} else {
			draw.Normals(a.eta, j*d)
		}
		a.factor.SolveLT(a.eta)
		for _, c := range [...]float64{c, -c} {
			shift(a.model, hat, c, a.eta)
			v, err := set.ArgMax(&a.challenging, a.model)
			if err != nil {
				return err
			}
			if v > top {
				top = v
				a.best, a.challenging = a.challenging, a.best
			}
		}
	}
	dst.Set(a.best.X, a.best.Index)
	return nil
}

// Prob implements bandit.Prober, see ATS.
func (a *ATS) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	if err := checkSet(set, a.ridge.Dim()); err != nil {
		return err
	}
	if a.opts.Groups > 1 {
		return a.count(dst, set, draw)
	}
	f, ok := set.(bandit.Finite)
	if !ok {
		return fmt.Errorf("policy: ats: the law on %s is known with groups only: %w", described(set), bandit.ErrUnsupported)
	}
	law, err := a.law(f)
	if err != nil {
		return err
	}
	zeros(dst, f.Len())
	dst.Total = 0
	for i, p := range law {
		dst.Atoms[i].P = p
	}
	return nil
}

// Update implements bandit.Policy.
func (a *ATS) Update(x bandit.Action, y float64, _ rng.Source) error {
	if err := a.learn(x, y); err != nil {
		return err
	}
	a.factor.Update(x.X)
	return nil
}

// Warnings implements bandit.Warner.
func (a *ATS) Warnings(set bandit.ActionSet) []string {
	f, ok := set.(bandit.Finite)
	if a.opts.Groups > 1 || !ok || f.Len() <= 2 {
		return nil
	}
	if _, err := a.law(f); err == nil {
		return nil
	}
	return []string{"the propensity of an action is known on two arms and on orthogonal ones only; take groups of 2 or more"}
}

// AppendSnapshot implements bandit.Snapshotter.
func (a *ATS) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "ats", append(a.ridge.State(), a.factor.L())), nil
}

// Restore implements bandit.Snapshotter.
func (a *ATS) Restore(b []byte) error {
	v, err := readSnapshot(b, "ats", append(a.ridge.StateLengths(), a.ridge.Dim()*a.ridge.Dim()))
	if err != nil {
		return err
	}
	a.ridge.Restore(v)
	a.factor.Load(v[len(v)-1])
	return nil
}
