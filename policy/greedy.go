package policy

import (
	"troupe/bandit"
	"troupe/rng"
)

// GreedyOptions configures the greedy policy.
type GreedyOptions struct {
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
}

// Doc implements spec.Documented.
func (*GreedyOptions) Doc() string { return "the best action for the ridge estimate, no exploration" }

// New implements Options.
func (o *GreedyOptions) New(p Problem) (bandit.Policy, error) { return NewGreedy(*o, p) }

// Greedy plays X_t ∈ argmax ⟨x, θ̂_{t−1}⟩. The next action is not random.
//
// Cost of a round: Select one call of the oracle, Update 3d².
type Greedy struct{ regression }

// NewGreedy returns the policy before round 1. The error names the option that is wrong.
func NewGreedy(o GreedyOptions, p Problem) (*Greedy, error) {
	g, err := newRegression(p, o.Lambda, 0, Scale{}, Constant(1))
	if err != nil {
		return nil, err
	}
	return &Greedy{g}, nil
}

// Select implements bandit.Policy. It uses no random numbers.
func (g *Greedy) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	return g.exploit(dst, set)
}

// Prob implements bandit.Prober: one action has probability 1.
func (g *Greedy) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	return certain(dst, set, g.exploit)
}

// Update implements bandit.Policy.
func (g *Greedy) Update(a bandit.Action, y float64, _ rng.Source) error { return g.learn(a, y) }

// AppendSnapshot implements bandit.Snapshotter.
func (g *Greedy) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "greedy", g.ridge.State()), nil
}

// Restore implements bandit.Snapshotter.
func (g *Greedy) Restore(b []byte) error {
	v, err := readSnapshot(b, "greedy", g.ridge.StateLengths())
	if err == nil {
		g.ridge.Restore(v)
	}
	return err
}

// GreedyTheta implements bandit.GreedyScorer.
func (g *Greedy) GreedyTheta() []float64 { return g.ridge.Theta() }

// Additive implements bandit.Additive.
func (g *Greedy) Additive() error { return nil }
