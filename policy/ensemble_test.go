package policy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/theory"
)

// world is a linear bandit for tests that need no package above this one: arms on the sphere, or
// the unit ball when arms is 0, θ* on the sphere, noise N(0, 1).
type world struct {
	d     int
	arms  [][]float64
	theta []float64
	key   rng.Key
}

func newWorld(seed uint64, d, arms int) *world {
	w := &world{d: d, key: rng.NewKey(seed), theta: make([]float64, d)}
	inst := w.key.Stream(rng.Instance)
	inst.Round(0).Sphere(w.theta, 0)
	for i := range arms {
		x := make([]float64, d)
		inst.Round(uint64(i+1)).Sphere(x, 0)
		w.arms = append(w.arms, x)
	}
	return w
}

func (w *world) Dim() int           { return w.d }
func (w *world) Len() int           { return len(w.arms) }
func (w *world) At(i int) []float64 { return w.arms[i] }

// set returns the finite set, or the ball.
func (w *world) set() bandit.ActionSet {
	if w.arms == nil {
		return (*ball)(w)
	}
	return w
}

func (w *world) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	best, at := math.Inf(-1), 0
	for i, x := range w.arms {
		if v := linalg.Dot(x, theta); v > best {
			best, at = v, i
		}
	}
	dst.Set(w.arms[at], at)
	return best, nil
}

type ball world

func (b *ball) Dim() int    { return b.d }
func (b *ball) IsUnitBall() {}

func (b *ball) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	n := linalg.Norm(theta)
	dst.Set(theta, bandit.NoIndex)
	for i := range dst.X {
		dst.X[i] /= n
	}
	return n, nil
}

func (w *world) problem(horizon int) policy.Problem {
	return policy.Problem{Dim: w.d, Arms: len(w.arms), Horizon: horizon, Init: w.key.Stream(rng.Init)}
}

// play runs rounds 1…n and calls after with each action, if after is not nil.
func (w *world) play(t testing.TB, p bandit.Policy, n int, after func(round int, a *bandit.Action, y float64)) {
	t.Helper()
	var a bandit.Action
	set := w.set()
	sel, rew, per := w.key.Stream(rng.Select), w.key.Stream(rng.Reward), w.key.Stream(rng.Perturb)
	for i := range n {
		round := uint64(i + 1)
		if err := p.Select(&a, set, sel.Round(round)); err != nil {
			t.Fatal(err)
		}
		y := linalg.Dot(a.X, w.theta) + rew.Round(round).Normal(0)
		if err := p.Update(a, y, per.Round(round)); err != nil {
			t.Fatal(err)
		}
		if after != nil {
			after(int(round), &a, y)
		}
	}
}

// TestEnsembleIsAlgorithm1 replays 500 rounds from the formulas of alg:es as printed, member by
// member and with a fresh solve each round, for every option that changes the recursion.
func TestEnsembleIsAlgorithm1(t *testing.T) {
	const d, n = 4, 500
	for _, o := range []policy.EnsembleOptions{
		{M: 6, Lambda: 5, Init: "corrected"},
		{M: 6, Lambda: 2, Init: "printed", Targets: "gaussian", Scale: policy.Constant(0.7), OneSided: true},
		{M: 6, Lambda: 2, Init: "matched", Targets: "rademacher", Scale: policy.Scale{Kind: "beta", Value: 2}},
		{M: 6, Lambda: 2, Init: "none", Scale: policy.Scale{Kind: "betatilde", Value: 1}, Delta: 0.05, OneSided: true},
		{M: 6, Lambda: 3, Init: "prior"},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			w := newWorld(11, d, 12)
			e, err := policy.NewEnsemble(o, w.problem(n))
			if err != nil {
				t.Fatal(err)
			}
			o := e.Options()
			variance, draw := 1.0/3, rng.UniformWord
			switch o.Targets {
			case "gaussian":
				variance, draw = 1, rng.NormalWord
			case "rademacher":
				variance, draw = 1, rng.SignWord
			}
			// S_0
			s := make([][]float64, o.M)
			for j := range s {
				s[j] = make([]float64, d)
				src := w.key.Stream(rng.Init).Round(uint64(j))
				size := map[string]float64{
					"corrected": math.Sqrt(o.Lambda * d), "printed": o.Lambda * math.Sqrt(d),
					"matched": math.Sqrt(o.Lambda * d * variance), "prior": math.Sqrt(o.Lambda),
				}[o.Init]
				if src.Sphere(s[j], 0); o.Init == "prior" {
					src.Normals(s[j], 0)
				}
				for i := range s[j] {
					s[j][i] *= size
				}
			}
			v := make([]float64, d*d)
			for i := range d {
				v[i*d+i] = o.Lambda
			}
			b := make([]float64, d)
			f := linalg.NewFactor(d, 1)
			logDet0 := float64(d) * math.Log(o.Lambda)
			w.play(t, e, n, func(round int, a *bandit.Action, y float64) {
				// θ_t from the state before this round.
				f.Set(v)
				logDet := f.LogDet() - logDet0
				r := o.Scale.Value
				switch o.Scale.Kind {
				case "beta":
					r *= math.Sqrt(o.Lambda) + math.Sqrt(2*math.Log(1/o.Delta)+logDet)
				case "betatilde":
					r *= math.Sqrt(o.Lambda) + math.Sqrt(2*math.Log(1/o.Delta)+d*math.Log(1+n/(o.Lambda*d)))
				}
				draw1 := w.key.Stream(rng.Select).Round(uint64(round))
				j, sign := draw1.Intn(0, o.M), 1.0
				if !o.OneSided {
					sign = draw1.Sign(1)
				}
				theta, member := append([]float64(nil), b...), append([]float64(nil), s[j]...)
				f.Solve(theta)
				f.Solve(member)
				for i := range theta {
					theta[i] += r * sign * member[i]
				}
				var want bandit.Action
				w.ArgMax(&want, theta)
				if want.Index != a.Index {
					t.Fatalf("round %d: arm %d, want %d", round, a.Index, want.Index)
				}
				// The update.
				per := w.key.Stream(rng.Perturb).Round(uint64(round))
				for j := range s {
					linalg.Axpy(draw(per.Word(uint32(j))), a.X, s[j])
				}
				for i := range d {
					linalg.Axpy(a.X[i], a.X, v[i*d:i*d+d])
				}
				linalg.Axpy(y, a.X, b)
			})
			for j := range s {
				for i := range d {
					if got := e.Sums()[j*d+i]; math.Abs(got-s[j][i]) > 1e-9 {
						t.Fatalf("S^%d = %v, want %v", j, got, s[j][i])
					}
				}
			}
		})
	}
}

// TestAlgorithm2IsAlgorithm1: with w_0 = r·S_0/λ the 2m models of alg:es-equiv are θ̂ ± rθ̃^j to
// 1e-9 over 10⁴ rounds and both play the same actions; with w_0 as printed they are not
// (appendix:reformulation; errata B9).
func TestAlgorithm2IsAlgorithm1(t *testing.T) {
	const d, m, n, lambda, r = 5, 12, 10_000, 5, 3
	for _, arms := range []int{20, 0} {
		for _, init := range []string{"corrected", "matched", "printed"} {
			t.Run(fmt.Sprintf("arms=%d/%s", arms, init), func(t *testing.T) {
				w := newWorld(3, d, arms)
				printed := init == "printed"
				one := policy.EnsembleOptions{M: m, Lambda: lambda, Scale: policy.Constant(r), Init: init}
				if printed {
					one.Init = "corrected"
				}
				a1, err := policy.NewEnsemble(one, w.problem(n))
				if err != nil {
					t.Fatal(err)
				}
				a2, err := policy.NewIncremental(policy.IncrementalOptions{M: m, Lambda: lambda, Scale: policy.Constant(r), Init: init}, w.problem(n))
				if err != nil {
					t.Fatal(err)
				}
				var worst float64
				model := make([]float64, d)
				compare := func() {
					for j := range m {
						for k, sign := range []float64{1, -1} {
							a1.Model(model, j, sign)
							row := a2.Models()[(j+k*m)*d:]
							for i, v := range model {
								worst = max(worst, math.Abs(v-row[i]))
							}
						}
					}
				}
				compare()
				var mine bandit.Action
				per, sel := w.key.Stream(rng.Perturb), w.key.Stream(rng.Select)
				w.play(t, a1, n, func(round int, a *bandit.Action, y float64) {
					// Algorithm 2 sees the actions and rewards of Algorithm 1.
					if err := a2.Select(&mine, w.set(), sel.Round(uint64(round))); err != nil {
						t.Fatal(err)
					}
					for i, v := range mine.X {
						if !printed && math.Abs(v-a.X[i]) > 1e-8 {
							t.Fatalf("round %d: Algorithm 2 plays %v, Algorithm 1 %v", round, mine.X, a.X)
						}
					}
					if err := a2.Update(*a, y, per.Round(uint64(round))); err != nil {
						t.Fatal(err)
					}
					if round < 100 || round%100 == 0 {
						compare()
					}
				})
				if printed && worst < 0.1 {
					t.Errorf("with w_0 as printed the models differ by %v only", worst)
				}
				if !printed && !(worst <= 1e-9) {
					t.Errorf("the models differ by %v", worst)
				}
			})
		}
	}
}

// TestPaperPreset holds the theorem's own parameters: d = 10, T = 10⁴, δ = 0.1, λ = 5 give
// m = 39 400 (golden value of the audit), r_t = 7β_t and the corrected initial vectors.
func TestPaperPreset(t *testing.T) {
	w := newWorld(1, 10, 50)
	e, err := policy.NewEnsemble(policy.EnsembleOptions{Preset: "paper"}, w.problem(10_000))
	if err != nil {
		t.Fatal(err)
	}
	if o := e.Options(); o.M != 39_400 || o.Lambda != 5 || o.Init != "corrected" {
		t.Errorf("preset paper: %+v", o)
	}
	if got, want := e.Scale(), 7*(math.Sqrt(5)+math.Sqrt(2*math.Log(10))); math.Abs(got-want) > 1e-12 {
		t.Errorf("r_0 = %v, want 7β_0 = %v", got, want)
	}
}

// TestLiteraturePresets: janz2026 is the ensemble that the theorem of arXiv 2602.08026 is about, at the m that theory.Janz2026Direct computes from
// its lemmas; uninflated has models of spread β_t/√d whatever the targets, of Thompson sampling too. What is set wins.
func TestLiteraturePresets(t *testing.T) {
	const d, T = 3, 1000
	p := newWorld(1, d, 5).problem(T)
	m, err := theory.Janz2026Direct(theory.Setting{D: d, T: T, Lambda: 1, Delta: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.NewEnsemble(policy.EnsembleOptions{Preset: "janz2026"}, p)
	if err != nil {
		t.Fatal(err)
	}
	if o := e.Options(); float64(o.M) != m || !o.OneSided || o.Targets != "gaussian" || o.Init != "prior" || o.Engine != "exact-law" || o.Lambda != 1 {
		t.Errorf("janz2026: %+v, expected m = %v", o, m)
	}
	beta := 1 + math.Sqrt(2*math.Log(10))
	if got := e.Scale(); math.Abs(got/(40*beta)-1) > 1e-12 {
		t.Errorf("janz2026: r_0 = %v, expected 40β_0 = %v", got, 40*beta)
	}
	if e, err := policy.NewEnsemble(policy.EnsembleOptions{Preset: "janz2026", M: 7, Delta: 0.01}, p); err != nil || e.Options().M != 7 {
		t.Errorf("janz2026 with m = 7: %v", err)
	}
	for targets, sd := range map[string]float64{"uniform": 1 / math.Sqrt(3), "gaussian": 1} {
		e, err := policy.NewEnsemble(policy.EnsembleOptions{Preset: "uninflated", M: 4, Targets: targets}, p)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := e.Scale()*sd, beta/math.Sqrt(d); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("uninflated, %s: spread %v, expected β_0/√d = %v", targets, got, want)
		}
	}
	ts, err := policy.NewThompson(policy.ThompsonOptions{Preset: "uninflated"}, p)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ts.Scale(), beta/math.Sqrt(d); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("ts, uninflated: r_0 = %v, expected %v", got, want)
	}
	if ts, err := policy.NewThompson(policy.ThompsonOptions{Preset: "uninflated", Scale: policy.Constant(2)}, p); err != nil || ts.Scale() != 2 {
		t.Errorf("ts, uninflated at scale 2: %v", err)
	}
}

// TestMaxOverEnsemble compares select = "max" with the definition in rem:max-over-ensemble.
func TestMaxOverEnsemble(t *testing.T) {
	const d, m = 4, 5
	w := newWorld(8, d, 15)
	e, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Select: "max"}, w.problem(0))
	if err != nil {
		t.Fatal(err)
	}
	model := make([]float64, d)
	var want int
	best := func() {
		top := math.Inf(-1)
		for i, x := range w.arms {
			for j := range m {
				for _, sign := range []float64{1, -1} {
					e.Model(model, j, sign)
					if v := linalg.Dot(x, model); v > top {
						top, want = v, i
					}
				}
			}
		}
	}
	best()
	w.play(t, e, 200, func(round int, a *bandit.Action, _ float64) {
		if a.Index != want {
			t.Fatalf("round %d: arm %d, want %d", round, a.Index, want)
		}
		best()
	})
}

// TestSpanTrap: a finite set and m ≥ d give no warning; the ball with m < d, or no initial vectors,
// names the cure.
func TestSpanTrap(t *testing.T) {
	for _, c := range []struct {
		arms, m int
		init    string
		warn    bool
	}{{20, 3, "", false}, {0, 10, "", false}, {0, 9, "", true}, {0, 30, "none", true}} {
		w := newWorld(1, 10, c.arms)
		e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m, Init: c.init, OneSided: true}, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(e.Warnings(w.set()), " ")
		if (got != "") != c.warn || (c.warn && !strings.Contains(got, "m ≥ 2d = 20")) {
			t.Errorf("arms %d, m %d, init %q: warning %q", c.arms, c.m, c.init, got)
		}
	}
}

// TestRefusals: each bad option is named with its value.
func TestRefusals(t *testing.T) {
	good := newWorld(1, 3, 4).problem(100)
	for want, c := range map[string]struct {
		o policy.Options
		p policy.Problem
	}{
		"lambda is -1": {&policy.EnsembleOptions{Lambda: -1, OneSided: true}, good},
		"delta is 2":   {&policy.EnsembleOptions{Delta: 2, OneSided: true}, good},
		"m is -3":      {&policy.EnsembleOptions{M: -3, OneSided: true}, good},
		"m is 100000000, expected at least 1 and at most 89478485": {&policy.EnsembleOptions{M: 100_000_000, OneSided: true}, good},
		"dimension is 100000000":                                   {&policy.GreedyOptions{}, policy.Problem{Dim: 100_000_000}},
		`targets is "unifrom"`:                                     {&policy.EnsembleOptions{Targets: "unifrom", OneSided: true}, good},
		`did you mean "uniform"`:                                   {&policy.EnsembleOptions{Targets: "unifrom", OneSided: true}, good},
		`init is "zero"`:                                           {&policy.EnsembleOptions{Init: "zero", OneSided: true}, good},
		`select is "best"`:                                         {&policy.EnsembleOptions{Select: "best", OneSided: true}, good},
		"grow is 2, but":                                           {&policy.EnsembleOptions{Grow: 2, OneSided: true}, good},
		"grow is -1":                                               {&policy.EnsembleOptions{Growing: true, Grow: -1, OneSided: true}, good},
		`needs "gaussian"`:                                         {&policy.EnsembleOptions{Engine: "exact-law", OneSided: true}, good},
		`targets is "uniform", but`:                                {&policy.EnsembleOptions{Growing: true, Targets: "uniform", OneSided: true}, good},
		`m = "grow" needs "exact-law"`:                             {&policy.EnsembleOptions{Growing: true, Engine: "lazy", OneSided: true}, good},
		`one member in a round`:                                    {&policy.EnsembleOptions{Engine: "exact-law", Targets: "gaussian", Select: "max", OneSided: true}, good},
		"m is -3, expected at least 1":                             {&policy.IncrementalOptions{M: -3}, good},
		`engine is "fast"`:                                         {&policy.EnsembleOptions{Engine: "fast", OneSided: true}, good},
		`preset is "janz"`:                                         {&policy.EnsembleOptions{Preset: "janz", OneSided: true}, good},
		`preset is "uninflatd"; did you mean "uninflated"?`:        {&policy.ThompsonOptions{Preset: "uninflatd"}, good},
		`preset is "janz2026", which needs a known horizon`:        {&policy.EnsembleOptions{Preset: "janz2026", OneSided: true}, policy.Problem{Dim: 3}},
		`preset is "papr"`:                                         {&policy.EnsembleOptions{Preset: "papr", OneSided: true}, good},
		"needs a known horizon":                                    {&policy.EnsembleOptions{Preset: "paper", OneSided: true}, policy.Problem{Dim: 3}},
		"scale.value is NaN":                                       {&policy.EnsembleOptions{Scale: policy.Constant(math.NaN()), OneSided: true}, good},
		`scale.kind is "bta"`:                                      {&policy.EnsembleOptions{Scale: policy.Scale{Kind: "bta", Value: 1}, OneSided: true}, good},
		"needs a constant r":                                       {&policy.IncrementalOptions{Scale: policy.Scale{Kind: "beta", Value: 1}}, good},
		"needs a finite action":                                    {&policy.LeeOhOptions{}, policy.Problem{Dim: 3, Horizon: 10}},
		"dimension is 0":                                           {&policy.EnsembleOptions{OneSided: true}, policy.Problem{}},
		"noise level is -1":                                        {&policy.EnsembleOptions{OneSided: true}, policy.Problem{Dim: 1, Sigma: -1}},
	} {
		if _, err := c.o.New(c.p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, want)
		}
	}
}

// BenchmarkEnsemble plays configuration A of the numpy comparator, and others.
func BenchmarkEnsemble(b *testing.B) {
	for _, c := range []struct{ d, arms, m int }{{10, 10, 20}, {10, 50, 128}, {10, 0, 20}, {20, 100, 100}, {10, 0, 39_400}} {
		b.Run(fmt.Sprintf("d=%d,K=%d,m=%d", c.d, c.arms, c.m), func(b *testing.B) {
			w := newWorld(1, c.d, c.arms)
			e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m}, w.problem(0))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			w.play(b, e, b.N, nil)
		})
	}
}
