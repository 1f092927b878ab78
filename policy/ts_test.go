package policy_test

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// probe is an action set that remembers the parameter it is asked about: the way to see θ_t from
// outside.
type probe struct{ theta []float64 }

func (p *probe) Dim() int { return len(p.theta) }

func (p *probe) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	copy(p.theta, theta)
	dst.Set(theta, bandit.NoIndex)
	return 0, nil
}

// parameter returns θ_t for a draw.
func parameter(t testing.TB, p bandit.Policy, d int, draw rng.Source) []float64 {
	t.Helper()
	s := &probe{make([]float64, d)}
	var a bandit.Action
	if err := p.Select(&a, s, draw); err != nil {
		t.Fatal(err)
	}
	return s.theta
}

// past stores in x the action of round i of regressionOf: correlated coordinates of different
// sizes, so that no two square roots of V are alike.
func past(x []float64, i int) {
	rng.NewKey(2024).Stream(rng.Offer).Round(uint64(i)).Sphere(x, 0)
	for j := range x {
		x[j] = x[j]/float64(2*j+2) + 0.5*x[0]
	}
}

// regressionOf feeds the policy n rounds of the actions of past, and computes V, θ̂ and V^{1/2} from
// them with gonum: the independent implementation.
func regressionOf(t testing.TB, p bandit.Policy, d, n int, lambda float64) (v *mat.SymDense, hat *mat.VecDense, root *mat.SymDense) {
	t.Helper()
	key := rng.NewKey(2024)
	v = mat.NewSymDense(d, nil)
	for i := range d {
		v.SetSym(i, i, lambda)
	}
	b := mat.NewVecDense(d, nil)
	x := make([]float64, d)
	for i := range n {
		past(x, i)
		y := 0.3*x[0] - x[d-1] + key.Stream(rng.Reward).Round(uint64(i)).Normal(0)
		if err := p.Update(bandit.Action{X: x}, y, key.Stream(rng.Perturb).Round(uint64(i))); err != nil {
			t.Fatal(err)
		}
		xv := mat.NewVecDense(d, slices.Clone(x))
		v.SymRankOne(v, 1, xv)
		b.AddScaledVec(b, y, xv)
	}
	var ch mat.Cholesky
	if !ch.Factorize(v) {
		t.Fatal("V is not positive definite")
	}
	hat = mat.NewVecDense(d, nil)
	if err := ch.SolveVecTo(hat, b); err != nil {
		t.Fatal(err)
	}
	var eig mat.EigenSym
	if !eig.Factorize(v, true) {
		t.Fatal("no eigenvalues")
	}
	var q mat.Dense
	eig.VectorsTo(&q)
	w := eig.Values(nil)
	for i := range w {
		w[i] = math.Sqrt(w[i])
	}
	var tmp, r mat.Dense
	tmp.Mul(&q, mat.NewDiagDense(d, w))
	r.Mul(&tmp, q.T())
	root = mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			root.SetSym(i, j, r.At(i, j))
		}
	}
	return v, hat, root
}

// standardised returns n draws of u = V^{1/2}(θ_t − θ̂)/r, the symmetric square root.
func standardised(t testing.TB, p bandit.Policy, n, d int, hat *mat.VecDense, root *mat.SymDense, r float64) [][]float64 {
	t.Helper()
	draws := rng.NewKey(31).Stream(rng.Select)
	out := make([][]float64, n)
	for i := range out {
		theta := mat.NewVecDense(d, parameter(t, p, d, draws.Round(uint64(i))))
		theta.SubVec(theta, hat)
		var u mat.VecDense
		u.MulVec(root, theta)
		u.ScaleVec(1/r, &u)
		out[i] = u.RawVector().Data
	}
	return out
}

// kolmogorov tests that xs are independent draws from cdf at level 1e-9, by the inequality of
// Dvoretzky, Kiefer, Wolfowitz and Massart. At n = 20 000 the limit is 0.023: a normal law
// with a scale that is off by 20 % (distance 0.044) is found.
func kolmogorov(t testing.TB, what string, xs []float64, cdf func(float64) float64) {
	t.Helper()
	slices.Sort(xs)
	n := float64(len(xs))
	var worst float64
	for i, x := range xs {
		p := cdf(x)
		worst = max(worst, p-float64(i)/n, float64(i+1)/n-p)
	}
	if limit := math.Sqrt(math.Log(2/1e-9) / (2 * n)); worst > limit {
		t.Errorf("%s: Kolmogorov distance %.4f, limit %.4f", what, worst, limit)
	}
}

// gaussian tests that the vectors us are N(0, I): each coordinate, the sum and an alternating sum
// (which see correlations), and the squared norm.
func gaussian(t testing.TB, what string, us [][]float64) {
	t.Helper()
	d := len(us[0])
	column := func(f func(u []float64) float64) []float64 {
		xs := make([]float64, len(us))
		for i, u := range us {
			xs[i] = f(u)
		}
		return xs
	}
	phi := distuv.UnitNormal.CDF
	for j := range d {
		kolmogorov(t, what+": coordinate", column(func(u []float64) float64 { return u[j] }), phi)
	}
	for k := range d {
		kolmogorov(t, what+": signed sum", column(func(u []float64) float64 {
			var s float64
			for j, v := range u {
				if j < k {
					v = -v
				}
				s += v
			}
			return s / math.Sqrt(float64(d))
		}), phi)
	}
	chi := distuv.ChiSquared{K: float64(d)}
	kolmogorov(t, what+": squared norm", column(func(u []float64) float64 {
		var s float64
		for _, v := range u {
			s += v * v
		}
		return s
	}), chi.CDF)
}

// TestThompsonLaw: θ_t is N(θ̂, r²V⁻¹) with V, θ̂ and V^{1/2} computed by gonum from the same rounds.
// Null: u = V^{1/2}(θ_t − θ̂)/r ~ N(0, I); n = 20 000, level 1e-9 for each of 2d+1 projections.
func TestThompsonLaw(t *testing.T) {
	const d, n, r = 4, 20_000, 1.7
	p, err := policy.NewThompson(policy.ThompsonOptions{Lambda: 0.5, Scale: policy.Constant(r)}, policy.Problem{Dim: d})
	if err != nil {
		t.Fatal(err)
	}
	_, hat, root := regressionOf(t, p, d, 60, 0.5)
	gaussian(t, "ts", standardised(t, p, n, d, hat, root, r))
}

// TestThompsonScale: the default is σ, and beta follows log det V.
func TestThompsonScale(t *testing.T) {
	p, err := policy.NewThompson(policy.ThompsonOptions{}, policy.Problem{Dim: 3, Sigma: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	if p.Scale() != 0.25 {
		t.Errorf("default scale is %v, want σ = 0.25", p.Scale())
	}
	p, err = policy.NewThompson(policy.ThompsonOptions{Lambda: 2, Delta: 0.05, Scale: policy.Scale{Kind: "beta", Value: 3}}, policy.Problem{Dim: 3, Sigma: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	v, _, _ := regressionOf(t, p, 3, 20, 2)
	logDet := math.Log(mat.Det(v)) - 3*math.Log(2)
	want := 3 * (math.Sqrt2 + 0.5*math.Sqrt(2*math.Log(20)+logDet))
	if got := p.Scale(); math.Abs(got-want) > 1e-12*want {
		t.Errorf("scale is %v, want c(√λ + σ√(2 log 1/δ + log det)) = %v", got, want)
	}
}

// TestConfidentLaw: U = V^{1/2}(θ_t − θ̂)/r is uniform on the ball of radius √d. Null: |U|^d/d^{d/2}
// is uniform on [0, 1], and each coordinate of U/|U| has the law of a coordinate of the sphere,
// whose square is Beta(1/2, (d−1)/2); n = 20 000, level 1e-9 each. No U is longer than √d.
func TestConfidentLaw(t *testing.T) {
	const d, n, r = 4, 20_000, 0.8
	p, err := policy.NewConfident(policy.ConfidentOptions{Scale: policy.Constant(r)}, policy.Problem{Dim: d})
	if err != nil {
		t.Fatal(err)
	}
	_, hat, root := regressionOf(t, p, d, 60, 1)
	us := standardised(t, p, n, d, hat, root, r)
	radius := make([]float64, n)
	for i, u := range us {
		q := 0.0
		for _, v := range u {
			q += v * v
		}
		radius[i] = math.Pow(q/d, d/2)
		if q > d*(1+1e-9) {
			t.Fatalf("|U|² = %v is more than d = %d", q, d)
		}
	}
	kolmogorov(t, "radius", radius, func(x float64) float64 { return min(1, max(0, x)) })
	beta := distuv.Beta{Alpha: 0.5, Beta: (d - 1) / 2.0}
	for j := range d {
		xs := make([]float64, n)
		for i, u := range us {
			q := 0.0
			for _, v := range u {
				q += v * v
			}
			xs[i] = u[j] / math.Sqrt(q)
		}
		kolmogorov(t, "direction", xs, func(x float64) float64 {
			return (1 + math.Copysign(beta.CDF(x*x), x)) / 2
		})
	}
}

// TestConfidentDefaults: the radius is β_t, and dimension 1 is warned about.
func TestConfidentDefaults(t *testing.T) {
	for d := 1; d <= 2; d++ {
		p, err := policy.NewConfident(policy.ConfidentOptions{}, policy.Problem{Dim: d})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.Warnings(&probe{make([]float64, d)})); got != 2-d {
			t.Errorf("d = %d: %d warnings", d, got)
		}
		// Before round 1: |θ_t| = β_0 √d |U| with β_0 = 1 + √(2 log 10).
		var longest float64
		for i := range 1000 {
			theta := parameter(t, p, d, rng.NewKey(1).Stream(rng.Select).Round(uint64(i)))
			longest = max(longest, math.Hypot(theta[0], theta[d-1]*float64(d-1)))
		}
		if want := math.Sqrt(float64(d)) * (1 + math.Sqrt(2*math.Log(10))); longest > want || longest < 0.99*want {
			t.Errorf("d = %d: the longest of 1000 parameters is %v, want just below %v", d, longest, want)
		}
	}
}
