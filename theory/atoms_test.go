package theory

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAtomsGolden holds the parameters and the bound of thm:atoms against an independent program
// (mpmath, 40 digits; m found as the smallest integer by bisection), for each key.
func TestAtomsGolden(t *testing.T) {
	for _, c := range []struct {
		d           int
		T, delta    float64
		key         string
		keys, m     float64
		width       float64
		bound       float64
		lambda, tau float64
		choice      AtomsChoice
	}{
		{d: 2, T: 1e3, delta: 0.1, key: FixedKey, keys: 1, m: 518, width: 5.71437809779, bound: 400124.597117},
		{d: 2, T: 1e3, delta: 0.1, key: EpochKey, keys: 19, m: 636, width: 6.39324355145, bound: 447659.212695},
		{d: 2, T: 1e3, delta: 0.1, key: RoundKey, keys: 1000, m: 792, width: 7.17234675714, bound: 502212.543076},
		{d: 10, T: 1e4, delta: 0.01, key: FixedKey, keys: 1, m: 2363, width: 8.27422536016, bound: 6647498.11603},
		{d: 10, T: 1e4, delta: 0.01, key: EpochKey, keys: 101, m: 2571, width: 9.12306420066, bound: 7329453.74903},
		{d: 10, T: 1e4, delta: 0.01, key: RoundKey, keys: 10000, m: 2771, width: 9.86087770546, bound: 7922211.8224},
		{d: 20, T: 1e4, delta: 0.1, key: FixedKey, keys: 1, m: 4524, width: 9.24976802765, bound: 11314482.7135},
		{d: 20, T: 1e4, delta: 0.1, key: EpochKey, keys: 181, m: 4794, width: 10.2461033466, bound: 12533218.0061},
		{d: 50, T: 1e5, delta: 0.1, key: FixedKey, keys: 1, m: 11633, width: 12.0424526168, bound: 125476884.082},
		{d: 50, T: 1e5, delta: 0.1, key: EpochKey, keys: 550, m: 12037, width: 13.1868492125, bound: 137400976.586},
		{d: 5, T: 5000, delta: 0.05, key: EpochKey, keys: 24, m: 932, width: 7.47138384173, bound: 1591802.05953,
			lambda: 2, tau: 2500, choice: AtomsChoice{Gamma: 2, Eta: 0.1, Rho: 4}},
	} {
		s := Setting{D: c.d, T: c.T, Lambda: 1, Delta: c.delta}
		tau, p := c.T, 0.107273824181
		if c.lambda > 0 {
			s.Lambda, tau, p = c.lambda, c.tau, 0.137126558875
		}
		c.choice.Key = c.key
		a, err := AtomsFor(s, c.choice)
		if err != nil {
			t.Fatal(err)
		}
		if a.Keys != c.keys || a.Members != c.m {
			t.Errorf("%+v %s: E = %v, m = %v, want %v, %v", s, c.key, a.Keys, a.Members, c.keys, c.m)
		}
		golden(t, "B", a.Width, c.width)
		golden(t, "p", a.P, p)
		golden(t, "bound", a.Bound(s, tau), c.bound)
	}
}

// TestAtomsCondition: m satisfies the inequality that the proof needs, and is the smallest that
// does; with m = 8 it fails. The fixed key does not read T.
func TestAtomsCondition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Setting{
			D:      rapid.IntRange(1, 300).Draw(t, "d"),
			T:      math.Floor(math.Exp(rapid.Float64Range(0, 30).Draw(t, "log T"))),
			Lambda: rapid.Float64Range(1, 100).Draw(t, "lambda"),
			Delta:  rapid.Float64Range(1e-12, 1).Draw(t, "delta"),
		}
		c := AtomsChoice{
			Key:   rapid.SampledFrom([]string{EpochKey, FixedKey, RoundKey}).Draw(t, "key"),
			Gamma: rapid.Float64Range(0.5, 10).Draw(t, "gamma"),
			Eta:   rapid.Float64Range(0.001, 1).Draw(t, "eta"),
			Rho:   rapid.Float64Range(1.01, 10).Draw(t, "rho"),
		}
		a, err := AtomsFor(s, c)
		if err != nil {
			t.Fatal(err)
		}
		d := float64(s.D)
		enough := func(m float64) bool {
			b := math.Sqrt(d) + math.Sqrt(2*math.Log(2*m*a.Keys/s.Delta))
			return m*a.P/4 >= (d*math.Log(1+2*b/c.Eta)+math.Log(2*a.Keys/s.Delta))*(1-1e-13)
		}
		if !enough(a.Members) || enough(a.Members-1) || enough(8) {
			t.Fatalf("%+v %+v: %+v is not the smallest m", s, c, a)
		}
		if c.Key == FixedKey {
			s.T *= 1000
			if b, err := AtomsFor(s, c); err != nil || b != a {
				t.Fatalf("fixed key: %+v at T, %+v at 1000 T", a, b)
			}
		}
	})
}

// Every refusal names the parameter and the condition.
func TestAtomsDomain(t *testing.T) {
	good := Setting{D: 2, T: 1000, Lambda: 1, Delta: 0.1}
	for want, c := range map[string]struct {
		s Setting
		c AtomsChoice
	}{
		"lambda = 0.5: thm:atoms needs lambda >= 1": {Setting{D: 2, T: 1000, Lambda: 0.5, Delta: 0.1}, AtomsChoice{}},
		"gamma = -1: thm:atoms":                     {good, AtomsChoice{Gamma: -1}},
		"gamma = 1e-05: thm:atoms needs a share":    {good, AtomsChoice{Gamma: 1e-5}},
		"eta = NaN":                                 {good, AtomsChoice{Eta: math.NaN()}},
		"rho = 1: thm:atoms needs a finite rho > 1": {good, AtomsChoice{Rho: 1}},
	} {
		_, err := AtomsFor(c.s, c.c)
		var domain *DomainError
		if !errors.As(err, &domain) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v %+v: %v, want %q", c.s, c.c, err, want)
		}
	}
	if _, err := AtomsFor(good, AtomsChoice{Key: "epok"}); err == nil || !strings.Contains(err.Error(), `key is "epok"`) {
		t.Errorf("key epok: %v", err)
	}
}
