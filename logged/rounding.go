package logged

import (
	"math"
	"strconv"
)

// Oddities of an event that a reader mends and counts.
const (
	oddLaw        = 1 << iota // a law of rounded numbers was scaled to sum to 1
	oddPropensity             // a rounded propensity was replaced by the law's number
)

var oddities = []struct {
	bit  uint8
	text string
}{
	{oddLaw, "a law of rounded numbers does not sum to 1: it is scaled to 1"},
	{oddPropensity, "a propensity is rounded: its number in the law is taken"},
}

// Rounded laws: their numbers have this many digits at least, and their sum is this far from 1 at most.
const (
	leastDigits  = 3
	mostRounding = 0.01
)

// digitsOf returns how many significant digits the shortest decimal form of v > 0 has, and the power of ten of the first
// one. Numbers that a float32 holds are printed as one.
func digitsOf(v float64) (digits, exponent int) {
	var buf [32]byte
	bits := 64
	if float64(float32(v)) == v {
		bits = 32
	}
	b := strconv.AppendFloat(buf[:0], v, 'e', -1, bits)
	for i, c := range b {
		if c == 'e' {
			exponent, _ = strconv.Atoi(string(b[i+1:]))
			break
		}
		if c != '.' {
			digits++
		}
	}
	return digits, exponent
}

// roundingOf bounds how far from 1 a law can sum because its K numbers were rounded: half a unit in the last digit of
// each, where all have as many digits behind the point as the longest, or as many significant ones (Vowpal Wabbit prints
// six). 0 where the numbers have fewer than three digits.
func roundingOf(p []float64) float64 {
	significant, behind := 0, 0
	for _, v := range p {
		if v > 0 {
			digits, exponent := digitsOf(v)
			significant, behind = max(significant, digits), max(behind, digits-1-exponent)
		}
	}
	bound := 0.0
	if behind >= leastDigits {
		bound = float64(len(p)) / 2 * math.Pow10(-behind)
	}
	if significant >= leastDigits {
		sum := 0.0
		for _, v := range p {
			if v > 0 {
				_, exponent := digitsOf(v)
				sum += math.Pow10(exponent-significant+1) / 2
			}
		}
		bound = max(bound, sum)
	}
	return min(bound, mostRounding)
}

// slack covers the rounding of sums of float64.
const slack = 1e-12

// checkLaw refuses a law that does not sum to 1. Where o is set a law of rounded numbers is scaled, and the event says so.
func (e *Event) checkLaw(field string, p []float64, o *Options) *Error {
	if p == nil {
		return nil
	}
	sum := 0.0
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return bad(field+"["+strconv.Itoa(i)+"]", number(v), "a probability")
		}
		sum += v
	}
	off := math.Abs(sum - 1)
	if off <= Tolerance {
		return nil
	}
	if o != nil && sum > 0 && off <= max(roundingOf(p), o.LawTolerance)+slack {
		for i := range p {
			p[i] = min(p[i]/sum, 1)
		}
		e.odd |= oddLaw
		return nil
	}
	want := "1"
	if o != nil {
		want = "1, up to the rounding of its numbers (--law-tolerance " + strconv.FormatFloat(roundUp(off), 'g', 2, 64) +
			" scales it to 1)"
	}
	return bad(field, "sums to "+strconv.FormatFloat(sum, 'g', 9, 64), want)
}

// roundUp is v with two digits, not below v.
func roundUp(v float64) float64 {
	unit := math.Pow10(int(math.Floor(math.Log10(v))) - 1)
	return math.Ceil(v/unit-1e-6) * unit
}

// agrees reports whether a propensity can be the law's number v of the chosen action: exactly up to Tolerance, or as one
// that was rounded to at least three digits.
func agrees(p, v float64, o *Options) (exact, rounded bool) {
	off := math.Abs(p - v)
	if off <= Tolerance {
		return true, true
	}
	if o == nil || !(p > 0 && v > 0) {
		return false, false
	}
	limit := 0.0
	for _, x := range []float64{p, v} {
		if digits, exponent := digitsOf(x); digits >= leastDigits {
			limit += math.Pow10(exponent-digits+1) / 2
		}
	}
	return false, off <= max(min(limit, mostRounding), o.LawTolerance)+slack
}

// checkPlayed checks the law and that the propensity is its number of the chosen action; it returns the propensity.
func (e *Event) checkPlayed(at string, law []float64, chosen int, propensity float64, o *Options) (float64, *Error) {
	if law == nil {
		return propensity, nil
	}
	before := law[chosen]
	was := e.odd
	e.odd &^= oddLaw
	err := e.checkLaw(at+"law", law, o)
	scaled := e.odd&oddLaw != 0
	e.odd |= was
	if err != nil {
		return 0, err
	}
	exact, rounded := agrees(propensity, before, o)
	if !rounded || law[chosen] < LeastPropensity && !exact {
		err := bad(at+"law["+strconv.Itoa(chosen)+"]", number(before), "the propensity %s of the chosen action",
			number(propensity))
		if at == "" {
			err.Reason = "law contradicts propensity"
		}
		return 0, err
	}
	if !exact {
		e.odd |= oddPropensity
	}
	if scaled || !exact {
		propensity = law[chosen]
	}
	return propensity, nil
}
