package policy_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// TestMixedLaw: Prob is exactly (1−ε)·base + ε/K, an arm never falls below ε/K, and the base learns
// as it would alone.
func TestMixedLaw(t *testing.T) {
	const d, k = 3, 6
	w := newWorld(4, d, k)
	for _, eps := range []float64{0, 0.05, 0.5, 1} {
		base := policy.EnsembleOptions{M: 5}
		alone, err := policy.NewEnsemble(base, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		m, err := policy.NewMixed(policy.MixedOptions{Base: policy.Base{Options: &base}, Epsilon: eps, NoFloor: eps == 0}, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		var law, bare bandit.Law
		w.play(t, m, 60, func(round int, a *bandit.Action, y float64) {
			if err := alone.Update(*a, y, w.key.Stream(rng.Perturb).Round(uint64(round)).Sub(0)); err != nil {
				t.Fatal(err)
			}
			if err := m.Prob(&law, w, rng.Source{}); err != nil {
				t.Fatal(err)
			}
			if err := alone.Prob(&bare, w, rng.Source{}); err != nil {
				t.Fatal(err)
			}
			for i := range law.Atoms {
				want := (1-eps)*bare.Atoms[i].P + eps/k
				if got := law.Atoms[i].P; math.Abs(got-want) > 1e-15 || got < eps/k {
					t.Fatalf("ε = %v, round %d: arm %d has probability %v, want %v", eps, round, i, got, want)
				}
			}
			if (law.Total == 10) != (eps == 0) {
				t.Fatalf("ε = %v: Total is %d", eps, law.Total)
			}
		})

		// Without the coin the wrapper plays its base on Sub(0).
		if eps == 0 {
			var a, b bandit.Action
			for i := range uint64(200) {
				draw := w.key.Stream(rng.Select).Round(1000 + i)
				if err := m.Select(&a, w, draw); err != nil {
					t.Fatal(err)
				}
				if err := alone.Select(&b, w, draw.Sub(0)); err != nil {
					t.Fatal(err)
				}
				if a.Index != b.Index {
					t.Fatalf("draw %d: %d, the base plays %d", i, a.Index, b.Index)
				}
			}
		}
	}
}

// TestNestedFloors: two floors of ½ over a policy that always plays arm 0 are a floor of ¾ if and
// only if they toss different coins. Null: the share of arm 0 among n = 40 000 draws is
// ¼ + ¾/K; Hoeffding's limit at level 1e-9 is 0.0164. With one coin for both the share is ½ + ½/K.
func TestNestedFloors(t *testing.T) {
	const n, k = 40_000, 4
	w := newWorld(4, 2, k)
	p, err := policy.NewFixed(policy.FixedOptions{}, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := policy.Mix(p, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := policy.Mix(inner, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	var a bandit.Action
	var zero float64
	for i := range uint64(n) {
		if err := outer.Select(&a, w, rng.NewKey(1).Stream(rng.Select).Round(i)); err != nil {
			t.Fatal(err)
		}
		if a.Index == 0 {
			zero++
		}
	}
	if got, want := zero/n, 0.25+0.75/k; math.Abs(got-want) > math.Sqrt(math.Log(2/1e-9)/(2*n)) {
		t.Errorf("arm 0 has share %v, want %v", got, want)
	}
}

// witness is a base that writes down what it was built for.
type witness struct {
	policy.EnsembleOptions
	built *[]policy.Problem
	fail  int // the build that fails, 0 for none
}

func (w *witness) New(p policy.Problem) (bandit.Policy, error) {
	*w.built = append(*w.built, p)
	if len(*w.built) == w.fail {
		return nil, errors.New("out of members")
	}
	return w.EnsembleOptions.New(p)
}

// TestDoubling: epoch k lasts first·2^k rounds; in it the wrapper plays exactly what a fresh base
// for that horizon, share of δ and initial stream would play; the shares add up to one.
func TestDoubling(t *testing.T) {
	const d, first = 3, 3
	w := newWorld(7, d, 8)
	var built []policy.Problem
	base := &witness{EnsembleOptions: policy.EnsembleOptions{M: 4, Scale: policy.Scale{Kind: "betatilde", Value: 1}}, built: &built}
	problem := w.problem(0)
	problem.Share = 0.5
	p, err := policy.NewDoubling(policy.DoublingOptions{Base: policy.Base{Options: base}, First: first}, problem)
	if err != nil {
		t.Fatal(err)
	}
	fresh := func(k int) *policy.Ensemble {
		q := problem
		q.Horizon = first << k
		q.Share = 0.5 / float64((k+1)*(k+2))
		q.Init = problem.Init.Sub(uint64(k))
		e, err := policy.NewEnsemble(base.EnsembleOptions, q)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	k, played := 0, 0
	twin := fresh(0)
	var b bandit.Action
	w.play(t, p, 3*(1+2+4+8+16)+5, func(round int, a *bandit.Action, y float64) {
		if err := twin.Select(&b, w, w.key.Stream(rng.Select).Round(uint64(round))); err != nil {
			t.Fatal(err)
		}
		if a.Index != b.Index {
			t.Fatalf("round %d, epoch %d: plays %d, a fresh base %d", round, k, a.Index, b.Index)
		}
		if err := twin.Update(*a, y, w.key.Stream(rng.Perturb).Round(uint64(round))); err != nil {
			t.Fatal(err)
		}
		if played++; played == first<<k {
			k, played = k+1, 0
			twin = fresh(k)
		}
		if gk, gp := p.Epoch(); gk != k || gp != played {
			t.Fatalf("round %d: epoch %d with %d rounds, want %d with %d", round, gk, gp, k, played)
		}
	})
	if k != 5 || len(built) != 6 {
		t.Errorf("%d epochs, %d bases", k, len(built))
	}
	var share float64
	for i, q := range built {
		share += q.Share
		if q.Horizon != first<<i {
			t.Errorf("epoch %d was built for horizon %d", i, q.Horizon)
		}
	}
	if want := 0.5 * (1 - 1.0/7); math.Abs(share-want) > 1e-15 { // Σ_{k<6} 1/((k+1)(k+2)) = 1 − 1/7
		t.Errorf("six shares add up to %v, want %v", share, want)
	}
}

// TestDoublingFailure: when the next base cannot be built the Update fails and nothing has changed,
// and a later Update of the same round fails in the same way.
func TestDoublingFailure(t *testing.T) {
	w := newWorld(7, 2, 4)
	var built []policy.Problem
	base := &witness{EnsembleOptions: policy.EnsembleOptions{M: 4}, built: &built, fail: 2}
	p, err := policy.NewDoubling(policy.DoublingOptions{Base: policy.Base{Options: base}, First: 5}, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	w.play(t, p, 4, nil)
	before, err := p.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := bandit.Action{X: w.arms[0]}
	if err := p.Update(a, 1, rng.Source{}); err == nil || err.Error() != "policy: doubling: epoch 1: base: out of members" {
		t.Fatalf("error is %v", err)
	}
	after, err := p.AppendSnapshot(nil)
	if err != nil || !bytes.Equal(before, after) {
		t.Fatalf("a failed Update changed the state (%v)", err)
	}
	if err := p.Update(a, 1, rng.Source{}); err != nil { // the third build succeeds
		t.Fatal(err)
	}
	if k, played := p.Epoch(); k != 1 || played != 0 {
		t.Errorf("epoch %d, %d rounds", k, played)
	}
}

// TestWrappersRefuse: what a wrapper says no to.
func TestWrappersRefuse(t *testing.T) {
	w := newWorld(7, 2, 4)
	for want, o := range map[string]policy.Options{
		"epsilon is 1.5, expected a number in [0, 1]":                            &policy.MixedOptions{Epsilon: 1.5},
		"epsilon is NaN, expected a number in [0, 1]":                            &policy.EpsilonGreedyOptions{Epsilon: math.NaN()},
		"first is -1, expected at least 1":                                       &policy.DoublingOptions{First: -1},
		"base.m is -4, expected at least 1 and at most 134217728 in dimension 2": &policy.MixedOptions{Base: policy.Base{Options: &policy.EnsembleOptions{M: -4, OneSided: true}}},
	} {
		if _, err := o.New(w.problem(0)); err == nil || err.Error() != want {
			t.Errorf("%T: error %v, want %s", o, err, want)
		}
	}
	m, err := policy.NewMixed(policy.MixedOptions{Base: policy.Base{Options: &policy.ThompsonOptions{}}, Epsilon: 0.1}, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Prob(new(bandit.Law), w, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
		t.Errorf("mixed over ts: Prob gives %v", err)
	}
	// A wrapper passes on what its base warns of.
	e := policy.EnsembleOptions{M: 1}
	for _, o := range []policy.Options{&policy.MixedOptions{Base: policy.Base{Options: &e}}, &policy.DoublingOptions{Base: policy.Base{Options: &e}}} {
		p, err := o.New(w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.(bandit.Warner).Warnings((*ball)(w)); len(got) != 1 {
			t.Errorf("%T: warnings %q", o, got)
		}
	}
}
