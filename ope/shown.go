package ope

// LeastEffective is the number of effective decisions, (Σw)²/Σw², that a plain estimate needs to be shown.
const LeastEffective = 10

// Shown reports whether an estimate that weighs decisions may be shown as a point, with its normal interval, where the
// weights leave that many effective decisions. It is the one rule of the command, its JSON and all pages. An interval
// that holds at every look needs no such rule.
func Shown(effective float64) bool { return effective >= LeastEffective }

// effective is (Σw)²/Σw², 0 without a weight above 0.
func effective(one, two float64) float64 {
	if !(two > 0) {
		return 0
	}
	return one * one / two
}

// within moves v to the nearest end of an interval where it lies outside.
func within(v float64, p Pair) float64 { return min(max(v, p[0]), p[1]) }
