package choose

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"troupe/bandit"
	"troupe/budget"
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

// marketOf is a worker with candidates of dimension 2 under a budget, of a policy that has learned something.
func marketOf(t *testing.T, r *rand.Rand, raw spec.Raw, floor float64, spent float64) *Worker {
	t.Helper()
	c := model.Default("m")
	c.Dim, c.Floor, c.Budget = 2, floor, model.Budget{Mean: 3, Per: "decision"}
	must(0, c.Policy.DecodeSpec(raw, "policy"))
	cfg := must(c.Compile(model.Limits{Members: 1000}))
	seed := rng.NewKey(r.Uint64())
	p := must(cfg.NewPolicy(seed))
	for n := range 20 {
		x := []float64{r.Float64() - .5, r.Float64() - .5}
		must(0, p.Update(bandit.Action{X: x, Index: bandit.NoIndex}, x[0]+r.NormFloat64()/3, seed.Stream(rng.Perturb).Round(uint64(n))))
	}
	var spending budget.Pacer
	for range 30 {
		spending.Decide(c.Budget.Limit(), 0, 3+r.Float64(), spent, false)
	}
	v := &Version{ID: 1, Compiled: cfg, Seed: seed, Spending: spending, State: fold.NewState(must(p.AppendSnapshot(nil)))}
	w := must(v.Worker(nil))
	k := 2 + r.IntN(7)
	for i := range k { // equal vectors and equal costs in all combinations
		w.Offer.X = append(w.Offer.X, float64(r.IntN(2))/2, float64(r.IntN(2))/4)
		w.Offer.costs = append(w.Offer.costs, []float64{0, 1, 5, 40}[r.IntN(4)])
		w.Offer.IDs = append(w.Offer.IDs, fmt.Sprint(i))
	}
	w.Budget(0)
	return w
}

// lawOf is the law by hand: every model of the ensemble votes for its best ⟨x, θ⟩ − λc among those that are left, the first of equal
// ones; candidates with one vector and one cost share; then the floor over those that are left.
func lawOf(w *Worker, left float64) []*big.Rat {
	k := len(w.Offer.costs)
	p := bandit.Innermost(w.policy).(interface {
		Model(dst []float64, j int, sign float64)
		Members() int
	})
	stays := func(i int) bool { return w.Offer.costs[i] <= left }
	n := 0
	for i := range k {
		if stays(i) {
			n++
		}
	}
	if n == 0 {
		least := math.Inf(1)
		for _, c := range w.Offer.costs {
			least = min(least, c)
		}
		return lawOf(w, least)
	}
	out := make([]*big.Rat, k)
	for i := range out {
		if out[i] = new(big.Rat); stays(i) {
			f := w.Version.Compiled
			out[i].SetFrac64(int64(f.FloorNum), int64(f.FloorDen)*int64(n))
		}
	}
	theta := make([]float64, 2)
	f := w.Version.Compiled
	for j := range p.Members() {
		for _, sign := range []float64{-1, 1} {
			p.Model(theta, j, sign)
			best, at := math.Inf(-1), -1
			for i := range k {
				if v := w.Offer.X[2*i]*theta[0] + w.Offer.X[2*i+1]*theta[1] - w.law.market.price*w.Offer.costs[i]; stays(i) && v > best {
					best, at = v, i
				}
			}
			var alike []int
			for i := range k {
				if w.Offer.X[2*i] == w.Offer.X[2*at] && w.Offer.X[2*i+1] == w.Offer.X[2*at+1] && w.Offer.costs[i] == w.Offer.costs[at] {
					alike = append(alike, i)
				}
			}
			share := big.NewRat(int64(f.FloorDen-f.FloorNum), int64(f.FloorDen)*int64(2*p.Members()*len(alike)))
			for _, i := range alike {
				out[i].Add(out[i], share)
			}
		}
	}
	return out
}

// TestLawUnderBudget: the law with the price and after the hard stop is an exact count: that of hand, which the record gives back,
// and the frequencies of 4,000 draws. The expected cost is that of the law before the stop.
func TestLawUnderBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	stopped, whole := 0, 0
	for n := range 150 {
		floor := []float64{0, .01, .25}[n%3]
		w := marketOf(t, r, spec.Raw{"kind": "ensemble", "m": int64(8)}, floor, []float64{0, 2.5, 4}[n/3%3])
		c := must(w.Choose(1, true))
		before, want := lawOf(w, math.Inf(1)), lawOf(w, w.law.market.left)
		expects := 0.
		for i, p := range before {
			f, _ := p.Float64()
			expects += f * w.Offer.costs[i]
		}
		if math.Abs(expects-c.Expects) > 1e-12*(1+expects) || c.Price != w.law.market.price || c.Price <= 0 {
			t.Fatalf("case %d: expects %v, want %v; price %v, want %v", n, c.Expects, expects, c.Price, w.law.market.price)
		}
		law, groups, voters := w.Law()
		size := map[uint32]int64{}
		for _, g := range groups {
			size[g]++
		}
		eps := big.NewRat(int64(w.Version.Compiled.FloorNum), int64(w.Version.Compiled.FloorDen))
		if c.Stopped {
			stopped++
			eps = new(big.Rat)
		} else {
			whole++
		}
		for i := range want {
			num, den := w.Propensity(i)
			if got := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den)); got.Cmp(want[i]) != 0 {
				t.Fatalf("case %d (stopped %v): candidate %d has %v, want %v; costs %v, left %v", n, c.Stopped, i, got, want[i], w.Offer.costs, w.law.market.left)
			}
			g := int64(1)
			if groups != nil {
				g = size[groups[i]]
			}
			p := big.NewRat(int64(law[i]), int64(voters)*g)
			p.Mul(p, new(big.Rat).Sub(big.NewRat(1, 1), eps))
			p.Add(p, new(big.Rat).Quo(eps, big.NewRat(int64(len(want)), 1)))
			if p.Cmp(want[i]) != 0 {
				t.Fatalf("case %d (stopped %v): the record gives candidate %d %v, want %v", n, c.Stopped, i, p, want[i])
			}
		}
		record := &eventlog.Decision{Model: 1, Num: c.Num, Den: c.Den, Offered: uint32(len(want)), Index: uint32(c.Index), Law: law, Groups: groups, Voters: voters}
		must(eventlog.AppendRecord(nil, record))
		if n >= 30 {
			continue
		}
		counts := make([]float64, len(want))
		const draws = 4000
		for nonce := range eventlog.ID(draws) {
			counts[must(w.Choose(nonce+1, true)).Index]++
		}
		for i, x := range counts { // 5.5 standard errors: 30·8 comparisons at 4e-8
			p, _ := want[i].Float64()
			if math.Abs(x-draws*p) > 5.5*math.Sqrt(draws*p*(1-p)) {
				t.Errorf("case %d (stopped %v): candidate %d was drawn %v of %d times, want %v", n, c.Stopped, i, x, draws, draws*p)
			}
		}
	}
	if stopped < 30 || whole < 30 {
		t.Errorf("the hard stop decided in %d of %d cases: this shows too little", stopped, stopped+whole)
	}
}

// TestGreedyUnderBudget: a greedy policy under a price plays the best ⟨x, θ̂⟩ − λc.
func TestGreedyUnderBudget(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 4))
	dear := 0
	for range 50 {
		w := marketOf(t, r, spec.Raw{"kind": "greedy"}, 0, 0)
		c := must(w.Choose(7, true))
		theta := w.policy.(bandit.GreedyScorer).GreedyTheta()
		score := func(i int) float64 {
			return w.Offer.X[2*i]*theta[0] + w.Offer.X[2*i+1]*theta[1] - w.law.market.price*w.Offer.costs[i]
		}
		for i := range w.Offer.costs {
			if w.Offer.costs[i] <= w.law.market.left && score(i) > score(c.Index)+1e-12 {
				t.Fatalf("candidate %d has %v, the one that was chosen %v", i, score(i), score(c.Index))
			}
		}
		if w.Offer.costs[c.Index] > 0 {
			dear++
		}
	}
	if dear == 0 {
		t.Error("only actions of cost 0 were chosen: this shows nothing")
	}
}

// TestStoppedLawIsBounded: where the exact count does not fit into 64 bits it is rounded to 2⁵³ and still sums to all.
func TestStoppedLawIsBounded(t *testing.T) {
	w := marketOf(t, rand.New(rand.NewPCG(1, 1)), spec.Raw{"kind": "ensemble", "m": int64(8)}, .01, 0)
	w.Offer.X, w.Offer.costs, w.Offer.IDs = nil, nil, nil
	for i := range 600 { // groups of 1, 2, 3, … candidates have a large common multiple
		w.Offer.X = append(w.Offer.X, .5, float64(int(math.Sqrt(float64(2*i))))/64)
		w.Offer.costs = append(w.Offer.costs, 1)
	}
	w.Offer.X, w.Offer.costs = append(w.Offer.X, 0, 0), append(w.Offer.costs, 1e9)
	c := must(w.Choose(1, true))
	law, _, voters := w.Law()
	sum := uint64(0)
	for i, x := range law {
		sum += x
		num, den := w.Propensity(i)
		if p := float64(num) / float64(den); math.Abs(p-float64(x)/float64(voters)) > 1e-12 {
			t.Fatalf("candidate %d has %v votes of %v, its probability is %v", i, x, voters, p)
		}
	}
	if !c.Stopped || sum != voters || voters != 1<<53 {
		t.Errorf("stopped %v, %d of %d votes", c.Stopped, sum, voters)
	}
}

// TestPriceCounts: under a large price every model of every served policy votes for the cheapest action, under a price of nearly 0 not, and
// the action that is drawn is one of those that have votes. A call that chooses and counts at once (bandit.Joint) has to read prices too.
func TestPriceCounts(t *testing.T) {
	for _, raw := range []spec.Raw{nil, {"kind": "effects"}, {"kind": "sparse"}, {"kind": "auto"}, {"kind": "atoms"}, {"kind": "ensemble", "m": int64(8)},
		{"kind": "ensemble", "m": int64(8), "select": "max"}, {"kind": "greedy"}} {
		c := model.Default("m")
		c.Floor, c.Budget = 0, model.Budget{Mean: .0005, Per: "decision"}
		dense := raw != nil && raw["kind"] != "effects"
		if dense {
			c.Dim = 3
		}
		if raw != nil {
			must(0, c.Policy.DecodeSpec(raw, "policy"))
		}
		cfg := must(c.Admit(model.DefaultLimits))
		p := must(cfg.NewPolicy(rng.NewKey(3)))
		v := &Version{ID: 1, Compiled: cfg, Seed: rng.NewKey(3), State: fold.NewState(must(p.AppendSnapshot(nil)))}
		w := must(v.Worker(nil))
		var q Request
		for i, cost := range []float64{.0005, .00003, .015} {
			a := Action{ID: fmt.Sprint("m", i), Cost: &cost}
			if dense {
				x := []float64{0, 0, 0}
				x[i] = .5
				a.Features = fmt.Appendf(nil, "[%v,%v,%v]", x[0], x[1], x[2])
			}
			q.Actions = append(q.Actions, a)
		}
		must(0, w.Offer.Encode(&q))
		for _, mu := range []float64{1e-6, 10, 1e-6} {
			v.Spending.Mu = mu
			w.Budget(0)
			w.law.market.left = 1
			for nonce := range eventlog.ID(40) {
				choice := must(w.Choose(nonce+1, true))
				law, _, voters := w.Law()
				if mu == 10 && (choice.Index != 1 || law[1] != voters) || law[choice.Index] == 0 {
					t.Fatalf("%v, μ = %v: chosen %d with %v of %d votes", raw, mu, choice.Index, law, voters)
				}
			}
		}
	}
}
