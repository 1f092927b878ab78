package policy

import (
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// ThompsonOptions configures Gaussian linear Thompson sampling.
type ThompsonOptions struct {
	Lambda float64 `key:"lambda" doc:"ridge parameter λ = σ²/prior variance" default:"1"`
	Delta  float64 `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	Scale  Scale   `key:"scale" doc:"posterior scale r_t" default:"constant σ; uninflated: β_t/√d"`
	// Preset is "practical" (the default) or "uninflated": r_t = β_t/√d, so that θ_t lies in the confidence ellipsoid on
	// average and not in its √d-fold. On smooth, strongly convex sets Abeille, Janz and Pike-Burke (ALT 2025, arXiv
	// 2502.08870) prove O(d√n log n) without inflation; of their text the abstract was read.
	Preset string `key:"preset" doc:"practical; uninflated: θ_t spreads by β_t/√d, so that it lies in the confidence ellipsoid on average" default:"practical"`
}

// Doc implements spec.Documented.
func (*ThompsonOptions) Doc() string {
	return "Gaussian linear Thompson sampling (Agrawal & Goyal 2013)"
}

// New implements Options.
func (o *ThompsonOptions) New(p Problem) (bandit.Policy, error) { return NewThompson(*o, p) }

// Thompson is Gaussian linear Thompson sampling (Agrawal & Goyal 2013; Abeille & Lazaric 2017):
//
//	θ_t = θ̂_{t−1} + r_{t−1} V_{t−1}^{-1/2} z_t,  z_t ~ N(0, I),  X_t ∈ argmax ⟨x, θ_t⟩.
//
// With r = σ and λ = σ²/s² this is the posterior of θ* under the prior N(0, s²I) and noise
// N(0, σ²). Every square root of V⁻¹ gives the same law; here it is L⁻ᵀ of the Cholesky factor
// V = LLᵀ, which is kept by rank-one updates. The probability of an action is an integral without
// a closed form, so the policy is no Prober.
//
// Cost of a round: Select d²/2, d normals and one call of the oracle, Update 6d².
type Thompson struct {
	regression
	factor *linalg.Factor
	theta  []float64
}

// NewThompson returns the policy before round 1. The error names the option that is wrong.
func NewThompson(o ThompsonOptions, p Problem) (*Thompson, error) {
	fill(&o.Preset, presetPractical)
	if err := oneOf("preset", o.Preset, presetPractical, presetUninflated); err != nil {
		return nil, err
	}
	scale := Constant(p.sigma())
	if o.Preset == presetUninflated && p.Dim > 0 {
		scale = betaScale(1 / math.Sqrt(float64(p.Dim)))
	}
	g, err := newRegression(p, o.Lambda, o.Delta, o.Scale, scale)
	if err != nil {
		return nil, err
	}
	return &Thompson{g, linalg.NewBlockFactor(p.Dim, g.ridge.Lambda()), make([]float64, p.Dim)}, nil
}

// Select implements bandit.Policy. It uses numbers 0, …, d−1 of the source.
func (s *Thompson) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := checkDim(set, s.ridge.Dim()); err != nil {
		return err
	}
	draw.Normals(s.theta, 0)
	s.around(s.Scale())
	_, err := set.ArgMax(dst, s.theta)
	return err
}

// around replaces theta = u by θ̂ + c L⁻ᵀu.
func (s *Thompson) around(c float64) {
	s.factor.SolveLT(s.theta)
	for i, v := range s.ridge.Theta() {
		s.theta[i] = v + float64(c*s.theta[i])
	}
}

// Update implements bandit.Policy.
func (s *Thompson) Update(a bandit.Action, y float64, _ rng.Source) error {
	if err := s.learn(a, y); err != nil {
		return err
	}
	s.factor.Update(a.X)
	return nil
}

// AppendSnapshot implements bandit.Snapshotter.
func (s *Thompson) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "ts", append(s.ridge.State(), s.factor.L())), nil
}

// Restore implements bandit.Snapshotter.
func (s *Thompson) Restore(b []byte) error { return s.restore(b, "ts") }

func (s *Thompson) restore(b []byte, kind string) error {
	v, err := readSnapshot(b, kind, append(s.ridge.StateLengths(), s.ridge.Dim()*s.ridge.Dim()))
	if err != nil {
		return err
	}
	s.ridge.Restore(v)
	s.factor.Load(v[len(v)-1])
	return nil
}
