package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// LinPHEOptions configures linear perturbed-history exploration.
type LinPHEOptions struct {
	Lambda  float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta   float64 `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	Scale   Scale   `key:"scale" doc:"perturbation scale r_t" default:"constant σ/sd(U)"`
	Targets string  `key:"targets" doc:"law of U: gaussian (O(d²) a round), uniform, rademacher (O(td))" default:"gaussian"`
	Init    string  `key:"init" doc:"perturbation of the prior: prior = N(0, λ·var U·I), or none" default:"prior"`
}

// Doc implements spec.Documented.
func (*LinPHEOptions) Doc() string {
	return "linear perturbed-history exploration: ensemble sampling with a fresh member in every round; begins at a " +
		"random prior where Kveton et al. (2020) play a basis of actions"
}

// New implements Options.
func (o *LinPHEOptions) New(p Problem) (bandit.Policy, error) { return NewLinPHE(*o, p) }

// LinPHE is linear perturbed-history exploration (Kveton et al. 2020; Lee & Oh 2024). In every
// round the whole history is perturbed afresh:
//
//	s_t = w_t + Σ_{i<t} U_{t,i} X_i,  θ_t = θ̂_{t−1} + r_{t−1} V_{t−1}⁻¹ s_t,  X_t ∈ argmax ⟨x, θ_t⟩,
//
// that is θ_t = V⁻¹(r w_t + Σ X_i (Y_i + r U_{t,i})), with U_{t,i} independent copies of the target
// law and the prior's part w_t ~ N(0, λ·Var(U)·I), so that Cov(s_t) = Var(U)·V_{t−1}. init = "none"
// sets w_t = 0, as Kveton et al. have it; they start from a basis of actions, without which a
// policy with w = 0 never leaves the span of what it has played. It is the marginal law of ensemble
// sampling where each member is used once: m = T, J_t = t.
//
// Gaussian targets are exact in law without the history: s_t = L z with LLᵀ = V_{t−1}, or LLᵀ =
// Σ X_iX_iᵀ without the prior's part, L kept by rank-one updates from √λI or from 0. Other targets
// need the history itself, t·d numbers.
//
// Cost of a round: Select 2d² (other targets: t·d and t random words), Update 6d². No exact
// propensity.
type LinPHE struct {
	regression
	law    targetLaw
	prior  bool
	factor *linalg.Factor // Gaussian targets, otherwise nil
	past   []float64      // other targets: t×d, the actions so far
	s, z   []float64
}

// NewLinPHE returns the policy before round 1. The error names the option that is wrong.
func NewLinPHE(o LinPHEOptions, p Problem) (*LinPHE, error) {
	if o.Targets == "" {
		o.Targets = "gaussian"
	}
	if o.Init == "" {
		o.Init = "prior"
	}
	law, err := independentLaw(o.Targets)
	if err != nil {
		return nil, err
	}
	if err := oneOf("init", o.Init, "prior", "none"); err != nil {
		return nil, err
	}
	g, err := newRegression(p, o.Lambda, o.Delta, o.Scale, Constant(p.sigma()/math.Sqrt(law.variance)))
	if err != nil {
		return nil, err
	}
	h := &LinPHE{
		regression: g, law: law, prior: o.Init == "prior",
		s: make([]float64, p.Dim), z: make([]float64, p.Dim),
	}
	if law.name == "gaussian" {
		lambda := 0.0
		if h.prior {
			lambda = g.ridge.Lambda()
		}
		h.factor = linalg.NewBlockFactor(p.Dim, lambda)
	}
	return h, nil
}

// Select implements bandit.Policy. It uses the normals 0, …, d−1 of the source and, for targets
// that are not Gaussian, word i of the column layout for U_{t,i}.
func (h *LinPHE) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	d := h.ridge.Dim()
	if err := checkSet(set, d); err != nil {
		return err
	}
	h.perturb(draw)
	h.ridge.Solve(h.z, h.s)
	r := h.Scale()
	for i, v := range h.ridge.Theta() {
		h.z[i] = v + float64(r*h.z[i])
	}
	_, err := set.ArgMax(dst, h.z)
	return err
}

// perturb draws s_t.
func (h *LinPHE) perturb(draw rng.Source) {
	if h.factor != nil {
		draw.Normals(h.z, 0)
		h.factor.MulL(h.s, h.z)
		return
	}
	clear(h.s)
	if h.prior {
		draw.Normals(h.s, 0)
		c := math.Sqrt(h.ridge.Lambda() * h.law.variance)
		for i := range h.s {
			h.s[i] *= c
		}
	}
	d := len(h.s)
	for i := range len(h.past) / d {
		linalg.Axpy(h.law.draw(draw.Word(uint32(i))), h.past[i*d:i*d+d], h.s)
	}
}

// Update implements bandit.Policy.
func (h *LinPHE) Update(a bandit.Action, y float64, _ rng.Source) error {
	if err := h.learn(a, y); err != nil {
		return err
	}
	if h.factor != nil {
		h.factor.Update(a.X)
	} else {
		h.past = append(h.past, a.X...)
	}
	return nil
}

// Warnings implements bandit.Warner.
func (h *LinPHE) Warnings(bandit.ActionSet) []string {
	if h.prior {
		return nil
	}
	return []string{"linphe with init = \"none\" explores only the span of the actions it has played, " +
		"which may never be all of the space: regret can grow linearly; take init = \"prior\""}
}

// vectors returns the state.
func (h *LinPHE) vectors() [][]float64 {
	if h.factor != nil {
		return append(h.ridge.State(), h.factor.L())
	}
	return append(h.ridge.State(), h.past)
}

// AppendSnapshot implements bandit.Snapshotter.
func (h *LinPHE) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "linphe "+h.law.name, h.vectors()), nil
}

// Restore implements bandit.Snapshotter.
func (h *LinPHE) Restore(b []byte) error {
	lengths := lengthsOf(h.vectors())
	last := len(lengths) - 1
	if h.factor == nil {
		lengths[last] = -1
	}
	v, err := readSnapshot(b, "linphe "+h.law.name, lengths)
	if err != nil {
		return err
	}
	if h.factor != nil {
		h.ridge.Restore(v)
		h.factor.Load(v[last])
		return nil
	}
	if n, d := v[last-1][1], h.ridge.Dim(); n*float64(d) != float64(len(v[last])) {
		return fmt.Errorf("policy: snapshot has %d numbers of history, expected %v actions of dimension %d",
			len(v[last]), n, d)
	}
	h.ridge.Restore(v)
	h.past = v[last]
	return nil
}
