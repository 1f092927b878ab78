package candidates

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"troupe/feature"
)

// FuzzParse: no bytes make Parse panic.
func FuzzParse(f *testing.F) {
	f.Add(Append(nil, []int{1, 4}, []float64{0.5, 0, 0, 0.1}, 2))
	f.Add(Append(nil, []int{1, 4}, nil, 2))
	f.Add(AppendAtoms(nil, nil, []feature.Atom{{Hash: 1, Value: 1}}, [][]feature.Atom{{{Hash: 2, Value: 0.5}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Parse(b)
		if err == nil && got.Actions == nil && len(got.X) != got.K*got.D {
			t.Fatalf("%d numbers for %d×%d", len(got.X), got.K, got.D)
		}
	})
}

// TestNarrow compares narrow with the conversions of the language, bit for bit, over all exponents.
func TestNarrow(t *testing.T) {
	check := func(v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		f := float32(v)
		got, ok := narrow(v)
		if want := float64(f) == v; ok != want || ok && got != math.Float32bits(f) {
			t.Fatalf("%v: %#x, %v; want %#x, %v", v, got, ok, math.Float32bits(f), want)
		}
	}
	for e := uint64(0); e < 0x7ff; e++ {
		for _, m := range []uint64{0, 1, 1<<29 - 1, 1 << 29, 1 << 28, 1<<52 - 1, 1<<52 - 1<<29, 1 << 51} {
			check(math.Float64frombits(e<<52 | m))
			check(math.Float64frombits(1<<63 | e<<52 | m))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		check(rapid.Float64().Draw(t, "v"))
		check(float64(rapid.Float32().Draw(t, "f")))
	})
}

// TestRoundTrip: the candidates of a decision come back from their bytes.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.IntRange(1, 6).Draw(t, "d")
		k := rapid.IntRange(1, 6).Draw(t, "k")
		var x []float64
		var places []int
		for range k * d {
			x = append(x, rapid.SampledFrom([]float64{0, 0, 0.5, -0.25, 0.1, 1e-9}[:rapid.SampledFrom([]int{4, 6}).Draw(t, "narrow")]).Draw(t, "x"))
		}
		if rapid.Bool().Draw(t, "masked") {
			at := 0
			for range k {
				at += rapid.IntRange(1, 300).Draw(t, "step")
				places = append(places, at-1)
			}
		}
		f, err := Parse(Append(nil, places, x, d))
		if err != nil || f.K != k || f.D != d || fmt.Sprint(f.X) != fmt.Sprint(x) || fmt.Sprint(f.Places) != fmt.Sprint(places) {
			t.Fatalf("%v %+v, want %v %v", err, f, x, places)
		}
	})
}

// TestAtoms: candidates with hashed features come back as they were, and bytes that are cut or changed in their
// form are refused.
func TestAtoms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		atoms := func(least int) (out []feature.Atom) {
			for range rapid.IntRange(least, 5).Draw(t, "atoms") {
				out = append(out, feature.Atom{Hash: rapid.Uint64().Draw(t, "hash"), Value: rapid.SampledFrom([]float64{1, -0.5, 3}).Draw(t, "value")})
			}
			return out
		}
		context, actions := atoms(0), make([][]feature.Atom, rapid.IntRange(1, 5).Draw(t, "k"))
		for i := range actions {
			actions[i] = atoms(1)
		}
		places := []int(nil)
		if rapid.Bool().Draw(t, "places") {
			for i := range actions {
				places = append(places, 2*i)
			}
		}
		b := AppendAtoms(nil, places, context, actions)
		got, err := Parse(b)
		if err != nil || got.K != len(actions) || got.D != 0 || !slices.Equal(got.Context, context) || !slices.Equal(got.Places, places) {
			t.Fatalf("%+v, %v", got, err)
		}
		for i := range actions {
			if !slices.Equal(got.Actions[i], actions[i]) {
				t.Fatalf("candidate %d is %v, want %v", i, got.Actions[i], actions[i])
			}
		}
		if _, err := Parse(b[:rapid.IntRange(1, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("cut bytes were read")
		}
		if _, err := Parse(append(b, 0)); err == nil {
			t.Fatal("a byte too many was read")
		}
		b[1] |= withVectors
		if _, err := Parse(b); err == nil {
			t.Fatal("atoms and vectors were read")
		}
	})
}
