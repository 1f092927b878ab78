package env

import (
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// CorrelatedOptions are the options of kind "correlated": arms drawn anew in each round whose features
// have pairwise correlation ρ. Arm x = v/‖v‖ with v_i = √ρ·z_0 + √(1−ρ)·z_i, z standard normal. θ* is
// uniform on the unit vectors whose coordinates add up to 0, so that rewards depend on the differences of
// features only. It is the case that a diagonal precision does not describe: every event raises the
// precision of each feature, and tells little about differences.
type CorrelatedOptions struct {
	D           int     `key:"d" doc:"number of features"`
	Arms        int     `key:"arms" doc:"arms of each round"`
	Correlation float64 `key:"correlation" doc:"correlation ρ of each two features, from 0 to below 1"`
	Noise       Noise   `key:"noise" doc:"noise of the rewards"`
}

// NewCorrelated returns the defaults: d = 20, 10 arms, ρ = 0.95, N(0, 0.05²) noise.
func NewCorrelated() *CorrelatedOptions {
	return &CorrelatedOptions{D: 20, Arms: 10, Correlation: 0.95, Noise: Noise{Kind: "gaussian",
		Law: &Gaussian{Std: 0.05}}}
}

// Doc says what the kind is.
func (*CorrelatedOptions) Doc() string {
	return "arms whose features are correlated with each other, drawn in every round"
}

// Build implements Options.
func (o *CorrelatedOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	const most = 1 << 20 // numbers in a set
	switch {
	case o.D < 2 || o.D > most:
		return nil, wrong("d", "is %d, expected 2 to %d", o.D, most)
	case o.Arms < 1 || o.Arms > most/o.D:
		return nil, wrong("arms", "is %d, expected 1 to %d for d = %d", o.Arms, most/o.D, o.D)
	case !(o.Correlation >= 0 && o.Correlation < 1):
		return nil, wrong("correlation", "is %v, expected a number of at least 0 and below 1", o.Correlation)
	}
	if err := o.Noise.check(); err != nil {
		return nil, err
	}
	theta := make([]float64, o.D)
	key.Stream(rng.Instance).Round(drawTheta).Normals(theta, 0)
	var mean, q float64
	for _, v := range theta {
		mean += v / float64(o.D)
	}
	for i := range theta {
		theta[i] -= mean
		q += float64(theta[i] * theta[i])
	}
	for i := range theta {
		theta[i] /= math.Sqrt(q)
	}
	return newLinear(theta, correlated{o.D, o.Arms, math.Sqrt(o.Correlation), math.Sqrt(1 - o.Correlation)},
		o.Noise.Law, nil), nil
}

// correlated draws a set in each round.
type correlated struct {
	d, arms     int
	common, own float64
}

func (c correlated) offer(draw rng.Source) (bandit.ActionSet, int, error) {
	z := make([]float64, c.arms*(c.d+1))
	draw.Normals(z, 0)
	block := make([]float64, c.arms*c.d)
	for a := range c.arms {
		row, v := z[a*(c.d+1):], block[a*c.d:(a+1)*c.d]
		var q float64
		for i := range v {
			v[i] = float64(c.common*row[0]) + float64(c.own*row[i+1])
			q += float64(v[i] * v[i])
		}
		r := max(2*math.Sqrt(float64(c.d)), math.Sqrt(q)*(1+0x1p-40)) // the ball, despite rounding
		for i := range v {
			v[i] /= r
		}
	}
	set, err := actionset.FiniteOf(c.d, block)
	return set, -1, err
}

func (correlated) slots() int { return 0 }
