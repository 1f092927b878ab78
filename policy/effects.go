package policy

import (
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/effects"
	"troupe/internal/linalg"
	"troupe/rng"
)

// EffectsOptions configures the learner of requests without a schema.
type EffectsOptions struct {
	Change   string   `key:"change" doc:"restarts: copies of the model start from zero, and one takes over when it predicts better; none: the world stays" default:"restarts"`
	HalfLife HalfLife `key:"half_life" doc:"the number of later events after which an event counts half, or a time such as 7d; 0: events keep their weight while the world stays"`
}

// Doc implements spec.Documented.
func (*EffectsOptions) Doc() string {
	return "one Gaussian model of random effects, with a learned variance for each field of the requests"
}

// New implements Options.
func (o *EffectsOptions) New(p Problem) (bandit.Policy, error) { return NewEffects(*o, p) }

// Forgets implements Forgetter.
func (o *EffectsOptions) Forgets() HalfLife { return o.HalfLife }

// ReadsRequests implements RequestReader.
func (*EffectsOptions) ReadsRequests() {}

// PlaysNumbers implements NumberPlayer.
func (*EffectsOptions) PlaysNumbers() {}

// Widens implements Widener.
func (*EffectsOptions) Widens() bool { return true }

// leastHalfLife is the smallest half-life in events.
const leastHalfLife = 50

// Effects is the model of random effects of package effects as a policy. Sets are lists of atoms (bandit.AtomList), those
// of the context first: a sparse vector is its list and has no other entries. An arm of a finite set of vectors is an
// action with as many numbers.
//
// Its law is a count over 64 draws that are keyed by the number of the decision and the ids of the actions. Update draws
// nothing. With Witness the policy learns from rewards that come late and judges changes in the order of decisions;
// Update alone takes each reward for one of a decision just made. It has no sums, so it does not merge.
type Effects struct {
	model *effects.Model
	opts  EffectsOptions
	dim   int // of arms that are vectors

	context []effects.Atom
	actions [][]effects.Atom
	atoms   []effects.Atom
	prices  bandit.Priced
	late    func() error // see Until
}

// Until implements bandit.Ender.
func (p *Effects) Until(late func() error) {
	p.late = late
	p.model.Until(late)
}

// NewEffects returns the policy before round 1. The error names the option that is wrong.
func NewEffects(o EffectsOptions, p Problem) (*Effects, error) {
	fill(&o.Change, restarts)
	if err := oneOf("change", o.Change, restarts, unchanged); err != nil {
		return nil, err
	}
	if err := o.HalfLife.check(restarts, p.Timed, leastHalfLife, ""); err != nil {
		return nil, err
	}
	with := effects.Options{Still: o.Change == unchanged, HalfLife: o.HalfLife.Events}
	if o.HalfLife.Time > 0 {
		with.HalfLife, with.Timed = o.HalfLife.Time.Seconds(), true
	}
	return &Effects{model: effects.New(with, p.Init), opts: o, dim: p.Dim}, nil
}

// Model returns what the policy has learned, for readers.
func (p *Effects) Model() *effects.Model { return p.model }

var errNoList = errors.New("policy: effects: the vector is no list of atoms")

// list reads the atoms of a vector, which it appends to dst: those of the context, then those of the action.
func list(dst []effects.Atom, x []float64) (atoms []effects.Atom, context int, err error) {
	n := len(x)
	if n < 4 {
		return dst, 0, errNoList
	}
	action, c := x[n-2], x[n-1]
	if !(action >= 1 && action < 1<<20 && c >= 0 && c < 1<<20) || 2*(int(action)+int(c))+2 != n {
		return dst, 0, errNoList
	}
	for i := 0; i < n-2; i += 2 {
		dst = append(dst, effects.Atom{Hash: uint64(x[i]), Value: x[i+1]})
	}
	return dst, int(c), nil
}

// open reads a set: requests as lists of atoms, or a finite set of vectors, whose arms are actions with as many numbers.
func (p *Effects) open(set bandit.ActionSet) error {
	p.prices, _ = set.(bandit.Priced)
	p.atoms, p.actions, p.context = p.atoms[:0], p.actions[:0], nil
	switch s := set.(type) {
	case bandit.Sparse:
		for i := range s.Len() {
			if err := p.add(s.Nonzeros(i)); err != nil {
				return err
			}
		}
	case bandit.Finite:
		if s.Dim() != p.dim {
			return fmt.Errorf("policy: effects: the set has dimension %d, the policy %d: %w", s.Dim(), p.dim, bandit.ErrUnsupported)
		}
		for i := range s.Len() {
			from, x := len(p.atoms), s.At(i)
			if err := finiteArm(x); err != nil {
				return err
			}
			p.atoms = appendArm(p.atoms, x)
			p.actions = append(p.actions, p.atoms[from:len(p.atoms):len(p.atoms)])
		}
	default:
		return fmt.Errorf("policy: effects: needs requests as lists of atoms, or a finite set; this is %s: %w", described(set),
			bandit.ErrUnsupported)
	}
	return nil
}

// add reads the next action of a set of requests.
func (p *Effects) add(_ []uint32, x []float64) error {
	if err := finiteArm(x); err != nil {
		return err
	}
	if len(p.actions) > 0 { // its context is that of the first
		n := len(x)
		if n < 4 || 2*(int(x[n-2])+len(p.context))+2 != n {
			return errNoList
		}
		from := len(p.atoms)
		x = x[2*len(p.context):]
		for k := 0; k < len(x)-2; k += 2 {
			p.atoms = append(p.atoms, effects.Atom{Hash: uint64(x[k]), Value: x[k+1]})
		}
		p.actions = append(p.actions, p.atoms[from:len(p.atoms):len(p.atoms)])
		return nil
	}
	atoms, c, err := list(p.atoms, x)
	if err != nil {
		return err
	}
	p.atoms = atoms
	p.context = atoms[:c:c]
	p.actions = append(p.actions, atoms[c:len(atoms):len(atoms)])
	return nil
}

// finiteArm refuses a vector with an entry that is not finite.
func finiteArm(x []float64) error {
	if !linalg.Finite(x) {
		return fmt.Errorf("policy: effects: an action has an entry that is not finite: %w", bandit.ErrNotFinite)
	}
	return nil
}

// appendArm appends the atoms of an arm that is a vector: an id, which is a hash of the vector, and each entry as a
// number of its own field.
func appendArm(dst []effects.Atom, x []float64) []effects.Atom {
	at, id := len(dst), uint64(len(x))
	dst = append(dst, effects.Atom{Value: 1})
	for i, v := range x {
		dst = append(dst, effects.Atom{Hash: bandit.TagAtom(uint64(i+1)<<44, bandit.NumberRole, 0) >> 11, Value: v})
		id = (id ^ math.Float64bits(v+0)) * 0x9e3779b97f4a7c15
		id ^= id >> 29
	}
	dst[at].Hash = bandit.TagAtom(0, bandit.LevelRole, id) >> 11
	return dst
}

func (p *Effects) votes(set bandit.ActionSet, draw rng.Source) (votes []uint64, winner []int, err error) {
	if err := p.open(set); err != nil {
		return nil, nil, err
	}
	var prices func(i int) float64
	if p.prices != nil {
		prices = p.prices.Price
	}
	votes, winner = p.model.Votes(p.context, p.actions, prices, draw.At())
	if votes == nil && p.late != nil {
		return nil, nil, p.late()
	}
	return votes, winner, nil
}

// Select implements bandit.Policy. It uses number 0 of the source.
func (p *Effects) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	_, winner, err := p.votes(set, draw)
	if err != nil {
		return err
	}
	p.choose(dst, set, winner[draw.Intn(0, effects.Draws)])
	return nil
}

func (p *Effects) choose(dst *bandit.Action, set bandit.ActionSet, i int) {
	if s, ok := set.(bandit.Sparse); ok {
		at, x := s.Nonzeros(i)
		dst.SetSparse(at, x, i)
		return
	}
	dst.Set(set.(bandit.Finite).At(i), i)
}

// Prob implements bandit.Prober: a count over 64 draws.
func (p *Effects) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	votes, _, err := p.votes(set, draw)
	if err == nil {
		law(dst, votes)
	}
	return err
}

// SelectProb implements bandit.Joint.
func (p *Effects) SelectProb(dst *bandit.Action, to *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	votes, winner, err := p.votes(set, draw)
	if err != nil {
		return err
	}
	law(to, votes)
	p.choose(dst, set, winner[draw.Intn(0, effects.Draws)])
	return nil
}

func law(dst *bandit.Law, votes []uint64) {
	dst.Atoms = dst.Atoms[:0]
	for i, n := range votes {
		dst.Atoms = append(dst.Atoms, bandit.Atom{Action: bandit.Action{Index: i}, P: float64(n) / effects.Draws, Count: n})
	}
	dst.Total = effects.Draws
}

// Update implements bandit.Policy: a decision whose reward comes at once. It draws nothing.
func (p *Effects) Update(a bandit.Action, y float64, _ rng.Source) error {
	context, action, err := p.event(a)
	switch {
	case err != nil:
		return err
	case y-y != 0:
		return fmt.Errorf("policy: effects: the reward is %v: %w", y, bandit.ErrNotFinite)
	}
	p.model.Decided(0, context, action)
	p.model.Learn(0, context, action, y)
	return nil
}

func (p *Effects) event(a bandit.Action) (context, action []effects.Atom, err error) {
	if err := finiteArm(a.X); err != nil {
		return nil, nil, err
	}
	if a.At == nil {
		if len(a.X) != p.dim {
			return nil, nil, fmt.Errorf("policy: effects: the action has %d entries, expected %d", len(a.X), p.dim)
		}
		p.atoms = appendArm(p.atoms[:0], a.X)
		return nil, p.atoms, nil
	}
	atoms, c, err := list(p.atoms[:0], a.X)
	if err != nil {
		return nil, nil, err
	}
	p.atoms = atoms
	return atoms[:c:c], atoms[c:], nil
}

// Decided implements bandit.Witness.
func (p *Effects) Decided(event uint64, a bandit.Action) error {
	context, action, err := p.event(a)
	if err == nil {
		p.model.Decided(event, context, action)
	}
	return err
}

// Settled implements bandit.Witness.
func (p *Effects) Settled(event uint64, a bandit.Action, y float64) error {
	context, action, err := p.event(a)
	switch {
	case err != nil:
		return err
	case y-y != 0:
		return fmt.Errorf("policy: effects: the reward is %v: %w", y, bandit.ErrNotFinite)
	}
	p.model.Learn(event, context, action, y)
	return nil
}

// Dropped implements bandit.Witness.
func (p *Effects) Dropped(event uint64) { p.model.Dropped(event) }

// Alone implements bandit.Witness.
func (p *Effects) Alone() { p.model.Alone() }

// Score implements bandit.Scorer.
func (p *Effects) Score(a bandit.Action) float64 {
	context, action, err := p.event(a)
	if err != nil {
		return 0
	}
	return p.model.Estimate(context, action)
}

// DrawnMember implements bandit.MemberDrawer: the draw that plays.
func (p *Effects) DrawnMember(draw rng.Source) (j int, xi float64) {
	return draw.Intn(0, effects.Draws), 1
}

// Redraws implements bandit.Redrawer.
func (p *Effects) Redraws() bool { return true }

// Heeds implements bandit.Heeder: it chooses by expected rewards less prices.
func (p *Effects) Heeds() bool { return true }

// Resolved implements Resolver.
func (p *Effects) Resolved() any { return p.opts }

// Tick implements Clocked.
func (p *Effects) Tick(at int64) { p.model.Tick(at) }

// Timed implements Clocked.
func (p *Effects) Timed() bool { return p.opts.HalfLife.Time > 0 }

// SteppedBack implements Clocked.
func (p *Effects) SteppedBack() uint64 { return p.model.SteppedBack() }

// sureChange is the posterior probability of a change that a model states: its evidence is 14 nats at least.
const sureChange = .999999

// Changed implements Noticer.
func (p *Effects) Changed() MeanChange {
	list := p.model.Changes()
	if len(list) == 0 {
		return MeanChange{}
	}
	c := list[len(list)-1]
	return MeanChange{Change: Change{At: c.Born, Seen: c.Seen, Posterior: sureChange}, Before: c.Before, After: c.Since}
}

// Explanation is what a policy that reads requests says of what it has learned.
type Explanation struct {
	Events uint64         // rewards that were learned
	Parts  []effects.Part // of all that it has found, in descending order
	Share  float64        // of the variance of the rewards that this explains
	Far    []float64      // rewards that are far from all others
	// Positions are what is known of the positions of lists, those that are learned together once, nil for a model without lists.
	Positions []effects.Examination
	Places    bool    // items play at positions of their own
	Nats      float64 // of evidence for that
}

// Explainer is implemented by policies that say what they have found out.
type Explainer interface{ Explain() Explanation }

// Explain implements Explainer.
func (p *Effects) Explain() Explanation {
	e := Explanation{Events: p.model.Events(), Far: p.model.Far()}
	e.Parts, e.Share = p.model.Explained()
	e.Positions = p.model.Examined()
	e.Places, e.Nats, _ = p.model.Gate()
	return e
}

// AppendSnapshot implements bandit.Snapshotter.
func (p *Effects) AppendSnapshot(b []byte) ([]byte, error) { return p.model.AppendSnapshot(b), nil }

// Restore implements bandit.Snapshotter.
func (p *Effects) Restore(b []byte) error { return p.model.Restore(b) }

// Share implements Sharer.
func (p *Effects) Share() any { return p.model.Share() }

// Adopt implements Sharer.
func (p *Effects) Adopt(s any) error {
	x, ok := s.(*effects.Shared)
	if !ok {
		return fmt.Errorf("policy: effects: the state is that of another kind of policy, a %T", s)
	}
	p.model.Adopt(x)
	return nil
}

// Reclaim implements Sharer.
func (p *Effects) Reclaim() { p.model.Reclaim() }

// Digest implements Sharer.
func (p *Effects) Digest() [16]byte { return p.model.Digest() }

// Bytes implements Sharer.
func (p *Effects) Bytes() int { return p.model.Bytes() }

var (
	_ bandit.Policy       = (*Effects)(nil)
	_ bandit.Prober       = (*Effects)(nil)
	_ bandit.Joint        = (*Effects)(nil)
	_ bandit.Snapshotter  = (*Effects)(nil)
	_ bandit.Scorer       = (*Effects)(nil)
	_ bandit.Witness      = (*Effects)(nil)
	_ bandit.MemberDrawer = (*Effects)(nil)
	_ bandit.Redrawer     = (*Effects)(nil)
	_ bandit.Heeder       = (*Effects)(nil)
	_ bandit.Ender        = (*Effects)(nil)
	_ Sharer              = (*Effects)(nil)
	_ Clocked             = (*Effects)(nil)
	_ Noticer             = (*Effects)(nil)
	_ Explainer           = (*Effects)(nil)
)

// Sharer is implemented by policies whose state is published at the cost of what changed.
//
// Share returns the state as it is now. Policies of the same options that Adopt it, in any goroutine, choose and state
// laws as this one did at that moment; a later Update of any of them changes none of the others, because it first copies
// what it changes.
type Sharer interface {
	Share() any
	Adopt(any) error
	// Reclaim takes back what the last Share gave, when nothing has it and no policy that adopted it is used before it
	// adopts another one. The next Update then copies nothing.
	Reclaim()
	// Digest identifies the state: equal states have equal digests.
	Digest() [16]byte
	// Bytes is about how many bytes the state takes.
	Bytes() int
}
