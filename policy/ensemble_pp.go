package policy

import "troupe/bandit"

// EnsemblePPOptions configures Ensemble++. The zero value is the default of a spec file.
type EnsemblePPOptions struct {
	// M is the number of directions, the columns of the shared factor; 0 means max(16, 2d).
	M int `key:"m" doc:"number of directions M, the columns of the shared factor" default:"max(16, 2d)"`
	// Lambda is the ridge parameter λ = σ²/prior variance; 0 means 1.
	Lambda float64 `key:"lambda" doc:"ridge parameter λ = σ²/prior variance" default:"1"`
	// Delta is the confidence level δ of beta and betatilde; 0 means 0.1.
	Delta float64 `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	// Scale is the scale r_t of the perturbation; the zero value means the constant σ.
	Scale Scale `key:"scale" doc:"perturbation scale r_t" default:"constant σ"`
	// Perturbation is the law of z_t: "sphere" (the default), "gaussian", "rademacher" (the authors' cube) or
	// "coordinate".
	Perturbation string `key:"perturbation" doc:"law of z: sphere, gaussian, rademacher (cube), coordinate" default:"sphere"`
	// Reference is the law of ζ_t: "gaussian" (the default), "sphere", "signs" (cube) or "coordinate".
	Reference string `key:"combine" once:"reference" doc:"law of ζ: gaussian, sphere, signs (cube), coordinate" default:"gaussian"`
}

// Doc implements spec.Documented.
func (*EnsemblePPOptions) Doc() string {
	return "Ensemble++: a shared factor of the covariance, mixed at random in each round (Li et al. 2025); written from " +
		"the publication and not compared with the authors' program, the default laws of z and ζ are ours"
}

// New implements Options. The policy is an *Ensemble.
//
// Ensemble++ for the linear bandit (Li, Xu, Wang & Luo 2025, arXiv 2407.13195) keeps one factor A ∈ ℝ^{d×M} of
// the covariance and draws a combination of its columns in each round,
//
//	A_t = V_t⁻¹(V_{t−1}A_{t−1} + X_t z_tᵀ),  θ_t = θ̂_{t−1} + r A_{t−1} ζ_t,  X_t ∈ argmax ⟨x, θ_t⟩,
//
// with E zzᵀ = I/M and E ζζᵀ = I. With S = √M·V·A that is S_t^j = S_{t−1}^j + √M z_t^j X_t and θ_t = θ̂ + r
// V⁻¹Sζ/√M: alg:es with joint targets √M·z and the reference law of ζ, which is how it is kept here. The columns
// of A_0 are N(0, I/(λM)), so that E A_0A_0ᵀ = V_0⁻¹. Its law is an integral for a Gaussian or spherical ζ,
// a count for signs (m ≤ 16) and coordinate.
func (o *EnsemblePPOptions) New(p Problem) (bandit.Policy, error) {
	c := *o
	fill(&c.Perturbation, "sphere")
	fill(&c.Reference, "gaussian")
	if err := oneOf("perturbation", c.Perturbation, "sphere", "gaussian", "rademacher", "coordinate"); err != nil {
		return nil, err
	}
	if err := oneOf("combine", c.Reference, "gaussian", "sphere", "signs", "coordinate"); err != nil {
		return nil, err
	}
	return NewEnsemble(EnsembleOptions{
		M: c.M, Lambda: c.Lambda, Delta: c.Delta, Scale: c.Scale, Targets: c.Perturbation, Reference: c.Reference,
		Init: "prior",
	}, p)
}
