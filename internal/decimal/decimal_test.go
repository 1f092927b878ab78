package decimal

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

var seeds = []string{"0", "-0", "1", "-", "", "012", "1.", "1.5", "-1.50", "1e", "1e5", "1E+5", "1e-400", "1e400", "-1e400", ".5",
	"9007199254740993", "0.1234567890123456789", "12345678901234567890", "1.2345678x", "1,2", "00", "-01", "1e5.5",
	"99999999999999999999999999999999", "4.9e-324", "1.7976931348623157e308", "0.30000000000000004", "12345678.12345678"}

// check compares both readers with encoding/json and strconv on the longest prefix that they take.
func check(t *testing.T, b []byte) {
	t.Helper()
	end, ok := End(b, 0)
	if end > len(b) {
		t.Fatalf("%q ends at %d", b, end)
	}
	if ok != json.Valid(b[:end]) {
		t.Fatalf("%q: a number is %v, encoding/json says %v of %q", b, ok, !ok, b[:end])
	}
	if len(b) == 0 {
		return
	}
	x, n, fault := Read(b)
	if fault == LeadingZeros {
		if !ok || end == len(b) || b[end-1] != '0' || b[end]-'0' > 9 {
			t.Fatalf("%q: leading zeros", b)
		}
		return
	}
	if ok != (fault == None || fault == TooLarge) || ok && n != end {
		t.Fatalf("%q: Read %v at %d, End %v at %d", b, fault, n, ok, end)
	}
	if !ok {
		return
	}
	want, err := strconv.ParseFloat(string(b[:n]), 64)
	if (err != nil) != (fault == TooLarge) || fault == None && math.Float64bits(x) != math.Float64bits(want) {
		t.Fatalf("%q: %v, %v; strconv says %v, %v", b[:n], x, fault, want, err)
	}
}

// TestNumbers on random texts of the letters of numbers, with many that are numbers.
func TestNumbers(t *testing.T) {
	for _, s := range seeds {
		check(t, []byte(s))
		if end, ok := End([]byte(s), 0); json.Valid([]byte(s)) && (!ok || end != len(s)) {
			t.Errorf("%q is a number and ends at %d, %v", s, end, ok)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	const letters = "00123456789999.-eE+,] x"
	for range 60_000 {
		var b strings.Builder
		if r.IntN(2) == 0 {
			b.WriteString(strconv.FormatFloat(math.Float64frombits(r.Uint64()), "efg"[r.IntN(3)], r.IntN(22)-1, 64))
		}
		for range r.IntN(24) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		check(t, []byte(b.String()))
	}
}

func FuzzNumbers(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}
