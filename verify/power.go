package verify

import (
	"fmt"
	"math"
	"slices"
)

// Power is the smallest fault that a check would have noticed. A check that holds and whose power is poor
// says little.
type Power struct {
	// Rate: a true probability of failure above it is refuted with probability 0.9 or more; 1 where even that
	// is not, because there are too few runs. 0: the check is of another kind.
	Rate float64 `json:"rate,omitempty"`
	// Factor: in this run a bound that many times tighter is refuted. 0: the check has no such bound.
	Factor float64 `json:"factor,omitempty"`
}

// noticed is the probability with which the fault of Power.Rate is found.
const noticed = 0.9

// needed returns the smallest number of failures of n that refutes a claimed probability q at Level, n + 1
// where none does.
func needed(n int, q float64) int {
	k := 0
	for k <= n && binomialTail(k, n, q) > Level {
		k++
	}
	return k
}

// rateNoticed returns the smallest true probability that is refuted with probability 0.9: the p with
// P(Bin(n, p) ≥ needed) = 0.9, by bisection.
func rateNoticed(n int, q float64) float64 {
	k := needed(n, q)
	if k > n {
		return 1
	}
	lo, hi := q, 1.0
	for range 60 {
		if mid := (lo + hi) / 2; binomialTail(k, n, mid) >= noticed {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// factorNoticed returns the factor by which a bound would have to be tighter for the run to refute it: one over
// the largest ratio of a case to its bound that the smallest refuting number of runs reach. It is 0 where there
// is none.
func factorNoticed(ratios []float64, q float64) float64 {
	k := needed(len(ratios), q)
	if k < 1 || k > len(ratios) {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ratios))
	if r := sorted[len(sorted)-k]; r > 0 && !math.IsInf(r, 0) {
		return 1 / r
	}
	return 0
}

// String says what would have been noticed, "" for nothing that is known.
func (p Power) String() string {
	s := ""
	switch {
	case p.Rate >= 1:
		s = "no rate of failures, with so few runs"
	case p.Rate > 0:
		s = fmt.Sprintf("a true rate of failures above %.2g (with probability %v)", p.Rate, noticed)
	}
	if p.Factor > 0 {
		if s != "" {
			s += ", and "
		}
		s += fmt.Sprintf("a bound %s times tighter", times(p.Factor))
	}
	if s == "" {
		return ""
	}
	return "would have noticed " + s
}

// times rounds a factor up, so that what it says was noticed.
func times(f float64) string {
	switch {
	case f < 10:
		return fmt.Sprintf("%.2f", math.Ceil(100*f)/100)
	case f < 1e4:
		return fmt.Sprintf("%.0f", math.Ceil(f))
	}
	step := math.Pow(10, math.Floor(math.Log10(f))-1)
	return fmt.Sprintf("%.2g", math.Ceil(f/step)*step)
}
