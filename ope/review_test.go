package ope

import (
	"math"
	"strings"
	"testing"

	"troupe/logged"
	"troupe/rng"
)

// oracleLower is the bound of the log-mixture sequence by the definition: logarithms of products, and a bisection. phi[k] is φ(k) of all events.
func oracleLower(phi [][]float64, shift []float64, alpha, lo, hi float64) float64 {
	over := func(v float64) float64 {
		var logs []float64
		most := math.Inf(-1)
		for k := range phi {
			for j := range 20 {
				lambda, s := math.Pow(2, -float64(j)), 0.0
				for _, f := range phi[k] {
					s += math.Log1p(lambda*(f+shift[k])) - math.Log1p(lambda*(v+shift[k]))
				}
				logs, most = append(logs, s), max(most, s)
			}
		}
		sum := 0.0
		for _, s := range logs {
			sum += math.Exp(s - most)
		}
		return most + math.Log(sum/float64(len(logs))) + math.Log(alpha)
	}
	if over(lo) < 0 {
		return lo
	}
	for range 60 {
		if m := (lo + hi) / 2; over(m) >= 0 {
			lo = m
		} else {
			hi = m
		}
	}
	return lo
}

// processes are φ(k) and φ'(k) of an event of uniformLog under a law, with a constant q.
func processes(e *logged.Event, pe []float64, q float64) (phi, reflected [len(clips)]float64) {
	w := pe[e.Chosen] / e.Propensity
	one := func(r, q float64) (out [len(clips)]float64) {
		for k, c := range clips {
			out[k] = w * r
			if w > 0 {
				out[k] -= w * min(q, c/w)
			}
			for a, p := range e.Law {
				out[k] += min(pe[a]*q, c*p)
			}
		}
		return out
	}
	return one(e.Reward, q), one(1-e.Reward, 1-q)
}

// TestPairs: the difference of two targets is the sequence of φ¹(k) + φ²'(k) − 1 ≥ −(2k + 1), at the level shared among the pairs, to 1e-9 of the
// definition; it is narrower than the difference of the two intervals, and covers (binomial test at level 10⁻⁴; seeds 1 to 24, to 120 with TROUPE_LONG).
func TestPairs(t *testing.T) {
	laws := [][]float64{{0.2, 0.3, 0.5}, {0.1, 0.3, 0.6}, {0.6, 0.3, 0.1}}
	missed, narrower := 0, 0
	const n = 300
	runs := plays(24, 120, 120)
	for run := range runs {
		all := uniformLog(n, 3, uint64(run+1))
		for i := range all {
			all[i].Q = []float64{0.4, 0.4, 0.4}
		}
		o := Options{Q: "column"}
		for i, p := range laws {
			o.Targets = append(o.Targets, &Fixed{string(rune('a' + i)), p})
		}
		r := answerOf(t, all, o)
		if run == 0 {
			var phi [len(clips)][]float64
			for i := range all {
				first, _ := processes(&all[i], laws[0], 0.4)
				_, second := processes(&all[i], laws[1], 0.4)
				for k := range phi {
					phi[k] = append(phi[k], first[k]+second[k]-1)
				}
			}
			var shift []float64
			for _, c := range clips {
				shift = append(shift, 2*c+1)
			}
			want := oracleLower(phi[:], shift, 0.05/3/2, -1, 1)
			if d := r.Pairs[0]; len(r.Pairs) != 3 || d.First != "a" || d.Second != "b" || math.Abs(d.Sequence[0]-want) > 1e-9 {
				t.Errorf("%+v %v, want the lower end %v", d, d.Sequence, want)
			}
		}
		// The truth: the mean of action a in context x is 0.2 + 0.6 x[a mod 2] (a + 1)/3.
		truth := 0.0
		for i := range all {
			for a := range 3 {
				truth += (laws[0][a] - laws[1][a]) * (0.2 + 0.6*all[i].Context[a%2]*float64(a+1)/3) / n
			}
		}
		d := r.Pairs[0].Sequence
		if truth < d[0] || truth > d[1] {
			missed++
		}
		a, b := estimateOf(r.Targets[0], "dr").Sequence, estimateOf(r.Targets[1], "dr").Sequence
		if d[1]-d[0] < a[1]-b[0]-(a[0]-b[1]) {
			narrower++
		}
	}
	if unlikely(missed, runs, 0.05, 1e-4) || narrower < runs*9/10 {
		t.Errorf("%d of %d missed, %d narrower", missed, runs, narrower)
	}
}

// TestWithoutLaw: a log with propensities alone has a difference from (w − 1) r ≥ −1 (1e-9 of the definition), and no sequence of dr.
func TestWithoutLaw(t *testing.T) {
	all := uniformLog(400, 3, 4)
	pe := []float64{0.1, 0.1, 0.8}
	var phi, reflected []float64
	for i := range all {
		e := &all[i]
		e.Law = nil
		w := pe[e.Chosen] / e.Propensity
		phi, reflected = append(phi, (w-1)*e.Reward), append(reflected, (w-1)*(1-e.Reward))
	}
	x := answerOf(t, all, Options{Targets: []Target{&Fixed{"f", pe}}}).Targets[0]
	lo, hi := oracleLower([][]float64{phi}, []float64{1}, 0.025, -1, 1), -oracleLower([][]float64{reflected}, []float64{1}, 0.025, -1, 1)
	if s := x.Uplift.Sequence; s == nil || math.Abs(s[0]-lo) > 1e-9 || math.Abs(s[1]-hi) > 1e-9 || !strings.Contains(*x.Uplift.Why, "from propensities alone") {
		t.Errorf("%v, want %v … %v", x.Uplift, lo, hi)
	}
	if e := estimateOf(x, "dr"); e.Sequence != nil || !strings.Contains(*e.Why, "whole law") {
		t.Errorf("%+v", e)
	}
}

// TestSharedLower: the bound of ls and ix with a parameter that was chosen on the same events is the largest over the grid at δ/|grid|; that of a
// given parameter is at δ.
func TestSharedLower(t *testing.T) {
	all := uniformLog(500, 3, 6)
	target := &Fixed{"f", []float64{0.1, 0.1, 0.8}}
	grid := []float64{1, 0.25, 0.0625}
	given := func(key string, v float64, delta float64) float64 {
		x := answerOf(t, all, Options{Targets: []Target{target}, Estimators: []string{key}, Set: map[string]float64{key: v}, Level: 1 - delta}).Targets[0].Estimates[0]
		if *x.Chosen != "given" {
			t.Errorf("%+v", x)
		}
		return *x.Lower
	}
	for _, key := range []string{"ls", "ix"} {
		x := answerOf(t, all, Options{Targets: []Target{target}, Estimators: []string{key}, Grid: map[string][]float64{key: grid}}).Targets[0].Estimates[0]
		want, plain := math.Inf(-1), math.Inf(-1)
		for _, v := range grid {
			want, plain = max(want, given(key, v, 0.05/3)), max(plain, given(key, v, 0.05))
		}
		if math.Abs(*x.Lower-want) > 1e-12 || !(plain > want) || *x.Chosen != "slope++" {
			t.Errorf("%s: %v, want %v (%v at δ)", key, *x.Lower, want, plain)
		}
	}
}

// TestPredictable: rewards that come later change no estimate of earlier events: neither by the reward model, nor by greedy, which is a target
// that learns, nor by a policy that learns on the way.
func TestPredictable(t *testing.T) {
	const n, half = 2000, 1200
	o := Options{Targets: []Target{Uniform{}, Greedy{}}, Q: "ridge"}
	a := answerOf(t, uniformLog(n, 3, 8), o)
	other := uniformLog(n, 3, 8)
	s := rng.NewKey(9).Stream(rng.Reward)
	for i := half; i < n; i++ {
		other[i].Reward = math.Round(s.Round(uint64(i)).Float64(0))
	}
	b := answerOf(t, other, o)
	for k, x := range a.Targets {
		seen := 0
		for i, p := range x.Running {
			if p.N > half {
				break
			}
			if seen++; p != b.Targets[k].Running[i] {
				t.Errorf("%s at %d: %+v, and with other rewards later %+v", x.Name, p.N, p, b.Targets[k].Running[i])
			}
		}
		if seen < 10 {
			t.Errorf("%s: only %d points", x.Name, seen)
		}
	}
	if a.Targets[0].Learns != "no" || a.Targets[1].Learns != "log" {
		t.Errorf("learns %s, %s", a.Targets[0].Learns, a.Targets[1].Learns)
	}
}

// TestFewRewarded: with many effective events and few rewarded ones the normal intervals stand in brackets, that of the difference too.
func TestFewRewarded(t *testing.T) {
	all := uniformLog(600, 3, 3)
	for i := range all {
		all[i].Reward = 0
		if i%120 == 7 {
			all[i].Reward = 1
		}
	}
	x := answerOf(t, all, Options{Targets: []Target{&Fixed{"f", []float64{0.2, 0.3, 0.5}}}, Estimators: []string{"ips", "el", "bootstrap"}}).Targets[0]
	if x.Diagnostics.ESS < 400 || x.Diagnostics.ESSRewarded >= 10 || x.Uplift.Normal == nil || x.Uplift.Doubt == nil {
		t.Errorf("%+v, %+v", x.Diagnostics, x.Uplift)
	}
	for i := range x.Estimates {
		if e := &x.Estimates[i]; (e.Normal != nil || e.Interval != nil) && (e.Doubt == nil || !strings.Contains(*e.Doubt, "too uneven for 600 decisions")) {
			t.Errorf("%+v", e)
		}
	}
}
