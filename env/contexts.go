package env

import (
	"fmt"
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// RussoOptions are the options of kind "russo": the linear Gaussian bandit of Russo and Van Roy
// (Operations Research 66, 2018) with finitely many contexts, as Ensemble++ runs it
// (arXiv 2407.13195 and its code). All arms are drawn once, with entries uniform on [−u, u], and
// split into ⌊all_arms/arms⌋ sets; each round offers one of them, drawn uniformly. θ* is drawn from
// the prior N(0, prior_variance·I): the "sigma = 10" of that code multiplies the covariance matrix.
//
// With u·√d > 1 the arms can leave the unit ball. They are then multiplied by f = 1/(u·√d) and θ*
// by 1/f, which changes no mean; the factor is recorded. A policy that knows the prior must know f
// too: in the units of the actions offered, the prior variance is prior_variance/f².
type RussoOptions struct {
	D             int     `key:"d" doc:"number of features"`
	Arms          int     `key:"arms" doc:"arms of each context"`
	AllArms       int     `key:"all_arms" doc:"arms in all, split into all_arms/arms contexts"`
	U             float64 `key:"u" doc:"entries of the features are uniform on [-u, u]"`
	PriorVariance float64 `key:"prior_variance" doc:"θ* is N(0, prior_variance·I)"`
	Noise         Noise   `key:"noise" doc:"noise of the rewards"`
}

// NewRusso returns the defaults of Ensemble++: d = 100, 20 contexts of 50 arms, u = 1/√5, prior
// variance 10, N(0, 1) noise.
func NewRusso() *RussoOptions {
	return &RussoOptions{D: 100, Arms: 50, AllArms: 1000, U: 1 / math.Sqrt(5), PriorVariance: 10,
		Noise: Noise{Kind: "gaussian", Law: &Gaussian{Std: 1}}}
}

// Doc says what the kind is.
func (*RussoOptions) Doc() string {
	return "Russo and Van Roy's linear Gaussian bandit with finitely many contexts"
}

// Build implements Options.
func (o *RussoOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	const most = 1 << 27 // numbers
	switch {
	case o.D < 1:
		return nil, wrong("d", "is %d, expected at least 1", o.D)
	case o.Arms < 1:
		return nil, wrong("arms", "is %d, expected at least 1", o.Arms)
	case o.AllArms < o.Arms:
		return nil, wrong("all_arms", "is %d, expected at least arms = %d", o.AllArms, o.Arms)
	case o.AllArms > most/o.D:
		return nil, wrong("all_arms", "is %d, expected at most %d for d = %d", o.AllArms, most/o.D, o.D)
	}
	if err := positive("u", o.U); err != nil {
		return nil, err
	}
	if err := positive("prior_variance", o.PriorVariance); err != nil {
		return nil, err
	}
	if err := o.Noise.check(); err != nil {
		return nil, err
	}
	f := min(1, 1/(o.U*math.Sqrt(float64(o.D))))
	sd := math.Sqrt(o.PriorVariance)
	notes := []string{fmt.Sprintf("outside the assumption ‖θ*‖ ≤ 1: θ* is Gaussian with standard deviation %.6g in "+
		"each of %d coordinates", sd/f, o.D)}
	if f < 1 {
		notes = append(notes, fmt.Sprintf("features were multiplied by %.6g to lie in the unit ball, and θ* divided "+
			"by it", f))
	}
	instance := key.Stream(rng.Instance)
	theta := make([]float64, o.D)
	instance.Round(drawTheta).Normals(theta, 0)
	scale(theta, sd/f)

	contexts := make(contexts, o.AllArms/o.Arms)
	draw := instance.Round(drawArms)
	n := 0
	for c := range contexts {
		block := make([]float64, o.Arms*o.D)
		for i := range block {
			block[i] = f * o.U * draw.Uniform(n)
			n++
		}
		set, err := actionset.FiniteOf(o.D, block)
		if err != nil {
			return nil, wrong("u", "%v", err)
		}
		contexts[c] = set
	}
	e := newLinear(theta, contexts, o.Noise.Law, notes)
	for _, set := range contexts {
		if err := e.checkMeans(set); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// contexts offers one of its sets in each round, drawn uniformly.
type contexts []bandit.ActionSet

func (c contexts) offer(draw rng.Source) (bandit.ActionSet, int, error) {
	i := draw.Intn(0, len(c))
	return c[i], i, nil
}
func (c contexts) slots() int { return len(c) }

// SphereContextsOptions are the options of kind "sphere-contexts": the simulation of LMCTS
// (devzhk/LMCTS, configs/data-linear.yaml). θ* is uniform on the unit sphere, and the arms are
// drawn from it too, anew in every round. It is kind "linear" with set random-sphere and
// redraw = true, under the name and with the defaults of the literature.
type SphereContextsOptions struct {
	D     int   `key:"d" doc:"dimension"`
	Arms  int   `key:"arms" doc:"arms of each round"`
	Fixed bool  `key:"fixed" doc:"one set of arms for all rounds"`
	Noise Noise `key:"noise" doc:"noise of the rewards"`
}

// NewSphereContexts returns the defaults of LMCTS: d = 20, 50 arms, N(0, 0.5²) noise.
func NewSphereContexts() *SphereContextsOptions {
	return &SphereContextsOptions{D: 20, Arms: 50, Noise: Noise{Kind: "gaussian", Law: &Gaussian{Std: 0.5}}}
}

// Doc says what the kind is.
func (*SphereContextsOptions) Doc() string {
	return "LMCTS's simulation: arms drawn from the unit sphere in every round"
}

// Build implements Options.
func (o *SphereContextsOptions) Build(key rng.Key, data DataSource) (bandit.Environment, error) {
	if o.Arms < 1 {
		return nil, wrong("arms", "is %d, expected at least 1", o.Arms)
	}
	l := NewLinear()
	l.D, l.Noise = o.D, o.Noise
	l.Set = actionset.Spec{Kind: "random-sphere", Builder: &actionset.RandomSphereOptions{Arms: o.Arms,
		Again: !o.Fixed}}
	return l.Build(key, data)
}
