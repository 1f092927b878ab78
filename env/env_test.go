package env

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/dataset"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
)

// level is the probability that one statistical test of this package fails although all is well
// (seeds are fixed, so it was spent once). Samples are n numbers unless said otherwise.
const (
	level = 1e-9
	n     = 100_000
)

func key(i uint64) rng.Key { return rng.NewKey(20_24).At(i) }

// dkw checks that a sample has the continuous law with the given distribution function: by the
// Dvoretzky-Kiefer-Wolfowitz inequality in Massart's form, P(sup|F_n − F| > ε) ≤ 2exp(−2nε²). With
// n = 10⁵ and level 1e-9 ε is 0.0104: a scale that is wrong by 5 % is caught for a normal law.
func dkw(t *testing.T, what string, sample []float64, cdf func(float64) float64) {
	t.Helper()
	sort.Float64s(sample)
	m := float64(len(sample))
	eps := math.Sqrt(math.Log(2/level) / (2 * m))
	worst := 0.0
	for i, v := range sample {
		f := cdf(v)
		worst = max(worst, f-float64(i)/m, float64(i+1)/m-f)
	}
	if !(worst <= eps) {
		t.Errorf("%s: sup|F_n − F| = %.4g, expected at most %.4g (n = %d, level %g)", what, worst, eps, len(sample), level)
	}
}

// hoeffding checks the mean of a sample in [lo, hi]: P(|mean − μ| > ε) ≤ 2exp(−2nε²/(hi−lo)²).
func hoeffding(t *testing.T, what string, sample []float64, lo, hi, mu float64) {
	t.Helper()
	var sum float64
	for _, v := range sample {
		if v < lo || v > hi {
			t.Fatalf("%s: %v is outside [%v, %v]", what, v, lo, hi)
		}
		sum += v
	}
	m := float64(len(sample))
	eps := (hi - lo) * math.Sqrt(math.Log(2/level)/(2*m))
	if d := math.Abs(sum/m - mu); !(d <= eps) {
		t.Errorf("%s: mean %.5g, expected %.5g ± %.3g (n = %d, level %g)", what, sum/m, mu, eps, len(sample), level)
	}
}

func pay(law Law, mean float64) []float64 {
	s := make([]float64, n)
	stream := key(1).Stream(rng.Reward)
	for i := range s {
		s[i] = law.Pay(mean, stream.Round(uint64(i+1)))
	}
	return s
}

// Every noise has its law around every mean.
func TestNoiseLaws(t *testing.T) {
	const mean = 0.3
	normal := func(sd float64) func(float64) float64 { return distuv.Normal{Mu: mean, Sigma: sd}.CDF }
	uniform := func(h float64) func(float64) float64 { return distuv.Uniform{Min: mean - h, Max: mean + h}.CDF }
	student := func(df, s float64) func(float64) float64 {
		return distuv.StudentsT{Mu: mean, Sigma: s, Nu: df}.CDF
	}
	for _, c := range []struct {
		name string
		law  Law
		cdf  func(float64) float64
	}{
		{"gaussian 1", &Gaussian{Std: 1}, normal(1)},
		{"gaussian 0.5", &Gaussian{Std: 0.5}, normal(0.5)},
		{"uniform", &Uniform{}, uniform(1)},
		{"uniform half_width 2", &Uniform{HalfWidth: 2}, uniform(2)},
		{"uniform sigma 1", &Uniform{Std: 1}, uniform(math.Sqrt(3))},
		{"student-t 5", &StudentT{DF: 5, Scale: 1}, student(5, 1)},
		{"student-t 1.5, scale 2", &StudentT{DF: 1.5, Scale: 2}, student(1.5, 2)},
		{"student-t 1e6", &StudentT{DF: 1e6, Scale: 1}, normal(1)},
	} {
		dkw(t, c.name, pay(c.law, mean), c.cdf)
	}
	r := pay(&Rademacher{Std: 2}, mean)
	for _, v := range r {
		if v != mean+2 && v != mean-2 {
			t.Fatalf("rademacher paid %v around %v", v, mean)
		}
	}
	hoeffding(t, "rademacher", r, mean-2, mean+2, mean)
	for _, mu := range []float64{-1, -0.4, 0, 0.3, 1} {
		s := pay(&Bernoulli{Values: "plus-minus"}, mu)
		for _, v := range s {
			if v != 1 && v != -1 {
				t.Fatalf("bernoulli plus-minus paid %v", v)
			}
		}
		hoeffding(t, "bernoulli plus-minus", s, -1, 1, mu)
	}
	for _, mu := range []float64{0, 0.3, 1} {
		s := pay(&Bernoulli{Values: "zero-one"}, mu)
		for _, v := range s {
			if v != 1 && v != 0 {
				t.Fatalf("bernoulli zero-one paid %v", v)
			}
		}
		hoeffding(t, "bernoulli zero-one", s, 0, 1, mu)
	}
	for i, v := range pay(&None{}, mean)[:10] {
		if v != mean {
			t.Errorf("none, round %d: %v", i+1, v)
		}
	}
}

// The stated σ is a subgaussian constant: log E exp(sZ) ≤ s²σ²/2 for the exact moment generating
// function on a grid of s, and it is not more than a per mille too large, for some s, where it is
// claimed to be best (the variance of the hardest mean).
func TestNoiseSigma(t *testing.T) {
	two := func(lo, hi, mu float64) func(float64) float64 { // two values with mean μ, centred
		p := (mu - lo) / (hi - lo)
		return func(s float64) float64 { return p*math.Exp(s*(hi-mu)) + (1-p)*math.Exp(s*(lo-mu)) }
	}
	type mgf = func(float64) float64
	for _, c := range []struct {
		name string
		law  Law
		mgfs []mgf
	}{
		{"gaussian", &Gaussian{Std: 0.7}, []mgf{func(s float64) float64 { return math.Exp(s * s * 0.49 / 2) }}},
		{"uniform", &Uniform{HalfWidth: 2}, []mgf{func(s float64) float64 { return math.Sinh(2*s) / (2 * s) }}},
		{"uniform sigma", &Uniform{Std: 1}, []mgf{func(s float64) float64 { return math.Sinh(math.Sqrt(3)*s) / (math.Sqrt(3) * s) }}},
		{"rademacher", &Rademacher{Std: 2}, []mgf{func(s float64) float64 { return math.Cosh(2 * s) }}},
		{"plus-minus", &Bernoulli{Values: "plus-minus"}, []mgf{two(-1, 1, -0.9), two(-1, 1, 0), two(-1, 1, 0.5)}},
		{"zero-one", &Bernoulli{Values: "zero-one"}, []mgf{two(0, 1, 0.01), two(0, 1, 0.5), two(0, 1, 0.8)}},
	} {
		sigma, ok := c.law.Sigma()
		if !ok {
			t.Errorf("%s: no subgaussian constant", c.name)
		}
		tight := math.Inf(1)
		for _, m := range c.mgfs {
			for s := -8.0; s <= 8; s += 0.03125 {
				if s == 0 {
					continue
				}
				gap := s*s*sigma*sigma/2 - math.Log(m(s))
				if gap < -1e-12 {
					t.Errorf("%s: log E exp(%vZ) = %v is above s²σ²/2 = %v", c.name, s, math.Log(m(s)), s*s*sigma*sigma/2)
				}
				tight = min(tight, gap/(s*s*sigma*sigma/2))
			}
		}
		if tight > 1e-3 {
			t.Errorf("%s: σ = %v is too large by a factor of √%v at least", c.name, sigma, 1/(1-tight))
		}
	}
	for _, c := range []struct {
		law  *StudentT
		want float64
	}{{&StudentT{DF: 4, Scale: 3}, 3 * math.Sqrt2}, {&StudentT{DF: 2, Scale: 3}, 3}} {
		if s, ok := c.law.Sigma(); ok || math.Abs(s-c.want) > 1e-15*c.want {
			t.Errorf("%+v: Sigma %v, %v; want the scale %v and false", *c.law, s, ok, c.want)
		}
		if len(c.law.Notes()) == 0 {
			t.Error("student-t is not marked")
		}
	}
}

// build makes a linear environment or fails the test.
func build(t *testing.T, o Options, k rng.Key) bandit.Environment {
	t.Helper()
	e, err := o.Build(k, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// θ* has the law that was asked for: n/5 replications in d = 5.
func TestThetaLaws(t *testing.T) {
	const d = 5
	draw := func(change func(*LinearOptions)) [][]float64 {
		o := NewLinear()
		o.D = d
		change(o)
		thetas := make([][]float64, n/5)
		for i := range thetas {
			thetas[i] = build(t, o, key(uint64(i))).(Truth).Theta()
		}
		return thetas
	}
	each := func(thetas [][]float64, f func(theta []float64) float64) []float64 {
		s := make([]float64, len(thetas))
		for i := range s {
			s[i] = f(thetas[i])
		}
		return s
	}
	first := func(theta []float64) float64 { return theta[0] }

	sphere := draw(func(o *LinearOptions) { o.Norm = 2 })
	for _, theta := range sphere {
		if math.Abs(linalg.Norm(theta)-2) > 1e-14 {
			t.Fatalf("sphere: norm %v, want 2", linalg.Norm(theta))
		}
	}
	// (θ_1/2 + 1)/2 of the sphere in ℝ^d is Beta((d−1)/2, (d−1)/2).
	beta := distuv.Beta{Alpha: (d - 1) / 2., Beta: (d - 1) / 2.}
	dkw(t, "sphere θ_1", each(sphere, first), func(x float64) float64 { return beta.CDF((x/2 + 1) / 2) })

	ball := draw(func(o *LinearOptions) { o.Theta, o.Norm = "ball", 0.5 })
	dkw(t, "ball (‖θ‖/norm)^d", each(ball, func(x []float64) float64 { return math.Pow(linalg.Norm(x)/0.5, d) }), distuv.UnitUniform.CDF)

	gauss := draw(func(o *LinearOptions) { o.Theta = "gaussian" })
	dkw(t, "gaussian θ_1, default", each(gauss, first), distuv.Normal{Sigma: 1 / math.Sqrt(d)}.CDF)
	gauss = draw(func(o *LinearOptions) { o.Theta, o.SigmaTheta = "gaussian", 3 })
	dkw(t, "gaussian θ_1, 3", each(gauss, first), distuv.Normal{Sigma: 3}.CDF)
	dkw(t, "gaussian ‖θ‖²/9", each(gauss, func(x []float64) float64 { return linalg.Dot(x, x) / 9 }), distuv.ChiSquared{K: d}.CDF)

	clipped := draw(func(o *LinearOptions) { o.Theta, o.SigmaTheta, o.Clip = "gaussian", 3, true })
	long := 0
	for i, theta := range clipped {
		r := linalg.Norm(theta)
		if r > 1+1e-14 {
			t.Fatalf("clipped: norm %v", r)
		}
		if r0 := linalg.Norm(gauss[i]); r0 > 1 {
			long++
			if math.Abs(r-1) > 1e-14 || math.Abs(linalg.Dot(theta, gauss[i])-r0) > 1e-12*r0 {
				t.Fatalf("clipped: %v from %v", theta, gauss[i])
			}
		}
	}
	if long == 0 {
		t.Error("clipping was not tested")
	}
	given := draw(func(o *LinearOptions) { o.Theta, o.Value = "given", []float64{1, 0, 2, 0, 3} })
	if !slices.Equal(given[7], []float64{1, 0, 2, 0, 3}) {
		t.Errorf("given: %v", given[7])
	}
}

// set decodes a table, as an experiment file would.
func set(t *testing.T, raw spec.Raw) actionset.Spec {
	t.Helper()
	var s actionset.Spec
	if err := s.DecodeSpec(raw, "set"); err != nil {
		t.Fatal(err)
	}
	return s
}

// Regret is 0 at the best action and not negative anywhere, for every kind of set, with and without
// drift; finite sets are enumerated, others are asked in random directions.
func TestRegret(t *testing.T) {
	kinds := map[string]spec.Raw{
		"polytope":  {"a": []any{[]any{1.0, 1.0, 1.0, 1.0}, []any{-1.0, 0.0, 0.0, 0.0}, []any{0.0, -1.0, 0.0, 0.0}, []any{0.0, 0.0, -1.0, 0.0}, []any{0.0, 0.0, 0.0, -1.0}}, "b": []any{1.0, 0.0, 0.0, 0.0, 0.0}},
		"ellipsoid": {"axes": []any{1.0, 0.5, 0.2, 0.1}},
		"finite":    {"arms": []any{[]any{1.0, 0.0, 0.0, 0.0}, []any{0.0, 0.6, 0.8, 0.0}, []any{0.0, 0.0, 0.0, -1.0}}},
	}
	for _, kind := range spec.Names(actionset.Kinds) {
		raw := spec.Raw{"kind": kind}
		for k, v := range kinds[kind] {
			raw[k] = v
		}
		variants := []spec.Raw{raw}
		if strings.HasPrefix(kind, "random-") {
			variants = append(variants, spec.Raw{"kind": kind, "arms": int64(7), "redraw": true})
		}
		for _, raw := range variants {
			for _, drift := range []float64{0, 0.1} {
				o := NewLinear()
				o.Set, o.Drift = set(t, raw), drift
				if d, err := o.Set.Dim(0); err == nil {
					o.D = d
				} else {
					o.D = 4
				}
				e := build(t, o, key(3))
				truth := e.(Truth)
				var a bandit.Action
				dir := make([]float64, e.Dim())
				for round := uint64(1); round <= 20; round++ {
					offered, err := e.Offer(key(3).Stream(rng.Offer).Round(round))
					if err != nil {
						t.Fatal(err)
					}
					top, err := offered.ArgMax(&a, truth.Theta())
					if err != nil {
						t.Fatal(err)
					}
					if r, err := e.Regret(a); r != 0 || err != nil {
						t.Errorf("%v drift %v round %d: regret %v of the best action, %v", raw, drift, round, r, err)
					}
					others := [][]float64{}
					if f, ok := offered.(bandit.Finite); ok {
						for i := range min(f.Len(), 50) {
							others = append(others, f.At(i))
						}
					} else {
						key(4).Stream(rng.Instance).Round(round).Sphere(dir, 0)
						if _, err := offered.ArgMax(&a, dir); err != nil {
							t.Fatal(err)
						}
						others = append(others, a.X)
					}
					for i, x := range others {
						r, err := e.Regret(bandit.Action{X: x, Index: i})
						if want := top - linalg.Dot(x, truth.Theta()); err != nil || r < 0 || math.Abs(r-want) > 1e-12 {
							t.Errorf("%v drift %v: regret %v of %v, want %v, %v", raw, drift, r, x, want, err)
						}
					}
				}
			}
		}
	}
}

// An action that is better than the best is not in the set.
func TestRegretOutside(t *testing.T) {
	o := NewLinear()
	o.D, o.Theta, o.Value = 2, "given", []float64{0, 1}
	e := build(t, o, key(1))
	offer(t, e, key(1), 1)
	if _, err := e.Regret(bandit.Action{X: []float64{0, 1.1}, Index: bandit.NoIndex}); err == nil || !strings.Contains(err.Error(), "not in the set") {
		t.Errorf("error %v", err)
	}
	if _, err := e.Reward(bandit.Action{X: []float64{0, math.NaN()}}, rng.Source{}); !errors.Is(err, bandit.ErrNotFinite) {
		t.Errorf("error %v", err)
	}
	for what, f := range map[string]func(){
		"wrong length":       func() { e.Reward(bandit.Action{X: []float64{1}}, rng.Source{}) },
		"before first offer": func() { build(t, o, key(1)).Regret(bandit.Action{X: []float64{1, 0}}) },
	} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "env: ") {
					t.Errorf("%s: panic %v", what, s)
				}
			}()
			f()
		}()
	}
}

func offer(t *testing.T, e bandit.Environment, k rng.Key, round uint64) bandit.ActionSet {
	t.Helper()
	s, err := e.Offer(k.Stream(rng.Offer).Round(round))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// flat copies the arms of a finite set.
func flat(s bandit.ActionSet) []float64 {
	f := s.(bandit.Finite)
	var out []float64
	for i := range f.Len() {
		out = append(out, f.At(i)...)
	}
	return out
}

// trace plays arm t mod K for 30 rounds and returns everything that was seen.
func trace(t *testing.T, e bandit.Environment, k rng.Key) []float64 {
	t.Helper()
	var out []float64
	for round := uint64(1); round <= 30; round++ {
		s := offer(t, e, k, round)
		var a bandit.Action
		if f, ok := s.(bandit.Finite); ok {
			out = append(out, flat(s)...)
			i := int(round) % f.Len()
			a.Set(f.At(i), i)
		} else if _, err := s.ArgMax(&a, unitVector(e.Dim(), int(round)%e.Dim())); err != nil {
			t.Fatal(err)
		}
		y, err := e.Reward(a, k.Stream(rng.Reward).Round(round))
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Regret(a)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, y, r)
	}
	return out
}

func unitVector(d, i int) []float64 {
	x := make([]float64, d)
	x[i] = 1
	return x
}

// all lists one environment of each kind and variant.
func all(t *testing.T) map[string]Options {
	random := func(redraw bool) actionset.Spec {
		return actionset.Spec{Kind: "random-sphere", Builder: &actionset.RandomSphereOptions{Arms: 6, Again: redraw}}
	}
	linear := func(change func(*LinearOptions)) *LinearOptions {
		o := NewLinear()
		o.D = 3
		change(o)
		return o
	}
	russo := NewRusso()
	russo.D, russo.Arms, russo.AllArms = 8, 5, 23
	moving, still := NewSphereContexts(), NewSphereContexts()
	still.Fixed = true
	block, shared, mushroom := NewClassification(), NewClassification(), NewClassification()
	for _, o := range []*ClassificationOptions{block, shared, mushroom} {
		o.Data = rowsFile(t)
	}
	shared.Features = "shared"
	mushroom.Data, mushroom.Reward = mushroomFile(t), "mushroom"
	clicked, redrawn, contextual := NewClicks(), NewClicks(), NewClicks()
	redrawn.Actions, contextual.Actions, contextual.Features = "redrawn", "block", 4
	list := func(clicks string, change func(*ListOptions)) *ListOptions {
		o := NewList()
		o.Clicks, o.Items, o.Positions, o.Segments = clicks, 6, 3, 2
		change(o)
		return o
	}
	same := func(*ListOptions) {}
	curve := func(curve, noise string) *NumberOptions {
		o := NewNumber()
		o.Curve, o.Noise, o.Cells = curve, noise, 16
		return o
	}
	return map[string]Options{
		"number demand":  curve("demand", ""),
		"number peak":    curve("peak", ""),
		"number heavy":   curve("parabola", "gauss"),
		"number cliff":   curve("cliff", ""),
		"number cyclic":  curve("cyclic", ""),
		"number ridge":   curve("ridge", "binary"),
		"number step":    curve("threshold", "gauss"),
		"number auction": curve("auction", "binary"),
		"list pbm":       list("pbm", func(o *ListOptions) { o.Examination = []float64{.3, 1, .6} }),
		"list rare":      list("pbm", func(o *ListOptions) { o.Rare = true }),
		"list told":      list("cascade", func(o *ListOptions) { o.Attraction = []float64{.5, .1, .2, .3, .4, 0} }),
		"list dcm":       list("dcm", same),
		"list place":     list("place", same),
		"list repeat":    list("repeat", same),
		"list whole":     list("whole", same),
		"list page":      list("page", same),
		"clicks":         clicked,
		"clicks redrawn": redrawn,
		"clicks block":   contextual,
		"ball":           linear(func(*LinearOptions) {}),
		"arms":           linear(func(o *LinearOptions) { o.Set = random(false) }),
		"redraw":         linear(func(o *LinearOptions) { o.Set = random(true) }),
		"drift":          linear(func(o *LinearOptions) { o.Drift = 0.3 }),
		"misspecified":   linear(func(o *LinearOptions) { o.Set, o.Misspecification = random(false), 0.5 }),
		"all at once":    linear(func(o *LinearOptions) { o.Set, o.Misspecification, o.Drift = random(true), 0.5, 0.2 }),
		"bernoulli":      linear(func(o *LinearOptions) { o.Noise = Noise{Kind: "bernoulli", Law: &Bernoulli{Values: "plus-minus"}} }),
		"heavy tails":    linear(func(o *LinearOptions) { o.Noise = Noise{Kind: "student-t", Law: &StudentT{DF: 3, Scale: 1}} }),
		"russo":          russo,
		"contexts":       moving,
		"fixed context":  still,
		"block":          block,
		"shared":         shared,
		"mushroom":       mushroom,
	}
}

// Two environments with the same key are the same; another key gives another. Offering again, in
// any order of rounds, gives the same sets.
func TestSameKey(t *testing.T) {
	var data dataset.Source
	for name, o := range all(t) {
		make := func(k rng.Key) bandit.Environment {
			e, err := o.Build(k, &data)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return e
		}
		e := make(key(1))
		first := trace(t, e, key(1))
		if !slices.Equal(first, trace(t, make(key(1)), key(1))) {
			t.Errorf("%s: the same key gave another environment", name)
		}
		if slices.Equal(first, trace(t, make(key(2)), key(2))) {
			t.Errorf("%s: another key gave the same environment", name)
		}
		if !slices.Equal(first, trace(t, e, key(1))) {
			t.Errorf("%s: rounds 1 to 30 were not the same when asked for again", name)
		}
		if e.Dim() != offer(t, e, key(1), 1).Dim() {
			t.Errorf("%s: dimension %d of the environment, %d of the set", name, e.Dim(), offer(t, e, key(1), 1).Dim())
		}
	}
}

// Settle is Reward and Regret, bit for bit, in the rounds of a run, in rounds that are asked for again,
// and where an action is refused.
func TestSettle(t *testing.T) {
	var data dataset.Source
	settlers := 0
	for name, o := range all(t) {
		apart, err := o.Build(key(1), &data)
		if err != nil {
			t.Fatal(err)
		}
		e, err := o.Build(key(1), &data)
		if err != nil {
			t.Fatal(err)
		}
		together, ok := e.(bandit.Settler)
		if !ok {
			continue
		}
		settlers++
		theta := make([]float64, e.Dim())
		for _, round := range []uint64{1, 2, 3, 3, 40, 2} {
			s, same := offer(t, apart, key(1), round), offer(t, e, key(1), round)
			var a, b bandit.Action
			key(7).Stream(rng.Select).Round(round).Normals(theta, 0)
			for _, err := range []error{second(s.ArgMax(&a, theta)), second(same.ArgMax(&b, theta))} {
				if err != nil {
					t.Fatal(err)
				}
			}
			draw := key(1).Stream(rng.Reward).Round(round)
			y, err1 := apart.Reward(a, draw)
			r, err2 := apart.Regret(a)
			gotY, gotR, err := together.Settle(b, draw)
			if gotY != y || gotR != r || err1 != nil || err2 != nil || err != nil {
				t.Errorf("%s, round %d: Settle says %v, %v, %v, Reward and Regret %v, %v, %v, %v", name, round, gotY, gotR, err, y, r, err1, err2)
			}
			for _, factor := range []float64{math.Inf(1), 1e9} { // not in the set
				a.X[0], b.X[0] = factor, factor
				_, err1 := apart.Reward(a, draw)
				_, err2 := apart.Regret(a)
				if _, _, err := together.Settle(b, draw); (err == nil) != (err1 == nil && err2 == nil) {
					t.Errorf("%s, round %d: Settle of %v gives the error %v, Reward and Regret %v and %v", name, round, b.X, err, err1, err2)
				}
			}
		}
	}
	if settlers < 5 {
		t.Errorf("%d environments have Settle", settlers)
	}
}

func second(_ float64, err error) error { return err }

// Every kind and variant keeps the contract of an environment.
func TestConformance(t *testing.T) {
	var data dataset.Source
	for name, o := range all(t) {
		t.Run(name, func(t *testing.T) {
			bandittest.TestEnvironment(t, func(k rng.Key) (bandit.Environment, error) { return o.Build(k, &data) }, bandittest.EnvironmentConfig{})
		})
	}
}

// Fixed sets are offered as the same value; redrawn ones differ from round to round.
func TestOffer(t *testing.T) {
	for name, same := range map[string]bool{"ball": true, "arms": true, "drift": true, "misspecified": true, "fixed context": true, "redraw": false, "contexts": false} {
		e := build(t, all(t)[name], key(1))
		a, b := offer(t, e, key(1), 1), offer(t, e, key(1), 2)
		if (a == b) != same {
			t.Errorf("%s: two rounds offer the same value: %v, want %v", name, a == b, same)
		}
		if !same && slices.Equal(flat(a), flat(b)) {
			t.Errorf("%s: equal arms in two rounds", name)
		}
	}
}

// θ_t turns by ω in each round in a plane, at constant length: ∠(θ_t, θ_{t+1}) = ω and
// θ_{t−1} + θ_{t+1} = 2cos(ω)θ_t; it begins with the θ* of the environment without drift.
func TestDrift(t *testing.T) {
	const omega = 0.25
	o := NewLinear()
	o.D, o.Norm = 6, 0.8
	start := build(t, o, key(5)).(Truth).Theta()
	o.Drift = omega
	e := build(t, o, key(5))
	var theta [][]float64
	for round := uint64(1); round <= 40; round++ {
		offer(t, e, key(5), round)
		theta = append(theta, slices.Clone(e.(Truth).Theta()))
	}
	for i, v := range start {
		if math.Abs(theta[0][i]-v) > 1e-15 {
			t.Errorf("θ_1 = %v, want θ* = %v", theta[0], start)
			break
		}
	}
	for k, th := range theta {
		if math.Abs(linalg.Norm(th)-0.8) > 1e-14 {
			t.Errorf("‖θ_%d‖ = %v, want 0.8", k+1, linalg.Norm(th))
		}
		if k == 0 || k == len(theta)-1 {
			continue
		}
		if a := math.Acos(linalg.Dot(th, theta[k-1]) / 0.64); math.Abs(a-omega) > 1e-12 {
			t.Errorf("the angle between θ_%d and θ_%d is %v, want %v", k, k+1, a, omega)
		}
		for i := range th {
			if d := theta[k-1][i] + theta[k+1][i] - 2*math.Cos(omega)*th[i]; math.Abs(d) > 1e-14 {
				t.Errorf("θ_%d leaves the plane by %v", k+2, d)
			}
		}
	}
}

// The mean is ⟨x, θ*⟩ + ε·sin(⟨wave, x⟩ + φ): within ε of linear, not linear, and regret is
// measured against the best arm of that mean, found here by playing all arms without noise.
func TestMisspecification(t *testing.T) {
	const epsilon = 0.4
	o := NewLinear()
	o.D, o.Misspecification = 3, epsilon
	o.Set = set(t, spec.Raw{"kind": "random-sphere", "arms": int64(200)})
	o.Noise = Noise{Kind: "none", Law: &None{}}
	e := build(t, o, key(6))
	s := offer(t, e, key(6), 1).(bandit.Finite)
	theta := e.(Truth).Theta()
	means := make([]float64, s.Len())
	var largest float64
	linearBest := 0
	for i := range means {
		y, err := e.Reward(bandit.Action{X: s.At(i), Index: i}, rng.Source{})
		if err != nil {
			t.Fatal(err)
		}
		means[i] = y
		off := math.Abs(y - linalg.Dot(s.At(i), theta))
		if off > epsilon+1e-12 {
			t.Errorf("arm %d is off by %v", i, off)
		}
		largest = max(largest, off)
		if linalg.Dot(s.At(i), theta) > linalg.Dot(s.At(linearBest), theta) {
			linearBest = i
		}
	}
	if largest < 0.9*epsilon {
		t.Errorf("200 arms are off by at most %v, want nearly %v", largest, epsilon)
	}
	best := slices.Max(means)
	for i := range means {
		r, err := e.Regret(bandit.Action{X: s.At(i), Index: i})
		if err != nil || math.Abs(r-(best-means[i])) > 1e-14 {
			t.Errorf("arm %d: regret %v, want %v, %v", i, r, best-means[i], err)
		}
	}
	if means[linearBest] == best {
		t.Error("the best arm is the linear one: this seed tests nothing")
	}
	// The definition, number by number.
	wave := make([]float64, 3)
	draw := key(6).Stream(rng.Instance).Round(drawWave)
	draw.Sphere(wave, 0)
	for i := range means {
		want := linalg.Dot(s.At(i), theta) + epsilon*math.Sin(2*math.Pi*math.Sqrt(3)*linalg.Dot(wave, s.At(i))+2*math.Pi*draw.Float64(3))
		if math.Abs(means[i]-want) > 1e-13 {
			t.Errorf("arm %d: mean %v, want %v", i, means[i], want)
		}
	}
}

// The setting of Russo and Van Roy: ⌊all_arms/arms⌋ sets that never change, offered uniformly; in
// the units of the paper (arms divided by the factor f, θ* times f) entries are uniform on [−u, u]
// and θ* is N(0, prior_variance·I).
func TestRusso(t *testing.T) {
	o := NewRusso()
	o.D, o.Arms, o.AllArms = 20, 10, 105
	f := 1 / (o.U * math.Sqrt(20)) // ½
	e := build(t, o, key(7))
	seen := map[bandit.ActionSet]float64{}
	const rounds = 20_000
	for round := uint64(1); round <= rounds; round++ {
		seen[offer(t, e, key(7), round)]++
	}
	if len(seen) != 10 {
		t.Errorf("%d contexts, want 10", len(seen))
	}
	var entries []float64
	for s, count := range seen {
		// A count is Binomial(rounds, 1/10): Hoeffding.
		if eps := math.Sqrt(math.Log(2*10/level) / (2 * rounds)); math.Abs(count/rounds-0.1) > eps {
			t.Errorf("a context was offered %v times of %d, want a tenth ± %.3g", count, rounds, eps)
		}
		for _, v := range flat(s) {
			entries = append(entries, v/f)
		}
		if r := s.(actionset.Bounded).Radius(); r > 1 {
			t.Errorf("radius %v", r)
		}
	}
	dkw(t, "entries of the features", entries, distuv.Uniform{Min: -o.U, Max: o.U}.CDF)
	var thetas []float64
	o.Arms, o.AllArms = 1, 1
	for i := range uint64(1000) {
		for _, v := range build(t, o, key(i)).(Truth).Theta() {
			thetas = append(thetas, v*f)
		}
	}
	dkw(t, "θ*", thetas, distuv.Normal{Sigma: math.Sqrt(10)}.CDF)
	if notes := strings.Join(e.(Noted).Notes(), "\n"); !strings.Contains(notes, "multiplied by 0.5") {
		t.Errorf("the factor is not in the notes: %s", notes)
	}
	o.D, o.U = 4, 0.5 // fits: no factor
	if notes := build(t, o, key(1)).(Noted).Notes(); len(notes) != 1 {
		t.Errorf("notes %q", notes)
	}
}

// rowsFile is a small table with three classes.
func rowsFile(t *testing.T) string {
	t.Helper()
	return write(t, "rows.csv", "x,y,class\n3,4,a\n0,1,b\n1,0,c\n-1,0,a\n5,12,b\n1,1,c\n2,2,a\n")
}

// mushroomFile is a small table with edible and poisonous rows.
func mushroomFile(t *testing.T) string {
	t.Helper()
	return write(t, "mushroom.data", "e,x,s\np,y,?\ne,x,t\np,z,s\ne,z,t\n")
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Classification by hand: each row once in n rounds and then again in the same order, the features
// in the block of the arm or with its signs, payoff 1 and regret 0 for the row's class only.
func TestClassification(t *testing.T) {
	var data dataset.Source
	for _, features := range []string{"block", "shared"} {
		o := NewClassification()
		o.Data, o.Features, o.Standardise = rowsFile(t), features, false
		e, err := o.Build(key(8), &data)
		if err != nil {
			t.Fatal(err)
		}
		c := e.(*classification)
		if want := map[string]int{"block": 9, "shared": 3}[features]; e.Dim() != want {
			t.Errorf("%s: dimension %d, want %d", features, e.Dim(), want)
		}
		var visited []int
		for round := uint64(1); round <= 14; round++ {
			s := offer(t, e, key(8), round).(bandit.Finite)
			visited = append(visited, c.row)
			row := c.rows.Row(c.row)
			if s.Len() != 3 {
				t.Fatalf("%d arms", s.Len())
			}
			for arm := range s.Len() {
				x := s.At(arm)
				if math.Abs(linalg.Norm(x)-1) > 1e-15 {
					t.Errorf("%s: arm %d has norm %v", features, arm, linalg.Norm(x))
				}
				for i, v := range x {
					want := 0.0
					switch {
					case features == "shared":
						want = c.signs[arm*3+i] * row[i]
						if math.Abs(c.signs[arm*3+i]) != 1 {
							t.Errorf("sign %v", c.signs[arm*3+i])
						}
					case i/3 == arm:
						want = row[i%3]
					}
					if v != want {
						t.Errorf("%s: row %d, arm %d, entry %d is %v, want %v", features, c.row, arm, i, v, want)
					}
				}
				y, err := e.Reward(bandit.Action{X: x, Index: arm}, rng.Source{})
				r, err2 := e.Regret(bandit.Action{X: x, Index: arm})
				want := 0.0
				if arm == int(c.rows.Label[c.row]) {
					want = 1
				}
				if y != want || r != 1-want || err != nil || err2 != nil {
					t.Errorf("row %d, arm %d: payoff %v, regret %v, %v, %v", c.row, arm, y, r, err, err2)
				}
			}
		}
		for i, row := range visited[:7] {
			if row != int(c.order[i]) {
				t.Errorf("round %d shows row %d, want %d, the next in order", i+1, row, c.order[i])
			}
		}
		if !slices.Equal(visited[:7], visited[7:]) {
			t.Errorf("the second pass %v differs from the first %v", visited[7:], visited[:7])
		}
		sorted := slices.Clone(visited[:7])
		slices.Sort(sorted)
		if !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6}) || slices.Equal(sorted, visited[:7]) {
			t.Errorf("the first pass visits %v, want a permutation that is not the identity", visited[:7])
		}
		if _, err := e.Reward(bandit.Action{X: make([]float64, e.Dim()), Index: bandit.NoIndex}, rng.Source{}); err == nil {
			t.Error("an action without an index was paid")
		}
	}
}

// All orders of the rows are equally likely: each of the 3! of three rows within Hoeffding's bound of
// 1/6 over n/5 replications.
func TestOrder(t *testing.T) {
	var data dataset.Source
	o := NewClassification()
	o.Data = write(t, "three.csv", "1,a\n2,b\n3,c\n")
	count := map[[3]int32]float64{}
	const builds = n / 5
	for i := range uint64(builds) {
		e, err := o.Build(key(i), &data)
		if err != nil {
			t.Fatal(err)
		}
		count[[3]int32(e.(*classification).order)]++
	}
	eps := math.Sqrt(math.Log(2*6/level) / (2 * builds))
	for order, c := range count {
		if math.Abs(c/builds-1./6) > eps {
			t.Errorf("order %v: share %.4g, want 1/6 ± %.3g", order, c/builds, eps)
		}
	}
	if len(count) != 6 {
		t.Errorf("%d orders, want 6", len(count))
	}
}

// The mushroom game: arm 1 passes and pays 0; arm 0 eats: an edible one +5; a poisonous one −35 or +5, −15 in expectation, and
// regret is against the expectation. All times scale.
func TestMushroom(t *testing.T) {
	var data dataset.Source
	o := NewClassification()
	o.Data, o.Reward, o.Scale = mushroomFile(t), "mushroom", 0.1
	e, err := o.Build(key(9), &data)
	if err != nil {
		t.Fatal(err)
	}
	c := e.(*classification)
	if s, ok := e.(Noisy).Sigma(); s != 2 || !ok {
		t.Errorf("Sigma %v, %v, want 2", s, ok)
	}
	var paid []float64
	for round := uint64(1); round <= 20_000; round++ {
		s := offer(t, e, key(9), round).(bandit.Finite)
		do := func(arm int) (y, r float64) {
			a := bandit.Action{X: s.At(arm), Index: arm}
			y, err := e.Reward(a, key(9).Stream(rng.Reward).Round(round))
			if err != nil {
				t.Fatal(err)
			}
			r, err = e.Regret(a)
			if err != nil {
				t.Fatal(err)
			}
			return y, r
		}
		y0, r0 := do(1)
		y1, r1 := do(0)
		poisonous := c.rows.Classes[c.rows.Label[c.row]] == "p"
		if poisonous {
			paid = append(paid, y1)
			if y1 != -3.5 && y1 != 0.5 {
				t.Fatalf("a poisonous one paid %v", y1)
			}
			if y0 != 0 || r0 != 0 || r1 != 1.5 {
				t.Fatalf("poisonous: pass pays %v, regret %v; eating has regret %v", y0, r0, r1)
			}
		} else if y0 != 0 || r0 != 0.5 || y1 != 0.5 || r1 != 0 {
			t.Fatalf("edible: payoffs %v, %v, regrets %v, %v", y0, y1, r0, r1)
		}
	}
	o.Features = "shared" // c for eating, 0 for passing
	if e, err = o.Build(key(9), &data); err != nil {
		t.Fatal(err)
	}
	s := offer(t, e, key(9), 1).(bandit.Finite)
	if c := e.(*classification); !slices.Equal(s.At(0), c.rows.Row(c.row)) || linalg.Norm(s.At(1)) != 0 || e.Dim() != c.rows.Dim {
		t.Errorf("shared features: eat %v, pass %v, want %v and 0", s.At(0), s.At(1), c.rows.Row(c.row))
	}
	if len(paid) != 8000 {
		t.Errorf("%d poisonous rows of 20 000, want two in five", len(paid))
	}
	hoeffding(t, "a poisonous mushroom", paid, -3.5, 0.5, -1.5)
}

// The set of block features keeps the contract of a finite action set, like one that lists the
// arms.
func TestBlocks(t *testing.T) {
	c := []float64{0.6, 0, -0.48, 0.64}
	for _, k := range []int{2, 5} {
		b := newBlocks(c, k)
		bandittest.TestActionSet(t, b, bandittest.SetOptions{
			Contains: func(x []float64, tol float64) bool {
				for i := range k {
					d := slices.Clone(x)
					linalg.Axpy(-1, b.At(i), d)
					if linalg.Norm(d) <= tol {
						return true
					}
				}
				return false
			},
		})
		list, err := actionset.NewFinite(func() (arms [][]float64) {
			for i := range k {
				arms = append(arms, b.At(i))
			}
			return arms
		}())
		if err != nil {
			t.Fatal(err)
		}
		theta := make([]float64, 4*k)
		var x, y bandit.Action
		for i := range uint64(100) {
			key(10).Stream(rng.Select).Round(i).Normals(theta, 0)
			if _, err := b.ArgMax(&x, theta); err != nil {
				t.Fatal(err)
			}
			if _, err := list.ArgMax(&y, theta); err != nil {
				t.Fatal(err)
			}
			if x.Index != y.Index || !slices.Equal(x.X, y.X) {
				t.Errorf("k = %d: %v, want %v", k, x, y)
			}
		}
	}
}

// A round allocates nothing, apart from the set where it is new in every round.
func TestAllocations(t *testing.T) {
	var data dataset.Source
	want := map[string]float64{"redraw": 2, "all at once": 2, "contexts": 2, "block": 2, "mushroom": 2, "shared": 2, "clicks redrawn": 2, "clicks block": 3}
	for name, o := range all(t) {
		e, err := o.Build(key(1), &data)
		if err != nil {
			t.Fatal(err)
		}
		round := uint64(1)
		var a bandit.Action
		theta := unitVector(e.Dim(), 0)
		play := func() {
			s, err := e.Offer(key(1).Stream(rng.Offer).Round(round))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.ArgMax(&a, theta); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Reward(a, key(1).Stream(rng.Reward).Round(round)); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Regret(a); err != nil {
				t.Fatal(err)
			}
			round++
		}
		for range 30 {
			play()
		}
		if got := testing.AllocsPerRun(100, play); got > want[name] {
			t.Errorf("%s: %v allocations per round, want at most %v", name, got, want[name])
		}
	}
}

// Tables decode, and what is wrong with one is said with the option's path, its value and what was
// expected, when it is decoded or when it is built.
func TestErrors(t *testing.T) {
	type raw = spec.Raw
	rows, one, mush := rowsFile(t), write(t, "one.csv", "1,a\n2,a\n"), mushroomFile(t)
	noise := func(kv ...any) raw {
		r := raw{"kind": "linear", "d": int64(2)}
		n := raw{}
		for i := 0; i < len(kv); i += 2 {
			n[kv[i].(string)] = kv[i+1]
		}
		r["noise"] = n
		return r
	}
	linear := func(kv ...any) raw {
		r := raw{"kind": "linear", "d": int64(2)}
		for i := 0; i < len(kv); i += 2 {
			r[kv[i].(string)] = kv[i+1]
		}
		return r
	}
	cases := []struct {
		raw  raw
		want string // "" for none
	}{
		{linear("name", "x", "theta", "sphere", "set", raw{"kind": "ball"}, "noise", raw{"kind": "gaussian", "sigma": int64(1)}), ""},
		{linear("set", raw{"kind": "random-sphere", "arms": int64(50), "redraw": false}), ""},
		{raw{"kind": "linear", "set": raw{"kind": "assignments", "n": int64(2)}}, ""},
		{raw{"kind": "linear"}, "d: does not fit the set ball: d is 0, expected at least 1: this kind of set takes its dimension from the environment"},
		{linear("d", int64(0)), "d: does not fit the set ball: d is 0, expected at least 1: this kind of set takes its dimension from the environment"},
		{linear("d", int64(-1)), "d: is -1, expected at least 1 and at most 20000"},
		{linear("d", int64(3), "set", raw{"kind": "assignments", "n": int64(2)}), "d: does not fit the set assignments: d is 3, but the set has dimension 4"},
		{linear("d", "two"), `environment[0].d: is the string "two", expected a whole number`},
		{linear("theta", "cube"), `theta: is "cube"; expected one of ball, gaussian, given, sphere`},
		{linear("theta", "spere"), `theta: is "spere"; did you mean "sphere"?`},
		{linear("norm", int64(0)), "norm: is 0, expected a positive number"},
		{linear("theta", "gaussian", "sigma_theta", -1.0), "sigma_theta: is -1, expected a positive number, or 0 for 1/√d"},
		{linear("theta", "given"), "value: has length 0, expected 2"},
		{linear("value", []any{1.0, 2.0}), `value: is set, but theta is "sphere", expected "given"`},
		{linear("set", raw{"kind": "finite", "arms": []any{[]any{2.0, 0.0}}}), "environment[0].set: the set has radius 2 and leaves the unit ball; make it smaller or say rescale = true, which multiplies every action by 0.5"},
		{linear("set", raw{"kind": "box", "half_width": 1.0}), "set: the set has radius 1.41421 and leaves the unit ball; make it smaller or say rescale = true, which multiplies every action by 0.707107"},
		{linear("misspecification", 0.1), "misspecification: is 0.1, but the set ball is not finite: its best action for a mean that is not linear cannot be found"},
		{linear("misspecification", -0.1), "misspecification: is -0.1, expected 0 or a positive number"},
		{linear("drift", 4.0), "drift: is 4, expected radians between -π and π"},
		{linear("d", int64(1), "drift", 0.1), "drift: is 0.1, but θ* cannot turn in dimension 1"},
		{linear("drft", 0.1), `environment[0].drft: unknown key "drft"; did you mean "drift"?`},
		{linear("norm", math.NaN()), "environment[0].norm: is NaN, expected a finite number"},
		{noise("kind", "gaussian", "sigma", 0.0), "environment[0].noise.sigma: is 0, expected a positive number; kind = \"none\" is no noise"},
		{noise("kind", "gaussian", "sigma", -1.0), "environment[0].noise.sigma: is -1, expected a positive number"},
		{noise("kind", "gaussian", "sigma", math.Inf(1)), "environment[0].noise.sigma: is +Inf, expected a finite number"},
		{noise("kind", "rademacher", "sigma", 0.0), "environment[0].noise.sigma: is 0, expected a positive number; kind = \"none\" is no noise"},
		{noise("kind", "uniform", "half_width", -1.0), "environment[0].noise.half_width: is -1, expected a positive number"},
		{noise("kind", "uniform", "half_width", 1.0, "sigma", 1.0), "environment[0].noise.sigma: is 1 beside half_width = 1, expected one of them"},
		{noise("kind", "student-t", "df", 1.0), "environment[0].noise.df: is 1, expected a number above 1, for a mean to exist"},
		{noise("kind", "student-t", "scale", 0.0), "environment[0].noise.scale: is 0, expected a positive number"},
		{noise("kind", "gausian"), `environment[0].noise.kind: unknown kind "gausian"; did you mean "gaussian"?`},
		{noise("kind", "bernoulli"), ""},
		{noise("kind", "none"), ""},
		{noise("kind", "bernoulli", "values", "0/1"), `environment[0].noise.values: is "0/1"; expected one of plus-minus, zero-one`},
		{noise("kind", "bernoulli", "values", "zero-one"), "noise: can pay means in [0, 1], but here they reach from -1 to 1; make θ* shorter, choose other arms, or other values for the noise"},
		{linear("norm", 2.0, "noise", raw{"kind": "bernoulli"}), "noise: can pay means in [-1, 1], but here they reach from -2 to 2; make θ* shorter, choose other arms, or other values for the noise"},
		{linear("theta", "given", "value", []any{1.5, 0.5}, "set", raw{"kind": "basis"}, "noise", raw{"kind": "bernoulli"}), "noise: can pay means in [-1, 1], but here they reach from 0.5 to 1.5; make θ* shorter, choose other arms, or other values for the noise"},
		{linear("theta", "given", "value", []any{0.2, 0.8}, "set", raw{"kind": "basis"}, "noise", raw{"kind": "bernoulli", "values": "zero-one"}), ""},

		{linear("d", int64(100_000_000)), "d: is 100000000, expected at least 1 and at most 20000"},
		{raw{"kind": "linear", "set": raw{"kind": "assignments", "n": int64(200), "rescale": true}}, "set: has dimension 40000, expected at most 20000"},

		{raw{"kind": "clicks", "arms": int64(1)}, "arms: is 1, expected at least 2"},
		{raw{"kind": "clicks", "features": int64(0)}, "features: is 0, expected at least 1"},
		{raw{"kind": "clicks", "features": int64(1 << 40)}, "features: is 1099511627776, expected less than 838860 for 20 arms"},
		{raw{"kind": "clicks", "base_rate": 1.0}, "base_rate: is 1, expected a number above 0 and below 1"},
		{raw{"kind": "clicks", "spread": 0.0}, "spread: is 0, expected a positive number"},
		{raw{"kind": "clicks", "actions": "fix"}, `actions: is "fix"; did you mean "fixed"?`},
		{raw{"kind": "russo", "d": int64(0)}, "d: is 0, expected at least 1"},
		{raw{"kind": "russo", "all_arms": int64(10)}, "all_arms: is 10, expected at least arms = 50"},
		{raw{"kind": "russo", "u": 0.0}, "u: is 0, expected a positive number"},
		{raw{"kind": "russo", "prior_variance": -1.0}, "prior_variance: is -1, expected a positive number"},
		{raw{"kind": "sphere-contexts", "arms": int64(0)}, "arms: is 0, expected at least 1"},
		{raw{"kind": "sphere-contexts", "d": int64(0)}, "d: does not fit the set random-sphere: d is 0, expected at least 1: this kind of set takes its dimension from the environment"},
		{raw{"kind": "sphere-contexts", "d": int64(4), "arms": int64(3)}, ""},

		{raw{"kind": "classification", "data": rows}, ""},
		{raw{"kind": "classification"}, `dataset: no data file: write data = "FILE" in the environment's table, or pass --data FILE`},
		{raw{"kind": "classification", "data": "/none/mushroom.data"}, "dataset: open /none/mushroom.data: no such file or directory; if the file is elsewhere, pass --data FILE"},
		{raw{"kind": "classification", "data": rows, "features": "blocks"}, `features: is "blocks"; did you mean "block"?`},
		{raw{"kind": "classification", "data": rows, "reward": "one"}, `reward: is "one"; expected one of mushroom, zero-one`},
		{raw{"kind": "classification", "data": rows, "scale": 0.0}, "scale: is 0, expected a positive number"},
		{raw{"kind": "classification", "data": rows, "format": "xls"}, `format: is "xls"; expected one of arff, auto, csv, libsvm, space`},
		{raw{"kind": "classification", "data": rows, "class": "label"}, `class: is "label", which is no column; expected one of class, x, y`},
		{raw{"kind": "classification", "data": rows, "reward": "mushroom"}, `poisonous: is "p", but the classes of rows.csv are ["a" "b" "c"]; the mushroom game needs two, one of them poisonous (is the class column right? option class)`},
		{raw{"kind": "classification", "data": mush, "reward": "mushroom"}, ""},
		{raw{"kind": "classification", "data": one}, `class: is "auto", but all rows of one.csv have the class "a"`},
	}
	for _, c := range cases {
		got := ""
		o, err := spec.Decode(Kinds, c.raw, "environment[0]", "name")
		if err == nil {
			var e bandit.Environment
			if e, err = o.Build(key(1), new(dataset.Source)); err == nil {
				offer(t, e, key(1), 1)
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v\n got %s\nwant %s", c.raw, got, c.want)
		}
	}
	if _, err := NewClassification().Build(key(1), nil); err == nil {
		t.Error("classification was built without a source of data")
	}
}

// Sweeps reach into the tables of set and noise.
func TestSweep(t *testing.T) {
	choices := spec.Expand(Kinds, spec.Raw{"kind": "linear", "d": []any{int64(2), int64(3)},
		"set":   spec.Raw{"kind": "random-sphere", "arms": []any{int64(5), int64(9)}},
		"noise": spec.Raw{"kind": "gaussian", "sigma": []any{0.5, 1.0, 2.0}}})
	if len(choices) != 12 {
		t.Fatalf("%d choices, want 12", len(choices))
	}
	for _, c := range choices {
		if _, err := spec.Decode(Kinds, c.Value.(spec.Raw), ""); err != nil {
			t.Error(err)
		}
	}
}

// Every kind of environment and noise documents itself and all its options.
func TestDocs(t *testing.T) {
	check := func(kind string, o spec.Documented) {
		if o.Doc() == "" {
			t.Errorf("%s has no description", kind)
		}
		for _, p := range spec.Options(o) {
			if p.Doc == "" {
				t.Errorf("%s: the option %s has no description", kind, p.Key)
			}
		}
	}
	for kind, mk := range Kinds {
		check(kind, mk())
	}
	for kind, mk := range Laws {
		check(kind, mk())
		if err := mk().Check(); err != nil {
			t.Errorf("the defaults of noise %s are refused: %v", kind, err)
		}
	}
}

// Notes say what is outside the assumptions, and nothing where all is inside; they do not depend on
// the replication.
func TestNotes(t *testing.T) {
	var data dataset.Source
	want := map[string]string{"number demand": "curve", "number peak": "curve", "number heavy": "curve", "number cliff": "curve", "number cyclic": "curve", "number ridge": "curve", "number step": "curve", "number auction": "curve", "list pbm": "sums", "list rare": "sums", "list told": "sums", "list dcm": "sums", "list place": "sums", "list repeat": "sums",
		"list whole": "sums", "list page": "sums", "ball": "", "arms": "", "redraw": "", "contexts": "", "fixed context": "",
		"drift": "turns", "misspecified": "not linear", "all at once": "turns", "bernoulli": "coded", "heavy tails": "subgaussian",
		"russo": "multiplied", "block": "not linear", "shared": "not linear", "mushroom": "not linear",
		"clicks": "logistic", "clicks redrawn": "logistic", "clicks block": "logistic"}
	for name, o := range all(t) {
		var notes [2][]string
		for i := range notes {
			e, err := o.Build(key(uint64(i)), &data)
			if err != nil {
				t.Fatal(err)
			}
			notes[i] = e.(Noted).Notes()
		}
		all := strings.Join(notes[0], "; ")
		if (want[name] == "") != (all == "") || !strings.Contains(all, want[name]) {
			t.Errorf("%s: notes %q, want %q", name, all, want[name])
		}
		if !slices.Equal(notes[0], notes[1]) {
			t.Errorf("%s: notes %q in one replication, %q in another", name, notes[0], notes[1])
		}
	}
}

// Workers build replications of the same tables at once (for the race detector).
func TestConcurrentBuild(t *testing.T) {
	var data dataset.Source
	options := all(t)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			for name, o := range options {
				e, err := o.Build(key(i), &data)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				trace(t, e, key(i))
			}
		})
	}
	wg.Wait()
}

// The UCI files play: they are not part of the project, and are looked for in the directory
// TROUPE_DATA or in a directory shared/data beside the checkout.
func TestRealData(t *testing.T) {
	dirs := []string{os.Getenv("TROUPE_DATA")}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for d := wd; d != filepath.Dir(d); d = filepath.Dir(d) {
		dirs = append(dirs, filepath.Join(d, "shared", "data"))
	}
	var dir string
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "mushroom.data")); d != "" && err == nil {
			dir = d
			break
		}
	}
	if dir == "" {
		t.Skip("the UCI files are absent: set TROUPE_DATA to their directory")
	}
	data := &dataset.Source{Override: dir}
	for _, c := range []struct {
		file, class, reward string
		arms, block, shared int
	}{
		{"letter.arff", "auto", "zero-one", 26, 26 * 17, 17},
		{"pendigits.arff", "auto", "zero-one", 10, 10 * 17, 17},
		{"shuttle.trn", "last", "zero-one", 7, 7 * 10, 10},
		{"mushroom.data", "auto", "mushroom", 2, 2 * 118, 118},
	} {
		for _, features := range []string{"block", "shared"} {
			o := NewClassification()
			o.Data, o.Class, o.Reward, o.Features = c.file, c.class, c.reward, features
			e, err := o.Build(key(1), data)
			if err != nil {
				t.Fatal(err)
			}
			want := c.block
			if features == "shared" {
				want = c.shared
			}
			if e.Dim() != want {
				t.Errorf("%s %s: d = %d, want %d", c.file, features, e.Dim(), want)
			}
			k := e.(*classification)
			for round := uint64(1); round <= 100; round++ {
				s := offer(t, e, key(1), round).(bandit.Finite)
				if s.Len() != c.arms {
					t.Fatalf("%s: %d arms, want %d", c.file, s.Len(), c.arms)
				}
				oracle := int(k.rows.Label[k.row]) // also the game's arm: e is eaten, p is passed
				if r, err := e.Regret(bandit.Action{X: s.At(oracle), Index: oracle}); r != 0 || err != nil {
					t.Fatalf("%s: the oracle has regret %v, %v", c.file, r, err)
				}
			}
		}
	}
}

func BenchmarkRound(b *testing.B) {
	arms := func(redraw bool) actionset.Spec {
		return actionset.Spec{Kind: "random-sphere", Builder: &actionset.RandomSphereOptions{Arms: 50, Again: redraw}}
	}
	for _, c := range []struct {
		name string
		set  actionset.Spec
	}{{"ball", NewLinear().Set}, {"50 arms", arms(false)}, {"50 arms redrawn", arms(true)}} {
		b.Run(c.name, func(b *testing.B) {
			o := NewLinear()
			o.D, o.Set = 10, c.set
			e, err := o.Build(key(1), nil)
			if err != nil {
				b.Fatal(err)
			}
			var a bandit.Action
			round := uint64(0)
			for b.Loop() {
				round++
				s, err := e.Offer(key(1).Stream(rng.Offer).Round(round))
				if err != nil {
					b.Fatal(err)
				}
				if round == 1 {
					if _, err := s.ArgMax(&a, unitVector(10, 0)); err != nil {
						b.Fatal(err)
					}
				}
				if f, ok := s.(bandit.Finite); ok {
					a.Set(f.At(3), 3)
				}
				if _, err := e.Reward(a, key(1).Stream(rng.Reward).Round(round)); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Regret(a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
