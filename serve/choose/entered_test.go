package choose

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"troupe/budget"
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// TestFloorsOfEntered: the law with the floors of actions that have entered is (1 − F)·q + f exactly, with q the law of the same draw
// without them and F the floors of what the hard stop has left; the record gives it back, draws have it, the expected cost is that of all
// floors, and an action that has entered again is another one to the policy.
func TestFloorsOfEntered(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 7))
	stopped, gone, floored := 0, 0, 0
	for n := range 60 {
		c := model.Default("m")
		c.Floor = []float64{0, .01, .25}[n%3]
		priced := n%2 == 0
		if priced {
			c.Budget = model.Budget{Mean: 3, Per: "decision"}
		}
		k := 1 + r.IntN(6)
		for i := range k {
			if r.IntN(2) == 0 {
				c = must(c.Enter(fmt.Sprint(i), float64(1+r.IntN(160_000))/1e6, 10, model.Prior{}, 100))
			}
		}
		cfg := must(c.Admit(model.DefaultLimits))
		seed := rng.NewKey(r.Uint64())
		p := must(cfg.NewPolicy(seed))
		v := &Version{ID: 1, Compiled: cfg, Seed: seed}
		for range 30 {
			v.Spending.Decide(budget.Limit{Mean: 3}, 0, 3+r.Float64(), []float64{0, 2.5}[n%4/2], false)
		}
		v.State = fold.NewState(must(p.AppendSnapshot(nil)))
		w := must(v.Worker(nil))
		var q Request
		for i := range k {
			a := Action{ID: fmt.Sprint(i)}
			if priced {
				a.Cost = new([]float64{0, 1, 5, 40}[r.IntN(4)])
			}
			q.Actions = append(q.Actions, a)
		}
		must(0, w.Offer.Encode(&q))
		w.Budget(0)
		plain := must(w.Choose(1, true))
		var want []*big.Rat
		for i := range k {
			num, den := w.Propensity(i)
			want = append(want, ratOf(num, den))
		}
		remains := make([]bool, k)
		for i := range k {
			remains[i] = w.law.market.remains(w.law.groups.of[i])
		}
		v.Floors = cfg.Floors(109)
		if len(cfg.Floors(110)) > 0 || cfg.FloorEnds(109) || cfg.FloorEnds(110) != (len(v.Floors) > 0) {
			t.Fatal("floors do not end where they should")
		}
		choice := must(w.Choose(1, true))
		sum, all, expects := new(big.Rat), 0., plain.Expects
		floors := make([]*big.Rat, k)
		for i := range k {
			floors[i] = new(big.Rat)
			for _, f := range v.Floors {
				if w.Offer.sparse.actions[i][0].Hash != f.Atom {
					continue
				}
				if remains[i] {
					floors[i] = big.NewRat(int64(f.Parts), eventlog.FloorUnit)
					sum.Add(sum, floors[i])
				} else {
					gone++
				}
				all += float64(f.Parts) / eventlog.FloorUnit
				if priced {
					expects += float64(f.Parts) / eventlog.FloorUnit * w.Offer.costs[i]
				}
			}
		}
		if expects -= all * plain.Expects; priced && math.Abs(expects-choice.Expects) > 1e-12*(1+expects) {
			t.Fatalf("case %d: expects %v, want %v", n, choice.Expects, expects)
		}
		if choice.Floored != (sum.Sign() > 0) {
			t.Fatalf("case %d: floored %v with floors that sum to %v", n, choice.Floored, sum)
		}
		rest := new(big.Rat).Sub(big.NewRat(1, 1), sum)
		total := new(big.Rat)
		law, groups, voters := w.Law()
		for i := range k {
			want[i] = new(big.Rat).Add(new(big.Rat).Mul(rest, want[i]), floors[i])
			num, den := w.Propensity(i)
			got := ratOf(num, den)
			if total.Add(total, got); got.Cmp(want[i]) != 0 {
				t.Fatalf("case %d: candidate %d has %v, want %v", n, i, got, want[i])
			}
			if !choice.Floored || k < 2 {
				continue
			}
			p, _ := want[i].Float64()
			if groups != nil || math.Abs(float64(law[i])/float64(voters)-p) > 1e-15 {
				t.Fatalf("case %d: the record gives candidate %d %d of %d, want %v", n, i, law[i], voters, p)
			}
		}
		if total.Cmp(big.NewRat(1, 1)) != 0 {
			t.Fatalf("case %d: the law sums to %v", n, total)
		}
		if choice.Floored {
			floored++
		}
		if choice.Stopped {
			stopped++
		}
		// The members are those of a decision: each draw has a law of its own.
		draws := 100
		if n%4 == 0 {
			draws = 1600
		}
		counts, mean, variance := make([]float64, k), make([]float64, k), make([]float64, k)
		for nonce := range eventlog.ID(draws) {
			counts[must(w.Choose(nonce+1, true)).Index]++
			for i := range k {
				num, den := w.Propensity(i)
				p := float64(num) / float64(den)
				mean[i], variance[i] = mean[i]+p, variance[i]+p*(1-p)
			}
		}
		for i, x := range counts { // 5.5 standard errors: 60·6 comparisons at 4e-8
			if math.Abs(x-mean[i]) > 5.5*math.Sqrt(variance[i])+.01 {
				t.Errorf("case %d: candidate %d was drawn %v of %d times, want %v", n, i, x, draws, mean[i])
			}
		}
	}
	if stopped < 5 || gone < 5 || floored < 20 {
		t.Errorf("%d under the hard stop, %d floors taken away, %d with floors: this shows too little", stopped, gone, floored)
	}
}

func ratOf(num, den uint64) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
}

// TestLeft: an action that has left is no candidate, and when all have, the request is refused; one that enters again has another atom.
func TestLeft(t *testing.T) {
	c := model.Default("m")
	atoms := map[uint64]bool{}
	for range 3 {
		cfg := must(c.Admit(model.DefaultLimits))
		v := &Version{ID: 1, Compiled: cfg, Seed: rng.NewKey(3), State: fold.NewState(must(must(cfg.NewPolicy(rng.NewKey(3))).AppendSnapshot(nil)))}
		w := must(v.Worker(nil))
		must(0, w.Offer.Encode(&Request{Actions: []Action{{ID: "a"}, {ID: "b"}}}))
		if w.Offer.Count() != 2 || atoms[w.Offer.sparse.actions[1][0].Hash] {
			t.Fatalf("%d candidates, %v", w.Offer.Count(), w.Offer.sparse.actions)
		}
		atoms[w.Offer.sparse.actions[1][0].Hash] = true
		gone := must(c.Leave("b"))
		v.Compiled = must(gone.Admit(model.DefaultLimits))
		w = must(v.Worker(nil))
		must(0, w.Offer.Encode(&Request{Actions: []Action{{ID: "a"}, {ID: "b"}}}))
		if w.Offer.Count() != 1 || w.Offer.IDs[w.Offer.Place(0)] != "a" {
			t.Errorf("%d candidates after b has left", w.Offer.Count())
		}
		if err := w.Offer.Encode(&Request{Actions: []Action{{ID: "b"}}}); err == nil {
			t.Error("a request of an action that has left is decided")
		}
		c = must(gone.Enter("b", 0, 0, model.Prior{}, 0))
	}
}
