package policy

import "troupe/bandit"

// LVROptions configures ensemble sampling as Lu & Van Roy (2017) stated it for the linear bandit:
// Gaussian prior, Gaussian targets, a uniformly drawn member and no symmetrisation. With noise
// variance σ² and prior N(0, s²I) their update is that of alg:es with λ = σ²/s² and r = σ.
type LVROptions struct {
	M      int     `key:"m" doc:"ensemble size" default:"max(16, 2d)"`
	Lambda float64 `key:"lambda" doc:"ridge parameter λ = σ²/prior variance" default:"1"`
	Scale  Scale   `key:"scale" doc:"scale of targets and prior" default:"constant σ"`
}

// Doc implements spec.Documented.
func (*LVROptions) Doc() string {
	return "ensemble sampling of Lu & Van Roy 2017: Gaussian prior and targets, no signs"
}

// New implements Options. The policy is an *Ensemble.
func (o *LVROptions) New(p Problem) (bandit.Policy, error) {
	return NewEnsemble(EnsembleOptions{
		M: o.M, Lambda: o.Lambda, Scale: o.Scale, Targets: "gaussian", Init: "prior", OneSided: true,
	}, p)
}
