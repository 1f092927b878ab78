package policy_test

import (
	"math"
	"os"
	"slices"
	"testing"

	"troupe/policy"
)

// TestRulesData plays data sets by the rules 1 to 3 of small models, with the same orders and random numbers.
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
			for rules := 1; rules <= 3; rules++ {
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

// TestRulesStreams plays streams of an application by two rules, in the same worlds for both: 24 worlds, as in
// TestApplicationsRecord, do not tell .06 from chance. Worlds from 60,000 are of rules 2, from 80,000 of rules 3.
func TestRulesStreams(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1 to play the streams: ten minutes of a processor")
	}
	const rounds = 1000
	for _, c := range []struct {
		rules  int
		from   uint64
		worlds float64
		names  []string
	}{
		{2, 60_000, 400, []string{"dollars with a heavy tail", "always negative", "clicks of 1 to 7 %, 4 segments",
			"the same, zeros 300 decisions late"}},
		{3, 80_000, 200, []string{"a segment among six other fields", "age as a number, 4 ranges", "age as text, 4 ranges",
			"a segment beside 10,000 ids as numbers", "Unix time and the hour, 4 ranges",
			"price in cents × budget, ids always new", "a number, 4 ranges", "a number, 4 ranges, one 10⁹ among the first"}},
	} {
		for _, x := range applications() {
			if !slices.Contains(c.names, x.name) {
				continue
			}
			t.Run(x.name, func(t *testing.T) {
				var told, before, after, square float64
				for k := range uint64(c.worlds) {
					var shares [2]float64
					for i := range shares {
						w := newOptions(t, c.from+k, policy.HashedOptions{Change: "restarts", Rules: c.rules - 1 + i})
						model, best, _ := x.play(t, w, c.from+k, rounds)
						if shares[i] = model.share(0, rounds); i == 0 {
							told += best.share(0, rounds) / c.worlds
						}
					}
					before, after = before+shares[0]/c.worlds, after+shares[1]/c.worlds
					square += (shares[1] - shares[0]) * (shares[1] - shares[0]) / c.worlds
				}
				more := after - before
				t.Logf("told %.3f, rules %d %.3f, rules %d %.3f: %+.3f ± %.3f", told, c.rules-1, before, c.rules, after, more,
					math.Sqrt((square-more*more)/(c.worlds-1)))
			})
		}
	}
}
