package env_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/rng"
)

// TestOneHotIndex: an action that is no arm is an error, for the reward and for the regret.
func TestOneHotIndex(t *testing.T) {
	o := env.NewOneHot()
	o.Data = filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(o.Data, []byte("a,b,class\nx,1.5,p\ny,2.5,q\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := rng.NewKey(1)
	e, err := o.Build(key, &dataset.Source{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Offer(key.Stream(rng.Offer).Round(1)); err != nil {
		t.Fatal(err)
	}
	for index, ok := range map[int]bool{-1: false, 0: true, 1: true, 2: false} {
		a := bandit.Action{Index: index}
		if _, err := e.Regret(a); (err == nil) != ok {
			t.Errorf("regret of action %d: %v", index, err)
		}
		if _, err := e.Reward(a, rng.Source{}); (err == nil) != ok {
			t.Errorf("reward of action %d: %v", index, err)
		}
	}
}

// TestCorrelatedTheta: θ* has length 1, its coordinates add up to 0, and two replications have different ones.
func TestCorrelatedTheta(t *testing.T) {
	var last []float64
	for seed := range uint64(3) {
		e, err := env.NewCorrelated().Build(rng.NewKey(seed), nil)
		if err != nil {
			t.Fatal(err)
		}
		theta := e.(env.Truth).Theta()
		var sum, square float64
		for _, v := range theta {
			sum += v
			square += v * v
		}
		if !(math.Abs(sum) < 1e-12) || !(math.Abs(square-1) < 1e-12) {
			t.Errorf("θ* adds up to %v and has length² %v", sum, square)
		}
		if last != nil && theta[0] == last[0] {
			t.Error("two replications have the same θ*")
		}
		last = theta
	}
}

// TestDefaults: the defaults of russo are those of Ensemble++, and correlated has the noise that its comment names.
func TestDefaults(t *testing.T) {
	if sigma, ok := env.NewCorrelated().Noise.Sigma(); sigma != 0.05 || !ok {
		t.Errorf("the noise of correlated has σ = %v, %v", sigma, ok)
	}
	o := env.NewRusso()
	if o.D != 100 || o.Arms != 50 || o.AllArms != 1000 || math.Abs(o.U*o.U-0.2) > 1e-15 || o.PriorVariance != 10 {
		t.Errorf("%+v", o)
	}
}
