package bandittest_test

import (
	"errors"
	"slices"
	"testing"

	"troupe/bandit"
	"troupe/bandittest"
	"troupe/policy"
	"troupe/rng"
)

// The faults of abilities.
type (
	bare         struct{ bandit.Policy } // no law, no snapshots
	wrongMember  struct{ *policy.Atoms }
	otherTheta   struct{ *policy.Greedy }
	infinite     struct{ sound }
	onceRedrawn  struct{ *policy.Atoms }
	notASum      struct{ *policy.LinUCB }
	mergesAll    struct{ *policy.Atoms }
	mergesTwice  struct{ *policy.Greedy }
	forgetsToEnd struct{ *policy.Greedy }
)

func (p wrongMember) DrawnMember(draw rng.Source) (int, float64) {
	j, xi := p.Atoms.DrawnMember(draw)
	return j, -xi
}
func (p otherTheta) GreedyTheta() []float64 {
	theta := slices.Clone(p.Greedy.GreedyTheta())
	for i := range theta {
		theta[i] = -theta[i]
	}
	return theta
}
func (p infinite) Score(a bandit.Action) float64 { return 1 / (a.X[0] - a.X[0]) }

var asked int // by onceRedrawn

func (p onceRedrawn) Redraws() bool { return true }
func (p onceRedrawn) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	asked++
	return p.Atoms.Prob(dst, set, draw.Later(uint64(asked)))
}
func (p notASum) Additive() error             { return nil }
func (p notASum) GreedyTheta() []float64      { return p.Ridge().Theta() }
func (p mergesAll) Merge(bandit.Policy) error { return nil }
func (p mergesTwice) Merge(o bandit.Policy) error {
	if _, ok := o.(mergesTwice); !ok {
		return errors.ErrUnsupported
	}
	return nil // and adds nothing
}
func (p forgetsToEnd) Defer(bool)           {}
func (p forgetsToEnd) Finish()              {}
func (p forgetsToEnd) Pending() bandit.Work { return done{} }

type done struct{}

func (done) Step() bool { return true }

// TestServedSuiteSeesFaults plants one fault after the other and expects the promise that it breaks; sound policies keep
// all.
func TestServedSuiteSeesFaults(t *testing.T) {
	problem := policy.Problem{Dim: 3, Init: rng.NewKey(3).Stream(rng.Init)}
	atoms := func() *policy.Atoms {
		p, err := policy.NewAtoms(policy.AtomsOptions{M: 5}, problem)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	greedy := func() *policy.Greedy {
		p, err := policy.NewGreedy(policy.GreedyOptions{}, problem)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	linucb := func() *policy.LinUCB {
		p, err := policy.NewLinUCB(policy.LinUCBOptions{Discount: 0.9}, problem)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	auto := func() bandit.Policy {
		p, err := policy.NewAuto(policy.AutoOptions{M: 5}, problem)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		mk    func() bandit.Policy
		wants bandittest.ServedCheck // "" for a sound policy
	}{
		{func() bandit.Policy { return newSound() }, ""},
		{func() bandit.Policy { return atoms() }, ""},
		{func() bandit.Policy { return greedy() }, ""},
		{func() bandit.Policy { return linucb() }, ""},
		{auto, ""},
		{func() bandit.Policy { return bare{greedy()} }, bandittest.Servable},
		{func() bandit.Policy { return wrongMember{atoms()} }, bandittest.Members},
		{func() bandit.Policy { return otherTheta{greedy()} }, bandittest.Ties},
		{func() bandit.Policy { return infinite{newSound()} }, bandittest.Scores},
		{func() bandit.Policy { return onceRedrawn{atoms()} }, bandittest.Redrawn},
		{func() bandit.Policy { return notASum{linucb()} }, bandittest.Sums},
		{func() bandit.Policy { return mergesAll{atoms()} }, bandittest.Merged},
		{func() bandit.Policy { return mergesTwice{greedy()} }, bandittest.Merged},
		{func() bandit.Policy { return forgetsToEnd{greedy()} }, bandittest.Deferred},
	} {
		var l listener
		bandittest.TestServed(&l, c.mk, bandittest.PolicyConfig{Sets: setsOfArms(t)})
		judge(t, l, bandittest.PolicyCheck(c.wants))
	}
}
