package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// Remembers returns whether the state of the model has more than that of its policy: statistics of features, the
// range of rewards, a default reward from the data.
func (c *Compiled) Remembers() bool {
	r := c.Config.Reward
	return c.Hashed != nil || r.Adapt || r.Default.Word == "auto" && !r.Default.Set
}

// Compiled is a configuration that was checked, ready for use. It never changes.
type Compiled struct {
	Config             Config
	Encoder            *feature.Encoder // of a schema, nil with hashed features
	Hashed             *feature.Hashed  // without a schema, nil with one
	Dim                int
	FloorNum, FloorDen uint64         // the exploration floor, reduced
	Catalogue          map[string]int // id → place in Config.Actions
	JSON               []byte         // of Config
	Warnings           []string
	Start              int // bytes of the policy's snapshot before the first event

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

// Sparse returns whether the policy's memory grows with the coordinates that it has met.
func (c *Compiled) Sparse() bool { return sparseKindOf(c.Config.Policy.Raw) }

// Modes are the modes that a configuration or a request may name, as the log records them.
var Modes = map[Mode]eventlog.Mode{
	Online: eventlog.Online, Apprentice: eventlog.Apprentice, Shadow: eventlog.Shadow, Frozen: eventlog.Frozen,
	Guarded: eventlog.Online, // or Apprentice: what was played
}

// CheckMode refuses a mode that a request may not name; an empty one is that of the model.
func CheckMode(m Mode) error {
	if _, ok := Modes[m]; !ok && m != "" {
		return Invalid("mode", m, "expected online, apprentice, shadow, frozen or guarded")
	}
	return nil
}

// Compile checks a configuration and makes what a server needs of it. The error is an *Error with the field.
// Compile takes a configuration as it is; Admit fills in what is not set.
func (c Config) Compile(limits Limits) (*Compiled, error) { return c.compile(limits, nil) }

func (c Config) compile(limits Limits, known *Shapes) (*Compiled, error) {
	if err := c.check(limits); err != nil {
		return nil, err
	}
	if c.Policy.Options == nil {
		return nil, Invalid("config.policy", "", "is missing; Admit fills in what is not set")
	}
	out := &Compiled{Config: c, Catalogue: make(map[string]int, len(c.Actions)), unit: pathOf(c.Unit)}
	for i, a := range c.Actions {
		out.Catalogue[a.ID] = i
	}
	out.enter()
	parts := uint64(math.Round(c.Floor * floorDen))
	g := gcd(parts, floorDen)
	out.FloorNum, out.FloorDen = parts/g, floorDen/g
	if err := known.shape(out, limits); err != nil {
		return nil, err
	}
	out.limit()
	var err error
	if out.JSON, err = c.MarshalJSON(); err != nil {
		return nil, Invalid("config", "", "has no JSON form: %v", err)
	}
	if len(out.JSON) > maxConfig {
		return nil, Invalid("config", len(out.JSON), "expected a configuration of at most %d bytes", maxConfig)
	}
	return out, nil
}

// Logged is Compile for a configuration in a log. It allows whatever any server may be told to allow.
func (c Config) Logged() (*Compiled, error) { return (*Shapes)(nil).Logged(c) }

// fill replaces the table by complete(table).
func (p *PolicySpec) fill(complete func(spec.Raw) spec.Raw) error {
	raw := complete(p.Raw)
	if len(p.Raw) == 0 || SameJSON(raw, p.Raw) {
		return nil
	}
	if err := p.DecodeSpec(raw, "policy"); err != nil {
		return ErrorAt("config", err)
	}
	return nil
}

// vectorSchema is the schema that passes plain vectors of the unit ball on as they are.
func vectorSchema(d int) *feature.Schema {
	return &feature.Schema{
		Format: feature.Format, Model: "shared", Unknown: "refuse",
		Features: []feature.Feature{{Name: "action", Weight: 1, Kind: &feature.Vector{Size: d, Bound: 1,
			Outside: "refuse"}}},
	}
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
	p, err := c.options().New(c.Problem(seed))
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

// SameShape returns an *Error that names what differs of the part of a configuration that cannot change, nil
// when nothing does: id, policy, features, dim and sigma shape the state.
func (c *Compiled) SameShape(n *Compiled) error {
	switch {
	case c.Config.ID != n.Config.ID:
		return Invalid("config.id", n.Config.ID, "cannot change from %q", c.Config.ID)
	case !SameJSON(c.Config.Policy.Raw, n.Config.Policy.Raw):
		return Invalid("config.policy", "", "cannot change; make another model")
	case !SameJSON(c.Config.Features.Hashed, n.Config.Features.Hashed), c.Encoder != nil &&
		(n.Encoder == nil || c.Encoder.ID() != n.Encoder.ID()):
		return Invalid("config.features", "", "cannot change; make another model")
	case c.folds() && (c.Config.Reward.Adapt != n.Config.Reward.Adapt || c.Config.Reward.Min != n.Config.Reward.Min ||
		c.Config.Reward.Max != n.Config.Reward.Max):
		return Invalid("config.reward", "", "the range cannot change: the policy folds rewards by it; make another "+
			"model")
	case c.Problem(rng.Key{}).Sigma != n.Problem(rng.Key{}).Sigma:
		return Invalid("config.sigma", n.Config.Sigma,
			"cannot change (it is half the range of rewards unless it is set)")
	}
	return nil
}

// SameJSON reports whether two values have the same JSON.
func SameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
