package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
)

// CentredOptions configures a policy whose rewards are centred.
type CentredOptions struct {
	Base   Base   `key:"base" doc:"the policy whose rewards are centred, a table of its own"`
	Center Center `key:"center" doc:"mean: that of the rewards so far; or a number that is subtracted" default:"mean"`
}

// Center is the option `center`: "mean", or a number.
type Center struct {
	Fixed  bool
	Number float64
}

// DecodeSpec implements spec.Decoder.
func (c *Center) DecodeSpec(v any, path string) error {
	if x, ok := spec.Number(v); ok {
		if x-x != 0 {
			return spec.Errorf(path, "is %v, expected a finite number or \"mean\"", x)
		}
		*c = Center{true, x}
		return nil
	}
	if s, ok := v.(string); ok && s == "mean" {
		*c = Center{}
		return nil
	}
	return spec.Errorf(path, "is %v, expected a finite number or \"mean\"", v)
}

// ExpandSpec implements spec.Decoder.
func (c *Center) ExpandSpec(v any) []spec.Choice {
	list, ok := v.([]any)
	if !ok {
		return []spec.Choice{{Value: v}}
	}
	var out []spec.Choice
	for _, e := range list {
		out = append(out, spec.Choice{Value: e, Swept: []spec.Setting{{Value: e}}})
	}
	return out
}

// String describes the value for listings.
func (c Center) String() string {
	if c.Fixed {
		return fmt.Sprint(c.Number)
	}
	return "mean"
}

// Doc implements spec.Documented.
func (*CentredOptions) Doc() string {
	return "a policy around a ridge regression that learns rewards less their mean; sets on which a constant is linear"
}

// New implements Options.
func (o *CentredOptions) New(p Problem) (bandit.Policy, error) { return NewCentred(*o, p) }

// Centred is a policy around a ridge regression that pulls arms towards the mean of the rewards instead of towards 0. On
// a list on which some w has ⟨x, w⟩ = 1 for every action, c·⟨x, w⟩ is a constant c, and
//
//	θ̂ = V⁻¹(Σ X_i Y_i − c Σ X_i) + c·w,   c the mean of the rewards so far,
//
// is the ridge estimate of rewards less c, which are put back. c·w is the same for all actions and drops out of the
// choice, and ΣX_i = (V − λI)w, so what changes the choice is cλ⟨x, V⁻¹w⟩: the base is shown the list with this amount as a
// negative price of x. So adding a constant to all rewards does not change a run (but for rounding; bit for bit where
// differences of rewards are exact), and a level of the means is no debt (docs/papers/price-of-few.md, section 8). Any w
// gives the same choice.
//
// The theorems that use lem:conf-sets only hold with √λ·sup_t ‖θ* − c_t w‖ in place of √λ‖θ*‖: θ̂ − θ* = V⁻¹ΣXZ − λV⁻¹(θ* −
// cw) for every c, also one that depends on the data. thm:few and its kin do not: their proofs need the tape of an arm to be
// independent of the others; they hold for a fixed number.
//
// With a number the base learns rewards less it, and nothing else changes. On the ball, and on every list without such a
// w, centring would cancel the part of θ* along the actions that are played, and is bandit.ErrUnsupported. The base has to
// heed prices, to have a regression (Ridge or Root) and not to forget.
//
// Cost of a round beside the base: Select K·d·rank when the list is another one, otherwise K·d; Update 4d².
type Centred struct {
	base   bandit.Policy
	opts   CentredOptions
	ridge  *linalg.Ridge // V
	lambda float64

	n          uint64
	first, sum float64 // the first reward, and the sum of the others less it
	played     levels  // of the actions that were played

	offered bandit.Finite // the list that shown is about
	at      uint64        // its n
	shown   centredSet
	all     levels
	pull    []float64 // V⁻¹w
}

// levels is an orthonormal basis q_k of some actions, and t_k with ⟨q_k, w⟩ = t_k: w = Σ t_k q_k has ⟨x, w⟩ = 1 for all of
// them.
type levels struct {
	d    int
	q, t []float64
	rest []float64 // scratch
}

// add adds an action. It reports false where no w fits it and the others.
func (l *levels) add(x []float64) bool {
	if l.rest == nil {
		l.rest = make([]float64, l.d)
	}
	copy(l.rest, x)
	target := 1.0
	for range 2 { // twice is enough
		for k, t := range l.t {
			q := l.q[k*l.d : k*l.d+l.d]
			c := linalg.Dot(l.rest, q)
			linalg.Axpy(-c, q, l.rest)
			target -= float64(c * t)
		}
	}
	const rounding = 1e-9
	left := linalg.Norm(l.rest)
	if left <= rounding*linalg.Norm(x) {
		return math.Abs(target) <= 1e-7 && left >= 0 && linalg.Norm(x) > 0
	}
	for _, v := range l.rest {
		l.q = append(l.q, v/left)
	}
	l.t = append(l.t, target/left)
	return true
}

// copy makes l the same as m, without sharing.
func (l *levels) copy(m levels) {
	l.d, l.q, l.t = m.d, append(l.q[:0], m.q...), append(l.t[:0], m.t...)
}

// solve stores w in dst.
func (l *levels) solve(dst []float64) {
	clear(dst)
	for k, t := range l.t {
		linalg.Axpy(t, l.q[k*l.d:k*l.d+l.d], dst)
	}
}

// NewCentred builds the base and centres its rewards. The error names the option that is wrong.
func NewCentred(o CentredOptions, p Problem) (*Centred, error) {
	base, err := o.Base.New(p)
	if err != nil {
		return nil, err
	}
	lambda, ok := 0.0, true
	switch r := base.(type) {
	case interface{ Ridge() Regression }:
		lambda = r.Ridge().Lambda() // Restarts and other wrappers have none
	case interface{ Root() SquareRoot }:
		lambda = r.Root().Lambda()
	default:
		ok = false
	}
	if !ok || !bandit.Heeds(base) {
		return nil, spec.Refuse("base", fmt.Sprintf("%T", base), "expected a policy around one ridge regression that heeds prices, such as ts")
	}
	if a, ok := base.(bandit.Additive); ok {
		if err := a.Additive(); err != nil {
			return nil, spec.Refuse("base", fmt.Sprintf("%T", base), "which forgets, but centring needs the sum of all: %v", err)
		}
	}
	c := &Centred{base: base, opts: o, ridge: linalg.NewRidge(p.Dim, lambda), lambda: lambda, pull: make([]float64, p.Dim)}
	c.played.d, c.all.d = p.Dim, p.Dim
	return c, nil
}

// Base returns the policy whose rewards are centred.
func (c *Centred) Base() bandit.Policy { return c.base }

// Mean returns c, what is subtracted from a reward.
func (c *Centred) Mean() float64 {
	switch {
	case c.opts.Center.Fixed:
		return c.opts.Center.Number
	case c.n == 0:
		return 0
	}
	return c.first + c.sum/float64(c.n)
}

// origin is what the base does not see of a reward.
func (c *Centred) origin() float64 {
	if c.opts.Center.Fixed {
		return c.opts.Center.Number
	}
	return c.first
}

// centredSet is a list with the prices that centre its rewards.
type centredSet struct {
	bandit.Finite
	price []float64
}

// Price implements bandit.Priced.
func (s *centredSet) Price(i int) float64 { return s.price[i] }

// Check says whether the numbers of the list are finite.
func (s *centredSet) Check() error { return checkNumbers(s.Finite) }

// ArgMax implements bandit.ActionSet: the first action with the largest ⟨x, theta⟩ − price.
func (s *centredSet) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	best, arm := math.Inf(-1), 0
	for i, price := range s.price {
		v := linalg.Dot(s.At(i), theta) - price
		if v-v != 0 {
			return 0, fmt.Errorf("policy: theta gives action %d the value %v: %w", i, v, bandit.ErrNotFinite)
		}
		if v > best {
			best, arm = v, i
		}
	}
	dst.Set(s.At(arm), arm)
	return best, nil
}

// show returns the list that the base sees.
func (c *Centred) show(set bandit.ActionSet) (bandit.ActionSet, error) {
	if err := checkSet(set, c.ridge.Dim()); err != nil {
		return nil, err
	}
	f, ok := set.(bandit.Finite)
	if !ok {
		return nil, fmt.Errorf("policy: centred: on %s no w has ⟨x, w⟩ = 1 for every action, so a constant is no linear function and "+
			"centring would cancel the part of θ* along the actions that are played: %w", described(set), bandit.ErrUnsupported)
	}
	if c.opts.Center.Fixed {
		return set, nil
	}
	same := c.offered == f && c.at == c.n
	if !same {
		c.all.copy(c.played)
		for i := range f.Len() {
			if !c.all.add(f.At(i)) {
				c.offered = nil
				return nil, fmt.Errorf("policy: centred: action %d of %d: no w has ⟨x, w⟩ = 1 for it and for all others of the list and "+
					"those that were played, so a constant is no linear function: add an intercept, or take a number for center: %w", i+1,
					f.Len(), bandit.ErrUnsupported)
			}
		}
		w := c.all.rest
		if w == nil {
			w = make([]float64, c.ridge.Dim())
		}
		c.all.solve(w)
		c.ridge.Solve(c.pull, w)
		prices, priced := set.(bandit.Priced)
		c.shown.Finite, c.shown.price = f, c.shown.price[:0]
		amount := 0.0
		if c.n > 0 {
			amount = c.sum / float64(c.n) * c.lambda
		}
		for i := range f.Len() {
			price := -float64(amount * linalg.Dot(f.At(i), c.pull))
			if priced {
				price += prices.Price(i)
			}
			c.shown.price = append(c.shown.price, price)
		}
		c.offered, c.at = f, c.n
	}
	return &c.shown, nil
}

// Select implements bandit.Policy. It uses the numbers that the base uses.
func (c *Centred) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	shown, err := c.show(set)
	if err != nil {
		return err
	}
	return c.base.Select(dst, shown, draw)
}

// Prob implements bandit.Prober where the base does.
func (c *Centred) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	shown, err := c.show(set)
	if err != nil {
		return err
	}
	p, ok := c.base.(bandit.Prober)
	if !ok {
		return fmt.Errorf("policy: centred: the base, a %T, has no exact propensities: %w", c.base, bandit.ErrUnsupported)
	}
	return p.Prob(dst, shown, draw)
}

// Update implements bandit.Policy.
func (c *Centred) Update(a bandit.Action, y float64, draw rng.Source) error {
	if err := checkAction(a, y, c.ridge.Dim()); err != nil {
		return err
	}
	q, t := len(c.played.q), len(c.played.t)
	if !c.opts.Center.Fixed && !c.played.add(a.X) {
		return fmt.Errorf("policy: centred: no w has ⟨x, w⟩ = 1 for this action and for all that were played: %w", bandit.ErrUnsupported)
	}
	origin := c.origin()
	if c.n == 0 && !c.opts.Center.Fixed {
		origin = y
	}
	sum := c.sum + (y - origin)
	if err := c.base.Update(a, y-origin, draw); err != nil || sum-sum != 0 {
		c.played.q, c.played.t = c.played.q[:q], c.played.t[:t]
		if err == nil {
			err = fmt.Errorf("policy: centred: the sum of the rewards: %w", bandit.ErrNotFinite)
		}
		return err
	}
	if c.n == 0 {
		c.first = origin
	}
	c.ridge.Update(a.X, 0)
	c.sum = sum
	c.n++
	return nil
}

// Warnings implements bandit.Warner.
func (c *Centred) Warnings(set bandit.ActionSet) []string { return warnings(c.base, set) }

// Heeds implements bandit.Heeder.
func (c *Centred) Heeds() bool { return true }

// AppendSnapshot implements bandit.Snapshotter where the base does.
func (c *Centred) AppendSnapshot(b []byte) ([]byte, error) {
	s, err := snapshotter("centred", c.base)
	if err != nil {
		return b, err
	}
	inner, err := s.AppendSnapshot(nil)
	if err != nil {
		return b, err
	}
	d := c.ridge.Dim()
	q, t := make([]float64, d*d), make([]float64, d)
	copy(q, c.played.q)
	copy(t, c.played.t)
	b = appendSnapshot(b, "centred", append(c.ridge.State(),
		[]float64{float64(c.n), c.first, c.sum, float64(len(c.played.t)), float64(len(inner))}, q, t))
	return append(b, inner...), nil
}

// lengths are those of the vectors of the own part of a snapshot.
func (c *Centred) lengths() []int {
	d := c.ridge.Dim()
	return append(c.ridge.StateLengths(), 5, d*d, d)
}

// SnapshotCost implements bandit.Weighed where the base does.
func (c *Centred) SnapshotCost() (bytes, work int) {
	if bytes, work = costOf(c.base); bytes > 0 {
		d := c.ridge.Dim()
		bytes, work = bytes+c.ownBytes(), work+d*d
	}
	return bytes, work
}

// ownBytes is the size of the part of a snapshot that is not the ensemble.
func (c *Centred) ownBytes() int {
	total := 0
	for _, n := range c.lengths() {
		total += n
	}
	return snapshotSize("centred", len(c.lengths()), total)
}

// Restore implements bandit.Snapshotter where the base does.
func (c *Centred) Restore(b []byte) error {
	s, err := snapshotter("centred", c.base)
	if err != nil {
		return err
	}
	own := c.ownBytes()
	if len(b) < own {
		return fmt.Errorf("policy: centred: a snapshot of %d bytes is cut short", len(b))
	}
	v, err := readSnapshot(b[:own], "centred", c.lengths())
	if err != nil {
		return err
	}
	d, n := c.ridge.Dim(), len(c.ridge.StateLengths())
	numbers, inner := v[n], b[own:]
	if rank := numbers[3]; !(rank >= 0 && rank <= float64(d)) || rank != math.Trunc(rank) || !(numbers[0] >= 0) ||
		numbers[4] != float64(len(inner)) {
		return fmt.Errorf("policy: centred: a snapshot of %v updates, rank %v and %v bytes of the base: damaged", numbers[0], rank, numbers[4])
	}
	if err := s.Restore(inner); err != nil {
		return err
	}
	c.ridge.Restore(v[:n])
	c.n, c.first, c.sum = uint64(numbers[0]), numbers[1], numbers[2]
	rank := int(numbers[3])
	c.played.q = append(c.played.q[:0], v[n+1][:rank*d]...)
	c.played.t = append(c.played.t[:0], v[n+2][:rank]...)
	c.offered = nil
	return nil
}
