package policy_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

func centred(t *testing.T, d int, base spec.Raw) bandit.Policy {
	t.Helper()
	return build(t, "centred", spec.Raw{"base": base}, policy.Problem{Dim: d, Arms: 3, Horizon: 300, Init: rng.NewKey(3).Stream(rng.Init)})
}

// withIntercept are lists on which a constant is linear, in general position: unit vectors, and vectors with a last coordinate of ½.
func withIntercept(t *testing.T) []bandit.ActionSet {
	t.Helper()
	var sets []bandit.ActionSet
	for _, arms := range [][][]float64{
		{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}},
		{{.3, .1, .2, .5}, {-.4, .2, .1, .5}, {.1, -.6, .3, .5}, {0, .2, -.5, .5}, {.5, .3, .2, .5}, {-.1, -.2, .6, .5}},
	} {
		set, err := actionset.NewFinite(arms)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	return sets
}

// play plays 300 rounds on changing lists, or on one, and returns the arms; rewards are multiples of 1/1024, so that adding a dyadic level is exact.
func playLevel(t *testing.T, p bandit.Policy, sets []bandit.ActionSet, level float64) (arms []int) {
	t.Helper()
	for k := range uint64(300) {
		var a bandit.Action
		set := sets[int(k)%len(sets)]
		if err := p.Select(&a, set, rng.NewKey(5).Stream(rng.Select).Round(k)); err != nil {
			t.Fatal(err)
		}
		y := math.Round(1024*(0.3*a.X[0]+rng.NewKey(5).Stream(rng.Reward).Round(k).Normal(0))) / 1024
		if err := p.Update(a, y+level, rng.NewKey(5).Stream(rng.Perturb).Round(k)); err != nil {
			t.Fatal(err)
		}
		arms = append(arms, a.Index)
	}
	return arms
}

// TestCentredInvariance: adding −1, 2 or 1024 to all rewards does not change a run, action for action; without centring it does. On one list and on two
// by turns of which each alone leaves w open.
func TestCentredInvariance(t *testing.T) {
	both := withIntercept(t)
	for _, base := range []spec.Raw{
		{"kind": "ts"}, {"kind": "linucb"}, {"kind": "ats", "m": int64(2)}, {"kind": "atoms", "m": int64(4)}, {"kind": "greedy"},
		{"kind": "ensemble", "m": int64(4), "targets": "gaussian", "init": "prior"}, {"kind": "ats", "members": "frozen", "m": int64(3)},
	} {
		for i, sets := range [][]bandit.ActionSet{both[:1], both[1:]} {
			want := playLevel(t, centred(t, 4, base), sets, 0)
			changed := false
			for _, level := range []float64{-1, 2, 1024} {
				if got := playLevel(t, centred(t, 4, base), sets, level); !slices.Equal(got, want) {
					t.Errorf("%v, list %d: a level of %v changes the run", base, i, level)
				}
				raw := spec.Raw{}
				for k, v := range base {
					raw[k] = v
				}
				delete(raw, "kind")
				plain := func() bandit.Policy {
					return build(t, base["kind"].(string), raw, policy.Problem{Dim: 4, Arms: 3, Horizon: 300, Init: rng.NewKey(3).Stream(rng.Init)})
				}
				changed = changed || !slices.Equal(playLevel(t, plain(), sets, level), playLevel(t, plain(), sets, 0))
			}
			if !changed {
				t.Errorf("%v, list %d: no level changes the run without centring: the test tells nothing", base, i)
			}
		}
	}
}

// TestCentredIsItsFormula: greedy on unit vectors plays the largest (Σ_x (Y − c))/(λ + n_x), c the mean of all rewards, worked out by sums.
func TestCentredIsItsFormula(t *testing.T) {
	set := withIntercept(t)[:1]
	p := centred(t, 4, spec.Raw{"kind": "greedy", "lambda": 2.0})
	var sums, counts [4]float64
	total := 0.0
	for k := range uint64(200) {
		var a bandit.Action
		if err := p.Select(&a, set[0], rng.Source{}); err != nil {
			t.Fatal(err)
		}
		at := func(i int) float64 { return (sums[i] - total/max(1, float64(k))*counts[i]) / (2 + counts[i]) }
		for i := range sums {
			if at(i) > at(a.Index)+1e-9 {
				t.Fatalf("round %d plays arm %d with %v, arm %d has %v", k, a.Index, at(a.Index), i, at(i))
			}
		}
		i := a.Index
		if k < 20 { // some rounds of every arm
			i = int(k) % 4
			x := make([]float64, 4)
			x[i] = 1
			a = bandit.Action{X: x, Index: i}
		}
		y := 3 + 0.2*float64(i) + rng.NewKey(6).Stream(rng.Reward).Round(k).Normal(0)
		if err := p.Update(a, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		sums[i], counts[i], total = sums[i]+y, counts[i]+1, total+y
	}
	if got, want := p.(*policy.Centred).Mean(), total/200; math.Abs(got-want) > 1e-12*want {
		t.Errorf("mean %v, expected %v", got, want)
	}
}

// TestCentredSnapshot: a policy that is restored goes on bit for bit; a snapshot that is cut short or longer is refused and changes nothing; Select twice,
// and on another list in between, gives the same.
func TestCentredSnapshot(t *testing.T) {
	sets := withIntercept(t)
	for _, base := range []spec.Raw{{"kind": "ts"}, {"kind": "ensemble", "m": int64(4)}} {
		p, q := centred(t, 4, base), centred(t, 4, base)
		playLevel(t, p, sets[1:], 3)
		b, err := p.(bandit.Snapshotter).AppendSnapshot(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{b[:len(b)-1], b[:40], append(slices.Clone(b), 0)} {
			if q.(bandit.Snapshotter).Restore(bad) == nil {
				t.Errorf("%v: %d bytes of %d were restored", base, len(bad), len(b))
			}
		}
		if err := q.(bandit.Snapshotter).Restore(b); err != nil {
			t.Fatal(err)
		}
		var first, second, again bandit.Action
		draw := rng.NewKey(9).Stream(rng.Select).Round(7)
		few, _ := actionset.NewFinite([][]float64{{.2, 0, .1, .5}, {-.4, .2, .1, .5}})
		if err := errors.Join(p.Select(&first, sets[1], draw), p.Select(&again, few, draw), p.Select(&second, sets[1], draw)); err != nil || first.Index != second.Index {
			t.Errorf("%v: %v, then %v, %v", base, first, second, err)
		}
		if x, y := playLevel(t, p, sets[1:], 3), playLevel(t, q, sets[1:], 3); !slices.Equal(x, y) {
			t.Errorf("%v: restored it plays another run", base)
		}
	}
}

// TestCentredRefuses: sets on which a constant is not linear, with the reason, and bases without one regression.
func TestCentredRefuses(t *testing.T) {
	ball, _ := actionset.NewBall(2)
	cube, err := actionset.NewFinite([][]float64{{.7, .7}, {.7, -.7}, {-.7, .7}, {-.7, -.7}})
	if err != nil {
		t.Fatal(err)
	}
	zero, _ := actionset.NewFinite([][]float64{{1, 0}, {0, 0}})
	for _, set := range []bandit.ActionSet{ball, cube, zero} {
		p := centred(t, 2, spec.Raw{"kind": "ts"})
		err := p.Select(new(bandit.Action), set, rng.Source{})
		if !errors.Is(err, bandit.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "⟨x, w⟩ = 1") {
			t.Errorf("%T: %v", set, err)
		}
	}
	// Lists that fit alone and not together.
	one, _ := actionset.NewFinite([][]float64{{1, 0}, {0, 1}})
	two, _ := actionset.NewFinite([][]float64{{.5, 0}, {0, 1}})
	p := centred(t, 2, spec.Raw{"kind": "ts"})
	var a bandit.Action
	if err := errors.Join(p.Select(&a, one, rng.Source{}), p.Update(bandit.Action{X: []float64{1, 0}}, 1, rng.Source{})); err != nil {
		t.Fatal(err)
	}
	if err := p.Select(&a, two, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
		t.Errorf("another intercept: %v", err)
	}
	if err := p.Select(&a, one, rng.Source{}); err != nil {
		t.Errorf("after a refused list: %v", err)
	}
	for _, base := range []spec.Raw{{"kind": "uniform"}, {"kind": "logistic"}, {"kind": "linucb", "discount": 0.9}, {"kind": "mixed"}} {
		o, err := spec.Decode(policy.Kinds, spec.Raw{"kind": "centred", "base": base}, "policy")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.New(policy.Problem{Dim: 2, Horizon: 10}); err == nil || !strings.Contains(err.Error(), "base") {
			t.Errorf("%v: %v", base, err)
		}
	}
	for n, value := range map[int]any{1: 2.0, 2: []any{"mean", 0.5}} {
		if got := spec.Expand(policy.Kinds, spec.Raw{"kind": "centred", "center": value}); len(got) != n {
			t.Errorf("center = %v stands for %d policies, expected %d", value, len(got), n)
		}
	}
	for _, bad := range []any{"median", math.NaN(), math.Inf(-1), true} {
		if _, err := spec.Decode(policy.Kinds, spec.Raw{"kind": "centred", "center": bad}, "policy"); err == nil {
			t.Errorf("center = %v was accepted", bad)
		}
	}
}
