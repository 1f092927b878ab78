package policy_test

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// TestStudentLog compares log Γ((ν+1)/2) − log Γ(ν/2) − ½ log π with the standard library's.
func TestStudentLog(t *testing.T) {
	for _, nu := range []float64{1, 2, 3, 7, 16, 17, 100, 1e4, 1e7} {
		a, _ := math.Lgamma((nu + 1) / 2)
		b, _ := math.Lgamma(nu / 2)
		if got, want := policy.StudentLog(nu), a-b-math.Log(math.Pi)/2; math.Abs(got-want) > 1e-9*max(1, math.Abs(a)) {
			t.Errorf("ν = %v: %v, want %v", nu, got, want)
		}
	}
}

// oldTrial is a hypothesis with V⁻¹, as a program that shares nothing with Restarts has it.
type oldTrial struct {
	inv        [][]float64
	theta      []float64
	born, n    int
	like, beta float64
}

func newOldTrial(d, born int, like, sigma float64) *oldTrial {
	o := &oldTrial{theta: make([]float64, d), born: born, like: like, beta: sigma * sigma}
	for i := range d {
		o.inv = append(o.inv, make([]float64, d))
		o.inv[i][i] = 1
	}
	return o
}

func (o *oldTrial) learn(x []float64, y float64) {
	d := len(x)
	w := make([]float64, d)
	for i := range d {
		w[i] = linalg.Dot(o.inv[i], x)
	}
	q, e := linalg.Dot(w, x), y-linalg.Dot(o.theta, x)
	alpha := 1 + float64(o.n)/2 // inverse-gamma prior with α = 1 and β = σ₀²
	nu, scale := 2*alpha, o.beta/alpha*(1+q)
	a, _ := math.Lgamma((nu + 1) / 2)
	b, _ := math.Lgamma(nu / 2)
	o.like += a - b - math.Log(math.Pi*nu*scale)/2 - (nu+1)/2*math.Log(1+e*e/(nu*scale))
	o.beta += e * e / (1 + q) / 2
	o.n++
	for i := range d {
		o.theta[i] += w[i] * e / (1 + q)
		for j := range d {
			o.inv[i][j] -= w[i] * w[j] / (1 + q)
		}
	}
}

// TestRestartsAreTheirFormula plays 900 rounds of a world that changes twice, and compares the weights of the copies
// with Bayesian change-point detection written anew: V⁻¹ in place of a factor, and inverse-gamma noise.
func TestRestartsAreTheirFormula(t *testing.T) {
	const d = 3
	w := newWorld(4, d, 6)
	prob := w.problem(0)
	prob.Sigma = 0.5
	r := build(t, "atoms", spec.Raw{"change": "restarts"}, prob).(*policy.Restarts)
	old := []*oldTrial{newOldTrial(d, 0, 0, 0.5)}
	var x bandit.Action
	several := 0
	for round := range 900 {
		if round%300 == 299 {
			for i := range w.theta {
				w.theta[i] = -w.theta[i]
			}
		}
		if err := r.Select(&x, w, w.key.Stream(rng.Select).Round(uint64(round))); err != nil {
			t.Fatal(err)
		}
		y := linalg.Dot(x.X, w.theta) + 0.7*w.key.Stream(rng.Reward).Round(uint64(round)).Normal(0)
		if err := r.Update(x, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		for _, o := range old {
			o.learn(x.X, y)
		}
		most, least := 0, 0
		for k, o := range old {
			if o.like > old[most].like {
				most = k
			}
			if o.like < old[least].like {
				least = k
			}
		}
		if n := round + 1; n%25 == 0 {
			sum := 0.0
			for _, o := range old {
				sum += math.Exp(o.like - old[most].like)
			}
			like := old[most].like + math.Log(sum) + math.Log(25./5000)
			if fresh := newOldTrial(d, n, like, 0.5); len(old) < 6 {
				old = append(old, fresh)
			} else {
				old[least] = fresh
			}
		}
		all, play := 0.0, 0.0
		for _, o := range old {
			all += math.Exp(o.like - old[most].like)
		}
		for _, o := range old {
			if v := math.Exp(o.like - old[most].like); v >= 0.1*all {
				play += v
			}
		}
		got, sum, playing := r.Weights(), uint32(0), 0
		for k, o := range old {
			v := math.Exp(o.like - old[most].like)
			if sum += got[k]; v < 0.1*all*(1-1e-6) && got[k] != 0 || v > 0.1*all*(1+1e-6) &&
				math.Abs(float64(got[k])/65536-v/play) > 1e-4 {
				t.Fatalf("n = %d: weight %d is %v, want %v", round+1, k, float64(got[k])/65536, v/play)
			}
			if got[k] > 0 {
				playing++
			}
		}
		if several += min(playing-1, 1); sum != 65536 {
			t.Fatalf("the weights sum to %d", sum)
		}
	}
	if several < 10 {
		t.Errorf("several copies played in %d rounds: the test tests little", several)
	}
	if c := r.Change(); c.At < 550 || c.At > 650 || c.Seen < 600 || c.Seen > 750 || c.Posterior < .99 {
		t.Errorf("the change at 599 was stated as %+v", c)
	}
}

// TestRestartsLaw: frequencies of 200,000 draws against the law, in a state in which several copies play. Null: the law
// is exact. Hoeffding's bound with a union over 6 arms; it fails by chance with probability 10⁻⁹.
func TestRestartsLaw(t *testing.T) {
	w := newWorld(4, 3, 6)
	prob := w.problem(0)
	prob.Sigma = 0.5
	p := build(t, "auto", spec.Raw{"change": "restarts", "key": "fixed", "m": int64(4), "half_life": int64(300)}, prob).(*policy.Restarts)
	var x bandit.Action
	round := uint64(0)
	playing := func() (n int) {
		for _, v := range p.Weights() {
			if v > 0 {
				n++
			}
		}
		return n
	}
	for ; round < 2000 && (round < 300 || playing() < 2); round++ {
		if err := p.Select(&x, w, w.key.Stream(rng.Select).Round(round)); err != nil {
			t.Fatal(err)
		}
		sign := 1.0
		if round >= 300 {
			sign = 0
		}
		y := sign*linalg.Dot(x.X, w.theta) + 0.8*w.key.Stream(rng.Reward).Round(round).Normal(0)
		if err := p.Update(x, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	if playing() < 2 {
		t.Fatal("one copy plays alone: the test tests nothing")
	}
	var law bandit.Law
	if err := p.Prob(&law, w, w.key.Stream(rng.Select).Round(0)); err != nil {
		t.Fatal(err)
	}
	if law.Total != 65536*8 {
		t.Errorf("the law counts over %d, want 2¹⁶·2m = %d", law.Total, 65536*8)
	}
	const n = 200_000
	counts := make([]int, len(law.Atoms))
	for i := range uint64(n) {
		if err := p.Select(&x, w, w.key.Stream(rng.Select).Round(10_000+i)); err != nil {
			t.Fatal(err)
		}
		counts[x.Index]++
	}
	limit := math.Sqrt(math.Log(2*float64(len(counts))/1e-9) / (2 * n))
	sum := uint64(0)
	for i, a := range law.Atoms {
		sum += a.Count
		if math.Abs(float64(counts[i])/n-a.P) > limit {
			t.Errorf("arm %d: frequency %v, probability %v", i, float64(counts[i])/n, a.P)
		}
	}
	if sum != law.Total {
		t.Errorf("the counts sum to %d of %d", sum, law.Total)
	}
}

// TestNoRestarts: with change = "none" kind auto is NewAuto, with the bytes that it had before there were restarts.
func TestNoRestarts(t *testing.T) {
	w := newWorld(2, 4, 9)
	prob := w.problem(0)
	plain, err := policy.NewAuto(policy.AutoOptions{}, prob)
	if err != nil {
		t.Fatal(err)
	}
	log := record(t, w, plain, 100)
	p := build(t, "auto", spec.Raw{"change": "none"}, prob)
	feed(t, p, log)
	a, err1 := plain.AppendSnapshot(nil)
	b, err2 := p.(bandit.Snapshotter).AppendSnapshot(nil)
	if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Error("the snapshots differ")
	}
}

// TestChangeRefusals: each option of change that makes no sense is named with its value.
func TestChangeRefusals(t *testing.T) {
	prob := newWorld(1, 3, 4).problem(100)
	for want, o := range map[string]policy.Options{
		`change is "restart"; did you mean "restarts"?`:            &policy.AutoOptions{Change: "restart"},
		"half_life is 3, expected a number of events, at least 25": &policy.AutoOptions{Change: "restarts", HalfLife: policy.HalfLife{Events: 3}},
		"half_life is NaN":                          &policy.AutoOptions{Change: "restarts", HalfLife: policy.HalfLife{Events: math.NaN()}},
		"half_life is 500, but discount is 0.9":     &policy.AtomsOptions{Change: "restarts", HalfLife: policy.HalfLife{Events: 500}, Discount: .9},
		`half_life is 500, but change is "none"`:    &policy.LogisticOptions{HalfLife: policy.HalfLife{Events: 500}},
		`change is "restarts", but preset = "theor`: &policy.AtomsOptions{Change: "restarts", Preset: "theorem"},
		`half_life is 100, but change is "none": e`: &policy.LinUCBOptions{HalfLife: policy.HalfLife{Events: 100}},
		`half_life is "7d", but nothing here says when an event came: expected a number of events`: &policy.AutoOptions{Change: "restarts", HalfLife: policy.HalfLife{Time: 7 * 24 * time.Hour}},
		`base.half_life is "7d", but nothing here`:                                                 &policy.MixedOptions{Base: policy.Base{Options: &policy.LinUCBOptions{Change: "restarts", HalfLife: policy.HalfLife{Time: 7 * 24 * time.Hour}}}},
	} {
		if _, err := o.New(prob); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
}

// BenchmarkRestarts is an update of kind auto, d = 32, with restarts and without; compare them in one run.
func BenchmarkRestarts(b *testing.B) {
	for _, change := range []string{"none", "restarts"} {
		b.Run(change, func(b *testing.B) {
			w := newWorld(1, 32, 20)
			p := build(b, "auto", spec.Raw{"change": change}, w.problem(0))
			var x bandit.Action
			for i := 0; b.Loop(); i++ {
				x.Set(w.arms[i%20], i%20)
				if err := p.Update(x, 0.5, rng.Source{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestNoFalseAlarm: in 20 runs of 100,000 events of a world that stays, changes are stated at most 20 times, one in 10⁵
// events. By Ville's inequality the expected number is at most 10⁵·h/99 ≈ 0.2 a run under the model's own law. Takes a minute.
func TestNoFalseAlarm(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD is not set")
	}
	alarms := 0
	for seed := range uint64(20) {
		w := newWorld(100+seed, 10, 20)
		prob := w.problem(0)
		prob.Sigma = 0.5
		p := build(t, "auto", spec.Raw{"change": "restarts"}, prob).(*policy.Restarts)
		var x bandit.Action
		seen := uint64(0)
		for i := range uint64(100_000) {
			if err := p.Select(&x, w, w.key.Stream(rng.Select).Round(i)); err != nil {
				t.Fatal(err)
			}
			y := linalg.Dot(x.X, w.theta) + 0.5*w.key.Stream(rng.Reward).Round(i).Normal(0)
			if err := p.Update(x, y, rng.Source{}); err != nil {
				t.Fatal(err)
			}
			if c := p.Change(); c.Seen != seen {
				seen = c.Seen
				alarms++
			}
		}
	}
	t.Logf("%d changes were stated in 20 runs of 100,000 events without one", alarms)
	if alarms > 20 {
		t.Errorf("%d false alarms in 2·10⁶ events", alarms)
	}
}

// TestNoticed records how many events a change of a quarter, a half and one standard deviation of the rewards takes.
func TestNoticed(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD is not set")
	}
	for _, size := range []float64{0.25, 0.5, 1} {
		var took []int
		for seed := range uint64(40) {
			key := rng.NewKey(seed)
			prob := policy.Problem{Dim: 1, Sigma: 0.5, Init: key.Stream(rng.Init)}
			p := build(t, "auto", spec.Raw{"change": "restarts"}, prob).(*policy.Restarts)
			at := 20_000
			for i := range 5000 + 20_000 {
				mean := 0.5
				if i >= 5000 {
					mean -= size * 0.5
				}
				y := mean + 0.5*key.Stream(rng.Reward).Round(uint64(i)).Normal(0)
				if err := p.Update(bandit.Action{X: []float64{1}, Index: 0}, y, rng.Source{}); err != nil {
					t.Fatal(err)
				}
				if c := p.Change(); c.Seen > 5000 {
					at = int(c.Seen) - 5000
					break
				}
			}
			took = append(took, at)
		}
		slices.Sort(took)
		t.Logf("%v standard deviations: median %d, nine tenths within %d of 40", size, took[20], took[35])
	}
}
