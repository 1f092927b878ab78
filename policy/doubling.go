package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// DoublingOptions configures the doubling trick.
type DoublingOptions struct {
	// Base is the policy to restart; the zero value is the default ensemble.
	Base Base `key:"base" doc:"the policy to restart, a table of its own"`
	// First is the length of the first epoch; 0 means 1.
	First int `key:"first" doc:"length of the first epoch" default:"1"`
}

// Doc implements spec.Documented.
func (*DoublingOptions) Doc() string {
	return "the doubling trick: restarts the base with twice the horizon, for a base that must know it"
}

// New implements Options.
func (o *DoublingOptions) New(p Problem) (bandit.Policy, error) { return NewDoubling(*o, p) }

// Doubling is the doubling trick: epoch k = 0, 1, … lasts T_k = first·2^k rounds and belongs to a
// fresh base built for the horizon T_k. Confidence is shared: the base of epoch k works at level
// δ/((k+1)(k+2)), and these sum to δ. Its initial draws come from Init.Sub(k), so epochs are
// independent. A round is one successful Update. A base that fails to be built for the next epoch
// makes the last Update of the current one fail, and nothing has changed.
//
// Everything the base can do — Prob, Warnings, snapshots — the wrapper can. Cost: that of the base.
type Doubling struct {
	opts    DoublingOptions
	problem Problem
	epoch   int
	played  int // rounds of this epoch
	base    bandit.Policy
}

// maxEpoch keeps T_k below 2⁶².
const maxEpoch = 61

// NewDoubling returns the policy before round 1. The error names the option that is wrong.
func NewDoubling(o DoublingOptions, p Problem) (*Doubling, error) {
	if o.First == 0 {
		o.First = 1
	}
	if o.First < 0 {
		return nil, spec.Refuse("first", o.First, "expected at least 1")
	}
	if o.Base.Options == nil {
		o.Base = defaultBase()
	}
	p.Horizon = 0 // each epoch has its own
	d := &Doubling{opts: o, problem: p}
	var err error
	d.base, err = d.build(0)
	return d, err
}

// length returns T_k, or the largest int when that is larger.
func (d *Doubling) length(k int) int {
	if k > maxEpoch || d.opts.First > math.MaxInt>>k {
		return math.MaxInt
	}
	return d.opts.First << k
}

// build returns the base of epoch k.
func (d *Doubling) build(k int) (bandit.Policy, error) {
	p := d.problem
	p.Horizon = d.length(k)
	p.Share = p.share() / (float64(k+1) * float64(k+2))
	p.Init = p.Init.Sub(uint64(k))
	return d.opts.Base.New(p)
}

// Base returns the policy of the current epoch.
func (d *Doubling) Base() bandit.Policy { return d.base }

// Epoch returns k and the number of rounds played in it.
func (d *Doubling) Epoch() (k, played int) { return d.epoch, d.played }

// Select implements bandit.Policy: the base's choice from the same source.
func (d *Doubling) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return d.base.Select(dst, set, draw)
}

// Update implements bandit.Policy.
func (d *Doubling) Update(a bandit.Action, y float64, draw rng.Source) error {
	if d.played+1 < d.length(d.epoch) {
		err := d.base.Update(a, y, draw)
		if err == nil {
			d.played++
		}
		return err
	}
	next, err := d.build(d.epoch + 1)
	if err != nil {
		return fmt.Errorf("policy: doubling: epoch %d: %w", d.epoch+1, err)
	}
	if err := d.base.Update(a, y, draw); err != nil { // for its judgement of a and y
		return err
	}
	d.base, d.epoch, d.played = next, d.epoch+1, 0
	return nil
}

// Prob implements bandit.Prober where the base does.
func (d *Doubling) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	p, ok := d.base.(bandit.Prober)
	if !ok {
		return fmt.Errorf("policy: doubling: the base, a %T, has no exact propensities: %w", d.base,
			bandit.ErrUnsupported)
	}
	return p.Prob(dst, set, draw)
}

// Warnings implements bandit.Warner.
func (d *Doubling) Warnings(set bandit.ActionSet) []string { return warnings(d.base, set) }

// AppendSnapshot implements bandit.Snapshotter where the base does: a snapshot of kind "doubling"
// that holds the epoch, the rounds played in it and the length of what follows, then the snapshot
// of the base.
func (d *Doubling) AppendSnapshot(b []byte) ([]byte, error) {
	s, err := snapshotter("doubling", d.base)
	if err != nil {
		return b, err
	}
	base, err := s.AppendSnapshot(nil)
	if err != nil {
		return b, err
	}
	b = appendSnapshot(b, "doubling", [][]float64{{float64(d.epoch), float64(d.played), float64(len(base))}})
	return append(b, base...), nil
}

// SnapshotCost implements bandit.Weighed where the base does.
func (d *Doubling) SnapshotCost() (bytes, work int) {
	if bytes, work = costOf(d.base); bytes > 0 {
		bytes += snapshotSize("doubling", 1, 3)
	}
	return bytes, work
}

// Restore implements bandit.Snapshotter where the base does.
func (d *Doubling) Restore(b []byte) error {
	own := len(appendSnapshot(nil, "doubling", [][]float64{{0, 0, 0}}))
	if len(b) < own {
		return fmt.Errorf("policy: doubling: a snapshot of %d bytes is cut short", len(b))
	}
	v, err := readSnapshot(b[:own], "doubling", []int{3})
	if err != nil {
		return err
	}
	epoch, played, size := v[0][0], v[0][1], v[0][2]
	if size != float64(len(b)-own) {
		return fmt.Errorf("policy: doubling: the base's snapshot has %d bytes, expected %v", len(b)-own, size)
	}
	if epoch != math.Trunc(epoch) || epoch < 0 || epoch > maxEpoch {
		return fmt.Errorf("policy: doubling: snapshot is of epoch %v", epoch)
	}
	if played != math.Trunc(played) || played < 0 || played >= float64(d.length(int(epoch))) {
		return fmt.Errorf("policy: doubling: snapshot has %v rounds of an epoch of %d", played, d.length(int(epoch)))
	}
	base, err := d.build(int(epoch))
	if err != nil {
		return fmt.Errorf("policy: doubling: epoch %v: %w", epoch, err)
	}
	s, err := snapshotter("doubling", base)
	if err != nil {
		return err
	}
	if err := s.Restore(b[own:]); err != nil {
		return err
	}
	d.base, d.epoch, d.played = base, int(epoch), int(played)
	return nil
}

// DrawnMember implements bandit.MemberDrawer where the base does.
func (d *Doubling) DrawnMember(draw rng.Source) (j int, xi float64) { return drawnMember(d.base, draw) }

// Redraws implements bandit.Redrawer where the base does.
func (d *Doubling) Redraws() bool { return redraws(d.base) }
