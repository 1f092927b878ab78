package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"troupe/bandit"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
)

// Compiled is a configuration that was checked, ready for use. It never changes.
type Compiled struct {
	Config             Config
	Encoder            *feature.Encoder     // of a schema, nil without one
	Atoms              *feature.AtomEncoder // of requests as they come, nil with a schema
	Dim                int
	FloorNum, FloorDen uint64         // the exploration floor, reduced
	Catalogue          map[string]int // id → place in Config.Actions
	Values             int            // about how many values the features of the catalogue have
	JSON               []byte         // of Config
	Warnings           []string
	Start              int  // bytes of the policy's snapshot before the first event
	Ranged             bool // the policy refuses rewards outside of the declared range

	times map[string]uint32 // of Config.Entered
	left  map[string]bool

	limits map[uint64]ActionLimit // of Config.Floors and Caps
	unit   []string               // names below context
}

// Cost returns that of an action in the catalogue, nil where it states none.
func (c *Compiled) Cost(id string) *float64 {
	if i, ok := c.Catalogue[id]; ok {
		return c.Config.Actions[i].Cost
	}
	return nil
}

// Remembers returns whether the state of the model has more than that of its policy: statistics of features, the
// range of rewards, a default reward from the data.
func (c *Compiled) Remembers() bool {
	r := c.Config.Reward
	return c.Atoms != nil || r.Adapt || r.Default.Word == "auto" && !r.Default.Set
}

// Problem is what the policy gets: the dimension, σ, and the randomness of its first members.
func (c *Compiled) Problem(key rng.Key) policy.Problem {
	sigma := c.Config.Sigma
	if sigma == 0 {
		sigma = (c.Config.Reward.Max - c.Config.Reward.Min) / 2
	}
	p := policy.Problem{Dim: c.Dim, Sigma: sigma, Init: key.Stream(rng.Init), Timed: true}
	if !c.Config.Reward.Adapt {
		p.Low, p.High = c.Config.Reward.Min, c.Config.Reward.Max
	}
	return p
}

// Policy is what a server needs of a policy: a law that can be stated and a state that can be kept.
type Policy interface {
	bandit.Policy
	bandit.Prober
	bandit.Snapshotter
}

// NewPolicy builds the policy of a model with this seed, before its first event.
func (c *Compiled) NewPolicy(seed rng.Key) (Policy, error) {
	p, err := c.Config.Policy.Options.New(c.Problem(seed))
	if err != nil {
		return nil, ErrorAt("config.policy", err)
	}
	if l, ok := p.(Policy); ok {
		return l, nil
	}
	kind := c.Config.Policy.Raw["kind"]
	if _, ok := p.(bandit.Prober); !ok {
		return nil, Invalid("config.policy.kind", kind, "%s", lawless(p))
	}
	return nil, Invalid("config.policy.kind", kind,
		"a %T is not kept as bytes (bandit.Snapshotter), so its state would not survive a restart", p)
}

// lawless returns why a policy that cannot state its law is refused, and what to use instead.
func lawless(p bandit.Policy) string {
	return fmt.Sprintf("a %T cannot state its law (bandit.Prober): it draws from a continuous law, the probability "+
		"of an action is an "+
		"integral without a closed form, and a server records exact propensities; use ensemble or atoms, whose laws "+
		"are counts of members", p)
}

// Shape returns a text that two configurations share when their policies, built from one seed, are equal and they read
// requests in the same way.
func (c *Compiled) Shape() ([]byte, error) {
	p := c.Problem(rng.Key{})
	x := c.Config
	return json.Marshal([]any{x.Policy.Raw, x.Features.Schema, x.Dim,
		p.Sigma, p.Low, p.High})
}

// SameShape returns an *Error that names what differs of the part of a configuration that cannot change, nil
// when nothing does: id, policy, features, dim and sigma shape the state.
func (c *Compiled) SameShape(n *Compiled) error {
	switch {
	case c.Config.ID != n.Config.ID:
		return Invalid("config.id", n.Config.ID, "cannot change from %q%s", c.Config.ID, way("config.id"))
	case !SameJSON(c.Config.Policy.Raw, n.Config.Policy.Raw):
		return Invalid("config.policy", "", "cannot change%s", way("config.policy"))
	case (c.Encoder == nil) != (n.Encoder == nil), c.Encoder != nil && c.Encoder.ID() != n.Encoder.ID():
		return Invalid("config.features", "", "cannot change%s", way("config.features"))
	case c.Atoms != nil && (c.Config.Reward.Adapt != n.Config.Reward.Adapt || c.Config.Reward.Min != n.Config.Reward.Min ||
		c.Config.Reward.Max != n.Config.Reward.Max):
		return Invalid("config.reward", "", "the range cannot change from %s%s", c.Config.Reward.span(), way("config.reward"))
	case len(c.Config.Numbers) > 0 && !slices.Equal(c.Config.Numbers, n.Config.Numbers):
		return Invalid("config.numbers", short(n.Config.Numbers), "cannot change: the state depends on it%s", way("config.numbers"))
	case !slices.Equal(c.Config.Rewards, n.Config.Rewards):
		return Invalid("config.rewards", short(n.Config.Rewards), "cannot change: the state depends on it%s", way("config.rewards"))
	case c.Config.List.Whole() != n.Config.List.Whole():
		return Invalid("config.list.reward", n.Config.List.Reward, "cannot change: the state depends on it%s", way("config.list"))
	case c.Problem(rng.Key{}).Sigma != n.Problem(rng.Key{}).Sigma:
		return Invalid("config.sigma", n.Config.Sigma,
			"cannot change (it is half the range of rewards unless it is set)%s", way("config.sigma"))
	}
	return nil
}

// SameState returns nil when a model with the configuration n can have a state of one with c, otherwise an *Error that
// names what differs.
func (c *Compiled) SameState(n *Compiled) error {
	same := *n
	same.Config.ID = c.Config.ID
	return c.SameShape(&same)
}

// Witnesses reports whether the policy looks at decisions when they are made (bandit.Witness).
func (c *Compiled) Witnesses() bool { return c.Config.Policy.reads() }

// CheckLists refuses lists for a model whose configuration they would break.
func (c *Compiled) CheckLists() error {
	x := &c.Config
	switch {
	case c.Atoms == nil:
		return Invalid("policy", x.Policy.Raw["kind"], "plays no lists: expected requests without a schema and without dim")
	case len(x.Numbers) > 0:
		return Invalid("numbers", short(x.Numbers), "does not go with lists: a model plays numbers or lists")
	case !x.Budget.IsZero():
		return Invalid("budget", "", "does not go with lists yet: make a model without one")
	case !x.Guard.IsZero():
		return Invalid("guard", "", "does not go with lists yet: make a model without one")
	case !x.Control.IsZero():
		return Invalid("control", x.Control.Share, "does not go with lists yet: make a model without one")
	case len(x.Rewards) > 0:
		return Invalid("rewards", short(x.Rewards), "does not go with lists: make a model without it")
	case len(x.Floors) > 0:
		return Invalid("floors", "", "does not go with lists: they hold for one action")
	case len(x.Caps) > 0:
		return Invalid("caps", "", "does not go with lists: they hold for one action")
	}
	return nil
}
