package ope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"troupe/logged"
)

// rareLog is n decisions of a logger over K arms, uniform or with the floor .01 elsewhere than arm 0, rewards of the rate
// for every arm but those of better, which have twice of it. The target plays arms 0 to 4 alike.
func rareLog(seed uint64, n, K int, rate float64, floor, better, law bool) (all []logged.Event, truth, ran float64) {
	r := rand.New(rand.NewPCG(seed, 1128))
	pb, pe := make([]float64, K), make([]float64, K)
	for a := range pb {
		if pb[a] = 1 / float64(K); floor {
			if pb[a] = 0.01; a == 0 {
				pb[a] = 1 - 0.01*float64(K-1)
			}
		}
		if a < 5 {
			pe[a] = 0.2
		}
	}
	mean := func(a int) float64 {
		if better && a < 5 {
			return 2 * rate
		}
		return rate
	}
	for a := range pb {
		truth += (pe[a] - pb[a]) * mean(a)
		ran += pb[a] * mean(a)
	}
	for range n {
		e := logged.Event{Context: []float64{1}, K: K, Chosen: draw(pb, r.Float64()), Target: pe, Position: logged.NoPosition}
		if e.Propensity = pb[e.Chosen]; law {
			e.Law = pb
		}
		if r.Float64() < mean(e.Chosen) {
			e.Reward = 1
		}
		all = append(all, e)
	}
	return all, truth, ran
}

// TestBias: over 200 logs the mean of the value of the difference is within .1 of what ran from the true difference,
// Σ_a (π_e(a) − π_b(a)) μ(a), where rewards are rare, with the logger's law and without (TROUPE_LONG; 16 logs and three
// standard errors more otherwise). Null: no bias, and the standard error of the mean of 200 is at most .03 of what ran.
// The point of equal wealth, which the value was before, is off by 180 % of what ran in the first world without a law.
// Equal policies have a forecast in at most 5 % of the logs, at two standard errors.
func TestBias(t *testing.T) {
	runs := plays(16, 200, 200)
	for _, x := range []struct {
		n, K          int
		rate          float64
		floor, better bool
	}{{10_000, 34, 0.005, false, false}, {10_000, 34, 0.005, false, true}, {5000, 20, 0.05, true, false}} {
		for _, law := range []bool{false, true} {
			var sum, square, point, ran, truth float64
			missed, promised := 0, 0
			for i := range runs {
				all, ve, vb := rareLog(uint64(i+1), x.n, x.K, x.rate, x.floor, x.better, law)
				u := answerOf(t, all, Options{Targets: []Target{Column{}}, Estimators: []string{"ips"}}).Targets[0].Uplift
				truth, ran = ve, vb
				sum, square, point = sum+*u.Value, square+*u.Value**u.Value, point+*u.Centre
				if u.Sequence[0] > truth || u.Sequence[1] < truth {
					missed++
				}
				if u.More != nil {
					promised++
				}
			}
			n := float64(runs)
			bias, se := sum/n-truth, math.Sqrt((square/n-sum/n*sum/n)/n)
			t.Logf("n %d, K %d, rate %g, floor %v, better %v, law %v: truth %+.5f, value %+.5f ± %.5f, equal wealth %+.5f, ran %.5f; missed %d, forecasts %d of %d",
				x.n, x.K, x.rate, x.floor, x.better, law, truth, sum/n, se, point/n, ran, missed, promised, runs)
			if math.Abs(bias) > 0.1*ran+3*max(se-0.02*ran, 0) {
				t.Errorf("bias %+.2g of %.2g", bias, ran)
			}
			if missed > 2 || !x.better && float64(promised) > 0.05*n+2*math.Sqrt(0.05*n) {
				t.Errorf("missed %d of %d, forecasts %d", missed, runs, promised)
			}
		}
	}
}

// TestItself: a policy against itself differs by exactly 0, whatever the log knows; with its law the interval is 0 too.
func TestItself(t *testing.T) {
	K := 34
	for _, law := range []bool{true, false} {
		all, _, _ := rareLog(3, 3000, K, 0.02, true, false, law)
		for i := range all {
			all[i].Target = []float64{}
			for a := range K {
				p := 0.01
				if a == 0 {
					p = 1 - 0.01*float64(K-1)
				}
				all[i].Target = append(all[i].Target, p)
			}
		}
		for _, q := range []string{"none", "ridge"} {
			a := answerOf(t, all, Options{Targets: []Target{Column{}}, Q: q, By: nil}).Targets[0]
			u := a.Uplift
			if *u.Value != 0 || math.Signbit(*u.Value) || u.Normal == nil || *u.Normal != (Pair{}) || u.More != nil || !strings.HasPrefix(a.Verdict, "no difference: ") {
				t.Errorf("law %v, q %s: %+v, %q", law, q, *u.Value, a.Verdict)
			}
			if law && *u.Sequence != (Pair{}) {
				t.Errorf("q %s: the interval is %v", q, *u.Sequence)
			}
		}
	}
}

// titled is a target with a name of its own.
type titled struct {
	Target
	name string
}

func (n titled) Name() string { return n.name }

// tilted plays arm 0 more often by d.
type tilted float64

func (tilted) Name() string { return "tilted" }

func (d tilted) Law(dst []float64, _ *logged.Event, _ []float64) error {
	for a := range dst {
		dst[a] = (1 - float64(d)) / float64(len(dst))
	}
	dst[0] += float64(d)
	return nil
}

// TestOneLaw: targets with one law are exactly 0 apart, in pairs and in the set, with few targets and with more than all
// pairs; one that differs in one event, or by .001, is not. Ranking and the set have one order, that of the value.
func TestOneLaw(t *testing.T) {
	for _, more := range []int{0, 20} {
		all := uniformLog(2000, 5, 8)
		ts := []Target{titled{tilted(0.3), "a"}, titled{Uniform{}, "b"}, titled{tilted(0.3), "c"}, titled{tilted(0.301), "d"}, titled{tilted(0.3 + 1e-8), "e"}}
		for i := range more {
			ts = append(ts, titled{tilted(0.01 * float64(i)), fmt.Sprint("t", i)})
		}
		r := answerOf(t, all, Options{Targets: ts, Estimators: []string{"ips"}, Workers: 3})
		at := map[string]*Evaluated{}
		for _, x := range r.Targets {
			at[x.Name] = x
		}
		if *at["a"].Uplift.Value != *at["c"].Uplift.Value || *at["b"].Uplift.Value != 0 {
			t.Errorf("values %v %v %v", *at["a"].Uplift.Value, *at["c"].Uplift.Value, *at["b"].Uplift.Value)
		}
		for _, p := range r.Pairs {
			w := p.Sequence[1] - p.Sequence[0]
			switch p.First + p.Second {
			case "ac":
				if *p.Sequence != (Pair{}) || p.Verdict != "one law in every decision" {
					t.Errorf("%+v", p)
				}
			case "ae", "ce":
				if w > 2.1e-8 || w == 0 {
					t.Errorf("%+v: %v", p, *p.Sequence)
				}
			default:
				if w < 1e-3 {
					t.Errorf("%+v: %v", p, *p.Sequence)
				}
			}
		}
		var rows []string
		for _, x := range r.Candidates.Rows {
			rows = append(rows, x.Name)
			if x.Against == "a" && x.Name == "c" && *x.Sequence != (Pair{}) {
				t.Errorf("%+v: %v", x, *x.Sequence)
			}
		}
		for i, name := range r.Ranking {
			if i > 0 && *at[name].Uplift.Value > *at[r.Ranking[i-1]].Uplift.Value {
				t.Errorf("ranking %v is not that of the values", r.Ranking)
			}
		}
		if n := len(r.Candidates.Best); fmt.Sprint(rows[:n]) != fmt.Sprint(r.Candidates.Best) || n == len(rows) && fmt.Sprint(rows) != fmt.Sprint(r.Ranking) {
			t.Errorf("rows %v, best %v, ranking %v", rows, r.Candidates.Best, r.Ranking)
		}
	}
}

// TestUntrue: propensities that the counts contradict take every verdict away. By hand: arm a is said to have ½ in 2000
// decisions and is played in 400, so 1000 were promised, V = 500, and the evidence is 500·h(600/500) = 267 less the log of 20 λ;
// 13 is enough. A rare action that is played twice where .02 were promised has z = 14 and no such evidence.
func TestUntrue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []logged.Event
	for i := range 2000 {
		e := logged.Event{Context: []float64{1}, K: 2, Propensity: 0.5, Law: []float64{0.5, 0.5}, Target: []float64{1, 0}, Position: logged.NoPosition, Chosen: 1}
		if i%5 == 0 {
			e.Chosen = 0
		}
		if r.Float64() < 0.2 {
			e.Reward = 1
		}
		all = append(all, e)
	}
	res := answerOf(t, all, Options{Targets: []Target{Column{}, Uniform{}}, Estimators: Keys()})
	if len(res.Warnings) == 0 || !strings.Contains(res.Warnings[0], "action 0: it was played 400 times, and 1000 were promised") {
		t.Errorf("%q", res.Warnings)
	}
	if res.Candidates != nil || res.Pairs != nil || res.Ranking != nil {
		t.Error("targets are compared")
	}
	for _, a := range res.Targets {
		if u := a.Uplift; a.Contradicted == nil || !strings.HasPrefix(a.Verdict, "none: the logged propensities do not") || u.Value != nil || u.Plain != nil || u.Centre != nil ||
			u.Sequence != nil || u.Normal != nil || u.More != nil {
			t.Errorf("%s: %q, %+v", a.Name, a.Verdict, u)
		}
		for _, x := range a.Estimates {
			if x.Estimator != "logged" && x.Estimator != "dm" && (x.Normal != nil || x.Sequence != nil || x.Lower != nil || x.Interval != nil) {
				t.Errorf("%s %s has an interval", a.Name, x.Estimator)
			}
		}
		if res.Withhold(a); estimateOf(a, "ips").Value != nil || estimateOf(a, "logged").Value == nil {
			t.Errorf("%s: withheld %+v", a.Name, a.Estimates)
		}
	}
	if e := truth(2-0.02, 0.02); e > 10 {
		t.Errorf("two plays where .02 were promised have the evidence %v", e)
	}
}

// TestTruth: of 3000 logs of 300 decisions with true propensities, of which some are tiny, hardly one is contradicted:
// null .001 at most, 9 and more have the probability .004.
func TestTruth(t *testing.T) {
	contradicted, z := 0, 0
	for i := range 3000 {
		r := rand.New(rand.NewPCG(uint64(i), 77))
		const K = 12
		a := &accumulator{actions: make([]actionSums, K)}
		for range 300 {
			a.n++
			p, rest := make([]float64, K), 1.0
			for k := 1; k < K; k++ {
				p[k] = 0.3 * math.Pow(10, -4*r.Float64()) / K
				rest -= p[k]
			}
			p[0] = rest
			c := draw(p, r.Float64())
			a.see(&plan{scale: 1}, &logged.Event{K: K, Chosen: c, Propensity: p[c], Law: p})
		}
		e := &evidence{p: &plan{}, total: a}
		var seen []ActionSeen
		wild := false
		for k := range a.actions {
			seen = append(seen, a.actions[k].seen(k, true))
			wild = wild || math.Abs(seen[k].Z) > 4
		}
		if e.untrue(seen) != "" {
			contradicted++
		}
		if wild {
			z++
		}
	}
	t.Logf("of 3000 logs %d are contradicted; %d have |z| > 4", contradicted, z)
	if contradicted > 8 {
		t.Errorf("%d of 3000 true logs are contradicted", contradicted)
	}
	if z < 20 {
		t.Errorf("z-scores above 4 in %d logs only: this world shows nothing", z)
	}
}
