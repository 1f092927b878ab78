package policy_test

import (
	"os"
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
