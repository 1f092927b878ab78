package ope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"troupe/logged"
)

// unrecorded draws a log of a softmax logger whose propensities were not recorded, with the law of a target beside it, and the values
// of the target and of what ran over its contexts. With hidden the logger also looks at a number that is not in the log and that
// pays; with curved it looks at the square of a number, which the model does not have.
func unrecorded(n int, seed uint64, hidden, curved bool) (events []logged.Event, value, ran float64) {
	r := rand.New(rand.NewPCG(seed, 2026))
	const K = 3
	eta, theta, zeta := [K][2]float64{{.8, -.4}, {-.6, .5}, {0, .3}}, [K][2]float64{{.5, .2}, {-.4, .6}, {.1, -.3}}, [K][2]float64{{-.8, .6}, {1, .2}, {0, -.9}}
	soft := func(score func(a int) float64) []float64 {
		p, sum := make([]float64, K), 0.0
		for a := range p {
			p[a] = math.Exp(score(a))
			sum += p[a]
		}
		for a := range p {
			p[a] /= sum
		}
		return p
	}
	for range n {
		x, u := [2]float64{r.NormFloat64(), r.NormFloat64()}, r.NormFloat64()
		lin := func(c [2]float64) float64 { return c[0]*x[0] + c[1]*x[1] }
		law := soft(func(a int) float64 {
			s := lin(eta[a])
			if hidden && a == 0 {
				s += 1.5 * u
			}
			if curved && a == 0 {
				s += 1.2 * (x[0]*x[0] - 1)
			}
			return s
		})
		target := soft(func(a int) float64 { return lin(zeta[a]) + 2*b01(hidden && a == 0) })
		mu := make([]float64, K)
		for a := range mu {
			s := lin(theta[a]) + .4*float64(a) - .4
			if hidden {
				s += u
			}
			if curved && a == 0 {
				s += 1.5 * (x[0]*x[0] - 1)
			}
			mu[a] = 1 / (1 + math.Exp(-s))
			value += target[a] * mu[a] / float64(n)
			ran += law[a] * mu[a] / float64(n)
		}
		a := draw(law, r.Float64())
		events = append(events, logged.Event{Context: []float64{x[0], x[1]}, K: K, Chosen: a, Reward: b01(r.Float64() < mu[a]), Target: target, Position: logged.NoPosition})
	}
	return events, value, ran
}

// estimated evaluates a log without propensities.
func estimated(t testing.TB, events []logged.Event, o Options) *Result {
	t.Helper()
	open := func(law logged.Logger) (Source, error) { return &lawless{events: events, logger: law}, nil }
	f, err := FitPropensities(t.Context(), 5, open)
	if err != nil {
		t.Fatal(err)
	}
	o.Estimated = f
	src := &lawless{events: events, logger: f.Logger(), estimate: true}
	r, err := Evaluate(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEstimatedPropensities: of 200 logs of 2000 decisions whose softmax logger is hidden, the normal intervals of dr and of the
// difference cover in at least .93 (in 40 logs: miss in at most 7, the binomial quantile of 5 % at .001; 200 with TROUPE_LONG), and
// they are biased by at most .1 standard errors, up to 2.5/√logs for chance. Where the logger looks at what is not in the log, or in a form that the model does
// not have, the difference is biased by more than half a standard error, and in the latter case the deciles say so.
func TestEstimatedPropensities(t *testing.T) {
	logs := plays(40, 200, 200)
	for _, w := range []struct {
		name           string
		hidden, curved bool
	}{{"right", false, false}, {"hidden", true, false}, {"curved", false, true}} {
		var mu sync.Mutex
		var wg sync.WaitGroup
		covered, bias, errors, unfit := map[string]float64{}, map[string]float64{}, map[string]float64{}, 0
		next := make(chan uint64)
		for range 2 {
			wg.Go(func() {
				for seed := range next {
					events, value, ran := unrecorded(2000, seed, w.hidden, w.curved)
					r := estimated(t, events, Options{Targets: []Target{Column{}}, Estimators: []string{"ips", "snips", "dr"}})
					x := r.Targets[0]
					mu.Lock()
					see := func(name string, p *Pair, v, se *float64, truth float64) {
						if p == nil || v == nil {
							t.Errorf("%s: no interval", name)
							return
						}
						covered[name] += b01(truth >= p[0] && truth <= p[1]) / float64(logs)
						bias[name] += *v - truth
						errors[name] += *se
					}
					for _, e := range x.Estimates {
						see(e.Estimator, e.Normal, e.Value, e.SE, value)
						if e.Sequence != nil {
							t.Errorf("%s has an interval that holds", e.Estimator)
						}
					}
					see("difference", x.Uplift.Normal, x.Uplift.Plain, x.Uplift.SE, value-ran)
					if !r.Propensities.Fits {
						unfit++
					}
					if x.Uplift.Sequence != nil || !strings.Contains(x.Verdict, "if the logger chose by what is in the log") || x.Sensitivity == nil {
						t.Errorf("%+v: %s", x.Uplift, x.Verdict)
					}
					mu.Unlock()
				}
			})
		}
		for seed := range uint64(logs) {
			next <- seed + 1
		}
		close(next)
		wg.Wait()
		for name := range bias {
			bias[name] /= errors[name]
		}
		t.Logf("%s: covered %v, bias in standard errors %v, said not to fit %d of %d", w.name, covered, bias, unfit, logs)
		margin := .1 + 2.5/math.Sqrt(float64(logs))
		least := .93
		if logs < 200 {
			least = 1 - 7/float64(logs)
		}
		switch w.name {
		case "right":
			for _, key := range []string{"dr", "difference"} {
				if covered[key] < least || math.Abs(bias[key]) > margin {
					t.Errorf("%s covers %.3f, bias %.2f standard errors", key, covered[key], bias[key])
				}
			}
			if unfit > 1+logs/50 {
				t.Errorf("said not to fit in %d of %d", unfit, logs)
			}
		case "hidden":
			if math.Abs(bias["difference"]) < .5 {
				t.Errorf("hidden: bias %.2f: this shows too little", bias["difference"])
			}
		case "curved":
			if unfit < logs*9/10 {
				t.Errorf("a model that does not fit is noticed in %d of %d", unfit, logs)
			}
		}
	}
}

// TestEstimatedOverlap: a target that plays what the logger never played is refused, with its name; so is one most of which has hardly any propensity.
func TestEstimatedOverlap(t *testing.T) {
	events, _, _ := unrecorded(1500, 3, false, false)
	for i := range events {
		e := &events[i]
		e.K = 4
		e.Target = append(e.Target[:3:3], 0)
		for a := range 3 {
			e.Target[a] *= .9
		}
		e.Target[3] = .1
	}
	r := estimated(t, events, Options{Targets: []Target{Column{}, Uniform{}}, Estimators: []string{"ips", "dr"}})
	for _, x := range r.Targets {
		if x.Contradicted == nil || !strings.Contains(*x.Contradicted, "the logger never played 3") || x.Uplift.Normal != nil || !strings.HasPrefix(x.Verdict, "none: no overlap") {
			t.Errorf("%s: %s %+v", x.Name, x.Verdict, x.Uplift)
		}
	}
	// The second action is played where x is large only; the target plays it where x is small.
	rnd := rand.New(rand.NewPCG(8, 8))
	var apart []logged.Event
	for range 2000 {
		x := rnd.NormFloat64()
		p := 1 / (1 + math.Exp(-12*x))
		e := logged.Event{Context: []float64{x}, K: 2, Reward: b01(rnd.Float64() < .5), Target: []float64{0, 1}, Position: logged.NoPosition}
		if rnd.Float64() < p {
			e.Chosen = 1
		}
		apart = append(apart, e)
	}
	r = estimated(t, apart, Options{Targets: []Target{Column{}}, Estimators: []string{"ips", "dr"}})
	if x := r.Targets[0]; x.Contradicted == nil || !strings.Contains(*x.Contradicted, "has an estimated propensity below 0.005") {
		t.Errorf("%s", x.Verdict)
	}
}

// TestSensitivity: Γ is that of a search over all thresholds and a fine grid, and 1 where nothing is better.
func TestSensitivity(t *testing.T) {
	events, _, _ := unrecorded(300, 5, false, false)
	r := estimated(t, events, Options{Targets: []Target{Column{}}, Estimators: []string{"snips"}})
	f := r.Propensities
	law, dst := f.Logger(), make([]float64, 3)
	type term struct{ pe, p, y float64 }
	var all []term
	mean := 0.0
	for i := range events {
		e := events[i]
		if err := law.Law(dst, &e, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, term{e.Target[e.Chosen], dst[e.Chosen], e.Reward})
		mean += e.Reward / float64(len(events))
	}
	// Rewards are 0 and 1, so the extremes have one λ for each.
	value := func(zero, one float64) float64 {
		wr, w := 0.0, 0.0
		for _, x := range all {
			lambda := zero
			if x.y == 1 {
				lambda = one
			}
			v := x.pe * (1 + lambda*(1/x.p-1))
			wr, w = wr+v*x.y, w+v
		}
		return wr / w
	}
	better := value(1, 1) > mean
	want := 0.0
	for g := 1.0; g < 100; g *= 1.0005 {
		if better && value(g, 1/g) <= mean || !better && value(1/g, g) >= mean {
			want = g
			break
		}
	}
	s := r.Targets[0].Sensitivity
	if s == nil || s.Gamma == nil || math.Abs(*s.Gamma/want-1) > 1e-3 || !strings.Contains(s.Model, "Zhao") {
		t.Errorf("%+v, want %v", s, want)
	}
	if got := fmt.Sprintf("%.1f", *s.Gamma); got == "1.0" {
		t.Log("the two are nearly equal:", value(1, 1), mean)
	}
}
