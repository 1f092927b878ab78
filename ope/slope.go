package ope

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// slopeLevel is the level of the widths of SLOPE++. obp's default is 0.95; the choice moves 3 of the 15 choices of
// our fixtures.
const slopeLevel = 0.9

// studentQuantile is the quantile of Student's t, refined by Newton on the distribution function.
func studentQuantile(p, df float64) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}
	x := t.Quantile(p)
	for range 3 {
		x -= (t.CDF(x) - p) / t.Prob(x)
	}
	return x
}

// slope is SLOPE++ (Su, Srinath, Krishnamurthy 2020; Tucker & Lee 2021): of estimates with widths c, in the order of
// falling c, the last one that is within c + (√6 − 1)c_j of every one before it.
func slope(values, widths []float64) int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case widths[a] > widths[b]:
			return -1
		case widths[a] < widths[b]:
			return 1
		}
		return a - b
	})
	best := order[0]
	c := math.Sqrt(6) - 1
	for pos, j := range order {
		for _, i := range order[:pos] {
			if !(math.Abs(values[j]-values[i]) <= widths[j]+c*widths[i]) {
				return best
			}
		}
		best = j
	}
	return best
}
