package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// BinomialCDF returns P(Bin(n, p) ≤ k) through the regularised incomplete beta function:
// I_{1−p}(n−k, k+1) for 0 ≤ k < n, 0 below and 1 above.
func BinomialCDF(k, n int, p float64) float64 {
	if n < 0 || !(p >= 0 && p <= 1) {
		panic("stats: BinomialCDF: n < 0 or p outside [0, 1]")
	}
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// ClopperPearson returns the exact interval for the share behind k successes in n independent
// trials: each end errs with probability at most alpha/2, whatever the share. (Clopper and Pearson,
// Biometrika 1934.) With n = 0 it is [0, 1]. It panics for k outside [0, n] or alpha outside (0, 1).
func ClopperPearson(k, n int, alpha float64) (lo, hi float64) {
	if k < 0 || k > n {
		panic("stats: ClopperPearson: k outside [0, n]")
	}
	if !(alpha > 0 && alpha < 1) {
		panic("stats: ClopperPearson: alpha outside (0, 1)")
	}
	// The lower end p solves P(Bin(n, p) ≥ k) = alpha/2, the upper end P(Bin(n, p) ≤ k) = alpha/2.
	// Both are monotone in p; bisection to the last bit needs no tables and cannot fail.
	lo, hi = 0, 1
	if k > 0 {
		lo, _ = bisect(func(p float64) bool { return 1-BinomialCDF(k-1, n, p) <= alpha/2 })
	}
	if k < n {
		_, hi = bisect(func(p float64) bool { return BinomialCDF(k, n, p) > alpha/2 })
	}
	return lo, hi
}

// bisect returns neighbouring points a < b of [0, 1] with ok(a) and not ok(b), for an ok that is
// true up to a point and false after it.
func bisect(ok func(p float64) bool) (a, b float64) {
	a, b = 0, 1
	for range 200 {
		m := a + (b-a)/2
		if m <= a || m >= b {
			break
		}
		if ok(m) {
			a = m
		} else {
			b = m
		}
	}
	return a, b
}

// QuantileRanks returns ranks lo < hi (from 1) such that the order statistics X_(lo) and X_(hi)
// enclose the p-quantile of a continuous law, each side erring with probability at most alpha/2.
// lo = 0 means that no lower end exists at this n, hi = n+1 that no upper end exists: a 95 %
// interval for the 99 % quantile has an upper end only from n = 368 on.
//
// X_(l) lies above the quantile q iff at most l−1 values lie below q, so its probability is
// P(Bin(n, p) ≤ l−1); X_(h) lies below q with probability P(Bin(n, p) ≥ h).
func QuantileRanks(n int, p, alpha float64) (lo, hi int) {
	if n < 0 || !(p > 0 && p < 1) || !(alpha > 0 && alpha < 1) {
		panic("stats: QuantileRanks: n < 0, or p or alpha outside (0, 1)")
	}
	for lo < n && BinomialCDF(lo, n, p) <= alpha/2 {
		lo++
	}
	hi = n + 1
	for hi > 1 && 1-BinomialCDF(hi-2, n, p) <= alpha/2 {
		hi--
	}
	return lo, hi
}

// QuantileInterval returns the ends X_(lo) and X_(hi) of QuantileRanks for a sorted sample. An end
// that does not exist is −Inf or +Inf: the caller prints "≤" or "≥" there.
func QuantileInterval(sorted []float64, p, alpha float64) (lo, hi float64) {
	l, h := QuantileRanks(len(sorted), p, alpha)
	lo, hi = math.Inf(-1), math.Inf(1)
	if l > 0 {
		lo = sorted[l-1]
	}
	if h <= len(sorted) {
		hi = sorted[h-1]
	}
	return lo, hi
}
