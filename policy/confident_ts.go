package policy

import (
	"math"

	"troupe/bandit"
	"troupe/rng"
)

// ConfidentOptions configures confident linear Thompson sampling.
type ConfidentOptions struct {
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta  float64 `key:"delta" doc:"confidence level δ" default:"0.1"`
	Scale  Scale   `key:"scale" doc:"radius r_t of the confidence set before the inflation by √d" default:"beta 1"`
}

// Doc implements spec.Documented.
func (*ConfidentOptions) Doc() string {
	return "confident linear Thompson sampling: uniform on the inflated confidence set (alg:ts)"
}

// New implements Options.
func (o *ConfidentOptions) New(p Problem) (bandit.Policy, error) { return NewConfident(*o, p) }

// Confident is confident linear Thompson sampling, Algorithm 3 of the paper (alg:ts): θ_t is
// uniform on the √d-inflation of the confidence set,
//
//	θ_t = ψ_{t−1}(U_t) = θ̂_{t−1} + r_{t−1} V_{t−1}^{-1/2} U_t,  U_t ~ Uniform(√d·𝔹^d),
//
// with r_t = β_t as the default. V^{-1/2} stands for L⁻ᵀ, V = LLᵀ; the law of U_t is rotation
// invariant, so every square root gives the same law. No exact propensity.
//
// Cost of a round: as Thompson.
type Confident struct {
	ts Thompson
}

// NewConfident returns the policy before round 1. The error names the option that is wrong.
func NewConfident(o ConfidentOptions, p Problem) (*Confident, error) {
	if o.Scale.Kind == "" {
		o.Scale = betaScale(1)
	}
	ts, err := NewThompson(ThompsonOptions{Lambda: o.Lambda, Delta: o.Delta, Scale: o.Scale}, p)
	if err != nil {
		return nil, err
	}
	return &Confident{*ts}, nil
}

// Select implements bandit.Policy. It uses numbers 0, …, d of the source.
func (c *Confident) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	d := c.ts.ridge.Dim()
	if err := checkSet(set, d); err != nil {
		return err
	}
	draw.Ball(c.ts.theta, 0)
	c.ts.around(c.ts.Scale() * math.Sqrt(float64(d)))
	_, err := set.ArgMax(dst, c.ts.theta)
	return err
}

// Update implements bandit.Policy.
func (c *Confident) Update(a bandit.Action, y float64, draw rng.Source) error {
	return c.ts.Update(a, y, draw)
}

// Warnings implements bandit.Warner: in dimension 1 the proof of cor:ts fails (audit of the paper,
// docs/design/paper.md), because the ball of radius √d = 1 holds no U with U ≥ 1 except on its boundary.
func (c *Confident) Warnings(bandit.ActionSet) []string {
	if c.ts.ridge.Dim() > 1 {
		return nil
	}
	return []string{"confident-ts in dimension 1 is optimistic with probability that can be arbitrarily small " +
		"(Uniform(√d·𝔹) never exceeds 1 there), and its regret bound needs d ≥ 2; use ts or linucb"}
}

// AppendSnapshot implements bandit.Snapshotter.
func (c *Confident) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "confident-ts", append(c.ts.ridge.State(), c.ts.factor.L())), nil
}

// Restore implements bandit.Snapshotter.
func (c *Confident) Restore(b []byte) error { return c.ts.restore(b, "confident-ts") }
