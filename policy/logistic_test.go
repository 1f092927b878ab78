package policy_test

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/policy"
	"troupe/rng"
)

func newLogistic(t testing.TB, o policy.LogisticOptions, p policy.Problem) *policy.Logistic {
	t.Helper()
	l, err := policy.NewLogistic(o, p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// gram returns LLᵀ.
func gram(f *linalg.Factor) []float64 {
	d, l := f.Dim(), f.L()
	out := make([]float64, d*d)
	for i := range d {
		for j := range d {
			for k := range min(i, j) + 1 {
				out[i*d+j] += l[i*d+k] * l[j*d+k]
			}
		}
	}
	return out
}

// TestLogisticGolden: θ̂, H and log det H of five events from H = I, to 1e-12. The numbers were computed with
// another program.
func TestLogisticGolden(t *testing.T) {
	l := newLogistic(t, policy.LogisticOptions{}, policy.Problem{Dim: 2})
	for i, y := range []float64{1, 0, 1, 0, 0.5} {
		if err := l.Update(goldenEvents[i].x, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	h := gram(l.Factor())
	got := []float64{l.Theta()[0], l.Theta()[1], h[0], h[1], h[3], l.Factor().LogDet()}
	for i, want := range []float64{-0.381418977959113, 0.824019628834553, 1.56737506351046, 0.135048677491857, 1.59975409829346, 0.91195194739561} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Errorf("number %d is %.17g, want %.17g", i, got[i], want)
		}
	}
}

// wide is a number of 200 bits.
func wide(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }

// op returns a op b in 200 bits.
func op(a *big.Float, o byte, b *big.Float) *big.Float {
	z := new(big.Float).SetPrec(200)
	switch o {
	case '+':
		return z.Add(a, b)
	case '-':
		return z.Sub(a, b)
	case '*':
		return z.Mul(a, b)
	}
	return z.Quo(a, b)
}

// bigSigmoid returns μ(s) in 200 bits: e^{−s} by the series at s/2⁸⁰ and 80 squarings, in 400 bits.
func bigSigmoid(s *big.Float) *big.Float {
	x := new(big.Float).SetPrec(400).Neg(s)
	x.SetMantExp(x, -80)
	sum, term := big.NewFloat(1).SetPrec(400), big.NewFloat(1).SetPrec(400)
	for k := range 8 {
		term = new(big.Float).SetPrec(400).Quo(new(big.Float).SetPrec(400).Mul(term, x), new(big.Float).SetPrec(400).SetInt64(int64(k+1)))
		sum.Add(sum, term)
	}
	for range 80 {
		sum.Mul(sum, sum)
	}
	one := big.NewFloat(1).SetPrec(400)
	return new(big.Float).SetPrec(200).Quo(one, sum.Add(sum, one))
}

// bigRoot returns the root of s = z + q(y − μ(s)) by bisection of [z − q, z + q] until it is 2⁻¹²⁰ wide.
func bigRoot(z, q, y *big.Float) *big.Float {
	lo, hi := op(z, '-', op(q, '*', wide(1.01))), op(z, '+', op(q, '*', wide(1.01)))
	for op(hi, '-', lo).Cmp(wide(0x1p-120)) > 0 {
		mid := op(op(lo, '+', hi), '/', wide(2))
		if op(op(mid, '-', z), '-', op(q, '*', op(y, '-', bigSigmoid(mid)))).Sign() > 0 {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// TestLogisticStep compares the root of the step with bisection in 200 bits, on the values of the design
// note and on 25 random ones with q to 10⁴, 200 with TROUPE_LONG: relative error 1e-12, of s or of the residual where s is near z.
func TestLogisticStep(t *testing.T) {
	type in struct{ z, q, y float64 }
	all := []in{{0, 1, 1}, {-4, 2, 1}, {-4, 50, 1}, {3, 0.25, 0}, {-30, 1e4, 1}, {8, 300, 0}, {2, 1, 0.5}}
	src := rng.NewKey(4).Stream(rng.Instance).Round(0)
	for i := range sized(25, 200) {
		y := []float64{0, 1, src.Float64(3*i + 2)}[i%3]
		all = append(all, in{40 * src.Uniform(3*i), math.Exp(9.2*src.Float64(3*i+1)) - 1 + 1e-9, y})
	}
	for _, c := range all {
		want, _ := bigRoot(wide(c.z), wide(c.q), wide(c.y)).Float64()
		if got, steps := logs.LogisticRoot(c.z, c.q, c.y); math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) || steps > 31 {
			t.Errorf("z, q, y = %v, %v, %v: s = %.17g after %d steps, want %.17g", c.z, c.q, c.y, got, steps, want)
		}
	}
}

// TestLogisticIsItsFormula folds 40 events of a world in two dimensions and compares θ̂, H and all models
// with the formulas in 200 bits, where H⁻¹ is the closed form of a 2×2 matrix and the step is found by
// bisection: to 1e-12.
func TestLogisticIsItsFormula(t *testing.T) {
	const m, n = 4, 40
	w := newWorld(6, 2, 7)
	prob := w.problem(0)
	o := policy.LogisticOptions{M: m, A: 0.7, Lambda: 0.25, BaseRate: 0.1}
	l := newLogistic(t, o, prob)
	h00, h01, h11 := wide(0.25), wide(0), wide(0.25)
	t0, t1 := wide(0), wide(0)
	offset := wide(math.Log(0.1 / 0.9))
	model, g := make([]float64, 2), make([]float64, 2)
	var x bandit.Action
	for round := range uint64(n) {
		draw := w.key.Stream(rng.Select).Round(round)
		if err := l.Select(&x, w, draw); err != nil {
			t.Fatal(err)
		}
		y := []float64{0, 1, 0.25}[draw.Intn(5, 3)]
		if err := l.Update(x, y, draw); err != nil {
			t.Fatal(err)
		}
		x0, x1 := wide(x.X[0]), wide(x.X[1])
		det := op(op(h00, '*', h11), '-', op(h01, '*', h01))
		u0 := op(op(op(h11, '*', x0), '-', op(h01, '*', x1)), '/', det) // H⁻¹x
		u1 := op(op(op(h00, '*', x1), '-', op(h01, '*', x0)), '/', det)
		z := op(op(op(x0, '*', t0), '+', op(x1, '*', t1)), '+', offset)
		q := op(op(x0, '*', u0), '+', op(x1, '*', u1))
		mu := bigSigmoid(bigRoot(z, q, wide(y)))
		e := op(wide(y), '-', mu)
		t0, t1 = op(t0, '+', op(e, '*', u0)), op(t1, '+', op(e, '*', u1))
		slope := op(mu, '*', op(wide(1), '-', mu))
		h00 = op(h00, '+', op(slope, '*', op(x0, '*', x0)))
		h01 = op(h01, '+', op(slope, '*', op(x0, '*', x1)))
		h11 = op(h11, '+', op(slope, '*', op(x1, '*', x1)))

		near := func(what string, got float64, want *big.Float) {
			v, _ := want.Float64()
			if math.Abs(got-v) > 1e-12*max(1, math.Abs(v)) {
				t.Fatalf("n = %d: %s is %.17g, want %.17g", round+1, what, got, v)
			}
		}
		h := gram(l.Factor())
		near("θ̂_1", l.Theta()[0], t0)
		near("θ̂_2", l.Theta()[1], t1)
		near("H_11", h[0], h00)
		near("H_12", h[1], h01)
		near("H_22", h[3], h11)
		for j := range m { // L = (√h00, 0; h01/√h00, c): L⁻ᵀg by back substitution
			prob.Init.Sub(round+1).Round(uint64(j)).Normals(g, 0)
			l00 := new(big.Float).SetPrec(200).Sqrt(h00)
			l10 := op(h01, '/', l00)
			l11 := new(big.Float).SetPrec(200).Sqrt(op(h11, '-', op(l10, '*', l10)))
			v1 := op(wide(g[1]), '/', l11)
			v0 := op(op(wide(g[0]), '-', op(l10, '*', v1)), '/', l00)
			l.Model(model, round+1, j, -1)
			near("a model", model[0], op(t0, '-', op(wide(0.7), '*', v0)))
			near("a model", model[1], op(t1, '-', op(wide(0.7), '*', v1)))
		}
	}
}

// TestLogisticBaseRate: an offset is the prior mean of an intercept of value 1 whose prior is as narrow as
// can be; predictions start at the base rate.
func TestLogisticBaseRate(t *testing.T) {
	l := newLogistic(t, policy.LogisticOptions{BaseRate: 0.03}, policy.Problem{Dim: 3})
	if p := l.Mean([]float64{0.3, -0.2, 0.9}); math.Abs(p-0.03) > 1e-15 {
		t.Errorf("the first prediction is %v, want 0.03", p)
	}
	even := newLogistic(t, policy.LogisticOptions{}, policy.Problem{Dim: 3})
	if p := even.Mean([]float64{1, 2, 3}); p != 0.5 {
		t.Errorf("without base_rate the first prediction is %v, want 0.5", p)
	}
}

// TestLogisticRefusals: what is no reward in [0, 1] is refused with its value, and nothing has changed.
func TestLogisticRefusals(t *testing.T) {
	w := newWorld(2, 3, 5)
	l := newLogistic(t, policy.LogisticOptions{}, w.problem(0))
	a := bandit.Action{X: []float64{0.1, 0.2, 0.3}, Index: bandit.NoIndex}
	if err := l.Update(a, 1, rng.Source{}); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(l.Theta())
	for _, c := range []struct {
		y    float64
		want string
	}{{1.01, "reward is 1.01, logistic expects a number in [0, 1]"}, {-1, "reward is -1"}, {math.NaN(), "reward is NaN"}} {
		if err := l.Update(a, c.y, rng.Source{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reward %v: %v, want %q", c.y, err, c.want)
		}
	}
	if !slices.Equal(before, l.Theta()) {
		t.Error("a refused reward changed the state")
	}
	if err := l.Merge(l); err == nil || !strings.Contains(err.Error(), "replay the merged log") {
		t.Errorf("Merge: %v", err)
	}
}
