package sim

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// heard is a policy that writes down the rounds whose rewards it learns.
type heard struct{ rounds []string }

func (h *heard) Select(*bandit.Action, bandit.ActionSet, rng.Source) error { return nil }
func (h *heard) Update(a bandit.Action, y float64, draw rng.Source) error {
	h.rounds = append(h.rounds, fmt.Sprintf("%d:%v:%v", draw.At(), a.X[0], y))
	return nil
}

// TestLate: rewards arrive when their law says, in the order of their rounds, with the action, the reward
// and the random numbers of their own round.
func TestLate(t *testing.T) {
	key := rng.NewKey(4)
	for _, c := range []struct {
		f    Feedback
		want string // rounds learned after each of 7 updates
	}{
		{Feedback{Batch: 3}, "|||1 2 3|||4 5 6|"},
		{Feedback{Delay: Delay{&fixedDelay{2}}}, "|||1|2|3|4|5"},
		{Feedback{Delay: Delay{&fixedDelay{2}}, Batch: 3}, "|||1|||2 3 4|"},
		{Feedback{Batch: 1}, "|1|2|3|4|5|6|7"},
	} {
		h := &heard{}
		p := newLate(h, &c.f, key)
		x := []float64{0}
		got, before := "|", 0
		for round := 1; round <= 7; round++ {
			x[0] = float64(10 * round) // the caller uses its slice again
			if err := p.Update(bandit.Action{X: x}, float64(round), key.Stream(rng.Perturb).Round(uint64(round))); err != nil {
				t.Fatal(err)
			}
			var now []string
			for _, r := range h.rounds[before:] {
				at, rest, _ := strings.Cut(r, ":")
				if rest != at+"0:"+at {
					t.Errorf("%+v: round %s is learned with %s", c.f, at, rest)
				}
				now = append(now, at)
			}
			before = len(h.rounds)
			got += strings.Join(now, " ")
			if round < 7 {
				got += "|"
			}
		}
		if got != c.want {
			t.Errorf("%+v: %s, want %s", c.f, got, c.want)
		}
	}
}

// TestLateForEver: a run in which little or nothing can be learned says so.
func TestLateForEver(t *testing.T) {
	for _, c := range []struct {
		feedback string
		want     string
	}{
		{"{ batch = 301 }", "no policy learns anything: the first batch of 301 rewards ends after the horizon of 300 rounds"},
		{"{ batch = 300 }", ""},
		{"{ delay = { kind = 'fixed', rounds = 300 } }", "rewards are late by 300 rounds, and the horizon is 300"},
		{"{ delay = { kind = 'geometric', mean = 400 }, batch = 7 }", "rewards are late by 400 rounds in the mean, and the horizon is 300"},
		{"{ delay = { kind = 'geometric', mean = 100 } }", ""},
	} {
		x := parseReal(t, strings.ReplaceAll(sideBySide, "[[environment]]", "[[environment]]\nfeedback = "+c.feedback))
		x.Replications = 1
		if x.Horizon != 300 {
			t.Fatal("another horizon")
		}
		said := strings.Join(run(t, x, Options{}).Manifest.Notes, "\n")
		if got := strings.Contains(said, "learn"); got != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: notes %q, want %q", c.feedback, said, c.want)
		}
	}
}

// TestGeometricDelay: mean and the probability of 0 against the law. Null: D geometric with the given
// mean; the standard errors are those of n = 200 000 draws, the bounds five of them (level about 1e-6).
func TestGeometricDelay(t *testing.T) {
	const n = 200_000
	stream := rng.NewKey(9).Stream(rng.Reward)
	for _, m := range []float64{0.5, 4, 100} {
		g := &geometricDelay{m}
		sum, zero := 0.0, 0
		for i := range n {
			d := g.draw(1 - stream.Round(uint64(i)).Float64(0))
			sum += float64(d)
			if d == 0 {
				zero++
			}
		}
		p := 1 / (1 + m)
		if se := math.Sqrt((1-p)/p/p) / math.Sqrt(n); math.Abs(sum/n-m) > 5*se {
			t.Errorf("mean %v, want %v ± %v", sum/n, m, se)
		}
		if se := math.Sqrt(p * (1 - p) / n); math.Abs(float64(zero)/n-p) > 5*se {
			t.Errorf("P(D = 0) is %v, want %v ± %v", float64(zero)/n, p, se)
		}
	}
}

// TestFeedback: batches of one round change nothing; with a delay the results are those of any engine
// and any number of workers, regret grows, and the feedback is part of what cells are kept by.
func TestFeedback(t *testing.T) {
	text := strings.Replace(sideBySide, "horizon = 300", "horizon = 400", 1)
	plain := run(t, parseReal(t, text), Options{})
	one := run(t, parseReal(t, strings.ReplaceAll(text, "[[environment]]", "[[environment]]\nfeedback = { batch = 1 }")), Options{})
	if !bytes.Equal(plain.Results, one.Results) {
		t.Error("batches of one round change the results")
	}
	late := strings.ReplaceAll(text, "[[environment]]", "[[environment]]\nfeedback = { delay = { kind = 'geometric', mean = 50 } }")
	x := parseReal(t, late)
	var first *Outcome
	for _, engine := range []string{"eager", "lazy", "blocked"} {
		y := parseReal(t, strings.Replace(late, "m = [3, 10]", "m = [3, 10]\nengine = '"+engine+"'", 1))
		out := run(t, y, Options{Workers: 1 + len(engine)%3})
		if first == nil {
			first = out
		} else if !bytes.Equal(out.Results, first.Results) {
			t.Errorf("engine %s gives other results with a delay", engine)
		}
	}
	for e := range x.Environments {
		for p := range x.Policies {
			was, is := 0.0, 0.0
			for _, v := range plain.Final(e, p) {
				was += v
			}
			for _, v := range first.Final(e, p) {
				is += v
			}
			if is <= was {
				t.Errorf("%s, %s: regret %v with a delay, %v without", x.Environments[e].Name, x.Policies[p].Name, is, was)
			}
		}
	}
	a, b := make([]string, x.Replications), make([]string, x.Replications)
	if cellKeys(x, a, 0, 0, "p", "") != nil || cellKeys(parseReal(t, text), b, 0, 0, "p", "") != nil || a[0] == b[0] || x.Identity() == parseReal(t, text).Identity() {
		t.Error("cells with and without a delay have one key, or the experiments one identity")
	}
	for _, c := range []struct{ feedback, want string }{
		{"{ batch = 0 }", "feedback.batch is 0"}, {"{ batch = -3 }", "feedback.batch is -3, expected at least 1"}, {"{}", "feedback is empty"}, {"3", "feedback is 3, expected a table"},
		{"{ delay = { kind = 'geometric' } }", "mean is 0, expected a positive number"}, {"{ delay = { kind = 'geometrc', mean = 3 } }", "did you mean \"geometric\"?"},
		{"{ delay = { kind = 'fixed', rounds = 0 } }", "rounds is 0"}, {"{ dealy = 3 }", "did you mean \"delay\"?"},
	} {
		_, err := Parse("x.toml", strings.Replace(text, "[[environment]]", "[[environment]]\nfeedback = "+c.feedback, 1), Kinds())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x.toml:5:") {
			t.Errorf("%s: error %v, want %q", c.feedback, err, c.want)
		}
	}
}
