package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// CoinOptions configures a coin between two fixed actions.
type CoinOptions struct {
	First  int     `key:"first" doc:"number of the one action, from 0"`
	Second int     `key:"second" doc:"number of the other"`
	P      float64 `key:"p" doc:"probability of the other" default:"0.5" zero:"Never"`
	// Never plays the first action only. A spec says p = 0.
	Never bool
}

// Doc implements spec.Documented.
func (*CoinOptions) Doc() string {
	return "one of two fixed actions by a coin: what choosing has to beat at the same mean cost"
}

// New implements Options.
func (o *CoinOptions) New(p Problem) (bandit.Policy, error) { return NewCoin(*o, p) }

// Coin plays action Second of a list, dense or sparse, with probability P and otherwise First. It learns nothing.
type Coin struct {
	o CoinOptions
	d int
}

// NewCoin returns the policy. The error names the option that is wrong.
func NewCoin(o CoinOptions, p Problem) (*Coin, error) {
	if err := p.check(); err != nil && p.Dim <= maxDim {
		return nil, err
	}
	if !o.Never {
		fill(&o.P, .5)
	}
	if err := probability("p", o.P, o.Never); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		key string
		v   int
	}{{"first", o.First}, {"second", o.Second}} {
		if f.v < 0 || p.Arms > 0 && f.v >= p.Arms {
			return nil, spec.Refuse(f.key, f.v, "expected the number of an action, 0 to %d", max(0, p.Arms-1))
		}
	}
	return &Coin{o, p.Dim}, nil
}

// Select implements bandit.Policy. It uses number 0 of the source.
func (c *Coin) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := c.check(set); err != nil {
		return err
	}
	i := c.o.First
	if draw.Float64(0) < c.o.P {
		i = c.o.Second
	}
	if s, ok := set.(bandit.Sparse); ok {
		at, x := s.Nonzeros(i)
		dst.SetSparse(at, x, i)
		return nil
	}
	dst.Set(set.(bandit.Finite).At(i), i)
	return nil
}

// check returns an error unless the set is a list that has both actions.
func (c *Coin) check(set bandit.ActionSet) error {
	switch set.(type) {
	case bandit.Sparse:
	case bandit.Finite:
		if err := checkSet(set, c.d); err != nil {
			return err
		}
	default:
		return fmt.Errorf("policy: coin: actions have no numbers in %s: %w", described(set), bandit.ErrUnsupported)
	}
	if k := lengthOf(set); max(c.o.First, c.o.Second) >= k {
		return fmt.Errorf("policy: coin: first = %d and second = %d, but the set has %d actions", c.o.First, c.o.Second, k)
	}
	return nil
}

// Prob implements bandit.Prober.
func (c *Coin) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if err := c.check(set); err != nil {
		return err
	}
	zeros(dst, lengthOf(set))
	dst.Total = 0
	dst.Atoms[c.o.First].P += 1 - c.o.P
	dst.Atoms[c.o.Second].P += c.o.P
	return nil
}

// Update implements bandit.Policy. It checks its arguments and does nothing.
func (c *Coin) Update(a bandit.Action, y float64, _ rng.Source) error {
	if a.At == nil {
		return checkAction(a, y, c.d)
	}
	for i, v := range append(a.X[:len(a.X):len(a.X)], y) {
		if v-v != 0 {
			return fmt.Errorf("policy: number %d of an action and its reward is %v: %w", i, v, bandit.ErrNotFinite)
		}
	}
	return nil
}

// AppendSnapshot implements bandit.Snapshotter: there is no state.
func (c *Coin) AppendSnapshot(b []byte) ([]byte, error) { return appendSnapshot(b, "coin", nil), nil }

// Restore implements bandit.Snapshotter.
func (c *Coin) Restore(b []byte) error {
	_, err := readSnapshot(b, "coin", nil)
	return err
}
