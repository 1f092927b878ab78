package policy_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// exactLaw plays rounds 1, …, n of a policy with actions that do not depend on it.
func exactLawPlay(t *testing.T, e *policy.Ensemble, key rng.Key, n int, before func(round int)) {
	t.Helper()
	a := bandit.Action{X: make([]float64, e.Ridge().Dim()), Index: bandit.NoIndex}
	for i := 1; i <= n; i++ {
		if before != nil {
			before(i)
		}
		// Directions repeat, so that differences of V are singular for a while.
		rng.NewKey(5).Stream(rng.Offer).Round(uint64(i%5)).Sphere(a.X, 0)
		if err := e.Update(a, 0, key.Stream(rng.Perturb).Round(uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// whiten overwrites s by L⁻¹s, LLᵀ = v.
func whiten(t *testing.T, s, v []float64) {
	t.Helper()
	f := linalg.NewFactor(len(s), 1)
	if !f.Set(v) {
		t.Fatal("not positive definite")
	}
	f.SolveL(s)
}

// chiSquared returns the two-sided p-value of Σ g² for independent standard normals g.
func chiSquared(g []float64) float64 {
	var q float64
	for _, v := range g {
		q += v * v
	}
	p := distuv.ChiSquared{K: float64(len(g))}.CDF(q)
	return 2 * min(p, 1-p)
}

// TestExactLaw: the state of the engine exact-law has the law of the algorithm. Null: given the
// actions, L⁻¹S_n^j is N(0, I) for every member, LLᵀ = V_n, whether it was drawn often, once or
// never; for a member fixed at time s, the increment S_n − S_s is N(0, V_n − V_s) and independent of
// S_s. 2000 replications; χ² tests of the variances and a Kolmogorov test, each at level 1e-7. An
// increment with covariance V_n in place of V_n − V_s, or a variance wrong by 5 %, is caught.
func TestExactLaw(t *testing.T) {
	const d, n, s, reps = 3, 40, 17, 2000
	for _, growing := range []bool{false, true} {
		o := policy.EnsembleOptions{M: 5, Lambda: 2, Targets: "gaussian", Init: "prior", Engine: "exact-law", OneSided: true}
		if growing {
			o.M, o.Growing, o.Grow = 0, true, 1.5
		}
		var now, then, moved []float64
		var cross float64
		for rep := range uint64(reps) {
			key := rng.NewKey(77).At(rep)
			e, err := policy.NewEnsemble(o, policy.Problem{Dim: d, Init: key.Stream(rng.Init)})
			if err != nil {
				t.Fatal(err)
			}
			var j int
			var old, oldV []float64
			exactLawPlay(t, e, key, n, func(round int) {
				if round == s {
					j = key.Stream(rng.Select).Round(s).Intn(0, e.Members())
					old = slices.Clone(e.Sums()[j*d : j*d+d])
					oldV = slices.Clone(e.Ridge().V())
				}
			})
			v := slices.Clone(e.Ridge().V())
			sums := slices.Clone(e.Sums())
			move := slices.Clone(sums[j*d : j*d+d])
			for i := range sums {
				if i%d == 0 {
					whiten(t, sums[i:i+d], v)
				}
			}
			now = append(now, sums...)
			for i := range move {
				move[i] -= old[i]
			}
			for i := range v {
				v[i] -= oldV[i]
			}
			whiten(t, move, v)
			whiten(t, old, oldV)
			cross += linalg.Dot(move, old)
			then, moved = append(then, old...), append(moved, move...)
		}
		const level = 1e-7
		for name, g := range map[string][]float64{"S_n": now, "S_s": then, "S_n − S_s": moved} {
			if p := chiSquared(g); p < level {
				t.Errorf("growing %v: variance of %s whitened: p-value %.3g", growing, name, p)
			}
			slices.Sort(g)
			var worst float64
			for i, x := range g {
				p := distuv.UnitNormal.CDF(x)
				worst = max(worst, math.Abs(p-float64(i)/float64(len(g))), math.Abs(p-float64(i+1)/float64(len(g))))
			}
			if limit := math.Sqrt(math.Log(2/level) / (2 * float64(len(g)))); worst > limit {
				t.Errorf("growing %v: %s whitened: Kolmogorov distance %.4f, limit %.4f", growing, name, worst, limit)
			}
		}
		// A sum of N products of independent normals has E exp(λ·sum) = (1−λ²)^{−N/2}; with λ = x/N
		// Chernoff's bound is exp(−x²/N − (N/2) log(1 − x²/N²)).
		count := float64(reps * d)
		x := math.Abs(cross)
		if p := 2 * math.Exp(-x*x/count-count/2*math.Log1p(-x*x/count/count)); p < level {
			t.Errorf("growing %v: S_n − S_s and S_s are correlated: p-value below %.3g", growing, p)
		}
	}
}

// TestExactLawRegret: the regret of the engine exact-law has the law of the eager engine with Gaussian
// targets. Null: equal laws; 1200 replications each, 4000 with TROUPE_LONG, two-sample Kolmogorov test at
// level 1e-6: the distance of two samples of n ≥ 458 exceeds √(log(2/α)/n) with probability at most α (Wei and
// Dudley 2012). Members that start with twice their standard deviation are caught.
func TestExactLawRegret(t *testing.T) {
	const d, arms, n = 4, 12, 120
	reps := sized(1200, 4000)
	sample := func(engine string, offset uint64) []float64 {
		var out []float64
		for rep := range uint64(reps) {
			w := newWorld(9, d, arms)
			w.key = rng.NewKey(10 + offset).At(rep)
			e, err := policy.NewEnsemble(policy.EnsembleOptions{
				M: 8, Targets: "gaussian", Init: "prior", Engine: engine,
			}, w.problem(n))
			if err != nil {
				t.Fatal(err)
			}
			best, regret := math.Inf(-1), 0.0
			for _, x := range w.arms {
				best = max(best, linalg.Dot(x, w.theta))
			}
			w.play(t, e, n, func(_ int, a *bandit.Action, _ float64) { regret += best - linalg.Dot(a.X, w.theta) })
			out = append(out, regret)
		}
		slices.Sort(out)
		return out
	}
	a, b := sample("eager", 0), sample("exact-law", 1)
	var worst float64
	for i, j := 0, 0; i < reps && j < reps; {
		if a[i] <= b[j] {
			i++
		} else {
			j++
		}
		worst = max(worst, math.Abs(float64(i-j))/float64(reps))
	}
	limit := math.Sqrt(math.Log(2/1e-6) / float64(reps))
	mean := func(x []float64) float64 {
		var s float64
		for _, v := range x {
			s += v
		}
		return s / float64(len(x))
	}
	t.Logf("mean regret %.2f (eager), %.2f (exact law); Kolmogorov distance %.4f, limit %.4f", mean(a), mean(b), worst, limit)
	if worst > limit {
		t.Errorf("Kolmogorov distance %.4f, limit %.4f", worst, limit)
	}
}

// asked is a policy of which more is asked than an action: between a choice and its reward, propensities in every third round
// and the choice of another round in every fifth.
type asked struct {
	*policy.Ensemble
	w *world
}

func (a asked) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	err := a.Ensemble.Select(dst, set, draw)
	if err == nil && draw.At()%3 == 0 {
		var law bandit.Law
		err = a.Prob(&law, a.w, rng.Source{})
	}
	if err == nil && draw.At()%5 == 0 {
		var other bandit.Action
		err = a.Ensemble.Select(&other, set, draw.Later(1000))
	}
	return err
}

// TestExactLawReplay: what Select and Prob look at leaves no trace. A policy that only learns has the
// snapshot of one that also chose, and restored it goes on as if nothing had happened.
func TestExactLawReplay(t *testing.T) {
	for _, m := range []int{7, 0} { // 0: grows
		w := newWorld(2, 4, 9)
		build := func() *policy.Ensemble {
			e, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Growing: m == 0, Targets: "gaussian", Engine: "exact-law"}, w.problem(0))
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		snapshot := func(e *policy.Ensemble) []byte {
			b, err := e.AppendSnapshot(nil)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		e, quiet := build(), build()
		w.play(t, asked{e, w}, 200, func(round int, a *bandit.Action, y float64) {
			if err := quiet.Update(*a, y, w.key.Stream(rng.Perturb).Round(uint64(round))); err != nil {
				t.Fatal(err)
			}
			if round%50 == 0 {
				restored := build()
				if err := restored.Restore(snapshot(quiet)); err != nil {
					t.Fatal(err)
				}
				quiet = restored
			}
			if !bytes.Equal(snapshot(e), snapshot(quiet)) {
				t.Fatalf("round %d: the state knows that the policy was asked", round)
			}
		})
		if m == 0 {
			// m_t = ⌈d log t⌉ in round t = 201.
			if got, want := e.Members(), int(math.Ceil(4*math.Log(201))); got != want {
				t.Errorf("%d members, want %d", got, want)
			}
		}
	}
}
