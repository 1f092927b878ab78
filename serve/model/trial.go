package model

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
)

// trial is what the trial of a policy found out. It depends on the shape of the configuration and on its rewards alone.
type trial struct {
	warnings []string
	start    int
	ranged   bool
}

// trials are those of the newest shapes in this process: a configuration is compiled where it comes in, where its record is read back
// and in the fold, and a policy with a thousand members takes .05 s of a processor to try.
var trials struct {
	sync.Mutex
	known map[[32]byte]trial
}

const maxTrials = 256

// tryPolicy refuses a policy that cannot state its law, or cannot be kept, before a model is made with it.
func (c *Compiled) tryPolicy() error {
	shape, err := c.Shape()
	if err != nil {
		return ErrorAt("config", err)
	}
	r := c.Config.Reward
	key := sha256.Sum256(fmt.Appendf(shape, " %t %v %v", r.Adapt, r.Min, r.Max))
	trials.Lock()
	t, ok := trials.known[key]
	trials.Unlock()
	if !ok {
		if t, err = c.try(); err != nil {
			return err
		}
		trials.Lock()
		if trials.known == nil || len(trials.known) >= maxTrials {
			trials.known = map[[32]byte]trial{}
		}
		trials.known[key] = t
		trials.Unlock()
	}
	c.Warnings = append(slices.Clip(c.Warnings), t.warnings...)
	c.Start, c.Ranged = t.start, t.ranged
	return nil
}

// try is tryPolicy for a shape that was not tried yet.
func (c *Compiled) try() (t trial, err error) {
	p, err := c.NewPolicy(rng.NewKey(0))
	if err != nil {
		return t, err
	}
	var set bandit.ActionSet
	if c.Atoms != nil {
		b := feature.NewAtomBatch(c.Atoms)
		err = errors.Join(b.Begin(nil), b.Add("0", nil), b.Add("1", nil))
		set = b
	} else {
		arms := min(c.Dim+1, 3) // the third is neither along the others nor orthogonal to them
		block := make([]float64, arms*c.Dim)
		block[0], block[c.Dim] = 0.5, -0.5
		if arms > 2 {
			block[2*c.Dim], block[2*c.Dim+1] = 0.3, 0.4
		}
		set, err = actionset.FiniteOf(c.Dim, block)
	}
	if err != nil {
		return t, ErrorAt("config.policy", err)
	}
	var law bandit.Law
	if err := p.Prob(&law, set, rng.Source{}); err != nil {
		if errors.Is(err, bandit.ErrUnsupported) {
			return t, Invalid("config.policy.kind", c.Config.Policy.Raw["kind"],
				"it cannot state its law (bandit.Prober): %v; use ensemble", err)
		}
		return t, Invalid("config.policy", short(c.Config.Policy.Raw), "cannot decide with these options: %v", err)
	}
	b, err := p.AppendSnapshot(nil)
	if err != nil {
		return t, Invalid("config.policy.kind", c.Config.Policy.Raw["kind"],
			"it is not kept as bytes (bandit.Snapshotter): %v", err)
	}
	t.start = len(b)
	if p, ok := bandit.Innermost(p).(bandit.Pender); ok && p.Pends() {
		return t, Invalid("config.policy.pending", c.Config.Policy.Raw["pending"], "is for experiments: a state of the server "+
			"changes with rewards and not with decisions; leave it out")
	}
	if w, ok := p.(bandit.Warner); ok {
		t.warnings = w.Warnings(set)
	}
	if r := c.Config.Reward; !r.Adapt { // p is not used any more
		a := bandit.Action{}
		switch set := set.(type) {
		case *actionset.Sparse:
			a.At, a.X = set.Nonzeros(0)
		case *actionset.Finite:
			a.X = set.At(0)
		}
		t.ranged = p.Update(a, r.Max+(r.Max-r.Min), rng.Source{}) != nil
	}
	return t, nil
}

// bears refuses options with which a policy does not survive the rewards that the model takes: after some of them at the
// ends of what it takes it must have a law, and bytes from which it can be built again.
func (c *Compiled) bears() error {
	fails := func(err error) error {
		return Invalid("config.policy", short(c.Config.Policy.Raw), "does not bear the rewards that the model takes with these "+
			"options: %v", err)
	}
	p, err := c.NewPolicy(rng.NewKey(0))
	if err != nil {
		return err
	}
	var rows []bandit.Action
	var set bandit.ActionSet
	if c.Atoms != nil {
		b := feature.NewAtomBatch(c.Atoms)
		err = errors.Join(b.Begin(nil), b.Add("0", nil), b.Add("1", nil))
		for i := range b.Len() {
			at, x := b.Nonzeros(i)
			rows = append(rows, bandit.Action{At: at, X: x, Index: i})
		}
		set = b
	} else {
		block := make([]float64, 2*c.Dim)
		block[0], block[2*c.Dim-1] = 0.5, -0.5
		rows = []bandit.Action{{X: block[:c.Dim]}, {X: block[c.Dim:], Index: 1}}
		set, err = actionset.FiniteOf(c.Dim, block)
	}
	if err != nil {
		return fails(err)
	}
	in := c.Config.Reward.Rewards()
	for i, y := range []float64{in.Most, in.Least, in.Least, in.Most, in.Most/2 + in.Least/2} {
		if err := p.Update(rows[i%2], y, rng.NewKey(0).Stream(rng.Perturb).Round(uint64(i))); err != nil {
			return fails(err)
		}
	}
	b, err := p.AppendSnapshot(nil)
	if err != nil {
		return fails(err)
	}
	again, err := c.NewPolicy(rng.NewKey(0))
	if err == nil {
		err = again.Restore(b)
	}
	if err != nil {
		return fails(err)
	}
	var law bandit.Law
	if err := again.Prob(&law, set, rng.Source{}); err != nil {
		return fails(err)
	}
	return nil
}

// CheckBudget refuses a policy that would ignore prices, and a budget below the cheapest action of the catalogue.
func (c *Compiled) CheckBudget() error {
	b := c.Config.Budget
	if b.IsZero() {
		return nil
	}
	if err := b.Limit().Check(); err != nil {
		return Invalid("config.budget", b.Mean+b.Total, "%v", err)
	}
	cheapest := -1
	for i, a := range c.Config.Actions {
		if a.Cost != nil && (cheapest < 0 || *a.Cost < *c.Config.Actions[cheapest].Cost) {
			cheapest = i
		}
	}
	if cheapest >= 0 {
		a := c.Config.Actions[cheapest]
		if err := b.Below("config.actions["+strconv.Itoa(cheapest)+"].cost", a.ID, *a.Cost); err != nil {
			return err
		}
	}
	p, err := c.NewPolicy(rng.NewKey(0))
	if err != nil {
		return err
	}
	if !bandit.Heeds(p) {
		return Invalid("config.policy.kind", c.Config.Policy.Raw["kind"], "looks at features alone and would ignore the "+
			"prices of a budget; expected effects, sparse, auto (link = \"linear\"), atoms, ensemble, linucb, lvr, "+
			"greedy, epsilon-greedy or mixed")
	}
	return nil
}

// CheckHalfLife refuses a half-life that is shorter than the window: half of what is known would be forgotten before
// the reward of a decision has come.
func (c *Compiled) CheckHalfLife() error {
	o, ok := c.Config.Policy.Options.(policy.Forgetter)
	if !ok {
		return nil
	}
	h, w := o.Forgets(), time.Duration(c.Config.Reward.Window)
	if h.Time > 0 && h.Time < w {
		return Invalid("config.policy.half_life", h.String(), "expected at least reward.window, %v: half of what is known would "+
			"be forgotten before a reward has come", w)
	}
	return nil
}

// CheckCatalogue encodes the features of the catalogue, which the schema would otherwise refuse at each
// decision.
func (c *Compiled) CheckCatalogue() error {
	var b interface {
		Begin(context []byte) error
		Add(id string, features []byte) error
	}
	switch {
	case c.Atoms != nil:
		b = feature.NewAtomBatch(c.Atoms)
	case c.Encoder != nil:
		b = feature.NewBatch(c.Encoder)
	default:
		return nil
	}
	for i, a := range c.Config.Actions {
		if b.Begin(nil) != nil {
			return nil // the context has features that are required
		}
		if c.Config.Dim != 0 && len(a.Features) == 0 {
			return Invalid(fmt.Sprintf("config.actions[%d].features", i), a.ID,
				"is missing, expected a list of %d numbers", c.Dim)
		}
		if err := b.Add(a.ID, a.Features); err != nil {
			e := FeatureError(err)
			e.Field = strings.Replace(e.Field, "actions[0]", fmt.Sprintf("config.actions[%d]", i), 1)
			return e
		}
	}
	return nil
}
