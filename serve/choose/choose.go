package choose

import (
	"fmt"
	"math"
	"math/bits"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// Choice is a draw from the law of a version.
type Choice struct {
	Index    int // among the candidates
	Num, Den uint64
	Member   uint32 // the policy's member that was drawn, 0 when it has none
	Negative bool   // with the sign −1
	// Of a budget, 0 without one: λ; what the decision costs in expectation before the hard stop; whether that has
	// taken actions away.
	Price, Expects float64
	Stopped        bool
	Floored        bool // candidates that have entered have floors, or floors and caps have clipped the law
}

// draw returns the source of a decision's choice.
func draw(seed rng.Key, incarnation, nonce eventlog.ID) rng.Source {
	return seed.At(uint64(incarnation)).Stream(rng.Select).Round(uint64(nonce))
}

// Choose draws an action from the version's law under the floor. It depends on the version, the
// candidates and the nonce and on nothing else. Candidates that the policy cannot tell apart share the
// probability of their group equally. Without shared, for more candidates than a record has a law of (MaxLaw), the
// first of them has all of it.
func (w *Worker) Choose(nonce eventlog.ID, shared bool) (Choice, error) {
	if shared || w.hashed != nil || w.market.on {
		return w.share(nonce)
	}
	v := w.Version
	w.groups.of, w.floors.sum, w.limits.on = nil, 0, false
	set, err := actionset.FiniteOf(v.Compiled.Dim, w.X)
	if err != nil {
		return Choice{}, err
	}
	k := set.Len()
	source := draw(v.Seed, v.ID, nonce)
	own := w.own(source).Sub(0)
	if err := w.policy.Select(&w.action, set, own); err != nil {
		return Choice{}, err
	}
	if err := w.policy.Prob(&w.law, set, own); err != nil {
		return Choice{}, err
	}
	c := Choice{Index: w.action.Index}
	c.Member, c.Negative = drawn(w.policy, own)
	if v.Compiled.FloorNum > 0 && source.Intn(0, int(v.Compiled.FloorDen)) < int(v.Compiled.FloorNum) {
		c.Index = source.Intn(1, k)
	}
	if len(w.law.Atoms) != k || c.Index < 0 || c.Index >= k {
		return Choice{}, fmt.Errorf("the policy has a law of %d actions and chose %d of %d", len(w.law.Atoms), c.Index,
			k)
	}
	c.Num, c.Den = w.Propensity(c.Index)
	if c.Num == 0 {
		return Choice{}, fmt.Errorf("the policy chose an action of probability 0")
	}
	return c, nil
}

// Propensity returns the probability of candidate i under the floor. See the package comment.
func (w *Worker) Propensity(i int) (num, den uint64) {
	if w.limits.on {
		return w.limits.propensity(i)
	}
	if w.groups.of != nil {
		num, den = w.sharedPropensity(i)
		return w.floors.floored(i, num, den)
	}
	a, b, k := w.Version.Compiled.FloorNum, w.Version.Compiled.FloorDen, uint64(len(w.law.Atoms))
	atom, total := w.law.Atoms[i], w.law.Total
	if total > 0 && a == 0 {
		return atom.Count, total
	}
	if total > 0 {
		if hi, tk := bits.Mul64(total, k); hi == 0 {
			if hi, den := bits.Mul64(tk, b); hi == 0 {
				return (b-a)*atom.Count*k + a*total, den
			}
		}
	}
	e := float64(a) / float64(b)
	p := (1-e)*atom.P + e/float64(k)
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}

// sharedPropensity is Propensity in a group: with c votes for a group of g,
//
//	((b−a)·c·K + a·V·g) / (b·V·g·K).
func (w *Worker) sharedPropensity(i int) (num, den uint64) {
	s := &w.groups
	a, b, k := w.Version.Compiled.FloorNum, w.Version.Compiled.FloorDen, uint64(len(s.of))
	if w.market.stopped {
		if k = uint64(w.market.kept); !w.market.remains(s.of[i]) {
			return 0, 1
		}
	}
	c, v, g := s.votes[s.of[i]], s.total, uint64(s.size[s.of[i]])
	if a == 0 {
		b, k = 1, 1
	}
	if vg := product(v, g); vg > 0 {
		if den := product(product(vg, k), b); den > 0 {
			return (b-a)*c*k + a*vg, den
		}
	}
	e := float64(a) / float64(b)
	p := (1-e)*(float64(c)/float64(v)/float64(g)) + e/float64(k)
	return uint64(math.Round(min(p, 1) * (1 << 53))), 1 << 53
}

// drawn returns the member j and whether ξ = −1 that a policy draws from a source, 0 and false when it has no members.
func drawn(p bandit.Policy, source rng.Source) (member uint32, negative bool) {
	if d, ok := p.(bandit.MemberDrawer); ok {
		j, xi := d.DrawnMember(source)
		return uint32(j), xi < 0
	}
	return 0, false
}

// regression is implemented by policies that keep a ridge regression.
type regression interface{ Ridge() policy.Regression }

// Chosen is an action of a decision.
type Chosen struct {
	ID    string `json:"id"`
	Index int    `json:"index"` // among the candidates as they were given
}

// Fraction is a probability as a quotient of integers, exact, not reduced.
type Fraction struct {
	Num uint64 `json:"num"`
	Den uint64 `json:"den"`
}

// Float returns the quotient.
func (f Fraction) Float() float64 { return float64(f.Num) / float64(f.Den) }

// Explained is what the policy computes for one candidate.
type Explained struct {
	Chosen
	Propensity Fraction `json:"propensity"` // under the floor
	// Votes is how many of the policy's Voters models prefer it, where the policy counts. Alike candidates
	// have equal features: the votes are those of all of them together, and they share the probability.
	Votes  uint64 `json:"votes"`
	Voters uint64 `json:"voters,omitempty"`
	Alike  int    `json:"alike,omitempty"` // how many candidates share the votes, itself included; absent for one
	// Score is the estimated reward, ⟨x, θ̂⟩ or that of the playing model, where the policy has one.
	Score *float64 `json:"score,omitempty"`
}

// Explain describes every candidate, after Choose.
func (w *Worker) Explain() []Explained {
	out := make([]Explained, w.Count())
	var theta []float64
	if r, ok := w.policy.(regression); ok {
		theta = r.Ridge().Theta()
	}
	d := w.Version.Compiled.Dim
	for i := range out {
		at := w.Place(i)
		num, den := w.Propensity(i)
		out[i] = Explained{Chosen: Chosen{w.IDs[at], at}, Propensity: Fraction{num, den}, Voters: w.law.Total}
		group := i
		if w.groups.of != nil {
			if group = w.groups.of[i]; w.groups.size[group] > 1 {
				out[i].Alike = w.groups.size[group]
			}
		}
		if w.law.Total == 0 {
			out[i].Votes = 0
		} else if w.groups.of != nil {
			out[i].Votes = w.groups.votes[group]
		} else {
			out[i].Votes = w.law.Atoms[group].Count
		}
		switch s, ok := w.policy.(bandit.Scorer); {
		case ok && w.hashed != nil:
			score := s.Score(bandit.Action{At: w.sparse.at[i], X: w.sparse.x[i], Index: bandit.NoIndex})
			out[i].Score = &score
		case ok:
			score := s.Score(bandit.Action{X: w.X[i*d : (i+1)*d], Index: bandit.NoIndex})
			out[i].Score = &score
		case theta != nil:
			score := linalg.Dot(w.X[i*d:(i+1)*d], theta)
			out[i].Score = &score
		}
	}
	return out
}
