package verify

import (
	"fmt"
	"math"
	"slices"

	"troupe/internal/stats"
)

// Power is the smallest fault that a check would have noticed. A check that holds and whose power is poor
// says little.
type Power struct {
	// Rate: a true probability of failure above it is refuted with probability 0.9 or more; 1 where even that
	// is not, because there are too few runs. 0: the check is of another kind.
	Rate float64 `json:"rate,omitempty"`
	// Factor: a bound that many times tighter would have been refuted; for a probability check with probability 0.9, as
	// far as its own runs can say. 0: the check has no such bound.
	Factor float64 `json:"factor,omitempty"`
	// Sharpest is the largest factor by which the bound can be tightened so that the claim is still true of what was
	// played; for a probability check of the law of its runs. It has its exact 95 % interval, 0 where there is no
	// lower end. Of a sure inequality any play shows an upper end only.
	Sharpest     float64 `json:"sharpest,omitempty"`
	SharpestLow  float64 `json:"sharpest_low,omitempty"`
	SharpestHigh float64 `json:"sharpest_high,omitempty"`
	// Shift: a deviation from the claimed law, or from the definition, that large would have been noticed, with
	// probability at least 0.9 where the check draws numbers.
	Shift float64 `json:"shift,omitempty"`
}

// loose is the factor that a check should notice.
const loose = 3

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

// runs collects, for the runs of a probability check, the largest ratio of what the claim bounds to its bound. A run
// with a ratio above 1 has failed.
type runs []float64

// see records the ratio of a run; NaN is a failure.
func (r *runs) see(ratio float64) {
	if math.IsNaN(ratio) {
		ratio = math.Inf(1)
	}
	*r = append(*r, ratio)
}

// finding is that of a claim that a run fails with probability at most q, as chance, with the factors of Power.
func (r runs) finding(q float64, format string, args ...any) Finding {
	k := 0
	for _, v := range r {
		if v > 1 {
			k++
		}
	}
	f := chance(k, len(r), q, format, args...)
	if f.Verdict == Holds {
		f.Power.Factor = r.factor(q)
		f.Power.Sharpest, f.Power.SharpestLow, f.Power.SharpestHigh = r.sharpest(q)
	}
	return f
}

// shiftNoticed returns the deviation of a mean, or of a distribution function, that n numbers in [0, 1] show at Level
// with probability 0.9, by Hoeffding's inequality, and Massart's for the threshold.
func shiftNoticed(n int) float64 {
	return (math.Sqrt(math.Log(2/Level)) + math.Sqrt(-math.Log1p(-noticed))) / math.Sqrt(2*float64(n))
}

// factor returns the factor by which a bound would have to be tighter for fresh runs to refute it with probability 0.9:
// it must fail at the rate that is noticed then, so that it is one over a quantile of the ratios. It is 0 where there
// is none.
func (r runs) factor(q float64) float64 {
	rate := rateNoticed(len(r), q)
	if rate >= 1 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r))
	return inverse(sorted[len(r)-int(math.Ceil(rate*float64(len(r))))])
}

// sharpest returns the factor at which a fraction q of the runs fail, and its exact 95 % interval.
func (r runs) sharpest(q float64) (factor, low, high float64) {
	sorted := slices.Sorted(slices.Values(r))
	lo, hi := stats.QuantileInterval(sorted, 1-q, 0.05)
	at := min(len(r)-1, int(float64(len(r))*(1-q)))
	return inverse(sorted[at]), inverse(hi), inverse(max(lo, 0))
}

// inverse returns 1/v, and 0 where that says nothing.
func inverse(v float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return 1 / v
	}
	return 0
}

// larger adds to the finding of an event that happens with probability at least bound, of which missed of n runs are
// without it: the factor by which the bound would have to be larger to be refuted with probability 0.9, were the share
// seen the true one, and the factor up to which it is true with its exact interval.
func (f Finding) larger(missed, n int, bound float64) Finding {
	if f.Verdict != Holds {
		return f
	}
	seen := 1 - float64(missed)/float64(n)
	lo, hi := bound, 1.0
	for range 50 {
		mid := (lo + hi) / 2
		if k := needed(n, 1-mid); k <= n && binomialTail(k, n, 1-seen) >= noticed {
			hi = mid
		} else {
			lo = mid
		}
	}
	if hi < 1 {
		f.Power.Factor = hi / bound
	}
	a, b := stats.ClopperPearson(n-missed, n, 0.05)
	f.Power.Sharpest, f.Power.SharpestLow, f.Power.SharpestHigh = seen/bound, a/bound, b/bound
	return f
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
		if p.Sharpest > loose {
			s += fmt.Sprintf("; what was played stays within a bound %v times tighter, so more of it would not "+
				"notice that", loose)
		}
	}
	if p.Shift > 0 {
		if s != "" {
			s += ", and "
		}
		s += fmt.Sprintf("a deviation of %.2g", p.Shift)
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
