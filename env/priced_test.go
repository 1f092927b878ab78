package env

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/rng"
)

// The linear program by its dual, which shares no code: min over λ ≥ 0 of Σ max_a (r − λc) + λnb is convex and piecewise
// linear, with corners where two actions of a context are equal.
func TestPricedProgram(t *testing.T) {
	draw := rng.NewKey(7).Stream(rng.Instance).Round(1)
	for trial := range 200 {
		n, k := 1+trial%5, 2+trial%3
		r, c := make([]float64, n*k), make([]float64, n*k)
		for i := range r {
			r[i], c[i] = draw.Float64(trial*100+i), math.Round(10*draw.Float64(trial*100+50+i))
		}
		mean := func(x, a int) (float64, float64, bool) { return r[x*k+a], c[x*k+a], true }
		least, most := 0.0, 0.0
		for x := range n {
			lo, hi := math.Inf(1), 0.0
			for a := range k {
				lo, hi = min(lo, c[x*k+a]), max(hi, c[x*k+a])
			}
			least, most = least+lo/float64(n), most+hi/float64(n)
		}
		b := least + draw.Float64(trial*100+99)*(most-least+1)
		dual := func(l float64) (v float64) {
			for x := range n {
				best := math.Inf(-1)
				for a := range k {
					best = max(best, r[x*k+a]-l*c[x*k+a])
				}
				v += best
			}
			return v/float64(n) + l*b
		}
		want := dual(0)
		for x := range n {
			for a := range k {
				for d := range k {
					if dc := c[x*k+d] - c[x*k+a]; dc > 0 {
						if l := (r[x*k+d] - r[x*k+a]) / dc; l > 0 {
							want = min(want, dual(l))
						}
					}
				}
			}
		}
		lp := solvePriced(b, n, k, mean)
		if math.Abs(lp.reward-want) > 1e-9 || lp.cost > b+1e-9 || math.Abs(dual(lp.price)-want) > 1e-9 {
			t.Fatalf("trial %d: %+v within %v, the dual is %v", trial, lp, b, want)
		}
	}
}

// The best policy within the budget has no regret, and an action that is not there cannot be played.
func TestPricedWorlds(t *testing.T) {
	table := filepath.Join(t.TempDir(), "t.csv")
	text := "kind,length,a_reward,a_cost,b_reward,b_cost\nx,1,.5,1,.9,3\ny,2,.5,1,.6,3\nx,3,.4,1,.9,3\n"
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := NewPricedTable()
	o.Data, o.Budget, o.Change, o.Action, o.At = table, 7./3, "enter", "b", 4
	w, err := o.Build(rng.NewKey(1), new(dataset.Source))
	if err != nil {
		t.Fatal(err)
	}
	world := w.(bandit.Costly)
	offers := rng.NewKey(1).Stream(rng.Offer)
	var regret float64
	for i := uint64(1); i <= 6; i++ {
		set, err := world.Offer(offers.Round(i))
		if err != nil {
			t.Fatal(err)
		}
		k := set.(bandit.Sparse).Len()
		if want := 1 + b2i(i >= 4); k != want {
			t.Fatalf("round %d has %d actions, want %d", i, k, want)
		}
		a := bandit.Action{Index: k - 1}
		if y, _ := world.Reward(a, rng.Source{}); y < .65 {
			a.Index = 0 // b in row y is not worth the money
		}
		r, err := world.Regret(a)
		c, _ := world.Cost(a)
		if err != nil || r < 0 || c != 1 && c != 3 {
			t.Fatalf("round %d: regret %v, cost %v, %v", i, r, c, err)
		}
		if i >= 4 {
			regret += r
		}
	}
	if regret > 1e-12 {
		t.Fatalf("the best policy has the regret %v", regret)
	}
	o.Budget = .5
	if _, err := o.Build(rng.NewKey(1), new(dataset.Source)); err == nil || !strings.Contains(err.Error(), "cheapest") {
		t.Fatalf("a budget below the cheapest action: %v", err)
	}
	for _, bad := range []string{"a_reward,a_cost\n1,2\n", "a_reward,a_cost,b_reward,b_cost\n1,2,3,-4\n",
		"a_reward,a_cost,b_reward,b_cost\n1,2,x,4\n", "a_reward,a_cost,b_reward,b_cost\n", "a,b\n1\n"} {
		if err := os.WriteFile(table, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readPriced(table); err == nil {
			t.Errorf("the table %q is taken", bad)
		}
	}
}
