package feature_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"troupe/feature"
)

// TestVWHashes compares with indices that Vowpal Wabbit 9 printed: its tutorial's --audit output, the chained hash of
// its release notes, and the inverted hash of its test ccb_quad (quadratic and cubic, across and within
// namespaces).
func TestVWHashes(t *testing.T) {
	v := feature.VW{Bits: 18}
	hash := func(feature string) uint32 {
		ns, name, ok := strings.Cut(feature, "^")
		if !ok {
			return v.Feature(v.Namespace(nil), []byte(ns))
		}
		if ns == "_ccb_slot_index" { // VW seeds the slot's number with another name than it shows
			ns = "_id"
		}
		return v.Feature(v.Namespace([]byte(ns)), []byte(name))
	}
	for name, want := range map[string]uint32{
		"price": 229902, "sqft": 162853, "age": 165201, "2006": 2006, "1976": 1976, "1924": 1924,
		"User^a": 25739, "User^b": 71687, "User^c": 218617, "Action^d": 100701, "Action^e": 210597, "Action^f": 209188, "Action^ff": 126903,
		"Action^fff": 183500, "Slot^h": 104617, "Slot^i": 119311, "j": 23097, "_ccb_slot_index^index1": 25433,
	} {
		if got := v.Index(hash(name)); got != want {
			t.Errorf("%s has index %d, VW %d", name, got, want)
		}
	}
	if got := v.Index(feature.VWConstant); got != 116060 {
		t.Errorf("the constant has index %d, VW 116060", got)
	}
	if got := v.Index(v.Value(0, []byte("myname"), []byte("myvalue"))); got != 112555 {
		t.Errorf("myname^myvalue has index %d, VW 112555", got)
	}
	for name, want := range map[string]uint32{
		"Action^fff*User^a": 431, "Slot^h*User^c": 2034, "User^c*j": 3266, "Action^e*Action^e": 13082, "User^a*User^a": 139866, "j*j": 155010,
		"User^a*_ccb_slot_index^index2": 2511, "Action^e*Action^e*_ccb_slot_index^index1": 4791, "Action^ff*Slot^i*_ccb_slot_index^index1": 9911,
		"User^a*User^a*_ccb_slot_index^index1": 28919, "Action^d*Action^d*_ccb_slot_index^index2": 260176,
	} {
		var hashes []uint32
		for f := range strings.SplitSeq(name, "*") {
			hashes = append(hashes, hash(f))
		}
		if got := v.Interaction(hashes...); got != want {
			t.Errorf("%s has index %d, VW %d", name, got, want)
		}
	}
	if all := (feature.VW{Bits: 18, All: true}); all.Feature(0, []byte("2006")) == 2006 {
		t.Error("with All a number is not hashed")
	}
}

func TestNonzeros(t *testing.T) {
	var a feature.Nonzeros
	if err := a.Reset(9); err == nil {
		t.Error("bits = 9 was accepted")
	}
	if err := a.Reset(10); err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		i uint32
		x float64
	}{{3, 1}, {9, 2}, {3, 0.5}} {
		if err := a.Add("|a f", f.i, f.x); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.At) != 2 || a.X[0] != 1.5 || a.Twice != 1 {
		t.Errorf("%v %v, %d twice: expected 3 with 1.5 and one feature twice", a.At, a.X, a.Twice)
	}
	for _, bad := range []struct {
		i uint32
		x float64
	}{{1024, 1}, {1, math.NaN()}, {1, math.Inf(1)}, {1, -2e18}} {
		var e *feature.Error
		if err := a.Add("|a f", bad.i, bad.x); !errors.As(err, &e) || e.Path != "|a f" {
			t.Errorf("index %d value %v: %v", bad.i, bad.x, err)
		}
	}
	if err := a.Reset(20); err != nil || len(a.At) != 0 {
		t.Fatal(err)
	}
	for i := range feature.MaxNonzeros {
		if err := a.Add("f", uint32(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Add("f", 1<<19, 1); err == nil {
		t.Error("65 537 nonzeros were accepted")
	}
}
