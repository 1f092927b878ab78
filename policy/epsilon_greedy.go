package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// EpsilonGreedyOptions configures the ε-greedy policy.
type EpsilonGreedyOptions struct {
	// Epsilon is the probability of exploring, in (0, 1]; 0 means 0.1.
	Epsilon float64 `key:"epsilon" doc:"probability of exploring, in [0, 1]" default:"0.1" zero:"Never"`
	// Never explores: the policy is greedy. A spec says epsilon = 0.
	Never bool
	// Lambda is the ridge parameter λ > 0; 0 means 1.
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
}

// Doc implements spec.Documented.
func (*EpsilonGreedyOptions) Doc() string {
	return "greedy, but with probability ε a uniform arm or direction"
}

// New implements Options.
func (o *EpsilonGreedyOptions) New(p Problem) (bandit.Policy, error) { return NewEpsilonGreedy(*o, p) }

// EpsilonGreedy plays the greedy action with probability 1−ε and otherwise what Uniform plays.
// Over a finite set of K arms the law is (1−ε)·greedy + ε/K; on other sets it has no closed form.
//
// Cost of a round: Select one call of the oracle, Update 3d².
type EpsilonGreedy struct {
	regression
	epsilon float64
	random  uniform
}

// NewEpsilonGreedy returns the policy before round 1. The error names the option that is wrong.
func NewEpsilonGreedy(o EpsilonGreedyOptions, p Problem) (*EpsilonGreedy, error) {
	g, err := newRegression(p, o.Lambda, 0, Scale{}, Constant(1))
	if err != nil {
		return nil, err
	}
	if !o.Never {
		fill(&o.Epsilon, 0.1)
	}
	if err := probability("epsilon", o.Epsilon, o.Never); err != nil {
		return nil, err
	}
	return &EpsilonGreedy{g, o.Epsilon, newUniform(p.Dim)}, nil
}

// probability returns an error unless v is in [0, 1], and 0 where never is set.
func probability(key string, v float64, never bool) error {
	if never && v != 0 {
		return spec.Refuse(key, v, "but 0 is asked for too")
	}
	if !(v >= 0 && v <= 1) {
		return spec.Refuse(key, v, "expected a number in [0, 1]")
	}
	return nil
}

// Select implements bandit.Policy. It uses numbers 0 (the coin) and 1, …, d of the source.
func (e *EpsilonGreedy) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if draw.Float64(0) < e.epsilon {
		return e.random.choose(dst, set, draw, 1)
	}
	return e.exploit(dst, set)
}

// Prob implements bandit.Prober for finite sets; elsewhere it is bandit.ErrUnsupported unless ε
// is 0.
func (e *EpsilonGreedy) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if _, finite := set.(bandit.Finite); !finite && e.epsilon > 0 {
		return fmt.Errorf("policy: epsilon-greedy: the law on a set that is not finite is an integral: %w",
			bandit.ErrUnsupported)
	}
	if err := certain(dst, set, e.exploit); err != nil {
		return err
	}
	if e.epsilon > 0 {
		floor(dst, e.epsilon)
	}
	return nil
}

// floor turns the law p of K arms into (1−ε)·p + ε/K, which is no longer a count.
func floor(dst *bandit.Law, epsilon float64) {
	least := epsilon / float64(len(dst.Atoms))
	for i := range dst.Atoms {
		dst.Atoms[i].P = float64((1-epsilon)*dst.Atoms[i].P) + least
		dst.Atoms[i].Count = 0
	}
	dst.Total = 0
}

// Update implements bandit.Policy.
func (e *EpsilonGreedy) Update(a bandit.Action, y float64, _ rng.Source) error { return e.learn(a, y) }

// AppendSnapshot implements bandit.Snapshotter.
func (e *EpsilonGreedy) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "epsilon-greedy", e.ridge.State()), nil
}

// Restore implements bandit.Snapshotter.
func (e *EpsilonGreedy) Restore(b []byte) error {
	v, err := readSnapshot(b, "epsilon-greedy", e.ridge.StateLengths())
	if err == nil {
		e.ridge.Restore(v)
	}
	return err
}

// GreedyTheta implements bandit.GreedyScorer.
func (e *EpsilonGreedy) GreedyTheta() []float64 { return e.ridge.Theta() }

// Additive implements bandit.Additive.
func (e *EpsilonGreedy) Additive() error { return nil }
