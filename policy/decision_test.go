package policy_test

import (
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// delayed plays a policy for n rounds of a world with Gaussian noise and returns its regret. Rewards come
// in batches: the events of a batch are learned when it is full, in their order. With batch = 1 each is
// learned at once. Two policies are paired: on arms the n-th pull of an arm has the same noise for both, and on the ball
// each round. Noise by the pull pairs what decides the tail of the regret, the first rewards of the best arm.
func delayed(p bandit.Policy, w *world, n, batch int) (regret float64, err error) {
	var a, best bandit.Action
	top, err := w.set().ArgMax(&best, w.theta)
	if err != nil {
		return 0, err
	}
	type late struct {
		a bandit.Action
		y float64
		t uint64
	}
	pending := make([]late, batch)
	waiting := 0
	pulls := make([]uint64, len(w.arms))
	for t := uint64(1); t <= uint64(n); t++ {
		if err := p.Select(&a, w.set(), w.key.Stream(rng.Select).Round(t)); err != nil {
			return 0, err
		}
		mean := linalg.Dot(a.X, w.theta)
		regret += top - mean
		e := &pending[waiting]
		e.a.Set(a.X, a.Index)
		noise := w.key.Stream(rng.Reward).Round(t)
		if w.arms != nil {
			noise = w.key.Stream(rng.Reward).Sub(uint64(a.Index)).Round(pulls[a.Index])
			pulls[a.Index]++
		}
		e.y, e.t = mean+noise.Normal(0), t
		if waiting++; waiting < batch {
			continue
		}
		for _, e := range pending {
			if err := p.Update(e.a, e.y, w.key.Stream(rng.Perturb).Round(e.t)); err != nil {
				return 0, err
			}
		}
		waiting = 0
	}
	return regret, nil
}

// TestDecisionKeyEquivalence: with key = "decision" and m = 8 the regret is that of Thompson sampling, where
// few frozen members are not. Paired runs, r = 1:
//
//   - two arms, θ = (0.5, 0.2), λ = 0.1, without delay, and the ball with rewards in
//     batches; equivalence means that the 95 % interval of the paired mean difference, for the two
//     comparisons at once (2.24 standard errors), is within 5 % of Thompson sampling's regret;
//   - on the ball the key "round" in place of "decision" must be found to differ.
//
// TROUPE_RECORD=1 plays the instances of docs/record/learners.md: 8000 runs of the arms with T = 3000 and
// 4000 with T = 30 000, 1000 of the ball of dimension 50 with batches of 250, T = 1000, and 1500 of ten arms with T = 20 000; its
// value may be the name of one of them. Otherwise 100 runs of each, 200 with TROUPE_LONG, smaller, and
// the interval is only required to meet ±5 %.
func TestDecisionKeyEquivalence(t *testing.T) {
	long := os.Getenv("TROUPE_RECORD") != ""
	arms := func(i uint64) *world {
		return &world{d: 2, key: rng.NewKey(i), theta: []float64{0.5, 0.2}, arms: [][]float64{{1, 0}, {0, 1}}}
	}
	ten := func(i uint64) *world { // three arms near the best, seven far from it: there epoch keys explore less
		w := &world{d: 10, key: rng.NewKey(i), theta: []float64{0.5, 0.48, 0.46, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}}
		for k := range 10 {
			w.arms = append(w.arms, make([]float64, 10))
			w.arms[k][k] = 1
		}
		return w
	}
	ball := func(d int) func(i uint64) *world {
		return func(i uint64) *world {
			w := &world{d: d, key: rng.NewKey(i), theta: make([]float64, d)}
			w.key.Stream(rng.Instance).Round(0).Normals(w.theta, 0)
			return w
		}
	}
	type setting struct {
		name        string
		world       func(i uint64) *world
		lambda      float64
		n, batch    int
		runs        int
		frozenFails bool
	}
	settings := []setting{
		{"two arms", arms, 0.1, 1000, 1, sized(100, 200), false},
		{"ball, batches", ball(10), 1, 300, 50, sized(100, 200), true},
	}
	if long {
		settings = []setting{
			{"ball, batches", ball(50), 1, 1000, 250, 1000, true},
			{"two arms", arms, 0.1, 3000, 1, 8000, false},
			{"two arms, long", arms, 0.1, 30_000, 1, 4000, false},
			{"ten arms", ten, 1, 20_000, 1, 1500, false},
		}
		if only := os.Getenv("TROUPE_RECORD"); only != "1" {
			settings = slices.DeleteFunc(settings, func(s setting) bool { return s.name != only })
		}
	}
	for _, s := range settings {
		play := func(key string) []float64 {
			out, errs := make([]float64, s.runs), make([]error, 2)
			var wg sync.WaitGroup
			for worker := range 2 {
				wg.Go(func() {
					for i := worker; i < s.runs; i += 2 {
						w := s.world(uint64(i))
						var p bandit.Policy
						var err error
						if key == "ts" {
							p, err = policy.NewThompson(policy.ThompsonOptions{Lambda: s.lambda}, w.problem(0))
						} else {
							p, err = policy.NewAtoms(policy.AtomsOptions{M: 8, Key: key, Lambda: s.lambda}, w.problem(0))
						}
						if err == nil {
							out[i], err = delayed(p, w, s.n, s.batch)
						}
						if err != nil {
							errs[worker] = err
							return
						}
					}
				})
			}
			wg.Wait()
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
			return out
		}
		ts, ours := play("ts"), play("decision")
		level, _ := mean(ts)
		diff, se := mean(minus(ours, ts))
		half := 2.24 * se
		t.Logf("%s, n = %d, %d runs: Thompson sampling %.2f, decision − Thompson sampling %.2f ± %.2f", s.name, s.n, s.runs, level, diff, se)
		if long {
			if math.Abs(diff)+half > 0.05*level {
				t.Errorf("%s: the difference %.2f ± %.2f is not within 5%% of %.2f", s.name, diff, half, level)
			}
		} else if math.Abs(diff)-2*half > 0.05*level {
			t.Errorf("%s: the difference %.2f ± %.2f is outside 5%% of %.2f", s.name, diff, 2*half, level)
		}
		if s.frozenFails {
			diff, se := mean(minus(play("round"), ts))
			t.Logf("%s: round − Thompson sampling %.2f ± %.2f", s.name, diff, se)
			if diff-4*se < 0.05*level {
				t.Errorf("%s: key = round loses %.2f ± %.2f more than %.2f: the test does not tell it", s.name, diff, se, level)
			}
		}
	}
}
