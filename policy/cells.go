package policy

import (
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// CellsOptions configures copies of a policy that share the decisions.
type CellsOptions struct {
	// Base is the policy of each cell; the zero value is the default ensemble.
	Base Base `key:"base" doc:"the policy of each cell, a table of its own"`
	// Cells is N, the number of copies; 0 means 4.
	Cells int `key:"cells" doc:"number of cells N" default:"4"`
}

// Doc implements spec.Documented.
func (*CellsOptions) Doc() string {
	return "one model over N cells: copies of a policy that share the decisions and learn apart, at about √N times the regret"
}

// New implements Options.
func (o *CellsOptions) New(p Problem) (bandit.Policy, error) { return NewCells(*o, p) }

// maxCells bounds N: a cell has a whole state.
const maxCells = 4096

// Cells is what becomes of one large model that is divided over N cells by the caller's unit: N copies of a policy, of
// which each decides and learns its share of the rounds and knows nothing of the others. Round t belongs to copy t mod N,
// as units that come by turns would have it; the reward of round t goes to the same copy, also when it is late.
//
// Where R(T) is the mean regret of one copy alone, N copies have N·R(T/N) in a world that does not change: √N·R(T) where
// R(T) = c√T, and up to N·R(T) where one copy has stopped paying. A change of the world is noticed after N times as many
// decisions.
//
// The base is built with the horizon ⌈T/N⌉, and draws its state before round 1 from Init.Sub(k) in copy k. Policies that
// are told more than the reward, of lists or of costs, are refused. It is for experiments: cells of servers are servers.
// Cost of a round: that of the base. The state is N times the base's.
type Cells struct {
	base    Base
	problem Problem // of a copy, but for Init
	all     []bandit.Policy
}

// NewCells builds the copies. The error names the option that is wrong.
func NewCells(o CellsOptions, p Problem) (*Cells, error) {
	fill(&o.Cells, 4)
	if o.Cells < 1 || o.Cells > maxCells {
		return nil, spec.Refuse("cells", o.Cells, "expected 1 to %d", maxCells)
	}
	p.Horizon = (p.Horizon + o.Cells - 1) / o.Cells
	c := &Cells{base: o.Base, problem: p}
	var err error
	if c.all, err = c.build(o.Cells); err != nil {
		return nil, err
	}
	switch c.all[0].(type) {
	case bandit.Payer:
		return nil, spec.Under("base", errors.New("it is told what actions cost, which a cell is not"))
	case bandit.PositionLearner:
		if p.Lists != nil {
			return nil, spec.Under("base", errors.New("it is told the rewards of positions, which a cell is not"))
		}
	}
	return c, nil
}

// build returns n copies before their first round.
func (c *Cells) build(n int) ([]bandit.Policy, error) {
	all := make([]bandit.Policy, n)
	for k := range all {
		p := c.problem
		p.Init = p.Init.Sub(uint64(k))
		var err error
		if all[k], err = c.base.New(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// at returns the copy of a round.
func (c *Cells) at(draw rng.Source) bandit.Policy { return c.all[draw.At()%uint64(len(c.all))] }

// Select implements bandit.Policy: the choice of the round's copy.
func (c *Cells) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return c.at(draw).Select(dst, set, draw)
}

// Update implements bandit.Policy: the round's copy learns.
func (c *Cells) Update(a bandit.Action, y float64, draw rng.Source) error {
	return c.at(draw).Update(a, y, draw)
}

// Warnings implements bandit.Warner: those of one copy.
func (c *Cells) Warnings(set bandit.ActionSet) []string { return warnings(c.all[0], set) }

// AppendSnapshot implements bandit.Snapshotter where the base does: a snapshot of kind "cells" that holds the lengths of
// the copies' snapshots, then these.
func (c *Cells) AppendSnapshot(b []byte) ([]byte, error) {
	lengths := make([]float64, len(c.all))
	var bodies []byte
	for k, p := range c.all {
		s, err := snapshotter("cells", p)
		if err != nil {
			return b, err
		}
		before := len(bodies)
		if bodies, err = s.AppendSnapshot(bodies); err != nil {
			return b, err
		}
		lengths[k] = float64(len(bodies) - before)
	}
	return append(appendSnapshot(b, "cells", [][]float64{lengths}), bodies...), nil
}

// SnapshotCost implements bandit.Weighed where the base does.
func (c *Cells) SnapshotCost() (bytes, work int) {
	for _, p := range c.all {
		b, w := costOf(p)
		if b == 0 {
			return 0, 0
		}
		bytes, work = bytes+b, work+w
	}
	return bytes + snapshotSize("cells", 1, len(c.all)), work
}

// Restore implements bandit.Snapshotter where the base does.
func (c *Cells) Restore(b []byte) error {
	own := snapshotSize("cells", 1, len(c.all))
	if len(b) < own {
		return fmt.Errorf("policy: cells: a snapshot of %d bytes is cut short", len(b))
	}
	v, err := readSnapshot(b[:own], "cells", []int{len(c.all)})
	if err != nil {
		return err
	}
	all, err := c.build(len(c.all))
	if err != nil {
		return err
	}
	b = b[own:]
	for k, p := range all {
		n := v[0][k]
		if n != math.Trunc(n) || n < 0 || n > float64(len(b)) {
			return fmt.Errorf("policy: cells: the snapshot of copy %d has %v bytes, and %d are left", k, n, len(b))
		}
		s, err := snapshotter("cells", p)
		if err != nil {
			return err
		}
		if err := s.Restore(b[:int(n)]); err != nil {
			return fmt.Errorf("policy: cells: copy %d: %w", k, err)
		}
		b = b[int(n):]
	}
	if len(b) > 0 {
		return fmt.Errorf("policy: cells: %d bytes after the last copy", len(b))
	}
	c.all = all
	return nil
}
