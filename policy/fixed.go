package policy

import (
	"fmt"
	"slices"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// FixedOptions configures the fixed policy: an arm by its number, or an action by its features.
type FixedOptions struct {
	Index int       `key:"index" doc:"number of the arm, from 0, in a finite set"`
	X     []float64 `key:"x" doc:"the action itself; replaces index"`
}

// Doc implements spec.Documented.
func (*FixedOptions) Doc() string { return "the same action in every round" }

// New implements Options.
func (o *FixedOptions) New(p Problem) (bandit.Policy, error) { return NewFixed(*o, p) }

// Fixed plays arm Index of the offered set, or the action X when it is given. It learns nothing.
type Fixed struct {
	d     int
	index int
	x     []float64
}

// NewFixed returns the policy. The error names the option that is wrong.
func NewFixed(o FixedOptions, p Problem) (*Fixed, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if o.X == nil {
		if o.Index < 0 || (p.Arms > 0 && o.Index >= p.Arms) {
			return nil, spec.Refuse("index", o.Index, "expected the number of an arm, 0 to %d", max(0, p.Arms-1))
		}
		return &Fixed{d: p.Dim, index: o.Index}, nil
	}
	if o.Index != 0 {
		return nil, spec.Refuse("index", o.Index, "but x is given too: expected one of them")
	}
	if len(o.X) != p.Dim {
		return nil, &spec.Error{Path: "x", Msg: fmt.Sprintf("has length %d, expected %d", len(o.X), p.Dim), Value: o.X,
			Want: fmt.Sprintf("%d numbers", p.Dim)}
	}
	for i, v := range o.X {
		if v-v != 0 {
			return nil, spec.Refuse(fmt.Sprintf("x[%d]", i), v, "expected a finite number")
		}
	}
	return &Fixed{d: p.Dim, x: slices.Clone(o.X)}, nil
}

// Select implements bandit.Policy. It uses no random numbers. It is an error when the set does not
// hold the action, as far as the set can tell.
func (f *Fixed) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	return f.choose(dst, set)
}

func (f *Fixed) choose(dst *bandit.Action, set bandit.ActionSet) error {
	if err := checkSet(set, f.d); err != nil {
		return err
	}
	arms, finite := set.(bandit.Finite)
	switch {
	case finite && f.x == nil:
		if f.index >= arms.Len() {
			return fmt.Errorf("policy: fixed: index is %d, but the set has %d arms", f.index, arms.Len())
		}
		dst.Set(arms.At(f.index), f.index)
		return nil
	case finite:
		for i := range arms.Len() {
			if slices.Equal(arms.At(i), f.x) {
				dst.Set(f.x, i)
				return nil
			}
		}
		return fmt.Errorf("policy: fixed: x = %v is none of the %d arms", f.x, arms.Len())
	case f.x == nil:
		return fmt.Errorf("policy: fixed: index is %d, but the set has no numbered arms; give x: %w", f.index,
			bandit.ErrUnsupported)
	}
	if s, ok := set.(interface {
		Contains(x []float64, tol float64) bool
	}); ok && !s.Contains(f.x, 1e-9) {
		return fmt.Errorf("policy: fixed: x = %v is not in the set", f.x)
	}
	dst.Set(f.x, bandit.NoIndex)
	return nil
}

// Prob implements bandit.Prober: one action has probability 1.
func (f *Fixed) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	return certain(dst, set, f.choose)
}

// Update implements bandit.Policy. It checks its arguments and does nothing.
func (f *Fixed) Update(a bandit.Action, y float64, _ rng.Source) error {
	return checkAction(a, y, f.d)
}

// AppendSnapshot implements bandit.Snapshotter: there is no state.
func (f *Fixed) AppendSnapshot(b []byte) ([]byte, error) { return appendSnapshot(b, "fixed", nil), nil }

// Restore implements bandit.Snapshotter.
func (f *Fixed) Restore(b []byte) error {
	_, err := readSnapshot(b, "fixed", nil)
	return err
}
