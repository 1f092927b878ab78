package ope

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/logged"
)

// learningLog is a log of a logger that learns among K arms with Bernoulli rewards: softmax of its own means, with a floor.
func learningLog(n int, mu []float64, seed uint64) []logged.Event {
	r, K := rand.New(rand.NewPCG(seed, 290)), len(mu)
	sum, count := make([]float64, K), make([]float64, K)
	var all []logged.Event
	for range n {
		law, total := make([]float64, K), 0.0
		for a := range law {
			law[a] = math.Exp(6 * (sum[a] + 0.5) / (count[a] + 1))
			total += law[a]
		}
		for a := range law {
			law[a] = 0.8*law[a]/total + 0.2/float64(K)
		}
		a := draw(law, r.Float64())
		e := logged.Event{Context: []float64{1}, K: K, Chosen: a, Propensity: law[a], Law: law, Position: logged.NoPosition}
		if r.Float64() < mu[a] {
			e.Reward = 1
		}
		sum[a] += e.Reward
		count[a]++
		all = append(all, e)
	}
	return all
}

// TestCandidates: null: the best target is taken out by some comparison with probability at most 5 %; n logs of a logger that learns, exact
// binomial test at level 10⁻⁴, seeds 1 to n (n = 2, 8 with TROUPE_LONG, 1000 with TROUPE_RECORD), looked at three times. The worst target is out in every log,
// every target has a row, and who took it out is better in the interval. With more than allPairs targets, too.
func TestCandidates(t *testing.T) {
	runs := plays(2, 8, 1000)
	for _, T := range []int{6, 20} {
		mu := []float64{0.3, 0.45, 0.5, 0.7}
		var targets []Target
		values := map[string]float64{}
		for i := range T { // mixtures of the arms, one of them the best arm alone
			p := make([]float64, len(mu))
			p[i%3] = 1 - float64(i)/float64(T-1)
			p[3] = 1 - p[i%3]
			f := &Fixed{fmt.Sprint("t", i), p}
			for a := range p {
				values[f.Label] += p[a] * mu[a]
			}
			targets = append(targets, f)
		}
		best := targets[T-1].Name()
		lost, small := 0, 0
		for run := range runs {
			all := learningLog(1600, mu, uint64(run+1))
			out := false
			for _, n := range []int{400, 800, 1600} {
				if T > allPairs && n < 1600 && runs > 100 {
					continue
				}
				r := answerOf(t, all[:n], Options{Targets: targets, Estimators: []string{"logged", "ips"}, Q: "none"})
				c := r.Candidates
				if c == nil || len(c.Rows) != T || (len(r.Pairs) > 0) != (T <= allPairs) {
					t.Fatalf("%+v, %d pairs", c, len(r.Pairs))
				}
				out = out || !slices.Contains(c.Best, best)
				for _, row := range c.Rows {
					if row.Best != slices.Contains(c.Best, row.Name) || !row.Best && !(row.Sequence[1] < 0 && values[row.Against] > values[row.Name]-0.3) {
						t.Errorf("%+v", row)
					}
				}
				if n == 1600 {
					if slices.Contains(c.Best, "t0") {
						t.Errorf("run %d: the worst target may be best: %v", run, c.Best)
					}
					if len(c.Best) < T {
						small++
					}
				}
			}
			if out {
				lost++
			}
		}
		t.Logf("%d targets: the best one was out in %d of %d logs", T, lost, runs)
		if unlikely(lost, runs, 0.05, 1e-4) || small < runs {
			t.Errorf("%d targets: the best one was out in %d of %d logs; %d sets are smaller", T, lost, runs, small)
		}
	}
}

// TestCandidatesWorkers: references that are chosen on the way give the same bytes for any number of workers; a short log too.
func TestCandidatesWorkers(t *testing.T) {
	var targets []Target
	for i := range allPairs + 3 {
		targets = append(targets, &Fixed{fmt.Sprint(i), []float64{float64(i) / 20, 0.05, 0.95 - float64(i)/20}})
	}
	for _, n := range []int{40, 512, plays(600, 1300, 1300)} {
		var want []byte
		for _, workers := range []int{1, 3} {
			r := answerOf(t, uniformLog(n, 3, 5), Options{Targets: targets, Workers: workers})
			got, err := json.Marshal(r)
			if err != nil || len(r.Candidates.Rows) != len(targets) {
				t.Fatal(err, r.Candidates)
			}
			if want == nil {
				want = got
			} else if string(want) != string(got) {
				t.Errorf("%d events: %d workers give other bytes", n, workers)
			}
		}
	}
}

// TestDuel: a comparison that begins late with the events that were kept is the one of all pairs.
func TestDuel(t *testing.T) {
	all := uniformLog(900, 3, 5)
	var targets []Target
	for i := range allPairs + 1 {
		p := float64(i) / (allPairs + 1)
		targets = append(targets, &Fixed{fmt.Sprint(i), []float64{p, 0, 1 - p}})
	}
	many := answerOf(t, all, Options{Targets: targets, Q: "none"}).Candidates
	for _, row := range many.Rows {
		if row.Sequence == nil {
			continue
		}
		var a, b Target
		for _, x := range targets {
			if x.Name() == row.Name {
				a = x
			} else if x.Name() == row.Against {
				b = x
			}
		}
		two := answerOf(t, all, Options{Targets: []Target{a, b}, Q: "none", Level: 1 - 0.05/float64(len(targets)-1)}).Pairs[0].Sequence
		if math.Abs(two[0]-row.Sequence[0]) > 1e-9 || math.Abs(two[1]-row.Sequence[1]) > 1e-9 {
			t.Errorf("%s against %s: %v, of the two alone %v", row.Name, row.Against, *row.Sequence, *two)
		}
	}
}

// TestTargets: too many targets, and two with one name.
func TestTargets(t *testing.T) {
	for _, n := range []int{2, MostTargets + 1} {
		var targets []Target
		for i := range n {
			name := "same"
			if n > 2 {
				name = fmt.Sprint(i)
			}
			targets = append(targets, &Fixed{name, []float64{1}})
		}
		if _, err := Evaluate(t.Context(), &events{}, Options{Targets: targets}); err == nil {
			t.Errorf("%d targets pass", n)
		}
	}
}
