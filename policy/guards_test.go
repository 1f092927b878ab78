package policy

import (
	"errors"
	"math"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/internal/members"
	"troupe/rng"
)

// small is a problem for tests of what options become.
var small = Problem{Dim: 2, Horizon: 100, Arms: 2, Init: rng.NewKey(1).Stream(rng.Init)}

// TestFloorByDefault: a floor that is not given is 0.05, and 0 has to be asked for.
func TestFloorByDefault(t *testing.T) {
	for _, c := range []struct {
		o    MixedOptions
		want float64
	}{{MixedOptions{}, 0.05}, {MixedOptions{Epsilon: 0.2}, 0.2}, {MixedOptions{NoFloor: true}, 0}} {
		m, err := NewMixed(c.o, small)
		if err != nil || m.epsilon != c.want {
			t.Errorf("%+v: floor %v, error %v; want %v", c.o, m, err, c.want)
		}
	}
}

// TestTooManyDimensions: the refusal says how much memory V takes.
func TestTooManyDimensions(t *testing.T) {
	_, err := NewAtoms(AtomsOptions{}, Problem{Dim: 1_000_000, Horizon: 10, Init: small.Init})
	if err == nil || !strings.Contains(err.Error(), "dimension is 1000000") || !strings.Contains(err.Error(), "1e+12 numbers, 8e+03 GB") {
		t.Errorf("error %v", err)
	}
}

// TestEngineAsAsked: an engine that is named is the one that plays.
func TestEngineAsAsked(t *testing.T) {
	for _, reference := range []string{"", "pair", "coordinate"} {
		for _, engine := range []string{members.Eager, members.Blocked, members.Lazy} {
			e, err := NewEnsemble(EnsembleOptions{M: 4, Engine: engine, Reference: reference}, small)
			if err != nil {
				if !errors.Is(err, bandit.ErrUnsupported) && !strings.Contains(err.Error(), "engine") {
					t.Errorf("reference %q, engine %s: %v", reference, engine, err)
				}
				continue
			}
			if e.Engine() != engine {
				t.Errorf("reference %q: engine %s plays where %s was asked for", reference, e.Engine(), engine)
			}
		}
	}
}

// TestLastEpochs: the length of an epoch doubles, and is the largest number where that would overflow.
func TestLastEpochs(t *testing.T) {
	for _, c := range []struct{ first, k, want int }{
		{1, 0, 1}, {3, 4, 48}, {1, 61, 1 << 61}, {1, 62, math.MaxInt}, {1, 200, math.MaxInt}, {4, 61, math.MaxInt}, {1 << 40, 30, math.MaxInt}, {1 << 40, 22, 1 << 62},
	} {
		d := &Doubling{opts: DoublingOptions{First: c.first}}
		if got := d.length(c.k); got != c.want {
			t.Errorf("epoch %d after a first one of %d rounds has %d, want %d", c.k, c.first, got, c.want)
		}
	}
}

// TestSignOfZero: arms that differ in the sign of a zero are one arm.
func TestSignOfZero(t *testing.T) {
	c, err := NewCassel(CasselOptions{M: 1}, small)
	if err != nil {
		t.Fatal(err)
	}
	minus := math.Copysign(0, -1)
	if err := c.Update(bandit.Action{X: []float64{0.5, minus}}, 0.7, rng.Source{}); err != nil {
		t.Fatal(err)
	}
	for _, zero := range []float64{0, minus} {
		if got := c.Mean([]float64{0.5, zero}); got != 0.7 {
			t.Errorf("the mean of (0.5, %v) is %v, want 0.7", zero, got)
		}
	}
}
