package theory

import (
	"math"
	"testing"
)

// panics says whether f panics.
func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// TestEdges: the domains of the steps of the proofs are closed where their comments say so, and open where they do not.
// (Mutants of internal/mutate lived here.)
func TestEdges(t *testing.T) {
	if PredictionStep(2, 0) != 0 || PredictionStep(0, 3) != 0 {
		t.Error("a step of length 0 costs something")
	}
	if got := OptimismStep(1.5, 1, 2); got != 6 {
		t.Errorf("p = 1: %v, expected 2b‖x‖ = 6", got)
	}
	if want := math.Sqrt(3) + math.Sqrt(2*math.Log(4/0.5)/3); math.Abs(MemberNorm(3, 4, 0.5, 0)-want) > 1e-14 {
		t.Errorf("det V = λ^d: %v, expected %v", MemberNorm(3, 4, 0.5, 0), want)
	}
	if lo, hi, err := ProcessRange(0.75, 0.5, 0.1); err != nil || math.Abs(lo-0.45) > 1e-15 || math.Abs(hi-1.55) > 1e-15 {
		t.Errorf("(1 − α)3/2 = v: %v, %v, %v", lo, hi, err)
	}
	for name, f := range map[string]func(){
		"Probability of 0":  func() { Bound{}.Probability(0) },
		"OptimismStep of 0": func() { OptimismStep(1, 0, 1) },
		"MemberNorm below":  func() { MemberNorm(3, 4, 0.5, -1e-9) },
	} {
		if !panics(f) {
			t.Errorf("%s does not panic", name)
		}
	}
	if sd, s1, err := SingularRange(2, 1); err == nil || sd != 0 || s1 != 0 {
		t.Errorf("a refused range is %v, %v", sd, s1)
	}
	for _, b := range Bounds {
		s := Setting{D: 2, T: 100, Lambda: 1e-300, Delta: 2}
		if v, err := b.At(s, 1); err == nil || v != 0 {
			t.Errorf("%s: a refused setting has the bound %v, %v", b.Name, v, err)
		}
		if v, err := b.Crossing(s); err == nil || v != 0 {
			t.Errorf("%s: a refused setting has the crossing %v, %v", b.Name, v, err)
		}
	}
}

// tail is 1 − Φ(x), not the package's.
func tail(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }

// TestFewFormulas: the closed forms of the price of few members against their definitions with another Φ.
func TestFewFormulas(t *testing.T) {
	for _, c := range []struct{ m, sigma, gap float64 }{{5, 1.3, 0.4}, {40, 0.8, 0}, {1000, 2, 1}} {
		want := tail(c.gap+c.sigma*math.Sqrt(2*math.Log(2*c.m))) / 2
		if got := StuckPower(c.m, c.sigma, c.gap); math.Abs(got-want) > 1e-10*want {
			t.Errorf("%+v: StuckPower %v, expected %v", c, got, want)
		}
		best := tail(c.gap)
		for y := 1e-3; y < 40; y += 1e-3 {
			best = min(best, math.Exp(-2*c.m*tail(y))*tail(c.gap)+tail(c.gap+c.sigma*y))
		}
		if got := StuckMany(c.m, c.sigma, c.gap); got < best*(1-1e-9) || got > best*1.01 {
			t.Errorf("%+v: StuckMany %v, the infimum is %v", c, got, best)
		}
	}
	for _, f := range []Few{{Lambda: 0.1, R: 1}, {Lambda: 1, R: 2}} {
		for _, s := range []float64{0.7, 2} {
			var sum float64
			for n := range 20_000 {
				k := f.Lambda + float64(n)
				sum += tail(s * k / math.Sqrt(float64(n)+f.R*f.R*k))
			}
			if got := f.failing(s); got < sum*(1-1e-9) || got > sum*(1+1e-3)+1e-6 {
				t.Errorf("%+v, s = %v: S(s) = %v, expected %v", f, s, got, sum)
			}
		}
	}
}

// TestFewLost: the bound of thm:few-exponent against its definition with another Φ and a sum over a grid, and at k = 1 it is twice Share.
func TestFewLost(t *testing.T) {
	for _, f := range []Few{
		{Best: 0.5, Other: 0.2, Lambda: 0.1, R: 1, Draws: 16},
		{Best: 0.1, Other: -0.4, Lambda: 1, R: 0.4, Draws: 3},
	} {
		for _, k := range []int{1, 9} {
			got, err := f.Lost(k)
			if err != nil {
				t.Fatal(err)
			}
			n, want := float64(k), 0.0
			sigma := f.R * math.Sqrt(1+f.Lambda/n)
			for s := 0.3; s < 5; s *= 1.02 {
				fail := f.failing(s)
				if fail >= 1 {
					continue
				}
				gap := (f.Best*n + (f.Lambda+n)*(s-min(0, f.Other))) / math.Sqrt(n)
				const step = 0.02
				p := 0.0
				for y := step / 2; y < 12; y += step {
					z := gap + sigma*y
					p += step * sigma * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) * math.Pow(1-2*tail(y), f.Draws)
				}
				want = max(want, (1-fail)*p)
			}
			if got > want*1.01 || got < want*0.9 {
				t.Errorf("%+v, k = %d: %v, expected %v", f, k, got, want)
			}
			if k == 1 {
				if share, err := f.Share(); err != nil || math.Abs(got-2*share) > 1e-12*got {
					t.Errorf("%+v: Lost(1) = %v, Share = %v, error %v", f, got, share, err)
				}
			}
		}
		if _, err := f.Lost(0); err == nil {
			t.Errorf("%+v: Lost(0) has no error", f)
		}
		f.R = math.NaN()
		if _, err := f.Lost(1); err == nil {
			t.Error("r = NaN has no error")
		}
	}
}
