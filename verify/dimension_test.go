package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/stats"
	"troupe/policy"
	"troupe/rng"
)

// TestDimensionRecord prints, with TROUPE_RECORD=1, between which sizes the smallest ensemble lies that loses at most one run in a hundred, m*,
// in dimension d: the table of docs/record/stuck.md.
//
// Arms: d orthogonal unit arms, one of mean 1 and the others of mean 0, λ = 1; a run is lost when it plays the others in half of its T = 2000 or
// 8000 rounds. Ball: the unit ball, |θ*| = 2, λ = 1, T = 4000; a run is lost when the mean regret of its last quarter is above |θ*|/4. Gaussian targets,
// init = "prior", r = 1 and r = 0.3 β_t^0.1.
//
// Rule, written before the first run: m goes through 1, 2, 3, 4, 6, 8, 12, 16, …, 768. At each, batches of 100 runs until the exact 95 %
// interval of the share does not have 0.01 in it, at most 600 runs. It ends at the first m whose interval lies below 0.01. m* is above the
// largest m whose interval lies above, and at most that one.
func TestDimensionRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD=1 plays it")
	}
	scales := []struct {
		name     string
		r, delta float64
	}{{"r = 1", 1, 0}, {"0.3 β", 0.3, 0.1}}
	for _, d := range []int{2, 4, 8, 16, 32} {
		for _, scale := range scales {
			for _, T := range []int{2000, 8000} {
				s := stuck{best: 1, others: d - 1, lambda: 1, T: T, r: scale.r, delta: scale.delta}
				search(t, fmt.Sprintf("arms | %s | %d | %d", scale.name, d, T), func(m, i int) bool {
					s.m = m
					r := rand.New(rand.NewPCG(uint64(1000*d+m), uint64(i)))
					return s.score(s.draw(r, early)) >= s.half()
				})
			}
			const T = 4000
			search(t, fmt.Sprintf("ball | %s | %d | %d", scale.name, d, T), func(m, i int) bool {
				return lostOnBall(d, m, T, scale.r, scale.delta, rng.NewKey(uint64(1_000_000*d+1000*m+i)))
			})
		}
	}
}

// search applies the rule of TestDimensionRecord.
func search(t *testing.T, name string, lost func(m, i int) bool) {
	t.Helper()
	above, text := 0, ""
	for step := range 19 {
		m := 1
		if step > 0 {
			m = []int{2, 3}[(step-1)%2] << ((step - 1) / 2)
		}
		k, n, lo, hi := 0, 0, 0.0, 1.0
		for n < 600 && lo <= 0.01 && hi >= 0.01 {
			for range 100 {
				if lost(m, n) {
					k++
				}
				n++
			}
			lo, hi = stats.ClopperPearson(k, n, 0.05)
		}
		text += fmt.Sprintf(" %d: %d of %d,", m, k, n)
		if lo > 0.01 {
			above = m
		}
		if hi < 0.01 {
			t.Logf("| %s | above %d, at most %d |%s", name, above, m, text)
			return
		}
	}
	t.Logf("| %s | above %d |%s", name, above, text)
}

// lostOnBall plays the ensemble on the unit ball.
func lostOnBall(d, m, T int, r, delta float64, key rng.Key) bool {
	scale := policy.Constant(r)
	if delta > 0 {
		scale = policy.Scale{Kind: "beta", Value: r}
	}
	set := must(actionset.NewBall(d))
	e := mustEnsemble(policy.EnsembleOptions{M: m, Lambda: 1, Targets: "gaussian", Init: "prior", Scale: scale, Delta: delta},
		policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
	theta := make([]float64, d)
	key.Stream(rng.Offer).Round(0).Sphere(theta, 0)
	for i := range theta {
		theta[i] *= 2
	}
	a, regret := bandit.Action{X: make([]float64, d)}, 0.0
	for n := uint64(1); n <= uint64(T); n++ {
		check(e.Select(&a, set, key.Stream(rng.Select).Round(n)))
		mean := linalg.Dot(a.X, theta)
		if int(n) > T-T/4 {
			regret += 2 - mean
		}
		check(e.Update(a, mean+key.Stream(rng.Reward).Round(n).Normal(0), key.Stream(rng.Perturb).Round(n)))
	}
	return regret > 0.5*math.Floor(float64(T)/4)
}
