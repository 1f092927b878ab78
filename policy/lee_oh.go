package policy

import (
	"math"

	"troupe/bandit"
	"troupe/internal/logs"
	"troupe/spec"
)

// LeeOhOptions configures ensemble sampling as Lee & Oh (2024) analyse it: K arms, m of order
// K log T, Gaussian targets N(0, β̃²) and initial vectors N(0, λβ̃²I), no symmetrisation
// (remark:large-ensemble).
type LeeOhOptions struct {
	M      int     `key:"m" doc:"ensemble size" default:"⌈K log T⌉"`
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta  float64 `key:"delta" doc:"confidence level δ" default:"0.1"`
	Scale  Scale   `key:"scale" doc:"scale of targets and initial vectors" default:"betatilde 1"`
}

// Doc implements spec.Documented.
func (*LeeOhOptions) Doc() string {
	return "ensemble sampling of Lee & Oh 2024: m = ⌈K log T⌉ Gaussian members scaled by β̃"
}

// New implements Options. The policy is an *Ensemble.
func (o *LeeOhOptions) New(p Problem) (bandit.Policy, error) {
	m, scale := o.M, o.Scale
	if m == 0 {
		if p.Arms == 0 || p.Horizon < 2 {
			return nil, &spec.Error{Path: "m",
				Msg:   "is not set and its default ⌈K log T⌉ needs a finite action set and a horizon of at least 2",
				Value: 0, Want: "a finite action set and a horizon of at least 2"}
		}
		m = int(math.Ceil(float64(p.Arms) * logs.Log(float64(p.Horizon))))
	}
	if scale.Kind == "" {
		scale = Scale{Kind: "betatilde", Value: 1}
	}
	return NewEnsemble(EnsembleOptions{
		M: m, Lambda: o.Lambda, Delta: o.Delta, Scale: scale, Targets: "gaussian", Init: "prior", OneSided: true,
	}, p)
}
