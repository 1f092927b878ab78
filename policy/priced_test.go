package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// costed is a list with costs.
type costed struct {
	bandit.Finite
	cost []float64
}

func (c costed) Cost(i int) float64 { return c.cost[i] }
func (c costed) Budget() float64    { return 2 }

// Each model votes for its best score less the price. So an equal price changes no vote, a price that is large leaves no vote, a
// reward for playing has all of them, and Select plays what the law allows.
func TestPricesInTheLaw(t *testing.T) {
	set, err := actionset.FiniteOf(3, []float64{.6, 0, 0, 0, .6, 0, .2, .2, .4})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []spec.Raw{
		{"kind": "effects"}, {"kind": "effects", "half_life": int64(50)},
		{"kind": "sparse"}, {"kind": "sparse", "link": "logistic"}, {"kind": "auto"}, {"kind": "atoms"}, {"kind": "ensemble"},
		{"kind": "ensemble", "combine": "max"},
		{"kind": "greedy"}, {"kind": "epsilon-greedy"}, {"kind": "linucb"},
		{"kind": "mixed", "base": spec.Raw{"kind": "auto"}},
	} {
		if raw["combine"] != nil {
			raw = spec.Raw{"kind": "ensemble", "select": "max"}
		}
		o, err := spec.Decode(policy.Kinds, raw, "policy")
		if err != nil {
			t.Fatal(err)
		}
		key := rng.NewKey(5)
		p, err := o.New(policy.Problem{Dim: 3, Arms: 3, Sigma: .5, Init: key.Stream(rng.Init)})
		if err != nil {
			t.Fatal(err)
		}
		if !bandit.Heeds(p) {
			t.Fatalf("%v heeds no prices", raw)
		}
		for i := range 40 {
			y := float64((i*i + i/3) % 2)
			if err := p.Update(bandit.Action{X: set.At(i % 3), Index: i % 3}, y, key.Stream(rng.Perturb).Round(uint64(i))); err != nil {
				t.Fatal(err)
			}
		}
		law := func(s bandit.ActionSet, n uint64) []float64 {
			var l bandit.Law
			draw := key.Stream(rng.Select).Round(n)
			if err := p.(bandit.Prober).Prob(&l, s, draw); err != nil {
				t.Fatal(err)
			}
			var a bandit.Action
			if err := p.Select(&a, s, draw); err != nil {
				t.Fatal(err)
			}
			if l.Atoms[a.Index].P == 0 {
				t.Fatalf("%v played an action of probability 0", raw)
			}
			var out []float64
			for _, a := range l.Atoms {
				out = append(out, a.P)
			}
			return out
		}
		for n := range uint64(20) {
			priced := func(price ...float64) []float64 {
				s, err := policy.Price(set, price, nil)
				if err != nil {
					t.Fatal(err)
				}
				return law(s, n)
			}
			if raw["link"] == nil {
				if a, b := law(set, n), priced(.5, .5, .5); fmt.Sprint(a) != fmt.Sprint(b) {
					t.Fatalf("%v: an equal price turns the law %v into %v", raw, a, b)
				}
			}
			floor := 0.0
			if raw["kind"] == "epsilon-greedy" || raw["kind"] == "mixed" {
				floor = .1
			}
			if l := priced(0, 1e6, 0); l[1] > floor {
				t.Fatalf("%v: a price of 10⁶ leaves probability %v", raw, l[1])
			}
			if l := priced(0, 0, -1e6); l[2] < 1-floor {
				t.Fatalf("%v: an action that pays for being played has probability %v", raw, l[2])
			}
		}
	}
	for _, kind := range []string{"ids", "squarecb", "logistic"} {
		o, err := spec.Decode(policy.Kinds, spec.Raw{"kind": "budgeted", "base": spec.Raw{"kind": kind}}, "policy")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.New(policy.Problem{Dim: 3, Arms: 3}); err == nil {
			t.Errorf("a budget around %s, which reads no prices, is taken", kind)
		}
	}
}

// A budgeted policy that is restored goes on as the one that was saved, to the bit, and a third of the money is not exceeded.
func TestBudgetedRestores(t *testing.T) {
	list, err := actionset.FiniteOf(3, []float64{.6, 0, 0, 0, .6, 0, .2, .2, .4})
	if err != nil {
		t.Fatal(err)
	}
	set := costed{list, []float64{1, math.NaN(), math.NaN()}}
	paid := []float64{1, 4, 9}
	o, err := spec.Decode(policy.Kinds, spec.Raw{"kind": "budgeted", "base": spec.Raw{"kind": "effects"}}, "policy")
	if err != nil {
		t.Fatal(err)
	}
	key := rng.NewKey(9)
	build := func() *policy.Budgeted {
		p, err := o.New(policy.Problem{Dim: 3, Arms: 3, Sigma: .5, Init: key.Stream(rng.Init)})
		if err != nil {
			t.Fatal(err)
		}
		return p.(*policy.Budgeted)
	}
	spent := 0.0
	play := func(p *policy.Budgeted, i uint64) int {
		var a bandit.Action
		if err := p.Select(&a, set, key.Stream(rng.Select).Round(i)); err != nil {
			t.Fatal(err)
		}
		spent += paid[a.Index]
		if err := p.Pay(a, paid[a.Index]); err != nil {
			t.Fatal(err)
		}
		if err := p.Update(a, float64(a.Index)/2, key.Stream(rng.Perturb).Round(i)); err != nil {
			t.Fatal(err)
		}
		return a.Index
	}
	p := build()
	for i := range uint64(300) {
		play(p, i+1)
	}
	if spent > 2*300+9 || spent < 1.8*300 {
		t.Fatalf("%v was spent of %v", spent, 2*300)
	}
	saved, err := p.AppendSnapshot(nil)
	if err != nil {
		t.Fatal(err)
	}
	q := build()
	if err := q.Restore(saved); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(50) {
		if a, b := play(p, 301+i), play(q, 301+i); a != b {
			t.Fatalf("decision %d: %d, restored %d", 301+i, a, b)
		}
	}
	if p.Pacer() != q.Pacer() {
		t.Fatalf("%+v, restored %+v", p.Pacer(), q.Pacer())
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := p.Pay(bandit.Action{X: list.At(0)}, bad); err == nil {
			t.Errorf("a cost of %v is taken", bad)
		}
	}
}

// oracle hides that a set is a list, so that a law is counted by asking it for each model.
type oracle struct{ bandit.Priced }

func (o oracle) Len() int { return o.Priced.(bandit.Finite).Len() }

// lawAsked returns the law over a set, and compares it with the votes that the oracle gives.
func lawAsked(t *testing.T, p bandit.Policy, set bandit.Priced, draw rng.Source) (law bandit.Law) {
	t.Helper()
	var want bandit.Law
	if err := p.(bandit.Prober).Prob(&law, set, draw); err != nil {
		t.Fatal(err)
	}
	if err := p.(bandit.Prober).Prob(&want, oracle{set}, draw); err != nil {
		t.Fatal(err)
	}
	votes := make([]uint64, len(law.Atoms)) // the oracle's law lists the actions that have votes
	for _, a := range want.Atoms {
		votes[a.Index] += a.Count
	}
	for i, a := range law.Atoms {
		if a.Count != votes[i] || law.Total != want.Total {
			t.Fatalf("%T, source %d: action %d has %d of %d votes, the oracle says %d of %d", p, draw.At(), i, a.Count, law.Total,
				votes[i], want.Total)
		}
	}
	return law
}

// The law under prices is the one that the oracle gives when it is asked for every model, to the vote: over random lists
// and prices, with arms that are equal, prices so close that rounding decides, large prices, and a part of the list.
func TestPricedLawAsksTheOracle(t *testing.T) {
	const d = 5
	r := rand.New(rand.NewPCG(31, 8))
	key := rng.NewKey(31)
	for _, raw := range []spec.Raw{{"kind": "auto"}, {"kind": "atoms"}, {"kind": "ensemble", "m": int64(24)},
		{"kind": "ensemble", "m": int64(24), "select": "max"}} {
		o, err := spec.Decode(policy.Kinds, raw, "policy")
		if err != nil {
			t.Fatal(err)
		}
		p, err := o.New(policy.Problem{Dim: d, Arms: 8, Sigma: .5, Init: key.Stream(rng.Init)})
		if err != nil {
			t.Fatal(err)
		}
		support := 0
		for n := range uint64(400) {
			k := 1 + r.IntN(40)
			x, price := make([]float64, k*d), make([]float64, k)
			for i := range x {
				x[i] = math.Round(4*r.NormFloat64()) / 8 // exact, and equal ones occur
			}
			unit := []float64{0, .1, .1, 1e-17, 1e12}[r.IntN(5)]
			for i := range price {
				price[i] = unit * float64(r.IntN(6)-1)
				if r.IntN(4) == 0 && i > 0 {
					copy(x[i*d:i*d+d], x[:d])
					price[i] = math.Nextafter(price[0], 1)
				}
			}
			list, err := actionset.FiniteOf(d, x)
			if err != nil {
				t.Fatal(err)
			}
			var keep []int
			if r.IntN(3) == 0 {
				for i := range k {
					if i == 0 || r.IntN(2) == 0 {
						keep = append(keep, i)
					}
				}
			}
			set, err := policy.Price(list, price, keep)
			if err != nil {
				t.Fatal(err)
			}
			draw := key.Stream(rng.Select).Round(n)
			law := lawAsked(t, p, set, draw)
			for _, a := range law.Atoms {
				if a.Count > 0 {
					support++
				}
			}
			var a bandit.Action
			if err := p.Select(&a, set, draw); err != nil {
				t.Fatal(err)
			}
			if law.Atoms[a.Index].Count == 0 {
				t.Fatalf("%v, list %d: action %d of probability 0 is played", raw, n, a.Index)
			}
			if err := p.Update(a, r.NormFloat64(), key.Stream(rng.Perturb).Round(n)); err != nil {
				t.Fatal(err)
			}
			for again := range uint64(n % 3) { // of some lists a policy keeps the scores
				draw := key.Stream(rng.Select).Round(1000*n + again)
				lawAsked(t, p, set, draw)
				a := bandit.Action{X: set.(bandit.Finite).At(0), Index: 0}
				if err := p.Update(a, 0, key.Stream(rng.Perturb).Round(1000*n+again)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if least := 400; raw["select"] == nil && support < 2*least || support < least {
			t.Errorf("%v: %d actions have votes in 400 lists: the laws say too little", raw, support)
		}
	}
}
