package ope

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"troupe/logged"
)

// lawless is a log of propensities alone, as a file has it, of which a known logger gives the laws.
type lawless struct {
	events   []logged.Event
	logger   logged.Logger
	at       int
	estimate bool // the propensity is that of the law
}

func (s *lawless) Read(e *logged.Event) error {
	if err := (&worldSource{events: s.events, at: s.at}).Read(e); err != nil {
		return err
	}
	s.at++
	if e.Law = nil; s.logger != nil {
		e.Law = make([]float64, e.K)
		err := s.logger.Law(e.Law, e, e.Q)
		if s.estimate {
			e.Propensity = e.Law[e.Chosen]
		}
		return err
	}
	return nil
}

// btsLog draws decisions of Bernoulli Thompson sampling with the priors of the Open Bandit Dataset, men, on a site where an
// item is clicked with .2 to .9 per cent, and the value of uniform play less that of what ran.
func btsLog(b *BTS, n int, seed uint64) (events []logged.Event, difference float64) {
	r := rand.New(rand.NewPCG(seed, 77))
	K := len(b.ranks[0])
	mu := make([]float64, K)
	for a := range mu {
		mu[a] = .002 + .007*r.Float64()
	}
	for i := range n {
		at := i % 3
		law := b.ranks[at]
		a := draw(law, r.Float64())
		e := logged.Event{K: K, Chosen: a, Propensity: law[a], Position: at}
		if r.Float64() < mu[a] {
			e.Reward = 1
		}
		for k, p := range law {
			difference += (1/float64(K) - p) * mu[k] / float64(n)
		}
		events = append(events, e)
	}
	return events, difference
}

func menBTS(t *testing.T) *BTS {
	t.Helper()
	var g struct {
		Men struct {
			Prior struct{ Alpha, Beta []float64 }
		}
	}
	readJSON(t, "testdata/obd-men.json", &g)
	b, err := NewBTS("bts", g.Men.Prior.Alpha, g.Men.Prior.Beta, 3)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKnownLogger: on logs of 10,000 decisions of a logger with the law of the Open Bandit priors the law that --logger gives
// makes the difference to uniform play at least twice as narrow, and both intervals cover: of 20 logs each at most two may
// miss (at 5 per cent more of 40 miss with probability .32; intervals that hold at every look miss hardly ever). With a planted
// law that is not the logger's, one of the priors in the reverse order, most logs have no interval or miss.
func TestKnownLogger(t *testing.T) {
	b := menBTS(t)
	with, without, missed, planted := 0.0, 0.0, 0, 0
	const logs = 20
	wrong := &BTS{"reversed", nil}
	for _, rank := range b.ranks {
		reversed := slices.Clone(rank)
		slices.Reverse(reversed)
		wrong.ranks = append(wrong.ranks, reversed)
	}
	for seed := range uint64(logs) {
		events, truth := btsLog(b, 10_000, seed)
		for _, law := range []logged.Logger{b, nil, wrong} {
			src, known := &lawless{events: events, logger: law}, law == b
			r, err := Evaluate(t.Context(), src, Options{Targets: []Target{Uniform{}}, Estimators: []string{"ips", "dr"}, Q: "mean", Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			u := r.Targets[0].Uplift
			if law == wrong {
				if u.Sequence == nil || truth < u.Sequence[0] || truth > u.Sequence[1] {
					planted++
				}
				continue
			}
			if u.Sequence == nil {
				t.Fatalf("log %d, known %v: %s", seed, known, *u.Why)
			}
			if width := u.Sequence[1] - u.Sequence[0]; known {
				with += width
			} else if without += width; !strings.Contains(*u.Why, "--logger gives it where it is known") {
				t.Error(*u.Why)
			}
			if truth < u.Sequence[0] || truth > u.Sequence[1] {
				missed++
			}
		}
	}
	t.Logf("width %.4f with the law, %.4f without it; %d of %d missed, %d with a wrong law", with/logs, without/logs, missed, 2*logs, planted)
	if missed > 2 || planted < logs/2 || without < 2*with {
		t.Errorf("width %.4f with the law, %.4f without it; %d missed", with/logs, without/logs, missed)
	}
}

// TestEvenPropensities: where every propensity is 1/K the advice stands beside the difference.
func TestEvenPropensities(t *testing.T) {
	var events []logged.Event
	for i := range 2000 {
		events = append(events, logged.Event{K: 4, Chosen: i * 7 % 4, Reward: float64(i % 3 / 2), Propensity: .25, Position: logged.NoPosition})
	}
	target, err := NewFixed("second", []float64{0, 1, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{-1, 1999} {
		if k >= 0 {
			events[k].Propensity = .3
		}
		r, err := Evaluate(t.Context(), &lawless{events: events}, Options{Targets: []Target{target}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(*r.Targets[0].Uplift.Why, "Every propensity is 1/K: --logger uniform gives the law"); got != (k < 0) {
			t.Errorf("%s", *r.Targets[0].Uplift.Why)
		}
	}
}

// TestOpenBanditLoggerLearned: the propensities of the Open Bandit logs of Bernoulli-TS follow a posterior that was updated
// on the way, so the law of the priors is refused, with counts; the log of the uniform logger takes its law.
func TestOpenBanditLoggerLearned(t *testing.T) {
	dir := filepath.FromSlash("../../shared/data/obd/")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("../shared/data/obd is not beside the checkout")
	}
	b := menBTS(t)
	for logger, law := range map[string]logged.Logger{"bts": b, "random": Uniform{}} {
		r, err := logged.Open(filepath.Join(dir, logger, "men/men.csv"), logged.Options{Logger: law})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, err := Evaluate(t.Context(), r, Options{Targets: []Target{b}, Q: "mean"})
		if logger == "bts" {
			if err == nil || !strings.Contains(err.Error(), "of 10000 propensities contradict it") {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Targets[0].Uplift.Sequence; s[1]-s[0] > .019 {
			t.Errorf("random → bts is %.4f wide", s[1]-s[0])
		}
	}
}

// TestSoftmax: the law is the formula, and a log without the column is refused.
func TestSoftmax(t *testing.T) {
	s, err := NewSoftmax("soft", -2, .1)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float64, 3)
	if err := s.Law(dst, &logged.Event{K: 3, Q: []float64{0, .5, 1}}, nil); err != nil {
		t.Fatal(err)
	}
	// exp(0), exp(−1), exp(−2) over their sum 1.5032147244080551, by hand
	for i, want := range []float64{.9*.66524095577482178 + .1/3, .9*.24472847105479764 + .1/3, .9*.09003057317038046 + .1/3} {
		if d := dst[i] - want; d > 1e-15 || d < -1e-15 {
			t.Errorf("%d: %v, want %v", i, dst[i], want)
		}
	}
	if err := s.Law(dst, &logged.Event{K: 3}, nil); err == nil || !strings.Contains(err.Error(), "q: missing") {
		t.Error(err)
	}
	for _, bad := range [][2]float64{{1, 2}, {1, -.1}} {
		if _, err := NewSoftmax("", bad[0], bad[1]); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}
