// Package decimal reads the numbers of JSON: where one ends, and its value, correctly rounded. It is the one grammar of
// numbers for all that reads requests. Text and Short print numbers for a reader.
package decimal

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// Fault says why something is no number, or none that float64 can hold.
type Fault int

// What Read finds.
const (
	None         Fault = iota
	NoNumber           // it does not begin with a digit, or a minus before one
	LeadingZeros       // 012
	NoDigit            // a point or an exponent without digits behind it
	TooLarge           // beyond the range of float64
)

// End returns where the number that begins at b[i] ends, and whether it is one. A number ends before whatever does not
// belong to it: the end of 012 is behind its first digit.
func End(b []byte, i int) (end int, ok bool) {
	if i < len(b) && b[i] == '-' {
		i++
	}
	from := i
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i == from {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = digits(b, from); i == from {
			return i, false
		}
	}
	return exponent(b, i)
}

// digits returns where the digits end that begin at b[i].
func digits(b []byte, i int) int {
	for i+8 <= len(b) && eight(binary.LittleEndian.Uint64(b[i:])) {
		i += 8
	}
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// exponent returns where the exponent ends, if one begins at b[i]; it must have a digit.
func exponent(b []byte, i int) (end int, ok bool) {
	if i == len(b) || b[i]|0x20 != 'e' {
		return i, true
	}
	if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
		i++
	}
	end = digits(b, i)
	return end, end > i
}

// Read returns the value of the number that begins b, correctly rounded, and its length, or what is wrong at b[n]. Of a
// number that is too large n is the length.
func Read(b []byte) (x float64, n int, fault Fault) {
	i := 0
	neg := b[0] == '-'
	if neg {
		i++
	}
	var mantissa uint64 // of all digits before an exponent, modulo 2⁶⁴
	at := i
	for i < len(b) && b[i]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(b[i]-'0')
		i++
	}
	whole := i - at
	if whole == 0 {
		return 0, i, NoNumber
	}
	if b[at] == '0' {
		if whole > 1 {
			return 0, 0, LeadingZeros
		}
		whole = 0
	}
	frac := 0
	if i < len(b) && b[i] == '.' {
		i++
		at = i
		for len(b)-i >= 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			if !eight(w) {
				break
			}
			mantissa = mantissa*1e8 + valueOfEight(w)
			i += 8
		}
		for i < len(b) && b[i]-'0' <= 9 {
			mantissa = mantissa*10 + uint64(b[i]-'0')
			i++
		}
		if frac = i - at; frac == 0 {
			return 0, i, NoDigit
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' || whole+frac > 19 { // otherwise the mantissa is below 10¹⁹ < 2⁶⁴
		return readLong(b, i)
	}
	if mantissa < 1<<53 {
		// both are exact, so the quotient is rounded once (Clinger 1990)
		x = float64(mantissa) / float64(tens[frac])
	} else {
		x = quotient(mantissa, tens[frac])
	}
	if neg {
		x = -x
	}
	return x, i, None
}

// readLong is Read for a number with an exponent, which would be at b[i], or with many digits.
func readLong(b []byte, i int) (x float64, n int, fault Fault) {
	i, ok := exponent(b, i)
	if !ok {
		return 0, i, NoDigit
	}
	x, err := strconv.ParseFloat(string(b[:i]), 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, i, TooLarge
	}
	return x, i, None
}

// tens are the powers of ten that are exact both as whole and as float64 numbers.
var tens = [...]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
	1e18, 1e19}

// eight reports whether eight bytes are digits: neither they plus 0x46 nor they minus 0x30 have a top bit. A
// carry or a borrow comes only from a byte that is none.
func eight(w uint64) bool {
	return (w+0x4646464646464646|(w-0x3030303030303030))&0x8080808080808080 == 0
}

// valueOfEight returns the number of eight digits, the first in the lowest byte: pairs, then all four of them by two
// products.
func valueOfEight(w uint64) uint64 {
	const pairs = 0x000000ff000000ff
	w -= 0x3030303030303030
	w = w*10 + w>>8
	return ((w&pairs)*(100+1000000<<32) + (w>>16&pairs)*(1+10000<<32)) >> 32
}

// quotient returns m/d, correctly rounded. m and d are not 0.
func quotient(m, d uint64) float64 {
	e := bits.LeadingZeros64(d) - bits.LeadingZeros64(m)
	d, m = d<<bits.LeadingZeros64(d), m<<bits.LeadingZeros64(m)
	low := uint64(0)
	if m >= d {
		m, low, e = m>>1, m<<63, e+1
	}
	q, rest := bits.Div64(m, low, d) // at least 2⁶³: eleven bits more than a float64 has
	if rest != 0 {
		q |= 1
	}
	return math.Float64frombits(math.Float64bits(float64(q)) + uint64(e-64)<<52)
}
