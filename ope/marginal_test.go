package ope

import (
	"context"
	"math"
	"strings"
	"testing"

	"troupe/logged"
	"troupe/rng"
)

// freshLog is a log whose logger draws votes anew for each decision: each vote is for action k with probability p[k], the recorded law
// is the share of the votes under a floor of 2 %, and so p under the floor is the law without the votes. Each decision is drawn N + 4 times
// anew. plugIn gives counts that make (N+1)/(c+1) the plug-in estimate N/c.
func freshLog(p, target []float64, votes, n, N int, plugIn bool, key rng.Key) (all []logged.Event, ve, vb []float64) {
	const floor = 0.02
	K := len(p)
	mu := func(k int) float64 { return 0.9 - 0.6*float64(k)/float64(K) }
	s, se, sb := key.Stream(rng.Reward), 0.0, 0.0
	from := func(law []float64, d rng.Source, i int) int { return draw(law, d.Float64(i)) }
	floored := make([]float64, K)
	for k := range p {
		floored[k] = (1-floor)*p[k] + floor/float64(K)
	}
	for i := range n {
		d := s.Round(uint64(i))
		law := make([]float64, K)
		for v := range votes {
			law[from(p, d, v)] += (1 - floor) / float64(votes)
		}
		for k := range law {
			law[k] += floor / float64(K)
			se, sb = se+target[k]*mu(k), sb+floored[k]*mu(k)
		}
		a, y := from(law, d, 100), 0.0
		if d.Float64(101) < mu(a) {
			y = 1
		}
		r := &logged.Redraws{N: N, Counts: make([]uint32, K)}
		for j := range N {
			r.Counts[from(floored, d, 200+j)]++
		}
		for j := range 4 {
			r.Further = append(r.Further, uint32(from(floored, d, 200+N+j)))
		}
		if plugIn {
			for k, c := range r.Counts {
				r.Counts[k] = max(c, 1) - 1
			}
			r.N--
		}
		all = append(all, logged.Event{K: K, Chosen: a, Reward: y, Propensity: law[a], Law: law, Target: target, Redraws: r, Position: logged.NoPosition})
		ve, vb = append(ve, se/float64(i+1)), append(vb, sb/float64(i+1))
	}
	return all, ve, vb
}

func estimateOf(x *Evaluated, key string) *Estimate {
	for i := range x.Estimates {
		if x.Estimates[i].Estimator == key {
			return &x.Estimates[i]
		}
	}
	return nil
}

// TestMarginalWeights: the mean of ŵ is Σ π_e(a)(1 − (1 − p)^{N+1}) ≤ 1 exactly, and that of the plug-in estimate is above 1, each
// within 4.5 standard errors (level below 10⁻⁵; seed 3). Weights of the recorded law are heavier.
func TestMarginalWeights(t *testing.T) {
	p, target := []float64{0.6, 0.25, 0.1, 0.05}, []float64{0.1, 0.2, 0.3, 0.4}
	const n, N, floor = 20_000, 32, 0.02
	want := 0.0
	for k := range p {
		want += target[k] * (1 - math.Pow(1-(1-floor)*p[k]-floor/4, N+1))
	}
	for _, plugIn := range []bool{false, true} {
		all, _, _ := freshLog(p, target, 8, n, N, plugIn, rng.NewKey(3))
		r := answerOf(t, all, Options{Targets: []Target{Column{}}, Marginal: true, Workers: 2})
		x := r.Targets[0]
		m := x.Diagnostics.Marginal
		// Var ŵ from the effective size: Σŵ² = (Σŵ)²/ess
		se := math.Sqrt((m.WeightMean*m.WeightMean*n/m.ESS - m.WeightMean*m.WeightMean) / n)
		z := (m.WeightMean - want) / se
		if !plugIn && math.Abs(z) > 4.5 {
			t.Errorf("mean weight %.4f ± %.4f, want %.4f", m.WeightMean, se, want)
		}
		if plugIn && (m.WeightMean-1)/se < 4.5 {
			t.Errorf("the plug-in weights have mean %.4f ± %.4f: this test would not see them", m.WeightMean, se)
		}
		if plugIn {
			continue
		}
		if m.ESS < 1.2*x.Diagnostics.ESS || m.Redraws != N || m.Without != 0 {
			t.Errorf("effective size %.0f, recorded %.0f; %+v", m.ESS, x.Diagnostics.ESS, m)
		}
		for _, key := range marginalKeys {
			if e := estimateOf(x, key); e == nil || e.Value == nil || e.Normal != nil || e.Sequence == nil || !strings.Contains(*e.Why, "redraws") {
				t.Errorf("%s: %+v", key, e)
			}
		}
	}
}

// TestMarginalCoverage: the sequences under the law without the members cover value and difference at the last event (exact binomial test at
// level 10⁻⁴; seed 1). Plug-in weights, the planted fault, are missed.
func TestMarginalCoverage(t *testing.T) {
	runs := plays(15, 60, 2000)
	for _, w := range []struct {
		name      string
		p, target []float64
		votes     int
		n, N      int
		plugIn    bool
	}{
		{"small", []float64{0.6, 0.25, 0.1, 0.05}, []float64{0.1, 0.2, 0.3, 0.4}, 8, 300, 64, false},
		{"few votes", []float64{0.9, 0.08, 0.02}, []float64{0, 0, 1}, 4, 300, 256, false},
		{"plug-in", []float64{0.6, 0.4}, []float64{0.9, 0.1}, 8, 3000, 4, true},
	} {
		missed, given := map[string]int{}, map[string]int{}
		key := rng.NewKey(1).Child(w.name)
		k := runs
		if w.plugIn {
			k = 8
		}
		for i := range k {
			all, ve, vb := freshLog(w.p, w.target, w.votes, w.n, w.N, w.plugIn, key.At(uint64(i)))
			r, err := Evaluate(context.Background(), &events{all: all}, Options{Targets: []Target{Column{}}, Marginal: true, Q: "mean"})
			if err != nil {
				t.Fatal(err)
			}
			x := r.Targets[0]
			see := func(name string, p *Pair, truth float64) {
				if given[name]++; p == nil || truth < p[0] || truth > p[1] {
					missed[name]++
				}
			}
			end := w.n - 1
			for _, key := range marginalKeys {
				see(key, estimateOf(x, key).Sequence, ve[end])
			}
			see("difference", x.Uplift.Marginal, ve[end]-vb[end])
		}
		for name, n := range given {
			m := missed[name]
			bad := unlikely(m, n, 0.05, 1e-4)
			if bad != w.plugIn {
				t.Errorf("%s: %s misses %d of %d", w.name, name, m, n)
			}
		}
	}
}

// TestMarginalWithout: an event without redraws has the weight π_e(a), which is at most w; the answer is the same for any number of workers.
func TestMarginalWithout(t *testing.T) {
	all, _, _ := freshLog([]float64{0.5, 0.5}, []float64{0.25, 0.75}, 4, 1000, 8, false, rng.NewKey(5))
	for i := range all {
		if i%10 == 0 {
			all[i].Redraws = nil
		}
		if i%100 == 1 {
			all[i].BadReward, all[i].Reward = true, math.NaN()
		}
	}
	var want []float64
	for _, workers := range []int{1, 3} {
		x := answerOf(t, all, Options{Targets: []Target{Column{}}, Marginal: true, Workers: workers}).Targets[0]
		if x.Diagnostics.Marginal.Without != 100 {
			t.Errorf("%+v", x.Diagnostics.Marginal)
		}
		e := estimateOf(x, "dr-marginal")
		got := []float64{*e.Value, e.Sequence[0], e.Sequence[1], x.Uplift.Marginal[0], x.Uplift.Marginal[1]}
		if want == nil {
			want = got
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%d workers: %v, want %v", workers, got, want)
			}
		}
	}
}
