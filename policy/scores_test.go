package policy_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// crowd returns arms of which some are equal and some differ by little.
func crowd(t *testing.T, seed uint64, d, n int) *actionset.Finite {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	arms := make([][]float64, n)
	for i := range arms {
		arms[i] = make([]float64, d)
		rng.NewKey(seed).Stream(rng.Instance).Round(uint64(i)).Sphere(arms[i], 0)
		if i > 0 && r.IntN(5) == 0 {
			copy(arms[i], arms[r.IntN(i)])
			if r.IntN(2) == 0 {
				arms[i][r.IntN(d)] += 1e-15 * r.NormFloat64()
			}
		}
	}
	set, err := actionset.NewFinite(arms)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestFaintActions: what a policy plays has a positive probability also where all values are equal or next to
// nothing: actions that are all 0, as a caller has them who sends no features, or as small as numbers get.
func TestFaintActions(t *testing.T) {
	const d, n = 3, 5
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		restore := cpu.Force(l)
		for _, size := range []float64{0, 0x1p-1074, 0x1p-1060, 1e-310, 1e-300, 1e-200, 1e-160, 1e-100, 1} {
			x := make([]float64, n*d)
			for i := range x {
				x[i] = size * float64(i%4-1) / 4
			}
			set, err := actionset.FiniteOf(d, x)
			if err != nil {
				t.Fatal(err)
			}
			for kind, options := range policy.Kinds {
				switch kind {
				case "centred":
					continue // a constant is no linear function of these actions
				case "cascade-ucb", "cascade-kl-ucb", "cascade-ts", "pbm-ts", "slots", "toprank", "bins", "zooming":
					continue // they play lists, or an interval
				}
				p, err := options().New(policy.Problem{Dim: d, Arms: n, Horizon: 100, Sigma: 1, Init: rng.NewKey(7).Stream(rng.Init)})
				if err != nil {
					t.Fatal(kind, err)
				}
				prober, ok := p.(bandit.Prober)
				if !ok {
					continue
				}
				var a bandit.Action
				var law bandit.Law
				for round := range uint64(12) {
					draw := rng.NewKey(7).Stream(rng.Select).Round(round)
					if err := p.Select(&a, set, draw); err != nil {
						t.Fatal(kind, err)
					}
					if err := prober.Prob(&law, set, draw); (kind == "ensemble-pp" || kind == "ats") && errors.Is(err, bandit.ErrUnsupported) {
						break // the law of its default reference, and of arms that are not orthogonal, is an integral
					} else if err != nil {
						t.Fatal(kind, err)
					}
					if !(law.Atoms[a.Index].P > 0) {
						t.Errorf("%s, actions of size %g, kernels %v: plays action %d, which has probability 0: %+v", kind, size, l, a.Index, law.Atoms)
						break
					}
					if err := p.Update(a, 1, rng.NewKey(7).Stream(rng.Perturb).Round(round)); err != nil {
						t.Fatal(kind, err)
					}
				}
			}
		}
		restore()
	}
}

// TestScores: Prob is the count that asking the oracle for all 2m models gives, and select = "max" plays
// the best action of the best model, in every round of runs with questions now and then, sets that
// change, arms that are equal or nearly so, actions from elsewhere, and at every level of kernels.
func TestScores(t *testing.T) {
	for _, c := range []struct {
		o     policy.EnsembleOptions
		d, n  int
		crowd bool
	}{
		{policy.EnsembleOptions{M: 20}, 4, 9, false},
		{policy.EnsembleOptions{M: 7}, 3, 12, true},
		{policy.EnsembleOptions{M: 33, Targets: "gaussian", Engine: "lazy", OneSided: true}, 5, 8, false},
		{policy.EnsembleOptions{M: 70, Targets: "rademacher", Engine: "blocked", Lambda: 1e-3}, 9, 40, true},
		{policy.EnsembleOptions{M: 12, Targets: "sphere"}, 4, 10, false},
		{policy.EnsembleOptions{M: 9, Scale: policy.Scale{Kind: "beta", Value: 3}}, 70, 15, true},
	} {
		t.Run(fmt.Sprintf("%+v", c.o), func(t *testing.T) {
			for l := cpu.Portable; l <= cpu.Best(); l++ {
				restore := cpu.Force(l)
				checkScores(t, c.o, c.d, c.n, c.crowd)
				restore()
			}
		})
	}
}

func checkScores(t *testing.T, o policy.EnsembleOptions, d, n int, crowded bool) {
	t.Helper()
	w := newWorld(6, d, 0)
	build := func(sel string) *policy.Ensemble {
		o := o
		o.Select = sel
		e, err := policy.NewEnsemble(o, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e, greedy := build("random"), build("max")
	seed := uint64(1)
	newSet := func() *actionset.Finite {
		if seed++; crowded {
			return crowd(t, seed, d, n)
		}
		arms := make([][]float64, n)
		for i := range arms {
			arms[i] = make([]float64, d)
			rng.NewKey(seed).Stream(rng.Instance).Round(uint64(i)).Ball(arms[i], 0)
		}
		set, err := actionset.NewFinite(arms)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := newSet()
	r := rand.New(rand.NewPCG(3, uint64(n)))
	var law bandit.Law
	var a, best, top bandit.Action
	model := make([]float64, d)
	followed := 0
	for round := range 150 {
		switch r.IntN(20) {
		case 0:
			set = newSet()
		case 1: // many rounds without a question
			for i := range 10 * r.IntN(3) {
				arm := r.IntN(n)
				a.Set(set.At(arm), arm)
				learn(t, w, uint64(1000*round+i), &a, e, greedy)
			}
		case 2: // an action that is no arm, under the number of one
			a.Set(set.At(0), 1)
			learn(t, w, uint64(1000*round+500), &a, e, greedy)
		}
		ask := r.IntN(4) > 0
		if ask {
			if e.Follows() {
				followed++
			}
			if err := e.Prob(&law, set, rng.Source{}); err != nil {
				t.Fatal(err)
			}
			want := make([]uint64, n)
			value := math.Inf(-1)
			for j := range e.Members() {
				for _, sign := range []float64{1, -1} {
					if sign < 0 && o.OneSided {
						continue
					}
					e.Model(model, j, sign)
					v, err := set.ArgMax(&a, model)
					if err != nil {
						t.Fatal(err)
					}
					want[a.Index]++
					if v > value {
						value = v
						best.Set(a.X, a.Index)
					}
				}
			}
			for i, atom := range law.Atoms {
				if atom.Count != want[i] {
					t.Fatalf("round %d: arm %d has count %d, want %d", round, i, atom.Count, want[i])
				}
			}
			// Both policies have seen the same, so the best of the models is known.
			if err := greedy.Select(&top, set, w.key.Stream(rng.Select).Round(1)); err != nil {
				t.Fatal(err)
			}
			if top.Index != best.Index {
				t.Fatalf("round %d: max plays arm %d, want %d", round, top.Index, best.Index)
			}
			if !crowded && e.Doubts() > 1 {
				t.Errorf("round %d: %d models were not sure", round, e.Doubts())
			}
		}
		arm := r.IntN(n)
		a.Set(set.At(arm), arm)
		learn(t, w, uint64(1000*round+900), &a, e, greedy)
	}
	if followed < 20 {
		t.Errorf("only %d questions followed the last one", followed)
	}
}

// TestScoreErrors: scores that follow the recursion of V⁻¹ for hundreds of rounds are those of X V⁻¹ S, the V⁻¹ and S that the
// policy has, up to the bound that each arm has.
func TestScoreErrors(t *testing.T) {
	for _, c := range []struct {
		o policy.EnsembleOptions
		d int
	}{
		{policy.EnsembleOptions{M: 20}, 6},
		{policy.EnsembleOptions{M: 9, Lambda: 1e-3, Targets: "gaussian", OneSided: true}, 4},
		{policy.EnsembleOptions{M: 32, Lambda: 0.1, Targets: "rademacher", Engine: "blocked"}, 10},
	} {
		w := newWorld(3, c.d, 20)
		e, err := policy.NewEnsemble(c.o, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		var law bandit.Law
		closest, looks := 0.0, 0
		w.play(t, e, 700, func(round int, _ *bandit.Action, _ float64) {
			if err := e.Prob(&law, w, rng.Source{}); err != nil {
				t.Fatal(err)
			}
			score, bounds, ok := e.FollowedScores()
			if !ok || round%50 != 0 {
				return
			}
			looks++
			d, inv, sums := c.d, e.Ridge().Inv(), e.Sums()
			p, factor := new(big.Float).SetPrec(400), new(big.Float)
			for a, x := range w.arms {
				product := make([]big.Float, d) // xᵀV⁻¹
				for k := range product {
					product[k].SetPrec(400)
					for i := range d {
						product[k].Add(&product[k], p.Mul(p.SetFloat64(x[i]), factor.SetFloat64(inv[i*d+k])))
					}
				}
				for j := range e.Members() {
					sum := new(big.Float).SetPrec(400)
					for k := range product {
						sum.Add(sum, p.Mul(&product[k], factor.SetFloat64(sums[j*d+k])))
					}
					off, _ := sum.Sub(sum, big.NewFloat(score(j, a))).Float64()
					if off = math.Abs(off); off > bounds[a] {
						t.Fatalf("%+v, round %d: the score of member %d and arm %d is off by %v, its bound is %v", c.o, round, j, a, off, bounds[a])
					}
					closest = max(closest, off/bounds[a])
				}
			}
		})
		if looks < 5 {
			t.Errorf("%+v: %d looks at scores that were followed, expected 5", c.o, looks)
		}
		t.Logf("%+v: %d looks, largest error %.2g of its bound", c.o, looks, closest)
	}
}

// TestCounts: the counts of Prob are those of asking the oracle for every model, in long runs on one set, so that they are found on
// lists of the arms that can be in the lead: with arms that are equal, nearly so, or 0, scales that move, actions of any size, and updates
// without a question in between; at every level of kernels.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		o     policy.EnsembleOptions
		d, n  int
		size  float64
		crowd bool
	}{
		{policy.EnsembleOptions{M: 30}, 5, 40, 1, false},
		{policy.EnsembleOptions{M: 45, Engine: "blocked"}, 12, 64, 1, true},
		{policy.EnsembleOptions{M: 20, Scale: policy.Scale{Kind: "beta", Value: 1}}, 6, 50, 1, true},
		{policy.EnsembleOptions{M: 17, Targets: "gaussian", Engine: "lazy", OneSided: true}, 4, 30, 1e-90, true},
		{policy.EnsembleOptions{M: 24, Lambda: 1e60}, 4, 30, 1e30, true},
		{policy.EnsembleOptions{M: 16, Targets: "rademacher", Scale: policy.Constant(1e-7)}, 6, 100, 1, true},
	} {
		t.Run(fmt.Sprintf("%+v", c.o), func(t *testing.T) {
			for l := cpu.Portable; l <= cpu.Best(); l++ {
				restore := cpu.Force(l)
				checkCounts(t, c.o, c.d, c.n, c.size, c.crowd)
				restore()
			}
		})
	}
}

func checkCounts(t *testing.T, o policy.EnsembleOptions, d, n int, size float64, crowded bool) {
	t.Helper()
	w := newWorld(9, d, 0)
	e, err := policy.NewEnsemble(o, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	arms := make([][]float64, n)
	set := crowd(t, 5, d, n)
	for i := range arms {
		arms[i] = make([]float64, d)
		if copy(arms[i], set.At(i)); !crowded {
			rng.NewKey(5).Stream(rng.Instance).Round(uint64(1000+i)).Sphere(arms[i], 0)
		}
		for k := range arms[i] {
			arms[i][k] *= size
		}
	}
	if crowded {
		clear(arms[n/2])
	}
	if set, err = actionset.NewFinite(arms); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, uint64(n)))
	var law bandit.Law
	var a bandit.Action
	model, want := make([]float64, d), make([]uint64, n)
	listed := 0
	for round := range uint64(2300) {
		if round < 2000 && round > 100 || round%50 > 40 && round%3 > 0 { // some questions answer for several updates
			goto learn
		}
		if _, ok := e.Listed(); ok {
			listed++
		}
		if err := e.Prob(&law, set, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			clear(want)
			for j := range e.Members() {
				for k := range e.Models() / e.Members() {
					e.Model(model, j, float64(1-2*k))
					if _, err := set.ArgMax(&a, model); err != nil {
						t.Fatal(err)
					}
					want[a.Index]++
				}
			}
			for i, atom := range law.Atoms {
				if atom.Count != want[i] {
					t.Fatalf("kernels %v, round %d: arm %d has count %d, want %d", cpu.Kernels(), round, i, atom.Count, want[i])
				}
			}
		}
	learn:
		if err := e.Select(&a, set, w.key.Stream(rng.Select).Round(round)); err != nil {
			t.Fatal(err)
		}
		if err := e.Update(a, a.X[0]/size+w.key.Stream(rng.Reward).Round(round).Normal(0), w.key.Stream(rng.Perturb).Round(round)); err != nil {
			t.Fatal(err)
		}
	}
	if listed < 100 {
		t.Errorf("kernels %v: only %d questions were answered from lists", cpu.Kernels(), listed)
	}
}

// learn gives all policies the same reward of an action.
func learn(t *testing.T, w *world, round uint64, a *bandit.Action, policies ...*policy.Ensemble) {
	t.Helper()
	y := w.key.Stream(rng.Reward).Round(round).Normal(0)
	for _, p := range policies {
		if err := p.Update(*a, y, w.key.Stream(rng.Perturb).Round(round)); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkProb asks for the propensities of all arms in every round, and says how many arms were looked at for eight members in the last.
func BenchmarkProb(b *testing.B) {
	for _, c := range []struct{ d, arms, m int }{{10, 10, 20}, {20, 100, 100}, {50, 1000, 200}, {100, 100, 1000}} {
		for _, fresh := range []bool{false, true} {
			b.Run(fmt.Sprintf("d=%d,K=%d,m=%d,fresh=%v", c.d, c.arms, c.m, fresh), func(b *testing.B) {
				w := newWorld(1, c.d, c.arms)
				var sets []bandit.ActionSet
				for range 2 {
					set, err := actionset.NewFinite(w.arms)
					if err != nil {
						b.Fatal(err)
					}
					sets = append(sets, set)
				}
				e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m}, w.problem(0))
				if err != nil {
					b.Fatal(err)
				}
				var law bandit.Law
				var a bandit.Action
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					set := sets[0]
					if fresh {
						set = sets[i%2]
					}
					if err := e.Prob(&law, set, rng.Source{}); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if err := e.Select(&a, set, w.key.Stream(rng.Select).Round(uint64(i))); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					if err := e.Update(a, linalg.Dot(w.theta, a.X)+w.key.Stream(rng.Reward).Round(uint64(i)).Normal(0), w.key.Stream(rng.Perturb).Round(uint64(i))); err != nil {
						b.Fatal(err)
					}
				}
				if arms, listed := e.Listed(); listed {
					b.ReportMetric(arms, "listed")
				}
			})
		}
	}
}

// TestSolved: propensities of 90 sets, 160 with TROUPE_LONG, that are new each time, of one arm to three parts, with updates in between and without, are the counts
// of asking the oracle; and members that follow the updates are V⁻¹S^j, up to the bound that they have. With the fewest and
// the most instructions of the processor, all levels with TROUPE_LONG; that levels agree bit for bit is tested where they are.
func TestSolved(t *testing.T) {
	for _, c := range []struct {
		o policy.EnsembleOptions
		d int
	}{
		{policy.EnsembleOptions{M: 20}, 6},
		{policy.EnsembleOptions{M: 9, Lambda: 1e-3, Targets: "gaussian", OneSided: true}, 4},
		{policy.EnsembleOptions{M: 37, Lambda: 0.1, Targets: "rademacher", Engine: "blocked"}, 10},
		{policy.EnsembleOptions{M: 70, Engine: "lazy"}, 5},
		{policy.EnsembleOptions{M: 12, Targets: "sphere", Lambda: 1e-9}, 67},
	} {
		for _, l := range levels() {
			restore := cpu.Force(l)
			checkSolved(t, c.o, c.d)
			restore()
		}
	}
}

func checkSolved(t *testing.T, o policy.EnsembleOptions, d int) {
	t.Helper()
	w := newWorld(3, d, 0)
	e, err := policy.NewEnsemble(o, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	var law bandit.Law
	var a bandit.Action
	model := make([]float64, d)
	r := rand.New(rand.NewPCG(5, uint64(d)))
	closest, most := 0.0, 0
	for round := range sized(90, 160) {
		n := 1 + r.IntN(40)
		if r.IntN(8) == 0 {
			n = 90 + r.IntN(160)
		}
		var set bandit.Finite
		arms, err := actionset.NewFinite(func() [][]float64 {
			arms := make([][]float64, n)
			for i := range arms {
				arms[i] = make([]float64, d)
				w.key.Stream(rng.Offer).Round(uint64(round)).Ball(arms[i], i*(d+1))
			}
			return arms
		}())
		if err != nil {
			t.Fatal(err)
		}
		if set = arms; round%3 == 0 {
			set = struct{ bandit.Finite }{arms} // no Flat
		}
		if err := e.Prob(&law, set, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		if round%4 == 0 || n > 96 {
			want := make([]uint64, n)
			for j := range e.Members() {
				for _, sign := range []float64{1, -1}[:e.Models()/e.Members()] {
					e.Model(model, j, sign)
					if _, err := set.ArgMax(&a, model); err != nil {
						t.Fatal(err)
					}
					want[a.Index]++
				}
			}
			for i, atom := range law.Atoms {
				if atom.Count != want[i] {
					t.Fatalf("%+v, round %d: arm %d of %d has count %d, want %d", o, round, i, n, atom.Count, want[i])
				}
			}
		}
		if _, _, steps, ok := e.SolvedMember(0); ok && steps > 0 && round%10 == 9 {
			most = max(most, steps)
			inv, sums := e.Ridge().Inv(), e.Sums()
			for j := range e.Members() {
				member, off, _, _ := e.SolvedMember(j)
				square, sum, p, factor := new(big.Float).SetPrec(400), new(big.Float).SetPrec(400), new(big.Float).SetPrec(400), new(big.Float)
				for i, v := range member {
					sum.SetFloat64(-v)
					for k := range d {
						sum.Add(sum, p.Mul(p.SetFloat64(inv[i*d+k]), factor.SetFloat64(sums[j*d+k])))
					}
					square.Add(square, sum.Mul(sum, sum))
				}
				s, _ := square.Float64()
				if !(math.Sqrt(s) <= off) {
					t.Fatalf("%+v, round %d: member %d is off by %v, its bound is %v", o, round, j, math.Sqrt(s), off)
				}
				closest = max(closest, math.Sqrt(s)/off)
			}
		}
		for i := range []int{0, 1, 1, 1, 1, 1, 3, 12}[r.IntN(8)] {
			arm := r.IntN(n)
			a.Set(set.At(arm), arm)
			learn(t, w, uint64(1000*round+i), &a, e)
		}
	}
	if most < 5 && o.Lambda > 1e-6 {
		t.Errorf("%+v: members have followed %d updates at most, expected 5", o, most)
	}
	if testing.Verbose() {
		t.Logf("%+v: %d updates followed, largest error %.2g of its bound", o, most, closest)
	}
}
