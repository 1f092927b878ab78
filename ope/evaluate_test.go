package ope

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"troupe/logged"
	"troupe/policy"
	"troupe/rng"
)

// events is a Source in memory.
type events struct {
	all []logged.Event
	at  int
}

func (s *events) Read(e *logged.Event) error {
	if s.at == len(s.all) {
		return io.EOF
	}
	*e = s.all[s.at]
	s.at++
	return nil
}

// uniformLog makes a log of n events of a uniform logger: K actions, a context of two numbers, rewards 0 or 1 with a
// mean that depends on both.
func uniformLog(n, K int, seed uint64) []logged.Event {
	s := rng.NewKey(seed).Stream(rng.Reward)
	out := make([]logged.Event, n)
	law := make([]float64, K)
	for k := range law {
		law[k] = 1 / float64(K)
	}
	for i := range out {
		d := s.Round(uint64(i))
		x := []float64{d.Float64(0), d.Float64(1)}
		a := d.Intn(2, K)
		y := 0.0
		if d.Float64(3) < 0.2+0.6*x[a%2]*float64(a+1)/float64(K) {
			y = 1
		}
		out[i] = logged.Event{Context: x, K: K, Chosen: a, Reward: y, Propensity: law[a], Law: law, Position: logged.NoPosition}
	}
	return out
}

func answerOf(t testing.TB, all []logged.Event, o Options) *Result {
	t.Helper()
	r, err := Evaluate(context.Background(), &events{all: all}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWorkers: the same bytes for any number of workers, across refits and for every estimator.
func TestWorkers(t *testing.T) {
	all := uniformLog(plays(800, 1500, 1500), 3, 7) // refits after 256 and 512
	for i := range all {
		all[i].Group = []string{"a", "a", "b"}
	}
	var want []byte
	for _, q := range []string{"ridge", "logistic", "mean"} {
		want = nil
		for _, workers := range []int{1, 3} {
			r := answerOf(t, all, Options{Targets: []Target{Uniform{}, Greedy{}, &Fixed{"third", []float64{0, 0, 1}}}, Estimators: Keys(), Q: q, Workers: workers, Seed: 3})
			got, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			} else if string(got) != string(want) {
				t.Errorf("%s: %d workers give other bytes", q, workers)
			}
		}
	}
}

// TestSignedRewards: rewards of both signs, whose sum is near 0, count as rewarded decisions: the overlap of uniform play under a uniform
// logger is good.
func TestSignedRewards(t *testing.T) {
	all := uniformLog(4000, 3, 5)
	for i := range all {
		all[i].Reward = 1 - 2*float64(i%2)
	}
	x := answerOf(t, all, Options{Targets: []Target{Uniform{}}, Rewards: &Pair{-1, 1}}).Targets[0]
	if x.Overlap != "good" || math.Abs(x.Diagnostics.ESSRewarded-4000) > 1e-6 {
		t.Errorf("overlap %s, %v effective rewarded decisions of 4000", x.Overlap, x.Diagnostics.ESSRewarded)
	}
}

// TestLength: logs of every length around those at which a reward model is fitted have an answer.
func TestLength(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 511, 512} {
		for _, q := range []string{"ridge", "logistic", "mean"} {
			if r := answerOf(t, uniformLog(n, 3, 1), Options{Targets: []Target{Uniform{}}, Q: q}); r.Log.Events != n {
				t.Errorf("%d events, %s: %d", n, q, r.Log.Events)
			}
		}
	}
}

// TestDamagedReward: an event with a bad reward stays in the sequence as the worst case of both sides, and is left out
// of the rest. The interval gets wider, and holds what it held.
func TestDamagedReward(t *testing.T) {
	all := uniformLog(2000, 3, 8)
	o := Options{Targets: []Target{&Fixed{"third", []float64{0, 0, 1}}}}
	before := answerOf(t, all, o).Targets[0]
	for i := range 20 {
		e := &all[100*i]
		e.BadReward, e.Reward = true, math.NaN()
	}
	r := answerOf(t, all, o)
	after := r.Targets[0]
	for i := range before.Estimates {
		b, a := before.Estimates[i].Sequence, after.Estimates[i].Sequence
		if b == nil {
			continue
		}
		if !(a[0] <= b[0] && a[1] >= b[1] && a[1]-a[0] < b[1]-b[0]+0.1) {
			t.Errorf("%s: %v with 20 damaged rewards, %v without", before.Estimates[i].Estimator, *a, *b)
		}
	}
	b, a := before.Uplift.Sequence, after.Uplift.Sequence
	if !(a[0] <= b[0] && a[1] >= b[1]) {
		t.Errorf("uplift: %v with damaged rewards, %v without", *a, *b)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "20 events with a damaged reward") {
		t.Errorf("warnings: %v", r.Warnings)
	}
}

// TestContradiction: q(x_i, a_i) = r_i breaks the sequence, and the two sides say so.
func TestContradiction(t *testing.T) {
	all := uniformLog(1000, 5, 9)
	for i := range all {
		q := make([]float64, 5)
		for k := range q {
			q[k] = 0.5
		}
		q[all[i].Chosen] = all[i].Reward
		all[i].Q = q
	}
	r := answerOf(t, all, Options{Targets: []Target{Greedy{}}})
	e := r.Targets[0].Estimates[4]
	if c := r.Targets[0].Contradicted; e.Estimator != "dr" || e.Sequence != nil || c == nil || !strings.Contains(*c, "knows what was played") {
		t.Errorf("dr: %v, %v; %v", e.Sequence, deref(e.Value), c)
	}
	// a target that does not follow q has true weights: q alone is at fault, and the rows without it stay
	a := answerOf(t, all, Options{Targets: []Target{Uniform{}}}).Targets[0]
	if e := estimateOf(a, "dr"); e.Sequence != nil || e.Normal != nil || !strings.Contains(*e.Why, "contradict") || a.Contradicted == nil || a.Uplift.Value != nil ||
		!strings.HasPrefix(a.Verdict, "none: ") || estimateOf(a, "ips").Sequence == nil {
		t.Errorf("%q, dr %+v, ips %+v", a.Verdict, e, estimateOf(a, "ips"))
	}
}

// TestUnsupported: a target that plays what the logger could not has no normal interval, and says how much.
func TestUnsupported(t *testing.T) {
	all := uniformLog(3000, 3, 10)
	for i := range all {
		e := &all[i]
		e.Law = []float64{0.5, 0.5, 0}
		e.Chosen = i % 2
		e.Propensity = 0.5
	}
	r := answerOf(t, all, Options{Targets: []Target{Uniform{}}}).Targets[0]
	if d := r.Diagnostics; math.Abs(*d.Unsupported-1./3) > 1e-12 {
		t.Errorf("unsupported %v", *d.Unsupported)
	}
	if e := r.Estimates[4]; e.Normal != nil || e.Sequence[1]-e.Sequence[0] < 1./3 || !strings.Contains(*e.Why, "at least that wide") {
		t.Errorf("dr: %+v", e)
	}
}

// TestCalibration: propensities that are off by 10 % are seen at n = 20 000.
func TestCalibration(t *testing.T) {
	all := uniformLog(20000, 2, 11)
	s := rng.NewKey(5).Stream(rng.Select)
	for i := range all {
		e := &all[i]
		e.Law = []float64{0.5, 0.5}
		e.Chosen = 1
		if s.Round(uint64(i)).Float64(0) < 0.55 {
			e.Chosen = 0
		}
		e.Propensity = 0.5
	}
	r := answerOf(t, all, Options{Targets: []Target{Uniform{}}})
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "do not tell the truth about action 0") {
		t.Errorf("z = %v, warnings %v", r.Targets[0].Diagnostics.CalibrationZ, r.Warnings)
	}
}

// TestLearning: a target that learns from the log, and one that replays, with a policy without a law.
func TestLearning(t *testing.T) {
	all := uniformLog(2000, 3, 12)
	for _, c := range []struct {
		kind  policy.Options
		learn string
		bad   bool
	}{
		{&policy.EpsilonGreedyOptions{Epsilon: 0.1}, "log", false}, {&policy.EpsilonGreedyOptions{Epsilon: 0.1}, "replay", false},
		{&policy.ThompsonOptions{}, "replay", false}, {&policy.ThompsonOptions{}, "log", true},
	} {
		target := NewPolicyTarget("p", c.kind, c.learn, nil, 1)
		r, err := Evaluate(context.Background(), &events{all: all}, Options{Targets: []Target{target}, Learns: []string{c.learn}})
		if c.bad {
			if err == nil || !strings.Contains(err.Error(), "no exact law") {
				t.Errorf("%T %s: %v", c.kind, c.learn, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		x := r.Targets[0]
		if r.Log.Adaptive != "yes" || x.Learns != c.learn || target.Trained() == 0 || c.learn == "replay" && target.Trained() > 1500 {
			t.Errorf("%T %s: adaptive %s, %d learned", c.kind, c.learn, r.Log.Adaptive, target.Trained())
		}
		if !(*x.Uplift.Value > 0) {
			t.Errorf("%T %s: a policy that learns is not better than uniform: %v", c.kind, c.learn, *x.Uplift.Value)
		}
	}
}

// TestModels: a reward model that can represent the truth finds it.
func TestModels(t *testing.T) {
	all := uniformLog(20000, 3, 13)
	truth := 0.0
	for i := range all {
		truth += 0.2 + 0.6*all[i].Context[0]
	}
	truth /= float64(len(all)) // of action 2
	for _, q := range []string{"ridge", "logistic", "mean"} {
		r := answerOf(t, all, Options{Targets: []Target{&Fixed{"third", []float64{0, 0, 1}}}, Q: q})
		dm := *r.Targets[0].Estimates[3].Value
		if math.Abs(dm-truth) > 0.025 { // the first 256 events are predicted by 0
			t.Errorf("%s: dm is %v, the truth %v", q, dm, truth)
		}
		if w := r.Targets[0].Estimates; q != "mean" && w[4].Normal[1]-w[4].Normal[0] > 0.75*(w[1].Normal[1]-w[1].Normal[0]) {
			t.Errorf("%s: dr is not narrower than ips", q)
		}
	}
	for i := range all {
		all[i].Reward *= 0.5
	}
	if _, err := Evaluate(context.Background(), &events{all: all}, Options{Targets: []Target{Uniform{}}, Q: "logistic"}); err == nil {
		t.Error("logistic took rewards of 0.5")
	}
}

// TestOwnOracles: mrdr and bootstrap have no golden values. mrdr is doubly robust: on a uniform log of 20 000 it is within
// five standard errors of the truth. The bootstrap of dr is an interval for independent events: about as wide as the
// normal one.
func TestOwnOracles(t *testing.T) {
	all := uniformLog(20000, 3, 14)
	truth := 0.0
	for i := range all {
		truth += 0.2 + 0.6*all[i].Context[0]
	}
	truth /= float64(len(all))
	r := answerOf(t, all, Options{Targets: []Target{&Fixed{"third", []float64{0, 0, 1}}}, Estimators: []string{"mrdr", "dr", "ips"}})
	e := r.Targets[0].Estimates
	if d := math.Abs(*e[0].Value - truth); d > 5**e[0].SE || *e[0].SE > *e[2].SE {
		t.Errorf("mrdr is %v ± %v, the truth %v, ips ± %v", *e[0].Value, *e[0].SE, truth, *e[2].SE)
	}
	r = answerOf(t, all[:2000], Options{Targets: []Target{&Fixed{"third", []float64{0, 0, 1}}}, Estimators: []string{"dr", "bootstrap"}, Seed: 4})
	e = r.Targets[0].Estimates
	n, b := e[0].Normal, e[1].Interval
	if ratio := (b[1] - b[0]) / (n[1] - n[0]); ratio < 0.8 || ratio > 1.25 || !(b[0] < *e[0].Value && *e[0].Value < b[1]) {
		t.Errorf("the bootstrap is %v, the normal interval %v", *b, *n)
	}
}

// TestCrossfit: folds see each other's events, so the first ones are predicted too; sequences that use q are not given.
func TestCrossfit(t *testing.T) {
	all := uniformLog(4000, 3, 15)
	target := []Target{&Fixed{"third", []float64{0, 0, 1}}}
	reopen := func() (Source, error) { return &events{all: all}, nil }
	truth := 0.0
	for i := range all {
		truth += 0.2 + 0.6*all[i].Context[0]
	}
	truth /= float64(len(all))
	for _, q := range []string{"ridge", "logistic", "mean"} {
		r := answerOf(t, all, Options{Targets: target, Q: q, Crossfit: 5, Reopen: reopen})
		x := r.Targets[0]
		if d := math.Abs(*x.Estimates[3].Value - truth); d > 0.03 {
			t.Errorf("%s: dm is off by %v", q, d)
		}
		if x.Estimates[4].Sequence != nil || x.Estimates[1].Sequence == nil || x.Uplift.Sequence == nil || !strings.Contains(*x.Uplift.Why, "propensities alone") {
			t.Errorf("%s: sequences %v %v %v", q, x.Estimates[1].Sequence, x.Estimates[4].Sequence, x.Uplift.Sequence)
		}
	}
	if _, err := Evaluate(context.Background(), &events{all: all}, Options{Targets: target, Crossfit: 5}); err == nil {
		t.Error("a log that cannot be read again was cross-fitted")
	}
}

// TestGroups: mips and offcem need the groups of every event. Without them, or with some, they have no value and say so; offcem was the
// model's value then, with an interval of no width.
func TestGroups(t *testing.T) {
	for _, x := range []struct {
		grouped int
		why     string
	}{{0, "the log has no groups"}, {1000, ""}, {999, "1 events have no groups"}} {
		all := uniformLog(1000, 3, 7)
		for i := range all[:x.grouped] {
			all[i].Group = []string{"a", "a", "b"}
		}
		r := answerOf(t, all, Options{Targets: []Target{Uniform{}}, Estimators: []string{"mips", "offcem"}, Q: "mean"})
		for _, e := range r.Targets[0].Estimates {
			if (e.Value == nil) != (x.why != "") || x.why != "" && !strings.Contains(*e.Why, x.why) {
				t.Errorf("%d of 1000 with groups, %s: %v", x.grouped, e.Estimator, e)
			}
		}
	}
}

// TestDirectUnfitted: dm is the mean over the events that the reward model predicts, and not there where it predicts none: the 0 of
// the others is no estimate.
func TestDirectUnfitted(t *testing.T) {
	var all, seen moments
	for i := range 12 {
		v, dm := 1+float64(i%3), 0.25*float64(i%5)
		if i < 5 {
			dm = 0
		}
		u := [variables]float64{vOne: 1, vDM: dm}
		all.add(v, &u)
		if i >= 5 {
			all.predicts(v)
			seen.add(v, &u)
			seen.predicts(v)
		}
	}
	v, se, _, _ := all.plainEstimate("dm")
	want, wantSE, _, _ := seen.plainEstimate("dm")
	if math.Abs(v-want) > 1e-12 || math.Abs(se-wantSE) > 1e-12 || v == 0 || se == 0 {
		t.Errorf("dm %v ± %v, expected %v ± %v", v, se, want, wantSE)
	}

	for _, x := range []struct {
		n    int
		have bool
		why  string
	}{{256, false, "the log has 256"}, {300, true, "the mean over the 44 of 300 events"}} {
		r := answerOf(t, uniformLog(x.n, 3, 12), Options{Targets: []Target{Uniform{}, Greedy{}}, Estimators: []string{"dm", "dr", "dros"}, Q: "ridge"})
		for _, e := range r.Targets[0].Estimates {
			why := ""
			if e.Why != nil {
				why = *e.Why
			}
			have := x.have || e.Estimator == "dr"
			if (e.Value != nil) != have || have && *e.Value == 0 || e.Estimator == "dm" && !strings.Contains(why, x.why) {
				t.Errorf("%d events: %s is %v, %v", x.n, e.Estimator, deref(e.Value), why)
			}
			if x.have && e.Estimator == "dros" && !strings.Contains(why, "the reward model predicts 44 of 300 events") {
				t.Errorf("%d events: dros says %q", x.n, why)
			}
		}
		if w := fmt.Sprintf("greedy plays the first action in 256 of %d events", x.n); !strings.Contains(strings.Join(r.Warnings, " "), w) {
			t.Errorf("%d events: warnings %v", x.n, r.Warnings)
		}
	}

	// Predictions without a spread have no interval, and not one without a width.
	r := answerOf(t, uniformLog(300, 3, 12), Options{Targets: []Target{Uniform{}}, Estimators: []string{"dm"}, Q: "mean"})
	if e := r.Targets[0].Estimates[0]; e.Value == nil || *e.SE != 0 || e.Normal != nil || e.Why == nil || !strings.Contains(*e.Why, "do not vary") {
		t.Errorf("constant predictions: %v, interval %v", deref(e.Value), e.Normal)
	}
}
