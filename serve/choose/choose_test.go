package choose

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/policy"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPropensity: under a floor the fractions add up to 1 exactly, and are the law of package
// policy's Mixed to rounding.
func TestPropensity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 9).Draw(t, "k")
		c := model.Default("m")
		c.Dim = 2
		must(0, c.Policy.DecodeSpec(spec.Raw{"kind": "ensemble"}, "policy"))
		c.Floor = float64(rapid.IntRange(0, 1000).Draw(t, "floor")) / 1000
		cfg := must(c.Compile(model.Limits{Members: 1000}))
		l := law{offer: &Offer{compiled: cfg}}
		left := uint64(32)
		l.voted.Total = left
		for i := range k {
			n := left
			if i < k-1 {
				n = rapid.Uint64Range(0, left).Draw(t, "count")
			}
			left -= n
			l.voted.Atoms = append(l.voted.Atoms, bandit.Atom{Count: n, P: float64(n) / 32})
		}
		var sum uint64
		for i := range k {
			num, den := l.propensity(i)
			sum += num
			want := (1-c.Floor)*l.voted.Atoms[i].P + c.Floor/float64(k)
			if got := float64(num) / float64(den); math.Abs(got-want) > 1e-15 {
				t.Fatalf("propensity %d/%d = %v, want %v", num, den, got, want)
			}
			if i == k-1 && sum != den {
				t.Fatalf("the numerators add up to %d of %d", sum, den)
			}
		}
	})
}

// TestMember: the member and the sign in the record are those whose model chose the action.
func TestMember(t *testing.T) {
	c := model.Default("m")
	c.Dim, c.Floor = 3, 0
	must(0, c.Policy.DecodeSpec(spec.Raw{"kind": "ensemble"}, "policy"))
	v := &Version{Compiled: must(c.Compile(model.Limits{Members: 1000})), ID: 7}
	p := must(v.Compiled.NewPolicy(v.Seed))
	for n := range 20 {
		if err := p.Update(bandit.Action{X: []float64{0.5, float64(n%3) / 4, -0.25}}, float64(n%2), draw(v.Seed, 1, eventlog.ID(n))); err != nil {
			t.Fatal(err)
		}
	}
	v.State = fold.NewState(must(p.AppendSnapshot(nil)))
	w := must(v.Worker(nil))
	theta := make([]float64, 3)
	seen := map[string]bool{}
	for n := range eventlog.ID(200) {
		w.Offer.X = []float64{0.5, 0, 0, 0, 0.5, 0, 0, 0, 0.5, -0.5, 0, 0, 0, -0.5, 0}
		got := must(w.Choose(n+1, n%2 == 0))
		sign := 1.0
		if got.Negative {
			sign = -1
		}
		w.policy.(*policy.Ensemble).Model(theta, int(got.Member), sign)
		var a bandit.Action
		if _, err := must(actionset.FiniteOf(3, w.Offer.X)).ArgMax(&a, theta); err != nil || a.Index != got.Index {
			t.Fatalf("draw %d: member %d %v prefers %d, chosen was %d (%v)", n, got.Member, got.Negative, a.Index, got.Index, err)
		}
		seen[fmt.Sprint(got.Member, got.Negative)] = true
	}
	// 200 draws from 32 models: all but 3 are seen but with probability below 1e-4 (fixed seed).
	if len(seen) < 29 {
		t.Fatalf("only %d of 32 models were drawn", len(seen))
	}
}
