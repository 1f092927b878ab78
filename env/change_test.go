package env_test

import (
	"slices"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/rng"
)

// TestChanges: with every, θ* stays for so many rounds and then is another one, and round t has the same θ* whichever
// round was asked for before; from and later replace it once.
func TestChanges(t *testing.T) {
	key := rng.NewKey(5)
	options := func(set func(*env.LinearOptions)) *env.LinearOptions {
		o := env.NewLinear()
		o.D = 3
		set(o)
		return o
	}
	theta := func(o *env.LinearOptions, rounds ...uint64) (out [][]float64) {
		t.Helper()
		e, err := o.Build(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range rounds {
			if _, err := e.Offer(key.Stream(rng.Offer).Round(n)); err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(e.(env.Truth).Theta()))
		}
		return out
	}
	every := options(func(o *env.LinearOptions) { o.Every = 10 })
	a := theta(every, 1, 10, 11, 20, 21)
	if !slices.Equal(a[0], a[1]) || slices.Equal(a[1], a[2]) || !slices.Equal(a[2], a[3]) || slices.Equal(a[3], a[4]) {
		t.Errorf("θ* in rounds 1, 10, 11, 20, 21: %v", a)
	}
	if still := theta(options(func(*env.LinearOptions) {}), 1); !slices.Equal(a[0], still[0]) {
		t.Errorf("the first θ* is %v, without a change %v", a[0], still[0])
	}
	if b := theta(every, 21, 1, 20); !slices.Equal(b[0], a[4]) || !slices.Equal(b[1], a[0]) || !slices.Equal(b[2], a[3]) {
		t.Errorf("rounds 21, 1, 20 have %v", b)
	}
	once := options(func(o *env.LinearOptions) {
		o.Theta, o.Value, o.From, o.Later = "given", []float64{1, 0, 0}, 5, []float64{0, 0.5, 0}
		o.Set = actionset.Spec{Kind: "basis", Builder: &actionset.BasisOptions{}}
	})
	if c := theta(once, 4, 5, 100); c[0][0] != 1 || c[1][1] != 0.5 || !slices.Equal(c[1], c[2]) {
		t.Errorf("rounds 4, 5, 100 have %v", c)
	}
	for want, o := range map[string]*env.LinearOptions{
		"is -1, expected a number of rounds": options(func(o *env.LinearOptions) { o.Every = -1 }),
		"is 5, but drift is 0.1":             options(func(o *env.LinearOptions) { o.Every, o.Drift = 5, .1 }),
		"is 1, expected a round after":       options(func(o *env.LinearOptions) { o.From = 1 }),
		"is 7, with 0 numbers in later":      options(func(o *env.LinearOptions) { o.From = 7 }),
		"expected 3 finite numbers": options(func(o *env.LinearOptions) {
			o.Theta, o.Value, o.From, o.Later = "given", []float64{1, 0, 0}, 5, []float64{1}
		}),
	} {
		if _, err := o.Build(key, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	clicks := env.NewClicks()
	clicks.Every = 10
	e, err := clicks.Build(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	set, _ := e.Offer(key.Stream(rng.Offer).Round(10))
	before, _ := e.Regret(first(set))
	set, _ = e.Offer(key.Stream(rng.Offer).Round(11))
	if after, _ := e.Regret(first(set)); before == after {
		t.Errorf("arm 0 has the regret %v before and after the change", before)
	}
}

// first returns arm 0 of a set.
func first(set bandit.ActionSet) bandit.Action {
	return bandit.Action{X: set.(bandit.Finite).At(0), Index: 0}
}
