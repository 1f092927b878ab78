package policy

import (
	"errors"
	"math"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/theory"
)

func mustSet(t *testing.T, arms ...[]float64) *actionset.Finite {
	t.Helper()
	set, err := actionset.NewFinite(arms)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// trained returns a policy that has learned some rounds of some arms.
func trainedATS(t *testing.T, o ATSOptions, d, rounds int, arms [][]float64) *ATS {
	t.Helper()
	p, err := o.New(Problem{Dim: d, Init: rng.NewKey(3).Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	a := p.(*ATS)
	noise := rng.NewKey(4).Stream(rng.Reward)
	for i := range rounds {
		x := arms[(i*i+i/3)%len(arms)]
		if err := a.Update(bandit.Action{X: x}, 0.3*x[0]-0.2*x[d-1]+noise.Round(uint64(i)).Normal(0), rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// TestAbsoluteTwo: the probability of the first of two arms against golden values (of another program, by another integral; its own simulation: .8873 ±
// .0007, .5757 ± .0011) and against 20,000 draws within five standard errors; a quarter of them without TROUPE_LONG.
func TestAbsoluteTwo(t *testing.T) {
	draws := 5000
	if testing.Short() {
		draws = 2000
	}
	stream := rng.NewKey(8).Stream(rng.Select)
	for i, c := range []struct{ a, r, m, s1, s2, rho, want float64 }{
		{.3, 1, 1, 1, .5, .6, .887336}, {.1, 1, 4, 1, 1, 0, .574170}, {-.4, 2, 16, .3, .6, -.4, .000087},
		{0, 1, 3, .4, .4, .3, .5}, {0, 1, 1, 1, 1e-3, 0, -1}, {.5, 1, 64, .01, 1, .99, -1}, {-.2, .5, 2, .7, .3, -.999, -1}, {.05, 1, 1000, .2, .21, .9999, -1},
		{-1, 1, 8, 1, .2, .5, -1}, {2, 1, 8, .2, 1, -.5, -1}, {.1, 3, 1, .3, 0, 0, -1}, {-.1, 3, 5, .3, 0, 0, -1}, {.1, 1, 5, .4, .2, 1, -1}, {-.1, 1, 5, .4, .2, -1, -1},
		{-.01, 1, 20, .01, .05, 1, -1}, {.3, 1, 1, 1, .5, -.6, -1},
	} {
		unit := c.r / theory.MaxAbsNormal(c.m)
		got := absoluteTwo(absoluteArm{c.a / unit, c.s1}, absoluteArm{0, c.s2}, c.rho*c.s1*c.s2, c.m)
		back := absoluteTwo(absoluteArm{0, c.s2}, absoluteArm{c.a / unit, c.s1}, c.rho*c.s1*c.s2, c.m)
		if c.want >= 0 && math.Abs(got-c.want) > 6e-7 || math.Abs(got+back-1) > 1e-6 {
			t.Errorf("%+v: %.7f, the other arm %.7f", c, got, back)
		}
		wins := 0
		for k := range draws {
			src := stream.Sub(uint64(i)).Round(uint64(k))
			u, v := 0.0, 0.0
			for j := range int(c.m) {
				z, w := src.Normal(2*j), src.Normal(2*j+1)
				u = math.Max(u, math.Abs(c.s1*z))
				v = math.Max(v, math.Abs(c.s2*(c.rho*z+math.Sqrt(1-c.rho*c.rho)*w)))
			}
			if c.a/unit+u >= v {
				wins++
			}
		}
		p, n := float64(wins)/float64(draws), float64(draws)
		if se := math.Sqrt((got*(1-got) + 1/n) / n); math.Abs(p-got) > 5*se {
			t.Errorf("%+v: %.5f, drawn %.5f, standard error %.2g", c, got, p, se)
		}
	}
}

// TestAbsoluteOrthogonal: the law on orthogonal arms is the one on two arms for K = 2, ρ = 0, sums to 1, and on five arms, one of them zero, it is the
// share of 20,000 draws of Select (level 1e-6 by Chernoff's bound).
func TestAbsoluteOrthogonal(t *testing.T) {
	for _, m := range []float64{1, 4, 300} {
		for _, x := range []absoluteArm{{0.3, 1}, {-2, 0.2}, {5, 0.5}, {1, 0}} {
			y := absoluteArm{0.1, 0.6}
			law, two := absoluteOrthogonal([]absoluteArm{x, y}, m), absoluteTwo(x, y, 0, m)
			if math.Abs(law[0]-two) > 1e-6 || math.Abs(law[0]+law[1]-1) > 1e-12 {
				t.Errorf("m = %g, %+v: %v and %v", m, x, law, two)
			}
		}
	}
	arms := [][]float64{{1, 0, 0, 0}, {0, .8, 0, 0}, {0, 0, -.5, 0}, {0, 0, 0, 1}, {0, 0, 0, 0}}
	set := mustSet(t, arms...)
	for _, o := range []ATSOptions{{Scale: Constant(1)}, {M: 6, Scale: Constant(0.7)}} {
		a := trainedATS(t, o, 4, 25, arms)
		var law bandit.Law
		if err := a.Prob(&law, set, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		fits(t, a, set, law, 20_000)
	}
	// Arms that are neither orthogonal nor two have no law, but with groups.
	three := mustSet(t, []float64{1, 0}, []float64{.8, .6}, []float64{0, 1})
	a := trainedATS(t, ATSOptions{Scale: Constant(1)}, 2, 9, [][]float64{{1, 0}, {.8, .6}})
	if err := a.Prob(new(bandit.Law), three, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
		t.Errorf("three arms: %v", err)
	}
	if said := strings.Join(a.Warnings(three), ""); !strings.Contains(said, "groups") {
		t.Errorf("warnings %q", said)
	}
}

// fits holds n draws of Select against a law.
func fits(t *testing.T, a bandit.Policy, set bandit.Finite, law bandit.Law, n int) {
	t.Helper()
	counts := make([]float64, set.Len())
	var x bandit.Action
	for k := range n {
		if err := a.Select(&x, set, rng.NewKey(11).Stream(rng.Select).Round(uint64(k))); err != nil {
			t.Fatal(err)
		}
		counts[x.Index]++
	}
	for i, c := range counts {
		p, q := law.Atoms[i].P, c/float64(n)
		kl := 0.0
		if q > 0 {
			kl += q * math.Log(q/p)
		}
		if q < 1 {
			kl += (1 - q) * math.Log((1-q)/(1-p))
		}
		if !(float64(n)*kl < math.Log(2*float64(len(counts))/1e-6)) {
			t.Errorf("arm %d: %.5f of the draws, law %.5f", i, q, p)
		}
	}
}

// TestATSLimits: m = 1 plays the better of θ̂ ± r√(π/2)η with the same η, bit for bit; with very many members the action is LinUCB's wherever its
// objective leads by .3 r max‖x‖; the mean of the objective over draws is LinUCB's for m = 1, 7, 64.
func TestATSLimits(t *testing.T) {
	arms := [][]float64{{1, 0, 0}, {.6, .8, 0}, {0, .3, -.9}, {-.5, .5, .5}}
	set := mustSet(t, arms...)
	one := trainedATS(t, ATSOptions{Scale: Constant(0.8)}, 3, 20, arms)
	ball, _ := actionset.NewBall(3)
	c := 0.8 / theory.MaxAbsNormal(1)
	if math.Abs(c-0.8*math.Sqrt(math.Pi/2)) > 1e-9 {
		t.Errorf("r/c_1 = %v", c)
	}
	for k := range 200 {
		draw := rng.NewKey(12).Stream(rng.Select).Round(uint64(k))
		eta := make([]float64, 3)
		draw.Normals(eta, 0)
		one.factor.SolveLT(eta)
		for _, s := range []bandit.ActionSet{set, ball} {
			var want, minus, got bandit.Action
			plus := make([]float64, 3)
			shift(plus, one.ridge.Theta(), c, eta)
			v, _ := s.ArgMax(&want, plus)
			shift(plus, one.ridge.Theta(), -c, eta)
			if w, _ := s.ArgMax(&minus, plus); w > v {
				want = minus
			}
			if err := one.Select(&got, s, draw); err != nil || got.Index != want.Index || linalg.Dot(got.X, want.X) != linalg.Dot(want.X, want.X) {
				t.Fatalf("draw %d: %v, expected %v, %v", k, got, want, err)
			}
		}
	}
	objective := func(a *ATS, x []float64) float64 {
		return linalg.Dot(x, a.ridge.Theta()) + a.Scale()*math.Sqrt(a.ridge.Width2(x))
	}
	const members = 20_000
	many := trainedATS(t, ATSOptions{M: members, Scale: Constant(0.1)}, 3, 20, arms)
	ucb, lead := 0, math.Inf(1)
	for i, x := range arms {
		if objective(many, x) > objective(many, arms[ucb]) {
			ucb = i
		}
	}
	for i, x := range arms {
		if i != ucb {
			lead = min(lead, objective(many, arms[ucb])-objective(many, x))
		}
	}
	wide := 0.0
	for _, x := range arms {
		wide = max(wide, math.Sqrt(many.ridge.Width2(x)))
	}
	if lead < .3*.1*wide {
		t.Fatalf("LinUCB leads by %v only: another state", lead)
	}
	for k := range 30 {
		var got bandit.Action
		if err := many.Select(&got, set, rng.NewKey(13).Stream(rng.Select).Round(uint64(k))); err != nil || got.Index != ucb {
			t.Errorf("draw %d: arm %d, LinUCB plays %d, %v", k, got.Index, ucb, err)
		}
	}
	for _, m := range []int{1, 7, 64} {
		a := trainedATS(t, ATSOptions{M: m, Scale: Constant(0.8)}, 3, 20, arms)
		for i, x := range arms {
			const n = 4000
			var sum, squares float64
			for k := range n {
				src := rng.NewKey(14).Stream(rng.Select).Round(uint64(k))
				top := 0.0
				for j := range m {
					src.Normals(a.eta, 3*j)
					a.factor.SolveLT(a.eta)
					top = max(top, math.Abs(linalg.Dot(x, a.eta)))
				}
				v := linalg.Dot(x, a.ridge.Theta()) + a.Scale()/a.Normaliser()*top
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / n
			se := math.Sqrt((squares/n - mean*mean) / n)
			if want := objective(a, x); math.Abs(mean-want) > 4.5*se {
				t.Errorf("m = %d, arm %d: mean objective %v ± %v, LinUCB's %v", m, i, mean, se, want)
			}
		}
	}
}

// TestATSFrozen: frozen members are the accumulated ensemble that maximises, with the scale r/c_m, action for action; with one arm each.
func TestATSFrozen(t *testing.T) {
	p := Problem{Dim: 3, Arms: 3, Horizon: 100, Init: rng.NewKey(5).Stream(rng.Init)}
	a, err := (&ATSOptions{M: 5, Members: "frozen", Scale: betaScale(2)}).New(p)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewEnsemble(EnsembleOptions{M: 5, Lambda: 1, Delta: .1, Targets: "gaussian", Init: "prior", Select: "max", Scale: betaScale(2 / theory.MaxAbsNormal(5))}, p)
	if err != nil {
		t.Fatal(err)
	}
	set := mustSet(t, []float64{1, 0, 0}, []float64{0, .8, .6}, []float64{.5, -.5, .1})
	for k := range uint64(60) {
		var x, y bandit.Action
		if err := errors.Join(a.Select(&x, set, rng.NewKey(6).Stream(rng.Select).Round(k)), b.Select(&y, set, rng.NewKey(6).Stream(rng.Select).Round(k))); err != nil || x.Index != y.Index {
			t.Fatalf("round %d: %v and %v, %v", k, x, y, err)
		}
		draw := rng.NewKey(7).Stream(rng.Perturb).Round(k)
		if err := errors.Join(a.Update(x, float64(k%5), draw), b.Update(y, float64(k%5), draw)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestATSGroups: the law over all decisions does not depend on the number of groups: the mean of the counts over decisions fits the exact law on
// orthogonal arms (level 1e-6 by Chernoff's bound, 4000 decisions of one draw each), and the counts of a decision are whole numbers over g.
func TestATSGroups(t *testing.T) {
	arms := [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	set := mustSet(t, arms...)
	single := trainedATS(t, ATSOptions{M: 2, Scale: Constant(1)}, 3, 20, arms)
	groups := trainedATS(t, ATSOptions{M: 2, Groups: 5, Scale: Constant(1)}, 3, 20, arms)
	var law, counted bandit.Law
	if err := single.Prob(&law, set, rng.Source{}); err != nil {
		t.Fatal(err)
	}
	fits(t, groups, set, law, 4000)
	if err := groups.Prob(&counted, set, rng.NewKey(11).Stream(rng.Select).Round(3)); err != nil || counted.Total != 5 {
		t.Errorf("%+v, %v", counted, err)
	}
}

// TestATSRefuses: options that do not go together are named.
func TestATSRefuses(t *testing.T) {
	for want, o := range map[string]ATSOptions{
		"members":     {Members: "stale"},
		"m is -1":     {M: -1},
		"groups is":   {Groups: 3, Members: "frozen"},
		"groups is 7": {Groups: 70_000},
		"normaliser":  {Normaliser: "max"},
		"lambda":      {Preset: "theorem", Lambda: 0.5},
		"preset":      {Preset: "paper"},
		"scale":       {Preset: "theorem", Scale: Constant(1)},
		"delta":       {Delta: 2},
		"scale.norm":  {Scale: Scale{Kind: "beta", Value: 1, Norm: math.Inf(1)}},
	} {
		if _, err := o.New(Problem{Dim: 2}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected an error on %s", o, err, want)
		}
	}
}

// TestScaleNorm: β_t = √λ·S + σ√(2 log(1/δ) + log det ratio), worked out at S = 3, λ = 4, δ = .1, no rounds: 2·3 + √(2 log 10) = 8.1459…
func TestScaleNorm(t *testing.T) {
	p, err := NewLinUCB(LinUCBOptions{Lambda: 4, Scale: Scale{Kind: "beta", Value: 2, Norm: 3}}, Problem{Dim: 2})
	if err != nil || math.Abs(p.Scale()-2*(6+math.Sqrt(2*math.Log(10)))) > 1e-12 {
		t.Errorf("%v, %v", p.Scale(), err)
	}
	plain, _ := NewLinUCB(LinUCBOptions{Lambda: 4, Scale: Scale{Kind: "beta", Value: 2}}, Problem{Dim: 2})
	unit, _ := NewLinUCB(LinUCBOptions{Lambda: 4, Scale: Scale{Kind: "beta", Value: 2, Norm: 1}}, Problem{Dim: 2})
	if plain.Scale() != unit.Scale() {
		t.Errorf("%v and %v", plain.Scale(), unit.Scale())
	}
}
