package theory

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// oddNumbers are where formulas break.
var oddNumbers = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.SmallestNonzeroFloat64, 1e-300, 1e-17, 0.049, 0.1,
	1, 1.5, 5, 39, 1e9, 1 << 53, 1e154, 1e300, math.MaxFloat64}

// everything calls every exported function that takes numbers. Whatever these are, a result is finite,
// or comes with an error that names a parameter, or the call panics with a message of ours; a number
// is infinite only from the three products whose comments say so. long adds the crossings.
func everything(d int, T, lambda, delta, x, y float64, long bool) (faults []string) {
	see := func(what string, may float64, call func() ([]float64, error)) {
		defer func() {
			if r := recover(); r != nil {
				if s, ok := r.(string); !ok || !strings.HasPrefix(s, "theory: ") {
					faults = append(faults, fmt.Sprintf("%s panics: %v", what, r))
				}
			}
		}()
		values, err := call()
		var domain *DomainError
		if err != nil {
			if !errors.As(err, &domain) || domain.Param == "" || domain.Need == "" || domain.By == "" {
				faults = append(faults, fmt.Sprintf("%s: %v", what, err))
			}
			return
		}
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) && v != may {
				faults = append(faults, fmt.Sprintf("%s = %v", what, v))
			}
		}
	}
	one := func(v float64) ([]float64, error) { return []float64{v}, nil }
	with := func(v float64, err error) ([]float64, error) { return []float64{v}, err }
	whole := func(v float64) int { // a T that is given as an int
		if !(v >= math.MinInt64 && v < math.MaxInt64) {
			return math.MaxInt64
		}
		return int(v)
	}
	s, inf := Setting{D: d, T: T, Lambda: lambda, Delta: delta}, math.Inf(1)

	see("Beta", 0, func() ([]float64, error) { return one(Beta(lambda, delta, x)) })
	see("BetaTilde", 0, func() ([]float64, error) { return one(BetaTilde(d, whole(T), lambda, delta)) })
	see("LogDetCap", 0, func() ([]float64, error) { return one(LogDetCap(d, whole(T), lambda)) })
	see("LogNet", 0, func() ([]float64, error) { return with(LogNet(d, whole(T), lambda)) })
	for name, members := range map[string]func(d, T int, lambda, delta float64) (int, error){"Members": Members, "Members60": Members60} {
		see(name, 0, func() ([]float64, error) {
			m, err := members(d, whole(T), lambda, delta)
			if err == nil && (m < 1 || m > maxExact) {
				return nil, fmt.Errorf("m = %d", m)
			}
			return nil, err
		})
	}
	see("Potential", 0, func() ([]float64, error) { return one(Potential(d, T, lambda)) })
	see("Martingale", 0, func() ([]float64, error) { return one(Martingale(T, lambda, delta)) })
	see("Master", inf, func() ([]float64, error) { return one(Master(x, d, T, lambda, delta)) })
	see("PredictionStep", inf, func() ([]float64, error) { return one(PredictionStep(x, y)) })
	see("OptimismStep", inf, func() ([]float64, error) { return one(OptimismStep(x, delta, y)) })
	see("Cap", 0, func() ([]float64, error) { return with(Cap(d)) })
	see("MemberNorm", 0, func() ([]float64, error) { return one(MemberNorm(d, x, delta, y)) })
	see("ProcessRange", 0, func() ([]float64, error) {
		lo, hi, err := ProcessRange(x, delta, y)
		return []float64{lo, hi}, err
	})
	see("SingularRange", 0, func() ([]float64, error) {
		lo, hi, err := SingularRange(x, y)
		return []float64{lo, hi}, err
	})
	see("Janz2026Members", 0, func() ([]float64, error) { return with(Janz2026Members(s)) })
	see("Janz2026Direct", 0, func() ([]float64, error) { return with(Janz2026Direct(s)) })
	see("ExceedanceStep", 0, func() ([]float64, error) { return with(ExceedanceStep(x, delta)) })
	see("ExceedanceMembers", 0, func() ([]float64, error) { return with(ExceedanceMembers(x, delta, T, -y)) })
	for _, o := range Orders {
		for _, arms := range []int{d, 50} {
			at := OrderSetting{D: d, T: T, Arms: arms, M: x}
			see(o.Name, 0, func() ([]float64, error) { return with(o.Eval(at)) })
			see(o.Name+" m", 0, func() ([]float64, error) { return with(o.Members(at)) })
		}
	}
	for _, key := range []string{EpochKey, FixedKey, RoundKey} {
		see("AtomsFor "+key, 0, func() ([]float64, error) {
			a, err := AtomsFor(s, AtomsChoice{Key: key, Gamma: x, Rho: y})
			return []float64{a.Keys, a.Members, a.Gamma, a.Width, a.P}, err
		})
		see("Atoms.Bound "+key, inf, func() ([]float64, error) {
			a, err := AtomsFor(s, AtomsChoice{Key: key, Eta: x})
			if err != nil {
				return nil, err
			}
			return []float64{a.Bound(s, s.T), a.LazyBound(s, 2, s.T)}, nil
		})
	}
	for _, b := range Bounds {
		see(b.Name, 0, func() ([]float64, error) { return with(b.Eval(s)) })
		see(b.Name+" at τ", 0, func() ([]float64, error) { return with(b.At(s, x)) })
		see(b.Name+" m", 0, func() ([]float64, error) { return with(b.Members(s)) })
		see(b.Name+" probability", 0, func() ([]float64, error) { return one(b.Probability(delta)) })
		if long {
			see(b.Name+" crossing", 0, func() ([]float64, error) { return with(b.Crossing(s)) })
		}
	}
	return faults
}

// TestFinite: the calculators on every combination of odd numbers, four at a time (on a ninth of them
// without TROUPE_LONG; 19 numbers, so that every pair occurs).
func TestFinite(t *testing.T) {
	n, faults := 0, map[string]bool{}
	for i, a := range oddNumbers {
		for j, b := range oddNumbers {
			for k, c := range oddNumbers {
				for l, e := range oddNumbers {
					if n++; n%9 != 0 && os.Getenv("TROUPE_LONG") == "" {
						continue
					}
					d := []int{1, 2, 10, 1 << 40, math.MaxInt, 0, -3}[(i+j+k+l)%7]
					x, y := a, b // of each of the other two, one value
					if (i+j)%2 == 0 {
						x, y = c, e
					}
					for _, f := range everything(d, a, b, c, x, y, false) {
						if len(faults) < 20 && !faults[f] {
							faults[f] = true
							t.Errorf("d = %d, T = %g, λ = %g, δ = %g, x = %g, y = %g: %s", d, a, b, c, x, y, f)
						}
					}
				}
			}
		}
	}
	t.Logf("%d settings", n)
}

func FuzzFinite(f *testing.F) {
	f.Add(10, 1e4, 5.0, 0.1, 1.0, 1.0)
	f.Add(2, 1e308, 5.0, 5e-324, 9.0, 1e-20)
	f.Add(1, 1.0, 1e300, 1.0, 1e154, 0.049)
	f.Add(50, 1e18, 1e-300, 1e-20, 9.0, 2.0)
	f.Fuzz(func(t *testing.T, d int, T, lambda, delta, x, y float64) {
		for _, fault := range everything(d, T, lambda, delta, x, y, d%16 == 3) {
			t.Error(fault)
		}
	})
}
