package decimal

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestShort(t *testing.T) {
	for _, c := range []struct {
		v      float64
		digits int
		want   string
	}{
		{100, 2, "100"}, {99.6, 2, "100"}, {1035, 2, "1000"}, {1000, 3, "1000"}, {123456, 3, "123000"}, {0.123456, 3, "0.123"},
		{-1e6, 2, "-1000000"}, {12, 1, "10"}, {0, 3, "0"}, {999999, 2, "1000000"}, {0.00001234, 2, "0.000012"},
		{0.000001234, 2, "1.2e-06"}, {1e15, 2, "1e+15"}, {9.99e14, 2, "1e+15"}, {2.5, 4, "2.5"}, {math.Inf(-1), 2, "-Inf"},
		{math.NaN(), 2, "NaN"}, {math.MaxFloat64, 3, "1.8e+308"}, {math.MaxFloat64, 20, "1.7976931348623157e+308"},
	} {
		if got := Short(c.v, c.digits); got != c.want {
			t.Errorf("Short(%v, %d) = %s, want %s", c.v, c.digits, got, c.want)
		}
	}
}

// TestText: the text of a number is the number, and no exponent stands where a reader does not expect one.
func TestText(t *testing.T) {
	for _, v := range []float64{0, 1, -1, 0.1, 1e5, 1e6, 20231105, 123456.789, 1e14, 1e15, 1e-5, 1e-6, 5e-324, math.MaxFloat64, 1.0 / 3} {
		s := Text(v)
		if back, err := strconv.ParseFloat(s, 64); err != nil || back != v {
			t.Errorf("%v is printed as %s", v, s)
		}
		if a := math.Abs(v); a >= 1e-5 && a < 1e15 && strings.Contains(s, "e") {
			t.Errorf("%v is printed as %s", v, s)
		}
	}
}
