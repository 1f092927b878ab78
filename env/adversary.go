package env

import (
	"math"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// AdversaryOptions are the options of kind "adversary": contexts of an adversary that sees the actions. In each round
// there are a unit vector x and the zero vector, with
//
//	x = gap·θ* + √(1 − gap²)·w,  ‖θ*‖ = 1, w a random unit vector orthogonal to θ*,
//
// so that x is better by gap. The adversary offers the same x until it was played pulls times, then one with a new w.
// It looks for a direction in which the policy is lost: a policy that has given up x loses gap in each round that is
// left, and one that tries every direction again and again loses only while it does not know θ*.
type AdversaryOptions struct {
	D     int     `key:"d" doc:"dimension"`
	Gap   float64 `key:"gap" doc:"⟨x, θ*⟩, what the zero vector loses in a round; above 0, at most 1"`
	Pulls int     `key:"pulls" doc:"how often x is played before it changes"`
	Noise Noise   `key:"noise" doc:"noise of the rewards"`
}

// NewAdversary returns the defaults: d = 4, gap = 0.3, one pull, N(0, 1) noise.
func NewAdversary() *AdversaryOptions {
	return &AdversaryOptions{D: 4, Gap: 0.3, Pulls: 1, Noise: Noise{Kind: "gaussian", Law: &Gaussian{Std: 1}}}
}

// Doc says what the kind is.
func (*AdversaryOptions) Doc() string {
	return "an adversary offers a good direction and the zero vector until the direction is played, then another " +
		"direction"
}

// Build implements Options.
func (o *AdversaryOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	const most = 1 << 16
	switch {
	case o.D < 2 || o.D > most:
		return nil, wrong("d", "is %d, expected 2 to %d", o.D, most)
	case !(o.Gap > 0 && o.Gap <= 1):
		return nil, wrong("gap", "is %v, expected a number above 0, at most 1", o.Gap)
	case o.Pulls < 1:
		return nil, wrong("pulls", "is %d, expected at least 1", o.Pulls)
	}
	if err := o.Noise.check(); err != nil {
		return nil, err
	}
	theta := make([]float64, o.D)
	key.Stream(rng.Instance).Round(drawTheta).Sphere(theta, 0)
	a := &directions{theta: theta, gap: o.Gap, pulls: o.Pulls}
	e := newLinear(theta, a, o.Noise.Law, nil)
	e.largest = o.Gap * (1 + actionset.Tolerance)
	return &adversary{linear: e, offers: a}, nil
}

// directions is what an adversary offers.
type directions struct {
	theta  []float64
	gap    float64
	pulls  int
	set    bandit.Finite
	played int // how often the set's direction was
}

func (a *directions) offer(draw rng.Source) (bandit.ActionSet, int, error) {
	if a.set != nil && a.played < a.pulls {
		return a.set, -1, nil
	}
	d := len(a.theta)
	block := make([]float64, 2*d) // the second arm is zero
	w := block[:d]
	draw.Sphere(w, 0)
	for range 2 { // the second time removes what rounding left
		linalg.Axpy(-linalg.Dot(a.theta, w), a.theta, w)
		scale(w, 1/linalg.Norm(w))
	}
	scale(w, math.Sqrt(1-float64(a.gap*a.gap)))
	linalg.Axpy(a.gap, a.theta, w)
	if norm := linalg.Norm(w); norm > 1 {
		scale(w, 1/norm)
	}
	set, err := actionset.FiniteOf(d, block)
	a.set, a.played = set, 0
	return set, -1, err
}

func (*directions) slots() int { return 0 }

// adversary is a linear environment that sees which actions are paid.
type adversary struct {
	*linear
	offers *directions
}

// Reacts implements Reacting.
func (*adversary) Reacts() {}

// Reward implements bandit.Environment.
func (e *adversary) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	y, err := e.linear.Reward(a, draw)
	if err == nil {
		e.offers.see(a)
	}
	return y, err
}

// Settle implements bandit.Settler.
func (e *adversary) Settle(a bandit.Action, draw rng.Source) (reward, regret float64, err error) {
	reward, regret, err = e.linear.Settle(a, draw)
	if err == nil {
		e.offers.see(a)
	}
	return reward, regret, err
}

// see counts an action if it is the direction.
func (a *directions) see(action bandit.Action) {
	if linalg.Dot(action.X, action.X) > 0.5 {
		a.played++
	}
}
