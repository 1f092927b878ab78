package policy_test

import (
	"math"
	"testing"

	"troupe/policy"
	"troupe/spec"
)

// TestScaleDecodes: a bare number is a constant scale, a table names its kind, and its value has a default; what has
// no meaning is refused under its own path.
func TestScaleDecodes(t *testing.T) {
	for _, c := range []struct {
		v    any
		want policy.Scale
	}{
		{0.5, policy.Constant(0.5)},
		{int64(2), policy.Constant(2)},
		{spec.Raw{"kind": "beta"}, policy.Scale{Kind: "beta", Value: 1}},
		{spec.Raw{"kind": "betatilde", "value": 0.25}, policy.Scale{Kind: "betatilde", Value: 0.25}},
		{spec.Raw{"kind": "constant", "value": 3.0}, policy.Scale{Kind: "constant", Value: 3}},
	} {
		var s policy.Scale
		if err := s.DecodeSpec(c.v, "scale"); err != nil || s != c.want {
			t.Errorf("%v: %+v, %v, expected %+v", c.v, s, err, c.want)
		}
	}
	for _, v := range []any{0.0, -1.0, math.NaN(), math.Inf(1), "large", spec.Raw{"kind": "gamma"}, spec.Raw{"kind": "beta", "value": 0.0}, spec.Raw{"kind": "constant"}} {
		s := policy.Constant(7)
		if err := s.DecodeSpec(v, "scale"); err == nil || s != policy.Constant(7) {
			t.Errorf("%v: %+v, %v, expected an error and no change", v, s, err)
		}
	}
}
