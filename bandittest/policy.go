package bandittest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// PolicyCheck names one promise of a policy.
type PolicyCheck string

// The promises that TestPolicy holds a policy to.
const (
	// PureSelect: Select, Prob, Warnings and snapshots change nothing that can be observed; equal
	// calls give equal results, whatever was asked in between and whatever dst held before; the
	// action belongs to the set and to the caller; an action handed to Update is not kept.
	PureSelect PolicyCheck = "pure select"
	// FailedCall: a call that cannot be right (a number that is not finite, a wrong length, a set
	// of another dimension) is an error, not a panic, and changes nothing.
	FailedCall PolicyCheck = "failed call"
	// Law: Prob sums to 1, equals counts over the total where there are counts, and is the law of
	// 10⁵ draws of Select for sources with the number of the decision it was asked for; where it
	// depends on that number, it fits the choices of 4000 decisions, fewer with fewer draws. Only for
	// a Prober, on sets where it is supported.
	Law PolicyCheck = "law"
	// Snapshots: a fresh policy restored from a snapshot goes on bit for bit; a snapshot that was
	// cut short, made longer or had a bit flipped is refused and changes nothing. Only for a
	// Snapshotter.
	Snapshots PolicyCheck = "snapshots"
	// Allocations: a steady round of Select and Update allocates nothing. Not looked at under the
	// race detector.
	Allocations PolicyCheck = "allocations"
	// PermutedAction: where the arms of a finite set are listed in another order, Select with the
	// same draw chooses the same vector.
	PermutedAction PolicyCheck = "permuted action"
	// PermutedLaw: so does the law of a Prober.
	PermutedLaw PolicyCheck = "permuted law"
	// Refusal: Select returns bandit.ErrUnsupported on the sets of PolicyConfig.Refused and
	// changes nothing.
	Refusal PolicyCheck = "refusal"
)

var policyChecks = []struct {
	name PolicyCheck
	run  func(*policyTest)
}{
	{PureSelect, (*policyTest).pureSelect},
	{FailedCall, (*policyTest).failedCall},
	{Law, (*policyTest).law},
	{Snapshots, (*policyTest).snapshots},
	{Allocations, (*policyTest).allocations},
	{PermutedAction, (*policyTest).permutedAction},
	{PermutedLaw, (*policyTest).permutedLaw},
	{Refusal, (*policyTest).refusal},
}

// PolicyConfig says on what the policy is tested.
type PolicyConfig struct {
	// Sets are action sets of one dimension that the policy supports. Finite sets should have
	// arms in general position: a tie is broken by order, which PermutedAction would report.
	Sets []bandit.ActionSet
	// Refused are sets of the same dimension that the policy must refuse.
	Refused []bandit.ActionSet
	// Exempt are promises that the policy does not make, with the reason.
	Exempt map[PolicyCheck]string
	// UnitRewards keeps the rewards in [0, 1].
	UnitRewards bool
	// Draws is how many actions Law draws from each law; default 100 000. Below 32 000 Law looks at an
	// eighth as many decisions in place of 4000.
	Draws int
	// Seed changes the random numbers; the suite is a function of it.
	Seed uint64
}

// TestPolicy holds a policy to its contract. mk returns a new policy before round 1; all that it
// returns must be equal. Every fault is reported to t with the name of the promise.
//
// The only promise about chance is Law. Its null hypothesis: n = cfg.Draws draws of Select are
// independent with the law that Prob states. It is rejected when n·KL(p̂ ‖ p) > log(2K/α) for some
// arm, where p̂ is the arm's share; by Chernoff's inequality and a union bound over the K arms the
// level is α = 1e-9 for each set. With n = 10⁵ an arm of probability p = 0.2 whose Prob is off by 0.01 is found.
// A law with one certain action needs no statistics; there n is at most 1000.
//
// It counts allocations, so do not call it from a parallel test.
func TestPolicy(t TB, mk func() bandit.Policy, cfg PolicyConfig) {
	t.Helper()
	if len(cfg.Sets) == 0 {
		t.Errorf("bandittest: PolicyConfig.Sets is empty")
		return
	}
	if cfg.Draws < 0 {
		t.Errorf("bandittest: PolicyConfig.Draws is %d, expected at least 1, or 0 for 100 000", cfg.Draws)
		return
	}
	for name := range cfg.Exempt {
		if !slices.ContainsFunc(policyChecks, func(c struct {
			name PolicyCheck
			run  func(*policyTest)
		}) bool {
			return c.name == name
		}) {
			t.Errorf("bandittest: PolicyConfig.Exempt names %q, which is no promise", name)
		}
	}
	for i, c := range policyChecks {
		if _, ok := cfg.Exempt[c.name]; ok {
			continue
		}
		key := rng.NewKey(cfg.Seed).Child("bandittest").At(uint64(i))
		p := &policyTest{TB: t, mk: mk, cfg: cfg, name: c.name, key: key, dim: cfg.Sets[0].Dim()}
		p.guard("the suite", func() { c.run(p) })
	}
}

// policyTest is one check of one policy.
type policyTest struct {
	TB
	mk     func() bandit.Policy
	cfg    PolicyConfig
	name   PolicyCheck
	key    rng.Key
	dim    int
	failed bool
}

// fail reports the first fault of the check.
func (c *policyTest) fail(format string, args ...any) {
	c.Helper()
	if !c.failed {
		c.Errorf("%s: %s", c.name, fmt.Sprintf(format, args...))
	}
	c.failed = true
}

// guard runs f and reports a panic.
func (c *policyTest) guard(what string, f func()) {
	c.Helper()
	defer func() {
		if r := recover(); r != nil {
			c.fail("%s: panic: %v", what, r)
		}
	}()
	f()
}

// choose returns Select's action for round t, in fresh memory.
func (c *policyTest) choose(p bandit.Policy, set bandit.ActionSet, t int) (a bandit.Action, ok bool) {
	c.Helper()
	err := p.Select(&a, set, c.key.Stream(rng.Select).Round(uint64(t)))
	if err != nil {
		c.fail("round %d: Select on a %T: %v", t, set, err)
	}
	return a, err == nil
}

// reward is a linear reward with noise, a function of the action and the round.
func (c *policyTest) reward(x []float64, t int) float64 {
	y := float64(1+t%2)*0.4*x[0] - 0.3*x[len(x)-1] + c.key.Stream(rng.Reward).Round(uint64(t)).Normal(0)/2
	if c.cfg.UnitRewards {
		return min(max(y, 0), 1)
	}
	return y
}

// learn updates with the reward of round t for x, from memory that is spoiled afterwards.
func (c *policyTest) learn(p bandit.Policy, a bandit.Action, t int) bool {
	c.Helper()
	a.X = slices.Clone(a.X)
	err := p.Update(a, c.reward(a.X, t), c.key.Stream(rng.Perturb).Round(uint64(t)))
	if err != nil {
		c.fail("round %d: Update: %v", t, err)
		return false
	}
	spoil(a.X)
	return true
}

func spoil(x []float64) {
	for i := range x {
		x[i] = -777
	}
}

// foreign returns an action of round t that no policy chose.
func (c *policyTest) foreign(t int) bandit.Action {
	x := make([]float64, c.dim)
	c.key.Stream(rng.Offer).Round(uint64(t)).Sphere(x, 0)
	return bandit.Action{X: x, Index: bandit.NoIndex}
}

// trained returns a policy after n rounds with foreign actions, so that nothing is at its initial
// value and no two arms are equally good.
func (c *policyTest) trained(n int) (bandit.Policy, bool) {
	c.Helper()
	p := c.mk()
	for t := range n {
		if !c.learn(p, c.foreign(t), t) {
			return p, false
		}
	}
	return p, true
}

// same plays both policies through rounds from, …, from+n−1 over all sets and reports the first
// difference of action or snapshot.
func (c *policyTest) same(what string, p, q bandit.Policy, from, n int) bool {
	c.Helper()
	for t := from; t < from+n; t++ {
		set := c.cfg.Sets[t%len(c.cfg.Sets)]
		a, ok := c.choose(p, set, t)
		if !ok {
			return false
		}
		b, ok := c.choose(q, set, t)
		if !ok {
			return false
		}
		if !equal(a, b) {
			c.fail("%s: round %d: actions %v and %v", what, t, a, b)
			return false
		}
		if t%3 == 2 {
			a = c.foreign(t)
		}
		if !c.learn(p, a, t) || !c.learn(q, a, t) {
			return false
		}
	}
	if s, r := c.snapshot(p), c.snapshot(q); !bytes.Equal(s, r) {
		c.fail("%s: the snapshots differ after round %d", what, from+n-1)
		return false
	}
	return true
}

// snapshot returns the policy's bytes, or nil when it has none.
func (c *policyTest) snapshot(p bandit.Policy) []byte {
	c.Helper()
	s, ok := p.(bandit.Snapshotter)
	if !ok {
		return nil
	}
	b, err := s.AppendSnapshot(nil)
	if err != nil {
		c.fail("AppendSnapshot: %v", err)
	}
	return b
}

func equal(a, b bandit.Action) bool { return a.Index == b.Index && slices.Equal(a.X, b.X) }

func (c *policyTest) pureSelect() {
	p, q := c.mk(), c.mk()
	other := c.key.Child("other").Stream(rng.Select)
	for t := range 24 {
		set := c.cfg.Sets[t%len(c.cfg.Sets)]
		before := c.snapshot(p)
		a, ok := c.choose(p, set, t)
		if !ok || !c.belongs(a, set) {
			return
		}
		was := bandit.Action{X: slices.Clone(a.X), Index: a.Index}
		var law bandit.Law
		dst := bandit.Action{X: make([]float64, 2*c.dim+1), Index: 99}
		spoil(dst.X)
		for i, s := range c.cfg.Sets {
			for j := range 4 {
				draw := other.Round(uint64(4*i + j))
				if j == 3 { // this round's draw: the next question must not get this answer
					draw = c.key.Stream(rng.Select).Round(uint64(t))
				}
				if err := p.Select(&dst, s, draw); err != nil {
					c.fail("round %d: Select on a %T: %v", t, s, err)
					return
				}
				if f, ok := s.(bandit.Finite); ok && len(dst.X) > 0 && len(f.At(0)) > 0 &&
					&dst.X[0] == &f.At(max(0, dst.Index))[0] {
					c.fail("the action shares memory with the set")
					return
				}
				spoil(dst.X)
			}
			if !equal(a, was) {
				c.fail("round %d: the action of one call, %v, became %v in the next", t, was, a)
				return
			}
			again := dst
			if err := p.Select(&again, set, c.key.Stream(rng.Select).Round(uint64(t))); err != nil ||
				!equal(was, again) {
				c.fail("round %d: the same call gave %v and then %v, %v", t, was, again, err)
				return
			}
			if pr, ok := p.(bandit.Prober); ok {
				// its faults are the business of Law
				_ = pr.Prob(&law, s, c.key.Child("other").Stream(rng.Select).Round(uint64(t+7)))
			}
			if w, ok := p.(bandit.Warner); ok {
				w.Warnings(s)
			}
		}
		if !bytes.Equal(before, c.snapshot(p)) {
			c.fail("round %d: Select, Prob or Warnings changed the snapshot", t)
			return
		}
		b, ok := c.choose(q, set, t)
		if !ok {
			return
		}
		if !equal(a, b) {
			c.fail("round %d: %v, but %v where nothing else had been asked", t, a, b)
			return
		}
		if t%3 == 2 {
			a = c.foreign(t)
		}
		if !c.learn(p, a, t) {
			return
		}
		// q learns from memory that is not touched again.
		if err := q.Update(a, c.reward(a.X, t), c.key.Stream(rng.Perturb).Round(uint64(t))); err != nil {
			c.fail("round %d: Update: %v", t, err)
			return
		}
	}
	c.same("a policy that was asked more and one that was not", p, q, 24, 6)
}

// belongs reports an action that is not an element of the set, as far as one can tell.
func (c *policyTest) belongs(a bandit.Action, set bandit.ActionSet) bool {
	c.Helper()
	if len(a.X) != set.Dim() {
		c.fail("the action has %d features, the set has dimension %d", len(a.X), set.Dim())
		return false
	}
	for i, v := range a.X {
		if v-v != 0 {
			c.fail("feature %d of the action is %v", i, v)
			return false
		}
	}
	if f, ok := set.(bandit.Finite); ok {
		if a.Index < 0 || a.Index >= f.Len() || !slices.Equal(a.X, f.At(a.Index)) {
			c.fail("action %v is not arm %d of the set", a.X, a.Index)
			return false
		}
		return true
	}
	if a.Index != bandit.NoIndex {
		c.fail("action of a set that is not finite has index %d, want NoIndex", a.Index)
		return false
	}
	if s, ok := set.(interface {
		Contains(x []float64, tol float64) bool
	}); ok && !s.Contains(a.X, 1e-9) {
		c.fail("action %v is not in the %T", a.X, set)
		return false
	}
	return true
}

func (c *policyTest) failedCall() {
	good := c.foreign(1000).X
	with := func(i int, v float64) []float64 {
		x := slices.Clone(good)
		x[i] = v
		return x
	}
	huge := make([]float64, c.dim)
	for i := range huge {
		huge[i] = 1e300
	}
	last := c.dim - 1
	p, ok := c.trained(5)
	if !ok {
		return
	}
	q, _ := c.trained(5)
	t := 5
	for _, bad := range []struct {
		what   string
		x      []float64
		y      float64
		finite bool // all numbers are finite
		maybe  bool // may also be accepted
	}{
		{"reward NaN", good, math.NaN(), false, false},
		{"reward +Inf", good, math.Inf(1), false, false},
		{"reward -Inf", good, math.Inf(-1), false, false},
		{"first feature NaN", with(0, math.NaN()), 1, false, false},
		{"last feature NaN", with(last, math.NaN()), 1, false, false},
		{"last feature +Inf", with(last, math.Inf(1)), 1, false, false},
		{"no features", nil, 1, true, false},
		{"a feature too few", good[:last], 1, true, false},
		{"a feature too many", append(slices.Clone(good), 0), 1, true, false},
		{"features 1e300", huge, 1, true, true},
		{"reward 1e308", good, 1e308, true, true},
	} {
		var err error
		x := slices.Clone(bad.x)
		c.guard("Update with "+bad.what, func() {
			err = p.Update(bandit.Action{X: x, Index: bandit.NoIndex}, bad.y,
				c.key.Stream(rng.Perturb).Round(uint64(t)))
		})
		switch {
		case c.failed:
			return
		case err == nil && bad.maybe:
			if p, ok = c.trained(5); !ok {
				return
			}
			q, _ = c.trained(5)
			t = 5
			continue
		case err == nil:
			c.fail("Update with %s was accepted", bad.what)
			return
		case !bad.finite && !errors.Is(err, bandit.ErrNotFinite):
			c.fail("Update with %s: the error %q is not bandit.ErrNotFinite", bad.what, err)
			return
		}
		if !c.same("after a failed Update with "+bad.what, p, q, t, 3) {
			return
		}
		t += 3
	}
	c.otherDimension(p, q, t)
}

// otherDimension: a set of another dimension is refused, and p, which plays like q, does so afterwards.
func (c *policyTest) otherDimension(p, q bandit.Policy, t int) {
	wide := &armList{d: c.dim + 1, x: make([]float64, 2*(c.dim+1))}
	wide.x[0], wide.x[c.dim+2] = 1, 1
	var a bandit.Action
	var err error
	c.guard("Select on a set of another dimension", func() {
		err = p.Select(&a, wide, c.key.Stream(rng.Select).Round(uint64(t)))
	})
	if err == nil && !c.failed {
		c.fail("Select on a set of dimension %d was accepted, the policy has %d", c.dim+1, c.dim)
	}
	if pr, ok := p.(bandit.Prober); ok {
		c.guard("Prob on a set of another dimension", func() { err = pr.Prob(new(bandit.Law), wide, rng.Source{}) })
		if err == nil && !c.failed {
			c.fail("Prob on a set of dimension %d was accepted, the policy has %d", c.dim+1, c.dim)
		}
	}
	if !c.failed {
		c.same("after a set of another dimension", p, q, t, 3)
	}
}

func (c *policyTest) law() {
	p, ok := c.trained(9)
	if !ok {
		return
	}
	pr, ok := p.(bandit.Prober)
	if !ok {
		return
	}
	fresh := c.mk().(bandit.Prober)
	for _, set := range c.cfg.Sets {
		law := bandit.Law{Atoms: make([]bandit.Atom, 3, 200), Total: 99} // dirty
		decision := c.key.Child("decision").Stream(rng.Select).Round(17)
		err := pr.Prob(&law, set, decision)
		if errors.Is(err, bandit.ErrUnsupported) {
			continue
		}
		if err != nil {
			c.fail("Prob on a %T: %v", set, err)
			return
		}
		if !c.lawful(law, set) || !c.drawn(p, law, set, decision.At()) || !c.decisions(p, law, set) {
			return
		}
		var first bandit.Law
		if err := fresh.Prob(&first, set, decision); err != nil || !c.lawful(first, set) {
			c.fail("Prob before round 1 on a %T: %v", set, err)
			return
		}
	}
}

// lawful checks the form of a law.
func (c *policyTest) lawful(law bandit.Law, set bandit.ActionSet) bool {
	c.Helper()
	f, finite := set.(bandit.Finite)
	if finite && len(law.Atoms) != f.Len() {
		c.fail("the law has %d atoms, the set %d arms", len(law.Atoms), f.Len())
		return false
	}
	var sum float64
	var counts uint64
	for i, a := range law.Atoms {
		sum += a.P
		counts += a.Count
		switch {
		case !(a.P >= 0 && a.P <= 1):
			c.fail("atom %d has probability %v", i, a.P)
		case law.Total > 0 && a.P != float64(a.Count)/float64(law.Total):
			c.fail("atom %d: P = %v, but Count/Total = %d/%d", i, a.P, a.Count, law.Total)
		case finite && (a.Index != i || len(a.X) != 0):
			c.fail("atom %d has index %d and X = %v, want its number and no X", i, a.Index, a.X)
		case !finite && a.P == 0:
			c.fail("atom %d of a set that is not finite has probability 0", i)
		case !finite && !c.belongs(a.Action, set):
		case !finite && i > 0 && slices.Compare(law.Atoms[i-1].X, a.X) >= 0:
			c.fail("atoms %d and %d are not in strict lexicographic order", i-1, i)
		}
		if c.failed {
			return false
		}
	}
	if law.Total > 0 && counts != law.Total {
		c.fail("the counts add up to %d, Total is %d", counts, law.Total)
		return false
	}
	if math.Abs(sum-1) > 1e-12 {
		c.fail("the probabilities add up to %v", sum)
		return false
	}
	return true
}

// drawn compares the law of a decision with draws of Select: sources that have the decision's number
// and nothing else in common with each other.
func (c *policyTest) drawn(p bandit.Policy, law bandit.Law, set bandit.ActionSet, number uint64) bool {
	c.Helper()
	const level = 1e-9
	n := cmp.Or(c.cfg.Draws, 100_000)
	for _, a := range law.Atoms {
		if a.P == 1 {
			n = min(n, 1000)
		}
	}
	count := make([]int, len(law.Atoms))
	_, finite := set.(bandit.Finite)
	var a bandit.Action
	draws := c.key.Child("draws").Stream(rng.Select)
	for i := range n {
		if err := p.Select(&a, set, draws.Sub(uint64(i)).Round(number)); err != nil {
			c.fail("Select on a %T: %v", set, err)
			return false
		}
		at := place(law, a, finite)
		if at < 0 || law.Atoms[at].P == 0 {
			c.fail("draw %d chose %v (arm %d), which has probability 0", i, a.X, a.Index)
			return false
		}
		count[at]++
	}
	limit := math.Log(2 * float64(len(count)) / level)
	for i, k := range count {
		if s := float64(n) * divergence(float64(k)/float64(n), law.Atoms[i].P); s > limit {
			c.fail("on a %T: action %d was drawn %d times of %d, Prob says %.6g (n·KL = %.1f, limit %.1f at level %g)",
				set, i, k, n, law.Atoms[i].P, s, limit, level)
			return false
		}
	}
	return true
}

// place returns the atom of an action in a law, −1 when it has none.
func place(law bandit.Law, a bandit.Action, finite bool) int {
	at, ok := a.Index, a.Index >= 0 && a.Index < len(law.Atoms)
	if !finite {
		at, ok = slices.BinarySearchFunc(law.Atoms, a.X, func(b bandit.Atom,
			x []float64) int {
			return slices.Compare(b.X, x)
		})
	}
	if !ok {
		return -1
	}
	return at
}

// decisions compares, where the law depends on the number of the decision, the law with the choice
// of Select at n decisions of different numbers, one source each: the choice must have a positive
// probability in the law of its own decision, and on a finite set the sums of 1{arm i chosen} − P_i,
// martingales whose step has a range of 1 given the past, stay within √(n log(2K/α)/2) (Azuma and Hoeffding).
func (c *policyTest) decisions(p bandit.Policy, law bandit.Law, set bandit.ActionSet) bool {
	c.Helper()
	const level = 1e-9
	n := min(4000, max(1, cmp.Or(c.cfg.Draws, 100_000)/8))
	pr := p.(bandit.Prober)
	_, finite := set.(bandit.Finite)
	var first, own bandit.Law
	var a bandit.Action
	draws := c.key.Child("decisions").Stream(rng.Select)
	depends := false
	sum := make([]float64, len(law.Atoms))
	for i := range uint64(n) {
		if i == 20 && !depends { // one law for all
			return true
		}
		draw := draws.Round(i)
		if err := pr.Prob(&own, set, draw); err != nil {
			c.fail("Prob on a %T: %v", set, err)
			return false
		}
		if err := p.Select(&a, set, draw); err != nil {
			c.fail("Select on a %T: %v", set, err)
			return false
		}
		if i == 0 {
			first.Atoms = slices.Clone(own.Atoms)
		}
		depends = depends || !slices.EqualFunc(first.Atoms, own.Atoms,
			func(a, b bandit.Atom) bool { return a.P == b.P })
		at := place(own, a, finite)
		if at < 0 || own.Atoms[at].P == 0 {
			c.fail("decision %d chose %v (arm %d), which has probability 0 in its law", i, a.X, a.Index)
			return false
		}
		if finite {
			sum[at]++
			for k, atom := range own.Atoms {
				sum[k] -= atom.P
			}
		}
	}
	limit := math.Sqrt(float64(n) * math.Log(2*float64(len(sum))/level) / 2)
	for k, s := range sum {
		if finite && math.Abs(s) > limit {
			c.fail("on a %T: over %d decisions arm %d was chosen %.1f times more than its laws say (limit %.1f at "+
				"level %g)", set, n, k, s, limit, level)
			return false
		}
	}
	return true
}

// divergence is KL(Bernoulli(q) ‖ Bernoulli(p)).
func divergence(q, p float64) float64 {
	var s float64
	if q > 0 {
		s += q * math.Log(q/p)
	}
	if q < 1 {
		s += (1 - q) * math.Log((1-q)/(1-p))
	}
	return s
}

func (c *policyTest) snapshots() {
	if _, ok := c.mk().(bandit.Snapshotter); !ok {
		return
	}
	for _, n := range []int{0, 1, 6, 20} {
		p, ok := c.trained(n)
		if !ok {
			return
		}
		state := c.snapshot(p)
		prefix := []byte("prefix")
		if b, err := p.(bandit.Snapshotter).AppendSnapshot(prefix); err != nil ||
			!bytes.Equal(b, append([]byte("prefix"), state...)) {
			c.fail("AppendSnapshot does not append to what is there: %v", err)
			return
		}
		q, ok := c.trained(3) // a state to be replaced
		if !ok {
			return
		}
		fresh := c.mk()
		for _, r := range []bandit.Policy{q, fresh} {
			in := slices.Clone(state)
			if err := r.(bandit.Snapshotter).Restore(in); err != nil {
				c.fail("Restore after %d rounds: %v", n, err)
				return
			}
			clear(in) // the policy may not keep it
			if !bytes.Equal(state, c.snapshot(r)) {
				c.fail("after %d rounds: the snapshot of a restored policy differs", n)
				return
			}
		}
		if !c.same(fmt.Sprintf("a policy and its restored copy, saved after %d rounds", n), p, fresh, n, 12) {
			return
		}
	}

	// Damage.
	p, _ := c.trained(4)
	good := c.snapshot(p)
	q, _ := c.trained(7)
	before := c.snapshot(q)
	refuse := func(what string, b []byte) bool {
		var err error
		c.guard("Restore of a snapshot "+what, func() { err = q.(bandit.Snapshotter).Restore(b) })
		if err == nil && !c.failed {
			c.fail("a snapshot %s was accepted", what)
		}
		if !c.failed && !bytes.Equal(before, c.snapshot(q)) {
			c.fail("a refused snapshot, %s, changed the state", what)
		}
		return !c.failed
	}
	for i := range good {
		if !refuse(fmt.Sprintf("cut to %d of %d bytes", i, len(good)), good[:i:i]) {
			return
		}
		b := slices.Clone(good)
		b[i] ^= 1 << (i % 8)
		if !refuse(fmt.Sprintf("with byte %d of %d damaged", i, len(good)), b) {
			return
		}
	}
	if !refuse("with a byte too many", append(slices.Clone(good), 0)) {
		return
	}
	r, _ := c.trained(7)
	c.same("after refused snapshots", q, r, 7, 6)
}

func (c *policyTest) allocations() {
	if raceDetector {
		return
	}
	for _, set := range c.cfg.Sets {
		p := c.mk()
		var a bandit.Action
		t := 0
		var err error
		round := func() {
			t++
			if e := p.Select(&a, set, c.key.Stream(rng.Select).Round(uint64(t))); e != nil {
				err = e
			} else if e := p.Update(a, c.reward(a.X, t), c.key.Stream(rng.Perturb).Round(uint64(t))); e != nil {
				err = e
			}
		}
		for range 150 {
			round()
		}
		n := testing.AllocsPerRun(100, round)
		if err != nil {
			c.fail("on a %T: %v", set, err)
			return
		}
		if n > 0 {
			c.fail("a round on a %T allocates %v times", set, n)
			return
		}
	}
}

// reordered returns two lists of the arms of a finite set: as they are, and arm i at place to[i].
func (c *policyTest) reordered(f bandit.Finite) (plain, permuted *armList, to []int) {
	k := f.Len()
	plain = &armList{d: c.dim}
	permuted = &armList{d: c.dim, x: make([]float64, k*c.dim)}
	to = make([]int, k)
	for i := range to {
		to[i] = i
	}
	if k == 2 {
		to[0], to[1] = 1, 0
	} else {
		c.key.Child("order").Stream(rng.Offer).Round(0).Rand().Shuffle(k,
			func(i, j int) { to[i], to[j] = to[j], to[i] })
	}
	for i := range k {
		plain.x = append(plain.x, f.At(i)...)
		copy(permuted.x[to[i]*c.dim:], f.At(i))
	}
	return plain, permuted, to
}

func (c *policyTest) permutedAction() {
	for _, set := range c.cfg.Sets {
		f, ok := set.(bandit.Finite)
		if !ok {
			continue
		}
		plain, permuted, to := c.reordered(f)
		const warm = 12
		p, ok := c.trained(warm)
		if !ok {
			return
		}
		q, _ := c.trained(warm)
		for t := warm; t < warm+60; t++ {
			a, ok := c.choose(p, plain, t)
			if !ok || !c.belongs(a, plain) {
				return
			}
			b, ok := c.choose(q, permuted, t)
			if !ok {
				return
			}
			if b.Index != to[a.Index] || !slices.Equal(a.X, b.X) {
				c.fail("round %d: arm %d, with the arms in another order the arm that was %d; "+
					"name PermutedAction in Exempt, with the reason, if the policy draws the number of an arm", t, a.Index,
					slices.Index(to, b.Index))
				return
			}
			if t%3 == 2 {
				a = c.foreign(t)
			}
			if !c.learn(p, a, t) || !c.learn(q, a, t) {
				return
			}
		}
	}
}

func (c *policyTest) permutedLaw() {
	p, ok := c.trained(12)
	if !ok {
		return
	}
	pr, ok := p.(bandit.Prober)
	if !ok {
		return
	}
	for _, set := range c.cfg.Sets {
		f, ok := set.(bandit.Finite)
		if !ok {
			continue
		}
		plain, permuted, to := c.reordered(f)
		var law, other bandit.Law
		draw := c.key.Stream(rng.Select).Round(23)
		if err := pr.Prob(&law, plain, draw); err != nil {
			if !errors.Is(err, bandit.ErrUnsupported) {
				c.fail("Prob: %v", err)
			}
			continue
		}
		if err := pr.Prob(&other, permuted, draw); err != nil {
			c.fail("Prob with the arms in another order: %v", err)
			return
		}
		for i := range to {
			if a, b := law.Atoms[i], other.Atoms[to[i]]; a.P != b.P || a.Count != b.Count {
				c.fail("arm %d has probability %v, with the arms in another order %v", i, a.P, b.P)
				return
			}
		}
	}
}

func (c *policyTest) refusal() {
	for _, set := range c.cfg.Refused {
		p, ok := c.trained(5)
		if !ok {
			return
		}
		q, _ := c.trained(5)
		var a bandit.Action
		if err := p.Select(&a, set, c.key.Stream(rng.Select).Round(1)); !errors.Is(err, bandit.ErrUnsupported) {
			c.fail("Select on a %T: error %v, want bandit.ErrUnsupported", set, err)
			return
		}
		if pr, ok := p.(bandit.Prober); ok {
			if err := pr.Prob(new(bandit.Law), set, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
				c.fail("Prob on a %T: error %v, want bandit.ErrUnsupported", set, err)
				return
			}
		}
		if !c.same(fmt.Sprintf("after a refused %T", set), p, q, 5, 4) {
			return
		}
	}
}

// armList is a finite set, as plain as can be: one K×d block.
type armList struct {
	d int
	x []float64
}

func (s *armList) Dim() int           { return s.d }
func (s *armList) Len() int           { return len(s.x) / s.d }
func (s *armList) At(i int) []float64 { return s.x[i*s.d : i*s.d+s.d] }

func (s *armList) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if len(theta) != s.d {
		panic("bandittest: theta of wrong length")
	}
	best, at := math.Inf(-1), 0
	for i := range s.Len() {
		var v float64
		for j, x := range s.At(i) {
			v += x * theta[j]
		}
		if v-v != 0 {
			return 0, fmt.Errorf("bandittest: theta = %v: %w", theta, bandit.ErrNotFinite)
		}
		if v > best {
			best, at = v, i
		}
	}
	dst.Set(s.At(at), at)
	return best, nil
}
