package policy_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

// weighted is a regression with weights, solved by gonum from the definition.
type weighted struct {
	v *mat.Dense
	b *mat.VecDense
}

func newWeighted(d int, lambda float64) *weighted {
	w := &weighted{mat.NewDense(d, d, nil), mat.NewVecDense(d, nil)}
	for i := range d {
		w.v.Set(i, i, lambda)
	}
	return w
}

// add multiplies what is there by keep, apart from λI, and adds an event of a weight.
func (w *weighted) add(keep, lambda, weight float64, x []float64, y float64) {
	d := len(x)
	for i := range d {
		for j := range d {
			v := keep*w.v.At(i, j) + weight*x[i]*x[j]
			if i == j {
				v += (1 - keep) * lambda
			}
			w.v.Set(i, j, v)
		}
		w.b.SetVec(i, keep*w.b.AtVec(i)+weight*y*x[i])
	}
}

func (w *weighted) theta(t testing.TB) []float64 {
	t.Helper()
	var out mat.VecDense
	if err := out.SolveVec(w.v, w.b); err != nil {
		t.Fatal(err)
	}
	return out.RawVector().Data
}

func far(a, b []float64) float64 {
	worst := 0.0
	for i := range a {
		worst = math.Max(worst, math.Abs(a[i]-b[i]))
	}
	return worst
}

// TestBag replays the replicates as weighted regressions, solved by gonum, with weights from the
// definition of their laws: Poisson(1) by adding up e⁻¹/k!, and 2·Bernoulli(½).
func TestBag(t *testing.T) {
	const d, m, n, lambda, sigma = 4, 7, 120, 0.5, 0.3
	poisson := func(word uint32) float64 {
		u, k, p := (float64(word)+0.5)/0x1p32, 0, math.Exp(-1)
		for u >= p && k < 30 {
			u -= p
			k++
			p /= float64(k)
		}
		return float64(k)
	}
	nothing := func(word uint32) float64 {
		if word < 1<<31 {
			return 0
		}
		return 2
	}
	for name, weight := range map[string]func(uint32) float64{"poisson": poisson, "double-or-nothing": nothing} {
		w := newWorld(31, d, 15)
		p := w.problem(n)
		p.Sigma = sigma
		bag, err := policy.NewBag(policy.BagOptions{M: m, Weights: name, Lambda: lambda}, p)
		if err != nil {
			t.Fatal(err)
		}
		var want []*weighted
		z := make([]float64, d)
		for j := range m {
			want = append(want, newWeighted(d, lambda))
			p.Init.Round(uint64(j)).Normals(z, 0)
			for i, v := range z { // θ_0 ~ N(0, σ²/λ·I), b_0 = λθ_0
				want[j].b.SetVec(i, lambda*sigma/math.Sqrt(lambda)*v)
			}
		}
		per, seen := w.key.Stream(rng.Perturb), map[float64]int{}
		got := make([]float64, d)
		w.play(t, bag, n, func(round int, a *bandit.Action, y float64) {
			for j, r := range want {
				c := weight(per.Round(uint64(round)).Word(uint32(j)))
				seen[c]++
				r.add(1, lambda, c, a.X, y)
				if bag.Model(got, j); far(got, r.theta(t)) > 1e-9 {
					t.Fatalf("%s round %d: replicate %d is %v, want %v", name, round, j, got, r.theta(t))
				}
			}
		})
		if len(seen) < 2 {
			t.Errorf("%s: weights %v", name, seen)
		}
		var law bandit.Law
		if err := bag.Prob(&law, w.set(), w.key.Stream(rng.Select).Round(1)); err != nil || law.Total != m {
			t.Fatalf("%s: law of %d, %v", name, law.Total, err)
		}
		counts := make([]uint64, len(w.arms))
		var a bandit.Action
		for _, r := range want {
			if _, err := w.ArgMax(&a, r.theta(t)); err != nil {
				t.Fatal(err)
			}
			counts[a.Index]++
		}
		for i, atom := range law.Atoms {
			if atom.Count != counts[i] {
				t.Errorf("%s: arm %d counts %d, want %d", name, i, atom.Count, counts[i])
			}
		}
	}
}

// TestBagWeights: the share of words with weight k is P(W = k) of Poisson(1) to within 2⁻³¹: mean 1 and
// variance 1. It searches for the steps of the map from words to weights.
func TestBagWeights(t *testing.T) {
	word := func(k int) (first uint64) { // the first word of a weight above k
		lo, hi := uint64(0), uint64(1)<<32
		for lo < hi {
			mid := (lo + hi) / 2
			if policy.PoissonWeight(uint32(mid)) > k {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		return lo
	}
	p, last, mean := math.Exp(-1), uint64(0), 0.0
	for k := range 12 {
		share := float64(word(k)-last) / 0x1p32
		if math.Abs(share-p) > 0x1p-31 {
			t.Errorf("P(W = %d) is %v, want %v", k, share, p)
		}
		mean += float64(k) * share
		last, p = word(k), p/float64(k+1)
	}
	if math.Abs(mean-1) > 1e-7 {
		t.Errorf("mean weight %v", mean)
	}
}

// TestSquareCB compares the law with the formula of Foster & Rakhlin in each round, with predictions of
// gonum's regression.
func TestSquareCB(t *testing.T) {
	const d, n, lambda = 3, 80, 2
	for _, c := range []struct{ gamma, exponent float64 }{{10, 0.5}, {3, 0.25}, {100, 1}} {
		w := newWorld(5, d, 9)
		s, err := policy.NewSquareCB(policy.SquareCBOptions{Gamma: c.gamma, Exponent: c.exponent, Lambda: lambda}, w.problem(n))
		if err != nil {
			t.Fatal(err)
		}
		want := newWeighted(d, lambda)
		var law bandit.Law
		w.play(t, s, n, func(round int, a *bandit.Action, y float64) {
			want.add(1, lambda, 1, a.X, y)
			if err := s.Prob(&law, w.set(), w.key.Stream(rng.Select).Round(uint64(round))); err != nil {
				t.Fatal(err)
			}
			theta, best := want.theta(t), math.Inf(-1)
			for _, x := range w.arms {
				best = math.Max(best, linalg.Dot(x, theta))
			}
			gamma, rest, at := c.gamma*math.Pow(float64(round+1), c.exponent), 1.0, -1
			for i, x := range w.arms {
				gap := best - linalg.Dot(x, theta)
				if gap == 0 {
					at = i
					continue
				}
				p := 1 / (float64(len(w.arms)) + gamma*gap)
				rest -= p
				if math.Abs(law.Atoms[i].P-p) > 1e-9 {
					t.Fatalf("γ = %v, round %d: arm %d has probability %v, want %v", c.gamma, round, i, law.Atoms[i].P, p)
				}
			}
			if math.Abs(law.Atoms[at].P-rest) > 1e-9 {
				t.Fatalf("γ = %v, round %d: the best arm has probability %v, want %v", c.gamma, round, law.Atoms[at].P, rest)
			}
		})
	}
	for want, o := range map[string]policy.SquareCBOptions{
		"gamma is -1, expected a positive number":       {Gamma: -1},
		"exponent is 1.5, expected a number in (0, 1]":  {Exponent: 1.5},
		"lambda is -0.5, expected a positive number":    {Lambda: -0.5},
		"exponent is -0.5, expected a number in (0, 1]": {Exponent: -0.5},
	} {
		if _, err := policy.NewSquareCB(o, policy.Problem{Dim: 2}); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestIDS compares the law of each decision with the definition, computed from the same samples: Δ and v
// as means over samples, and the least information ratio over all pairs of arms by ternary search.
func TestIDS(t *testing.T) {
	const d, n, m = 3, 60, 40
	for _, arms := range []int{2, 5, 12} {
		w := newWorld(uint64(arms), d, arms)
		s, err := policy.NewIDS(policy.IDSOptions{M: m, Lambda: 0.5}, w.problem(n))
		if err != nil {
			t.Fatal(err)
		}
		var law bandit.Law
		mixed := 0
		w.play(t, s, n, func(round int, _ *bandit.Action, _ float64) {
			draw := w.key.Stream(rng.Select).Round(uint64(round + 1))
			if err := s.Prob(&law, w.set(), draw); err != nil {
				t.Fatal(err)
			}
			theta := s.Samples(draw.At())
			best, count := make([]int, m), make([]float64, arms)
			value := func(a, k int) float64 { return linalg.Dot(w.arms[a], theta[k*d:k*d+d]) }
			star := 0.0
			for k := range m {
				for a := range arms {
					if value(a, k) > value(best[k], k) {
						best[k] = a
					}
				}
				count[best[k]]++
				star += value(best[k], k) / m
			}
			gap, info := make([]float64, arms), make([]float64, arms)
			for a := range arms {
				mean, given := 0.0, make([]float64, arms)
				for k := range m {
					mean += value(a, k) / m
					given[best[k]] += value(a, k) / count[best[k]]
				}
				gap[a] = star - mean
				for b, c := range count {
					if c > 0 {
						info[a] += c / m * (given[b] - mean) * (given[b] - mean)
					}
				}
			}
			ratio := func(p []float64) float64 {
				g, v := 0.0, 0.0
				for a, q := range p {
					g += q * gap[a]
					v += q * info[a]
				}
				return g * g / v
			}
			least := math.Inf(1)
			p := make([]float64, arms)
			for a := range arms {
				for b := range arms {
					at := func(q float64) float64 { // the ratio is quasiconvex in q
						g := q*gap[a] + (1-q)*gap[b]
						return g * g / (q*info[a] + (1-q)*info[b])
					}
					lo, hi := 0.0, 1.0
					for range 90 {
						x, y := lo+(hi-lo)/3, hi-(hi-lo)/3
						if at(x) < at(y) {
							hi = y
						} else {
							lo = x
						}
					}
					for _, q := range []float64{0, 1, lo} {
						least = math.Min(least, at(q))
					}
				}
			}
			positive := 0
			for a := range p {
				p[a] = law.Atoms[a].P
				if p[a] > 0 {
					positive++
				}
			}
			if positive == 2 {
				mixed++
			}
			certain := slices.Max(count) == m
			if got := ratio(p); positive > 2 || !certain && math.Abs(got/least-1) > 1e-9 {
				t.Fatalf("%d arms, round %d: law %v with ratio %v, the least of all pairs is %v", arms, round, p, got, least)
			}
			if certain && p[best[0]] != 1 {
				t.Fatalf("%d arms, round %d: all samples have arm %d as the best, the law is %v", arms, round, best[0], p)
			}
		})
		if mixed == 0 {
			t.Errorf("%d arms: no law had two arms", arms)
		}
	}
}

// TestEnsemblePP plays Ensemble++ as its authors write it, with the shared factor A_t = V_t⁻¹(V_{t−1}A_{t−1} +
// X_t z_tᵀ) by gonum, and compares the actions.
func TestEnsemblePP(t *testing.T) {
	const d, m, n, lambda, r = 3, 6, 80, 0.7, 0.4
	perturb := map[string]func(z []float64, src rng.Source){
		"sphere": func(z []float64, src rng.Source) { src.Sphere(z, 0) }, // ‖z‖ = 1: E zzᵀ = I/M
		"gaussian": func(z []float64, src rng.Source) {
			for j := range z {
				z[j] = rng.NormalWord(src.Word(uint32(j))) / math.Sqrt(m)
			}
		},
		"rademacher": func(z []float64, src rng.Source) {
			for j := range z {
				z[j] = rng.SignWord(src.Word(uint32(j))) / math.Sqrt(m)
			}
		},
		"coordinate": func(z []float64, src rng.Source) { clear(z); z[src.Intn(0, m)] = src.Sign(1) },
	}
	mix := map[string]func(zeta []float64, src rng.Source){
		"gaussian": func(zeta []float64, src rng.Source) { src.Normals(zeta, 0) },
		"sphere": func(zeta []float64, src rng.Source) {
			src.Sphere(zeta, 0)
			for j := range zeta {
				zeta[j] *= math.Sqrt(m)
			}
		},
		"signs": func(zeta []float64, src rng.Source) {
			for j := range zeta {
				zeta[j] = src.Sign(j)
			}
		},
		"coordinate": func(zeta []float64, src rng.Source) { clear(zeta); zeta[src.Intn(0, m)] = math.Sqrt(m) * src.Sign(1) },
	}
	for pert, fill := range perturb {
		for ref, zetas := range mix {
			w := newWorld(8, d, 20)
			o := policy.EnsemblePPOptions{M: m, Lambda: lambda, Scale: policy.Constant(r), Perturbation: pert, Reference: ref}
			p, err := o.New(w.problem(n))
			if err != nil {
				t.Fatal(err)
			}
			reg, a := newWeighted(d, lambda), mat.NewDense(d, m, nil)
			col := make([]float64, d)
			for j := range m {
				w.problem(n).Init.Round(uint64(j)).Normals(col, 0)
				for i, v := range col {
					a.Set(i, j, v/math.Sqrt(lambda*m))
				}
			}
			z, zeta := make([]float64, m), make([]float64, m)
			w.play(t, p, n, func(round int, got *bandit.Action, y float64) {
				zetas(zeta, w.key.Stream(rng.Select).Round(uint64(round)))
				theta := mat.NewVecDense(d, nil)
				theta.MulVec(a, mat.NewVecDense(m, zeta))
				theta.AddScaledVec(mat.NewVecDense(d, reg.theta(t)), r, theta)
				var want bandit.Action
				if _, err := w.ArgMax(&want, theta.RawVector().Data); err != nil {
					t.Fatal(err)
				}
				if want.Index != got.Index {
					t.Fatalf("%s, %s, round %d: arm %d, want %d", pert, ref, round, got.Index, want.Index)
				}
				fill(z, w.key.Stream(rng.Perturb).Round(uint64(round)))
				var next mat.Dense
				next.Mul(reg.v, a)
				next.RankOne(&next, 1, mat.NewVecDense(d, got.X), mat.NewVecDense(m, z))
				reg.add(1, lambda, 1, got.X, y)
				if err := a.Solve(reg.v, &next); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	for want, o := range map[string]*policy.EnsemblePPOptions{
		`combine is "pair"; expected one of`:                       {Reference: "pair"},
		`perturbation is "sfere"; did you mean "sphere"?`:          {Perturbation: "sfere"},
		"m is -1, expected at least 1 and at most":                 {M: -1},
		"scale.kind is \"betatilde\", which needs a known horizon": {Scale: policy.Scale{Kind: "betatilde", Value: 1}},
	} {
		if _, err := o.New(policy.Problem{Dim: 2}); err == nil || !contains(err, want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func contains(err error, want string) bool {
	return len(err.Error()) >= len(want) && err.Error()[:len(want)] == want
}

// TestCassel replays the batch ensemble with lists of rewards, and counts how often no batch mean reaches the mean of
// symmetric rewards: with probability 2⁻ᵐ.
func TestCassel(t *testing.T) {
	const d, m, n = 3, 4, 400
	w := newWorld(12, d, 6)
	c, err := policy.NewCassel(policy.CasselOptions{M: m}, w.problem(n))
	if err != nil {
		t.Fatal(err)
	}
	rewards := make([][]float64, len(w.arms))
	w.play(t, c, n, func(round int, a *bandit.Action, y float64) {
		best := math.Inf(-1)
		var of []float64
		for _, list := range rewards {
			top := math.Inf(-1)
			for j := range m {
				sum, k := 0.0, 0.0
				for i := j; i < len(list); i += m {
					sum += list[i]
					k++
				}
				mean := sum / k
				if k == 0 {
					mean = math.Inf(1)
				}
				top = math.Max(top, mean)
			}
			best = math.Max(best, top)
			of = append(of, top)
		}
		if of[a.Index] != best {
			t.Fatalf("round %d: arm %d with %v, the best has %v", round, a.Index, of[a.Index], best)
		}
		rewards[a.Index] = append(rewards[a.Index], y)
	})

	below, reps := 0, 20_000
	x := []float64{1, 0, 0}
	key := rng.NewKey(3).Stream(rng.Reward)
	for rep := range reps {
		c, _ := policy.NewCassel(policy.CasselOptions{M: m}, w.problem(n))
		for i := range 3 * m {
			if err := c.Update(bandit.Action{X: x}, key.Sub(uint64(rep)).Round(uint64(i)).Normal(0), rng.Source{}); err != nil {
				t.Fatal(err)
			}
		}
		if c.Mean(x) < 0 {
			below++
		}
	}
	// Null: Binomial(20 000, 2⁻⁴). Rejected at 6 standard deviations, level 2e-9.
	if p := math.Pow(2, -m); math.Abs(float64(below)-p*float64(reps)) > 6*math.Sqrt(float64(reps)*p*(1-p)) {
		t.Errorf("no batch mean reached the mean in %d of %d, want %.0f", below, reps, p*float64(reps))
	}
	for horizon, want := range map[int]int{0: 16, 1: 1, 2: 1, 1024: 10, 1025: 11, 1 << 20: 20} {
		if c, err := policy.NewCassel(policy.CasselOptions{}, policy.Problem{Dim: 1, Horizon: horizon}); err != nil || c.Batches() != want {
			t.Errorf("T = %d: %d batches, want %d (%v)", horizon, c.Batches(), want, err)
		}
	}
}

// TestDiscount: linucb and atoms with a discount keep the weighted regression, by gonum, and the golden values
// of five events at γ = 0.9.
func TestDiscount(t *testing.T) {
	events := []struct{ x0, x1, y float64 }{{.6, .8, 1}, {1, 0, .2}, {0, 1, .7}, {.6, -.8, -.1}, {.8, .6, .9}}
	type learner interface {
		bandit.Policy
		Scale() float64
	}
	p := policy.Problem{Dim: 2, Init: rng.NewKey(1).Stream(rng.Init)}
	atoms, err := policy.NewAtoms(policy.AtomsOptions{Discount: 0.9}, p)
	if err != nil {
		t.Fatal(err)
	}
	ucb, err := policy.NewLinUCB(policy.LinUCBOptions{Discount: 0.9}, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for _, l := range []learner{atoms, ucb} {
			if err := l.Update(bandit.Action{X: []float64{e.x0, e.x1}}, e.y, rng.Source{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	const logDet = 2.21286130619917
	v, b := []float64{2.929196, 0.362928, 0.362928, 3.165904}, []float64{1.20546, 1.70388}
	var theta mat.VecDense
	if err := theta.SolveVec(mat.NewDense(2, 2, v), mat.NewVecDense(2, b)); err != nil {
		t.Fatal(err)
	}
	gotV, gotB := make([]float64, 4), make([]float64, 2)
	atoms.Root().Gram(gotV, gotB)
	for name, far := range map[string]float64{
		"V of atoms":        far(gotV, v),
		"b of atoms":        far(gotB, b),
		"θ̂ of atoms":       far(atoms.Root().Theta(), theta.RawVector().Data),
		"log det of atoms":  atoms.Root().LogDetRatio() - logDet,
		"V of linucb":       far(ucb.Ridge().V(), v),
		"b of linucb":       far(ucb.Ridge().B(), b),
		"θ̂ of linucb":      far(ucb.Ridge().Theta(), theta.RawVector().Data),
		"log det of linucb": ucb.Ridge().LogDetRatio() - logDet,
	} {
		if !(math.Abs(far) < 1e-12) {
			t.Errorf("%s is off by %v", name, far)
		}
	}

	const d, n, gamma, lambda = 5, 300, 0.97, 0.3
	w := newWorld(4, d, 25)
	ucb, err = policy.NewLinUCB(policy.LinUCBOptions{Discount: gamma, Lambda: lambda, Scale: policy.Constant(0.5)}, w.problem(n))
	if err != nil {
		t.Fatal(err)
	}
	atoms, err = policy.NewAtoms(policy.AtomsOptions{Discount: gamma, Lambda: lambda}, w.problem(n))
	if err != nil {
		t.Fatal(err)
	}
	want := newWeighted(d, lambda)
	w.play(t, ucb, n, func(round int, a *bandit.Action, y float64) {
		theta := want.theta(t)
		var inv mat.Dense
		if err := inv.Inverse(want.v); err != nil {
			t.Fatal(err)
		}
		best, at := math.Inf(-1), -1
		for i, x := range w.arms {
			xv := mat.NewVecDense(d, x)
			if u := linalg.Dot(x, theta) + 0.5*math.Sqrt(mat.Inner(xv, &inv, xv)); u > best {
				best, at = u, i
			}
		}
		if at != a.Index {
			t.Fatalf("round %d: arm %d, want %d", round, a.Index, at)
		}
		want.add(gamma, lambda, 1, a.X, y)
		if err := atoms.Update(*a, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		if f := far(atoms.Root().Theta(), want.theta(t)); f > 1e-9 {
			t.Fatalf("round %d: θ̂ of atoms is off by %v", round, f)
		}
	})
	if err := atoms.Merge(atoms); !errors.Is(err, bandit.ErrUnsupported) {
		t.Errorf("merge with a discount: %v", err)
	}
	for name, o := range map[string]policy.Options{"linucb": &policy.LinUCBOptions{Discount: 1.1}, "atoms": &policy.AtomsOptions{Discount: -1}} {
		if _, err := o.New(p); err == nil {
			t.Error(name, "accepts a discount that is none")
		}
	}
	if _, err := policy.NewAtoms(policy.AtomsOptions{Discount: 0.9, Preset: "theorem"}, policy.Problem{Dim: 2, Horizon: 1000}); err == nil {
		t.Error("the theorem takes a discount")
	}
}
