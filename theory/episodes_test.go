package theory

import (
	"errors"
	"math"
	"testing"
)

// TestEpisodicOrders: values by hand at d = 2, H = 3, S = 5, A = 7, T = 10⁴, and what is refused.
func TestEpisodicOrders(t *testing.T) {
	s := EpisodicSetting{2, 3, 5, 7, 1e4}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"zanette2020": 3600, "lsvi-phe2021": math.Sqrt(8 * 27 * 1e4),
		"xiong2022": 300 * math.Sqrt(35)}
	for _, o := range EpisodicOrders {
		v, ok := o.Eval(s)
		if w, is := want[o.Name]; ok != is || math.Abs(v-w) > 1e-9*w {
			t.Errorf("%s: %v, %v, expected %v", o.Name, v, ok, w)
		}
		if o.Source == "" || o.Read == "" || ok != (o.Regret != "") {
			t.Errorf("%+v", o)
		}
	}
	for _, bad := range []EpisodicSetting{{0, 3, 5, 7, 1e4}, {2, 0, 5, 7, 1e4}, {2, 3, 0, 7, 1e4}, {2, 3, 5, 0, 1e4},
		{2, 3, 5, 7, 2}, {2, 3, 5, 7, math.NaN()}, {2, 3, 5, 7, math.Inf(1)}} {
		var domain *DomainError
		if err := bad.Check(); !errors.As(err, &domain) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
