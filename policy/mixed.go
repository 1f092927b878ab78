package policy

import (
	"errors"
	"fmt"

	"troupe/bandit"
	"troupe/rng"
)

// MixedOptions configures an exploration floor.
type MixedOptions struct {
	// Base is the policy under the floor; the zero value is the default ensemble.
	Base Base `key:"base" doc:"the policy under the floor, a table of its own"`
	// Epsilon is the probability of a uniform arm, in (0, 1]; 0 means 0.05.
	Epsilon float64 `key:"epsilon" doc:"probability of a uniform arm, in [0, 1]" default:"0.05" zero:"NoFloor"`
	// NoFloor leaves the base as it is. A spec says epsilon = 0.
	NoFloor bool
}

// Doc implements spec.Documented.
func (*MixedOptions) Doc() string {
	return "an exploration floor: with probability ε a uniform arm, otherwise the base policy"
}

// New implements Options.
func (o *MixedOptions) New(p Problem) (bandit.Policy, error) { return NewMixed(*o, p) }

// Mixed plays a uniform arm of a finite set with probability ε and what its base chooses
// otherwise, so that every arm has a propensity of at least ε/K and a log of it supports every
// target policy. The law is (1−ε)·base + ε/K. On a set that is not finite it is refused. The base
// learns from every reward.
//
// The coin and the arm are numbers 0 and 1 of the source; the base reads source.Sub(0), so the two
// never share a number however wrappers are nested.
type Mixed struct {
	base    bandit.Policy
	epsilon float64
}

// NewMixed builds the base and puts the floor under it. The error names the option that is wrong.
func NewMixed(o MixedOptions, p Problem) (*Mixed, error) {
	base, err := o.Base.New(p)
	if err != nil {
		return nil, err
	}
	if !o.NoFloor {
		fill(&o.Epsilon, 0.05)
	}
	if err := probability("epsilon", o.Epsilon, o.NoFloor); err != nil {
		return nil, err
	}
	return Mix(base, o.Epsilon)
}

// Mix puts an exploration floor under any policy, which belongs to the result from then on.
func Mix(base bandit.Policy, epsilon float64) (*Mixed, error) {
	if err := probability("epsilon", epsilon, false); err != nil {
		return nil, err
	}
	return &Mixed{base, epsilon}, nil
}

// Base returns the policy under the floor.
func (m *Mixed) Base() bandit.Policy { return m.base }

// arms returns how many actions a list has, sparse or dense.
func (m *Mixed) arms(set bandit.ActionSet) (int, error) {
	switch s := set.(type) {
	case bandit.Finite:
		return s.Len(), nil
	case bandit.Sparse:
		return s.Len(), nil
	}
	return 0, fmt.Errorf("policy: mixed: a floor of ε/K needs a finite set, this is %s: %w", described(set),
		bandit.ErrUnsupported)
}

// Select implements bandit.Policy. The base chooses in any case, so that whether a set is refused
// does not depend on the coin.
func (m *Mixed) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	k, err := m.arms(set)
	if err != nil {
		return err
	}
	if err := m.base.Select(dst, set, draw.Sub(0)); err != nil {
		return err
	}
	if draw.Float64(0) < m.epsilon {
		i := draw.Intn(1, k)
		if s, ok := set.(bandit.Sparse); ok {
			at, x := s.Nonzeros(i)
			dst.SetSparse(at, x, i)
		} else {
			dst.Set(set.(bandit.Finite).At(i), i)
		}
	}
	return nil
}

// Prob implements bandit.Prober where the base does.
func (m *Mixed) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	if _, err := m.arms(set); err != nil {
		return err
	}
	p, ok := m.base.(bandit.Prober)
	if !ok {
		return fmt.Errorf("policy: mixed: the base, a %T, has no exact propensities: %w", m.base, bandit.ErrUnsupported)
	}
	if err := p.Prob(dst, set, draw.Sub(0)); err != nil {
		return err
	}
	if m.epsilon > 0 {
		floor(dst, m.epsilon)
	}
	return nil
}

// Update implements bandit.Policy: the base reads source.Sub(0) here too, so that its round is one.
func (m *Mixed) Update(a bandit.Action, y float64, draw rng.Source) error {
	return m.base.Update(a, y, draw.Sub(0))
}

// Warnings implements bandit.Warner.
func (m *Mixed) Warnings(set bandit.ActionSet) []string { return warnings(m.base, set) }

// AppendSnapshot implements bandit.Snapshotter where the base does: the floor has no state, the
// bytes are the base's.
func (m *Mixed) AppendSnapshot(b []byte) ([]byte, error) {
	s, err := snapshotter("mixed", m.base)
	if err != nil {
		return b, err
	}
	return s.AppendSnapshot(b)
}

// SnapshotCost implements bandit.Weighed where the base does.
func (m *Mixed) SnapshotCost() (bytes, work int) { return costOf(m.base) }

// Restore implements bandit.Snapshotter where the base does.
func (m *Mixed) Restore(b []byte) error {
	s, err := snapshotter("mixed", m.base)
	if err != nil {
		return err
	}
	return s.Restore(b)
}

// GreedyTheta implements bandit.GreedyScorer where the base does: the coin of the floor does not look at the actions.
func (m *Mixed) GreedyTheta() []float64 {
	if g, ok := m.base.(bandit.GreedyScorer); ok {
		return g.GreedyTheta()
	}
	return nil
}

// DrawnMember implements bandit.MemberDrawer where the base does.
func (m *Mixed) DrawnMember(draw rng.Source) (j int, xi float64) {
	return drawnMember(m.base, draw.Sub(0))
}

// Redraws implements bandit.Redrawer where the base does.
func (m *Mixed) Redraws() bool { return redraws(m.base) }

// Additive implements bandit.Additive: the state is that of the base.
func (m *Mixed) Additive() error {
	if a, ok := m.base.(bandit.Additive); ok {
		return a.Additive()
	}
	return errors.New("its state is not a sum over events")
}

// Defer implements bandit.Deferrer where the base does.
func (m *Mixed) Defer(on bool) {
	if d, ok := m.base.(bandit.Deferrer); ok {
		d.Defer(on)
	}
}

// Pending implements bandit.Deferrer where the base does.
func (m *Mixed) Pending() bandit.Work {
	if d, ok := m.base.(bandit.Deferrer); ok {
		return d.Pending()
	}
	return nil
}

// Finish implements bandit.Deferrer where the base does.
func (m *Mixed) Finish() {
	if d, ok := m.base.(bandit.Deferrer); ok {
		d.Finish()
	}
}
