package policy_test

import (
	"math"
	"os"
	"slices"
	"testing"

	"troupe/policy"
)

// TestRulesData plays data sets by the rules 1 and 2 of small models, with the same orders and random numbers.
func TestRulesData(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play the data sets: ten minutes of a processor")
	}
	for _, c := range []struct {
		name, file string
		v          variant
		orders     int
		marks      []int
	}{
		{"vehicle", "vehicle.arff", variant{}, 20, []int{846}},
		{"mushroom", "mushroom.data", variant{}, 3, []int{5000}},
		{"pendigits", "pendigits.arff", variant{}, 3, []int{5000, 10_000}},
		{"pendigits, 5 % missing", "pendigits.arff", variant{missing: true}, 3, []int{5000, 10_000}},
		{"pendigits, 20 useless features", "pendigits.arff", variant{useless: true}, 3, []int{5000, 10_000}},
		{"letter", "letter.arff", variant{}, 3, []int{10_000, 20_000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := load(t, c.file)
			for rules := 1; rules <= 2; rules++ {
				mean := make([]float64, len(c.marks))
				for seed := uint64(11); seed < 11+uint64(c.orders); seed++ {
					w := newOptions(t, seed, policy.HashedOptions{Change: "restarts", Rules: rules})
					for i, v := range w.classify(t, d, seed, c.v, c.marks...) {
						mean[i] += v / float64(c.orders)
					}
				}
				t.Logf("rules %d, mean of %d orders: %.3f", rules, c.orders, mean)
			}
		})
	}
}

// TestRulesStreams plays four streams of an application by the rules 1 and 2, in 400 worlds each, the same for both: 24
// worlds, as in TestApplicationsRecord, do not tell .06 from chance.
func TestRulesStreams(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play four streams: five minutes of a processor")
	}
	const from, worlds, rounds = 60_000, 400, 1000
	names := []string{"dollars with a heavy tail", "always negative", "clicks of 1 to 7 %, 4 segments",
		"the same, zeros 300 decisions late"}
	for _, x := range applications() {
		if !slices.Contains(names, x.name) {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			var told, first, second, square float64
			for k := range uint64(worlds) {
				var shares [2]float64
				for i := range shares {
					w := newOptions(t, from+k, policy.HashedOptions{Change: "restarts", Rules: 1 + i})
					model, best, _ := x.play(t, w, from+k, rounds)
					if shares[i] = model.share(0, rounds); i == 0 {
						told += best.share(0, rounds) / worlds
					}
				}
				first, second = first+shares[0]/worlds, second+shares[1]/worlds
				square += (shares[1] - shares[0]) * (shares[1] - shares[0]) / worlds
			}
			more := second - first
			t.Logf("told %.3f, rules 1 %.3f, rules 2 %.3f: %+.3f ± %.3f", told, first, second, more,
				math.Sqrt((square-more*more)/(worlds-1)))
		})
	}
}
