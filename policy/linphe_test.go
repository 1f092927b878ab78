package policy_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

func newLinPHE(t testing.TB, o policy.LinPHEOptions, d int) *policy.LinPHE {
	t.Helper()
	p, err := policy.NewLinPHE(o, policy.Problem{Dim: d})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLinPHEGaussianLaw: with Gaussian targets and the prior's part θ_t is N(θ̂, r²V⁻¹). Null:
// u = V^{1/2}(θ_t − θ̂)/r ~ N(0, I), V by gonum; n = 20 000, level 1e-9 for each projection.
func TestLinPHEGaussianLaw(t *testing.T) {
	const d, n, r = 4, 20_000, 1.7
	p := newLinPHE(t, policy.LinPHEOptions{Lambda: 2, Scale: policy.Constant(r)}, d)
	_, hat, root := regressionOf(t, p, d, 40, 2)
	gaussian(t, "linphe", standardised(t, p, n, d, hat, root, r))
}

// TestLinPHENoPrior: two rounds in dimension 4 without the prior's part. s_t = V(θ_t − θ̂)/r must be
// U_1X_1 + U_2X_2 with U standard normal: it lies in the span, and its coordinates there,
// (XXᵀ)⁻¹X s_t for X with rows X_1, X_2, are N(0, I).
func TestLinPHENoPrior(t *testing.T) {
	const d, n, r, lambda = 4, 20_000, 0.6, 1.5
	p := newLinPHE(t, policy.LinPHEOptions{Lambda: lambda, Init: "none", Scale: policy.Constant(r)}, d)
	x := mat.NewDense(2, d, []float64{0.5, 0.1, -0.3, 0.2, 0.4, 0.1, 0.1, -0.7})
	for i := range 2 {
		if err := p.Update(bandit.Action{X: x.RawRowView(i)}, float64(i)-0.3, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	hat := mat.NewVecDense(d, p.Ridge().Theta())
	v := mat.NewDense(d, d, p.Ridge().V())
	var k mat.Dense
	k.Mul(x, x.T())
	us := make([][]float64, n)
	for i := range us {
		theta := mat.NewVecDense(d, parameter(t, p, d, rng.NewKey(6).Stream(rng.Select).Round(uint64(i))))
		theta.SubVec(theta, hat)
		var s, xs, u, back mat.VecDense
		s.MulVec(v, theta)
		s.ScaleVec(1/r, &s)
		xs.MulVec(x, &s)
		if err := u.SolveVec(&k, &xs); err != nil {
			t.Fatal(err)
		}
		back.MulVec(x.T(), &u)
		back.SubVec(&back, &s)
		if off := mat.Norm(&back, 2); off > 1e-12 {
			t.Fatalf("s_t is %v away from the span of the history", off)
		}
		us[i] = u.RawVector().Data
	}
	gaussian(t, "linphe without prior", us)
}

// TestLinPHEReplay: with other targets θ_t is exactly V⁻¹(b + r w + r Σ U_i X_i), with w and U read
// from the draw as documented and V, b by gonum.
func TestLinPHEReplay(t *testing.T) {
	const d, n, r, lambda = 3, 25, 1.2, 0.8
	for _, c := range []struct {
		targets, init string
		variance      float64
		law           func(uint32) float64
	}{
		{"uniform", "prior", 1.0 / 3, rng.UniformWord},
		{"uniform", "none", 1.0 / 3, rng.UniformWord},
		{"rademacher", "prior", 1, rng.SignWord},
	} {
		p := newLinPHE(t, policy.LinPHEOptions{Lambda: lambda, Targets: c.targets, Init: c.init, Scale: policy.Constant(r)}, d)
		v, hat, _ := regressionOf(t, p, d, n, lambda)
		for round := range uint64(20) {
			draw := rng.NewKey(3).Stream(rng.Select).Round(round)
			s := mat.NewVecDense(d, nil)
			if c.init == "prior" {
				for i := range d {
					s.SetVec(i, math.Sqrt(lambda*c.variance)*draw.Normal(i))
				}
			}
			x := make([]float64, d)
			for i := range n { // the rounds of regressionOf
				past(x, i)
				s.AddScaledVec(s, c.law(draw.Word(uint32(i))), mat.NewVecDense(d, x))
			}
			var want mat.VecDense
			if err := want.SolveVec(v, s); err != nil {
				t.Fatal(err)
			}
			want.AddScaledVec(hat, r, &want)
			got := mat.NewVecDense(d, parameter(t, p, d, draw))
			if !mat.EqualApprox(got, &want, 1e-12) {
				t.Fatalf("%s %s: θ = %v, want %v", c.targets, c.init, got.RawVector().Data, want.RawVector().Data)
			}
		}
	}
}

// TestLinPHECovariance: replayed targets have the covariance of the exact Gaussian form, Var(U)·r²V⁻¹.
// Null: a coordinate Y of V^{1/2}(θ_t − θ̂)/(r·sd(U)) has variance 1. Y is a sum of independent
// strictly sub-Gaussian variables with EY⁴ ≤ 3, so the mean of n copies of Y² exceeds 1+ε with
// probability at most exp(−n(ε − log(1+ε))/2), the χ² bound, and is below 1−ε with probability at
// most exp(−nε²/6). At n = 20 000, ε = 0.08 gives 6e-10 at most. Forgetting the prior's part or the
// variance 1/3 of the uniform law is far outside.
func TestLinPHECovariance(t *testing.T) {
	const d, n, r, eps = 4, 20_000, 1.1, 0.08
	for targets, variance := range map[string]float64{"uniform": 1.0 / 3, "rademacher": 1, "gaussian": 1} {
		p := newLinPHE(t, policy.LinPHEOptions{Lambda: 5, Targets: targets, Scale: policy.Constant(r)}, d)
		_, hat, root := regressionOf(t, p, d, 15, 5)
		us := standardised(t, p, n, d, hat, root, r*math.Sqrt(variance))
		for k := range d {
			for sign := -1.0; sign <= 1; sign += 2 {
				var mean float64
				for _, u := range us {
					y := (u[k] + sign*u[(k+1)%d]) / math.Sqrt2
					mean += y * y / n
				}
				if math.Abs(mean-1) > eps {
					t.Errorf("%s: variance of coordinates %d and %d (sign %v) is %v, want 1 ± %v", targets, k, (k+1)%d, sign, mean, eps)
				}
			}
		}
	}
}

// TestLinPHEDefaults: the scale is σ/sd(U), and no prior's part is warned about.
func TestLinPHEDefaults(t *testing.T) {
	for targets, want := range map[string]float64{"": 2, "uniform": 2 * math.Sqrt(3), "rademacher": 2} {
		p, err := policy.NewLinPHE(policy.LinPHEOptions{Targets: targets}, policy.Problem{Dim: 2, Sigma: 2})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.Scale()-want) > 1e-12 {
			t.Errorf("targets %q: scale %v, want %v", targets, p.Scale(), want)
		}
		if w := p.Warnings(newWorld(1, 2, 3)); w != nil {
			t.Errorf("warnings %q", w)
		}
	}
	if p := newLinPHE(t, policy.LinPHEOptions{Init: "none"}, 2); len(p.Warnings(newWorld(1, 2, 3))) != 1 {
		t.Error("no warning about init = none")
	}
	for _, o := range []policy.LinPHEOptions{{Targets: "cauchy"}, {Init: "matched"}, {Lambda: -1}, {Delta: 2}} {
		if _, err := policy.NewLinPHE(o, policy.Problem{Dim: 2}); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
