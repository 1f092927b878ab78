package theory

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// Orthogonal arms: Σ 2σ²/Δ, to 1e-6, and the gap below 1e-6 of the value.
func TestInstanceLowerOrthogonal(t *testing.T) {
	for _, theta := range [][]float64{{1, 0.5}, {0.9, 0.8, 0.3, -0.2, 0}, {0.3, 0.29, 0.1, 0.2, 0.25, 0.05, -0.9}} {
		for _, sigma := range []float64{1, 0.3} {
			arms := make([][]float64, len(theta))
			best := theta[0]
			for _, v := range theta {
				best = max(best, v)
			}
			want := 0.0
			for i := range arms {
				arms[i] = make([]float64, len(theta))
				arms[i][i] = 1
				if theta[i] < best {
					want += 2 * sigma * sigma / (best - theta[i])
				}
			}
			got, err := InstanceLower(arms, theta, sigma)
			if err != nil || math.Abs(got.Value-want) > 1e-6*want || got.Gap > 1e-6*want {
				t.Errorf("θ = %v, σ = %v: %+v, error %v, expected %v", theta, sigma, got, err, want)
			}
		}
	}
}

// Two arms in the plane: ‖x − its part along the best arm‖² = Δ²/2·α, so c = 2‖x⊥‖²/Δ.
func TestInstanceLowerTwoArms(t *testing.T) {
	got, err := InstanceLower([][]float64{{1, 0}, {0.6, 0.8}}, []float64{1, 0.2}, 1)
	gap := 1 - (0.6 + 0.16)
	if want := 2 / gap * 0.64 / 0.64; err != nil || math.Abs(got.Value-want) > 1e-6*want {
		t.Errorf("%+v, error %v, expected %v", got, err, want)
	}
	// The example of Lattimore and Szepesvári, section 8: x_3 is close to the best arm, x_2 tells them apart. The
	// cheap way is to play x_2: c = 8α² for x_3 = (1 − ε, 8αε), as ε → 0 (without noise scale: σ = 1).
	const eps, alpha = 1e-3, 1.0
	got, err = InstanceLower([][]float64{{1, 0}, {0, 1}, {1 - eps, 8 * alpha * eps}}, []float64{1, 0}, 1)
	if want := 2 * 64 * alpha * alpha; err != nil || math.Abs(got.Value-want) > 1e-3*want {
		t.Errorf("%+v, error %v, expected about %v", got, err, want)
	}
	if got, err := InstanceLower([][]float64{{1, 0}, {0.5, 0}}, []float64{1, 0}, 1); err != nil || got.Value != 0 {
		t.Errorf("a multiple of the best arm costs %+v, error %v", got, err)
	}
}

// Random instances: the gap is below 1e-6 of the value, no feasible design is cheaper, and the value does not
// depend on the order or the rotation of the arms.
func TestInstanceLowerRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []struct{ k, d int }{{3, 2}, {10, 3}, {20, 5}, {50, 10}} {
		arms := make([][]float64, size.k)
		theta := make([]float64, size.d)
		for j := range theta {
			theta[j] = r.NormFloat64()
		}
		for i := range arms {
			arms[i] = make([]float64, size.d)
			for j := range arms[i] {
				arms[i][j] = r.NormFloat64()
			}
		}
		got, err := InstanceLower(arms, theta, 1)
		if err != nil || !(got.Value > 0) || got.Gap > 1e-6*got.Value {
			t.Fatalf("K = %d, d = %d: %+v, error %v", size.k, size.d, got, err)
		}
		turned := make([][]float64, size.k) // reversed, and turned by 1 radian in the plane of the first two
		turn := func(x []float64) []float64 {
			y := append([]float64(nil), x...)
			y[0], y[1] = math.Cos(1)*x[0]-math.Sin(1)*x[1], math.Sin(1)*x[0]+math.Cos(1)*x[1]
			return y
		}
		for i, x := range arms {
			turned[size.k-1-i] = turn(x)
		}
		if again, err := InstanceLower(turned, turn(theta), 1); err != nil || math.Abs(again.Value-got.Value) > 1e-6*got.Value {
			t.Errorf("K = %d, d = %d: turned %+v, error %v, before %+v", size.k, size.d, again, err, got)
		}
		if half, err := InstanceLower(arms, theta, math.Sqrt(0.5)); err != nil || math.Abs(2*half.Value-got.Value) > 1e-6*got.Value {
			t.Errorf("half the variance: %+v, error %v", half, err)
		}
		t.Logf("K = %d, d = %d: c = %.6g, gap %.1g", size.k, size.d, got.Value, got.Gap)
	}
}

func TestInstanceLowerRefuses(t *testing.T) {
	one := [][]float64{{1, 0}, {0, 1}}
	for i, c := range []struct {
		arms  [][]float64
		theta []float64
		sigma float64
	}{
		{nil, []float64{1, 0}, 1}, {one, []float64{1, 1}, 1}, {one, []float64{1, 0}, 0}, {one, []float64{math.NaN(), 0}, 1},
		{[][]float64{{1, 0}, {1}}, []float64{1, 0}, 1}, {one, []float64{1, 0}, math.Inf(1)},
	} {
		if got, err := InstanceLower(c.arms, c.theta, c.sigma); !errors.Is(err, ErrInstance) {
			t.Errorf("case %d: %+v, error %v", i, got, err)
		}
	}
	if got, err := InstanceLower(one[:1], []float64{1, 0}, 1); err != nil || got != (InstanceBound{}) {
		t.Errorf("one arm: %+v, error %v", got, err)
	}
}
