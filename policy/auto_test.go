package policy_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// goldenEvents are five events whose sums are known by hand.
var goldenEvents = []event{
	{bandit.Action{X: []float64{.6, .8}, Index: bandit.NoIndex}, 1},
	{bandit.Action{X: []float64{1, 0}, Index: bandit.NoIndex}, .2},
	{bandit.Action{X: []float64{0, 1}, Index: bandit.NoIndex}, .7},
	{bandit.Action{X: []float64{.6, -.8}, Index: bandit.NoIndex}, -.1},
	{bandit.Action{X: []float64{.8, .6}, Index: bandit.NoIndex}, .9},
}

// powers is the grid 2², …, 2⁻¹⁴.
func powers() (grid []float64) {
	for k := 2; k >= -14; k-- {
		grid = append(grid, math.Ldexp(1, k))
	}
	return grid
}

// TestEvidenceGolden: θ̂, RSS, σ̂² and the evidence of five events for five λ, and the λ that is chosen, to
// 1e-12. The numbers were computed with another program.
func TestEvidenceGolden(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
			t.Errorf("%s is %.17g, want %.17g", what, got, want)
		}
	}
	square := 0.0
	make1 := func() *linalg.Root {
		r := linalg.NewRoot(2, 1)
		square = 0
		for _, e := range goldenEvents {
			r.Update(e.x.X, e.y)
			square += e.y * e.y
		}
		return r
	}
	for _, c := range []struct{ lambda, t0, t1, rss, variance, evidence float64 }{
		{1, 0.358066666666667, 0.5352, 0.692598666666667, 0.157099777777778, 4.31016911985227},
		{0.5, 0.407634285714286, 0.612845714285714, 0.455621028571429, 0.117603504761905, 4.64363529394892},
		{0.25, 0.437852991452992, 0.660841025641026, 0.309751658119658, 0.093291943019943, 4.73497762405708},
		{0.125, 0.454671058823529, 0.687796705882353, 0.228051237647059, 0.0796752062745098, 4.56334590473712},
		{0x1p-6, 0.470457195646062, 0.713271092902759, 0.1509977774029, 0.0668329629004834, 3.05542529403215},
	} {
		r := make1()
		var variance, evidence float64
		w := r.NewReweigh([]float64{c.lambda}, func(logDet, explained float64) float64 {
			variance = (0.25 + square - explained) / 6
			evidence = -0.5 * (6*math.Log(variance) + logDet)
			return evidence
		})
		if !w.Apply() {
			t.Fatal("λ was refused")
		}
		near("θ̂_1", r.Theta()[0], c.t0)
		near("θ̂_2", r.Theta()[1], c.t1)
		near("RSS", square-r.Explained(), c.rss)
		near("σ̂²", variance, c.variance)
		near("the evidence", evidence, c.evidence)
	}
	r := make1()
	w := r.NewReweigh(powers(), func(logDet, explained float64) float64 {
		return -0.5 * (6*math.Log((0.25+square-explained)/6) + logDet)
	})
	w.Apply()
	if r.Lambda() != 0.25 {
		t.Errorf("λ = %v was chosen, want 0.25", r.Lambda())
	}
}

// oracle computes what Auto must hold from all events, with gonum: a spectral decomposition of ΣXXᵀ for
// the choice of λ at n = 16, 32, …, and the sums solved anew.
type autoOracle struct {
	d, n     int
	lambda   float64
	gram     *mat.SymDense
	b        *mat.VecDense
	square   float64
	prior    float64
	theta    []float64
	rss      float64
	triangle mat.Cholesky
}

func newAutoOracle(d int, prior float64) *autoOracle {
	return &autoOracle{d: d, lambda: 1, gram: mat.NewSymDense(d, nil), b: mat.NewVecDense(d, nil), prior: prior}
}

func (o *autoOracle) add(x []float64, y float64) {
	v := mat.NewVecDense(o.d, slices.Clone(x))
	o.gram.SymRankOne(o.gram, 1, v)
	o.b.AddScaledVec(o.b, y, v)
	o.square += y * y
	o.n++
	if o.n >= 16 && o.n&(o.n-1) == 0 {
		o.choose()
	}
	o.solve()
}

func (o *autoOracle) choose() {
	var e mat.EigenSym
	if !e.Factorize(o.gram, true) {
		panic("no eigenvalues")
	}
	var u mat.Dense
	e.VectorsTo(&u)
	var c mat.VecDense
	c.MulVec(u.T(), o.b)
	best, n := math.Inf(-1), 1+float64(o.n)
	for _, lambda := range powers() {
		rss, logDet := o.square, 0.0
		for i, v := range e.Values(nil) {
			rss -= c.AtVec(i) * c.AtVec(i) / (max(v, 0) + lambda)
			logDet += math.Log1p(max(v, 0) / lambda)
		}
		s := -0.5 * (n*math.Log((o.prior*o.prior+rss)/n) + logDet)
		if s > best+1e-9 {
			best, o.lambda = s, lambda
		}
	}
}

func (o *autoOracle) solve() {
	v := mat.NewSymDense(o.d, nil)
	v.CopySym(o.gram)
	for i := range o.d {
		v.SetSym(i, i, v.At(i, i)+o.lambda)
	}
	o.triangle.Factorize(v)
	var x mat.VecDense
	if err := o.triangle.SolveVecTo(&x, o.b); err != nil {
		panic(err)
	}
	o.theta = x.RawVector().Data
	o.rss = o.square - mat.Dot(&x, o.b)
}

func newAuto(t testing.TB, o policy.AutoOptions, p policy.Problem) *policy.Auto {
	t.Helper()
	a, err := policy.NewAuto(o, p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAutoIsItsFormula plays 300 rounds of three worlds, of noise 0.05, 0.5 and of one with a θ* near 0, and
// compares λ, θ̂, RSS, σ̂ and every model with the formulas, evaluated from scratch with gonum.
func TestAutoIsItsFormula(t *testing.T) {
	const d, m, n = 4, 3, 300
	seen := map[float64]bool{}
	for world, c := range []struct{ size, noise float64 }{{1, 0.05}, {1, 0.5}, {0.02, 0.3}} {
		w := newWorld(uint64(world), d, 9)
		prob := w.problem(0)
		prob.Sigma = 0.5
		a := newAuto(t, policy.AutoOptions{M: m, A: 0.8}, prob)
		o := newAutoOracle(d, 0.5)
		var x bandit.Action
		g, model := make([]float64, d), make([]float64, d)
		for round := range uint64(n) {
			draw := w.key.Stream(rng.Select).Round(round)
			if err := a.Select(&x, w, draw); err != nil {
				t.Fatal(err)
			}
			y := c.size*linalg.Dot(x.X, w.theta) + c.noise*w.key.Stream(rng.Reward).Round(round).Normal(0)
			if err := a.Update(x, y, rng.Source{}); err != nil {
				t.Fatal(err)
			}
			o.add(x.X, y)
			close := func(what string, got, want float64) {
				if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
					t.Fatalf("world %d, n = %d: %s is %v, want %v", world, round+1, what, got, want)
				}
			}
			close("λ", a.Root().Lambda(), o.lambda)
			seen[o.lambda] = true
			close("RSS", a.RSS(), o.rss)
			sigma := math.Sqrt((0.25 + o.rss) / (1 + float64(o.n)))
			close("σ̂", a.Sigma(), sigma)
			s := sums{chol: o.triangle}
			for j := range m {
				scale := 0.8 * sigma
				if j == 0 {
					scale = 0.8 * 0.5
				}
				prob.Init.Sub(round).Round(uint64(j)).Normals(g, 0)
				member := s.triangular(g)
				a.Model(model, round, j, -1)
				for i := range model {
					close("a model", model[i], o.theta[i]-scale*member[i])
				}
			}
		}
	}
	if len(seen) < 4 {
		t.Errorf("only the λ %v were chosen: the worlds test little", seen)
	}
}

// TestAutoMerge: two halves of a log, merged, have the sums of the whole and λ from them; so the same
// members at n = 64, where the whole has just chosen too.
func TestAutoMerge(t *testing.T) {
	const d, n = 5, 64
	w := newWorld(8, d, 12)
	log := record(t, w, newAuto(t, policy.AutoOptions{}, w.problem(0)), n)
	whole, first, second := newAuto(t, policy.AutoOptions{}, w.problem(0)), newAuto(t, policy.AutoOptions{}, w.problem(0)), newAuto(t, policy.AutoOptions{}, w.problem(0))
	feed(t, whole, log)
	feed(t, first, log[:41])
	feed(t, second, log[41:])
	if first.Root().Lambda() == whole.Root().Lambda() && second.Root().Lambda() == whole.Root().Lambda() {
		t.Error("the parts have the λ of the whole: the test tests little")
	}
	if err := first.Merge(second); err != nil {
		t.Fatal(err)
	}
	a, b := make([]float64, d), make([]float64, d)
	whole.Model(a, 3, 1, 1)
	first.Model(b, 3, 1, 1)
	if whole.Root().Lambda() != first.Root().Lambda() || first.Root().Len() != n || math.Abs(whole.RSS()-first.RSS()) > 1e-9 {
		t.Errorf("λ %v and RSS %v after a merge, want %v and %v", first.Root().Lambda(), first.RSS(), whole.Root().Lambda(), whole.RSS())
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-9 {
			t.Fatalf("a model is %v after a merge, want %v", b, a)
		}
	}
	other := newAuto(t, policy.AutoOptions{M: 7}, w.problem(0))
	if first.Merge(other) == nil {
		t.Error("a policy with another m was merged")
	}
	unit := newAuto(t, policy.AutoOptions{Link: "auto"}, w.problem(0))
	if err := unit.Merge(newAuto(t, policy.AutoOptions{Link: "auto"}, w.problem(0))); err == nil || !strings.Contains(err.Error(), "replay the merged log") {
		t.Errorf("merge with two links: %v", err)
	}
}

// TestAutoDeferred: a choice of λ that is computed elsewhere, on another goroutine in slices, or by the next
// call, gives the bits of one that Update makes.
func TestAutoDeferred(t *testing.T) {
	const d, n = 7, 600
	w := newWorld(3, d, 12)
	for _, link := range []string{"linear", "auto"} {
		o := policy.AutoOptions{Link: link}
		log := record(t, w, newAuto(t, policy.AutoOptions{}, w.problem(0)), n)
		for i := range log {
			log[i].y = min(max(log[i].y, 0), 1)
		}
		direct, late, lazy := newAuto(t, o, w.problem(0)), newAuto(t, o, w.problem(0)), newAuto(t, o, w.problem(0))
		late.Defer(true)
		lazy.Defer(true)
		choices := 0
		for i, e := range log {
			feed(t, direct, []event{e})
			feed(t, late, []event{e})
			feed(t, lazy, []event{e})
			if c := late.Pending(); c != nil {
				choices++
				done := make(chan bool)
				go func() {
					for !c.Step() {
					}
					done <- true
				}()
				if i%2 == 0 {
					<-done
				} else {
					defer func() { <-done }() // Step and the next call race for the slices
				}
			}
			if i%100 != 99 && i != 15 {
				continue
			}
			a, err1 := direct.AppendSnapshot(nil)
			b, err2 := late.AppendSnapshot(nil)
			c, err3 := lazy.AppendSnapshot(nil)
			if err1 != nil || err2 != nil || err3 != nil || !bytes.Equal(a, b) || !bytes.Equal(a, c) {
				t.Fatalf("link %s, n = %d: the snapshots differ", link, i+1)
			}
		}
		if choices != 6 {
			t.Errorf("%d choices of λ in %d updates, want 6", choices, n)
		}
	}
}

// TestAutoScale: with rewards and their range 1024 times as large, the same actions.
func TestAutoScale(t *testing.T) {
	w := newWorld(5, 4, 8)
	small, large := w.problem(0), w.problem(0)
	small.Sigma, large.Sigma = 0.5, 512
	a, b := newAuto(t, policy.AutoOptions{}, small), newAuto(t, policy.AutoOptions{}, large)
	var x, z bandit.Action
	for i := range uint64(400) {
		draw := w.key.Stream(rng.Select).Round(i)
		if a.Select(&x, w, draw) != nil || b.Select(&z, w, draw) != nil || x.Index != z.Index {
			t.Fatalf("round %d: arm %d, with other units %d", i, x.Index, z.Index)
		}
		y := linalg.Dot(x.X, w.theta) + 0.3*w.key.Stream(rng.Reward).Round(i).Normal(0)
		if a.Update(x, y, draw) != nil || b.Update(z, 1024*y, draw) != nil {
			t.Fatal("an update failed")
		}
	}
}

// TestAutoGuard: where all rewards are alike σ̂ goes to 0 and the guard still explores. Two arms, of which
// the first one is known and always pays 0.01: within 2000 rounds the second one is played in each of 40
// runs. Without exploration, a = 10⁻⁶, it is not.
func TestAutoGuard(t *testing.T) {
	count := func(a float64) (found int) {
		for run := range uint64(40) {
			w := newWorld(run, 2, 2)
			w.arms = [][]float64{{1, 0}, {0, 1}}
			prob := w.problem(0)
			prob.Sigma = 0.5
			p := newAuto(t, policy.AutoOptions{A: a}, prob)
			feed(t, p, []event{{bandit.Action{X: w.arms[0], Index: 0}, 0.01}})
			var x bandit.Action
			for i := range uint64(2000) {
				if err := p.Select(&x, w, w.key.Stream(rng.Select).Round(i)); err != nil {
					t.Fatal(err)
				}
				if x.Index == 1 {
					found++
					break
				}
				if err := p.Update(x, 0.01, rng.Source{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return found
	}
	if n := count(1); n != 40 {
		t.Errorf("%d of 40 runs tried the second arm", n)
	}
	if n := count(1e-6); n > 20 {
		t.Errorf("with no exploration %d of 40 runs tried the second arm: the test tests little", n)
	}
}

// TestAutoLink: with link = "auto" the logistic model plays where it predicts better by one per cent, the
// sums of squared errors are those of predictions made before learning, and a reward outside [0, 1] or a
// declared range other than [0, 1] is refused by name.
func TestAutoLink(t *testing.T) {
	const d = 3
	w := newWorld(11, d, 6)
	prob := w.problem(0)
	prob.Sigma = 0.5
	a := newAuto(t, policy.AutoOptions{Link: "auto", BaseRate: 0.2}, prob)
	lin := newAuto(t, policy.AutoOptions{}, prob)
	logit, err := policy.NewLogistic(policy.LogisticOptions{BaseRate: 0.2}, prob)
	if err != nil {
		t.Fatal(err)
	}
	var x bandit.Action
	var sums [2]float64
	links := map[string]int{}
	model, other := make([]float64, d), make([]float64, d)
	for i := range uint64(800) {
		draw := w.key.Stream(rng.Select).Round(i)
		if err := a.Select(&x, w, draw); err != nil {
			t.Fatal(err)
		}
		y := 0.0
		if w.key.Stream(rng.Reward).Round(i).Float64(0) < 1/(1+math.Exp(3-6*linalg.Dot(x.X, w.theta))) {
			y = 1
		}
		for k, p := range []float64{linalg.Dot(x.X, lin.Root().Theta()), logit.Mean(x.X)} {
			sums[k] += (y - p) * (y - p)
		}
		for _, p := range []bandit.Policy{a, lin, logit} {
			if err := p.Update(x, y, draw); err != nil {
				t.Fatal(err)
			}
		}
		e0, e1 := a.Errors()
		if math.Abs(e0-sums[0]) > 1e-9 || math.Abs(e1-sums[1]) > 1e-9 {
			t.Fatalf("n = %d: errors %v and %v, want %v", i+1, e0, e1, sums)
		}
		want := "linear"
		if sums[1] < 0.99*sums[0] {
			want = "logistic"
		}
		if a.Link() != want {
			t.Fatalf("n = %d: %s plays, want %s at errors %v", i+1, a.Link(), want, sums)
		}
		links[want]++
		a.Model(model, i, 1, 1)
		if want == "logistic" {
			logit.Model(other, i, 1, 1)
		} else {
			lin.Model(other, i, 1, 1)
		}
		if !slices.Equal(model, other) {
			t.Fatalf("n = %d: the %s model is %v, want %v", i+1, want, model, other)
		}
	}
	if links["linear"] < 5 || links["logistic"] < 5 {
		t.Errorf("models that played: %v; the test tests little", links)
	}
	if err := a.Update(x, 1.5, rng.Source{}); err == nil || !strings.Contains(err.Error(), "reward is 1.5") {
		t.Errorf("reward 1.5: %v", err)
	}
	prob.Low, prob.High = -1, 1
	if _, err := policy.NewAuto(policy.AutoOptions{Link: "auto"}, prob); err == nil || !strings.Contains(err.Error(), "[-1, 1]: send (reward − -1)/2") {
		t.Errorf("range [-1, 1]: %v", err)
	}
}

// TestAutoRefusals: each bad option is named with its value.
func TestAutoRefusals(t *testing.T) {
	good := newWorld(1, 3, 4).problem(100)
	ranged := good
	ranged.Low, ranged.High = 0, 5
	for want, c := range map[string]struct {
		o policy.Options
		p policy.Problem
	}{
		"a is -1":                              {&policy.AutoOptions{A: -1}, good},
		"guard is 33, expected 1 to m = 32":    {&policy.AutoOptions{Guard: 33}, good},
		`link is "logit"`:                      {&policy.AutoOptions{Link: "logit"}, good},
		`key is "epok"; did you mean "epoch"?`: {&policy.AutoOptions{Key: "epok"}, good},
		"m is -2":                              {&policy.LogisticOptions{M: -2}, good},
		"lambda is -1":                         {&policy.LogisticOptions{Lambda: -1}, good},
		"base_rate is 1, expected a number above 0 and below 1": {&policy.LogisticOptions{BaseRate: 1}, good},
		"the declared range is [0, 5]: send (reward − 0)/5":     {&policy.LogisticOptions{}, ranged},
	} {
		if _, err := c.o.New(c.p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, want)
		}
	}
	if _, err := spec.Decode(policy.Kinds, spec.Raw{"kind": "auto", "scale": 2.0}, "policy"); err == nil {
		t.Error("auto has a scale")
	}
}
