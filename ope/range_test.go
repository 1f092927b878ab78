package ope

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"troupe/rng"
)

// TestOneEnd: with one known end of the rewards a sequence has the side that needs no other end, with the same number; the rest is null
// and says so, and the answer survives JSON.
func TestOneEnd(t *testing.T) {
	all := uniformLog(2000, 3, 11)
	o := Options{Targets: []Target{&Fixed{"third", []float64{0, 0, 1}}, Uniform{}}, Q: "mean", Estimators: []string{"logged", "ips", "dr", "ls", "ix", "es"}}
	both := answerOf(t, all, o).Targets[0]
	for side, r := range []Pair{{0, math.Inf(1)}, {math.Inf(-1), 1}} {
		o.Rewards = &r
		answer := answerOf(t, all, o)
		x := answer.Targets[0]
		for _, key := range []string{"ips", "dr"} {
			got, want := estimateOf(x, key), estimateOf(both, key)
			if got.Sequence == nil || math.Abs(got.Sequence[side]-want.Sequence[side]) > 1e-12 || finite(got.Sequence[1-side]) || *got.Value != *want.Value || !strings.Contains(*got.Why, "one side") {
				t.Errorf("%v, %s: %+v, with both ends %v", r, key, got.Sequence, *want.Sequence)
			}
		}
		if x.Uplift.Sequence != nil || !strings.Contains(*x.Uplift.Why, "both ends") || x.Uplift.Value == nil || answer.Pairs != nil || strings.HasPrefix(x.Verdict, "settled") {
			t.Errorf("%v: %+v, pairs %v, %s", r, x.Uplift, answer.Pairs, x.Verdict)
		}
		ls, ix := estimateOf(x, "ls"), estimateOf(x, "ix")
		if ix.Lower != nil || (ls.Lower != nil) != (side == 0) || (ls.Value != nil) != (side == 0) {
			t.Errorf("%v: ls %+v, ix %+v", r, ls, ix)
		}
		b, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		var back Result
		if err := json.Unmarshal(b, &back); err != nil || back.Rewards != r || *estimateOf(back.Targets[0], "dr").Sequence != *estimateOf(x, "dr").Sequence || !strings.Contains(string(b), "null]") && side == 0 {
			t.Errorf("%v: %v %v", r, back.Rewards, err)
		}
	}
	for _, r := range []Pair{{math.Inf(-1), math.Inf(1)}, {0, math.NaN()}, {1, 0}, {-math.MaxFloat64, math.MaxFloat64}} {
		if _, err := Evaluate(t.Context(), &events{all: all}, Options{Targets: []Target{Uniform{}}, Rewards: &r}); err == nil {
			t.Errorf("rewards %v were taken", r)
		}
	}
}

// TestNoLargestReward: payments of which the largest is not known: the lower side of ips and dr is below the truth in 80 runs of 80, 200
// with TROUPE_LONG (2.5 % each are allowed, binomial test at level 10⁻⁴; seed 1), and it is above the smallest reward.
func TestNoLargestReward(t *testing.T) {
	missed, told, runs := map[string]int{}, 0, plays(80, 200, 200)
	for run := range runs {
		s := rng.NewKey(1).Child("payments").At(uint64(run)).Stream(rng.Reward)
		all, truth := uniformLog(400, 3, uint64(run)), 0.0
		for i := range all {
			d := s.Round(uint64(i))
			// exp(N(0, 1)) with probability 0.2(1 + a)
			all[i].Reward = 0
			if d.Float64(0) < 0.2*float64(1+all[i].Chosen) {
				all[i].Reward = math.Exp(d.Normal(1))
			}
			truth += 0.6 * math.Exp(0.5) / 400
		}
		x := answerOf(t, all, Options{Targets: []Target{&Fixed{"third", []float64{0, 0, 1}}}, Q: "mean", Rewards: &Pair{0, math.Inf(1)}}).Targets[0]
		for _, key := range []string{"ips", "dr"} {
			lo := estimateOf(x, key).Sequence[0]
			if lo > truth {
				missed[key]++
			}
			if lo > 0.2 {
				told++
			}
		}
	}
	if m := max(missed["ips"], missed["dr"]); unlikely(m, runs, 0.025, 1e-4) || told < runs*3/2 {
		t.Errorf("the lower side misses %v of %d; %d of %d bounds are above 0.2", missed, runs, told, 2*runs)
	}
}
