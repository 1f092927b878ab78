package policy_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"troupe/bandit"
)

// TestStartLogRecord measures what a log as a start is worth to the default policy: 2,000 events of uniform play on pendigits, as they
// are or with their classes permuted, and then the regret of 1,000 and 5,000 decisions over that of a cold start.
func TestStartLogRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("a record: TROUPE_RECORD=1, minutes of a processor")
	}
	d := load(t, "pendigits.arff")
	ids := make([]string, d.k)
	for i := range ids {
		ids[i] = fmt.Sprint("class", i)
	}
	request := func(at int) string {
		var s strings.Builder
		for i, f := range d.rows[at] {
			fmt.Fprintf(&s, `,"f%d":%s`, i, strings.TrimSpace(f))
		}
		return "{" + s.String()[1:] + "}"
	}
	const logged, seeds = 2000, 2
	rounds := []int{1000, 5000}
	starts := []struct {
		name   string
		events int // of the log that are learned, evenly spaced
	}{{"cold", 0}, {"log", logged}, {"log", 200}, {"log", 100}, {"permuted", logged}, {"permuted", 200}, {"permuted", 100}}
	for _, change := range []string{"restarts", "none"} {
		var cold [2]float64
		for _, s := range starts {
			start := s.name
			var sum [2]float64
			for seed := range uint64(seeds) {
				r := rand.New(rand.NewPCG(seed, 30))
				order := r.Perm(len(d.rows))
				w := newFields(t, seed, change)
				if start != "cold" {
					for n, at := range order[:logged] {
						w.decide(t, request(at), ids) // the statistics of a log are those of its requests
						i, right := r.IntN(d.k), d.label[at]
						if start == "permuted" {
							right = (right + 3) % d.k
						}
						at, x := w.b.Nonzeros(i)
						var a bandit.Action
						a.SetSparse(at, x, i)
						if (n+1)*s.events/logged > n*s.events/logged {
							w.reward(t, a, map[bool]float64{true: 1}[i == right])
						}
					}
				}
				lost := 0.
				for n, at := range order[logged : logged+rounds[1]] {
					a := w.decide(t, request(at), ids)
					y := map[bool]float64{true: 1}[a.Index == d.label[at]]
					w.reward(t, a, y)
					lost += 1 - y
					if k := slices.Index(rounds, n+1); k >= 0 {
						sum[k] += lost / seeds
					}
				}
			}
			if start == "cold" {
				cold = sum
			}
			t.Logf("%-8s %-8s %4d events, regret after 1000: %4.0f (%.2f of cold), after 5000: %4.0f (%.2f)", change, start, s.events, sum[0], sum[0]/cold[0], sum[1], sum[1]/cold[1])
		}
	}
}
