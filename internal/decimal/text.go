package decimal

import (
	"math"
	"strconv"
)

// Text prints v for a reader with all its digits, and without an exponent where that is shorter than a line: 1000000, not
// 1e+06. Numbers below 1e-5 and from 1e15 on have one.
func Text(v float64) string {
	if a := math.Abs(v); a == 0 || a >= 1e-5 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Short prints v rounded to so many significant digits as Text does: 1035 with two digits is 1000, where %.2g has 1e+03.
// NaN and ±Inf are printed as strconv does.
func Short(v float64, digits int) string {
	if r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64); err == nil {
		return Text(r)
	}
	return strconv.FormatFloat(v, 'g', digits, 64) // rounded up beyond the largest number
}
