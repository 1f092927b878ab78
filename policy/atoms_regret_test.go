package policy_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// hardWorld is the setting of the literature on ensembles for linear bandits: θ* ~ N(0, 10·I), noise
// N(0, 1), and either the unit sphere (arms = 0; the best action on the ball is on the sphere) or K
// arms with entries uniform on [−1/√5, 1/√5].
func hardWorld(seed uint64, d, arms int) *world {
	w := &world{d: d, key: rng.NewKey(seed), theta: make([]float64, d)}
	inst := w.key.Stream(rng.Instance)
	inst.Round(0).Normals(w.theta, 0)
	for i := range w.theta {
		w.theta[i] *= math.Sqrt(10)
	}
	for k := range arms {
		x, src := make([]float64, d), inst.Round(uint64(k+1))
		for i := range x {
			x[i] = src.Uniform(i) / math.Sqrt(5)
		}
		w.arms = append(w.arms, x)
	}
	return w
}

// regrets plays runs paired replications of 1000 rounds of a policy, replication i in the world with
// seed i, and returns the regret of each.
func regrets(t testing.TB, d, arms, runs int, make1 func(p policy.Problem) (bandit.Policy, error)) []float64 {
	t.Helper()
	const horizon = 1000
	out, errs := make([]float64, runs), make([]error, 2)
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for i := worker; i < runs; i += 2 {
				w := hardWorld(uint64(i), d, arms)
				p, err := make1(w.problem(horizon))
				if err != nil {
					errs[worker] = err
					return
				}
				var best bandit.Action
				top, _ := w.set().ArgMax(&best, w.theta)
				w.play(t, p, horizon, func(_ int, a *bandit.Action, _ float64) {
					out[i] += top - linalg.Dot(a.X, w.theta)
				})
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

// mean returns the mean and its standard error.
func mean(x []float64) (m, se float64) {
	n := float64(len(x))
	for _, v := range x {
		m += v / n
	}
	for _, v := range x {
		se += (v - m) * (v - m) / (n - 1) / n
	}
	return m, math.Sqrt(se)
}

func minus(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

var (
	thompsonHere = func(p policy.Problem) (bandit.Policy, error) {
		return policy.NewThompson(policy.ThompsonOptions{Lambda: 0.1}, p)
	}
	atomsHere = func(key string, m int) func(p policy.Problem) (bandit.Policy, error) {
		return func(p policy.Problem) (bandit.Policy, error) {
			return policy.NewAtoms(policy.AtomsOptions{M: m, Key: key, Lambda: 0.1}, p)
		}
	}
)

// TestAtomsRegret is the acceptance test of the method, in the setting of hardWorld with λ = 0.1,
// r = 1, T = 1000, paired with Thompson sampling:
//
//   - m = 8 and key = "epoch" on the sphere, d = 20 and 50: within 3 % of Thompson sampling;
//   - the same on 1000 arms, d = 50: not above Thompson sampling by more than two standard errors;
//   - key = "fixed" with m = 8 on the sphere, d = 50: at least twice Thompson sampling, so that the
//     key is what does it.
//
// Seeds are fixed. With 200 runs the standard error of the paired difference on the sphere is below
// 1 % of the mean, so that a true difference of 6 % passes with probability below 0.002. 200 runs
// when TROUPE_LONG is set (about 30 s on one core), otherwise 40, and 5 on the arms.
func TestAtomsRegret(t *testing.T) {
	runs, arms := sized(40, 200), sized(5, 200)
	for _, c := range []struct{ d, k, runs int }{{20, 0, runs}, {50, 0, runs}, {50, 1000, arms}} {
		ts := regrets(t, c.d, c.k, c.runs, thompsonHere)
		atoms := regrets(t, c.d, c.k, c.runs, atomsHere("epoch", 8))
		mts, sts := mean(ts)
		ma, sa := mean(atoms)
		diff, sd := mean(minus(atoms, ts))
		t.Logf("d = %d, %d arms, %d runs: TS %.1f ± %.1f, atoms(m=8) %.1f ± %.1f, paired difference %.1f ± %.1f",
			c.d, c.k, c.runs, mts, sts, ma, sa, diff, sd)
		if c.k > 0 {
			if !(diff <= 2*sd) {
				t.Errorf("%d arms: atoms %v, Thompson sampling %v ± %v (paired)", c.k, ma, mts, sd)
			}
			continue
		}
		if !(math.Abs(diff) <= 0.03*mts) {
			t.Errorf("d = %d: atoms %v, Thompson sampling %v: more than 3%% apart", c.d, ma, mts)
		}
		if c.d == 50 {
			fixed, sf := mean(regrets(t, c.d, 0, c.runs/4, atomsHere("fixed", 8)))
			t.Logf("d = %d, fixed atoms, %d runs: %.1f ± %.1f", c.d, c.runs/4, fixed, sf)
			if !(fixed >= 2*mts) {
				t.Errorf("fixed atoms with m = 8 have regret %v, Thompson sampling %v: expected at least twice", fixed, mts)
			}
		}
	}
}

// symmetricAtoms is a second implementation of the policy, with V and b as sums, the symmetric square
// root instead of the triangular one, and nothing in common with the first but the streams.
type symmetricAtoms struct {
	*sums
	m, d   int
	lambda float64
	init   rng.Stream
}

func (s *symmetricAtoms) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	e := uint64(max(0, math.Log2(math.Exp(s.chol.LogDet()-float64(s.d)*math.Log(s.lambda)))))
	g := make([]float64, s.d)
	s.init.Sub(e).Round(uint64(draw.Intn(0, s.m))).Normals(g, 0)
	theta := s.hat()
	linalg.Axpy(draw.Sign(1), s.symmetric(g), theta)
	_, err := set.ArgMax(dst, theta)
	return err
}

func (s *symmetricAtoms) Update(a bandit.Action, y float64, _ rng.Source) error {
	s.add(a.X, y)
	return nil
}

// TestAtomsSquareRoot: every square root of V⁻¹ is as good as another, so an independent
// implementation with the symmetric root has the same expected regret. d = 5 on the sphere, 30
// paired runs, 60 with TROUPE_LONG. Null: equal means; the paired difference is within 5 standard errors (two-sided level
// about 6e-7 for a normal mean; the seeds are fixed). A root that is twice too large fails, which the
// test checks.
func TestAtomsSquareRoot(t *testing.T) {
	const d, m = 5, 8
	runs := sized(30, 60)
	ours := regrets(t, d, 0, runs, atomsHere("epoch", m))
	theirs := regrets(t, d, 0, runs, func(p policy.Problem) (bandit.Policy, error) {
		return &symmetricAtoms{newSums(d, 0.1), m, d, 0.1, p.Init}, nil
	})
	m1, _ := mean(ours)
	m2, _ := mean(theirs)
	diff, se := mean(minus(ours, theirs))
	t.Logf("triangular %.1f, symmetric %.1f, paired difference %.1f ± %.1f", m1, m2, diff, se)
	if math.Abs(diff) > 5*se {
		t.Errorf("regret %v with the triangular root, %v with the symmetric: paired difference %v ± %v", m1, m2, diff, se)
	}
	larger := regrets(t, d, 0, runs, func(p policy.Problem) (bandit.Policy, error) {
		return policy.NewAtoms(policy.AtomsOptions{M: m, Lambda: 0.1, Scale: policy.Constant(2)}, p)
	})
	if diff, se := mean(minus(larger, theirs)); math.Abs(diff) <= 5*se {
		t.Errorf("the test does not tell a scale of 2: difference %v ± %v", diff, se)
	}
}

// TestAtomsLeaveTheSpan: on the ball two accumulated members in dimension 6 stay in the plane of
// their initial vectors, so that their regret is linear; two atoms do not. What carries the ensemble
// out of the plane in f64 is rounding, which grows, so the test stops after 40 rounds, where the
// part of X_t outside the plane is still below 1e-9. Sure, but for events of probability 0.
func TestAtomsLeaveTheSpan(t *testing.T) {
	const d, m, n = 6, 2, 40
	for seed := range uint64(5) {
		outside := func(p bandit.Policy, initial [][]float64) (worst float64) {
			w := newWorld(seed, d, 0)
			// An orthonormal basis of the plane.
			e1 := initial[0]
			linalg.Axpy(1/linalg.Norm(e1)-1, append([]float64(nil), e1...), e1)
			e2 := initial[1]
			linalg.Axpy(-linalg.Dot(e1, e2), e1, e2)
			linalg.Axpy(1/linalg.Norm(e2)-1, append([]float64(nil), e2...), e2)
			w.play(t, p, n, func(_ int, a *bandit.Action, _ float64) {
				x := append([]float64(nil), a.X...)
				linalg.Axpy(-linalg.Dot(e1, x), e1, x)
				linalg.Axpy(-linalg.Dot(e2, x), e2, x)
				worst = max(worst, linalg.Norm(x))
			})
			return worst
		}
		w := newWorld(seed, d, 0)
		es, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Lambda: 5}, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		s := append([]float64(nil), es.Sums()...)
		if got := outside(es, [][]float64{s[:d], s[d:]}); got > 1e-9 {
			t.Errorf("seed %d: an ensemble with m = 2 leaves its plane by %v", seed, got)
		}
		atoms := newComputed(t, "epoch", policy.AtomsOptions{M: m, Lambda: 5}, w.problem(0)).(*policy.Atoms)
		g := [][]float64{append([]float64(nil), atoms.Direction(0, 0)...), append([]float64(nil), atoms.Direction(0, 1)...)}
		if got := outside(atoms, g); got < 0.1 {
			t.Errorf("seed %d: atoms with m = 2 stay within %v of a plane", seed, got)
		}
	}
}

func ExampleAtoms() {
	// Two logs of the same problem, folded apart, are one: V and b add, and members are functions of
	// them.
	problem := policy.Problem{Dim: 2, Init: rng.NewKey(1).Stream(rng.Init)}
	east, _ := policy.NewAtoms(policy.AtomsOptions{M: 4}, problem)
	west, _ := policy.NewAtoms(policy.AtomsOptions{M: 4}, problem)
	draw := rng.Source{} // atoms draw nothing in an update
	east.Update(bandit.Action{X: []float64{1, 0}}, 0.5, draw)
	east.Update(bandit.Action{X: []float64{0, 1}}, 0.25, draw)
	west.Update(bandit.Action{X: []float64{1, 0}}, 1, draw)
	if err := east.Merge(west); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("events %d, theta %.4f, models %d\n", east.Root().Len(), east.Root().Theta(), east.Models())
	// Output: events 3, theta [0.5000 0.1250], models 8
}
