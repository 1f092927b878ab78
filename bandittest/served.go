package bandittest

import (
	"bytes"
	"errors"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/rng"
)

// ServedCheck names one promise that a server relies on.
type ServedCheck string

// The promises that TestServed holds a policy to. All but the first are about optional abilities.
const (
	// Servable: the policy states its law (bandit.Prober) with an atom for each arm of a finite set, and is kept as
	// bytes (bandit.Snapshotter).
	Servable ServedCheck = "servable"
	// Members: DrawnMember changes nothing, names a member and a sign, and where View shows the model of that member
	// and no mixture plays, Select plays for it.
	Members ServedCheck = "members"
	// Ties: an arm of the largest score for GreedyTheta is at least as probable as every other one.
	Ties ServedCheck = "ties"
	// Scores: Score is finite and changes nothing.
	Scores ServedCheck = "scores"
	// Redrawn: the law of a policy that Redraws depends on the state and on the number of the decision only.
	Redrawn ServedCheck = "redrawn"
	// Sums: 2n events in a state that is Additive leave the θ of GreedyTheta that n events leave as x√2 and y√2.
	Sums ServedCheck = "sums"
	// Merged: Merge refuses a policy of another kind and changes nothing then; merged from two halves, the θ of
	// GreedyTheta is that of all events.
	Merged ServedCheck = "merged"
	// Deferred: with Defer, and work that is left until the next call, the snapshots are those without.
	Deferred ServedCheck = "deferred"
)

var servedChecks = []struct {
	name ServedCheck
	run  func(*policyTest)
}{
	{Servable, (*policyTest).servable},
	{Members, (*policyTest).members},
	{Ties, (*policyTest).ties},
	{Scores, (*policyTest).scores},
	{Redrawn, (*policyTest).redrawn},
	{Sums, (*policyTest).sums},
	{Merged, (*policyTest).merged},
	{Deferred, (*policyTest).deferred},
}

// TestServed holds a policy to what a decision server, training from its log and off-policy evaluation ask of it,
// beside TestPolicy. mk returns a new policy before round 1; all that it returns must be equal. cfg.Sets are finite
// sets; cfg.Refused, Exempt and Draws are not used. Every fault is reported to t with the name of the promise. An
// ability that the policy does not have is no fault.
//
// Nothing here is a matter of chance: the suite is a function of cfg.Seed.
func TestServed(t TB, mk func() bandit.Policy, cfg PolicyConfig) {
	t.Helper()
	if len(cfg.Sets) == 0 {
		t.Errorf("bandittest: PolicyConfig.Sets is empty")
		return
	}
	for i, c := range servedChecks {
		key := rng.NewKey(cfg.Seed).Child("served").At(uint64(i))
		p := &policyTest{TB: t, mk: mk, cfg: cfg, name: PolicyCheck(c.name), key: key, dim: cfg.Sets[0].Dim()}
		p.guard("the suite", func() { c.run(p) })
	}
}

// lawAt returns the policy's law for decision t, nil where it has none.
func (c *policyTest) lawAt(p bandit.Policy, set bandit.ActionSet, t int) *bandit.Law {
	c.Helper()
	pr, ok := p.(bandit.Prober)
	if !ok {
		return nil
	}
	law := new(bandit.Law)
	if err := pr.Prob(law, set, c.key.Stream(rng.Select).Round(uint64(t))); err != nil {
		c.fail("Prob on a %T: %v", set, err)
		return nil
	}
	return law
}

func (c *policyTest) servable() {
	p, ok := c.trained(9)
	if !ok {
		return
	}
	if _, ok := p.(bandit.Prober); !ok {
		c.fail("a %T has no Prob: a server records the probability of what it plays", p)
		return
	}
	if _, ok := p.(bandit.Snapshotter); !ok {
		c.fail("a %T has no AppendSnapshot and Restore: its state would not survive a restart", p)
		return
	}
	for _, set := range c.cfg.Sets {
		f, ok := set.(bandit.Finite)
		if !ok {
			c.fail("PolicyConfig.Sets has a %T; a server offers finite sets", set)
			return
		}
		law := c.lawAt(p, set, 1)
		if law == nil {
			return
		}
		if len(law.Atoms) != f.Len() {
			c.fail("the law of %d arms has %d atoms", f.Len(), len(law.Atoms))
			return
		}
		for i, a := range law.Atoms {
			if a.Index != i {
				c.fail("atom %d of the law is of arm %d", i, a.Index)
				return
			}
		}
	}
}

func (c *policyTest) members() {
	p, ok := c.trained(9)
	d, has := p.(bandit.MemberDrawer)
	if !ok || !has {
		return
	}
	before := c.snapshot(p)
	for t := range 60 {
		draw := c.key.Stream(rng.Select).Round(uint64(t))
		j, xi := d.DrawnMember(draw)
		if again, sign := d.DrawnMember(draw); again != j || sign != xi {
			c.fail("decision %d: member %d with sign %v, and then %d with %v", t, j, xi, again, sign)
			return
		}
		if j < 0 || xi != 1 && xi != -1 && (xi != 0 || j != 0) {
			c.fail("decision %d: member %d with sign %v, expected j ≥ 0 and ±1, or 0 and 0", t, j, xi)
			return
		}
		var view bandit.View
		v, shows := p.(bandit.Viewer)
		if !shows || xi == 0 || !v.View(&view, draw.At()) || view.Mixed {
			continue
		}
		if j >= view.M || !slices.Contains(view.Signs, xi) {
			c.fail("decision %d: member %d with sign %v, but the view has %d members with the signs %v", t, j, xi,
				view.M, view.Signs)
			return
		}
		theta := make([]float64, c.dim)
		view.Model(theta, j, xi)
		for _, set := range c.cfg.Sets {
			a, ok := c.choose(p, set, t)
			if !ok {
				return
			}
			var best bandit.Action
			if _, err := set.ArgMax(&best, theta); err != nil || best.Index != a.Index {
				c.fail("decision %d: arm %d is played, and %d is best for member %d with sign %v (%v)", t, a.Index,
					best.Index, j, xi, err)
				return
			}
		}
	}
	if !bytes.Equal(before, c.snapshot(p)) {
		c.fail("DrawnMember or View changed the snapshot")
	}
}

// greedyTheta returns a copy of the θ of a policy that is greedy, nil for others.
func (c *policyTest) greedyTheta(p bandit.Policy) []float64 {
	c.Helper()
	g, ok := p.(bandit.GreedyScorer)
	if !ok {
		return nil
	}
	theta := g.GreedyTheta()
	if theta != nil && len(theta) != c.dim {
		c.fail("GreedyTheta has %d numbers, expected %d", len(theta), c.dim)
		return nil
	}
	return slices.Clone(theta)
}

func (c *policyTest) ties() {
	p, ok := c.trained(9)
	theta := c.greedyTheta(p)
	if !ok || theta == nil {
		return
	}
	for _, set := range c.cfg.Sets {
		law := c.lawAt(p, set, 1)
		if law == nil {
			return
		}
		arms, ok := set.(bandit.Finite)
		if !ok || arms.Len() != len(law.Atoms) {
			return // the business of Servable
		}
		best := 0
		for i := range law.Atoms {
			if dot(arms.At(i), theta) > dot(arms.At(best), theta) {
				best = i
			}
		}
		for i, a := range law.Atoms {
			if a.P > law.Atoms[best].P {
				c.fail("arm %d has probability %v, and arm %d, which GreedyTheta prefers, %v", i, a.P, best,
					law.Atoms[best].P)
				return
			}
		}
	}
}

func (c *policyTest) scores() {
	p, ok := c.trained(9)
	s, has := p.(bandit.Scorer)
	if !ok || !has {
		return
	}
	before := c.snapshot(p)
	for t := range 20 {
		if y := s.Score(c.foreign(t)); y-y != 0 {
			c.fail("Score is %v", y)
			return
		}
	}
	if !bytes.Equal(before, c.snapshot(p)) {
		c.fail("Score changed the snapshot")
	}
}

func (c *policyTest) redrawn() {
	p, ok := c.trained(9)
	r, has := p.(bandit.Redrawer)
	if !ok || !has || !r.Redraws() {
		return
	}
	q, _ := c.trained(9)
	for t := range 8 {
		for _, set := range c.cfg.Sets {
			c.lawAt(q, set, t+100) // what was asked before has no say
			a, b := c.lawAt(p, set, t), c.lawAt(q, set, t)
			if a == nil || b == nil {
				return
			}
			for i := range a.Atoms {
				if a.Atoms[i].P != b.Atoms[i].P {
					c.fail("decision %d: arm %d has probability %v, and %v when it is asked again", t, i, a.Atoms[i].P,
						b.Atoms[i].P)
					return
				}
			}
		}
	}
}

// near reports whether two vectors agree to 1e-8.
func near(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-8*(1+math.Abs(b[i])) {
			return false
		}
	}
	return true
}

// taught returns a policy that has learned these rounds, each times over, scaled by root.
func (c *policyTest) taught(from, to, times int, root float64) bandit.Policy {
	c.Helper()
	p := c.mk()
	for t := from; t < to; t++ {
		a := c.foreign(t)
		y := c.reward(a.X, t) * root
		for i := range a.X {
			a.X[i] *= root
		}
		for range times {
			x := bandit.Action{X: slices.Clone(a.X), Index: bandit.NoIndex}
			if err := p.Update(x, y, c.key.Stream(rng.Perturb).Round(uint64(t))); err != nil {
				c.fail("round %d: Update: %v", t, err)
			}
		}
	}
	return p
}

func (c *policyTest) sums() {
	if a, ok := c.mk().(bandit.Additive); !ok || a.Additive() != nil {
		return
	}
	const n, half = 12, 0.5 // x/2 has length at most 1 as x√2/2 has
	twice := c.greedyTheta(c.taught(0, n, 2, half))
	scaled := c.greedyTheta(c.taught(0, n, 1, half*math.Sqrt2))
	if twice != nil && scaled != nil && !near(twice, scaled) {
		c.fail("every event twice gives θ = %v, and events times √2 give %v", twice, scaled)
	}
}

// stranger is a policy of no kind.
type stranger struct{ bandit.Policy }

func (c *policyTest) merged() {
	p := c.taught(0, 12, 1, 1)
	m, ok := p.(bandit.Merger)
	if !ok {
		return
	}
	before := c.snapshot(p)
	if m.Merge(stranger{p}) == nil {
		c.fail("Merge takes a policy of another kind")
		return
	}
	if !bytes.Equal(before, c.snapshot(p)) {
		c.fail("a Merge that is refused changes the snapshot")
		return
	}
	if err := m.Merge(c.taught(12, 20, 1, 1)); errors.Is(err, bandit.ErrUnsupported) {
		return // not with these options
	} else if err != nil {
		c.fail("Merge with a policy of equal configuration: %v", err)
		return
	}
	all, theta := c.greedyTheta(c.taught(0, 20, 1, 1)), c.greedyTheta(p)
	if all != nil && theta != nil && !near(theta, all) {
		c.fail("merged θ = %v, and all events give %v", theta, all)
	}
}

func (c *policyTest) deferred() {
	p, q := c.mk(), c.mk()
	d, ok := p.(bandit.Deferrer)
	if !ok {
		return
	}
	d.Defer(true)
	for t := range 40 {
		if !c.learn(p, c.foreign(t), t) || !c.learn(q, c.foreign(t), t) {
			return
		}
		if w := d.Pending(); w != nil && t%2 == 0 {
			for !w.Step() {
			}
			d.Finish()
			if d.Pending() != nil {
				c.fail("round %d: work is pending after Finish", t)
				return
			}
		}
	}
	if !bytes.Equal(c.snapshot(p), c.snapshot(q)) {
		c.fail("the snapshots with and without Defer differ")
	}
}
