package chart

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Tick is a place on an axis and its label.
type Tick struct {
	At    float64
	Label string
	Minor bool // dropped where room is short
}

// LinearTicks returns ticks 1-2-2.5-5 that enclose [lo, hi] with about n steps: the first is at or
// below lo, the last at or above hi, so no value lies outside its axis.
func LinearTicks(lo, hi float64, n int) []Tick {
	if !(hi > lo) {
		hi = lo + max(1, math.Abs(lo))
	}
	step := niceStep((hi - lo) / float64(n))
	// The slack keeps 300.00000000000006 from adding a whole step.
	a, b := math.Floor(lo/step+1e-6), math.Ceil(hi/step-1e-6)
	dec := stepDecimals(step)
	var ticks []Tick
	for k := a; k <= b; k++ {
		ticks = append(ticks, Tick{At: k * step, Label: Number(k*step, dec)})
	}
	return ticks
}

// niceStep returns the smallest of 1, 2, 2.5, 5 times a power of ten that is at least raw.
func niceStep(raw float64) float64 {
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, k := range []float64{1, 2, 2.5, 5} {
		if raw <= k*mag*1.0001 {
			return k * mag
		}
	}
	return 10 * mag
}

// stepDecimals returns how many decimals tell multiples of step apart.
func stepDecimals(step float64) int {
	for d := range 12 {
		s := step * math.Pow(10, float64(d))
		if math.Abs(s-math.Round(s)) < 1e-6*s {
			return d
		}
	}
	return 12
}

// LogTicks returns ticks on powers of ten, with 2 and 5 between them when the range is short, that
// lie in [lo, hi]; both must be positive.
func LogTicks(lo, hi float64) []Tick {
	decades := math.Log10(hi / lo)
	steps := []float64{1}
	if decades <= 3.2 {
		steps = []float64{1, 2, 5}
	}
	every := 1
	if decades > 8 {
		every = int(math.Ceil(decades / 6))
	}
	var ticks []Tick
	for e := int(math.Floor(math.Log10(lo))) - 1; e <= int(math.Ceil(math.Log10(hi))); e++ {
		if e%every != 0 {
			continue
		}
		for _, s := range steps {
			v := s * math.Pow(10, float64(e))
			if v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				ticks = append(ticks, Tick{At: v, Label: PowerLabel(v), Minor: s != 1})
			}
		}
	}
	if len(ticks) < 2 { // less than one step of the ladder: fall back on plain round numbers
		ticks = nil
		for _, t := range LinearTicks(lo, hi, 4) {
			if t.At >= lo && t.At <= hi {
				ticks = append(ticks, t)
			}
		}
	}
	majors := 0
	for _, t := range ticks {
		if !t.Minor {
			majors++
		}
	}
	if majors < 2 {
		for i := range ticks {
			ticks[i].Minor = false
		}
	}
	return ticks
}

// LogRange widens [lo, hi] a little and then to the neighbouring 1-2-5 number where that is near.
func LogRange(lo, hi float64) (float64, float64) {
	if !(hi > lo*1.2) {
		lo, hi = lo/1.5, hi*1.5
	}
	return logFloor(lo), 1 / logFloor(1/hi)
}

// logFloor returns the largest number of 1, 2, 5 times a power of ten at or below v.
func logFloor(v float64) float64 {
	mag := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	for _, k := range []float64{5, 2} {
		if v >= k*mag*(1-1e-9) {
			return k * mag
		}
	}
	return mag
}

// PowerLabel writes a tick of a log axis: plain between 0.001 and a million, as a power beyond.
func PowerLabel(v float64) string {
	if v >= 0.9e-3 && v < 1e6 {
		if v >= 1 {
			return Number(v, 0)
		}
		return Number(v, int(math.Ceil(-math.Log10(v)-1e-9)))
	}
	e := int(math.Floor(math.Log10(v) + 1e-9))
	m := v / math.Pow(10, float64(e))
	s := "10" + Superscript(e)
	if r := math.Round(m); r != 1 {
		s = Number(r, 0) + "·" + s
	}
	return s
}

var superscripts = strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷",
	"8", "⁸", "9", "⁹", "-", "⁻")

// Superscript writes n in raised digits: Superscript(-12) is ⁻¹².
func Superscript(n int) string { return superscripts.Replace(strconv.Itoa(n)) }

const (
	Minus  = "−"      // U+2212, before a negative number
	Narrow = "\u202f" // narrow no-break space, before a unit
)

// Number writes v with dec decimals, a true minus and commas between thousands.
func Number(v float64, dec int) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', dec, 64)
	whole, frac, _ := strings.Cut(s, ".")
	var b strings.Builder
	if v < 0 && strings.Trim(s, "0.") != "" {
		b.WriteString(Minus)
	}
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if frac != "" {
		b.WriteByte('.')
		b.WriteString(frac)
	}
	return b.String()
}

var groups = regexp.MustCompile(`\d{1,3}(,\d{3})+`)

// ungrouped takes the commas out of the numbers of s, for the keys of a file.
func ungrouped(s string) string {
	return groups.ReplaceAllStringFunc(s, func(n string) string { return strings.ReplaceAll(n, ",", "") })
}

// Count writes a whole number.
func Count(n int) string { return Number(float64(n), 0) }

// Amount writes a number in prose: dec decimals below a thousand, none above, a power of ten from
// ten million on.
func Amount(v float64, dec int) string {
	switch a := math.Abs(v); {
	case a >= 1e7:
		e := int(math.Floor(math.Log10(a)))
		return Number(v/math.Pow(10, float64(e)), 1) + "·10" + Superscript(e)
	case a >= 1000:
		return Number(v, 0)
	}
	return Number(v, dec)
}

// Signed is amount with an explicit plus.
func Signed(v float64, dec int) string {
	s := Amount(v, dec)
	if v > 0 {
		return "+" + s
	}
	return s
}

// Percent writes a share in whole per cent, or with one decimal where that would round to 0 or 100
// wrongly.
func Percent(p float64) string {
	if p < 0 {
		if p > -0.0005 {
			return "0%"
		}
		return Minus + Percent(-p)
	}
	if r := math.Round(100 * p); (r == 0 && p > 0) || (r == 100 && p < 1) {
		return Number(min(max(100*p, 0.1), 99.9), 1) + "%"
	}
	return Number(100*p, 0) + "%"
}

// DecimalsOf returns the decimals that show a step of size v.
func DecimalsOf(v float64) int {
	if v >= 1 {
		return 0
	}
	return int(math.Ceil(-math.Log10(v) - 1e-9))
}

// Micros writes a time of a round with three digits.
func Micros(us float64) string {
	switch {
	case us >= 1e6:
		return Number(us/1e6, 2) + Narrow + "s"
	case us >= 1e3:
		return Number(us/1e3, 2) + Narrow + "ms"
	case us >= 100:
		return Number(us, 0) + Narrow + "µs"
	case us >= 10:
		return Number(us, 1) + Narrow + "µs"
	}
	return Number(us, 2) + Narrow + "µs"
}
