package sim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// lateRegret plays 20 fixed arms, d = 10, noise ½ for T rounds with rewards that come delay rounds late; −1: without the wrapper of late
// rewards.
func lateRegret(t *testing.T, o policy.LinUCBOptions, delay, T int, seed uint64) (regret float64, arms []int) {
	t.Helper()
	const k, d, sigma = 20, 10, .5
	key := rng.NewKey(seed)
	unit := func(s rng.Source) []float64 {
		x := make([]float64, d)
		s.Normals(x, 0)
		n := 0.
		for _, v := range x {
			n += v * v
		}
		for i := range x {
			x[i] /= math.Sqrt(n)
		}
		return x
	}
	var block []float64
	theta, means, best := unit(key.Stream(rng.Init).Round(0)), make([]float64, k), math.Inf(-1)
	for i := range k {
		x := unit(key.Stream(rng.Init).Round(uint64(i + 1)))
		for j, v := range x {
			means[i] += v * theta[j]
		}
		block, best = append(block, x...), max(best, means[i])
	}
	set, err := actionset.FiniteOf(d, block)
	if err != nil {
		t.Fatal(err)
	}
	u, err := policy.NewLinUCB(o, policy.Problem{Dim: d, Sigma: sigma})
	if err != nil {
		t.Fatal(err)
	}
	var p bandit.Policy = u
	if delay >= 0 {
		p = newLate(u, &Feedback{Delay: Delay{&fixedDelay{delay}}}, key)
	}
	var a bandit.Action
	for n := range T {
		if err := p.Select(&a, set, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		arms, regret = append(arms, a.Index), regret+best-means[a.Index]
		if err := p.Update(a, means[a.Index]+sigma*key.Stream(rng.Reward).Round(uint64(n)).Normal(0), rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	return regret, arms
}

// TestPending: where rewards come 500 rounds late, open actions in the widths of linucb leave at most .8 of the regret; where they come
// at once, every action is the same. The mean of 10 worlds.
func TestPending(t *testing.T) {
	for _, scale := range []policy.Scale{{}, policy.Constant(1)} {
		var with, without float64
		for seed := range uint64(10) {
			o := policy.LinUCBOptions{Scale: scale}
			r, arms := lateRegret(t, o, 500, 3000, seed)
			without += r / 10
			_, once := lateRegret(t, o, -1, 500, seed)
			o.Pending = "hallucinate"
			r, late := lateRegret(t, o, 500, 3000, seed)
			with += r / 10
			if slices.Equal(arms, late) {
				t.Errorf("seed %d: late rewards, and pending changes nothing", seed)
			}
			for _, delay := range []int{-1, 0} {
				if _, arms := lateRegret(t, o, delay, 500, seed); !slices.Equal(arms, once) {
					t.Errorf("seed %d, delay %d: pending changes the actions", seed, delay)
				}
			}
		}
		t.Logf("scale %v: regret %.0f without, %.0f with pending (%.2f)", scale, without, with, with/without)
		if with > .8*without {
			t.Errorf("scale %v: regret %.0f with pending, %.0f without", scale, with, without)
		}
	}
	for words, o := range map[string]policy.LinUCBOptions{
		"hallucinate": {Pending: "halucinate"},
		"discount is": {Pending: "hallucinate", Discount: .9},
		`"restarts"`:  {Pending: "hallucinate", Change: "restarts"},
		"pending":     {Pending: "yes"},
	} {
		if _, err := policy.NewLinUCB(o, policy.Problem{Dim: 2, Sigma: 1}); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v, want %q", o, err, words)
		}
	}
}
