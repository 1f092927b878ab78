package stats

import "math"

// Mean returns (1/n) Σ x_i; it panics for an empty sample. Two passes: the second adds the mean of
// the residuals, so the result does not drift when the x_i are large and close together.
func Mean(x []float64) float64 {
	if len(x) == 0 {
		panic("stats: Mean of an empty sample")
	}
	n := float64(len(x))
	var s float64
	for _, v := range x {
		s += v
	}
	m := s / n
	var r float64
	for _, v := range x {
		r += v - m
	}
	return m + r/n
}

// Variance returns the unbiased variance (1/(n−1)) Σ (x_i − mean)²; it panics for n < 2.
func Variance(x []float64) float64 {
	if len(x) < 2 {
		panic("stats: Variance needs two values")
	}
	m := Mean(x)
	var q float64
	for _, v := range x {
		q += (v - m) * (v - m)
	}
	return q / float64(len(x)-1)
}

// StdErr returns the standard error of the mean, √(Variance/n); it panics for n < 2.
func StdErr(x []float64) float64 {
	return math.Sqrt(Variance(x) / float64(len(x)))
}

// Quantile returns the p-quantile of a sorted sample by linear interpolation between the order
// statistics at (n−1)p (Hyndman and Fan's type 7, the default of R and NumPy). It panics for an
// empty sample and for p outside [0, 1].
func Quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		panic("stats: Quantile of an empty sample")
	}
	if !(p >= 0 && p <= 1) {
		panic("stats: Quantile: p outside [0, 1]")
	}
	h := float64(len(sorted)-1) * p
	i := int(h)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}

// WorstMean returns the mean of the ⌈share·n⌉ largest values of a sorted sample: what the unlucky
// pay on average. It panics for an empty sample and for a share outside (0, 1].
func WorstMean(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		panic("stats: WorstMean of an empty sample")
	}
	if !(share > 0 && share <= 1) {
		panic("stats: WorstMean: share outside (0, 1]")
	}
	// 1e-9 keeps 0.05·200 = 10.000000000000002 from becoming 11.
	k := int(math.Ceil(share*float64(len(sorted)) - 1e-9))
	return Mean(sorted[len(sorted)-max(k, 1):])
}

// Slope returns the slope of the least-squares line through (x_i, y_i); it panics if the lengths
// differ or fewer than two different x are given.
func Slope(x, y []float64) float64 {
	if len(x) != len(y) {
		panic("stats: Slope: lengths differ")
	}
	mx, my := Mean(x), Mean(y)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	if xx == 0 {
		panic("stats: Slope: all x are equal")
	}
	return xy / xx
}
