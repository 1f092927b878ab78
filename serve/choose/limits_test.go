package choose

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/budget"
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// clipped reports why p is not q clipped to [low, high] with one factor t for all that are not clipped, "" when it is.
// That law is unique, so this is a check of it that knows nothing of how it was found. Where all with q > 0 are at their
// caps the rest shares equally, and where the caps sum to less than 1 p is in proportion to them.
func clipped(p, q, low, high []*big.Rat) string {
	sum, caps, paid := new(big.Rat), new(big.Rat), true
	for i := range p {
		sum.Add(sum, p[i])
		caps.Add(caps, high[i])
		paid = paid && (q[i].Sign() == 0 || p[i].Cmp(high[i]) == 0)
	}
	one := big.NewRat(1, 1)
	if sum.Cmp(one) != 0 {
		return fmt.Sprint("it sums to ", sum)
	}
	var t *big.Rat
	free := func(i int, r *big.Rat) bool {
		if t == nil {
			t = r
		}
		return t.Cmp(r) == 0
	}
	for i := range p {
		if caps.Cmp(one) < 0 {
			if new(big.Rat).Mul(p[i], caps).Cmp(high[i]) != 0 {
				return fmt.Sprintf("candidate %d has %v, not its share of the caps %v", i, p[i], caps)
			}
			continue
		}
		if p[i].Cmp(low[i]) < 0 || p[i].Cmp(high[i]) > 0 {
			return fmt.Sprintf("candidate %d has %v, outside [%v, %v]", i, p[i], low[i], high[i])
		}
		if p[i].Cmp(low[i]) > 0 && p[i].Cmp(high[i]) < 0 {
			w := q[i]
			if paid && q[i].Sign() == 0 {
				w = one
			}
			if w.Sign() == 0 {
				return fmt.Sprintf("candidate %d has %v and no vote", i, p[i])
			}
			if !free(i, new(big.Rat).Quo(p[i], w)) {
				return fmt.Sprintf("candidate %d: t = %v, others have %v", i, new(big.Rat).Quo(p[i], w), t)
			}
		}
	}
	for i := range p {
		if t == nil || caps.Cmp(one) < 0 {
			break
		}
		w := q[i]
		if paid {
			if q[i].Sign() > 0 {
				continue
			}
			w = one
		}
		at := new(big.Rat).Mul(t, w)
		if p[i].Cmp(low[i]) == 0 && at.Cmp(low[i]) > 0 && low[i].Cmp(high[i]) < 0 || p[i].Cmp(high[i]) == 0 && at.Cmp(high[i]) < 0 && low[i].Cmp(high[i]) < 0 {
			return fmt.Sprintf("candidate %d is clipped to %v, and t·q is %v", i, p[i], at)
		}
	}
	return ""
}

// TestFill: 20,000 laws of small integers with floors and caps are clipped exactly.
func TestFill(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 1))
	shared, impossible := 0, 0
	for n := range 20_000 {
		k := 1 + r.IntN(6)
		l := limits{low: make([]uint64, k), high: make([]uint64, k), gone: make([]bool, k)}
		left, votes, caps := uint64(floorUnit), uint64(0), uint64(0)
		var q, low, high []*big.Rat
		for i := range k {
			l.n = append(l.n, r.Uint64N(4)*r.Uint64N([]uint64{3, 1000, 1 << 38}[n%3]))
			votes += l.n[i]
			l.high[i] = floorUnit
			switch r.IntN(4) {
			case 0:
				l.low[i] = r.Uint64N(left + 1)
			case 1:
				l.high[i] = 1 + r.Uint64N(floorUnit)
			case 2:
				l.low[i] = r.Uint64N(left + 1)
				l.high[i] = max(1, l.low[i]+r.Uint64N(floorUnit-l.low[i]+1))
			}
			left -= l.low[i]
			caps += l.high[i]
		}
		if votes == 0 {
			l.n[0], votes = 1, 1
		}
		paid := uint64(0)
		for i := range k {
			q = append(q, ratOf(l.n[i], votes))
			low, high = append(low, ratOf(l.low[i], floorUnit)), append(high, ratOf(l.high[i], floorUnit))
			if l.n[i] > 0 {
				paid += l.high[i]
			}
		}
		if caps < floorUnit {
			impossible++
		} else if paid < floorUnit {
			shared++
		}
		l.fill()
		var p []*big.Rat
		for _, x := range l.num {
			p = append(p, ratOf(x, l.den))
		}
		if why := clipped(p, q, low, high); why != "" {
			t.Fatalf("case %d: q %v, floors %v, caps %v, p %v: %s", n, q, low, high, p, why)
		}
	}
	if shared < 500 || impossible < 500 {
		t.Errorf("%d laws whose caps leave something to candidates without votes, %d without a law: this shows too little", shared, impossible)
	}
}

// TestLimits: the law with floors and caps is that of the same draw without them, clipped: exactly, with a budget and its
// hard stop, with floors of actions that have entered, and with groups; a law that is not clipped has the record of
// before and the action of before; each candidate that may be played has min(cap, (1 − F)·q) at least; draws have it.
func TestLimits(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 2))
	var on, off, stopped, entered int
	for n := range 60 {
		c := model.Default("m")
		c.Floor = []float64{0, .01, .25}[n%3]
		priced, k := n%2 == 0, 2+r.IntN(5)
		if priced {
			c.Budget = model.Budget{Mean: 3, Per: "decision"}
		}
		if n%5 == 0 {
			c = must(c.Enter("0", float64(1+r.IntN(100_000))/1e6, 10, model.Prior{}, 100))
		}
		plain := c
		c.Floors, c.Caps = model.Shares{}, model.Shares{}
		for i := range k {
			switch r.IntN(4) {
			case 0:
				c.Floors[fmt.Sprint(i)] = float64(r.IntN(140_000)) / 1e6
			case 1:
				c.Caps[fmt.Sprint(i)] = float64(150_000+r.IntN(500_000)) / 1e6
			}
		}
		seed := rng.NewKey(r.Uint64())
		worker := func(c model.Config, spent int) *Worker {
			cfg := must(c.Admit(model.DefaultLimits))
			v := &Version{ID: 1, Compiled: cfg, Seed: seed, Floors: cfg.Floors(105)}
			for range spent {
				v.Spending.Decide(budget.Limit{Mean: 3}, 0, 3.5, 2.5, false)
			}
			v.State = fold.NewState(must(must(cfg.NewPolicy(seed)).AppendSnapshot(nil)))
			return must(v.Worker(nil))
		}
		spent := r.IntN(2) * 30
		w, base := worker(c, spent), worker(plain, spent)
		var q Request
		for i := range k {
			a := Action{ID: fmt.Sprint(i)}
			if priced {
				a.Cost = new([]float64{0, 1, 5, 40}[r.IntN(4)])
			}
			q.Actions = append(q.Actions, a)
		}
		must(0, w.Offer.Encode(&q))
		must(0, base.Offer.Encode(&q))
		if w.Offer.checkCaps() != nil {
			continue
		}
		w.Budget(0)
		base.Budget(0)
		counts, mean, variance := make([]float64, k), make([]float64, k), make([]float64, k)
		for nonce := range eventlog.ID(200) {
			was, is := must(base.Choose(nonce+1, true)), must(w.Choose(nonce+1, true))
			var p, old, low, high []*big.Rat
			floors := new(big.Rat)
			for i := range k {
				num, den := base.Propensity(i)
				old = append(old, ratOf(num, den))
				num, den = w.Propensity(i)
				p = append(p, ratOf(num, den))
				id, f, most := fmt.Sprint(i), uint64(math.Round(c.Floors[fmt.Sprint(i)]*1e6)), uint64(1e6)
				for _, e := range c.Entered {
					if e.ID == id {
						f = max(f, uint64(math.Round(e.Floor*1e6)))
					}
				}
				if x, ok := c.Caps[id]; ok {
					most = uint64(math.Round(x * 1e6))
				}
				if !w.law.market.remains(w.law.groups.of[i]) {
					f, most = 0, 0
				}
				low, high = append(low, ratOf(f, 1e6)), append(high, ratOf(most, 1e6))
				floors.Add(floors, low[i])
				x := float64(num) / float64(den)
				mean[i], variance[i] = mean[i]+x, variance[i]+x*(1-x)
			}
			counts[is.Index]++
			if why := clipped(p, old, low, high); why != "" {
				t.Fatalf("case %d: q %v, floors %v, caps %v, p %v: %s", n, old, low, high, p, why)
			}
			for i := range k {
				least := new(big.Rat).Sub(big.NewRat(1, 1), floors)
				if least.Mul(least, old[i]).Cmp(high[i]) > 0 {
					least = high[i]
				}
				if p[i].Cmp(least) < 0 {
					t.Fatalf("case %d: candidate %d has %v, at least %v is promised", n, i, p[i], least)
				}
			}
			law, groups, voters := w.Law()
			switch {
			case is.Stopped != was.Stopped || is.Member != was.Member:
				t.Fatalf("case %d: stopped %v, member %d; without limits %v, %d", n, is.Stopped, is.Member, was.Stopped, was.Member)
			case !w.law.limits.on:
				off++
				other, _, all := base.Law()
				if is.Stopped { // it may have been clipped before the hard stop
					is.Expects = was.Expects
				}
				if is != was || !slices.Equal(law, other) || voters != all {
					t.Fatalf("case %d: %+v by %v of %d, without limits that change nothing %+v by %v of %d", n, is, law, voters, was, other, all)
				}
			default:
				on++
				if sum := slices.Values(law); groups != nil || !is.Floored || total(sum) != voters {
					t.Fatalf("case %d: the record %v of %d, groups %v, floored %v", n, law, voters, groups, is.Floored)
				}
				for i := range k {
					if x, _ := p[i].Float64(); math.Abs(float64(law[i])/float64(voters)-x) > 1e-15 {
						t.Fatalf("case %d: the record gives candidate %d %d of %d, want %v", n, i, law[i], voters, x)
					}
				}
			}
			if is.Stopped {
				stopped++
			} else if priced {
				e := 0.
				for i := range k {
					x, _ := p[i].Float64()
					e += x * w.Offer.costs[i]
				}
				if math.Abs(e-is.Expects) > 1e-12*(1+e) {
					t.Fatalf("case %d: expects %v, want %v", n, is.Expects, e)
				}
			}
			if w.law.floors.sum > 0 {
				entered++
			}
		}
		for i, x := range counts { // 5.5 standard errors: 60·6 comparisons at 4e-8
			if math.Abs(x-mean[i]) > 5.5*math.Sqrt(variance[i])+.01 {
				t.Errorf("case %d: candidate %d was drawn %v of 200 times, want %v", n, i, x, mean[i])
			}
		}
	}
	if on < 1000 || off < 1000 || stopped < 500 || entered < 500 {
		t.Errorf("%d laws clipped, %d not, %d under the hard stop, %d with actions that have entered: this shows too little", on, off, stopped, entered)
	}
}

func total(x func(func(uint64) bool)) (sum uint64) {
	for v := range x {
		sum += v
	}
	return sum
}

// TestLimitsCounted: a million draws of one state have the law that its records state.
func TestLimitsCounted(t *testing.T) {
	c := model.Default("m")
	c.Floors, c.Caps = model.Shares{"a": .4, "d": .05}, model.Shares{"b": .1, "c": .333333}
	cfg := must(c.Admit(model.DefaultLimits))
	v := &Version{ID: 1, Compiled: cfg, Seed: rng.NewKey(5), State: fold.NewState(must(must(cfg.NewPolicy(rng.NewKey(5))).AppendSnapshot(nil)))}
	w := must(v.Worker(nil))
	var q Request
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		q.Actions = append(q.Actions, Action{ID: id})
	}
	must(0, w.Offer.Encode(&q))
	must(w.Choose(1, true))
	w.law.groups.votes = []uint64{1, 6, 5, 0, 1}
	w.law.groups.total = 13
	w.law.clip()
	n, want := 1_000_000, make([]float64, 5)
	for i := range want {
		num, den := w.Propensity(i)
		want[i] = float64(num) / float64(den)
	}
	got := make([]float64, 5)
	for nonce := range eventlog.ID(n) {
		got[must(w.law.chosen(w.action.Index, draw(v.Seed, v.ID, nonce+1), draw(v.Seed, v.ID, nonce+1)))]++
	}
	chi := 0.
	for i, x := range got {
		chi += (x - float64(n)*want[i]) * (x - float64(n)*want[i]) / (float64(n) * want[i])
	}
	if chi > 33.4 { // 1e-6, 4 degrees
		t.Errorf("chi² %v of %v draws, want %v", chi, got, want)
	}
	if math.Abs(want[0]-.4) > 1e-15 || math.Abs(want[1]-.1) > 1e-15 || math.Abs(want[2]-.333333) > 1e-15 || math.Abs(want[3]-.05) > 1e-15 {
		t.Errorf("the law is %v", want)
	}
}

// TestLimitsRedraw: the draws of --law marginal are clipped, each by its own members.
func TestLimitsRedraw(t *testing.T) {
	c := model.Default("m")
	c.Caps = model.Shares{"0": .25, "1": .25}
	cfg := must(c.Admit(model.DefaultLimits))
	v := &Version{ID: 1, Compiled: cfg, Seed: rng.NewKey(9), State: fold.NewState(must(must(cfg.NewPolicy(rng.NewKey(9))).AppendSnapshot(nil)))}
	w := must(v.Worker(nil))
	must(0, w.Offer.Encode(&Request{Actions: []Action{{ID: "0"}, {ID: "1"}, {ID: "2"}}}))
	w.Price(0)
	n, mean, got := 20_000, [3]float64{}, [3]float64{}
	for nonce := range eventlog.ID(n) {
		must(w.Choose(nonce+1, true))
		for i := range mean {
			num, den := w.Propensity(i)
			mean[i] += float64(num) / float64(den)
		}
	}
	must(0, w.Redraw(n, func(i int) eventlog.ID { return eventlog.ID(i + 1) }, func(_, candidate int) { got[candidate]++ }))
	for i := range mean {
		if math.Abs(got[i]-mean[i]) > 5.5*math.Sqrt(mean[i]*(1-mean[i]/float64(n)))+1 {
			t.Errorf("candidate %d was drawn %v times of %d, the mean law gives %v", i, got[i], n, mean[i])
		}
	}
	if got[2] < .48*float64(n) {
		t.Errorf("draws %v do not heed the caps", got)
	}
	if !v.Redraws(eventlog.PlayLaw) || !v.Redraws(eventlog.PlayFloors) || v.Redraws(eventlog.PlayStop) {
		t.Error("decisions with limits are not drawn anew")
	}
	for _, id := range slices.Sorted(maps.Keys(c.Caps)) {
		if w.Offer.Read(&Request{Actions: []Action{{ID: id}}}, 10) == nil {
			t.Errorf("a request of %q alone, with a cap of .25, is decided", id)
		}
	}
}

// TestLimitsOfEntered: the floor of an action that has entered holds beside those of others.
func TestLimitsOfEntered(t *testing.T) {
	c := must(model.Default("m").Enter("b", .3, 10, model.Prior{}, 0))
	c.Floor, c.Floors = 0, model.Shares{"a": .5}
	cfg := must(c.Admit(model.DefaultLimits))
	v := &Version{ID: 1, Compiled: cfg, Seed: rng.NewKey(5), Floors: cfg.Floors(0)}
	v.State = fold.NewState(must(must(cfg.NewPolicy(rng.NewKey(5))).AppendSnapshot(nil)))
	w := must(v.Worker(nil))
	must(0, w.Offer.Encode(&Request{Actions: []Action{{ID: "a"}, {ID: "b"}, {ID: "c"}}}))
	must(w.Choose(1, true))
	w.law.groups.votes, w.law.groups.total = []uint64{0, 0, 7}, 7
	w.law.clip()
	for i, want := range []*big.Rat{big.NewRat(1, 2), big.NewRat(3, 10), big.NewRat(1, 5)} {
		if num, den := w.Propensity(i); ratOf(num, den).Cmp(want) != 0 {
			t.Errorf("candidate %d has %d/%d, want %v", i, num, den, want)
		}
	}
}

// TestCountsOf: a law of large integers is rounded so that the clipped law fits, and no candidate loses its last vote.
func TestCountsOf(t *testing.T) {
	law := countsOf([]uint64{1<<53 - 4, 3, 0, 1}, 1<<53)
	if law[1] != 1 || law[2] != 0 || law[3] != 1 || total(slices.Values(law)) > maxVotes+4 {
		t.Errorf("the law is rounded to %v", law)
	}
	if law := countsOf([]uint64{6 << 50, 2 << 50}, 8<<50); !slices.Equal(law, []uint64{3, 1}) {
		t.Errorf("3 and 1 of 4 are reduced to %v", law)
	}
	l := limits{n: law, low: []uint64{0, 0, 500_000, 0}, high: []uint64{floorUnit, floorUnit, floorUnit, floorUnit}, gone: make([]bool, 4)}
	if l.fill(); total(slices.Values(l.num)) != l.den || l.num[1] == 0 || l.num[2] != l.den/2 {
		t.Errorf("the law is %v of %d", l.num, l.den)
	}
}
