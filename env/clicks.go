package env

import (
	"fmt"
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
)

// ClicksOptions are the options of kind "clicks": rewards are 0 or 1 and the logit of their mean is linear,
//
//	P(Y = 1 | x) = μ(⟨x, θ*⟩),  μ(s) = 1/(1 + e⁻ˢ),
//
// with logits of mean log(base_rate/(1 − base_rate)) and standard deviation spread over arms, contexts and
// replications. Regret is in clicks. What the arms are, with p = features:
//
//	fixed    K arms (u, 1)/√2, u uniform on the unit sphere of ℝᵖ, drawn once; d = p + 1
//	redrawn  the same, drawn anew in each round; d = p + 1
//	block    each round a context c = (v, 1)/√2, v uniform on the sphere, and arm k is c in block k of
//	         ℝ^{K(p+1)}: each arm has its own parameters
//
// θ* is Gaussian: spread·N(0, I) in the direction of u; for block spread/√2·N(0, I) in that of v and
// spread/√2·N(0, 1) for each arm's level.
type ClicksOptions struct {
	Arms     int     `key:"arms" doc:"number of arms K"`
	Features int     `key:"features" doc:"numbers of an arm, or of the context, beside the intercept"`
	Actions  string  `key:"actions" doc:"fixed, redrawn (in each round) or block (a context, and parameters for each arm)"`
	BaseRate float64 `key:"base_rate" doc:"median mean of a reward"`
	Spread   float64 `key:"spread" doc:"standard deviation of the logits"`
	Every    int     `key:"every" doc:"rounds after which θ* is drawn again; 0: never"`
}

// NewClicks returns the defaults: 20 fixed arms, d = 20, three clicks in a hundred.
func NewClicks() *ClicksOptions {
	return &ClicksOptions{Arms: 20, Features: 19, Actions: "fixed", BaseRate: 0.03, Spread: 1}
}

// Doc says what the kind is.
func (*ClicksOptions) Doc() string {
	return "clicks: rewards 0 or 1 whose logit is linear"
}

// Build implements Options.
func (o *ClicksOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	const most = 1 << 24 // numbers of a set
	if err := oneOf("actions", o.Actions, "fixed", "redrawn", "block"); err != nil {
		return nil, err
	}
	switch {
	case o.Arms < 2:
		return nil, wrong("arms", "is %d, expected at least 2", o.Arms)
	case o.Features < 1:
		return nil, wrong("features", "is %d, expected at least 1", o.Features)
	case o.Features >= most/o.Arms:
		return nil, wrong("features", "is %d, expected less than %d for %d arms", o.Features, most/o.Arms, o.Arms)
	case !(o.BaseRate > 0 && o.BaseRate < 1):
		return nil, wrong("base_rate", "is %v, expected a number above 0 and below 1", o.BaseRate)
	}
	if o.Every < 0 {
		return nil, wrong("every", "is %d, expected a number of rounds, or 0 for never", o.Every)
	}
	if err := positive("spread", o.Spread); err != nil {
		return nil, err
	}
	instance := key.Stream(rng.Instance)
	p := o.Features
	e := &clicks{o: *o, p: p, probs: make([]float64, o.Arms),
		notes: []string{"outside the assumption: the mean of a reward is a logistic function of the features"}}
	e.instance = instance
	e.theta = e.draw(0)
	if o.Every > 0 {
		e.notes = append(e.notes, fmt.Sprintf("outside the assumption: θ* is drawn anew after every %d rounds",
			o.Every))
	}
	if o.Actions == "block" {
		return e, nil
	}
	if o.Actions == "fixed" {
		set, err := e.arms(instance.Round(drawArms))
		if err != nil {
			return nil, err
		}
		e.fixed = set
	}
	return e, nil
}

// clicks is the environment of kind "clicks". It implements Noted and Noisy.
type clicks struct {
	o     ClicksOptions
	p     int
	theta []float64
	fixed bandit.Finite
	probs []float64 // of the round's arms
	ready bool
	notes []string

	instance rng.Stream
	stretch  int // of rounds with one θ*, from 0
}

// draw returns θ* of a stretch.
func (e *clicks) draw(stretch int) []float64 {
	o, p, instance := e.o, e.p, e.instance
	if stretch > 0 {
		instance = instance.Sub(uint64(stretch))
	}
	level := logs.Log(o.BaseRate) - logs.Log1p(-o.BaseRate)
	if o.Actions == "block" {
		theta := make([]float64, o.Arms*(p+1))
		instance.Round(drawTheta).Normals(theta, 0)
		for i := range theta { // ⟨(v, 1)/√2, θ⟩ = spread/√2·(⟨v, w⟩ + a) + level
			theta[i] = float64(theta[i] * o.Spread)
			if i%(p+1) == p {
				theta[i] += float64(math.Sqrt2 * level)
			}
		}
		return theta
	}
	theta := make([]float64, p+1)
	instance.Round(drawTheta).Normals(theta[:p], 0)
	scale(theta, math.Sqrt2*o.Spread)
	theta[p] = math.Sqrt2 * level
	return theta
}

// arms draws K arms (u, 1)/√2.
func (e *clicks) arms(draw rng.Source) (bandit.Finite, error) {
	d := e.p + 1
	block := make([]float64, e.o.Arms*d)
	for k := range e.o.Arms {
		x := block[k*d : k*d+d]
		draw.Sub(uint64(k)).Sphere(x[:e.p], 0)
		x[e.p] = 1
		scale(x, math.Sqrt2/2)
	}
	return actionset.FiniteOf(d, block)
}

// Dim returns d.
func (e *clicks) Dim() int { return len(e.theta) }

// Notes implements Noted.
func (e *clicks) Notes() []string { return e.notes }

// Sigma implements Noisy: a reward in [0, 1] is ½-subgaussian around its mean.
func (e *clicks) Sigma() (float64, bool) { return 0.5, true }

// LargestRegret implements Bounded: means lie in [0, 1].
func (e *clicks) LargestRegret() (float64, bool) { return 1, true }

// Offer implements bandit.Environment.
func (e *clicks) Offer(draw rng.Source) (bandit.ActionSet, error) {
	var set bandit.Finite
	var err error
	if e.o.Every > 0 {
		if k := (int(draw.At()) - 1) / e.o.Every; k != e.stretch {
			e.theta, e.stretch, e.ready = e.draw(k), k, false
		}
	}
	switch {
	case e.o.Actions == "block":
		c := make([]float64, e.p+1)
		draw.Sphere(c[:e.p], 0)
		c[e.p] = 1
		scale(c, math.Sqrt2/2)
		set = newBlocks(c, e.o.Arms)
	case e.fixed == nil:
		set, err = e.arms(draw)
	case e.ready:
		return e.fixed, nil
	default:
		set = e.fixed
	}
	if err != nil {
		return nil, err
	}
	for k := range e.probs {
		e.probs[k] = logs.Sigmoid(linalg.Dot(set.At(k), e.theta))
	}
	e.ready = true
	return set, nil
}

// mean returns the mean of an action's reward in the round offered last.
func (e *clicks) mean(a bandit.Action) (float64, error) {
	if !e.ready {
		panic("env: an action before the first offer")
	}
	if a.Index < 0 || a.Index >= len(e.probs) {
		return 0, fmt.Errorf("env: the action's index is %d, expected an arm from 0 to %d", a.Index, len(e.probs)-1)
	}
	return e.probs[a.Index], nil
}

// Reward implements bandit.Environment.
func (e *clicks) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	p, err := e.mean(a)
	if err != nil || draw.Float64(0) >= p {
		return 0, err
	}
	return 1, nil
}

// Regret implements bandit.Environment.
func (e *clicks) Regret(a bandit.Action) (float64, error) {
	p, err := e.mean(a)
	if err != nil {
		return 0, err
	}
	best := 0.0
	for _, q := range e.probs {
		best = max(best, q)
	}
	return best - p, nil
}
