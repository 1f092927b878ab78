package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/spec"
)

// TestHalfLifeOption: how it is written, what it is read as, and what is refused.
func TestHalfLifeOption(t *testing.T) {
	for v, want := range map[any]HalfLife{
		int64(1400): {Events: 1400}, 60.5: {Events: 60.5}, "7d": {Time: 7 * 24 * time.Hour}, "12h": {Time: 12 * time.Hour},
		"1d12h": {Time: 36 * time.Hour}, "0.5d": {Time: 12 * time.Hour}, "90s": {Time: 90 * time.Second}, int64(0): {},
	} {
		var h, again HalfLife
		if err := h.DecodeSpec(v, "half_life"); err != nil || h != want {
			t.Errorf("%v: %v, %v", v, h, err)
		}
		if h.Time > 0 {
			if err := again.DecodeSpec(h.String(), ""); err != nil || again != h {
				t.Errorf("%v is written %q, which is %v, %v", h, h, again, err)
			}
		}
	}
	for _, v := range []any{"7 days", "d", "-1d", "-1h", "0s", "", "1e9d", "NaNd", "Infd", "100000000h", true, -1.0, math.NaN(),
		math.Inf(1), spec.Raw{}} {
		var h HalfLife
		if err := h.DecodeSpec(v, "half_life"); err == nil || !strings.Contains(err.Error(), "half_life") || !h.IsZero() {
			t.Errorf("%v: %v, %v", v, h, err)
		}
	}
	for want, o := range map[string]EffectsOptions{
		"half_life is 49, expected a number of events, at least 50": {Change: restarts, HalfLife: HalfLife{Events: 49}},
		`half_life is "7d", but nothing here says when`:             {Change: restarts, HalfLife: HalfLife{Time: 7 * 24 * time.Hour}},
		"half_life is NaN": {Change: restarts, HalfLife: HalfLife{Events: math.NaN()}},
		`half_life is "1ms", expected a time of at least 1s`: {Change: restarts, HalfLife: HalfLife{Time: time.Millisecond}},
	} {
		if _, err := NewEffects(o, Problem{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func mustBytes(t testing.TB, p bandit.Snapshotter) []byte {
	t.Helper()
	b, err := p.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
