package theory

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMaxAbsNormal: c_m against the table of the design (Monte Carlo and quadrature of another program, four digits), √(2/π) and 2/√π to 1e-9, and
// for large m the law of the maximum, √(2 log m)-like: c_m solves E max to 0.2 % of its median + γ-correction at m = 10⁹.
func TestMaxAbsNormal(t *testing.T) {
	for m, want := range map[float64]float64{1: .7979, 2: 1.1284, 4: 1.4647, 8: 1.7834, 16: 2.0772, 32: 2.3471, 64: 2.5961, 128: 2.8276, 1024: 3.4419} {
		if got := MaxAbsNormal(m); math.Abs(got-want) > 6e-5 {
			t.Errorf("m = %g: %v, expected %v", m, got, want)
		}
	}
	if a, b := MaxAbsNormal(1), MaxAbsNormal(2); math.Abs(a-math.Sqrt(2/math.Pi)) > 1e-9 || math.Abs(b-2/math.Sqrt(math.Pi)) > 1e-9 {
		t.Errorf("c_1 = %v, c_2 = %v", a, b)
	}
	// E max = ∫ x d(2Φ(x) − 1)^m, by quantiles: the mean over u = (k + ½)/n of the inverse of (2Φ − 1)^m.
	const m, n = 1e9, 20_000
	sum := 0.0
	for k := range n {
		p := -math.Expm1(math.Log((float64(k)+0.5)/n) / m) // 2Φ(−x)
		lo, hi := 0.0, 40.0
		for range 80 {
			if mid := (lo + hi) / 2; 2*normalTail(mid) > p {
				lo = mid
			} else {
				hi = mid
			}
		}
		sum += lo
	}
	if got := MaxAbsNormal(m); math.Abs(got/(sum/n)-1) > 1e-4 {
		t.Errorf("m = 1e9: %v, by quantiles %v", got, sum/n)
	}
}

// TestWidths: E max ‖ζ_j‖² is d for m = 1 and, like κ on arms, near 40,000 draws otherwise (five standard errors); on any set κ_1 = √(πd/2).
func TestWidths(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 4))
	for _, d := range []int{1, 3, 20} {
		if got := MaxChiSquare(d, 1); math.Abs(got/float64(d)-1) > 1e-6 {
			t.Errorf("d = %d: E‖ζ‖² = %v", d, got)
		}
		if got, want := WidthRatio(d, 0, 1), math.Sqrt(math.Pi*float64(d)/2); math.Abs(got-want) > 1e-6*want {
			t.Errorf("d = %d: κ_1 = %v, expected %v", d, got, want)
		}
		for _, m := range []int{4, 30} {
			var sum, squares float64
			const n = 8000
			for range n {
				top := 0.0
				for range m {
					q := 0.0
					for range d {
						z := r.NormFloat64()
						q += z * z
					}
					top = max(top, q)
				}
				sum, squares = sum+top, squares+top*top
			}
			mean := sum / n
			se := math.Sqrt((squares/n - mean*mean) / n)
			if got := MaxChiSquare(d, float64(m)); math.Abs(got-mean) > 5*se {
				t.Errorf("d = %d, m = %d: E max ‖ζ‖² = %v, drawn %v ± %v", d, m, got, mean, se)
			}
		}
	}
	// 20 orthogonal arms and 64 members: 1280 independent |Z|; correlated arms have less.
	var sum float64
	const n = 2000
	for range n {
		top := 0.0
		for range 1280 {
			z := r.NormFloat64()
			top = max(top, z*z)
		}
		sum += top / n
	}
	want := math.Sqrt(sum) / MaxAbsNormal(64)
	if got := WidthRatio(20, 20, 64); math.Abs(got/want-1) > 0.01 {
		t.Errorf("κ on 20 arms = %v, drawn %v", got, want)
	}
	if a, b := WidthRatio(2, 50, 1), WidthRatio(2, 0, 1); a > b {
		t.Errorf("κ on 50 arms in the plane is %v, on any set %v", a, b)
	}
}

// TestAbsoluteCrossing: the first T with the bound below 2T at λ = 1, δ = 0.1, m = 1 against figures worked out by another program: 3.2·10³, 3.5·10⁴,
// 2.6·10⁵, 2.2·10⁶, 3.9·10⁷ (two digits). The bound is the sum of its two terms.
func TestAbsoluteCrossing(t *testing.T) {
	one := Absolute(0, 1)
	for d, want := range map[int]float64{2: 3.2e3, 5: 3.5e4, 10: 2.6e5, 20: 2.2e6, 50: 3.9e7} {
		got, err := one.Crossing(Setting{D: d, Lambda: 1, Delta: 0.1})
		if err != nil || math.Abs(got/want-1) > 0.03 {
			t.Errorf("d = %d: %v, expected %v, %v", d, got, want, err)
		}
	}
	s := Setting{D: 2, T: 1000, Lambda: 1, Delta: 0.1}
	got, err := one.Eval(s)
	x := 2 * math.Log1p(500) // d log(1 + T/(dλ)); β is that of τ − 1
	beta := 1 + math.Sqrt(2*math.Log1p(999./2)+2*math.Log(10))
	want := (1+math.Sqrt(math.Pi))*beta*math.Sqrt(1000*math.E/(math.E-1)*(2*x+math.Log(10))) + math.Sqrt(2*4001*math.Log(math.Sqrt(4001)*10))
	if err != nil || math.Abs(got/want-1) > 1e-9 {
		t.Errorf("%v, expected %v, %v", got, want, err)
	}
	if _, err := one.Eval(Setting{D: 2, T: 1000, Lambda: 0.9, Delta: 0.1}); err == nil {
		t.Error("λ = 0.9 was taken")
	}
	many, err := Absolute(20, 64).Crossing(Setting{D: 10, Lambda: 1, Delta: 0.1})
	if err != nil || many > 5.1e4*1.02 || many < 1.4e4 { // the design's cruder κ gives 5.1·10⁴, OFUL 1.4·10⁴
		t.Errorf("64 members on 20 arms: %v, %v", many, err)
	}
}
