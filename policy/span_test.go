package policy

import (
	"errors"
	"math"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/rng"
)

// TestPriorSpan: with m < d the actions on the ball have exact zeros outside of the first m coordinates, after 3000 rounds too, and with init = "prior"
// they have not; |S_0^j|² has the law of d normals, j < d, with λ = 2 (mean 2d, five standard errors over 4000 members); other sets are refused.
func TestPriorSpan(t *testing.T) {
	const d, m = 6, 3
	ball, _ := actionset.NewBall(d)
	problem := Problem{Dim: d, Horizon: 3000, Init: rng.NewKey(1).Stream(rng.Init)}
	for init, zeros := range map[string]bool{"prior-span": true, "prior": false} {
		e, err := NewEnsemble(EnsembleOptions{M: m, Targets: "gaussian", Init: init}, problem)
		if err != nil {
			t.Fatal(err)
		}
		var a bandit.Action
		outside := 0.0
		for k := range uint64(3000) {
			if err := e.Select(&a, ball, rng.NewKey(2).Stream(rng.Select).Round(k)); err != nil {
				t.Fatal(err)
			}
			for _, v := range a.X[m:] {
				outside = max(outside, math.Abs(v))
			}
			y := 0.5*a.X[0] + 0.5*a.X[d-1] + rng.NewKey(2).Stream(rng.Reward).Round(k).Normal(0)
			if err := e.Update(a, y, rng.NewKey(2).Stream(rng.Perturb).Round(k)); err != nil {
				t.Fatal(err)
			}
		}
		if (outside == 0) != zeros || e.Confined(ball) == zeros {
			t.Errorf("init = %q: %v outside of the span, confined %v", init, outside, e.Confined(ball))
		}
	}
	const n = 4000
	var sum [2]float64
	first := initial("prior-span", d, 2, 1, rng.NewKey(3).Stream(rng.Init))
	for k := range n {
		row := make([]float64, d)
		initial("prior-span", d, 2, 1, rng.NewKey(uint64(k)).Stream(rng.Init))(row, 2)
		if row[3] != 0 || row[4] != 0 || row[5] != 0 || row[2] < 0 {
			t.Fatalf("member 3 is %v", row)
		}
		for _, v := range row {
			sum[0] += v * v / n
		}
		first(row, d+k) // later members are N(0, λI)
		sum[1] += row[d-1] * row[d-1] / n
	}
	if math.Abs(sum[0]-2*d) > 5*2*math.Sqrt(2*d/float64(n)) || math.Abs(sum[1]-2) > 5*2*math.Sqrt(2/float64(n)) {
		t.Errorf("mean squares %v, expected %v and 2", sum, 2*d)
	}
	set := mustSet(t, []float64{1, 0, 0, 0, 0, 0}, []float64{0, 1, 0, 0, 0, 0})
	e, _ := NewEnsemble(EnsembleOptions{M: m, Targets: "gaussian", Init: "prior-span"}, problem)
	if err := e.Select(new(bandit.Action), set, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) {
		t.Errorf("arms: %v", err)
	}
	for _, o := range []EnsembleOptions{{M: m, Init: "prior-span"}, {Growing: true, Init: "prior-span"}, {M: m, Init: "prior-span", Targets: "gaussian", Engine: "exact-law"}} {
		if _, err := NewEnsemble(o, problem); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
