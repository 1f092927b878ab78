package env

import (
	"math"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// TestClicks: rewards are 0 or 1 with mean μ(⟨x, θ*⟩), regret is the gap of means, actions have norm 1, and
// over replications the logits have median log(base_rate/(1 − base_rate)) and deviation spread. The first
// by Hoeffding, the logits of one arm in 2000 replications by their mean and variance, 6 standard errors.
func TestClicks(t *testing.T) {
	for _, actions := range []string{"fixed", "redrawn", "block"} {
		o := NewClicks()
		o.Actions, o.Arms, o.Features, o.BaseRate, o.Spread = actions, 6, 4, 0.1, 0.8
		e := build(t, o, key(3)).(*clicks)
		set := offer(t, e, key(3), 1).(bandit.Finite)
		for k := range set.Len() {
			a := bandit.Action{X: set.At(k), Index: k}
			if norm := linalg.Norm(a.X); math.Abs(norm-1) > 1e-12 {
				t.Errorf("%s: arm %d has norm %v", actions, k, norm)
			}
			p := 1 / (1 + math.Exp(-linalg.Dot(a.X, e.theta)))
			best := 0.0
			for j := range set.Len() {
				best = max(best, 1/(1+math.Exp(-linalg.Dot(set.At(j), e.theta))))
			}
			if r, err := e.Regret(a); err != nil || math.Abs(r-(best-p)) > 1e-12 {
				t.Errorf("%s: regret %v of arm %d, want %v (%v)", actions, r, k, best-p, err)
			}
			if k > 0 {
				continue
			}
			sample := make([]float64, n)
			for i := range sample {
				y, err := e.Reward(a, key(3).Stream(rng.Reward).Round(uint64(i)))
				if err != nil || y != 0 && y != 1 {
					t.Fatalf("%s: reward %v, %v", actions, y, err)
				}
				sample[i] = y
			}
			hoeffding(t, actions, sample, 0, 1, p)
		}
		var sum, square float64
		const runs = 2000
		for i := range uint64(runs) {
			e := build(t, o, key(100+i)).(*clicks)
			s := offer(t, e, key(100+i), 1).(bandit.Finite)
			v := linalg.Dot(s.At(2), e.theta) - math.Log(0.1/0.9)
			sum, square = sum+v, square+v*v
		}
		if m := sum / runs; math.Abs(m) > 6*0.8/math.Sqrt(runs) {
			t.Errorf("%s: logits have mean %v beside the base rate", actions, m)
		}
		if v := square / runs; math.Abs(v-0.64) > 6*0.64*math.Sqrt(2.0/runs) {
			t.Errorf("%s: logits have variance %v, want 0.64", actions, v)
		}
	}
}
