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

// Uniform plays a uniform arm of a finite set, dense or sparse. On every other set it plays X_t ∈ argmax ⟨x, u⟩ for
// u uniform on the sphere: the uniform law on the sphere when the set is the unit ball, and some law
// on the extreme points otherwise. It learns nothing.
type Uniform struct {
	dim    int
	random uniform // direction is made when a set asks for it
}

// NewUniform returns the policy. It is an error when the problem makes no sense.
func NewUniform(_ UniformOptions, p Problem) (*Uniform, error) {
	dim := p.Dim
	p.Dim = max(0, min(dim, 1)) // it has no matrix: any dimension will do
	if err := p.check(); err != nil {
		return nil, err
	}
	return &Uniform{dim: dim}, nil
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

// open returns how many arms a set lists, 0 for one that is no list.
func (u *Uniform) open(set bandit.ActionSet) (int, error) {
	if set.Dim() != u.dim {
		return 0, fmt.Errorf("policy: the action set has dimension %d, the policy %d", set.Dim(), u.dim)
	}
	switch s := set.(type) {
	case bandit.Sparse:
		return s.Len(), nil
	case bandit.Finite:
		return s.Len(), checkNumbers(s)
	}
	return 0, nil
}

// Select implements bandit.Policy. It uses number 0 of the source for a list, otherwise 0, …, d−1.
func (u *Uniform) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if _, err := u.open(set); err != nil {
		return err
	}
	if s, ok := set.(bandit.Sparse); ok {
		i := draw.Intn(0, s.Len())
		at, x := s.Nonzeros(i)
		dst.SetSparse(at, x, i)
		return nil
	}
	if u.random.direction == nil {
		u.random = newUniform(u.dim)
	}
	return u.random.choose(dst, set, draw, 0)
}

// Prob implements bandit.Prober for lists: one of K for each arm.
func (u *Uniform) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	n, err := u.open(set)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("policy: uniform: the law on a set that is not finite has no atoms we know: %w",
			bandit.ErrUnsupported)
	}
	zeros(dst, n)
	for i := range dst.Atoms {
		dst.Atoms[i].Count = 1
	}
	share(dst, uint64(n))
	return nil
}

// Update implements bandit.Policy. It checks its arguments and does nothing.
func (u *Uniform) Update(a bandit.Action, y float64, _ rng.Source) error {
	if a.At == nil {
		return checkAction(a, y, u.dim)
	}
	for _, at := range a.At {
		if int64(at) >= int64(u.dim) {
			return fmt.Errorf("policy: the action has coordinate %d, the policy %d", at, u.dim)
		}
	}
	a.At = nil
	return checkAction(a, y, len(a.X))
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
