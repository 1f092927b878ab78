package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
)

// IncrementalOptions configures Algorithm 2.
type IncrementalOptions struct {
	M       int     `key:"m" doc:"half-ensemble size: 2m models" default:"max(16, 2d)"`
	Lambda  float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta   float64 `key:"delta" doc:"confidence level δ, for betatilde" default:"0.1"`
	Scale   Scale   `key:"scale" doc:"perturbation scale r: constant or betatilde" default:"constant σ/sd(U)"`
	Init    string  `key:"init" doc:"w_0: corrected = r·S_0/λ with S_0 on √(λd) sphere; matched; printed = on √d sphere, without r" default:"matched"`
	Targets string  `key:"targets" doc:"law of U: uniform, gaussian, rademacher" default:"uniform"`
}

// Doc implements spec.Documented.
func (*IncrementalOptions) Doc() string {
	return "the same algorithm in the style of Lu & Van Roy: 2m models, constant r (alg:es-equiv)"
}

// New implements Options.
func (o *IncrementalOptions) New(p Problem) (bandit.Policy, error) { return NewIncremental(*o, p) }

// Incremental is Algorithm 2 (alg:es-equiv): 2m models w^j, each a regression on perturbed rewards,
//
//	w_t^j = V_t⁻¹(V_{t−1}w_{t−1}^j + X_t(Y_t + rU_t^j)) = w_{t−1}^j + V_t⁻¹X_t (Y_t + rU_t^j − ⟨X_t, w_{t−1}^j⟩),
//
// with w^{m+j} the mirror image of w^j: U^{m+j} = −U^j, w_0^{m+j} = −w_0^j. It plays Algorithm 1
// with constant r when w_0^j = r·S_0^j/λ. The paper prints w_0 uniform on √d·𝕊, without the factor
// r (and with its printed scale of S_0); init = "printed" does that, and the two algorithms then
// differ.
//
// Cost of a round: Select one call of the oracle, Update 3d² + 4md. The same streams give the same
// choices as Ensemble: J and ξ are the same numbers, and so are the targets.
type Incremental struct {
	r       float64
	law     targetLaw
	ridge   *linalg.Ridge
	m       int
	init    string
	w       []float64 // 2m×d
	columns rng.Columns
}

// NewIncremental returns the policy before round 1. The error names the option that is wrong.
func NewIncremental(o IncrementalOptions, p Problem) (*Incremental, error) {
	plan, err := EnsembleOptions{
		M: o.M, Lambda: o.Lambda, Delta: o.Delta, Scale: o.Scale, Targets: o.Targets, Init: o.Init,
	}.resolve(p)
	if err != nil {
		return nil, err
	}
	full, law := plan.opts, plan.law
	if law.joint != nil {
		return nil, spec.Refuse("targets", law.name, "which needs kind = \"ensemble\"")
	}
	if full.Scale.Kind == "beta" {
		return nil, spec.Refuse("scale.kind", full.Scale.Kind,
			"but this form of the algorithm needs a constant r: constant or betatilde")
	}
	if err := oneOf("init", full.Init, "corrected", "matched", "printed"); err != nil {
		return nil, err
	}
	r := plan.radius.at(0)
	d := p.Dim
	q := &Incremental{
		r: r, law: law, ridge: linalg.NewRidge(d, full.Lambda), m: full.M, init: full.Init,
		w: make([]float64, 2*full.M*d),
	}
	half := q.w[:full.M*d]
	init, size := full.Init, r/full.Lambda
	if full.Init == "printed" { // w_0 on √d·𝕊: S_0 of "corrected" over √λ
		init, size = "corrected", 1/math.Sqrt(full.Lambda)
	}
	first := initial(init, d, full.Lambda, law.variance, p.Init)
	for j := range full.M {
		first(half[j*d:j*d+d], j)
	}
	for i := range half {
		half[i] *= size
		q.w[len(half)+i] = -half[i]
	}
	return q, nil
}

// Ridge returns the state of the regression. It belongs to the policy.
func (q *Incremental) Ridge() Regression { return q.ridge }

// Models returns the 2m models, 2m×d, rows j and m+j mirror images. They belong to the policy.
func (q *Incremental) Models() []float64 { return q.w }

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source, as Ensemble does.
func (q *Incremental) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	d := q.ridge.Dim()
	if err := checkSet(set, d); err != nil {
		return err
	}
	j := draw.Intn(0, q.m)
	if draw.Sign(1) < 0 {
		j += q.m
	}
	_, err := set.ArgMax(dst, q.w[j*d:j*d+d])
	return err
}

// Update implements bandit.Policy.
func (q *Incremental) Update(a bandit.Action, y float64, draw rng.Source) error {
	d := q.ridge.Dim()
	if err := checkAction(a, y, d); err != nil {
		return err
	}
	gain, ok := q.ridge.Update(a.X, y)
	if !ok {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	for j, word := range q.columns.Words(draw, q.m) {
		u := float64(q.r * q.law.draw(word))
		plus, minus := q.w[j*d:j*d+d], q.w[(q.m+j)*d:(q.m+j)*d+d]
		linalg.Axpy(y+u-linalg.Dot(a.X, plus), gain, plus)
		linalg.Axpy(y-u-linalg.Dot(a.X, minus), gain, minus)
	}
	return nil
}

// Prob implements bandit.Prober: a count over 2m.
func (q *Incremental) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	d := q.ridge.Dim()
	if err := checkSet(set, d); err != nil {
		return err
	}
	return count(dst, set, uint64(2*q.m), func(add func([]float64) error) error {
		for j := range 2 * q.m {
			if err := add(q.w[j*d : j*d+d]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Warnings implements bandit.Warner.
func (q *Incremental) Warnings(set bandit.ActionSet) []string {
	return spanWarning(set, q.m, q.ridge.Dim(), q.init)
}

// AppendSnapshot implements bandit.Snapshotter.
func (q *Incremental) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "ensemble-incremental", append(q.ridge.State(), q.w)), nil
}

// Restore implements bandit.Snapshotter.
func (q *Incremental) Restore(b []byte) error {
	v, err := readSnapshot(b, "ensemble-incremental", append(q.ridge.StateLengths(), len(q.w)))
	if err != nil {
		return err
	}
	q.ridge.Restore(v)
	copy(q.w, v[len(v)-1])
	return nil
}

// DrawnMember implements bandit.MemberDrawer.
func (q *Incremental) DrawnMember(draw rng.Source) (j int, xi float64) {
	return drawMember(draw, q.m, true)
}

// Additive implements bandit.Additive.
func (q *Incremental) Additive() error { return nil }
