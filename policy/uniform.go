package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
)

// UniformOptions configures the uniform policy: it has no options.
type UniformOptions struct{}

// Doc implements spec.Documented.
func (*UniformOptions) Doc() string {
	return "a uniform arm; on other sets the best action for a uniform direction"
}

// New implements Options.
func (o *UniformOptions) New(p Problem) (bandit.Policy, error) { return NewUniform(*o, p) }

// Uniform plays a uniform arm of a finite set. On every other set it plays X_t ∈ argmax ⟨x, u⟩ for
// u uniform on the sphere: the uniform law on the sphere when the set is the unit ball, and some law
// on the extreme points otherwise. It learns nothing.
type Uniform struct{ random uniform }

// NewUniform returns the policy. It is an error when the problem makes no sense.
func NewUniform(_ UniformOptions, p Problem) (*Uniform, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return &Uniform{newUniform(p.Dim)}, nil
}

// uniform chooses at random, for the policies that do so now and then.
type uniform struct{ direction []float64 }

func newUniform(d int) uniform { return uniform{make([]float64, d)} }

// choose stores the action in dst. It uses the numbers i0, …, i0+d−1 of the source.
func (u uniform) choose(dst *bandit.Action, set bandit.ActionSet, draw rng.Source, i0 int) error {
	if err := checkSet(set, len(u.direction)); err != nil {
		return err
	}
	if f, ok := set.(bandit.Finite); ok {
		i := draw.Intn(i0, f.Len())
		dst.Set(f.At(i), i)
		return nil
	}
	draw.Sphere(u.direction, i0)
	_, err := set.ArgMax(dst, u.direction)
	return err
}

// Select implements bandit.Policy. It uses numbers 0, …, d−1 of the source.
func (u *Uniform) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return u.random.choose(dst, set, draw, 0)
}

// Prob implements bandit.Prober for finite sets: one of K for each arm.
func (u *Uniform) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if err := checkSet(set, len(u.random.direction)); err != nil {
		return err
	}
	f, ok := set.(bandit.Finite)
	if !ok {
		return fmt.Errorf("policy: uniform: the law on a set that is not finite has no atoms we know: %w", bandit.ErrUnsupported)
	}
	zeros(dst, f.Len())
	for i := range dst.Atoms {
		dst.Atoms[i].Count = 1
	}
	share(dst, uint64(f.Len()))
	return nil
}

// Update implements bandit.Policy. It checks its arguments and does nothing.
func (u *Uniform) Update(a bandit.Action, y float64, _ rng.Source) error {
	return checkAction(a, y, len(u.random.direction))
}

// AppendSnapshot implements bandit.Snapshotter: there is no state.
func (u *Uniform) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "uniform", nil), nil
}

// Restore implements bandit.Snapshotter.
func (u *Uniform) Restore(b []byte) error {
	_, err := readSnapshot(b, "uniform", nil)
	return err
}
